"""Every way a sentence-transformers folder can ask for its vectors, against sentence-transformers itself."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
import torch
from safetensors.torch import save_file
from sentence_transformers.sentence_transformer import modules
from torch import nn

import bertie
from bertie.serving.sentence import SentenceSettings, read_sentence_settings

TEXTS = ["a name is bound to a value", "the class", "statements and expressions in a function body, and so on"]
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ("cls", "mean")]


def compare(parts: list[nn.Module], folder: Path) -> None:
    peer = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    peer.save(str(folder))
    np.testing.assert_allclose(bertie.load(folder, device="cpu").encode(TEXTS), peer.encode(TEXTS), atol=1e-5)


@pytest.fixture
def transformer(example_folder: Path) -> nn.Module:
    return modules.Transformer(str(example_folder / "my-bert"), max_seq_length=9)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_pooling(transformer: nn.Module, tmp_path: Path, mode: str | tuple[str, ...]) -> None:
    compare([transformer, modules.Pooling(32, mode)], tmp_path / "folder")


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Identity(), nn.GELU(), nn.ReLU(), nn.Sigmoid()], ids=str)
def test_projection_and_normalisation(transformer: nn.Module, tmp_path: Path, activation: nn.Module) -> None:
    dense = modules.Dense(32, 7, activation_function=activation)
    compare([transformer, modules.Pooling(32), dense, modules.Normalize()], tmp_path / "folder")


def test_a_residual_projection(transformer: nn.Module, tmp_path: Path) -> None:
    parts = [modules.Dense(32, 32, bias=False, use_residual=True), modules.Dense(32, 5, use_residual=True)]
    compare([transformer, modules.Pooling(32), *parts], tmp_path / "folder")


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("mode", ["mean", "weightedmean", "lasttoken", "cls"])
def test_prompt(transformer: nn.Module, tmp_path: Path, include_prompt: bool, mode: str) -> None:
    peer = sentence_transformers.SentenceTransformer(
        modules=[transformer, modules.Pooling(32, mode, include_prompt=include_prompt)],
        prompts={"query": "search for : "},
        default_prompt_name="query",
        device="cpu",
    )
    peer.save(str(tmp_path / "folder"))
    if mode == "weightedmean" and not include_prompt:
        with pytest.raises(ValueError, match="'weightedmean' without the prompt's tokens is not supported"):
            bertie.load(tmp_path / "folder")
        return
    vectors = bertie.load(tmp_path / "folder", device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors, peer.encode(TEXTS), atol=1e-5)


def test_a_silent_folder_means_the_mean_of_the_tokens(example_folder: Path) -> None:
    assert read_sentence_settings(example_folder / "my-bert") == SentenceSettings()


def test_the_old_form_of_pooling_is_read(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(
        json.dumps([{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.b.Pooling"}])
    )
    (tmp_path / "1_Pooling").mkdir()
    old = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(old))
    assert read_sentence_settings(tmp_path).poolings == ("cls", "max")


@pytest.mark.parametrize(
    ("module", "config", "sentence"),
    [
        ({"path": "1", "type": "x.Router"}, {}, "module 'Router' is not one of Transformer, Pooling"),
        ({"path": "1", "type": "x.Pooling"}, {"pooling_mode": "sum"}, "pooling 'sum' is not one of"),
        (
            {"path": "1", "type": "x.Dense"},
            {"activation_function": "os.system"},
            "activation 'os.system' is not one of",
        ),
        ({"path": "1", "type": "x.Dense"}, {}, r"model.safetensors is missing"),
        ({"path": "../..", "type": "x.Dense"}, {}, "leads out of the folder"),
        ({"path": "1", "type": "x.Pooling"}, {"pooling_mode_sum_tokens": True}, "'pooling_mode_sum_tokens' is not one"),
        ({"path": "2", "type": "x.Pooling"}, {}, r"2/config.json is missing, though modules.json names"),
        ({"type": "x.Dense"}, {}, "not a list of modules"),
    ],
)
def test_what_is_not_known_is_refused(
    tmp_path: Path, module: dict[str, str], config: dict[str, object], sentence: str
) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([module]))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=sentence):
        read_sentence_settings(tmp_path)


@pytest.mark.parametrize("limit", [0, -5, "long", 9.5])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, limit: object) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "", "type": "x.Transformer"}]))
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
    with pytest.raises(ValueError, match=r"sentence_bert_config\.json: max_seq_length is .* a whole number from 1"):
        read_sentence_settings(tmp_path)


def test_a_projection_that_does_not_fit_is_refused_by_name(transformer: nn.Module, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    parts = [transformer, modules.Pooling(32), modules.Dense(32, 7)]
    sentence_transformers.SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    weights = folder / "2_Dense" / "model.safetensors"
    save_file({"linear.weight": torch.zeros(7, 31)}, weights)
    with pytest.raises(ValueError, match=r"model\.safetensors projects 31 numbers, but is given 32"):
        bertie.load(folder, device="cpu").encode(TEXTS)
    save_file({"weight": torch.zeros(7, 32)}, weights)
    with pytest.raises(ValueError, match=r"model\.safetensors has no linear\.weight"):
        bertie.load(folder, device="cpu")
    weights.write_bytes(weights.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        bertie.load(folder, device="cpu")


def test_a_file_that_is_not_json_is_named(example_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(example_folder / "my-bert", tmp_path / "folder")
    (tmp_path / "folder" / "modules.json").write_bytes(b"\xff[")
    with pytest.raises(ValueError, match=r"modules\.json is not JSON in UTF-8"):
        read_sentence_settings(tmp_path / "folder")
