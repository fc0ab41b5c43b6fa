"""Every path of attention gives what the plain one gives, forward and backward, over the cases that differ."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from bertie.kernels.attention import PATHS, Attend, attention_path, by_bands, padded, sdpa, varlen
from bertie.kernels.plain import Pattern, plain, sequence_of_tokens

LENGTHS = {
    "one": [9],
    "one of length 1": [1],
    "many": [5, 1, 12, 7, 3],
    "equal": [6, 6, 6],
    "not used": [4, 11, 0, 0, 0],
    "longer than a block": [150, 3, 70, 1],
    "blocks to the token": [60, 4, 64],
}
WHOLE = {"full": Pattern(), "causal": Pattern(causal=True)}
WINDOWS = {
    "local": Pattern(window=8),
    "local and causal": Pattern(causal=True, window=8),
    "window of 2": Pattern(window=2),
    "wide window": Pattern(window=160),
    "window beyond the end": Pattern(window=1000),
}
# `padded` and `by_bands` are what sdpa takes on a GPU; they run anywhere.
CASES = [
    *(pytest.param(sdpa, pattern, id=f"sdpa {name}") for name, pattern in {**WHOLE, **WINDOWS}.items()),
    *(pytest.param(padded, pattern, id=f"padded {name}") for name, pattern in WHOLE.items()),
    *(pytest.param(by_bands, pattern, id=f"by bands {name}") for name, pattern in WINDOWS.items()),
]
Made = tuple[Tensor, Tensor, Tensor, Tensor, int]


def make(lengths: list[int], dtype: torch.dtype = torch.float32, device: str = "cpu", width: int = 8) -> Made:
    """q, k, v as a fused projection gives them (views that are not contiguous), the starts, the longest length."""
    generator = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3, 2, width, generator=generator).to(device, dtype).requires_grad_()
    q, k, v = qkv.unbind(1)
    starts = torch.tensor([0, *lengths]).cumsum(0).int().to(device)
    return q, k, v, starts, max(lengths)


def results(attend: Attend, made: Made, pattern: Pattern) -> tuple[Tensor, ...]:
    """The output and the gradients of q, k, v for an upstream gradient that differs everywhere."""
    q, k, v, _, _ = made
    out = attend(*made, pattern)
    upstream = torch.arange(out.numel(), device=out.device).view(out.shape).sin().to(out.dtype)
    return (out.detach(), *torch.autograd.grad(out, (q, k, v), upstream))


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(("attend", "pattern"), CASES)
def test_equals_plain(attend: Attend, pattern: Pattern, lengths: list[int]) -> None:
    made = make(lengths)
    for ours, expected in zip(results(attend, made, pattern), results(plain, made, pattern), strict=True):
        torch.testing.assert_close(ours, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize(("attend", "pattern"), CASES)
def test_equals_plain_in_bfloat16(attend: Attend, pattern: Pattern) -> None:
    made = make([40, 3, 90], torch.bfloat16)
    exact = tuple(x.detach().float().requires_grad_() for x in made[:3])
    expected = results(plain, (*exact, *made[3:]), pattern)
    for ours, theirs in zip(results(attend, made, pattern), expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs, atol=0.04, rtol=0.04)


@pytest.mark.parametrize(("attend", "pattern"), [*CASES, pytest.param(plain, Pattern(), id="plain")])
def test_drops_probabilities(attend: Attend, pattern: Pattern) -> None:
    """With equal scores and one-hot values the output is the row of probabilities: some 0, the rest scaled up."""
    torch.manual_seed(0)
    q = torch.zeros(64, 2, 64)
    v = torch.eye(64)[:, None].expand(64, 2, 64).contiguous()
    starts = torch.tensor([0, 64], dtype=torch.int32)
    kept = attend(q, q, v, starts, 64, pattern)
    dropped = attend(q, q, v, starts, 64, Pattern(pattern.causal, pattern.window, dropout=0.25))
    is_zero = dropped == 0
    torch.testing.assert_close(torch.where(is_zero, 0, kept / 0.75), dropped)
    assert 0.15 < (is_zero & (kept > 0)).sum() / (kept > 0).sum() < 0.35
    assert not torch.equal(is_zero[:, 0], is_zero[:, 1]), "each head drops its own"


@pytest.mark.parametrize("attend", [padded, by_bands])
def test_never_asks_the_device_for_a_number(attend: Attend) -> None:
    with FakeTensorMode():  # raises where a value would have to be known
        q = torch.zeros(20, 2, 8)
        assert attend(q, q, q, torch.zeros(5, dtype=torch.int32), 7, Pattern(window=8)).shape == q.shape


def test_unused_sequences_change_nothing() -> None:
    q, k, v, starts, longest = make([4, 11, 0, 0])
    for attend in (plain, sdpa, padded):
        torch.testing.assert_close(
            attend(q, k, v, starts, longest, Pattern()), attend(q, k, v, starts[:3], 11, Pattern())
        )


def test_sequence_of_tokens() -> None:
    starts = torch.tensor([0, 3, 4, 6, 6, 6], dtype=torch.int32)
    assert sequence_of_tokens(starts, 6).tolist() == [0, 0, 0, 1, 2, 2]


def test_paths_by_name() -> None:
    assert list(PATHS) == ["plain", "sdpa", "varlen"]
    assert attention_path("sdpa") is sdpa
    with pytest.raises(ValueError, match="'flash' does not exist; allowed: plain, sdpa, varlen"):
        attention_path("flash")


@pytest.mark.parametrize(
    ("device", "dtype", "pattern", "message"),
    [
        ("cpu", torch.bfloat16, Pattern(), "needs a CUDA device, not cpu; use 'sdpa'"),
        ("cuda", torch.float32, Pattern(), r"needs bfloat16 or float16, not torch\.float32; use 'sdpa'"),
        ("cuda", torch.bfloat16, Pattern(dropout=0.1), r"has no dropout, but attention_dropout is 0\.1: make it 0"),
    ],
)
def test_varlen_refuses_what_it_has_not(device: str, dtype: torch.dtype, pattern: Pattern, message: str) -> None:
    with FakeTensorMode(), pytest.raises(ValueError, match=message):
        q = torch.empty(20, 2, 8, device=device, dtype=dtype)
        varlen(q, q, q, torch.empty(4, device=device, dtype=torch.int32), 9, pattern)


@pytest.mark.parametrize("pattern", [*WHOLE.values(), *WINDOWS.values()], ids=[*WHOLE, *WINDOWS])
def test_varlen_is_called_as_this_torch_wants_it(pattern: Pattern) -> None:
    with FakeTensorMode():
        q = torch.empty(20, 2, 8, device="cuda", dtype=torch.bfloat16)
        out = varlen(q, q, q, torch.empty(4, device="cuda", dtype=torch.int32), 9, pattern)
        assert (out.shape, out.dtype) == (q.shape, q.dtype)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("pattern", [*WHOLE.values(), *WINDOWS.values()], ids=[*WHOLE, *WINDOWS])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("attend", [varlen, sdpa])
def test_equals_plain_on_cuda(attend: Attend, lengths: list[int], pattern: Pattern) -> None:
    made = make(lengths, torch.bfloat16, "cuda", width=64)
    exact = tuple(x.detach().float().requires_grad_() for x in made[:3])
    expected = results(plain, (*exact, *made[3:]), pattern)
    for ours, theirs in zip(results(attend, made, pattern), expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs, atol=0.04, rtol=0.04)
