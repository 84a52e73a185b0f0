"""Metrics of the SQL task: queries against gold queries, and their results against the answers.

Logical form and execution accuracy are WikiSQL's; the slots are those that SQLova reports. An execution
is right when the result equals the answers, so empty is right where the answer is empty; a query that is
missing, does not fit the table or raises an error is wrong, and no example leaves the denominator.
Two queries are equal as values: conditions are a set, text has no case, 3 is 3.0 on a real column, and so is what the
engine reads as 3 there ("week 3": WikiSQL's own script compares the text. Of our 5,221 dev queries 16 hold such a
value).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import Answer, Example, Gold
from bonafide.tasks.sql.query import Query, bound, execute, parse_query, same_answer, written_order
from bonafide.tasks.sql.tables import Table

TableOf = Callable[[Example], Table]
"""The table that an example asks about."""


@dataclass(frozen=True, slots=True)
class SqlPrediction:
    """What a solver predicts for the example of this id; ``query`` is None where it found none.

    ``alternatives`` are further queries with their log-probabilities, best first. ``rank_of_gold`` is
    gold's place in the example's solution set by probability, 1 the best; None where it is not known.
    """

    example: str
    query: Query | None
    log_probability: float
    alternatives: tuple[tuple[Query, float], ...] = ()
    rank_of_gold: int | None = None


@dataclass(frozen=True, slots=True)
class Slots:
    """Which slots of a query are right."""

    column: bool
    aggregate: bool
    number_of_conditions: bool
    condition_columns: bool
    operators: bool
    values: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is right about one prediction; ``logical_form`` and ``slots`` are None where gold is not known."""

    example: str
    predicted: bool
    execution: bool
    logical_form: bool | None
    slots: Slots | None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How many are right, over several runs on average, of how many."""

    right: float
    of: int

    @property
    def share(self) -> float:
        """``right / of``; 0 of nothing."""
        return self.right / self.of if self.of else 0.0

    def to_json(self) -> dict[str, float]:
        """The share with its counts."""
        return {"share": self.share, "right": self.right, "of": self.of}


@dataclass(frozen=True, slots=True)
class SqlScores:
    """Accuracies over examples; all but ``execution`` are over those with gold, None where none has it.

    ``predicted``: examples for which there is a query at all.
    """

    predicted: Accuracy
    execution: Accuracy
    logical_form: Accuracy | None
    slots: dict[str, Accuracy] | None

    def to_json(self) -> dict[str, Any]:
        """The accuracies with their counts; without gold, only those that need none."""
        scores: dict[str, Any] = {
            "examples": self.execution.of,
            "predicted": self.predicted.to_json(),
            "execution": self.execution.to_json(),
        }
        if self.logical_form is not None and self.slots is not None:
            scores["logical_form"] = self.logical_form.to_json()
            scores["slots"] = {name: accuracy.to_json() for name, accuracy in self.slots.items()}
        return scores


def logical_form_equal(predicted: Query, gold: Query) -> bool:
    """Same column, same aggregate, same set of (column, operator, value)."""
    return predicted == gold


def column_equal(predicted: Query, gold: Query) -> bool:
    """The same select column."""
    return predicted.select == gold.select


def aggregate_equal(predicted: Query, gold: Query) -> bool:
    """The same aggregate."""
    return predicted.aggregate is gold.aggregate


def number_of_conditions_equal(predicted: Query, gold: Query) -> bool:
    """As many conditions."""
    return len(predicted.conditions) == len(gold.conditions)


def condition_columns_equal(predicted: Query, gold: Query) -> bool:
    """Conditions on the same columns, each as often."""
    return _columns(predicted) == _columns(gold)


def operators_equal(predicted: Query, gold: Query) -> bool:
    """The same operators where conditions are put in the order of their columns.

    As in SQLova the columns themselves need not be right: this slot is about the operators alone.
    """
    return _operators(predicted) == _operators(gold)


def values_equal(predicted: Query, gold: Query) -> bool:
    """The same values where conditions are put in the order of their columns, be the columns right or not.

    Values are compared as they are written, whole numbers without a point, so that 3 on a real column and
    "3" on a text column are the same value.
    """
    return _values(predicted) == _values(gold)


def slots(predicted: Query, gold: Query) -> Slots:
    """Every slot of ``predicted`` against ``gold``; all are right where the logical form is."""
    return Slots(
        column_equal(predicted, gold),
        aggregate_equal(predicted, gold),
        number_of_conditions_equal(predicted, gold),
        condition_columns_equal(predicted, gold),
        operators_equal(predicted, gold),
        values_equal(predicted, gold),
    )


def execution_right(query: Query | None, table: Table, answers: Sequence[Answer]) -> bool:
    """Whether the query runs on the table and its result is the answers, in order."""
    if query is None or not _fits(query, table):
        return False
    result = execute(query, table)
    return result is not None and same_answer(result, answers)


def judge(prediction: SqlPrediction, example: Example, table: Table, gold: Query | None) -> Outcome:
    """What is right about one prediction."""
    query = prediction.query
    equal: bool | None = None
    right: Slots | None = None
    if gold is not None:
        equal = query is not None and logical_form_equal(query, gold)
        right = Slots(*[False] * 6) if query is None else slots(query, gold)
    ran = execution_right(query, table, example.values)
    return Outcome(example.id, query is not None, ran, equal, right)


def judge_all(
    predictions: Iterable[SqlPrediction],
    examples: Iterable[Example],
    table_of: TableOf,
    gold: Mapping[str, Gold] | None = None,
) -> list[Outcome]:
    """One outcome an example, in their order; each must have one prediction, and no prediction is left over."""
    by_example: dict[str, SqlPrediction] = {}
    for prediction in predictions:
        if prediction.example in by_example:
            raise BonafideError(f"Example {prediction.example!r} has two predictions: expected one.")
        by_example[prediction.example] = prediction
    outcomes = []
    for example in examples:
        found = by_example.pop(example.id, None)
        if found is None:
            raise BonafideError(
                f"Example {example.id!r} has no prediction: expected one for every example. "
                "Predict for the same file of examples that you evaluate on."
            )
        table = table_of(example)
        known = None if gold is None else gold.get(example.id)
        outcomes.append(judge(found, example, table, None if known is None else parse_query(known.solution, table)))
    if by_example:
        raise BonafideError(
            f"{len(by_example)} predictions are for examples that are not there, such as {next(iter(by_example))!r}."
        )
    return outcomes


def score(
    predictions: Iterable[SqlPrediction],
    examples: Iterable[Example],
    table_of: TableOf,
    gold: Mapping[str, Gold] | None = None,
) -> SqlScores:
    """The accuracies of predictions; without gold, execution accuracy alone."""
    return total(judge_all(predictions, examples, table_of, gold))


def total(outcomes: Sequence[Outcome]) -> SqlScores:
    """Add up outcomes."""
    known = [outcome for outcome in outcomes if outcome.slots is not None]
    by_slot = [asdict(outcome.slots) for outcome in known if outcome.slots is not None]
    return SqlScores(
        _accuracy([outcome.predicted for outcome in outcomes]),
        _accuracy([outcome.execution for outcome in outcomes]),
        _accuracy([bool(outcome.logical_form) for outcome in known]) if known else None,
        {name: _accuracy([each[name] for each in by_slot]) for name in by_slot[0]} if known else None,
    )


def by_set_size(
    outcomes: Iterable[Outcome], sizes: Mapping[str, int], edges: Sequence[int] = (1, 2, 10, 100, 1000)
) -> dict[str, SqlScores]:
    """Scores by the size of the example's solution set.

    ``edges`` are where buckets begin, in ascending order: by default 0, 1, 2–9, 10–99, 100–999, 1000+.
    Buckets without examples are left out.
    """
    starts = [0, *edges]
    names = [_bucket(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    groups: dict[str, list[Outcome]] = {name: [] for name in names}
    for outcome in outcomes:
        if outcome.example not in sizes:
            raise BonafideError(f"The size of the solution set of example {outcome.example!r} is not given.")
        groups[names[bisect_right(starts, sizes[outcome.example]) - 1]].append(outcome)
    return {name: total(group) for name, group in groups.items() if group}


def _accuracy(right: Sequence[bool]) -> Accuracy:
    return Accuracy(sum(right), len(right))


def _fits(query: Query, table: Table) -> bool:
    columns = {query.select, *(condition.column for condition in query.conditions)}
    return all(0 <= column < len(table.header) for column in columns)


def _columns(query: Query) -> list[int]:
    return [condition.column for condition in sorted(query.conditions, key=written_order)]


def _operators(query: Query) -> list[int]:
    return [int(condition.operator) for condition in sorted(query.conditions, key=written_order)]


def _values(query: Query) -> list[str]:
    return [str(bound(condition)) for condition in sorted(query.conditions, key=written_order)]


def _bucket(start: int, end: int | None) -> str:
    if end is None:
        return f"{start}+"
    return str(start) if end == start + 1 else f"{start}–{end - 1}"
