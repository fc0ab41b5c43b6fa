"""`make docs`: every page is on the site, in both languages; links lead somewhere; nothing is loaded from elsewhere."""

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs bertie[docs]")
DOCS = Path(__file__).parents[2] / "docs"


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        if "id" in values:
            self.places.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if "src" in values or tag == "link":
            self.loads.add(values.get("src") or values["href"])


def build(docs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(docs / "site" / "build.py"), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(DOCS, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def site(out: Path) -> dict[str, Page]:
    return {path.relative_to(out).as_posix(): Page(path) for path in sorted(out.rglob("*.html"))}


def test_every_page_is_in_the_navigation_of_its_language(site: dict[str, Page]) -> None:
    for language in ("en", "zh"):
        names = {f"{path.stem}.html" for path in (DOCS / language).glob("*.md")}
        assert names - {"index.html"} <= site[f"{language}/index.html"].links


@pytest.mark.parametrize(("language", "other"), [("en", "zh"), ("zh", "en")])
def test_every_page_leads_to_itself_in_the_other_language(site: dict[str, Page], language: str, other: str) -> None:
    for path in (DOCS / language).glob("*.md"):
        twin = f"{path.stem}.html" if (DOCS / other / path.name).exists() else "index.html"
        assert f"../{other}/{twin}" in site[f"{language}/{path.stem}.html"].links


def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: dict[str, Page], out: Path) -> None:
    for name, page in site.items():
        assert [one for one in page.loads if one.startswith(("http:", "https:", "//"))] == []
        for link in page.links:
            target, _, place = link.partition("#")
            if ":" in target:
                continue
            there = normpath(f"{name}/../{target}") if target else name
            assert (out / there).exists(), f"{name} leads to {link}"
            assert not place or place in site[there].places, f"{name} leads to {link}"


def test_a_broken_link_fails_and_a_page_outside_the_contents_is_found(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    page = tmp_path / "docs" / "en" / "new.md"
    page.write_text("# New\n\n[nowhere](formats.md#no-such-place)\n", encoding="utf-8")
    done = build(tmp_path / "docs", tmp_path / "site")
    assert done.returncode != 0
    assert "no-such-place" in done.stderr
    assert "new.html" in Page(tmp_path / "site" / "en" / "index.html").links


def test_chinese_is_searched_by_pairs_of_characters(out: Path) -> None:
    index = (out / "zh" / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["terms"]
    assert "盖词" in terms and "遮盖词" not in terms
