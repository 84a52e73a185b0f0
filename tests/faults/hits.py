"""What is done to one process while it works."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

from faults.processes import Running, fill_disk, stop_for, workers

Hit = Callable[[Running, random.Random, int], str]
"""Hits a command, of which the largest file has so many bytes, and says what was hit."""


def kill(running: Running, chance: random.Random, largest: int) -> str:
    """SIGKILL."""
    running.signal(signal.SIGKILL)
    return "the command"


def stop(running: Running, chance: random.Random, largest: int) -> str:
    """SIGSTOP to the command or a worker of it, and SIGCONT after a while."""
    target = chance.choice([running.pid, *workers(running.pid)])
    stop_for(target, chance.uniform(0.1, 0.6))
    return "the command" if target == running.pid else "a worker"


def end(running: Running, chance: random.Random, largest: int) -> str:
    """SIGTERM or SIGINT."""
    number = chance.choice([signal.SIGTERM, signal.SIGINT])
    running.signal(number)
    return number.name


def fill(running: Running, chance: random.Random, largest: int) -> str:
    """No more room."""
    return f"no file over {fill_disk(running, chance, largest):,} bytes"


HITS: dict[str, tuple[float, Hit]] = {
    "killed": (6, kill),
    "stopped for a while": (2, stop),
    "SIGTERM or SIGINT": (3, end),
    "full disk": (5, fill),
}
"""By kind: how often it is drawn, and what does it."""
