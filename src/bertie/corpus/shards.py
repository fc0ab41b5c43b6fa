"""The corpus folder: documents as flat arrays of tokens, written once, checked whole, mapped into memory.

A shard is a few files of one name: NAME.tokens, little-endian and without special tokens; NAME.sentences, the token
each sentence starts at, and NAME.documents, the sentence each document starts at, both with the end after the last;
where a segmenter was used, NAME.words, a bit a token, set where a word begins. `meta.json` lists and seals them.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from bertie.sealed import seal, sha256, unseal
from bertie.text.wordpiece import Tokenizer

Ids = NDArray[np.uint16] | NDArray[np.uint32]
Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Part = Literal["train", "validation"]

PARTS: tuple[Part, ...] = ("train", "validation")
META = "meta.json"
DTYPES: Mapping[str, np.dtype[np.uint16] | np.dtype[np.uint32]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
OFFSET: np.dtype[np.uint64] = np.dtype("<u8")
# No offset reaches 2**63, so its bits are those of a signed number, which is what numpy counts and indexes with.
SIGNED_OFFSET: np.dtype[np.int64] = np.dtype("<i8")


@dataclass(frozen=True)
class Documents:
    """Some documents: all their tokens, how many tokens each sentence has, how many sentences each document."""

    tokens: Ids
    sentence_lengths: Ints
    document_lengths: Ints
    begins_word: Booleans | None = None  # of each token; None where the vocabulary says it

    def __len__(self) -> int:
        return len(self.document_lengths)

    def select(self, is_kept: Booleans) -> "Documents":
        """Those of the documents."""
        if is_kept.all():
            return self
        is_kept_sentence = np.repeat(is_kept, self.document_lengths)
        is_kept_token = np.repeat(is_kept_sentence, self.sentence_lengths)
        return Documents(
            self.tokens[is_kept_token],
            self.sentence_lengths[is_kept_sentence],
            self.document_lengths[is_kept],
            None if self.begins_word is None else self.begins_word[is_kept_token],
        )


class ShardWriter:
    """The files of one shard, which documents are added to; nothing is kept in memory."""

    def __init__(self, folder: Path, name: str, dtype: str, has_words: bool) -> None:
        self.name = name
        self.num_tokens = self.num_sentences = self.num_documents = 0
        self._dtype = DTYPES[dtype]
        self._paths = {kind: folder / f"{name}.{kind}" for kind in ("tokens", "sentences", "documents")}
        if has_words:
            self._paths["words"] = folder / f"{name}.words"
        self._files: dict[str, BinaryIO] = {kind: path.open("wb") for kind, path in self._paths.items()}
        self._bits = np.zeros(0, np.bool_)  # fewer than eight, which wait to be a byte

    def add(self, documents: Documents) -> None:
        """Append the documents."""
        assert documents.tokens.dtype.itemsize == self._dtype.itemsize
        assert (documents.begins_word is not None) == ("words" in self._files)
        self._files["tokens"].write(np.asarray(documents.tokens, self._dtype).data)
        self._write_starts("sentences", self.num_tokens, documents.sentence_lengths)
        self._write_starts("documents", self.num_sentences, documents.document_lengths)
        if documents.begins_word is not None:
            bits = np.concatenate([self._bits, documents.begins_word])
            whole = len(bits) // 8 * 8
            self._files["words"].write(np.packbits(bits[:whole], bitorder="little").data)
            self._bits = bits[whole:]
        self.num_tokens += len(documents.tokens)
        self.num_sentences += len(documents.sentence_lengths)
        self.num_documents += len(documents)

    def finish(self) -> dict[str, str]:
        """Write what is due at the end and close the files; the SHA-256 of each, by its kind."""
        if "words" in self._files:
            self._files["words"].write(np.packbits(self._bits, bitorder="little").data)
        self._files["sentences"].write(np.array([self.num_tokens], OFFSET).data)
        self._files["documents"].write(np.array([self.num_sentences], OFFSET).data)
        self.close()
        return {kind: sha256(path) for kind, path in self._paths.items()}

    def close(self) -> None:
        with ExitStack() as stack:
            for file in self._files.values():
                stack.callback(file.close)

    def _write_starts(self, kind: str, first: int, lengths: Ints) -> None:
        self._files[kind].write((first + np.cumsum(lengths) - lengths).astype(OFFSET).data)


@dataclass(frozen=True)
class ShardEntry:
    """What `meta.json` says of a shard; sha256: of each of its files, by kind."""

    name: str
    part: Part
    sha256: Mapping[str, str]


def write_meta(folder: Path, tokenizer: Tokenizer, counts: Mapping[str, object], shards: Sequence[ShardEntry]) -> None:
    """Seal a folder whose shards are written: the vocabulary's files, then `meta.json` over all files."""
    tokenizer.save(folder)
    contents = {
        "vocabulary": tokenizer.fingerprint,
        "dtype": dtype_of(tokenizer),
        "counts": counts,
        "shards": [{"name": shard.name, "part": shard.part, "sha256": shard.sha256} for shard in shards],
    }
    seal(folder, META, contents)


def dtype_of(tokenizer: Tokenizer) -> str:
    """The smallest kind of integer that holds every id."""
    return "uint16" if tokenizer.size <= 1 << 16 else "uint32"


@dataclass(frozen=True)
class Shard:
    """One shard, mapped into memory."""

    name: str
    tokens: Ids
    sentences: Ints  # the token each starts at, and the end of the last
    documents: Ints  # the sentence each starts at, and the end of the last
    word_bits: NDArray[np.uint8] | None

    def begins_word(self, places: Ints) -> Booleans | None:
        """Of the tokens at these places, which begin a word; None where the vocabulary says it."""
        if self.word_bits is None:
            return None
        bits: Booleans = (self.word_bits[places >> 3] >> (places & 7).astype(np.uint8) & 1).view(np.bool_)
        return bits


@dataclass(frozen=True)
class Corpus:
    """A corpus folder, checked. vocabulary: the fingerprint of the tokenizer whose ids these are."""

    folder: Path
    vocabulary: str
    counts: Mapping[str, Mapping[str, int]]  # by part: documents, sentences, tokens
    train: tuple[Shard, ...]
    validation: tuple[Shard, ...]


def open_corpus(folder: Path, vocabulary: str | None = None) -> Corpus:
    """The corpus, once every byte is found to be what was written; ValueError names the file that is not.

    vocabulary: the fingerprint that the corpus must have, where the tokens are for a model that exists.
    """
    if not (folder / META).is_file():
        raise ValueError(
            f"{folder} is no corpus: it has no {META}. Make one: bertie corpus TEXT --vocab DIR --out DIR."
        )
    meta = unseal(folder, META)
    fingerprint, dtype, counts, entries = (meta.get(key) for key in ("vocabulary", "dtype", "counts", "shards"))
    # The seal held, so what was written is what we wrote.
    assert isinstance(fingerprint, str) and isinstance(counts, dict) and isinstance(entries, list)
    if vocabulary not in (None, fingerprint):
        raise ValueError(
            f"{folder} was made with another vocabulary than the model's: its ids would mean other words. Build the "
            "corpus again with --vocab set to the model's folder."
        )
    shards = [(entry["part"], _map_shard(folder, entry["name"], entry["sha256"], str(dtype))) for entry in entries]
    train, validation = (tuple(shard for part, shard in shards if part == wanted) for wanted in PARTS)
    return Corpus(folder, fingerprint, counts, train, validation)


def _map_shard(folder: Path, name: str, kinds: Mapping[str, str], dtype: str) -> Shard:
    # An array over the mapping, since slices and sums of a memmap would go on being memmaps.
    maps = {kind: np.asarray(np.memmap(folder / f"{name}.{kind}", dtype=np.uint8, mode="r")) for kind in kinds}
    return Shard(
        name,
        tokens=maps["tokens"].view(DTYPES[dtype]),
        sentences=maps["sentences"].view(SIGNED_OFFSET),
        documents=maps["documents"].view(SIGNED_OFFSET),
        word_bits=maps.get("words"),
    )
