"""Everything needed to go on, saved as one folder a step: whole and sealed, or not there."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from bertie.sealed import replacing_folder, seal, unseal
from bertie.training.distributed import Ranks, bare, part, part_of_whole, whole
from bertie.training.loop import State

log = logging.getLogger(__name__)

TENSORS, SEAL = "state.safetensors", "state.json"
COUNTERS = ("step", "batches", "tokens", "seconds", "place")


def save_state(folder: Path, model: nn.Module, state: State, ranks: Ranks, keep: int) -> None:
    """Write `folder/step-N` and remove all but the newest `keep`. Every rank must call it; the first one writes."""
    tensors = collect(model, state)
    if ranks.rank > 0:
        return
    target = folder / f"step-{state.step}"
    with saying_what_is_left(target, folder), replacing_folder(target) as partial:
        save_file(tensors, partial / TENSORS)
        counters = {name: getattr(state, name) for name in COUNTERS}
        seal(partial, SEAL, counters)
    _remove_hidden(folder)
    for old in saved_states(folder)[keep:]:
        old.rename(old.with_name(f".{old.name}.old"))  # out of sight: half of it must not look like a state
    _remove_hidden(folder)


def _remove_hidden(folder: Path) -> None:
    """Remove what is on its way out, and what a kill left half written or half removed."""
    for path in folder.glob(".step-*"):
        shutil.rmtree(path)


@contextmanager
def saying_what_is_left(target: Path, states: Path) -> Iterator[None]:
    """Where the block cannot write, a full disk say, the ValueError names the saved state there is to go on from."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        saved = [path.name for path in saved_states(states)]
        good = f"The last good state is {saved[0]}" if saved else "No state was saved before"
        raise ValueError(
            f"{target} cannot be written: {reason}. {good}: make room, then go on with --resume."
        ) from error


def load_state(folder: Path, model: nn.Module, state: State, ranks: Ranks) -> bool:
    """Put the newest whole saved state into the model and the run; False, and nothing done, if none was ever saved."""
    path, counters = _newest_whole(folder) or (folder, {"step": -1})
    step = _number(counters, "step")
    if ranks.agree([step]) != [step * ranks.count]:
        raise ValueError(f"The ranks see different states in {folder}: it must be on a disk that they all share.")
    if step < 0:
        return False
    restore(load_file(path / TENSORS), model, state)
    state.step, state.batches = int(step), int(_number(counters, "batches"))
    state.tokens, state.seconds = int(_number(counters, "tokens")), _number(counters, "seconds")
    place = counters["place"]
    assert isinstance(place, list)
    state.place = (place[0], place[1])
    return True


def _newest_whole(folder: Path) -> tuple[Path, dict[str, object]] | None:
    """The newest saved state that is as it was written, and its counters; None if there is no state at all."""
    saved = saved_states(folder)
    for path in saved:
        try:
            return path, unseal(path, SEAL)
        except (ValueError, FileNotFoundError) as error:
            log.warning("%s The state saved before it is taken instead.", error)
    if saved:
        raise ValueError(f"None of the states saved in {folder} is whole: start again in a new folder.")
    return None


def _number(counters: Mapping[str, object], name: str) -> float:
    number = counters[name]
    assert isinstance(number, int | float)
    return number


def saved_states(folder: Path) -> list[Path]:
    """The saved states, newest first."""
    return sorted(folder.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")), reverse=True)


def collect(model: nn.Module, state: State) -> dict[str, Tensor]:
    """All tensors of a run by name, whole, on the CPU: weights, what the optimizers remember, what the loop does."""
    tensors: dict[str, Tensor] = {"loop/recent_losses": state.recent_losses, "loop/num_skips": state.num_skips}
    tensors |= {f"weights/{name}": tensor for name, tensor in _weights(model)}
    for name, (optimizer, parameter) in _owners(model, state).items():
        tensors |= {f"optimizer/{name}/{key}": tensor for key, tensor in optimizer.state[parameter].items()}
    return {name: whole(tensor.detach()).cpu().contiguous() for name, tensor in tensors.items()}


@torch.no_grad()
def restore(tensors: Mapping[str, Tensor], model: nn.Module, state: State) -> None:
    """Put the tensors back where `collect` found them, divided among the ranks as the model is now."""
    weights, owners = dict(_weights(model)), _owners(model, state)
    shapes = {name: tensor.shape for name, tensor in tensors.items() if name.startswith("weights/")}
    if shapes != {f"weights/{name}": tensor.shape for name, tensor in weights.items()}:
        raise ValueError(
            "The saved state is of another model: its weights have other names or other shapes. Give the recipe that "
            "the run was begun with, or begin a new run."
        )
    for name, weight in weights.items():
        part(weight).copy_(part_of_whole(tensors[f"weights/{name}"].to(weight.device), weight))
    for name, tensor in tensors.items():
        if name.startswith("optimizer/"):
            owner, _, key = name.removeprefix("optimizer/").rpartition("/")
            if owner not in owners:
                raise ValueError(
                    f"The saved state is of another optimizer: it remembers {owner}, which is not here. Give the rule "
                    "that the run was begun with, or begin a new run."
                )
            optimizer, parameter = owners[owner]
            optimizer.state[parameter][key] = _divided_as(parameter, tensor.to(parameter.device))
    state.recent_losses, state.num_skips = tensors["loop/recent_losses"], tensors["loop/num_skips"]


def _weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights that are tied come once."""
    yield from bare(model).named_parameters()
    yield from bare(model).named_buffers()


def _owners(model: nn.Module, state: State) -> dict[str, tuple[Optimizer, nn.Parameter]]:
    """Each trained parameter with its optimizer, under the names of both."""
    names = {parameter: name for name, parameter in bare(model).named_parameters()}
    return {
        f"{type(optimizer).__name__}/{names[parameter]}": (optimizer, parameter)
        for optimizer in state.optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def _divided_as(parameter: nn.Parameter, tensor: Tensor) -> Tensor:
    if tensor.shape != parameter.shape:  # a count of steps, which each rank keeps whole
        return tensor
    divided = torch.zeros_like(parameter)
    part(divided).copy_(part_of_whole(tensor, parameter))
    return divided
