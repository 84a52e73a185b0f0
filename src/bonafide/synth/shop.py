"""A small shop to try things on: one table of orders, and questions with their answers in many phrasings.

The same seed gives the same files. ``write_shop`` writes what a person would have, ``orders.csv`` and ``qa.jsonl``
(``{"question", "answer"}`` a line), and apart from them ``gold.jsonl``, the queries that were meant, for evaluation.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import Answer, write_jsonl_files
from bonafide.files import write_whole
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, Query, bound_value, execute
from bonafide.tasks.sql.tables import Cell, ColumnType, Table

_HEADER = ("Order", "Customer", "City", "Product", "Month", "Units", "Total")
_TYPES: tuple[ColumnType, ...] = ("real", "text", "text", "text", "text", "real", "real")
_ORDER, _CUSTOMER, _CITY, _PRODUCT, _MONTH, _UNITS, _TOTAL = range(len(_HEADER))

_CUSTOMERS = ("Ada Lund", "Ben Roy", "Cleo Marsh", "Dan Ivers", "Eva Stone", "Finn Dahl", "Greta Hale", "Hana Ito")
_CITIES = ("Oslo", "Lyon", "Porto", "Graz", "Cork", "Turku")
_PRICES = {"lamp": 45, "desk": 220, "chair": 95, "shelf": 130, "rug": 75, "mirror": 60}
_MONTHS = ("January", "February", "March", "April", "May", "June")
_MOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class _Ask:
    """A meaning, the ways to ask for it, and the columns that its conditions may be on."""

    select: int
    aggregate: Aggregate
    phrasings: tuple[str, ...]
    columns: tuple[int, ...] = (_CUSTOMER, _CITY, _PRODUCT, _MONTH, _UNITS, _TOTAL)
    weight: int = 4


_ASKS = (
    _Ask(_CUSTOMER, Aggregate.NONE, ("who placed order {order}?", "which customer is order {order} for?",
         "whose order is number {order}?"), (_ORDER,), 2),
    _Ask(_PRODUCT, Aggregate.NONE, ("which product was in order {order}?", "what was bought in order {order}?",
         "what does order {order} contain?"), (_ORDER,), 2),
    _Ask(_CITY, Aggregate.NONE, ("to which city was order {order} shipped?", "where did order {order} go?",
         "what is the city of order {order}?"), (_ORDER,), 2),
    _Ask(_TOTAL, Aggregate.NONE, ("what did order {order} cost?", "how much was paid for order {order}?",
         "what is the total of order {order}?"), (_ORDER,), 2),
    _Ask(_ORDER, Aggregate.COUNT, ("how many orders {clauses} are there?", "count the orders {clauses}.",
         "what is the number of orders {clauses}?", "how many orders do we have {clauses}?")),
    _Ask(_UNITS, Aggregate.SUM, ("how many units were sold in orders {clauses}?",
         "what is the total number of units in orders {clauses}?", "add up the units of the orders {clauses}.")),
    _Ask(_TOTAL, Aggregate.SUM, ("how much money did the orders {clauses} bring in?",
         "what is the revenue from orders {clauses}?", "how much was spent in all on orders {clauses}?")),
    _Ask(_TOTAL, Aggregate.MAX, ("what is the highest total of an order {clauses}?",
         "how much was the most expensive order {clauses}?", "what is the largest sum paid for an order {clauses}?")),
    _Ask(_TOTAL, Aggregate.MIN, ("what is the lowest total of an order {clauses}?",
         "how much was the cheapest order {clauses}?", "what is the smallest sum paid for an order {clauses}?")),
    _Ask(_UNITS, Aggregate.MAX, ("what is the largest number of units in an order {clauses}?",
         "how many units had the biggest order {clauses}?")),
    _Ask(_TOTAL, Aggregate.MEAN, ("what does an order {clauses} cost on average?",
         "what is the average total of the orders {clauses}?", "what is the mean total of orders {clauses}?")),
    _Ask(_CUSTOMER, Aggregate.NONE, ("which customers placed orders {clauses}?", "who placed an order {clauses}?",
         "name the customers with orders {clauses}."), (_CITY, _PRODUCT, _MONTH, _UNITS, _TOTAL), 6),
    _Ask(_PRODUCT, Aggregate.NONE, ("which products were in the orders {clauses}?",
         "what was bought in orders {clauses}?", "name the products of the orders {clauses}."),
         (_CUSTOMER, _CITY, _MONTH, _UNITS, _TOTAL), 6),
)  # fmt: skip

_CLAUSES: dict[tuple[int, Operator], tuple[str, ...]] = {
    (_CUSTOMER, Operator.EQUAL): ("by {}", "of {}", "placed by {}", "from customer {}"),
    (_CITY, Operator.EQUAL): ("from {}", "shipped to {}", "sent to {}", "in {}"),
    (_PRODUCT, Operator.EQUAL): ("for a {}", "with a {}", "containing a {}"),
    (_MONTH, Operator.EQUAL): ("in {}", "during {}", "made in {}"),
    (_UNITS, Operator.EQUAL): ("of exactly {} units", "with {} units"),
    (_UNITS, Operator.ABOVE): ("with more than {} units", "of over {} units"),
    (_UNITS, Operator.BELOW): ("with fewer than {} units", "of under {} units"),
    (_TOTAL, Operator.ABOVE): ("worth more than {}", "above {} euros", "costing over {}"),
    (_TOTAL, Operator.BELOW): ("worth less than {}", "below {} euros", "costing under {}"),
}


@dataclass(frozen=True, slots=True)
class ShopPair:
    """A question, its answer, and the query that was meant."""

    question: str
    answer: list[Answer]
    query: dict[str, Any]


def make_shop(seed: int = 0, pairs: int = 200, rows: int = 60) -> tuple[Table, list[ShopPair]]:
    """The table of orders, and ``pairs`` different questions on it."""
    if pairs < 1 or rows < 1:
        raise BonafideError(f"A shop has at least one order and one question; found {rows} and {pairs}.")
    chance = random.Random(f"bonafide/shop/{seed}")  # noqa: S311 (data, not a secret)
    table = Table("orders", _HEADER, _TYPES, [_row(number, chance) for number in range(rows)])
    made: dict[str, ShopPair] = {}
    for _ in range(1000 * pairs):
        if len(made) == pairs:
            return table, list(made.values())
        pair = _pair(table, chance)
        if pair is not None:
            made.setdefault(pair.question, pair)
    raise BonafideError(f"{rows} orders do not give {pairs} different questions: ask for fewer, or for more orders.")


def write_shop(out: Path, seed: int = 0, pairs: int = 200) -> None:
    """Write ``orders.csv``, ``qa.jsonl`` and ``gold.jsonl`` under ``out``."""
    table, made = make_shop(seed, pairs)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    with write_whole(out / "orders.csv") as stream:
        stream.write(text.getvalue().encode())
    write_jsonl_files(
        {
            out / "qa.jsonl": ({"question": pair.question, "answer": _plain(pair.answer)} for pair in made),
            out / "gold.jsonl": ({"id": f"q{n}", "solution": pair.query} for n, pair in enumerate(made, start=1)),
        }
    )


def _row(number: int, chance: random.Random) -> tuple[Cell, ...]:
    product, units = chance.choice(list(_PRICES)), chance.randint(1, 9)
    total = _PRICES[product] * units - chance.randint(0, 5 * units)  # customers haggle
    return (1001 + number, chance.choice(_CUSTOMERS), chance.choice(_CITIES), product, chance.choice(_MONTHS), units,
            total)  # fmt: skip


def _pair(table: Table, chance: random.Random) -> ShopPair | None:
    """A question whose answer is short and not empty, if the first attempt gives one."""
    ask = chance.choices(_ASKS, [each.weight for each in _ASKS])[0]
    row = chance.choice(table.rows)
    columns = sorted(chance.sample(ask.columns, min(len(ask.columns), chance.choices((1, 2), (2, 3))[0])))
    conditions = [_condition(column, row[column], chance) for column in columns]
    values = [Condition(column, operator, bound_value(value, table, column)) for column, operator, value in conditions]
    result = execute(Query(ask.select, ask.aggregate, frozenset(values)), table)
    if not result or (ask.aggregate is Aggregate.NONE and len(result) > _MOST_LISTED):
        return None
    chance.shuffle(conditions)
    said = [
        chance.choice(_CLAUSES.get((column, operator), ("{}",))).format(value) for column, operator, value in conditions
    ]
    question = chance.choice(ask.phrasings).format(order=said[0], clauses=" ".join(said))
    query = {
        "sel": ask.select,
        "agg": int(ask.aggregate),
        "conds": [[column, int(operator), value] for column, operator, value in sorted(conditions)],
    }
    return ShopPair(question, _as_written(result, table, ask.select), query)


def _condition(column: int, cell: Cell, chance: random.Random) -> tuple[int, Operator, str]:
    """What the row of this cell fulfils."""
    if isinstance(cell, str) or column == _ORDER:
        return column, Operator.EQUAL, str(cell)
    assert isinstance(cell, int)
    operator = chance.choice([each for each in Operator if (column, each) in _CLAUSES])
    if operator is Operator.EQUAL:
        return column, operator, str(cell)
    step = chance.randint(1, 3) if column == _UNITS else chance.randint(5, 60)
    return column, operator, str(max(0, cell - step) if operator is Operator.ABOVE else cell + step)


def _as_written(result: Sequence[str | float | None], table: Table, select: int) -> list[Answer]:
    """Values as the table writes them: the engine's texts are lower-cased, its numbers are floats."""
    shown = {str(row[select]).lower(): row[select] for row in table.rows}
    return [
        shown[each] if isinstance(each, str) else int(each) if each is not None and each.is_integer() else each
        for each in result
    ]


def _plain(answer: list[Answer]) -> Any:
    return answer[0] if len(answer) == 1 else answer
