"""A model folder put to work from Python or the command line: sentence vectors and filled masks."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bertie.carried import DEFAULT, model_folder
from bertie.model.device import pick_device
from bertie.model.encoder import Batch, pack
from bertie.model.folder import load as load_model
from bertie.model.heads import Model, pool
from bertie.serving.sentence import SentenceSettings, read_sentence_settings
from bertie.text.wordpiece import Encoding, Tokenizer, refuse_single, require_text

logger = logging.getLogger(__name__)
BATCH_TOKENS = 8192  # of one pass: more gains nothing on a CPU and little on a GPU
Report = Callable[[int, int], None]
Vectors = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


@dataclass(frozen=True)
class Prediction:
    """One way to fill a mask: a piece of the vocabulary and its probability."""

    token: str
    score: float


def load(model: str | Path = DEFAULT, device: str = "auto", allow_pickle: bool = False) -> "Bert":
    """The model in a folder, in a run, or carried by the package under this name, ready to use; `device` is auto, cpu,
    cuda or mps."""
    path = model_folder(model)
    network = load_model(path, allow_pickle=allow_pickle)
    return Bert(network.to(pick_device(device)).eval(), Tokenizer.load(path), read_sentence_settings(path))


class Bert:
    """A network with its tokenizer and the way it wants sentence vectors made."""

    def __init__(self, model: Model, tokenizer: Tokenizer, sentence: SentenceSettings) -> None:
        if tokenizer.size > model.config.vocabulary_size:
            raise ValueError(
                f"the tokenizer has {tokenizer.size:,} entries, the model only {model.config.vocabulary_size:,}: "
                "the vocabulary belongs to another model."
            )
        self.model, self.tokenizer, self.sentence = model, tokenizer, sentence
        limit = sentence.max_length
        self.max_length = None if limit is None else min(limit, model.config.max_positions)  # of a sentence, in tokens

    def encode(self, texts: str | Sequence[str], report: Report | None = None) -> Vectors:
        """A vector for each text (S, D), or one (D) for a single text, pooled and normalised as the folder says;
        `report` is told (texts done, texts in all)."""
        if isinstance(texts, str):
            vector: Vectors = self.encode([texts], report)[0]
            return vector
        encodings = [self._encode(text) for text in texts]
        num_cut = sum(encoding.truncated > 0 for encoding in encodings)
        if num_cut:
            logger.warning("%d of %d texts were cut to %s tokens.", num_cut, len(texts), self.max_length)
        found: dict[int, Vectors] = {}
        for chosen, batch in self._batches(encodings):
            found |= zip(chosen, self._vectors(batch).float().cpu().numpy(), strict=True)
            if report:
                report(len(found), len(texts))
        return (
            np.stack([found[index] for index in range(len(texts))])
            if found
            else np.empty((0, self.model.config.width), np.float32)
        )

    def fill(self, texts: Sequence[str], top: int = 5) -> list[list[list[Prediction]]]:
        """For each text, for each mask in it, the likeliest pieces, best first; ValueError for a text without one."""
        if "masked" not in self.model.heads:
            raise ValueError("the model has no masked-word head, so it cannot fill masks: give a pre-trained one.")
        if not 1 <= top <= self.tokenizer.size:
            raise ValueError(f"top is {top}; allowed: 1 to {self.tokenizer.size:,}.")
        refuse_single(texts, "fill")
        encodings = [self.tokenizer.encode_masked(text) for text in texts]
        for number, encoding in enumerate(encodings, 1):
            if self.tokenizer.mask_id not in encoding.ids:
                mask = self.tokenizer.vocabulary[self.tokenizer.mask_id]
                raise ValueError(f"line {number} has no {mask} to fill: {texts[number - 1][:80]!r}.")
        filled: dict[int, list[list[Prediction]]] = {}
        for chosen, batch in self._batches(encodings):
            predictions = iter(self._predictions(batch, top))
            for index in chosen:
                num_masks = encodings[index].ids.count(self.tokenizer.mask_id)
                filled[index] = [next(predictions) for _ in range(num_masks)]
        return [filled[index] for index in range(len(texts))]

    def _encode(self, text: str) -> Encoding:
        text = self.sentence.prompt + require_text(text)
        return self.tokenizer.encode(text.lower() if self.sentence.lowers else text, max_length=self.max_length)

    def _batches(self, encodings: Sequence[Encoding]) -> Iterator[tuple[list[int], Batch]]:
        """Texts of like length together, as many as the budget of tokens holds; with the numbers of those texts."""
        lengths = [len(encoding.ids) for encoding in encodings]
        self._check_lengths(lengths)
        waiting = sorted(range(len(encodings)), key=lengths.__getitem__, reverse=True)
        while waiting:
            num_chosen = max(1, BATCH_TOKENS // lengths[waiting[0]])
            chosen, waiting = waiting[:num_chosen], waiting[num_chosen:]
            yield chosen, self._pack([encodings[index] for index in chosen])

    def _check_lengths(self, lengths: Sequence[int]) -> None:
        longest = self.model.config.max_positions
        for number, length in enumerate(lengths, 1):
            if length > longest:
                raise ValueError(f"line {number} has {length:,} tokens, the model {longest:,} positions: shorten it.")

    def _pack(self, encodings: Sequence[Encoding]) -> Batch:
        batch = pack([encoding.ids for encoding in encodings], [encoding.segments for encoding in encodings])
        return batch.to(self.model.encoder.embeddings.words.weight.device)

    @torch.inference_mode()
    def _vectors(self, batch: Batch) -> Tensor:
        hidden_ND, starts_S = self.model.encoder(batch), batch.starts_S
        if self.sentence.prompt and not self.sentence.pools_prompt:
            num_prompt = len(self.tokenizer.encode(self.sentence.prompt).ids) - 1  # without the closing [SEP]
            hidden_ND = hidden_ND[batch.positions_N >= num_prompt]
            starts_S = starts_S - num_prompt * torch.arange(len(starts_S), device=starts_S.device, dtype=torch.int32)
        vectors_SD = torch.cat([pool(hidden_ND, starts_S, mode) for mode in self.sentence.poolings], -1)
        for step in self.sentence.steps:
            vectors_SD = step(vectors_SD)
        return vectors_SD

    @torch.inference_mode()
    def _predictions(self, batch: Batch, top: int) -> list[list[Prediction]]:
        """For each mask of the batch, in order, the likeliest pieces."""
        masked_M = (batch.ids_N == self.tokenizer.mask_id).nonzero()[:, 0]
        scores_MV = self.model(replace(batch, masked_M=masked_M))["masked"].float().softmax(-1)
        scores_MC, ids_MC = scores_MV[:, : self.tokenizer.size].topk(top)  # a padded table has rows that are no pieces
        return [
            [Prediction(self.tokenizer.vocabulary[id_], score) for id_, score in zip(ids, scores, strict=True)]
            for ids, scores in zip(ids_MC.tolist(), scores_MC.tolist(), strict=True)
        ]
