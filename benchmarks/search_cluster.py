"""Search many generated examples locally and with Ray whose workers are killed on the way, and compare the bytes.

    python benchmarks/search_cluster.py --examples 1000000 --kills 20 --workers 2
    python benchmarks/search_cluster.py --examples 20000 --kills 20 --workers 2 --json

The examples are those of ``bonafide.synth``, written as they are made. Both searches are the command line's own. The
kills (SIGKILL) come at moments drawn by ``--seed``, each when so many shards are done, and hit one of the workers that
are there. Memory is looked at four times a second: the sum over processes, by resident size (what they share counts
for each) and by proportional size (what they share counts once). The command fails if the stores differ in a byte
(``timings.jsonl``, a log, aside), if it could not kill as often as it should, or if the workers together held 4 GiB.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bonafide.examples import example_to_json
from bonafide.files import write_whole
from bonafide.search.shards import SHARD_EXAMPLES
from bonafide.synth.sql import generate
from bonafide.tasks.sql.tables import table_to_json

QUESTIONS = 50
"""Of a table."""
TABLES = 20
"""That are made at a time."""
LIMIT_MIB = 4096
LOOK = 0.25


def main() -> None:
    """Generate, search twice, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    parser.add_argument("--folder", type=Path, help="where to work, and to leave everything; else a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        figures = compare(folder, arguments.examples, arguments.kills, arguments.workers, arguments.seed)
    print(json.dumps(figures, indent=2) if arguments.json else shown(figures))
    if not (figures["identical"] and figures["kills"] == arguments.kills):
        sys.exit("The stores differ, or there were not enough kills.")
    if figures["ray"]["peak_mib"]["workers"] >= LIMIT_MIB:
        sys.exit(f"The workers held {LIMIT_MIB} MiB or more.")


def compare(folder: Path, examples: int, kills: int, workers: int, seed: int) -> dict:
    """The figures of both searches."""
    start = time.perf_counter()
    path = write_examples(folder, examples, seed)
    generated = time.perf_counter() - start
    shards = -(-examples // SHARD_EXAMPLES)
    local = watched(path, folder / "local", workers, "local", lambda _: None)
    chance = random.Random(f"kills/{seed}")
    killer = Killer(chance, sorted(chance.sample(range(1, shards - 2 * workers), kills)))
    ray = watched(path, folder / "ray", workers, "ray", killer)
    return {
        "examples": examples,
        "shards": shards,
        "workers": workers,
        "kills": killer.done,
        "identical": fingerprint(folder / "local") == fingerprint(folder / "ray"),
        "generated_seconds": round(generated, 1),
        "local": local,
        "ray": ray,
        "ratio": round(ray["seconds"] / local["seconds"], 2),
        "load_average": os.getloadavg()[0],
    }


def write_examples(folder: Path, count: int, seed: int) -> Path:
    """``examples.jsonl`` and ``tables.jsonl``; never more than a few tables are in memory."""
    written, part = 0, 0
    with write_whole(folder / "examples.jsonl") as examples, write_whole(folder / "tables.jsonl") as tables:
        while written < count:
            made, pairs = generate(TABLES, QUESTIONS, seed * 1_000_000 + part, spuriousness=0.0, max_conditions=1)
            for table in made:
                tables.write(json.dumps({**table_to_json(table), "id": f"{part}-{table.id}"}).encode() + b"\n")
            for example, _ in pairs[: count - written]:
                named = replace(example, id=f"{part}-{example.id}", context=f"{part}-{example.context}")
                examples.write(json.dumps(example_to_json(named)).encode() + b"\n")
                written += 1
            part += 1
    return folder / "examples.jsonl"


@dataclass
class Killer:
    """Kills one of the workers each time that enough shards are done."""

    chance: random.Random
    moments: list[int]
    done: int = 0
    hit: set[int] = field(default_factory=set)

    def __call__(self, run: Run) -> None:
        """Look whether it is time."""
        while self.moments and run.shards >= self.moments[0]:
            workers = [each.number for each in run.processes if each.group == "workers" and each.number not in self.hit]
            if not workers:
                return  # they are only starting
            number = self.chance.choice(sorted(workers))
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
                self.done += 1
            self.hit.add(number)
            self.moments.pop(0)


@dataclass(frozen=True)
class Process:
    """One of the processes of a search; ``group`` says which part it plays."""

    number: int
    group: str


@dataclass(frozen=True)
class Run:
    """A search, as it stands."""

    processes: list[Process]
    shards: int


def watched(examples: Path, out: Path, workers: int, engine: str, look: Callable[[Run], None]) -> dict:
    """Search by the command line; time, and the most memory of each group of processes."""
    command = [sys.executable, "-m", "bonafide", "search", "sql", "--examples", examples, "--out", out]
    peaks: dict[str, float] = {}
    proportional: dict[str, float] = {}
    start = time.perf_counter()
    with subprocess.Popen(
        [*map(str, command), "--workers", str(workers), "--engine", engine], stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            processes = list(family(process.pid))
            look(Run(processes, sum(1 for _ in out.glob("shard-*.parquet")) if out.exists() else 0))
            for sums, kind in ((peaks, "Rss"), (proportional, "Pss")):
                now: dict[str, float] = {}
                for each in processes:
                    now[each.group] = now.get(each.group, 0.0) + memory(each.number, kind)
                for group, size in now.items():
                    sums[group] = round(max(sums.get(group, 0.0), size))
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
        assert process.stderr is not None
        said = process.stderr.read()
    if process.returncode != 0:
        sys.exit(f"The search with --engine {engine} ended with {process.returncode}: {said}")
    seconds = time.perf_counter() - start
    return {"seconds": round(seconds, 1), "peak_mib": peaks, "peak_proportional_mib": proportional}


def family(driver: int) -> Iterator[Process]:
    """The command's process (``driver``), those that search (``workers``), and Ray's and Python's own (``others``)."""
    parents = dict(every_parent())
    for number in parents:
        above = number
        while above not in (driver, 0, 1):
            above = parents.get(above, 0)
        if above == driver:
            with suppress(OSError):
                yield Process(number, "driver" if number == driver else group_of(number))


def group_of(number: int) -> str:
    """Which part a process of the search plays, by its title."""
    title = Path(f"/proc/{number}/cmdline").read_bytes()
    return "workers" if title.startswith((b"ray::Worker", b"ray::IDLE")) or b"spawn_main" in title else "others"


def every_parent() -> Iterator[tuple[int, int]]:
    """The parent of each living process."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                yield int(folder.name), int(parent)


def memory(process: int, kind: str) -> float:
    """MiB of a process: ``Rss`` or ``Pss``."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def fingerprint(store: Path) -> dict[str, str]:
    """The hash of every file of a store but its log."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in store.iterdir()
        if path.name != "timings.jsonl"
    }


def shown(figures: dict) -> str:
    """The figures for people."""
    lines = [
        f"{figures['examples']:,} examples in {figures['shards']:,} shards, {figures['workers']} workers; made in "
        f"{figures['generated_seconds']:.0f} s"
    ]
    for engine in ("local", "ray"):
        run = figures[engine]
        sizes = ", ".join(
            f"{group} {size:,.0f} ({run['peak_proportional_mib'][group]:,.0f})"
            for group, size in run["peak_mib"].items()
        )
        lines.append(f"{engine:>6}: {run['seconds']:,.0f} s; at most MiB resident (proportional): {sizes}")
    same = "the same bytes" if figures["identical"] else "OTHER BYTES"
    lines.append(f"{figures['kills']} workers killed; {same}; ray takes {figures['ratio']} times as long as local")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
