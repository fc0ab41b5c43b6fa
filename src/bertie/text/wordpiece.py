"""Text to token ids and back: by Google's rules to the letter, or as Hugging Face, or a tokenizer.json, has it."""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import Model

from bertie.carried import find
from bertie.sealed import write_file
from bertie.text.bulk import Ids, Packer
from bertie.text.encoding import SHARES, Encoding, Frame, framed
from bertie.text.folder import BERT_ROLES, Source, distinct, read_source, write_source
from bertie.text.native import LONGEST_WORD, NativeCutter, build_pipeline, continuations, frame_of
from bertie.text.rules import Rules

__all__ = ["Encoding", "Tokenizer"]

LONGEST_KEPT, MOST_WORDS = 64, 1 << 16  # characters of a word, words: what the table of words met lately may hold
logger = logging.getLogger(__name__)


class Cutter(Protocol):
    """What cuts a text into tokens, without special tokens."""

    def pieces(self, text: str) -> Encoding: ...

    def masked_pieces(self, text: str) -> Encoding: ...

    def ids(self, text: str) -> list[int]: ...

    def encode_ids(self, texts: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]: ...


class Tokenizer:
    """A vocabulary and the rules by which texts are cut into its pieces.

    With rules="google" nothing that a text says is read as a special token; `encode_masked` alone reads the mask.
    """

    def __init__(self, source: Source, cased: bool, rules: str = "google") -> None:
        if rules not in LONGEST_WORD:
            raise ValueError(f"rules={rules!r} is not known: give one of {', '.join(LONGEST_WORD)}.")
        self.is_cased, self.rules = cased, rules
        self.vocabulary = source.entries
        self._source = source
        self._ids = {piece: at for at, piece in enumerate(source.entries)}
        # What a folder says of accents goes with its own case; who asks for the other gets that one's default.
        accents = source.strip_accents if source.lowercase is not cased else None
        self._settings = Rules(not cased, accents, source.split_cjk)
        self._pipeline = build_pipeline(source, self._settings, rules)
        self._frames: dict[int, Frame] = {}
        typecode = "H" if self.size <= 1 << 16 else "I"
        self._cutter: Cutter
        if source.is_bert and rules == "google":
            words = _WordIds(self._pipeline.model)
            self._cutter = GoogleCutter(self.vocabulary, self._settings, source.roles, words, typecode)
        else:
            self._cutter = NativeCutter(self._pipeline, source.roles, rules == "google", typecode)

    @classmethod
    def load(cls, path: str | Path, cased: bool | None = None, rules: str = "google") -> "Tokenizer":
        """The tokenizer of a folder, a carried model, `vocab.txt` or `tokenizer.json`; cased=None: as the folder says,
        else uncased."""
        source = read_source(find(path))
        if not source.is_bert and cased is source.lowercase:
            raise ValueError(
                f"{path} is {'un' if cased else ''}cased by its tokenizer.json, so cased={cased} cannot be had."
            )
        tokenizer = cls(source, cased=source.lowercase is False if cased is None else cased, rules=rules)
        if source.lowercase is None and cased is None:
            logger.warning(
                "%s does not say whether it is cased, so it is taken as uncased: say it by cased=True or False (bertie "
                "tokenize: --cased or --uncased), or by do_lower_case in tokenizer_config.json.",
                path,
            )
        others = [token.content for token in source.added if token.content not in source.roles.values()]
        if others and rules == "google":
            logger.warning(
                "%s: the added tokens (%d, such as %s) are read in a text with rules='huggingface' alone.",
                *(path, len(others), others[0]),
            )
        return tokenizer

    @classmethod
    def build(cls, vocabulary: Sequence[str], cased: bool, rules: str = "google") -> "Tokenizer":
        """The tokenizer of a vocabulary in memory, with BERT's own special tokens."""
        name = "The vocabulary"
        entries = distinct(vocabulary, name, "entries")
        return cls(Source(name, entries, True, None, not cased, None, True, dict(BERT_ROLES), [], {}), cased, rules)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    @property
    def pad_id(self) -> int:
        return self._special_id("pad")

    @property
    def unk_id(self) -> int:
        return self._special_id("unk")

    @property
    def cls_id(self) -> int:
        return self._special_id("cls")

    @property
    def sep_id(self) -> int:
        return self._special_id("sep")

    @property
    def mask_id(self) -> int:
        return self._special_id("mask")

    @property
    def has_mask(self) -> bool:
        return self._source.roles["mask"] in self._ids

    @property
    def is_continuation(self) -> NDArray[np.bool_]:
        """For each entry of the vocabulary, whether it goes on a word that began before it."""
        return np.array(continuations(self._pipeline, self.vocabulary), dtype=np.bool_)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that decides which ids a text gets: the vocabulary and the rules."""
        if self._source.is_bert:
            rules = self._settings
            added = self._pipeline.get_added_tokens_decoder() if self.rules == "huggingface" else {}
            parts = [self.rules, rules.lowercase, rules.strip_accents, rules.split_cjk, list(added), self.vocabulary]
        else:
            parts = [self.rules, json.loads(self._pipeline.to_str())]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def encode(self, text: str, pair: str | None = None, max_length: int | None = None) -> Encoding:
        """The text, or two, between special tokens; cut, from the longer one's end, only where max_length is given."""
        return self.frame([self.pieces(part) for part in ((text,) if pair is None else (text, pair))], max_length)

    def encode_batch(self, texts: Iterable[str | tuple[str, str]], max_length: int | None = None) -> list[Encoding]:
        """Each text, or pair of texts, as `encode` gives it."""
        refuse_single(texts, "encode_batch")
        return [self.frame([self.pieces(part) for part in _parts(item)], max_length) for item in texts]

    def encode_masked(self, text: str, max_length: int | None = None) -> Encoding:
        """As `encode`, but where the text spells the mask token it is one; every other special token stays text."""
        require_text(text)
        self._special_id("mask")
        return self.frame([self._cutter.masked_pieces(text)], max_length)

    def pieces(self, text: str) -> Encoding:
        """The text's tokens without special tokens: what `frame` takes."""
        require_text(text)
        return self._cutter.pieces(text)

    def frame(self, texts: Sequence[Encoding], max_length: int | None = None) -> Encoding:
        """One or two texts' tokens between their special tokens, at most max_length in all."""
        frame = self._frame(len(texts))
        lengths = [len(text) for text in texts]
        kept = lengths
        if max_length is not None:
            room = max_length - self.num_special(len(texts))
            if room < 0:
                raise ValueError(
                    f"max_length={max_length} leaves no room for {max_length - room} special tokens: give a larger one."
                )
            first, second = SHARES[self.rules](lengths[0], lengths[1] if len(lengths) == 2 else 0, room)
            kept = [first, second]
        parts = [text.part(0, end) for text, end in zip(texts, kept, strict=False)]
        return framed(frame, parts, sum(lengths) - sum(map(len, parts)))

    def num_special(self, num_texts: int) -> int:
        """How many special tokens frame one text, or two."""
        return sum(slot.special_id is not None for slot in self._frame(num_texts))

    def tokenize(self, text: str) -> list[str]:
        """The text's pieces, no special tokens added."""
        require_text(text)
        return [self.vocabulary[piece] for piece in self._cutter.ids(text)]

    def words(self, text: str) -> list[str]:
        """The text's words by Google's rules and this vocabulary's case: what its pieces spell, joined."""
        require_text(text)
        return self._settings.words(text)

    def encode_ids(self, texts: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """All texts' ids in one array, no special tokens, and where in it each text starts, with the end after them."""
        refuse_single(texts, "encode_ids")
        return self._cutter.encode_ids(_required_texts(texts))

    def decode(self, ids: Iterable[int]) -> str:
        """What the pieces spell, special tokens included, with one space between words, whatever was there."""
        ids = [int(at) for at in ids]
        for at in ids:
            if not 0 <= at < self.size:
                raise ValueError(f"{at} is no id of this vocabulary: its ids go from 0 to {self.size - 1}.")
        if not self._source.is_bert:
            return self._pipeline.decode(ids, skip_special_tokens=False)
        words: list[str] = []
        for piece in map(self.vocabulary.__getitem__, ids):
            if words and piece.startswith("##") and len(piece) > 2:
                words[-1] += piece[2:]
            else:
                words.append(piece)
        return " ".join(words)

    def files(self) -> dict[str, bytes]:
        """The files of a folder that `load` and `transformers` both open, by name."""
        return write_source(self._source, self._settings, self._pipeline)

    def save(self, folder: str | Path) -> None:
        """Write the files into the folder, each whole or not at all."""
        for name, data in self.files().items():
            write_file(Path(folder) / name, data)

    def __reduce__(self) -> tuple[type["Tokenizer"], tuple[Source, bool, str]]:
        return Tokenizer, (self._source, self.is_cased, self.rules)  # so that each process fills tables of its own

    def _special_id(self, role: str) -> int:
        piece = self._source.roles[role]
        if piece not in self._ids:
            raise ValueError(f"{self._source.name} has no {piece}, its {role} token: add it as a line.")
        return self._ids[piece]

    def _frame(self, num_texts: int) -> Frame:
        if num_texts not in self._frames:
            if self._source.is_bert and not self._pipeline.post_processor:
                self._special_id("cls"), self._special_id("sep")
            self._frames[num_texts] = frame_of(self._pipeline, num_texts)
        return self._frames[num_texts]


class GoogleCutter:
    """Cuts texts by Google's rules: `Rules` finds the words, the library's WordPiece their pieces."""

    def __init__(
        self,
        vocabulary: Sequence[str],
        rules: Rules,
        roles: Mapping[str, str],
        word_ids: Mapping[str, list[int]],
        typecode: str,
    ) -> None:
        ids = {piece: at for at, piece in enumerate(vocabulary)}
        self._rules, self._word_ids = rules, word_ids
        self._mask, self._mask_id = roles["mask"], ids.get(roles["mask"], -1)
        self._unk_id = ids[roles["unk"]]
        self._lengths = [len(piece.removeprefix("##")) for piece in vocabulary]
        self.encode_ids = Packer(self.ids, rules.split_cjk, typecode).encode

    def ids(self, text: str) -> list[int]:
        """The ids of the text's tokens."""
        return list(chain.from_iterable(map(self._word_ids.__getitem__, self._rules.words(text))))

    def pieces(self, text: str) -> Encoding:
        """The text's tokens; a token's offsets span the characters that outlived cleaning, as far as it spells them."""
        cut = Encoding([], [], [], [])
        self._add(cut, text, 0)
        return cut

    def masked_pieces(self, text: str) -> Encoding:
        """As `pieces`, with the mask's id wherever the text spells it."""
        cut = Encoding([], [], [], [])
        start = 0
        for part in text.split(self._mask):
            if start:
                cut.ids.append(self._mask_id)
                cut.segments.append(0)
                cut.offsets.append((start - len(self._mask), start))
                cut.words.append(_next_word(cut))
            self._add(cut, part, start)
            start += len(part) + len(self._mask)
        return cut

    def _add(self, cut: Encoding, text: str, moved: int) -> None:
        spelled, origins = self._rules.align(text)
        at = 0
        for number, word in enumerate(spelled.split(), _next_word(cut)):
            at = spelled.index(word, at)
            for piece in self._word_ids[word]:
                end = at + (len(word) if piece == self._unk_id else self._lengths[piece])
                span = origins[at:end]
                cut.ids.append(piece)
                cut.segments.append(0)
                cut.offsets.append((moved + min(span), moved + max(span) + 1))
                cut.words.append(number)
                at = end


class _WordIds(dict[str, list[int]]):
    """The ids of each word met lately, by the library's WordPiece."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, word: str) -> list[int]:
        ids = [token.id for token in self._model.tokenize(word)]
        if len(word) <= LONGEST_KEPT:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = ids
        return ids


def _next_word(cut: Encoding) -> int:
    last = cut.words[-1] if cut.words else None
    return 0 if last is None else last + 1


def require_text(text: object) -> str:
    """The text itself; ValueError for what is none."""
    if not isinstance(text, str):
        raise ValueError(f"A text must be a str, not {type(text).__name__}: decode or convert it first.")
    return text


def _parts(item: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(item, tuple) and len(item) != 2:
        raise ValueError(f"A pair is two texts, not {len(item)}.")
    return item if isinstance(item, tuple) else (item,)


def _required_texts(texts: Iterable[object]) -> Iterator[str]:
    for text in texts:
        yield require_text(text)


def refuse_single(texts: object, name: str) -> None:
    """ValueError for one text where several are wanted: it would be taken for a list of characters."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} takes a list of texts, not a single one: put it in a list.")
