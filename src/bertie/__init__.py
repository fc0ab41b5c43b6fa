"""A complete BERT: raw text in, a served model out. The public names, found when first asked for."""

import importlib
from typing import TYPE_CHECKING

from bertie.version import __version__

if TYPE_CHECKING:
    from bertie.serving.predict import Bert, load
    from bertie.tasks.estimators import (
        MultipleChoice,
        QuestionAnswerer,
        SentenceEncoder,
        TextClassifier,
        TextRegressor,
        TokenTagger,
    )
    from bertie.text.wordpiece import Encoding, Tokenizer

__all__ = [
    "Bert",
    "Encoding",
    "MultipleChoice",
    "QuestionAnswerer",
    "SentenceEncoder",
    "TextClassifier",
    "TextRegressor",
    "TokenTagger",
    "Tokenizer",
    "__version__",
    "load",
]

HOMES = {
    "Bert": "bertie.serving.predict",
    "Encoding": "bertie.text.wordpiece",
    "MultipleChoice": "bertie.tasks.estimators",
    "QuestionAnswerer": "bertie.tasks.estimators",
    "SentenceEncoder": "bertie.tasks.estimators",
    "TextClassifier": "bertie.tasks.estimators",
    "TextRegressor": "bertie.tasks.estimators",
    "TokenTagger": "bertie.tasks.estimators",
    "Tokenizer": "bertie.text.wordpiece",
    "load": "bertie.serving.predict",
}


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module 'bertie' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(HOMES[name]), name)
