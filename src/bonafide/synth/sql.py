"""Synthetic tables and questions with known gold queries, in our own words, the same for the same seed.

``spuriousness`` (0 to 1) is the dial: it shrinks the number of distinct values, so that more cells agree by
accident and more queries reach the same answer. 0 draws values from wide ranges, 1 from a handful.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bonafide.errors import BonafideError
from bonafide.examples import Answer, Example, Gold, example_to_json, write_jsonl
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, execute
from bonafide.tasks.sql.tables import Cell, ColumnType, Table, table_to_json


@dataclass(frozen=True, slots=True)
class _Field:
    """A column: its name, how a question refers to it, and its texts or its range of numbers."""

    name: str
    texts: tuple[str, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def kind(self) -> ColumnType:
        return "text" if self.texts else "real"


_CITIES = ("Oslo", "Lyon", "Porto", "Turin", "Ghent", "Riga", "Cork", "Graz", "Bern", "Tartu", "Vigo", "Bath")
_NAMES = ("Ada Lund", "Ben Roy", "Cleo Marsh", "Dan Ivers", "Eva Stone", "Finn Dahl", "Gus Hale", "Hana Ito",
          "Ivo Kral", "Jo Park", "Kim Wolfe", "Lea Brand", "Max Orr", "Nia Cole", "Otto Rehn", "Pia Voss")  # fmt: skip
_GOODS = (
    "desk",
    "lamp",
    "chair",
    "shelf",
    "stool",
    "sofa",
    "rug",
    "mirror",
    "clock",
    "vase",
    "bench",
    "crate",
)

_DOMAINS: dict[str, tuple[_Field, ...]] = {
    "orders": (
        _Field("Customer", _NAMES), _Field("City", _CITIES), _Field("Product", _GOODS),
        _Field("Quantity", low=1, high=40), _Field("Price", low=5, high=900), _Field("Weight", low=1, high=120),
    ),
    "matches": (
        _Field("Home team", tuple(f"{city} United" for city in _CITIES)),
        _Field("Away team", tuple(f"{city} Rovers" for city in _CITIES)), _Field("Referee", _NAMES),
        _Field("Home goals", low=0, high=9), _Field("Away goals", low=0, high=9),
        _Field("Attendance", low=200, high=60_000),
    ),
    "staff": (
        _Field("Name", _NAMES), _Field("Office", _CITIES),
        _Field("Role", ("clerk", "driver", "nurse", "baker", "tailor", "miner", "cook", "guard")),
        _Field("Age", low=18, high=67), _Field("Years of service", low=0, high=40),
        _Field("Salary", low=1500, high=9000),
    ),
    "trains": (
        _Field("From", _CITIES), _Field("To", _CITIES),
        _Field("Line", tuple(f"line {letter}" for letter in "ABCDEFGH")),
        _Field("Platform", low=1, high=24), _Field("Minutes", low=12, high=480), _Field("Stops", low=0, high=30),
    ),
}  # fmt: skip

_ASK: dict[Aggregate, tuple[str, ...]] = {
    Aggregate.NONE: ("what is the {select}", "which {select} is listed", "tell me the {select}"),
    Aggregate.MAX: ("what is the highest {select}", "what is the largest {select}"),
    Aggregate.MIN: ("what is the lowest {select}", "what is the smallest {select}"),
    Aggregate.COUNT: ("how many rows have a {select}", "count the {select} entries"),
    Aggregate.SUM: ("what is the total {select}", "what do the {select} values add up to"),
    Aggregate.MEAN: ("what is the average {select}", "what is the mean {select}"),
}
_WHERE: dict[Operator, tuple[str, ...]] = {
    Operator.EQUAL: ("{column} is {value}", "the {column} of {value}", "{value} as {column}"),
    Operator.ABOVE: ("{column} is more than {value}", "a {column} above {value}"),
    Operator.BELOW: ("{column} is less than {value}", "a {column} below {value}"),
}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Where the files of a written benchmark are, and where its solutions belong."""

    examples: Path
    tables: Path
    gold: Path
    store: Path


def generate(
    tables: int, questions: int, seed: int, spuriousness: float = 0.5
) -> tuple[list[Table], list[tuple[Example, Gold]]]:
    """``tables`` tables with ``questions`` questions each."""
    chance = random.Random(f"bonafide/sql/{seed}/{spuriousness}")  # noqa: S311 (data, not a secret)
    made: list[Table] = []
    pairs: list[tuple[Example, Gold]] = []
    for number in range(tables):
        domain = list(_DOMAINS)[number % len(_DOMAINS)]
        table = _table(f"{domain}-{number + 1}", _DOMAINS[domain], chance, spuriousness)
        made.append(table)
        for question in range(questions):
            pairs.append(_pair(f"{table.id}-q{question + 1}", table, chance))
    return made, pairs


def write_benchmark(
    out: Path, seed: int, tables: int = 60, questions: int = 20, spuriousness: float = 0.5
) -> Benchmark:
    """Write ``examples.jsonl``, ``tables.jsonl`` and ``gold.jsonl`` under ``out``."""
    files = Benchmark(*(out / name for name in ("examples.jsonl", "tables.jsonl", "gold.jsonl", "solutions")))
    if files.store.exists():
        raise BonafideError(f"{files.store} is already there. Delete {out}, or name another folder.")
    made, pairs = generate(tables, questions, seed, spuriousness)
    write_jsonl(files.tables, map(table_to_json, made))
    write_jsonl(files.gold, ({"id": gold.id, "solution": gold.solution} for _, gold in pairs))
    write_jsonl(files.examples, (example_to_json(example) for example, _ in pairs))
    return files


def _table(name: str, fields: tuple[_Field, ...], chance: random.Random, spuriousness: float) -> Table:
    rows = chance.randint(8, 24)
    columns: list[list[Cell]] = []
    for field in fields:
        pool: list[Cell]
        if field.texts:
            pool = chance.sample(field.texts, max(3, round(len(field.texts) * (1 - 0.6 * spuriousness))))
        else:
            distinct = min(field.high - field.low + 1, max(3, round(60 * (1 - spuriousness) ** 2)))
            pool = list(chance.sample(range(field.low, field.high + 1), distinct))
        columns.append([chance.choice(pool) for _ in range(rows)])
    header = tuple(field.name for field in fields)
    return Table(name, header, tuple(field.kind for field in fields), list(zip(*columns, strict=True)))


def _pair(name: str, table: Table, chance: random.Random) -> tuple[Example, Gold]:
    while True:
        query = _query(table, chance)
        result = execute(query, table)
        if result and result != [None] and len(result) <= 5:
            break
    conditions = [
        [condition.column, int(condition.operator), _shown(condition, table)]
        for condition in sorted(query.conditions, key=lambda each: each.column)
    ]
    gold = Gold(name, {"sel": query.select, "agg": int(query.aggregate), "conds": conditions})
    answers: list[Answer] = [
        int(value) if isinstance(value, float) and value.is_integer() else value for value in result
    ]
    return Example(name, _question(query, table, chance), table.id, tuple(answers)), gold


def _query(table: Table, chance: random.Random) -> Query:
    """A query about one row of the table, so that its result is not empty by construction."""
    row = chance.randrange(len(table.rows))
    size = chance.choices((1, 2, 3), (5, 4, 1))[0]
    conditions = set()
    for column in chance.sample(range(len(table.header)), size):
        value = table.columns[column].cells[row]
        assert value is not None
        if isinstance(value, str):
            conditions.add(Condition(column, Operator.EQUAL, value))
        else:
            operator = chance.choice(list(Operator))
            conditions.add(Condition(column, operator, value + {0: 0, 1: -1, 2: 1}[operator]))
    select = chance.choice(
        [column for column in range(len(table.header)) if column not in {c.column for c in conditions}]
    )
    aggregates = list(Aggregate) if table.types[select] == "real" else [Aggregate.NONE, Aggregate.COUNT]
    weights = [6] + [1] * (len(aggregates) - 1)
    return Query(select, chance.choices(aggregates, weights)[0], frozenset(conditions))


def _question(query: Query, table: Table, chance: random.Random) -> str:
    def clauses() -> Iterator[str]:
        for condition in chance.sample(sorted(query.conditions), len(query.conditions)):
            phrase = chance.choice(_WHERE[condition.operator])
            yield phrase.format(column=table.header[condition.column].lower(), value=_shown(condition, table))

    ask = chance.choice(_ASK[query.aggregate]).format(select=table.header[query.select].lower())
    return f"{ask} when {' and '.join(clauses())}?"


def _shown(condition: Condition, table: Table) -> str:
    """The value as the question writes it: in the table's case, whole numbers without a point."""
    if isinstance(condition.value, float):
        return str(int(condition.value))
    for row in table.rows:
        if str(row[condition.column]).lower() == condition.value:
            return str(row[condition.column])
    return condition.value
