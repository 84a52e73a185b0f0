"""From tables of log-probabilities to queries: sums that are left out, queries that are not executed."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.learn.data import load_training_data
from bonafide.learn.saved import load
from bonafide.learn.trainer import train
from bonafide.tasks.sql import decoding
from bonafide.tasks.sql.decoding import _best_sums
from bonafide.tasks.sql.query import Query
from tiny_runs import recipe, write_data

torch.set_num_threads(1)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-4, 0), min_size=1, max_size=6), max_size=3),
    st.integers(1, 9),
)
def test_the_best_sums_are_those_of_all_combinations(parts: list[list[int]], most: int) -> None:
    ordered = [
        [(float(score), ((number, place),)) for place, score in enumerate(sorted(part, reverse=True))]
        for number, part in enumerate(parts)
    ]
    found = _best_sums(ordered, most)
    every = sorted((sum(score for score, _ in each) for each in itertools.product(*ordered)), reverse=True)
    assert [score for score, _ in found] == every[:most]
    kept: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())]
    for part in ordered:  # of equals, those that come first when no pair is left out
        pairs = [(score + more, chosen + choice) for score, chosen in kept for more, choice in part]
        kept = sorted(pairs, key=lambda each: -each[0])[:most]
    assert found == kept


def test_guidance_executes_no_more_queries_than_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(write_data(tmp_path), "hard-em")
    train(made, tmp_path / "run")
    model, items = load(tmp_path / "run"), load_training_data(made, tmp_path).items[:8]
    executed: list[Query] = []

    def counted(query: Query, table: object) -> object:
        executed.append(query)
        return ["something"] if len(query.conditions) == 1 else []

    monkeypatch.setattr(decoding, "execute", counted)
    for item in items:
        executed.clear()
        found = model.predict(item.context, item.example.question, top=3, beam=3, execution_guided=True)
        wanted = [query for query in executed if len(query.conditions) == 1]
        assert [each.query for each in found] == wanted[:3] == wanted  # it stops at the third
        assert executed[-1] == wanted[-1]
