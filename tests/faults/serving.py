"""Faults in ``bonafide serve``: the server, its workers, and the connections to it."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

import bonafide
import served
import tiny_runs
from bonafide.learn.trainer import train
from bonafide.tasks.sql.readers import read_tables
from faults.damage import DAMAGES, Damage, judged, tried
from faults.processes import Running, alive, forked, send, stop_for, until, workers
from faults.record import IDENTICAL, WRONG, Area, Fault

QUESTION = "how many units were sold in Oslo?"
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/predict", {"question": QUESTION}),
    ("/predict", {"question": QUESTION, "rows": served.ROWS}),  # read by a worker
    ("/solutions", {"question": QUESTION, "answers": [3]}),  # searched by another
]


@dataclass
class Prepared:
    """A run, a table, what is answered, and the server that is up."""

    run: Path
    table: Path
    answers: list[Any] = field(default_factory=list)
    running: Running | None = None
    port: int = 0

    def up(self) -> Running:
        """The server, started where it is not up."""
        if self.running is None or self.running.code() is not None:
            running = self.running = forked("serve", self.run, "--table", self.table, "--port", "0")
            until(lambda: '"listening"' in running.said or running.code() is not None)
            line = next(each for each in running.said.splitlines() if '"listening"' in each)
            self.port = int(json.loads(line)["address"].rstrip("/").rpartition(":")[2])
        return self.running

    def down(self) -> None:
        """End the server."""
        if self.running is not None and self.running.code() is None:
            self.running.signal(signal.SIGTERM)
            self.running.end()

    def ask(self, number: int, slowly: random.Random | None = None) -> Any:
        """Status and answer of one of the questions; 0 where the connection broke."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 60) as client:
                raw = _request(*ASKED[number])
                for part in [raw] if slowly is None else _parts(raw, slowly):
                    client.sendall(part)
                    time.sleep(0.02 if slowly is not None else 0)
                answer = b"".join(iter(lambda: client.recv(65536), b""))
        except OSError:
            return 0, None
        head, _, body = answer.partition(b"\r\n\r\n")
        return (int(head.split()[1]), json.loads(body)) if body else (0, None)

    def wrong(self) -> list[Any]:
        """What is not answered as it was at first."""
        self.up()
        found = [self.ask(number) for number in range(len(ASKED))]
        return [each for each, expected in zip(found, self.answers, strict=True) if not _alike(each, expected)]


def _request(path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


def _parts(raw: bytes, chance: random.Random) -> list[bytes]:
    size = chance.randrange(5, 40)
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def serving(folder: Path) -> Area:
    """Faults in a server that is shared by the faults that leave it up."""
    torch.set_num_threads(1)
    run = folder / "run"
    data = tiny_runs.write_data(folder / "data")
    train(tiny_runs.recipe(data, "mimax", train={"epochs": 1.0}), run)
    (folder / "sales.csv").write_text(served.SALES)
    made = Prepared(run, folder / "sales.csv")
    made.up()
    made.answers = [made.ask(number) for number in range(len(ASKED))]
    assert [status for status, _ in made.answers] == [200] * len(ASKED)
    assert not made.wrong()
    table = read_tables(made.table)["sales"]
    expected = str(bonafide.load(run).predict(table, QUESTION))
    return {
        "killed": (2, partial(_killed, made)),
        "killed worker": (3, partial(_worker, made, "killed worker", lambda pid, _: send(pid, signal.SIGKILL))),
        "stopped worker": (2, partial(_worker, made, "stopped for a while", _stop)),
        "stopped": (1, partial(_stopped, made)),
        "cut": (8, partial(_cut, made)),
        "slow": (3, partial(_slow, made)),
        **{name: (2, partial(_damaged, made, table, expected, name, damage)) for name, damage in DAMAGES.items()},
    }


def _alike(one: Any, other: Any) -> bool:
    """Whether two answers are the same; probabilities to the rounding of a batch, which others may have shared."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5)
    return bool(one == other)


def _outcome(made: Prepared, kind: str, target: str, moment: str) -> Fault:
    """Whether the server answers as before, and wrote no traceback."""
    wrong = made.wrong()
    said = made.running.said if made.running is not None else ""
    if "Traceback" in said:
        wrong.append(said)
        made.down()  # the next fault begins with a clean log
    return Fault("serve", kind, target, moment, WRONG if wrong else IDENTICAL, str(wrong) if wrong else "")


def _killed(made: Prepared, chance: random.Random) -> Fault:
    """SIGKILL while a question is asked; a new server answers it."""
    running, number = made.up(), chance.randrange(len(ASKED))
    mine = workers(running.pid)
    moment = chance.uniform(0, 0.05)
    with socket.create_connection(("127.0.0.1", made.port), 20) as client:
        client.sendall(_request(*ASKED[number]))
        time.sleep(moment)
        running.signal(signal.SIGKILL)
    running.end()
    until(lambda: not any(map(alive, mine)), 20)
    return _outcome(made, "killed", "the server", f"{moment:.3f} s into {ASKED[number][0]}")


def _stopped(made: Prepared, chance: random.Random) -> Fault:
    stop_for(made.up().pid, chance.uniform(0.1, 0.6))
    return _outcome(made, "stopped for a while", "the server", "between questions")


def _stop(pid: int, chance: random.Random) -> None:
    stop_for(pid, chance.uniform(0.1, 0.6))


def _worker(made: Prepared, kind: str, hit: Callable[[int, random.Random], None], chance: random.Random) -> Fault:
    """Hit a worker while a question needs it: whoever asked is answered or told why not; the next are answered."""
    running, number = made.up(), chance.choice([1, 2])
    made.ask(number)  # the worker is there
    moment = chance.uniform(0, 0.03)
    with socket.create_connection(("127.0.0.1", made.port), 60) as client:
        client.sendall(_request(*ASKED[number]))
        time.sleep(moment)
        mine = workers(running.pid)
        if mine:
            hit(chance.choice(mine), chance)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    status = int(answer.split()[1]) if answer else 0
    fault = _outcome(made, kind, "a worker", f"{moment:.3f} s into {ASKED[number][0]}, which was answered {status}")
    told = status in (200, 422)
    return fault if told else Fault("serve", kind, "a worker", fault.moment, WRONG, answer.decode(errors="replace"))


def _cut(made: Prepared, chance: random.Random) -> Fault:
    """A client that goes away in its question, or before or within the answer."""
    made.up()
    number = chance.randrange(len(ASKED))
    raw = _request(*ASKED[number])
    at = chance.randrange(len(raw) + 1) if chance.random() < 0.6 else len(raw)
    with socket.create_connection(("127.0.0.1", made.port), 20) as client:
        client.sendall(raw[:at])
        taken = chance.choice([0, 0, 20, 200]) if at == len(raw) else 0
        got = len(client.recv(taken)) if taken else 0
        if chance.random() < 0.7:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not closed
    return _outcome(made, "cut connection", ASKED[number][0], f"{at} of {len(raw)} bytes sent, {got} received")


def _slow(made: Prepared, chance: random.Random) -> Fault:
    """A client that sends its question drop by drop, while others ask."""
    made.up()
    number = chance.randrange(len(ASKED))
    with socket.create_connection(("127.0.0.1", made.port), 20) as idle:
        idle.sendall(_request(*ASKED[number])[: chance.randrange(200)])  # and one that never sends the rest
        answer = made.ask(number, chance)
        fault = _outcome(made, "slow client", ASKED[number][0], "drop by drop")
    return fault if _alike(answer, made.answers[number]) else Fault("serve", "slow client", "", "", WRONG, str(answer))


def _damaged(made: Prepared, table: Any, expected: str, kind: str, damage: Damage, chance: random.Random) -> Fault:
    """Damage the model, and load it as the server does."""
    run = made.run.with_name("hit")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(made.run / "model", run / "model")
    path = chance.choice(sorted(each for each in run.rglob("*") if each.is_file()))
    where = damage(path, chance)
    fault = partial(Fault, "serve", kind, str(path.relative_to(run)), where)
    given = tried(lambda: str(bonafide.load(run).predict(table, QUESTION)))
    return judged(fault, path, {}, given, lambda said: said == expected)
