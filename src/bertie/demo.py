"""bertie demo: real prose that every machine has, from raw text to what can be seen, with nothing downloaded."""

import ast
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from bertie import console
from bertie.sealed import write_file
from bertie.text.vocabulary import VocabularyConfig, learn_vocabulary
from bertie.text.wordpiece import Tokenizer

VOCABULARY_SIZE = 8000
SENTENCES = (
    "The iterator returns the next item, or raises StopIteration.",
    "Unbelievably, the asynchronous generator was garbage-collected!",
    "Größe, naïve café and 漢字 are text too.",
)

NEXT = """
Now with a sentence, then with text of your own:

  . .venv/bin/activate
  bertie tokenize {vocabulary} 'Any sentence at all.'
  bertie vocab YOUR-TEXT --size 30000 --out my-vocabulary"""


def run_demo(out: Path) -> None:
    """Gather the text, learn a vocabulary from it, and show how it cuts sentences."""
    text, vocabulary = out / "text", out / "vocabulary"
    sizes = gather(text)
    print(
        f"Python's own documentation: {len(sizes):,} modules and topics, {sum(sizes.values()):,} characters, in {text}"
    )
    if vocabulary.exists():
        print(f"{vocabulary} is there from an earlier run.")
    else:
        card = learn_vocabulary(VocabularyConfig(VOCABULARY_SIZE), [text], vocabulary, console.progress)
        print("\n" + console.table(["on documents it has not seen", "the vocabulary"], card.rows()))
    tokenizer = Tokenizer.load(vocabulary)
    print(f"\nA vocabulary of {tokenizer.size:,} pieces, in {vocabulary}. This is how it cuts sentences:")
    for sentence in SENTENCES:
        print(f"\n  {sentence}\n  {' '.join(tokenizer.tokenize(sentence))}")
    print(NEXT.format(vocabulary=vocabulary))


def gather(folder: Path) -> dict[str, int]:
    """One file for each documentation topic and each module of the standard library; the characters in each."""
    texts = {f"topic-{name}": text for name, text in topics.items()}
    texts |= {name: "\n\n".join(docstrings) for name, docstrings in _modules() if docstrings}
    for name, text in sorted(texts.items()):
        write_file(folder / f"{name}.txt", text.encode())
    return {name: len(text) for name, text in texts.items()}


def _modules() -> Iterator[tuple[str, list[str]]]:
    """Each module of the standard library with its docstrings, read from the source: nothing is imported."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        place = path.relative_to(library).with_suffix("").parts
        if "site-packages" in place or "test" in place or "tests" in place:
            continue
        yield ".".join(place), _docstrings(path)


def _docstrings(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # a few files there are wrong on purpose
        return []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    return [textwrap.dedent(text) for text in found if text]
