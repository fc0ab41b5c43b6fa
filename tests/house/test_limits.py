"""The sizes a reader can hold: lines in a file and a function, nesting, arguments."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src").rglob("*.py"))
FILE_LINES, FUNCTION_LINES, NESTING, ARGUMENTS = 400, 50, 3, 6
DEEPER = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def depth(node: ast.AST) -> int:
    """How deep blocks stand in blocks; `elif` is the same depth as its `if`, a function inside counts for itself."""
    below = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            continue
        is_elif = isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        below = max(below, depth(child) + (isinstance(child, DEEPER) and not is_elif))
    return below


def is_command(function: Function) -> bool:
    """A command's arguments are its flags: click hands them over one by one."""
    return any("click.command" in ast.unparse(decorator) for decorator in function.decorator_list)


def is_kernel(function: Function) -> bool:
    """A Triton kernel cannot be handed a tensor's shape or a dataclass: each number is an argument."""
    return any("triton.jit" in ast.unparse(decorator) for decorator in function.decorator_list)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_sizes(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE_LINES
    for function in functions(path):
        where = f"{name(path)}:{function.lineno} {function.name}"
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno + 1 <= FUNCTION_LINES, where
        assert depth(function) <= NESTING, where
        arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        counted = [argument for argument in arguments if argument.arg not in ("self", "cls", "config")]
        assert len(counted) <= ARGUMENTS or is_command(function) or is_kernel(function), where


def test_the_measure_of_depth() -> None:
    source = "def f():\n if a:\n  for b in c:\n   while d:\n    pass\n elif e:\n  pass\n"
    function = ast.parse(source).body[0]
    assert depth(function) == 3
