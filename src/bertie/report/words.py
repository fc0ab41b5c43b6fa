"""The words of the page in its language: English stands in the code, other languages in assets/words-LANGUAGE*.json."""

import json
from collections.abc import Mapping
from pathlib import Path

ASSETS = Path(__file__).with_name("assets")
TAGS: Mapping[str, str] = {"en": "en", "zh": "zh-Hans"}  # as HTML names the languages


class Words:
    """Called with an English text, it gives that in the page's language, with `{names}` filled in."""

    def __init__(self, language: str) -> None:
        if language not in TAGS:
            raise ValueError(f"language {language!r}: the report can be written in {' or '.join(TAGS)}.")
        self.language, self.tag = language, TAGS[language]
        self._texts: dict[str, str] = {}
        for path in sorted(ASSETS.glob(f"words-{language}*.json")):
            self._texts |= json.loads(path.read_text(encoding="utf-8"))

    def __call__(self, english: str, **values: str | int | float) -> str:
        text = english if self.language == "en" else self._texts[english]
        return text.format(**values) if values else text

    def of_score(self, name: str) -> str:
        """A score by the name that people know it by: macro F1, not macro_f1."""
        return self.of_card(name.replace("_", " ").replace("f1", "F1"))

    def of_card(self, name: str) -> str:
        """What a card calls something, in the page's language where that is known."""
        return self._texts.get(name, name)
