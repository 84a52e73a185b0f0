"""How fast the explorer is on a large store: 100,000 examples with 20 million solutions.

    python benchmarks/explore.py --work DIR            # makes DIR/run and DIR/data (about a minute), then measures
    python benchmarks/explore.py --work DIR --examples 2000 --solutions 400000

The questions and tables are the synthetic benchmark's; their solution sets are queries drawn at random over the columns
of the table and the values of the question, with sizes from a log-normal law, written by the store's own writer. What
the queries return does not matter here: the explorer does not execute them but for the one that it lights. The model is
a small one, trained for one epoch on 48 of the questions; it scores what the pages show.

Times are of whole requests over HTTP, one after the other, from another process; a question is the form and its answer.
Memory is what the explorer's process has resident, and the most that it ever had (VmHWM).
"""

from __future__ import annotations

import argparse
import html
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bonafide.examples import Example, example_to_json, write_jsonl
from bonafide.files import described
from bonafide.learn.kept import KEPT, writing_kept
from bonafide.learn.recipe import recipe_from
from bonafide.learn.trainer import train
from bonafide.sealed import vouched
from bonafide.search.sql import search_sql
from bonafide.solutions import FORMAT, shard_name, write_manifest, write_shard
from bonafide.synth.sql import generate
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import Condition, Operator
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.tables import Table, table_to_json
from bonafide.tasks.sql.task import QueryCodec, SqlTask

SHARD = 500
QUESTIONS = 10
COPIES = 10
"""Tables that are the same but for their names."""
MOST = 40
"""Solutions of a set that the run keeps."""


def main() -> None:
    """Make the store if it is not there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--solutions", type=int, default=20_000_000)
    parser.add_argument("--pages", type=int, default=200, help="example pages to time")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    run = arguments.work / "run"
    if not (run / "recipe.json").exists():
        start = time.perf_counter()
        make(arguments.work, arguments.examples, arguments.solutions, arguments.seed)
        print(f"made {arguments.examples:,} examples, {arguments.solutions:,} solutions "
              f"in {time.perf_counter() - start:.0f} s")  # fmt: skip
    measure(run, arguments.pages, arguments.seed)


def make(work: Path, examples: int, solutions: int, seed: int) -> None:
    """Data, store, and a run whose recipe names them."""
    data, store = work / "data", work / "solutions"
    tables, pool = generate(max(1, examples // QUESTIONS // COPIES), QUESTIONS, seed)
    by_name = {table.id: table for table in tables}
    asked = [
        (replace(example, id=f"{example.id}/{copy}", context=f"{example.context}/{copy}"), by_name[example.context])
        for copy in range(-(-examples // len(pool)))
        for example, _ in pool
    ][:examples]
    copies = {example.context: table for example, table in asked}
    write_jsonl(data / "tables.jsonl", (table_to_json(replace(table, id=name)) for name, table in copies.items()))
    write_jsonl(data / "examples.jsonl", (example_to_json(example) for example, _ in asked))
    store.mkdir()
    chance = np.random.default_rng(seed)
    sizes = drawn_sizes(examples, solutions, chance)
    counts = []
    for shard in range(-(-examples // SHARD)):
        part = slice(shard * SHARD, (shard + 1) * SHARD)
        sets = random_sets(asked[part], sizes[part], chance)
        counts.append(write_shard(store / shard_name(shard), sets, QueryCodec(), "benchmark"))
    task = SqlTask(Language())
    write_manifest(
        store,
        {
            "format": FORMAT,
            "task": task.name,
            "options": task.options,
            "inputs": {
                "examples": described([data / "examples.jsonl"], store),
                "tables": described([data / "tables.jsonl"], store),
                "jsonl": True,
                "types": {},
                "context": None,
            },
            "shard_examples": SHARD,
        },
        counts,
    )
    used = [(example.id, size) for (example, _), size in zip(asked, sizes, strict=True) if size]
    make_run(work, [example for example, _ in asked[:48]], by_name, used, chance)


def drawn_sizes(examples: int, solutions: int, chance: np.random.Generator) -> list[int]:
    """Sizes that sum to ``solutions``; one in fifty is 0, none is more than a fiftieth of all."""
    weights = chance.lognormal(0.0, 1.8, examples)
    weights[chance.random(examples) < 0.02] = 0.0
    sizes = np.minimum(weights / weights.sum() * solutions, solutions / 50).astype(np.int64)
    short = np.flatnonzero(sizes > 0)
    sizes[short] += (solutions - sizes.sum()) // len(short)
    sizes[short[0]] += solutions - sizes.sum()
    return sizes.tolist()


def random_sets(
    asked: list[tuple[Example, Table]], sizes: list[int], chance: np.random.Generator
) -> Iterator[tuple[str, QuerySet]]:
    """A set of random queries for each example."""
    for (example, table), size in zip(asked, sizes, strict=True):
        conditions = grounded(example.question, table)
        where = np.sort(chance.integers(0, len(conditions) - 2, (size, 3)), axis=1) + np.arange(3)
        where[np.arange(3) >= chance.integers(1, 4, size)[:, None]] = -1
        yield (
            example.id,
            QuerySet(
                conditions,
                chance.integers(0, len(table.header), size).astype(np.int32),
                chance.integers(0, 6, size).astype(np.int8),
                where.astype(np.int32),
                size,
                True,
            ),
        )


def grounded(question: str, table: Table) -> tuple[GroundedCondition, ...]:
    """Conditions on the values of a question: its words for text columns, its numbers for real ones."""
    runs = question_runs(question)
    found = []
    for column, kind in enumerate(table.types):
        values = runs.texts if kind == "text" else runs.numbers
        for value in list(values)[:6]:
            found.append(GroundedCondition(Condition(column, Operator.EQUAL, value), tuple(values[value])))
    return tuple(sorted(found, key=lambda each: (each.condition.column, str(each.condition.value))))


def make_run(
    work: Path,
    examples: list[Example],
    tables: dict[str, Table],
    sizes: list[tuple[str, int]],
    chance: np.random.Generator,
) -> None:
    """A small trained model in a run whose recipe and choices are those of the large store."""
    small, run = work / "small", work / "run"
    held = {example.context: replace(tables[example.context.rpartition("/")[0]], id=example.context)
            for example in examples}  # fmt: skip
    write_jsonl(small / "train" / "tables.jsonl", map(table_to_json, held.values()))
    write_jsonl(small / "train" / "examples.jsonl", map(example_to_json, examples))
    search_sql(small / "train" / "examples.jsonl", small / "solutions")
    settings = {
        "data": {"root": str(small), "solutions": str(small / "solutions"), "dev": "", "max_solutions": MOST},
        "solver": {"encoder": "scratch", "layers": 1, "width": 64, "heads": 2, "head_width": 64},
        "reconstructor": {"kind": "t-scratch", "layers": 1, "width": 64, "heads": 2},
        "objective": {"method": "mimax", "options": {"switch": 0.5}},
        "train": {"epochs": 1.0, "batch": 8},
    }
    train(recipe_from(settings, "the benchmark"), run)
    settings["data"] |= {"root": str(work.resolve()), "solutions": str((work / "solutions").resolve())}
    with writing_kept(run / KEPT) as note:
        for name, size in sizes:
            note(name, size, np.sort(chance.choice(size, MOST, replace=False)) if size > MOST else None)
    chosen = {
        name: [int(chance.integers(0, min(size, MOST))) for _, size in sizes]
        for name in ("selected", "solver", "reconstructor")
    }
    with vouched(run / "selections.jsonl"):
        write_jsonl(run / "selections.jsonl", [{"epoch": 1.0, **chosen}])
    made = recipe_from(settings, "the benchmark").to_json()
    (run / "recipe.json").write_text(json.dumps(made))


def measure(run: Path, pages: int, seed: int) -> None:
    """Start the explorer twice (to build the index, and with it there) and time its pages."""
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "judge.jsonl"):
        (run / "explore" / name).unlink(missing_ok=True)
    for label in ("index not there", "index there"):
        start = time.perf_counter()
        process, address = started(run)
        try:
            print(f"{label}: listening after {time.perf_counter() - start:.1f} s")
            report("first page", [timed(address)])
            if label == "index there":
                measure_pages(address, process.pid, pages, seed)
        finally:
            process.terminate()
            process.wait()


def measure_pages(address: str, pid: int, pages: int, seed: int) -> None:
    """Time every kind of page."""
    count = int(re.search(rb"1 of ([0-9,]+)", get(f"{address}example/0"))[1].replace(b",", b""))
    places = random.Random(seed).sample(range(count), pages)
    report("any example, model being loaded", [timed(f"{address}example/{place}") for place in places[:20]])
    report_memory("before the model is there", pid)
    start = time.perf_counter()
    while b"being loaded" in get(address):
        time.sleep(0.5)
    print(f"model loaded {time.perf_counter() - start:.1f} s later")
    report_memory("with the model", pid)
    report("any example", [timed(f"{address}example/{place}") for place in places])
    report_memory("after these examples", pid)
    largest = re.findall(rb'href="/example/(\d+)"', get(f"{address}examples?sort=largest"))[:10]
    report("the ten largest sets", [timed(f"{address}example/{int(place)}") for place in largest])
    report("the same by text", [timed(f"{address}example/{int(place)}?find=count") for place in largest])
    report("page 2 of a listing, by size", [timed(f"{address}examples?sort=largest&page=2") for _ in range(5)])
    report("search for a word of a question", [timed(f"{address}examples?find=customer") for _ in range(5)])
    report("overview", [timed(address) for _ in range(10)])
    report_memory("memory", pid)
    report("a first question", [timed_question(address, places[0])])
    report("a question", [timed_question(address, place) for place in places[:20]])
    report_memory("after asking", pid)


def started(run: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The explorer in a process of its own, and its address."""
    log = run / "explorer.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "bonafide", "explore", str(run), "--port", "0", "--no-open"],
            stderr=stream,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    while process.poll() is None:
        if found := re.search(r'"address": "(http://[^"]+)"', log.read_text()):
            return process, found[1]
        time.sleep(0.05)
    raise SystemExit(f"The explorer ended with {process.returncode}: {log.read_text()}")


def timed(url: str) -> float:
    """Seconds of a request."""
    start = time.perf_counter()
    get(url)
    return time.perf_counter() - start


def timed_question(address: str, place: int) -> float:
    """Seconds to ask the question of an example about its table."""
    start = time.perf_counter()
    form = get(f"{address}ask?example={place}").decode()
    asked = re.search(r'<input id="question"[^>]* value="([^"]*)"', form)
    table = re.search(r'<(?:input id="table"[^>]*|option) value="([^"]*)"(?: selected| maxlength)', form)
    fields = {"question": html.unescape(asked[1]), "table": html.unescape(table[1])}
    body = "".join(f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                   for name, value in fields.items())  # fmt: skip
    kind = {"Content-Type": "multipart/form-data; boundary=edge", "Accept": "text/html"}
    sent = urllib.request.Request(f"{address}ask", f"{body}--edge--\r\n".encode(), kind)
    with urllib.request.urlopen(sent) as response:
        assert b'class="best"' in response.read()
    return time.perf_counter() - start


def get(url: str) -> bytes:
    """The body of a page."""
    with urllib.request.urlopen(url) as response:
        return response.read()


def report_memory(name: str, pid: int) -> None:
    """What a process has resident, and the most that it ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, most = (int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024 for key in ("VmRSS", "VmHWM"))
    print(f"{name}: {now:.0f} MiB, {most:.0f} MiB at most")


def report(name: str, seconds: list[float]) -> None:
    """Median, 95th percentile and most, in milliseconds."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    print(f"{name}: {1000 * statistics.median(ordered):.0f} ms median, {1000 * high:.0f} ms p95, "
          f"{1000 * ordered[-1]:.0f} ms most, of {len(ordered)}")  # fmt: skip


if __name__ == "__main__":
    main()
