"""Every query of the language that returns the answer.

How it avoids running queries one by one:

1. A condition is a range of ranks in one column. Conditions of a column that select the same rows form
   one *group* with a multiplicity.
2. Whether an aggregate of a column over a row set gives the answer depends only on a few sums over its
   rows (``evaluation.py``).
3. These sums are found for all conjunctions of groups together, by bit sets or by cubes
   (``conjunctions.py``), never by running one query.
4. A solution is (conjunction of groups, one condition of each group, select column and aggregate). The
   number of solutions is a sum of products, so counting lists nothing; the k-th solution is found by
   division with remainder, so listing and uniform sampling are the same few array operations.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bonafide.examples import Answer
from bonafide.tasks.sql.conjunctions import BLOCK, Choices, conjunction_sums
from bonafide.tasks.sql.evaluation import Target
from bonafide.tasks.sql.language import Language, Span, question_runs
from bonafide.tasks.sql.query import Aggregate, Condition, Operator, execute, sorting
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.similar import similar_cells
from bonafide.tasks.sql.tables import Table

Integers = npt.NDArray[np.int64]

_FEW = 1000
"""So many queries are looked at for a simple one."""


def search(
    question: str,
    answers: Sequence[Answer],
    table: Table,
    language: Language,
    cap: int | None = None,
    seed: int | str = 0,
) -> QuerySet:
    """The queries of ``language`` that return ``answers``; more than ``cap`` of them are sampled uniformly."""
    space = _Space(question, answers, table, language)
    return space.listed(space.hits(), cap, seed)


def count(question: str, answers: Sequence[Answer], table: Table, language: Language) -> int:
    """How many queries of ``language`` return ``answers``, without listing them."""
    return _Space(question, answers, table, language).hits().total


def in_returned_order(
    question: str, answers: Sequence[Answer], table: Table, language: Language
) -> list[Answer] | None:
    """The answers in the order in which one of the simplest queries returns them; None: no query returns just these."""
    space = _Space(question, answers, table, language, in_order=False)
    found = space.listed(space.hits(), _FEW, 0)
    result = execute(found[0], table) if len(found) else None
    if result is None:
        return None
    places = sorted(range(len(result)), key=lambda place: sorting(result[place]))
    ordered = dict(zip(places, sorted(answers, key=sorting), strict=True))
    return [ordered[place] for place in range(len(result))]


def candidates(question: str, table: Table, language: Language) -> int:
    """How many queries ``language`` has for this question on this table, whatever they return."""
    columns: list[int] = [0] * len(table.header)
    for condition in _conditions(question, table, language, unmatched=language.unmatched_values)[0]:
        columns[condition.condition.column] += 1
    ways = [1] + [0] * language.max_conditions  # ways[k]: sets of k conditions
    for members in columns:
        most = min(members, language.max_conditions if language.repeat_columns else 1)
        ways = [
            sum(ways[size - taken] * comb(members, taken) for taken in range(min(size, most) + 1))
            for size in range(len(ways))
        ]
    pairs = sum(language.allows(aggregate, kind) for kind in table.types for aggregate in Aggregate)
    return sum(ways) * pairs


@dataclass(frozen=True, slots=True)
class _Hits:
    """Conjunctions with a hit, and the (select, aggregate) pairs that hit for each."""

    parts: Integers  # (conjunctions, parts): which part of the space, −1 where there is none
    pairs: Integers  # every conjunction's hitting pairs, one after the other
    pair_start: Integers  # (conjunctions,)
    pair_count: Integers  # (conjunctions,)
    ways: Integers | npt.NDArray[np.object_]  # (conjunctions,): conditions to choose, times pairs
    total: int


class _Space:
    """The conjunctions of one question on one table: groups of conditions, and choices of groups."""

    def __init__(
        self, question: str, answers: Sequence[Answer], table: Table, language: Language, in_order: bool = True
    ) -> None:
        self._language = language
        self._target = Target(answers, table, language, in_order)
        self._conditions: list[GroundedCondition] = []
        ranges: list[tuple[int, int, int]] = []
        if self._target.possible:
            self._conditions, ranges = _conditions(
                question, table, language, unmatched=language.unmatched_values and self._target.empty_hits
            )
        members: dict[tuple[int, int, int], list[int]] = {}
        for index, key in enumerate(ranges):
            members.setdefault(key, []).append(index)
        groups = sorted(members)
        self._members = [members[group] for group in groups]
        self._build_choices(groups, table)

    def _build_choices(self, groups: list[tuple[int, int, int]], table: Table) -> None:
        """A choice is what one column contributes: usually one group; several with ``repeat_columns``.

        A *part* of a choice is a group, and how many of its conditions are taken.
        """
        column, low, high = np.array(groups, dtype=np.int64).reshape(-1, 3).T
        codes = table.codes[:, column]  # (rows, groups)
        selects = (codes >= low) & (codes < high)
        most = self._language.max_conditions
        if self._language.repeat_columns:
            parts: dict[tuple[int, int], int] = {}
            taken: list[tuple[tuple[int, int], ...]] = []
            for each in np.unique(column).tolist():
                taken += self._multisets(np.flatnonzero(column == each).tolist(), most)
            chosen = np.full((len(taken), most), -1, dtype=np.int64)
            for row, choice in enumerate(taken):
                chosen[row, : len(choice)] = [parts.setdefault(part, len(parts)) for part in choice]
            self._part_group = np.array([group for group, _ in parts], dtype=np.int64)
            self._part_taken = np.array([count for _, count in parts], dtype=np.int64)
            self._choice_parts = chosen
            size = np.append(self._part_taken, 0)[chosen].sum(axis=1)
            first = np.array([choice[0][0] for choice in taken], dtype=np.int64)
            selects = np.stack(
                [selects[:, [group for group, _ in choice]].all(axis=1) for choice in taken], axis=1
            ) if taken else selects  # fmt: skip
            column = column[first]
        else:
            self._part_group = np.arange(len(groups))
            self._part_taken = size = np.ones(len(groups), dtype=np.int64)
            self._choice_parts = self._part_group[:, None]
        self._choices = Choices(selects, column, size, most)
        ways = [
            comb(len(self._members[group]), count)
            for group, count in zip(self._part_group.tolist(), self._part_taken.tolist(), strict=True)
        ]
        bound = prod(sorted(ways, reverse=True)[:most]) * (len(self._target.pair_columns) + 1)
        fits = bound * (len(ways) + 1) ** most < 2**62
        self._part_ways = np.array([*ways, 1], dtype=np.int64 if fits else object)

    def _multisets(self, groups: list[int], most: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Every way to take 1 to ``most`` conditions from these groups: ((group, how many), …)."""
        if not groups:
            return
        group, *rest = groups
        for taken in range(min(most, len(self._members[group])) + 1):
            head = ((group, taken),) if taken else ()
            if head:
                yield head
            if most > taken:
                for tail in self._multisets(rest, most - taken):
                    yield head + tail

    def hits(self) -> _Hits:
        """Every conjunction that some select column and aggregate make return the answer."""
        found: list[tuple[Integers, Integers, Integers, Integers]] = []
        pairs_so_far = 0
        blocks = conjunction_sums(self._choices, self._target) if self._target.possible else ()
        for chosen, sums, which, rows_of in blocks:
            row, pair = np.nonzero(self._target.hits(sums, rows_of))
            per_row = np.bincount(row, minlength=len(sums))
            kept = np.flatnonzero(per_row[which])
            start = np.cumsum(per_row) - per_row
            found.append((chosen[kept], pair, start[which[kept]] + pairs_so_far, per_row[which[kept]]))
            pairs_so_far += len(pair)
        if not found:
            empty = np.zeros(0, dtype=np.int64)
            return _Hits(empty.reshape(0, self._language.max_conditions), empty, empty, empty, empty, 0)
        chosen, pairs, pair_start, pair_count = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        nothing = np.full((1, self._choice_parts.shape[1]), -1, dtype=np.int64)
        parts = np.concatenate([self._choice_parts, nothing])[chosen]
        parts = parts.reshape(len(chosen), parts.shape[1] * parts.shape[2])
        ways = self._part_ways[parts].prod(axis=1) * pair_count
        return _Hits(parts, pairs, pair_start, pair_count, ways, int(ways.sum()))

    def listed(self, hits: _Hits, cap: int | None, seed: int | str) -> QuerySet:
        """The solutions behind the hits, in canonical order: all of them, or a uniform sample."""
        complete = cap is None or hits.total <= cap
        ends = np.cumsum(hits.ways)
        if complete:
            ranks = np.arange(hits.total)
        else:
            ranks = np.array(_draw(hits.total, cast(int, cap), seed), dtype=hits.ways.dtype)
        flat = np.array([index for group in self._members for index in group], dtype=np.int64)
        sizes = np.array([len(group) for group in self._members], dtype=np.int64)
        blocks = [
            self._numbered(hits, ends, ranks[start : start + BLOCK], flat, np.cumsum(sizes) - sizes)
            for start in range(0, max(1, len(ranks)), BLOCK)
        ]
        pairs, ids = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        return self._query_set(pairs, ids, hits.total, complete)

    def _numbered(
        self, hits: _Hits, ends: Any, ranks: Any, flat: Integers, group_start: Integers
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Of the solutions with these numbers: the pair, and the conditions in order (their number if absent)."""
        owner = np.searchsorted(ends, ranks, side="right")
        rest = ranks - (ends - hits.ways)[owner]
        count = hits.pair_count[owner]
        pairs = hits.pairs[hits.pair_start[owner] + (rest % count).astype(np.int64)]
        rest = rest // count
        where = []
        for position in range(hits.parts.shape[1]):
            part = hits.parts[owner, position]
            if (part < 0).all():
                continue
            ways = self._part_ways[part]
            digit, rest = (rest % ways).astype(np.int64), rest // ways
            where += self._unranked(part, digit, flat, group_start)
        absent, width = len(self._conditions), self._language.max_conditions
        ids = np.full((len(ranks), width), absent, dtype=np.int32)
        if where:
            found = np.stack(where, axis=1)
            found[found < 0] = absent
            found.sort(axis=1)
            ids[:, : found.shape[1]] = found[:, :width]
        return pairs.astype(np.int32), ids

    def _unranked(self, part: Integers, digit: Integers, flat: Integers, group_start: Integers) -> list[Integers]:
        """The condition(s) that are number ``digit`` of each part; −1 where there is no part."""
        if not self._language.repeat_columns:
            known = part >= 0
            index = np.where(known, group_start[self._part_group[part]] + digit, 0)
            return [np.where(known, flat[index], -1)]
        out = np.full((self._language.max_conditions, len(part)), -1, dtype=np.int64)
        for each in np.unique(part[part >= 0]).tolist():
            mine = np.flatnonzero(part == each)
            group, left = int(self._part_group[each]), digit[mine]
            for taken in range(int(self._part_taken[each]), 0, -1):  # the combinatorial number system
                table = np.array([comb(top, taken) for top in range(len(self._members[group]))], dtype=np.int64)
                top = np.searchsorted(table, left, side="right") - 1
                left = left - table[top]
                out[taken - 1, mine] = flat[group_start[group] + top]
        return list(out)

    def _query_set(
        self, pairs: npt.NDArray[np.int32], ids: npt.NDArray[np.int32], total: int, complete: bool
    ) -> QuerySet:
        absent = len(self._conditions)
        select = self._target.pair_columns[pairs].astype(np.int32)
        aggregate = self._target.pair_aggregates[pairs].astype(np.int8)
        operations = (ids < absent).sum(axis=1, dtype=np.int8) + (aggregate > 0)
        order = _order([operations, select, aggregate, *ids.T])
        used = np.zeros(absent + 1, dtype=bool)
        used[ids] = True
        used[absent] = False
        new_id = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
        conditions = [condition for condition, kept in zip(self._conditions, used.tolist(), strict=False) if kept]
        return QuerySet(tuple(conditions), select[order], aggregate[order], new_id[ids[order]], total, complete)


def _conditions(
    question: str, table: Table, language: Language, unmatched: bool
) -> tuple[list[GroundedCondition], list[tuple[int, int, int]]]:
    """The conditions of the language for a question, and for each the ranks (column, low, high) it selects.

    Conditions that hold for no row of the table are left out unless ``unmatched``: they are in the language
    by option only, and even then matter only where the empty result is the answer.
    """
    runs = question_runs(question)
    found: dict[tuple[int, int, str | float], tuple[list[Span], int, int]] = {}
    for text, spans in runs.texts.items():
        for column in table.text_cells.get(text, ()):
            rank = table.columns[column].rank[text]
            found[column, Operator.EQUAL, text] = (spans, rank, rank + 1)
    if language.similar_cells is not None:
        for column, text, spans in similar_cells(runs.texts, table, language.similar_cells):
            rank = table.columns[column].rank[text]
            found.setdefault((column, Operator.EQUAL, text), (spans, rank, rank + 1))
    for index, kind in enumerate(table.types):
        values: dict[str, list[Span]] | dict[float, list[Span]]
        values = runs.numbers if kind == "real" else runs.texts
        if kind == "text" and not (unmatched or language.order_text):
            continue
        column_values, numbers = table.columns[index].values, table.columns[index].numbers
        first, last = (0, numbers) if kind == "real" else (numbers, len(column_values))
        for value, spans in values.items():
            low = bisect_left(column_values, value, first, last)
            high = bisect_right(column_values, value, low, last)
            if high > low or unmatched:
                found.setdefault((index, Operator.EQUAL, value), (spans, low, high))
            if kind == "real" or language.order_text:
                if high < len(column_values) or unmatched:
                    found[index, Operator.ABOVE, value] = (spans, high, len(column_values))
                if low > 0 or unmatched:
                    found[index, Operator.BELOW, value] = (spans, 0, low)
    order = sorted(found, key=lambda key: (key[0], key[1], found[key][0][0], str(key[2])))
    conditions = []
    ranges = []
    for key in order:
        spans, low, high = found[key]
        conditions.append(GroundedCondition(Condition(key[0], Operator(key[1]), key[2]), tuple(spans)))
        ranges.append((key[0], low, high) if high > low else (key[0], 0, 0))
    return conditions, ranges


def _draw(total: int, size: int, seed: int | str) -> list[int]:
    """``size`` different numbers below ``total``, uniformly, in order."""
    chance = random.Random(str(seed))  # noqa: S311 (a sample, not a secret)
    if total < 2**62:
        return sorted(chance.sample(range(total), size))
    drawn: set[int] = set()
    while len(drawn) < size:
        drawn.add(chance.randrange(total))
    return sorted(drawn)


def _order(keys: list[npt.NDArray[Any]]) -> npt.NDArray[np.intp]:
    """The order that sorts by the first key, then the second, …"""
    spans = [int(key.max(initial=0)) + 1 for key in keys]
    if prod(spans) >= 2**62:
        return np.lexsort(keys[::-1])
    joint = keys[0].astype(np.int64)
    for key, span in zip(keys[1:], spans[1:], strict=True):
        joint = joint * span + key
    return np.argsort(joint, kind="stable")
