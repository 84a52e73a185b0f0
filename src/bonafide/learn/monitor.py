"""What is watched while a run trains: how a person sees spuriousness being unlearned, without gold.

Once an epoch: the mix of operations among the solutions that trained the solver, how often solver and reconstructor
would choose the same, how undecided the solver is over Z, and by how much the reconstructor prefers its choice. On
dev: execution accuracy, and how well the questions can be told by the predicted solutions, since execution accuracy
cannot see a wrong aggregate: by the run's own reconstructor, and by description length, which compares runs too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from bonafide import ragged
from bonafide.examples import Example
from bonafide.learn.data import Dev
from bonafide.learn.description import Described, Placed, described, description_length, unanswered
from bonafide.learn.learnable import Counting, Item, Learnable, Placing, Proposing
from bonafide.learn.microbatch import Prepared
from bonafide.learn.objective import Outcome
from bonafide.learn.recipe import Recipe
from bonafide.learn.saved import Model
from bonafide.learn.together import Together


@dataclass(frozen=True, slots=True)
class _Seen:
    """A micro-batch as it lies on the device."""

    part: list[int]
    chosen: dict[str, Tensor]
    sums: dict[str, tuple[Tensor, Tensor]]  # a sum, and over how many


class Monitor:
    """Remembers, for each training example, what was decided when it was last seen."""

    _NAMES = ("selected", "solver", "reconstructor")

    def __init__(self, prepared: Sequence[Prepared], items: Sequence[Item], task: Learnable) -> None:
        self._items, self._task = items, task
        self._chosen = {name: np.full(len(prepared), -1, dtype=np.int64) for name in self._NAMES}
        self._sums = {"entropy": [0.0, 0], "margin": [0.0, 0]}
        self._unread: list[_Seen] = []
        self._everyone = self._chosen  # of all processes

    def see(self, part: Sequence[int], offsets: Tensor, outcome: Outcome) -> None:
        """Take note of one micro-batch, without waiting for the device: what it says is read when it is needed."""
        solver, reconstructor = outcome.solver_scores, outcome.reconstructor_scores
        seen = _Seen(list(part), {}, {})
        for name, chosen in (
            ("selected", outcome.selected),
            ("solver", None if solver is None else ragged.argmax(solver, offsets)),
            ("reconstructor", None if reconstructor is None else ragged.argmax(reconstructor, offsets)),
        ):
            if chosen is not None:
                seen.chosen[name] = torch.where(chosen >= 0, chosen - offsets[:-1], -1)
        if solver is not None:
            logs = ragged.log_softmax(solver, offsets)
            terms = torch.where(logs > -1e30, -logs.exp() * logs, 0.0)
            seen.sums["entropy"] = terms.sum(), torch.tensor(len(part))
        if reconstructor is not None:
            best = ragged.argmax(reconstructor, offsets)
            others = torch.cat([reconstructor, reconstructor.new_zeros(1)])  # an example without solutions has −1
            others = others.index_fill(0, best % len(others), -torch.inf)
            second = ragged.argmax(others[:-1], offsets)
            margin = reconstructor[best] - others[second]
            finite = torch.isfinite(margin) & (best >= 0)
            seen.sums["margin"] = torch.where(finite, margin, 0.0).sum(), finite.sum()
        self._unread.append(seen)

    def _read(self) -> None:
        for seen in self._unread:
            for name, chosen in seen.chosen.items():
                self._chosen[name][seen.part] = chosen.cpu().numpy()
            for name, (total, count) in seen.sums.items():
                self._sums[name][0] += float(total)
                self._sums[name][1] += int(count)
        self._unread = []

    def gather(self, together: Together) -> None:
        """Let the first process know what all have seen: for the figures, the selections and the state."""
        self._read()
        if together.alone:
            return
        self._everyone = {name: together.largest(torch.from_numpy(each)).numpy() for name, each in self._chosen.items()}
        sums = {name: together.summed(torch.tensor(each, dtype=torch.float64)) for name, each in self._sums.items()}
        self.forget_sums()
        if together.first:
            self._sums = {name: [float(total), int(count)] for name, (total, count) in sums.items()}

    def forget_sums(self) -> None:
        """Start them anew."""
        self._sums = {name: [0.0, 0] for name in self._sums}

    def epoch_figures(self) -> dict[str, float]:
        """Figures since the sums were started."""
        self._read()
        selected = zip(self._items, self._everyone["selected"].tolist(), strict=True)
        figures = self._task.mix([(item.solutions, index) for item, index in selected if index >= 0])
        solver, reconstructor = self._everyone["solver"], self._everyone["reconstructor"]
        both = (solver >= 0) & (reconstructor >= 0)
        if both.any():
            figures["agreement"] = float((solver[both] == reconstructor[both]).mean())
        for name, (total, count) in self._sums.items():
            if count:
                figures[name] = total / count
        return figures

    def selections(self) -> dict[str, list[int]]:
        """For each training example, the place in its set of what was last chosen; −1 for nothing."""
        self._read()
        return {name: chosen.tolist() for name, chosen in self._everyone.items()}

    def state(self) -> dict[str, Any]:
        """To put into a checkpoint."""
        return {"chosen": self.selections(), "sums": self._sums}  # in this order: the first reads what is unread

    def restore(self, state: dict[str, Any], together: Together) -> None:
        """From a checkpoint."""
        own = np.array([together.owns(place) for place in range(len(self._items))], bool)
        self._chosen = {name: np.where(own, np.array(chosen), -1) for name, chosen in state["chosen"].items()}
        self._everyone = self._chosen
        if together.first:
            self._sums = {name: list(pair) for name, pair in state["sums"].items()}


def dev_figures(model: Model, dev: Dev, recipe: Recipe, batch: int = 64) -> dict[str, float]:
    """How right the greedy predictions are, and how well the dev questions are told by them: the more, the better."""
    totals = {"execution": 0.0}
    explained: list[float] = []
    told: list[Described | Placed] = []
    for start in range(0, len(dev.examples), batch):
        part = dev.examples[start : start + batch]
        contexts = [dev.context_of(example) for example in part]
        asked = [(context, example.question) for context, example in zip(contexts, part, strict=True)]
        predicted = [found[:1] for found in model.predict_all(asked)]
        for example, context, found in zip(part, contexts, predicted, strict=True):
            if (words := told_by(model.task, found, context, example, recipe)) is not None:
                told.append(words)
            for name, score in model.task.scores(found[0], example).items() if found else ():
                totals[name] = totals.get(name, 0.0) + score
        if model.reconstructor is not None:
            explained += np.concatenate(model.explained(asked, predicted)).tolist()
    figures = {f"dev_{name}": total / len(dev.examples) for name, total in totals.items()}
    if explained:
        figures["dev_reconstruction"] = float(np.mean(explained))
    if told:
        figures["dev_description"] = -description_length(told)
    return figures


def chosen_by(figures: Mapping[str, float], select_by: str, step: int) -> tuple[str, float]:
    """The figure that picks a checkpoint, and its value; without dev examples or a reconstructor, the last is best."""
    key = f"dev_{select_by}"  # dev_last is never there
    if key == "dev_description" and key not in figures:
        key = "dev_execution"  # of a task whose solutions are neither counted nor placed: texts
    return (key, figures[key]) if key in figures else ("last step", float(step))


def standing(by: str, figure: float, select_by: str) -> tuple[bool, float]:
    """To compare what :func:`chosen_by` gives: where a model predicts nothing, the wanted figure may not be there."""
    return by == f"dev_{select_by}", figure


def told_by(
    task: Learnable, predictions: Sequence[Any], context: Any, example: Example, recipe: Recipe
) -> Described | Placed | None:
    """What was predicted, in the same words for every run; None: :func:`description_length` is not for its task."""
    if isinstance(task, Placing):
        if not predictions:
            return Placed(example.question, None, right=False)
        right = task.scores(predictions[0], example)["execution"] == 1
        return Placed(example.question, task.place_of(predictions[0], context), right)
    if not isinstance(task, Counting):
        return None
    if not predictions:
        return unanswered(example.question)
    prediction = predictions[0]
    plain = replace(recipe, reconstructor=replace(recipe.reconstructor, verbalised=False))
    shown = task.rendered_prediction(prediction, context, example.question, plain)
    right = task.scores(prediction, example)["execution"] == 1
    return described(example.question, shown, task.operations_of(prediction), right)


def proposals(model: Model, items: Sequence[Item], batch: int = 64) -> list[tuple[int, str]]:
    """(place of the example, text) for each greedy prediction that is right and not in the example's set."""
    task, found = cast(Proposing, model.task), []
    for start in range(0, len(items), batch):
        part = items[start : start + batch]
        predicted = model.predict_all([(item.context, item.example.question) for item in part])
        for place, (item, made) in enumerate(zip(part, predicted, strict=True), start=start):
            text = task.proposal(made[0], item) if made else None
            if text is not None:
                found.append((place, text))
    return found
