"""What a larger run would cost: each stage measured, its growth fitted, and a run on many machines simulated from that.

    python benchmarks/scale.py measure --out costs.json                   # CPU; about two minutes of a core
    python benchmarks/scale.py measure --out costs.json --examples data/train/examples.jsonl    # with a search of yours
    python benchmarks/scale.py growth --costs costs.json
    python benchmarks/scale.py simulate --costs costs.json --examples 1e8 --rows 1e7 --machines 100
    python benchmarks/scale.py plan --costs costs.json                    # machines that finish in a day

*Measured*: processor seconds and bytes (``scale_costs.py``, ``scale_models.py``), and steps on a GPU, from the pages
that ``scale_simulation.py`` names. *Fitted*: between measured sizes straight lines in logarithms; beyond the largest,
from the last point, with the slope of the last two points and with 1 as the two ends of a range. *Assumed*: what the
options say (machines, network, losses, questions a table), examples in the order of their tables, solutions a question
as given, and no cost of Ray's own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from rich.console import Console
from rich.table import Table

import scale_simulation as simulation
from bonafide.files import read_json, write_json
from scale_simulation import GIB, STEPS, Costs, Fleet, Load

console = Console(width=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="what each stage costs here")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--examples", type=Path, help="examples of tables, searched uncapped as a second workload")
    measuring.add_argument("--encoder", default="minilm", help="as in a recipe")
    for name, text in (
        ("growth", "how each cost grows, and how well the curves predict the searches that were measured"),
        ("simulate", "one run"),
        ("plan", "how many machines finish in a day, by examples and rows"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--costs", type=Path, required=True, help="what measure wrote")
        if name != "growth":
            _options(command, name == "simulate")
    asked = parser.parse_args(arguments)
    if asked.command == "measure":
        write_json(asked.out, measure(asked.examples, asked.encoder))
        return
    costs = Costs(read_json(asked.costs))
    if asked.command == "growth":
        growth(costs)
        check(costs)
    elif asked.command == "plan":
        plan(costs, _fleet(asked, 1, shipped=True), asked.per_table)
    else:
        simulate(costs, asked)


def _options(command: argparse.ArgumentParser, one: bool) -> None:
    fleet = Fleet(1)
    if one:
        command.add_argument("--examples", type=float, required=True)
        command.add_argument("--rows", type=float, required=True, help="of a table")
        command.add_argument("--columns", type=float, default=7.0)
        command.add_argument("--solutions", type=float, default=32.0, help="of a question, on average")
        command.add_argument("--machines", type=int, required=True)
        command.add_argument("--task", choices=list(STEPS), default="sql", help="whose training step is taken")
        command.add_argument("--gpus", type=int, default=8)
        command.add_argument("--epochs", type=float, default=3.0)
        command.add_argument("--gpu-network", type=float, default=100.0, help="Gbit/s between GPUs")
        command.add_argument("--core-price", type=float, help="of a core for an hour")
        command.add_argument("--gpu-price", type=float, help="of a GPU for an hour")
        command.add_argument("--seed", type=int, default=0)
        command.add_argument(
            "--at-workers", action="store_true", help="if workers found and checked the tables themselves"
        )
    command.add_argument("--per-table", type=float, default=10_000.0, help="questions on a table")
    command.add_argument("--cores", type=int, default=fleet.cores, help="of a machine")
    command.add_argument("--memory", type=float, default=fleet.memory_gib, help="GiB of a machine")
    command.add_argument("--network", type=float, default=fleet.network_gbit, help="Gbit/s of the first process")
    command.add_argument("--losses", type=float, default=fleet.losses_an_hour, help="of a worker in an hour")


def _fleet(asked: argparse.Namespace, machines: int, shipped: bool) -> Fleet:
    return Fleet(machines, asked.cores, asked.memory, asked.network, asked.losses, shipped=shipped)


def measure(examples: Path | None, encoder: str) -> dict[str, Any]:
    """Everything; ``examples`` (with tables beside them) are searched too, as a second workload."""
    import scale_costs
    import scale_models

    began = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        curves = scale_costs.reading(folder) | {"drive two workers": scale_costs.driving(folder)}
        curves |= scale_costs.searching_sql() | scale_costs.searching_texts()
        stored, sizes = scale_costs.storing()
        learned, tokenised, weights = scale_models.learning(encoder)
        generated = scale_costs.write_sql(folder / "generated", 5_000)
        loads = [scale_costs.workload(generated, "generated", folder / "searched")]
        if examples is not None:
            loads.append(scale_costs.workload(examples, examples.parent.name, folder / "searched-too"))
        return {
            "about": {"date": time.strftime("%Y-%m-%d"), "encoder": encoder},
            "curves": curves | stored | learned,
            "bytes of a stored solution": sizes,
            "seconds of a served question": scale_models.serving(encoder),
            "bytes": scale_costs.holding(folder) | tokenised,
            "weights": weights,
            "workloads": loads,
            "seconds": time.process_time() - began,
        }


def growth(costs: Costs) -> None:
    """A line a curve."""
    shown = Table("stage", "per", "grows with", "from … to", "cost", "exponent (neighbours)", "doubled at")
    for name, curve in costs.curves.items():
        first, last = curve.points[0], curve.points[-1]
        slopes = curve.slopes()
        doubled = curve.doubled()
        shown.add_row(
            name,
            curve.per,
            curve.by,
            f"{first[0]:,.0f} … {last[0]:,.0f}",
            f"{spell(first[1])} … {spell(last[1])}",
            f"{curve.exponent():.2f} ({min(slopes):.2f} to {max(slopes):.2f})",
            "" if doubled is None else f"{doubled:,.0f}",
        )
    console.print(shown)
    for name, size in costs.bytes.items():
        console.print(f"bytes of: {name}: {size:,.0f}")
    console.print(f"a served question: {spell(costs.data['seconds of a served question'])}")


def check(costs: Costs) -> None:
    """The searches that were measured, predicted from the curves, and simulated with more workers."""
    for workload in costs.data["workloads"]:
        load, real = simulation.load_of(workload), workload["seconds"]
        found = simulation.predicted(costs, load)
        times = []
        for cores in (1, 2, 8):
            fleet = Fleet(1, cores=cores, losses_an_hour=0.0)
            runs = [simulation.search(costs, load, fleet, seed=seed) for seed in range(20)]
            hours = sorted(run.hours * simulation.HOUR for run in runs if run is not None)
            times.append(f"{hours[0]:.1f} to {hours[-1]:.1f} s with {cores}")
        console.print(
            f"{workload['name']}: {load.examples:,} examples, {workload['solutions']:,} solutions: measured {real:.1f} "
            f"s of a core, predicted {found:.1f} s ({found / real - 1:+.0%})"
        )
        console.print(f"  simulated by workers, the range of 20 draws of shards: {', '.join(times)}")


def simulate(costs: Costs, asked: argparse.Namespace) -> None:
    """The search at both ends of its range, training, and what breaks first."""
    load = Load(asked.examples, asked.rows, asked.columns, asked.solutions, asked.per_table)
    fleet = _fleet(asked, asked.machines, not asked.at_workers)
    console.print(f"{load.examples:,.0f} examples on {load.tables:,.0f} tables of {load.rows:,.0f} rows; {fleet}")
    for name, high in (("low", False), ("high", True)):
        found = simulation.search(costs, load, fleet, high, asked.seed)
        if found is None:
            need = costs.worker_bytes(load) / GIB
            console.print(f"search: no worker fits: each needs {need:.1f} GiB, a machine has {fleet.memory_gib:g} GiB")
            break
        price = _price(found.hours * fleet.machines * fleet.cores, asked.core_price)
        console.print(f"search, {name} end: {_rounded(asdict(found))}{price}")
    if (travels := costs.shipped_bytes(load, fleet)) > 0 and found is not None:
        held = simulation.UNDER_WAY * found.workers * travels / GIB
        console.print(f"with each shard {travels / GIB:,.2f} GiB of tables travel; under way at once: {held:,.1f} GiB")
    console.print(f"store: {costs.store_bytes(load) / GIB:,.1f} GiB")
    hours = simulation.training_hours(costs, asked.task, load.examples, asked.epochs, asked.gpus, asked.gpu_network)
    trained = f"{hours:,.1f} h on {asked.gpus} H200 ({asked.epochs:g} epochs; {STEPS[asked.task][2]})"
    console.print(f"training: {trained}{_price(hours * asked.gpus, asked.gpu_price)}")
    for count, what, why in simulation.breaks(costs, load, fleet):
        mark = "BREAKS" if count < load.examples else "holds"
        console.print(f"{mark:>6} at {count:.1e} examples: {what} ({why})")


def plan(costs: Costs, fleet: Fleet, per_table: float) -> None:
    """Machines that search so many examples in a day, as it is and if workers found the tables themselves."""
    titles = ("machines in a day", "core-hours", "machines, tables at the workers", "GiB a worker", "store, GiB")
    shown = Table("examples", "rows of a table", *titles)
    for examples in (1e6, 1e7, 1e8):
        for rows in (1e3, 1e4, 1e5, 1e6, 1e7):
            load = Load(examples, rows, per_table=per_table)
            now = [simulation.day_machines(costs, load, fleet, high) for high in (False, True)]
            at_workers = replace(fleet, shipped=False)
            then = [simulation.day_machines(costs, load, at_workers, high) for high in (False, True)]
            count = next((each for each in reversed(then) if isinstance(each, int)), 1)
            found = [
                simulation.search(costs, load, replace(at_workers, machines=count), high) for high in (False, True)
            ]
            hours = [f"{each.searching + each.wasted:,.0f}" if each is not None else "–" for each in found]
            sizes = [f"{size / GIB:,.1f}" for size in (costs.worker_bytes(load), costs.store_bytes(load))]
            shown.add_row(f"{examples:.0e}", f"{rows:.0e}", _ends(now), _ends(hours), _ends(then), *sizes)
    console.print(shown)


def _ends(both: Sequence[object]) -> str:
    return " to ".join(dict.fromkeys(map(str, both)))


def spell(value: float) -> str:
    """Seconds as a person reads them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def _price(hours: float, each: float | None) -> str:
    return "" if each is None else f", price {hours * each:,.0f}"


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}


if __name__ == "__main__":
    main()
