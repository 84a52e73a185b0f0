"""How long training waits for a checkpoint: written at once, or while it goes on.

    python benchmarks/checkpoints.py --parameters 34000000

The baseline is ``save_checkpoint`` in the thread that trains; against it ``Saving``, which copies there and writes in
its own. Between two checkpoints the training thread multiplies matrices for ``--between`` seconds, as a step would;
which share of its speed is left to it while a checkpoint is written is shown too, and the longest time in which it
stood still: a GPU would have waited for it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bonafide.learn.checkpoint import Trained, checkpoint_writer, keep_only, save_checkpoint
from bonafide.learn.saving import Saving


def modules(parameters: int) -> Trained:
    """Square layers with about so many weights, and what AdamW remembers of them."""
    width = 1024
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(max(1, round(parameters / width**2)))))
    optimiser = torch.optim.AdamW(model.parameters())
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    return Trained({"solver": model}, {"solver": optimiser})


def written(folder: Path, trained: Trained, step: int) -> Callable[[], None]:
    """As a run writes it: the one before is deleted then."""
    write = checkpoint_writer(folder, trained, {"step": step})
    return lambda: keep_only(folder, {write()})


def work(seconds: float) -> tuple[float, float]:
    """Multiply for so long; how often a second, and the longest time that one took."""
    left = torch.randn(256, 256)
    began, done, longest = time.perf_counter(), 0, 0.0
    now = began
    while now - began < seconds:
        left @ left
        done, before, now = done + 1, now, time.perf_counter()
        longest = max(longest, now - before)
    return done / (now - began), longest


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=34_000_000)
    parser.add_argument("--checkpoints", type=int, default=7)
    parser.add_argument("--between", type=float, default=3.0)
    parser.add_argument("--folder", type=Path, help="On the disk to measure; by default a temporary one.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    trained = modules(options.parameters)
    with tempfile.TemporaryDirectory(dir=options.folder) as name, Saving() as saving:
        folder, waits, speeds = Path(name), {"at once": [], "meanwhile": []}, []
        plain, _ = work(options.between)
        for step in range(options.checkpoints):
            began = time.perf_counter()
            keep_only(folder, {save_checkpoint(folder, trained, {"step": step})})
            waits["at once"].append(time.perf_counter() - began)
            began = time.perf_counter()
            saving.add(lambda step=step: written(folder, trained, step))
            waits["meanwhile"].append(time.perf_counter() - began)
            speeds.append(work(options.between))
            saving.wait()
        size = sum(path.stat().st_size for path in folder.rglob("*.safetensors")) / 2**20
    at_once, meanwhile = (float(np.median(each)) for each in waits.values())
    print(f"a checkpoint of {size:,.0f} MiB; medians of {options.checkpoints}")
    print(f"written at once: training waits {at_once:.2f} s")
    print(f"written meanwhile: {meanwhile:.2f} s, {at_once / meanwhile:.1f} times shorter")
    speed, still = np.median(speeds, axis=0)
    print(f"speed of the training thread while it is written: {100 * speed / plain:.0f} %")
    print(f"the longest time in which it stood still: {still:.2f} s")


if __name__ == "__main__":
    main()
