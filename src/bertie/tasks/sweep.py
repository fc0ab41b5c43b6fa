"""Several runs of one order: each in a folder of its own, compared, the best one's model kept."""

import logging
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace

from bertie.sealed import replacing_folder
from bertie.tasks.run import Ending, Order, Watch, alone, finetune, recipe_toml
from bertie.training.run_folder import MODEL, begin, write_card

logger = logging.getLogger(__name__)


def finetune_seeds(order: Order, num_seeds: int, watch: Watch) -> Ending:
    """As many runs as there are seeds, each in a folder of its own inside order.out, whose model is the best one's."""
    begin(order.out, recipe_toml(order), order.resumes, order.allows_changes, alone("cpu"))
    seeds = range(order.recipe.seed, order.recipe.seed + num_seeds)
    endings: dict[int, Ending] = {}
    for seed in seeds:
        out = order.out / f"seed-{seed}"
        recipe = replace(order.recipe, seed=seed)
        endings[seed] = finetune(replace(order, out=out, recipe=recipe, resumes=order.resumes and out.exists()), watch)
        if endings[seed].outcome == "stopped":
            return endings[seed]
    main = order.task.main_score
    if not all(ending.scores for ending in endings.values()):
        raise ValueError("with --seeds something must be held out to compare them by: leave out held_out=0.")
    scores = [endings[seed].scores[main] for seed in seeds]
    best = max(seeds, key=lambda seed: endings[seed].scores[main])
    with replacing_folder(order.out / MODEL) as copy:
        shutil.copytree(order.out / f"seed-{best}" / MODEL, copy, dirs_exist_ok=True)
    summary = {"seeds": num_seeds, "mean": statistics.mean(scores), "deviation": _deviation(scores), "best_seed": best}
    write_card(order.out, {"kind": "finetune", "task": order.name, "score": main, **summary, "each": scores})
    logger.info(
        "%s of %d seeds: %.4f ± %.4f, best %.4f (seed %d), worst %.4f.",
        *(main, num_seeds, summary["mean"], summary["deviation"], max(scores), best, min(scores)),
    )
    return Ending("finished", endings[best].scores)


def _deviation(scores: Sequence[float]) -> float:
    return statistics.stdev(scores) if len(scores) > 1 else 0.0
