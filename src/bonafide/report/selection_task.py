"""The paper's selection task: of at most ten solutions with gold among them, does a model find gold the most likely.

The candidates of an example are gold (of several gold solutions the first) and up to nine of its solution set that are
not, drawn by a seed and the example's id alone, so that every model chooses from the same. Where the set lacks gold
(the search may not reach it) gold is put beside it, if the solver can score it so (a reader cannot); an example whose
gold the solver cannot say is left out and counted. Asked are the solver (log P_θ) and, where there is one, the
reconstructor (log P_φ). ``confidence`` is the mean log P_θ of what the solver selects: in the paper, its fall marks
over-training.

Beside the accuracy of all examples stands that of the contested ones, which have more than one candidate: an example
with gold alone is right by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.errors import BonafideError
from bonafide.evaluate.sql import Accuracy
from bonafide.examples import Example, Gold, read_gold
from bonafide.files import open_bytes
from bonafide.learn import draws
from bonafide.learn.learnable import Item, Learnable, Narrowing, Split, speaking
from bonafide.learn.objective import IMPOSSIBLE
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.saved import Model
from bonafide.reconstruct.layout import tokenise
from bonafide.rendering import together
from bonafide.report.statistics import Interval, wilson
from bonafide.report.tabled import Tabled, percent
from bonafide.solutions import SolutionStore

Scores = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]
CANDIDATES = 10
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Question:
    """What a model chooses from: one or two sets (the second is gold alone), and gold's place in both together."""

    example: Example
    context: Any
    sets: tuple[Any, ...]
    gold: int

    @property
    def candidates(self) -> int:
        """How many."""
        return sum(map(len, self.sets))


@dataclass(frozen=True, slots=True)
class Choice:
    """Whether θ and φ choose gold, and log P_θ of what θ chooses; None: there is no reconstructor."""

    example: str
    candidates: int
    solver: bool
    reconstructor: bool | None
    log_probability: float


@dataclass(frozen=True, slots=True)
class SelectionTask:
    """A model on the task; ``left_out`` examples have a gold that the solver cannot say, or not among the others."""

    choices: Sequence[Choice]
    left_out: int

    @property
    def confidence(self) -> float:
        """The mean log P_θ of the selected solutions, of those that the solver can produce."""
        likely = [each.log_probability for each in self.choices if np.isfinite(each.log_probability)]
        return float(np.mean(likely)) if likely else -np.inf

    def to_json(self) -> dict[str, Any]:
        """The figures, with 95 % intervals."""
        contested = [each for each in self.choices if each.candidates > 1]
        figures: dict[str, Any] = {
            "examples": len(self.choices),
            "left_out": self.left_out,
            "candidates": float(np.mean([each.candidates for each in self.choices])),
            "solver": _accuracy([each.solver for each in self.choices]),
            "solver_contested": _accuracy([each.solver for each in contested]),
            "confidence": self.confidence,
        }
        if self.choices[0].reconstructor is not None:
            figures["reconstructor"] = _accuracy([bool(each.reconstructor) for each in self.choices])
            figures["reconstructor_contested"] = _accuracy([bool(each.reconstructor) for each in contested])
        return figures


def draw_questions(
    task: Learnable,
    split: Split,
    gold: dict[str, Gold],
    store: SolutionStore[Any],
    recipe: Recipe,
    candidates: int = CANDIDATES,
    seed: int = 0,
) -> tuple[list[Question], int]:
    """The questions of a split with gold, and how many were left out; ``store`` holds the split's solution sets."""
    if candidates < 2:
        raise BonafideError(f"A choice needs at least two candidates; --candidates is {candidates}.")
    if store.manifest["inputs"]["examples"][0]["sha256"] != split.file.sha256:
        raise BonafideError(
            f"The solution store {store.folder} was searched over other examples than {split.file.path}."
        )
    speaking(task, store.manifest["options"])
    drawn: list[Question] = []
    left_out = 0
    for example, (name, solutions) in zip(split.file, store, strict=True):
        assert name == example.id, "the store follows the examples file, by its hash"
        if name not in gold:
            continue
        item = Item(example, split.context_of(example), solutions)
        question = _question(task, item, gold[name], recipe, candidates, seed)
        if question is None:
            left_out += 1
        else:
            drawn.append(question)
    if not drawn and not left_out:
        raise BonafideError(f"There is gold for none of the examples in {split.file.path}: it belongs to others.")
    if not drawn:
        raise BonafideError(f"No example of {split.file.path} has a gold solution that the solver can say.")
    return drawn, left_out


def select(
    model: Model, questions: Sequence[Question], left_out: int = 0, progress: Progress | None = None
) -> SelectionTask:
    """Let a model choose."""
    if isinstance(model.solver, Narrowing):  # it would score gold alone by other windows than the candidates beside it
        asked = [question for question in questions if len(question.sets) == 1]
        questions, left_out = asked, left_out + len(questions) - len(asked)
        if not asked:
            raise BonafideError("Gold is in the solution set of no example: there is nothing to choose it from.")
    recipe = recipe_from(model.about["recipe"], "the model")
    task = model.task
    choices: list[Choice] = []
    model.solver.eval()
    for start in range(0, len(questions), _BATCH):
        part = questions[start : start + _BATCH]
        solver = _solver_scores(model, part)
        explained = None if model.reconstructor is None else _reconstructor_scores(model, task, part, recipe)
        for place, question in enumerate(part):
            best = int(np.argmax(solver[place]))
            chosen = None if explained is None else int(np.argmax(explained[place])) == question.gold
            likely = float(solver[place][best])
            right = best == question.gold and likely > IMPOSSIBLE
            choices.append(Choice(question.example.id, question.candidates, right, chosen, likely))
        if progress is not None:
            progress(len(choices), len(questions))
    return SelectionTask(choices, left_out)


def selection_task(
    model: Model,
    examples: Path,
    gold: Path,
    solutions: Path,
    candidates: int = CANDIDATES,
    seed: int = 0,
    progress: Progress | None = None,
) -> SelectionTask:
    """A saved model on the examples of a folder; ``solutions`` is searched first where it is not there."""
    recipe, task = recipe_from(model.about["recipe"], "the model"), model.task
    with open_bytes(examples):  # its errors first, not those of what stands beside it
        pass
    split, known = task.open_split(examples.parent), read_gold(gold)
    if split.file.path.resolve() != examples.resolve():
        raise BonafideError(f"The examples must be a file named {split.file.path.name}; found {examples}.")
    task.search(recipe, split.file, solutions, None, None)
    questions, left_out = draw_questions(task, split, known, task.open_store(solutions), recipe, candidates, seed)
    return select(model, questions, left_out, progress)


def selection_table(found: SelectionTask) -> Tabled:
    """The figures for people."""
    figures = found.to_json()
    rows = [
        [name, *(percent(each["share"], Interval(each["low"], each["high"])) for each in pair)]
        for name in ("solver", "reconstructor")
        if name in figures
        for pair in [(figures[name], figures[f"{name}_contested"])]
    ]
    note = (
        f"{figures['examples']:,} examples with {figures['candidates']:.1f} candidates on average; "
        f"{figures['solver_contested']['of']:,} have more than one. {found.left_out:,} were left out: the solver "
        f"cannot say their gold, or not among the others. "
        f"The mean log-likelihood of what the solver selects is {figures['confidence']:.2f}."
    )
    return Tabled("Gold selected", note, ["by the", "all examples", "more than one candidate"], rows)


def _question(task: Learnable, item: Item, gold: Gold, recipe: Recipe, candidates: int, seed: int) -> Question | None:
    chance = np.random.default_rng(draws.key(f"{seed}/selection/{item.example.id}"))
    places = task.places_of_gold(gold, item, recipe)
    others = np.delete(np.arange(len(item.solutions)), places)
    drawn = chance.choice(others, min(candidates - 1, len(others)), replace=False)
    if places:
        kept = np.sort(np.append(drawn, places[0]))
        first = int((kept < places[0]).sum())
        return Question(item.example, item.context, (task.picked(item.solutions, kept),), first)
    alone = task.gold_set(gold, item.example, item.context, recipe)
    if not len(alone):
        return None
    alone = task.picked(alone, np.zeros(1, dtype=np.int64))
    if not len(drawn):
        return Question(item.example, item.context, (alone,), 0)
    beside = task.picked(item.solutions, np.sort(drawn))
    return Question(item.example, item.context, (beside, alone), len(drawn))


def _solver_scores(model: Model, part: Sequence[Question]) -> list[Scores]:
    solver = model.solver
    device = next(solver.parameters()).device
    pairs = [(question, each) for question in part for each in question.sets]
    features = [solver.features(question.example.question, question.context, each) for question, each in pairs]
    with torch.no_grad():
        batch = solver.collate(features).to(device)
        scores = solver.log_prob(solver(batch), batch).double().cpu().numpy()
    return _by_question(scores, part)


def _reconstructor_scores(model: Model, task: Learnable, part: Sequence[Question], recipe: Recipe) -> list[Scores]:
    assert model.reconstructor is not None
    layouts = []
    for question in part:
        items = [Item(question.example, question.context, each) for each in question.sets]
        shown = together([each for item in items for each in task.rendered(item, recipe)])
        layouts += [tokenise(each, question.example.question, model.reconstructor_tokenizer) for each in shown]
    model.reconstructor.eval()
    with torch.no_grad():
        batch = model.reconstructor.batch(layouts, [np.arange(len(layout.composition)) for layout in layouts])
        scores = model.reconstructor.log_prob(batch, full_precision=True).double().cpu().numpy()
    return _by_question(scores, part)


def _by_question(scores: Scores, part: Sequence[Question]) -> list[Scores]:
    return np.split(scores, np.cumsum([question.candidates for question in part])[:-1])


def _accuracy(right: Sequence[bool]) -> dict[str, Any]:
    found = Accuracy(sum(right), len(right))
    return {**found.to_json(), **asdict(wilson(found.right, found.of))}
