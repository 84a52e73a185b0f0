"""The commands of the README, run as a newcomer would run them: a block that no test runs is found here.

Trainings are made smaller; ``test_tutorial.py`` runs the quick start, in the long tests as it stands.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bonafide.cli import app
from bonafide.examples import write_jsonl
from bonafide.solutions import SolutionStore
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from bonafide.synth.sql import generate
from bonafide.tasks.discrete.program import Operator
from bonafide.tasks.discrete.task import ProgramCodec
from bonafide.tasks.reading.task import MentionCodec
from bonafide.tasks.sql.tables import table_to_json
from command_line import BONAFIDE

README = (Path(__file__).parent.parent / "README.md").read_text()
TINY = (
    "solver.encoder=scratch solver.layers=1 solver.width=16 solver.heads=2 reconstructor.kind=t-scratch "
    "reconstructor.path= reconstructor.layers=1 reconstructor.width=16 reconstructor.heads=2 data.largest=1.0 "
    "data.max_solutions=20 train.epochs=1 train.batch=8"
)
SERVERS = ("serve", "explore")


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


@contextmanager
def serving(command: str, folder: Path, bonafide: str | Path = BONAFIDE) -> Iterator[str]:
    """The address of a server that is started by a command, on a port that is free, and stopped in good order."""
    _, *arguments = shlex.split(command, comments=True)
    options = ["--port", "0", *(["--no-open"] if arguments[0] == "explore" else [])]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen([bonafide, *arguments, *options], cwd=folder, stdout=said, stderr=said)
    try:
        end = time.monotonic() + 60
        while not (lines := re.findall(r'^\{.*"listening".*\}$', (folder / "said").read_text(), re.MULTILINE)):
            assert process.poll() is None, (folder / "said").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        yield json.loads(lines[0])["address"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def serve(command: str, folder: Path) -> str:
    """The first page of a server."""
    with serving(command, folder) as address, urllib.request.urlopen(address) as response:
        page: str = response.read().decode()
    return page


def test_every_block_of_commands_is_run_by_a_test():
    titles = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert {title for title in titles if "```" in section(title)} == {
        "A first look",
        "From your table to a model",  # test_tutorial.py
        "Your own table",
        "Your own texts",
        "A public data set",
        "Train, evaluate, ask",
        "From Python",
    }
    assert set(re.findall(r"```(\w*)\n.*?```", README, re.DOTALL)) == {"bash", "python"}


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


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A folder with a data set as it is published, imported and searched by the README's commands; what they said."""
    folder = tmp_path_factory.mktemp("public")
    for split in ("train", "dev"):
        tables, pairs = generate(tables=4, questions=5, seed=3, split=split)
        write_jsonl(folder / f"{split}.tables.jsonl", map(table_to_json, tables))
        questions = (
            {"phase": 1, "table_id": example.context, "question": example.question, "sql": gold.solution}
            for example, gold in pairs
        )
        write_jsonl(folder / f"{split}.jsonl", questions)
    (commands,) = blocks("A public data set", "bash")
    return folder, run(commands, folder)


def test_a_public_data_set(public):
    _, out = public
    assert '"gold_in_set": 1.0' in out
    assert '{"example": "train-1", "sql": "SELECT' in out


@pytest.mark.slow
def test_train_evaluate_ask(public, monkeypatch, capsys):
    folder, _ = public
    monkeypatch.chdir(folder)
    (own,) = blocks("Your own table", "bash")
    Path("sales.csv").write_text(re.search(r"<<'CSV'\n(.*?)CSV\n", own, re.DOTALL).group(1))
    Path("treaty.txt").write_text("The siege began in 1648. Five towns fell. The treaty was signed in 1653.")
    Path("handbook.md").write_text(
        "# Handbook\n\nAda Lund runs the archive.\n\nTravel claims are signed by Ada Lund.\n"
    )
    for split, many in (("train", 3), ("dev", 1)):
        write_discrete_benchmark(Path("drop") / split, seed=1, passages=many, questions=4, split=split)
        write_reading_benchmark(Path("squad") / split, seed=1, documents=many, questions=4, split=split)
    smaller = [part for each in TINY.split() for part in ("--set", each)]
    (commands,) = blocks("Train, evaluate, ask", "bash")
    said = {}
    for line in commands.splitlines():
        name, *arguments = shlex.split(line, comments=True)
        assert name == "bonafide"
        if arguments[0] in SERVERS:
            said[line] = serve(line, folder)
            continue
        app([*arguments, *(smaller if arguments[0] == "train" else [])], standalone_mode=False)
        said[line] = capsys.readouterr().out
    first = {line.split()[1]: text for line, text in reversed(said.items())}
    assert "wikisql-hard-mimax" in first["recipes"].split()
    assert "right solution" in first["evaluate"]
    assert "<table" in Path("compare.html").read_text()
    assert "Spurious: the answer is right and the solution is not" in first["audit"]
    assert "SELECT" in first["predict"]
    assert "sales</option>" in first["serve"]
    assert "<title>" in first["explore"]
    assert sum(line.startswith("bonafide predict") for line in said) == 3
    assert all(text.strip() for line, text in said.items() if line.startswith("bonafide predict"))


def test_the_make_commands_do_what_is_tested_elsewhere():
    """pytest runs this, and the demo is below; ``test_demo.py`` runs a smaller one."""
    (commands,) = blocks("A first look", "bash")
    targets = [line.split("#")[0].split() for line in commands.splitlines()]
    assert targets == [["make", "demo"], ["make", "test"]]
    root = Path(__file__).parent.parent
    demo, test = (run(f"make -n {target}", root) for _, target in targets)
    assert ".venv/bin/bonafide demo sql --out demo" in demo.splitlines()
    assert '.venv/bin/pytest -m "not long" -n 2 --dist loadfile' in test.splitlines()


@pytest.mark.long
def test_the_demo_ends_with_a_table_and_pages(tmp_path):
    out = run("bonafide demo sql --out demo", tmp_path)
    hard_em, mimax = (re.search(rf"{name}\W+([\d.]+)%\W+([\d.]+)%", out).groups() for name in ("HardEM", "MIMAX"))
    assert float(mimax[1]) > 2 * float(hard_em[1])  # right solutions
    assert all((tmp_path / "demo" / name).stat().st_size > 10_000 for name in ("report.html", "solutions.html"))
