"""What became of a fault, one line of JSON each, and the table of them all."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

IDENTICAL = "identical"
"""The result is that of a run without the fault, after the same command was given again where it had ended."""
REFUSED = "refused"
"""One paragraph names the damaged file, and nothing was made of it."""
HARMLESS = "harmless"
"""The damage went unseen, in a file that says why it may; the result is the same."""
WRONG = "wrong"
"""Lost, or silently wrong, or a traceback: what must not happen."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault and what became of it."""

    command: str
    kind: str
    target: str
    moment: str
    outcome: str
    note: str = ""


_TRIES = 30


class MissedError(Exception):
    """The command was over before the fault came: another moment is drawn."""


Inject = Callable[[random.Random], Fault]
Area = Mapping[str, tuple[float, Inject]]
"""By name of a kind: how often it is drawn, and what puts one in."""


def put_in(areas: Iterable[Area], count: int, seed: int, log: Path | None = None, first: int = 0) -> list[Fault]:
    """Draw and put in ``count`` faults; fault ``n`` depends on the seed and on ``n`` alone."""
    kinds = [each for area in areas for each in area.values()]
    weights = [weight for weight, _ in kinds]
    faults: list[Fault] = []
    for number in range(first, first + count):
        chance = random.Random(f"{seed}/{number}")
        _, inject = chance.choices(kinds, weights)[0]
        fault = _put_in(inject, chance)
        faults.append(fault)
        if log is not None:
            with log.open("a") as stream:
                stream.write(json.dumps({"seed": seed, "number": number, **asdict(fault)}, ensure_ascii=False) + "\n")
    return faults


def _put_in(inject: Inject, chance: random.Random) -> Fault:
    for _ in range(_TRIES):
        with suppress(MissedError):
            return inject(chance)
    raise AssertionError(f"{inject} came too late {_TRIES} times")


def table(faults: Iterable[Fault]) -> str:
    """Command and kind by outcome, as Markdown."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in faults:
        counts.setdefault((each.command, each.kind), Counter())[each.outcome] += 1
    outcomes = (IDENTICAL, REFUSED, HARMLESS, WRONG)
    lines = [
        "| command | fault | put in | resumed identical | refused by name | harmless | lost or silently wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    for (command, kind), found in sorted(counts.items()):
        cells = [command, kind, found.total(), *(found[each] for each in outcomes)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    total = sum(counts.values(), Counter())
    cells = ["all", "", total.total(), *(total[each] for each in outcomes)]
    lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)
