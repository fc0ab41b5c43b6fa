"""A corpus that a tiny model can learn, in which each word nearly says which one follows."""

import random
import string

import pytest
import torch

from bertie.corpus.build import CorpusConfig, build_corpus
from bertie.text.wordpiece import Tokenizer

WORDS = [f"{first}{second}" for first in "bdfgklmn" for second in ("a", "e", "i", "o", "u", "an", "en")]
PIECES = ["##s", "##ly"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def sentence(rng, first, length):
    """Words in the order of the list, each next one a step of 1 or 2 on; some with an ending."""
    words = [first]
    while len(words) < length:
        words.append((words[-1] + rng.choice((1, 1, 1, 2))) % len(WORDS))
    spelled = [WORDS[word] + (rng.choice(("s", "ly")) if rng.random() < 0.1 else "") for word in words]
    return " ".join(spelled).capitalize() + ".", words[-1]


def make_text(num_documents, seed=0):
    rng, documents = random.Random(seed), []
    for _ in range(num_documents):
        word, sentences = rng.randrange(len(WORDS)), []
        for _ in range(rng.randint(2, 9)):
            spelled, word = sentence(rng, (word + 1) % len(WORDS), rng.randint(3, 9))
            sentences.append(spelled)
        documents.append(" ".join(sentences))
    return "\n\n".join(documents) + "\n"


def build(folder, num_documents, seed=0, with_pieces=True):
    """A corpus folder; its vocabulary has endings as pieces, or has them not."""
    folder.mkdir()
    (folder / "text.txt").write_text(make_text(num_documents, seed), encoding="utf-8")
    vocabulary = [*SPECIAL, *WORDS, *(PIECES if with_pieces else ()), *string.ascii_lowercase, "."]
    Tokenizer.build(vocabulary, cased=False).save(folder / "vocabulary")
    config = CorpusConfig(validation=0.1)
    build_corpus(config, [folder / "text.txt"], folder / "vocabulary", folder / "corpus", lambda done, total: None)
    return folder / "corpus"


@pytest.fixture(scope="session")
def make_corpus():
    return build


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    """300 documents, a tenth of them held back."""
    return build(tmp_path_factory.mktemp("small") / "made", 300)


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in one order whatever the machine, and no threads fighting over small tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
