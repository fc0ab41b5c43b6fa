"""Scores of answers, as fractions: SQuAD's for v1.1 and v2.0 as the official scripts count, CMRC's for Chinese."""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)
# What CMRC's scorer takes out of an answer before it compares (it lists a pair of ellipses too, which no character is),
# and what it takes for Chinese.
CHINESE_SIGNS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
CHINESE = ("\u4e00", "\u9fa5")
WESTERN_WORDS = re.compile(r"\w+(?:[.,]\w+)*|\S")  # near to what NLTK, which CMRC's scorer uses here, cuts


@dataclass(frozen=True)
class Answered:
    """A question's true answers, none if it has no answer; what was found, whether or not it was said; the odds."""

    answers: Sequence[str]
    best: str  # the best text that is a part of the passage
    null_odds: float = 0.0  # how much better no answer scored than the best


def normalize(text: str) -> str:
    """What is compared: lower case, no punctuation, no articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact(answer: str, predicted: str) -> float:
    return float(normalize(answer) == normalize(predicted))


def overlap(answer: str, predicted: str) -> float:
    """F1 of the words that both have; two empty texts agree, as v2.0 has it."""
    true, called = normalize(answer).split(), normalize(predicted).split()
    if not true or not called:
        return float(true == called)
    common = (Counter(true) & Counter(called)).total()
    return 2 * common / (len(true) + len(called))


def squad_scores(questions: Sequence[Answered]) -> dict[str, float]:
    """Exact match and F1 of v1.1, where every question has an answer."""
    _check(questions)
    scores = [(_best(exact, one.answers, one.best), _best(overlap, one.answers, one.best)) for one in questions]
    return {"f1": _mean([score for _, score in scores]), "exact": _mean([score for score, _ in scores])}


def squad_null_scores(questions: Sequence[Answered], threshold: float) -> dict[str, float]:
    """Exact match and F1 of v2.0: of all, of those with and without an answer; no answer is said where the odds are
    above the threshold. Beside them the best that any threshold would give, and which."""
    _check(questions)
    raw = {name: [_raw(measure, one) for one in questions] for name, measure in (("exact", exact), ("f1", overlap))}
    has_answer = [bool(_real_answers(one)) for one in questions]
    scores: dict[str, float] = {}
    for name in ("f1", "exact"):
        said = [
            score if one.null_odds <= threshold else float(not has)
            for one, has, score in zip(questions, has_answer, raw[name], strict=True)
        ]
        scores[name] = _mean(said)
        for group, wanted in (("has_answer", True), ("no_answer", False)):
            chosen = [score for score, has in zip(said, has_answer, strict=True) if has is wanted]
            if chosen:
                scores[f"{group}_{name}"] = _mean(chosen)
    for name in ("f1", "exact"):
        scores[f"best_{name}"], scores[f"best_{name}_threshold"] = best_threshold(questions, raw[name], has_answer)
    return scores


def best_threshold(
    questions: Sequence[Answered], scores: Sequence[float], has_answer: Sequence[bool]
) -> tuple[float, float]:
    """The best mean score, and the lowest threshold that gives it; questions of equal odds go together."""
    total = best = float(has_answer.count(False))
    threshold = min(one.null_odds for one in questions) - 1.0  # so that all of them are left unanswered
    order = sorted(range(len(questions)), key=lambda number: questions[number].null_odds)
    for odds, same in groupby(order, key=lambda number: questions[number].null_odds):
        for number in same:
            said_wrongly = -1.0 if questions[number].best else 0.0
            total += scores[number] if has_answer[number] else said_wrongly
        if total > best:
            best, threshold = total, odds
    return best / len(questions), threshold


def cmrc_scores(questions: Sequence[Answered]) -> dict[str, float]:
    """Exact match and F1 of CMRC 2018, and their mean, by which it ranks: F1 of the longest run of characters (words,
    where they are not Chinese) that both have."""
    _check(questions)
    f1 = _mean([_best(_chinese_overlap, one.answers, one.best) for one in questions])
    match = _mean([_best(_chinese_exact, one.answers, one.best) for one in questions])
    return {"f1": f1, "exact": match, "average": (f1 + match) / 2}


def _raw(measure: Callable[[str, str], float], question: Answered) -> float:
    return _best(measure, _real_answers(question) or [""], question.best)


def _real_answers(question: Answered) -> list[str]:
    return [answer for answer in question.answers if normalize(answer)]


def _best(measure: Callable[[str, str], float], answers: Sequence[str], predicted: str) -> float:
    return max((measure(answer, predicted) for answer in answers), default=0.0)


def _chinese_exact(answer: str, predicted: str) -> float:
    return float(_without_signs(answer) == _without_signs(predicted))


def _chinese_overlap(answer: str, predicted: str) -> float:
    true, called = cut_mixed(answer), cut_mixed(predicted)
    common = _longest_run(true, called)
    return 2 * common / (len(true) + len(called)) if common else 0.0


def cut_mixed(text: str) -> list[str]:
    """Chinese characters one by one, other words whole, signs left out."""
    parts: list[str] = []
    for is_chinese, run in groupby(_without_signs(text), lambda char: CHINESE[0] <= char <= CHINESE[1]):
        chars = list(run)
        parts += chars if is_chinese else WESTERN_WORDS.findall("".join(chars))
    return parts


def _without_signs(text: str) -> str:
    return "".join(char for char in text.lower().strip() if char not in CHINESE_SIGNS)


def _longest_run(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest run of parts that both have."""
    longest = 0
    before = [0] * (len(other) + 1)
    for part in one:
        now = [0] * (len(other) + 1)
        for place, its in enumerate(other, 1):
            if part == its:
                now[place] = before[place - 1] + 1
        longest = max(longest, *now)
        before = now
    return longest


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores)


def _check(questions: Sequence[Answered]) -> None:
    if not questions:
        raise ValueError("there is nothing to score: give at least one question.")


SPAN_SCORES: Mapping[str, Callable[[Sequence[Answered]], dict[str, float]]] = {
    "squad": squad_scores,
    "cmrc": cmrc_scores,
}
