"""Any bytes give a value or an explained error: every reader, parser and metric, and the API, on inputs by the million.

Usage: python tools/fuzz.py --inputs 1000000 --seed 0 --out fuzz.json
       python tools/fuzz.py --target csv --target sqlite --inputs 20000
       python tools/fuzz.py --target csv --seed 0 --show 1234      (one input again, with its traceback)

A fifth of the inputs is drawn by atheris, which is led by the code that they reach (``pip install -e ".[fuzz]"``, or
``--guided 0``). Exit codes: 0, nothing was found; 1, something was; the table says of which target, the JSON all of it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fuzzing.contract import outcome
from fuzzing.running import Result, fuzz, input_of
from fuzzing.targets import PLAN, shares

_ROW = "{:<20} {:>9} {:>8} {:>9} {:>9} {:>7} {:>5} {:>8} {:>8} {:>6}"


def main() -> int:
    """Run the targets that are asked for, and print what came of each."""
    asked = _arguments()
    chosen = [each for each in PLAN if not asked.target or each.name in asked.target]
    if asked.show is not None:
        return _show(asked.target, asked.seed, asked.show)
    if asked.guided and importlib.util.find_spec("atheris") is None:
        raise SystemExit('atheris is not installed: pip install -e ".[fuzz]", or add --guided 0.')
    counts = shares(asked.inputs, [each.name for each in chosen])
    results: list[Result] = []
    begun = time.monotonic()
    print(
        _ROW.format("target", "inputs", "guided", "values", "errors", "crashes", "hangs", "seconds", "slowest", "MiB")
    )
    for each in chosen:
        guided = round(counts[each.name] * asked.guided)
        results.append(fuzz(each.name, each.build, counts[each.name] - guided, asked.seed, guided))
        print(_row(results[-1]), flush=True)
    whole = _total(results, time.monotonic() - begun)
    print(_row(whole))
    if asked.out is not None:
        about = {"seed": asked.seed, "python": platform.python_version(), "total": whole.to_json()}
        asked.out.write_text(json.dumps({**about, "targets": [each.to_json() for each in results]}, indent=2) + "\n")
    for result in results:
        for what, numbers in _grouped(result).items():
            print(f"{result.target}: {what}, {len(numbers):,} times, first at input {numbers[0]}")
    return int(whole.crashes + whole.hangs > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all; each target has its share")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=[each.name for each in PLAN], help="may be repeated")
    parser.add_argument("--guided", type=float, default=0.2, help="share of the inputs that atheris draws")
    parser.add_argument("--out", type=Path, help="all figures and findings, as JSON")
    parser.add_argument("--show", type=int, help="the random input of this number, read in this process")
    return parser.parse_args()


def _show(targets: list[str] | None, seed: int, number: int) -> int:
    if not targets or len(targets) != 1:
        raise SystemExit("--show needs one --target.")
    planned = next(each for each in PLAN if each.name == targets[0])
    with tempfile.TemporaryDirectory() as folder:
        target = planned.build(Path(folder))
        data = input_of(target, planned.name, seed, number)
        print(data)
        print(outcome(target, data))
    return 0


def _row(result: Result) -> str:
    return _ROW.format(
        result.target,
        f"{result.inputs:,}",
        f"{result.guided:,}",
        f"{result.values:,}",
        f"{result.errors:,}",
        result.crashes,
        result.hangs,
        f"{result.seconds:.0f}",
        f"{result.slowest:.2f} s",
        f"{result.megabytes:.0f}",
    )


def _total(results: list[Result], seconds: float) -> Result:
    whole = Result("all", seconds=seconds)
    for each in results:
        for name in ("inputs", "guided", "values", "errors", "crashes", "hangs"):
            setattr(whole, name, getattr(whole, name) + getattr(each, name))
        whole.slowest, whole.megabytes = max(whole.slowest, each.slowest), max(whole.megabytes, each.megabytes)
    return whole


def _grouped(result: Result) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in result.findings:
        found.setdefault(each["what"], []).append(each["number"])
    return found


if __name__ == "__main__":
    sys.exit(main())
