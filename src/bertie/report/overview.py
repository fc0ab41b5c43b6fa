"""The runs at a glance: what each is, how long it took, what it came to."""

from collections.abc import Iterator, Sequence

from bertie.report.amounts import ABSENT, count, decimal, duration, share
from bertie.report.cost import seconds_of
from bertie.report.page import Section, Table
from bertie.report.results import Result, results_of, spread
from bertie.report.runs import Run, figure
from bertie.report.words import Words

KINDS = {"pretrain": "pre-training", "finetune": "fine-tuning", "glue": "GLUE"}


def overview(runs: Sequence[Run], words: Words) -> Section:
    rows = [[run.name, *_row(run, words)] for run in runs]
    header = [words("run"), words("kind"), words("parameters"), words("time"), words("on held-out text")]
    return Section(id="overview", heading=words("At a glance"), table=Table(header, rows))


def _row(run: Run, words: Words) -> list[str]:
    inner = [one for task in run.each for one in (task, *task.each)]
    parameters = next((found for one in (run, *inner) if (found := figure(one.card, "parameters")) is not None), None)
    seconds = [found for one in (run, *inner) if (found := seconds_of(one)) is not None]
    kind = KINDS.get(run.kind)
    named = run.kind if kind is None else words(kind)
    task = run.card.get("task")
    named = words(", ").join([named, words.of_card(task)]) if isinstance(task, str) else named
    return [named, count(parameters), duration(sum(seconds), words) if seconds else ABSENT, _result(run, words)]


def _result(run: Run, words: Words) -> str:
    if run.kind != "pretrain":
        results = list(results_of(run))
        return words("; ").join([_labelled(run, results, words), *_collapsed(results, words)])
    parts = []
    loss, masked, pairs = (_last_validation(run, name) for name in ("masked_loss", "masked_accuracy", "pair_accuracy"))
    if loss is not None:
        parts.append(words("masked-word loss {loss}", loss=decimal(loss, 3)))
    if masked is not None:
        parts.append(words("{share} of masked words guessed", share=share(masked)))
    if pairs is not None:
        parts.append(words("{share} of pairs told", share=share(pairs)))
    return words(", ").join(parts) or ABSENT


def _labelled(run: Run, results: Sequence[Result], words: Words) -> str:
    """The mean score; of several settings the best one's, of a suite the average of its columns."""
    average = figure(run.card, "average")
    if average is not None:
        return words("average {score} of {count} tasks", score=decimal(average), count=len(results))
    if not results:
        return ABSENT
    best = max(results, key=lambda one: spread(one.each)[0])
    if len(results) == 1 or run.kind == "glue":
        return words("; ").join(_score(one.main, one.each, words) for one in results)
    told = _score(best.main, best.each, words)
    return words("{score}: {name}, the best of {count} settings", score=told, name=best.name, count=len(results))


def _collapsed(results: Sequence[Result], words: Words) -> Iterator[str]:
    """How many of the runs learned nothing, where there are such."""
    number = sum(one.num_collapsed for one in results)
    count_all = sum(len(one.each) + one.num_repeated for one in results)
    if number and count_all == 1:
        yield words("the run collapsed")
    elif number:
        yield words("{count} of {all} runs collapsed", count=number, all=count_all)


def _score(name: str, each: Sequence[float], words: Words) -> str:
    mean, deviation = spread(each)
    said = f"{words.of_score(name)} {decimal(mean)}"
    return said if deviation is None else f"{said} ± {decimal(deviation)} ({len(each)})"


def _last_validation(run: Run, name: str) -> float | None:
    """What the card says, of a run that is not finished what the log says last."""
    stated = figure(run.card, f"validation_{name}")
    column = run.log.evaluations.get(f"validation_{name}")
    return stated if stated is not None else None if column is None else float(column[-1])
