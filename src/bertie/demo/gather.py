"""Real prose that every machine has: Python's documentation topics and the docstrings of what is installed, by module.

Sources are parsed, never imported. What is kept of a docstring are its paragraphs of sentences: no examples, no tables.
"""

import ast
import json
import re
import sysconfig
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

from bertie.sealed import replacing_folder
from bertie.text.sentences import cut_sentences

TOPICS = "pydoc_data"  # the module that holds the documentation topics
LEFT_OUT = {"test", "tests", "testing", "_pytest", "idlelib", "lib2to3", "site-packages", "_vendor"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SHARE_HELD_OUT = 5  # every fifth docstring of the modules to be told apart is in no other text

ROLE = re.compile(r":[a-z]+(?::[a-z]+)*:(?=`)")
MARKS = re.compile(r"`+~?|(?<!\w)\*{1,2}(?=\w)|(?<=\w)\*{1,2}(?!\w)|`_+")
CODE = re.compile(r"^\s*(?:>>>|\.\. |[:@]\w|[-*+|#=~^$%]|\w+ ?[:=])|https?://|\w[(\[]\w*[)\]]|[=|<>{}\\]", re.MULTILINE)
LENGTHS = range(6, 41)  # words of a sentence whose module is asked for
PROSE = re.compile(r"[A-Z].{30,}[.!?:]")


@dataclass(frozen=True)
class GatherConfig:
    """What is read and what of it is labelled. libraries: folders of Python sources; of a module at most so many
    characters of prose, found in at most so many bytes of source; of each module to be told apart so many sentences to
    learn from, and so many held out."""

    libraries: tuple[Path, ...]
    prose: int = 600_000
    source: int = 4_000_000
    num_modules: int = 12
    train: int = 100
    held_out: int = 80


@dataclass(frozen=True)
class Docstring:
    """Paragraphs that belong together, one a string, and the file they stand in."""

    place: str
    paragraphs: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.paragraphs))

    @property
    def is_held_out(self) -> bool:
        return _number("".join(self.paragraphs)) % SHARE_HELD_OUT == 0


Modules = Mapping[str, Sequence[Docstring]]
Report = Callable[[int, int], None]  # modules read, modules in all


def libraries() -> tuple[Path, ...]:
    """The standard library, and where packages are installed."""
    names = ("stdlib", "purelib", "platlib")
    return tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in names))


def gather(config: GatherConfig, text: Path, labelled: Path, report: Report) -> dict[str, int]:
    """The folder `text`: a file for each module, a paragraph a line, a blank line between documents. The folder
    `labelled`: sentences with the module they are from, train.jsonl and dev.jsonl. Gives the characters of each module.

    The docstrings that dev.jsonl is from are not in `text`: nobody learns from them, in any way.
    """
    modules = read_modules(config, report)
    told = _labelled(modules, config)
    sizes: dict[str, int] = {}
    with replacing_folder(text) as folder:
        for name, docstrings in modules.items():
            documents = _documents(docstrings, name in told)
            (folder / f"{name}.txt").write_text(documents, encoding="utf-8")
            sizes[name] = len(documents)
    with replacing_folder(labelled) as folder:
        for part in ("train", "dev"):
            rows = [{"text": text, "label": name} for name, parts in told.items() for text in parts[part]]
            (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return sizes


def read_modules(config: GatherConfig, report: Report) -> dict[str, list[Docstring]]:
    """The docstrings of each module that has prose; a paragraph that stood before is left out."""
    sources = _sources(config.libraries)
    seen: set[str] = set()
    found = {TOPICS: [Docstring(name, new) for name, topic in topics.items() if (new := _new(topic, seen))]}
    for count, (name, files) in enumerate(sources.items(), 1):
        docstrings = _read(files, config, seen)
        if docstrings:
            found[name] = docstrings
        report(count, len(sources))
    return found


def _sources(libraries: Sequence[Path]) -> dict[str, list[Path]]:
    """The files of each module, by its first name, in no order to speak of, so that the first ones are a sample."""
    found: defaultdict[str, dict[str, Path]] = defaultdict(dict)
    for library in libraries:
        for path in library.rglob("*.py"):
            parts = path.relative_to(library).with_suffix("").parts
            if not LEFT_OUT.intersection(parts) and parts[0].isidentifier():
                found[parts[0]][".".join(parts)] = path
    return {name: [files[one] for one in sorted(files, key=_number)] for name, files in sorted(found.items())}


def _read(files: Sequence[Path], config: GatherConfig, seen: set[str]) -> list[Docstring]:
    docstrings: list[Docstring] = []
    prose = source = 0
    for path in files:
        if prose > config.prose or source > config.source:
            break
        source += path.stat().st_size
        for text in _docstrings(path):
            paragraphs = _new(text, seen)
            if paragraphs:
                docstrings.append(Docstring(str(path), paragraphs))
                prose += docstrings[-1].size
    return docstrings


def _docstrings(path: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of their escapes
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, RecursionError, OSError):  # some are wrong on purpose, some not ours to read
            return
    waiting: list[ast.stmt | ast.Module] = [tree]
    while waiting:  # definitions in definitions; ast.walk looks into every expression, at twice the time
        node = waiting.pop()
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node) or ""
            waiting += reversed(node.body)


def _new(text: str, seen: set[str]) -> tuple[str, ...]:
    """The paragraphs of prose that were not seen before."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        plain = MARKS.sub("", ROLE.sub("", paragraph))
        if CODE.search(plain):
            continue
        line = " ".join(plain.split())
        if PROSE.fullmatch(line) and line not in seen:
            seen.add(line)
            found.append(line)
    return tuple(found)


def _documents(docstrings: Sequence[Docstring], holds_out: bool) -> str:
    """A document for each file of the module."""
    documents: defaultdict[str, list[str]] = defaultdict(list)
    for docstring in docstrings:
        if not (holds_out and docstring.is_held_out):
            documents[docstring.place] += docstring.paragraphs
    return "\n\n".join("\n".join(paragraphs) for paragraphs in documents.values()) + "\n"


def _labelled(modules: Modules, config: GatherConfig) -> dict[str, dict[str, list[str]]]:
    """Of each of the largest modules that have enough of them, sentences to learn from and sentences held out."""
    by_size = sorted(modules, key=lambda name: -sum(docstring.size for docstring in modules[name]))
    wanted = {"train": config.train, "dev": config.held_out}
    found: dict[str, dict[str, list[str]]] = {}
    for name in by_size:
        parts = _telling(name, modules[name])
        if all(len(parts[part]) >= number for part, number in wanted.items()) and len(found) < config.num_modules:
            found[name] = {part: sorted(parts[part], key=_number)[:number] for part, number in wanted.items()}
    return found


def _telling(name: str, docstrings: Sequence[Docstring]) -> dict[str, list[str]]:
    """The module's sentences that can be told by what they say: long enough, and without its name."""
    parts: dict[str, list[str]] = {"train": [], "dev": []}
    for docstring in docstrings:
        sentences = (sentence for paragraph in docstring.paragraphs for sentence in cut_sentences(paragraph))
        told = [one for one in sentences if len(one.split()) in LENGTHS and name not in one.lower()]
        parts["dev" if docstring.is_held_out else "train"] += told
    learned = set(parts["train"])
    return {"train": sorted(learned), "dev": sorted(set(parts["dev"]) - learned)}


def _number(text: str) -> int:
    """A number that has nothing to do with what the text says, the same on every machine."""
    return zlib.crc32(text.encode("utf-8", "ignore"))
