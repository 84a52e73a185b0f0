"""Trainings side by side, one a core, each in a process of its own; none of them outlives the one that started it.

Ctrl-C and SIGTERM are noted and acted upon between two looks at the trainings, so that neither comes in the middle of
starting one, which would then go on alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bonafide.errors import BonafideError

Report = Callable[[str, float], None]
"""Told the name of a part and how much of it is done, 0 to 1."""
_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 10.0


def train_side_by_side(jobs: Mapping[str, tuple[Path, list[str]]], logs: Path, report: Report) -> None:
    """Run the commands, each with the folder of its run; those that are finished are left alone."""
    logs.mkdir(parents=True, exist_ok=True)
    waiting = {name: job for name, job in jobs.items() if not (job[0] / "result.json").exists()}
    for name in jobs:
        report(name, 0.0 if name in waiting else 1.0)
    cores = len(os.sched_getaffinity(0))
    together = min(cores, len(jobs))  # not of those that wait: the number of threads changes the last bits
    environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, cores // together)), "TOKENIZERS_PARALLELISM": "false"}
    running: dict[str, subprocess.Popen[bytes]] = {}
    order = iter(waiting.items())
    with _noted_signals() as noted:
        try:
            while not noted:
                while len(running) < together and (following := next(order, None)) is not None:
                    name, (_, command) = following
                    with _log(logs, name).open("wb") as log:
                        running[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603
                if not running:
                    return
                for name, process in list(running.items()):
                    if process.poll() is None:
                        report(name, _share_done(jobs[name][0]))
                        continue
                    del running[name]
                    if process.returncode and not noted:  # a terminal sends Ctrl-C to the trainings too
                        raise BonafideError(_said(_log(logs, name), name))
                    report(name, 1.0)
                time.sleep(_LOOK_SECONDS)
        finally:
            _end(list(running.values()))
    raise KeyboardInterrupt(128 + noted[0])


@contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """The interrupts that came while this lasts; outside the main thread Python allows none to be noted."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    kinds = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    before = [signal.signal(each, lambda number, _: noted.append(number)) for each in kinds]
    try:
        yield noted
    finally:
        for each, handler in zip(kinds, before, strict=True):
            signal.signal(each, handler)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _log(logs: Path, name: str) -> Path:
    return logs / f"{name.replace(' ', '-')}.log"


def _said(log: Path, name: str) -> str:
    """What a training that failed said last."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    return f"Training on {name} failed: {errors[-1] if errors else f'see {log}.'}"


def _share_done(run: Path) -> float:
    try:
        epochs = json.loads((run / "recipe.json").read_bytes())["train"]["epochs"]
        last = (run / "metrics.jsonl").read_bytes().splitlines()[-1]
        return min(1.0, float(json.loads(last).get("epoch", 0.0)) / float(epochs))
    except (OSError, IndexError, ValueError):
        return 0.0
