"""What made the runs: where their recipes differ, the recipes as they ran, the commit and the versions."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence

from bertie.report.amounts import ABSENT
from bertie.report.page import Section, Table
from bertie.report.runs import Run
from bertie.report.words import Words

PACKAGES = ("bertie", "torch", "python")


def recipes(runs: Sequence[Run], words: Words) -> Section:
    parts = [Section(id="versions", heading=words("Commit and versions"), table=_versions(runs, words))]
    differing = _differences(runs)
    if differing:
        header = [words("key"), *(run.name for run in runs)]
        parts.append(
            Section(id="differences", heading=words("Where the recipes differ"), table=Table(header, differing))
        )
    parts += [
        Section(id=f"recipe-{number}", heading=words("Recipe of {name}", name=run.name), code=run.recipe)
        for number, run in enumerate(runs)
        if run.recipe
    ]
    return Section(id="recipes", heading=words("Recipe, commit and versions"), parts=parts)


def _versions(runs: Sequence[Run], words: Words) -> Table:
    rows = []
    for run in runs:
        card = next((one.card for one in (run, *run.each) if "versions" in one.card), run.card)
        stated = card.get("versions")
        versions = stated if isinstance(stated, Mapping) else {}
        cells = [card.get("commit"), *(versions.get(name) for name in PACKAGES), card.get("kernels")]
        rows.append([run.name, *(str(cell) if cell else ABSENT for cell in cells)])
    return Table([words("run"), words("commit"), *PACKAGES, words("kernels")], rows)


def _differences(runs: Sequence[Run]) -> list[list[str]]:
    """A row for each key whose value is not the same in all recipes of the same kind of run."""
    read = [dict(_flat(_parse(run.recipe))) for run in runs]
    kinds = {run.kind for run in runs}
    if len(runs) < 2 or len(kinds) > 1:
        return []
    keys = sorted({key for values in read for key in values})
    rows = [[key, *(values.get(key, ABSENT) for values in read)] for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def _parse(recipe: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(recipe)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _flat(values: Mapping[str, object], table: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{table}{key}.")
        else:
            yield table + key, str(value)
