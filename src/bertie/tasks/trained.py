"""A fine-tuned model put to work: asked for predictions, judged by labelled examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bertie.carried import model_folder
from bertie.model.adapter import adapter_files
from bertie.model.device import pick_device
from bertie.model.folder import Labels, load, save
from bertie.model.heads import Model
from bertie.model.lora import merged_state
from bertie.tasks.embed import Embed, sentence_files
from bertie.tasks.files import Columns
from bertie.tasks.metrics import bootstrap
from bertie.tasks.named import KINDS, AnyTask, check_texts, find_test, named
from bertie.tasks.network import heads_of, judge
from bertie.tasks.task import Example, Prediction
from bertie.tasks.task_file import NAME, read_task, write_task
from bertie.text.wordpiece import Tokenizer


@dataclass(frozen=True)
class Evaluation:
    """What a model scored on labelled examples; intervals are 95 % ones, where they were asked for."""

    task: str
    examples: list[Example]
    predictions: list[Prediction]
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]]


class Trained:
    """A model with the task it learned."""

    def __init__(self, name: str, task: AnyTask, model: Model, tokenizer: Tokenizer, precision: str) -> None:
        self.name, self.task, self.model, self.tokenizer, self.precision = name, task, model, tokenizer, precision
        self.device: torch.device = model.encoder.embeddings.words.weight.device

    @classmethod
    def load(cls, folder: Path, device: str = "auto", precision: str = "float32") -> "Trained":
        """The model of a run folder, or of a model folder out of one."""
        place = model_folder(folder)
        name, task = read_task(place)
        model = load(place).to(pick_device(device))
        if heads_of(task).keys() - model.heads:
            raise ValueError(f"{place} has no head {task.head!r}, which its task needs: copy the folder anew.")
        return cls(name, task, model, Tokenizer.load(place), precision)

    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """A prediction for each example, whose labels, if it has any, are not looked at."""
        bare = [replace(one, label=None, labels=None, number=None, right=None, answers=None) for one in examples]
        rows = self.task.encode(bare, self.tokenizer)
        judged = judge(self.model, self.task, rows, self.device, self.precision)
        return self.task.decode(judged.outputs, bare, self.tokenizer)

    def evaluate(self, data: Path, columns: Columns, rounds: int = 0, seed: int = 0) -> Evaluation:
        """The scores on a file, or on the held-out part of a folder; with rounds, intervals by so many draws."""
        kind = named(self.name)
        examples = kind.read(find_test(data, kind), columns, self.task)
        check_texts(examples, may_be_empty=self.name not in KINDS)
        predictions = self.predict(examples)
        scores = self.task.score(predictions, examples)
        return Evaluation(
            self.name, examples, predictions, scores, self._intervals(examples, predictions, rounds, seed)
        )

    def _intervals(
        self, examples: Sequence[Example], predictions: Sequence[Prediction], rounds: int, seed: int
    ) -> dict[str, tuple[float, float]]:
        if not rounds:
            return {}
        main = self.task.main_score

        def score(chosen: Sequence[int]) -> float:
            drawn = self.task.score([predictions[at] for at in chosen], [examples[at] for at in chosen])
            return drawn[main]

        return {main: bootstrap(score, len(examples), np.random.default_rng(seed), rounds)}


def save_trained(folder: Path, trained: Trained) -> None:
    """Write the model folder, with what it learned in it."""
    task, model = trained.task, trained.model
    copy = Model(model.config, heads_of(task))
    copy.load_state_dict({name: one.cpu() for name, one in merged_state(model).items()}, assign=True)
    files = {**trained.tokenizer.files(), NAME: write_task(trained.name, task), **adapter_files(model)}
    if isinstance(task, Embed):
        files |= sentence_files(task, model.config.width)
    save(folder, copy, files, Labels(task.labels, task.problem_type))


def as_json(evaluation: Evaluation) -> Mapping[str, object]:
    """The evaluation as an object of JSON."""
    found: dict[str, object] = {
        "task": evaluation.task,
        "examples": len(evaluation.examples),
        "scores": evaluation.scores,
    }
    return found | ({"intervals": evaluation.intervals} if evaluation.intervals else {})
