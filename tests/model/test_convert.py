import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from bertie.model.config import ModelConfig, preset
from bertie.model.convert import convert
from bertie.model.encoder import pack
from bertie.model.folder import Labels, build, load, num_classes, read_labels, save
from bertie.model.heads import Model
from bertie.model.tf_checkpoint import list_tensors, read_tensor, write_checkpoint
from bertie.text.wordpiece import Tokenizer

GOOGLE = Path(__file__).parent / "tf_fixture" / "bert"  # made by TensorFlow
BERT = ModelConfig(vocabulary_size=12, num_layers=2, width=16, num_heads=2, inner_width=24, max_positions=16)
ALBERT = replace(
    BERT, family="albert", embedding_width=8, shared_layers=True, classifier_dropout=0.1, feed_forward="gelu_tanh"
)
NARROW = replace(BERT, family="bertie", embedding_width=8)


def tokenizer_files(folder: Path, cased: bool) -> Mapping[str, bytes]:
    return Tokenizer.load(folder, cased=cased).files()


def make(config: ModelConfig, heads: dict[str, int]) -> Model:
    return build(config, heads, torch.Generator().manual_seed(0)).eval()


def assert_same(one: Model, other: Model) -> None:
    assert one.config == other.config
    assert num_classes(one) == num_classes(other)
    left, right = one.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(right[name], tensor), name


def names_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_checkpoint_of_tensorflow_opens_in_transformers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bertie"):
        convert(GOOGLE, tmp_path / "hf", "hf", tokenizer_files)
    assert "7 tensors of the optimizer left out" in caplog.text
    assert "taken to be uncased" in caplog.text
    model = load(tmp_path / "hf")
    assert "not verified" not in caplog.text
    assert num_classes(model) == {"masked": 0, "pair": 0}
    theirs = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "hf").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")("The [MASK] sat", return_tensors="pt")
    assert tokens["input_ids"].tolist() == [[2, 5, 4, 7, 3]]
    with torch.no_grad():
        expected = theirs(**tokens)
        batch = replace(pack([[2, 5, 4, 7, 3]]), masked_M=torch.tensor([2]))
        torch.testing.assert_close(model(batch)["masked"], expected.prediction_logits[0, 2:3], atol=1e-5, rtol=0)
        torch.testing.assert_close(model(batch)["pair"], expected.seq_relationship_logits, atol=1e-5, rtol=0)


def test_what_goes_to_tf_is_what_tensorflow_wrote(tmp_path: Path) -> None:
    convert(GOOGLE, tmp_path / "hf", "hf", tokenizer_files)
    convert(tmp_path / "hf", tmp_path / "tf", "tf", tokenizer_files)
    assert json.loads((tmp_path / "tf" / "bert_config.json").read_text()) == json.loads(
        (GOOGLE / "bert_config.json").read_text()
    )
    assert (tmp_path / "tf" / "vocab.txt").read_bytes() == (GOOGLE / "vocab.txt").read_bytes()
    written, theirs = (list_tensors(folder / "bert_model.ckpt") for folder in (tmp_path / "tf", GOOGLE))
    assert written.keys() == {name for name in theirs if "adam" not in name and name != "global_step"}
    for name in written:
        assert torch.equal(read_tensor(written[name]), read_tensor(theirs[name]))


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        (BERT, {"masked": 0, "pair": 0}),
        (BERT, {"class": 3}),
        (BERT, {"span": 0}),
        (BERT, {"pooler": 0}),
        (replace(BERT, feed_forward="gelu_tanh"), {"masked": 0}),
        (ALBERT, {"masked": 0, "pair": 0}),
        (replace(ALBERT, feed_forward="gelu"), {"masked": 0}),
        (NARROW, {"masked": 0, "pooler": 0}),
    ],
    ids=["pre-training", "class", "span", "encoder", "tanh", "albert", "albert by erf", "narrow tables"],
)
def test_there_and_back_through_tf(tmp_path: Path, config: ModelConfig, heads: dict[str, int]) -> None:
    model = make(config, heads)
    save(tmp_path / "hf", model, {"vocab.txt": (GOOGLE / "vocab.txt").read_bytes()})
    convert(tmp_path / "hf", tmp_path / "tf", "tf", tokenizer_files)
    convert(tmp_path / "tf", tmp_path / "again", "hf", tokenizer_files)
    assert_same(load(tmp_path / "again"), model)


def test_in_8_bits_a_folder_is_a_fourth_and_says_nearly_the_same(tmp_path: Path) -> None:
    config = replace(BERT, vocabulary_size=500, width=64, num_heads=2, inner_width=256)
    model = make(config, {"class": 3}).eval()
    save(tmp_path / "hf", model, {"vocab.txt": b"[PAD]"}, Labels(("a", "b", "c")))
    convert(tmp_path / "hf", tmp_path / "small", "int8", tokenizer_files)
    assert names_of(tmp_path / "small") == ["bertie.json", "config.json", "model.int8.safetensors", "vocab.txt"]
    sizes = [(tmp_path / name).stat().st_size for name in ("small/model.int8.safetensors", "hf/model.safetensors")]
    assert sizes[0] < 0.3 * sizes[1]
    opened, batch = load(tmp_path / "small"), pack([[2, 5, 4, 7, 3]])
    assert read_labels(tmp_path / "small", opened).names == ("a", "b", "c")
    with torch.no_grad():
        torch.testing.assert_close(opened(batch)["class"], model(batch)["class"], atol=0.02, rtol=0)
    convert(tmp_path / "small", tmp_path / "back", "hf", tokenizer_files)
    assert_same(load(tmp_path / "back"), opened)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "small")


def test_float64_becomes_float32(tmp_path: Path) -> None:
    model = make(NARROW, {"masked": 0})
    save(tmp_path / "hf", model, {})
    convert(tmp_path / "hf", tmp_path / "tf", "tf", tokenizer_files)
    checkpoint = tmp_path / "tf" / "bert_model.ckpt"
    tensors = {name: read_tensor(stored) for name, stored in list_tensors(checkpoint).items()}
    for name in ("bert/embeddings/word_embeddings", "cls/predictions/output_bias"):
        tensors[name] = tensors[name].double()
    write_checkpoint(checkpoint, tensors)
    convert(tmp_path / "tf", tmp_path / "again", "hf", tokenizer_files)
    assert_same(load(tmp_path / "again"), model)


def test_a_vocabulary_with_capitals_is_cased(tmp_path: Path) -> None:
    shutil.copytree(GOOGLE, tmp_path / "tf")
    (tmp_path / "tf" / "vocab.txt").write_text((GOOGLE / "vocab.txt").read_text().replace("cat", "Cat"))
    for source, is_lower in ((GOOGLE, True), (tmp_path / "tf", False)):
        convert(source, tmp_path / f"hf-{is_lower}", "hf", tokenizer_files)
        settings = json.loads((tmp_path / f"hf-{is_lower}" / "tokenizer_config.json").read_text())
        assert settings["do_lower_case"] == is_lower


def test_a_folder_of_transformers_is_sealed_with_its_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "hf"
    model = make(BERT, {"class": 3}).to(torch.bfloat16)
    files = {"vocab.txt": b"words", "1_Pooling/config.json": b"{}", "2_Dense/model.safetensors": b"", "README.md": b""}
    save(source, model, files, Labels(("bad", "fair", "good"), "single_label_classification"))
    (source / "bertie.json").unlink()
    (source / "training_args.bin").write_bytes(b"a pickle")
    (source / ".cache").mkdir()
    (source / ".cache" / "notes.txt").touch()
    with caplog.at_level(logging.INFO, "bertie"):
        convert(source, tmp_path / "sealed", "hf", tokenizer_files)
    assert "left out training_args.bin" in caplog.text
    assert names_of(tmp_path / "sealed") == [
        *("1_Pooling/config.json", "2_Dense/model.safetensors", "README.md"),
        *("bertie.json", "config.json", "model.safetensors", "vocab.txt"),
    ]
    assert (tmp_path / "sealed" / "vocab.txt").read_bytes() == b"words"
    assert (tmp_path / "sealed" / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    caplog.clear()
    sealed = load(tmp_path / "sealed", dtype=None)
    assert caplog.text == ""
    assert_same(sealed, model)
    assert read_labels(tmp_path / "sealed", sealed) == Labels(("bad", "fair", "good"), "single_label_classification")


def test_a_folder_without_a_vocabulary_is_said_to_have_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "bare", make(BERT, {"masked": 0}), {})
    convert(tmp_path / "bare", tmp_path / "tf", "tf", tokenizer_files)
    assert "bare holds no vocabulary, so" in caplog.text


def test_a_pickle_is_converted_on_request(tmp_path: Path) -> None:
    model = make(BERT, {"masked": 0})
    save(tmp_path / "hf", model, {})
    (tmp_path / "hf" / "bertie.json").unlink()
    state = transformers.BertForMaskedLM.from_pretrained(tmp_path / "hf").state_dict()
    (tmp_path / "hf" / "model.safetensors").unlink()
    torch.save(state, tmp_path / "hf" / "pytorch_model.bin")
    with pytest.raises(ValueError, match="--allow-pickle"):
        convert(tmp_path / "hf", tmp_path / "sealed", "hf", tokenizer_files)
    assert not (tmp_path / "sealed").exists()
    convert(tmp_path / "hf", tmp_path / "sealed", "hf", tokenizer_files, allow_pickle=True)
    assert_same(load(tmp_path / "sealed"), model)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (replace(BERT, family="roberta", pad_id=1), "RoBERTa"),
        (replace(BERT, norm_eps=1e-5), "norm_eps is 1e-05, but Google's code has only 1e-12"),
        (replace(BERT, family="bertie", norm="before"), "norm is 'before'"),
        (replace(BERT, family="bertie", positions="sinusoidal"), "positions is 'sinusoidal'"),
    ],
    ids=["roberta", "epsilon", "norm", "positions"],
)
def test_a_shape_google_has_no_code_for_is_refused(tmp_path: Path, config: ModelConfig, says: str) -> None:
    save(tmp_path / "hf", make(config, {"masked": 0}), {})
    with pytest.raises(ValueError, match=says):
        convert(tmp_path / "hf", tmp_path / "tf", "tf", tokenizer_files)
    assert names_of(tmp_path / "hf") == ["bertie.json", "config.json", "model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_modernbert_has_no_tf_layout(tmp_path: Path) -> None:
    config = replace(preset("modernbert-base"), vocabulary_size=12, num_layers=2, width=16, num_heads=2, pad_id=0)
    save(tmp_path / "hf", make(config, {"masked": 0}), {})
    with pytest.raises(ValueError, match="Google's code cannot run this shape"):
        convert(tmp_path / "hf", tmp_path / "tf", "tf", tokenizer_files)
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "bert_config.json").unlink(), r"neither config\.json .* nor bert_config\.json"),
        (lambda folder: (folder / "bert_config.json").write_text("{"), r"bert_config\.json is not JSON"),
        (
            lambda folder: (folder / "bert_config.json").write_text('{"vocab_size": 12}'),
            r"bert_config\.json: .*missing",
        ),
        (lambda folder: (folder / "bert_model.ckpt.index").unlink(), "no TensorFlow checkpoint"),
        (lambda folder: (folder / "bert_model.ckpt.index").write_bytes(b""), r"bert_model\.ckpt\.index is not"),
        (
            lambda folder: (folder / "bert_model.ckpt.data-00000-of-00001").unlink(),
            "data-00000-of-00001: bert/.*missing",
        ),
    ],
)
def test_a_folder_of_google_that_cannot_be_read_is_refused(tmp_path: Path, spoil, says: str) -> None:
    shutil.copytree(GOOGLE, tmp_path / "tf")
    spoil(tmp_path / "tf")
    with pytest.raises(ValueError, match=says):
        convert(tmp_path / "tf", tmp_path / "hf", "hf", tokenizer_files)
    assert [path.name for path in tmp_path.iterdir()] == ["tf"]


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    shutil.copytree(GOOGLE, tmp_path / "tf")
    checkpoint = tmp_path / "tf" / "bert_model.ckpt"
    tensors = {name: read_tensor(stored) for name, stored in list_tensors(checkpoint).items()}
    name = "bert/encoder/layer_0/output/dense/kernel"
    for changed, says in (
        ({key: tensor for key, tensor in tensors.items() if key != name}, f"lacks {name}"),
        (tensors | {name: tensors[name].T}, f"'{name}' is 16 x 8; the config makes it 8 x 16"),
        (tensors | {"bert/extra": torch.zeros(1)}, "unknown .* bert/extra"),
    ):
        write_checkpoint(checkpoint, changed)
        with pytest.raises(ValueError, match=rf"bert_model\.ckpt: .*{says}"):
            convert(tmp_path / "tf", tmp_path / "hf", "hf", tokenizer_files)


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file.zip").touch()
    for source, target, to, says in (
        (GOOGLE, tmp_path / "there", "hf", "there exists: give the name of a new folder"),
        (GOOGLE, tmp_path / "new", "tf", r"has no config\.json"),
        (GOOGLE, tmp_path / "new", "onnx", "to hf, int8 or tf, not to 'onnx'"),
        (tmp_path / "missing", tmp_path / "new", "hf", "missing is not there"),
        (
            tmp_path / "file.zip",
            tmp_path / "new",
            "hf",
            r"file\.zip is a file \(unpack an archive first\): a model is a folder",
        ),
        (tmp_path / "there", tmp_path / "new", "hf", "holds no TensorFlow checkpoint"),
    ):
        with pytest.raises(ValueError, match=says):
            convert(source, target, to, tokenizer_files)
    assert not (tmp_path / "new").exists()
