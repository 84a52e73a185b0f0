"""Whether description length, which needs no gold, ranks a run's checkpoints, and tells when to switch to HardEM.

    bonafide demo sql --out demo
    python benchmarks/choosing.py train --data demo/data --out chosen --seeds 5 --switch 2.5 5.5 9.5 12.5 15.5
    python benchmarks/choosing.py show chosen
    bonafide demo reading --out read
    python benchmarks/choosing.py train --table reading-synthetic --data read/data --out readers --switch 1.5 3.5 5.5

``train`` trains the row ``mimax`` of the table ``sql-synthetic``, or of another whose dev questions have gold, with
each of these switches and seeds, and asks all dev questions after each epoch: right solutions (by gold, for this
figure alone), right answers, and description length.
``show`` says how these two rank the ends of the runs, the checkpoints of a run, and the switches of a seed: by what is
known before the switch, and at the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.examples import read_gold
from bonafide.files import write_json
from bonafide.learn.data import load_training_data
from bonafide.learn.learnable import learnable
from bonafide.learn.recipe import Recipe
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import Model
from bonafide.learn.steps import Progress
from bonafide.learn.trainer import Trainer
from bonafide.report.predicted import asked_beside
from bonafide.reproduce.judged import is_gold
from bonafide.reproduce.tables import table

ROW = "mimax"
FIGURES = ("description", "answer")
"""What needs no gold."""
Point = dict[str, float]


def recipe_of(
    data: Path, switch: float, seed: int, overrides: Sequence[str] = (), name: str = "sql-synthetic"
) -> Recipe:
    """The recipe of that table's row, with all dev questions asked at each evaluation."""
    made = table(name)
    own = [f"data.root={data}", f"train.seed={seed}", f"objective.options.switch={switch}", "data.dev_examples=1000000"]
    return made.row(ROW).settings(made.common, [*own, *overrides], "")


def trained(recipe: Recipe, run: Path) -> list[Point]:
    """Train; what was right after each epoch."""
    split = learnable(recipe.data.task).open_split(Path(recipe.data.root, recipe.data.dev))
    gold = read_gold(Path(recipe.data.root, recipe.data.dev, "gold.jsonl"))
    examples = [example for example in split.file if example.id in gold]
    found: list[Point] = []

    def watch(progress: Progress) -> None:
        if "dev_description" not in progress.figures:
            return
        about = {"recipe": recipe.to_json()}
        model = Model(trainer.solver, trainer.reconstructor, trainer.reconstructor_tokenizer, about)
        asked = asked_beside(recipe.data.task, split.file.path, run)
        predicted = model.predict_all([(split.context_of(each), each.question) for each in examples])
        right = [
            is_gold(asked, made, asked.gold(gold[example.id], example))[1]
            for example, made in zip(examples, predicted, strict=True)
        ]
        figures = progress.figures
        found.append(
            {
                "epoch": progress.step / trainer.steps_per_epoch,
                "solution": float(np.mean(right)),
                "answer": figures["dev_execution"],
                "description": figures["dev_description"],
            }
        )

    shutil.rmtree(run, ignore_errors=True)  # of a run that was stopped: its points are gone
    with RunFolder.open(run, recipe, resume=False) as folder:
        trainer = Trainer(recipe, load_training_data(recipe, run), folder, watch)
        trainer.run()
    return found


def train_all(data: Path, out: Path, switches: Sequence[float], seeds: int, jobs: int, name: str) -> None:
    """Each run's figures into a file of its own; those that are there are not trained again."""
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        asked = [
            pool.submit(_train_one, data, out, switch, seed, name)
            for seed in range(seeds)
            for switch in switches
            if not _file(out, switch, seed).exists()
        ]
        for each in asked:
            print(each.result(), flush=True)


def _train_one(data: Path, out: Path, switch: float, seed: int, name: str) -> str:
    path = _file(out, switch, seed)
    points = trained(recipe_of(data, switch, seed, name=name), out / path.stem)
    write_json(path, {"switch": switch, "seed": seed, "points": points})
    return f"{path}: {points[-1]['solution']:.1%}"


def _file(out: Path, switch: float, seed: int) -> Path:
    return out / f"switch-{switch:g}-seed-{seed}.json"


def ranked(figures: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's correlation."""
    return float(spearmanr(figures, right).statistic)


def _ends(runs: Sequence[Any], name: str) -> str:
    """How a figure ranks the ends of runs, with p, and between what they lie."""
    figures, right = ([run["points"][-1][each] for run in runs] for each in (name, "solution"))
    found = spearmanr(figures, right)
    lie = f"{min(figures):.2f} to {max(figures):.2f}, right solutions {min(right):.1%} to {max(right):.1%}"
    return f"{found.statistic:.2f} (p {found.pvalue:.2f}; {lie})"


def shown(out: Path) -> list[str]:
    """What the files say."""
    runs = [json.loads(path.read_text()) for path in sorted(out.glob("switch-*.json"))]
    switches = sorted({run["switch"] for run in runs})
    lines = ["right solutions / right answers / description at the end, mean over seeds; each seed's right solutions"]
    for switch in switches:
        ends = [run["points"][-1] for run in runs if run["switch"] == switch]
        means = [float(np.mean([each[name] for each in ends])) for name in ("solution", "answer", "description")]
        each = ", ".join(f"{100 * one['solution']:.1f}" for one in ends)
        lines.append(f"  switch {switch:>4g}: {means[0]:.1%} / {means[1]:.1%} / {-means[2]:.2f}   {each}")
    for name in FIGURES:
        later = [run for run in runs if run["switch"] > switches[0]]
        within = [ranked([p[name] for p in run["points"]], [p["solution"] for p in run["points"]]) for run in runs]
        pooled = [point for run in runs for point in run["points"]]
        everything = ranked([each[name] for each in pooled], [each["solution"] for each in pooled])
        lines += [
            f"by {name}:",
            f"  ends of {len(runs)} runs: {_ends(runs, name)}",
            *([f"  ends of the {len(later)} that did not switch first: {_ends(later, name)}"] if later else []),
            f"  checkpoints of one run, mean of {len(runs)}: {np.mean(within):.2f} (least {min(within):.2f})",
            f"  all {len(pooled)} checkpoints: {everything:.2f}",
            *_kept(runs, name),
            *_switched(runs, name),
        ]
    return lines


def _kept(runs: Sequence[Any], name: str) -> list[str]:
    """Right solutions of the checkpoint that is kept by a figure, of the last one, and of the best there was."""
    kept = [max(run["points"], key=lambda point: (point[name], point["epoch"]))["solution"] for run in runs]
    last, best = ([choose(run["points"]) for run in runs] for choose in (_last, _best))
    return [
        f"  checkpoint kept by it: {np.mean(kept):.1%}; the last: {np.mean(last):.1%}; the best: {np.mean(best):.1%}"
    ]


def _last(points: Sequence[Point]) -> float:
    return points[-1]["solution"]


def _best(points: Sequence[Point]) -> float:
    return max(point["solution"] for point in points)


def _switched(runs: Sequence[Any], name: str) -> list[str]:
    """How a figure ranks the switches of each seed, at the end, and at the last evaluation before the switch."""
    lines = []
    for when, place in (("at the end", _at_end), ("before the switch", _before)):
        by_seed: dict[int, list[tuple[float, float]]] = {}
        for run in runs:
            by_seed.setdefault(run["seed"], []).append((place(run)[name], run["points"][-1]["solution"]))
        chosen = float(np.mean([_by_figure(pairs) for pairs in by_seed.values()]))
        best = float(np.mean([max(right for _, right in pairs) for pairs in by_seed.values()]))
        mean = float(np.mean([right for pairs in by_seed.values() for _, right in pairs]))
        each = [ranked(*zip(*pairs, strict=True)) for pairs in by_seed.values()]
        lines.append(
            f"  switches of a seed, {when}: {np.mean(each):.2f} (least {min(each):.2f}); the one it chooses "
            f"{chosen:.1%}, any {mean:.1%}, the best {best:.1%}"
        )
    return lines


def _by_figure(pairs: Sequence[tuple[float, float]]) -> float:
    """Right solutions where the figure is highest: their mean where it is so of several."""
    highest = max(figure for figure, _ in pairs)
    return float(np.mean([right for figure, right in pairs if figure == highest]))


def _at_end(run: Any) -> Point:
    return run["points"][-1]


def _before(run: Any) -> Point:
    return max((point for point in run["points"] if point["epoch"] <= run["switch"]), key=lambda point: point["epoch"])


def main() -> None:
    """Train, or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("--data", type=Path, required=True)
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--switch", type=float, nargs="+", required=True)
    training.add_argument("--seeds", type=int, default=5)
    training.add_argument("--jobs", type=int, default=2)
    training.add_argument("--table", default="sql-synthetic")
    showing = commands.add_parser("show")
    showing.add_argument("out", type=Path)
    options = parser.parse_args()
    if options.command == "train":
        if min(options.switch) < 1:
            parser.error("--switch: each after the first epoch, so that something is known before it")
        train_all(options.data, options.out, options.switch, options.seeds, options.jobs, options.table)
    elif not any(options.out.glob("switch-*.json")):
        parser.error(f"{options.out}: no run has ended there")
    else:
        print("\n".join(shown(options.out)))


if __name__ == "__main__":
    main()
