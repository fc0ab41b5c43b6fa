"""Which kernels are the best ones for a model and a device."""

import pytest
import torch

from bertie.model.config import preset
from bertie.model.kernels import best_kernels

GPU = torch.device("cuda")


def test_the_processor_has_the_plain_ones() -> None:
    assert best_kernels(preset("bert-base"), torch.device("cpu"), "bf16") == "plain"


def test_a_gpu_has_the_fused_ones_where_model_precision_and_chip_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    capability = (9, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert best_kernels(preset("bert-base"), GPU, "bf16") == "fused"
    assert best_kernels(preset("bert-base"), GPU, "float32") == "plain"
    assert best_kernels(preset("modernbert-base"), GPU, "bf16") == "plain"
    capability = (8, 0)
    assert best_kernels(preset("bert-base"), GPU, "bf16") == "plain"
