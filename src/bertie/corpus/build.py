"""Documents to a corpus folder: read, cut and encoded by any number of processes, always to the same bytes.

The processes do what depends on a block of text alone. What depends on all of it (which documents came before, where
each goes) is done by the first process, which gets the blocks back in order.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from bertie.corpus.card import CorpusCard
from bertie.corpus.duplicates import Numbers, Seen, SeenNearly, band_numbers, digest
from bertie.corpus.parts import Parts
from bertie.corpus.shards import Booleans, Documents, dtype_of, write_meta
from bertie.sealed import replacing_folder, write_file
from bertie.text.documents import Block, Tally, TextConfig, blocks, documents
from bertie.text.sentences import cut_sentences
from bertie.text.sources import find
from bertie.text.wordpiece import Tokenizer
from bertie.text.words import encode_words, load_segmenter
from bertie.text.workers import in_order

LANGUAGES = ("en", "zh")
VOCABULARY_CARD = "vocabulary.json"
Report = Callable[[int, int], None]  # bytes read, bytes in all; 0 in all where nobody knows, as of standard input


@dataclass(frozen=True)
class CorpusConfig:
    """What becomes of the text. language: zh asks a segmenter where words begin. validation: the share held back."""

    language: str = "en"
    near_duplicates: bool = False
    validation: float = 0.005
    text: TextConfig = field(default_factory=TextConfig)
    workers: int = 1

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"language={self.language!r} is not known; allowed: {', '.join(LANGUAGES)}.")
        if not 0 <= self.validation <= 0.5:
            raise ValueError(f"validation is {self.validation}; it is a share of the documents, from 0 to 0.5.")
        if self.workers < 1:
            raise ValueError(f"workers={self.workers}: give at least 1.")


def build_corpus(
    config: CorpusConfig, inputs: Sequence[str | Path], vocabulary: Path, out: Path, report: Report
) -> CorpusCard:
    """Write the inputs' text as the corpus folder `out`, and give its card; it is there once it is whole."""
    if out.exists():
        raise ValueError(f"{out} exists: give a new name, or remove it first.")
    tokenizer, sources = Tokenizer.load(vocabulary), find(inputs)
    num_bytes, has_words = sum(source.size for source in sources), config.language == "zh"
    prepare, sieve = Preparer(tokenizer, has_words, config.near_duplicates), Sieve(config.near_duplicates)
    with (
        replacing_folder(out) as folder,
        closing(Parts(folder, dtype_of(tokenizer), has_words, config.validation, num_bytes)) as parts,
    ):
        for prepared in in_order(prepare, blocks(sources, config.text), config.workers):
            is_kept = sieve.keep(prepared)
            parts.add(prepared.documents.select(is_kept), prepared.digests[is_kept])
            report(prepared.done, num_bytes)
        entries = parts.finish()
        if not entries:
            raise ValueError(f"{', '.join(map(str, inputs))}: no document with a word in it is left to learn from.")
        card = sieve.card(config.language, parts.counts)
        write_file(folder / "card.json", (json.dumps(asdict(card), indent=1, ensure_ascii=False) + "\n").encode())
        _copy_card(vocabulary, folder)
        write_meta(folder, tokenizer, parts.counts, entries)
    return card


def _copy_card(vocabulary: Path, folder: Path) -> None:
    """Keep what is said of the vocabulary beside its ids, where it is a folder that we learned."""
    path = vocabulary / "card.json"
    card = path.read_bytes() if path.is_file() else b""
    if b'"figures"' in card:  # a corpus may be given as the vocabulary too, and its card is another
        write_file(folder / VOCABULARY_CARD, card)


@dataclass(frozen=True)
class Prepared:
    """What one block gave, and how far the sources are read with it."""

    documents: Documents
    digests: Numbers
    bands: Numbers | None  # by which near-duplicates are found
    num_unknown: int
    tally: Tally
    done: int


class Preparer:
    """Makes a block of text into documents of tokens; a process keeps one, with what its tokenizer looked up."""

    def __init__(self, tokenizer: Tokenizer, has_words: bool, has_bands: bool) -> None:
        self._tokenizer, self._has_words, self._has_bands = tokenizer, has_words, has_bands
        self._segment = load_segmenter() if has_words else None

    def __reduce__(self) -> tuple[type["Preparer"], tuple[Tokenizer, bool, bool]]:
        return Preparer, (self._tokenizer, self._has_words, self._has_bands)  # no segmenter can be sent to a process

    def __call__(self, block: Block) -> Prepared:
        texts, tally = documents(block)
        sentences = [cut_sentences(text) for text in texts]
        flat = list(chain.from_iterable(sentences))
        begins_word = None
        if self._segment:
            tokens, starts, begins_word = encode_words(flat, self._tokenizer, self._segment)
        else:
            tokens, starts = self._tokenizer.encode_ids(flat)
        lengths = np.diff(starts)
        has_tokens = lengths > 0
        document_of = np.repeat(np.arange(len(texts)), [len(one) for one in sentences])
        document_lengths = np.bincount(document_of[has_tokens], minlength=len(texts))
        is_full = document_lengths > 0
        tally.counts["empty documents"] += int((~is_full).sum())
        made = Documents(tokens, lengths[has_tokens], document_lengths[is_full], begins_word)
        digests = np.array([digest(text) for text in texts], np.uint64)[is_full]
        bands = band_numbers(made, digests) if self._has_bands else None
        return Prepared(made, digests, bands, int((tokens == _unknown_id(self._tokenizer)).sum()), tally, block.done)


def _unknown_id(tokenizer: Tokenizer) -> int:
    try:
        return tokenizer.unk_id
    except ValueError:  # a vocabulary that spells everything, byte by byte
        return -1


class Sieve:
    """Drops documents that came before, and counts them and all else that was dropped or mended."""

    def __init__(self, near_duplicates: bool) -> None:
        self._seen = Seen()
        self._seen_nearly = SeenNearly() if near_duplicates else None
        self._tally = Tally()
        self._num_tokens = self._num_unknown = 0

    def keep(self, prepared: Prepared) -> Booleans:
        """Of each document, whether it is to be kept."""
        counts = prepared.tally.counts
        is_kept = self._seen.add(prepared.digests)
        counts["repeated documents"] += int((~is_kept).sum())
        if self._seen_nearly and prepared.bands is not None:
            is_new = self._seen_nearly.add(prepared.bands[is_kept])
            counts["near-duplicates"] += int((~is_new).sum())
            is_kept[is_kept] = is_new
        self._tally.add(prepared.tally)
        self._num_tokens += len(prepared.documents.tokens)
        self._num_unknown += prepared.num_unknown
        return is_kept

    def card(self, language: str, counts: Mapping[str, Mapping[str, int]]) -> CorpusCard:
        """The card of a corpus with these counts, made of the documents that were kept."""
        return CorpusCard(
            language,
            counts,
            changes=dict(self._tally.counts),
            not_utf8=dict(self._tally.not_utf8),
            characters_per_token=self._tally.characters / self._num_tokens,
            unknown_share=self._num_unknown / self._num_tokens,
        )
