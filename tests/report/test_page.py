import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from bertie.report.page import ASSETS, LIBRARY, Section, Table, write_page
from bertie.report.words import Words

# Of dist/echarts.min.js in version 6.1.0 of the package `echarts`, as its publisher has it.
LIBRARY_SHA256 = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"
NASTY = "</script><!-- & \u2028 <script>alert(1)</script>"


def written(path: Path, *sections: Section) -> str:
    write_page(path / "page.html", "A title", ["A lead."], sections, Words("en"))
    return (path / "page.html").read_text(encoding="utf-8")


def test_the_library_is_the_published_one_and_brings_its_licence() -> None:
    assert hashlib.sha256(LIBRARY.read_bytes()).hexdigest() == LIBRARY_SHA256
    assert "Apache License" in (LIBRARY.parent / "LICENSE").read_text()
    assert all((LIBRARY.parent / name).is_file() for name in ("NOTICE", "LICENSE-d3", "LICENSE-zrender"))


def test_data_cannot_end_its_element_and_comes_back_as_it_was(tmp_path: Path) -> None:
    page = written(
        tmp_path, Section(id="a", heading=NASTY, kind="curves", data={NASTY: [NASTY]}, alternative=NASTY, text=[NASTY])
    )
    found = re.search(r'<script type="application/json" id="a-figure-data">(.*?)</script>', page)
    assert found and json.loads(found[1]) == {NASTY: [NASTY]}
    assert "alert(1)</script>" not in page


def test_the_policy_names_each_script_and_style_and_nothing_else(tmp_path: Path) -> None:
    page = written(tmp_path, Section(id="a", heading="A", kind="curves", data={}, alternative="A."))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and policy[1].startswith("default-src 'none'") and "unsafe" not in policy[1]
    for tag in ("script", "style"):
        texts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes = {f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}" for text in texts}
        assert hashes == set(re.findall(r"sha256-[^']*(?=')", policy[1].split(f"{tag}-src")[1].split(";")[0]))
    assert not re.search(r'(src|href)="(?!#|data:,)', re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


def test_a_page_without_figures_carries_no_library(tmp_path: Path) -> None:
    page = written(tmp_path, Section(id="a", heading="A", table=Table(["x", "y"], [["1", "<2>"]])))
    assert "&lt;2&gt;" in page and len(page) < 20_000


def test_a_figure_without_a_text_is_refused() -> None:
    with pytest.raises(AssertionError, match="says nothing"):
        Section(id="a", heading="A", kind="curves")


def test_every_kind_registers_itself() -> None:
    for path in ASSETS.glob("*.js"):
        if path.stem not in ("frame", "viewer"):  # what all share, and what the viewer's share
            assert f'bertie.kinds["{path.stem}"] = ' in path.read_text(encoding="utf-8"), path.name
