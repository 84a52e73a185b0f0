"""The commands of the README, run as a newcomer would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bonafide.examples import write_jsonl
from bonafide.solutions import SolutionStore
from bonafide.synth.sql import generate
from bonafide.tasks.discrete.program import Operator
from bonafide.tasks.discrete.task import ProgramCodec
from bonafide.tasks.reading.task import MentionCodec
from bonafide.tasks.sql.tables import table_to_json

README = (Path(__file__).parent.parent / "README.md").read_text()


def section(title: str) -> str:
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL).group(1)


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)


def run(script: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_your_own_table_and_from_python(tmp_path):
    (commands,) = blocks("Your own table", "bash")
    out = run(commands, tmp_path)
    assert "'1,200' → 1200" in out
    assert """SELECT "Units" FROM "sales" WHERE "City" = 'oslo' COLLATE NOCASE AND "Month" = 'may' COLLATE""" in out
    (program,) = blocks("From Python", "python")
    printed = run(f"python - <<'PYTHON'\n{program}\nPYTHON", tmp_path).splitlines()
    assert any(line.startswith('SELECT "Units" FROM "sales"') for line in printed)
    assert int(printed[-1]) >= len(printed) - 1 > 1


def test_your_own_texts(tmp_path):
    (commands,) = blocks("Your own texts", "bash")
    run(commands, tmp_path)
    programs = SolutionStore(tmp_path / "programs", ProgramCodec())
    (operators,) = [{program.operator for program in found} for _, found in programs]
    assert {Operator.VALUE, Operator.SUBTRACT} <= operators
    mentions = SolutionStore(tmp_path / "mentions", MentionCodec())
    assert [len(found) for _, found in mentions] == [2]


def test_a_public_data_set(tmp_path):
    tables, pairs = generate(tables=4, questions=5, seed=3)
    write_jsonl(tmp_path / "train.tables.jsonl", map(table_to_json, tables))
    questions = (
        {"phase": 1, "table_id": example.context, "question": example.question, "sql": gold.solution}
        for example, gold in pairs
    )
    write_jsonl(tmp_path / "train.jsonl", questions)
    (commands,) = blocks("A public data set", "bash")
    out = run(commands, tmp_path)
    assert '"gold_in_set": 1.0' in out
    assert '{"example": "train-1", "sql": "SELECT' in out


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_make_commands_are_there(target):
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
