"""The pictures of the documentation are what docs/pictures/draw.py draws, in both languages, and say what they show."""

import subprocess
import sys
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LANGUAGES = ("en", "zh")
READMES = {"en": "README.md", "zh": "README.zh-CN.md"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    subprocess.run([sys.executable, str(PICTURES / "draw.py"), str(folder)], check=True)
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pictures_are_what_the_script_draws(drawn: Path, language: str) -> None:
    names = sorted(path.name for path in drawn.glob(f"*.{language}.svg"))
    assert names == sorted(path.name for path in PICTURES.glob(f"*.{language}.svg"))
    for name in names:
        assert (drawn / name).read_text("utf-8") == (PICTURES / name).read_text("utf-8"), f"draw {name} anew"


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_picture_stands_on_a_page_of_its_language(language: str) -> None:
    text = "".join(page.read_text("utf-8") for page in (PICTURES.parent / language).glob("*.md"))
    for picture in PICTURES.glob(f"*.{language}.svg"):
        assert f"](../pictures/{picture.name})" in text
        assert "<title>" in picture.read_text("utf-8") and picture.stat().st_size < 60_000


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_picture_of_the_report_is_small_and_shown(language: str) -> None:
    picture = PICTURES / f"report.{language}.png"
    assert picture.stat().st_size < 200_000
    assert f"](docs/pictures/{picture.name})" in (PICTURES.parents[1] / READMES[language]).read_text("utf-8")
