"""Query sets go into a store and come back the same; the same sets give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bonafide import solutions
from bonafide.errors import BonafideError
from bonafide.files import content_hash
from bonafide.solutions import (
    FORMAT,
    ShardCounts,
    SolutionStore,
    damaged_shards,
    shard_counts,
    shard_name,
    write_manifest,
    write_shard,
)
from bonafide.tasks.sql.query import Aggregate, Condition, Operator
from bonafide.tasks.sql.queryset import GroundedCondition, QuerySet
from bonafide.tasks.sql.task import QueryCodec

Row = tuple[str, QuerySet]

FILE_FOR_EACH_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
SEARCH = {"format": FORMAT, "task": "sql", "options": {}, "inputs": {}, "shard_examples": 500}

spans = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=3).map(tuple)
conditions = st.builds(
    Condition,
    st.integers(0, 1999),
    st.sampled_from(Operator),
    st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def query_sets(draw: st.DrawFn) -> QuerySet:
    distinct = draw(st.lists(conditions, max_size=5, unique=True))
    count, width = draw(st.integers(0, 8)), draw(st.integers(0, 4))
    place = st.integers(-1, len(distinct) - 1)
    rows = draw(st.lists(st.lists(place, min_size=width, max_size=width), min_size=count, max_size=count))
    selected = draw(st.lists(st.integers(0, 1999), min_size=count, max_size=count))
    aggregates = draw(st.lists(st.sampled_from(Aggregate), min_size=count, max_size=count))
    return QuerySet(
        tuple(GroundedCondition(condition, draw(spans)) for condition in distinct),
        np.array(selected, dtype=np.int32),
        np.array(aggregates, dtype=np.int8),
        np.array(rows, dtype=np.int32).reshape(count, width),
        draw(st.integers(count, 10**38 - 1)),
        draw(st.booleans()),
    )


named_sets = st.lists(
    st.tuples(st.text(max_size=5), query_sets()), min_size=1, max_size=7, unique_by=lambda row: row[0]
)


def small_set(size: int = 1, complete: bool = True) -> QuerySet:
    return QuerySet(
        (GroundedCondition(Condition(1, Operator.EQUAL, "oslo"), ((0, 4),)),),
        np.array([0], dtype=np.int32),
        np.array([0], dtype=np.int8),
        np.array([[0, -1]], dtype=np.int32),
        size,
        complete,
    )


def empty_set() -> QuerySet:
    nothing = np.zeros(0, dtype=np.int32)
    return QuerySet((), nothing, nothing.astype(np.int8), nothing.reshape(0, 3), 0, True)


def stored(folder: Path, *shards: Sequence[Row]) -> SolutionStore[QuerySet]:
    folder.mkdir(exist_ok=True)
    counts = [
        write_shard(folder / shard_name(index), rows, QueryCodec(), "identity") for index, rows in enumerate(shards)
    ]
    write_manifest(folder, SEARCH, counts)
    return SolutionStore(folder, QueryCodec())


def assert_same(found: QuerySet, wanted: QuerySet) -> None:
    assert found.conditions == wanted.conditions
    assert list(found) == list(wanted)
    assert (found.size, found.complete) == (wanted.size, wanted.complete)
    assert (found.select.dtype, found.aggregate.dtype, found.where.dtype) == (np.int32, np.int8, np.int32)
    if len(wanted):
        assert np.array_equal(found.where, wanted.where)


@FILE_FOR_EACH_EXAMPLE
@given(named_sets, st.integers(0, 7), st.integers(1, 3), st.integers(1, 10))
def test_sets_come_back_the_same_by_streaming_and_by_id(
    tmp_path: Path, rows: list[Row], cut: int, group_examples: int, group_solutions: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solutions, "_GROUP_EXAMPLES", group_examples)
        patch.setattr(solutions, "_GROUP_SOLUTIONS", group_solutions)
        store = stored(tmp_path / "store", rows[:cut], rows[cut:]) if 0 < cut < len(rows) else stored(tmp_path, rows)
    names = [name for name, _ in rows]
    assert [name for name, _ in store] == store.ids == names
    assert len(store) == len(rows)
    for (_, found), (_, wanted) in zip(store, rows, strict=True):
        assert_same(found, wanted)
    for name, wanted in reversed(rows):
        assert name in store
        assert_same(store[name], wanted)
    assert store.sizes.tolist() == [float(each.size) for _, each in rows]


@FILE_FOR_EACH_EXAMPLE
@given(named_sets)
def test_the_same_sets_give_the_same_bytes(tmp_path: Path, rows: list[Row]) -> None:
    copies = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    first, second = (write_shard(path, iter(rows), QueryCodec(), "identity") for path in copies)
    assert first == second
    assert copies[0].read_bytes() == copies[1].read_bytes()


def test_counts_are_those_of_the_sets_and_are_kept_in_the_footer(tmp_path: Path) -> None:
    rows = [("a", small_set()), ("b", empty_set()), ("c", small_set(size=10**20, complete=False))]
    path = tmp_path / shard_name(0)
    counts = write_shard(path, rows, QueryCodec(), "identity")
    assert counts == ShardCounts(examples=3, covered=2, capped=1, solutions=2)
    assert shard_counts(path, "identity") == counts
    assert shard_counts(path, "another") is None
    assert shard_counts(tmp_path / shard_name(1), "identity") is None
    for content in (b"", b"PAR1", path.read_bytes()[:-20], b"x" * 100):
        (tmp_path / "broken").write_bytes(content)
        assert shard_counts(tmp_path / "broken", "identity") is None


@pytest.mark.parametrize("size", [2**63 - 1, 2**63, 10**30 + 1, 10**38 - 1])
def test_a_size_beyond_64_bits_is_kept_exactly(tmp_path: Path, size: int) -> None:
    assert stored(tmp_path, [("a", small_set(size, complete=False))])["a"].size == size


def test_a_store_of_empty_sets_is_a_store(tmp_path: Path) -> None:
    store = stored(tmp_path, [("a", empty_set()), ("b", empty_set())])
    assert [(name, list(found), found.size) for name, found in store] == [("a", [], 0), ("b", [], 0)]
    assert small_set()[0] not in store["a"]


def test_queries_without_conditions_come_back(tmp_path: Path) -> None:
    nothing = np.zeros(0, dtype=np.int32)
    select = np.arange(3, dtype=np.int32)
    bare = QuerySet((), select, np.zeros(3, dtype=np.int8), nothing.reshape(3, 0), 3, True)
    assert_same(stored(tmp_path, [("a", bare)])["a"], bare)


def test_an_id_that_is_not_there_is_refused(tmp_path: Path) -> None:
    store = stored(tmp_path, [("a", small_set())])
    assert "b" not in store
    with pytest.raises(BonafideError, match="There is no example 'b'"):
        store["b"]


def test_a_shard_that_could_not_be_written_whole_is_not_there(tmp_path: Path) -> None:
    def rows() -> Iterator[Row]:
        yield "a", small_set()
        raise BonafideError("the search failed")

    with pytest.raises(BonafideError, match="the search failed"):
        write_shard(tmp_path / shard_name(0), rows(), QueryCodec(), "identity")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read", [list, lambda store: store["a"], lambda store: store.sizes, lambda store: store.ids])
def test_any_flipped_bit_of_a_shard_is_noticed_before_it_is_read(tmp_path: Path, read: Any) -> None:
    stored(tmp_path, [("a", small_set())])
    path = tmp_path / shard_name(0)
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert damaged_shards(tmp_path) == [path]
        with pytest.raises(BonafideError, match=f"{path} is damaged"):
            read(SolutionStore(tmp_path, QueryCodec()))
    path.write_bytes(whole)
    assert damaged_shards(tmp_path) == []
    read(SolutionStore(tmp_path, QueryCodec()))


def test_a_shard_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path, [("a", small_set())], [("b", small_set())])
    checked: list[Path] = []

    def counted(path: Path) -> str:
        checked.append(path)
        return content_hash(path)

    monkeypatch.setattr(solutions, "content_hash", counted)
    for _ in range(3):
        assert [name for name, _ in store] == ["a", "b"]
        assert store["a"].size == store["b"].size == 1
    assert checked == [tmp_path / shard_name(0), tmp_path / shard_name(1)]
