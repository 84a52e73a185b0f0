"""Every query of the language that returns the answer.

How it avoids running queries one by one:

1. A condition is a range of ranks in one column, and so a bit set over rows. Conditions of a column that
   select the same rows form one *group* with a multiplicity.
2. Conjunctions are ANDs of groups over distinct columns. A row set is dropped as soon as no aggregate
   of it or of a part of it can give the answer.
3. Row sets that come up more than once are evaluated once, and all at once: whether an aggregate of a
   column over a row set gives the answer depends only on sums over its rows (how many cells, how many
   equal to the answer, above it, below it, their total), so one matrix product answers for every row set,
   column and aggregate. SUM and AVG hits are then confirmed with the exact executor.
4. A solution is (conjunction of groups, one condition of each group, select column and aggregate). The
   number of solutions is a sum of products, so counting lists nothing; the k-th solution is found by
   division with remainder, so listing and uniform sampling are the same few array operations.

Rows that no condition tells apart are merged first in tables of more than 64 rows: the sums above add up,
so 100,000 rows become a handful of weighted ones.
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
from bonafide.tasks.sql.evaluation import Target
from bonafide.tasks.sql.language import Language, Span, question_runs
from bonafide.tasks.sql.query import Condition, Operator
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.similar import similar_cells
from bonafide.tasks.sql.tables import Table

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_BLOCK = 1 << 17
"""How many conjunctions are held at a time; bounds the memory of a search."""
_WORD = 64


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
    return sum(ways) * Target((), table, language).pairs_of_language


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
    """The conjunctions of one question on one table, as bit sets over (merged) rows."""

    def __init__(self, question: str, answers: Sequence[Answer], table: Table, language: Language) -> None:
        self._language = language
        self._target = Target(answers, table, language)
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
        """A choice is what one column contributes: usually one group; several with ``repeat_columns``."""
        column, low, high = np.array(groups, dtype=np.int64).reshape(-1, 3).T
        codes = table.codes[:, column]  # (rows, groups)
        selects = (codes >= low) & (codes < high)
        rows = self._target.merge_rows(selects)
        group_words = _pack(rows)
        self._all_rows = _pack(np.ones((len(rows), 1), dtype=bool))
        must = self._target.must_contain
        self._must = None if must is None else _pack(must[:, None])

        most = self._language.max_conditions
        if not self._language.repeat_columns:
            self._part_group = np.arange(len(groups))
            self._part_taken = np.ones(len(groups), dtype=np.int64)
            self._choice_parts = self._part_group[:, None]
            self._choice_words = group_words
            self._choice_size = self._part_taken
            choice_column = column
        else:
            parts: dict[tuple[int, int], int] = {}
            chosen: list[list[int]] = []
            words: list[Words] = []
            columns: list[int] = []
            for each in np.unique(column).tolist():
                mine = np.flatnonzero(column == each).tolist()
                for taken in self._multisets(mine, most):
                    chosen.append([parts.setdefault(part, len(parts)) for part in taken])
                    words.append(np.bitwise_and.reduce(group_words[[group for group, _ in taken]], axis=0))
                    columns.append(each)
            listed = list(parts)
            self._part_group = np.array([group for group, _ in listed], dtype=np.int64)
            self._part_taken = np.array([taken for _, taken in listed], dtype=np.int64)
            self._choice_parts = np.full((len(chosen), most), -1, dtype=np.int64)
            for row, each_parts in enumerate(chosen):
                self._choice_parts[row, : len(each_parts)] = each_parts
            self._choice_words = np.array(words, dtype=np.uint64).reshape(len(chosen), group_words.shape[1])
            taken_of = np.append(self._part_taken, 0)
            self._choice_size = taken_of[self._choice_parts].sum(axis=1)
            choice_column = np.array(columns, dtype=np.int64)
        self._first_after = np.searchsorted(choice_column, choice_column, side="right")
        ways = [
            comb(len(self._members[group]), taken)
            for group, taken in zip(self._part_group.tolist(), self._part_taken.tolist(), strict=True)
        ]
        bound = prod(sorted(ways, reverse=True)[: self._language.max_conditions]) * self._target.pair_bound
        fits = bound * max(1, len(ways)) ** self._language.max_conditions < 2**62
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

    def _conjunctions(self) -> Iterator[tuple[Integers, Words]]:
        """Blocks of (choices of each conjunction, its row set), none of which is hopeless."""
        depth = self._language.max_conditions
        start = np.full((1, depth), -1, dtype=np.int64)
        yield from self._extended(start, self._all_rows, np.zeros(1, dtype=np.int64), 0)

    def _extended(self, chosen: Integers, words: Words, size: Integers, depth: int) -> Iterator[tuple[Integers, Words]]:
        yield chosen, words
        if depth == self._language.max_conditions:
            return
        choices = len(self._choice_size)
        after = self._first_after[chosen[:, depth - 1]] if depth else np.zeros(len(chosen), dtype=np.int64)
        room = choices - after
        ends = np.cumsum(room)
        begin = 0
        while begin < len(chosen):
            base = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, base + _BLOCK, side="right")))
            here = room[begin:end]
            owner = np.repeat(np.arange(begin, end), here)
            choice = np.arange(int(ends[end - 1]) - base) - np.repeat(
                ends[begin:end] - here - base - after[begin:end], here
            )
            new_words = words[owner] & self._choice_words[choice]
            new_size = size[owner] + self._choice_size[choice]
            keep = new_size <= self._language.max_conditions
            if not self._target.empty_hits:
                needed = new_words if self._must is None else new_words & self._must
                keep &= needed.any(axis=1)
            if keep.any():
                new_chosen = chosen[owner[keep]]
                new_chosen[:, depth] = choice[keep]
                yield from self._extended(new_chosen, new_words[keep], new_size[keep], depth + 1)
            begin = end

    def hits(self) -> _Hits:
        """Every conjunction that some select column and aggregate make return the answer."""
        found: list[tuple[Integers, Integers, Integers, Integers]] = []
        pairs_so_far = 0
        for chosen, words in _gathered(self._conjunctions()) if self._target.possible else ():
            unique, which = _unique(words)
            hit = self._target.evaluate(unique)
            row, pair = np.nonzero(hit)
            per_row = np.bincount(row, minlength=len(unique))
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
            self._numbered(hits, ends, ranks[start : start + _BLOCK], flat, np.cumsum(sizes) - sizes)
            for start in range(0, max(1, len(ranks)), _BLOCK)
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


def _pack(rows: npt.NDArray[np.bool_]) -> Words:
    """(rows, sets) of booleans as (sets, words) of 64 rows a word."""
    bits = np.packbits(rows.T, axis=1, bitorder="little")
    words = -(-max(1, rows.shape[0]) // _WORD)
    padded = np.zeros((rows.shape[1], words * 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def _unique(words: Words) -> tuple[Words, Integers]:
    if words.shape[1] == 1:
        unique, which = np.unique(words[:, 0], return_inverse=True)
        return unique[:, None], which
    unique, which = np.unique(words, axis=0, return_inverse=True)
    return unique, which.reshape(-1)


def _gathered(blocks: Iterator[tuple[Integers, Words]]) -> Iterator[tuple[Integers, Words]]:
    """The same conjunctions in fewer, fuller blocks."""
    held: list[tuple[Integers, Words]] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block[0])
        if size >= _BLOCK:
            yield np.concatenate([chosen for chosen, _ in held]), np.concatenate([words for _, words in held])
            held, size = [], 0
    if held:
        yield np.concatenate([chosen for chosen, _ in held]), np.concatenate([words for _, words in held])


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
