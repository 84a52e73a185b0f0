"""Blind sheets of two methods: pairs, right answers, and what judgements say of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy import stats

from bonafide.errors import BonafideError, InvalidFileError
from bonafide.evaluate.predictions import write_predictions
from bonafide.evaluate.sql import SqlPrediction
from bonafide.examples import write_jsonl
from bonafide.explore.judge import Sheet
from bonafide.report.compare import Comparison, compare_runs
from bonafide.report.compare_page import tables, to_json
from bonafide.report.judging import judged_flips, read_judgements, right_answers, sheet, write_sheet
from bonafide.report.statistics import wilson
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query
from bonafide.tasks.sql.readers import read_tables
from compared_runs import ambiguous, known_in, predict, retold, runs, write_runs

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("data"))


@pytest.fixture
def known(data: Path) -> tuple[Comparison, list[str]]:
    return known_in(data)


def test_sides_that_were_exchanged_are_another_pair(known: tuple[Comparison, list[str]]) -> None:
    """Else what was said of the left one in a sheet would be counted for the other method after it was drawn anew."""
    one, other = ({pair.id: pair.left_from for pair in sheet(known[0], seed)} for seed in (0, 1))
    assert len(one) == len(other) == 10
    assert 0 < len(set(one) & set(other)) < 10
    assert all(one[name] == other[name] for name in set(one) & set(other))


def test_the_sheet_pairs_different_solutions_with_the_same_right_answer(
    known: tuple[Comparison, list[str]],
) -> None:
    found, names = known
    pairs = sheet(found)
    assert {pair.example for pair in pairs} == set(names[10:20])
    assert all(pair.left != pair.right for pair in pairs)
    assert {pair.left_from for pair in pairs} == {"hard-em", "mimax"}
    assert all({pair.left_from, pair.right_from} == {"hard-em", "mimax"} for pair in pairs)
    assert sheet(found) == pairs
    others = sheet(found, seed=1)
    assert {pair.example for pair in others} == {pair.example for pair in pairs}
    assert [pair.left for pair in others] != [pair.left for pair in pairs]
    assert len(sheet(found, most=4)) == 4


def test_judgements_say_whose_solution_is_right(known: tuple[Comparison, list[str]], tmp_path: Path) -> None:
    found, _ = known
    pairs = sheet(found)
    write_sheet(tmp_path / "judge.jsonl", pairs)

    def side(place: int, method: str) -> str:
        return "left" if pairs[place].left_from == method else "right"

    said = [
        (0, side(0, "mimax"), "a"),
        (1, side(1, "hard-em"), "a"),
        (1, side(1, "mimax"), "a"),  # a thought better of it
        (2, "both", "a"),
        (3, "neither", "a"),
        (4, "unsure", "a"),
        (5, side(5, "mimax"), "a"),
        (5, side(5, "mimax"), "b"),
        (6, "left", "a"),
        (6, "right", "b"),  # no majority
    ]
    lines = ({"id": pairs[place].id, "choice": choice, "judge": judge, "time": 0} for place, choice, judge in said)
    write_jsonl(tmp_path / "judge.judged.jsonl", lines)
    judgements = read_judgements(tmp_path / "judge.judged.jsonl")
    assert [(each.method, each.right, each.of) for each in judgements.verdicts] == [("hard-em", 1, 5), ("mimax", 4, 5)]
    assert judgements.verdicts[1].interval == wilson(4, 5)
    assert (judgements.judged_by_several, judgements.agreement) == (2, 1)


def test_what_the_judge_page_records_is_read_back(known: tuple[Comparison, list[str]], tmp_path: Path) -> None:
    write_sheet(tmp_path / "judge.jsonl", sheet(known[0]))
    page = Sheet(tmp_path / "judge.jsonl", "a")
    page.record(0, "both")
    page.record(1, "neither")
    judgements = read_judgements(page.judged)
    assert [(each.method, each.right, each.of) for each in judgements.verdicts] == [
        (each.name, each.right, each.of) for each in page.accuracies()
    ]


def test_pairs_that_only_one_gets_right_are_tested(known: tuple[Comparison, list[str]], tmp_path: Path) -> None:
    found, _ = known
    pairs = sheet(found)
    write_sheet(tmp_path / "judge.jsonl", pairs)
    said = [*(["mimax"] * 6), "hard-em", "both", "neither", "unsure"]
    sides = {"both": "both", "neither": "neither", "unsure": "unsure"}
    choices = [
        sides.get(each) or ("left" if pair.left_from == each else "right")
        for pair, each in zip(pairs, said, strict=True)
    ]
    write_jsonl(
        tmp_path / "judge.judged.jsonl",
        ({"id": pair.id, "choice": choice} for pair, choice in zip(pairs, choices, strict=True)),
    )
    judgements = read_judgements(tmp_path / "judge.judged.jsonl")
    tested = judged_flips(judgements, "hard-em", "mimax")
    assert (tested.gained, tested.lost, tested.p) == (6, 1, pytest.approx(stats.binomtest(6, 7).pvalue))
    verdicts, paired = tables(found, judgements)[-2:]
    assert "does not say how often a method is right" in verdicts.note
    assert "9 of 10 were judged with certainty" in verdicts.note
    assert paired.rows[0][1:3] == ["6", "1"]
    (listed,) = to_json(found, judgements)["judged_flips"]
    assert (listed["first"], listed["second"], listed["gained"], listed["lost"]) == ("hard-em", "mimax", 6, 1)
    write_sheet(tmp_path / "other.jsonl", [replace(pair, left_from="solver", right_from="mimax") for pair in pairs])
    write_jsonl(tmp_path / "other.judged.jsonl", [{"id": pairs[0].id, "choice": "both"}])
    with pytest.raises(BonafideError, match=r"sheet is of mimax and solver, and compared are hard-em, mimax"):
        tables(found, read_judgements(tmp_path / "other.judged.jsonl"))


def test_a_sample_of_right_answers_says_how_often_they_have_a_right_solution(
    known: tuple[Comparison, list[str]], tmp_path: Path
) -> None:
    found, names = known
    made = right_answers(found, most=15)
    drawn = {
        name: [pair.example for pair in made if name in (pair.left_from, pair.right_from)]
        for name in ("hard-em", "mimax")
    }
    assert [len(set(each)) for each in drawn.values()] == [15, 15]
    assert set(drawn["hard-em"]) <= set(names[:20])
    assert set(drawn["mimax"]) <= set(names[10:])
    assert all(pair.left == pair.right for pair in made)
    assert right_answers(found, most=15) == made != right_answers(found, seed=1, most=15)
    assert len(right_answers(found)) == 40  # all, of both
    write_sheet(tmp_path / "right.jsonl", made)
    page = Sheet(tmp_path / "right.jsonl", "a")
    for place, pair in enumerate(made):
        page.record(place, "both" if pair.left_from == "mimax" else "neither" if place % 2 else "left")
    judgements = read_judgements(page.judged)
    lefts = sum(pair.left_from == "hard-em" and not place % 2 for place, pair in enumerate(made))
    assert [(each.method, each.right, each.of) for each in judgements.verdicts] == [
        ("hard-em", lefts, 15), ("mimax", 15, 15),
    ]  # fmt: skip
    made_of = tables(found, judgements)[-1]
    assert made_of.title == "Right solutions of right answers, as people judge them"
    assert to_json(found, judgements)["judged_flips"] == []


def test_a_solution_that_both_methods_have_is_judged_once_for_both(data: Path, tmp_path: Path) -> None:
    names = set(ambiguous(data)[:8])
    for run in runs(data):
        predict(data, run, names, names)
    found = compare_runs(runs(data), data / "train" / "examples.jsonl", None, data / "solutions")
    assert sheet(found) == []
    made = right_answers(found)
    assert [(pair.left_from, pair.right_from) for pair in made] == [("hard-em", "mimax")] * 8
    write_sheet(tmp_path / "right.jsonl", made)
    write_jsonl(
        tmp_path / "right.judged.jsonl",
        ({"id": pair.id, "choice": choice} for pair, choice in zip(made, ("left", "neither"), strict=False)),
    )
    verdicts = read_judgements(tmp_path / "right.judged.jsonl").verdicts
    assert [(each.method, each.right, each.of) for each in verdicts] == [("hard-em", 1, 2), ("mimax", 1, 2)]


def test_a_sheet_is_not_written_over_the_one_that_was_judged(
    known: tuple[Comparison, list[str]], tmp_path: Path
) -> None:
    pairs, path = sheet(known[0]), tmp_path / "judge.jsonl"
    write_sheet(path, [])
    assert not path.exists()
    write_sheet(path, pairs)
    Sheet(path, "a").record(3, "both")
    before = path.read_bytes()
    with pytest.raises(
        BonafideError, match=r"judge\.judged\.jsonl holds judgements of 1 pairs that this sheet would not"
    ):
        write_sheet(path, pairs[:3])
    assert path.read_bytes() == before
    write_sheet(path, pairs[3:])
    assert read_judgements(tmp_path / "judge.judged.jsonl").choices == {pairs[3].id: "both"}


@pytest.mark.parametrize("name", ["judge.judged.jsonl", "pairs.json", "pairs", "pairs.jsonl.gz"])
def test_a_sheet_has_a_name_that_its_judgements_can_be_found_by(
    known: tuple[Comparison, list[str]], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("what people said\n")
    for tried in (lambda path: write_sheet(path, sheet(known[0])), lambda path: Sheet(path, "a")):
        with pytest.raises(BonafideError, match=r"is no name of a sheet: expected such as judge\.jsonl"):
            tried(tmp_path / name)
    assert (tmp_path / name).read_text() == "what people said\n"


def test_a_sheet_is_written_over_nothing_else_and_whatever_stands_in_its_judgements(
    known: tuple[Comparison, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "judge.jsonl"
    path.write_text('{"id": "e", "question": "how many?"}\n')
    with pytest.raises(BonafideError, match=r"judge\.jsonl exists and is no sheet"):
        write_sheet(path, sheet(known[0]))
    path.unlink()
    (tmp_path / "judge.judged.jsonl").write_text('{"id": ["x"], "choice": "left"}\n')
    with pytest.raises(BonafideError, match="holds judgements of 1 pairs that this sheet would not"):
        write_sheet(path, sheet(known[0]))


def test_answers_that_are_the_same_but_for_rounding_are_a_pair(data: Path, tmp_path: Path) -> None:
    """The mean of three times 2.7 is 2.7000000000000006."""
    table, examples = tmp_path / "sales.csv", tmp_path / "asked.jsonl"
    table.write_text("City,Weight\nOslo,2.7\nOslo,2.7\nOslo,2.7\nBonn,8\n")
    asked = [("q", "what is the largest weight in Oslo", 2.7), ("r", "the weight in Bonn", 8)]
    write_jsonl(examples, [{"id": i, "question": q, "answers": [a]} for i, q, a in asked])
    pair = [retold(data / name, tmp_path / name) for name in ("hard-em-5", "mimax-5")]
    for run, aggregate in zip(pair, (Aggregate.MEAN, Aggregate.MAX), strict=True):
        predictions = [
            SqlPrediction(name, Query(1, aggregate, frozenset({Condition(0, Operator.EQUAL, city)})), -1.0)
            for name, city in (("q", "oslo"), ("r", "bonn"))
        ]
        write_predictions(run / "predictions.jsonl", predictions, lambda _: read_tables(table)["sales"])
    assert {each.example for each in sheet(compare_runs(pair, examples, table=[table]))} == {"q", "r"}


def test_judgements_of_another_sheet_are_refused(tmp_path: Path) -> None:
    fields = ("id", "example", "question", "left", "right", "left_from", "right_from")
    write_jsonl(tmp_path / "judge.jsonl", [dict.fromkeys(fields, "x")])
    write_jsonl(tmp_path / "judge.judged.jsonl", [{"id": "y", "choice": "left"}, {"id": "x", "choice": "perhaps"}])
    with pytest.raises(InvalidFileError) as error:
        read_judgements(tmp_path / "judge.judged.jsonl")
    assert [each.field for each in error.value.problems] == ["id", "choice"]
    with pytest.raises(BonafideError, match="does not say which sheet"):
        read_judgements(tmp_path / "mine.jsonl")
