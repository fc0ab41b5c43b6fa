"""bertie demo, from top to bottom: what the commands do, one after the other, on text that every machine has.

What is whole in the folder is not made again: stopped anywhere, the same command goes on, and in the end it rests.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import click
import torch

from bertie import console
from bertie.carried import DEFAULT, names
from bertie.corpus.build import CorpusConfig, build_corpus
from bertie.corpus.shards import open_corpus
from bertie.demo.gather import GatherConfig, gather, libraries
from bertie.demo.look import TEXTS, WORDS_IN_CONTEXT, fill, guess_by_count, looks, nearest
from bertie.demo.speech import SPEECH
from bertie.model.folder import build, save
from bertie.model.folder import load as load_model
from bertie.pretraining.recipe import change, model_config, read_recipe, with_budget
from bertie.pretraining.run import Order as Pretraining
from bertie.pretraining.run import pretrain
from bertie.report.report import make_report
from bertie.sealed import write_file
from bertie.serving.predict import load
from bertie.tasks.recipe import change as change_finetuning
from bertie.tasks.recipe import make_recipe
from bertie.tasks.run import Order as Finetuning
from bertie.tasks.sweep import Sweep, Swept, sweep
from bertie.text.vocabulary import VocabularyConfig, learn_vocabulary
from bertie.text.wordpiece import Tokenizer
from bertie.training.loop import Budget
from bertie.training.run_folder import MODEL, RECIPE, read_card
from bertie.training.runlog import Event

FILE, REPORT = "demo.json", "report.html"
HOLD_BACK = 25  # one document of so many
FROZEN = ("features=mix_all", "lr=3e-3", "epochs=20", "batch=16", "evaluations=1")  # measured: docs/en/log.md
FINETUNING = ("lr=1e-3", "epochs=3", "batch=16", "dropout=0.1", "evaluations=1")  # measured: docs/en/log.md


@dataclass(frozen=True)
class DemoConfig:
    """How much of everything; the defaults are for five minutes on two cores. `pretraining`, `finetuning` and `frozen`
    are changes, as `--set` takes them: to the recipe `demo`, and to the stable one where all or the head learns."""

    gather: GatherConfig = field(default_factory=lambda: GatherConfig(libraries()))
    vocabulary_size: int = 4000
    minutes: float = 2.0  # of pre-training
    seeds: int = 5  # of fine-tuning
    frozen_seeds: int = 2  # of heads on frozen networks, which differ less
    pretraining: tuple[str, ...] = ()
    finetuning: tuple[str, ...] = FINETUNING
    frozen: tuple[str, ...] = FROZEN
    beside: str = DEFAULT  # what stands beside the demo's own model, where the package carries it


class _Learner(NamedTuple):
    """A network that learns to tell modules apart: the model to begin with, what is changed, how many seeds."""

    label: str
    model: Path
    settings: tuple[str, ...]
    seeds: int


class Demo:
    """The folder of a demo, and the language that it is told in."""

    def __init__(self, config: DemoConfig, out: Path, language: str) -> None:
        self.config, self.out, self.language, self.words = config, out, language, SPEECH[language]
        recipe = change(read_recipe("demo"), config.pretraining)
        self.recipe = with_budget(recipe, Budget(config.minutes, "minutes"))
        self.beside = config.beside if config.beside in names() else None

    def run(self) -> int | None:
        """See to it that everything is in the folder, and tell of it; the signal that stopped it, if one did."""
        started = time.monotonic()
        if self._finished_in() == self.language:
            self._say("finished", out=self.out)
            self._say("report", page=(self.out / REPORT).resolve().as_uri())
            self._say("next", out=self.out)
            return None
        self._note()
        self._say("title", out=self.out)
        self._gather()
        self._learn_vocabulary()
        self._build_corpus()
        stopped = self._pretrain() or self._finetune()
        if stopped is not None:
            self._say("stopped")
            return stopped
        self._look()
        self._report()
        self._note(self.language)
        self._say("seconds", duration=console.duration(time.monotonic() - started))
        self._say("next", out=self.out)
        return None

    def _gather(self) -> None:
        self._say("gather")
        text = self.out / "text"
        if not self._is_there(text):
            with console.progress("reading", "modules") as report:
                gather(self.config.gather, text, self.out / "modules", report)
        sizes = [path.stat().st_size for path in text.iterdir()]
        self._say("gathered", modules=len(sizes), characters=sum(sizes), folder=text)

    def _learn_vocabulary(self) -> None:
        self._say("vocabulary", size=self.config.vocabulary_size)
        out = self.out / "vocabulary"
        if not self._is_there(out):
            card = learn_vocabulary(VocabularyConfig(self.config.vocabulary_size), [self.out / "text"], out)
            click.echo(console.table([self.words["on_held_out"], self.words["the_vocabulary"]], card.rows()))

    def _build_corpus(self) -> None:
        self._say("corpus", nth=HOLD_BACK)
        out = self.out / "corpus"
        if not self._is_there(out):
            config = CorpusConfig(validation=1 / HOLD_BACK)
            card = build_corpus(config, [self.out / "text"], self.out / "vocabulary", out, lambda done, total: None)
            click.echo(console.table([self.words["corpus_card"], ""], card.rows()))

    def _pretrain(self) -> int | None:
        run = self.out / "pretrained"
        guess = guess_by_count(open_corpus(self.out / "corpus"), Tokenizer.load(self.out / "vocabulary"), self.recipe)
        self._say("pretrain", minutes=self.config.minutes)
        self._say("by_count", piece=guess.piece, words=guess.words, pairs=guess.pairs)
        with console.run_progress(f"   {self.words['pretraining']}") as show:

            def watch(event: Event, share: float) -> None:
                if event["event"] == "train":
                    show(share, f"loss {event['loss']:.2f}, {event['tokens_per_second']:,.0f} tokens/s")
                elif event["event"] == "evaluate":
                    words, pairs = event["validation_masked_accuracy"], event["validation_pair_accuracy"]
                    self._say("step", step=event["step"], words=words, pairs=pairs)

            ending = pretrain(Pretraining(self.recipe, self.out / "corpus", run, (run / RECIPE).is_file()), watch)
        if ending.outcome != "stopped":
            card = read_card(run)
            words, pairs = card["validation_masked_accuracy"], card["validation_pair_accuracy"]
            self._say("learned", words=words, pairs=pairs, by_words=guess.words, by_pairs=guess.pairs)
        return ending.signal

    def _finetune(self) -> int | None:
        """The same network from where pre-training left it, and from where it began, several seeds of each."""
        rows = {part: _read_rows(self.out / "modules" / f"{part}.jsonl") for part in ("train", "dev")}
        modules = {row["label"] for row in rows["train"]}
        self._say("finetune", modules=len(modules), train=len(rows["train"]), dev=len(rows["dev"]))
        if self.beside:
            self._say("beside", model=self.beside)
        self._build_scratch()
        table = []
        for name, learner in self._learners().items():
            swept = self._sweep(name, learner)
            if swept.ending.outcome == "stopped":
                return swept.ending.signal
            found = swept.summaries[0]
            each = "  ".join(f"{score:.1%}" for score in found.each)
            table.append([learner.label, f"{found.mean:.1%}", f"{found.deviation:.1%}", each])
        table.append([self.words["chance"], f"{1 / len(modules):.1%}", "", ""])
        click.echo(console.table([self.words[key] for key in ("network", "mean", "deviation", "each")], table))
        return None

    def _learners(self) -> dict[str, _Learner]:
        """What is compared, by the name of its folder: the demo's network with and without pre-training; where the
        package carries a model, that and the pre-trained one, frozen: only a head learns, from what their layers make
        of a sentence."""
        config, words, own, scratch = self.config, self.words, self.out / "pretrained" / MODEL, self.out / "scratch"
        anew = f"reinitialise={load_model(scratch).config.num_layers}"  # by each seed in its own way
        learners = {
            "pretrained": _Learner(words["pretrained"], own, config.finetuning, config.seeds),
            "scratch": _Learner(words["scratch"], scratch, (*config.finetuning, anew), config.seeds),
        }
        if self.beside:
            other = words["carried"].format(model=self.beside)
            learners["frozen"] = _Learner(words["frozen"], own, config.frozen, config.frozen_seeds)
            learners[self.beside] = _Learner(other, Path(self.beside), config.frozen, config.frozen_seeds)
        return learners

    def _sweep(self, name: str, learner: _Learner) -> Swept:
        """Learn to tell modules apart from this model on, with each seed."""
        recipe, task = change_finetuning(make_recipe("stable", "classify"), "classify", learner.settings)
        train, dev = (self.out / "modules" / f"{part}.jsonl" for part in ("train", "dev"))
        out = self.out / "finetuned" / name
        is_begun = (out / RECIPE).is_file()
        order = Finetuning("classify", task, recipe, learner.model, train, out, dev, resumes=is_begun)
        with _without_notes(), console.run_progress(f"   {learner.label}") as show:

            def watch(event: Event, share: float) -> None:
                if event["event"] == "train":
                    show(share, f"loss {event['loss']:.2f}, {event['tokens_per_second']:,.0f} tokens/s")

            return sweep(Sweep(order, {"": (recipe, task)}, learner.seeds), watch)

    def _build_scratch(self) -> None:
        """The network as it is before it has read anything."""
        out, tokenizer = self.out / "scratch", Tokenizer.load(self.out / "vocabulary")
        if not out.exists():
            config = model_config(self.recipe, tokenizer.size, tokenizer.pad_id)
            save(out, build(config, {}, torch.Generator().manual_seed(self.recipe.loop.seed)), tokenizer.files())

    def _look(self) -> None:
        self._say("look")
        model = load(self.out / "pretrained" / MODEL, "cpu")
        models = {self.words["pretrained"]: model}
        if self.beside:
            models[self.beside] = load(self.beside, "cpu")
        sentences = [row["text"] for row in _read_rows(self.out / "modules" / "dev.jsonl")]
        self._say("fill")
        _tell({name: fill(one) for name, one in models.items()})
        self._say("attention", sentences=len(sentences))
        kinds = ("before", "itself", "after", "marks", "elsewhere")
        header = [self.words[key] for key in ("head", *kinds)]
        shares = [
            [self.words["layer_head"].format(layer=one.layer, head=one.head)]
            + [f"{getattr(one, kind):.0%}" for kind in kinds]
            for one in looks(model, sentences)
        ]
        click.echo(console.table(header, shares))
        self._say("nearest")
        nearest_by = {name: nearest(one, sentences) for name, one in models.items()}
        _tell(
            {
                name: [(near.sentence, f"{near.cosine:.2f}  {near.nearest}") for near in found]
                for name, found in nearest_by.items()
            }
        )

    def _report(self) -> None:
        page = self.out / REPORT
        runs = [self.out / "pretrained", self.out / "finetuned" / "pretrained", self.out / "finetuned" / "scratch"]
        if self.beside:
            runs += [self.out / "finetuned" / self.beside, Path(self.beside)]
        make_report(runs, page, self.language, TEXTS, WORDS_IN_CONTEXT)
        self._say("report", page=page.resolve().as_uri())

    def _is_there(self, folder: Path) -> bool:
        if folder.exists():
            self._say("is_there", folder=folder)
        return folder.exists()

    def _finished_in(self) -> str | None:
        """The language in which all of it was told; ValueError if the folder is of another demo, or of none."""
        path = self.out / FILE
        if not path.is_file():
            if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
                raise ValueError(f"{self.out} exists and is of no demo: give --out another name.")
            return None
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["minutes"] != self.config.minutes:
            raise ValueError(
                f"{self.out} was begun with --minutes {known['minutes']:g}: say that again, or give another --out."
            )
        finished = known["finished"]
        assert finished is None or isinstance(finished, str)
        return finished

    def _note(self, finished: str | None = None) -> None:
        write_file(self.out / FILE, json.dumps({"minutes": self.config.minutes, "finished": finished}).encode())

    def _say(self, key: str, **values: object) -> None:
        click.echo(self.words[key].format(**values))


@contextmanager
def _without_notes() -> Iterator[None]:
    """Leave out what runs say of themselves, each in the same words: that a new head is made, where the labels are."""
    loggers = [logging.getLogger(f"bertie.{name}") for name in ("tasks", "model")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _tell(answers: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Under each sentence what each model says of it, and whose that is where there are several."""
    for said in zip(*answers.values(), strict=True):
        click.echo(f"  {said[0][0]}")
        for name, (_, answer) in zip(answers, said, strict=True):
            click.echo(f"      {name}: {answer}" if len(answers) > 1 else f"      {answer}")


def _read_rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
