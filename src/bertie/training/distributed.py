"""Who takes part in a run, what they tell each other, and how a model is spread over them; alone, nothing is sent.

The only reader of the environment: torchrun says there which rank this process is.
"""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

# The group that was left, held to the end of the process. DDP holds it too, and if it were the last to let go, it would
# wait, with Python's lock in hand, for a thread that needs that lock to let go of a tensor: for ever.
_left: list[dist.ProcessGroup | None] = []
atexit.register(_left.clear)


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    device: torch.device
    rank: int = 0
    count: int = 1

    def agree(self, numbers: Sequence[float]) -> list[float]:
        """The sums over all ranks. The hosts exchange them: no device is waited for."""
        total = torch.tensor(numbers, dtype=torch.float64)
        if self.count > 1:
            dist.all_reduce(total)
        return total.tolist()

    def sum(self, values: Tensor) -> Tensor:
        """The sums over all ranks, on the device, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def any(self, flag: Tensor) -> Tensor:
        """1 where any rank's flag is 1, on the device, in place: what one rank sees, all act on."""
        if self.count > 1:
            dist.all_reduce(flag, dist.ReduceOp.MAX)
        return flag


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """This process as torchrun started it, connected to the others until the block ends; without torchrun, alone.

    device: cpu, cuda or mps."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Ranks(torch.device(device))
        return
    if device == "mps":
        raise ValueError("torchrun started several processes, which device mps cannot serve: use one process.")
    place = torch.device(device)
    if device == "cuda":
        place = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(place)
    # Gloo beside NCCL, so that hosts can agree on a number without waiting for their devices.
    dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl")
    try:
        yield Ranks(place, dist.get_rank(), count)
    finally:
        _left.append(dist.group.WORLD)
        dist.destroy_process_group()


def spread(model: nn.Module, sharding: Literal["ddp", "fsdp"], ranks: Ranks) -> nn.Module:
    """The model as the ranks train it together: a copy on each (ddp), or each layer's weights divided (fsdp).

    Every trained weight must take part in every loss. Make the optimizers after this: fsdp replaces the parameters.
    """
    if ranks.count == 1:
        return model
    if sharding == "ddp":
        devices = [ranks.device] if ranks.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
    mesh = init_device_mesh(ranks.device.type, (ranks.count,))
    for stack in [module for module in model.modules() if isinstance(module, nn.ModuleList)]:
        for layer in stack:
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def bare(model: nn.Module) -> nn.Module:
    """The model without ddp's wrapping: its parameters have the same names for any number of ranks."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def set_up_process(threads: int | None, deterministic: bool) -> None:
    """Give torch so many threads of the processor (None: as many as it sees fit), and exact products. deterministic: a
    GPU gives the same to the bit each time, by its slower algorithms; the CPU does anyway."""
    if threads is not None:
        torch.set_num_threads(threads)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for; read when it starts
        torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("highest")


@contextmanager
def gradients_exchanged(model: nn.Module, is_last: bool) -> Iterator[None]:
    """The ranks exchange gradients in the backward pass of this block only if it is the step's last."""
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(is_last)
        yield
    elif isinstance(model, DistributedDataParallel) and not is_last:
        with model.no_sync():
            yield
    else:
        yield


def part(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor, sharing its memory; the tensor itself where it is not divided."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor, gathered from all ranks, which must all ask; the tensor itself where it is not divided."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_of_parts(part: Tensor, like: Tensor) -> Tensor:
    """The whole tensor of which every rank hands in its part, divided as `like` is."""
    if not isinstance(like, DTensor):
        return part
    mesh, placements = like.device_mesh, like.placements
    return DTensor.from_local(part, mesh, placements, shape=like.shape, stride=like.stride()).full_tensor()


def part_of_whole(whole: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a tensor that every rank holds whole, divided as `like` is."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None).to_local()


def norms(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """The Euclidean norm of each whole tensor, given this rank's parts, divided as `like` is."""
    each = torch.stack(torch._foreach_norm(list(parts)))
    if not isinstance(like, DTensor):
        return each
    squares = each.square()
    dist.all_reduce(squares, group=like.device_mesh.get_group())
    return squares.sqrt()
