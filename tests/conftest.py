"""What the documentation's examples find in their folder, made once: a tiny model `my-bert`, `my-text`,
`my-chinese-text`."""

import os
import shutil
import string
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import pytest

if not shutil.which("nvidia-smi"):
    os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; read when triton is imported, so before all else
TOPICS = sorted(topics, key=lambda name: len(topics[name]))[-8:]


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "my-text").mkdir()
    for topic in TOPICS:
        (folder / "my-text" / f"{topic}.txt").write_text(topics[topic], encoding="utf-8")
    (folder / "my-chinese-text").mkdir()
    shutil.copy(Path(__file__).parent / "text" / "sentences.zh.txt", folder / "my-chinese-text" / "passages.txt")
    make_model(folder / "my-bert")
    return folder


@pytest.fixture(scope="session")
def carried_models(example_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of carried models as the package has it, with `my-bert` in the place of the one it carries."""
    from bertie import carried
    from bertie.cli import run

    models = tmp_path_factory.mktemp("carried")
    folder = models / carried.DEFAULT
    assert run(["convert", str(example_folder / "my-bert"), str(folder), "--to", "int8", "--quiet"]) == 0
    head = "---\nlanguage: en\nlicense: apache-2.0\n---\n# The stand-in\n"
    (folder / "card.md").write_text(f"{head}\nIt knows nothing,\nbut is there.\n\nMore of it.\n", encoding="utf-8")
    return models


@pytest.fixture
def carries(carried_models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package carries a model, in this test and this process; its folder."""
    from bertie import carried

    monkeypatch.setattr(carried, "MODELS", carried_models)
    return carried_models / carried.DEFAULT


def make_model(folder: Path) -> None:
    """A BERT that knows nothing, with a vocabulary of characters and the most frequent words of the text."""
    import torch

    from bertie.model.config import ModelConfig
    from bertie.model.folder import build, save
    from bertie.text.wordpiece import Tokenizer

    words = Counter(word for topic in TOPICS for word in topics[topic].lower().split() if word.isalpha())
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [*string.ascii_lowercase, *string.digits, *string.punctuation, "漢", "字", "ß"]
    pieces = [*characters, *(f"##{one}" for one in characters), *(word for word, _ in words.most_common(800))]
    vocabulary = list(dict.fromkeys([*specials, *pieces]))
    scratch = folder.with_name("vocabulary")
    scratch.mkdir()
    (scratch / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    config = ModelConfig(vocabulary_size=len(vocabulary), num_layers=2, width=32, num_heads=2, inner_width=64)
    model = build(config, {"masked": 0, "pair": 0}, torch.Generator().manual_seed(0))
    save(folder, model, Tokenizer.load(scratch, cased=False).files())
