"""What a model learned from: the card of its corpus and of its vocabulary."""

from collections.abc import Iterator, Mapping, Sequence

from bertie.report.amounts import count, decimal, share
from bertie.report.page import Section, Table
from bertie.report.runs import Run, figure
from bertie.report.words import Words


def made_of(runs: Sequence[Run], words: Words) -> Section | None:
    """A card for each corpus that the runs are or learned from and for its vocabulary; None where none is known."""
    sources: dict[object, list[Run]] = {}
    for run in runs:
        corpus = run.card.get("corpus")
        if isinstance(corpus, Mapping):
            sources.setdefault(corpus.get("sha256"), []).append(run)
        elif run.is_source:  # a vocabulary
            sources[run.name] = [run]
    parts = [part for number, same in enumerate(sources.values()) for part in _cards(str(number), same, words)]
    heading = words("Corpus and vocabulary")
    return Section(id="corpus", heading=heading, parts=parts) if parts else None


MEASURED = {
    True: "Measured on text that the vocabulary was not learned from.",
    False: "Measured on the text that the vocabulary was learned from: there was too little to hold some back.",
}


def _is_held_out(card: Mapping[str, object]) -> bool:
    vocabulary = card.get("vocabulary")
    return isinstance(vocabulary, Mapping) and vocabulary.get("measured_on") != "the text itself"


def _cards(number: str, runs: Sequence[Run], words: Words) -> Iterator[Section]:
    names = words(", ").join(run.name for run in runs)
    card = runs[0].card
    rows = list(_corpus_rows(card, words))
    if rows:
        yield Section(
            id=f"corpus-{number}",
            heading=words("Corpus of {names}", names=names),
            table=Table([words("what"), words("amount")], rows),
        )
    mended = [(words.of_card(what), count(often)) for what, often in _counts(card, "text", "changes")]
    mended += [
        (words("bytes dropped in {file} that are no UTF-8", file=file), count(often))
        for file, often in _counts(card, "text", "not_utf8")
    ]
    if mended:
        table = Table([words("what"), words("how often")], mended)
        yield Section(id=f"mended-{number}", heading=words("Dropped or mended on the way"), table=table)
    rows = list(_vocabulary_rows(card, words))
    if rows:
        examples = list(_examples(card))
        cuts = Table([words("a line of the text"), words("as the vocabulary cuts it")], examples)
        part = Section(id=f"cuts-{number}", heading=words("How it cuts"), table=cuts)
        yield Section(
            id=f"vocabulary-{number}",
            heading=words("Vocabulary of {names}", names=names),
            text=[words(MEASURED[_is_held_out(card)])],
            table=Table([words("what"), words("amount")], rows),
            parts=[part] if examples else [],
        )


def _corpus_rows(card: Mapping[str, object], words: Words) -> Iterator[tuple[str, str]]:
    for part, name in (("train", words("to learn from")), ("validation", words("held out"))):
        documents, sentences, tokens = (
            figure(card, "corpus", "counts", part, unit) for unit in ("documents", "sentences", "tokens")
        )
        if documents is not None:
            amounts = {"documents": count(documents), "sentences": count(sentences), "tokens": count(tokens)}
            yield name, words("{documents} documents, {sentences} sentences, {tokens} tokens", **amounts)
    per_token, unknown = figure(card, "text", "characters_per_token"), figure(card, "text", "unknown_share")
    if per_token is not None:
        yield words("characters a token"), decimal(per_token, 2)
    if unknown is not None:
        yield words("tokens that stand for words the vocabulary cannot spell"), f"{unknown:.3%}"


def _vocabulary_rows(card: Mapping[str, object], words: Words) -> Iterator[tuple[str, str]]:
    def found(name: str) -> float | None:
        return figure(card, "vocabulary", "figures", name)

    if found("entries") is None:
        return
    yield words("entries"), count(found("entries"))
    yield words("tokens a word"), decimal(found("tokens_per_word"), 3)
    yield words("characters a token"), decimal(found("characters_per_token"), 2)
    yield words("words it cannot spell"), share(found("unknown_rate"))
    yield words("tokens that go on a word"), share(found("continuation_share"))
    yield words("entries that this text did not need"), count(found("never_used"))


def _examples(card: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    vocabulary = card.get("vocabulary")
    examples = vocabulary.get("examples") if isinstance(vocabulary, Mapping) else None
    seen = set()
    for example in examples if isinstance(examples, list) else ():
        if isinstance(example, Mapping) and example.get("text") not in seen:
            seen.add(example.get("text"))
            yield str(example.get("text", "")), str(example.get("pieces", ""))


def _counts(card: Mapping[str, object], *keys: str) -> Iterator[tuple[str, float]]:
    value: object = card
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    for name in sorted(value) if isinstance(value, Mapping) else ():
        number = figure(value, name) if isinstance(value, Mapping) else None
        if number is not None:
            yield name, number
