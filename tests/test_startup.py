"""``import bonafide`` and ``bonafide --help`` answer at once: nothing heavy or optional is imported for them."""

from __future__ import annotations

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from command_line import BONAFIDE

ALWAYS = {"_distutils_hack", "sitecustomize"}
"""Python itself imports them, where setuptools is installed."""
TYPER = {"typer", "click", "shellingham", "typing_extensions", "annotated_doc"}
PYDANTIC = {"pydantic", "pydantic_core", "annotated_types", "typing_inspection"}
"""Newer versions of typer check values with it."""
RICH = {"rich", "attr", "markdown_it", "mdurl", "pygments"}
LIGHT = {"bonafide"} | ALWAYS | TYPER | PYDANTIC | RICH
SECONDS = 0.5

IMPORTED = """
import sys
print(*sorted({name.partition(".")[0] for name, module in list(sys.modules.items())
               if "site-packages" in (getattr(module, "__file__", None) or "")}))
"""
EVERY_HELP = """
import io, typer
from contextlib import redirect_stdout
from bonafide.cli import app

def every(command, path):
    with command.make_context(path, [], resilient_parsing=True) as context, redirect_stdout(io.StringIO()):
        command.get_help(context)
    return 1 + sum(every(each, f"{path} {name}") for name, each in getattr(command, "commands", {}).items())

assert every(typer.main.get_command(app), "bonafide") > 20
"""


def imported_by(code: str) -> set[str]:
    """The packages from outside the standard library that a program imports."""
    done = subprocess.run([sys.executable, "-c", code + IMPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_bonafide_imports_nothing_else():
    assert imported_by("import bonafide") <= {"bonafide"} | ALWAYS


def test_the_help_of_every_command_is_light():
    found = imported_by(EVERY_HELP)
    assert {"typer"} <= found <= LIGHT


def test_a_heavy_import_would_be_seen():
    assert {"numpy", "pyarrow"} <= imported_by("import bonafide.solutions") - LIGHT


@pytest.mark.parametrize("command", [[sys.executable, "-c", "import bonafide"], [BONAFIDE, "--help"]])
def test_it_answers_within_half_a_second_of_a_core(command):
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)  # not by the clock: the machine may be busy
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS


def test_stopped_while_python_still_imports_it_ends_as_quietly_as_later() -> None:
    script = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'bonafide.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from bonafide.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Aborted.\n")
