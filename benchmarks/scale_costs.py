"""What each stage costs: seconds of a processor and bytes, at a few sizes of what it grows with.

For ``benchmarks/scale.py measure``. Every time is this process's own processor time (of ``serve``: the server's), the
least of three, so that what else runs here can only add little. Data is generated and models are untrained: neither
changes a time. Bytes are those of Python's and numpy's allocations, of a prepared table those of the process.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import random
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bonafide.documents import Document
from bonafide.examples import Example, example_to_json, open_examples, write_jsonl
from bonafide.files import content_hash
from bonafide.learn.data import load_training_data
from bonafide.learn.recipe import recipe_from
from bonafide.search.sql import search_sql
from bonafide.solutions import write_sets
from bonafide.synth import discrete, sql
from bonafide.synth import reading as texts
from bonafide.synth.shop import make_shop
from bonafide.tasks.discrete.task import DiscreteTask
from bonafide.tasks.reading.task import ReadingTask
from bonafide.tasks.sql.tables import Table, TableFile, table_to_json
from bonafide.tasks.sql.task import SqlTask

Curve = dict[str, Any]
COLUMNS = 7
"""Of the table of orders that grows by rows."""
LISTED = 100
"""Solutions that are listed where something else is measured."""


def seconds(work: Callable[..., object], *given: Any, least: float = 0.05, times: int = 3) -> float:
    """Processor seconds of one call: the least of some rounds, each of as many calls as take ``least`` seconds."""
    start = time.process_time()
    work(*given)
    calls = max(1, int(least / max(1e-6, time.process_time() - start)))
    found = []
    for _ in range(times):
        start = time.process_time()
        for _ in range(calls):
            work(*given)
        found.append((time.process_time() - start) / calls)
    return min(found)


def curve(per: str, by: str, at: str, points: Iterable[tuple[float, float]]) -> Curve:
    """Seconds ``per`` something at some sizes of what is named ``by``; ``at`` is what stays the same."""
    return {"per": per, "by": by, "at": at, "points": [[float(x), y] for x, y in points]}


def held(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes that the result of ``work`` keeps, and the most that it held on the way."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    result = work()
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return kept - before, most - before


def shop(rows: int, columns: int = COLUMNS, questions: int = 12) -> tuple[Table, list[Example]]:
    """The table of orders with more columns of numbers, and questions on it."""
    table, pairs = make_shop(0, questions, rows)
    chance = random.Random(rows)
    more = [[chance.randint(0, 10 ** (1 + number % 4)) for _ in range(rows)] for number in range(columns - COLUMNS)]
    table = replace(
        table,
        header=(*table.header, *(f"number {number}" for number in range(len(more)))),
        types=(*table.types, *("real" for _ in more)),
        rows=[row + extra for row, extra in zip(table.rows, zip(*more, strict=True), strict=True)]
        if more
        else table.rows,
    )
    examples = [Example(f"q{place}", pair.question, "orders", tuple(pair.answer)) for place, pair in enumerate(pairs)]
    return table, examples


def write_sql(folder: Path, examples: int, questions: int = 50) -> Path:
    """So many generated examples, ``questions`` on each table: copies of twenty tables under names of their own."""
    tables, pairs = sql.generate(20, questions, seed=0)
    count = -(-examples // questions)
    named = (replace(tables[place % 20], id=f"{tables[place % 20].id}-{place // 20}") for place in range(count))
    write_jsonl(folder / "tables.jsonl", map(table_to_json, named))

    def copies() -> Iterator[Example]:
        for place in range(examples):
            example, copy = pairs[place % len(pairs)][0], place // len(pairs)
            yield replace(example, id=f"{example.id}-{copy}", context=f"{example.context}-{copy}")

    write_jsonl(folder / "examples.jsonl", map(example_to_json, copies()))
    return folder / "examples.jsonl"


def reading(
    folder: Path,
    sizes: tuple[int, ...] = (2_000, 8_000, 32_000),
    tables: tuple[int, ...] = (100, 1_000, 10_000, 100_000),
) -> dict[str, Curve]:
    """What one process does before a search: validate and hash the examples, validate the tables."""
    points: dict[str, list[tuple[float, float]]] = {"validate": [], "hash": []}
    for size in sizes:
        path = write_sql(folder / str(size), size)
        points["validate"].append((size, seconds(open_examples, path, times=2) / size))
        points["hash"].append((size, seconds(content_hash, path, times=2) / size))
    cells = []
    for rows in tables:
        path = folder / f"{rows}.jsonl"
        write_jsonl(path, [table_to_json(shop(rows)[0])])
        cells.append((rows * COLUMNS, seconds(TableFile, path, times=2) / rows / COLUMNS))
    return {
        "read: validate examples": curve("example", "examples", "", points["validate"]),
        "read: hash examples": curve("example", "examples", "", points["hash"]),
        "read: validate a table": curve("cell", "cells", "", cells),
    }


def driving(folder: Path, sizes: tuple[int, ...] = (1_000, 4_000)) -> Curve:
    """What the first process does for two workers while they search: reads, ships, hears, writes the manifest."""
    points = []
    for size in sizes:
        path, start = write_sql(folder / f"driven-{size}", size), [0.0]
        began = partial(_note, start)
        search_sql(path, folder / f"driven-{size}" / "solutions", workers=2, started=began)
        points.append((size, (time.process_time() - start[0]) / size))
    return curve("example", "examples", "two local workers", points)


def searching_sql(
    rows: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000, 1_000_000),
    columns: tuple[int, ...] = (7, 14, 28, 56),
    listed: tuple[int, ...] = (100, 1_000, 10_000, 100_000),
) -> dict[str, Curve]:
    """By rows, by columns and by the solutions that are listed."""
    task, found = SqlTask(cap=LISTED), {}
    by_rows, preparing = [], []
    for count in rows:
        table, examples = shop(count)
        raw = json.dumps(table_to_json(table)).encode()
        context = task.prepare(raw)
        each = seconds(_search, task, examples, context) / len(examples)
        by_rows.append((count, each))
        rounds = 3 if count <= 100_000 else 1
        spent = seconds(_prepare_and_search, task, examples, raw, times=rounds) - each * len(examples)
        preparing.append((count * COLUMNS, max(spent, 1e-9) / (count * COLUMNS)))
    found["search sql: by rows"] = curve("example", "rows", f"{COLUMNS} columns, {LISTED:,} listed", by_rows)
    found["search sql: prepare a table"] = curve("cell", "cells", f"{COLUMNS} columns", preparing)
    by_columns = []
    for count in columns:
        context, examples = shop(1_000, count)
        by_columns.append((count, seconds(_search, task, examples, context) / len(examples)))
    found["search sql: by columns"] = curve("example", "columns", f"1,000 rows, {LISTED:,} listed", by_columns)
    context, (example, *_) = wide_sets()
    by_solutions = []
    for cap in listed:
        by_solutions.append((cap, seconds(SqlTask(cap=cap).search, example, context)))
    found["search sql: by solutions listed"] = curve("example", "solutions", "30 rows, 40 columns", by_solutions)
    return found


@cache
def wide_sets() -> tuple[Table, list[Example]]:
    """A table of 40 columns, and questions by the size of their sets, of more than 100,000 solutions first."""
    context, examples = shop(30, 40, 60)
    task = SqlTask(cap=1)
    return context, sorted(examples, key=lambda example: -task.search(example, context).size)


def searching_texts() -> dict[str, Curve]:
    """Passages by their length; documents by their length and by the questions that share one."""
    made, pairs = discrete.generate_discrete(16, 6, seed=0)
    task, by_length = DiscreteTask(cap=10_000), []
    for joined in (1, 2, 4, 8, 16):
        text = Document("", None, (" ".join(each.text for each in made[:joined]),))
        passage, asked = task.prepare(text), [example for example, _ in pairs[:6]]
        by_length.append((len(passage), seconds(_search, task, asked, passage) / len(asked)))
    found = {"search discrete": curve("example", "tokens of the passage", "cap 10,000", by_length)}
    documents, pairs = texts.generate(200, 6, seed=0)
    reader = ReadingTask(cap=100_000)
    indexing, asking, shared = [], [], []
    for joined in (1, 4, 16, 64, 200):
        text = Document("", None, tuple(each for one in documents[:joined] for each in one.paragraphs))
        index, asked = reader.prepare(text), [example for example, _ in pairs[:6]]
        tokens = len(index.tokens)
        indexing.append((tokens, seconds(reader.prepare, text) / tokens))
        asking.append((tokens, seconds(_search, reader, asked, index) / len(asked)))
    found["search reading: index a document"] = curve("token", "tokens of the document", "", indexing)
    found["search reading: a question"] = curve("example", "tokens of the document", "indexed", asking)
    for questions in (1, 4, 16, 64):
        asked = [pairs[place % len(pairs)][0] for place in range(questions)]
        shared.append((questions, seconds(_prepare_and_search, reader, asked, text) / questions))
    found["search reading: by questions"] = curve("example", "questions a document", f"{tokens:,} tokens", shared)
    return found


def storing(
    sizes: tuple[tuple[int, int], ...] = ((10, 60), (100, 40), (1_000, 20), (10_000, 8), (100_000, 3)),
) -> tuple[dict[str, Curve], Curve]:
    """Writing and reading solution sets, by their size, and the bytes that a solution takes on disk."""
    table, examples = wide_sets()
    codec = SqlTask().codec
    writing, reading_back, on_disk = [], [], []
    for cap, count in sizes:
        sets = [(each.id, SqlTask(cap=cap).search(each, table)) for each in examples[:count]]
        solutions = sum(len(found) for _, found in sets)
        stream = io.BytesIO()
        write_sets(stream, sets, codec, "")
        size = solutions / count
        writing.append((size, seconds(_write, sets, codec) / solutions))
        reading_back.append((size, seconds(_read, stream.getvalue(), codec) / solutions))
        on_disk.append((size, len(stream.getvalue()) / solutions))
    at = f"{len(table.header)} columns"
    curves = {
        "store: write": curve("solution", "solutions of a set", at, writing),
        "store: read": curve("solution", "solutions of a set", at, reading_back),
    }
    return curves, curve("solution", "solutions of a set", at, on_disk)


def resident(folder: Path, rows: int) -> tuple[int, int]:
    """Bytes by which a worker grows when it prepares a table, and the most on the way, as the system counts them."""
    made, examples = shop(rows)
    path = folder / f"resident-{rows}.json"
    path.write_text(json.dumps(table_to_json(made)))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_grown, path, examples).result()


def _grown(path: Path, examples: list[Example]) -> tuple[int, int]:
    raw, task = path.read_bytes(), SqlTask(cap=LISTED)
    before = _memory("VmRSS")
    context = task.prepare(raw)
    _search(task, examples, context)
    return _memory("VmRSS") - before, _memory("VmHWM") - before


def _memory(name: str) -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields[name].split()[0])


def holding(folder: Path, tables_in_memory: tuple[int, int] = (30_000, 150_000)) -> dict[str, float]:
    """Bytes that are held for each example, table and cell, from two sizes each."""

    def slope(of: Callable[[int], int], few: int, many: int) -> float:
        return (of(many) - of(few)) / (many - few)

    def tables(count: int) -> int:
        path = write_sql(folder / f"tables-{count}", count, 1).parent / "tables.jsonl"
        return held(lambda: TableFile(path))[0]

    def ids(count: int) -> int:
        path = write_sql(folder / f"ids-{count}", count)
        return held(lambda: open_examples(path))[1]

    def training(count: int) -> int:
        root = folder / f"training-{count}"
        write_sql(root / "train", count)
        recipe = recipe_from({"data": {"root": str(root), "dev": "", "max_solutions": LISTED}}, "the benchmark")
        load_training_data(recipe, root)  # searches
        recipe = replace(recipe, data=replace(recipe.data, solutions=str(root / "solutions")))
        return held(lambda: load_training_data(recipe, root).items)[0]

    def as_json(rows: int) -> int:
        return len(json.dumps(table_to_json(shop(rows)[0])).encode())

    few, many = tables_in_memory
    (small, large), more = (resident(folder, few), resident(folder, many)), (many - few) * COLUMNS
    return {
        "id while a file is validated": slope(ids, 4_000, 16_000),
        "place of a context": slope(tables, 500, 2_000),
        "cell as JSON": slope(as_json, 2_000, 20_000) / COLUMNS,
        "cell of a prepared table": (large[0] - small[0]) / more,
        "cell while a table is prepared": (large[1] - small[1]) / more,
        "example to train on": slope(training, 500, 1_500),
    }


def workload(examples: Path, name: str, folder: Path) -> dict[str, Any]:
    """A whole search, uncapped, in this process: what was searched; seconds, examples and solutions of each shard."""
    shards: list[tuple[float, int, int]] = []
    last = [time.process_time()]

    def told(done: int, solutions: int) -> None:
        now = time.process_time()
        shards.append((now - last[0], done, solutions))
        last[0] = now

    start = time.process_time()
    manifest = search_sql(examples, folder, cap=None, progress=told, started=partial(_note, last))
    spent = time.process_time() - start
    source = TableFile(examples.parent / "tables.jsonl")
    shapes = np.array([(len(table.rows), len(table.header)) for table in (source[each] for each in source)])
    disk = sum(path.stat().st_size for path in folder.glob("shard-*"))
    return {
        "name": name,
        "seconds": spent,
        "examples": manifest["counts"]["examples"],
        "solutions": manifest["counts"]["solutions"],
        "tables": len(shapes),
        "rows": float(np.mean(shapes[:, 0])),
        "columns": float(np.mean(shapes[:, 1])),
        "bytes": disk,
        "manifest": (folder / "manifest.json").stat().st_size / len(manifest["shards"]),
        "shards": [[round(spent, 4), count, solutions] for spent, count, solutions in shards],
    }


def _search(task: Any, examples: list[Example], context: Any) -> None:
    for example in examples:
        task.search(example, context)


def _prepare_and_search(task: Any, examples: list[Example], raw: Any) -> None:
    _search(task, examples, task.prepare(raw))


def _write(sets: list[tuple[str, Any]], codec: Any) -> None:
    write_sets(io.BytesIO(), sets, codec, "")


def _read(content: bytes, codec: Any) -> None:
    table = pq.read_table(io.BytesIO(content))
    columns = {field.name: table.column(field.name) for field in codec.fields}
    for row in range(len(table)):
        codec.decode({name: column[row] for name, column in columns.items()}, 0, True)


def _note(start: list[float], *_: object) -> None:
    start[0] = time.process_time()
