"""Which evaluation of a run is its best so far, and whether its model learned anything."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bertie.tasks.task import Example, Prediction, Task
from bertie.training.runlog import read_log

SCORED = "validation_"  # before the name of a score, in the log


class Best:
    """The best evaluation of a run so far. floor: the score that a model must be above to have learned something."""

    def __init__(self, main: str, floor: float | None) -> None:
        self._main, self.floor = main, floor
        self.scores: dict[str, float] = {}
        self.num_since = 0  # evaluations that were no better
        self.is_over = False  # whether the log says that the run came to its end

    @classmethod
    def of_log(cls, path: Path, step: int, main: str, floor: float | None) -> "Best":
        """What the log up to a step says; nothing where there is none."""
        best = cls(main, floor)
        events = read_log(path) if path.exists() else []
        for event in events:
            at = event["step"]
            if isinstance(at, int) and at <= step and event["event"] == "evaluate":
                scores = {name: score for name, score in event.items() if name.startswith(SCORED)}
                found = {name.removeprefix(SCORED): float(score or 0.0) for name, score in scores.items()}
                found.pop("loss", None)
                best.add(found)
        best.is_over = any(event["event"] == "end" for event in events)
        return best

    def add(self, scores: Mapping[str, float]) -> bool:
        """Whether these scores are better than all before."""
        is_better = not self.scores or scores[self._main] > self.scores[self._main]
        self.num_since = 0 if is_better else self.num_since + 1
        if is_better:
            self.scores = dict(scores)
        return is_better

    @property
    def is_collapsed(self) -> bool:
        """Whether even the best model is no better than one answer for everything."""
        return bool(self.scores) and self.is_at_floor(self.scores)

    def is_at_floor(self, scores: Mapping[str, float]) -> bool:
        return self.floor is not None and scores[self._main] <= self.floor


def floor(task: Task, examples: Sequence[Example]) -> float | None:
    """What the same answer for everything scores, the most frequent one: a model that does no better has learned
    nothing. None where all examples want the same."""
    labels = Counter(example.label for example in examples)
    sets = Counter(frozenset(example.labels or ()) for example in examples if not example.words)
    rights = Counter(example.right for example in examples)
    tags = Counter(tag for example in examples if example.words for tag in example.labels or ())
    wanted = [(one.label, one.labels, one.right, one.number, one.answers) for one in examples]
    if not examples or all(one == wanted[0] for one in wanted):
        return None
    tag = tags.most_common(1)[0][0] if tags else ""
    answer = Prediction(label=labels.most_common(1)[0][0], right=rights.most_common(1)[0][0], number=0.0)
    several = tuple(sets.most_common(1)[0][0]) if sets else ()
    predictions = [
        replace(answer, labels=(tag,) * len(example.words) if example.words else several) for example in examples
    ]
    return task.score(predictions, examples)[task.main_score]
