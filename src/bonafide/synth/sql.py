"""Synthetic tables and questions with known gold queries, in our own words, the same for the same seed.

``spuriousness`` (0 to 1) is the dial. Turning it up gives columns fewer distinct values and lets them
share numbers, adds numeric columns, asks more questions whose conditions are redundant, and asks more of
those about a single row: there none, max and min (and, of a number, sum and mean) all return the answer.
Some of these are lures: with one condition fewer, the answer is still the max or the min of several rows,
so the shortest query that reaches it has the wrong aggregate.

A wrong aggregate is identifiable all the same, by how questions are spread: what is asked in the words
of max, min, sum or mean mostly ranges over several rows, where no other aggregate returns the answer.
So "highest" is explained by max alone; and max, having "highest" to explain, explains "what is the
price" less well than none does. Who trains on whatever query is the most likely never weighs that.

Dev and test have tables of their own, values that train never shows, and phrasings that train never
uses (``domains.py``, ``phrases.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from bonafide.errors import BonafideError
from bonafide.examples import Answer, Example, Gold, example_to_json, write_jsonl
from bonafide.synth.domains import DOMAINS, SPLITS, Domain, Field, Split, values_of
from bonafide.synth.phrases import Clause, ask
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute
from bonafide.tasks.sql.tables import Cell, Table, table_to_json

_MOST_ROWS = 5  # that a question is about
_TRIES = 60


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Where the files of a written benchmark are, and where its solutions belong."""

    examples: Path
    tables: Path
    gold: Path
    store: Path


def generate(
    tables: int,
    questions: int,
    seed: int,
    spuriousness: float = 0.5,
    split: Split = "train",
    domains: Sequence[str] = tuple(DOMAINS),
    max_conditions: int = 3,
) -> tuple[list[Table], list[tuple[Example, Gold]]]:
    """``tables`` tables with ``questions`` questions each; the domains take turns."""
    if not 1 <= max_conditions <= 3:
        raise BonafideError(f"max_conditions={max_conditions!r}: expected 1, 2 or 3.")
    if not 0 <= spuriousness <= 1:
        raise BonafideError(f"spuriousness={spuriousness!r}: expected a number from 0 to 1.")
    if split not in SPLITS:
        raise BonafideError(f"split={split!r}: expected one of {', '.join(SPLITS)}.")
    if unknown := set(domains) - set(DOMAINS):
        raise BonafideError(f"domains={sorted(unknown)}: expected some of {', '.join(DOMAINS)}.")
    chance = random.Random(f"bonafide/sql/{seed}/{float(spuriousness)}/{split}")  # noqa: S311 (data, not a secret)
    made: list[Table] = []
    pairs: list[tuple[Example, Gold]] = []
    for number in range(tables):
        name = domains[number % len(domains)]
        sheet = _Sheet(f"{split}-{name}-{number + 1}", DOMAINS[name], split, chance, spuriousness, max_conditions)
        made.append(sheet.table)
        pairs += [sheet.pair(f"{sheet.table.id}-q{question + 1}") for question in range(questions)]
    return made, pairs


def write_benchmark(
    out: Path,
    seed: int,
    tables: int = 60,
    questions: int = 20,
    spuriousness: float = 0.5,
    split: Split = "train",
    domains: Sequence[str] = tuple(DOMAINS),
    max_conditions: int = 3,
) -> Benchmark:
    """Write ``examples.jsonl``, ``tables.jsonl`` and ``gold.jsonl`` under ``out``."""
    files = Benchmark(*(out / name for name in ("examples.jsonl", "tables.jsonl", "gold.jsonl", "solutions")))
    if files.store.exists():
        raise BonafideError(f"{files.store} is already there. Delete {out}, or name another folder.")
    made, pairs = generate(tables, questions, seed, spuriousness, split, domains, max_conditions)
    write_jsonl(files.tables, map(table_to_json, made))
    write_jsonl(files.gold, ({"id": gold.id, "solution": gold.solution} for _, gold in pairs))
    write_jsonl(files.examples, (example_to_json(example) for example, _ in pairs))
    return files


class _Sheet:
    """One table, and the questions asked about it."""

    def __init__(
        self,
        name: str,
        domain: Domain,
        split: Split,
        chance: random.Random,
        spuriousness: float,
        most: int,
    ) -> None:
        self._domain, self._split, self._chance, self._dial, self._most = domain, split, chance, spuriousness, most
        texts = [field for field in domain.fields if field.texts]
        numbers = [field for field in domain.fields if not field.texts]
        chosen = texts + chance.sample(numbers, 2 + round(2 * spuriousness))
        self._fields = chance.sample(chosen, len(chosen))
        rows = chance.randint(8, 14)
        shared = chance.sample(range(1, 60), 6)  # numbers that several columns may hold
        columns = [self._cells(field, rows, shared) for field in self._fields]
        self._rows = list(zip(*columns, strict=True))
        header = tuple(field.name for field in self._fields)
        self.table = Table(name, header, tuple("text" if each.texts else "real" for each in self._fields), self._rows)

    def _cells(self, field: Field, rows: int, shared: Sequence[int]) -> list[Cell]:
        chance, dial = self._chance, self._dial
        pool: list[Cell] = []
        if field.texts:
            texts = values_of(field.texts, self._split)
            pool += chance.sample(texts, min(len(texts), max(3, round(rows * (1.1 - 0.5 * dial)))))
        else:
            common = [number for number in shared if field.low <= number <= field.high]
            for _ in range(max(3, round(rows * (1.5 - dial)))):
                fresh = not common or chance.random() >= 0.4 * dial
                pool.append(chance.randint(field.low, field.high) if fresh else chance.choice(common))
        return [chance.choice(pool) for _ in range(rows)]

    def pair(self, name: str) -> tuple[Example, Gold]:
        """A question with its answers, and its gold query."""
        query, rows = self._query()
        result = execute(query, self.table)
        assert result
        ordered = sorted(query.conditions)
        clauses = [Clause(self._fields[each.column], each.operator, self._shown(each)) for each in ordered]
        select = self._fields[query.select]
        question = ask(query.aggregate, select, clauses, self._domain, rows > 1, self._split, self._chance)
        conditions = [[each.column, int(each.operator), self._shown(each)] for each in ordered]
        solution = {"sel": query.select, "agg": int(query.aggregate), "conds": conditions}
        answers: list[Answer] = [
            int(value) if isinstance(value, float) and value.is_integer() else value for value in result
        ]
        return Example(name, question, self.table.id, tuple(answers)), Gold(name, solution)

    def _query(self) -> tuple[Query, int]:
        """A query of the wanted kind and how many rows it selects; what cannot be had is given up in turn."""
        chance, dial = self._chance, self._dial
        aggregate = chance.choices(list(Aggregate), (52, 12, 12, 8, 8, 8))[0]
        single = chance.random() < (0.8 + 0.18 * dial if aggregate is Aggregate.NONE else 0.1 * dial)
        lured = aggregate is Aggregate.NONE and single and chance.random() < 0.5 * dial
        shares = (0 if lured and self._most > 1 else 0.2 + 4 * (1 - dial) ** 2, 4, 1 + 4 * dial)
        size = chance.choices((1, 2, 3)[: self._most], shares[: self._most])[0]
        redundant = size > 1 + lured and chance.random() < 0.1 + 1.4 * dial
        numeric = aggregate not in (Aggregate.NONE, Aggregate.COUNT) or chance.random() < 0.5
        wanted = range(1, 2) if single else range(2, _MOST_ROWS + 1)
        for attempt in range(10 * _TRIES):
            conditions = self._conditions(size if attempt < 4 * _TRIES else chance.randint(1, self._most))
            rows = self._selected(conditions)
            if len(rows) not in (wanted if attempt < 8 * _TRIES else range(1, _MOST_ROWS + 1)):
                continue
            if attempt < 2 * _TRIES and redundant != self._redundant(conditions, rows):
                continue
            used = {condition.column for condition in conditions}
            selects = [
                column
                for column, field in enumerate(self._fields)
                if column not in used and bool(field.texts) != numeric
            ]
            if attempt < 3 * _TRIES:
                selects = [column for column in selects if not self._extreme(column, rows, range(len(self._rows)))]
                if lured:
                    selects = [column for column in selects if self._lures(column, conditions, rows)]
            if selects:
                return Query(chance.choice(selects), aggregate, frozenset(conditions)), len(rows)
        raise AssertionError(f"no question found for {self.table.id}")

    def _lures(self, select: int, conditions: Sequence[Condition], rows: Sequence[int]) -> bool:
        """Whether fewer conditions reach the answer as a max or min of several rows than find the row itself."""
        for size in range(1, len(conditions)):
            selected = [self._selected(subset) for subset in combinations(conditions, size)]
            if any(len(each) == 1 for each in selected):
                return False
            if any(self._extreme(select, rows, each) for each in selected):
                return True
        return False

    def _extreme(self, select: int, rows: Sequence[int], among: Sequence[int]) -> bool:
        """Whether the highest or the lowest cell of ``rows`` is also that of the rows ``among``."""

        def ends(each: Sequence[int]) -> tuple[Cell, Cell]:
            cells = [self._rows[row][select] for row in each]
            return min(cells, key=_order), max(cells, key=_order)

        (low, high), (lowest, highest) = ends(rows), ends(among)
        return low == lowest or high == highest

    def _conditions(self, size: int) -> list[Condition]:
        """Conditions that one row meets, so that no result is empty."""
        chance = self._chance
        row = chance.choice(self._rows)
        columns: list[int] = []
        while len(columns) < size:
            already = sum(not self._fields[column].texts for column in columns)
            numeric = chance.random() < (0.45, 0.1, 0)[already]
            columns.append(
                chance.choice(
                    [
                        index
                        for index, field in enumerate(self._fields)
                        if index not in columns and bool(field.texts) != numeric
                    ]
                )
            )
        return [self._condition(column, row[column]) for column in columns]

    def _condition(self, column: int, cell: Cell) -> Condition:
        chance = self._chance
        if isinstance(cell, str):
            return Condition(column, Operator.EQUAL, cell.lower())
        assert isinstance(cell, int)
        operator = chance.choice(list(Operator))
        field = self._fields[column]
        step = chance.randint(1, max(1, (field.high - field.low) // 8))
        value = {Operator.EQUAL: cell, Operator.ABOVE: cell - step, Operator.BELOW: cell + step}[operator]
        if value < 0:
            operator, value = Operator.EQUAL, cell
        return Condition(column, operator, float(value))

    def _selected(self, conditions: Sequence[Condition]) -> list[int]:
        return [index for index, row in enumerate(self._rows) if all(_holds(each, row) for each in conditions)]

    def _redundant(self, conditions: Sequence[Condition], rows: list[int]) -> bool:
        """Whether a condition can be left out without changing which rows are selected."""
        return any(
            self._selected([*conditions[:place], *conditions[place + 1 :]]) == rows for place in range(len(conditions))
        )

    def _shown(self, condition: Condition) -> str:
        """The value as the question writes it: in the table's case, whole numbers without a point."""
        if isinstance(condition.value, float):
            return str(int(condition.value))
        cells = (str(row[condition.column]) for row in self._rows)
        return next(cell for cell in cells if cell.lower() == condition.value)


def _order(cell: Cell) -> tuple[str, int | float]:
    """Cells of one column in the order of SQLite."""
    return (cell.lower(), 0) if isinstance(cell, str) else ("", cell or 0)


def _holds(condition: Condition, row: tuple[Cell, ...]) -> bool:
    cell = row[condition.column]
    if isinstance(cell, str) or isinstance(condition.value, str):
        return str(cell).lower() == condition.value
    assert cell is not None
    if condition.operator is Operator.EQUAL:
        return cell == condition.value
    return cell > condition.value if condition.operator is Operator.ABOVE else cell < condition.value
