"""Losses against the same thing written out one label at a time."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from bertie.model import losses


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).requires_grad_()


STARTS = torch.tensor([0, 4, 5, 9, 9, 9], dtype=torch.int32)  # the last two are not used


@pytest.mark.parametrize("loss", [losses.masked_loss, losses.pair_loss, losses.class_loss, losses.tag_loss])
def test_classes(loss: Callable[[Tensor, Tensor], losses.Loss]) -> None:
    logits = random(5, 3)
    total, count = loss(logits, torch.tensor([2, -100, 0, 1, -100]))
    expected = sum(cross_entropy(logits[row], torch.tensor(label)) for row, label in ((0, 2), (2, 0), (3, 1)))
    torch.testing.assert_close(total, expected)
    assert int(count) == 3


def test_numbers() -> None:
    logits = random(3, 1)
    total, count = losses.number_loss(logits, torch.tensor([1.5, float("nan"), -2.0]))
    torch.testing.assert_close(total, (logits[0, 0] - 1.5) ** 2 + (logits[2, 0] + 2) ** 2)
    assert int(count) == 2
    assert_finite_gradient(total, logits)


def test_sets_of_labels() -> None:
    logits = random(2, 2)
    total, count = losses.labels_loss(logits, torch.tensor([[0.0, 1.0], [float("nan"), float("nan")]]))
    torch.testing.assert_close(total, binary_cross_entropy_with_logits(logits[0], torch.tensor([0.0, 1.0])) * 2)
    assert int(count) == 2
    assert_finite_gradient(total, logits)


def test_spans() -> None:
    logits = random(9, 2)
    labels = torch.tensor([[1, 3], [-100, -100], [0, 2], [-100, -100], [-100, -100]])
    total, count = losses.span_loss(logits, STARTS, labels)
    expected = torch.zeros(())
    for start, end, first, last in ((0, 4, 1, 3), (5, 9, 0, 2)):
        expected = expected + cross_entropy(logits[start:end, 0], torch.tensor(first)) / 2
        expected = expected + cross_entropy(logits[start:end, 1], torch.tensor(last)) / 2
    torch.testing.assert_close(total, expected)
    assert int(count) == 2
    assert_finite_gradient(total, logits)


def unit(vector: Tensor) -> Tensor:
    return vector / vector.square().sum().sqrt()


def test_cosines() -> None:
    vectors = random(6, 4)
    total, count = losses.cosine_loss(vectors, torch.tensor([0.25, float("nan"), 1.0]))
    found = [unit(vectors[2 * row]) @ unit(vectors[2 * row + 1]) for row in range(3)]
    torch.testing.assert_close(total, (found[0] - 0.25) ** 2 + (found[2] - 1) ** 2)
    assert int(count) == 2
    assert_finite_gradient(total, vectors)


@pytest.mark.parametrize("own_only", [False, True])
@pytest.mark.parametrize(
    "texts",
    [
        [[0, 1], [2, 3], [4, 5]],
        [[0, 1, 2], [3, 4, 5], [6, 7, 8]],
        [[0, 1], [0, 3], [4, 1]],  # an equal first text, and an equal second one
        [[0, 1, 2], [1, 0, 5], [6, 2, 1]],  # the first text of one is the second of another, and a third of yet another
        [[0, 1, 2], [0, 4, 1], [6, 6, 8]],
    ],
)
def test_ranking(texts: list[list[int]], own_only: bool) -> None:
    table = random(9, 4)
    vectors = table[torch.tensor(texts).flatten()]
    total, count = losses.ranking_loss(vectors, torch.tensor(texts), 20.0, own_only)
    expected = torch.zeros(())
    for row, (first, second, *_) in enumerate(texts):
        right = {first, *(one[1] for one in texts if one[0] == first)}
        wrong = [text for one in (texts[row : row + 1] if own_only else texts) for text in one[1:]]
        others = [text for text in wrong if text not in right]
        scores = torch.stack([20 * unit(table[first]) @ unit(table[text]) for text in (second, *others)])
        expected = expected + cross_entropy(scores, torch.tensor(0))
    torch.testing.assert_close(total, expected)
    assert int(count) == len(texts)
    if total:  # a second text alone is always the nearest
        assert_finite_gradient(total, table)


def test_choices() -> None:
    scores = random(9)
    total, count = losses.choice_loss(scores, STARTS, torch.tensor([3, 0, -100, -100, -100]))
    torch.testing.assert_close(total, cross_entropy(scores[:4], torch.tensor(3)))  # one ending alone costs nothing
    assert int(count) == 2
    assert_finite_gradient(total, scores)


def test_large_scores_stay_finite() -> None:
    scores = (random(9) * 1e4).detach().requires_grad_()
    total, _ = losses.choice_loss(scores, STARTS, torch.tensor([3, 0, 1, -100, -100]))
    assert_finite_gradient(total, scores)


def test_half_precision_is_summed_in_float32() -> None:
    logits = random(6, 3).detach().bfloat16()
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    total, _ = losses.class_loss(logits, labels)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, cross_entropy(logits.float(), labels, reduction="sum"))


def assert_finite_gradient(total: Tensor, logits: Tensor) -> None:
    (gradient,) = torch.autograd.grad(total, logits)
    assert total.isfinite()
    assert gradient.isfinite().all()
    assert gradient.any()
