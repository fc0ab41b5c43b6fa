import json
from pathlib import Path

import pytest

from bertie.report.errors import errors
from bertie.report.page import Section
from bertie.report.runs import Run, read_runs
from bertie.report.words import Words
from tests.report.conftest import MakeRun

EN = Words("en")


def read(*folders: Path) -> list[Run]:
    return read_runs(folders, EN)


def rows(section: Section) -> list[list[str]]:
    assert section.table
    return [list(row) for row in section.table.rows]


def hold_out(folder: Path, *judged: tuple[str, str, str, float]) -> None:
    keys = ("text", "gold", "called", "error")
    lines = [json.dumps(dict(zip(keys, one, strict=True))) + "\n" for one in judged]
    (folder / "held_out.jsonl").write_text("".join(lines))


def test_errors_are_those_of_the_best_run(make_finetuned: MakeRun) -> None:
    section = errors(read(make_finetuned(scores=(0.6, 0.8))), EN)
    assert section and [part.heading for part in section.parts] == ["my-fine/seed-1"]
    matrix, worst = section.parts[0].parts
    assert isinstance(matrix.data, dict)
    assert matrix.data["counts"] == [[0, 0], [1, 7]]
    assert matrix.data["examples"] == [[1, 0, "it <rose> ‖ or not"]]
    assert "1 × up called down" in matrix.alternative
    assert rows(matrix)[1] == ["up", "8", "87.5%", "100.0%", "down (1)"]
    assert rows(worst) == [["it <rose> ‖ or not", "up", "down", "0.900"]]


def test_of_many_labels_the_mistaken_ones_are_shown(make_finetuned: MakeRun) -> None:
    labels = [f"label-{number:03}" for number in range(90)] + ["up", "down"]
    section = errors(read(make_finetuned(labels=labels)), EN)
    assert section and isinstance(section.parts[0].parts[0].data, dict)
    assert section.parts[0].parts[0].data["labels"] == ["up", "down"]
    assert "Only the 2 labels" in section.parts[0].parts[0].alternative


@pytest.mark.parametrize("changes", [{"problem_type": "regression", "labels": []}, {"problem_type": None}])
def test_what_is_no_class_has_no_matrix(make_finetuned: MakeRun, changes: dict[str, object]) -> None:
    section = errors(read(make_finetuned(**changes)), EN)
    assert section and [part.heading for part in section.parts[0].parts] == ["Worst errors"]


def test_words_are_counted_by_their_tags(make_finetuned: MakeRun) -> None:
    folder = make_finetuned(problem_type=None, head="tag", labels=["O", "PER"])
    hold_out(
        folder,
        ("Ann saw Bob", "PER O PER", "PER O O", 1 / 3),
        ("Bob", "PER", "PER", 0),
        ("a sentence that was cut …", "O O O O O O", "O O O O O PER", 1 / 6),
    )
    section = errors(read(folder), EN)
    assert section
    matrix = section.parts[0].parts[0]
    assert isinstance(matrix.data, dict)
    assert matrix.data["counts"] == [[1, 0], [1, 2]]
    assert matrix.data["examples"] == [[1, 0, "Bob – Ann saw Bob"]]


def test_numbers_stand_against_the_true_ones(make_finetuned: MakeRun) -> None:
    folder = make_finetuned(problem_type="regression", labels=[])
    hold_out(folder, ("a", "1", "2", 1), ("b", "3", "3", 0), ("c", "5", "2", 3), ("d", "nan", "x", 1))
    section = errors(read(folder), EN)
    assert section
    against, _ = section.parts[0].parts
    assert against.data == {"points": [(1.0, 2.0, "a"), (3.0, 3.0, "b"), (5.0, 2.0, "c")]}
    assert "mean distance is 1.333, the median 1.000" in against.alternative
    assert [row[1] for row in rows(against)] == ["1", "1", "1"]
