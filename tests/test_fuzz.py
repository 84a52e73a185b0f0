"""Any bytes give a value or an explained error; what once did not; and the harness finds what it is there to find."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bonafide.errors import LONGEST, BonafideError, shortened
from bonafide.evaluate.predictions import prediction_to_json
from bonafide.evaluate.sql import SqlPrediction
from bonafide.tasks.sql.query import Aggregate, Query
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.wikisql import import_wikisql
from fuzzing.contract import BrokenContractError, Target, outcome
from fuzzing.mutation import LARGEST, mutated
from fuzzing.running import fuzz, input_of
from fuzzing.tables import QUESTIONS, TABLES, lines
from fuzzing.targets import FEWEST, MILLION, PLAN, shares

ROOT = Path(__file__).parents[1]
HERE = [each for each in PLAN if each.module != "web"]  # the API has schemathesis: tests/test_serve_schema.py
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
BYTES = st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode())


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """Each target once, made when it is first asked for."""
    made: dict[str, Target] = {}

    def target(name: str) -> Target:
        if name not in made:
            made[name] = next(each for each in PLAN if each.name == name).build(tmp_path_factory.mktemp(name))
        return made[name]

    return target


@pytest.mark.parametrize("name", [each.name for each in HERE])
def test_any_bytes_give_a_value_or_an_explained_error(targets, name):
    target = targets(name)

    @settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(BYTES | st.integers(0, 2**32).map(lambda seed: target.input(Random(seed))))
    def check(data):
        outcome(target, data)

    check()
    assert [outcome(target, seed) for seed in target.seeds[:1]] == ["value"], "the first seed is a valid input"


def wikisql(**changes) -> bytes:
    return lines([{**QUESTIONS[0], **changes}])


def query(*conditions, **changes) -> bytes:
    return json.dumps({"sel": 0, "agg": 0, "conds": list(conditions), **changes}).encode()


def drop(number: str) -> bytes:
    pairs = '[{"question": "How many?", "answer": {"number": %s}}, {"question": "Who?", "answer": {"spans": ["Ann"]}}]'
    return ('{"p": {"passage": "Ann.", "qa_pairs": %s}}' % (pairs % number)).encode()


FOUND = {
    "types that are lists": ("tables-jsonl", lines([{**TABLES[0], "types": ["text", ["real"], "text"]}])),
    "a NUL in a question of WikiSQL": ("wikisql", wikisql(question="how\0many")),
    "an infinite value": ("wikisql", wikisql(sql={"sel": 1, "agg": 1, "conds": [[0, 0, float("inf")]]})),
    "a value beyond all floats": ("query", query([1, 0, 10**400])),
    "a value that is no number": ("query", query([1, 0, float("nan")])),
    "a log-probability beyond all floats": (
        "predictions",
        b'{"example": "a", "log_probability": 1' + b"0" * 400 + b"}",
    ),
    "a score beyond all floats": ("quasar-contexts", b'{"uid": "s1", "contexts": [[1' + b"0" * 400 + b', "Oslo."]]}'),
    "a score that is no number": ("quasar-contexts", b'{"uid": "s1", "contexts": [[NaN, "Oslo."]]}'),
    "an answer of a pair beyond all floats": (
        "pairs",
        b'{"question": "goals?", "table": "1-10", "answer": [1' + b"0" * 400 + b", 3]}",
    ),
    "a number of DROP that is none": ("drop", drop("NaN")),
    "a number of DROP beyond all floats": ("drop", drop("1" + "0" * 400)),
    "a NUL in a question of SQuAD": (
        "squad-article",
        b'{"id": "a", "question": "\\u0000", "document": "siege-1", "answers": []}',
    ),
    "an answer that examples cannot hold": (
        "brought",
        b'{"question": "q", "answer": 1' + b"0" * 400 + b', "candidates": ["x"]}',
    ),
    "a task that is a number": ("recipe", b"[data]\ntask = 3\n"),
    "a task that is a list": ("recipe", b'[data]\ntask = ["a:b"]\n'),
    "a task of no name": ("recipe", b'[data]\ntask = ":x"\n'),
    "a task of a relative name": ("recipe", b'[data]\ntask = ".a:b"\n'),
    "an unknown method": ("recipe", b'[objective]\nmethod = "guess"\n'),
    "a rate beyond all floats": ("recipe", b"[train]\nepochs = 1" + b"0" * 400 + b"\n"),
    "a rate of too many digits": ("recipe", b"[train]\nepochs = " + b"9" * 5000 + b"\n"),
    "a rate that is no number": ("recipe", b"[train]\nepochs = nan\n"),
    "an infinite rate": ("recipe", b"[train]\nclip = inf\n"),
    "a recipe that is nested deeply": ("recipe", b"a = " + b"[" * 5000 + b"]" * 5000),
    "an override that is nested deeply": ("recipe-values", b'"' + b"[" * 5000 + b'"'),
}
VALUES = {"a number of DROP that is none", "a number of DROP beyond all floats"}


@pytest.mark.parametrize("what", FOUND)
def test_what_fuzzing_found_is_mended(targets, what):
    name, data = FOUND[what]
    assert outcome(targets(name), data) == ("value" if what in VALUES else "error")


@pytest.mark.parametrize(
    "change",
    [
        {"counts": {}}, {"counts": 3}, {"shards": 3}, {"shards": [3]}, {"shards": [{"file": "shard-00000.parquet"}]},
        {"shards": [{"file": 3, "sha256": ""}]},
        {"counts": {"examples": -1, "covered": 0, "capped": 0, "solutions": 0}},
        {"counts": {"examples": 2**62, "covered": 0, "capped": 0, "solutions": 0}},
    ],
)  # fmt: skip
def test_a_manifest_that_says_anything_else_is_refused(targets, change):
    target = targets("manifest")
    whole = json.loads(target.seeds[1])
    assert outcome(target, json.dumps({**whole, **change}).encode()) == "error"


def test_a_shard_that_its_manifest_vouches_for_is_refused_where_it_holds_no_solutions(targets):
    target = targets("shard")
    for number in range(400):  # half of them are vouched for
        outcome(target, mutated(target.seeds, Random(number), as_json=False))


@pytest.mark.parametrize(
    "change",
    [
        {"solver": 3}, {"recipe": {}}, {"recipe": {"data": {"task": []}}}, {"sha256": 3}, {"sha256": {"/dev/zero": ""}},
        {"sha256": {"../x": ""}}, {"solver": {"spec": 3}},
    ],
)  # fmt: skip
def test_a_model_that_says_anything_else_is_refused(targets, change):
    target = targets("model")
    assert outcome(target, json.dumps({**json.loads(target.seeds[0]), **change}).encode()) == "error"


def test_a_model_of_more_layers_than_weights_is_not_begun(targets):
    target = targets("model")
    about = json.loads(target.seeds[0])
    about["solver"]["encoder"]["num_hidden_layers"] = 2**40
    assert outcome(target, json.dumps(about).encode()) == "error"


def test_an_infinite_sum_is_written_in_predictions_and_refused_as_gold(tmp_path):
    table = Table("t", ("a",), ("text",), [("1e400",)])
    added = Query(0, Aggregate.SUM, frozenset())
    line = prediction_to_json(SqlPrediction("x", added, 0.0), table)
    assert json.loads(json.dumps(line, allow_nan=False))["answer"] == ["inf"]
    (tmp_path / "dev.tables.jsonl").write_bytes(
        lines([{"id": "t", "header": ["a"], "types": ["text"], "rows": [["1e400"]]}])
    )
    asked = {"question": "sum?", "table_id": "t", "sql": {"sel": 0, "agg": 4, "conds": []}}
    (tmp_path / "dev.jsonl").write_bytes(lines([asked]))
    with pytest.raises(BonafideError, match="a query with a finite answer"):
        import_wikisql(tmp_path / "dev.jsonl", tmp_path / "dev.tables.jsonl", tmp_path / "out")


def test_an_error_is_never_longer_than_a_person_reads():
    said = str(BonafideError(f"Cannot read {'x' * 10**6}. Save it again."))
    assert len(said) <= LONGEST
    assert said.startswith("Cannot read xx")
    assert said.endswith("Save it again.")
    assert len(shortened("x" * 10**6)) == len(shortened(["x"] * 10**4)) == 120
    assert shortened({"a": 1}) == "{'a': 1}"


def test_the_server_reads_tables_under_a_limit_on_memory():
    """Where ``ulimit -v`` allows less than the worker would take, it takes what it may."""
    script = (
        "import asyncio, resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from bonafide.serve.worker import Worker\n"
        "if __name__ == '__main__':\n"
        "    worker = Worker('test', 30.0, 4 << 30)\n"
        "    print(asyncio.run(worker.run(abs, -3)))\n"
        "    worker.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "3", done.stderr


# --- The harness ---------------------------------------------------------------------------------------------------


def planted(read, **options) -> Target:
    return Target(read, [b'{"a": 1}'], **options)


def raising(data: bytes) -> None:
    if len(data) % 2:
        raise KeyError("planted")


def dying(data: bytes) -> None:
    if len(data) % 5 == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def unnamed(data: bytes) -> None:
    if data:
        raise BonafideError("Something is wrong.")


def warned(data: bytes) -> None:
    warnings.warn("planted", stacklevel=1)


@pytest.mark.parametrize(
    ("read", "options", "what"),
    [
        (raising, {}, "KeyError at outside"),
        (dying, {}, f"exit code {-signal.SIGKILL}"),
        (unnamed, {"file": "a.csv"}, "an error that does not name a.csv"),
        (warned, {}, "UserWarning at outside"),
    ],
)
def test_what_is_planted_is_found_counted_and_gone_past(read, options, what):
    result = fuzz("planted", lambda _: planted(read, **options), 40, seed=0)
    assert result.crashes > 3
    assert result.inputs == result.values + result.errors + result.crashes == 40
    assert all(each["what"].startswith(what) for each in result.findings)
    target = planted(read, **options)
    first = input_of(target, "planted", 0, result.findings[0]["number"])
    if read is not dying:
        with pytest.raises((KeyError, BrokenContractError, UserWarning)):
            outcome(target, first)


def test_a_hang_is_ended_and_a_slow_input_noted(monkeypatch):
    monkeypatch.setattr("fuzzing.running.HANG", 1.0)
    monkeypatch.setattr("fuzzing.running.SECONDS", 0.1)

    def read(data: bytes) -> None:
        times = {0: 10**12, 7: 10**7}.get(zlib.crc32(data) % 8, 0)
        while times:
            times -= 1

    result = fuzz("slow", lambda _: planted(read), 12, seed=0)
    kinds = {each["kind"] for each in result.findings}
    assert kinds == {"hang", "slow"}
    assert result.hangs == len(result.findings)
    assert result.inputs == 12


def test_memory_without_bound_is_a_finding(monkeypatch):
    monkeypatch.setattr("fuzzing.running.MEMORY", 64 << 20)
    result = fuzz("hungry", lambda _: planted(lambda data: bytearray(1 << 30)), 3, seed=0)
    assert [each["what"] for each in result.findings] == ["MemoryError at outside"] * 3


def test_inputs_follow_from_seed_target_and_number_alone():
    target = Target(len, [lines(TABLES), lines(QUESTIONS)])
    several = [input_of(target, "a", 0, number) for number in range(300)]
    assert several == [input_of(target, "a", 0, number) for number in range(300)]
    assert several != [input_of(target, "b", 0, number) for number in range(300)]
    assert max(map(len, several)) <= LARGEST
    assert len(set(several)) > 250


def test_a_million_inputs_leave_no_target_with_few():
    counts = shares(MILLION, [each.name for each in PLAN])
    assert sum(counts.values()) >= MILLION
    assert min(counts.values()) >= FEWEST


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason='needs pip install -e ".[fuzz]"')
def test_a_hundred_thousand_inputs_find_nothing(tmp_path):
    command = [
        sys.executable,
        ROOT / "tools" / "fuzz.py",
        "--inputs",
        "100000",
        "--seed",
        "3",
        "--out",
        tmp_path / "a.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    total = json.loads((tmp_path / "a.json").read_text())["total"]
    assert total["inputs"] >= 100_000
    assert total["guided"] >= 15_000
    assert total["crashes"] == total["hangs"] == 0
