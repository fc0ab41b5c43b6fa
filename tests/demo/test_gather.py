import json
from pathlib import Path

from bertie.demo.gather import GatherConfig, gather, read_modules

MODULE = '''"""A module about lighthouses, as :class:`Lamp` knows them.

It goes on with a second paragraph that says ``nothing`` new.

>>> Lamp().burn(1)
This line is an example and no prose at all, as one sees.

:param wick: the wick that is to be burned by this lamp.
"""

class Lamp:
    """Burn until the morning comes, and never say *why* it is dark."""

    def burn(self):
        """short"""

        def inner():
            """It goes on with a second paragraph that says ``nothing`` new."""
'''


def told(done: int, total: int) -> None:
    assert done <= total


def test_prose_is_kept_without_its_markup_and_only_once(tmp_path: Path) -> None:
    (tmp_path / "lights").mkdir()
    (tmp_path / "lights" / "lamp.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "lights" / "broken.py").write_text("def (", encoding="utf-8")
    (tmp_path / "lights" / "tests").mkdir()
    (tmp_path / "lights" / "tests" / "lamp.py").write_text('"""What tests say is left out of all of it."""')
    found = read_modules(GatherConfig((tmp_path,)), told)["lights"]
    assert [docstring.paragraphs for docstring in found] == [
        (
            "A module about lighthouses, as Lamp knows them.",
            "It goes on with a second paragraph that says nothing new.",
        ),
        ("Burn until the morning comes, and never say why it is dark.",),
    ]


def test_the_documentation_of_python_is_there_and_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text('"""Whoever imports this module regrets it."""\nraise SystemExit(3)\n')
    found = read_modules(GatherConfig((tmp_path,)), told)
    assert set(found) == {"trap", "pydoc_data"}
    assert any("iterator" in line for docstring in found["pydoc_data"] for line in docstring.paragraphs)


def test_a_module_is_read_up_to_so_much_prose(library: Path) -> None:
    sizes = [
        sum(docstring.size for docstring in read_modules(GatherConfig((library,), prose=prose), told)["gardens"])
        for prose in (500, 1500, 600_000)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_what_is_held_out_stands_nowhere_else(library: Path, tmp_path: Path) -> None:
    config = GatherConfig((library,), num_modules=3, train=20, held_out=5)
    gather(config, tmp_path / "text", tmp_path / "modules", told)
    rows = {
        part: [json.loads(line) for line in (tmp_path / "modules" / f"{part}.jsonl").read_text().splitlines()]
        for part in ("train", "dev")
    }
    text = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "text").iterdir())
    assert len(rows["train"]) == 60 and len(rows["dev"]) == 15
    assert {row["label"] for row in rows["dev"]} == {row["label"] for row in rows["train"]}
    assert all(row["text"] in text for row in rows["train"])
    assert not any(row["text"] in text for row in rows["dev"])


def test_the_same_sources_give_the_same_text(library: Path, tmp_path: Path) -> None:
    config = GatherConfig((library,), num_modules=3, train=20, held_out=5)
    for name in ("one", "two"):
        gather(config, tmp_path / name / "text", tmp_path / name / "modules", told)
    files = [sorted(path for path in (tmp_path / name).rglob("*") if path.is_file()) for name in ("one", "two")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]
