"""Every field of every settings class is read by some line, and no code uses what the house style rules out."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "bertie"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def is_settings(node: ast.ClassDef) -> bool:
    is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    return is_dataclass and node.name.endswith(("Config", "Settings", "Recipe"))


FIELDS = [
    (f"{path.relative_to(SOURCE)}:{node.name}", statement.target.id)
    for path, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef) and is_settings(node)
    for statement in node.body
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
]


def reads() -> set[str]:
    """Names read as an attribute somewhere outside `__post_init__`, where a field is only checked."""
    found = set()
    for tree in TREES.values():
        checks = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "__post_init__"]
        checked = {id(inner) for check in checks for inner in ast.walk(check)}
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in checked
        }
    return found


def test_every_field_is_read_by_some_line() -> None:
    read = reads()
    assert FIELDS
    assert [f"{where}.{field}" for where, field in FIELDS if field not in read] == []


@pytest.mark.parametrize("forbidden", ["hasattr", "exec", "eval", "print"])
def test_forbidden_calls(forbidden: str) -> None:
    may_print = {SOURCE / "console.py"} if forbidden == "print" else set()
    calls = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in TREES.items()
        if path not in may_print
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == forbidden
    ]
    assert calls == []
