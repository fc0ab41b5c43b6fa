"""bertie finetune, from top to bottom: labelled examples and a model in, a run folder with the best model out."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from bertie.carried import model_folder
from bertie.config import to_toml
from bertie.model.device import pick_device
from bertie.model.folder import require_model
from bertie.model.heads import Model
from bertie.sealed import sha256
from bertie.tasks.best import SCORED, Best, floor
from bertie.tasks.classify import Classify
from bertie.tasks.embed import Embed
from bertie.tasks.files import Columns
from bertie.tasks.held_out import hold_out
from bertie.tasks.judgements import FILE, write_judgements
from bertie.tasks.modes import make_model
from bertie.tasks.named import KINDS, AnyTask, check_texts, find_parts, named
from bertie.tasks.network import (
    Labelled,
    balanced_weights,
    features_size,
    form_of,
    judge,
    pack_rows,
    task_loss,
    with_features,
)
from bertie.tasks.recipe import LR, SMALL_LR, FinetuneRecipe, Written, loop_config, num_epochs, usual_lr
from bertie.tasks.tag import Tag
from bertie.tasks.task import Example, Row, some_of
from bertie.tasks.trained import Trained, save_trained
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks, set_up_process
from bertie.training.loop import Drawn, Hooks, LoopConfig, State, fit, fraction_done, place_of
from bertie.training.optimizers import make_optimizers
from bertie.training.resume import load_state, save_state
from bertie.training.run_folder import LOG, MODEL, STATES, begin, made_with, peak_memory, read_card, write_card
from bertie.training.runlog import Event, RunLog
from bertie.training.stopping import Asked, asked_to_stop

logger = logging.getLogger(__name__)
MUCH_UNKNOWN = 0.1  # of the tokens
Watch = Callable[[Event, float], None]  # is told each event, and the share of the run that is done


@dataclass(frozen=True)
class Order:
    """What to learn from what, and where it goes."""

    name: str  # of the task
    task: AnyTask
    recipe: FinetuneRecipe
    model: Path
    data: Path
    out: Path
    dev: Path | None = None
    columns: Columns = field(default_factory=Columns)
    resumes: bool = False
    allows_changes: bool = False


class Ending(NamedTuple):
    """How a run ended, by itself or by a signal, and what its best model scored on the held-out examples. A signal that
    came when there was nothing more to stop is for what would come after the run."""

    outcome: Literal["finished", "stopped", "finished before"]
    scores: Mapping[str, float]
    signal: int | None = None


def finetune(order: Order, watch: Watch) -> Ending:
    """Learn as ordered until all epochs are read, the score gains no more, or somebody asks to stop."""
    recipe = order.recipe
    set_up_process(recipe.threads, recipe.deterministic)
    with asked_to_stop() as asked, _begun(order) as parts:
        state = State(make_optimizers(parts.model, recipe.optimizer))
        was_saved = load_state(order.out / STATES, parts.model, state, parts.ranks)
        loop = loop_config(recipe, len(parts.train))
        lowest = floor(parts.task, parts.dev)
        best = Best.of_log(order.out / LOG, state.step, parts.task.main_score, lowest)
        if fraction_done(loop.budget, state) >= 1 or best.is_over:
            logger.info("%s is finished, with step %s: there is nothing to go on with.", order.out, f"{state.step:,}")
            _finish(parts, best, state)
            return Ending("finished before", best.scores)
        if order.resumes:
            what = f"goes on after step {state.step:,}" if was_saved else "has nothing saved yet: it begins anew"
            logger.info("%s %s.", order.out, what)
        with closing(RunLog(order.out / LOG, state.step)) as log:
            if was_saved:
                log.write({"event": "resume", **place_of(state)})
            hooks = _hooks(parts, loop, best, asked, _tell(log, watch, loop, state))
            outcome = fit(parts.model, parts.draw, parts.loss, loop, state, parts.ranks, hooks)
            if outcome == "stopped" and asked() is not None:
                return Ending("stopped", best.scores, asked())
            log.write({"event": "end", **place_of(state)})
        _finish(parts, best, state)
        return Ending("finished", best.scores, asked())


class Parts:
    """What a run is made of, once it is known to be possible."""

    def __init__(
        self, order: Order, task: AnyTask, tokenizer: Tokenizer, examples: "_Examples", model: Model, ranks: Ranks
    ) -> None:
        self.order, self.task, self.tokenizer, self.model, self.ranks = order, task, tokenizer, model, ranks
        self.dev = examples.dev
        rows = task.encode(examples.train, tokenizer)
        _tell_unknown(rows, tokenizer, order.model)
        train = [row for row in rows if row.targets is not None]
        self.train, self.dev_rows = self._read_once(train, task.encode(examples.dev, tokenizer))
        if not self.train:
            raise ValueError(f"{order.data} has no example that can be learned from.")
        unlabelled = [] if isinstance(task, Embed) else [one.where for one in examples.train if not one.is_labelled]
        if unlabelled:
            logger.warning(
                "%d of %d examples have no label, and so are not learned from: %s.",
                *(len(unlabelled), len(examples.train), some_of(unlabelled)),
            )
        is_balanced = isinstance(task, Classify) and task.weights == "balanced"
        self.loss = task_loss(task, balanced_weights(task, rows) if is_balanced else None)
        self._order: dict[int, list[int]] = {}

    def _read_once(self, *parts: list[Row]) -> list[list[Row]]:
        """The rows, with what a frozen encoder makes of them where there is memory for it."""
        mode, precision = self.order.recipe.mode, self.order.recipe.precision
        if not mode.is_frozen:
            return list(parts)
        size = features_size(self.model, [row for part in parts for row in part]) / 2**30
        if size > mode.features_memory:
            logger.info(
                "What the frozen encoder makes of the rows would take %.1f GiB, more than features_memory=%.1f: it is "
                "computed anew for each batch.",
                *(size, mode.features_memory),
            )
            return list(parts)
        logger.info("What the frozen encoder makes of the rows is computed once and kept: %.2f GiB.", size)
        return [with_features(self.model, part, self.ranks.device, precision) for part in parts]

    def draw(self, number: int) -> Drawn[Labelled]:
        """The batch of this number: the rows in an order of their own each epoch, one epoch after the other."""
        size = self.order.recipe.batch // self.order.recipe.parts
        rows = [self._row(place) for place in range(number * size, (number + 1) * size)]
        labelled = pack_rows(rows, form_of(self.task))
        num_tokens = sum(row.num_tokens for row in rows)
        return Drawn(labelled.to(self.ranks.device), num_tokens, {self.task.head: labelled.num_targets})

    def trained(self, scores: Mapping[str, float] | None = None) -> Trained:
        """The model as it is now, with the task as these scores tune it."""
        name, precision = self.order.name, self.order.recipe.precision
        return Trained(name, self.task.tune(scores or {}), self.model, self.tokenizer, precision)

    def _row(self, place: int) -> Row:
        epoch, at = divmod(place, len(self.train))
        if epoch not in self._order:
            self._order = {one: order for one, order in self._order.items() if one == epoch - 1}
            rng = np.random.default_rng((self.order.recipe.seed, epoch))
            self._order[epoch] = rng.permutation(len(self.train)).tolist()
        return self.train[self._order[epoch][at]]


def _tell_unknown(rows: Sequence[Row], tokenizer: Tokenizer, model: Path) -> None:
    """Say so where much of the text is not in the vocabulary, as Chinese is not in that of an English model."""
    num_unknown = sum(int((ids == tokenizer.unk_id).sum()) for row in rows for ids in row.ids)
    share = num_unknown / max(1, sum(row.num_tokens for row in rows))
    if share > MUCH_UNKNOWN:
        logger.warning(
            "%.0f%% of the examples' tokens are %s: the vocabulary of %s has no pieces for what stands there. Is it a "
            "model of another language?",
            *(100 * share, tokenizer.vocabulary[tokenizer.unk_id], model),
        )


class _Examples(NamedTuple):
    train: list[Example]
    dev: list[Example]


@contextmanager
def _begun(order: Order) -> Iterator[Parts]:
    """The run folder made, and held against other processes as long as it is trained in."""
    folder = model_folder(order.model)
    require_model(folder)
    kind = named(order.name)
    train_file, dev_file = find_parts(order.data, kind, order.dev)
    train = kind.read(train_file, order.columns, order.task)
    if dev_file is None and not order.recipe.held_out:
        examples = _Examples(train, [])
    elif dev_file is None:
        is_document = isinstance(order.task, Tag) and order.task.context == "document"
        examples = _Examples(*hold_out(train, order.recipe.held_out, order.recipe.held_out_seed, is_document))
        logger.info("%d of %d examples of %s are held out.", len(examples.dev), len(train), train_file)
    else:
        examples = _Examples(train, kind.read(dev_file, order.columns, order.task))
    check_texts([*examples.train, *examples.dev], may_be_empty=order.name not in KINDS)  # in a benchmark they are known
    task = order.task.learn([*examples.train, *examples.dev])
    ranks = alone(order.recipe.device)
    model = make_model(folder, task, order.recipe).to(ranks.device)
    tokenizer = Tokenizer.load(folder)
    parts = Parts(order, task, tokenizer, examples, model, ranks)
    if order.recipe.optimizer.lr < usual_lr(order.recipe.mode, model.config.width) == SMALL_LR:
        logger.info(
            "%s is only %d wide, and lr=%g is a rate for large models: a small one learns more by a higher rate, which "
            "--grid lr=1e-4,3e-4,1e-3 would find.",
            *(folder, model.config.width, order.recipe.optimizer.lr),
        )
    with begin(order.out, recipe_toml(order), order.resumes, order.allows_changes, ranks):
        _write_first_card(parts, train_file, dev_file)
        yield parts


def _hooks(parts: Parts, loop: LoopConfig, best: Best, asked: Asked, report: Callable[[Event], None]) -> Hooks:
    order, recipe, task = parts.order, parts.order.recipe, parts.task

    def evaluate() -> dict[str, float]:
        if not parts.dev:
            save_trained(order.out / MODEL, parts.trained())
            return {}
        judged = judge(parts.model, task, parts.dev_rows, parts.ranks.device, recipe.precision)
        predictions = task.decode(judged.outputs, parts.dev, parts.tokenizer)
        scores = task.score(predictions, parts.dev)
        if best.add(scores):
            save_trained(order.out / MODEL, parts.trained(scores))
            write_judgements(order.out / FILE, predictions, parts.dev)
        figures = {f"{SCORED}{name}": score for name, score in scores.items()}
        if judged.loss is not None:
            figures[f"{SCORED}loss"] = judged.loss
        return {**figures, "collapsed": 1.0} if best.is_at_floor(scores) else figures

    return Hooks(
        evaluate=evaluate,
        save=lambda state: save_state(order.out / STATES, parts.model, state, parts.ranks, recipe.keep),
        report=report,
        stop=lambda: asked() is not None or (recipe.patience is not None and best.num_since >= recipe.patience),
        clock=time.monotonic,
    )


def _tell(log: RunLog, watch: Watch, loop: LoopConfig, state: State) -> Callable[[Event], None]:
    def report(event: Event) -> None:
        log.write(event)
        watch(event, min(1.0, fraction_done(loop.budget, state)))

    return report


def _write_first_card(parts: Parts, train: Path, dev: Path | None) -> None:
    order = parts.order
    card = {
        "kind": "finetune",
        "task": order.name,
        "head": parts.task.head,
        "labels": parts.task.labels,
        "problem_type": parts.task.problem_type,
        "data": hashes(train, dev),
        "examples": {"rows": len(parts.train), "dev": len(parts.dev)},
        "epochs": num_epochs(order.recipe, len(parts.train)),
        "parameters": sum(one.numel() for one in parts.model.parameters()),
        "learning": sum(one.numel() for one in parts.model.parameters() if one.requires_grad),
        **made_with(parts.ranks.device),
    }
    known = read_card(order.out).get("data", card["data"])
    if known != card["data"]:
        raise ValueError(f"{order.out} was begun with other examples: give those, or begin a new run.")
    write_card(order.out, read_card(order.out) | card)


def hashes(train: Path, dev: Path | None) -> dict[str, str | None]:
    """By which a card knows the files a run learned from."""
    return {"train": sha256(train), "dev": None if dev is None else sha256(dev)}


def _finish(parts: Parts, best: Best, state: State) -> None:
    """Write what the run came to on its card; say so if it came to nothing."""
    if best.is_collapsed:
        logger.warning(
            "%s collapsed: its best model has %s %.4f, no better than one answer for all held-out examples. Try "
            "%s, another seed (--retry) or more epochs.",
            *(parts.order.out, parts.task.main_score, best.scores[parts.task.main_score]),
            _other_rate(parts),
        )
    figures = {"steps": state.step, "tokens": state.tokens, "seconds": state.seconds}
    figures["peak_memory"] = peak_memory(parts.ranks.device)
    chosen = {
        "score": parts.task.main_score,
        "scores": best.scores,
        "floor": best.floor,
        "collapsed": best.is_collapsed,
    }
    write_card(parts.order.out, read_card(parts.order.out) | figures | chosen)


def _other_rate(parts: Parts) -> str:
    """Where there may be a better rate than that of a run that learned nothing. A large model that learns as a whole
    collapses at rates that are too high; what is small may do so on either side."""
    rate, usual = parts.order.recipe.optimizer.lr, usual_lr(parts.order.recipe.mode, parts.model.config.width)
    if rate > 10 * usual or rate >= usual == LR:
        return "a lower lr"
    which = "a higher" if rate < usual else "another"
    return f"{which} lr (--grid lr={usual:g},{3 * usual:g},{10 * usual:g})"


def recipe_toml(order: Order) -> str:
    dev = None if order.dev is None else str(order.dev)
    recipe, task = order.recipe, order.task
    return to_toml(Written(order.name, str(order.model), str(order.data), dev, order.columns, recipe, task))


def alone(device: str) -> Ranks:
    return Ranks(pick_device(device))
