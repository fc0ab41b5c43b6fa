"""A word in context: where it lies in each sentence that has it, layer by layer, and which words lie near it there."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from bertie.model.encoder import pack
from bertie.model.heads import Model
from bertie.report.plane import rounded, to_plane
from bertie.report.reading import PAIR
from bertie.text.encoding import Encoding
from bertie.text.rules import is_cjk
from bertie.text.wordpiece import Tokenizer

EXAMPLES = Path(__file__).with_name("assets") / "viewer-senses.json"
CUT = "|"  # between the words of an example in Chinese
NUM_NEIGHBOURS, NUM_WORDS, MOST_PLACES = 6, 12, 20
LONG_WORD = 2  # characters of a word that is looked at because texts repeat it

Span = tuple[int, int]


@dataclass(frozen=True)
class Sentence:
    """A text and where its words stand; of an example, the word that it is for and the sense of it."""

    text: str
    spans: Sequence[Span]
    word: str | None = None
    sense: str | None = None


@dataclass(frozen=True)
class Place:
    """A word in the sentence of this number, from one character to another."""

    sentence: int
    start: int
    end: int


@dataclass(frozen=True)
class Context:
    """A word at each of its places, in one layer.

    points: in the plane in which just these vectors spread most. cosines: between every two places. neighbours: for
    each place the numbers and cosines of the nearest other words of other sentences, nearest first.
    """

    points: list[list[float]]
    cosines: list[list[float]]
    neighbours: list[list[tuple[int, float]]]


@dataclass(frozen=True)
class Word:
    """A word with its places, their senses (None where not known) and its context in each layer, embeddings first."""

    word: str
    places: list[Place]
    senses: list[str | None]
    layers: list[Context]

    def agreeing(self, layer: int) -> tuple[int, int]:
        """How many of the places whose sense is known are nearest to one of the same sense, and of how many."""
        known = [at for at, sense in enumerate(self.senses) if sense is not None]
        cosines = self.layers[layer].cosines
        nearest = [max((one for one in known if one != at), key=cosines[at].__getitem__, default=at) for at in known]
        pairs = zip(known, nearest, strict=True)
        return sum(self.senses[at] == self.senses[other] for at, other in pairs if at != other), len(known)


@dataclass(frozen=True)
class Senses:
    """The sentences, all their words, and those words that stand in several places."""

    sentences: list[Sentence]
    places: list[Place]
    words: list[Word]

    def spelled(self, place: Place) -> str:
        return _spelled(place, self.sentences)


def view_senses(texts: Sequence[str], words: Sequence[str], tokenizer: Tokenizer, model: Model) -> Senses:
    """What becomes of words in context: of those named, those of the examples, and those that the texts repeat."""
    parts = dict.fromkeys(part for text in texts for part in text.split(PAIR, 1))
    own = [Sentence(part, _spans(tokenizer.pieces(part))) for part in parts]
    examples = _in_language_of(texts, read_examples(tokenizer))
    sentences = [*own, *(one for group in examples.values() for one in group)]
    encodings = [tokenizer.encode(one.text, max_length=model.config.max_positions) for one in sentences]
    places = [Place(number, *span) for number, one in enumerate(sentences) for span in one.spans]
    places = [one for one in places if _is_word(_spelled(one, sentences)) and _tokens(one, encodings)]
    wanted = list(dict.fromkeys([*words, *examples, *repeated(own)]))[: max(NUM_WORDS, len(words))]
    found = {word: [at for at in find(word, sentences) if _tokens(at, encodings)][:MOST_PLACES] for word in wanted}
    for word in words:
        if len(found[word]) < 2:
            raise ValueError(f"--word {word!r} stands in {len(found[word])} places of the texts: it takes two or more.")
    look = partial(_contexts, read_layers(encodings, model), encodings, places)
    several = {word: at for word, at in found.items() if len(at) > 1}
    senses = {word: [_sense(word, sentences[one.sentence]) for one in at] for word, at in several.items()}
    return Senses(sentences, places, [Word(word, at, senses[word], look(at)) for word, at in several.items()])


def _in_language_of(texts: Sequence[str], examples: Mapping[str, list[Sentence]]) -> Mapping[str, list[Sentence]]:
    """The examples in Chinese and those in English as far as the texts have letters of the kind, Chinese ones first."""
    kinds = {is_cjk(character) for text in texts for character in text if character.isalpha()}
    words = sorted((word for word in examples if is_cjk(word[0]) in kinds), key=lambda word: not is_cjk(word[0]))
    return {word: examples[word] for word in words}


def _sense(word: str, sentence: Sentence) -> str | None:
    return sentence.sense if sentence.word == word.lower() else None


def read_examples(tokenizer: Tokenizer) -> Mapping[str, list[Sentence]]:
    """The page's own words of several senses, with their sentences as far as the vocabulary can spell them; those with
    less than two sentences for a sense are left out."""
    examples = {}
    for word, senses in json.loads(EXAMPLES.read_text(encoding="utf-8")).items():
        sentences = [_example(text, word, sense, tokenizer) for sense, texts in senses.items() for text in texts]
        spelled = [one for one in sentences if tokenizer.unk_id not in tokenizer.pieces(one.text).ids]
        counts = Counter(one.sense for one in spelled)
        if all(counts[sense] > 1 for sense in senses):
            examples[word] = spelled
    return examples


def _example(text: str, word: str, sense: str, tokenizer: Tokenizer) -> Sentence:
    parts = text.split(CUT)
    if len(parts) == 1:
        return Sentence(text, _spans(tokenizer.pieces(text)), word, sense)
    return Sentence("".join(parts), list(pairwise(accumulate(map(len, parts), initial=0))), word, sense)


def _spans(pieces: Encoding) -> list[Span]:
    """From where to where each word of a text goes."""
    spans: dict[int, Span] = {}
    for word, offsets in zip(pieces.words, pieces.offsets, strict=True):
        if word is not None and offsets is not None:
            spans[word] = (min(spans.get(word, offsets)[0], offsets[0]), offsets[1])
    return list(spans.values())


def repeated(sentences: Sequence[Sentence]) -> list[str]:
    """The words that stand twice or more, as first written, the longest first."""
    spelled: dict[str, list[str]] = {}
    for one in sentences:
        for start, end in one.spans:
            spelled.setdefault(one.text[start:end].casefold(), []).append(one.text[start:end])
    several = [at[0] for word, at in spelled.items() if len(at) > 1 and len(word) >= LONG_WORD and _is_word(word)]
    return sorted(several, key=len, reverse=True)


def find(word: str, sentences: Sequence[Sentence]) -> list[Place]:
    """Where the word stands, whatever its case, not as a part of a longer one."""
    places = []
    for number, one in enumerate(sentences):
        starts, ends = {start for start, _ in one.spans}, {end for _, end in one.spans}
        for match in re.finditer(re.escape(word), one.text, re.IGNORECASE):
            if match.start() in starts and match.end() in ends:
                places.append(Place(number, *match.span()))
    return places


@torch.inference_mode()
def read_layers(encodings: Sequence[Encoding], model: Model) -> list[Tensor]:
    """The output of every layer, embeddings first, for each text's tokens (L T D)."""
    batch = pack([one.ids for one in encodings], [one.segments for one in encodings])
    layers_LND = model.encoder.layer_outputs(batch, range(model.config.num_layers + 1))
    return list(torch.split(layers_LND, [len(one) for one in encodings], 1))


def _contexts(
    layers_LTD: Sequence[Tensor], encodings: Sequence[Encoding], places: Sequence[Place], chosen: Sequence[Place]
) -> list[Context]:
    """The chosen places among all places, in each layer."""
    chosen_LSD, places_LSD = (
        torch.stack([layers_LTD[one.sentence][:, _tokens(one, encodings)].mean(1) for one in group], 1)
        for group in (chosen, places)
    )
    own = set(chosen)
    left_out = torch.tensor([[one.sentence == other.sentence or other in own for other in places] for one in chosen])
    contexts = []
    for chosen_SD, places_SD in zip(chosen_LSD, places_LSD, strict=True):
        unit_SD = normalize(chosen_SD, dim=-1)
        to_all = (unit_SD @ normalize(places_SD, dim=-1).T).masked_fill(left_out, -2.0)
        nearest = to_all.topk(min(NUM_NEIGHBOURS, to_all.shape[1]))
        rows = zip(nearest.indices.tolist(), nearest.values.tolist(), strict=True)
        neighbours = [[(at, round(c, 4)) for at, c in zip(*row, strict=True) if c > -2.0] for row in rows]
        cosines = [[round(c, 4) for c in row] for row in (unit_SD @ unit_SD.T).tolist()]
        contexts.append(Context(rounded(to_plane(chosen_SD).places_N2), cosines, neighbours))
    return contexts


def _tokens(place: Place, encodings: Sequence[Encoding]) -> list[int]:
    """The tokens of a place; none where the text was cut before it."""
    offsets = encodings[place.sentence].offsets
    return [at for at, span in enumerate(offsets) if span and span[0] < place.end and place.start < span[1]]


def _spelled(place: Place, sentences: Sequence[Sentence]) -> str:
    return sentences[place.sentence].text[place.start : place.end]


def _is_word(text: str) -> bool:
    return any(map(str.isalnum, text))
