"""What layers make of tokens: as transformers has it, in Google's form, combined, as arrays."""

import json

import numpy as np
import pytest
import torch

from bertie.cli import run
from bertie.model.config import ModelConfig
from bertie.model.folder import load
from bertie.model.heads import Model
from bertie.tasks.features import Wanted, extract, last_layers, read_lines

LINES = "Who sat? ||| the cat sat\nthe Dog\n\n光荣 ||| steve ||| smiths\n"


@pytest.fixture
def ask(write, model_folder, tmp_path):
    """Runs the command and gives the file it wrote."""

    def ask(*flags, out="out.jsonl", lines=LINES):
        data = write("lines.txt", lines)
        assert (
            run(["features", str(model_folder), str(data), "--out", str(tmp_path / out), "--device", "cpu", *flags])
            == 0
        )
        return tmp_path / out

    return ask


def test_google_s_form_and_the_values_of_transformers(ask, model_folder):
    transformers = pytest.importorskip("transformers")
    rows = [json.loads(line) for line in ask("--layers", "-1,-3").read_text(encoding="utf-8").splitlines()]
    assert [row["linex_index"] for row in rows] == [0, 1, 2, 3]
    tokens = [[feature["token"] for feature in row["features"]] for row in rows]
    assert tokens[0] == ["[CLS]", "who", "sat", "?", "[SEP]", "the", "cat", "sat", "[SEP]"]
    assert tokens[2] == ["[CLS]", "[SEP]"]
    assert tokens[3] == ["[CLS]", "光", "荣", "[UNK]", "[UNK]", "[UNK]", "steve", "[SEP]", "smith", "##s", "[SEP]"]
    theirs = transformers.AutoModel.from_pretrained(model_folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    with torch.inference_mode():
        hidden = theirs(**tokenizer("who sat?", "the cat sat", return_tensors="pt"), output_hidden_states=True)
    for layer, index in ((0, -1), (1, -3)):
        found = [feature["layers"][layer] for feature in rows[0]["features"]]
        assert {one["index"] for one in found} == {index}
        values = np.array([one["values"] for one in found])
        assert values == pytest.approx(hidden.hidden_states[index][0].numpy(), abs=2e-5)
        assert (np.round(values, 6) == values).all()


@pytest.mark.parametrize(("num_layers", "expected"), [(2, (-1, -2)), (12, (-1, -2, -3, -4))])
def test_the_last_four_layers_are_taken_as_far_as_there_are_such(num_layers, expected):
    config = ModelConfig(vocabulary_size=9, num_layers=num_layers, width=8, num_heads=2, inner_width=8)
    assert last_layers(Model(config, {})) == expected


def test_where_no_layers_are_said_a_small_model_gives_all_it_has(ask):
    assert np.load(ask(out="out.npz"))["layers"].tolist() == [-1, -2]


def test_arrays_hold_the_same(ask):
    lines = ask("--layers", "-1,-2").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line)["features"] for line in lines]
    arrays = np.load(ask("--layers", "-1,-2", out="out.npz"))
    assert arrays["values"].shape == (sum(map(len, rows)), 2, 32)
    assert arrays["layers"].tolist() == [-1, -2]
    for number, (start, end) in enumerate(zip(arrays["starts"], arrays["starts"][1:], strict=False)):
        assert arrays["tokens"][start:end].tolist() == [one["token"] for one in rows[number]]
        values = [[layer["values"] for layer in one["layers"]] for one in rows[number]]
        assert arrays["values"][start:end] == pytest.approx(np.array(values), abs=1e-6)


@pytest.mark.parametrize(
    ("flags", "weights"),
    [
        (["--combine", "sum"], (1, 1)),
        (["--combine", "mean"], (0.5, 0.5)),
        (["--combine", "weighted", "--weights", "0.25,2"], (0.25, 2)),
    ],
)
def test_one_vector_a_token(ask, flags, weights):
    plain = np.load(ask("--layers", "-1,-2", out="plain.npz"))["values"]
    combined = np.load(ask("--layers", "-1,-2", *flags, out="out.npz"))["values"]
    assert combined == pytest.approx(plain[:, 0] * weights[0] + plain[:, 1] * weights[1], abs=1e-5)


def test_side_by_side_in_json_lines_says_which_layers(ask):
    rows = [json.loads(line) for line in ask("--layers", "-2,-1", "--combine", "concat").read_text().splitlines()]
    (layer,) = rows[0]["features"][0]["layers"]
    assert layer["index"] == [-2, -1]
    plain = json.loads(ask("--layers", "-2,-1").read_text().splitlines()[0])["features"][0]["layers"]
    assert layer["values"] == plain[0]["values"] + plain[1]["values"]


def test_many_texts_come_in_their_order(model_folder, tokenizer, monkeypatch):
    monkeypatch.setattr("bertie.tasks.features.AT_ONCE", 4)
    texts = [("the cat " * (number % 5 + 1),) for number in range(11)]
    told = []
    found = extract(load(model_folder), tokenizer, texts, Wanted((-1,)), lambda done, total: told.append((done, total)))
    assert [len(one.tokens) for one in found] == [2 * (number % 5 + 1) + 2 for number in range(11)]
    assert told == [(4, 11), (8, 11), (11, 11)]


def test_a_text_that_is_too_long_is_cut_and_this_is_said(ask, caplog):
    arrays = np.load(ask("--layers", "-1", "--max-length", "5", out="out.npz"))
    assert np.diff(arrays["starts"]).max() == 5
    assert "2 of 4 texts are longer than 5 tokens: cut" in caplog.text


def test_what_is_refused(write, model_folder, tmp_path, capsys):
    for flags, message in (
        (
            ["--layers", "-4"],
            "layer -4 is none of this model's 2: they are counted from the last, -1, to the first, -2",
        ),
        (["--layers", "0"], "-3 is the embeddings"),
        (["--layers", "last"], "--layers is 'last'; allowed: whole numbers with commas"),
        (["--layers", "-1,-1"], "layers are -1,-1; name at least one, each once"),
        (["--combine", "weighted"], "there are 0 weights; allowed: one for each of the 2 layers"),
        (["--weights", "1"], "there are 1 weights; allowed: none unless combined so"),
        (["--layers", "-1", "--max-length", "99"], "max_length is 99; the model allows 3 to 48"),
        (["--out", "out.txt"], "allowed: .jsonl, .npz"),
    ):
        out = [] if "--out" in flags else ["--out", str(tmp_path / "out.jsonl")]
        assert run(["features", str(model_folder), str(write("lines.txt", LINES)), *out, *flags]) == 2, flags
        assert message in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == [tmp_path / "lines.txt"]
    with pytest.raises(ValueError, match="is empty: write a text a line"):
        read_lines(write("none.txt", ""))
