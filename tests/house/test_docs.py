"""The documentation holds: its commands and Python run, links lead somewhere, both languages have the same pages."""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bertie.cli import bertie
from bertie.pretraining.recipe import change, read_recipe
from bertie.tasks.recipe import change as change_task
from bertie.tasks.recipe import make_recipe

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGLISH_ONLY = {"log.md", "dependencies.md"}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)?[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELLS, LANGUAGES = {"bash"}, {"bash", "python", "text", "toml", "json", None}
SECONDS = 240


@dataclass(frozen=True)
class Block:
    language: str | None
    note: str
    text: str

    @property
    def is_run(self) -> bool:
        return self.language in ("bash", "python") and not self.note.startswith("no-test")


def blocks(page: Path) -> list[Block]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [Block(language or None, note.strip(), text) for language, note, text in found]


def bare(examples: Iterable[Block]) -> list[str]:
    """What runs: the blocks without their comments, which are in the page's language."""
    return [re.sub(r"[ ]*# .*", "", block.text) for block in examples]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def twin(page: Path) -> Path | None:
    """The English page of a Chinese one."""
    if page.parent.name == "zh":
        return DOCS / "en" / page.name
    return ROOT / page.name.replace(".zh-CN", "") if ".zh-CN" in page.name else None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_run(page: Path, tmp_path: Path, example_folder: Path) -> None:
    """All blocks of a page, one after the other, in one folder that holds `my-bert` and `my-text`."""
    examples = [block for block in blocks(page) if block.is_run]
    english = twin(page)
    if english and bare(examples) == bare(block for block in blocks(english) if block.is_run):
        examples = []  # they ran with the English page
    for entry in example_folder.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    for block in examples:
        command = (
            ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-W", "error", "-c"]
        )
        done = subprocess.run(
            [*command, block.text],
            cwd=tmp_path,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_marked_and_parse(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{block.language}: one of {LANGUAGES}"
        if block.note.startswith("no-test"):
            assert re.fullmatch(r"no-test: .{4,}", block.note), "a block that is not run says why"
        if block.language in SHELLS:
            subprocess.run(["bash", "-n", "-c", block.text], check=True)
            for command in commands(block.text):
                check_command(command)
        if block.language == "python":
            compile(block.text, name(page), "exec")


def commands(text: str) -> Iterator[list[str]]:
    """The words after `bertie` of each command of a shell text, whatever starts it or stands before it in a pipe."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        for is_end, words in itertools.groupby(lexer, lambda word: set(word) <= set("|<>&;()")):
            said = list(words)
            if not is_end and "bertie" in said[:-1]:
                yield said[said.index("bertie") + 1 :]


def check_command(words: list[str]) -> None:
    """It is a command that there is, with arguments and options that it takes, and settings that its recipe has."""
    if words[0].startswith("-"):
        return
    command = bertie.commands.get(words[0])
    assert command, f"the documentation names a command that does not exist: bertie {words[0]}"
    said = command.make_context(words[0], words[1:]).params
    if words[0] in ("pretrain", "plan") and not said["recipe"].endswith(".toml"):
        change(read_recipe(said["recipe"]), said["settings"])
    if words[0] == "finetune":
        change_task(make_recipe(said["recipe"], said["task"]), said["task"], said["settings"])


def test_both_languages_have_the_same_pages() -> None:
    english = {page.relative_to(DOCS / "en").as_posix() for page in (DOCS / "en").rglob("*.md")} - ENGLISH_ONLY
    chinese = {page.relative_to(DOCS / "zh").as_posix() for page in (DOCS / "zh").rglob("*.md")}
    assert english == chinese
    assert (ROOT / "README.zh-CN.md").exists()


@pytest.mark.parametrize("page", [page for page in PAGES if twin(page)], ids=name)
def test_both_languages_show_the_same_headings_and_examples(page: Path) -> None:
    english = twin(page)
    assert english
    for pattern in (r"^#+ ", r"^```\w*"):
        count = [len(re.findall(pattern, p.read_text(encoding="utf-8"), re.MULTILINE)) for p in (page, english)]
        assert count[0] == count[1], f"{pattern} stands {count[0]} times in {name(page)}, {count[1]} in {name(english)}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        other = page.parent / target if target else page
        assert target.startswith("https://") or other.exists(), target
        if heading and other.exists():
            assert heading in headings(other), f"{target} has no heading #{heading}"


def headings(page: Path) -> list[str]:
    """The names that headings are linked by."""
    found = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    text = (DOCS / "en" / "dependencies.md").read_text()
    names = [re.match(r"[\w-]+", one) for one in wanted if not one.startswith("bertie[")]
    assert [match[0] for match in names if match and f"`{match[0]}`" not in text] == []


def test_no_path_of_a_machine_stands_in_the_project() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    texts = {path: (ROOT / path).read_bytes() for path in listed if path and (ROOT / path).is_file()}
    home = re.compile(rb"(?<![\w.])/(?:work|root|home/\w+)/\w")
    assert [path for path, data in texts.items() if home.search(data)] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_layout_names_every_part(language: str) -> None:
    tree = (DOCS / language / "layout.md").read_text(encoding="utf-8")
    parts = [path for path in (ROOT / "src" / "bertie").iterdir() if path.is_dir() or path.suffix == ".py"]
    names = {f"{path.name}/" if path.is_dir() else path.name for path in parts if path.name[0] not in "_."}
    assert sorted(name for name in names - {"version.py"} if f"\n  {name} " not in tree) == []


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_figures_beside_the_peers_stand_in_the_log(readme: str) -> None:
    log = (DOCS / "en" / "log.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!---)(.*) \|$", (ROOT / readme).read_text(encoding="utf-8"), re.MULTILINE)[1:]
    figures = {figure for row in rows for figure in re.findall(r"\d+\.\d+|\d{3,}", "|".join(row.split(" | ")[1:3]))}
    assert len(figures) > 10
    assert sorted(figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d])", log)) == []
