"""The real command line in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bonafide.sealed import read_sealed, write_sealed

BONAFIDE = str(Path(sys.executable).with_name("bonafide"))
TABLES = [
    {
        "id": name,
        "header": ["City", "People"],
        "types": ["text", "real"],
        "rows": [["Oslo", 7], ["Riga", 6], ["Cork", 2]],
    }
    for name in ("north", "south")
]
WIKISQL = [{"question": "people of Oslo?", "table_id": "north", "sql": {"sel": 1, "agg": 0, "conds": [[0, 0, "Oslo"]]}}]


def examples(count: int = 10) -> list[Any]:
    return [
        {"id": f"q{number}", "question": "people of Oslo?", "context": "north", "answers": [7]}
        for number in range(1, count + 1)
    ]


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str


def bonafide(*arguments: str | Path, before: Callable[[], None] | None = None) -> Outcome:
    """Run a command to its end; ``before`` runs in the new process, to take something away from it."""
    done = subprocess.run(
        [BONAFIDE, *map(str, arguments)], capture_output=True, encoding="utf-8", timeout=120, preexec_fn=before
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def refused(outcome: Outcome) -> str:
    """The paragraph with which a command was refused, and which is all it says but for a table of problems."""
    assert outcome.code == 2, outcome
    assert outcome.stdout == ""
    assert "Traceback" not in outcome.stderr
    *others, paragraph = [line for line in outcome.stderr.splitlines() if not line.startswith("Searching ")]
    assert paragraph.startswith("Error: ")
    assert paragraph.endswith((".", "?"))
    assert not others or any(line.startswith("┏") for line in others)
    return paragraph.removeprefix("Error: ")


def problems(outcome: Outcome) -> list[list[str]]:
    """The rows of the table of problems: line, id, field, expected, found; cells over several lines are joined."""
    rows: list[list[str]] = []
    for line in outcome.stderr.splitlines():
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            if cells[0]:
                rows.append(cells)
            else:
                rows[-1] = [" ".join([*filter(None, pair)]) for pair in zip(rows[-1], cells, strict=True)]
    return rows


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder, to compare with what is there later; None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def write_lines(path: Path, objects: Iterable[Any]) -> Path:
    """One JSON value a line; a text is written as it stands."""
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in objects))
    return path


def refused_unchanged(folder: Path, command: Callable[[], Outcome]) -> tuple[str, list[list[str]]]:
    """The paragraph and the table of problems of a command that changed nothing in the folder."""
    before = contents(folder)
    outcome = command()
    message = refused(outcome)
    assert contents(folder) == before
    return message, problems(outcome)


def write_data(folder: Path) -> Path:
    """Two small tables, ten questions on one of them, and the same in WikiSQL's format."""
    write_lines(folder / "tables.jsonl", TABLES)
    write_lines(folder / "examples.jsonl", examples())
    (folder / "cities.csv").write_text("City,People\nOslo,7\nRiga,6\n")
    write_lines(folder / "questions.jsonl", WIKISQL)
    return folder


def change_manifest(store: Path, **fields: Any) -> None:
    """Let a store say something else of itself, as one that was written so."""
    write_sealed(store / "manifest.json", read_sealed(store / "manifest.json") | fields)
