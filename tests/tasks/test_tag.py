import numpy as np
import pytest

from bertie.tasks.tag import Tag
from bertie.tasks.task import NONE, Example, Output, Prediction

LABELS = ("O", "B-PER", "I-PER")


def sentence(text, labels=None, document=0):
    tags = None if labels is None else tuple(labels.split())
    return Example(where="a.txt, line 1", words=tuple(text.split(" ")), labels=tags, document=document)


def told(rows, task):
    """Outputs that say each token's number among the labels: 1 for the first token of its row, and so on round."""
    return [Output(row, np.eye(len(task.labels), dtype=np.float32)[np.arange(row.num_tokens) % 3]) for row in rows]


def test_the_first_piece_speaks_for_its_word(tokenizer, spelled):
    task = Tag(labels=LABELS)
    (row,) = task.encode([sentence("Steve Smiths playing \u200b on", "B-PER I-PER O O O")], tokenizer)
    assert spelled(row) == "[CLS] steve smith ##s play ##ing [UNK] on [SEP]"
    assert row.targets.tolist() == [NONE, 1, 2, NONE, 0, NONE, 0, 0, NONE]
    assert row.places[:, 1].tolist() == [-1, 0, 1, -1, 2, -1, 3, 4, -1]
    gold = [sentence("Steve Smiths playing \u200b on", "B-PER I-PER O O O")]
    (prediction,) = task.decode(told([row], task), gold, tokenizer)
    assert prediction.labels == ("B-PER", "I-PER", "B-PER", "O", "B-PER")
    assert task.score([prediction], gold) == pytest.approx(
        {"precision": 1 / 3, "recall": 1, "f1": 0.5, "accuracy": 3 / 5}
    )
    entities = task.describe(prediction, gold[0])["entities"]
    assert entities[0] == {"type": "PER", "start": 0, "end": 2, "words": ["Steve", "Smiths"]}


def test_long_sentences_go_through_windows_and_each_word_counts_once(tokenizer, spelled):
    gold = [sentence("a b c d e f g h", "B-PER O O O O O O I-PER"), sentence("the cat", "O O")]
    task = Tag(labels=LABELS, max_length=6)
    rows = task.encode(gold, tokenizer)
    assert [spelled(row) for row in rows] == [
        "[CLS] a b c d [SEP]",
        "[CLS] c d e f [SEP]",
        "[CLS] e f g h [SEP]",
        "[CLS] the cat [SEP]",
    ]
    words = [(example, word) for row in rows for example, word in row.places.tolist() if example >= 0]
    assert sorted(words) == [*((0, word) for word in range(8)), (1, 0), (1, 1)]
    assert sum((row.targets != NONE).sum() for row in rows) == 10
    predictions = task.decode(told(rows, task), gold, tokenizer)
    assert [len(one.labels) for one in predictions] == [8, 2]


def test_document_context(tokenizer, spelled):
    gold = [sentence("the cat", "O O", 1), sentence("sat", "O", 1), sentence("who", "B-PER", 2)]
    task = Tag(labels=LABELS, context="document")
    rows = task.encode(gold, tokenizer)
    assert [spelled(row) for row in rows] == ["[CLS] the cat sat [SEP]", "[CLS] who [SEP]"]
    predictions = task.decode(told(rows, task), gold, tokenizer)
    assert [one.labels for one in predictions] == [("B-PER", "I-PER"), ("O",), ("B-PER",)]


def test_labels(tokenizer):
    gold = [sentence("a b c d", "I-PER O B-LOC B-PER")]
    assert Tag().learn(gold).labels == ("O", "B-LOC", "B-PER", "I-PER")
    assert Tag().learn(gold).main_score == "f1"
    assert Tag(labels=("NOUN", "VERB")).main_score == "accuracy"
    assert Tag(labels=LABELS).encode([sentence("a b")], tokenizer)[0].targets is None
    with pytest.raises(ValueError, match=r"a\.txt, line 1: label 'B-LOC' is not one of"):
        Tag(labels=LABELS).encode(gold, tokenizer)
    with pytest.raises(ValueError, match="all words have the label 'O'"):
        Tag().learn([sentence("a b", "O O")])
    with pytest.raises(ValueError, match="has no label"):
        Tag().learn([sentence("a b")])
    with pytest.raises(ValueError, match="2 words and 1 tags"):
        Tag(labels=LABELS).score([Prediction(labels=("O", "O"))], [sentence("a b", "O")])


def test_a_tag_that_was_not_learned_is_refused_where_it_is_scored(tokenizer):
    unseen = sentence("a b", "O B-LOC")
    with pytest.raises(ValueError, match=r"a\.txt, line 1: label 'B-LOC' is not one of this task's: O, B-PER, I-PER"):
        Tag(labels=LABELS).score([Prediction(labels=("O", "O"))], [unseen])
