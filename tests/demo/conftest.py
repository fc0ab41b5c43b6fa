"""A library that is enough for a demo of seconds: three packages of documented functions, about three things."""

import itertools
from pathlib import Path

import pytest

from bertie.demo.gather import GatherConfig
from bertie.demo.run import DemoConfig

VERBS = ("Return", "Remove", "Compare", "Collect", "Describe", "Replace")
THINGS = {
    "gardens": ("the tall trees", "an old rose bush", "the green hedges", "a bed of tulips", "the wet leaves"),
    "kitchens": ("the sharp knives", "a pot of soup", "the clean plates", "an iron pan", "the warm bread"),
    "harbours": ("the long ships", "a heavy anchor", "the wooden boats", "an empty dock", "the torn sails"),
}
ENDS = ("before the evening.", "when the work is done.", "as often as it is asked for.")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    for name, things in THINGS.items():
        (folder / name).mkdir(parents=True)
        sentences = [" ".join(words) for words in itertools.product(VERBS, things, ENDS)]
        for number in range(6):
            docstrings = sentences[number::6]
            functions = [f'def f{nth}():\n    """{text}"""\n' for nth, text in enumerate(docstrings)]
            (folder / name / f"part{number}.py").write_text("\n".join(functions), encoding="utf-8")
    return folder


@pytest.fixture
def config(library: Path) -> DemoConfig:
    sizes = GatherConfig((library,), num_modules=3, train=20, held_out=5)
    return DemoConfig(
        gather=sizes,
        vocabulary_size=900,
        minutes=0.02,
        seeds=2,
        pretraining=("batch=8", "pairs.max_length=32", "save_every=2", "threads=1"),
        finetuning=("lr=1e-3", "epochs=1", "threads=1"),
        frozen=("features=mix_all", "epochs=1", "threads=1"),
        beside="nothing",
    )
