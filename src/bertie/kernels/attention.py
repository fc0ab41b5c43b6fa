"""Attention over flat tokens: the fast paths, and the table of names."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import pad, scaled_dot_product_attention

from bertie.kernels.plain import Pattern, plain, sequence_of_tokens

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, int, Pattern], Tensor]
BLOCK = 64  # tokens of a band that are computed together, at least; best of 64, 128, 256 on a CPU core with window 128
LONG = 2  # windows: in longer sequences the band is faster than all pairs with a mask


def attention_path(name: str) -> Attend:
    """The named path; ValueError for a name there is none of."""
    if name not in PATHS:
        raise ValueError(f"attention path {name!r} does not exist; allowed: {', '.join(PATHS)}.")
    return PATHS[name]


def sdpa(q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern) -> Tensor:
    """What `plain` gives, by torch's scaled_dot_product_attention, on any device."""
    is_cpu, window = q_NHK.device.type == "cpu", pattern.window
    if window is None or max_length <= window // 2 + 1:
        pattern = Pattern(pattern.causal, None, pattern.dropout)  # a window beyond every end is none
        attend = one_by_one if is_cpu else padded
    else:
        attend = one_by_one if is_cpu and max_length <= LONG * window else by_bands
    return attend(q_NHK, k_NHK, v_NHK, starts_S, max_length, pattern)


def varlen(q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern) -> Tensor:
    """What `plain` gives, by torch's variable-length FlashAttention: CUDA, half precision, no dropout."""
    if not q_NHK.is_cuda:
        raise ValueError(f"attention path 'varlen' needs a CUDA device, not {q_NHK.device.type}; use 'sdpa'.")
    if q_NHK.dtype not in (torch.bfloat16, torch.float16):
        raise ValueError(f"attention path 'varlen' needs bfloat16 or float16, not {q_NHK.dtype}; use 'sdpa'.")
    if pattern.dropout:
        raise ValueError(
            f"attention path 'varlen' has no dropout, but attention_dropout is {pattern.dropout}: "
            "make it 0, or use 'sdpa'."
        )
    reach = -1 if pattern.window is None else pattern.window // 2
    out_NHK = varlen_attn(
        q_NHK,
        k_NHK,
        v_NHK,
        starts_S,
        starts_S,
        max_length,
        max_length,
        window_size=(reach, 0 if pattern.causal else reach),
    )
    assert isinstance(out_NHK, Tensor), "no auxiliary output was asked for"
    return out_NHK


@torch.compiler.disable  # type: ignore[untyped-decorator]  # it reads the lengths, which would be compiled in
def one_by_one(
    q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern
) -> Tensor:
    """On the CPU: one call a sequence on views, nothing padded. Against padding 1.5 times faster at equal lengths, 2 to
    3 at mixed ones, 34 with one long among short (one Xeon core, 2026-11-18); `split`, since its gradient is one
    concatenation where a slice's is a tensor of zeros each."""
    lengths = starts_S.diff().tolist()
    seen_TT = None
    if pattern.window is not None:
        seen_TT = _distances(max_length, max_length, 0, starts_S.device).abs() <= pattern.window // 2
        seen_TT = seen_TT.tril() if pattern.causal else seen_TT
    q_SHTK, k_SHTK, v_SHTK = (torch.split(x_NHK.transpose(0, 1)[None], lengths, 2) for x_NHK in (q_NHK, k_NHK, v_NHK))
    outputs_S = [
        scaled_dot_product_attention(
            q_1HTK,
            k_1HTK,
            v_1HTK,
            attn_mask=None if seen_TT is None else seen_TT[:length, :length],
            dropout_p=pattern.dropout,
            is_causal=pattern.causal and seen_TT is None,
        )
        for length, q_1HTK, k_1HTK, v_1HTK in zip(lengths, q_SHTK, k_SHTK, v_SHTK, strict=True)
        if length
    ]
    return torch.cat(outputs_S, 2)[0].transpose(0, 1)


def padded(q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern) -> Tensor:
    """Every sequence padded to one length, in here only: fixed shapes, and the device is never asked for a number."""
    num_sequences, length = len(starts_S) - 1, -(-max_length // 8) * 8  # kernels want masks in steps of 8
    sequence_N = sequence_of_tokens(starts_S, len(q_NHK))
    tokens_N = torch.arange(len(q_NHK), device=q_NHK.device)
    places_N = sequence_N * length + tokens_N - starts_S[sequence_N]
    q_SHTK, k_SHTK, v_SHTK = (
        x_NHK.new_zeros(num_sequences * length, *x_NHK.shape[1:])
        .index_copy(0, places_N, x_NHK)
        .view(num_sequences, length, *x_NHK.shape[1:])
        .transpose(1, 2)
        for x_NHK in (q_NHK, k_NHK, v_NHK)
    )
    # A sequence that is not used sees its first place: a softmax over nothing is not a number, nor is its gradient.
    real_ST = torch.arange(length, device=q_NHK.device) < starts_S.diff().clamp(min=1)[:, None]
    out_SHTK = scaled_dot_product_attention(
        q_SHTK,
        k_SHTK,
        v_SHTK,
        attn_mask=None if pattern.causal else real_ST[:, None, None, :],  # what is padded stands behind what is real
        dropout_p=pattern.dropout,
        is_causal=pattern.causal,
    )
    return out_SHTK.transpose(1, 2).flatten(0, 1).index_select(0, places_N)


def by_bands(
    q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern
) -> Tensor:
    """With a window, over all sequences at once: each block of the flat tokens sees itself and the window around it, a
    mask keeps the sequences apart. Linear in N: 1.8 times faster than all pairs at 512 tokens, 28 at 8192 (window 128,
    one Xeon core, 2026-11-18)."""
    assert pattern.window is not None, "bands are for windows"
    reach = pattern.window // 2
    num_tokens, block = len(q_NHK), max(reach, BLOCK)
    rest = -num_tokens % block
    span = block + 2 * reach
    q_BHTK = pad(q_NHK, (0, 0, 0, 0, 0, rest)).reshape(-1, block, *q_NHK.shape[1:]).transpose(1, 2)
    k_BHTK, v_BHTK = (
        pad(x_NHK, (0, 0, 0, 0, reach, reach + rest)).unfold(0, span, block).transpose(2, 3) for x_NHK in (k_NHK, v_NHK)
    )
    # What fills the last block is a sequence of its own (-1), so that no softmax is over nothing; the margins are -2.
    sequence_N = pad(sequence_of_tokens(starts_S, num_tokens), (0, rest), value=-1)
    sequence_BT = sequence_N.view(-1, block)
    around_BT = pad(sequence_N, (reach, reach), value=-2).unfold(0, span, block)
    ahead_TT = _distances(block, span, -reach, q_NHK.device)
    seen_TT = (ahead_TT.abs() <= reach) & (ahead_TT <= 0 if pattern.causal else True)
    seen_BTT = (sequence_BT[:, :, None] == around_BT[:, None, :]) & seen_TT
    out_BHTK = scaled_dot_product_attention(
        q_BHTK, k_BHTK, v_BHTK, attn_mask=seen_BTT[:, None], dropout_p=pattern.dropout
    )
    return out_BHTK.transpose(1, 2).flatten(0, 1)[:num_tokens]


def _distances(num_rows: int, num_columns: int, first: int, device: torch.device) -> Tensor:
    """How far each column's token stands ahead of each row's, the first column `first` ahead of the first row."""
    rows, columns = torch.arange(num_rows, device=device), torch.arange(num_columns, device=device)
    return columns[None, :] + first - rows[:, None]


PATHS: dict[str, Attend] = {"plain": plain, "sdpa": sdpa, "varlen": varlen}
