"""From one kind of folder to another: Google's TF checkpoints, Hugging Face's folders, sealed ones."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from bertie.carried import model_folder
from bertie.model.config import FeedForward, ModelConfig
from bertie.model.folder import (
    CONFIG,
    GOOGLE_CONFIGS,
    SEAL,
    as_dtype,
    fill,
    load,
    num_classes,
    parse_config,
    read_labels,
    save,
)
from bertie.model.heads import Model
from bertie.model.names import from_tf, heads_from_tf, to_tf
from bertie.model.tf_checkpoint import find_checkpoint, list_tensors, read_tensor, write_checkpoint
from bertie.model.weights import read_json
from bertie.sealed import replacing_folder

CHECKPOINT = "bert_model.ckpt"
VOCABULARY = "vocab.txt"
VOCABULARIES = {VOCABULARY, "spiece.model"}
# Google's files say "gelu" for either form: BERT was released with that by erf, ALBERT's code has that by tanh. A model
# with the other form says so under a key of ours, which Google's code passes over.
GOOGLE_ACTIVATION: dict[bool, FeedForward] = {False: "gelu", True: "gelu_tanh"}  # is it ALBERT?
ACTIVATION_KEY = "bertie_feed_forward"
GOOGLE_NORM_EPS = 1e-12
# What training leaves in a checkpoint beside the model, with Google's optimizers and with TensorFlow's own.
SLOTS = ("/adam_m", "/adam_v", "/lamb_m", "/lamb_v", "global_step", "/Adam", "/Adam_1", "beta1_power", "beta2_power")
CARRIED_SUFFIXES = (".txt", ".json", ".md", ".model", ".jinja")
CARRIED_NAMES = ("LICENSE", "NOTICE")

TokenizerFiles = Callable[[Path, bool], Mapping[str, bytes]]  # a folder, and whether its vocabulary is cased

logger = logging.getLogger(__name__)


def convert(source: Path, target: Path, to: str, tokenizer_files: TokenizerFiles, allow_pickle: bool = False) -> None:
    """The new folder `target` holds the model of `source`: for "hf" in Hugging Face's layout and sealed, for "int8" the
    same with its matrices in 8 bits, which bertie alone opens, for "tf" as Google's code has it. Texts beside the model
    go along; where Google's vocabulary does, `tokenizer_files` gives what Hugging Face's layout has beside it."""
    if to not in ("hf", "int8", "tf"):
        raise ValueError(f"a folder is converted to hf, int8 or tf, not to {to!r}.")
    if target.exists():
        raise ValueError(f"{target} exists: give the name of a new folder.")
    source = model_folder(source)
    if not source.is_dir():
        raise ValueError(f"{source} is a file (unpack an archive first): a model is a folder.")
    is_google = not (source / CONFIG).exists()
    if is_google and to == "tf":
        raise ValueError(f"{source} has no {CONFIG}, so it is not in Hugging Face's layout, which is what becomes tf.")
    files = _texts_beside(source)
    if not files.keys() & {*VOCABULARIES, "tokenizer.json"}:
        logger.warning("%s holds no vocabulary, so %s will have none.", source, target)
    if is_google:
        model = read_google(source)
        cased = _is_cased(files[VOCABULARY]) if VOCABULARY in files else None
        files = files if cased is None else {**files, **tokenizer_files(source, cased)}
        save(target, model, files, as_int8=to == "int8")
    elif to == "tf":
        write_google(target, load(source, allow_pickle=allow_pickle), files)
    else:
        model = load(source, dtype=None, allow_pickle=allow_pickle)
        save(target, model, files, read_labels(source, model), as_int8=to == "int8")


def read_google(folder: Path) -> Model:
    """The model in a folder as Google released them: a TF checkpoint and the JSON of its shape."""
    checkpoint = find_checkpoint(folder)
    stored = list_tensors(checkpoint)
    kept = {name: one for name, one in stored.items() if not name.endswith(SLOTS)}
    if len(kept) < len(stored):
        logger.info("%s: %d tensors of the optimizer left out.", checkpoint, len(stored) - len(kept))
    config = _read_google_config(folder)
    tensors = as_dtype({name: read_tensor(one) for name, one in kept.items()}, torch.float32, checkpoint)
    try:
        heads = heads_from_tf(config, {name: one.shape for name, one in kept.items()})
        state = from_tf(config, heads, tensors)
    except ValueError as error:
        raise ValueError(f"{checkpoint}: {error}") from error
    model = Model(config, heads)
    fill(model, state, None, checkpoint)
    return model.eval()


def write_google(folder: Path, model: Model, files: Mapping[str, bytes]) -> None:
    """A folder that Google's code and TensorFlow open; of the files, those of the vocabulary go along."""
    tensors = to_tf(model.config, num_classes(model), model.state_dict())
    if model.config.norm_eps != GOOGLE_NORM_EPS:
        raise ValueError(f"norm_eps is {model.config.norm_eps}, but Google's code has only {GOOGLE_NORM_EPS}.")
    with replacing_folder(folder) as new:
        for name in files.keys() & VOCABULARIES:
            (new / name).write_bytes(files[name])
        name = GOOGLE_CONFIGS[model.config.family == "albert"]
        (new / name).write_text(json.dumps(_google_config(model.config), indent=2) + "\n", "utf-8")
        write_checkpoint(new / CHECKPOINT, tensors)


def _read_google_config(folder: Path) -> ModelConfig:
    found = [folder / name for name in GOOGLE_CONFIGS if (folder / name).exists()]
    if not found:
        raise ValueError(f"{folder} has neither {CONFIG} (Hugging Face's layout) nor {GOOGLE_CONFIGS[0]} (Google's).")
    values = read_json(found[0])
    stated = values.pop(ACTIVATION_KEY, GOOGLE_ACTIVATION["num_hidden_groups" in values])
    if values.get("hidden_act") == "gelu" and stated == "gelu_tanh":
        values["hidden_act"] = "gelu_new"
    return parse_config(values, found[0])


def _google_config(config: ModelConfig) -> dict[str, object]:
    """The shape in the keys of Google's modeling.py."""
    is_albert = config.family == "albert"
    values: dict[str, object] = {
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.width,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.inner_width,
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.num_segments,
        "initializer_range": config.initial_std,
    }
    if config.embedding_width is not None:
        values["embedding_size"] = config.embedding_width
    if config.feed_forward != GOOGLE_ACTIVATION[is_albert]:
        values[ACTIVATION_KEY] = config.feed_forward
    return values | ({"num_hidden_groups": 1, "inner_group_num": 1} if is_albert else {})


def _texts_beside(folder: Path) -> dict[str, bytes]:
    """What stands beside the model in its folder: the tokenizer's files, settings, words about it."""
    carried, left = {}, []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        is_model = (
            name in (CONFIG, SEAL, *GOOGLE_CONFIGS, "checkpoint") or ".ckpt" in name or name.endswith(".index.json")
        )
        is_weights = name.startswith(("model", "pytorch_model")) and path.suffix in (".safetensors", ".bin")
        is_part = path.suffix == ".safetensors" and path.parent != folder  # of a sentence model: `2_Dense/`
        if is_model or is_weights or name.startswith("."):
            continue
        if path.suffix in CARRIED_SUFFIXES or path.name in CARRIED_NAMES or is_part:
            carried[name] = path.read_bytes()
        else:
            left.append(name)
    if left:
        logger.info("%s: left out %s.", folder, ", ".join(left))
    return carried


def _is_cased(vocabulary: bytes) -> bool:
    """Google leaves it to its command line; but an uncased text brings no capitals into a vocabulary."""
    entries = vocabulary.decode("utf-8", "replace").split()
    is_cased = any(entry != entry.lower() and not entry.startswith("[") for entry in entries)
    logger.info("%s is taken to be %s.", VOCABULARY, "cased" if is_cased else "uncased: no entry has a capital")
    return is_cased
