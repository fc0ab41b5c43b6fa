from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from bertie.config import from_toml, from_values, override, to_toml, to_values


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


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("steps = ")
    with pytest.raises(ValueError, match=r"config\.toml is not TOML"):
        from_toml(Outer, tmp_path / "config.toml")
