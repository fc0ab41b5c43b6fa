import pytest
import torch

from bertie.model.rows8 import from_rows8, to_rows8


def test_each_number_is_within_half_a_step_of_its_row() -> None:
    rows_RC = torch.randn(40, 64, generator=torch.Generator().manual_seed(0)) * torch.logspace(-6, 3, 40)[:, None]
    rows_RC[7] = 0.0
    packed = to_rows8({"table": rows_RC})
    assert packed["table"].dtype == torch.int8
    steps_R1 = rows_RC.abs().amax(1, keepdim=True) / 127
    back_RC = from_rows8(packed)["table"]
    assert ((back_RC - rows_RC).abs() <= 0.5001 * steps_R1).all()
    assert not back_RC[7].any()
    # The largest number of a row is exact but for rounding: no row is shortened.
    torch.testing.assert_close(back_RC.abs().amax(1), rows_RC.abs().amax(1))


def test_vectors_and_numbers_stay() -> None:
    tensors = {"bias": torch.tensor([1.5, -2.25]), "steps": torch.tensor([[3, 4]])}
    back = from_rows8(to_rows8(tensors))
    assert torch.equal(back["bias"], tensors["bias"])
    assert torch.equal(back["steps"], tensors["steps"])


@pytest.mark.parametrize("scales", [{}, {"table.scales": torch.ones(2)}])
def test_scales_that_do_not_fit_are_refused(scales: dict[str, torch.Tensor]) -> None:
    with pytest.raises(ValueError, match=r"table is in 8 bits, but table\.scales is missing or not one number a row"):
        from_rows8({"table": torch.ones(3, 2, dtype=torch.int8), **scales})
