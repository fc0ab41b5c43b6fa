"""Attention as the paper writes it, one sequence after the other: what every fast path is compared with."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Pattern:
    """Which tokens of its own sequence a token sees, and how many of the probabilities are dropped."""

    causal: bool = False  # only itself and what stands before it
    window: int | None = None  # only tokens at most window // 2 away
    dropout: float = 0.0


def plain(q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern) -> Tensor:
    """Each token's average of the values it sees (N, H, K), weighted by softmax(q k / sqrt(K))."""
    return attend_and_show(q_NHK, k_NHK, v_NHK, starts_S, max_length, pattern)[0]


def attend_and_show(
    q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern
) -> tuple[Tensor, list[Tensor]]:
    """What `plain` gives, and the probabilities before dropout: one (H, T, T) for each sequence that is not empty."""
    outputs, shown = [], []
    for start, end in pairwise(starts_S.tolist()):
        if start == end:
            continue
        assert end - start <= max_length, "max_length is shorter than a sequence"
        q_HTK, k_HTK, v_HTK = (x_NHK[start:end].transpose(0, 1) for x_NHK in (q_NHK, k_NHK, v_NHK))
        scores_HTT = q_HTK @ k_HTK.transpose(1, 2) * q_HTK.shape[-1] ** -0.5
        hidden_TT = ~_seen(end - start, pattern, q_NHK.device)
        probabilities_HTT = scores_HTT.masked_fill(hidden_TT, float("-inf")).softmax(-1)
        shown.append(probabilities_HTT)
        outputs.append((functional.dropout(probabilities_HTT, pattern.dropout) @ v_HTK).transpose(0, 1))
    return torch.cat(outputs), shown


def sequence_of_tokens(starts_S: Tensor, num_tokens: int) -> Tensor:
    """The number of the sequence that each token belongs to (N)."""
    tokens_N = torch.arange(num_tokens, device=starts_S.device, dtype=starts_S.dtype)
    return torch.searchsorted(starts_S[1:].contiguous(), tokens_N, right=True)


def _seen(length: int, pattern: Pattern, device: torch.device) -> Tensor:
    """Whether the token of each row sees that of each column."""
    positions_T = torch.arange(length, device=device)
    ahead_TT = positions_T[None, :] - positions_T[:, None]
    seen_TT = torch.ones_like(ahead_TT, dtype=torch.bool)
    if pattern.causal:
        seen_TT &= ahead_TT <= 0
    if pattern.window is not None:
        seen_TT &= ahead_TT.abs() <= pattern.window // 2
    return seen_TT
