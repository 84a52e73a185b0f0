"""How fast a recipe trains, and how near that is to what its encoder alone could do, in the same run.

    python benchmarks/train_step.py wikisql-hard-mimax --set data.root=data --also hard-em
    python benchmarks/train_step.py squad-article-hard-em --set data.root=data --device cpu --steps 4 --warm 1

The data is opened as ``bonafide train`` opens it, and the steps are the trainer's own. They are measured in runs of a
few that follow each other, spread over the first epoch; the steps before each run go untimed, so that memory is at
hand, graphs are recorded and the next batch is being put together, as in the middle of training. Where the first runs
are the slowest, give more steps to warm up. An epoch is all its examples at the measured time an example; what an epoch
does besides (evaluation, checkpoints, the filter of hard-em-thres) is not in it.

The ceiling is the solver's encoder alone on the very inputs that it had in the measured steps, forward and backward of
the sum of its states, in the precision of training: no heads, no reconstructor, no choosing, no optimiser.

On CUDA, busy is the union of the times of all kernels and copies, from a second pass over the same steps under the
profiler; its share is of the step without the profiler.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bonafide.errors import BonafideError
from bonafide.files import write_json
from bonafide.learn.data import TrainingData, load_training_data
from bonafide.learn.objective import Moment
from bonafide.learn.recipe import ObjectiveOptions, Recipe, read_recipe
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.trainer import Trainer

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""What the profiler calls what a GPU does."""
RUNS = 4
"""Places of the epoch at which steps are measured."""

Factory = Callable[[Recipe, TrainingData, RunFolder], Trainer]


@dataclass(frozen=True, slots=True)
class Busy:
    """What the GPU did in a step."""

    milliseconds: float  # the union of all kernels and copies
    share_of_step: float  # of the step without the profiler
    kernels_and_copies: float
    longest: dict[str, float]  # milliseconds a step of the kernels that take most of it


@dataclass(frozen=True, slots=True)
class EncoderAlone:
    """The ceiling, and how much of it training reaches."""

    ms_a_step: float
    examples_per_second: float
    windows_per_second: float | None
    training_share: float


@dataclass(frozen=True, slots=True)
class Measured:
    """An objective's training steps."""

    method: str
    steps: int  # that were measured
    steps_per_epoch: int
    micro_batches_a_step: float
    ms_a_step: float
    ms_a_step_by_run: list[float]
    examples_per_second: float
    candidates_per_second: float
    windows_per_second: float | None  # reading
    seconds_an_epoch: float
    tokens_against_epoch: float  # tokens an example in the measured steps, as a share of the epoch's
    peak_gib: float | None  # CUDA
    busy: Busy | None  # CUDA
    encoder: EncoderAlone


def main(arguments: Sequence[str] | None = None, trainer: Factory = Trainer) -> list[Measured]:
    """Measure, print a table and, if asked, write the figures; ``trainer`` makes the trainer of a recipe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", help="a name, or a path")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a value")
    parser.add_argument(
        "--also", action="append", default=[], metavar="METHOD", help="another objective, with its defaults"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], help="a GPU where there is one")
    parser.add_argument("--steps", type=int, default=20, help="measured steps")
    parser.add_argument("--warm", type=int, default=6, help="steps before each run of measured ones")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    asked = parser.parse_args(arguments)
    if asked.steps < 1 or asked.warm < 1:
        parser.error("--steps and --warm must be at least 1")
    if asked.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # before CUDA is first asked for
    os.environ.setdefault("CUDA_SCALE_LAUNCH_QUEUES", "4x")  # as train() does
    os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")  # the profiler and CUDA graphs
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    if asked.device == "cuda" and not torch.cuda.is_available():
        sys.exit("There is no CUDA device here: leave out --device cuda.")
    try:
        measured = benchmark(asked.recipe, asked.set, asked.also, asked.steps, asked.warm, trainer)
    except BonafideError as error:
        sys.exit(str(error))
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    title = f"{asked.recipe}, {machine}, torch {torch.__version__}"
    Console().print(table(title, measured))
    if asked.json:
        about = {"recipe": asked.recipe, "set": asked.set, "machine": machine, "torch": torch.__version__}
        write_json(asked.json, {**about, "measured": [asdict(each) for each in measured]})
    return measured


def benchmark(
    name: str, overrides: Sequence[str], also: Sequence[str], steps: int, warm: int, trainer: Factory
) -> list[Measured]:
    """The recipe's objective and those ``also`` named, one after the other on the same data."""
    recipe = read_recipe(name, overrides)
    others = [replace(recipe, objective=ObjectiveOptions(method)) for method in also]
    found = []
    data: dict[bool, TrainingData] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate([recipe, *others]):
            with RunFolder.open(Path(folder) / str(number), each, resume=False) as run:
                start = time.perf_counter()
                gold = each.objective.method == "supervised"
                if gold not in data:
                    data[gold] = load_training_data(each, run.path)
                made = trainer(each, data[gold], run)
                spent = time.perf_counter() - start
                print(f"{each.objective.method}: {len(made.items):,} examples ready in {spent:.0f} s", file=sys.stderr)
                found.append(measure(made, steps, warm))
                del made
                gc.collect()  # the memory of one is not counted for the next
    return found


def measure(trainer: Trainer, steps: int, warm: int) -> Measured:
    """Time training steps, look at the GPU while they run, and time the encoder on what it read in them."""
    cuda = trainer.models.device.type == "cuda"
    runs = spread(trainer.steps_per_epoch, steps, warm)
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    spent, candidates = zip(*(timed(trainer, run, warm) for run in runs), strict=True)
    seconds = sum(spent)
    peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else None
    seen = [trainer.items[place] for run in runs for step in run for part in parts(trainer, step) for place in part]
    busy = busy_time(trainer, runs, seconds / steps) if cuda else None
    alone, windows = encoder_seconds(trainer, runs)
    tokens = sum(item.tokens for item in seen) / len(seen)
    return Measured(
        trainer.recipe.objective.method,
        steps,
        trainer.steps_per_epoch,
        sum(len(parts(trainer, step)) for run in runs for step in run) / steps,
        seconds / steps * 1e3,
        [each / len(run) * 1e3 for each, run in zip(spent, runs, strict=True)],
        len(seen) / seconds,
        sum(candidates) / seconds,
        windows / seconds if windows else None,
        len(trainer.items) * seconds / len(seen),
        tokens * len(trainer.items) / sum(item.tokens for item in trainer.items),
        peak,
        busy,
        EncoderAlone(alone / steps * 1e3, len(seen) / alone, windows / alone if windows else None, alone / seconds),
    )


def spread(steps_per_epoch: int, steps: int, warm: int, runs: int = RUNS) -> list[range]:
    """``steps`` steps in ``runs`` runs (fewer if there are fewer steps), evenly over the epoch, each after ``warm``.

    In an epoch of few steps the runs go over its end; :func:`parts` and :func:`train` then begin it again.
    """
    runs = min(runs, steps)
    lengths = [steps // runs + (number < steps % runs) for number in range(runs)]
    begins = [warm + number * steps_per_epoch // runs for number in range(runs)]
    return [range(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)]


def parts(trainer: Trainer, step: int) -> list[list[int]]:
    """The micro-batches of a step of the first epoch."""
    return trainer._parts(step % trainer.steps_per_epoch)


def train(trainer: Trainer, steps: range) -> int:
    """Train for some steps of the first epoch, as ``Trainer.run`` does: a step is waited for when the next is on its
    way. Returns how many solutions were scored."""
    candidates = 0
    before = None
    for step in steps:
        moment = Moment(step % trainer.steps_per_epoch, trainer.steps_per_epoch)
        launched = trainer._step(moment, None)
        if before is not None and before.arrived is not None:
            before.arrived.synchronize()
        before = launched
        candidates += launched.candidates
    return candidates


def timed(trainer: Trainer, run: range, warm: int) -> tuple[float, int]:
    """Seconds of a run and the solutions that it scored, after steps that do not count."""
    train(trainer, range(run.start - warm, run.start))
    wait(trainer)
    start = time.perf_counter()
    candidates = train(trainer, run)
    wait(trainer)
    return time.perf_counter() - start, candidates


def busy_time(trainer: Trainer, runs: Sequence[range], step_seconds: float) -> Busy:
    """What the GPU does in the same steps."""
    seconds, count = 0.0, 0
    names: Counter[str] = Counter()
    for run in runs:
        train(trainer, range(run.start - 1, run.start))
        wait(trainer)
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            train(trainer, run)
            wait(trainer)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            traced = json.loads(path.read_text())["traceEvents"]
        intervals = device_intervals(traced)
        seconds, count = seconds + covered(intervals) / 1e6, count + len(intervals)
        for each in traced:
            if each.get("cat") in DEVICE_WORK:
                names[each["name"][:120]] += each["dur"]
    steps = sum(map(len, runs))
    longest = {name: spent / steps / 1e3 for name, spent in names.most_common(30)}
    return Busy(seconds / steps * 1e3, seconds / steps / step_seconds, count / steps, longest)


def device_intervals(events: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """Begin and end, in microseconds, of each kernel and copy; not of the annotations over them."""
    return [(each["ts"], each["ts"] + each["dur"]) for each in events if each.get("cat") in DEVICE_WORK]


def covered(intervals: Sequence[tuple[float, float]]) -> float:
    """How long at least one of the intervals is open: kernels of two streams count once where they overlap."""
    if not intervals:
        return 0.0
    begin, end = np.array(sorted(intervals)).T
    before = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])
    return float(np.maximum(0.0, end - np.maximum(begin, before)).sum())


def encoder_seconds(trainer: Trainer, runs: Sequence[range]) -> tuple[float, int]:
    """Seconds of the encoder alone over the steps of all runs, and the windows of documents in them."""
    encoder: nn.Module = trainer.models.solver.encoder
    seconds, windows = 0.0, 0

    def forward_and_backward(inputs: list[list[list[Call]]]) -> None:
        for step in inputs:
            encoder.zero_grad()
            for calls in step:
                with trainer.models.autocast():
                    states = [encoder(*places, **names) for places, names in calls]
                torch.autograd.backward([each.sum() for each in states])

    for run in runs:
        inputs = []
        for step in run:
            batches = [batch_of(trainer, part) for part in parts(trainer, step)]
            inputs.append([encoder_calls(trainer, batch) for batch in batches])
            if trainer.recipe.data.task == "reading":
                windows += sum(len(batch.lengths) for batch in batches)
        for _ in range(2 if trainer.models.device.type == "cuda" else 1):
            forward_and_backward(inputs)  # for nothing: memory for these shapes, and their graphs
        wait(trainer)
        start = time.perf_counter()
        forward_and_backward(inputs)
        wait(trainer)
        seconds += time.perf_counter() - start
    encoder.zero_grad()
    return seconds, windows


def batch_of(trainer: Trainer, part: Sequence[int]) -> Any:
    """A micro-batch of the first epoch as the solver reads it, on the device."""
    solver = trainer.models.solver
    return solver.collate([trainer.items[place].features for place in part], draw=0).to(trainer.models.device)


Call = tuple[tuple[Any, ...], dict[str, Any]]


def encoder_calls(trainer: Trainer, batch: Any) -> list[Call]:
    """What the solver gives its encoder for a batch."""
    solver = trainer.models.solver
    calls: list[Call] = []

    def note(_: nn.Module, places: tuple[Any, ...], names: dict[str, Any]) -> None:
        calls.append((places, names))

    hook = solver.encoder.register_forward_pre_hook(note, with_kwargs=True)
    try:
        with torch.inference_mode(), trainer.models.autocast():  # no graph is recorded in it
            solver(batch)
    finally:
        hook.remove()
    assert calls, "the solver did not call its encoder"
    return [(tuple(map(own, places)), {name: own(each) for name, each in names.items()}) for places, names in calls]


def own(value: Any) -> Any:
    """A copy to train on; the marks of pieces, which are not integers, take gradients as in training."""
    return value.clone().requires_grad_(value.is_floating_point()) if isinstance(value, torch.Tensor) else value


def wait(trainer: Trainer) -> None:
    """Until the device has done what was asked."""
    if trainer.models.device.type == "cuda":
        torch.cuda.synchronize()


def table(title: str, measured: Sequence[Measured]) -> Table:
    """A column for each objective."""
    shown = Table(title=title)
    shown.add_column(f"{measured[0].steps} of {measured[0].steps_per_epoch} steps")
    for each in measured:
        shown.add_column(each.method, justify="right")

    shown.add_row("ms a step", *(f"{each.ms_a_step:,.1f}" for each in measured))
    by_run = ["  ".join(f"{run:,.0f}" for run in each.ms_a_step_by_run) for each in measured]
    shown.add_row("run by run", *by_run)

    def row(name: str, value: Callable[[Measured], float | None], form: str) -> None:
        values = [value(each) for each in measured]
        if any(each is not None for each in values):
            shown.add_row(name, *("" if each is None else format(each, form) for each in values))

    row("micro-batches a step", lambda each: each.micro_batches_a_step, ".1f")
    row("examples/s", lambda each: each.examples_per_second, ",.1f")
    row("candidates/s", lambda each: each.candidates_per_second, ",.0f")
    row("windows/s", lambda each: each.windows_per_second, ",.0f")
    row("seconds an epoch, estimated", lambda each: each.seconds_an_epoch, ",.1f")
    row("tokens an example, of the epoch's mean", lambda each: each.tokens_against_epoch, ".0%")
    row("peak GiB", lambda each: each.peak_gib, ".1f")
    row("GPU busy, ms a step", lambda each: each.busy.milliseconds if each.busy else None, ",.1f")
    row("GPU busy, of the step", lambda each: each.busy.share_of_step if each.busy else None, ".0%")
    row("kernels and copies a step", lambda each: each.busy.kernels_and_copies if each.busy else None, ",.0f")
    row("encoder alone, ms a step", lambda each: each.encoder.ms_a_step, ",.1f")
    row("encoder alone, examples/s", lambda each: each.encoder.examples_per_second, ",.1f")
    row("encoder alone, windows/s", lambda each: each.encoder.windows_per_second, ",.0f")
    row("training, of the encoder alone", lambda each: each.encoder.training_share, ".0%")
    return shown


if __name__ == "__main__":
    main()
