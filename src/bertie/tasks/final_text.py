"""What tokens spell, found again in the words of the passage: `get_final_text` of run_squad.py, rule by rule."""

from collections.abc import Callable


def final_text(spelled: str, original: str, words: Callable[[str], list[str]]) -> str:
    """The part of the original that, cut into words by the tokenizer's rules, is spelled so; all of it where that
    cannot be told: the spelling is not in it, or cleaning dropped or added characters."""
    cut = " ".join(words(original))
    start = cut.find(spelled)
    if start < 0:
        return original
    places_cut, places_original = (_without_spaces(text) for text in (cut, original))
    if len(places_cut) != len(places_original):
        return original
    number = {place: count for count, place in enumerate(places_cut)}
    first, last = number.get(start), number.get(start + len(spelled) - 1)
    if first is None or last is None:
        return original
    return original[places_original[first] : places_original[last] + 1]


def _without_spaces(text: str) -> list[int]:
    """Where the characters stand that are no spaces."""
    return [place for place, char in enumerate(text) if char != " "]
