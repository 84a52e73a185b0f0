"""A trained model on the dev questions, example by example: what a result file keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.evaluate.headers import Asked as AskedByHeader
from bonafide.evaluate.headers import read_headers, right_by_headers
from bonafide.evaluate.sql import slots
from bonafide.examples import Example, Gold, read_gold
from bonafide.learn.description import description_length
from bonafide.learn.learnable import Split, learnable
from bonafide.learn.monitor import told_by
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.saved import Model
from bonafide.report.predicted import Asked, answer_type, asked_beside
from bonafide.report.selection_task import Question, SelectionTask, draw_questions, select
from bonafide.reproduce.results import Flags, buckets, hash_of, numbered, packed, packed_bytes, typed
from bonafide.synth.reading import PLAIN
from bonafide.tasks.reading.metrics import right_mention
from bonafide.tasks.sql.solver import SqlSolver
from bonafide.tasks.text.words import normalised

_BATCH = 64
_BEAM = 20
RECONSTRUCTION = 0.3
"""The weight of the reconstructor, where there is one, in the guided predictions."""
OFFICIAL = ("official-dev.jsonl", "official-dev.headers.jsonl")
"""WikiSQL's own dev questions and the headers of their tables, where a user has put them beside train and dev."""
_SLOTS = ("column", "aggregate", "number_of_conditions", "condition_columns", "operators", "values")
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Dev:
    """The dev questions, their gold where there is any, and what is selected from."""

    split: Split
    examples: list[Example]
    gold: dict[str, Gold]
    sizes: npt.NDArray[np.uint8]
    questions: list[Question]
    left_out: int
    headers: list[AskedByHeader]
    plain: Split | None

    @classmethod
    def open(cls, recipe: Recipe, store: Path) -> Dev:
        """The dev split of a recipe; ``store`` holds its solution sets."""
        task = learnable(recipe.data.task)
        folder = Path(recipe.data.root, recipe.data.dev)
        split, searched = task.open_split(folder), task.open_store(store)
        examples = list(split.file)
        gold = read_gold(folder / "gold.jsonl") if (folder / "gold.jsonl").exists() else {}
        if gold and not any(each.id in gold for each in examples):
            raise BonafideError(f"{folder / 'gold.jsonl'} has gold for none of the examples beside it.")
        gold = {each.id: gold[each.id] for each in examples if each.id in gold}
        questions, left_out = draw_questions(task, split, gold, searched, recipe) if gold else ([], 0)
        if searched.ids != [each.id for each in examples]:
            raise BonafideError(f"The solution store {store} is not of the dev examples in {folder}. Delete it.")
        headers = _headers(Path(recipe.data.root)) if task.name == "sql" else []
        beside = Path(recipe.data.root, PLAIN)
        plain = task.open_split(beside) if beside.is_dir() else None
        return cls(split, examples, gold, buckets(searched.sizes.tolist()), questions, left_out, headers, plain)

    def select(self, model: Model) -> SelectionTask | None:
        """The selection task; None without gold."""
        return select(model, self.questions, self.left_out) if self.questions else None


def _headers(folder: Path) -> list[AskedByHeader]:
    """Questions about headers alone, where there are any; read before anything is trained."""
    found = [
        path for name in OFFICIAL for suffix in ("", ".gz", ".xz") if (path := folder / f"{name}{suffix}").exists()
    ]
    if not found:
        return []
    if len(found) != len(OFFICIAL):
        there = ", ".join(each.name for each in found)
        raise BonafideError(f"{folder} holds {there}: expected one each of {' and '.join(OFFICIAL)}, or neither.")
    return read_headers(*found)


def judged(model: Model, dev: Dev, run: Path) -> dict[str, Any]:
    """The part of a result that says how right a model is, and of which questions."""
    asked = asked_beside(model.task.name, dev.split.file.path, run)
    recipe = recipe_from(model.about["recipe"], "the model")
    greedy, told = _Judged(asked, dev), []
    votes = model.reconstructor is not None and asked.task != "reading"  # there it adds nothing
    guided = _Judged(asked, dev) if asked.task in ("sql", "discrete") or votes else None
    for start in range(0, len(dev.examples), _BATCH):
        part = dev.examples[start : start + _BATCH]
        questions = [(dev.split.context_of(each), each.question) for each in part]
        found = model.predict_all(questions)
        greedy.add(model, start, found)
        for example, (context, _), predictions in zip(part, questions, found, strict=True):
            if (words := told_by(model.task, predictions, context, example, recipe)) is not None:
                told.append(words)
        if guided is not None:
            guided.add(model, start, model.predict_all(questions, 1, _BEAM, True, RECONSTRUCTION))
    guided = guided or greedy
    chosen = dev.select(model)
    figures: dict[str, Any] = {name: float(each.mean()) for name, each in greedy.scores.items()}
    flags = {"answer": packed(greedy.scores["execution"] == 1)}
    if told:
        figures["description"] = description_length(told)
    if greedy.known.any():
        figures["solution"] = float(greedy.genuine[greedy.known].mean())
        flags |= {"solution": packed(greedy.genuine), "known": packed(greedy.known)}
        if asked.task == "sql":
            figures["slots"] = dict(zip(_SLOTS, (greedy.slots / greedy.known.sum()).tolist(), strict=True))
    flags |= {"guided_answer": packed(guided.scores["execution"] == 1), "guided_solution": packed(guided.genuine)}
    if chosen is not None:
        figures["selection"] = chosen.to_json()
        flags |= _selected(chosen, dev.examples)
    beside: dict[str, Any] = {}
    if dev.headers and isinstance(model.solver, SqlSolver):
        right = right_by_headers(model.solver, dev.headers)
        ids = hash_of(f"{each.table.id} {each.question}" for each in dev.headers)
        of = numbered([each.table.id for each in dev.headers])
        beside["headers"] = {"examples": len(right), "ids": ids, "contexts": of, "solution": packed(right)}
    if dev.plain is not None:
        right, ids = _right_answers(model, dev.plain), hash_of(each.id for each in dev.plain.file)
        of = numbered([each.context for each in dev.plain.file])
        beside["plain"] = {"examples": len(right), "ids": ids, "contexts": of, "answer": packed(right)}
    f1 = {"f1": greedy.scores.get("f1"), "guided_f1": guided.scores.get("f1")}
    return {
        **beside,
        "examples": len(dev.examples),
        "ids": hash_of(each.id for each in dev.examples),
        "figures": figures,
        "flags": flags,
        "values": {name: packed_bytes(each.astype(np.float16)) for name, each in f1.items() if each is not None},
        "sizes": packed_bytes(dev.sizes),
        "types": typed([answer_type(each, asked.task) for each in dev.examples]),
        "contexts": numbered([each.context for each in dev.examples]),
    }


def _right_answers(model: Model, split: Split) -> Flags:
    """(examples,): whether the likeliest solution gives the answer."""
    examples = list(split.file)
    right = np.zeros(len(examples), dtype=bool)
    for start in range(0, len(examples), _BATCH):
        part = examples[start : start + _BATCH]
        found = model.predict_all([(split.context_of(each), each.question) for each in part])
        for place, (example, predictions) in enumerate(zip(part, found, strict=True), start):
            right[place] = bool(predictions) and model.task.scores(predictions[0], example)["execution"] == 1
    return right


class _Judged:
    """What is right of the predictions, example by example."""

    def __init__(self, asked: Asked, dev: Dev) -> None:
        self._asked, self._dev = asked, dev
        count = len(dev.examples)
        self.scores: dict[str, Values] = {"execution": np.zeros(count)}
        self.genuine, self.known = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.slots = np.zeros(len(_SLOTS))

    def add(self, model: Model, start: int, found: Sequence[Sequence[Any]]) -> None:
        """The predictions of the examples from ``start`` on."""
        for place, predictions in enumerate(found, start):
            example = self._dev.examples[place]
            if predictions:
                for name, score in model.task.scores(predictions[0], example).items():
                    self.scores.setdefault(name, np.zeros(len(self.known)))[place] = score
            if example.id in self._dev.gold:
                gold = self._asked.gold(self._dev.gold[example.id], example)
                self.known[place], self.genuine[place] = is_gold(self._asked, predictions, gold)
                if self._asked.task == "sql" and predictions:
                    right = slots(predictions[0].query, gold)
                    self.slots += [getattr(right, each) for each in _SLOTS]


def is_gold(asked: Asked, predictions: Sequence[Any], gold: Any) -> tuple[bool, bool]:
    """Whether gold says enough to tell, and whether the predicted solution is gold's."""
    if asked.task == "reading":
        return bool(gold.mentions), bool(predictions) and bool(right_mention(predictions[0].solution, gold))
    if asked.task == "text":
        return True, bool(predictions) and normalised(predictions[0].solution) in map(normalised, gold)
    return True, bool(predictions) and predictions[0].solution == gold


def _selected(chosen: SelectionTask, examples: Sequence[Example]) -> dict[str, str]:
    by_id = {each.example: each for each in chosen.choices}
    found = [by_id.get(example.id) for example in examples]
    flags = {
        "asked": packed([each is not None for each in found]),
        "solver_selects": packed([each is not None and each.solver for each in found]),
    }
    if chosen.choices[0].reconstructor is not None:
        flags["reconstructor_selects"] = packed([each is not None and bool(each.reconstructor) for each in found])
    return flags
