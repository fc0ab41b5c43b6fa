"""The card of a model that the package shall carry, with the figures that its run and its scores know of themselves.

    python benchmarks/model_card.py NAME RUN --scores WORK/scores/RUN-model > src/bertie/models/NAME/card.md
    python benchmarks/card_probes.py NAME >> src/bertie/models/NAME/card.md

RUN is the run folder of its pre-training. --scores is a folder of fine-tunings, as `speedrun.py score` leaves them: of
each task the settings with the most seeds are shown. What neither knows stands in the card as the template in
src/bertie/models/README.md has it, to be written over: a test refuses a card in which it still stands.
"""

import argparse
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

README = Path(__file__).parents[1] / "src" / "bertie" / "models" / "README.md"
NUM_ROWS = 12  # of the curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("run", type=Path)
    parser.add_argument("--scores", type=Path)
    arguments = parser.parse_args()
    card = json.loads((arguments.run / "card.json").read_text(encoding="utf-8"))
    known = {
        "## Data and licences": list(counts(card)),
        "## Recipe": list(recipe(card, arguments.run)),
        "## Training": list(training(card, arguments.run)),
        "## Scores": list(scores(arguments.scores)) if arguments.scores else [],
    }
    template = README.read_text(encoding="utf-8").split("```markdown\n")[1].split("```")[0]
    for part in re.split(r"^(?=## )", template.replace("# NAME", f"# {arguments.name}"), flags=re.MULTILINE):
        heading, _, text = part.strip().partition("\n")
        print("\n".join([heading, text, *known.get(heading, [])]).strip(), end="\n\n")


def counts(card: dict) -> Iterator[str]:
    """How much there was to read, and how much was held back."""
    for part, numbers in card["corpus"]["counts"].items():
        yield f"\n{part}: " + ", ".join(f"{number:,} {what}" for what, number in numbers.items()) + "."


def recipe(card: dict, run: Path) -> Iterator[str]:
    """The shape's size and the commit, then all settings as they ran."""
    versions = ", ".join(f"{name} {version}" for name, version in card["versions"].items())
    yield f"\n{card['parameters']:,} parameters; commit {card['commit']}; {versions}; kernels: {card['kernels']}."
    yield "\n```toml\n" + (run / "recipe.toml").read_text(encoding="utf-8").strip() + "\n```"


def training(card: dict, run: Path) -> Iterator[str]:
    """What it took, and the curve on text that was held back."""
    epochs = card["tokens"] / card["corpus"]["counts"]["train"]["tokens"]
    yield (
        f"\n{card['device']}: {card['seconds'] / 60:.1f} minutes, {card['steps']:,} steps, {card['tokens']:,} tokens "
        f"({card['tokens_per_second']:,.0f} a second, {epochs:.1f} times the text).\n"
    )
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    points = [event for event in events if event["event"] == "evaluate" and "validation_masked_loss" in event]
    chosen = (
        sorted({round(number * (len(points) - 1) / (NUM_ROWS - 1)) for number in range(NUM_ROWS)}) if points else []
    )
    rows = [
        [
            f"{points[at]['seconds'] / 60:.1f}",
            f"{points[at]['tokens'] / 1e6:,.0f} M",
            f"{points[at]['validation_masked_loss']:.3f}",
            f"{points[at]['validation_masked_accuracy']:.1%}",
        ]
        for at in chosen
    ]
    yield from table(["minutes", "tokens", "held-back loss", "masked words right"], rows)


def scores(folder: Path) -> Iterator[str]:
    """A row a task: the settings that most seeds ran with, mean, deviation and each."""
    found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("*/card.json")):
        card = json.loads(path.read_text(encoding="utf-8"))
        if "scores" in card:
            settings = path.parent.name.removeprefix(card["task"]).rpartition("-")[0].strip("-")
            found[f"{card['task']}, {card['score']}"][settings].append(100 * card["scores"][card["score"]])
    rows = []
    for task, by_settings in found.items():
        settings, each = max(by_settings.items(), key=lambda item: (len(item[1]), statistics.mean(item[1])))
        deviation = f"{statistics.stdev(each):.2f}" if len(each) > 1 else ""
        tried = f"{settings} of {len(by_settings)}"
        rows.append([task, f"{statistics.mean(each):.2f}", deviation, " ".join(f"{one:.1f}" for one in each), tried])
    yield ""
    yield from table(["task, score (dev)", "mean", "deviation", "each seed", "settings, of so many tried"], rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


if __name__ == "__main__":
    main()
