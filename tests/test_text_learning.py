"""Learning from candidates: every method trains, runs go on where they stopped, gold stays out, models are judged."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import bonafide
from bonafide.cli import app
from bonafide.examples import read_gold, write_jsonl
from bonafide.learn.learnable import Item, learnable
from bonafide.learn.methods import METHODS
from bonafide.learn.mimax import Mimax
from bonafide.learn.objective import Moment
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.steps import Progress
from bonafide.learn.text import TextAnswer, gold_texts
from bonafide.learn.trainer import train
from bonafide.rendering import Literal
from bonafide.report.predicted import Asked
from bonafide.report.runs import selections_over_time
from bonafide.report.selection_task import draw_questions
from bonafide.reproduce.judged import is_gold
from bonafide.search.text import import_candidates
from bonafide.synth.candidates import generate_candidates
from bonafide.tasks.text.candidates import text_set
from bonafide.tasks.text.words import normalised
from tiny_runs import OPTIONS, weights

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train`` with 16 problems and ``dev`` with 4."""
    root = tmp_path_factory.mktemp("data")
    for split, count, seed in (("train", 16, 1), ("dev", 4, 2)):
        write_jsonl(root / f"{split}.jsonl", generate_candidates(count, seed, 0.5, 4))
        import_candidates(root / f"{split}.jsonl", root / split)
    return root


def recipe(root: Path, method: str, **changed: dict[str, Any]) -> Recipe:
    values: dict[str, dict[str, Any]] = {
        "data": {"task": "text", "root": str(root), "solutions": str(root / "train/solutions"), "dev_examples": 1},
        "language": {},
        "solver": {"encoder": "scratch", "layers": 1, "width": 16, "heads": 2},
        "reconstructor": {"kind": "t-scratch", "layers": 1, "width": 16, "heads": 2},
        "objective": {"method": method, "options": OPTIONS.get(method, {})},
        "train": {
            "epochs": 4.0,
            "batch": 8,
            "seed": 5,
            "encoder_rate": 3e-3,
            "head_rate": 3e-3,
            "checkpoint_every": 3,
            "evaluate_every": 2.0,
            "log_every": 1,
        },
    }
    made = {section: {**content, **changed.get(section, {})} for section, content in values.items()}
    return recipe_from(made, "a test")


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    train(recipe(data, "mimax"), data / "run")
    return data / "run"


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"mimax"}))
def test_every_method_trains(data: Path, tmp_path: Path, method: str) -> None:
    train(recipe(data, method, data={"dev": ""}), tmp_path / "run")
    logged = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in logged if "loss" in entry]
    assert len(losses) == 8
    assert all(math.isfinite(loss) for loss in losses)
    if method not in ("hard-em-thres", "vae"):
        assert sum(losses[-2:]) < sum(losses[:2])


def test_a_run_that_was_killed_goes_on_to_the_same_weights(data: Path, run: Path, tmp_path: Path) -> None:
    def crash(progress: Progress) -> None:
        if progress.step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe(data, "mimax"), tmp_path / "resumed", watcher=crash)
    train(recipe(data, "mimax"), tmp_path / "resumed", resume=True)
    assert weights(tmp_path / "resumed") == weights(run)


def test_gold_reaches_no_method_that_learns_from_answers(data: Path, run: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("run"))
    path = tmp_path / "data/train/gold.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    others = [line["solution"] for line in [*lines[1:], lines[0]]]
    path.write_text(
        "".join(json.dumps({**line, "solution": other}) + "\n" for line, other in zip(lines, others, strict=True))
    )
    train(recipe(tmp_path / "data", "mimax"), tmp_path / "run")
    assert weights(tmp_path / "run") == weights(run)


def test_selections_are_held_to_gold_epoch_by_epoch(data: Path, run: Path) -> None:
    table = selections_over_time(run, data / "train/gold.jsonl")
    assert [row["epoch"] for row in table] == [2.0, 4.0]
    assert all(0 <= row[name] <= 1 for row in table for name in ("selected", "solver", "reconstructor"))


def test_any_of_several_gold_texts_is_gold(data: Path, run: Path) -> None:
    """Who selects one is right, and there is one to select."""
    task, asked = learnable("text"), recipe(data, "mimax")
    split, store = task.open_split(data / "train"), task.open_store(data / "train/solutions")
    gold = read_gold(data / "train/gold.jsonl")
    wanted = {name: set(map(normalised, gold_texts(each))) for name, each in gold.items()}
    assert any(sum(normalised(text) in wanted[name] for text in solutions) > 1 for name, solutions in store)
    for question in draw_questions(task, split, gold, store, asked)[0]:
        right = [normalised(text) in wanted[question.example.id] for each in question.sets for text in each]
        assert (right.index(True), sum(right)) == (question.gold, 1)
    ((text, *_), *_) = map(gold_texts, gold.values())
    said = Asked("text", {}, lambda _: "", {})
    assert is_gold(said, [TextAnswer(f" {text} ", 0.0)], ("something else", text)) == (True, True)
    assert is_gold(said, [TextAnswer("no", 0.0)], (text,)) == (True, False)


def test_a_model_is_evaluated_and_asked_on_the_command_line(data: Path, run: Path, tmp_path: Path) -> None:
    command = CliRunner()
    dev = data / "dev"
    done = command.invoke(
        app,
        ["evaluate", str(run), "--examples", str(dev / "examples.jsonl"), "--gold", str(dev / "gold.jsonl"),
         "--json", "--out", str(tmp_path / "predictions.jsonl")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout[done.stdout.index("{") :])
    assert figures["examples"] == figures["execution"]["of"] == figures["logical_form"]["of"] == 4
    for name in ("solver", "reconstructor"):
        assert figures["selection"][name]["gold_in_set"]["share"] == 1
        assert figures["selection"][name]["accuracy"]["of"] == 4
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [line["example"] for line in lines] == [f"problem-{place}" for place in range(4)]
    asked = command.invoke(app, ["predict", str(run), "How many?", "--json", "--top", "2"])
    answers = json.loads(asked.stdout)
    assert [each["text"] for each in answers] == [
        each.text for each in bonafide.load(run).predict("", "How many?", top=2)
    ]


def test_the_reconstructor_is_not_shown_what_is_copied(data: Path) -> None:
    from bonafide.examples import Example
    from bonafide.learn.text import TextLearning

    question = "Ada has 12 apples and buys 7 more. How many?"
    solutions = text_set(["Ada has 12 apples and buys 7 more, so 19", "12 + 7 = 19"])
    item = Item(Example("q", question, None, (19,)), "", solutions)
    (masked,) = TextLearning().rendered(item, recipe(data, "mimax"))
    assert [masked[place] for place in range(2)] == [(Literal("…, so 19"),), (Literal("12 + 7 = 19"),)]
    (shown,) = TextLearning().rendered(item, recipe(data, "mimax", language={"copied": 0}))
    assert shown[0] == (Literal(solutions[0]),)


class _Batch:
    """Two candidates of one example, of which the solver finds the first likelier by 40 nats."""

    offsets = torch.tensor([0, 2])
    operations = torch.tensor([1.0, 1.0])

    def __init__(self, draw: float) -> None:
        self._draw = draw
        self.trained: list[int] = []

    def uniform(self, purpose: str) -> torch.Tensor:
        return torch.tensor([self._draw])

    def solver_scores(self) -> torch.Tensor:
        return torch.tensor([0.0, -40.0])

    def solver_training_scores_of(self, chosen: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.0, -40.0])[chosen]

    def reconstructor_scores(self, most: int = 0) -> torch.Tensor:
        return torch.tensor([-9.0, -3.0])

    def reconstructor_training_scores(self, solutions: torch.Tensor) -> torch.Tensor:
        self.trained = solutions.tolist()
        return torch.zeros(len(solutions))


def test_a_flatter_solver_draws_longer_texts_and_changes_nothing_else() -> None:
    moment = Moment(0, 10)
    for temperature, drawn in ((1.0, 0), (1000.0, 1)):
        batch = _Batch(0.9)
        outcome = Mimax(switch=-1.0, temperature=temperature).step(batch, moment)  # type: ignore[arg-type]
        assert batch.trained == [drawn]
        assert outcome.selected is not None
        assert outcome.selected.tolist() == [1]
        assert outcome.solver_loss is not None
        assert float(outcome.solver_loss) == 40.0
