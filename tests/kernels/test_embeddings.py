"""The embeddings' sum and the gradients of their tables against torch's."""

import pytest
import torch

pytest.importorskip("triton")

from bertie.kernels.embeddings import embed, embed_backward
from bertie.kernels.products import PLAIN


def test_equals_torch(device: str) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = (50, 20, 2)
    tables = [torch.randn(size, 24, generator=generator).to(device).requires_grad_() for size in sizes]
    words, places, segments = (torch.randint(size, (37,), generator=generator).to(device) for size in sizes)
    given = torch.randn(37, 24, generator=generator).to(device)
    expected = tables[0][words] + tables[1][places] + tables[2][segments]
    detached = [table.detach() for table in tables]
    out = embed(detached[0], detached[1], detached[2], (words, places, segments), torch.float32)
    torch.testing.assert_close(out, expected)
    grads = embed_backward(given, (words, places, segments), sizes, PLAIN)
    for ours, theirs in zip(grads, torch.autograd.grad(expected, tables, given), strict=True):
        torch.testing.assert_close(ours, theirs)
