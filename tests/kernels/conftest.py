"""Kernels run compiled where there is a GPU and through Triton's interpreter elsewhere."""

import pytest
import torch


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
