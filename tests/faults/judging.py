"""Faults while a person judges: in ``bonafide explore``, between its page and the browser, and in its files."""

from __future__ import annotations

import json
import random
import shutil
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import tiny_runs
from bonafide.explore.judge import Sheet
from bonafide.report.judging import write_sheet
from bonafide.report.sheets import CHOICES, Pair, read_judgements
from bonafide.sealed import sums_of
from faults.damage import DAMAGES, Damage, judged, tried
from faults.hits import HITS, Hit
from faults.processes import Running, forked, until
from faults.record import IDENTICAL, WRONG, Area, Fault

PAIRS = 40
UNREAD = {
    "judge.sums": "cut short: what is left of it still vouches for the sheet",
    "judge.judged.sums": "cut short: what is left of it still vouches for the judgements",
}
"""Files in which damage may go unseen, and why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A solution store to explore, and a sheet of pairs to judge."""

    store: Path
    sheet: Path

    @property
    def judged(self) -> Path:
        """Where the judgements are."""
        return self.sheet.with_suffix(".judged.jsonl")

    def start(self) -> Running:
        """The explorer, ready for judgements."""
        options = ["--sheet", str(self.sheet), "--judge", "ada", "--port", "0", "--no-open"]
        running = forked("explore", self.store, *options)
        until(lambda: '"listening"' in running.said or running.code() is not None)
        if running.code() is not None:
            raise AssertionError(running.said)
        return running


def judging(folder: Path) -> Area:
    """Faults in judging."""
    data = tiny_runs.write_data(folder / "data")
    pairs = [
        Pair(f"{number:02d}", f"q{number}", "how many?", None, [3], f"left {number}", f"right {number}", "a", "b")
        for number in range(PAIRS)
    ]
    write_sheet(folder / "judge.jsonl", pairs)
    made = Prepared(data / "solutions", folder / "judge.jsonl")
    return {
        **{name: (weight / 2, partial(_hit, made, name, hit)) for name, (weight, hit) in HITS.items()},
        "network": (6, partial(_cut, made)),
        **{name: (6, partial(_damaged, made, name, damage)) for name, damage in DAMAGES.items()},
    }


def _port(running: Running) -> int:
    line = next(each for each in running.said.splitlines() if '"listening"' in each)
    return int(json.loads(line)["address"].rstrip("/").rpartition(":")[2])


def _request(place: int, choice: str) -> bytes:
    body = f"choice={choice}".encode()
    head = f"POST /judge/{place} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
    return (
        f"{head}content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )


def _judge(port: int, place: int, choice: str) -> bool:
    """Send a judgement; whether it was acknowledged."""
    try:
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(_request(place, choice))
            return client.recv(4096).startswith(b"HTTP/1.1 303")
    except OSError:
        return False


def _clear(made: Prepared) -> None:
    for path in (made.judged, sums_of(made.judged)):
        path.unlink(missing_ok=True)


def _kept(made: Prepared, acknowledged: dict[int, str], fault: Callable[..., Fault]) -> Fault:
    """Whether every judgement that was acknowledged is there after a new start."""
    sheet = Sheet(made.sheet, "ada")
    lost = [place for place, choice in acknowledged.items() if sheet.choice(sheet.pairs[place]) != choice]
    return fault(WRONG if lost else IDENTICAL, f"{len(acknowledged)} acknowledged, {len(lost)} lost")


def _hit(made: Prepared, kind: str, hit: Hit, chance: random.Random) -> Fault:
    """Judge until the explorer is hit, and go on after a new start."""
    _clear(made)
    running = made.start()
    acknowledged: dict[int, str] = {}
    after = chance.randrange(PAIRS // 2)
    try:
        port = _port(running)
        for place in range(PAIRS):
            if place == after:
                target = hit(running, chance, 2500)
            choice = chance.choice(CHOICES)
            if not _judge(port, place, choice):
                break
            acknowledged[place] = choice
    finally:
        _end(running)
    fault = partial(Fault, "judge", kind, target, f"after {after} judgements")
    if "Traceback" in running.said:
        return fault(WRONG, running.said)
    again = made.start()
    try:
        place = chance.randrange(PAIRS)
        if not _judge(_port(again), place, "both"):
            return fault(WRONG, "no judgement is taken after a new start")
        acknowledged[place] = "both"
    finally:
        _end(again)
    return _kept(made, acknowledged, fault)


def _end(running: Running) -> None:
    if running.code() is None:
        running.signal(signal.SIGKILL)
    running.end()


def _cut(made: Prepared, chance: random.Random) -> Fault:
    """Cut the connection in the middle of a judgement, or send it drop by drop, before and after others."""
    _clear(made)
    running = made.start()
    acknowledged: dict[int, str] = {}
    try:
        port = _port(running)
        for place in range(6):
            choice = chance.choice(CHOICES)
            if place == 3:
                raw = _request(place, choice)
                at = chance.randrange(len(raw) + 1)
                with socket.create_connection(("127.0.0.1", port), 20) as client:
                    client.sendall(raw[:at])
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset at once
            elif _judge(port, place, choice):
                acknowledged[place] = choice
    finally:
        _end(running)
    fault = partial(Fault, "judge", "cut connection", "the browser", f"byte {at} of {len(raw)}")
    if "Traceback" in running.said or len(acknowledged) < 5:
        return fault(WRONG, running.said)
    return _kept(made, acknowledged, fault)


def _damaged(made: Prepared, kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage the sheet or its judgements, and read them as compare and audit do."""
    folder = made.sheet.parent / "copied"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path in (made.sheet, sums_of(made.sheet)):
        shutil.copy(path, folder)
    sheet = Sheet(folder / made.sheet.name, "ada")
    for place in range(12):
        sheet.record(place, chance.choice(CHOICES))
    expected = _said(sheet.judged)
    path = chance.choice(sorted(folder.iterdir()))
    where = damage(path, chance)
    fault = partial(Fault, "judgements", kind, path.name, where)
    given = tried(lambda: _said(sheet.judged))
    return judged(fault, path, UNREAD, given, lambda said: said == expected)


def _said(judged: Path) -> str:
    found = read_judgements(judged)
    return json.dumps([[asdict(each) for each in found.pairs], found.choices])
