"""``search --dry-run``: what a search will take, from a sample, with nothing written."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bonafide.examples import example_to_json, write_jsonl
from bonafide.search.discrete import open_discrete, search_discrete
from bonafide.search.estimate import SAMPLE, Estimate, estimate_search, tail_of
from bonafide.search.reading import open_reading, search_reading
from bonafide.search.sql import open_sql, search_sql
from bonafide.solutions import SolutionStore
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from bonafide.synth.sql import generate
from bonafide.tasks.sql.tables import table_to_json
from command_line import bonafide, contents, refused_unchanged, write_data

SEARCHES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sql": (open_sql, search_sql),
    "discrete": (open_discrete, search_discrete),
    "reading": (open_reading, search_reading),
}
TIME, DISK, LARGEST = 2.0, 1.5, 4.0
"""The factors within which the estimates lie: docs/reliability.md states them."""


def write_examples(folder: Path, task: str) -> Path:
    """A thousand examples, many of a context."""
    if task == "sql":
        tables, pairs = generate(tables=100, questions=10, seed=3, split="train")
        write_jsonl(folder / "tables.jsonl", map(table_to_json, tables))
        write_jsonl(folder / "examples.jsonl", (example_to_json(example) for example, _ in pairs))
    elif task == "discrete":
        write_discrete_benchmark(folder, seed=1, passages=125, questions=8, split="train")
    else:
        write_reading_benchmark(folder, seed=1, documents=125, questions=8, split="train")
    return folder / "examples.jsonl"


def within(factor: float, estimate: float, truth: float) -> bool:
    return truth / factor <= estimate <= truth * factor


@pytest.mark.parametrize("task", SEARCHES)
def test_an_estimate_lies_within_the_stated_factors(tmp_path: Path, task: str) -> None:
    opened, search = SEARCHES[task]
    examples, out = write_examples(tmp_path, task), tmp_path / "solutions"
    estimate: Estimate = estimate_search(*opened(examples, out))
    assert not out.exists()
    gc.collect()  # of all tests before this one; a search of its own has nothing else to look through
    start = time.process_time()
    manifest = search(examples, out)
    assert within(TIME, estimate.seconds, time.process_time() - start)
    store: SolutionStore[Any] = SolutionStore(out, opened(examples, out)[0].codec)
    assert estimate.sampled == SAMPLE < estimate.examples == len(store) >= 1000
    assert within(DISK, estimate.disk, sum(path.stat().st_size for path in out.glob("*.parquet")))
    assert estimate.disk_range[0] <= estimate.disk <= estimate.disk_range[1]
    assert within(DISK, estimate.solutions, manifest["counts"]["solutions"])
    assert within(LARGEST, estimate.largest_expected, store.sizes.max())
    for name, size in estimate.largest:
        assert store[name].size == size


def test_a_pause_of_the_process_is_not_taken_for_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second in one of 200 examples would be 2.5 in a thousand."""
    task, inputs = open_discrete(write_examples(tmp_path, "discrete"), tmp_path / "solutions")
    search, calls, collecting = task.search, iter(range(10**9)), []

    def paused(example: Any, context: Any) -> Any:
        collecting.append(gc.isenabled())
        if next(calls) == 100:
            end = time.process_time() + 0.5
            while time.process_time() < end:
                pass
        return search(example, context)

    plain = estimate_search(task, inputs)
    monkeypatch.setattr(type(task), "search", staticmethod(paused))
    assert within(1.5, estimate_search(task, inputs).seconds, plain.seconds)
    assert not any(collecting[2:]), "after what only the first search of a process takes"
    assert gc.isenabled()


def test_a_file_smaller_than_the_sample_is_searched_whole(tmp_path: Path) -> None:
    write_discrete_benchmark(tmp_path, seed=1, passages=12, questions=8, split="train")
    search = open_discrete(tmp_path / "examples.jsonl", tmp_path / "solutions")
    estimate = estimate_search(*search)
    manifest = search_discrete(tmp_path / "examples.jsonl", tmp_path / "solutions")
    assert estimate.sampled == estimate.examples == manifest["counts"]["examples"]
    assert estimate.solutions == manifest["counts"]["solutions"]
    assert estimate.solutions_range == pytest.approx((estimate.solutions, estimate.solutions))
    assert estimate.largest_expected == estimate.largest[0][1]
    assert not estimate.heavy


def test_the_sample_is_the_seeds(tmp_path: Path) -> None:
    search = open_reading(write_examples(tmp_path, "reading"), tmp_path / "out")
    one, again, other = (estimate_search(*search, seed).largest for seed in (0, 0, 1))
    assert one == again != other


def test_a_heavy_tail_is_known_by_its_sample() -> None:
    truth = [10**6 // place for place in range(1, 100_001)]  # the largest, half of it, a third of it, …
    sample = truth[250::500]
    weight, largest = tail_of(sample, len(truth))
    assert len(sample) == SAMPLE
    assert 0.7 < weight < 1.4
    assert within(LARGEST, float(largest[0]), truth[0])
    assert within(LARGEST, float(largest.sum()), sum(truth[: len(largest)]))
    assert sample[0] * 10 < truth[0], "the sample alone would not have known"


@pytest.mark.parametrize("sizes", [[0] * 200, [3], [5] + [0] * 199, [4] * 200])
def test_a_tail_of_nothing_or_of_equal_sizes_stays_what_it_is(sizes: list[int]) -> None:
    weight, largest = tail_of(sizes, 10_000)
    assert weight == 0.0
    assert largest[0] == sizes[0]


def test_workers_share_shards_not_examples() -> None:
    estimate = Estimate(
        1100, 200, 1.0, 60.0, (50.0, 70.0), 10.0, (9.0, 11.0), 1.0, (1.0, 1.0), 0.0, (), 1.0, 0.0
    )  # fmt: skip
    assert [estimate.seconds_with(workers) for workers in (1, 2, 3, 8)] == [60.0, 30.0, 20.0, 20.0]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    for task in SEARCHES:
        write_examples(folder / task, task)
    return folder


@pytest.mark.parametrize("task", SEARCHES)
def test_the_command_prints_a_table_and_writes_nothing(written: Path, task: str) -> None:
    before = contents(written)
    examples, out = written / task / "examples.jsonl", written / "deep" / "solutions"
    outcome = bonafide("search", task, "--examples", examples, "--out", out, "--workers", "2", "--dry-run")
    assert outcome.code == 0, outcome.stderr
    assert contents(written) == before
    assert f"From {SAMPLE} of 1,000 examples" in outcome.stdout
    for row in ("time with one worker", "time with 2 workers", "solutions stored", "disk", "largest set of the file"):
        assert re.search(rf"│ {row}.*│ +[\d.,]+", outcome.stdout), row
    assert "Nothing was written" in outcome.stdout


def test_a_dry_run_refuses_what_the_search_refuses(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    with (data / "examples.jsonl").open("a") as stream:
        stream.write('{"id": "q1", "question": "", "context": "nowhere", "answers": [1]}\n')
    command = ("search", "sql", "--examples", data / "examples.jsonl", "--out", data / "out")
    message, problems = refused_unchanged(data, lambda: bonafide(*command, "--dry-run"))
    assert (message, problems) == refused_unchanged(data, lambda: bonafide(*command))
    assert problems
