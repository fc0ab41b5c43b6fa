"""The viewer: what a model makes of texts, as sections of a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from bertie.model.folder import load
from bertie.model.heads import Model
from bertie.report.amounts import cosine
from bertie.report.page import Section, Table
from bertie.report.plane import view_table
from bertie.report.reading import MAP_NUMBERS, Guess, as_text, attention_maps, encode_texts, guess_each, segments_of
from bertie.report.senses import Place, Senses, Word, view_senses
from bertie.report.words import Words
from bertie.text.encoding import Encoding
from bertie.text.wordpiece import Tokenizer

TOKENIZER_FILES = ("vocab.txt", "tokenizer.json")
TOP = 5  # guesses for each masked word
AROUND = 60  # characters of a sentence on each side of its word, in a table


@dataclass(frozen=True)
class Read:
    """A model and the texts that it has read."""

    model: Model
    tokenizer: Tokenizer
    texts: Sequence[str]
    encodings: Sequence[Encoding]

    def tokens(self, number: int) -> list[str]:
        return [self.tokenizer.vocabulary[id_] for id_ in self.encodings[number].ids]


@dataclass(frozen=True)
class Viewed:
    """What models are shown at work on: texts, each one or a pair with ` ||| ` between its two, and words to show in
    context beside those that every page has."""

    texts: Sequence[str]
    words: Sequence[str] = ()


def view_models(models: Mapping[str, Path | None], viewed: Viewed, words: Words) -> list[Section]:
    """A section for each model by its name; what one lacks is said there."""
    sections = []
    for number, (name, folder) in enumerate(models.items(), 1):
        id_ = "viewer" if len(models) == 1 else f"viewer-{number}"
        heading = words("The model at work") if len(models) == 1 else words("{name} at work", name=name)
        missing = _why_no_view(folder, words)
        if missing or folder is None:
            sections.append(Section(id=id_, heading=heading, text=[missing or ""]))
        else:
            parts = view_model(id_, folder, viewed, MAP_NUMBERS // len(models), words)
            sections.append(Section(id=id_, heading=heading, parts=parts))
    return sections


def _why_no_view(folder: Path | None, words: Words) -> str | None:
    if folder is None:
        return words("The run has no model that could read a text.")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        files = " / ".join(TOKENIZER_FILES)
        return words("The model cannot read a text: its folder has no tokenizer ({files}).", files=files)
    return None


def view_model(id_: str, folder: Path, viewed: Viewed, numbers: int, words: Words) -> list[Section]:
    """What the model in the folder makes of the texts; `numbers` as for `encode_texts`."""
    model, tokenizer, texts = load(folder), Tokenizer.load(folder), viewed.texts
    if tokenizer.size > model.config.vocabulary_size:
        raise ValueError(
            f"{folder}: the tokenizer has {tokenizer.size:,} entries, the model only "
            f"{model.config.vocabulary_size:,}: the vocabulary belongs to another model."
        )
    read = Read(model, tokenizer, texts, encode_texts(texts, tokenizer, model, numbers))
    return [
        _attention(f"{id_}-attention", read, words),
        _guesses(f"{id_}-guesses", read, words),
        _senses(f"{id_}-senses", view_senses(texts, viewed.words, tokenizer, model), words),
        _word_table(f"{id_}-table", read, words),
    ]


def _attention(id_: str, read: Read, words: Words) -> Section:
    shape = read.model.config
    maps = [attention_maps(encoding, read.model) for encoding in read.encodings]
    shown = [
        {
            "text": text,
            "tokens": read.tokens(number),
            "segments": segments_of(text, encoding),
            "maps": as_text(maps_LHTT),
        }
        for number, (text, encoding, maps_LHTT) in enumerate(zip(read.texts, read.encodings, maps, strict=True))
    ]
    heads = [_head_row(number, read, one, words) for number, one in enumerate(maps)]
    header = [
        words("text and head"),
        words("itself"),
        words("token before"),
        words("token after"),
        words("special tokens"),
        words("looked at most"),
    ]
    cut = [
        words("Text {number} was cut: the last {count} of its tokens are not read.", number=number, count=one.truncated)
        for number, one in enumerate(read.encodings, 1)
        if one.truncated
    ]
    return Section(
        id=id_,
        heading=words("Attention"),
        text=[
            words(
                "How much each token looks at each other one, in each head of each layer, as the model computes it, "
                "to within 0.00001. The probabilities of a row add up to 1."
            ),
            *cut,
        ],
        kind="viewer-attention",
        data={"layers": shape.num_layers, "heads": shape.num_heads, "texts": shown},
        words={key: words(text) for key, text in ATTENTION_WORDS.items()},
        alternative=words(
            "A map for each of the {layers} layers and {heads} heads, and the same as lines between the tokens. The "
            "table says of each head how much it looks at the token itself, at its neighbours and at special tokens.",
            layers=shape.num_layers,
            heads=shape.num_heads,
        ),
        table=Table(header, [row for rows in heads for row in rows]),
    )


ATTENTION_WORDS = {
    "text": "Text",
    "between": "From and to",
    "all": "all tokens",
    "heads": "Layers and heads",
    "head": "layer {layer}, head {head}",
    "mean": "layer {layer}, mean of the heads",
    "picker": "Rows are layers, columns heads, the last one their mean; the stronger the colour, the fewer tokens a "
    "head looks at. Arrow keys move.",
    "map": "Map: row looks at column. Arrow keys move.",
    "lines": "Lines: choose a token to see its own only.",
    "says": "{head}: {from} looks at {to} with {share}",
    "most": "{head}: {from} looks most at {list}",
}


def _head_row(number: int, read: Read, maps_LHTT: Tensor, words: Words) -> Iterator[list[str]]:
    """For each head what it looks at, as means over the tokens that have such a one."""
    tokens = read.tokens(number)
    special = [at for at, offsets in enumerate(read.encodings[number].offsets) if offsets is None]
    for layer, maps_HTT in enumerate(maps_LHTT, 1):
        for head, map_TT in enumerate(maps_HTT, 1):
            near = [map_TT.diagonal(step) for step in (0, -1, 1)]
            seen_T = map_TT.mean(0)
            most = int(seen_T.argmax())
            shares = [*(float(one.mean()) if len(one) else 0.0 for one in near), float(seen_T[special].sum())]
            place = words("text {number}, layer {layer}, head {head}", number=number + 1, layer=layer, head=head)
            yield [place, *(f"{one:.1%}" for one in shares), f"{tokens[most]} {float(seen_T[most]):.1%}"]


def _guesses(id_: str, read: Read, words: Words) -> Section:
    heading = words("Masked words")
    missing = _why_no_guesses(read, words)
    if missing:
        return Section(id=id_, heading=heading, text=[missing])
    guesses = [guess_each(encoding, read.tokenizer, read.model, TOP) for encoding in read.encodings]
    shown = [
        {
            "text": text,
            "tokens": read.tokens(number),
            "guesses": [None if one is None else asdict(one) for one in guesses[number]],
        }
        for number, text in enumerate(read.texts)
    ]
    rows = [
        _guess_row(number, read, at, one, words)
        for number, row in enumerate(guesses)
        for at, one in enumerate(row)
        if one
    ]
    known = [one for row in guesses for one in row if one]
    alternative = words(
        "{right} of {count} tokens are the model's first guess, {near} are among its first {top}.",
        right=sum(one.rank == 1 for one in known),
        near=sum(one.rank <= TOP for one in known),
        count=len(known),
        top=TOP,
    )
    header = [words("text and token"), words("rank"), words("probability"), words("guesses")]
    return Section(
        id=id_,
        heading=heading,
        text=[
            words(
                "What the model would say in each token's place if it did not see it: each token is masked in turn, it "
                "alone, and the rest of the text is in sight, other pieces of the same word too."
            )
        ],
        kind="viewer-guesses",
        data={"texts": shown},
        words={key: words(text) for key, text in GUESSES_WORDS.items()},
        alternative=alternative,
        table=Table(header, rows),
    )


GUESSES_WORDS = {
    "text": "Text",
    "tokens": "Tokens; arrow keys move.",
    "legend": "The stronger the colour, the surer the model was of the token that stands there.",
    "own": "{token}: place {rank} with {share}",
    "none": "Special tokens are not masked.",
}


def _why_no_guesses(read: Read, words: Words) -> str | None:
    """What the model lacks to guess masked words."""
    if "masked" not in read.model.heads:
        return words(
            "The model has no masked-word head: it was saved without one, as encoders of sentences and fine-tuned "
            "models are."
        )
    if not read.tokenizer.has_mask:
        return words("The vocabulary has no mask token, so nothing can be masked.")
    return None


def _guess_row(number: int, read: Read, at: int, guess: Guess, words: Words) -> list[str]:
    token = read.tokens(number)[at]
    place = words("text {number}, token {at}: {token}", number=number + 1, at=at + 1, token=token)
    return [
        place,
        f"{guess.rank:,}",
        f"{guess.score:.1%}",
        ", ".join(f"{piece} {one:.1%}" for piece, one in guess.best),
    ]


def _senses(id_: str, senses: Senses, words: Words) -> Section:
    heading = words("Words in context")
    if not senses.words:
        said = words("No word can be compared: none stands in two places of texts that the vocabulary can spell.")
        return Section(id=id_, heading=heading, text=[said])
    names = list(dict.fromkeys(sense for one in senses.words for sense in one.senses if sense))
    data = {
        "sentences": [one.text for one in senses.sentences],
        "places": [[one.sentence, one.start, one.end] for one in senses.places],
        "names": [words(name) for name in names],
        "words": [_word_data(one, names) for one in senses.words],
    }
    header = [
        words("word and sentence"),
        words("sense"),
        words("nearest of the same word"),
        words("cosine"),
        words("other words near it"),
    ]
    return Section(
        id=id_,
        heading=heading,
        text=[
            words(
                "A word has one row in the word table, but in a sentence it becomes a vector of its own, layer by "
                "layer. Where places of the same word lie apart, the model tells its senses apart. Layer 0 are the "
                "embeddings, before any attention."
            ),
            words(
                "How near two places are is the cosine of their vectors: 1 where they point the same way. In many "
                "models all vectors share much of their direction, and all cosines are close to 1: then their order "
                "says more than their size."
            ),
        ],
        kind="viewer-senses",
        data=data,
        words={key: words(text) for key, text in SENSES_WORDS.items()},
        alternative=" ".join(_agreement(one, words) for one in senses.words if any(one.senses))
        or words("The words that the texts repeat, at each of their places."),
        table=Table(header, [row for one in senses.words for row in _rows(one, senses, words)]),
    )


SENSES_WORDS = {
    "word": "Word",
    "layer": "Layer",
    "plane": "The places of {word} after layer {layer}, in the plane in which they lie furthest apart.",
    "sentences": "Sentences; choose one to see what lies near its word.",
    "cosine": "cosine {share}",
    "near": "Other words near it: {list}",
    "unknown": "sense not known",
    "agree": "{agree} of {count} are nearest to one of the same sense.",
}


def _word_data(word: Word, names: Sequence[str]) -> Mapping[str, object]:
    return {
        "word": word.word,
        "places": [[one.sentence, one.start, one.end] for one in word.places],
        "senses": [None if sense is None else names.index(sense) for sense in word.senses],
        "agreeing": [word.agreeing(layer) for layer in range(len(word.layers))],
        "layers": [asdict(one) for one in word.layers],
    }


def _agreement(word: Word, words: Words) -> str:
    (first, count), (last, _) = word.agreeing(0), word.agreeing(-1)
    return words(
        "{word}: after the last layer {last} of {count} places are nearest to one of the same sense; in the embeddings "
        "{first}.",
        word=word.word,
        first=first,
        last=last,
        count=count,
    )


def _rows(word: Word, senses: Senses, words: Words) -> Iterator[list[str]]:
    """Each place of the word in the last layer."""
    last = word.layers[-1]
    for at, (place, sense) in enumerate(zip(word.places, word.senses, strict=True)):
        others = [other for other in range(len(word.places)) if other != at]
        nearest = max(others, key=last.cosines[at].__getitem__)
        near = ", ".join(f"{senses.spelled(senses.places[one])} {cosine(value)}" for one, value in last.neighbours[at])
        yield [
            _marked(place, senses),
            "–" if sense is None else words(sense),
            _marked(word.places[nearest], senses),
            cosine(last.cosines[at][nearest]),
            near or "–",
        ]


def _marked(place: Place, senses: Senses) -> str:
    """The word in brackets, in as much of its sentence as a line of a table holds."""
    text = senses.sentences[place.sentence].text
    start, end = max(0, place.start - AROUND), place.end + AROUND
    before, after = ("…" if start else "") + text[start : place.start], text[place.end : end]
    return f"{before}[{senses.spelled(place)}]{after}{'…' if end < len(text) else ''}"


def _word_table(id_: str, read: Read, words: Words) -> Section:
    table = view_table(read.texts, read.tokenizer, read.model)
    first, second = (f"{share:.1%}" for share in table.shares)
    rows = [
        [
            table.pieces[at],
            words(KINDS[table.kinds[at]]),
            ", ".join(f"{piece} {cosine(value)}" for piece, value in near),
        ]
        for at, near in table.own.items()
    ]
    return Section(
        id=id_,
        heading=words("The word table"),
        text=[
            words(
                "The vectors of the vocabulary's pieces as they are before any sentence is read, projected to a plane."
            )
        ],
        kind="viewer-table",
        data=asdict(table),
        words={key: words(text) for key, text in (TABLE_WORDS | KINDS).items()},
        alternative=words(
            "{shown} of {count} pieces in the plane of the first two principal components, which hold {first} and "
            "{second} of the variance: what is near here need not be near in all dimensions.",
            shown=f"{len(table.pieces):,}",
            count=f"{table.num_entries:,}",
            first=first,
            second=second,
        ),
        table=Table([words("piece"), words("kind"), words("nearest pieces, by cosine")], rows),
    )


KINDS = {"word": "word", "continuation": "goes on a word", "character": "single character", "other": "other"}
TABLE_WORDS = {
    "own": "in the texts",
    "find": "Find a piece",
    "absent": "{piece} is not in the picture.",
    "near": "{piece} ({kind}); nearest pieces: {list}",
    "alone": "{piece} ({kind})",
    "larger": "Larger",
    "smaller": "Smaller",
    "whole": "Whole plane",
    "help": "Arrow keys move the picture, + and - change its size, 0 shows the whole.",
}
