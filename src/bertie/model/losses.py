"""One loss a head. Each gives the sum over what counts and how much counts, both on the device, so that a batch may be
split over steps and machines and still be divided once; what is labelled -100 (a number: NaN) does not count."""

import torch
from torch import Tensor
from torch.nn import functional

from bertie.kernels.plain import sequence_of_tokens

NONE = -100

Loss = tuple[Tensor, Tensor]


def masked_loss(logits_MV: Tensor, labels_M: Tensor) -> Loss:
    """Cross-entropy of the masked words."""
    return _cross_entropy(logits_MV, labels_M)


def pair_loss(logits_SC: Tensor, labels_S: Tensor) -> Loss:
    """Cross-entropy of the sentence pairs: 0 the next sentence (or the right order), 1 not."""
    return _cross_entropy(logits_SC, labels_S)


def class_loss(logits_SC: Tensor, labels_S: Tensor) -> Loss:
    """Cross-entropy of each text's class."""
    return _cross_entropy(logits_SC, labels_S)


def tag_loss(logits_NC: Tensor, labels_N: Tensor) -> Loss:
    """Cross-entropy of each token's tag."""
    return _cross_entropy(logits_NC, labels_N)


def number_loss(logits_S1: Tensor, numbers_S: Tensor) -> Loss:
    """Squared error, where the class head has one output and the label is a number."""
    return _sum_where_labelled((logits_S1.float().squeeze(-1) - numbers_S.nan_to_num()) ** 2, numbers_S)


def labels_loss(logits_SC: Tensor, labels_SC: Tensor) -> Loss:
    """Binary cross-entropy of each class by itself, where a text may have several, or of each token's having been
    replaced: labels 0.0 and 1.0."""
    known_SC = labels_SC.nan_to_num()
    losses_SC = functional.binary_cross_entropy_with_logits(logits_SC.float(), known_SC, reduction="none")
    return _sum_where_labelled(losses_SC, labels_SC)


def span_loss(logits_N2: Tensor, starts_S: Tensor, spans_S2: Tensor) -> Loss:
    """Cross-entropy of the answer's first and last token, averaged over the two; the tokens of a sequence compete.
    Labels are counted from the sequence's own first token."""
    log_probabilities_N2 = _log_softmax_by_group(logits_N2, starts_S)
    is_labelled_S = (spans_S2 != NONE).all(-1)
    tokens_S2 = torch.where(is_labelled_S[:, None], starts_S[:-1, None] + spans_S2, 0)
    losses_S = -log_probabilities_N2.gather(0, tokens_S2).mean(-1)
    return torch.where(is_labelled_S, losses_S, 0.0).sum(), is_labelled_S.sum()


def choice_loss(scores_S: Tensor, starts_B: Tensor, labels_B: Tensor) -> Loss:
    """Cross-entropy of the right ending; the endings of question b are the sequences starts_B[b] to starts_B[b + 1]."""
    log_probabilities_S = _log_softmax_by_group(scores_S[:, None], starts_B)[:, 0]
    is_labelled_B = labels_B != NONE
    losses_B = -log_probabilities_S[torch.where(is_labelled_B, starts_B[:-1] + labels_B, 0)]
    return torch.where(is_labelled_B, losses_B, 0.0).sum(), is_labelled_B.sum()


def cosine_loss(vectors_SD: Tensor, cosines_B: Tensor) -> Loss:
    """Squared error of the cosine of each pair of texts, whose vectors stand one after the other."""
    first_BD, second_BD = vectors_SD.float().view(len(cosines_B), 2, -1).unbind(1)
    found_B = functional.cosine_similarity(first_BD, second_BD, dim=-1)
    return _sum_where_labelled((found_B - cosines_B.nan_to_num()) ** 2, cosines_B)


def ranking_loss(vectors_SD: Tensor, texts_BK: Tensor, scale: float, is_own_only: bool = False) -> Loss:
    """Cross-entropy of each row's second text among the second and later texts of all rows, by their cosines with its
    first text times `scale`; with is_own_only, of its own row alone.

    texts_BK: the number of each text, whose vectors stand row by row; equal texts have the same. What is right too
    does not compete: the second texts of rows with an equal first one, and that one itself.
    """
    num_rows, num_texts = texts_BK.shape
    vectors_BKD = functional.normalize(vectors_SD.float(), dim=-1).view(num_rows, num_texts, -1)
    candidates_CD = vectors_BKD[:, 1:].transpose(0, 1).flatten(0, 1)  # all second ones, then all third ones
    texts_C = texts_BK[:, 1:].T.flatten()
    rows_B = torch.arange(num_rows, device=vectors_SD.device)
    is_same_first_BB = texts_BK[:, :1] == texts_BK[:, 0]
    is_second_BC = texts_BK[:, 1:2] == texts_C
    is_left_out_BC = (is_same_first_BB.float() @ is_second_BC.float() > 0) | (texts_BK[:, :1] == texts_C)
    if is_own_only:
        is_left_out_BC |= rows_B[:, None] != rows_B.repeat(num_texts - 1)
    is_left_out_BC[rows_B, rows_B] = False  # the own second text
    scores_BC = (scale * vectors_BKD[:, 0] @ candidates_CD.T).masked_fill(is_left_out_BC, -torch.inf)
    return _cross_entropy(scores_BC, rows_B)


def _cross_entropy(logits_C: Tensor, labels: Tensor) -> Loss:
    loss = functional.cross_entropy(logits_C.float(), labels, ignore_index=NONE, reduction="sum")
    return loss, (labels != NONE).sum()


def _sum_where_labelled(losses: Tensor, labels: Tensor) -> Loss:
    is_labelled = ~labels.isnan()
    return torch.where(is_labelled, losses, 0.0).sum(), is_labelled.sum()


def _log_softmax_by_group(logits_NC: Tensor, starts_S: Tensor) -> Tensor:
    """Log-softmax over the rows of each group, column by column; group s is rows starts_S[s] to starts_S[s + 1]."""
    logits_NC = logits_NC.float()
    group_N = sequence_of_tokens(starts_S, len(logits_NC))
    group_NC = group_N[:, None].expand_as(logits_NC)
    zeros_SC = logits_NC.new_zeros(len(starts_S) - 1, logits_NC.shape[1])
    largest_SC = zeros_SC.scatter_reduce(0, group_NC, logits_NC.detach(), "amax", include_self=False)
    shifted_NC = logits_NC - largest_SC[group_N]
    sums_SC = zeros_SC.index_add(0, group_N, shifted_NC.exp())
    return shifted_NC - sums_SC.log()[group_N]
