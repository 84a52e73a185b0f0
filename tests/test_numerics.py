"""Numbers stay numbers: sets of any size, impossible solutions, questions without tokens; the same choice in fp64."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import test_discrete_learning
import test_reading_learning
import test_text_learning
import tiny_runs
from bonafide.documents import Document
from bonafide.errors import InvalidFileError
from bonafide.examples import write_jsonl
from bonafide.learn.data import load_training_data
from bonafide.learn.learnable import Item
from bonafide.learn.methods import METHODS, build_objective
from bonafide.learn.microbatch import MicroBatch, Models, Prepared
from bonafide.learn.objective import Moment, Outcome
from bonafide.learn.recipe import Recipe
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import Model, load
from bonafide.learn.trainer import Trainer, train
from bonafide.search.discrete import search_discrete
from bonafide.search.reading import search_reading
from bonafide.search.sql import search_sql
from bonafide.search.text import import_candidates
from bonafide.synth.candidates import generate_candidates
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from bonafide.tasks.discrete import windows
from bonafide.tasks.discrete.language import Rule
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.discrete.program import Number, Operator, Program
from bonafide.tasks.discrete.programset import program_set
from bonafide.tasks.reading.span import MentionSet
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.text.candidates import text_set
from by_path import module_at
from test_objectives import EVERY

torch.set_num_threads(1)


numerics = module_at("benchmarks/numerics.py")
Method = tuple[str, dict[str, Any], int]
"""A name, its options, and the step that it is looked at in, of ten an epoch."""


@dataclass(frozen=True)
class Learned:
    """A run of a few steps."""

    run: Path
    recipe: Recipe
    model: Model
    items: list[Item]

    @property
    def task(self) -> str:
        return self.recipe.data.task


def write_task(root: Path, task: str) -> Any:
    """``train`` with its solution store; and what makes a recipe for it."""
    if task == "sql":
        tiny_runs.write_data(root)
        return tiny_runs.recipe
    if task == "discrete":
        write_discrete_benchmark(root / "train", seed=1, passages=4, questions=6, scenes=("games",))
        search_discrete(root / "train/examples.jsonl", root / "solutions")
        return test_discrete_learning.recipe
    if task == "reading":
        write_reading_benchmark(root / "train", seed=1, documents=4, questions=4, topics=("ships",))
        search_reading(root / "train/examples.jsonl", root / "solutions")
        return test_reading_learning.recipe
    write_jsonl(root / "train.jsonl", generate_candidates(16, seed=1, spurious=0.5, samples=4))
    import_candidates(root / "train.jsonl", root / "train")
    return test_text_learning.recipe


def learn(recipe: Recipe) -> Learned:
    root = Path(recipe.data.root)
    train(recipe, root / "run")
    return Learned(root / "run", recipe, load(root / "run"), load_training_data(recipe, root).items)


@pytest.fixture(scope="module", params=["sql", "discrete", "reading", "text"])
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    root = tmp_path_factory.mktemp(request.param)
    make = write_task(root, request.param)
    short = {"epochs": 1.0, "checkpoint_every": 1000, "evaluate_every": 1.0}
    return learn(make(root, "mimax", data={"dev": ""}, train=short))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """A run on tables that learned for longer, so that its reconstructor has preferences."""
    root = tiny_runs.write_data(tmp_path_factory.mktemp("tables"))
    longer = {"epochs": 4.0, "reconstructor_rate": 1e-2, "checkpoint_every": 1000, "evaluate_every": 4.0}
    never = {"options": {"switch": -1.0}}
    return learn(tiny_runs.recipe(root, "mimax", data={"dev": ""}, objective=never, train=longer))


def prepared(learned: Learned, items: Sequence[Item]) -> list[Prepared]:
    return [numerics.tokenised(item, learned.model, learned.recipe) for item in items]


def micro_batch(learned: Learned, items: Sequence[Item], moment: Moment) -> MicroBatch:
    model = learned.model
    assert model.reconstructor is not None
    models = Models(model.solver.train(), model.reconstructor.train(), torch.device("cpu"), nullcontext)
    return MicroBatch(prepared(learned, items), models, moment, 0)


def train_on(learned: Learned, items: Sequence[Item], methods: Sequence[Method] = EVERY) -> list[Outcome]:
    """What each method makes of a batch; all that is computed on the way must be a number."""
    outcomes = []
    modules = (learned.model.solver, learned.model.reconstructor)
    for method, options, step in methods:
        moment = Moment(step, 10)
        batch = micro_batch(learned, items, moment)
        outcome = build_objective(method, options).step(batch, moment)
        losses = [each for each in (outcome.solver_loss, outcome.reconstructor_loss) if each is not None]
        assert losses
        assert all(bool(loss.isfinite()) for loss in losses), (method, losses)
        for module in modules:
            module.zero_grad()
        for loss in losses:
            if loss.requires_grad:
                loss.backward()
        gradients = [each.grad for module in modules for each in module.parameters() if each.grad is not None]
        assert all(bool(each.isfinite().all()) for each in gradients), method
        for scores in (outcome.solver_scores, outcome.reconstructor_scores):
            assert scores is None or not bool(scores.isnan().any() | (scores == torch.inf).any()), method
        bounds = pairwise(batch.offsets.tolist())
        for chosen, (first, last) in zip(selected(outcome), bounds, strict=True):
            assert chosen == -1 or first <= chosen < last, method
        outcomes.append(outcome)
    return outcomes


def selected(outcome: Outcome) -> list[int]:
    assert outcome.selected is not None
    chosen: list[int] = outcome.selected.tolist()
    return chosen


def picked(learned: Learned, item: Item, places: npt.ArrayLike) -> Item:
    return replace(item, solutions=learned.model.task.picked(item.solutions, np.asarray(places, np.int64)))


def asking(item: Item, question: str) -> Item:
    return replace(item, example=replace(item.example, question=question))


def largest(learned: Learned) -> Item:
    return max(learned.items, key=lambda item: len(item.solutions))


# --- Odd sets and odd questions -----------------------------------------------------------------------------


def test_empty_and_single_sets_train_without_nan(learned: Learned) -> None:
    item = learned.items[0]
    empty, single = picked(learned, item, []), picked(learned, item, [0])
    for outcome in train_on(learned, [empty, single, item, empty]):
        first, second, _, last = selected(outcome)
        assert first == last == -1
        assert second == 0
    for outcome in train_on(learned, [empty, empty]):
        assert outcome.solver_loss is not None
        assert selected(outcome) == [-1, -1]
        assert float(outcome.solver_loss.detach()) == 0.0


def test_questions_without_tokens_and_endless_ones_train_without_nan(learned: Learned) -> None:
    """Zero-width and control characters pass for a question when it is read, and leave the solver no token."""
    item = picked(learned, largest(learned), range(3))
    odd = [asking(item, question) for question in ("", "   ", "\u200b", "\x07", "☃☃", "?", "</s> <pad>", "x" * 600)]
    assert all(each.features.cost for each in prepared(learned, odd))
    train_on(learned, [*odd, learned.items[0]])
    train_on(learned, odd[:1])


def test_a_question_of_nothing_one_can_see_is_searched_and_trained(tables: Learned, tmp_path: Path) -> None:
    shutil.copytree(tables.recipe.data.root, tmp_path / "data", ignore=shutil.ignore_patterns("run", "solutions"))
    path = tmp_path / "data/train/examples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    tables_read = (json.loads(line) for line in (tmp_path / "data/train/tables.jsonl").read_text().splitlines())
    rows = {table["id"]: len(table["rows"]) for table in tables_read}
    odd = [{**line, "question": "\u200b", "answers": [rows[line["context"]]]} for line in lines[4:12]]  # COUNT(…)
    write_jsonl(path, [*lines[:4], *odd])
    search_sql(path, tmp_path / "data/solutions")
    short = {"epochs": 2.0, "checkpoint_every": 1000, "evaluate_every": 2.0}
    train(tiny_runs.recipe(tmp_path / "data", "mimax", data={"dev": ""}, train=short), tmp_path / "run")
    logged = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [entry[name] for entry in logged for name in ("loss", "reconstructor_loss") if name in entry]
    assert len(losses) == 8  # of two steps an epoch, so of more than the first four examples
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("question", ["", " \t "])
def test_an_empty_question_is_refused_and_named(tables: Learned, tmp_path: Path, question: str) -> None:
    path = tmp_path / "examples.jsonl"
    shutil.copy(Path(tables.recipe.data.root) / "train/tables.jsonl", tmp_path)
    first, second, *_ = (Path(tables.recipe.data.root) / "train/examples.jsonl").read_text().splitlines()
    write_jsonl(path, [json.loads(first), {**json.loads(second), "question": question}])
    with pytest.raises(InvalidFileError, match="a text that is not empty") as refused:
        search_sql(path, tmp_path / "solutions")
    (problem,) = refused.value.problems
    assert (problem.line, problem.id, problem.field) == (2, json.loads(second)["id"], "question")


def with_impossible(learned: Learned) -> Item:
    """A set of which the solver can produce a part."""
    item = largest(learned)
    if learned.task == "sql":  # a query whose values no longer stand in the question, and one without conditions
        plain = QuerySet(
            item.solutions.conditions,
            item.solutions.select,
            item.solutions.aggregate,
            np.where(np.arange(len(item.solutions))[:, None] == 0, -1, item.solutions.where).astype(np.int32),
            len(item.solutions),
            True,
        )
        return replace(asking(item, "how many?"), solutions=plain)
    if learned.task == "discrete":  # a number that is not read any more
        passage = Passage("In 1901 five ships came. " * 400)
        programs = [Program(Operator.VALUE, (Number(place),)) for place in (0, len(passage.numbers) - 1)]
        return replace(item, context=passage, solutions=program_set((each, Rule.VALUE) for each in programs))
    if learned.task == "reading":  # a mention longer than a window
        document = Document("long", None, ("Ada Lund steers the ferry. " * 40,))
        spans = np.array([[0, 0], [0, 0], [8, 900], [0, 0]], np.int32)
        return replace(item, context=document, solutions=MentionSet(*spans, 2, True))
    return replace(item, solutions=text_set([item.solutions[0], "ship " * 600]))


def test_solutions_beyond_the_solver_train_nothing_and_give_no_nan(
    learned: Learned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "MOST_WINDOWS", 2)
    item = with_impossible(learned)
    scores = micro_batch(learned, [item], Moment(0, 10)).solver_scores()
    beyond = (scores == -torch.inf).nonzero().flatten().tolist()
    assert 0 < len(beyond) < len(scores)
    for outcome in train_on(learned, [item, picked(learned, item, beyond)]):
        possible, none = selected(outcome)
        assert possible not in beyond
        assert none == -1


def test_huge_sets_train_without_nan(tables: Learned) -> None:
    item = largest(tables)
    huge = picked(tables, item, np.resize(np.arange(len(item.solutions)), 50_000))
    for outcome in train_on(tables, [huge, tables.items[0]], [*EVERY[: len(METHODS)], EVERY[-1]]):
        assert 0 <= selected(outcome)[0] < 50_000


# --- The same choice ----------------------------------------------------------------------------------------


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``--device cpu`` sets is taken back after the test."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.usefixtures("no_gpu")
def test_fp32_chooses_as_fp64_does(tables: Learned, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    assert numerics.main(["--run", str(tables.run), "--device", "cpu", "--json", str(out)]) == 0
    assert "All within bounds." in capsys.readouterr().out
    figures = json.loads(out.read_text())
    pairs = {(each["model"], each["first"], each["second"]): each for each in figures["agreements"]}
    for model in ("φ", "θ"):
        exact, rounded = pairs[model, "fp64 CPU", "fp32 CPU"], pairs[model, "fp64 CPU", "bf16 CPU"]
        assert exact["same_of_clear"] == 1.0
        assert exact["clear"] > 20
        assert 0.0 < exact["largest"] < 1e-3 < rounded["largest"]
    assert {each["way"] for each in figures["losses"]} == {"fp32 CPU", "bf16 CPU"}


@pytest.mark.usefixtures("no_gpu")
def test_a_way_that_is_off_is_told_by_the_exit_code(
    tables: Learned, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(numerics, "FP32", replace(numerics.FP32, rounded=True))
    assert numerics.main(["--run", str(tables.run), "--device", "cpu", "--examples", "32"]) == 1
    assert "bounds missed" in capsys.readouterr().out


def test_choices_count_where_the_two_best_are_clearly_apart() -> None:
    scores = [np.array([-1.0, -2.0, -np.inf]), np.array([-1.0, -1.005]), np.array([-3.0]), np.array([-5.0, -4.0])]
    others = [np.array([-1.0, -2.5, -np.inf]), np.array([-1.0, -0.9]), np.array([-3.0]), np.array([-4.0, -4.5])]
    found = numerics.agreement("φ", numerics.TRUTH, numerics.FP32, scores, others)
    assert (found.clear, found.same_of_clear) == (2, 0.5)
    assert (found.examples, found.same) == (3, pytest.approx(1 / 3))
    assert found.largest == 1.0
    assert found.missed
    assert not numerics.agreement("φ", numerics.TRUTH, numerics.BF16, scores, others).missed
    same = numerics.agreement("φ", numerics.TRUTH, numerics.FP32, scores, scores)
    assert (same.same_of_clear, same.largest, same.missed) == (1.0, 0.0, False)
    assert numerics.agreement("φ", numerics.TRUTH, numerics.FP32, scores[1:2], scores[1:2]).missed  # nothing is clear
    possible = [np.where(np.isinf(each), -9.0, each) for each in scores]
    assert numerics.agreement("φ", numerics.TRUTH, numerics.FP32, scores, possible).largest == np.inf


def test_losses_and_gradients_have_tolerances() -> None:
    truth = numerics.Trained(2.0, np.array([3.0, 4.0]))
    near = numerics.Trained(2.0 + 1e-5, np.array([3.0, 4.0 + 1e-4]))
    assert not numerics.off("φ", numerics.FP32, near, truth).missed
    assert numerics.off("φ", numerics.FP32, replace(near, loss=2.1), truth).missed
    assert numerics.off("φ", numerics.FP32, replace(near, gradient=np.array([3.0, 4.1])), truth).missed
    assert numerics.off("φ", numerics.FP32, replace(near, loss=float("nan")), truth).missed


@pytest.mark.parametrize("method", ["hard-em", "hard-em-thres", "vae", "mimax"])
def test_bf16_never_selects(tables: Learned, tmp_path: Path, method: str) -> None:
    """A run that trains in bf16, a caller that has autocast on: the scores that decide are fp32 to the bit."""
    moment = Moment(40, 10)
    outcomes, trained = {}, {}
    for precision in ("fp32", "bf16"):
        trainer = trainer_of(tables, method, precision, tmp_path / precision)
        batch = MicroBatch(trainer.items, trainer.models, moment, 0)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            outcomes[precision] = trainer.objective.step(batch, moment)
        trained[precision] = batch.solver_training_scores().detach()
    exact, rounded = outcomes["fp32"], outcomes["bf16"]
    assert exact.solver_scores is not None
    assert rounded.solver_scores is not None
    assert torch.equal(rounded.solver_scores, exact.solver_scores)
    assert selected(rounded) == selected(exact)
    assert (rounded.reconstructor_scores is None) == (method != "mimax")
    if exact.reconstructor_scores is not None and rounded.reconstructor_scores is not None:
        assert torch.equal(rounded.reconstructor_scores, exact.reconstructor_scores)
    assert 1e-4 < float((trained["bf16"] - trained["fp32"]).abs().max()) < 1.0  # that is what training is done in


def trainer_of(tables: Learned, method: str, precision: str, out: Path) -> Trainer:
    """Dropout off; the weights of ``tables``."""
    recipe = tiny_runs.recipe(
        Path(tables.recipe.data.root),
        method,
        data={"dev": ""},
        solver={"dropout": 0.0},
        reconstructor={"dropout": 0.0},
        objective={"options": {"switch": -1.0} if method == "mimax" else {}},
        train={"precision": precision},
    )
    with RunFolder.open(out, recipe, resume=False) as folder:
        trainer = Trainer(recipe, load_training_data(recipe, folder.path), folder)
    trainer.solver.load_state_dict(tables.model.solver.state_dict())
    if trainer.reconstructor is not None and tables.model.reconstructor is not None:
        trainer.reconstructor.load_state_dict(tables.model.reconstructor.state_dict())
    return trainer
