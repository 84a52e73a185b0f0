"""How fast the SQL search is, against one SQLite statement per query of the language, in the same run.

    python benchmarks/search_sql.py --data DIR            # DIR holds wikisql/ (or set BONAFIDE_DATA)
    python benchmarks/search_sql.py --data DIR --whole    # also the whole train set, searched and stored uncapped

A candidate is a query of the language for its question; what the search prunes counts for both sides,
since the resulting set is the same. The baseline runs a random sample of each question's candidates (at most
--statements of them) and is timed on running the statements alone, not on making them; the run fails if
SQLite and the search disagree on any of them. Everything is on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bonafide.search.sql import search_sql
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language, question_runs
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute, same_answer, selected_rows
from bonafide.tasks.sql.search import candidates, search
from bonafide.tasks.sql.tables import Table, TableFile
from bonafide.tasks.sql.wikisql import import_wikisql, read_wikisql


def main() -> None:
    """Run the comparison, the scaling curves and, if asked, the whole train set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BONAFIDE_DATA"))
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--statements", type=int, default=3_000, help="at most so many statements a question")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    arguments = parser.parse_args()
    if arguments.data is None:
        sys.exit("Say where the data is: --data DIR, or BONAFIDE_DATA.")
    source = arguments.data / "wikisql"
    tables = TableFile(source / "train.tables.jsonl.xz")
    pairs = [
        (example, tables[example.context])
        for example, gold in read_wikisql(source / "train.jsonl.xz", tables)
        if len(gold.solution["conds"]) <= 2 and example.answers
    ]
    sample = random.Random(arguments.seed).sample(pairs, arguments.questions)
    compare(sample, arguments.statements, arguments.seed)
    curve_of_conditions(sample)
    curve_of_rows()
    if arguments.whole:
        whole_train_set(source, arguments.workers)


def compare(sample: list, statements: int, seed: int) -> None:
    """Candidates per second of the search and of SQLite, at most 2 conditions.

    First with every run of the question as a value, which is what a search that tries queries one by one
    has to go through; then, kinder to it, with only the values that some row of the table matches.
    """
    for _, table in sample:  # both sides start with the table loaded
        prepare(table)
    for name, language in (
        ("every run of the question is a value", Language(max_conditions=2, unmatched_values=True)),
        ("only values that match a row", Language(max_conditions=2)),
    ):
        sizes = [candidates(example.question, table, language) for example, table in sample]
        start = time.perf_counter()
        found = [search(example.question, example.answers, table, language, cap=100_000) for example, table in sample]
        ours = time.perf_counter() - start
        spent, run, hits = 0.0, 0, 0
        chance = random.Random(seed)
        for (example, table), solutions, size in zip(sample, found, sizes, strict=True):
            queries = list(random_queries(example.question, table, language, min(size, statements), chance))
            with Engine(table) as engine:
                texts = [query.to_sql(table) for query in queries]
                start = time.perf_counter()
                results = [engine.run(*text) for text in texts]
                spent += time.perf_counter() - start
            run += len(queries)
            right = {
                query for query, result in zip(queries, results, strict=True) if same_answer(result, example.answers)
            }
            hits += len(right)
            assert not solutions.complete or right == set(queries) & set(solutions), example.id
        ours_rate, sqlite_rate = sum(sizes) / ours, run / spent
        print(f"{len(sample)} questions, at most 2 conditions, {name}: {sum(sizes):,} candidates, one core")
        print(f"  bonafide             {ours_rate:>16,.0f} candidates/s   (all of them in {ours:.2f} s)")
        print(f"  SQLite, one by one   {sqlite_rate:>16,.0f} candidates/s   ({run:,} of them in {spent:.1f} s)")
        print(f"  ratio                {ours_rate / sqlite_rate:>16,.0f} ×")
        print(f"  of the {run:,} statements {hits:,} return the answer, and just these are in our sets\n")


def curve_of_conditions(sample: list) -> None:
    """Time and candidates by the most conditions of a query."""
    print("conditions   candidates      ms/question   candidates/s")
    for most in range(5):
        language = Language(max_conditions=most)
        total = sum(candidates(example.question, table, language) for example, table in sample)
        start = time.perf_counter()
        for example, table in sample:
            search(example.question, example.answers, table, language, cap=100_000)
        spent = time.perf_counter() - start
        print(f"{most:>10} {total:>12,} {1000 * spent / len(sample):>16.2f} {total / spent:>14,.0f}")
    print()


def curve_of_rows(columns: int = 20) -> None:
    """Time for one question by the rows of a table of 20 columns, after loading."""
    print("rows        load s   search ms (a number asked)   search ms (a text asked)   solutions")
    for rows in (100, 1_000, 10_000, 100_000):
        start = time.perf_counter()
        table = shop(rows, columns)
        prepare(table)
        load = time.perf_counter() - start
        question = "how many units did Oslo sell of item7 for more than 500 at a discount below 5 in may?"
        times, sizes = [], []
        for query in (
            Query(3, Aggregate.SUM, frozenset({Condition(0, Operator.EQUAL, "oslo")})),
            Query(2, Aggregate.MAX, frozenset({Condition(0, Operator.EQUAL, "oslo")})),
        ):
            answers = execute(query, table)
            runs = []
            for _ in range(3):
                start = time.perf_counter()
                solutions = search(question, answers, table, Language())
                runs.append(time.perf_counter() - start)
            times.append(1000 * statistics.median(runs))
            sizes.append(solutions.size)
        print(f"{rows:>7,} {load:>10.2f} {times[0]:>28.1f} {times[1]:>26.1f}   {sizes[0]:,} / {sizes[1]:,}")
    print()


def whole_train_set(source: Path, worker_counts: list[int]) -> None:
    """The whole train set, searched and stored uncapped by the command line, with each number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "train"
        import_wikisql(source / "train.jsonl.xz", source / "train.tables.jsonl.xz", data)
        curve_of_questions(data)
        base = None
        for workers in worker_counts:
            out = Path(folder) / str(workers)
            command = [sys.executable, "-m", "bonafide", "search", "sql", "--examples", data / "examples.jsonl"]
            start = time.perf_counter()
            process = subprocess.Popen([*command, "--out", out, "--cap", "0", "--workers", str(workers)])
            peaks: dict[int, int] = {}
            while process.poll() is None:
                watch_memory(process.pid, peaks)
                time.sleep(0.05)
            spent = time.perf_counter() - start
            base = base or spent * workers
            size = sum(path.stat().st_size for path in out.iterdir())
            counts = json.loads((out / "manifest.json").read_text())["counts"]
            peak = max(peaks.values()) / 1024
            print(f"whole train set, {workers} worker(s): {spent:.1f} s with start and validation")
            print(f"  speed-up {base / spent:.2f}")
            print(f"  at most {peak:.0f} MiB a process, {size / 1e6:.0f} MB on disk; {json.dumps(counts)}")


def curve_of_questions(data: Path) -> None:
    """Seconds on one core by the number of questions: the first so many of the train set, searched and stored."""
    lines = (data / "examples.jsonl").read_bytes().splitlines(keepends=True)
    for count in (5_000, 10_000, 20_000):
        part = data.parent / f"first-{count}.jsonl"
        part.write_bytes(b"".join(lines[:count]))
        start = time.perf_counter()
        manifest = search_sql(part, data.parent / f"store-{count}", data / "tables.jsonl", cap=None)
        spent = time.perf_counter() - start
        print(f"first {count:,} questions: {spent:.1f} s, {manifest['counts']['solutions']:,} solutions")


def watch_memory(process: int, peaks: dict[int, int]) -> None:
    """The most memory (KiB) that a process and its children have held so far, by /proc."""
    for status in [Path(f"/proc/{process}/status"), *_children(process)]:
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue  # it ended just now
        if "VmHWM" in fields:
            number = int(status.parent.name)
            peaks[number] = max(peaks.get(number, 0), int(fields["VmHWM"].split()[0]))


def _children(process: int) -> list[Path]:
    try:
        numbers = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [Path(f"/proc/{number}/status") for number in numbers]


def random_queries(question: str, table: Table, language: Language, count: int, chance: random.Random):
    """``count`` queries of the language, each size of condition set as often as it occurs in it."""
    runs = question_runs(question)
    conditions: dict[int, list[Condition]] = {}
    for column, kind in enumerate(table.types):
        for value in runs.numbers if kind == "real" else runs.texts:
            for operator in Operator if kind == "real" else (Operator.EQUAL,):
                condition = Condition(column, operator, value)
                if (
                    language.unmatched_values
                    or selected_rows(Query(0, Aggregate.NONE, frozenset({condition})), table).any()
                ):
                    conditions.setdefault(column, []).append(condition)
    sets = [
        columns for size in range(language.max_conditions + 1) for columns in combinations(sorted(conditions), size)
    ]
    weights = [math.prod(len(conditions[column]) for column in columns) for columns in sets]
    pairs = [
        (select, aggregate)
        for select, kind in enumerate(table.types)
        for aggregate in Aggregate
        if language.allows(aggregate, kind)
    ]
    for columns in chance.choices(sets, weights, k=count):
        chosen = frozenset(chance.choice(conditions[column]) for column in columns)
        yield Query(*chance.choice(pairs), chosen)


def prepare(table: Table) -> None:
    """What loading a table for search comes to."""
    _ = table.codes, table.text_cells, [column.summand_bounds for column in table.columns]


def shop(rows: int, columns: int) -> Table:
    """A table of sales: three text columns, the others numbers."""
    chance = random.Random(rows)
    cities = ["Oslo", "Lyon", "Porto", "Turin", "Ghent", "Riga", "Cork", "Graz"]
    months = ["January", "May", "June", "October"]
    header = ("City", "Month", "Item", *(f"Number {index}" for index in range(columns - 3)))
    lines = [
        (
            chance.choice(cities),
            chance.choice(months),
            f"item{chance.randint(1, 500)}",
            *(chance.randint(0, 10 ** (1 + index % 4)) for index in range(columns - 3)),
        )
        for _ in range(rows)
    ]
    return Table("shop", header, ("text",) * 3 + ("real",) * (columns - 3), lines)


if __name__ == "__main__":
    main()
