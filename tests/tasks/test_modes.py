"""How much of a model learns: what is frozen stays, costs nothing backwards, and a folder of any mode opens again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from bertie.model.config import Features, ModelConfig, preset
from bertie.model.encoder import pack
from bertie.model.folder import build, load, save
from bertie.model.heads import Model, initialise
from bertie.model.lora import LowRank
from bertie.tasks.files import Columns
from bertie.tasks.modes import make_model
from bertie.tasks.network import form_of, pack_rows, task_loss
from bertie.tasks.recipe import ModeConfig, change, make_recipe
from bertie.tasks.run import Order, finetune
from bertie.tasks.trained import Trained
from bertie.training.run_folder import read_card

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = ("max_length=24", "epochs=12", "batch=8", "device=cpu", "dropout=0.0", "lr=3e-3")
ROWS = "text,label\n" + "the cat sat on the mat,yes\nthe dog sat on the mat,no\nwho cat,yes\nwho dog on mat,no\n" * 8
TAGS = "the O\ncat B-CAT\nsat O\n\nthe O\ndog B-DOG\nsat O\n\n" * 12


@pytest.fixture(scope="module")
def deep_folder(tmp_path_factory, tokenizer):
    """Four layers, so that the last four can be asked for."""
    config = ModelConfig(
        vocabulary_size=tokenizer.size, num_layers=4, width=32, num_heads=2, inner_width=64, max_positions=48
    )
    folder = tmp_path_factory.mktemp("models") / "deep"
    save(folder, build(config, {"masked": 0}, torch.Generator().manual_seed(0)), tokenizer.files())
    return folder


@pytest.fixture
def order(deep_folder, tmp_path):
    def make(task, data, *settings, out="run", **others):
        recipe, kind = change(make_recipe("stable", task), task, [*SETTINGS, *settings])
        return Order(task, kind, recipe, deep_folder, data, tmp_path / out, dev=data, **others)

    return make


def made(folder, *settings, task="classify"):
    recipe, kind = change(make_recipe("stable", task), task, ["max_length=24", *settings])
    return make_model(folder, replace(kind, labels=("no", "yes")), recipe)


def quiet(event, share):
    pass


def learned(model):
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def one_backward(model, tokenizer, task):
    """The model after a backward pass over two texts."""
    rows = task.encode(task_examples(), tokenizer)
    model.train()
    task_loss(task)(model, pack_rows(rows, form_of(task)))[task.head].loss.backward()
    return model


def task_examples():
    from bertie.tasks.task import Example

    return [Example(text="the cat sat", label="yes"), Example(text="the dog", label="no")]


def a_batch(tokenizer):
    from bertie.model.encoder import pack

    return pack([tokenizer.encode("the cat sat on the mat").ids])


@pytest.mark.parametrize(
    ("settings", "first_layer"), [([], -1), (["train_layers=0"], 4), (["train_layers=1"], 3), (["train_layers=4"], 0)]
)
def test_what_is_frozen_gets_no_gradient_and_runs_nothing_backwards(deep_folder, tokenizer, settings, first_layer):
    _, task = change(make_recipe("stable", "classify"), "classify", ["max_length=24", 'labels=["no","yes"]'])
    model = made(deep_folder, *settings)
    inputs = {}
    for number, layer in enumerate(model.encoder.layers):
        layer.register_forward_pre_hook(lambda _, given, number=number: inputs.update({number: given[0]}))
    one_backward(model, tokenizer, task)
    for name, parameter in model.named_parameters():
        layer = int(name.split(".")[2]) if ".layers." in name else 99 if name.startswith("heads.") else -1
        assert (parameter.grad is not None) == (layer >= first_layer), name
    assert [inputs[number].requires_grad for number in range(4)] == [number > first_layer for number in range(4)]


def test_what_is_frozen_drops_nothing_out(deep_folder, tokenizer):
    model = made(deep_folder, "train_layers=2").train()
    batch = a_batch(tokenizer)
    one, other = (model.encoder.layer_outputs(batch, range(1, 5)) for _ in range(2))
    assert torch.equal(one[:2], other[:2])
    assert not torch.equal(one[2], other[2])
    assert model.config.dropout == 0.1


def test_layers_begin_anew(deep_folder):
    before, after = load(deep_folder).state_dict(), made(deep_folder, "reinitialise=2").state_dict()
    changed = {
        name.split(".")[2] for name in before if ".layers." in name and not torch.equal(before[name], after[name])
    }
    assert changed == {"2", "3"}
    assert after["encoder.layers.3.feed_forward.inner.weight"].std().item() == pytest.approx(0.02, rel=0.2)
    assert torch.equal(after["encoder.layers.3.feed_forward_norm.weight"], torch.ones(32))


FEATURES = ["embeddings", "second_to_last", "last", "sum_last_four", "sum_all", "concat_last_four", "mix_last_four"]


def test_features_of_a_stream_that_grows_are_of_one_length():
    """Where norms stand before each part, layers pass on ever longer vectors: what reads several has each normed."""
    config = replace(
        preset("modernbert-small"), vocabulary_size=60, num_layers=3, width=32, num_heads=4, inner_width=48
    )
    for layers in ("sum_all", "mix_all", "second_to_last"):
        model = initialise(
            Model(replace(config, features=Features(layers)), {"class": 2}), torch.Generator().manual_seed(0)
        )
        for layer in model.encoder.layers:
            layer.feed_forward.output.weight.data *= 1000
        lengths_N = model(pack([[2, 7, 8, 9, 3]]))["hidden"].norm(dim=-1)
        most = 3 if layers == "sum_all" else 1
        assert (lengths_N <= most * 32**0.5 + 1e-3).all()


@pytest.mark.parametrize("layers", [*FEATURES, "mix_all"])
def test_features_are_the_layers_of_transformers(deep_folder, tokenizer, layers):
    from transformers import BertModel

    model = made(deep_folder, f"features={layers}").eval()
    batch = a_batch(tokenizer)
    with torch.inference_mode():
        ours = model(batch)["hidden"]
        theirs = BertModel.from_pretrained(deep_folder).eval()
        hidden = theirs(batch.ids_N[None], output_hidden_states=True).hidden_states
    wanted = {
        "embeddings": hidden[0][0],
        "second_to_last": hidden[-2][0],
        "last": hidden[-1][0],
        "sum_last_four": sum(one[0] for one in hidden[-4:]),
        "sum_all": sum(one[0] for one in hidden[1:]),
        "concat_last_four": torch.cat([one[0] for one in hidden[-4:]], -1),
        "mix_last_four": sum(one[0] for one in hidden[-4:]) / 4,
        "mix_all": sum(one[0] for one in hidden[1:]) / 4,
    }
    torch.testing.assert_close(ours, wanted[layers], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("tag", ["features=concat_last_four", "head=bilstm", "lstm_width=16", "lr=2e-2"]),
        ("tag", ["features=mix_all"]),
        ("classify", ["features=sum_all", "lr=3e-2"]),
        ("classify", ["head=bilstm", "lstm_width=16", "lr=1e-2"]),
        ("tag", ["train_layers=0", "lr=3e-2"]),
        ("tag", ["features=last", "lr=1e-2"]),
        ("classify", ["lora_rank=4", "lora_alpha=16", 'lora_matrices=["query","value","inner"]', "lr=1e-2"]),
    ],
)
def test_every_mode_learns_and_its_folder_opens_again(order, write, deep_folder, task, settings):
    data = write("a.csv" if task == "classify" else "a.txt", ROWS if task == "classify" else TAGS)
    done = order(task, data, *settings)
    ending = finetune(done, quiet)
    main = Trained.load(done.out, "cpu").task.main_score
    assert ending.scores[main] > 0.9
    found = Trained.load(done.out, "cpu").evaluate(data, Columns())
    assert found.scores == pytest.approx(ending.scores, abs=1e-4)
    card = read_card(done.out)
    assert card["learning"] < card["parameters"]
    if "lora" not in settings[0]:
        before, after = load(deep_folder).encoder.state_dict(), load(done.out / "model").encoder.state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_folder_that_transformers_cannot_know_is_refused_by_it(order, write):
    from transformers import AutoModel

    done = order("tag", write("a.txt", TAGS), "head=bilstm", "lstm_width=8", "epochs=1")
    finetune(done, quiet)
    assert json.loads((done.out / "model" / "config.json").read_text())["model_type"] == "bertie"
    with pytest.raises(ValueError, match="bertie"):
        AutoModel.from_pretrained(done.out / "model")
    from bertie.model.names import to_tf

    model = load(done.out / "model")
    with pytest.raises(ValueError, match="no head that reads features"):
        to_tf(model.config, {"tag": 3}, model.state_dict())


def test_the_plain_head_on_a_frozen_encoder_is_one_that_transformers_knows(order, write):
    from transformers import BertForTokenClassification

    done = order("tag", write("a.txt", TAGS), "features=last", "epochs=1")
    finetune(done, quiet)
    assert BertForTokenClassification.from_pretrained(done.out / "model").num_labels == 3


def test_features_are_computed_once_where_memory_allows(order, write, caplog):
    data = write("a.txt", TAGS)
    caplog.set_level("INFO")
    settings = ["features=mix_all", "epochs=2"]
    kept, anew = order("tag", data, *settings), order("tag", data, *settings, "features_memory=0", out="anew")
    finetune(kept, quiet)
    assert "computed once and kept" in caplog.text
    finetune(anew, quiet)
    assert "more than features_memory=0.0: it is computed anew" in caplog.text
    weights = [load_file(one.out / "model" / "model.safetensors") for one in (kept, anew)]
    for name in weights[0]:
        torch.testing.assert_close(weights[0][name], weights[1][name], atol=1e-4, rtol=1e-4)
    assert not np.allclose(weights[0]["heads.features.weights"], 0)


def test_lora_is_merged_and_its_adapter_stands_beside(order, write, deep_folder):
    data = write("a.csv", ROWS)
    done = order("classify", data, "lora_rank=2", "epochs=2", "lr=1e-2")
    finetune(done, quiet)
    before, after = load(deep_folder).state_dict(), load(done.out / "model").state_dict()
    changed = {name for name in before if name.startswith("encoder.") and not torch.equal(before[name], after[name])}
    assert changed == {f"encoder.layers.{layer}.attention.qkv.weight" for layer in range(4)}
    adapter = load_file(done.out / "model" / "adapter" / "adapter_model.safetensors")
    config = json.loads((done.out / "model" / "adapter" / "adapter_config.json").read_text())
    name = "base_model.model.bert.encoder.layer.1.attention.self.value"
    product = adapter[f"{name}.lora_B.weight"] @ adapter[f"{name}.lora_A.weight"] * config["lora_alpha"] / config["r"]
    difference = after["encoder.layers.1.attention.qkv.weight"] - before["encoder.layers.1.attention.qkv.weight"]
    torch.testing.assert_close(difference[64:], product, atol=1e-6, rtol=1e-4)
    assert not difference[32:64].any()
    torch.testing.assert_close(adapter["base_model.model.classifier.weight"], after["heads.class.scores.weight"])


def test_merging_changes_no_output(deep_folder, tokenizer):
    from bertie.model.heads import Model
    from bertie.model.lora import MATRICES, merged_state

    names = ", ".join(f'"{name}"' for name in MATRICES)
    model = made(deep_folder, "lora_rank=3", f"lora_matrices=[{names}]").eval()
    assert sum(isinstance(module, LowRank) for module in model.modules()) == 16
    for module in model.modules():
        if isinstance(module, LowRank):
            for up in module.up.values():
                torch.nn.init.normal_(up, generator=torch.Generator().manual_seed(1))
    rows = change(make_recipe("stable", "classify"), "classify", ['labels=["no","yes"]'])[1].encode(
        task_examples(), tokenizer
    )
    batch = pack_rows(rows, "class").batch
    merged = Model(model.config, {"class": 2})
    merged.load_state_dict(merged_state(model), assign=True)
    with torch.inference_mode():
        torch.testing.assert_close(merged.eval()(batch)["class"], model(batch)["class"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("settings", [["lora_rank=2"], ["head=bilstm", "lstm_width=8"], ["train_layers=1"]])
def test_a_stopped_run_ends_as_if_it_had_never_been(order, write, settings):
    import signal

    data = write("a.csv", ROWS)
    settings = [*settings, "epochs=3", "dropout=0.1"]
    plain, stopped = order("classify", data, *settings), order("classify", data, *settings, out="stopped")
    finetune(plain, quiet)

    def stop(event, share):
        if event["event"] == "train" and event["step"] == 6:
            signal.raise_signal(signal.SIGINT)

    assert finetune(stopped, stop).outcome == "stopped"
    assert finetune(order("classify", data, *settings, out="stopped", resumes=True), quiet).outcome == "finished"
    weights = [load_file(one.out / "model" / "model.safetensors") for one in (plain, stopped)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_rates_follow_what_learns():
    for settings, rate in (
        ([], 2e-5),
        (["features=last"], 1e-3),
        (["lora_rank=8"], 3e-4),
        (["train_layers=0", "lr=1e-4"], 1e-4),
        (["train_layers=2"], 2e-5),
    ):
        assert change(make_recipe("stable", "rte"), "rte", settings)[0].optimizer.lr == rate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["features=last", "lora_rank=2"], "features and lora_rank each say what learns: give one"),
        (["features=last", "train_layers=2"], "features and train_layers each say"),
        (["features=first"], "features is 'first'|is 'first'; allowed: embeddings"),
        (["train_layers=-1"], "train_layers is -1; it must be at least 0"),
        (["lora_alpha=0"], "lora_alpha is 0"),
        (["lora_rank=2", 'lora_matrices=["queries"]'], "allowed: query, key, value"),
        (["reinitialise=2", "train_layers=1"], "reinitialise is 2, but only 1 layers learn"),
        (["train_layers=9"], "train_layers is 9, but the model has 4 layers"),
    ],
)
def test_what_is_refused(deep_folder, settings, message):
    with pytest.raises(ValueError, match=message):
        made(deep_folder, *settings)


def test_too_few_layers(model_folder):
    with pytest.raises(ValueError, match="features 'concat_last_four' need 4 layers; the model has 2"):
        made(model_folder, "features=concat_last_four")


def test_shared_layers_learn_all_or_none(tmp_path, tokenizer):
    config = ModelConfig(
        family="albert",
        vocabulary_size=tokenizer.size,
        num_layers=3,
        width=32,
        num_heads=2,
        inner_width=64,
        max_positions=48,
        embedding_width=16,
        shared_layers=True,
    )
    save(tmp_path / "albert", build(config, {"masked": 0}, torch.Generator().manual_seed(0)), tokenizer.files())
    with pytest.raises(ValueError, match="all layers of this model are one: say 0 or 3"):
        made(tmp_path / "albert", "train_layers=2")
    assert not any(name.startswith("encoder.") for name in learned(made(tmp_path / "albert", "train_layers=0")))
    assert any(".layers.0." in name for name in learned(made(tmp_path / "albert", "train_layers=3")))
    assert ModeConfig().lora_matrices == ("query", "value")
