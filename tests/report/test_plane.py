from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from bertie.model.folder import load
from bertie.report.plane import kind_of, to_plane, view_table
from bertie.text.wordpiece import Tokenizer


@pytest.mark.parametrize("shape", [(50, 7), (7, 50), (8, 8), (3, 2)])
def test_the_plane_is_that_of_the_principal_components(shape: tuple[int, int]) -> None:
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * torch.linspace(1, 3, shape[1])
    plane, peer = to_plane(vectors), PCA(2).fit(vectors.numpy().astype(np.float64))
    theirs = peer.transform(vectors.numpy().astype(np.float64))
    np.testing.assert_allclose(plane.shares, peer.explained_variance_ratio_, atol=1e-6)
    for ours, expected in zip(plane.places_N2.T.numpy(), theirs.T, strict=True):
        np.testing.assert_allclose(ours * np.sign(ours @ expected), expected, atol=1e-5)


def test_the_sign_of_a_component_is_given_by_its_largest_loading() -> None:
    vectors = torch.tensor([[0.0, 0.0], [1.0, -3.0], [2.0, -6.1]])
    np.testing.assert_allclose(to_plane(vectors).places_N2.numpy(), -to_plane(-vectors).places_N2.numpy(), atol=1e-9)
    assert to_plane(vectors).places_N2[0, 0] > 0, "the second number is the largest and falls"


@pytest.mark.parametrize("vectors", [torch.ones(1, 5), torch.ones(4, 5), torch.ones(9, 1)])
def test_what_does_not_spread_lies_in_the_middle(vectors: torch.Tensor) -> None:
    plane = to_plane(vectors)
    assert plane.places_N2.tolist() == [[0, 0]] * len(vectors)
    assert plane.shares == (0, 0)


def test_the_table_has_the_pieces_of_the_texts_and_their_nearest(example_folder: Path) -> None:
    tokenizer, model = Tokenizer.load(example_folder / "my-bert"), load(example_folder / "my-bert")
    table = view_table(["the value ||| of"], tokenizer, model)
    assert [table.pieces[at] for at in table.own] == sorted(["the", "value", "of"], key=tokenizer.vocabulary.index)
    assert table.num_entries == tokenizer.size == len(table.pieces), "so small a vocabulary is shown whole"
    rows = model.encoder.embeddings.words.weight.detach().numpy()
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for at, near in table.own.items():
        id_ = tokenizer.vocabulary.index(table.pieces[at])
        order = np.argsort(-(rows @ rows[id_]))
        assert [piece for piece, _ in near] == [tokenizer.vocabulary[one] for one in order if one != id_][: len(near)]


def test_of_a_large_vocabulary_every_so_many_pieces_are_shown(
    example_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertie.report.plane.NUM_PIECES", 50)
    tokenizer, model = Tokenizer.load(example_folder / "my-bert"), load(example_folder / "my-bert")
    table = view_table(["the value"], tokenizer, model)
    assert 40 <= len(table.pieces) <= 52
    assert {"the", "value"} <= set(table.pieces)
    assert max(abs(number) for point in table.points for number in point) <= 1


@pytest.mark.parametrize(
    ("piece", "goes_on", "kind"),
    [
        ("river", False, "word"),
        ("##s", True, "continuation"),
        ("漢", False, "character"),
        ("7", False, "other"),
        ("[SEP]", False, "other"),
    ],
)
def test_the_kinds_of_pieces(piece: str, goes_on: bool, kind: str) -> None:
    assert kind_of(piece, goes_on) == kind
