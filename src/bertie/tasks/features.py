"""bertie features: what chosen layers make of each token, in the form of Google's extract_features.py or as arrays."""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from bertie.model.heads import Model
from bertie.sealed import replacing_file
from bertie.tasks.network import by_length, pack_rows
from bertie.tasks.rows import read_text
from bertie.tasks.sequences import frame, token_lists
from bertie.tasks.task import Logits, Row
from bertie.text.wordpiece import Tokenizer

log = logging.getLogger(__name__)
PAIR = re.compile(r"^(.*) \|\|\| (.*)$")  # of a line with two texts, as extract_features.py tells one
AT_ONCE = 512  # texts that are sorted by length among themselves; what is kept in memory is theirs
Report = Callable[[int, int], None]
Combination = Literal["none", "concat", "sum", "mean", "weighted"]


@dataclass(frozen=True)
class Wanted:
    """Which layers, and how they become one vector a token. layers: -1 is the last, and one below the first the
    embeddings; weights: of "weighted", one for each layer, taken as they are."""

    layers: tuple[int, ...]
    combine: Combination = "none"
    weights: tuple[float, ...] = ()
    max_length: int | None = None  # tokens of a text or pair; none: as many as the model has positions

    def __post_init__(self) -> None:
        if not self.layers or len(set(self.layers)) < len(self.layers):
            raise ValueError(f"layers are {_listed(self.layers)}; name at least one, each once.")
        is_weighted = self.combine == "weighted"
        if len(self.weights) != (len(self.layers) if is_weighted else 0):
            wanted = f"one for each of the {len(self.layers)} layers" if is_weighted else "none unless combined so"
            raise ValueError(f"there are {len(self.weights)} weights; allowed: {wanted}.")


def last_layers(model: Model) -> tuple[int, ...]:
    """The last four, of which Google's script makes features; of a smaller model all that there are."""
    return tuple(range(-1, -min(4, model.config.num_layers) - 1, -1))


class Found(NamedTuple):
    """A text's tokens and what was made of them: T L D, or T D where layers are combined."""

    tokens: list[str]
    values: Logits


def read_lines(path: Path) -> list[tuple[str, ...]]:
    """A text from each line, or a pair where it has ` ||| ` in it."""
    if not path.exists():
        raise ValueError(f"{path} is not there: give a file with a text a line.")
    lines = [line.strip() for line in read_text(path).splitlines()]
    if not lines:
        raise ValueError(f"{path} is empty: write a text a line, or two with ` ||| ` between them.")
    return [found.groups() if (found := PAIR.match(line)) else (line,) for line in lines]


def extract(
    model: Model, tokenizer: Tokenizer, texts: Sequence[tuple[str, ...]], wanted: Wanted, report: Report
) -> Iterator[Found]:
    """What the model makes of each text, in order; says how many were cut."""
    rows = _rows(texts, tokenizer, _max_length(model, wanted))
    numbers = _numbers(model, wanted.layers)
    for start in range(0, len(rows), AT_ONCE):
        chunk = rows[start : start + AT_ONCE]
        found: dict[int, Logits] = {}
        for chosen in by_length(chunk):
            found |= zip(chosen, _values(model, [chunk[number] for number in chosen], numbers), strict=True)
        for number, row in enumerate(chunk):
            tokens = [tokenizer.vocabulary[piece] for piece in row.ids[0]]
            yield Found(tokens, COMBINE[wanted.combine](found[number], wanted.weights))
        report(start + len(chunk), len(rows))


def write_features(path: Path, found: Iterator[Found], wanted: Wanted) -> None:
    """Write them in the form that the file's name asks for."""
    if path.suffix not in FORMS:
        raise ValueError(f"--out {path}: the form is told by the end of the name; allowed: {', '.join(FORMS)}.")
    with replacing_file(path) as partial:
        FORMS[path.suffix](partial, found, wanted)


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(str(number) for number in numbers) or "none"


def _max_length(model: Model, wanted: Wanted) -> int:
    most = model.config.max_positions
    if wanted.max_length is not None and not 3 <= wanted.max_length <= most:
        raise ValueError(f"max_length is {wanted.max_length}; the model allows 3 to {most}.")
    return wanted.max_length or most


def _numbers(model: Model, layers: Sequence[int]) -> list[int]:
    """The layers from 0, which is the embeddings."""
    count = model.config.num_layers
    for layer in layers:
        if not -count - 1 <= layer <= -1:
            raise ValueError(
                f"layer {layer} is none of this model's {count}: they are counted from the last, -1, to the first, "
                f"{-count}, and {-count - 1} is the embeddings."
            )
    return [count + 1 + layer for layer in layers]


def _rows(texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer, max_length: int) -> list[Row]:
    pieces = token_lists(tokenizer, [part for text in texts for part in text])
    framed = [frame(tokenizer, [next(pieces) for _ in text], max_length) for text in texts]
    num_cut = sum(one.num_cut > 0 for one in framed)
    if num_cut:
        log.warning("%d of %d texts are longer than %d tokens: cut.", num_cut, len(texts), max_length)
    return [Row(number, (one.ids,), (one.segments,)) for number, one in enumerate(framed)]


@torch.inference_mode()
def _values(model: Model, rows: Sequence[Row], numbers: Sequence[int]) -> list[Logits]:
    """T L D of each row."""
    batch = pack_rows(rows, "tag").batch.to(model.encoder.embeddings.words.weight.device)
    first = min(numbers)
    hidden_LND = model.encoder.layer_outputs(batch, range(first, max(numbers) + 1))
    values_NLD = hidden_LND[[number - first for number in numbers]].movedim(1, 0).float().cpu().numpy()
    return np.split(values_NLD, np.cumsum([row.num_tokens for row in rows])[:-1])


COMBINE: Mapping[str, Callable[[Logits, Sequence[float]], Logits]] = {
    "none": lambda values, weights: values,
    "concat": lambda values, weights: values.reshape(len(values), -1),
    "sum": lambda values, weights: values.sum(1),
    "mean": lambda values, weights: values.mean(1),
    "weighted": lambda values, weights: np.einsum("tld,l->td", values, np.array(weights, np.float32)),
}


def _json_lines(path: Path, found: Iterator[Found], wanted: Wanted) -> None:
    """A text a line; where layers are combined there is one entry instead of one for each, whose index is a list."""
    indexes: list[int | list[int]] = [*wanted.layers] if wanted.combine == "none" else [[*wanted.layers]]
    with path.open("w", encoding="utf-8") as file:
        for number, one in enumerate(found):
            values = one.values if wanted.combine == "none" else one.values[:, None]
            features = [
                {"token": token, "layers": [_entry(*pair) for pair in zip(indexes, layers, strict=True)]}
                for token, layers in zip(one.tokens, values.tolist(), strict=True)
            ]
            # The key is spelled so in Google's files.
            file.write(json.dumps({"linex_index": number, "features": features}, ensure_ascii=False) + "\n")


def _entry(index: int | list[int], values: list[float]) -> dict[str, object]:
    return {"index": index, "values": [round(value, 6) for value in values]}


def _arrays(path: Path, found: Iterator[Found], wanted: Wanted) -> None:
    """All tokens in a row: `values` (tokens, layers, width; or tokens, width), `tokens`, `layers`, and `starts`: text s
    is tokens starts[s] to starts[s + 1]."""
    every = list(found)
    starts = np.cumsum([0, *(len(one.tokens) for one in every)])
    with path.open("wb") as file:
        np.savez(
            file,
            values=np.concatenate([one.values for one in every]),
            tokens=np.array([token for one in every for token in one.tokens]),
            layers=np.array(wanted.layers),
            starts=starts,
        )


FORMS: Mapping[str, Callable[[Path, Iterator[Found], Wanted], None]] = {".jsonl": _json_lines, ".npz": _arrays}
