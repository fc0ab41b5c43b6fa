import json
import logging
import random
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertie.model import folder as folder_module
from bertie.model.config import ModelConfig
from bertie.model.encoder import pack
from bertie.model.folder import Labels, build, load, num_classes, read_labels, save
from bertie.model.heads import Model

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "on", "mat", "a", ".", "##s"]
TOKENIZER = {
    "vocab.txt": "".join(f"{entry}\n" for entry in VOCABULARY).encode(),
    "tokenizer_config.json": b'{"tokenizer_class": "BertTokenizer", "do_lower_case": true, "model_max_length": 16}',
}
CONFIG = ModelConfig(
    vocabulary_size=len(VOCABULARY), num_layers=2, width=16, num_heads=2, inner_width=24, max_positions=16
)
SHAPE = {
    "vocab_size": 14,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
PEERS = {
    "Bert": transformers.BertConfig(**SHAPE),
    "Albert": transformers.AlbertConfig(**SHAPE, embedding_size=8),
    "Roberta": transformers.RobertaConfig(**SHAPE, pad_token_id=1),
    "ModernBert": transformers.ModernBertConfig(
        **SHAPE, pad_token_id=0, bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3
    ),
}
HEADS = (
    *("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction", "ForSequenceClassification"),
    *("ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"),
)
ARCHITECTURES = [
    family + head for family in PEERS for head in HEADS if getattr(transformers, family + head, None) is not None
]


def make(heads: dict[str, int], seed: int = 0, config: ModelConfig = CONFIG) -> Model:
    return build(config, heads, torch.Generator().manual_seed(seed)).eval()


def same(one: Model, other: Model) -> bool:
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and torch.equal(left[name], right[name]) for name in left
    )


def peer(architecture: str, dtype: torch.dtype) -> transformers.PreTrainedModel:
    family = next(family for family in sorted(PEERS, key=len, reverse=True) if architecture.startswith(family))
    torch.manual_seed(0)
    return getattr(transformers, architecture)(PEERS[family]).to(dtype)


# --- there and back ---


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_there_and_back_with_transformers(tmp_path: Path, architecture: str, dtype: torch.dtype) -> None:
    theirs = peer(architecture, dtype)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load(tmp_path / "theirs", dtype=None)
    save(tmp_path / "ours", ours, {}, read_labels(tmp_path / "theirs", ours))
    before = load_file(tmp_path / "theirs" / "model.safetensors")
    after = load_file(tmp_path / "ours" / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert after[name].dtype == dtype
        assert torch.equal(after[name], tensor), name
    again, notes = type(theirs).from_pretrained(tmp_path / "ours", dtype="auto", output_loading_info=True)
    assert not any(notes.values()), notes
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert same(load(tmp_path / "ours", dtype=None), ours)


def test_the_auto_classes_open_what_we_save(tmp_path: Path) -> None:
    model = make({"class": 3})
    save(tmp_path / "model", model, TOKENIZER)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    ids = [2, 5, 6, 8, 3]
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits
        torch.testing.assert_close(model(pack([ids]))["class"], expected, atol=1e-5, rtol=0)


def test_pipelines_of_transformers_say_our_labels(tmp_path: Path) -> None:
    save(tmp_path / "class", make({"class": 3}), TOKENIZER, Labels(("bad", "fair", "good")))
    scores = transformers.pipeline("text-classification", model=str(tmp_path / "class"), top_k=None)(["the cat sat"])
    assert {score["label"] for score in scores[0]} == {"bad", "fair", "good"}
    save(tmp_path / "tag", make({"tag": 2}), TOKENIZER, Labels(("O", "ANIMAL")))
    tags = transformers.pipeline("token-classification", model=str(tmp_path / "tag"), ignore_labels=[])("the cat sat")
    assert [tag["word"] for tag in tags] == ["the", "cat", "sat"]
    assert {tag["entity"] for tag in tags} <= {"O", "ANIMAL"}
    save(tmp_path / "masked", make({"masked": 0}), TOKENIZER)
    assert len(transformers.pipeline("fill-mask", model=str(tmp_path / "masked"))("the [MASK] sat")) == 5


def test_several_labels_at_once_are_told_to_transformers(tmp_path: Path) -> None:
    labels = Labels(("one", "two", "three"), "multi_label_classification")
    save(tmp_path / "model", make({"class": 3}), TOKENIZER, labels)
    scores = transformers.pipeline("text-classification", model=str(tmp_path / "model"), top_k=None)(["the cat sat"])
    assert sum(score["score"] for score in scores[0]) > 1.2  # a sigmoid each, no softmax
    assert read_labels(tmp_path / "model", load(tmp_path / "model")) == labels


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "sinusoidal", "embedding_width": 8, "feed_forward": "geglu"},
        {"norm": "before", "attention": "causal", "num_segments": 0, "positions": "rotary"},
    ],
    ids=["narrow", "causal"],
)
def test_a_shape_of_no_family_is_ours_alone(tmp_path: Path, changes: dict[str, object]) -> None:
    config = replace(CONFIG, family="bertie", **changes)
    model = make({"masked": 0, "pair": 0, "class": 3, "tag": 4, "span": 0, "choice": 0}, config=config)
    save(tmp_path / "model", model, TOKENIZER)
    for is_sealed in (True, False):
        loaded = load(tmp_path / "model")
        assert same(loaded, model), is_sealed
        assert loaded.config == config
        assert num_classes(loaded) == num_classes(model)
        (tmp_path / "model" / "bertie.json").unlink(missing_ok=True)
    with pytest.raises(ValueError, match="bertie"):
        transformers.AutoModel.from_pretrained(tmp_path / "model")


def test_what_config_json_has_no_key_for_is_kept_by_the_seal(tmp_path: Path) -> None:
    config = replace(CONFIG, scaled_initial=True)
    save(tmp_path / "model", make({"masked": 0}, config=config), TOKENIZER)
    assert load(tmp_path / "model").config == config


# --- heads ---


def test_a_head_that_is_not_there_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "model", make({"masked": 0}), TOKENIZER)
    with pytest.raises(ValueError, match=r"model\.safetensors has no head class and pooler"):
        load(tmp_path / "model", heads={"class": 2})


def test_a_head_that_is_not_there_is_made_new_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = make({"masked": 0, "pair": 0})
    save(tmp_path / "model", model, TOKENIZER)
    with caplog.at_level(logging.INFO, "bertie"):
        tuned = load(tmp_path / "model", {"class": 3}, torch.Generator().manual_seed(1))
    assert "no head class of this shape: made new" in caplog.text
    assert "head masked and pair left out" in caplog.text
    assert num_classes(tuned) == {"class": 3}
    kept = {name: tensor for name, tensor in model.state_dict().items() if name in tuned.state_dict()}
    assert "heads.pooler.dense.weight" in kept
    assert all(torch.equal(tuned.state_dict()[name], tensor) for name, tensor in kept.items())
    assert torch.equal(tuned.heads["class"].scores.bias, torch.zeros(3))
    again = load(tmp_path / "model", {"class": 3}, torch.Generator().manual_seed(1))
    assert same(again, tuned)


def test_a_head_of_other_classes_is_made_new_on_request(tmp_path: Path) -> None:
    save(tmp_path / "model", make({"class": 3}), TOKENIZER, Labels(("a", "b", "c")))
    with pytest.raises(ValueError, match="has no head class of this shape"):
        load(tmp_path / "model", heads={"class": 5})
    tuned = load(tmp_path / "model", {"class": 5}, torch.Generator().manual_seed(1), dtype=torch.bfloat16)
    assert {tensor.dtype for tensor in tuned.state_dict().values()} == {torch.bfloat16}
    assert read_labels(tmp_path / "model", tuned).names == tuple(f"LABEL_{number}" for number in range(5))


# --- types ---


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_types_become_float32_and_that_is_said(
    tmp_path: Path, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    model = make({"masked": 0}).to(dtype)
    save(tmp_path / "model", model, TOKENIZER)
    with caplog.at_level(logging.INFO, "bertie"):
        loaded = load(tmp_path / "model")
    assert f"{str(dtype).removeprefix('torch.')} converted to float32" in caplog.text
    assert same(loaded, model.float())
    assert same(load(tmp_path / "model", dtype=None), model.to(dtype))


def test_a_quantised_model_is_refused_by_name(tmp_path: Path) -> None:
    tensors = saved_tensors(tmp_path)
    tensors["bert.embeddings.word_embeddings.weight"] = torch.zeros(14, 16, dtype=torch.int8)
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    with pytest.raises(
        ValueError, match=r"model\.safetensors: encoder\.embeddings\.words\.weight has type torch\.int8"
    ):
        load(tmp_path / "model")


# --- whole or refused ---


def test_only_a_folder_without_a_seal_is_said_to_be_unverified(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = make({"masked": 0})
    save(tmp_path / "model", model, TOKENIZER)
    load(tmp_path / "model")
    assert "not verified" not in caplog.text
    (tmp_path / "model" / "bertie.json").unlink()
    assert same(load(tmp_path / "model"), model)
    assert "model has no bertie.json: its files are not verified" in caplog.text


def test_a_thousand_damages_are_refused_by_name_before_a_tensor_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "model", make({"masked": 0}), TOKENIZER)
    files = sorted((tmp_path / "model").iterdir())
    assert len(files) == 5
    monkeypatch.setattr(folder_module, "read_weights", lambda path: pytest.fail(f"{path} was used"))
    rng = random.Random(0)
    for number in range(1000):
        path = files[number % len(files)]
        data = path.read_bytes()
        damaged = bytearray(data)
        if rng.random() < 0.5:
            del damaged[rng.randrange(len(data)) :]
        else:
            damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=path.name):
            load(tmp_path / "model")
        path.write_bytes(data)
    monkeypatch.undo()
    load(tmp_path / "model")


def test_a_killed_writer_leaves_the_old_folder_or_the_new() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "kill_saving.py"
    done = subprocess.run([sys.executable, "-P", script, "--kills", "8"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "writers killed: 8; folders found whole: 8" in done.stdout


def test_saving_replaces_the_whole_folder(tmp_path: Path) -> None:
    save(tmp_path / "model", make({"class": 2}), {**TOKENIZER, "inner/settings.json": b"{}"})
    model = make({"masked": 0}, seed=1)
    save(tmp_path / "model", model, {"vocab.txt": TOKENIZER["vocab.txt"]})
    files = ["bertie.json", "config.json", "model.safetensors", "vocab.txt"]
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == files
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert same(load(tmp_path / "model"), model)


def test_a_disk_that_is_full_leaves_the_old_folder(tmp_path: Path) -> None:
    model = make({"masked": 0})
    save(tmp_path / "model", model, TOKENIZER)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/model'$"):
            save(tmp_path / "model", make({"masked": 0}, seed=1), TOKENIZER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert same(load(tmp_path / "model"), model)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_same_model_makes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        save(tmp_path / name, make({"masked": 0, "pair": 0}), TOKENIZER)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


# --- bad input: one sentence, nothing written ---


@pytest.mark.parametrize(
    ("name", "says"),
    [("../vocab.txt", "not the name"), ("/vocab.txt", "not the name"), ("config.json", "not the name"), ("", "not")],
)
def test_a_file_that_cannot_stand_beside_is_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        save(tmp_path / "model", make({"masked": 0}), {name: b""})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("heads", "names", "says"),
    [
        ({"class": 3}, ("a", "b"), r"there are 2 labels for a model whose heads have \[3\] classes"),
        ({"masked": 0}, ("a", "b"), "there are 2 labels for a model whose heads have no classes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    tmp_path: Path, heads: dict[str, int], names: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        save(tmp_path / "model", make(heads), {}, Labels(names))
    assert list(tmp_path.iterdir()) == []


def test_labels_are_checked_where_they_are_made() -> None:
    with pytest.raises(ValueError, match="not all different"):
        Labels(("a", "a"))
    with pytest.raises(ValueError, match="problem_type is 'guess'; allowed: regression"):
        Labels(("a", "b"), "guess")


def test_two_heads_of_one_name_cannot_share_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="save one head only"):
        save(tmp_path / "model", make({"class": 2, "tag": 3}), {})
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(ValueError, match="model is a file"):
        save(tmp_path / "model", make({"masked": 0}), {})
    with pytest.raises(ValueError, match="model is a file: a model is a folder"):
        load(tmp_path / "model")
    with pytest.raises(ValueError, match="other is not there"):
        load(tmp_path / "other")
    assert (tmp_path / "model").read_text() == "mine"


def saved_tensors(tmp_path: Path) -> dict[str, torch.Tensor]:
    """A saved model without its seal: its tensors, for a test to change."""
    save(tmp_path / "model", make({"masked": 0}), TOKENIZER)
    (tmp_path / "model" / "bertie.json").unlink()
    return load_file(tmp_path / "model" / "model.safetensors")


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    tensors = saved_tensors(tmp_path)
    name, other = "bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.dense.bias"
    lacking = {key: tensor for key, tensor in tensors.items() if key != name}
    for damaged, says in (
        (lacking, rf"model\.safetensors: .* lacks .*{name.removeprefix('bert.')}"),
        (lacking | {name: tensors[other]}, rf"model\.safetensors: .*{name.removeprefix('bert.')}.* is 16; .* 16 x 24"),
        (tensors | {"cls.species.weight": tensors[other]}, r"model\.safetensors: .* unknown .*cls\.species\.weight"),
    ):
        save_file({key: tensor.clone() for key, tensor in damaged.items()}, tmp_path / "model" / "model.safetensors")
        with pytest.raises(ValueError, match=says):
            load(tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": 15}, "hidden_size 15 does not divide"),
        ({"intermediate_size": "24"}, "intermediate_size is '24'; allowed: a whole number"),
        ({"pad_token_id": 99}, "pad_token_id is 99; it must be an entry of the 14 words"),
        ({"hidden_sise": 16}, "unknown key 'hidden_sise'"),
        ({"hidden_size": "wide"}, "a whole number"),
        ({"model_type": "gpt2"}, "model_type is 'gpt2'; allowed: bert"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "auto_map"),
        ({"vocab_size": 15}, r"14 x 16; the config makes it 15 x 16"),
    ],
)
def test_a_config_that_cannot_be_is_one_sentence(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    saved_tensors(tmp_path)
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=says) as caught:
        load(tmp_path / "model")
    assert ("model.safetensors: " if "vocab_size" in changes else "model/config.json: ") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("config.json") <= 1


@pytest.mark.parametrize("data", [None, b"", b"{", b"\xff", b"[]"])
def test_a_config_that_cannot_be_read_is_one_sentence(tmp_path: Path, data: bytes | None) -> None:
    saved_tensors(tmp_path)
    path = tmp_path / "model" / "config.json"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ValueError, match=r"config\.json"):
        load(tmp_path / "model")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], "it is no model folder"),
        (["vocab.txt"], "it is a vocabulary without a model"),
        (
            ["vocab.txt", "bert_config.json"],
            "it is in Google's layout, which `bertie convert FOLDER NEW --to hf` turns",
        ),
        (["model/config.json"], "it is a run, whose model is .*other/model"),
    ],
)
def test_a_folder_of_another_kind_is_refused_with_the_way_on(tmp_path: Path, files: list[str], says: str) -> None:
    for name in files:
        (tmp_path / "other" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other" / name).write_text("")
    (tmp_path / "other").mkdir(exist_ok=True)
    with pytest.raises(ValueError, match=rf"other has no config\.json: {says}"):
        load(tmp_path / "other")


def test_what_is_no_number_is_refused(tmp_path: Path) -> None:
    tensors = saved_tensors(tmp_path)
    tensors["bert.encoder.layer.1.output.dense.bias"][3] = float("nan")
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    with pytest.raises(ValueError, match=r"model\.safetensors: encoder\.layers\.1\.feed_forward.* \(NaN\)"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_folder_in_the_place_of_a_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    saved_tensors(tmp_path)
    (tmp_path / "model" / name).unlink()
    (tmp_path / "model" / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} is missing or not a file"):
        load(tmp_path / "model")


@pytest.mark.parametrize("stated", [{"a": "x", "b": "y"}, {"1": "x", "2": "y"}])
def test_classes_without_numbers_are_refused(tmp_path: Path, stated: dict[str, str]) -> None:
    save(tmp_path / "model", make({"class": 2}), TOKENIZER)
    shutil.copytree(tmp_path / "model", tmp_path / "other")
    path = tmp_path / "other" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"id2label": stated}))
    with pytest.raises(ValueError, match=r"config\.json: the keys of id2label are not the numbers"):
        read_labels(tmp_path / "other", load(tmp_path / "model"))
