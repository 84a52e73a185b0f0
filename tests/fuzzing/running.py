"""One target after another, each in a process of its own that a watchdog looks after.

An input is a function of the seed, the target's name and its number, so a number is all it takes to see it again. The
process counts in shared memory: where it dies or does not come back, the watchdog knows at which input, notes it, and
has another process go on with the next one. Part of the inputs may be drawn by atheris, which is led by the code that
they reach.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.contract import MEMORY, SECONDS, BrokenContractError, Target, outcome, place_of

Build = Callable[[Path], Target]

HANG = 10.0
"""Processor time of one input after which its process is ended; between this and ``SECONDS`` it is noted as slow."""
_WALL = 90.0
_FINDINGS, _SAID = "findings.jsonl", "said.txt"
_SHARED = ("number", "errors", "values", "broken", "begun", "slowest", "megabytes", "built")
_FORK = multiprocessing.get_context("fork")


@dataclass
class Result:
    """What came of a target's inputs."""

    target: str
    inputs: int = 0
    guided: int = 0
    values: int = 0
    errors: int = 0
    crashes: int = 0
    hangs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    megabytes: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def input_of(target: Target, name: str, seed: int, number: int) -> bytes:
    """The input of this number."""
    return target.input(Random(f"{seed}/{name}/{number}"))


def fuzz(name: str, build: Build, inputs: int, seed: int, guided: int = 0) -> Result:
    """Try ``inputs`` random inputs on a target, and ``guided`` ones of atheris."""
    result = Result(name)
    begun = time.monotonic()
    following = 0
    while following < inputs:
        following = _process(result, partial(_random, name, build, seed, following, inputs), following)
    while result.guided < guided:
        result.guided += _process(
            result, partial(_guided, name, build, seed + result.guided, guided - result.guided), 0
        )
    result.inputs = result.values + result.errors + result.crashes + result.hangs
    result.seconds = time.monotonic() - begun
    return result


def _process(result: Result, work: Callable[[Path, Any], None], first: int) -> int:
    """Have a process do it, and add up what it did; the number of the input that is next."""
    shared = _FORK.RawArray("d", len(_SHARED))
    shared[0] = first
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        process = _FORK.Process(target=_contained, args=(work, Path(folder), shared))
        process.start()
        hung = _watched(process, shared)
        notes, said = Path(folder) / _FINDINGS, Path(folder) / _SAID
        if not shared[7] and said.exists():
            print(said.read_text(errors="replace")[-3000:])
        noted = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
    held = dict(zip(_SHARED, shared, strict=True))
    if not held["built"]:
        raise SystemExit(f"{result.target}: the target could not be made; its process ended with {process.exitcode}.")
    slow = sum(each["kind"] == "slow" for each in noted)
    result.values += int(held["values"])
    result.errors += int(held["errors"])
    result.crashes += int(held["broken"]) - slow
    result.hangs += slow
    result.slowest = max(result.slowest, held["slowest"])
    result.megabytes = max(result.megabytes, held["megabytes"])
    result.findings += noted
    following = int(held["number"])
    if hung:
        result.hangs += 1
        result.findings.append({"kind": "hang", "number": following, "what": f"more than {HANG:g} s"})
    elif process.exitcode:
        result.crashes += 1
        result.findings.append({"kind": "crash", "number": following, "what": f"exit code {process.exitcode}"})
    return following + bool(hung or process.exitcode)


def _watched(process: Any, shared: Any) -> bool:
    """Wait for the end of a process; whether it had to be ended because an input took too long."""
    number, since = -1.0, time.monotonic()
    while True:
        process.join(0.2)
        if process.exitcode is not None:
            return False
        if shared[0] != number:
            number, since = shared[0], time.monotonic()
        waited = time.monotonic() - since
        if shared[7] and waited > HANG and (_processor_time(process.pid) - shared[4] > HANG or waited > _WALL):
            process.kill()
            process.join()
            return True


def _processor_time(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _contained(work: Callable[[Path, Any], None], folder: Path, shared: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.chdir(folder)
    work(folder, shared)


def _random(name: str, build: Build, seed: int, first: int, end: int, folder: Path, shared: Any) -> None:
    target = build(folder)
    _begin(shared)
    for number in range(first, end):
        shared[0] = number
        _try(target, input_of(target, name, seed, number), number, folder, shared)
    shared[0] = end


def _guided(name: str, build: Build, seed: int, runs: int, folder: Path, shared: Any) -> None:
    import atheris

    os.dup2(os.open(folder / _SAID, os.O_WRONLY | os.O_CREAT), 2)  # it names every module, and later every input
    with atheris.instrument_imports(include=["bonafide"]):
        target = build(folder)
    chance = Random(f"{seed}/{name}/guided")
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for place, each in enumerate(target.seeds):
        (corpus / f"seed-{place}").write_bytes(each)

    def one(data: bytes) -> None:
        _try(target, data, int(shared[0]), folder, shared)
        shared[0] += 1
        if shared[0] >= runs:
            os._exit(0)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        if number % 2:
            return bytes(atheris.Mutate(data, most))
        return Target(target.read, [data, *target.seeds], as_json=target.as_json).input(chance)[:most]

    _begin(shared)
    options = [
        f"-seed={seed + 1}",
        "-max_len=65536",
        "-timeout=600",
        "-rss_limit_mb=0",
        "-verbosity=0",
        "-len_control=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, custom_mutator=mutate)
    atheris.Fuzz()


def _try(target: Target, data: bytes, number: int, folder: Path, shared: Any) -> None:
    begun = shared[4] = time.process_time()
    broken: dict[str, Any] | None = None
    try:
        found = outcome(target, data)
    except Exception as error:
        what = str(error) if isinstance(error, BrokenContractError) else place_of(error)
        trace = "".join(traceback.format_exception(error)[-6:])[-1500:]
        broken = {"kind": "crash", "what": what, "trace": trace}
    took = time.process_time() - begun
    shared[5] = max(shared[5], took)
    if broken is None and took > SECONDS:
        broken = {"kind": "slow", "what": f"{took:.1f} s"}
    if broken is None:
        shared[2 if found == "value" else 1] += 1
    else:
        shared[3] += 1
        with (folder / _FINDINGS).open("a") as stream:
            stream.write(json.dumps({"number": number, **broken, "input": data.hex()[:4000]}) + "\n")
    if number % 512 == 0:
        shared[6] = max(shared[6], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _begin(shared: Any) -> None:
    """From here on, memory is limited."""
    shared[4], shared[7] = time.process_time(), 1
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
