"""bertie report: run folders in, a page out that shows what the runs were made of, how they went, what they came to."""

from collections.abc import Sequence
from pathlib import Path

from bertie.report.curves import curves
from bertie.report.page import Section, write_page
from bertie.report.runs import Run, read_runs
from bertie.report.viewer import Viewed, view_models
from bertie.report.words import Words


def make_report(
    runs: Sequence[Path],
    out: Path,
    language: str = "en",
    texts: Sequence[str] = (),
    looked_at: Sequence[str] = (),
    price: float | None = None,
) -> None:
    """Write the page about these run folders, or model folders where there are texts to see a model at work on.

    texts: what the models are shown at work on, each a text or a pair with ` ||| ` between its two; looked_at: words of
    theirs to show in context; price: of an hour of a GPU. ValueError for a folder that is neither run nor model; what
    is missing in one is said on the page.
    """
    words = Words(language)
    read = read_runs(runs, words)
    bare = [run.folder for run in read if run.model == run.folder]
    if bare and not texts:
        raise ValueError(f"{bare[0]} is a model and no run: give --text, to see it at work.")
    title = words("Report on {names}", names=", ".join(run.name for run in read))
    write_page(out, title, _lead(read, words), _sections(read, Viewed(texts, looked_at), words), words)


def _lead(runs: Sequence[Run], words: Words) -> list[str]:
    return [words("{name}: {problem}", name=run.name, problem=problem) for run in runs for problem in run.problems]


def _sections(runs: Sequence[Run], viewed: Viewed, words: Words) -> list[Section]:
    """What there is to show, in the order of the river."""
    sections = [
        curves("pretraining", words("Pre-training"), [run for run in runs if run.kind == "pretrain"], words),
        curves("finetuning", words("Fine-tuning"), [run for run in runs if run.kind == "finetune"], words),
    ]
    sections += view_models({run.name: run.model for run in runs}, viewed, words) if viewed.texts else []
    return [section for section in sections if section is not None]
