import string

import pytest

from bertie.demo.speech import SPEECH


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


@pytest.mark.parametrize("language", SPEECH)
def test_each_language_says_the_same_with_the_same_values(language: str) -> None:
    assert SPEECH[language].keys() == SPEECH["en"].keys()
    for key, text in SPEECH[language].items():
        assert placeholders(text) == placeholders(SPEECH["en"][key]), key
