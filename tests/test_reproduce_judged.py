"""How a run of a table is judged: as its own evaluation judges it, on all three tasks."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.evaluate.headers import read_headers, right_by_headers
from bonafide.examples import write_jsonl
from bonafide.learn.saved import Model, load
from bonafide.report.runs import evaluate_run
from bonafide.report.runs_discrete import evaluate_discrete
from bonafide.report.runs_reading import evaluate_reading
from bonafide.reproduce import judged
from bonafide.reproduce.one_run import run_job
from bonafide.reproduce.results import packed
from bonafide.reproduce.runs import Asked, fill, missing, planned, results_of
from bonafide.reproduce.shown import write_table
from bonafide.reproduce.tables import table
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import PLAIN, write_reading_benchmark
from bonafide.tasks.sql.solver import SqlSolver
from by_path import module_at
from reproduced import TINY, lines_of, trained, write_data
from tiny_bart import write_bart

torch.set_num_threads(1)


def test_programs_of_a_method_without_a_reconstructor_are_guided_by_a_beam_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, beams, predict_all = tmp_path / "data", [], Model.predict_all

    def noted(self: Model, asked: Any, top: int = 1, beam: int = 1, *others: Any, **named: Any) -> list[list[Any]]:
        beams.append(beam)
        return predict_all(self, asked, top, beam, *others, **named)

    monkeypatch.setattr(Model, "predict_all", noted)
    write_discrete_benchmark(data / "train", seed=1, passages=4, questions=6, scenes=("games",))
    write_discrete_benchmark(data / "dev", seed=1, passages=2, questions=6, split="dev", scenes=("games",))
    result, run = trained("discrete-synthetic", data, tmp_path / "out", row="mml")
    assert 20 in beams
    dev = data / "dev"
    own = evaluate_discrete(load(run), run, dev / "examples.jsonl", gold=dev / "gold.jsonl", beam=20).figures
    assert result.figure("f1-guided") == pytest.approx(own["f1"], abs=1e-3)
    assert result.figure("solution-guided") == own["logical_form"]["share"]


def test_programs_are_judged_as_their_own_evaluation_judges_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged, "RECONSTRUCTION", 1000.0)  # so that it has its way
    data = tmp_path / "data"
    write_discrete_benchmark(data / "train", seed=1, passages=4, questions=6, scenes=("games",))
    write_discrete_benchmark(data / "dev", seed=1, passages=2, questions=6, split="dev", scenes=("games",))
    result, run = trained("discrete-synthetic", data, tmp_path / "out")
    dev = data / "dev"
    own = evaluate_discrete(load(run), run, dev / "examples.jsonl", gold=dev / "gold.jsonl").figures
    assert result.figure("answer") == own["execution"]["share"]
    assert result.figure("solution") == own["logical_form"]["share"]
    assert result.figure("f1") == pytest.approx(own["f1"], abs=1e-3)
    answer, types = result.flags("answer"), result.types
    assert answer is not None
    assert types is not None
    by_type = {kind: answer[types == kind].mean() for kind in set(types.tolist())}
    assert by_type == {kind: each["execution"]["share"] for kind, each in own["answer_types"].items()}
    assert len(by_type) > 1
    passages = [each["context"] for each in lines_of(dev / "examples.jsonl")]
    numbers = result.contexts("answer")
    assert numbers is not None
    assert len(set(zip(passages, numbers.tolist(), strict=True))) == len(set(passages)) == len(set(numbers.tolist()))
    assert result.content["figures"]["selection"]["examples"] > 0
    voted = {"beam": 20, "reconstruction": 1000.0}
    own = evaluate_discrete(load(run), run, dev / "examples.jsonl", gold=dev / "gold.jsonl", **voted).figures
    assert result.figure("answer-guided") == own["execution"]["share"]
    assert result.figure("solution-guided") == own["logical_form"]["share"]
    assert result.figure("f1-guided") == pytest.approx(own["f1"], abs=1e-3)
    del result.content["values"]["guided_f1"]  # as results of earlier versions are
    flags = result.content["flags"]
    flags["guided_answer"] = packed(~result.flags("answer"))
    assert result.figure("f1-guided") is None
    flags["guided_answer"] = flags["answer"]  # without a vote
    assert result.figure("f1-guided") == result.figure("f1")


def test_mentions_are_judged_as_their_own_evaluation_judges_them_and_learned_from_the_hardest(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_reading_benchmark(data / "train", 1, 8, 4)
    write_reading_benchmark(data / "dev", 1, 3, 4, split="dev")
    result, run = trained("reading", data, tmp_path / "out", "data.largest=0.5")
    dev = data / "dev"
    own = evaluate_reading(load(run), run, dev / "examples.jsonl", gold=dev / "gold.jsonl").figures
    assert result.figure("answer") == own["execution"]["share"]
    assert result.figure("solution") == own["mention"]["share"]
    assert result.figure("f1") == pytest.approx(own["f1"], abs=1e-3)
    assert result.figure("solution-several") is not None
    assert result.content["trained_on"]["used"] == 16
    assert result.content["settings"]["data"]["largest"] == 0.5
    assert any(each.name.endswith("-0.5") for each in (tmp_path / "out" / "work" / "solutions").iterdir())


def test_plain_questions_beside_the_data_are_judged_by_their_answers(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_reading_benchmark(data / "train", 1, 8, 4)
    write_reading_benchmark(data / "dev", 1, 3, 4, split="dev")
    before, run = trained("reading", data, tmp_path / "out")
    assert before.figure("answer-plain") is None
    plain = write_reading_benchmark(data / PLAIN, 1, 3, 4, decoys=0, split="dev")
    found = evaluate_reading(load(run), run, plain.examples, out=tmp_path / "plain.jsonl").answers
    asked = lines_of(plain.examples)
    right = [place % 3 == 0 for place in range(len(asked))]
    for each, flag in zip(asked, right, strict=True):
        said = found[each["id"]]
        assert said is not None
        each["answers"] = [said.answer if flag else "something else"]
    write_jsonl(plain.examples, asked)
    before.path.unlink()
    result, _ = trained("reading", data, tmp_path / "out")  # the model is there, and is judged again
    measured = result.measured("answer-plain")
    assert measured is not None
    assert measured[0].astype(bool).tolist() == right
    assert result.figure("answer") == before.figure("answer")


PARSERS = ("hard-em", "bart-parser")


@pytest.mark.slow
def test_a_bart_as_parser_is_judged_on_the_same_candidates_and_refused_where_there_is_none(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    whole = table("sql-selection")
    common = (*whole.common, "solver.encoder=scratch", "data.largest=1.0", "language.max_conditions=2", *TINY)
    wanted, asked = dataclasses.replace(whole, common=common), Asked(tmp_path / "out", data, 1, PARSERS)
    said: list[str] = []
    filled = fill([wanted], asked, report=said.append)[wanted.name]
    assert [name.startswith("wikisql-hard-hard-em-") for name in filled.done] == [True]
    assert list(filled.failed) == ["BART as parser, HardEM"]
    assert said[0] == (
        "BART as parser, HardEM: not run. It needs a BART: name one with --bart, as a folder or by hub name (the "
        "paper's is facebook/bart-base)."
    )
    questions = [json.loads(line)["question"] for line in (data / "train" / "examples.jsonl").read_text().splitlines()]
    asked = dataclasses.replace(asked, bart=str(write_bart(tmp_path / "tiny-bart", questions)))
    assert not fill([wanted], asked)[wanted.name].failed
    assert not missing(wanted, asked)
    slots, parser = (results_of(wanted, asked)[name][0] for name in PARSERS)
    assert slots.content["settings"]["solver"]["kind"] == "slots"
    assert parser.content["settings"]["solver"]["encoder"] == "tiny-bart"
    assert parser.content["flags"]["asked"] == slots.content["flags"]["asked"]
    for mine, other in zip(parser.content["curve"], slots.content["curve"], strict=True):
        assert (mine["epoch"], mine["candidates"], mine["examples"]) == (
            other["epoch"], other["candidates"], other["examples"],
        )  # fmt: skip
        assert mine["confidence"] < 0
    write_table(wanted, asked)
    page = (tmp_path / "out" / "sql-selection.md").read_text()
    assert "| BART as parser, HardEM: confidence |" in page
    assert "| BART as parser, HardEM: in the paper | 65.1 % | 60.8 % |" in page
    assert "BART as parser, HardEM" in (tmp_path / "out" / "sql-selection-curve.svg").read_text()
    assert str(tmp_path) not in page


def test_official_questions_beside_the_data_are_judged_by_headers_alone(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    tables = {each["id"]: each["header"] for each in lines_of(data / "dev" / "tables.jsonl")}
    gold = {each["id"]: each["solution"] for each in lines_of(data / "dev" / "gold.jsonl")}
    questions, headers = (data / name for name in judged.OFFICIAL)
    asked = [
        {"question": each["question"], "table_id": each["context"], "sql": gold[each["id"]]}
        for each in lines_of(data / "dev" / "examples.jsonl")
    ]
    write_jsonl(questions, asked)
    wanted = Asked(tmp_path / "out", data, 1, ("gold",), (*TINY, "solver.encoder=scratch"))
    (job,) = planned(table("sql-full-untyped"), wanted)
    with pytest.raises(BonafideError, match=r"holds official-dev.jsonl: expected one each of"):
        run_job(job.content)
    assert not Path(job.content["run"]).exists()  # it is said before anything is trained
    write_jsonl(headers, ({"id": name, "header": header} for name, header in tables.items()))
    run_job(job.content)
    (result,) = results_of(table("sql-full-untyped"), wanted)["gold"]
    solver = load(Path(job.content["run"])).solver
    assert isinstance(solver, SqlSolver)
    right = right_by_headers(solver, read_headers(questions, headers))
    assert len(right) == len(asked)
    assert result.figure("solution-headers") == pytest.approx(right.mean())
    other = dataclasses.replace(result, path=result.path.with_name(result.path.name.replace("-0.json", "-1.json")))
    other.content["headers"]["ids"] = "others"
    other.content["seed"] = 1
    other.write()
    with pytest.raises(BonafideError, match="different official dev questions"):
        results_of(table("sql-full-untyped"), wanted)


def test_guided_predictions_are_those_of_evaluate_with_a_beam(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    asked = Asked(tmp_path / "out", data, 1, ("mimax+",), TINY)
    (job,) = planned(table("sql-hard"), asked)
    run_job(job.content)
    (result,) = results_of(table("sql-hard"), asked)["mimax+"]
    dev, run = data / "dev", Path(job.content["run"])
    own = evaluate_run(
        run, dev / "examples.jsonl", gold=dev / "gold.jsonl", beam=20, execution_guided=True, reconstruction=0.3
    ).figures
    assert result.figure("answer-guided") == own["execution"]["share"]
    assert result.figure("solution-guided") == own["logical_form"]["share"]
    (store,) = (tmp_path / "out" / "work" / "solutions").glob("sql-dev-*")
    votes = module_at("benchmarks/votes.py").measured(run, data, (0.0, 0.3), 20, True, 10**9, store)
    assert votes["reconstructor", 0.3]["solution"] == own["logical_form"]["share"]
    assert votes["reconstructor", 0.3]["answer"] == own["execution"]["share"]
    plain = evaluate_run(run, dev / "examples.jsonl", gold=dev / "gold.jsonl", beam=20, execution_guided=True).figures
    for voter in ("reconstructor", "words", "answer"):
        assert votes[voter, 0.0]["answer"] == plain["execution"]["share"]
    assert "answer, several" in votes["words", 0.3]


def test_solutions_of_the_same_answer_vote_for_it_together() -> None:
    """The likeliest answer is first, and of its solutions the likeliest."""
    shares = {"Rome": (0.3,), "the rome.": (0.1,), "Oslo": (0.2, 0.25), 7: (0.15,)}
    listed = [(answer, share) for answer, each in shares.items() for share in each]
    predictions = [SimpleNamespace(answer=answer, log_probability=math.log(share)) for answer, share in listed]
    votes = module_at("benchmarks/votes.py").by_answer(predictions)
    together = [0.4, 0.4, 0.45, 0.45, 0.15]
    shares_of = np.array([share for _, share in listed])
    np.testing.assert_allclose(votes, np.log(together) - np.log(shares_of), atol=1e-6)
    assert int(np.argmax(np.log(shares_of) + votes)) == 3
    assert not len(module_at("benchmarks/votes.py").by_answer([]))
