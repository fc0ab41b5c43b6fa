"""Fine-tuning from files to a model folder: every kind of task learns; a stopped run ends as if it had never been."""

import json
import logging
import re
import signal
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from bertie.model.folder import load, read_labels
from bertie.tasks.best import Best
from bertie.tasks.files import Columns
from bertie.tasks.recipe import ModeConfig, change, make_recipe, usual_lr
from bertie.tasks.run import Order, finetune
from bertie.tasks.sweep import finetune_seeds
from bertie.tasks.trained import Trained
from bertie.training.run_folder import read_card
from bertie.training.runlog import read_log

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = ("max_length=24", "lr=3e-3", "epochs=15", "batch=8", "device=cpu", "dropout=0.0")


@pytest.fixture
def order(model_folder, tmp_path):
    """Makes an order for a task, with the settings of a run of seconds."""

    def make(task, data, *settings, out="run", **others):
        recipe, kind = change(make_recipe("stable", task), task, [*SETTINGS, *settings])
        return Order(task, kind, recipe, model_folder, data, tmp_path / out, **others)

    return make


def quiet(event, share):
    assert 0 <= share <= 1


ANIMALS = ("cat", "dog", "mat", "paris")


def class_rows(count=40):
    """Whether a text has a cat in it."""
    places = [("sat on the" if number % 3 else "who") for number in range(count)]
    animals = [ANIMALS[number % 2 * (1 + number % 3)] for number in range(count)]
    pairs = zip(animals, places, strict=True)
    return "text,label\n" + "".join(f"{one} {place} on,{'yes' if one == 'cat' else 'no'}\n" for one, place in pairs)


def label_rows(count=40):
    """Which of two words a text has, none of them too."""
    rows = [[word for bit, word in enumerate(ANIMALS[:2]) if number >> bit & 1] for number in range(count)]
    return "text,labels\n" + "".join(f"on {' the '.join(row)},{'|'.join(row)}\n" for row in rows)


def number_rows(count=40):
    return "text,label\n" + "".join(f"{'cat ' * (number % 4)}sat,{number % 4 * 10}\n" for number in range(count))


def tag_lines(count=40):
    sentences = []
    for number in range(count):
        animal = ANIMALS[number % 2]
        second = ("playing", "smiths")[number % 2]
        sentences.append(f"the O\n{animal} B-{animal.upper()}\n{second} I-{animal.upper()}\nsat O\n")
    return "\n".join(sentences)


def answer_rows(count=40):
    """The animal, or nothing where there is none."""
    rows = []
    for number in range(count):
        animal = ANIMALS[number % 3] if number % 3 < 2 else None
        context = f"{'on the mat ' * (number % 2)}{animal or 'who'} sat"
        answers = {"text": [animal] if animal else [], "answer_start": [context.index(animal)] if animal else []}
        rows.append({"id": str(number), "question": "who sat", "context": context, "answers": answers})
    return rows


def choice_rows(count=40):
    rows = []
    for number in range(count):
        endings = ["sat", "playing", "cat"]
        right = number % 3
        endings[right], endings[2] = endings[2], endings[right]
        rows.append({"question": "who", "choices": endings, "label": right})
    return rows


@pytest.mark.parametrize(
    ("task", "name", "contents", "score", "settings"),
    [
        ("classify", "a.csv", class_rows(), "accuracy", ()),
        ("classify", "a.csv", class_rows(), "accuracy", ("weights=balanced", "parts=2")),
        ("classify", "a.csv", class_rows(), "micro_f1", ("several=true",)),
        (
            "classify",
            "a.csv",
            label_rows(),
            "micro_f1",
            ("several=true", "weights=balanced", "epochs=40", "dropout=0.0"),
        ),
        ("regress", "a.csv", number_rows(), "pearson", ()),
        ("tag", "a.txt", tag_lines(), "f1", ()),
        ("tag", "a.txt", tag_lines(), "f1", ("context=document", "epochs=60")),
        ("answer", "a.jsonl", answer_rows(), "best_f1", ("epochs=20",)),
        ("choose", "a.jsonl", choice_rows(), "accuracy", ()),
    ],
)
def test_every_task_learns(order, write, task, name, contents, score, settings):
    data = write(name, contents)
    events = []
    done = order(task, data, *settings, dev=data)
    ending = finetune(done, lambda event, share: events.append(event))
    assert ending.outcome == "finished"
    assert ending.scores[score] > 0.95
    trained = Trained.load(done.out, "cpu")
    evaluation = trained.evaluate(data, Columns(), rounds=20)
    assert evaluation.scores[score] == pytest.approx(ending.scores[score], abs=1e-4)
    low, high = evaluation.intervals[score]
    assert low <= evaluation.scores[score] <= high
    logged = [event for event in events if event["event"] == "evaluate"]
    assert max(event[f"validation_{score}"] for event in logged) == ending.scores[score]
    assert logged[-1]["validation_loss"] < logged[0]["validation_loss"]
    card = read_card(done.out)
    assert card["scores"] == ending.scores
    assert card["task"] == task
    assert card["labels"] == list(trained.task.labels) and card["problem_type"] == trained.task.problem_type
    assert card["floor"] is None or card["floor"] < ending.scores[score]
    lines = [json.loads(line) for line in (done.out / "held_out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == card["examples"]["dev"]


def test_an_empty_text_is_refused_where_it_is_ones_own(order, write, caplog):
    data = write("a.csv", "text,label\nthe cat,1\n,0\na dog,0\n \t,1\n")
    with pytest.raises(ValueError, match=r"^2 of 44 examples .* text: .*line 3, .*line 5\. Give them words, or"):
        finetune(order("classify", data, dev=write("dev.csv", class_rows())), quiet)
    rows = [{"question": " ", "context": "the cat sat", "answers": ["cat"]}] * 2
    with pytest.raises(ValueError, match=r"2 of 42 examples have an empty text"):
        finetune(order("answer", write("b.jsonl", rows), dev=write("c.jsonl", answer_rows())), quiet)
    assert finetune(order("sst-2", data, "epochs=1", dev=data), quiet).outcome == "finished"
    assert "4 of 8 examples have an empty text" in caplog.text


def test_the_threshold_for_no_answer_goes_with_the_model(order, write):
    data = write("a.jsonl", answer_rows())
    ending = finetune(order("answer", data, dev=data), quiet)
    task = Trained.load(order("answer", data).out, "cpu").task
    assert task.null_threshold == ending.scores["best_f1_threshold"]


def test_bf16_learns_too(order, write):
    data = write("a.csv", class_rows())
    assert finetune(order("classify", data, "precision=bf16", dev=data), quiet).scores["accuracy"] > 0.95


def test_a_folder_that_transformers_opens(order, write):
    transformers = pytest.importorskip("transformers")
    data = write("a.csv", class_rows())
    done = order("classify", data, "epochs=1")
    finetune(done, quiet)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(done.out / "model").eval()
    assert theirs.config.id2label == {0: "no", 1: "yes"}
    tokenizer = transformers.AutoTokenizer.from_pretrained(done.out / "model")
    with torch.inference_mode():
        logits = theirs(**tokenizer("the cat sat", return_tensors="pt")).logits[0].softmax(-1)
    trained = Trained.load(done.out, "cpu")
    (example,) = _texts(write, "the cat sat")
    (prediction,) = trained.predict([example])
    assert list(prediction.probabilities.values()) == pytest.approx(logits.tolist(), abs=1e-5)


def _texts(write, *texts):
    from bertie.tasks.named import named

    return named("classify").read(write("texts.txt", "".join(f"{text}\n" for text in texts)), Columns())


@pytest.mark.parametrize("steps", [1, 5, 12])
def test_a_stopped_run_ends_as_if_it_had_never_been(order, write, steps):
    data = write("a.csv", class_rows())
    plain = order("classify", data, "dropout=0.1", "epochs=4")
    stopped = order("classify", data, "dropout=0.1", "epochs=4", out="stopped")
    finetune(plain, quiet)

    def stop(event, share):
        if event["event"] == "train" and event["step"] == steps:
            signal.raise_signal(signal.SIGINT)

    ending = finetune(stopped, stop)
    assert (ending.outcome, ending.signal) == ("stopped", signal.SIGINT)
    resumed = order("classify", data, "dropout=0.1", "epochs=4", out="stopped", resumes=True)
    assert finetune(resumed, quiet).outcome == "finished"
    weights = [load_file(one.out / "model" / "model.safetensors") for one in (plain, stopped)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    logs = [
        [event["loss"] for event in read_log(one.out / "log.jsonl") if event["event"] == "train"]
        for one in (plain, stopped)
    ]
    assert logs[0] == logs[1]
    assert read_card(plain.out)["scores"] == read_card(stopped.out)["scores"]
    again = finetune(resumed, quiet)
    assert (again.outcome, again.scores) == ("finished before", read_card(plain.out)["scores"])


def test_the_best_model_is_kept_not_the_last(order, write, monkeypatch):
    from bertie.tasks import run

    data = write("a.csv", class_rows())
    scores, given, kept = iter([0.1, 0.5, 0.9, 0.7]), [], []  # the first is that of one answer for all

    def score(*_):
        given.append(next(scores))
        return {"accuracy": given[-1]}

    monkeypatch.setattr("bertie.tasks.classify.Classify.score", score)
    monkeypatch.setattr(run, "save_trained", lambda folder, trained: kept.append(given[-1]))
    ending = finetune(order("classify", data, "epochs=3"), quiet)
    assert kept == [0.5, 0.9]
    assert ending.scores == {"accuracy": 0.9}


def test_patience_ends_a_run_that_gains_no_more(order, write, monkeypatch):
    data = write("a.csv", class_rows())
    monkeypatch.setattr("bertie.tasks.classify.Classify.score", lambda *_: {"accuracy": 0.5})
    done = order("classify", data, "patience=2")
    assert finetune(done, quiet).outcome == "finished"
    events = read_log(done.out / "log.jsonl")
    assert sum(event["event"] == "evaluate" for event in events) == 3
    assert events[-1]["event"] == "end"
    resumed = order("classify", data, "patience=2", resumes=True)
    assert finetune(resumed, quiet).outcome == "finished before"


def test_several_seeds(order, write):
    data = write("a.csv", class_rows())
    done = order("classify", data, "epochs=2")
    ending = finetune_seeds(done, 2, quiet)
    card = read_card(done.out)
    each = [read_card(done.out / f"seed-{seed}")["scores"]["accuracy"] for seed in (0, 1)]
    assert card["each"] == each
    assert card["mean"] == pytest.approx(sum(each) / 2)
    assert ending.scores["accuracy"] == max(each)
    best = done.out / f"seed-{card['best_seed']}" / "model"
    assert (done.out / "model" / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()
    weights = [load_file(done.out / f"seed-{seed}" / "model" / "model.safetensors") for seed in (0, 1)]
    assert not torch.equal(weights[0]["classifier.weight"], weights[1]["classifier.weight"])
    Trained.load(done.out, "cpu")


def test_a_head_is_kept_for_the_same_labels_only(order, write, caplog, tmp_path):
    data = write("a.csv", class_rows())
    first = order("classify", data, "epochs=1")
    finetune(first, quiet)
    assert "made new" in caplog.text
    caplog.clear()
    recipe, kind = change(make_recipe("stable", "classify"), "classify", [*SETTINGS, "epochs=1", "lr=1e-9"])
    same = Order("classify", kind, recipe, first.out / "model", data, tmp_path / "same")
    finetune(same, quiet)
    assert "made new" not in caplog.text
    heads = [load(one.out / "model").heads["class"].scores.weight for one in (first, same)]
    torch.testing.assert_close(heads[0], heads[1])
    others = write("b.csv", class_rows().replace("yes", "sure"))
    finetune(Order("classify", kind, recipe, first.out / "model", others, tmp_path / "others"), quiet)
    assert "has a head for other labels" in caplog.text
    assert "made new" in caplog.text
    found = load(tmp_path / "others" / "model")
    assert read_labels(tmp_path / "others" / "model", found).names == ("no", "sure")


def test_a_part_is_held_out_where_none_is_given(order, write, caplog):
    data = write("a.csv", class_rows())
    caplog.set_level(logging.INFO)
    done = order("classify", data, "epochs=1")
    finetune(done, quiet)
    assert "4 of 40 examples" in caplog.text
    assert read_card(done.out)["examples"] == {"rows": 36, "dev": 4}


def test_with_nothing_held_out_the_last_model_is_kept(order, write):
    data = write("a.csv", class_rows())
    done = order("classify", data, "held_out=0")
    assert finetune(done, quiet) == ("finished", {}, None)
    assert read_card(done.out)["examples"] == {"rows": 40, "dev": 0}
    assert Trained.load(done.out, "cpu").evaluate(data, Columns()).scores["accuracy"] > 0.95
    with pytest.raises(ValueError, match="something must be held out"):
        finetune_seeds(order("classify", data, "held_out=0", "epochs=1", out="seeds"), 2, quiet)


def test_a_collapsed_model_is_named(order, write, caplog):
    data = write("a.csv", class_rows())
    finetune(order("classify", data, "epochs=1", "lr=1e-9", dev=data), quiet)
    assert "collapsed: its best model has accuracy 0.5000, no better than one answer for all" in caplog.text
    assert "Try a higher lr (--grid lr=0.0001,0.0003,0.001), another seed (--retry) or more epochs." in caplog.text
    assert read_card(order("classify", data).out)["collapsed"] is True


def test_a_small_model_is_advised_a_higher_rate_unless_it_has_one(order, write, caplog):
    caplog.set_level("INFO")
    data = write("a.csv", class_rows())
    for rate, is_slow in (("2e-5", True), ("1e-3", False)):
        caplog.clear()
        finetune(order("classify", data, "epochs=1", f"lr={rate}", dev=data, out=rate), quiet)
        assert (f"wide, and lr={rate.replace('2e-5', '2e-05')} is a rate for large models" in caplog.text) is is_slow


def test_the_usual_rate_is_of_what_learns():
    assert usual_lr(ModeConfig(train_layers=0), 128) == 1e-3
    assert [usual_lr(ModeConfig(), width) for width in (128, 384, 385, 768)] == [1e-4, 1e-4, 2e-5, 2e-5]
    assert usual_lr(ModeConfig(lora_rank=8), 768) == 3e-4


@pytest.mark.parametrize(
    ("rate", "advice"), [("1e-3", "another lr (--grid lr=0.0001,0.0003,0.001)"), ("1e-2", "a lower lr")]
)
def test_a_model_that_collapsed_at_its_usual_rate_or_above_is_advised_another(
    order, write, caplog, monkeypatch, rate, advice
):
    data = write("a.csv", class_rows())
    monkeypatch.setattr(Best, "is_collapsed", True)
    finetune(order("classify", data, "epochs=1", f"lr={rate}", dev=data), quiet)
    assert f"Try {advice}, another seed (--retry) or more epochs." in caplog.text


def test_what_is_refused(order, write, model_folder):
    data = write("a.csv", class_rows())
    for settings, message in (
        (["max_length=64"], r"max_length is 64, but .* has 48 positions"),
        (["batch=7", "parts=2"], "batch is 7"),
        (["lrr=1"], "unknown key 'lrr'; did you mean 'lr'"),
        (["per_device_train_batch_size=8"], "did you mean 'batch'"),
        (["gradient_accumulation_steps=2"], "did you mean 'parts'"),
        (["lr=0"], "lr is 0"),
        (["epochs=0"], "epochs is 0"),
        (["held_out=1.5"], "held_out is 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            finetune(order("classify", data, *settings, out="refused"), quiet)
    with pytest.raises(ValueError, match="recipe 'fast' does not exist; allowed: stable, faithful"):
        make_recipe("fast", "classify")
    done = order("classify", data, "epochs=1")
    finetune(done, quiet)
    with pytest.raises(ValueError, match=r"exists: give --out another name, or go on with that run by --resume"):
        finetune(done, quiet)
    with pytest.raises(ValueError, match=r"another recipe \(run.epochs was 1.0, is 2.0\)"):
        finetune(order("classify", data, "epochs=2", resumes=True), quiet)
    data.write_text(class_rows(44), encoding="utf-8")
    with pytest.raises(ValueError, match="was begun with other examples"):
        finetune(order("classify", data, "epochs=1", resumes=True), quiet)
    with pytest.raises(ValueError, match=r"has no task\.json: it is not a model that `bertie finetune` made"):
        Trained.load(model_folder)


def test_rows_without_a_label_are_named_and_not_learned_from(order, write, caplog):
    data = write("a.csv", class_rows(12) + "cat,\ndog,\n")
    done = order("classify", data, "epochs=1", dev=write("b.csv", class_rows(4)))
    finetune(done, quiet)
    assert "2 of 14 examples have no label, and so are not learned from: " in caplog.text
    assert "a.csv, line 14, " in caplog.text
    assert read_card(done.out)["examples"]["rows"] == 12


def test_text_that_the_vocabulary_does_not_know_is_told_of(order, write, caplog):
    finetune(order("classify", write("a.csv", class_rows()), "epochs=1"), quiet)
    assert "has no pieces" not in caplog.text
    unknown = write("b.csv", "text,label\n猫在睡觉。,yes\n狗在唱歌。,no\n" * 4)
    finetune(order("classify", unknown, "epochs=1", out="other"), quiet)
    assert re.search(r"\d+% of the examples' tokens are \[UNK\]: the vocabulary of .*tiny has no pieces", caplog.text)


def test_what_is_no_model_folder(order, write, tmp_path):
    data = write("a.csv", class_rows())
    done = order("classify", data, "epochs=1")
    finetune(done, quiet)
    for model, message in (
        (tmp_path / "nowhere", "nowhere is not there: a model is a folder"),
        (data, "a.csv is a file: a model is a folder"),
    ):
        with pytest.raises(ValueError, match=message):
            finetune(replace(done, model=model, out=tmp_path / "other"), quiet)
    for run in (tmp_path / "nowhere", data):
        with pytest.raises(ValueError, match="a model is a folder"):
            Trained.load(run)


def test_recipes():
    faithful = make_recipe("faithful", "squad-v2")
    assert (faithful.epochs, faithful.batch, faithful.optimizer.lr) == (2.0, 48, 5e-5)
    assert faithful.optimizer.rule == "adam_weight_decay"
    assert make_recipe("faithful", "swag").optimizer.lr == 2e-5
    recipe, task = change(make_recipe("stable", "rte"), "rte", ["lr=1e-4", "warmup=0.2", "max_length=64", "epochs=1.5"])
    assert (recipe.optimizer.lr, recipe.schedule.warmup, recipe.epochs, task.max_length) == (1e-4, 0.2, 1.5, 64)


@pytest.mark.parametrize(("rows", "epochs"), [(100, 20), (6_000, 10), (5_749, 11), (1_000_000, 3)])
def test_small_sets_are_read_more_often(rows, epochs):
    from bertie.tasks.recipe import num_epochs

    assert num_epochs(make_recipe("stable", "rte"), rows) == epochs


def test_the_task_file(order, write, tmp_path):
    from bertie.tasks.task_file import NAME, read_task, write_task

    _, task = change(make_recipe("stable", "squad-v2"), "squad-v2", ["null_threshold=-1.5"])
    (tmp_path / NAME).write_bytes(write_task("squad-v2", task))
    assert read_task(tmp_path) == ("squad-v2", task)
    contents = json.loads((tmp_path / NAME).read_text())
    for change_, message in (
        ({"version": 9}, "another version"),
        ({"kind": "sing"}, "kind 'sing' does not exist"),
        ({"settings": {"stride": 0}}, "stride is 0"),
        ({"settings": {"strides": 1}}, "unknown key 'strides'"),
        ({"settings": None}, "no settings"),
        ({"name": "squad-v3"}, "no task 'squad-v3'"),
    ):
        (tmp_path / NAME).write_text(json.dumps(contents | change_))
        with pytest.raises(ValueError, match=message):
            read_task(tmp_path)
    (tmp_path / NAME).write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        read_task(tmp_path)
