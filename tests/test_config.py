import dataclasses
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from bertie.config import ELSEWHERE, Settings, from_toml, from_values, override, to_toml, to_values, unknown_key
from bertie.pretraining.recipe import Recipe
from bertie.tasks.named import NAMED, named
from bertie.tasks.recipe import FinetuneRecipe


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["plain", "fancy"] = "plain"


@dataclass(frozen=True)
class Outer:
    steps: int
    name: str = "a"
    sizes: tuple[int, ...] = (1, 2)
    is_fast: bool = False
    limit: int | None = None
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps is {self.steps}; allowed: 1 and more.")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    config = Outer(3, 'quote " backslash \\ line\n字', (4,), True, 5, Inner(1e-12, "fancy"))
    (tmp_path / "config.toml").write_text(to_toml(config), encoding="utf-8")
    assert from_toml(Outer, tmp_path / "config.toml") == config


def test_none_is_left_out() -> None:
    assert "limit" not in to_values(Outer(1))
    assert from_values(Outer, to_values(Outer(1)), "here") == Outer(1)


def test_override() -> None:
    changed = override(
        Outer(1, limit=5), ["steps=7", "name=b c", "inner.kind=fancy", "inner.rate=1", "sizes=[3]", "limit=none"]
    )
    assert changed == Outer(7, "b c", (3,), False, None, Inner(1.0, "fancy"))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"steps": 1, "nam": "b"}, r"here: unknown key 'nam'; did you mean 'name'\?"),
        ({"name": "b"}, r"here: steps missing, which has no default\."),
        ({"steps": "1"}, r"here: steps is '1'; allowed: a whole number\."),
        ({"steps": True}, r"here: steps is True; allowed: a whole number\."),
        ({"steps": 0}, r"here: steps is 0; allowed: 1 and more\."),
        ({"steps": 1, "inner": {"kind": "odd"}}, r"here: inner: kind is 'odd'; allowed: plain, fancy\."),
        ({"steps": 1, "inner": 3}, r"here: inner is 3; allowed: a group of settings\."),
        ({"steps": 1, "sizes": ["a"]}, r"here: sizes is 'a'; allowed: a whole number\."),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        from_values(Outer, values, "here")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("steps", "not of the form key=value"),
        ("stps=1", "did you mean 'steps'"),
        ("inner.rat=1", "did you mean 'rate'"),
        ("steps.more=1", "'steps' is a value, not a group"),
        ("steps=0", "allowed: 1 and more"),
    ],
)
def test_a_wrong_override_is_refused(setting: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        override(Outer(1), [setting])


def test_a_key_of_another_program_is_answered_with_the_one_that_is_meant() -> None:
    assert unknown_key("learning_rate", ["lstm_width", "lr"]) == "unknown key 'learning_rate'; did you mean 'lr'?"
    assert unknown_key("learning_rate", ["steps", "name"]) == "unknown key 'learning_rate'; allowed: steps, name."


def test_what_other_programs_call_a_key_is_none_here_and_what_is_meant_is_one() -> None:
    keys = {*_keys(Recipe), *_keys(FinetuneRecipe), *(key for task in NAMED for key in _keys(type(named(task).task())))}
    assert not keys & ELSEWHERE.keys()
    assert {name for names in ELSEWHERE.values() for name in names} <= keys


def _keys(settings: type[Settings]) -> set[str]:
    """The keys of the settings and of the groups inside them."""
    inner = [hint for hint in typing.get_type_hints(settings).values() if dataclasses.is_dataclass(hint)]
    own = {field.name for field in dataclasses.fields(settings)}
    return own.union(*(_keys(one) for one in inner if isinstance(one, type)))


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("steps = ")
    with pytest.raises(ValueError, match=r"config\.toml is not TOML"):
        from_toml(Outer, tmp_path / "config.toml")
