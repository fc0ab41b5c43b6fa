"""Which evaluation of a run is its best so far, and whether its model learned anything."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bertie.tasks.task import Example, Prediction
from bertie.training.runlog import read_log

SCORED = "validation_"  # before the name of a score, in the log


class Best:
    """The best evaluation of a run so far."""

    def __init__(self, main: str) -> None:
        self._main = main
        self.scores: dict[str, float] = {}
        self.num_since = 0  # evaluations that were no better
        self.is_collapsed = False  # whether the best one gave one class to everything
        self.is_over = False  # whether the log says that the run came to its end

    @classmethod
    def of_log(cls, path: Path, step: int, main: str) -> "Best":
        """What the log up to a step says; nothing where there is none."""
        best = cls(main)
        events = read_log(path) if path.exists() else []
        for event in events:
            at = event["step"]
            if isinstance(at, int) and at <= step and event["event"] == "evaluate":
                scores = {name: score for name, score in event.items() if name.startswith(SCORED)}
                found = {name.removeprefix(SCORED): float(score or 0.0) for name, score in scores.items()}
                found.pop("loss", None)
                best.add(found, event.get("collapsed") == 1)
        best.is_over = any(event["event"] == "end" for event in events)
        return best

    def add(self, scores: Mapping[str, float], is_collapsed: bool) -> bool:
        """Whether these scores are better than all before."""
        is_better = not self.scores or scores[self._main] > self.scores[self._main]
        self.num_since = 0 if is_better else self.num_since + 1
        if is_better:
            self.scores, self.is_collapsed = dict(scores), is_collapsed
        return is_better


def is_collapsed(predictions: Sequence[Prediction], examples: Sequence[Example]) -> bool:
    """Whether one class is given to everything, though there are several."""
    given = {prediction.label for prediction in predictions}
    wanted = {example.label for example in examples}
    return None not in given and len(given) == 1 and len(wanted) > 1
