"""Learning discrete reasoning: every method trains, runs go on where they stopped, models are saved and judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from bonafide import ragged
from bonafide.cli import app
from bonafide.documents import open_documents
from bonafide.errors import BonafideError
from bonafide.examples import Example, Gold, open_examples, read_gold, write_jsonl
from bonafide.learn.data import likeliest_sets, load_training_data
from bonafide.learn.discrete import DiscreteLearning, gold_program, passages_of
from bonafide.learn.learnable import learnable, speaking
from bonafide.learn.methods import METHODS
from bonafide.learn.monitor import proposals
from bonafide.learn.recipe import Recipe, named_recipes, read_recipe, recipe_from
from bonafide.learn.saved import Model, load, save_model
from bonafide.learn.steps import Progress
from bonafide.learn.trainer import train
from bonafide.report.passages import answer_line, answers_about
from bonafide.report.runs import selections_over_time
from bonafide.report.runs_discrete import evaluate_discrete
from bonafide.search.discrete import search_discrete
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.tasks.discrete import windows as window_module
from bonafide.tasks.discrete.evidence import operands
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.notation import parse_program
from bonafide.tasks.discrete.passage import Passage, Reading, read
from bonafide.tasks.discrete.solver import DiscreteSolver, DiscreteSpec, build_discrete_solver
from tiny_runs import OPTIONS, weights

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train`` with 24 questions and its solution store, and ``dev`` with 4."""
    root = tmp_path_factory.mktemp("data")
    write_discrete_benchmark(root / "train", seed=1, passages=4, questions=6, scenes=("games",))
    write_discrete_benchmark(root / "dev", seed=1, passages=1, questions=4, split="dev", scenes=("games",))
    search_discrete(root / "train/examples.jsonl", root / "solutions")
    return root


@pytest.mark.parametrize("constants", [(7, 100), (1, 2, 3, 4, 5, 6, 7, 8, 100)])
def test_gold_and_words_are_those_of_the_stores_constants(constants: tuple[int, ...], tmp_path: Path) -> None:
    """A recipe does not say them, and programs hold a constant by its number."""
    (tmp_path / "train").mkdir()
    examples, place = tmp_path / "train/examples.jsonl", len(constants) - 1
    write_jsonl(tmp_path / "train/documents.jsonl", [{"id": "d", "paragraphs": ["The Bears won 37 games that year."]}])
    question = {"id": "e", "question": "How many percent were not won?", "context": "d", "answers": ["63"]}
    write_jsonl(examples, [question])
    text = f'subtract(c{place} "100", n0 "37")'
    write_jsonl(tmp_path / "train/gold.jsonl", [{"id": "e", "solution": {"program": text}}])
    search_discrete(examples, tmp_path / "solutions", language=Language(constants=constants))
    gold = load_training_data(recipe(tmp_path, "supervised", data={"dev": ""}), tmp_path)
    asked = recipe(tmp_path, "hard-em", data={"dev": "", "max_solutions": 1, "likeliest": True})
    (item,) = load_training_data(asked, tmp_path).items
    (program,) = gold.items[0].solutions
    reading, language = Reading(Passage(item.example.question), item.context), Language(constants=constants)
    assert program == parse_program(text, reading, language)
    task = speaking(learnable("discrete"), gold.store)
    assert task.places_of_gold(read_gold(tmp_path / "train/gold.jsonl")["e"], item, asked) == [0]
    assert "100" in str(task.rendered(item, asked))
    assert [len(solutions) for _, solutions in likeliest_sets(asked, task.open_store(tmp_path / "solutions"))] == [1]


def recipe(root: Path, method: str, **changed: dict[str, Any]) -> Recipe:
    values: dict[str, dict[str, Any]] = {
        "data": {"task": "discrete", "root": str(root), "solutions": str(root / "solutions"), "max_solutions": 30},
        "solver": {"encoder": "scratch", "layers": 1, "width": 32, "heads": 2, "head_width": 32, "dropout": 0.0},
        "reconstructor": {"kind": "t-scratch", "layers": 1, "width": 32, "heads": 2},
        "objective": {"method": method, "options": OPTIONS.get(method, {})},
        "train": {
            "epochs": 4.0,
            "batch": 8,
            "seed": 5,
            "encoder_rate": 3e-3,
            "head_rate": 3e-3,
            "checkpoint_every": 5,
            "evaluate_every": 2.0,
            "log_every": 1,
        },
    }
    made = {section: {**content, **changed.get(section, {})} for section, content in values.items()}
    return recipe_from(made, "a test")


@pytest.fixture(scope="module")
def learned(data: Path) -> Path:
    """A run that learned its training examples by heart, from gold."""
    out = data / "learned"
    train(recipe(data, "supervised", train={"epochs": 40.0, "evaluate_every": 40.0}, data={"dev": ""}), out)
    return out


def items(root: Path) -> Iterator[tuple[Example, Passage, Any]]:
    task = DiscreteLearning()
    split = task.open_split(root / "train")
    for example, (_, solutions) in zip(split.file, task.open_store(root / "solutions"), strict=True):
        yield example, split.context_of(example), solutions


def marginal(solver: DiscreteSolver, root: Path) -> float:
    """The mean of log Σ P(z) over the solution sets of the training examples that have one."""
    batch = solver.collate([
        solver.features(example.question, passage, solutions)
        for example, passage, solutions in items(root) if len(solutions)
    ])  # fmt: skip
    with torch.no_grad():
        return float(ragged.logsumexp(solver.log_prob(solver(batch), batch), batch.offsets).mean())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_makes_the_solutions_likelier_and_logs_dev_figures(
    data: Path, tmp_path: Path, method: str
) -> None:
    made = recipe(data, method)
    train(made, tmp_path / "run")
    trained = load(tmp_path / "run")
    texts = [text for example, passage, _ in items(data) for text in (example.question, passage.text)]
    untrained = build_discrete_solver(trained.solver.spec, texts, seed=made.train.seed).eval()
    assert marginal(trained.solver, data) > marginal(untrained, data) + 1
    entries = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    figures = next(entry["evaluation"] for entry in entries if "evaluation" in entry)
    assert {"dev_execution", "dev_f1"} <= set(figures)
    shares = [value for name, value in figures.items() if re.fullmatch(r"selected_\d_operations", name)]
    assert sum(shares) == pytest.approx(1)
    if method in ("mimax", "mimax+", "vae"):
        assert trained.reconstructor is not None
        assert all(np.isfinite(entry["reconstructor_loss"]) for entry in entries if "reconstructor_loss" in entry)


def test_a_run_that_was_stopped_goes_on_to_the_same_weights(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "mimax", data={"dev": ""}, solver={"dropout": 0.1})
    train(made, tmp_path / "whole")

    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.step == 8:  # after the switch to HardEM, between two checkpoints
            raise StoppedError

    with pytest.raises(StoppedError):
        train(made, tmp_path / "stopped", watcher=stop)
    train(made, tmp_path / "stopped", resume=True)
    assert weights(tmp_path / "stopped") == weights(tmp_path / "whole")


def test_a_model_that_learned_gold_by_heart_is_right_about_every_program(data: Path, learned: Path) -> None:
    done = evaluate_discrete(
        load(learned), learned, data / "train/examples.jsonl", gold=data / "train/gold.jsonl", beam=3
    )
    figures = done.figures
    assert figures["examples"] == 24
    assert figures["cut"] == 0
    assert figures["logical_form"]["share"] >= 0.9
    assert figures["execution"]["share"] >= figures["logical_form"]["share"]
    assert figures["f1"] >= figures["execution"]["share"]
    assert sum(each["of"] for each in figures["operators"].values()) == 24
    assert sum(each["of"] for each in figures["operands"].values()) == 24
    assert sum(each["execution"]["of"] for each in figures["answer_types"].values()) == 24
    found = figures["selection"]["solver"]
    assert found["accuracy"]["share"] >= 0.9
    assert found["gold_in_set"]["of"] == 24
    known = {each.example: each for each in done.outcomes}
    for prediction in done.predictions:
        scores = [prediction.log_probability, *(score for _, score in prediction.alternatives)]
        assert scores == sorted(scores, reverse=True)
        if known[prediction.example].solution and prediction.rank_of_gold is not None:
            assert prediction.rank_of_gold == 1


def test_predictions_say_where_their_operands_stand(data: Path, learned: Path, tmp_path: Path) -> None:
    examples = data / "train/examples.jsonl"
    evaluate_discrete(load(learned), learned, examples, out=tmp_path / "predictions.jsonl")
    passage_of = passages_of(open_documents(None, examples))
    by_id = {example.id: example for example in open_examples(examples)}
    lines = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert len(lines) == 24
    seen = 0
    for line in lines:
        example = by_id[line["example"]]
        reading = Reading(Passage(example.question), passage_of(example))
        program = parse_program(line["program"], reading, Language())
        assert len(line["operands"]) == program.operands
        for operand in line["operands"]:
            source = {"passage": reading.passage.text, "question": example.question}.get(operand["source"])
            if source is not None:
                assert " ".join(source[start:end] for start, end in operand["pieces"]) == operand["text"]
                seen += 1
    assert seen > 24


def test_what_was_selected_is_compared_with_gold_epoch_by_epoch(data: Path, learned: Path) -> None:
    table = selections_over_time(learned, data / "train/gold.jsonl")
    assert [row["epoch"] for row in table] == [40]
    assert table[0]["selected"] == 1  # gold was all there was


def test_a_saved_model_predicts_the_same(data: Path, tmp_path: Path) -> None:
    example, passage, _ = next(items(data))
    spec = DiscreteSpec("scratch", 1, 32, 2, decoder_width=32)
    solver = build_discrete_solver(spec, [example.question, passage.text], seed=3).eval()
    model = Model(solver, None, None, {"recipe": recipe(data, "mml").to_json(), "step": 0})
    save_model(tmp_path / "model", model)
    asked = (passage, example.question)
    again = load(tmp_path / "model").predict(*asked, top=5)
    assert len(again) == 5
    assert [(each.text, each.log_probability) for each in again] == [
        (each.text, each.log_probability) for each in model.predict(*asked, top=5)
    ]


def test_the_command_line_shows_the_formula_and_the_text_around_each_operand(
    data: Path, learned: Path, tmp_path: Path
) -> None:
    gold = read_gold(data / "train/gold.jsonl")
    example, passage, _ = next(
        item for item in items(data) if str(gold[item[0].id].solution["program"]).startswith("subtract(")
    )
    (tmp_path / "passage.txt").write_text(passage.text)
    arguments = ["predict", str(learned), example.question, "--passage", str(tmp_path / "passage.txt")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    best = answers_about(learned, example.question, tmp_path / "passage.txt", top=1)[0]
    assert answer_line(best) in shown.output
    assert re.fullmatch(r"\S+ − \S+ = \S+", answer_line(best))
    for operand in operands(best.program, best.reading, best.language):
        around = operand.surroundings(best.reading, 15)
        assert around is not None
        assert " ".join("".join(around).strip("… ").split()) in " ".join(shown.output.split())
    listed = json.loads(CliRunner().invoke(app, [*arguments, "--json", "--top", "2"]).output)
    assert len(listed) == 2
    assert listed[0]["answer"] == list(best.answer)


def test_a_passage_of_windows_is_read_as_any_other(learned: Path, tmp_path: Path) -> None:
    (tmp_path / "passage.txt").write_bytes(b"7 ships sank.\r\n9 came back.\r\n")
    (best,) = answers_about(learned, "how many?", tmp_path / "passage.txt", top=1)
    assert best.reading.passage.text == "7 ships sank.\n9 came back.\n"


def test_a_passage_that_is_too_long_is_said_to_be_cut(
    learned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passage.txt").write_text("7 ships of 9 sank . " * 200)
    asked = ["predict", str(learned), "how many ships?", "--passage", str(tmp_path / "passage.txt"), "--top", "1"]
    assert "too long" not in CliRunner().invoke(app, asked).output
    monkeypatch.setattr(window_module, "MOST_WINDOWS", 1)
    best = answers_about(learned, "how many ships?", tmp_path / "passage.txt", top=1)[0]
    assert 100 < best.read.passage < len(best.reading.passage) == 1200
    shown = " ".join(CliRunner().invoke(app, asked).output.split())
    assert f"read the first {best.read.passage} of 1,200 tokens" in shown


@pytest.mark.parametrize(
    ("content", "question", "message"),
    [
        (b"\xff\xfe7", "how many?", "expected UTF-8, found the byte 0xff at 1"),
        (b" \r\n", "how many?", "holds no text: the passage is empty"),
        (b"7 ships", " ", "question is empty"),
    ],
)
def test_bad_passages_and_questions_are_refused_in_words(
    learned: Path, tmp_path: Path, content: bytes, question: str, message: str
) -> None:
    (tmp_path / "passage.txt").write_bytes(content)
    with pytest.raises(BonafideError, match=message):
        answers_about(learned, question, tmp_path / "passage.txt", top=1)


def test_the_evidence_of_an_operand_is_cut_at_words_and_says_where_it_goes_on() -> None:
    reading = read("of 100?", "In the long war of 1648 the old town of Ghent fell within days.")
    program = parse_program('subtract(n0 "1648", m0 "100")', reading, Language())
    year, asked = operands(program, reading, Language())
    assert year.surroundings(reading, 12) == ("… war of ", "1648", " the old …")
    assert year.surroundings(reading, 200) == (
        "In the long war of ",
        "1648",
        " the old town of Ghent fell within days.",
    )
    assert (asked.source, asked.surroundings(reading, 9)) == ("question", ("of ", "100", "?"))
    constant = operands(parse_program('add(n0 "1648", c0 "100")', reading, Language()), reading, Language())[1]
    assert (constant.source, constant.pieces, constant.surroundings(reading)) == ("constant", (), None)


def test_gold_beyond_the_language_is_left_out_and_gold_that_is_no_program_is_an_error() -> None:
    reading = read("how many?", "7 of 9 or 8")
    three = Gold("one", {"program": 'add_add(n0 "7", n1 "9", n2 "8")'})
    assert gold_program(three, reading, Language()) is not None
    assert gold_program(three, reading, Language(max_operands=2)) is None
    for wrong in ({"program": 'value(n9 "7")'}, {"program": "seven"}, {"sql": "SELECT"}):
        with pytest.raises(BonafideError, match="gold of 'one'"):
            gold_program(Gold("one", wrong), reading, Language())


def test_there_is_a_drop_recipe_for_each_method_but_supervised() -> None:
    wanted = {f"drop-{method}" for method in METHODS if method not in ("supervised", "mimax+")}
    assert wanted <= set(named_recipes())
    for name in wanted:
        made = read_recipe(name)
        assert made.data.task == "discrete"
        assert made.language == DiscreteLearning.language_options()
        assert made.train.batch == 32


def test_a_wrong_language_of_a_recipe_is_refused_in_words() -> None:
    with pytest.raises(BonafideError, match="expected alike or any"):
        read_recipe("drop-mml", ["language.operands=some"])
    with pytest.raises(BonafideError, match="1 to 3 operands"):
        read_recipe("drop-mml", ["language.max_operands=4"])


def test_a_right_program_that_the_search_left_out_is_proposed_and_marked(data: Path, learned: Path) -> None:
    task, model = DiscreteLearning(), load(learned)
    items = load_training_data(recipe(data, "hard-em", data={"dev": "", "max_solutions": 1000}), data).items
    gold = read_gold(data / "train/gold.jsonl")
    without, known = [], []
    for item in items:
        reading = Reading(Passage(item.example.question), item.context)
        program = gold_program(gold[item.example.id], reading, Language())
        kept = [place for place, each in enumerate(item.solutions) if each != program]
        without.append(replace(item, solutions=item.solutions.picked(np.array(kept, dtype=np.int64))))
        known.append(program)
    proposed = proposals(model, without)
    assert len(proposed) > len(items) / 2  # it learned gold by heart
    for place, text in proposed:
        extended = task.extended(without[place], text, {"language": asdict(Language())})
        assert extended[-1] == known[place]
        assert extended.rule[-1] == Rule.MODEL
        assert extended[: len(without[place].solutions)] == without[place].solutions[:]
    assert proposals(model, items) == []  # what is in the set is not proposed again


def test_a_run_that_proposes_goes_on_to_the_same_weights_and_sets(data: Path, tmp_path: Path) -> None:
    """One program of each set is kept, so that there are others to be found."""
    changed = {
        "data": {"max_solutions": 1, "propose": True, "dev": ""},
        "train": {"epochs": 12.0, "evaluate_every": 1.0},
    }
    settings = recipe(data, "hard-em", **changed)

    def crash(progress: Progress) -> None:
        if progress.step == progress.steps - 7:
            raise KeyboardInterrupt

    train(settings, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "resumed", watcher=crash)
    train(settings, tmp_path / "resumed", resume=True)
    proposed = (tmp_path / "whole/proposed.jsonl").read_text()
    assert proposed
    assert (tmp_path / "resumed/proposed.jsonl").read_text() == proposed
    assert weights(tmp_path / "resumed") == weights(tmp_path / "whole")


def test_only_sets_that_are_not_complete_can_be_proposed_to(data: Path) -> None:
    with pytest.raises(BonafideError, match=r"data\.propose is for the task discrete"):
        recipe_from({"data": {"root": str(data), "propose": True}}, "a test")


def test_a_run_searches_what_the_command_searches() -> None:
    assert recipe_from({"data": {"task": "discrete"}}, "a test").language.language() == Language()


def test_a_gold_program_outside_the_language_is_wrong_and_counted(data: Path, learned: Path, tmp_path: Path) -> None:
    examples, model = data / "train/examples.jsonl", load(learned)
    lines = [json.loads(line) for line in (data / "train/gold.jsonl").read_text().splitlines()]
    whole = evaluate_discrete(model, learned, examples, gold=data / "train/gold.jsonl").figures
    spec = model.solver.spec
    model.solver.spec = replace(spec, language=replace(spec.language, max_operands=2))
    known = evaluate_discrete(model, learned, examples, gold=data / "train/gold.jsonl").figures
    assert known["logical_form"]["of"] == whole["logical_form"]["of"] == len(lines)
    assert sum(each["of"] for each in known["operands"].values()) < len(lines)
