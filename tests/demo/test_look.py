from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from bertie.corpus.build import CorpusConfig, build_corpus
from bertie.corpus.shards import open_corpus
from bertie.demo.look import QUERIES, fill, guess_by_count, looks, nearest
from bertie.model.encoder import pack
from bertie.pretraining.drawing import validation_batches
from bertie.pretraining.recipe import change, read_recipe
from bertie.serving.predict import Bert, load
from bertie.text.wordpiece import Tokenizer


@pytest.fixture(scope="module")
def model(example_folder: Path) -> Bert:
    return load(example_folder / "my-bert", "cpu")


def test_counting_is_the_most_frequent_piece_and_the_more_frequent_answer(example_folder: Path, tmp_path: Path) -> None:
    config = CorpusConfig(validation=0.2)
    build_corpus(config, [example_folder / "my-text"], example_folder / "my-bert", tmp_path / "c", lambda *_: None)
    corpus, tokenizer = open_corpus(tmp_path / "c"), Tokenizer.load(example_folder / "my-bert")
    recipe = change(read_recipe("demo"), ["validation_sequences=40"])
    guess = guess_by_count(corpus, tokenizer, recipe)
    counts = Counter(id_ for shard in corpus.train for id_ in shard.tokens.tolist())
    piece = counts.most_common(1)[0][0]
    asked = [drawn.batch for drawn in validation_batches(corpus.validation, tokenizer, recipe)]
    words = [label for batch in asked if batch.labels_M is not None for label in batch.labels_M.tolist()]
    pairs = [label for batch in asked if batch.pair_S is not None for label in batch.pair_S.tolist()]
    assert guess.piece == tokenizer.vocabulary[piece]
    assert guess.words == pytest.approx(words.count(piece) / len(words))
    assert guess.pairs == pytest.approx(max(Counter(pairs).values()) / len(pairs))


def test_the_shares_of_a_head_are_those_of_its_attention(model: Bert) -> None:
    text = "the value of the name"
    found = looks(model, [text])
    encoding = model.tokenizer.encode(text)
    with torch.inference_mode():
        trace = model.model.encoder.trace(pack([encoding.ids]))
    for look in found:
        weights = trace.probabilities_LSHTT[look.layer - 1][0][look.head - 1].numpy()
        last = len(weights) - 1
        words = range(1, last)
        assert look.itself == pytest.approx(np.mean([weights[at, at] for at in words]), abs=1e-6)
        assert look.before == pytest.approx(np.mean([weights[at, at - 1] if at > 1 else 0 for at in words]), abs=1e-6)
        assert look.after == pytest.approx(
            np.mean([weights[at, at + 1] if at + 1 < last else 0 for at in words]), abs=1e-6
        )
        assert look.marks == pytest.approx(np.mean([weights[at, 0] + weights[at, last] for at in words]), abs=1e-6)
        assert 0 <= look.elsewhere <= 1
    assert len(found) == 4


def test_the_nearest_of_a_sentence_is_itself(model: Bert) -> None:
    others = ["Something else is said of lists.", "A name is a word."]
    for near in nearest(model, [*QUERIES, *others]):
        assert near.nearest == near.sentence and near.cosine == pytest.approx(1, abs=1e-4)


def test_each_mask_gets_ways_to_fill_it(model: Bert) -> None:
    for sentence, ways in fill(model):
        assert "[MASK]" in sentence and ways.count("%") == 4
