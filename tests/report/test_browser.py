"""The report in a real Chromium: nothing is fetched, nothing fails, all can be read, heard and driven by keys."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from bertie.report.report import make_report
from tests.report.conftest import MakeRun, OpenPage

TEXTS = ["the value of the [MASK] is a string", "a function ||| a class"]
FIRST = "#pretraining [role=img]"  # the first chart, of the masked-word loss
OPTION = f"echarts.getInstanceByDom(document.querySelector('{FIRST}')).getOption()"
GROUND = "getComputedStyle(document.body).backgroundColor"
DARK, LIGHT = "rgb(20, 23, 28)", "rgb(255, 255, 255)"


@pytest.fixture
def report(make_run: MakeRun, make_finetuned: MakeRun, example_folder: Path, tmp_path: Path) -> Path:
    """A page with every section: two runs of pre-training, one of them long, runs with labels, a model at work."""
    numbers = make_finetuned("numbers", problem_type="regression", labels=[])
    judged = {"text": "a text of several words", "gold": "1.5", "called": "2.25", "error": 0.75}
    (numbers / "held_out.jsonl").write_text(json.dumps(judged) + "\n")
    runs = [make_run("one"), make_run("two", steps=3000), make_finetuned(scores=(0.6, 0.8)), numbers]
    make_report([*runs, example_folder / "my-bert"], tmp_path / "report.html", "en", TEXTS, price=2.0)
    return tmp_path / "report.html"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_fits_every_width_in_both_themes(open_page: OpenPage, report: Path, theme: str, width: int) -> None:
    page = open_page(report, width, theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(GROUND) == {"light": LIGHT, "dark": DARK}[theme]
    assert page.locator(".figure").count() > 5


LABELS = """all => all.flatMap(element => {
    const chart = echarts.getInstanceByDom(element), found = [];
    for (const one of chart.getZr().storage.getDisplayList(true)) {
        if (one.type !== "tspan" || one.ignore || one.invisible || !one.style.text) continue;
        const { x, y, width, height } = one.getBoundingRect().clone();
        const [left, top] = one.transformCoordToGlobal(x, y);
        found.push({ text: one.style.text, left, top, right: left + width, bottom: top + height });
    }
    const isOut = one => one.left < -1 || one.right > chart.getWidth() + 1;
    const meets = (one, other) => one !== other && one.left < other.right && other.left < one.right
        && one.top < other.bottom - 2 && other.top < one.bottom - 2;
    return found.filter(one => isOut(one) || found.some(other => meets(one, other))).map(one => one.text);
})"""


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_label_of_an_axis_is_cut_or_stands_on_another(open_page: OpenPage, report: Path, width: int) -> None:
    page = open_page(report, width)
    charts = ", ".join(f"#{id_} .chart" for id_ in ("pretraining", "finetuning", "scores", "errors"))
    for axis in ("seconds", "tokens", "step"):
        for choice in page.locator(".tools select:has(option[value=tokens])").all():
            choice.select_option(axis)
        assert page.eval_on_selector_all(charts, LABELS) == [], axis


def test_every_figure_says_in_words_what_it_shows(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    silent = "all => all.filter(one => !one.closest('[role]:not(.figure)')).map(one => one.id)"
    assert page.eval_on_selector_all("canvas", silent) == []
    unnamed = """all => all.filter(one => !one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby')
        && !one.labels?.length).map(one => one.outerHTML.slice(0, 80))"""
    assert page.eval_on_selector_all("[role=img], .figure, [role=region], select, input", unnamed) == []
    described = (
        "all => all.map(one => document.getElementById(one.getAttribute('aria-describedby')).textContent.length)"
    )
    assert min(page.eval_on_selector_all(".figure", described)) > 10
    ids = page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
    assert len(ids) == len(set(ids))


def test_without_scripts_the_tables_tell_the_same(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert "masked-word loss 6.500" in page.inner_text("#overview")
    page.click("#pretraining summary")
    assert "Masked-word loss" in page.inner_text("#pretraining table")
    context.close()


def test_keys_zoom_all_charts_and_move_along_one(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    zooms = f"""() => [...document.querySelectorAll("{FIRST}")].map(one => {{
        const {{ start, end }} = echarts.getInstanceByDom(one).getOption().dataZoom[0]; return start + '-' + end; }})"""
    page.locator(FIRST).first.focus()
    page.keyboard.press("+")
    page.wait_for_function(f"({zooms})().every(one => one === '25-75')")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('#pretraining [role=status]').textContent.includes('two: ')")
    told = re.match(r"Masked-word loss, ([\d,]+) steps", page.inner_text("#pretraining [role=status]"))
    assert told and 750 < int(told[1].replace(",", "")) < 900  # what is in sight begins at the first quarter
    page.keyboard.press("0")
    page.wait_for_function(f"({zooms})().every(one => one === '0-100')")


def test_hovering_shows_the_values_of_a_step(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    shown = """one => { globalThis.tips = []; echarts.getInstanceByDom(one).on('showTip', tip => tips.push(tip)); }"""
    page.eval_on_selector(FIRST, shown)
    page.hover(FIRST)
    page.wait_for_function("tips.length > 0")


def test_lines_are_drawn_over_time_and_hidden_and_logarithmic(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    last = f"Math.max(...{OPTION}.series.flatMap(one => one.data.map(point => point[0])))"
    assert page.evaluate(last) == 3000
    page.select_option("#pretraining select", "seconds")
    assert page.evaluate(last) == 1500
    page.click("#pretraining .run:has-text('two')")
    assert page.evaluate(f"Object.values({OPTION}.legend[0].selected)").count(False) == 3
    page.click("#pretraining button:has-text('Logarithmic')")
    assert page.evaluate(f"{OPTION}.yAxis[0].type") == "log"


def test_a_cell_of_the_matrix_shows_its_examples(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    page.click("#errors .matrix button")
    assert "it <rose> ‖ or not" in page.inner_text("#errors .behind")


def test_the_theme_that_is_chosen_is_kept(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    assert page.inner_text("#theme") == "Theme: As the system"
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: Dark" and page.evaluate(GROUND) == DARK
    page.reload()
    assert page.inner_text("#theme") == "Theme: Dark" and page.evaluate(GROUND) == DARK


def test_the_first_key_offers_to_skip_to_the_content(open_page: OpenPage, report: Path) -> None:
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.url.endswith("#content")


def test_a_figure_that_fails_opens_its_table(browser: Browser, report: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    failing = "addEventListener('DOMContentLoaded', () => { bertie.kinds.curves = () => { throw Error('no'); }; })"
    page.add_init_script(failing)
    page.goto(report.as_uri())
    page.locator("#pretraining-figure").scroll_into_view_if_needed()
    page.wait_for_selector("#pretraining-figure[data-state=failed]")
    assert "could not be drawn" in page.inner_text("#pretraining")
    assert page.is_visible("#pretraining table")
    context.close()


def test_a_finger_that_begins_on_a_chart_moves_the_page(open_page: OpenPage, report: Path) -> None:
    page = open_page(report, 360, touch=True)
    page.eval_on_selector(FIRST, "one => one.scrollIntoView({ block: 'center', behavior: 'instant' })")
    box = page.locator(FIRST).first.bounding_box()
    before = page.evaluate("scrollY")
    assert box
    x, y = box["x"] + 150, box["y"] + 100
    touches = page.context.new_cdp_session(page)
    touches.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for moved in range(10, 200, 10):
        touches.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x, "y": y - moved}]})
    touches.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function("before => scrollY > before + 50", arg=before)
