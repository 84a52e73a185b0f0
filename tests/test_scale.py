"""The plan for larger runs: its curves, its simulation, and that it predicts a search that is measured here."""

from __future__ import annotations

import importlib
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


simulation = _module("scale_simulation")
scale = _module("scale")
Fleet, Load, Curve = simulation.Fleet, simulation.Load, simulation.Curve


def curve(per: str, points: list[list[float]], by: str = "") -> dict[str, Any]:
    return {"per": per, "by": by or f"{per}s", "at": "", "points": points}


def made_up() -> dict[str, Any]:
    """Costs of round figures; every tenth shard takes ten times as long as the others."""
    flat = [[10.0, 1e-6], [1000.0, 1e-6]]
    curves = {
        "read: validate examples": curve("example", flat),
        "read: hash examples": curve("example", flat),
        "read: validate a table": curve("cell", flat),
        "drive two workers": curve("example", [[10.0, 1e-5], [1000.0, 1e-5]]),
        "search sql: by rows": curve("example", [[10.0, 1e-3], [1000.0, 1e-3], [10_000.0, 4e-3]], "rows"),
        "search sql: by columns": curve("example", [[7.0, 1e-3], [14.0, 2e-3]], "columns"),
        "search sql: by solutions listed": curve("example", [[100.0, 1e-3], [1000.0, 1.9e-3]], "solutions"),
        "search sql: prepare a table": curve("cell", flat),
        "tokenise for θ and φ": curve("example", [[10.0, 1e-4], [1000.0, 1e-3]], "solutions"),
        "store: write": curve("solution", [[10.0, 1e-6], [1000.0, 1e-7]]),
    }
    sizes = {
        "id while a file is validated": 100.0,
        "place of a context": 200.0,
        "cell as JSON": 8.0,
        "cell of a prepared table": 130.0,
        "cell while a table is prepared": 200.0,
        "example to train on": 1000.0,
        "tokenised example": 10_000.0,
        "tokenised solution": 60.0,
    }
    shards = [[4.0 if place % 10 else 40.0, 500, 100] for place in range(20)]
    load = {"name": "made up", "seconds": 10.0, "examples": 10_000, "solutions": 32_000, "tables": 200, "rows": 10.0,
            "columns": 7.0, "bytes": 1, "manifest": 300.0, "shards": shards}  # fmt: skip
    return {
        "curves": curves,
        "bytes": sizes,
        "bytes of a stored solution": curve("solution", [[10.0, 10.0], [1000.0, 2.0]]),
        "seconds of a served question": 0.03,
        "weights": {"solver": 20_000_000, "reconstructor": 20_000_000},
        "workloads": [load],
    }


@pytest.fixture
def costs() -> Any:
    return simulation.Costs(made_up())


def test_a_power_is_found_between_sizes_and_continued_beyond_them() -> None:
    power = Curve("example", "rows", "", [[float(x), 2.0 * x**1.5] for x in (10, 100, 1000)])
    assert power.exponent() == pytest.approx(1.5)
    assert power.slopes() == pytest.approx([1.5, 1.5])
    assert power.value(300) == pytest.approx((2.0 * 300**1.5,) * 2)
    low, high = power.value(10_000)
    assert low == pytest.approx(2.0 * 1000**1.5 * 10)  # as if it grew by 1 from here on
    assert high == pytest.approx(2.0 * 10_000**1.5)
    assert power.value(1) == power.value(10)


def test_a_cost_is_doubled_where_a_growing_term_has_caught_up_with_the_constant() -> None:
    both = Curve("example", "rows", "", [[float(x), 1.0 + x / 1000] for x in (1, 10, 100, 1000, 10_000)])
    assert both.doubled() == pytest.approx(1000, rel=0.01)
    assert Curve("example", "rows", "", [[1.0, 1.0], [10.0, 1.5]]).doubled() is None


def test_more_machines_are_never_slower_and_end_at_what_one_process_can_drive(costs: Any) -> None:
    load = Load(1e6, 100)
    fleet = Fleet(1, cores=2, losses_an_hour=0.0)
    runs = [simulation.search(costs, load, replace(fleet, machines=2**power)) for power in range(9)]
    hours = [run.hours for run in runs]
    assert hours == sorted(hours, reverse=True)
    searching = [run.hours - run.before for run in runs]
    assert searching[0] / searching[1] == pytest.approx(2, rel=0.02)
    assert all(run.hours >= run.before + run.driving for run in runs)
    longest = max(costs.factors) * float(costs.shard(load, 1)[1]) / 3600
    assert (
        hours[-1] <= runs[-1].before + runs[-1].driving + simulation.UNDER_WAY * longest
    )  # one may wait behind another


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 60_000), st.sampled_from([0.0, 0.5, 20.0]), st.booleans(), st.integers(0, 5))
def test_work_is_neither_lost_nor_made(machines: int, examples: int, losses: float, shipped: bool, seed: int) -> None:
    made = simulation.Costs(made_up())
    fleet = Fleet(machines, cores=4, losses_an_hour=losses, shipped=shipped)
    load = Load(examples, 100)
    run = simulation.search(made, load, fleet, seed=seed)
    alone = simulation.search(made, load, replace(fleet, machines=1, losses_an_hour=0.0), seed=seed)
    assert run.searching == pytest.approx(alone.searching)
    assert run.hours * run.workers >= run.searching * (not run.stopped)
    assert (run.lost == 0) == (run.wasted == 0)
    if losses == 0.0:
        assert run.lost == 0
        assert not run.stopped
        assert run.hours >= run.before + run.searching / run.workers


def test_a_search_whose_workers_hardly_live_is_stopped(costs: Any) -> None:
    run = simulation.search(costs, Load(20_000, 100), Fleet(2, losses_an_hour=1e5))
    assert run.stopped
    assert run.lost >= 5


def test_a_table_that_no_machine_holds_is_said_to_break_the_search(costs: Any) -> None:
    load, fleet = Load(1e5, 1e8), Fleet(1, memory_gib=16)
    assert simulation.search(costs, load, fleet) is None
    assert simulation.day_machines(costs, load, fleet, high=True) == "memory"


def test_the_fewest_machines_that_finish_in_time_are_found(costs: Any) -> None:
    load, fleet = Load(1e6, 1e3), Fleet(1, cores=1, losses_an_hour=0.0)
    count = simulation.day_machines(costs, load, fleet, high=True, hours=0.05)
    assert isinstance(count, int)
    assert simulation.search(costs, load, replace(fleet, machines=count)).hours <= 0.05
    fewer = simulation.search(costs, load, replace(fleet, machines=int(count * 0.9)))
    assert fewer.hours > 0.05
    assert simulation.day_machines(costs, load, fleet, high=True, hours=1e-4) == "driver"


def test_training_divides_by_gpus_but_for_the_gradients(costs: Any) -> None:
    step, batch, _ = simulation.STEPS["sql"]
    one = simulation.training_hours(costs, "sql", 1e6, 2.0, 1, 100.0)
    assert one == pytest.approx(2e6 / batch * step / 3600)
    hours = [simulation.training_hours(costs, "sql", 1e6, 2.0, count, 100.0) for count in (1, 2, 8, 64)]
    assert hours == sorted(hours, reverse=True)
    assert hours[2] > one / 8


def test_what_breaks_first_is_named_first(costs: Any) -> None:
    found = simulation.breaks(costs, Load(1e8, 1e3, per_table=50), Fleet(1, memory_gib=64))
    counts = [count for count, _, _ in found]
    assert counts == sorted(counts)
    assert "held tokenised" in found[0][1]
    assert found[0][0] == pytest.approx(64 * 2**30 / (10_000 + 32 * 60))


def test_every_command_prints_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(made_up()))
    scale.main(["growth", "--costs", str(file)])
    assert "made up: 10,000 examples" in capsys.readouterr().out
    scale.main(["simulate", "--costs", str(file), "--examples", "1e5", "--rows", "1e4", "--machines", "3",
                "--core-price", "0.5"])  # fmt: skip
    said = capsys.readouterr().out
    assert "price" in said
    assert "BREAKS" not in said.split("training:")[0]
    scale.main(
        ["simulate", "--costs", str(file), "--examples", "1e6", "--rows", "1e3", "--machines", "3", "--memory", "2"]
    )
    assert "BREAKS" in capsys.readouterr().out


def test_the_curves_predict_a_search_that_they_were_not_made_from(tmp_path: Path) -> None:
    """Within a factor of two, on a few hundred examples."""
    measuring = _module("scale_costs")
    curves = measuring.reading(tmp_path, sizes=(250, 1_000), tables=(10, 100))
    curves |= measuring.searching_sql(rows=(10, 100), columns=(7,), listed=(100, 1_000, 10_000))
    curves |= measuring.storing(((10, 20), (100, 10)))[0]
    curves["drive two workers"] = measuring.driving(tmp_path, sizes=(500,))
    data = measuring.write_sql(tmp_path / "data", 500, 25)
    loads = [measuring.workload(data, "generated", tmp_path / f"solutions-{number}") for number in range(5)]
    load = min(loads, key=lambda each: each["seconds"])  # as the curves are the least of several
    assert load["examples"] == sum(count for _, count, _ in load["shards"]) == 500
    found = simulation.predicted(simulation.Costs({**made_up(), "curves": curves}), simulation.load_of(load))
    assert math.log2(found / load["seconds"]) == pytest.approx(0, abs=1)
