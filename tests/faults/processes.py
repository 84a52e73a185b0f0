"""The real commands in processes of their own, and what can happen to a process."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from command_line import BONAFIDE, Outcome
from faults.record import MissedError

DEADLINE = 120.0
_LOOK = 0.005
_PRELOADED = [
    "torch", "bonafide.cli", "bonafide.learn.trainer", "bonafide.report.runs", "bonafide.report.terminal",
    "bonafide.serve.application", "bonafide.serve.service", "bonafide.explore.pages", "bonafide.explore.workspace",
]  # fmt: skip


_STARTED: list[Running] = []


class Running:
    """A command that was started, and what it says."""

    def __init__(self, pid: int, code: Callable[[], int | None], said: int) -> None:
        self.pid, self.code = pid, code
        _STARTED.append(self)
        self._said: list[bytes] = []
        self._reader = threading.Thread(target=self._read, args=(said,), daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        """What it has said so far."""
        return b"".join(self._said).decode(errors="replace")

    def end(self, seconds: float = DEADLINE) -> Outcome:
        """Wait for its end."""
        until(lambda: self.code() is not None, seconds)
        self._reader.join(5)
        code = self.code()
        assert code is not None
        return Outcome(code, "", self.said)

    def signal(self, number: int) -> None:
        """Send it a signal, unless it is over."""
        if self.code() is not None:
            raise MissedError
        send(self.pid, number)

    def _read(self, said: int) -> None:
        with suppress(OSError), os.fdopen(said, "rb", buffering=0) as stream:
            while block := stream.read(4096):
                self._said.append(block)


def end_all() -> None:
    """End what still runs."""
    for running in _STARTED:
        if running.code() is None:
            os.kill(running.pid, signal.SIGKILL)
            running.end()
    _STARTED.clear()


def started(*arguments: str | Path) -> Running:
    """A command as a shell starts it, in a process group of its own."""
    return launched([BONAFIDE, *map(str, arguments)])


def launched(command: Sequence[str], **variables: str) -> Running:
    """The same for any command line."""
    ours, theirs = os.pipe()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment, process_group=0)
    os.close(theirs)
    return Running(process.pid, process.poll, ours)


def forked(*arguments: str | Path) -> Running:
    """A command in a process that has imported torch already: all of it but the start of Python."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_command, args=(list(map(str, arguments)), theirs))
    process.start()
    theirs.close()
    assert process.pid is not None
    said = os.dup(ours.fileno())
    ours.close()

    def code() -> int | None:
        return process.exitcode

    return Running(process.pid, code, said)


def seconds_of(start: Callable[[], Running]) -> float:
    """How long a command takes that is left alone."""
    forked("--version").end()  # what forked commands share is imported before
    begin = time.monotonic()
    done = start().end()
    assert done.code == 0, done
    return time.monotonic() - begin


def _command(arguments: list[str], said: Connection) -> None:
    import torch

    from bonafide.cli import main

    torch.set_num_threads(1)  # as in the process that compares: sums of several threads differ in the last bits
    os.setpgid(0, 0)
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    said.close()
    sys.argv = ["bonafide", *arguments]
    main()


def until(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited too long")
        time.sleep(_LOOK)


def send(pid: int, number: int) -> None:
    """Send a signal to a process, unless it is over."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise MissedError from None


def wait_for_moment(running: Running, seconds: float) -> None:
    """Let a command work for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if running.code() is not None:
            raise MissedError
        time.sleep(_LOOK)


def workers(pid: int) -> list[int]:
    """The processes that a command has started, without multiprocessing's own."""
    found = []
    with suppress(OSError):
        for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):
                if "spawn_main" in Path(f"/proc/{each}/cmdline").read_text() and alive(int(each)):
                    found.append(int(each))
    return found


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def none_left(running: Running) -> Iterator[None]:
    """What a command started ends soon after it does."""
    mine = workers(running.pid)
    yield
    until(lambda: not any(map(alive, mine)), 10)


def stop_for(pid: int, seconds: float) -> None:
    """SIGSTOP, a pause, SIGCONT."""
    send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def fill_disk(running: Running, chance: random.Random, most: int) -> int:
    """From now on no file of the command, or of its workers, can grow beyond a size: a write says so, with EFBIG."""
    limit = int(most * chance.random() ** 2)
    hit = 0
    for pid in (running.pid, *workers(running.pid)):
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))
            hit += 1
    if not hit:
        raise MissedError
    return limit
