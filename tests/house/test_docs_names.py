"""What the documentation names is there: commands, flags, keys of recipes, recipes, every difference of two of them."""

import ast
import dataclasses
import itertools
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from bertie.cli import bertie, run
from bertie.config import to_values
from bertie.pretraining.recipe import Recipe, read_recipe, recipe_names
from bertie.tasks.named import KINDS
from bertie.tasks.recipe import RECIPES, FinetuneRecipe, make_recipe

ROOT = Path(__file__).parents[2]
PAGES = [page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if page.name != "log.md"]  # the past
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
OTHERS = {"migrate.md"}  # in whose tables the first cell is what one types elsewhere


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The page without its examples, and without what it says of other programs."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"^\|[^|\n]*\|", "|", text, flags=re.MULTILINE) if page.name in OTHERS else text


def flags(command: click.Command) -> set[str]:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {"--help", *(flag for option in options for flag in [*option.opts, *option.secondary_opts])}


EVERY_FLAG = {"--version", *(flag for command in bertie.commands.values() for flag in flags(command))}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_flags_in_the_text_exist(page: Path) -> None:
    for code in re.findall(r"`([^`\n]+)`", prose(page)):
        said = re.match(r"bertie ([a-z]+)\b", code)
        if said:
            assert said[1] in bertie.commands, code
        allowed = flags(bertie.commands[said[1]]) if said else EVERY_FLAG
        if said or code.startswith("--"):
            named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", code))
            assert named <= allowed, f"`{code}`: {named - allowed} is no flag"


def keys_of(settings: type, above: str = "") -> Iterator[str]:
    """The names in a group of settings and in the groups inside it, each with and without its group."""
    for key, hint in typing.get_type_hints(settings).items():
        yield key
        yield above + key
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from keys_of(hint, f"{above}{key}.")


EVERY_KEY = {key for settings in (Recipe, FinetuneRecipe, *KINDS.values()) for key in keys_of(settings)}
COLUMNS = {
    "key": EVERY_KEY,
    "键": EVERY_KEY,
    "recipe": {*recipe_names(), *RECIPES},
    "配方": {*recipe_names(), *RECIPES},
}


def first_cells(page: Path, header: str) -> Iterator[str]:
    """The first cell of each row of the page's tables with this header over them."""
    for table in re.findall(rf"^\| {header} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text("utf-8"), re.MULTILINE):
        yield from re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_keys_and_recipes_in_tables_and_settings_exist(page: Path) -> None:
    for header, known in COLUMNS.items():
        for cell in first_cells(page, header):
            assert set(re.findall(r"`([^`]+)`", cell)) <= known, cell
    said = set(re.findall(r"--set ([a-z_.0-9]+)=", prose(page)))
    assert said <= EVERY_KEY


def leaves(settings: type) -> Iterator[str]:
    """The names of the settings that are no groups, however deep."""
    for key, hint in typing.get_type_hints(settings).items():
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from leaves(hint)
        else:
            yield key


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_recipe_and_key_of_pretraining_is_explained(language: str) -> None:
    page = ROOT / "docs" / language / "pretrain.md"
    named = {name for header in COLUMNS for cell in first_cells(page, header) for name in re.findall(r"`(.+?)`", cell)}
    known = {name.rpartition(".")[2] for name in named}
    assert {*recipe_names(), *leaves(Recipe)} - known == set()


def plain(values: Mapping[str, object]) -> dict[str, object]:
    """The values of a recipe by the last part of their keys."""
    found: dict[str, object] = {}
    for key, value in values.items():
        found |= plain(value) if isinstance(value, dict) else {key: value}
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (read_recipe("faithful-base"), read_recipe("modern-base")),
        (make_recipe("faithful", "cola"), make_recipe("stable", "cola")),
    ],
    ids=["pretraining", "finetuning"],
)
def test_every_difference_of_faithful_has_its_row(
    language: str, one: Recipe | FinetuneRecipe, other: Recipe | FinetuneRecipe
) -> None:
    page = ROOT / "docs" / language / "faithful.md"
    keys = {
        key for header in ("key", "键") for cell in first_cells(page, header) for key in re.findall(r"`(.+?)`", cell)
    }
    values, others = plain(to_values(one)), plain(to_values(other))
    differing = {key for key in values | others if values.get(key) != others.get(key)}
    assert differing <= keys


def templates(tree: ast.Module) -> Iterator[str]:
    """Each text in a file of the source, with a mark where a value is put in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from map("".join, itertools.product(*map(wordings, node.values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[.\d]*[a-z]", HOLE, node.value)


def wordings(part: ast.expr) -> list[str]:
    """What may stand in a part of an f-string: its own text, either of two texts, or any value."""
    if isinstance(part, ast.Constant):
        return [str(part.value)]
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    if isinstance(inner, ast.IfExp):
        return [*wordings(inner.body), *wordings(inner.orelse)]
    return [HOLE]


HOLE = "\0"
TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "src").rglob("*.py"))]
SAID = [text for tree in TREES for text in templates(tree)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_message_that_is_explained_is_one_that_is_said(
    language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["finetun"])  # answered by click
    run(["inspect", str(tmp_path)])  # put together from two texts
    said = [*SAID, capsys.readouterr().err]
    page = ROOT / "docs" / language / "troubleshooting.md"
    cells = [cell for header in ("message", "消息") for cell in first_cells(page, header)]
    messages = [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]
    assert len(messages) == len(cells) > 50 and len(set(messages)) == len(messages)
    for message in messages:
        pattern = re.compile(".+".join(re.escape(part.strip()) for part in message.split("…")))
        assert len(message.replace("…", "")) > 12 and any(pattern.search(text) for text in said), message
