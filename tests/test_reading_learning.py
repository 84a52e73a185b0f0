"""Learning to read: every method trains, runs go on where they stopped, gold stays out, models are judged and asked."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.examples import read_gold
from bonafide.learn import draws, reading
from bonafide.learn.data import load_training_data, open_dev
from bonafide.learn.description import Placed, description_length
from bonafide.learn.learnable import learnable
from bonafide.learn.memory import Room
from bonafide.learn.methods import METHODS
from bonafide.learn.microbatch import Asked, MicroBatch, best_scores, make_ready
from bonafide.learn.monitor import dev_figures
from bonafide.learn.objective import Moment
from bonafide.learn.recipe import Recipe, recipe_from
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import load
from bonafide.learn.steps import Progress
from bonafide.learn.trainer import Trainer, train
from bonafide.report.runs import selections_over_time
from bonafide.report.selection_task import draw_questions, select
from bonafide.reproduce import runs
from bonafide.reproduce.results import read_result
from bonafide.reproduce.tables import table
from bonafide.search.reading import search_reading
from bonafide.synth.reading import write_reading_benchmark
from bonafide.tasks.reading.metrics import exact_match
from bonafide.tasks.reading.plaintext import read_document
from by_path import module_at
from tiny_runs import OPTIONS, weights

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train`` with 16 questions and its solution store, and ``dev`` with 4."""
    root = tmp_path_factory.mktemp("data")
    write_reading_benchmark(root / "train", seed=1, documents=4, questions=4, topics=("ships",))
    write_reading_benchmark(root / "dev", seed=1, documents=1, questions=4, split="dev", topics=("ships",))
    search_reading(root / "train/examples.jsonl", root / "solutions")
    return root


def recipe(root: Path, method: str, **changed: dict[str, Any]) -> Recipe:
    values: dict[str, dict[str, Any]] = {
        "data": {"task": "reading", "root": str(root), "solutions": str(root / "solutions")},
        "solver": {"encoder": "scratch", "layers": 1, "width": 16, "heads": 2, "window": 64, "stride": 32},
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
    train(recipe(data, method), tmp_path / "run")
    logged = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in logged if "loss" in entry]
    assert len(losses) == 8
    assert all(math.isfinite(loss) for loss in losses)
    if method not in ("hard-em-thres", "vae"):  # more examples, or another loss, as they go on
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
    for line, other in zip(lines, [*lines[1:], lines[0]], strict=True):
        line["other"] = other["solution"]
    path.write_text("".join(json.dumps({"id": each["id"], "solution": each["other"]}) + "\n" for each in lines))
    train(recipe(tmp_path / "data", "mimax"), tmp_path / "run")
    assert weights(tmp_path / "run") == weights(run)


def test_a_store_is_narrowed_to_what_gold_leaves_possible(data: Path, tmp_path: Path) -> None:
    ceiling = module_at("benchmarks/ceiling.py")
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("run"))
    path, store = tmp_path / "data/train/gold.jsonl", tmp_path / "data/solutions"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for span in lines[0]["solution"]["spans"]:
        span["start"] = None  # of the first only the paragraph is known
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    found = ceiling.write_narrowed(store, tmp_path / "data", tmp_path / "narrowed")
    assert [found[kind] for kind in ceiling.KINDS] == [15, 1, 0]
    task = learnable("reading")
    whole, narrowed = dict(task.open_store(store)), dict(task.open_store(tmp_path / "narrowed"))
    gold = {each["id"]: each["solution"]["paragraph"] for each in lines}
    assert list(narrowed) == list(whole)
    assert all(mentions.size == len(mentions) for mentions in narrowed.values())
    with pytest.raises(BonafideError, match="already there"):
        ceiling.write_narrowed(store, tmp_path / "data", tmp_path / "narrowed")
    assert sum(map(len, narrowed.values())) == found["mentions"] < sum(map(len, whole.values()))
    for name, mentions in narrowed.items():
        assert set(mentions.paragraph.tolist()) == {gold[name]}
        known = name != lines[0]["id"]
        assert len(mentions) == (1 if known else (whole[name].paragraph == gold[name]).sum())
    train(recipe(data, "hard-em", data={"solutions": str(tmp_path / "narrowed")}), tmp_path / "run")
    items = load_training_data(recipe(data, "hard-em", data={"solutions": str(tmp_path / "narrowed")}), tmp_path).items
    assert [len(item.solutions) for item in items] == [len(each) for each in narrowed.values()]


def test_a_reader_whose_prior_is_gold_trains_on_nothing_else(data: Path, tmp_path: Path) -> None:
    ceiling = module_at("benchmarks/ceiling.py")
    tiny = ["solver.encoder=scratch", "solver.width=16", "solver.heads=2", "solver.window=64", "train.epochs=2.0"]
    asked = runs.Asked(tmp_path, data, 1, ("mml-words",), ("data.largest=1.0", "train.batch=4", *tiny))
    found = ceiling.train_told(asked)
    assert [found[kind] for kind in ceiling.KINDS] == [16, 0, 0]
    assert found["mentions"] == 16
    assert not (tmp_path / "rows").exists()  # among these it would be taken for a row of the table
    assert runs.fill([table("reading")], asked)["reading"].done
    (words,) = (tmp_path / "work/runs").glob("squad-article-mml-*")
    folders = {"gold": tmp_path / "work/runs/gold-as-prior-0", "words": words}
    chosen = {name: selections_over_time(run, data / "train/gold.jsonl") for name, run in folders.items()}
    assert {row["selected"] for row in chosen["gold"]} == {1.0}
    assert {row["selected"] for row in chosen["words"]} != {1.0}
    told = read_result(tmp_path / "gold-as-prior-0.json")
    lines = list(ceiling.compared([told], asked))
    answer = lines.index(f"right answer: {100 * told.figure('answer'):.1f}")
    gained = told.figure("answer") - read_result(tmp_path / "rows" / f"{words.name}.json").figure("answer")
    assert lines[answer + 1].startswith(f"  to MML, the words as a prior (no φ) (1): {100 * gained:+.1f} [")


def test_selections_are_held_to_gold_epoch_by_epoch(data: Path, run: Path) -> None:
    table = selections_over_time(run, data / "train/gold.jsonl")
    assert [row["epoch"] for row in table] == [2.0, 4.0]
    assert all(0 <= row[name] <= 1 for row in table for name in ("selected", "solver", "reconstructor"))


def test_a_model_is_evaluated_and_asked_on_the_command_line(data: Path, run: Path, tmp_path: Path) -> None:
    command = CliRunner()
    done = command.invoke(
        app,
        ["evaluate", str(run), "--examples", str(data / "dev/examples.jsonl"), "--gold", str(data / "dev/gold.jsonl"),
         "--json", "--out", str(tmp_path / "predictions.jsonl")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout[done.stdout.index("{") :])
    assert figures["examples"] == 4
    assert figures["paragraph"]["of"] == figures["mention"]["of"] == 4
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == 4

    (tmp_path / "note.md").write_text("# Harbour\n\nAda Lund steers the ferry.\n\nThe ferry was built in Lyon.\n")
    asked = [
        "predict",
        str(run),
        "--document",
        str(tmp_path / "note.md"),
        "who steers the ferry?",
        "--json",
        "--top",
        "3",
    ]
    answers = json.loads(command.invoke(app, asked).stdout)
    assert len(answers) == 3
    paragraphs = read_document(tmp_path / "note.md").paragraphs
    for answer in answers:
        text = paragraphs[answer["paragraph"]]
        assert text[answer["start"] : answer["end"]] == answer["answer"]
    voted = json.loads(command.invoke(app, [*asked, "--reconstruction", "1000"]).stdout)
    expected = load(run).predict(read_document(tmp_path / "note.md"), "who steers the ferry?", 3, reconstruction=1000)
    assert [each["answer"] for each in voted] == [each.answer for each in expected]
    assert voted != answers


def test_two_contexts_are_refused(run: Path, tmp_path: Path) -> None:
    from bonafide.errors import BonafideError

    with pytest.raises(BonafideError, match="one context"):
        CliRunner().invoke(
            app, ["predict", str(run), "--document", "a.txt", "--passage", "b.txt", "who?"], catch_exceptions=False
        )


def test_questions_are_answered_together_as_alone(data: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, split = load(run), learnable("reading").open_split(data / "dev")
    asked = [(split.context_of(each), each.question) for each in split.file]
    together = model.predict_all(asked, top=3)
    monkeypatch.setattr(reading, "_WINDOWS", 1)
    alone = model.predict_all(asked, top=3)
    assert len(together) == len(asked)
    assert [[each.mention for each in found] for found in together] == [
        [each.mention for each in found] for found in alone
    ]


def test_the_threshold_is_on_the_probability_among_all_windows_that_are_read(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "hard-em-thres")
    with RunFolder.open(tmp_path / "run", made, resume=False) as folder:
        trainer = Trainer(made, load_training_data(made, tmp_path / "run"), folder)
    items, moment = trainer.items, Moment(0, 2)
    best = best_scores(items, [[0, 1], [2]], trainer.models, moment, 5, Room(10**6))
    trainer.solver.eval()
    for place, item in enumerate(items[:3]):
        batch = MicroBatch([item], trainer.models, moment, 5)
        with torch.no_grad():
            read = trainer.solver.collate([item.features], draw=draws.key("5/windows/0"))
            alone = trainer.solver.log_prob(trainer.solver(read), read)
        assert float(best[place]) == pytest.approx(float(alone.max()), abs=1e-4)
        assert float(best[place]) < float(batch.solver_scores().max()) - 1e-3  # among the windows with a mention
    assert torch.isinf(best[3:]).all()


def test_seeds_read_other_windows_without_a_mention(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "mml", solver={"window": 32, "stride": 16})
    with RunFolder.open(tmp_path / "run", made, resume=False) as folder:
        trainer = Trainer(made, load_training_data(made, tmp_path / "run"), folder)
    found = [make_ready(trainer.items, trainer.models, Asked(), Moment(0, 2), seed, Room(10**6)) for seed in (5, 5, 6)]
    first, again, other = (torch.cat([rows.pieces.flatten() for rows in each.solver.rows]) for each in found)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_gold_that_is_in_no_set_is_not_asked_for(data: Path, run: Path) -> None:
    """Alone, it would be read in fewer windows than the others, and likelier for that."""
    task = learnable("reading")
    split, store = task.open_split(data / "train"), task.open_store(data / "solutions")
    gold = read_gold(data / "train/gold.jsonl")
    questions, left_out = draw_questions(task, split, gold, store, recipe(data, "mimax"))
    beside = [replace(each, sets=(*each.sets, each.sets[0])) for each in questions[:3]]
    chosen = select(load(run), [*beside, *questions[3:]], left_out)
    assert chosen.left_out == left_out + 3
    assert len(chosen.choices) == len(questions) - 3
    with pytest.raises(BonafideError, match="nothing to choose"):
        select(load(run), beside)


def test_a_reader_keeps_the_checkpoint_whose_mentions_tell_their_questions_best(data: Path, tmp_path: Path) -> None:
    wanted = recipe(data, "mml", train={"epochs": 3.0, "evaluate_every": 1.0})
    made = train(wanted, tmp_path / "run")
    lines = [json.loads(line) for line in (made.path / "metrics.jsonl").read_text().splitlines()]
    found = [each["evaluation"]["dev_description"] for each in lines if "evaluation" in each]
    best = json.loads((made.path / "result.json").read_text())["best"]
    assert len(found) == 3
    assert (best["by"], best["figure"]) == ("dev_description", pytest.approx(max(found)))


def test_what_a_reader_predicts_is_told_by_its_surroundings(
    data: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, wanted = load(run), recipe(data, "mimax")
    dev = open_dev(wanted)
    assert dev is not None
    told = []
    for example in dev.examples:
        document = dev.context_of(example)
        (answer,) = model.predict(document, example.question)[:1]
        shown = reading.rendered_mention(answer.mention, document)
        told.append(Placed(example.question, shown, exact_match(answer.answer, example.answers) == 1))
    assert dev_figures(model, dev, wanted)["dev_description"] == pytest.approx(-description_length(told))
    monkeypatch.setattr(type(model), "predict_all", lambda _, asked: [[] for _ in asked])
    nothing = [Placed(example.question, None, right=False) for example in dev.examples]
    assert dev_figures(model, dev, wanted)["dev_description"] == pytest.approx(-description_length(nothing))


def test_a_vote_orders_what_was_found(data: Path, run: Path) -> None:
    model, split = load(run), learnable("reading").open_split(data / "dev")
    asked = [(split.context_of(each), each.question) for each in split.file]
    found = model.predict_all(asked, top=6, beam=6)
    assert model.voted(asked, found, 0.0) == found
    assert [each[:2] for each in model.voted(asked, found, 0.7)] == model.predict_all(asked, 2, 6, False, 0.7)
