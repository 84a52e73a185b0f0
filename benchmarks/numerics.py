"""Whether the same solution is chosen in fp32 on a CPU, in fp32 on a GPU and with TF32, and how far bf16 is from that.

    python benchmarks/numerics.py --device cuda
    python benchmarks/numerics.py --device cuda --epochs 3
    python benchmarks/numerics.py --device cuda --run runs/a --examples 2000 --json numerics.json

Scores every solution of the run's training examples under φ and θ: in fp64 on the CPU, which stands for the truth, in
fp32 on the CPU, and on a GPU in fp32, with TF32 products (what training decides by) and in bf16 (what training learns
in, and never decides by). Without ``--run`` a small MIMAX run is trained first, on tables that bonafide makes; with few
``--epochs`` its reconstructor is as undecided as at the beginning of any run.

For each pair of ways: by how much the scores differ, and the share of examples with the same choice, among those whose
two best solutions differ by more than 0.01 nats under the first way, and among all that have two solutions. Losses and
gradients are those of a batch of 32 examples that train on what fp64 chooses, dropout off.

The exit code is 1 where fp64, fp32 and TF32 choose alike in less than 99.5 % of the clear examples, or where a loss or
a gradient is off by more than its tolerance. Without a GPU, bf16 is the CPU's.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.errors import BonafideError
from bonafide.files import write_json, write_whole
from bonafide.learn.building import prepared as prepared_for
from bonafide.learn.data import load_training_data
from bonafide.learn.learnable import Item
from bonafide.learn.microbatch import MicroBatch, Models, Prepared
from bonafide.learn.objective import Moment, chosen_loss
from bonafide.learn.recipe import Recipe, read_recipe, recipe_from
from bonafide.learn.saved import Model, load
from bonafide.learn.trainer import train
from bonafide.learn.words import WordModel
from bonafide.report.demo_sql import SqlDemo
from bonafide.sealed import read_sealed

CLEAR = 0.01
"""Nats between the two best solutions of an example from which on a choice counts."""
BAR = 0.995
BATCH = 32

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Way:
    """How scores are computed; the tolerances are of losses and gradients, against fp64."""

    name: str
    device: str
    decides: bool  # held to the bar
    loss_tolerance: float = 0.0  # nats, or this share of the loss where that is more
    gradient_tolerance: float = 0.0  # the norm of the difference, as a share of the gradient's
    double: bool = False
    products: str = "highest"  # what torch.set_float32_matmul_precision takes
    rounded: bool = False  # autocast to bf16

    @contextmanager
    def multiplying(self) -> Iterator[None]:
        """Matrix products of this way."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self.products)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    def autocast(self) -> torch.autocast:
        """Rounding of this way, as accelerate does it in training."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.rounded)

    def loaded(self, run: Path) -> Model:
        """The run's model, to compute in this way."""
        model = load(run, self.device)
        if model.reconstructor is None:
            raise BonafideError(f"{run} has no reconstructor: give a run of mimax or vae.")
        if self.double:
            model.solver.double()
            model.reconstructor.double()
        return model


TRUTH = Way("fp64 CPU", "cpu", True, double=True)
FP32 = Way("fp32 CPU", "cpu", True, 1e-5, 1e-4)
BF16 = Way("bf16 CPU", "cpu", False, 5e-3, 2e-1, rounded=True)
GPU = [
    replace(FP32, name="fp32 GPU", device="cuda"),
    Way("TF32 GPU", "cuda", True, 1e-3, 2e-2, products="high"),
    replace(BF16, name="bf16 GPU", device="cuda"),
]


@dataclass(frozen=True, slots=True)
class Trained:
    """A loss and its gradient."""

    loss: float
    gradient: Floats  # (weights,)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two ways, under one model."""

    model: str
    first: str
    second: str
    largest: float  # difference of scores, nats
    percentile_99: float
    clear: int  # examples whose two best solutions differ by more than CLEAR under the first
    same_of_clear: float | None
    examples: int  # with two solutions or more
    same: float | None
    held: bool  # to the bar

    @property
    def missed(self) -> bool:
        """Whether it had to be better."""
        return self.held and (self.same_of_clear is None or self.same_of_clear < BAR)


@dataclass(frozen=True, slots=True)
class Off:
    """A loss and its gradient against fp64."""

    model: str
    way: str
    loss: float
    truth: float
    loss_tolerance: float
    gradient: float  # the norm of the difference, as a share of the gradient's
    gradient_tolerance: float

    @property
    def missed(self) -> bool:
        """Whether it is off by more than it may be."""
        near = abs(self.loss - self.truth) <= self.loss_tolerance * max(1.0, abs(self.truth))
        return not (near and self.gradient <= self.gradient_tolerance)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print two tables, and say by the exit code whether all is within bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a finished run with a reconstructor, its data where it was")
    parser.add_argument("--examples", type=int, default=1440, help="how many of its training examples are scored")
    parser.add_argument("--epochs", type=float, default=10.0, help="of the small run that is trained without --run")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="a GPU where there is one")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args(arguments)
    if asked.examples < 1 or asked.epochs <= 0:
        parser.error("--examples and --epochs must be more than 0")
    if asked.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before CUDA is first asked for
    if asked.device == "cuda" and not torch.cuda.is_available():
        sys.exit("There is no CUDA device here: leave out --device cuda.")
    cuda = asked.device != "cpu" and torch.cuda.is_available()
    torch.backends.cuda.enable_cudnn_sdp(False)  # as the trainer does
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = asked.run or small_run(Path(folder), asked.epochs)
            agreements, losses = measure(run, asked.examples, [TRUTH, FP32, *(GPU if cuda else [BF16])])
    except BonafideError as error:
        sys.exit(str(error))
    machine = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    about = f"{asked.run or f'a small run of {asked.epochs:g} epochs'}, {machine}, torch {torch.__version__}"
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(agreement_table(about, agreements), loss_table(losses))
    missed = [each for each in (*agreements, *losses) if each.missed]
    print(f"{len(missed)} bounds missed." if missed else "All within bounds.")
    if asked.json:
        figures = {"agreements": [*map(asdict, agreements)], "losses": [*map(asdict, losses)], "missed": len(missed)}
        write_json(asked.json, {"about": about, "clear": CLEAR, "bar": BAR, **figures})
    return int(bool(missed))


def small_run(folder: Path, epochs: float) -> Path:
    """MIMAX of ``bonafide demo sql``, without its last epochs of HardEM."""
    start = time.perf_counter()
    demo = SqlDemo(dev_tables=1, epochs=epochs, switch=-1.0)
    files, _ = demo.write(folder / "data", 0)
    demo.search(files.examples, folder / "solutions", lambda share: None)
    with write_whole(folder / "recipe.toml") as stream:
        stream.write(demo.methods["MIMAX"].encode())
    settings = {"data.root": folder / "data", "data.solutions": folder / "solutions", "data.dev": '""'}
    recipe = read_recipe(str(folder / "recipe.toml"), [f"{key}={value}" for key, value in settings.items()])
    train(recipe, folder / "run")
    print(f"trained in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return folder / "run"


def measure(run: Path, count: int, ways: Sequence[Way]) -> tuple[list[Agreement], list[Off]]:
    """Every pair of ways under both models, and the losses of every way against those of the first."""
    items = prepared(run, count)
    scores: dict[str, dict[str, list[Floats]]] = {}
    trained: dict[str, dict[str, Trained]] = {}
    chosen: list[int] = []
    for way in ways:
        start = time.perf_counter()
        model = way.loaded(run)
        with way.multiplying():
            scores[way.name] = scores_of(items, model, way)
            chosen = chosen or [int(each.argmax()) for each in scores[way.name]["φ"][:BATCH]]
            trained[way.name] = trained_on(items[:BATCH], chosen, model, way)
        print(f"{way.name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    agreements = [
        agreement(model, first, second, scores[first.name][model], scores[second.name][model])
        for model in ("φ", "θ")
        for first, second in combinations(ways, 2)
    ]
    truth = trained[ways[0].name]
    losses = [off(model, way, trained[way.name][model], truth[model]) for model in ("φ", "θ") for way in ways[1:]]
    return agreements, losses


def prepared(run: Path, count: int) -> list[Prepared]:
    """Training examples of the run, spread over all of them."""
    saved = {key: value for key, value in read_sealed(run / "recipe.json").items() if key != "tool"}
    if not saved["data"]["solutions"]:
        saved["data"]["solutions"] = str(run / "solutions")
    recipe, model = recipe_from(saved, str(run)), TRUTH.loaded(run)
    items = load_training_data(recipe, run).items
    places = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [tokenised(items[place], model, recipe) for place in places.tolist()]


def tokenised(item: Item, model: Model, recipe: Recipe) -> Prepared:
    """An example for both models, as the trainer does it."""
    return prepared_for(item, model.task, recipe, model.solver, model.reconstructor_tokenizer, WordModel([]))


@torch.no_grad()
def scores_of(items: Sequence[Prepared], model: Model, way: Way) -> dict[str, list[Floats]]:
    """log P_φ(q | d, z) and log P_θ(z | d, q): (solutions,) for each example."""
    solver, reconstructor = model.solver, model.reconstructor
    assert reconstructor is not None
    found: dict[str, list[Floats]] = {"φ": [], "θ": []}
    for start in range(0, len(items), BATCH):
        part = items[start : start + BATCH]
        ends = np.cumsum([item.size for item in part])[:-1]
        layouts = [layout for item in part for layout in item.layouts]
        ready = reconstructor.batch(layouts, [np.arange(len(layout)) for layout in layouts])
        batch = solver.collate([item.features for item in part]).to(way.device)
        with way.autocast():
            explained, output = reconstructor.log_prob(ready), solver(batch)
        for name, scores in (("φ", explained), ("θ", solver.log_prob(output, batch))):
            found[name] += np.split(scores.double().cpu().numpy(), ends)
    return found


def trained_on(items: Sequence[Prepared], chosen: Sequence[int], model: Model, way: Way) -> dict[str, Trained]:
    """Mean losses of a batch that trains on these solutions, dropout off, and their gradients."""
    models = Models(model.solver, model.reconstructor, torch.device(way.device), way.autocast)
    batch = MicroBatch(items, models, Moment(0, 1), seed=0)
    batch.reconstructor_scores()  # as MIMAX does before it trains: on a GPU what follows is picked from its batch
    places = batch.offsets[:-1] + torch.tensor(chosen, device=way.device)
    losses = {
        "φ": (model.reconstructor, -batch.reconstructor_training_scores(places).sum() / len(items)),
        "θ": (model.solver, chosen_loss(batch, places) / len(items)),
    }
    found = {}
    for name, (module, loss) in losses.items():
        gradients = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True, materialize_grads=True)
        flat = torch.cat([each.double().flatten() for each in gradients])
        found[name] = Trained(float(loss.detach()), flat.cpu().numpy())
    return found


def agreement(model: str, first: Way, second: Way, scores: Sequence[Floats], others: Sequence[Floats]) -> Agreement:
    """How far two ways are from each other; a solution that is impossible under one alone is infinitely far."""
    clear, same = [], []
    for one, other in zip(scores, others, strict=True):
        if len(one) > 1:
            best, second_best = np.sort(one)[:-3:-1]
            clear.append(best - second_best > CLEAR)
            same.append(one.argmax() == other.argmax())
    flat, other = np.concatenate(scores), np.concatenate(others)
    apart = np.sort(np.abs(np.subtract(flat, other, where=flat != other, out=np.zeros_like(flat))))
    counted = np.array(same)[np.array(clear, bool)]
    return Agreement(
        model,
        first.name,
        second.name,
        float(apart[-1]),
        float(apart[int(0.99 * len(apart))]),
        len(counted),
        float(counted.mean()) if len(counted) else None,
        len(same),
        float(np.mean(same)) if same else None,
        first.decides and second.decides,
    )


def off(model: str, way: Way, trained: Trained, truth: Trained) -> Off:
    """A way's loss and gradient against the truth's."""
    apart = float(np.linalg.norm(trained.gradient - truth.gradient) / np.linalg.norm(truth.gradient))
    return Off(model, way.name, trained.loss, truth.loss, way.loss_tolerance, apart, way.gradient_tolerance)


def agreement_table(title: str, agreements: Sequence[Agreement]) -> Table:
    """For people."""
    table = Table(title=title, title_justify="left")
    for name in ("model", "ways", "scores differ by at most", "99 % by at most", "same choice where clear",
                 "same choice of all", f"bar {BAR:.1%}"):  # fmt: skip
        table.add_column(name, justify="left" if name in ("model", "ways") else "right")
    for each in agreements:
        bar = "missed" if each.missed else "met" if each.held else "–"
        table.add_row(
            each.model, f"{each.first}, {each.second}", f"{each.largest:.1e}", f"{each.percentile_99:.1e}",
            _share(each.same_of_clear, each.clear), _share(each.same, each.examples), bar,
        )  # fmt: skip
    return table


def loss_table(losses: Sequence[Off]) -> Table:
    """For people."""
    table = Table(title=f"Losses of {BATCH} examples against fp64", title_justify="left")
    for name in ("model", "way", "loss", "off by", "tolerance", "gradient off by", "tolerance", "bound"):
        table.add_column(name, justify="left" if name in ("model", "way") else "right")
    for each in losses:
        table.add_row(
            each.model, each.way, f"{each.loss:.4f}", f"{abs(each.loss - each.truth):.1e}",
            f"{each.loss_tolerance * max(1.0, abs(each.truth)):.1e}", f"{each.gradient:.1e}",
            f"{each.gradient_tolerance:.1e}", "missed" if each.missed else "met",
        )  # fmt: skip
    return table


def _share(share: float | None, count: int) -> str:
    return f"{share:.2%} of {count:,}" if share is not None else "of none"


if __name__ == "__main__":
    sys.exit(main())
