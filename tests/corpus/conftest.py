import string

import pytest

from bertie.corpus.build import CorpusConfig, build_corpus
from bertie.text.wordpiece import Tokenizer

TALE = """
    the a cat dog bird ran sat flew over under it was and then not why how one two three small old house town river by
    in of to had seen nothing morning evening"""
ENGLISH = TALE.split()
CHINESE = "我们在北京大学学习语言他看了一本书天气很好今天明天中国人的是不了"


@pytest.fixture(scope="session")
def vocabulary(tmp_path_factory):
    """A folder with a vocabulary of letters, some English words and Chinese characters."""
    folder = tmp_path_factory.mktemp("vocabulary")
    letters = [*string.ascii_lowercase, *string.digits]
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{one}" for one in letters)]
    Tokenizer.build(list(dict.fromkeys([*entries, *string.punctuation, "。", "，", *ENGLISH, *CHINESE])), False).save(
        folder
    )
    return folder


@pytest.fixture(scope="session")
def tokenizer(vocabulary):
    return Tokenizer.load(vocabulary)


@pytest.fixture(scope="session")
def make_documents():
    """So many different documents, English or Chinese, of one to five sentences."""

    def document(rng, language):
        sentences = []
        for _ in range(rng.integers(1, 6)):
            words = rng.choice(ENGLISH if language == "en" else list(CHINESE), rng.integers(3, 12))
            sentences.append(f"{' '.join(words).capitalize()}. " if language == "en" else f"{''.join(words)}。")
        return "".join(sentences).strip()

    def make(rng, number, language="en"):
        return [f"{document(rng, language)} {at}" for at in range(number)]

    return make


@pytest.fixture
def build(vocabulary, tmp_path):
    """Writes the documents to a file, blank lines between, and builds a corpus: its folder and its card."""

    def build(documents, name="corpus", **config):
        text = tmp_path / f"{name}.txt"
        text.write_text("\n\n".join(documents), encoding="utf-8")
        card = build_corpus(CorpusConfig(**config), [text], vocabulary, tmp_path / name, lambda done, total: None)
        return tmp_path / name, card

    return build


@pytest.fixture(scope="session")
def documents_of():
    """A part's documents, each a list of sentences, each a list of ids."""

    def documents_of(shards):
        found = []
        for shard in shards:
            sentences = [
                shard.tokens[start:end].tolist()
                for start, end in zip(shard.sentences[:-1], shard.sentences[1:], strict=True)
            ]
            found += [
                sentences[start:end] for start, end in zip(shard.documents[:-1], shard.documents[1:], strict=True)
            ]
        return found

    return documents_of
