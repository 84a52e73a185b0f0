"""Comparing methods: figures that are the evaluation's own, tests, breakdowns, what cannot be compared."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.evaluate.predictions import write_predictions
from bonafide.evaluate.sql import SqlPrediction
from bonafide.examples import DateAnswer, Example, write_jsonl
from bonafide.files import content_hash
from bonafide.learn.saved import load
from bonafide.learn.sql import SqlAnswer
from bonafide.learn.trainer import train
from bonafide.report.cases import case_studies
from bonafide.report.compare import ANSWER, SOLUTION, Comparison, compare_runs
from bonafide.report.compare_page import described, tables, to_json
from bonafide.report.decoded import Decoded, hash_of_model, hash_of_tables, how_decoded
from bonafide.report.judging import read_judgements
from bonafide.report.predicted import answer_type
from bonafide.report.runs import evaluate_run
from bonafide.report.statistics import permutation_p, wilson
from bonafide.report.tabled import percent
from bonafide.sealed import read_sealed, write_sealed
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query
from bonafide.tasks.sql.readers import read_tables
from compared_runs import ambiguous, known_in, predict, retold, runs, write_runs
from tiny_runs import recipe

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("data"))


@pytest.fixture
def known(data: Path) -> tuple[Comparison, list[str]]:
    return known_in(data)


def test_figures_are_those_of_the_evaluation_and_tests_are_scipys(data: Path) -> None:
    examples, gold = data / "dev" / "examples.jsonl", data / "dev" / "gold.jsonl"
    figures = {run: evaluate_run(run, examples, gold=gold).figures for run in runs(data)}
    found = compare_runs(runs(data), gold=gold)  # the dev examples of the recipe
    assert [(method.name, list(method.runs)) for method in found.methods] == [("hard-em", [5, 6]), ("mimax", [5, 6])]
    assert [row[:2] for row in tables(found)[0].rows] == [["hard-em", "2 (5, 6)"], ["mimax", "2 (5, 6)"]]
    for method in found.methods:
        for figure, name in ((ANSWER, "execution"), (SOLUTION, "logical_form")):
            expected = [figures[run][name]["share"] for run in method.runs.values()]
            assert method.right(figure).mean(axis=1).tolist() == pytest.approx(expected)
    (answer, _) = found.contrasts["mimax"]
    one, other = (method.right(ANSWER).mean(axis=1) for method in found.methods)
    assert answer.difference == pytest.approx((other - one).mean())
    if not np.allclose(other - one, (other - one)[0]):
        assert answer.seeds.p == pytest.approx(stats.ttest_rel(other, one).pvalue)


def test_examples_on_one_table_go_together_where_there_are_ten_tables(data: Path) -> None:
    found, _ = known_in(data)
    contexts = [each.context for each in found.asked.examples.values()]
    assert len(set(contexts)) < 10
    (said,) = (each.note for each in tables(found) if " against " in each.title)
    assert f"The examples are of {len(set(contexts))} contexts and taken as independent" in said
    of = {
        name: replace(each, context=str(place // 3)) for place, (name, each) in enumerate(found.asked.examples.items())
    }
    grouped = replace(found, asked=replace(found.asked, examples=of))
    (answer, _), (alone, _) = grouped.contrasts["mimax"], found.contrasts["mimax"]
    assert answer.p == permutation_p(*(each.right(ANSWER).mean(axis=0) for each in found.methods), grouped.units)
    assert answer.interval != alone.interval
    assert answer.difference == alone.difference
    (said,) = (each.note for each in tables(grouped) if " against " in each.title)
    assert f"resampled and exchanged together ({-(-len(of) // 3)} contexts)" in said


def test_a_run_without_predictions_is_evaluated_first(data: Path) -> None:
    for run in runs(data):
        (run / "predictions.jsonl").unlink(missing_ok=True)
    found = compare_runs(runs(data))
    assert all((run / "predictions.jsonl").exists() for run in runs(data))
    assert not found.has_gold
    assert found.methods[0].right(ANSWER).shape == (2, 6)
    assert set(found.sizes) == set(found.asked.examples)


def test_columns_are_read_as_they_are_said_to_be(data: Path, tmp_path: Path) -> None:
    table, examples, types = tmp_path / "sales.csv", tmp_path / "asked.jsonl", {"Units": "text"}
    table.write_text("City,Units\nOslo,3\nLyon,3\nBonn,8\n")
    asked = [("q", "how many in Oslo", 3), ("r", "how many in Bonn", "8")]
    write_jsonl(examples, [{"id": i, "question": q, "answers": [a]} for i, q, a in asked])
    pair = [tmp_path / name for name in ("hard-em-5", "mimax-5")]
    for run in pair:
        shutil.copytree(data / run.name, run, ignore=shutil.ignore_patterns("predictions*"))
    common = ["--examples", str(examples), "--table", str(table)]
    typed = [*common, "--type", "Units=text"]
    evaluated = CliRunner().invoke(app, ["evaluate", str(pair[0]), *typed])
    assert evaluated.exit_code == 0, evaluated.output
    found = compare_runs(pair, examples, table=[table], types=types)  # the second is evaluated as the first was
    assert found.asked.context_of(found.asked.examples["q"]).types == ("text", "text")
    (said,) = (each.note for each in tables(found) if " against " in each.title)
    assert "The examples are of 1 context and taken as independent: nothing is said of other contexts." in said
    made = [how_decoded(run / "predictions.jsonl") for run in pair]
    assert [each and each.tables for each in made] == [hash_of_tables([table], types)] * 2
    refused = CliRunner().invoke(app, ["compare", *map(str, pair), *common])
    assert "made on other tables, or with other types of their columns. Run bonafide" in str(refused.exception)
    assert f"--examples {examples} --table {table} first." in str(refused.exception)
    for run in pair:  # of predictions from elsewhere nothing is known; the same query has another answer by type
        cities = [Condition(0, Operator.EQUAL, city) for city in ("oslo", "bonn")]
        predictions = [
            SqlPrediction(name, Query(1, Aggregate.NONE, frozenset({city})), -1.0)
            for (name, *_), city in zip(asked, cities, strict=True)
        ]
        write_predictions(run / "predictions.jsonl", predictions, lambda _: read_tables(table)["sales"])
    said = []
    for read, options, right in (({}, common, [True, False]), (types, typed, [False, True])):
        assert compare_runs(pair, examples, table=[table], types=read).methods[0].right(ANSWER).tolist() == [right]
        said.append(CliRunner().invoke(app, ["compare", *map(str, pair), *options, "--json"]).stdout)
    assert json.loads(said[0]) != json.loads(said[1])
    dev = ["--examples", str(data / "dev" / "examples.jsonl")]
    refused = CliRunner().invoke(app, ["evaluate", str(pair[0]), *dev, "--type", "Units=text"])
    assert "--type goes with --table" in str(refused.exception)


def test_several_files_of_tables_are_told_apart_by_their_names_in_any_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("city\nOslo\n")
    two.write_text("city\nLyon\n")
    before = hash_of_tables([one, two], {})
    assert hash_of_tables([two, one], {}) == before
    one.write_text("city\nLyon\n")
    two.write_text("city\nOslo\n")
    assert hash_of_tables([two, one], {}) != before
    assert hash_of_tables([one, two], {}) != before


def test_predictions_of_an_earlier_model_are_refused(data: Path, tmp_path: Path) -> None:
    pair, examples = [tmp_path / name for name in ("hard-em-5", "mimax-5")], data / "dev" / "examples.jsonl"
    for run in pair:
        shutil.copytree(data / run.name, run, ignore=shutil.ignore_patterns("predictions*"))
    compare_runs(pair, examples)
    shutil.copytree(data / "mimax-6" / "model", pair[1] / "model", dirs_exist_ok=True)
    with pytest.raises(BonafideError, match=r"mimax-5.* was made by an earlier model of this run\. Run bonafide"):
        compare_runs(pair, examples)


def test_predictions_that_were_made_otherwise_are_refused(data: Path, tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("hard-em-5", "mimax-5"))
    for run in (first, second):
        shutil.copytree(data / run.name, run)
        (run / "predictions.jsonl").unlink(missing_ok=True)
    examples, moved = data / "dev" / "examples.jsonl", tmp_path / "dev" / "examples.jsonl"
    evaluate_run(first, examples, beam=3, execution_guided=True)
    found = compare_runs([first, second], examples)  # the second is evaluated as the first was
    assert " Decoded with --beam 3 --execution-guided. " in described(found)
    evaluate_run(second, examples, beam=3, execution_guided=True, reconstruction=0.3)
    assert "--execution-guided, mimax with --reconstruction 0.3. " in described(compare_runs([first, second], examples))
    evaluate_run(second, examples, beam=3, execution_guided=True)
    read = hash_of_tables([examples.parent / "tables.jsonl"], {})
    assert [how_decoded(run / "predictions.jsonl") for run in (first, second)] == [
        Decoded(content_hash(examples), 3, True, 0.0, read, hash_of_model(run)) for run in (first, second)
    ]
    evaluate_run(second, examples)
    with pytest.raises(
        BonafideError, match=r"--beam 3 --execution-guided, .*mimax-5.* with --beam 1: .* decoded alike"
    ):
        compare_runs([first, second], examples)
    shutil.copytree(data / "dev", moved.parent)
    lines = moved.read_text().splitlines()
    moved.write_text("\n".join([lines[0].replace('"question": "', '"question": "so '), *lines[1:]]) + "\n")
    with pytest.raises(BonafideError, match="on other examples"):
        compare_runs([first, second], moved)
    write_jsonl(first / "predictions.jsonl", [])  # by another program: nothing is known of it
    assert how_decoded(first / "predictions.jsonl") is None


def test_seeds_of_one_method_are_decoded_with_the_same_vote(data: Path, tmp_path: Path) -> None:
    base, first, second = (
        shutil.copytree(data / name, tmp_path / name, ignore=shutil.ignore_patterns("predictions*"))
        for name in ("hard-em-5", "mimax-5", "mimax-6")
    )
    examples = data / "dev" / "examples.jsonl"
    evaluate_run(first, examples, beam=3, reconstruction=0.3)
    found = compare_runs([base, first, second], examples)  # the others of its method vote as it did
    made = [how_decoded(run / "predictions.jsonl") for run in (base, first, second)]
    assert [(each.beam, each.reconstruction) for each in made if each] == [(3, 0.0), (3, 0.3), (3, 0.3)]
    assert "Decoded with --beam 3, mimax with --reconstruction 0.3. " in described(found)
    evaluate_run(second, examples, beam=3)
    with pytest.raises(
        BonafideError,
        match=r"mimax-5.* was made with --reconstruction 0\.3, .*mimax-6.* with --reconstruction 0: the seeds of one "
        rf"method must be decoded alike\. Run bonafide evaluate .*mimax-6 --examples {examples} --beam 3 --reconstr",
    ):
        compare_runs([base, first, second], examples)


def test_case_studies_are_right_answers_by_different_solutions_the_most_telling_first(
    known: tuple[Comparison, list[str]], data: Path
) -> None:
    found, names = known
    cases = case_studies(found, most=4)
    assert cases is not None
    assert (cases.by, cases.found) == ("mimax", 10)
    model = load(data / "mimax-5")
    gains = {}
    for example in (found.asked.examples[name] for name in names[10:20]):  # both are right
        wrong, right = (each.predicted[5][list(found.asked.examples).index(example.id)] for each in found.methods)
        pair = [(found.asked.context(example), example.question)]
        scores = model.explained(pair, [[answered(wrong.solution), answered(right.solution)]])[0]
        gains[example.id] = abs(float(scores[1] - scores[0]))
    assert {each.example.id for each in cases.shown} <= set(gains)
    told = [gains[each.example.id] for each in cases.shown]
    assert told == pytest.approx(sorted(gains.values(), reverse=True)[:4], abs=1e-4)
    for each in cases.shown:
        assert [(entry.name, entry.right) for entry in each.entries] == [("hard-em", False), ("mimax", True)]
        assert each.entries[0].text != each.entries[1].text
    page = cases.html()
    assert page.count("<article>") == 4
    assert "10 questions are answered rightly by all methods, but not by the same query" in page
    assert page.count("✗") == page.count("✓") == 4


def answered(query: Query) -> SqlAnswer:
    return SqlAnswer(query, "", [], None, 0.0)


def test_without_a_reconstructor_there_are_no_case_studies(data: Path) -> None:
    settings = recipe(data, "mml", train={"seed": 5, "epochs": 1.0, "checkpoint_every": 1000})
    train(settings, data / "mml-5")
    (data / "hard-em-5" / "predictions.jsonl").unlink(missing_ok=True)  # of a test before: on other examples
    assert case_studies(compare_runs([data / "hard-em-5", data / "mml-5"])) is None


def test_counts_that_were_made_by_hand(known: tuple[Comparison, list[str]]) -> None:
    found, _ = known
    answer, solution = found.contrasts["mimax"]
    assert answer.difference == 0.0
    assert {(each.gained, each.lost) for each in answer.flips.values()} == {(10, 10)}
    assert answer.p == 1.0
    assert solution.difference == pytest.approx(20 / 48)
    assert {(each.gained, each.lost) for each in solution.flips.values()} == {(20, 0)}
    assert solution.interval.low > 0.2
    assert (solution.seeds.difference, solution.seeds.p) == (pytest.approx(20 / 48), None)
    assert (answer.seeds.p, answer.seeds.effect) == (1.0, 0.0)
    made = next(each for each in tables(found) if each.title == "mimax against hard-em")
    assert [row[3:] for row in made.rows] == [["+0.0 [+0.0, +0.0]", "1.000", "+0.00"], ["+41.7", "–", "–"]]
    assert "there is no spread to test it by" in made.note
    said = to_json(found)["contrasts"]["mimax"]
    assert [said[1]["seeds"][name] for name in ("interval", "p", "effect")] == [None, None, None]
    assert [each["flips"]["5"]["odds"] for each in said] == [1.0, "Infinity"]
    assert {seed: (each.gained, each.lost) for seed, each in found.reasons["mimax"].items()} == {5: (10, 0), 6: (10, 0)}
    first, second = found.methods
    assert first.genuine_when_right() == (0.0, wilson(0, 20))
    assert second.genuine_when_right() == (1.0, wilson(20, 20))


def test_where_no_answer_is_right_nothing_is_said_of_their_reasons(data: Path) -> None:
    for run in runs(data):
        predict(data, run, set(), set())
    found = compare_runs(runs(data), data / "train" / "examples.jsonl", data / "train" / "gold.jsonl")
    assert [each.genuine_when_right() for each in found.methods] == [None, None]
    assert [row[-1] for row in tables(found)[0].rows] == ["–", "–"]


def test_without_a_seed_in_common_means_are_compared_and_no_flips_counted(
    known: tuple[Comparison, list[str]], data: Path
) -> None:
    examples, gold = data / "train" / "examples.jsonl", data / "train" / "gold.jsonl"
    found = compare_runs([data / "hard-em-5", data / "mimax-6"], examples, gold, data / "solutions")
    assert found.contrasts["mimax"][1].difference == pytest.approx(20 / 48)
    assert not any("flip" in each.title for each in tables(found))
    assert to_json(found)["reasons"] == {"mimax": {}}


def test_breakdowns_count_every_example_once(known: tuple[Comparison, list[str]]) -> None:
    found, _ = known
    for groups in (found.by_set_size(ANSWER), found.by_answer_type(ANSWER)):
        for method in ("hard-em", "mimax"):
            assert sum(each.of for each in groups[method].values()) == 48
            assert sum(each.right for each in groups[method].values()) == pytest.approx(20)
    sizes = found.by_set_size(ANSWER)["mimax"]
    assert list(sizes) == [name for name in ("1", "2–9", "10–99", "100–999", "1,000+") if name in sizes]


def test_breakdowns_are_means_over_seeds_and_not_rounded(data: Path) -> None:
    """One right answer under one of two seeds is half of one."""
    name = ambiguous(data)[0]
    for run, right in zip(runs(data), ({name}, set(), set(), set()), strict=True):
        predict(data, run, right, set())
    found = compare_runs(runs(data), data / "train" / "examples.jsonl", None, data / "solutions")
    shown = {cell for table in tables(found) for row in table.rows for cell in row}
    for groups in (found.by_set_size(ANSWER), found.by_answer_type(ANSWER)):
        (part,) = [each for each in groups["hard-em"].values() if each.right]
        assert (part.right, part.share) == (0.5, 0.5 / part.of)
        assert percent(part.share, wilson(0.5, part.of)) in shown
    (said,) = [each for each in to_json(found)["by_set_size"][ANSWER]["hard-em"].values() if each["right"]]
    assert said["share"] == 0.5 / said["of"]


def test_types_of_answers() -> None:
    def of(*answers: object, task: str = "sql") -> str:
        return answer_type(Example("a", "q", None, answers), task)

    assert [of(3), of("3,000"), of("oslo"), of("a", "b"), of(), of(None)] == [
        "number", "number", "text", "several", "nothing", "nothing",
    ]  # fmt: skip
    assert of("Oslo", "Kristiania", task="reading") == "text"
    assert [of("Infinity"), of("nan")] == ["text", "text"]
    dates = DateAnswer("", "May", "1648"), ("Oslo", "Riga")
    assert [of(each, task="discrete") for each in (3, "3", *dates)] == ["number", "span", "date", "spans"]  # as DROP's


def test_the_command_writes_tables_page_and_sheet(known: tuple[Comparison, list[str]], data: Path) -> None:
    options = ["--examples", data / "train" / "examples.jsonl", "--gold", data / "train" / "gold.jsonl"]
    outputs = ["--markdown", data / "c.md", "--html", data / "c.html", "--sheet", data / "judge.jsonl"]
    done = CliRunner().invoke(app, ["compare", *map(str, [*runs(data), *options, *outputs])])
    assert done.exit_code == 0, done.output
    assert "10 pairs to judge" in done.stderr
    asked = [*map(str, [*runs(data), *options]), "--right-answers"]
    done = CliRunner().invoke(app, ["compare", *asked, "--sheet", str(data / "right.jsonl")])
    assert "40 right answers to judge" in done.stderr
    assert "add --sheet" in str(CliRunner().invoke(app, ["compare", *asked]).exception)
    first = json.loads((data / "judge.jsonl").read_text().splitlines()[0])
    assert set(first) == {
        "id", "example", "question", "context", "answer", "left", "right", "left_from", "right_from",
    }  # fmt: skip
    assert "+41.7" in (data / "c.md").read_text()
    page = (data / "c.html").read_text()
    assert "Case studies: the same right answer by different solutions" in page
    assert page.count("<svg") == 4
    assert "F1" not in page  # SQL has none
    assert "http" not in page
    assert "<script" not in page
    judged = {"id": first["id"], "choice": "both", "judge": "a", "time": 0}
    write_jsonl(data / "judge.judged.jsonl", [judged])
    figures = json.loads(json.dumps(to_json(known[0], read_judgements(data / "judge.judged.jsonl"))))
    assert any(
        "as people judge" in each.title for each in tables(known[0], read_judgements(data / "judge.judged.jsonl"))
    )
    assert [(each["method"], each["right"], each["of"]) for each in figures["judged"]] == [
        ("hard-em", 1, 1), ("mimax", 1, 1),
    ]  # fmt: skip
    assert (figures["reasons"]["mimax"]["5"]["gained"], figures["reasons"]["mimax"]["5"]["odds"]) == (10, "Infinity")
    assert any(
        line.startswith("| right solution where both answers are right, seed 5 | 10 | 0 |")
        for line in (data / "c.md").read_text().splitlines()
    )
    assert figures["methods"]["mimax"]["right solution"] == pytest.approx([20 / 48, 20 / 48])


@pytest.mark.parametrize("option", ["--html", "--markdown"])
def test_a_folder_in_place_of_a_file_is_refused_before_anything_is_predicted_or_written(
    data: Path, tmp_path: Path, option: str
) -> None:
    lone = [retold(run, tmp_path / run.name) for run in runs(data)]
    other = {"--html": "--markdown", "--markdown": "--html"}[option]
    asked = ["--examples", data / "train" / "examples.jsonl", option, tmp_path, other, tmp_path / "written"]
    done = CliRunner().invoke(app, ["compare", *map(str, [*lone, *asked])])
    assert str(done.exception) == f"Cannot write {tmp_path}: it is a folder, and a file was expected."
    assert not (tmp_path / "written").exists()
    assert not [path for run in lone for path in run.glob("predictions*")]


def test_runs_and_figures_are_listed_in_the_same_order_whatever_that_of_the_command_line(data: Path) -> None:
    """As of ``runs/a-*``, where the shell puts seed 10 before seed 2."""
    names = ambiguous(data)
    for count, run in enumerate(runs(data), start=1):
        predict(data, run, set(names[:count]), set())
    found = compare_runs(runs(data)[::-1], data / "train" / "examples.jsonl", None, data / "solutions")
    said = to_json(found)["methods"]["hard-em"]
    assert list(said["runs"].items()) == [("5", str(data / "hard-em-5")), ("6", str(data / "hard-em-6"))]
    assert said[ANSWER] == pytest.approx([1 / 48, 2 / 48])


def test_the_dev_file_of_own_pairs_is_found_in_the_run(data: Path, tmp_path: Path) -> None:
    copies = [retold(data / name, tmp_path / name, data={"dev": ""}) for name in ("hard-em-5", "mimax-5")]
    with pytest.raises(BonafideError, match="hard-em-5 was trained without dev examples"):
        compare_runs(copies)
    shutil.copytree(data / "dev", tmp_path / "hard-em-5/data/dev")
    assert compare_runs(copies).methods[0].right(ANSWER).shape == (1, 6)


def test_what_a_recipe_names_is_found_from_any_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = {"root": data.name, "solutions": f"{data.name}/solutions"}
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(data, tmp_path / data.name, ignore=shutil.ignore_patterns("mimax-*", "hard-em-*"))
    copies = [retold(data / name, tmp_path / "runs" / name, data=inside) for name in ("hard-em-5", "mimax-5")]
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = compare_runs(copies)
    assert found.methods[0].right(ANSWER).shape == (1, 6)
    assert "stores are gone" not in described(found)


def test_a_setting_is_the_same_with_and_without_a_point(data: Path, tmp_path: Path) -> None:
    options = [{"options": {"switch": switch}} for switch in (4, 4.0, 4.5)]
    copies = [retold(data / "mimax-5", tmp_path / str(n), objective=each) for n, each in enumerate(options)]
    for number, copy in enumerate(copies):
        values = read_sealed(copy / "recipe.json")
        write_sealed(copy / "recipe.json", values | {"train": values["train"] | {"seed": number}})
    copies.append(retold(data / "hard-em-5", tmp_path / "hard-em"))
    found = compare_runs(copies, data / "dev/examples.jsonl")
    assert [list(method.runs) for method in found.methods] == [[0, 1], [2], [5]]


def test_what_cannot_be_compared_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BonafideError, match="needs runs of two methods; found mimax alone"):
        compare_runs([data / "mimax-5", data / "mimax-6"])
    shutil.copytree(data / "mimax-5", tmp_path / "again")
    with pytest.raises(BonafideError, match="the same method with the same seed 5"):
        compare_runs([data / "hard-em-5", data / "mimax-5", tmp_path / "again"])
    with pytest.raises(BonafideError, match="holds no run"):
        compare_runs([data / "hard-em-5", data / "train"])
    values = read_sealed(tmp_path / "again" / "recipe.json")
    write_sealed(tmp_path / "again" / "recipe.json", values | {"data": values["data"] | {"task": "reading"}})
    with pytest.raises(BonafideError, match="found runs of reading and sql"):
        compare_runs([data / "hard-em-5", tmp_path / "again"])
    write_sealed(tmp_path / "again" / "recipe.json", values)
    shutil.rmtree(tmp_path / "again" / "model")
    with pytest.raises(BonafideError, match=r"its training has saved none yet\. Go on with it by .* --resume"):
        evaluate_run(tmp_path / "again", data / "dev" / "examples.jsonl")
    shutil.copytree(data / "mimax-5" / "model", tmp_path / "again" / "model")
    write_jsonl(tmp_path / "again" / "predictions.jsonl", [])
    (tmp_path / "again" / "predictions.sums").unlink(missing_ok=True)
    with pytest.raises(BonafideError, match="holds no predictions"):
        compare_runs([tmp_path / "again", data / "hard-em-5"])


def test_a_note_on_predictions_that_was_spoilt_by_hand_is_refused_in_a_sentence(data: Path, tmp_path: Path) -> None:
    pair = [retold(data / name, tmp_path / name) for name in ("hard-em-5", "mimax-5")]
    examples = data / "dev" / "examples.jsonl"
    compare_runs(pair, examples)
    note = pair[1] / "predictions.made.json"
    said = read_sealed(note)
    for spoilt in ({"predictions": None}, {"examples": None}, {"beam": "wide"}, {"beams": 3}):
        values = {name: value for name, value in {**said, **spoilt}.items() if value is not None}
        note.write_text(json.dumps(values))
        with pytest.raises(BonafideError, match=r"predictions\.made\.json is not as bonafide evaluate writes it"):
            compare_runs(pair, examples)
