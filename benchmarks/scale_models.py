"""What learning and serving cost: tokenising, a step of θ, scoring by φ, predicting, a served question.

For ``benchmarks/scale.py measure``, as ``scale_costs.py``; models are as they were made, and one thread computes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import score_solutions
import serve
from bonafide.learn.learnable import Item
from bonafide.learn.recipe import recipe_from
from bonafide.learn.sql import SqlLearning
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.layout import tokenise
from bonafide.tasks.sql.solver import SolverSpec, build_sql_solver
from bonafide.tasks.sql.task import SqlTask
from scale_costs import Curve, curve, held, seconds, shop, wide_sets

PIECES = 8_064
"""Of the reconstructor that docs/results/learning-sql.md measured."""


def learning(encoder: str = "minilm") -> tuple[dict[str, Curve], dict[str, float], dict[str, int]]:
    """Tokenising, a step of θ, predicting, scoring by φ; what a tokenised example holds; how many weights there are."""
    torch.set_num_threads(1)
    recipe = recipe_from({"solver": {"encoder": encoder}}, "the benchmark")
    task, solver = SqlLearning(), build_sql_solver(SolverSpec(encoder=encoder), seed=0)
    questions = [example.question for example in wide_sets()[1]]
    small = ReconstructorSpec(kind="t-scratch", layers=1, width=32, heads=2, feed_forward=64)
    _, vocabulary = build_reconstructor(small, texts=questions, questions=questions, seed=0)
    steps: dict[str, list[tuple[float, float]]] = {"step d": [], "step z": [], "tokens z": [], "predict": []}

    def step(features: Any) -> None:
        batch = solver.collate([features])
        scores = solver.log_prob(solver(batch), batch)
        (-torch.logsumexp(scores[torch.isfinite(scores)], 0)).backward()
        solver.zero_grad()

    for columns in (7, 14, 28, 56):
        table, examples = shop(30, columns)
        found = SqlTask(cap=20).search(examples[0], table)
        features = solver.features(examples[0].question, table, found)
        steps["step d"].append((features.cost, seconds(step, features, least=0, times=3)))
        asked = [(table, example.question) for example in examples[:4]]
        steps["predict"].append((features.cost, seconds(task.predict, solver, asked, 1, 1, False, least=0) / 4))
    table, (example, *_) = wide_sets()
    memory = []
    for cap in (10, 100, 1_000, 10_000):
        item = Item(example, table, SqlTask(cap=cap).search(example, table))

        def prepared(item: Item = item) -> Any:
            shown = [tokenise(each, example.question, vocabulary) for each in task.rendered(item, recipe)]
            return shown, solver.features(example.question, table, item.solutions), task.operations(item.solutions)

        steps["tokens z"].append((cap, seconds(prepared, least=0)))
        memory.append((cap, held(prepared)[0]))
        features = prepared()[1]
        steps["step z"].append((cap, seconds(step, features, least=0, times=3)))
    model = score_solutions.build(**score_solutions.SIZES["t-dae"]).eval()
    scoring: dict[str, list[tuple[float, float]]] = {"d": [], "Z": [], "q": []}
    for name, values in (("d", (64, 256, 1_000)), ("Z", (8, 32, 128)), ("q", (8, 16, 32, 64))):
        for value in values:
            shape = {"d": 200, "Z": 16, "q": 16, name: value}
            layout = score_solutions.random_layout(0, shape["d"], 12, shape["q"], shape["Z"])
            batch = score_solutions.make_batch([layout], [np.arange(shape["Z"])], model.markers, "cpu")
            with torch.no_grad():
                scoring[name].append((value, seconds(model.log_prob, batch, least=0)))
    at = "MiniLM, one thread" if encoder == "minilm" else f"{encoder} encoder, one thread"
    curves = {
        "tokenise for θ and φ": curve("example", "solutions", "40 columns", steps["tokens z"]),
        "train θ: by length": curve("example", "pieces read", f"{at}, at most 20 solutions", steps["step d"]),
        "train θ: by solutions": curve("example", "solutions", at, steps["step z"]),
        "predict": curve("example", "pieces read", f"{at}, greedy", steps["predict"]),
        **{
            f"score by φ: by |{name}|": curve("example", f"|{name}|", "t-dae, |d| 200, |z| 12, |q| 16, |Z| 16", points)
            for name, points in scoring.items()
        },
    }
    (few, low), (many, high) = memory[0], memory[-1]
    each = (high - low) / (many - few)
    holds = {"tokenised solution": each, "tokenised example": max(0.0, low - each * few)}
    unused = (model.bart.config.vocab_size - PIECES) * model.bart.config.d_model
    counts = [sum(each.numel() for each in part.parameters()) for part in (solver, model)]
    return curves, holds, {"solver": counts[0], "reconstructor": counts[1] - unused}


def serving(encoder: str = "minilm", requests: int = 40) -> float:
    """Processor seconds of the server for a question."""
    with tempfile.TemporaryDirectory() as folder:
        server = serve.Server(serve.untrained(Path(folder) / "run", encoder), Path(folder) / "log")
        try:
            asked = serve.questions()

            async def ask(count: int) -> None:
                for place in range(count):
                    status, answer = await server.predict(asked[place % len(asked)])
                    assert status == 200, answer

            asyncio.run(ask(5))
            before = _processor(server._process.pid)
            asyncio.run(ask(requests))
            return (_processor(server._process.pid) - before) / requests
        finally:
            server.stop()


def _processor(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
