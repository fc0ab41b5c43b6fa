"""Vectors in the plane in which they spread most, and the word table drawn in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, pad

from bertie.model.heads import Model
from bertie.report.reading import PAIR
from bertie.text.wordpiece import Tokenizer

NUM_PIECES = 2000  # of the vocabulary in the picture, beside those of the texts
NUM_NEAREST = 5


@dataclass(frozen=True)
class Plane:
    """The first two principal components: the place of each vector, and the share of the variance along each."""

    places_N2: Tensor
    shares: tuple[float, float]


def to_plane(vectors_ND: Tensor) -> Plane:
    """The vectors' principal components; of the two signs that each could have, the one that makes its largest
    loading positive."""
    centred_ND = vectors_ND.double() - vectors_ND.double().mean(0)
    variances, axes_2D = _strongest(centred_ND)
    largest = axes_2D.gather(1, axes_2D.abs().argmax(1, keepdim=True))
    axes_2D = torch.where(largest < 0, -axes_2D, axes_2D)
    first, second = (variances / centred_ND.square().sum().clamp(min=1e-30)).tolist()
    return Plane(centred_ND @ axes_2D.T, (first, second))


def _strongest(centred_ND: Tensor) -> tuple[Tensor, Tensor]:
    """The two directions along which the vectors vary most (2 D), and the sums of squares along them; 0 for what there
    is not."""
    num_vectors, width = centred_ND.shape
    if num_vectors > width:  # of a word table: four times as fast as the decomposition of the table itself
        squares, axes_DD = torch.linalg.eigh(centred_ND.T @ centred_ND)
        squares, axes = squares.flip(0), axes_DD.flip(1).T
    else:
        _, sizes, axes = torch.linalg.svd(centred_ND, full_matrices=False)
        squares = sizes.square()
    missing = max(0, 2 - len(squares))
    return pad(squares, (0, missing))[:2], pad(axes, (0, 0, 0, missing))[:2]


@dataclass(frozen=True)
class Table:
    """Some pieces of a vocabulary in the plane in which the whole of it spreads most. own: the numbers, in these
    lists, of the pieces that the texts have, each with its nearest of all pieces by cosine."""

    pieces: list[str]
    kinds: list[str]
    points: list[list[float]]
    own: dict[int, list[tuple[str, float]]]
    shares: tuple[float, float]
    num_entries: int


@torch.inference_mode()
def view_table(texts: Sequence[str], tokenizer: Tokenizer, model: Model) -> Table:
    """The word table: the texts' own pieces, and of the others every so many."""
    table_VE = model.encoder.embeddings.words.weight[: tokenizer.size]
    plane = to_plane(table_VE)
    used = {id_ for text in texts for part in text.split(PAIR, 1) for id_ in tokenizer.pieces(part).ids}
    ids = sorted(used | set(range(0, tokenizer.size, -(-tokenizer.size // NUM_PIECES))))
    pieces, goes_on = tokenizer.vocabulary, tokenizer.is_continuation
    return Table(
        pieces=[pieces[id_] for id_ in ids],
        kinds=[kind_of(pieces[id_], bool(goes_on[id_])) for id_ in ids],
        points=rounded(plane.places_N2[ids]),
        own={at: _nearest(id_, table_VE, pieces) for at, id_ in enumerate(ids) if id_ in used},
        shares=plane.shares,
        num_entries=tokenizer.size,
    )


def _nearest(id_: int, table_VE: Tensor, pieces: Sequence[str]) -> list[tuple[str, float]]:
    cosines_V = cosine_similarity(table_VE, table_VE[id_], dim=-1)
    cosines_V[id_] = -2.0
    nearest = cosines_V.topk(min(NUM_NEAREST, len(cosines_V)))
    found = zip(nearest.indices.tolist(), nearest.values.tolist(), strict=True)
    return [(pieces[at], round(one, 4)) for at, one in found if at != id_]


def rounded(places_N2: Tensor) -> list[list[float]]:
    """Places to a ten-thousandth of the widest spread."""
    widest = float(places_N2.abs().max()) or 1.0
    return [[round(x / widest, 4), round(y / widest, 4)] for x, y in places_N2.tolist()]


def kind_of(piece: str, is_continuation: bool) -> str:
    """What a piece of the vocabulary is, by its spelling."""
    if is_continuation:
        return "continuation"
    if not piece.isalpha():
        return "other"
    return "character" if len(piece) == 1 else "word"
