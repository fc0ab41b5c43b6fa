"""Claim: BERT-base pre-trains at 1,000,000 real tokens per second on one H200, many times as fast as transformers.

Each row is one kind of work on the text of a `bertie corpus`. bertie is run as `bertie pretrain` would, its loop, data
loading and logging included; transformers as its users run it: BertForPreTraining compiled, bf16 autocast, sdpa, fused
AdamW, rows padded to the full length, labels at all positions. Both draw the same kind of sequences from the same
corpus. They take turns; the medians of real tokens per second, their spread, and the ratio are printed.

    python benchmarks/pretrain_speed.py CORPUS
    python benchmarks/pretrain_speed.py CORPUS --rows base-128 --seconds 8 --times 2 --profile OUT
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bertie.corpus.shards import Corpus, open_corpus
from bertie.model.encoder import Batch
from bertie.model.sizes import flops_per_masked_word, flops_per_token
from bertie.pretraining.drawing import Ahead, Drawer
from bertie.pretraining.recipe import Recipe, change, model_config, read_recipe
from bertie.pretraining.run import choose_loss, make_model
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks
from bertie.training.loop import Budget, Hooks, State, fit
from bertie.training.optimizers import make_optimizers

WARM_UP = 12  # steps before anything is timed: kernels are compiled, the ways to compute products tried
PROFILED = 10


@dataclass(frozen=True)
class Row:
    """A kind of work, and what is to be reached."""

    preset: str
    length: int
    dropout: float
    bar: float  # real tokens per second
    ratio: float  # to transformers


ROWS = {
    "base-128": Row("bert-base", 128, 0.0, 1_000_000, 1.8),
    "base-512": Row("bert-base", 512, 0.0, 850_000, 2.4),
    "base-128-dropout": Row("bert-base", 128, 0.1, 900_000, 1.8),
    "large-512": Row("bert-large", 512, 0.0, 280_000, 1.6),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--tokens", type=int, default=131_072, help="of a step")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a turn")
    parser.add_argument("--times", type=int, default=3, help="turns of each")
    parser.add_argument("--alone", action="store_true", help="without transformers")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="also write where a step's time goes")
    parser.add_argument("--set", action="append", default=[], help="change a key of bertie's recipe")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    corpus, tokenizer = open_corpus(arguments.corpus), Tokenizer.load(arguments.corpus)
    print(torch.cuda.get_device_name() if arguments.device == "cuda" else arguments.device, "torch", torch.__version__)
    for name in arguments.rows:
        measure(name, corpus, tokenizer, arguments)
        if arguments.device == "cuda":
            torch.cuda.empty_cache()


def measure(name: str, corpus: Corpus, tokenizer: Tokenizer, arguments: argparse.Namespace) -> None:
    row = ROWS[name]
    sides: dict[str, Callable[[float], float]] = {}
    ours = Ours(recipe_of(row, arguments), corpus, tokenizer, arguments.device)
    sides["bertie"] = ours.run
    if not arguments.alone:
        sides["transformers"] = Theirs(recipe_of(row, arguments), corpus, tokenizer, arguments.device).run
    found: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(arguments.times):
        for side, run in sides.items():
            found[side].append(run(arguments.seconds))
    config = ours.model.config
    rate = ours.recipe.masking.rate
    flops = 3 * (flops_per_token(config, row.length) + rate * flops_per_masked_word(config))
    for side, speeds in found.items():
        spread = f"{min(speeds):,.0f} to {max(speeds):,.0f}"
        print(f"{name:18} {side:13} {statistics.median(speeds):11,.0f} real tokens/s ({spread})", flush=True)
    median = statistics.median(found["bertie"])
    print(
        f"{name:18} {median * flops / 1e12:,.0f} TFLOP/s; bar {row.bar:,.0f}: {median / row.bar:.2f} of it", flush=True
    )
    if "transformers" in found:
        ratio = statistics.median(ours / theirs for ours, theirs in zip(*found.values(), strict=True))
        print(f"{name:18} bertie / transformers: {ratio:.2f} (bar {row.ratio})", flush=True)
    if arguments.profile:
        profile(ours, arguments.profile / name)


def recipe_of(row: Row, arguments: argparse.Namespace) -> Recipe:
    settings = [
        f"preset={row.preset}", f"batch={arguments.tokens}", "batches_per_step=1", "objective=masked+pair",
        "pairs.kind=next_sentence", f"max_length={row.length}", "masking.rate=0.15", f"dropout={row.dropout}",
        "lr=1e-4", "kernels=auto", f"device={arguments.device}",
    ]  # fmt: skip
    return change(read_recipe("modern-base"), [*settings, *arguments.set])


class Ours:
    """A run of bertie that stops after some seconds and goes on."""

    def __init__(self, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer, device: str) -> None:
        self.recipe, self.device = recipe, torch.device(device)
        self.model, self.loss = make_model(recipe, tokenizer, self.device), choose_loss(recipe)
        self.state = State(make_optimizers(self.model, recipe.optimizer))
        self.batches = Ahead(Drawer(corpus.train, tokenizer, recipe), 1, self.device)
        self.steps(WARM_UP)

    def run(self, seconds: float) -> float:
        """Real tokens per second."""
        seen: list[tuple[float, float]] = []
        self._fit(lambda event: seen.append((time.perf_counter(), event["tokens"])), seconds)
        (begun, before), (ended, after) = seen[1], seen[-1]
        return (after - before) / (ended - begun)

    def steps(self, count: int) -> None:
        """Take so many steps."""
        reports: list[object] = []
        self._fit(reports.append, until=lambda: len(reports) >= count)

    def _fit(
        self, report: Callable[[dict], object], seconds: float = 0.0, until: Callable[[], bool] | None = None
    ) -> None:
        begun = time.monotonic()
        is_over = until or (lambda: time.monotonic() - begun > seconds)
        loop = replace(self.recipe.loop, budget=Budget(10**9), evaluate_every=0, save_every=0)
        hooks = Hooks(
            evaluate=dict,
            save=lambda state: None,
            report=lambda event: report(event) if event["event"] == "train" else None,
            stop=is_over,
            clock=time.monotonic,
        )
        fit(self.model, self.batches, self.loss, loop, self.state, Ranks(self.device), hooks)


class Theirs:
    """The same work by transformers."""

    def __init__(self, recipe: Recipe, corpus: Corpus, tokenizer: Tokenizer, device: str) -> None:
        from transformers import BertConfig, BertForPreTraining

        length = recipe.pairs.max_length
        # The same kind of sequences, a fixed number of them a step, as many as would fill as many tokens.
        recipe = change(recipe, ["counts=sequences", f"batch={recipe.batch // length}"])
        self.device, self.length = torch.device(device), length
        config = model_config(recipe, tokenizer.size, tokenizer.pad_id)
        theirs = BertConfig(
            vocab_size=config.vocabulary_size,
            hidden_size=config.width,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.inner_width,
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.attention_dropout,
            attn_implementation="sdpa",
        )
        self.model = BertForPreTraining(theirs).to(self.device).train()
        self.compiled = torch.compile(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.batches = Ahead(Drawer(corpus.train, tokenizer, recipe), 1, self.device)
        self.number = 0
        for _ in range(WARM_UP):
            self._step()

    def run(self, seconds: float) -> float:
        """Real tokens per second."""
        self._wait()
        begun, tokens = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            for _ in range(5):
                tokens += self._step()
            self._wait()
        return tokens / (time.perf_counter() - begun)

    def _step(self) -> int:
        drawn = self.batches(self.number)
        self.number += 1
        ids, segments, mask, labels = padded(drawn.batch, self.length)
        with torch.autocast(self.device.type, torch.bfloat16):
            found = self.compiled(
                input_ids=ids,
                token_type_ids=segments,
                attention_mask=mask,
                labels=labels,
                next_sentence_label=drawn.batch.pair_S,
            )
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return drawn.num_tokens

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def padded(batch: Batch, length: int) -> Iterator[Tensor]:
    """ids, segments, attention mask and labels, a row a sequence."""
    lengths = batch.starts_S.diff().long()
    num_rows = len(lengths)
    rows = torch.arange(num_rows, device=lengths.device).repeat_interleave(lengths, output_size=len(batch.ids_N))
    places = rows * length + batch.positions_N
    flat_labels = torch.full((len(batch.ids_N) + 1,), -100, device=lengths.device)
    rank_M = torch.where(batch.labels_M >= 0, batch.masked_M, len(batch.ids_N))
    flat_labels[rank_M] = batch.labels_M
    ones = torch.ones_like(batch.ids_N)
    for values, empty in ((batch.ids_N, 0), (batch.segments_N, 0), (ones, 0), (flat_labels[:-1], -100)):
        table = torch.full((num_rows * length,), empty, dtype=torch.long, device=values.device)
        yield table.index_copy(0, places, values).view(num_rows, length)


def profile(ours: Ours, folder: Path) -> None:
    """Write what each kernel takes of a step, and print how busy the GPU was."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    folder.mkdir(parents=True, exist_ok=True)
    with profiled(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        ours.steps(PROFILED)
        torch.cuda.synchronize()
    kernels = [event for event in trace.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    spans = sorted((event.time_range.start, event.time_range.end, event.name) for event in kernels)
    # The first step is the dry one with its own pauses; the last ones are waited for.
    spans = spans[len(spans) // 4 : -len(spans) // 8]
    busy, end = 0.0, spans[0][0]
    taken: dict[str, list[float]] = {}
    for start, stop, name in spans:
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
        taken.setdefault(name, []).append(stop - start)
    whole = end - spans[0][0]
    print(f"the GPU is busy {busy / whole:.1%} of the time")
    rows = sorted(((sum(times), len(times), name) for name, times in taken.items()), reverse=True)
    lines = [
        {"share": total / whole, "calls": calls, "mean_us": total / calls, "kernel": name}
        for total, calls, name in rows
    ]
    (folder / "kernels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for line in lines[:30]:
        print(f"  {line['share']:6.1%} {line['mean_us']:9.1f} us x {line['calls']:4}  {line['kernel'][:90]}")


if __name__ == "__main__":
    main()
