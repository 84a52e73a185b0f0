"""Your own tables and pairs to a model: what is held out, said and refused, and that it can go on."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.learn.saved import load
from bonafide.own.training import _folds, claimed, learn, prepare
from bonafide.synth.shop import write_shop
from command_line import BONAFIDE, contents, write_lines

TINY = [
    "table-scratch-mimax", "--set", "train.epochs=2", "--set", "solver.width=16", "--set", "solver.layers=1",
    "--set", "reconstructor.width=16", "--folds", "2",
]  # fmt: skip


@pytest.fixture
def shop(tmp_path):
    write_shop(tmp_path, pairs=40)
    return tmp_path


@given(st.integers(2, 60), st.integers(2, 7))
def test_folds_hold_every_pair_out_once(size, wanted):
    examples = [f"q{number}" for number in range(size)]
    parts = _folds(examples, wanted)
    assert sorted(each for part in parts for each in part) == sorted(examples)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_many_pairs_are_held_out_once_only():
    parts = _folds([f"q{number}" for number in range(2000)], None)
    assert [len(part) for part in parts] == [667]


@pytest.mark.slow
def test_the_command_trains_tests_says_how_to_ask_and_goes_on(shop, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    mislabelled = {"question": "who bought order 1001?", "answer": "Ben Ray"}
    with (shop / "qa.jsonl").open("a") as stream:
        stream.write(json.dumps(mislabelled) + "\n")
    command = ["train", "--table", shop / "orders.csv", "--examples", shop / "qa.jsonl", "--out", shop / "run", *TINY]
    train = [*(str(each) for each in command), "--type", "Units=real"]
    app(train, standalone_mode=False)
    shown = capsys.readouterr()
    assert "41 pairs on 1 table; 40 have a solution." in shown.err
    assert "no cell of the table is 'Ben Ray'; the nearest is 'ben roy'" in shown.err
    assert "of 41 answers held out in 2-fold cross-validation are right" in shown.out
    held = [json.loads(line) for line in (shop / "run" / "held-out.jsonl").read_text().splitlines()]
    assert sorted(each["id"] for each in held) == sorted(f"q{line}" for line in range(1, 42))
    figures = json.loads((shop / "run" / "own.json").read_text())
    assert (figures["right"], figures["held_out"]) == (sum(each["right"] for each in held), 41)
    assert "the nearest is &#x27;ben roy&#x27;" in (shop / "run" / "report.html").read_text()

    told = next(line for line in shown.out.splitlines() if line.startswith("Ask it: bonafide "))
    app(shlex.split(told)[3:], standalone_mode=False)
    assert "SELECT" in capsys.readouterr().out
    assert (
        f"In the browser: bonafide serve {shop / 'run'} --table {shop / 'orders.csv'} --type Units=real"
        in shown.out.splitlines()
    )

    with pytest.raises(BonafideError, match="already holds a run"):
        app(train, standalone_mode=False)
    shutil.rmtree(shop / "run" / "data" / "folds" / "2" / "run")
    capsys.readouterr()
    app([*train, "--resume"], standalone_mode=False)
    assert capsys.readouterr().out == shown.out
    assert [json.loads(line) for line in (shop / "run" / "held-out.jsonl").read_text().splitlines()] == held
    with pytest.raises(
        BonafideError, match=r"was started with --folds 2; now there are 3 folds\. Resume with --folds 2"
    ):
        app([*train, "--folds", "3", "--resume"], standalone_mode=False)
    with pytest.raises(BonafideError, match=r"was started with other settings in \[train\]: epochs"):
        app([*train, "--set", "train.epochs=3", "--resume"], standalone_mode=False)
    assert json.loads((shop / "run" / "own.json").read_text())["recipe"] == figures["recipe"]
    write_lines(shop / "qa.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    with pytest.raises(BonafideError, match="other tables or pairs"):
        app([*train, "--resume"], standalone_mode=False)


def _children(process: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _is_training(process: int) -> bool:
    try:
        return "train" in Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_no_training_outlives_the_command_that_started_it(shop, number, to_all):
    """``to_all``: as a terminal does, which sends Ctrl-C to everything that it runs."""
    command = [BONAFIDE, "train", "--table", "orders.csv", "--examples", "qa.jsonl", "--out", "run", *TINY]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (shop / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--set", "train.epochs=500"],
            cwd=shop,
            stdout=said,
            stderr=said,
            env=environment,
            process_group=0,
        )
    end = time.monotonic() + 60
    while not (shop / "run" / "metrics.jsonl").exists():  # the trainings are under way
        assert process.poll() is None, (shop / "said").read_text()
        assert time.monotonic() < end
        time.sleep(0.05)
    trainings = _children(process.pid)
    assert len(trainings) == min(3, len(os.sched_getaffinity(0)))
    assert all(map(_is_training, trainings))
    (os.killpg if to_all else os.kill)(process.pid, number)
    assert process.wait(timeout=30) == 128 + number
    assert not any(map(_is_training, trainings))
    assert "Stopped. Add --resume to go on with what is in run." in (shop / "said").read_text()
    assert "Error" not in (shop / "said").read_text()


def test_a_second_command_on_the_same_folder_is_refused_and_touches_nothing(shop):
    command = ["train", "--table", str(shop / "orders.csv"), "--examples", str(shop / "qa.jsonl"), *TINY]
    with claimed(shop / "run"):
        prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run")
        written = contents(shop / "run")
        with pytest.raises(BonafideError, match=r"Another command is training in .*run right now"):
            app([*command, "--out", str(shop / "run"), "--resume"], standalone_mode=False)
        assert contents(shop / "run") == written
    with pytest.raises(BonafideError, match="already holds a run"), claimed(shop / "run"):
        pass
    with pytest.raises(KeyboardInterrupt), claimed(shop / "other"):
        raise KeyboardInterrupt
    assert not (shop / "other").exists()


def test_a_dev_file_takes_the_place_of_cross_validation(shop):
    write_lines(shop / "dev.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    overrides = [each for each in TINY if "=" in each]
    prepared = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run", shop / "dev.jsonl",
                       recipe="table-scratch-mimax", overrides=overrides)  # fmt: skip
    held, figures = learn(prepared)
    assert [each.question for each in held] == ["who placed order 1001?"]
    assert (figures["folds"], figures["held_out"], figures["pairs"]) == (0, 1, 40)
    assert not (shop / "run" / "data" / "folds").exists()
    assert load(shop / "run").task.name == "sql"
    written = contents(shop / "run")
    changed = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run", shop / "dev.jsonl", resume=True,
                      recipe="table-scratch-mimax", overrides=[*overrides, "train.epochs=3"])  # fmt: skip
    with pytest.raises(BonafideError, match=r"run was started with other settings in \[train\]: epochs"):
        learn(changed)
    assert contents(shop / "run") == written
    shutil.move(shop / "run", shop / "moved")
    moved = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "moved", shop / "dev.jsonl", resume=True,
                    recipe="table-scratch-mimax", overrides=overrides)  # fmt: skip
    assert learn(moved)[0] == held


def test_how_a_dev_file_was_read_and_what_of_it_is_learned_from_is_said(shop):
    first = json.loads((shop / "qa.jsonl").read_text().splitlines()[0])
    asked = {**first, "question": first["question"].upper()}
    wrong = {"question": "who placed order 1002?", "answer": "nobody of that name"}
    write_lines(shop / "dev.jsonl", [asked, asked, {"question": "what did order 1001 cost?", "answer": "$ 779"}, wrong])
    prepared = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "run", shop / "dev.jsonl")
    twice, as_number, seen, unreached = prepared.notes.items()
    assert twice == ("pairs stand in the file twice: the second was left out (in the dev file)", 1)
    assert (as_number[0].endswith("they are read as numbers (in the dev file)"), as_number[1]) == (True, 1)
    assert (seen[0].startswith("dev pairs are training pairs too (same table and question)"), seen[1]) == (True, 1)
    assert (unreached[0].startswith("dev pairs have no solution"), unreached[1]) == (True, 1)
    alone = prepare([shop / "orders.csv"], shop / "qa.jsonl", shop / "alone")
    assert not alone.notes


def test_after_too_few_pairs_had_a_solution_others_can_be_tried_in_the_same_folder(shop, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(shop)
    right = {"question": "who placed order 1001?", "answer": "Ben Roy"}
    command = ["train", "--table", "orders.csv", "--examples", "few.jsonl", "--out", "run"]
    unsolved = [{"question": f"who is number {number}?", "answer": f"stranger {number}"} for number in range(30)]
    write_lines(shop / "few.jsonl", [right, *unsolved])
    with pytest.raises(BonafideError, match=r"Only 1 of 31 pairs have a solution.*See why the others have none, above"):
        app(command, standalone_mode=False)
    shown = capsys.readouterr().err
    assert all(each["question"] in shown for each in unsolved)
    assert "report.html" not in shown
    assert not (shop / "run").exists()
    write_lines(shop / "few.jsonl", [right])
    with pytest.raises(BonafideError, match=r"Only 1 of 1 pairs have a solution.* to learn from\.$"):
        app(command, standalone_mode=False)


def test_what_is_not_ours_stays_where_too_few_pairs_have_a_solution(shop):
    mine = shop / "run" / "data" / "train" / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    write_lines(shop / "few.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    with pytest.raises(BonafideError, match="Only 1 of 1"):
        learn(prepare([shop / "orders.csv"], shop / "few.jsonl", shop / "run", resume=True))
    assert [path for path in (shop / "run").rglob("*") if path.is_file()] == [mine]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "run"], "Name a recipe"),
        (["--out", "run", "--table", "orders.csv"], "give both --table FILE and --examples FILE"),
        (["--out", "run", "--examples", "qa.jsonl"], "give both --table FILE and --examples FILE"),
        (["wikisql-hard-mimax", "--out", "run", "--folds", "3"], "go with --table and --examples"),
        (["--out", "run", "--table", "none.csv", "--examples", "qa.jsonl"], "there is no such file"),
        (["drop-mimax", "--out", "run", "--table", "orders.csv", "--examples", "qa.jsonl"], "are for the task sql"),
        (["--out", "run", "--table", "orders.csv", "--examples", "empty.jsonl"], "holds no pairs"),
        (["--out", "run", "--table", "orders.csv", "--examples", "few.jsonl"], "Only 1 of 1 pairs have a solution"),
        (
            ["--out", "run", "--table", "orders.csv", "--examples", "qa.jsonl", "--dev", "qa.jsonl", "--folds", "4"],
            "give either --dev FILE or --folds",
        ),
        (["--out", ".", "--table", "orders.csv", "--examples", "qa.jsonl"], "is not empty and holds no run"),
    ],
)
def test_what_cannot_be_done_is_refused(shop, monkeypatch, arguments, message):
    monkeypatch.chdir(shop)
    (shop / "empty.jsonl").write_text("\n")
    write_lines(shop / "few.jsonl", [{"question": "who placed order 1001?", "answer": "Ben Roy"}])
    with pytest.raises(BonafideError, match=message):
        app(["train", *arguments], standalone_mode=False)
    assert not (shop / "run" / "model").exists()
