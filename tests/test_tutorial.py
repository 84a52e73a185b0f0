"""The commands of the tutorial and of the README's quick start, run as a newcomer would run them.

In the daily tests with fewer pairs, a smaller model and fewer folds; as they stand in the long ones.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from test_readme import blocks, run

TUTORIAL = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()
SMALLER = {
    "bonafide demo shop --out shop": " --pairs 30",
    "bonafide train --table shop/orders.csv --examples shop/qa.jsonl --out runs/shop": " table-scratch-mimax "
    "--set train.epochs=2 --set solver.width=16 --set reconstructor.width=16 --folds 2",
}


def commands() -> list[str]:
    """Those of the tutorial without the installation, which the tests stand on."""
    found = re.findall(r"```bash\n(.*?)```", TUTORIAL, re.DOTALL)
    return [line for block in found for line in block.splitlines() if not line.startswith("pip ")]


def smaller(listed: list[str]) -> str:
    assert [command for command in listed if command in SMALLER] == list(SMALLER)
    return "\n".join(command + SMALLER.get(command, "") for command in listed)


def look_at(folder: Path, out: str, pairs: int) -> None:
    assert f"of {pairs} answers held out" in out
    assert "SELECT" in out
    assert len((folder / "runs/shop/held-out.jsonl").read_text().splitlines()) == pairs
    assert "<h2>Wrong held-out answers" in (folder / "runs/shop/report.html").read_text()


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path):
    out = run(smaller(commands()), tmp_path)
    look_at(tmp_path, out, 30)
    assert "right solution" in out


def test_the_quick_start_of_the_readme_is_in_the_tutorial():
    (quick,) = blocks("From your table to a model", "bash")
    assert set(quick.splitlines()) <= set(commands())


@pytest.mark.long
def test_the_tutorial_as_it_stands_gives_a_model_that_is_mostly_right(tmp_path):
    look_at(tmp_path, run("\n".join(commands()), tmp_path), 200)
    figures = json.loads((tmp_path / "runs/shop/own.json").read_text())
    assert figures["covered"] == 200
    assert figures["right"] >= 140
