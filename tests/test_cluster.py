"""``search --engine ray``: the bytes of the local search, whoever is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bonafide.errors import BonafideError
from bonafide.examples import Example
from bonafide.search.cluster import TRIES, UNDER_WAY, Cluster, _connected, in_cluster
from bonafide.search.places import Places
from bonafide.search.reading import search_reading
from bonafide.search.run import SearchWorkerDied, run_search
from bonafide.search.shards import shard_jobs
from bonafide.search.sql import open_sql, search_sql
from bonafide.synth.reading import write_reading_benchmark
from bonafide.synth.sql import Benchmark, write_benchmark
from bonafide.tasks.sql.queryset import QuerySet
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.task import SqlTask
from command_line import BONAFIDE, bonafide, contents, refused

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray")  # bonafide is to import it, in its way
SHARDS = 6
WORKERS = 2
DEADLINE = 120.0
LOOK = 0.02
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return write_benchmark(tmp_path_factory.mktemp("benchmark"), seed=0, tables=75, questions=40, max_conditions=1)


@pytest.fixture(scope="module")
def reference(data: Benchmark) -> dict[str, bytes | None]:
    search_sql(data.examples, data.store)
    return solutions(data.store)


@pytest.fixture
def out(data: Benchmark, request: pytest.FixtureRequest) -> Path:
    """Beside the reference: a manifest names its inputs from where it lies."""
    return data.store.with_name(request.node.name)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray on this machine, once for all tests that do not need one of their own."""
    tasks = str(Path(__file__).parent)  # for workers to find those below
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", tasks, prepend=os.pathsep)
        with _connected(Cluster(), WORKERS) as started:
            yield started


def solutions(store: Path) -> dict[str, bytes | None]:
    return {name: content for name, content in contents(store).items() if name != "timings.jsonl"}


def finish(data: Benchmark, out: Path, cluster: Cluster | None = None, progress: Any = None) -> dict[str, bytes | None]:
    search_sql(data.examples, out, workers=WORKERS, progress=progress, cluster=cluster)
    return solutions(out)


def descendants(of: int) -> dict[int, str]:
    """The living processes that a process started, and those that these started, with their titles."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(folder.name)] = int(parent)
    found = {}
    for number in parents:
        above = number
        while above not in (of, 0):
            above = parents.get(above, 0)
        if above == of and number != of:
            with suppress(OSError):
                found[number] = Path(f"/proc/{number}/cmdline").read_text()
    return found


def searching(of: int) -> list[int]:
    return [number for number, title in descendants(of).items() if title.startswith("ray::Worker")]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(LOOK)


def shards(out: Path) -> int:
    return len(list(out.glob("shard-*.parquet")))


def start(data: Benchmark, out: Path, *options: str) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a shell starts it."""
    command = [BONAFIDE, "search", "sql", "--examples", str(data.examples), "--out", str(out), "--engine", "ray"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, "--workers", str(WORKERS), *options], stdout=pipe, stderr=pipe, encoding="utf-8", process_group=0
    )


def test_ray_gives_the_bytes_of_the_local_search_and_tells_the_same_progress(
    ray: Any, data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    told: list[tuple[int, int]] = []
    assert finish(data, out, Cluster(), lambda *done: told.append(done)) == reference
    counts = json.loads((out / "manifest.json").read_text())["counts"]
    assert len(told) == SHARDS
    assert [sum(column) for column in zip(*told, strict=True)] == [counts["examples"], counts["solutions"]]


def test_ray_listens_on_this_machine_alone(ray: Any) -> None:
    assert [node["NodeManagerAddress"] for node in ray.nodes()] == ["127.0.0.1"]
    own = {number for folder in map(str, descendants(os.getpid())) for number in sockets(folder)}
    listening = {
        line.split()[1].rpartition(":")[0]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[9] in own
    }
    assert listening
    assert listening <= {"0100007F", "0000000000000000FFFF00000100007F"}


def sockets(process: str) -> Iterator[str]:
    for handle in Path(f"/proc/{process}/fd").glob("*"):
        with suppress(OSError):
            target = str(handle.readlink())
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]


def test_texts_are_searched_on_ray_too_and_into_a_url(ray: Any, tmp_path: Path) -> None:
    write_reading_benchmark(tmp_path, seed=1, documents=10, questions=2, split="train")
    for name, cluster in (("local", None), ("ray", Cluster())):
        search_reading(tmp_path / "examples.jsonl", tmp_path / name, cluster=cluster)
    assert solutions(tmp_path / "ray") == solutions(tmp_path / "local")
    with Places() as places:
        folder = places.out(f"memory://{tmp_path.name}/store")
        manifest = search_reading(tmp_path / "examples.jsonl", folder, cluster=Cluster(), places=places)
    shard = fsspec.filesystem("memory").cat_file(f"/{tmp_path.name}/store/{manifest['shards'][0]['file']}")
    assert shard == solutions(tmp_path / "local")["shard-00000.parquet"]


def test_killed_workers_are_replaced_and_their_shards_done_again(
    ray: Any, data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    killed: list[int] = []

    def kill(*_: int) -> None:
        for number in searching(os.getpid()):
            if len(killed) < 3:
                os.kill(number, signal.SIGKILL)
                killed.append(number)

    assert finish(data, out, Cluster(), kill) == reference
    assert len(set(killed)) == 3


class Interrupted(Exception):  # noqa: N818
    pass


def interrupt_at_half() -> Callable[[int, int], None]:
    done = count(1)

    def progress(*_: int) -> None:
        if next(done) == SHARDS // 2:
            raise Interrupted

    return progress


@pytest.mark.parametrize(("first", "second"), [(None, Cluster()), (Cluster(), None)])
def test_what_one_engine_began_the_other_finishes(
    ray: Any, data: Benchmark, reference: dict[str, bytes | None], out: Path, first: Any, second: Any
) -> None:
    with pytest.raises(Interrupted):
        finish(data, out, first, interrupt_at_half())
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("shard-*")}
    assert SHARDS // 2 <= len(kept) < SHARDS
    assert finish(data, out, second) == reference
    assert {name: (out / name).stat().st_mtime_ns for name in kept} == kept


class Deadly(SqlTask):
    """One of its examples ends the process that searches it."""

    def search(self, example: Example, context: Table) -> QuerySet:
        if example.id.endswith("-26-q7"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().search(example, context)


def test_a_shard_that_ends_its_worker_again_and_again_is_named_and_the_others_are_kept(
    ray: Any, data: Benchmark, reference: dict[str, bytes | None], out: Path
) -> None:
    task, inputs = open_sql(data.examples, out)
    with pytest.raises(SearchWorkerDied) as caught:
        run_search(Deadly(task.language, task.cap, task.seed), inputs, out, WORKERS, cluster=Cluster())
    ids = [example.id for example in inputs.examples][1000:1500]
    assert f"Shard 2 ended its worker {TRIES} times in a row: one of its examples, {ids[0]!r} to {ids[-1]!r} " in str(
        caught.value
    )
    assert "(numbers 1,001 to 1,500 of the file)" in str(caught.value)
    kept = solutions(out)
    assert "shard-00000.parquet" in kept
    assert "shard-00002.parquet" not in kept
    assert all(kept[name] == reference[name] for name in kept if name.startswith("shard-"))
    assert finish(data, out, Cluster()) == reference


class Failing(SqlTask):
    """What fails in the search itself would fail again."""

    def search(self, example: Example, context: Table) -> QuerySet:
        raise ZeroDivisionError(example.id)


def test_other_versions_on_a_machine_of_the_cluster_are_refused(
    ray: Any, data: Benchmark, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyarrow.__version__", "1.0")
    with pytest.raises(BonafideError, match=r"A machine of the cluster has other versions.*pyarrow 1\.0, found"):
        finish(data, out, Cluster())


def test_an_error_of_the_search_itself_comes_through_at_once(ray: Any, data: Benchmark, out: Path) -> None:
    task, inputs = open_sql(data.examples, out)
    with pytest.raises(ZeroDivisionError, match=r"^train-"):
        run_search(Failing(task.language, task.cap, task.seed), inputs, out, WORKERS, cluster=Cluster())


def test_at_most_two_shards_a_worker_are_under_way(ray: Any, data: Benchmark, out: Path) -> None:
    out.mkdir()
    task, inputs = open_sql(data.examples, out)
    taken = done = 0

    def jobs() -> Iterator[Any]:
        nonlocal taken
        for job in shard_jobs(inputs, out, "identity", set(range(SHARDS))):
            taken += 1
            yield job

    for done, _ in enumerate(in_cluster(task, jobs(), WORKERS, Cluster()), 1):
        assert taken - done < UNDER_WAY * WORKERS
    assert done == taken == SHARDS


def test_a_finished_store_needs_no_ray(
    data: Benchmark, reference: dict[str, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert finish(data, data.store, Cluster()) == reference


def test_without_ray_the_error_says_how_to_install_it(
    data: Benchmark, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BonafideError, match=r'pip install "bonafide\[cluster\]"'):
        finish(data, out, Cluster())
    assert not out.exists()


def test_a_cluster_that_is_not_there_is_an_error_not_a_wait(data: Benchmark, out: Path) -> None:
    options = ("search", "sql", "--examples", data.examples, "--out", out, "--address", "127.0.0.1:1")
    assert "--address 127.0.0.1:1 goes with --engine ray" in refused(bonafide(*options))
    assert "no Ray cluster to be reached at 127.0.0.1:1: " in refused(bonafide(*options, "--engine", "ray"))
    assert not out.exists()


def test_dry_run_takes_the_engine_and_starts_nothing(data: Benchmark, out: Path) -> None:
    done = bonafide("search", "sql", "--examples", data.examples, "--out", out, "--engine", "ray", "--dry-run")
    assert done.code == 0
    assert "Nothing was written." in done.stdout
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_ray_and_leaves_no_process(
    data: Benchmark, reference: dict[str, bytes | None], out: Path, number: signal.Signals
) -> None:
    process = start(data, out)
    until(lambda: shards(out) > 0 or process.poll() is not None)
    mine = descendants(process.pid)
    assert sum("ray::Worker" in title for title in mine.values()) == WORKERS
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    stdout, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130 if number == signal.SIGINT else process.returncode != 0
    assert stdout == ""
    assert "Traceback" not in said
    assert "run the same command again" in said or number == signal.SIGTERM
    until(lambda: not any(Path(f"/proc/{each}").exists() for each in mine))
    assert all(content == reference[name] for name, content in solutions(out).items() if name.startswith("shard-"))
    assert finish(data, out) == reference


@pytest.mark.slow
def test_a_node_that_is_lost_is_done_without(
    ray: Any, data: Benchmark, reference: dict[str, bytes | None], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster as Machines

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    here = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 << 20}
    machines = Machines(initialize_head=True, head_node_args={**here, "include_dashboard": False})
    try:
        second = machines.add_node(**here)
        process = start(data, out, "--address", machines.address)
        until(lambda: shards(out) > 0 or process.poll() is not None)
        machines.remove_node(second, allow_graceful=False)
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        machines.shutdown()
    assert process.returncode == 0, said
    assert solutions(out) == reference


@pytest.mark.long
def test_twenty_kills_in_twenty_thousand_examples() -> None:
    script = ROOT / "benchmarks" / "search_cluster.py"
    command = [sys.executable, str(script), "--examples", "20000", "--kills", "20", "--workers", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["identical"], figures["kills"]) == (True, 20)
    assert figures["ray"]["peak_mib"]["workers"] < 4096
