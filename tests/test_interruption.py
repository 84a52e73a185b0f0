"""A search that is interrupted, killed or run by more workers ends in the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bonafide.search.sql import search_sql
from bonafide.synth.sql import Benchmark, write_benchmark
from command_line import BONAFIDE, bonafide, contents, refused

SHARDS = 8
DEADLINE = 60.0
LOOK = 0.005
"""Seconds between two looks at something that is waited for."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return write_benchmark(tmp_path_factory.mktemp("benchmark"), seed=0, tables=100, questions=40)


@pytest.fixture
def out(data: Benchmark, request: pytest.FixtureRequest) -> Path:
    """Beside the reference: a manifest names its inputs from where it lies."""
    return data.store.with_name("".join(char if char.isalnum() else "-" for char in request.node.name))


@pytest.fixture(scope="module")
def reference(data: Benchmark) -> dict[str, bytes | None]:
    """Every file of an uninterrupted search but for the timings."""
    assert bonafide("search", "sql", "--examples", data.examples, "--out", data.store).code == 0
    found = solutions(data.store)
    assert set(found) == {"manifest.json", *(f"shard-{index:05d}.parquet" for index in range(SHARDS))}
    return found


def solutions(store: Path) -> dict[str, bytes | None]:
    return {name: content for name, content in contents(store).items() if name != "timings.jsonl"}


def arguments(data: Benchmark, out: Path, workers: int = 1) -> list[str]:
    return ["search", "sql", "--examples", str(data.examples), "--out", str(out), "--workers", str(workers)]


def start(data: Benchmark, out: Path, workers: int) -> subprocess.Popen[str]:
    """A search in a process group of its own, as a shell starts it."""
    command = [BONAFIDE, *arguments(data, out, workers)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, encoding="utf-8", process_group=0)


def finish(data: Benchmark, out: Path, workers: int = 1) -> dict[str, bytes | None]:
    done = bonafide(*arguments(data, out, workers))
    assert done.code == 0, done
    return solutions(out)


def until(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = DEADLINE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        assert process.poll() is None, f"it ended early: {process.communicate()}"
        time.sleep(LOOK)


def shards(out: Path) -> int:
    return len(list(out.glob("shard-*.parquet")))


def ended(process: subprocess.Popen[str]) -> str:
    """What it said on the way out."""
    stdout, stderr = process.communicate(timeout=DEADLINE)
    assert stdout == ""
    return stderr


def children(process: subprocess.Popen[str]) -> dict[int, str]:
    """The living children of a process, by number, with their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == process.pid and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [number for number, command in children(process).items() if "spawn_main" in command]


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("presses", [1, 3])
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_says_how_to_go_on_and_going_on_gives_the_same_bytes(
    data: Benchmark, reference: dict[str, bytes | None], out: Path, workers: int, presses: int
) -> None:
    process = start(data, out, workers)
    until(lambda: shards(out) > 0, process)
    mine = workers_of(process)
    for _ in range(presses):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.03)
    said = ended(process)
    assert process.returncode == 130, said
    assert f"Stopped. What was finished is kept in {out}: run the same command again to go on." in said
    assert "Traceback" not in said
    assert "Exception" not in said
    assert not any(map(alive, mine))
    kept = solutions(out)
    assert "manifest.json" not in kept
    assert not [name for name in kept if name.endswith(".part")]
    assert 0 < shards(out) < SHARDS
    assert all(kept[name] == reference[name] for name in kept if name.startswith("shard-"))
    assert finish(data, out, workers) == reference


def test_ctrl_c_while_workers_are_starting_shows_no_traceback(
    data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    process = start(data, out, workers=2)
    until(lambda: len(workers_of(process)) == 2, process)
    os.killpg(process.pid, signal.SIGINT)
    said = ended(process)
    assert process.returncode == 130, said
    assert "run the same command again" in said
    assert "Traceback" not in said
    assert finish(data, out, workers=2) == reference


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killing_it_again_and_again_changes_nothing(
    data: Benchmark, reference: dict[str, bytes | None], out: Path, workers: int
) -> None:
    chance = random.Random(f"kill/{workers}")
    kills = 0
    while kills < 6:
        if (out / "manifest.json").exists():
            assert finish(data, out, workers) == reference
            shutil.rmtree(out)
        process = start(data, out, workers)
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.2, 1.2))
        process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        ended(process)
        kills += process.returncode < 0
    assert finish(data, out, workers) == reference


def test_workers_do_not_outlive_a_parent_that_is_killed(
    data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    process = start(data, out, workers=2)
    until(lambda: shards(out) > 0, process)
    mine = children(process)
    assert len(workers_of(process)) == 2
    process.kill()
    process.wait()
    end = time.monotonic() + 2.0
    while any(map(alive, mine)) and time.monotonic() < end:
        time.sleep(LOOK)
    assert not [mine[number] for number in mine if alive(number)]
    ended(process)
    assert finish(data, out, workers=2) == reference


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bytes(
    data: Benchmark, reference: dict[str, bytes | None], out: Path, workers: int
) -> None:
    assert finish(data, out, workers) == reference


def test_a_worker_that_is_killed_is_reported_and_finished_shards_are_kept(
    data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    process = start(data, out, workers=2)
    until(lambda: shards(out) > 0, process)
    mine = workers_of(process)
    os.kill(mine[0], signal.SIGKILL)
    said = ended(process)
    assert process.returncode == 1
    assert "Error: A search worker died (killed, or out of memory). Finished shards are kept" in said
    assert "Traceback" not in said
    assert not any(map(alive, mine))
    kept = solutions(out)
    assert 0 < shards(out) < SHARDS
    assert all(kept[name] == reference[name] for name in kept if name.startswith("shard-"))
    assert finish(data, out, workers=2) == reference


def test_no_worker_is_started_while_another_could_be_found_dead(
    data: Benchmark, reference: dict[str, bytes | None], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwatched, spawn = [], ProcessPoolExecutor._spawn_process

    def noted(pool: Any) -> None:
        unwatched.append(pool._executor_manager_thread is None)
        spawn(pool)

    monkeypatch.setattr(ProcessPoolExecutor, "_spawn_process", noted)
    search_sql(data.examples, out, workers=3)
    assert unwatched == [True] * 3
    assert solutions(out) == reference


def test_what_a_killed_run_was_writing_is_cleaned_up(
    data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    process = start(data, out, workers=1)
    until(lambda: shards(out) > 0, process)
    process.kill()
    ended(process)
    (out / ".shard-00003.parquet.abc.part").write_bytes(b"PAR1 half a shard")
    (out / ".manifest.json.xyz.part").write_bytes(b"{")
    (out / "shard-00004.parquet").write_bytes(b"PAR1 a shard that the disk lost")
    assert finish(data, out) == reference


def test_a_run_killed_between_its_manifest_and_its_end_is_finished(
    data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    assert finish(data, out) == reference
    (out / "search.json").write_text("{}")
    assert finish(data, out) == reference


def test_a_second_run_on_a_finished_store_changes_nothing(data: Benchmark, reference: dict[str, bytes | None]) -> None:
    def times() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in [data.store, *data.store.iterdir()]}

    before, content = times(), contents(data.store)
    done = bonafide(*arguments(data, data.store, workers=2))
    assert done.code == 0
    assert "solutions of 4,000 examples" in done.stderr
    assert "4000/" in done.stderr
    assert contents(data.store) == content
    assert times() == before


def test_a_second_run_on_the_same_folder_is_refused_and_the_first_is_unharmed(
    data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    first = start(data, out, workers=2)
    until(lambda: shards(out) > 0, first)
    os.killpg(first.pid, signal.SIGSTOP)
    try:
        assert shards(out) < SHARDS
        before = contents(out)
        assert f"Another run is writing to {out} right now." in refused(bonafide(*arguments(data, out)))
        assert contents(out) == before
    finally:
        os.killpg(first.pid, signal.SIGCONT)
    ended(first)
    assert first.returncode == 0
    assert solutions(out) == reference
