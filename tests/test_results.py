"""The index of the results says what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[1] / "docs" / "results"
INDEX = (RESULTS / "README.md").read_text()
TABLES = dict(re.findall(r"^\| \[[^]]+\]\(([a-z-]+\.md)\) \|(.*)\|$", INDEX, re.MULTILINE))


def test_every_page_is_in_the_index() -> None:
    assert set(TABLES) == {each.name for each in RESULTS.glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("page", sorted(name for name in TABLES if not name.startswith(("learning", "search"))))
def test_the_index_counts_the_bars_of_each_table(page: str) -> None:
    bars = (RESULTS / page).read_text().partition("### Bars\n")[2].partition("\n### ")[0]
    verdicts = [line.rsplit("|", 2)[1].strip() for line in bars.splitlines() if line.startswith("|")]
    assert verdicts.count("met") + verdicts.count("missed") == max(0, len(verdicts) - 2)  # the others are head and rule
    shown = [each.strip() for each in TABLES[page].split("|")[-2:]]
    assert shown == ([counted(bars, "met"), counted(bars, "missed")] if verdicts else ["–", "–"])


def counted(bars: str, state: str) -> str:
    lines = [line for line in bars.splitlines() if line.endswith(f"| {state} |")]
    open_yet = sum("(so far;" in line for line in lines)
    return f"{len(lines)} ({open_yet} so far)" if open_yet else str(len(lines))
