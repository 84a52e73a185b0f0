"""The index of the results says what the pages say."""

from __future__ import annotations

import json
import re
from collections import Counter
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


def test_the_page_counts_the_places_that_were_judged_genuine() -> None:
    judged = json.loads((RESULTS / "judged" / "webquestions.json").read_text())
    right = Counter(name for each in judged for name, place in each["chosen"].items() if place in each["genuine"])
    page = (RESULTS / "learning-reading.md").read_text().partition("**What was chosen, read by hand.**")[2]
    head, _, shares = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")][:3]
    names = {"`mimax+`": "MIMAX+", "MML, the words as a prior": "MML, words", "MIMAX's φ alone": "MIMAX, φ"}
    said = {names.get(name.strip(), name.strip()): int(share) for name, share in zip(head, shares, strict=True)}
    assert said == right
    some = sum(bool(each["genuine"]) for each in judged)
    running = " ".join(page.split())
    assert f"Of the other {some}:" in running
    assert f"For {len(judged) - some} questions none of them does" in running
