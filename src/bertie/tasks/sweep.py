"""Several runs of one order, over settings and seeds: each in a folder of its own, compared, the best model kept."""

import itertools
import logging
import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bertie.sealed import replacing_folder
from bertie.tasks.named import AnyTask, find_parts, named
from bertie.tasks.recipe import FinetuneRecipe
from bertie.tasks.run import Ending, Order, Watch, alone, finetune, hashes, recipe_toml
from bertie.training.run_folder import MODEL, begin, read_card, write_card
from bertie.training.runlog import Event

logger = logging.getLogger(__name__)
PAPER = ("batch=16,32", "lr=5e-5,3e-5,2e-5", "epochs=2,3,4")  # of the appendix, for all tasks
Variants = Mapping[str, tuple[FinetuneRecipe, AnyTask]]


@dataclass(frozen=True)
class Sweep:
    """What to run. order: what all runs have in common, and where they go; variants: recipe and task under the name of
    each setting, "" where there is one only; a run that collapses is repeated, up to num_retries times, with a seed
    that no run of its setting has had."""

    order: Order
    variants: Variants
    num_seeds: int = 1
    num_retries: int = 0


class Run(NamedTuple):
    """What became of one run; was_repeated: it collapsed, and another one took its place."""

    setting: str
    seed: int
    folder: str
    main: str
    scores: Mapping[str, float]
    is_collapsed: bool
    was_repeated: bool = False

    @property
    def score(self) -> float:
        return self.scores[self.main]


@dataclass(frozen=True)
class Summary:
    """The runs of one setting together, without those that were repeated."""

    setting: str
    each: tuple[float, ...]
    mean: float
    deviation: float
    best: float
    worst: float
    collapsed: int  # of all its runs


class Swept(NamedTuple):
    """How the sweep ended, and what came of it, the best setting first."""

    ending: Ending
    main: str = ""
    summaries: Sequence[Summary] = ()
    best: Run | None = None


def settings_of(grid: Sequence[str]) -> list[tuple[str, ...]]:
    """All combinations of what `key=value,value` lines name, as `--set` takes them; ValueError for a line that is none.

    "paper" stands for the paper's grid."""
    lines = [line for one in grid for line in (PAPER if one == "paper" else (one,))]
    choices: list[list[str]] = []
    for line in lines:
        key, equals, values = line.partition("=")
        found = [f"{key.strip()}={value}" for value in _split(values)]
        if not equals or not key.strip() or not found:
            raise ValueError(f"--grid {line}: give a key and its values, as lr=5e-5,3e-5; --grid alone is the paper's.")
        if len(found) != len(set(found)) or any(one[0].startswith(f"{key.strip()}=") for one in choices):
            raise ValueError(f"--grid {line}: each key and each of its values once.")
        if key.strip() == "seed":
            raise ValueError(f"--grid {line}: runs with several seeds are asked for by --seeds N.")
        choices.append(found)
    return list(itertools.product(*choices))


def _split(values: str) -> list[str]:
    """The values between commas that stand in no brackets."""
    found, depth = [""], 0
    for character in values:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [value.strip() for value in found if value.strip()]


def name_of(settings: Sequence[str]) -> str:
    """The settings as the name of a folder."""
    text = "_".join(setting.replace("=", "-") for setting in settings)
    return "".join(one if one.isalnum() or one in "-_.+" else "" for one in text)


def finetune_seeds(order: Order, num_seeds: int, watch: Watch) -> Ending:
    """As many runs as there are seeds, each in a folder of its own inside order.out, whose model is the best one's."""
    return sweep(Sweep(order, {"": (order.recipe, order.task)}, num_seeds), watch).ending


def sweep(plan: Sweep, watch: Watch) -> Swept:
    """All runs of the plan; those that are finished already are not repeated. ValueError if nothing is held out."""
    order = plan.order
    train, dev = find_parts(order.data, named(order.name), order.dev)
    if dev is None and not all(recipe.held_out for recipe, _ in plan.variants.values()):
        raise ValueError("runs are compared by scores, so something must be held out: leave out held_out=0.")
    with begin(order.out, recipe_toml(order), order.resumes, order.allows_changes, alone("cpu")), _each_said_once():
        return _run_all(plan, hashes(train, dev), watch)


@contextmanager
def _each_said_once() -> Iterator[None]:
    """What runs say of the model and the examples that they share is said by the first of them alone."""
    handlers = logging.getLogger().handlers
    filters = [_New() for _ in handlers]
    for handler, new in zip(handlers, filters, strict=True):
        handler.addFilter(new)
    try:
        yield
    finally:
        for handler, new in zip(handlers, filters, strict=True):
            handler.removeFilter(new)


class _New(logging.Filter):
    """Lets a sentence pass once."""

    def __init__(self) -> None:
        super().__init__()
        self._said: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        sentence = record.getMessage()
        is_new = sentence not in self._said
        self._said.add(sentence)
        return is_new


def _run_all(plan: Sweep, data: Mapping[str, str | None], watch: Watch) -> Swept:
    planned = [(setting, number) for setting in plan.variants for number in range(plan.num_seeds)]
    runs: list[Run] = []
    for count, (setting, number) in enumerate(planned):
        if len(planned) > 1:
            logger.info("Run %d of %d%s.", count + 1, len(planned), f", {setting}" if setting else "")
        found = _until_one_learns(plan, setting, number, data, _part_of(watch, count, len(planned)))
        if isinstance(found, Ending):
            return Swept(found)
        runs += found
    return _conclude(plan, runs)


def _until_one_learns(
    plan: Sweep, setting: str, number: int, data: Mapping[str, str | None], watch: Watch
) -> list[Run] | Ending:
    """The run with the seed of this number, and those that it took in its place; an ending if one was stopped."""
    recipe, task = plan.variants[setting]
    spare = recipe.seed + plan.num_seeds + number * plan.num_retries
    runs: list[Run] = []
    for seed in [recipe.seed + number, *range(spare, spare + plan.num_retries)]:
        folder = Path(setting) / f"seed-{seed}"
        order = replace(plan.order, recipe=replace(recipe, seed=seed), task=task, out=plan.order.out / folder)
        if runs:
            logger.info("It is repeated as %s.", folder.as_posix())
            runs[-1] = runs[-1]._replace(was_repeated=True)
        ending = _finish(order, data, watch)
        if ending is not None:
            return ending
        card = read_card(order.out)
        main, scores, is_collapsed = card["score"], card["scores"], card["collapsed"]
        assert isinstance(main, str) and isinstance(scores, dict) and isinstance(is_collapsed, bool)
        runs.append(Run(setting, seed, folder.as_posix(), main, scores, is_collapsed))
        if not is_collapsed:
            break
    return runs


def _finish(order: Order, data: Mapping[str, str | None], watch: Watch) -> Ending | None:
    """See to it that the run is finished; how it ended if it was stopped before that."""
    card = read_card(order.out)
    if "collapsed" in card:  # which is written at a run's end
        with begin(order.out, recipe_toml(order), True, False, alone("cpu")):
            if card["data"] != data:
                raise ValueError(f"{order.out} learned from other examples: give those, or begin anew elsewhere.")
        return None
    ending = finetune(replace(order, resumes=order.resumes and order.out.exists()), watch)
    return None if ending.signal is None else ending._replace(outcome="stopped")


def _conclude(plan: Sweep, runs: Sequence[Run]) -> Swept:
    out, main = plan.order.out, runs[0].main
    counted = [run for run in runs if not run.was_repeated]
    best = max(counted, key=lambda run: run.score)
    summaries = sorted((_summary(setting, runs) for setting in plan.variants), key=lambda one: -one.mean)
    with replacing_folder(out / MODEL) as copy:
        shutil.copytree(out / best.folder / MODEL, copy, dirs_exist_ok=True)
    kept = {"kind": "finetune", "task": plan.order.name, "score": main, "scores": dict(best.scores)}
    table = {"settings": [asdict(one) for one in summaries], "runs": [run._asdict() for run in runs]}
    first = {"seeds": plan.num_seeds, "mean": summaries[0].mean, "deviation": summaries[0].deviation}
    chosen = {"each": list(summaries[0].each), "best_seed": best.seed, "best_run": best.folder}
    write_card(out, {**kept, **first, **chosen, **table})
    num_collapsed = sum(run.is_collapsed for run in runs)
    if num_collapsed:
        named_ones = ", ".join(run.folder for run in runs if run.is_collapsed)
        logger.warning("%d of %d runs collapsed: %s.", num_collapsed, len(runs), named_ones)
    return Swept(Ending("finished", best.scores), main, summaries, best)


def _summary(setting: str, runs: Sequence[Run]) -> Summary:
    mine = [run for run in runs if run.setting == setting]
    each = tuple(run.score for run in mine if not run.was_repeated)
    deviation = statistics.stdev(each) if len(each) > 1 else 0.0
    num_collapsed = sum(run.is_collapsed for run in mine)
    return Summary(setting, each, statistics.mean(each), deviation, max(each), min(each), num_collapsed)


def _part_of(watch: Watch, number: int, count: int) -> Watch:
    """Whoever watches the whole is told of one run's share as a part of it."""

    def tell(event: Event, share: float) -> None:
        watch(event, (number + share) / count)

    return tell
