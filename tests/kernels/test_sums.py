"""Sums of columns against torch's."""

import pytest
import torch

pytest.importorskip("triton")

from bertie.kernels.sums import column_sums


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("num_rows", "width"), [(1, 8), (70, 24), (33, 300)])
def test_equals_torch(num_rows: int, width: int, dtype: torch.dtype, device: str) -> None:
    x = torch.randn(num_rows, width + 8, generator=torch.Generator().manual_seed(0)).to(device, dtype)[:, :width]
    torch.testing.assert_close(column_sums(x), x.float().sum(0), atol=1e-5, rtol=1e-5)
