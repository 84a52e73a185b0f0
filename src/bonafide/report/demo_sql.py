"""The demo of the SQL task: tables of orders, HardEM and MIMAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bonafide.examples import Example, open_examples, read_gold
from bonafide.report.demo import Files, small_recipe
from bonafide.report.inspect import bound_sql
from bonafide.report.learning import Entry, Learned, Shown, Words, choose_examples
from bonafide.report.runs import evaluate_run, selections_over_time
from bonafide.search.sql import search_sql
from bonafide.synth.domains import Split
from bonafide.synth.sql import Benchmark, write_benchmark
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Query, parse_query
from bonafide.tasks.sql.rendering import rendered_query
from bonafide.tasks.sql.sources import open_tables

_DATA = "max_solutions = 40\ndev_examples = 60"
_QUESTIONS = 12


@dataclass(frozen=True)
class SqlDemo:
    """Implements :class:`bonafide.report.demo.Demo`.

    One domain and at most two conditions, so that models of one or two narrow layers learn it within minutes.
    """

    tables: int = 120
    dev_tables: int = 30
    spuriousness: float = 0.5
    epochs: float = 17.0
    switch: float = 15.5
    domain: str = "orders"
    max_conditions: int = 2

    words = Words("tables", "query", "Aggregates", ("none", "max", "min", "count"))

    @property
    def methods(self) -> dict[str, str]:
        """HardEM, and MIMAX as in the paper."""
        return {
            "HardEM": small_recipe("hard-em", self.epochs, _DATA),
            "MIMAX": small_recipe("mimax", self.epochs, _DATA, options=f"switch = {self.switch}"),
        }

    def write(self, root: Path, seed: int) -> tuple[Benchmark, Benchmark]:
        """Tables of one domain with questions."""

        def split(name: Split, tables: int) -> Benchmark:
            return write_benchmark(
                root / name, seed, tables, _QUESTIONS, self.spuriousness, name, (self.domain,), self.max_conditions
            )

        return split("train", self.tables), split("dev", self.dev_tables)

    def search(self, examples: Path, store: Path, progress: Callable[[float], None]) -> None:
        """Every query."""
        found = 0

        def searched(count: int, solutions: int) -> None:
            nonlocal found
            found += count
            progress(found / (self.tables * _QUESTIONS))

        search_sql(examples, store, language=Language(max_conditions=self.max_conditions), progress=searched)

    def learned(self, name: str, run: Path, train: Files, dev: Files) -> Learned:
        """Answers, queries and aggregates on dev; what was chosen from the sets."""
        done = evaluate_run(run, dev.examples, gold=dev.gold)
        figures = {
            "right answer": done.figures["execution"]["share"],
            "right solution": done.figures["logical_form"]["share"],
            "right aggregate": done.figures["slots"]["aggregate"]["share"],
            "gold chosen from the set": done.figures["selection"]["solver"]["accuracy"]["share"],
        }
        predicted = {each.example: each.query for each in done.predictions}
        return Learned(name, run, figures, predicted, selections_over_time(run, train.gold))

    def shown(self, methods: Sequence[Learned], dev: Files) -> list[Shown]:
        """Queries of ten questions."""
        source = open_tables(dev.examples.parent / "tables.jsonl")
        examples = list(open_examples(dev.examples))
        known = read_gold(dev.gold)
        gold = {each.id: parse_query(known[each.id].solution, source.table_of(each)) for each in examples}

        def entry(name: str, example: Example, query: Query, right: bool) -> Entry:
            table = source.table_of(example)
            return Entry(name, bound_sql(query, table), right, rendered_query(query, table))

        return choose_examples(methods, examples, gold, entry)

    def about(self, seed: int, train: Files, dev: Files) -> str:
        """What was learned from, and measured on."""
        return (
            f"{self.tables * _QUESTIONS:,} training questions on {self.tables} synthetic tables of {self.domain} (seed "
            f"{seed}); figures on {self.dev_tables * _QUESTIONS:,} questions about tables, values and some phrasings "
            "that were held out."
        )
