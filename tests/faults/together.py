"""Faults in a run of two processes (gloo, on a CPU): one is killed, stopped for a while, or stopped and killed."""

from __future__ import annotations

import random
import shutil
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path

import tiny_runs
from bonafide.learn.checkpoint import checkpoints
from faults.processes import Running, alive, launched, send, stop_for, until
from faults.record import IDENTICAL, WRONG, Area, Fault, MissedError
from faults.training import Prepared, settings


def together(folder: Path) -> Area:
    """Faults in one of two processes that train one run; alone, or together again, it goes on."""
    data = tiny_runs.write_data(folder / "data")
    values = settings(data, "mimax", epochs=2.0, checkpoint_every=3)
    recipe = tiny_runs.write_recipe(folder / "recipe.toml", values)
    made = Prepared("mimax", recipe, {}, 0.0, folder)
    done = _start(made, folder / "whole").end()
    assert done.code == 0, done
    whole = Prepared("mimax", recipe, tiny_runs.weights(folder / "whole"), 0.0, folder)
    return {
        "killed": (0.7, partial(_hit, whole, "killed worker", _kill)),
        "stopped": (0.4, partial(_hit, whole, "stopped for a while", _stop)),
        "lost": (0.4, partial(_hit, whole, "stopped, then killed", _lose)),
    }


def _start(made: Prepared, out: Path) -> Running:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    how = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", port]
    return launched([*how, "-m", "bonafide", *made.arguments(out)], ACCELERATE_USE_CPU="true")


def _hit(made: Prepared, kind: str, hit: object, chance: random.Random) -> Fault:
    assert callable(hit)
    shutil.rmtree(made.out, ignore_errors=True)
    running = _start(made, made.out)
    seen = chance.randrange(2)
    until(lambda: len(checkpoints(made.out / "checkpoints")) >= seen or running.code() is not None)
    pair = _pair(running)
    moment = chance.uniform(0, 0.3)
    time.sleep(moment)
    target = chance.randrange(2)
    try:
        hit(pair[target], chance)
        done = running.end()
    except MissedError:
        running.end()
        raise
    until(lambda: not any(map(alive, pair)), 20)
    fault = partial(
        Fault, "train, two processes", kind, f"process {target}", f"{moment:.2f} s after {seen} checkpoints"
    )
    if done.code:
        again = _start(made, made.out).end()
        if again.code:
            return fault(WRONG, again.stderr)
    return fault(IDENTICAL if tiny_runs.weights(made.out) == made.result else WRONG, f"it ended with {done.code}")


def _pair(running: Running) -> list[int]:
    """The two processes, once both are there."""

    def found() -> list[int]:
        listed = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        try:
            return [int(each) for each in listed.read_text().split()]
        except OSError:
            return []

    until(lambda: len(found()) >= 2 or running.code() is not None)
    if len(pair := found()) < 2:
        raise MissedError
    return pair[:2]


def _kill(pid: int, chance: random.Random) -> None:
    send(pid, signal.SIGKILL)


def _stop(pid: int, chance: random.Random) -> None:
    stop_for(pid, chance.uniform(0.5, 2.0))


def _lose(pid: int, chance: random.Random) -> None:
    send(pid, signal.SIGSTOP)
    time.sleep(chance.uniform(0.5, 2.0))
    send(pid, signal.SIGKILL)
