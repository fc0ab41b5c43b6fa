"""Draws the pictures of the documentation, out of bertie's own code and measurements: python docs/pictures/draw.py DIR.

Each is written once for each language, NAME.en.svg and NAME.zh.svg; what they show is computed, not drawn by hand.
"""

import itertools
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from canvas import BLUE, FAINT, GREEN, GREY, INK, ORANGE, PURPLE, Canvas

from bertie.kernels.plain import Pattern, attend_and_show
from bertie.model.config import ModelConfig, preset
from bertie.model.encoder import Encoder, pack
from bertie.model.heads import Model
from bertie.pretraining.masking import UNUSED, MaskingConfig, Text, mask
from bertie.pretraining.pairs import IS_NEXT, Offsets, PairsConfig, draw_part
from bertie.text.wordpiece import Tokenizer
from bertie.training.schedule import ScheduleConfig, share_at_fraction

Say = Callable[[str, str], str]  # the English and the Chinese words -> those of the picture's language


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "sings", "?", "an", "un", "##believ", "##able", "voice"]


def summed(say: Say) -> Canvas:
    """What each token of a pair is the sum of, as the tokenizer cuts and numbers it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
        encoding = Tokenizer.load(folder, cased=False).encode("Who sings?", "An unbelievable voice")
    cell, left = 68, 96
    canvas = Canvas(left + cell * len(encoding.ids) + 20, 172, say("What goes into the network", "送入网络的是什么"))
    rows = {
        say("token", "词元"): [PIECES[id_] for id_ in encoding.ids],
        say("segment", "段"): ["AB"[segment] for segment in encoding.segments],
        say("position", "位置"): [str(place) for place in range(len(encoding.ids))],
    }
    for row, (name, values) in enumerate(rows.items()):
        y = 24 + row * 48
        canvas.text(left - 14, y + 20, name, "end")
        for place, value in enumerate(values):
            x = left + place * cell
            colour = (BLUE, (ORANGE, GREEN)[encoding.segments[place]], PURPLE)[row]
            canvas.box(x, y, cell - 6, 30, colour, 0.25)
            canvas.text(x + cell / 2 - 3, y + 20, value, "middle")
            if row:
                canvas.text(x + cell / 2 - 3, y - 4, "+", "middle", FAINT)
    return canvas


def who_sees_whom(say: Say) -> Canvas:
    """The probabilities of plain attention where every score is the same: what is left is who is seen at all."""
    networks = {
        say("BERT: all", "BERT：全部"): [Pattern()],
        say("GPT: what came before", "GPT：前面的"): [Pattern(causal=True)],
        say("ELMo: two directions", "ELMo：两个方向"): [Pattern(causal=True), Pattern(causal=True)],
        say("ModernBERT: windows", "ModernBERT：窗口"): [Pattern(window=4)],
    }
    num_tokens, cell, gap = 8, 15, 70
    side = num_tokens * cell
    canvas = Canvas(4 * side + 3 * gap + 60, side + 84, say("Which tokens each token sees", "每个词元看到哪些词元"))
    zeros_NHK = torch.zeros(num_tokens, 1, 1)
    for place, (name, patterns) in enumerate(networks.items()):
        left, top = 30 + place * (side + gap), 50
        canvas.text(left + side / 2, top - 18, name, "middle")
        for direction, pattern in enumerate(patterns):
            starts_S = torch.tensor([0, num_tokens])
            shown = attend_and_show(zeros_NHK, zeros_NHK, zeros_NHK, starts_S, num_tokens, pattern)[1][0][0]
            seen = (shown > 0).numpy()[::-1, ::-1] if direction else (shown > 0).numpy()
            for row, column in np.argwhere(seen):
                colour = ORANGE if direction else BLUE
                x, y = left + column * cell, top + row * cell
                canvas.box(x + (7 if direction else 0), y, 7 if len(patterns) == 2 else cell - 1, cell - 1, colour)
    canvas.text(
        30, side + 72, say("a row: a token; coloured: the tokens it sees", "一行：一个词元；有颜色的：它看到的词元")
    )
    return canvas


def sinusoids(say: Say) -> Canvas:
    """What an encoder with sinusoidal positions adds to its tokens: its embeddings without tables and norm."""
    num_positions, width, cell = 48, 64, 8
    config = ModelConfig(
        family="bertie",
        vocabulary_size=1,
        num_layers=1,
        width=width,
        num_heads=1,
        inner_width=1,
        num_segments=0,
        positions="sinusoidal",
        dropout=0.0,
    )
    embeddings = Encoder(config).embeddings.to_empty(device="cpu").eval()
    torch.nn.init.zeros_(embeddings.words.weight)
    embeddings.norm = torch.nn.Identity()
    with torch.inference_mode():
        values_TD = embeddings(pack([[0] * num_positions])).numpy()
    title = say("Sinusoidal positions: a row a position, a column a number", "正弦位置编码：一行一个位置，一列一个数")
    canvas = Canvas(width * cell + 110, num_positions * cell + 70, title)
    canvas.text(50, 26, title)
    colours = [BLUE, BLUE, BLUE, GREY, ORANGE, ORANGE, ORANGE]
    opacities = [1.0, 0.66, 0.33, 0.3, 0.33, 0.66, 1.0]
    levels_TD = np.rint(3 * values_TD).astype(int) + 3
    for level, (colour, opacity) in enumerate(zip(colours, opacities, strict=True)):
        places = np.argwhere(levels_TD == level)
        canvas.tiles([(50 + column * cell, 40 + row * cell, cell, cell) for row, column in places], colour, opacity)
    for row in range(0, num_positions, 8):
        canvas.text(42, 48 + row * cell, str(row), "end", FAINT, 11)
    for column in range(0, width, 8):
        canvas.text(54 + column * cell, num_positions * cell + 56, str(column), "middle", FAINT, 11)
    canvas.text(width * cell + 56, 48, "+1", colour=ORANGE)
    canvas.text(width * cell + 56, 68, "−1", colour=BLUE)
    return canvas


def parameters(say: Say) -> Canvas:
    """Where the numbers of four models are."""
    names = {"BERT-base": "bert-base", "BERT-large": "bert-large", "RoBERTa-base": "roberta-base"}
    names["ALBERT-base"] = "albert-base"
    parts = {
        say("words", "词表嵌入"): (BLUE, lambda name: ".words." in name or ".projection." in name),
        say("positions, segments", "位置、段"): (PURPLE, lambda name: ".positions." in name or ".segments." in name),
        say("attention", "注意力"): (ORANGE, lambda name: ".attention." in name),
        say("feed-forward", "前馈"): (GREEN, lambda name: ".feed_forward." in name),
        say("pooler and norms", "池化层和归一化"): (INK, lambda name: True),
    }
    canvas = Canvas(760, 268, say("Parameters of four models, in millions", "四个模型的参数，单位百万"))
    canvas.text(20, 28, canvas.title)
    for row, (label, name) in enumerate(names.items()):
        counts = dict.fromkeys(parts, 0)
        for weight, parameter in Model(preset(name), {"pooler": 0}).named_parameters():
            part = next(part for part, (_, holds) in parts.items() if holds(weight))
            counts[part] += parameter.numel()
        x, y = 130.0, 48 + row * 40
        canvas.text(120, y + 19, label, "end")
        for part, count in counts.items():
            canvas.box(x, y, count / 600_000, 28, parts[part][0])
            x += count / 600_000
        canvas.text(x + 8, y + 19, f"{sum(counts.values()) / 1e6:.1f}", colour=FAINT)
    for place, (part, (colour, _)) in enumerate(parts.items()):
        canvas.box(20 + (0, 90, 250, 350, 490)[place], 222, 14, 14, colour)
        canvas.text(40 + (0, 90, 250, 350, 490)[place], 234, part)
    return canvas


TEXT = "[CLS] the old man went down to the river to fish , but the water was low that year . [SEP]"
SENTENCE = TEXT.split()
COLOURS: Mapping[str, str] = {"mask": ORANGE, "keep": GREEN, "random": PURPLE}


def fate(seen: str, right: str) -> str:
    if seen == "[MASK]":
        return "mask"
    return "keep" if seen == right else "random"


def masking(say: Say) -> Canvas:
    """A sentence as `mask` has it, by the first seed whose draw shows all three fates, and the shares of a long one."""
    vocabulary = ["[MASK]", *dict.fromkeys(SENTENCE), "tax", "green", "seven", "##ing"]
    ids_N = np.array([vocabulary.index(token) for token in SENTENCE])
    is_special_N = np.char.startswith(np.array(SENTENCE), "[")
    text = Text(ids_N, np.array([0, len(ids_N)]), is_special_N, np.zeros(len(ids_N), np.bool_))
    for seed in range(10_000):
        drawn = mask(text, MaskingConfig(), 0, len(vocabulary), 3, np.random.default_rng(seed))
        fates = {n: fate(vocabulary[drawn.ids_N[n]], SENTENCE[n]) for n in drawn.masked_M[drawn.labels_M != UNUSED]}
        if len(set(fates.values())) == 3 and all(SENTENCE[n].isalpha() for n in fates):
            break
    canvas = Canvas(760, 236, say("What is masked, and what stands in its place", "遮盖什么，换成什么"))
    x = 20.0
    for place, token in enumerate(SENTENCE):
        seen, width = vocabulary[drawn.ids_N[place]], 7.0 * max(len(token), len(vocabulary[drawn.ids_N[place]])) + 8
        if place == 10:
            x = 20.0
        y = 34 if place < 10 else 94
        colour = COLOURS[fates[place]] if place in fates else INK
        canvas.text(x, y, seen, colour=colour)
        if place in fates:
            canvas.box(x, y + 4, width - 8, 2, colour)
            canvas.text(x, y + 20, token, colour=FAINT, size=11)
        x += width + 4
    return shares(canvas, say)


def shares(canvas: Canvas, say: Say) -> Canvas:
    """The shares that `mask` comes to on 400,000 tokens of sequences of 100."""
    ids_N = np.tile(np.arange(1, 1001), 400)
    none_N, starts_S = np.zeros(len(ids_N), np.bool_), np.arange(0, len(ids_N) + 1, 100)
    text = Text(ids_N, starts_S, none_N, none_N)
    drawn = mask(text, MaskingConfig(), 0, 1001, 80_000, np.random.default_rng(0))
    is_used_M = drawn.labels_M != UNUSED
    seen_M, right_M = drawn.ids_N[drawn.masked_M[is_used_M]], drawn.labels_M[is_used_M]
    counts = {
        "mask": int((seen_M == 0).sum()),
        "random": int(((seen_M != 0) & (seen_M != right_M)).sum()),
        "keep": int((seen_M == right_M).sum()),
    }
    words = {
        "mask": say("becomes [MASK]", "换成 [MASK]"),
        "random": say("becomes any token", "换成任意词元"),
        "keep": say("stays, and is guessed", "不变，但也要猜"),
    }
    rest = len(ids_N) - sum(counts.values())
    x, scale = 20.0, 720 / len(ids_N)
    for name, count in (("rest", rest), *counts.items()):
        canvas.box(x, 138, count * scale, 26, COLOURS.get(name, GREY))
        x += count * scale
    canvas.text(30, 156, f"{100 * rest / len(ids_N):.1f}%  " + say("only read", "只读不猜"))
    for place, (name, count) in enumerate(counts.items()):
        canvas.box(20 + place * 245, 188, 14, 14, COLOURS[name])
        canvas.text(40 + place * 245, 200, f"{100 * count / len(ids_N):.1f}%  {words[name]}")
    return canvas


def pairs(say: Say) -> Canvas:
    """The sequences that `draw_part` makes of three short documents, over the text they were taken from."""
    lengths = [[7, 12, 9, 6, 14, 8, 11, 7], [10, 8, 13, 9, 6, 12], [9, 15, 7, 10, 8, 11, 13]]
    sentences = np.cumsum([0, *(length for document in lengths for length in document)])
    documents = np.cumsum([0, *map(len, lengths)])
    drawn = draw_part(Offsets(sentences, documents), PairsConfig(max_length=44, short_share=0.0), [3], 0)
    num_rows, scale, left = len(drawn.labels_S), 2.6, 30
    width = int(sentences[-1] * scale) + left + 150
    canvas = Canvas(width, num_rows * 26 + 104, say("Pairs drawn from three documents", "从三篇文档抽取的句对"))
    canvas.text(left, 26, canvas.title)
    for start, end in itertools.pairwise(sentences):
        is_last = end in sentences[documents[1:]]
        canvas.box(left + start * scale, 40, (end - start) * scale - (6 if is_last else 2), 12, GREY)
    for row in range(num_rows):
        first, y = drawn.firsts_S[row], 66 + row * 26
        for nth, name in enumerate("AB"):
            start, end = drawn.starts_R[first + nth], drawn.ends_R[first + nth]
            canvas.box(left + start * scale, y, (end - start) * scale - 2, 18, ORANGE if nth else BLUE)
            canvas.text(left + (start + end) / 2 * scale - 1, y + 14, name, "middle", "#fff", 12)
        is_next = drawn.labels_S[row] == IS_NEXT
        canvas.text(width - 20, y + 14, say("next", "相接") if is_next else say("random", "随机"), "end")
    canvas.text(
        left, num_rows * 26 + 88, say("grey: the sentences of the documents", "灰色：各文档的句子"), colour=FAINT
    )
    return canvas


def schedule(say: Say) -> Canvas:
    """The learning rate of Google's code beside Hugging Face's, with a warm-up of a tenth."""
    canvas = Canvas(560, 250, say("Learning rate over a run", "一次运行中的学习率"))
    canvas.text(30, 26, canvas.title)
    left, top, width, height = 50, 44, 480, 150
    canvas.line([(left, top), (left, top + height), (left + width, top + height)], FAINT, 1)
    for curve, colour in (("linear", BLUE), ("google", ORANGE)):
        config = ScheduleConfig(curve=curve, warmup=0.1)
        steps = [step / 100 for step in (*range(10), 9.999, *range(10, 101))]
        places = [(left + step * width, top + height * (1 - share_at_fraction(config, step))) for step in steps]
        canvas.line(places, colour, 2)
    canvas.text(left + 90, 224, say("Google: the line starts at step 0", "Google：直线从第 0 步算起"), colour=ORANGE)
    canvas.text(left + 90, 242, say("Hugging Face: where warm-up ends", "Hugging Face：从预热结束处算起"), colour=BLUE)
    return canvas


def speedrun(say: Say) -> Canvas:
    """The held-back loss of two runs of eight minutes each, by the minute."""
    title = say(
        "Masked words (30%) on held-back text: loss over eight minutes", "保留文本上的遮盖词（30%）：八分钟内的损失"
    )
    canvas = Canvas(560, 290, title)
    canvas.text(30, 26, canvas.title)
    left, top, width, height, minutes, highest, lowest = 60, 50, 470, 180, 8, 3.8, 2.4
    for loss in np.arange(lowest, highest + 0.1, 0.2):
        y = top + height * (highest - loss) / (highest - lowest)
        canvas.line([(left, y), (left + width, y)], GREY, 0.5)
        canvas.text(left - 8, y + 4, f"{loss:.1f}", "end", FAINT, 11)
    for minute in range(minutes + 1):
        canvas.text(left + width * minute / minutes, top + height + 18, str(minute), "middle", FAINT, 11)
    canvas.text(left + width, top + height + 36, say("minutes of one H200", "一块 H200 的分钟数"), "end", FAINT, 11)
    rows = [line.split(",") for line in (Path(__file__).parent / "speedrun.csv").read_text().splitlines()[1:]]
    names = {
        "masked": (BLUE, say("masked words alone", "只有遮盖词")),
        "masked+replaced": (ORANGE, say("and replaced words", "加上被替换的词")),
    }
    for place, (objective, (colour, name)) in enumerate(names.items()):
        points = [(int(step), float(loss)) for which, step, _, loss in rows if which == objective]
        last = points[-1][0]
        places = [
            (left + width * step / last, top + height * (highest - loss) / (highest - lowest)) for step, loss in points
        ]
        canvas.line(places, colour, 2)
        canvas.text(left + 10 + 190 * place, top + height + 50, name, colour=colour)
    return canvas


PICTURES = {
    "summed": summed,
    "who-sees-whom": who_sees_whom,
    "sinusoids": sinusoids,
    "parameters": parameters,
    "masking": masking,
    "pairs": pairs,
    "schedule": schedule,
    "speedrun": speedrun,
}


def draw(folder: Path) -> None:
    """Writes every picture in both languages."""
    for name, picture in PICTURES.items():
        for language, place in (("en", 0), ("zh", 1)):
            svg = picture(lambda *words, place=place: words[place]).svg()
            (folder / f"{name}.{language}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/pictures/draw.py FOLDER")
    draw(Path(sys.argv[1]))
