"""Judge a trained model: predictions, accuracies with gold, and what was selected while it learned.

Gold comes in here, after training, and nowhere before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.evaluate.predictions import write_predictions
from bonafide.evaluate.selection import Selection, rank_of_gold, selection
from bonafide.evaluate.sql import Outcome, SqlPrediction, judge_all, total
from bonafide.examples import Example, Gold, open_examples, read_gold
from bonafide.learn.data import load_training_data, thinned
from bonafide.learn.learnable import learnable, speaking
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model, load
from bonafide.reconstruct.layout import tokenise
from bonafide.report.decoded import decoded, hash_of_tables
from bonafide.sealed import read_log, read_sealed
from bonafide.search.sql import tables_beside
from bonafide.tasks.sql.query import Query, parse_query
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.rendering import rendered
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.sources import TableSource, open_tables
from bonafide.tasks.sql.tables import ColumnType, Table

Scores = npt.NDArray[np.float64]
_BATCH = 32
_MOST = 2000
"""Solutions of an example over which solver and reconstructor are ranked."""


@dataclass(frozen=True)
class Evaluation:
    """A model on a file of examples."""

    figures: dict[str, Any]
    outcomes: list[Outcome]
    predictions: list[SqlPrediction]
    ranked: dict[str, tuple[QuerySet, Scores, Scores | None]]  # by example: its set, under θ, under φ


def evaluate_run(
    run: Path,
    examples: Path,
    tables: Path | None = None,
    table: Sequence[Path] = (),
    gold: Path | None = None,
    out: Path | None = None,
    beam: int = 1,
    execution_guided: bool = False,
    progress: Callable[[int, int], None] | None = None,
    model: Model | None = None,
    reconstruction: float = 0.0,
    types: Mapping[str, ColumnType] | None = None,
) -> Evaluation:
    """Predict every example; with gold, also logical form, slots, and selection over the solution sets.

    Predictions are written to ``out`` (default: ``predictions.jsonl`` in the run's folder). ``model``: that of the
    run, where it was loaded already. ``reconstruction``: see :meth:`Model.predict_all`. ``types`` overrides those of
    columns of ``table``.
    """
    model = model or load_for_evaluation(run)
    source = open_tables(tables if tables or table else tables_beside(examples), table, types)
    listed = list(open_examples(examples, source.check))
    known = read_gold(gold) if gold is not None else None
    if known is not None and not any(example.id in known for example in listed):
        raise BonafideError(f"{gold} has gold for none of the examples in {examples}: it belongs to others.")
    predictions: list[SqlPrediction] = []
    ranked: dict[str, tuple[QuerySet, Scores, Scores | None]] = {}
    for start in range(0, len(listed), _BATCH):
        part = listed[start : start + _BATCH]
        held = [source.table_of(example) for example in part]
        if known is not None:
            for example, one in zip(part, held, strict=True):
                ranked[example.id] = _ranked(model, example, one)
        predictions += _predict(model, part, held, known, ranked, beam, execution_guided, reconstruction)
        if progress is not None:
            progress(len(predictions), len(listed))
    outcomes = judge_all(predictions, listed, source.table_of, known)
    figures = {"run": str(run), "method": model.about["recipe"]["objective"]["method"], **total(outcomes).to_json()}
    if known is not None:
        figures["selection"] = _selection_figures(listed, source, known, ranked)
    by_id = {example.id: source.table_of(example) for example in listed}
    path = out or run / "predictions.jsonl"
    read = hash_of_tables(source.paths, source.types)
    with decoded(path, run, examples, beam, reconstruction, execution_guided, read):
        write_predictions(path, predictions, by_id.__getitem__)
    return Evaluation(figures, outcomes, predictions, ranked)


def check_reconstruction(model: Model, run: Path, weight: float, beam: int | None = None) -> None:
    """Refuse a vote where nobody can cast it, or there is nothing to vote on."""
    if not math.isfinite(weight):
        raise BonafideError(f"--reconstruction is {weight}: expected a number.")
    if weight and model.reconstructor is None:
        raise BonafideError(f"--reconstruction needs a model with a reconstructor, and that of {run} has none.")
    if weight and beam == 1:
        raise BonafideError("--reconstruction puts a beam in order, and a beam of 1 is in order: add --beam 20.")


def load_for_evaluation(run: Path) -> Model:
    """The model of a run, on a GPU where there is one."""
    return load(run, "cuda" if torch.cuda.is_available() else "cpu")


def selections_over_time(run: Path, gold: Path) -> list[dict[str, float]]:
    """How often what trained the solver was gold, epoch by epoch, among the examples whose gold is in their set.

    ``selected``: what trained the solver. ``solver`` and ``reconstructor``: the best of the set under θ and φ.
    """
    saved = {key: value for key, value in read_sealed(run / "recipe.json").items() if key != "tool"}
    if not saved["data"]["solutions"]:
        saved["data"]["solutions"] = str(run / "solutions")
    recipe = recipe_from(saved, str(run))
    data = load_training_data(recipe, run)
    known = read_gold(gold)
    task = speaking(learnable(recipe.data.task), data.store)
    right = [
        task.places_of_gold(known[item.example.id], item, recipe) if item.example.id in known else []
        for item in data.items
    ]
    table = []
    for entry in read_log(run / "selections.jsonl"):
        row: dict[str, float] = {"epoch": entry["epoch"]}
        for name in ("selected", "solver", "reconstructor"):
            pairs = [
                chosen in places for chosen, places in zip(entry[name], right, strict=True) if places and chosen >= 0
            ]
            if pairs:
                row[name] = sum(pairs) / len(pairs)
        table.append(row)
    return table


def _predict(
    model: Model,
    part: Sequence[Example],
    tables: Sequence[Table],
    known: dict[str, Gold] | None,
    ranked: dict[str, tuple[QuerySet, Scores, Scores | None]],
    beam: int,
    execution_guided: bool,
    reconstruction: float,
) -> list[SqlPrediction]:
    asked = [(table, example.question) for table, example in zip(tables, part, strict=True)]
    made = []
    found = model.predict_all(asked, max(1, beam), beam, execution_guided, reconstruction)
    for example, table, queries in zip(part, tables, found, strict=True):
        rank = None
        if known is not None and example.id in known:
            solutions, solver, _ = ranked[example.id]
            rank = rank_of_gold(solver, solutions, parse_query(known[example.id].solution, table))
        if not queries:
            made.append(SqlPrediction(example.id, None, -np.inf, rank_of_gold=rank))
            continue
        others = tuple((each.query, each.log_probability) for each in queries[1:])
        made.append(SqlPrediction(example.id, queries[0].query, queries[0].log_probability, others, rank))
    return made


def _ranked(model: Model, example: Example, table: Table) -> tuple[QuerySet, Scores, Scores | None]:
    """The example's solution set in the solver's language, and every solution's score under θ and φ."""
    solutions = search(example.question, example.values, table, model.solver.spec.language, cap=_MOST, seed=example.id)
    if len(solutions) > _MOST:
        solutions = thinned(model.task, solutions, _MOST, example.id, 0)
    if not len(solutions):
        return solutions, np.zeros(0), None if model.reconstructor is None else np.zeros(0)
    solver = model.solver
    device = next(solver.parameters()).device
    with torch.no_grad():
        batch = solver.collate([solver.features(example.question, table, solutions)]).to(device)
        scores = solver.log_prob(solver(batch), batch).double().cpu().numpy()
        explained = None
        if model.reconstructor is not None:
            verbalised = model.about["recipe"]["reconstructor"]["verbalised"]
            layout = tokenise(rendered(solutions, table, verbalised), example.question, model.reconstructor_tokenizer)
            ready = model.reconstructor.batch([layout], [np.arange(len(solutions))])
            explained = model.reconstructor.log_prob(ready, full_precision=True).double().cpu().numpy()
    return solutions, scores, explained


def _selection_figures(
    listed: Sequence[Example],
    source: TableSource,
    known: dict[str, Gold],
    ranked: dict[str, tuple[QuerySet, Scores, Scores | None]],
) -> dict[str, Any]:
    gold: list[Query | None] = [
        parse_query(known[example.id].solution, source.table_of(example)) if example.id in known else None
        for example in listed
    ]
    sets = [ranked[example.id][0] for example in listed]

    def accuracy(place: int) -> Selection | None:
        scores = [ranked[example.id][place] for example in listed]
        if any(each is None for each in scores):
            return None
        return selection([each for each in scores if isinstance(each, np.ndarray)], sets, gold)

    found = {"solver": accuracy(1), "reconstructor": accuracy(2)}
    return {name: each.to_json() for name, each in found.items() if each is not None}
