"""The SQL task: its search, and its solution sets as columns of a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from bonafide.examples import Example
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Condition, Operator
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table, table_from_line


@dataclass(frozen=True, slots=True)
class SqlTask:
    """Search for queries in a language; more than ``cap`` solutions of an example are sampled by ``seed``."""

    language: Language = field(default_factory=Language)
    cap: int | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        """What it is called in manifests and on the command line."""
        return "sql"

    @property
    def options(self) -> dict[str, Any]:
        """The language, the cap and its seed."""
        return {"language": asdict(self.language), "cap": self.cap, "seed": self.seed}

    @property
    def codec(self) -> QueryCodec:
        """How query sets are stored."""
        return QueryCodec()

    def prepare(self, raw: bytes | Table) -> Table:
        """A table, read from its line if it was not read yet."""
        return raw if isinstance(raw, Table) else table_from_line(raw)

    def weight(self, context: Table) -> int:
        """Its cells."""
        return len(context.rows) * len(context.header)

    def search(self, example: Example, context: Table) -> QuerySet:
        """Every query that returns the example's answer."""
        seed = f"{self.seed}/{example.id}"
        return search(example.question, example.values, context, self.language, self.cap, seed)


_CONDITION = pa.struct(
    [
        pa.field("column", pa.int32(), nullable=False),
        pa.field("operator", pa.int8(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("spans", pa.list_(pa.int32()), nullable=False),
    ]
)


class QueryCodec:
    """Queries as integer lists; the conditions of an example, with their groundings, once."""

    @property
    def fields(self) -> list[pa.Field]:
        """``conditions``, and one entry a query in ``select`` and ``aggregate``, several in ``where``."""
        return [
            pa.field("conditions", pa.list_(_CONDITION), nullable=False),
            pa.field("select", pa.list_(pa.int32()), nullable=False),
            pa.field("aggregate", pa.list_(pa.int8()), nullable=False),
            pa.field("where", pa.list_(pa.int32()), nullable=False),
        ]

    def encode(self, sets: Sequence[QuerySet]) -> list[pa.Array]:
        """The columns for these sets."""
        conditions = [
            [
                {
                    "column": each.condition.column,
                    "operator": int(each.condition.operator),
                    "text": each.condition.value if isinstance(each.condition.value, str) else None,
                    "number": None if isinstance(each.condition.value, str) else each.condition.value,
                    "spans": [offset for span in each.spans for offset in span],
                }
                for each in queries.conditions
            ]
            for queries in sets
        ]
        return [
            pa.array(conditions, pa.list_(_CONDITION)),
            _lists([queries.select for queries in sets], pa.int32()),
            _lists([queries.aggregate for queries in sets], pa.int8()),
            _lists([queries.where.reshape(-1) for queries in sets], pa.int32()),
        ]

    def decode(self, columns: dict[str, Any], size: int, complete: bool) -> QuerySet:
        """The set of one row."""
        select = columns["select"].values.to_numpy(zero_copy_only=False)
        aggregate = columns["aggregate"].values.to_numpy(zero_copy_only=False)
        where = columns["where"].values.to_numpy(zero_copy_only=False)
        conditions = tuple(
            GroundedCondition(
                Condition(each["column"], Operator(each["operator"]), _value(each)),
                tuple(zip(each["spans"][::2], each["spans"][1::2], strict=True)),
            )
            for each in columns["conditions"].as_py()
        )
        _check_range("aggregate", aggregate, 0, len(Aggregate))
        _check_range("where", where, -1, len(conditions))
        _check_range("select", select, 0, 2**31)
        if len(aggregate) != len(select):
            raise ValueError(f"{len(select)} columns and {len(aggregate)} aggregates")
        return QuerySet(
            conditions,
            select,
            aggregate,
            where.reshape(len(select), -1) if len(select) else where.reshape(0, 0),
            size,
            complete,
        )


def _check_range(name: str, values: Any, low: int, end: int) -> None:
    if len(values) and not (values.min() >= low and values.max() < end):
        raise ValueError(f"{name} from {values.min()} to {values.max()}: expected {low} to {end - 1}")


def _value(condition: dict[str, Any]) -> str | float:
    return cast("str | float", condition["number"] if condition["text"] is None else condition["text"])


def _lists(arrays: Sequence[Any], kind: pa.DataType) -> pa.Array:
    offsets = np.zeros(len(arrays) + 1, dtype=np.int32)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(arrays), kind))
