"""Who imports whom: the arrows of docs/en/layout.md, lazy imports counted, and no ring."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "bertie"
EVERYWHERE = {"carried", "config", "sealed", "version"}  # they import nothing of ours
TOP = {"cli", "commands", "demo", "console", "__main__", "__init__"}
ARROWS: dict[str, set[str]] = {
    "carried": set(),
    "config": set(),
    "sealed": set(),
    "version": set(),
    "console": set(),
    "text": set(),
    "kernels": set(),
    "training": set(),
    "corpus": {"text"},
    "model": {"kernels"},
    "pretraining": {"text", "corpus", "model", "training"},
    "tasks": {"text", "model", "training"},
    "serving": {"text", "model", "tasks"},
    "report": {"text", "model"},
}
FREE_OF_TORCH = {"text", "corpus", "tasks"}  # an exported model is served where torch is not installed
WITH_TORCH = {
    f"bertie.tasks.{name}"
    for name in (
        "network",
        "recipe",
        "run",
        "sweep",
        "best",
        "modes",
        "trained",
        "estimators",
        "glue",
        "features",
    )
}


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def module_name(path: Path) -> str:
    parts = ("bertie", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def ours(names: set[str]) -> set[str]:
    """The modules of ours behind imported names: `bertie.text.bulk.Table` is in `bertie.text.bulk`."""
    found = set()
    for name in names:
        while name.startswith("bertie") and name not in MODULES:
            name = name.rpartition(".")[0]
        if name.startswith("bertie"):
            found.add(name)
    return found


def folder(module: str) -> str:
    return [*module.split("."), "__init__"][1]


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_arrows(module: str) -> None:
    if folder(module) in TOP - {"console"}:
        return
    allowed = ARROWS[folder(module)] | EVERYWHERE | {folder(module)}
    for imported in ours(imported_by(MODULES[module])):
        assert folder(imported) in allowed, f"{module} must not import {imported}"


@pytest.mark.parametrize(
    "module", [name for name in MODULES if folder(name) in FREE_OF_TORCH if name not in WITH_TORCH]
)
def test_these_work_without_torch(module: str) -> None:
    names = imported_by(MODULES[module])
    assert not {name for name in names if name.split(".")[0] == "torch"}
    for imported in ours(names) - {"bertie"}:
        assert imported not in WITH_TORCH and folder(imported) in FREE_OF_TORCH | EVERYWHERE, imported


def test_no_import_ring() -> None:
    graph = {name: ours(imported_by(path)) - {name, "bertie"} for name, path in MODULES.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a ring of imports: {' -> '.join(error.args[1])}")


def test_inner_init_files_are_empty() -> None:
    assert [path for path in SOURCE.glob("*/__init__.py") if path.read_text()] == []
