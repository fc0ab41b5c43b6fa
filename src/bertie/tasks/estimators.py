"""Tasks in scikit-learn's form: fit, predict, score, save; the text ones work inside its pipelines and searches.

scikit-learn is not needed here: its form is a constructor that only stores, `get_params` and `set_params`.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bertie.carried import DEFAULT
from bertie.tasks.classify import Classify
from bertie.tasks.given import (
    Classes,
    label_rows,
    make_example,
    pair_up,
    take_related,
    take_stated,
    take_targets,
    take_texts,
)
from bertie.tasks.metrics import NUMBER_METRICS
from bertie.tasks.named import kind_of
from bertie.tasks.recipe import change, make_recipe
from bertie.tasks.run import Order, finetune
from bertie.tasks.task import Example, Prediction, Span
from bertie.tasks.trained import Trained, save_trained

Texts = Iterable[str | Sequence[str]]


@dataclass(eq=False)
class _Learner:
    """What all of them are made of. The one place where we inherit from ourselves: scikit-learn's form wants each
    setting as an argument of each class."""

    kind: ClassVar[str]  # of task

    model: str | Path = DEFAULT  # to begin with: a folder, a run, or the name of one that the package carries
    recipe: Literal["stable", "faithful"] = "stable"
    epochs: float | None = None  # none: as the recipe says
    lr: float | None = None
    batch: int | None = None
    max_length: int | None = None
    seed: int = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    settings: tuple[str, ...] = ()  # any others, as `--set` takes them

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The settings, as scikit-learn asks for them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: object) -> Self:
        """Change settings, as scikit-learn does."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(
                    f"{type(self).__name__} has no setting {name!r}; it has {', '.join(self.get_params())}."
                )
            setattr(self, name, value)
        return self

    def save(self, folder: str | Path) -> None:
        """Write what was learned as a model folder, which the commands and `load` open."""
        save_trained(Path(folder), self._fitted())

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """The one that was saved, or that a run folder holds, ready to predict."""
        found = cls(folder)
        found.trained_ = Trained.load(Path(folder), device)
        if (kind := kind_of(found.trained_.task)) != cls.kind:
            raise ValueError(f"{folder} holds a model for {kind}, which {cls.__name__} is not for.")
        found._take_over(found.trained_)
        return found

    def __sklearn_tags__(self) -> object:
        return _tags(None)

    def __sklearn_is_fitted__(self) -> bool:
        return "trained_" in vars(self)

    def __post_init__(self) -> None:
        self.trained_: Trained

    def _learn(self, rows: Iterable[Mapping[str, object]], own: Sequence[str] = ()) -> None:
        """Fine-tune on the rows, all of them, by way of a file, as the command does."""
        said = {"epochs": self.epochs, "lr": self.lr, "batch": self.batch, "max_length": self.max_length}
        settings = [f"{key}={value}" for key, value in said.items() if value is not None]
        settings += [f"seed={self.seed}", f"device={self.device}", "held_out=0", *own, *self.settings]
        recipe, task = change(make_recipe(self.recipe, self.kind), self.kind, settings)
        with tempfile.TemporaryDirectory() as folder:
            data, out = Path(folder) / "examples.jsonl", Path(folder) / "run"
            data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
            order = Order(self.kind, task, recipe, Path(self.model), data, out)
            try:
                ending = finetune(order, lambda event, share: None)
            except ValueError as error:
                raise ValueError(_of_examples(str(error), data)) from error
            if ending.signal is not None:
                raise KeyboardInterrupt
            self.trained_ = Trained.load(out, self.device)

    def _fitted(self) -> Trained:
        if not self.__sklearn_is_fitted__():
            raise ValueError(f"this {type(self).__name__} has learned nothing yet: call fit, or load one.")
        return self.trained_

    def _predict(self, examples: Sequence[Example]) -> list[Prediction]:
        return self._fitted().predict(examples) if examples else []

    def _take_over(self, trained: Trained) -> None:
        """Set what fitting would have set beside the model."""


class TextClassifier(_Learner):
    """A class for each text or pair of texts; or any number of labels, where y has lists of them or is a matrix of 0
    and 1 with a column for each, as scikit-learn's MultiLabelBinarizer makes it."""

    kind = "classify"

    def fit(self, X: Texts, y: Iterable[object]) -> Self:
        """Learn the classes; all examples are learned from."""
        targets = take_targets(y)
        self.classes_: Classes = targets.classes
        self.form_: Literal["one", "lists", "matrix"] = targets.form
        labels = [one[0] if self.form_ == "one" else list(one) for one in targets.of_each]
        rows = label_rows(take_texts(X), labels)
        if len(self.classes_) < (2 if self.form_ == "one" else 1):
            said = "one class only" if len(self.classes_) else "no label at all"
            raise ValueError(f"y has {said}, {self.classes_.tolist()}: there is nothing to tell apart.")
        names = json.dumps([str(one) for one in self.classes_.tolist()], ensure_ascii=False)
        several = str(self.form_ != "one").lower()
        self._learn(rows, [f"labels={names}", f"several={several}"])
        return self

    def predict(self, X: Texts) -> Classes:
        """The class of each; of several labels a matrix or lists of them, as y was."""
        shares = self.predict_proba(X)
        if self.form_ == "one":
            chosen: Classes = self.classes_[shares.argmax(1)]
            return chosen
        has_label = shares > 0.5
        if self.form_ == "matrix":
            return has_label.astype(np.int64)
        return np.fromiter((self.classes_[row].tolist() for row in has_label), object, len(has_label))

    def predict_proba(self, X: Texts) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes_`; of several labels each by itself."""
        self._fitted()
        found = self._predict([make_example(text) for text in take_texts(X)])
        names = [str(one) for one in self.classes_.tolist()]
        shares = [[prediction.probabilities[name] for name in names] for prediction in found]
        return np.array(shares, np.float64).reshape(-1, len(names))

    def score(self, X: Texts, y: Iterable[object]) -> float:
        """The share that is right: of several labels, where all of a text are."""
        called = take_targets(self.predict(X)).of_each
        pairs = pair_up(take_targets(y).of_each, called)
        return sum(set(gold) == set(said) for gold, said in pairs) / len(pairs)

    def __sklearn_tags__(self) -> object:
        return _tags("classifier")

    def _take_over(self, trained: Trained) -> None:
        self.classes_ = np.array(trained.task.labels)
        several = isinstance(trained.task, Classify) and trained.task.several
        self.form_ = "lists" if several else "one"


class TextRegressor(_Learner):
    """A number for each text or pair of texts."""

    kind = "regress"

    def fit(self, X: Texts, y: Iterable[float]) -> Self:
        """Learn the numbers; all examples are learned from."""
        self._learn(label_rows(take_texts(X), [float(one) for one in take_stated(y)]))
        return self

    def predict(self, X: Texts) -> NDArray[np.float64]:
        """The number of each."""
        self._fitted()
        found = self._predict([make_example(text) for text in take_texts(X)])
        return np.array([prediction.number for prediction in found], np.float64)

    def score(self, X: Texts, y: Iterable[float]) -> float:
        """The share of the variance that is explained (R²), as scikit-learn's regressors have it."""
        gold = np.array([float(one) for one in y])
        error = NUMBER_METRICS["mean_squared_error"](gold.tolist(), self.predict(X).tolist())
        return float(1 - error / gold.var()) if gold.var() else 0.0

    def __sklearn_tags__(self) -> object:
        return _tags("regressor")


class TokenTagger(_Learner):
    """A tag for each word of a sentence."""

    kind = "tag"

    def fit(self, X: Iterable[Sequence[str]], y: Iterable[Sequence[str]]) -> Self:
        """Learn from sentences as lists of words, and a list of tags for each."""
        pairs = pair_up(list(X), list(y))
        self._learn([{"words": list(words), "tags": list(tags)} for words, tags in pairs])
        self._take_over(self.trained_)
        return self

    def predict(self, X: Iterable[Sequence[str]]) -> list[list[str]]:
        """The tags of each sentence."""
        return [list(prediction.labels) for prediction in self._predict([Example(words=tuple(words)) for words in X])]

    def predict_proba(self, X: Iterable[Sequence[str]]) -> list[NDArray[np.float32]]:
        """For each sentence the probability of each tag for each word (words, tags), in the order of `classes_`."""
        found = self._predict([Example(words=tuple(words)) for words in X])
        return [prediction.shares for prediction in found if prediction.shares is not None]

    def score(self, X: Iterable[Sequence[str]], y: Iterable[Sequence[str]]) -> float:
        """F1 of entities, or where the tags mark none, the share of words that are right."""
        examples = [Example(words=tuple(words), labels=tuple(tags)) for words, tags in pair_up(list(X), list(y))]
        return _main_score(self._fitted(), examples)

    def _take_over(self, trained: Trained) -> None:
        self.classes_: Classes = np.array(trained.task.labels)


class QuestionAnswerer(_Learner):
    """The answer to each question, a part of its passage, or nothing."""

    kind = "answer"

    def fit(self, X: Iterable[tuple[str, str]], y: Iterable[Sequence[str]]) -> Self:
        """Learn from pairs of question and passage, and a list of answers for each, empty where there is none."""
        rows = [
            {"question": question, "context": passage, "answers": list(answers)}
            for (question, passage), answers in pair_up(list(X), list(y))
        ]
        self._learn(rows)
        return self

    def predict(self, X: Iterable[tuple[str, str]]) -> list[str]:
        """The answers; empty where the passage does not say."""
        return [prediction.answer for prediction in self._answers(X)]

    def predict_proba(self, X: Iterable[tuple[str, str]]) -> list[dict[str, float]]:
        """For each question the answers that were weighed, best first, and how their probabilities compare."""
        found = self._answers(X)
        return [{one.text: one.probability for one in prediction.candidates} for prediction in found]

    def score(self, X: Iterable[tuple[str, str]], y: Iterable[Sequence[str]]) -> float:
        """SQuAD's F1; where some have no answer, at the best threshold."""
        examples = [
            Example(
                pair=question, text=passage, answers=tuple(Span(answer, passage.find(answer)) for answer in answers)
            )
            for (question, passage), answers in pair_up(list(X), list(y))
        ]
        return _main_score(self._fitted(), examples)

    def _answers(self, X: Iterable[tuple[str, str]]) -> list[Prediction]:
        return self._predict([Example(pair=question, text=passage) for question, passage in X])


class MultipleChoice(_Learner):
    """The right one of several endings."""

    kind = "choose"

    def fit(self, X: Iterable[tuple[str, Sequence[str]]], y: Iterable[int]) -> Self:
        """Learn from pairs of a beginning and its endings, and the number of the right one, from 0."""
        rows = [
            {"question": begun, "choices": list(endings), "label": int(right)}
            for (begun, endings), right in pair_up(list(X), take_stated(y))
        ]
        self._learn(rows)
        return self

    def predict(self, X: Iterable[tuple[str, Sequence[str]]]) -> list[int]:
        """The numbers of the endings, from 0."""
        return [prediction.right or 0 for prediction in self._choices(X)]

    def predict_proba(self, X: Iterable[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """For each beginning the probability of each of its endings."""
        return [list(prediction.probabilities.values()) for prediction in self._choices(X)]

    def score(self, X: Iterable[tuple[str, Sequence[str]]], y: Iterable[int]) -> float:
        """The share that is right."""
        examples = [
            Example(text=begun, endings=tuple(endings), right=int(right))
            for (begun, endings), right in pair_up(list(X), list(y))
        ]
        return _main_score(self._fitted(), examples)

    def _choices(self, X: Iterable[tuple[str, Sequence[str]]]) -> list[Prediction]:
        return self._predict([Example(text=begun, endings=tuple(endings)) for begun, endings in X])


class SentenceEncoder(_Learner):
    """A vector for each text; texts that belong together are near."""

    kind = "embed"

    def fit(self, X: Iterable[Sequence[str]], y: Iterable[float] | None = None) -> Self:
        """Learn from pairs and how alike each is; without y from pairs that belong together, or from triplets whose
        third text does not belong to the first."""
        names = ("anchor", "positive", "negative")
        rows = [{**dict(zip(names, parts, strict=False)), "label": number} for parts, number in take_related(X, y)]
        self._learn(rows)
        return self

    def predict(self, X: Iterable[str]) -> NDArray[np.float32]:
        """The vectors, one a row."""
        width = self._fitted().model.config.width
        found = self._predict([make_example(text) for text in take_texts(X, (1,))])
        vectors = [prediction.vectors for prediction in found if prediction.vectors is not None]
        return np.array(vectors, np.float32).reshape(-1, width)

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        """The same: the form in which scikit-learn's pipelines ask for it."""
        return self.predict(X)

    def score(self, X: Iterable[Sequence[str]], y: Iterable[float] | None = None) -> float:
        """Spearman's correlation with y; without y the mean reciprocal rank of each pair's second text, or the share of
        triplets whose second text is nearer."""
        examples = [
            Example(text=parts[0], pair=parts[1], negative=parts[2] if len(parts) == 3 else None, number=number)
            for parts, number in take_related(X, y)
        ]
        return _main_score(self._fitted(), examples)

    def __sklearn_tags__(self) -> object:
        return _tags("transformer")


def _main_score(trained: Trained, examples: Sequence[Example]) -> float:
    scores = trained.task.score(trained.predict(examples), examples)
    return scores[trained.task.main_score]


def _of_examples(sentence: str, data: Path) -> str:
    """What is said of a file that nobody but us has seen, said of the examples it was made of."""
    rows = re.sub(rf"{re.escape(str(data))}, line (\d+)", lambda found: f"X[{int(found[1]) - 1}]", sentence)
    return rows.replace(str(data), "X")


def _tags(kind: str | None) -> object:
    """What scikit-learn, which alone asks, wants to know of an estimator."""
    from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=True),
        classifier_tags=ClassifierTags(multi_label=True) if kind == "classifier" else None,
        regressor_tags=RegressorTags() if kind == "regressor" else None,
        input_tags=InputTags(two_d_array=False, string=True),
    )
