"""What a model does while it reads a text: where its heads look, and what it would say in each token's place."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bertie.model.encoder import pack
from bertie.model.heads import Model
from bertie.text.encoding import Encoding
from bertie.text.wordpiece import Tokenizer

PAIR = " ||| "  # between the two texts of a pair, as for `bertie features`
MAP_NUMBERS = 600_000  # probabilities that a page holds: 1.6 MB as text
SHORTEST = 8  # tokens: what is cut shorter shows nothing
FINEST = 65_535  # stands for a probability of 1: they are stored as whole numbers of 16 bits
BATCH_TOKENS = 8192  # of one pass


@dataclass(frozen=True)
class Guess:
    """What the model says of a masked token: the rank (1 is best) and probability of the token that stood there, and
    the likeliest pieces with theirs."""

    rank: int
    score: float
    best: list[tuple[str, float]]


def encode_texts(
    texts: Sequence[str], tokenizer: Tokenizer, model: Model, numbers: int = MAP_NUMBERS
) -> list[Encoding]:
    """Each text, or pair, between special tokens, all cut to one length: their attention is at most so many numbers."""
    parts = [[tokenizer.pieces(part) for part in text.split(PAIR, 1)] for text in texts]
    lengths = [len(tokenizer.frame(each)) for each in parts]
    shape = model.config
    room = numbers // (shape.num_layers * shape.num_heads)

    def fits(longest: int) -> bool:
        return sum(min(length, longest) ** 2 for length in lengths) <= room

    if not fits(SHORTEST):
        raise ValueError(
            f"the attention of {len(texts):,} texts is more than one page holds, with {shape.num_layers} layers of "
            f"{shape.num_heads} heads: give at most {room // SHORTEST**2:,} texts."
        )
    longest = next(size for size in range(shape.max_positions, 0, -1) if size <= SHORTEST or fits(size))
    return [tokenizer.frame(each, longest) for each in parts]


def segments_of(text: str, encoding: Encoding) -> list[int]:
    """0 for the tokens of the first text, 1 for those of the second, for RoBERTa too, whose segments are all 0."""
    special = [at for at, offsets in enumerate(encoding.offsets) if offsets is None]
    if PAIR not in text or any(encoding.segments) or len(special) < 2:
        return encoding.segments
    return [int(at > special[-2]) for at in range(len(encoding))]  # the last one ends the second text


@torch.inference_mode()
def attention_maps(encoding: Encoding, model: Model) -> Tensor:
    """The probabilities of every layer and head (L H T T): how much the token of a row looks at that of a column."""
    trace = model.encoder.trace(pack([encoding.ids], [encoding.segments]))
    return torch.stack([maps_SHTT[0] for maps_SHTT in trace.probabilities_LSHTT])


def as_text(probabilities: Tensor) -> str:
    """Numbers from 0 to 1 to within 1 / 131,070, as 16 bits each, least byte first, in base64."""
    numbers = (probabilities.double() * FINEST).round().numpy().astype("<u2")
    return base64.b64encode(numbers.tobytes()).decode("ascii")


@torch.inference_mode()
def guess_each(encoding: Encoding, tokenizer: Tokenizer, model: Model, top: int) -> list[Guess | None]:
    """A guess for each token, it alone masked, the rest of the text in sight; None for special tokens."""
    guesses: list[Guess | None] = [None] * len(encoding)
    own = [place for place, offsets in enumerate(encoding.offsets) if offsets is not None]
    step = max(1, BATCH_TOKENS // len(encoding))
    for first in range(0, len(own), step):
        places = own[first : first + step]
        for place, scores_V in zip(places, _masked_one_by_one(places, encoding, tokenizer, model), strict=True):
            score = scores_V[encoding.ids[place]]
            best = scores_V.topk(min(top, tokenizer.size))
            pieces = [tokenizer.vocabulary[id_] for id_ in best.indices.tolist()]
            rank = int((scores_V > score).sum()) + 1
            named = [(piece, round(one, 5)) for piece, one in zip(pieces, best.values.tolist(), strict=True)]
            guesses[place] = Guess(rank, round(float(score), 5), named)
    return guesses


def _masked_one_by_one(places: Sequence[int], encoding: Encoding, tokenizer: Tokenizer, model: Model) -> Tensor:
    """The probability of each piece of the vocabulary (M V) at each place, it alone masked; all in one pass."""
    rows = [[*encoding.ids[:place], tokenizer.mask_id, *encoding.ids[place + 1 :]] for place in places]
    batch = pack(rows, [encoding.segments] * len(rows))
    masked_M = batch.starts_S[:-1].long() + torch.tensor(places)
    scores_MV: Tensor = model(replace(batch, masked_M=masked_M))["masked"].softmax(-1)
    return scores_MV[:, : tokenizer.size]  # a padded table has rows that are no pieces
