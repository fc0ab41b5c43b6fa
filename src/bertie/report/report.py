"""bertie report: run folders in, a page out that shows what the runs were made of, how they went, what they came to."""

from collections.abc import Sequence
from pathlib import Path

from bertie.carried import find
from bertie.report.cost import cost
from bertie.report.curves import curves
from bertie.report.errors import errors
from bertie.report.made_of import made_of
from bertie.report.overview import overview
from bertie.report.page import Section, write_page
from bertie.report.recipes import recipes
from bertie.report.runs import Run, read_runs
from bertie.report.scores import scores
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
    """Write the page about these folders of runs, corpora and vocabularies, or of models where there are texts to see a
    model at work on.

    texts: what the models are shown at work on, each a text or a pair with ` ||| ` between its two; looked_at: words of
    theirs to show in context; price: of an hour of a GPU. ValueError for a folder that is none of these; what is
    missing in one is said on the page.
    """
    if price is not None and not 0 <= price < float("inf"):
        raise ValueError(f"--price {price:g}: give what an hour of a GPU costs, a number not below 0.")
    words = Words(language)
    read = read_runs([run if run.exists() else find(run) for run in runs], words)
    bare = [run.folder for run in read if run.model == run.folder]
    if bare and not texts:
        raise ValueError(f"{bare[0]} is a model and no run: give --text, to see it at work.")
    title = words("Report on {names}", names=words(", ").join(run.name for run in read))
    write_page(out, title, _lead(read, words), _sections(read, price, Viewed(texts, looked_at), words), words)


def _lead(runs: Sequence[Run], words: Words) -> list[str]:
    """What is broken or missing in the runs, and in those inside them."""
    said = [words("{name}: {problem}", name=run.name, problem=problem) for run in runs for problem in run.problems]
    return said + [line for run in runs for line in _lead(run.each, words)]


def _sections(runs: Sequence[Run], price: float | None, viewed: Viewed, words: Words) -> list[Section]:
    """What there is to show, in the order of the river."""
    sources = [run for run in runs if run.is_source]
    models = {run.name: run.model for run in runs if not run.is_source}
    told = [run for run in runs if run.name in models and run.model != run.folder]  # a model alone has no story
    pretraining = [run for run in told if run.kind == "pretrain"]
    sections = [
        overview(told, words) if told else None,
        made_of([*sources, *pretraining], words),
        curves("pretraining", words("Pre-training"), pretraining, words),
        scores(told, words),
        errors(told, words),
        curves("finetuning", words("Fine-tuning curves"), _labelled(told), words),
        *(view_models(models, viewed, words) if viewed.texts else []),
        cost(told, price, words),
        recipes(told, words) if told else None,
    ]
    return [section for section in sections if section is not None]


def _labelled(runs: Sequence[Run]) -> list[Run]:
    """The runs that learned from labels, those of several seeds each by itself."""
    inner = [one for run in runs for one in _labelled(run.each)]
    return [run for run in runs if run.kind == "finetune" and not run.each] + inner
