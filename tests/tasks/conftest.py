"""Small examples, files and a tokenizer for them."""

import json
import string

import pytest

from bertie.text.wordpiece import Tokenizer

WORDS = ["the", "cat", "dog", "sat", "on", "mat", "who", "where", "steve", "smith", "##s", "play", "##ing", "paris"]


@pytest.fixture(scope="session")
def tokenizer():
    letters = [*string.ascii_lowercase, *string.digits, *".,!?'-()", *"光荣和开发的战国无双"]
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *(f"##{one}" for one in letters)]
    return Tokenizer.build(list(dict.fromkeys(entries)), cased=False)


@pytest.fixture
def write(tmp_path):
    """Writes a file of this name, text or lines of JSON, and gives its path."""

    def write(name, contents):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(contents, list):
            contents = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in contents)
        path.write_text(contents, encoding="utf-8")
        return path

    return write


@pytest.fixture
def spelled(tokenizer):
    """The pieces of a row's first sequence, with spaces between."""

    def spell(row, sequence=0):
        return " ".join(tokenizer.vocabulary[piece] for piece in row.ids[sequence])

    return spell


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, tokenizer):
    """A BERT that knows nothing, small enough to learn a few lines in a second."""
    import torch

    from bertie.model.config import ModelConfig
    from bertie.model.folder import build, save

    config = ModelConfig(
        vocabulary_size=tokenizer.size, num_layers=2, width=32, num_heads=2, inner_width=64, max_positions=48
    )
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save(folder, build(config, {"masked": 0}, torch.Generator().manual_seed(0)), tokenizer.files())
    return folder


@pytest.fixture
def one_thread():
    """Sums in one order whatever the machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
