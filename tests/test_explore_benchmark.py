"""The explorer's benchmark at a hundredth of its size: it makes what it says, and every figure comes out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "explore.py"


@pytest.mark.long
def test_the_benchmark_measures_a_store_of_the_size_that_was_asked_for(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--work", str(tmp_path), "--examples", "1000", "--solutions", "200000"]
    done = subprocess.run([*command, "--pages", "20"], capture_output=True, text=True, timeout=300, check=True)
    counts = json.loads((tmp_path / "solutions" / "manifest.json").read_text())["counts"]
    assert (counts["examples"], counts["solutions"]) == (1000, 200_000)
    for figure in ("first page", "any example", "the ten largest sets", "overview", "a question"):
        assert re.search(rf"^{figure}: \d+ ms median", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^memory: \d+ MiB", done.stdout, re.MULTILINE)
