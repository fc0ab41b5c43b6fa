"""Texts cut by a pipeline of the `tokenizers` library as it is: Hugging Face's rules, and any tokenizer.json."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

from bertie.text.bulk import Ids
from bertie.text.encoding import Encoding, Frame, Slot
from bertie.text.folder import Source
from bertie.text.rules import LONGEST_WORD as GOOGLE_LONGEST_WORD
from bertie.text.rules import Rules

LONGEST_WORD = {"google": GOOGLE_LONGEST_WORD, "huggingface": 100}
WORD_STARTS = (
    "Ġ",
    "Ċ",
    "ĉ",
    "č",
    "▁",
)  # space, line feed, tab, carriage return in byte-level spelling; Metaspace's space
SURROGATE = re.compile("[\ud800-\udfff]")


def build_pipeline(source: Source, settings: Rules, rules: str) -> Pipeline:
    """The folder's own pipeline, or for BERT's vocabularies the one that `transformers` builds from such settings."""
    if not source.is_bert:
        assert source.pipeline is not None
        return source.pipeline
    pieces = set(source.pipeline.get_vocab(with_added_tokens=False) if source.pipeline else source.entries)
    ids = {piece: at for at, piece in enumerate(source.entries) if piece in pieces}
    roles = source.roles
    if roles["unk"] not in ids:
        raise ValueError(
            f"{source.name} has no {roles['unk']} among its {len(ids)} entries, which stands for words that it cannot "
            "spell: add it as a line."
        )
    pipeline = Pipeline(WordPiece(ids, unk_token=roles["unk"], max_input_chars_per_word=LONGEST_WORD[rules]))
    pipeline.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.split_cjk,
        strip_accents=settings.strip_accents,
        lowercase=settings.lowercase,
    )
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.decoder = decoders.WordPiece(prefix="##")
    pipeline.add_tokens(source.added)
    pipeline.add_special_tokens([token for token in roles.values() if token in ids])
    if source.pipeline and source.pipeline.post_processor:
        pipeline.post_processor = source.pipeline.post_processor
    elif roles["cls"] in ids and roles["sep"] in ids:
        pipeline.post_processor = _bert_frame(roles["cls"], roles["sep"], ids)
    return pipeline


def _bert_frame(cls: str, sep: str, ids: Mapping[str, int]) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, ids[cls]), (sep, ids[sep])],
    )


class NativeCutter:
    """Cuts texts as the pipeline does; where `is_inert`, the spelling of a special token is text like any other."""

    def __init__(self, pipeline: Pipeline, roles: Mapping[str, str], is_inert: bool, typecode: str) -> None:
        pipeline.no_padding()
        pipeline.no_truncation()
        self._pipeline = pipeline
        self._masked = _reading_only(roles["mask"], pipeline) if is_inert else pipeline
        pipeline.encode_special_tokens = is_inert
        self._typecode = typecode
        self._mask_id, self._unk_id = (pipeline.token_to_id(roles[role]) for role in ("mask", "unk"))
        special = {at for at, token in pipeline.get_added_tokens_decoder().items() if token.special}
        self._inert: set[int | None] = {*special} if is_inert else set()

    def pieces(self, text: str) -> Encoding:
        """The text's tokens."""
        return self._without(self._inert, _pieces(self._pipeline, text))

    def masked_pieces(self, text: str) -> Encoding:
        """As `pieces`, with the mask's id wherever the text spells it."""
        return self._without(self._inert - {self._mask_id}, _pieces(self._masked, text))

    def _without(self, inert: set[int | None], cut: Encoding) -> Encoding:
        """The tokens, but unknown ones for special ones: Unigram has those in its model, and finds them by itself."""
        if self._unk_id is not None and not inert.isdisjoint(cut.ids):
            cut.ids[:] = [self._unk_id if piece in inert else piece for piece in cut.ids]
        return cut

    def ids(self, text: str) -> list[int]:
        return self.pieces(text).ids

    def encode_ids(self, texts: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """All texts' ids in one array, and where in it each text starts, with the end after them."""
        ids = [np.array(self.ids(text), self._typecode) for text in texts]
        ends = np.cumsum([0, *map(len, ids)])
        return np.concatenate([np.zeros(0, self._typecode), *ids]), ends


def frame_of(pipeline: Pipeline, num_texts: int) -> Frame:
    """Where the pipeline puts special tokens around one text, or two, found by looking at what it does."""
    if not pipeline.encode("a", add_special_tokens=False).ids:
        raise ValueError(
            "The tokenizer gives no token for the letter a, so where its special tokens go cannot be seen."
        )
    whole = pipeline.encode("a", "a" if num_texts == 2 else None)
    frame: list[Slot] = []
    for piece, segment, text in zip(whole.ids, whole.type_ids, whole.sequence_ids, strict=True):
        if text is None:
            frame.append(Slot(segment, special_id=piece))
        elif not frame or frame[-1].text != text:
            frame.append(Slot(segment, text=text))
    return tuple(frame)


def continuations(pipeline: Pipeline, vocabulary: Sequence[str]) -> list[bool]:
    """For each entry, whether it goes on a word that began before it, by the mark that its kind of pipeline sets."""
    decoder = json.loads(pipeline.to_str())["decoder"] or {}
    kinds = {part["type"] for part in decoder.get("decoders", [decoder]) if "type" in part}
    added = {token.content for token in pipeline.get_added_tokens_decoder().values()}
    if "WordPiece" in kinds:
        return [piece.startswith("##") and len(piece) > 2 and piece not in added for piece in vocabulary]
    if kinds & {"ByteLevel", "Metaspace"}:
        return [not piece.startswith(WORD_STARTS) and piece not in added for piece in vocabulary]
    return [False] * len(vocabulary)


def _reading_only(mask: str, pipeline: Pipeline) -> Pipeline:
    """A copy that reads the mask where the text spells it, and no other special token."""
    settings = json.loads(pipeline.to_str())
    for token in settings["added_tokens"]:
        if token["content"] == mask:
            token["special"] = False  # then making special tokens inert passes it by
    copy = Pipeline.from_str(json.dumps(settings))
    copy.encode_special_tokens = True
    return copy


def _pieces(pipeline: Pipeline, text: str) -> Encoding:
    kept = None
    if SURROGATE.search(text):
        kept = [at for at, char in enumerate(text) if not SURROGATE.match(char)]
        text = "".join([text[at] for at in kept])
    cut = pipeline.encode(text, add_special_tokens=False)
    offsets = [_moved(span, kept) for span in cut.offsets] if kept else cut.offsets
    return Encoding(cut.ids, [0] * len(cut.ids), list(offsets), cut.word_ids)


def _moved(span: tuple[int, int], kept: Sequence[int]) -> tuple[int, int]:
    start, end = span
    if start == end:
        return (kept[start], kept[start]) if start < len(kept) else (kept[-1] + 1, kept[-1] + 1)
    return kept[start], kept[end - 1] + 1
