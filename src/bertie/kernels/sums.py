"""The sum of each column: the gradient of a bias. Gained: not measured yet."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from bertie.kernels.sequences import num_processors

ROWS, COLUMNS = 16, 256  # at a time


def column_sums(x_NF: Tensor) -> Tensor:
    """The sum over the rows, in float32 (F)."""
    num_rows, width = x_NF.shape
    assert x_NF.stride(1) == 1
    num_parts = triton.cdiv(width, COLUMNS)
    num_programs = min(triton.cdiv(8 * num_processors(x_NF.device), num_parts), triton.cdiv(num_rows, ROWS))
    partial_BF = torch.empty(num_programs, width, dtype=torch.float32, device=x_NF.device)
    _column_sums[num_parts, num_programs](
        x_NF, partial_BF, num_rows, x_NF.stride(0), width, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=4
    )
    return partial_BF.sum(0)


@triton.jit(do_not_specialize=["num_rows"])
def _column_sums(x, partial, num_rows, stride, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < width
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in tl.range(tl.program_id(1) * ROWS, num_rows, tl.num_programs(1) * ROWS, num_stages=3):
        rows = first + tl.arange(0, ROWS)
        is_real = (rows < num_rows)[:, None] & is_column[None, :]
        total += tl.load(x + rows.to(tl.int64)[:, None] * stride + columns[None, :], is_real, 0.0).to(tl.float32)
    tl.store(partial + tl.program_id(1) * width + columns, tl.sum(total, 0), is_column)
