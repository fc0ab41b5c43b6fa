"""The model that a run trains: a folder's encoder with the task's head, set to learn as far as is asked for."""

import logging
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from bertie.model.config import Features, ModelConfig
from bertie.model.folder import fill, load, read_labels
from bertie.model.heads import Model, draw_values
from bertie.model.lora import add_lora
from bertie.tasks.embed import SENTENCE_MODULES, Embed
from bertie.tasks.named import AnyTask
from bertie.tasks.network import heads_of
from bertie.tasks.recipe import FinetuneRecipe, ModeConfig

logger = logging.getLogger(__name__)


def make_model(folder: Path, task: AnyTask, recipe: FinetuneRecipe) -> Model:
    """The folder's encoder with the task's head: the folder's own if it has one for the same labels, else a new one."""
    found = load(folder)
    if task.max_length > found.config.max_positions:
        raise ValueError(
            f"max_length is {task.max_length}, but {folder} has {found.config.max_positions} positions: make it "
            "smaller with --set max_length=N."
        )
    if isinstance(task, Embed) and recipe.mode.is_frozen:
        raise ValueError("embed has no head that could learn alone: leave layers to learn, or use LoRA.")
    if isinstance(task, Embed) and (folder / SENTENCE_MODULES).exists():
        logger.info(
            "%s is a folder of sentence-transformers: its own pooling and what follows it are left out; pooling is %s.",
            *(folder, task.pooling),
        )
    config = _config(found.config, task, recipe)
    own = found.shapes.get(task.head)
    if own and task.labels and read_labels(folder, found).names != task.labels:
        logger.warning("%s has a head for other labels: it is left out.", folder)
        own = None
    left_out = ["heads.features."] if found.config.features != config.features else []
    if not own or left_out:
        left_out.append(f"heads.{task.head}.")
    state = {name: one for name, one in found.state_dict().items() if not name.startswith(tuple(left_out))}
    model = Model(config, heads_of(task), recipe.attention)
    generator = torch.Generator().manual_seed(recipe.seed)
    fill(model, state, generator, folder)
    set_to_learn(model, recipe.mode, generator)
    return model


def _config(config: ModelConfig, task: AnyTask, recipe: FinetuneRecipe) -> ModelConfig:
    mode = recipe.mode
    layers, lstm_width = mode.features or "last", mode.lstm_width if mode.head == "bilstm" else 0
    is_as_ever = layers == "last" and not lstm_width and task.head in ("tag", "span")  # what the family's head is
    features = Features(layers, lstm_width) if mode.reads_features and not is_as_ever else None
    config = replace(config, features=features)
    if recipe.dropout is not None:
        config = replace(config, dropout=recipe.dropout, attention_dropout=recipe.dropout)
    return config


def set_to_learn(model: Model, mode: ModeConfig, generator: torch.Generator) -> None:
    """Begin the layers anew that the mode says, and leave to learn what it says; the rest stays as it is."""
    num_layers = model.config.num_layers
    for name, count in (("train_layers", mode.train_layers), ("reinitialise", mode.reinitialise)):
        if count is not None and count > num_layers:
            raise ValueError(f"{name} is {count}, but the model has {num_layers} layers.")
        if count and model.config.shared_layers and count < num_layers:
            raise ValueError(f"{name} is {count}, but all layers of this model are one: say 0 or {num_layers}.")
    if mode.reinitialise:
        _begin_anew(model, mode.reinitialise, generator)
    if mode.lora_rank:
        model.encoder.requires_grad_(False)
        add_lora(model.encoder, mode.lora_matrices, mode.lora_rank, mode.lora_alpha, generator)
    elif mode.is_frozen or mode.train_layers is not None:
        _freeze(model, mode.train_layers or 0)


def _begin_anew(model: Model, count: int, generator: torch.Generator) -> None:
    layers = model.encoder.layers
    for number in range(max(0, len(layers) - count), len(layers)):
        draw_values(layers[number], f"encoder.layers.{number}", model.config, generator)
    if "pooler" in model.heads:
        draw_values(model.heads["pooler"], "heads.pooler", model.config, generator)


def _freeze(model: Model, num_learning: int) -> None:
    """All but the top layers and the heads neither learns nor drops anything out."""
    encoder = model.encoder
    num_frozen = model.config.num_layers - num_learning
    frozen: list[nn.Module] = [encoder.embeddings, *(encoder.layers[:num_frozen] if num_frozen else [])]
    if not num_learning:
        frozen.append(encoder.norm)
    for part in frozen:
        part.requires_grad_(False)
        for module in part.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    encoder.patterns = [
        replace(pattern, dropout=0.0) if number < num_frozen else pattern
        for number, pattern in enumerate(encoder.patterns)
    ]
