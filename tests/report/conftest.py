"""Run folders as training leaves them, written by hand: small, and with whatever is to be wrong about them."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

MakeRun = Callable[..., Path]

PRETRAINED = {
    "kind": "pretrain",
    "corpus": {"sha256": "0" * 64, "counts": {"train": {"documents": 90, "sentences": 400, "tokens": 9000}}},
    "parameters": 4_400_000,
    "versions": {"bertie": "0.1", "torch": "2.11", "python": "3.11"},
    "commit": "0123456789ab",
    "threads": 1,
    "device": "x86_64",
}


OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: the system's, or the one that `playwright install chromium` brings."""
    here = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as started:
        try:
            chromium = started.chromium.launch(executable_path=here)
        except BrowserError:
            pytest.skip("there is no Chromium here: .venv/bin/playwright install chromium")
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """A function that opens a page from disk, all its figures drawn. In the end no script has complained, and nothing
    was asked for beside the page itself."""
    complaints: list[str] = []
    contexts = []

    def complain_of_request(url: str, page_url: str) -> None:
        if url != page_url and not url.startswith(("data:", "blob:")):
            complaints.append(url)

    def open_(path: Path, width: int = 1280, theme: str = "light", touch: bool = False) -> Page:
        viewport = {"width": width, "height": 900}
        context = browser.new_context(viewport=viewport, color_scheme=theme, has_touch=touch, is_mobile=touch)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: complain_of_request(asked.url, path.as_uri()))
        page.goto(path.as_uri())
        for figure in page.locator(".figure").all():
            figure.scroll_into_view_if_needed()
            figure.and_(page.locator("[data-state=drawn]")).wait_for(timeout=20_000)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A function that writes a pre-training run of so many steps and gives its folder."""

    def make(name: str = "my-run", steps: int = 60, lr: float = 1e-3, is_finished: bool = True) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text('preset = "tiny"\nbatch = 32\n\n[optimizer]\nlr = 0.001\n')
        events = [event(step, steps, lr) for step in range(1, steps + 1)]
        events += [
            {"event": "evaluate", **place(steps), "validation_masked_loss": 6.5, "validation_masked_accuracy": 0.1}
        ]
        events += [{"event": "end", **place(steps)}] if is_finished else []
        (folder / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
        ending = {"steps": steps, "tokens": 100 * steps, "seconds": 0.5 * steps, "tokens_per_second": 200.0}
        (folder / "card.json").write_text(json.dumps(PRETRAINED | (ending if is_finished else {})))
        return folder

    return make


def place(step: int) -> dict[str, float]:
    return {"step": step, "tokens": 100 * step, "seconds": 0.5 * step}


def event(step: int, steps: int, lr: float) -> dict[str, object]:
    """A step whose loss falls from 9 towards 6 with some noise that is the same each time."""
    noise = math.sin(37 * step) / 5
    return {
        "event": "train",
        **place(step),
        "loss": 6.7 + 3 * math.exp(-5 * step / steps) + noise,
        "masked_loss": 6 + 3 * math.exp(-5 * step / steps) + noise,
        "masked_accuracy": 0.12 * step / steps,
        "pair_loss": 0.7,
        "pair_accuracy": 0.5,
        "lr": lr * (1 - step / steps),
        "gradient_norm": 1.0,
        "tokens_per_second": 0.0 if step == 1 else 200.0,
    }


@pytest.fixture
def make_finetuned(tmp_path: Path) -> MakeRun:
    """A function that writes a run with labels, one for each score as its seeds, and gives the folder of all."""

    def make(name: str = "my-fine", scores: tuple[float, ...] = (0.75,), **changes: object) -> Path:
        folder = tmp_path / name
        if len(scores) == 1:
            return finetuned(folder, scores[0], changes)
        runs = []
        for seed, score in enumerate(scores):
            finetuned(folder / f"seed-{seed}", score, changes)
            runs.append({"setting": "", "seed": seed, "folder": f"seed-{seed}", "was_repeated": False})
        (folder / "recipe.toml").write_text("[run]\nbatch = 16\n")
        card = {"kind": "finetune", "task": "classify", "score": "accuracy", "runs": runs}
        (folder / "card.json").write_text(json.dumps(card))
        return folder

    return make


def finetuned(folder: Path, score: float, changes: dict[str, object]) -> Path:
    """A run on two labels: of eight held-out examples one `up` is called `down`."""
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text("[run]\nbatch = 16\n")
    events = [{"event": "train", **place(step), "loss": 1 / step, "lr": 1e-5} for step in range(1, 9)]
    events.append({"event": "evaluate", **place(8), "validation_accuracy": score, "validation_loss": 0.6})
    (folder / "log.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in [*events, {"event": "end", **place(8)}])
    )
    card = {
        "kind": "finetune",
        "task": "classify",
        "labels": ["down", "up"],
        "problem_type": "single_label_classification",
        "parameters": 4_400_000,
        "gpu": True,
        "device": "A GPU",
    }
    ending = {"steps": 8, "tokens": 800, "seconds": 3600.0, "peak_memory": 3 * 2**29, "score": "accuracy"}
    came_to = {"scores": {"accuracy": score, "f1": 0.5}, "floor": 0.5, "collapsed": score <= 0.5}
    (folder / "card.json").write_text(json.dumps(card | ending | came_to | changes))
    lines = [{"text": f"text {number}", "gold": "up", "called": "up", "error": 0} for number in range(7)]
    lines.append({"text": "it <rose>", "pair": "or not", "gold": "up", "called": "down", "error": 0.9})
    (folder / "held_out.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder
