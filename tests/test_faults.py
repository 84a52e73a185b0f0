"""Faults at random moments: nothing is lost or silently wrong. ``tools/faults.py`` puts in as many as are wanted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.requests import Request

from bonafide.errors import BonafideError
from bonafide.explore.judge import Sheet
from bonafide.report.judging import Pair, write_sheet
from bonafide.web.guard import Guard, door
from faults.areas import AREAS
from faults.processes import end_all
from faults.record import HARMLESS, IDENTICAL, REFUSED, WRONG, Area, Fault, put_in, table
from faults.searching import searching
from faults.training import training


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    end_all()


def assert_nothing_is_lost(faults: list[Fault]) -> None:
    wrong = [each for each in faults if each.outcome == WRONG]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("area", "count"),
    [
        (partial(searching, scale=0.3), 10),
        (partial(training, methods=("hard-em-thres",)), 6),
        (AREAS["evaluating"], 6),
        (AREAS["judging"], 5),
        (AREAS["serving"], 5),
    ],
    ids=["searching", "training", "evaluating", "judging", "serving"],
)
def test_nothing_is_lost_or_silently_wrong(area: Callable[[Path], Area], count: int, tmp_path: Path) -> None:
    faults = put_in([area(tmp_path / "area")], count, seed=1)
    assert len(faults) == count
    assert_nothing_is_lost(faults)


@pytest.mark.long
def test_nothing_is_lost_or_silently_wrong_in_500_faults(tmp_path: Path) -> None:
    areas = [area(tmp_path / name) for name, area in AREAS.items()]
    faults = put_in(areas, 500, seed=0, log=tmp_path / "faults.jsonl")
    print(table(faults))
    assert_nothing_is_lost(faults)
    assert {each.outcome for each in faults} == {IDENTICAL, REFUSED, HARMLESS}


def test_the_harness_sees_a_result_that_is_silently_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage that no command looks for: without checksums it must be found here."""
    monkeypatch.setattr("bonafide.report.sheets.check_lines", lambda path: None)
    area = AREAS["judging"](tmp_path / "area")
    kinds = {name: area[name] for name in ("truncated file", "flipped bit")}
    assert WRONG in {each.outcome for each in put_in([kinds], 40, seed=0)}


def test_a_judgement_that_a_full_disk_cut_short_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sheet(tmp_path / "judge.jsonl", [Pair("1", "q1", "how many?", None, [3], "l", "r", "a", "b")])
    sheet = Sheet(tmp_path / "judge.jsonl", "ada")
    sheet.record(0, "left")
    write = os.write
    monkeypatch.setattr("bonafide.explore.judge.os.write", lambda handle, line: write(handle, line[:20]))
    with pytest.raises(BonafideError, match=r"judge\.judged\.jsonl: the disk is full"):
        sheet.record(0, "right")
    assert sheet.choice(sheet.pairs[0]) == "left"
    monkeypatch.undo()
    sheet.record(0, "both")
    assert Sheet(tmp_path / "judge.jsonl", "ada").choice(sheet.pairs[0]) == "both"


def test_a_client_that_goes_away_is_no_failure_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive).body()

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError("there is nobody to answer")

    events: list[str] = []
    monkeypatch.setattr("bonafide.web.guard.log", lambda event, **_: events.append(event))
    scope = {"type": "http", "method": "POST", "path": "/judge/1", "headers": [(b"host", b"127.0.0.1")]}
    asyncio.run(Guard(app, door("127.0.0.1"))(scope, receive, send))
    assert events == ["request"]
