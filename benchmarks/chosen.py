"""A step of training that learns from one solution of each example: with a gradient of that one, or of all of Z.

    python benchmarks/chosen.py --solutions 16 --bart wiki-bart-small

A solver that writes its solutions computes every token of them. HardEM scores all of Z without a gradient and trains on
the best; first-only trains on the first. The baseline computes all of Z with a gradient and picks from it; against it,
what training does: the chosen solutions alone (``TextSolver.log_prob_of``). Both in the same run, alternating, on the
same texts (those of :mod:`bonafide.synth.candidates`, ``--solutions`` of them for each question); the median of
``--steps`` steps each, after one that is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from bonafide.learn.first_only import FirstOnly
from bonafide.learn.hard_em import HardEM
from bonafide.learn.microbatch import MicroBatch, Models, Prepared
from bonafide.learn.objective import Moment, Objective, scores_of
from bonafide.synth.candidates import generate_candidates
from bonafide.tasks.text.solver import TextSpec, build_text_solver


class AllOfZ(MicroBatch):
    """Every solution is computed with a gradient."""

    def solver_training_scores_of(self, chosen: Tensor) -> Tensor:
        """(chosen,)."""
        return scores_of(self.solver_training_scores(), chosen)


def prepared(options: argparse.Namespace, device: torch.device) -> tuple[list[Prepared], Models]:
    """A batch of questions with their texts, and a solver for them."""
    problems = generate_candidates(options.batch * options.solutions, seed=0)
    questions = [each["question"] for each in problems[: options.batch]]
    texts = [each["text"] for problem in problems for each in problem["candidates"]]
    spec = TextSpec(encoder=options.bart or "scratch", layers=2, width=128)
    solver = build_text_solver(spec, [*questions, *texts], seed=0).to(device).train()
    items = []
    for place, question in enumerate(questions):
        features = solver.features(question, "", texts[place * options.solutions : (place + 1) * options.solutions])
        items.append(Prepared(str(place), features, (), np.ones(options.solutions, np.int64)))
    return items, Models(solver, None, device, nullcontext)


def seconds(kind: type[MicroBatch], items: list[Prepared], models: Models, objective: Objective) -> float:
    """Of a step, there and back."""
    began = time.perf_counter()
    outcome = objective.step(kind(items, models, Moment(0, 1), 0), Moment(0, 1))
    assert outcome.solver_loss is not None
    outcome.solver_loss.backward()
    models.solver.zero_grad()
    if models.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--solutions", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bart", help="a BART by name or folder; a small one from scratch without it")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    items, models = prepared(options, device)
    weights = sum(each.numel() for each in models.solver.parameters())
    print(f"{device.type}, {weights:,} weights, {options.batch} questions with {options.solutions} solutions each")
    for name, objective in (("HardEM", HardEM()), ("First-only", FirstOnly())):
        taken: dict[type[MicroBatch], list[float]] = {AllOfZ: [], MicroBatch: []}
        for _ in range(options.steps + 1):
            for kind, listed in taken.items():
                listed.append(seconds(kind, items, models, objective))
        every, chosen = (statistics.median(listed[1:]) for listed in taken.values())
        print(f"{name:>10}: all of Z {every:.3f} s, the chosen alone {chosen:.3f} s a step: {every / chosen:.2f} times")


if __name__ == "__main__":
    main()
