"""Vectors: what is read, what is learned, how it is scored, and the saved folder against sentence-transformers."""

import json

import numpy as np
import pytest

import bertie
from bertie.cli import run
from bertie.tasks.embed import Embed, ranks_of_own
from bertie.tasks.estimators import SentenceEncoder
from bertie.tasks.files import Columns, Layout, read_related
from bertie.tasks.recipe import change, make_recipe
from bertie.tasks.run import Order, finetune
from bertie.tasks.task import Example, Output, Prediction
from bertie.tasks.trained import Trained

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = ("lr=3e-3", "epochs=25", "batch=8", "max_length=16", "device=cpu", "dropout=0.0")
ANIMALS = ("cat", "dog", "mat", "paris", "steve", "smith", "who", "where")


def pair_rows(count=24):
    """The same animal twice."""
    animals = [ANIMALS[number % len(ANIMALS)] for number in range(count)]
    return [
        {"anchor": f"the {one} sat {number % 3}", "positive": f"{one} playing"} for number, one in enumerate(animals)
    ]


def score_rows():
    """5 for two animals of a group, 1 for others; what the texts look like says nothing of it."""
    return [
        {
            "sentence1": f"the {ANIMALS[one]} sat",
            "sentence2": f"{ANIMALS[two]} on",
            "score": 5.0 if one % 2 == two % 2 else 1.0,
        }
        for one in range(4)
        for two in range(4)
        if one != two
    ]


def triplet_rows(count=24):
    """The next animal belongs, the third from it does not."""
    rows = pair_rows(count)
    others = [[f"{ANIMALS[(at + step) % 8]} playing" for step in (1, 3)] for at in range(count)]
    return [row | {"positive": near, "negative": far} for row, (near, far) in zip(rows, others, strict=True)]


ROWS = {"pairs": pair_rows, "scores": score_rows, "triplets": triplet_rows}


@pytest.fixture
def learn(model_folder, write, tmp_path):
    """Has a model learn rows of a form; gives the run folder, the ending and the file."""

    def learn(form, *settings, out="run"):
        data = write(f"{form}.jsonl", ROWS[form]())
        recipe, task = change(make_recipe("stable", "embed"), "embed", [*QUICK, *settings])
        order = Order("embed", task, recipe, model_folder, data, tmp_path / out, dev=data)
        return order.out, finetune(order, lambda event, share: None), data

    return learn


@pytest.mark.parametrize(
    ("form", "settings", "score", "least"),
    [
        ("pairs", (), "mrr", 0.95),
        ("pairs", ("pooling=cls", "normalize=false", "parts=2"), "mrr", 0.95),
        ("scores", (), "spearman", 0.8),
        ("triplets", (), "accuracy", 0.99),
        ("triplets", ("negatives=own",), "accuracy", 0.95),
        ("triplets", ("form=pairs",), "mrr", 0.9),
        ("pairs", ("lora_rank=4", "lr=1e-2"), "mrr", 0.6),
    ],
)
def test_each_form_is_learned(learn, form, settings, score, least):
    out, ending, data = learn(form, *settings)
    assert ending.scores[score] >= least
    trained = Trained.load(out, "cpu")
    evaluation = trained.evaluate(data, Columns(), rounds=5)
    assert evaluation.scores == pytest.approx(ending.scores, abs=1e-4)
    untrained = learn(form, *settings, "lr=1e-9", "epochs=1", out="untrained")[1]
    assert untrained.scores[score] < ending.scores[score]
    lines = [json.loads(line) for line in (out / "held_out.jsonl").read_text().splitlines()]
    assert len(lines) == len(evaluation.examples)
    assert set(lines[0]) == {"text", "pair", "gold", "called", "error"}


@pytest.mark.parametrize(
    "settings",
    [(), ("pooling=cls",), ("normalize=false",), ("max_length=7",), ("lora_rank=2",), ("form=pairs", "pooling=cls")],
)
def test_sentence_transformers_opens_the_folder_and_has_the_same_vectors(learn, settings):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    out, _, _ = learn("pairs", "epochs=2", *settings)
    texts = ["the cat sat", "", "who played? paris, and steve smith in the dog's mat on 5 mats", "战国无双"]
    theirs = sentence_transformers.SentenceTransformer(str(out / "model"), device="cpu")
    wanted = theirs.encode(texts)
    ours = SentenceEncoder.load(out, "cpu").predict(texts)
    assert ours.shape == (4, 32)
    np.testing.assert_allclose(ours, wanted, atol=1e-5)
    np.testing.assert_allclose(bertie.load(out / "model", "cpu").encode(texts), wanted, atol=1e-5)
    is_normal = "normalize=false" not in settings
    assert (np.abs(np.linalg.norm(ours, axis=1) - 1) < 1e-5).all() == is_normal
    assert theirs.similarity_fn_name == "cosine"


def test_the_losses_are_those_of_sentence_transformers(learn):
    """The same vectors and texts: our loss and its MultipleNegativesRankingLoss and CosineSimilarityLoss."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers.sentence_transformer import losses as theirs

    from bertie.model.losses import cosine_loss, ranking_loss

    out, _, _ = learn("triplets", "epochs=1", "normalize=false")
    peer = sentence_transformers.SentenceTransformer(str(out / "model"), device="cpu")
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(5, 3, 8, generator=generator)
    numbers = torch.arange(15).view(5, 3)
    ranking = theirs.MultipleNegativesRankingLoss(peer)
    ours, count = ranking_loss(vectors.flatten(0, 1), numbers, 20.0)
    torch.testing.assert_close(ours / count, ranking.compute_loss_from_embeddings(list(vectors.unbind(1)), None))
    ours, count = ranking_loss(vectors[:, :2].flatten(0, 1), numbers[:, :2], 20.0)
    wanted = ranking.compute_loss_from_embeddings(list(vectors[:, :2].unbind(1)), None)
    torch.testing.assert_close(ours / count, wanted)
    scores = torch.rand(5, generator=generator)
    ours, count = cosine_loss(vectors[:, :2].flatten(0, 1), scores)
    wanted = theirs.CosineSimilarityLoss(peer).compute_loss_from_embeddings(list(vectors[:, :2].unbind(1)), scores)
    torch.testing.assert_close(ours / count, wanted)


def test_a_folder_of_sentence_transformers_is_said_to_lose_its_pooling(learn, write, tmp_path, caplog):
    out, _, data = learn("pairs", "epochs=1")
    assert "left out; pooling" not in caplog.text
    caplog.set_level("INFO")
    recipe, task = change(make_recipe("stable", "embed"), "embed", [*QUICK, "epochs=1", "pooling=cls"])
    finetune(Order("embed", task, recipe, out / "model", data, tmp_path / "again", dev=data), lambda *_: None)
    assert "its own pooling and what follows it are left out; pooling is cls." in caplog.text


def test_ranks_by_hand():
    east, north, west = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]
    near_east = [0.8, 0.6]
    pairs = [("a", "b"), ("c", "d"), ("a", "e"), ("f", "a")]
    vectors = np.array([[east, near_east], [east, north], [east, west], [near_east, east]], np.float32)
    # a -> b: e is right too and a is itself, d is farther. c -> d: a (1.0) and b (0.8) are nearer. a -> e: d is nearer.
    # f -> a (0.8): b stands where f does.
    assert ranks_of_own(vectors, pairs).tolist() == [1, 3, 2, 2]
    # A model that gives all texts one vector has found nothing.
    same = np.ones((4, 2, 2), np.float32)
    assert ranks_of_own(same, [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")]).tolist() == [4, 4, 4, 4]


def test_scores_by_hand(tokenizer):
    examples = [Example(text="a", pair="b", number=0.0), Example(text="c", pair="d", number=4.0)]
    task = Embed().learn(examples)
    assert (task.form, task.lowest, task.highest, task.main_score) == ("scores", 0.0, 4.0, "spearman")
    rows = task.encode(examples, tokenizer)
    assert [row.targets.tolist() for row in rows] == [[0.0], [1.0]]
    pooled = [np.array(one, np.float32) for one in ([[3.0, 4.0], [6.0, 8.0]], [[1.0, 0.0], [0.0, 2.0]])]
    outputs = [Output(row, vectors) for row, vectors in zip(rows, pooled, strict=True)]
    predictions = task.decode(outputs, examples, tokenizer)
    assert [one.number for one in predictions] == pytest.approx([4.0, 0.0])
    assert predictions[0].vectors == pytest.approx(np.array([[0.6, 0.8], [0.6, 0.8]]))
    assert task.score(predictions, examples) == pytest.approx({"spearman": -1.0, "pearson": -1.0})
    described = task.describe(predictions[0], examples[0])
    assert described == {"id": "", "score": pytest.approx(4.0), "similarity": pytest.approx(1.0)}


def test_triplets_by_hand(tokenizer):
    examples = [Example(text="a", pair="b", negative="c"), Example(text="b", pair="a", negative="b")]
    task = Embed().learn(examples)
    assert [row.targets.tolist() for row in task.encode(examples, tokenizer)] == [[0, 1, 2], [1, 0, 1]]
    vectors = np.array([[[1, 0], [1, 1], [0, 1]], [[1, 0], [1, 1], [1, 1]]], np.float32)
    predictions = [Prediction(vectors=one) for one in vectors]
    assert task.score(predictions, examples) == {"accuracy": 0.5}  # as near as the right one is not right
    assert task.describe(predictions[0], examples[0]) == {
        "id": "",
        "similarity": pytest.approx(0.5**0.5),
        "negative_similarity": 0,
    }


def test_what_files_hold(write):
    def read(name, contents):
        return read_related(write(name, contents), Columns(), Layout())

    (pair,) = read("a.tsv", "anchor\tpositive\na\tb\n")
    assert (pair.text, pair.pair, pair.negative, pair.label) == ("a", "b", None, None)
    (triplet,) = read("b.csv", "query,positive,negative\na,b,c\n")
    assert (triplet.text, triplet.pair, triplet.negative) == ("a", "b", "c")
    (scored,) = read("c.jsonl", [{"sentence1": "a", "sentence2": "b", "score": 2.5}])
    assert (scored.text, scored.pair, scored.label) == ("a", "b", "2.5")
    (text,) = read("d.txt", "a line\n")
    assert (text.text, text.pair) == ("a line", None)


def test_from_the_command_line(learn, write, tmp_path, capsys):
    out, _, data = learn("triplets", "epochs=2")
    assert run(["evaluate", str(out), str(data), "--json", "--device", "cpu"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["task"], found["examples"]) == ("embed", 24)
    assert 0 <= found["scores"]["accuracy"] <= 1
    texts = write("texts.txt", "the cat sat\ndog\n")
    assert run(["predict", str(out), str(texts), "--out", str(tmp_path / "vectors.jsonl"), "--device", "cpu"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "vectors.jsonl").read_text().splitlines()]
    encoder = SentenceEncoder.load(out, "cpu")
    np.testing.assert_allclose([line["vector"] for line in lines], encoder.predict(["the cat sat", "dog"]), atol=1e-6)
    assert run(["predict", str(out), str(data), "--out", str(tmp_path / "pairs.jsonl"), "--device", "cpu"]) == 0
    line = json.loads((tmp_path / "pairs.jsonl").read_text().splitlines()[0])
    vectors = encoder.predict([triplet_rows()[0][name] for name in ("anchor", "positive", "negative")])
    assert line["similarity"] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    assert line["negative_similarity"] == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-5)


def test_an_encoder_in_python(model_folder, tmp_path):
    settings = {"epochs": 25, "lr": 3e-3, "batch": 8, "max_length": 16, "device": "cpu", "settings": ("dropout=0.0",)}
    encoder = SentenceEncoder(model_folder, **settings)
    pairs = [tuple(row.values()) for row in pair_rows()]
    assert encoder.fit(pairs).score(pairs) > 0.95
    assert encoder.predict([]).shape == (0, 32)
    triplets = [tuple(row.values()) for row in triplet_rows()]
    assert encoder.score(pairs) == encoder.score(np.array(pairs, object))
    assert encoder.fit(triplets).score(triplets) > 0.95
    scored = [(row["sentence1"], row["sentence2"]) for row in score_rows()]
    scores = [row["score"] for row in score_rows()]
    assert encoder.fit(scored, scores).score(scored, scores) > 0.8
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(tmp_path / "saved", "cpu")
    assert np.array_equal(again.predict(["the cat"]), encoder.predict(["the cat"]))


def test_before_another_estimator_of_scikit_learn(model_folder):
    pytest.importorskip("sklearn")
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    encoder = SentenceEncoder(model_folder, epochs=1, max_length=16, device="cpu")
    encoder.fit([tuple(row.values()) for row in pair_rows(8)])
    texts, labels = ["the cat sat", "the dog sat", "who on cat", "dog on mat"] * 3, [1, 0, 1, 0] * 3
    pipeline = make_pipeline(FrozenEstimator(encoder), LogisticRegression(C=1000))
    assert pipeline.fit(texts, labels).score(texts, labels) == 1


def test_what_is_refused(learn, write, model_folder, tmp_path):
    for name, contents, settings, message in (
        ("a.txt", "a line\nanother\n", (), r"a.txt, line 1 has one text: give a second one"),
        (
            "b.jsonl",
            [{"anchor": "a", "positive": "b", "score": 1}, {"anchor": "c", "positive": "d"}],
            (),
            r"b.jsonl, line 2 is a pair without a score, .*line 1 a pair with a score: give rows of one form",
        ),
        (
            "c.csv",
            "anchor,positive\na,b\n",
            ("form=triplets",),
            r"line 2 has no third text: name its column",
        ),
        ("d.csv", "anchor,positive\na,b\n", ("form=scores",), r"line 2 has no label"),
        ("e.csv", "anchor,positive,score\na,b,high\nc,d,1\n", (), r"line 2: 'high' is not a number"),
        ("f.csv", "anchor,positive,score\na,b,1\nc,d,1\n", (), "all 4 pairs have the score 1: there is nothing"),
        ("g.csv", "anchor,positive\na,b\n", ("scale=0",), "scale is 0"),
        ("h.csv", "anchor,positive\na,b\n", ("negatives=own",), "negatives=own is for triplets: pairs have no"),
        ("i.csv", "anchor,positive\na,b\n", ("train_layers=0",), "embed has no head that could learn alone"),
    ):
        data = write(name, contents)
        with pytest.raises(ValueError, match=message):
            recipe, task = change(make_recipe("stable", "embed"), "embed", [*QUICK, *settings])
            finetune(Order("embed", task, recipe, model_folder, data, tmp_path / "no", dev=data), lambda *_: None)
    encoder = SentenceEncoder(model_folder)
    for call, message in (
        (lambda: encoder.fit(["a", "b"]), r"X\[0\] is 'a'; give a pair of texts or a triplet of texts"),
        (lambda: encoder.fit([("a", "b"), ("a", "b", "c")]), r"X\[1\] has 3 texts, X\[0\] 2: give pairs or triplets"),
        (lambda: encoder.fit([("a", "b", "c")], [1]), r"X\[0\] is .*; give a pair of texts"),
        (lambda: encoder.fit([("a", "b")], [1, 2]), "X has 1 examples, y 2 labels"),
        (lambda: encoder.predict(["a"]), "has learned nothing yet"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    learn("pairs", "epochs=1")
    with pytest.raises(ValueError, match=r"X\[1\] is \('a', 'b'\); give a text"):
        SentenceEncoder.load(tmp_path / "run", "cpu").predict(["a", ("a", "b")])
