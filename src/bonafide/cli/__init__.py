"""The command line: each command is one public function of the library, and an error is one paragraph.

Nothing heavy is imported before a command runs, so ``bonafide --help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from bonafide import __version__
from bonafide.cli import comparing, demos, exploring, imports, learning, reproducing, searches, selecting, serving
from bonafide.cli.shown import say
from bonafide.errors import BonafideError, InvalidFileError

app = typer.Typer(
    name="bonafide",
    help="Learn from answers, for the right reasons: find every derivation that reaches an answer, and tell the "
    "genuine one from the accidental ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
imports.app.command("candidates")(selecting.import_candidates_command)
app.add_typer(imports.app, name="import")
app.command("select")(selecting.select_command)
app.command("retrieve")(searches.retrieve_command)
app.add_typer(searches.app, name="search")
app.command("inspect")(searches.inspect_command)
app.command("table")(searches.table_command)
app.command("train")(learning.train_command)
app.command("recipes")(learning.recipes_command)
app.command("evaluate")(learning.evaluate_command)
app.command("predict")(learning.predict_command)
app.command("serve")(serving.serve_command)
app.command("compare")(comparing.compare_command)
app.command("audit")(comparing.audit_command)
app.command("subset")(comparing.subset_command)
app.command("explore")(exploring.explore_command)
app.command("reproduce")(reproducing.reproduce_command)
app.command("selection")(reproducing.selection_command)
app.add_typer(demos.app, name="demo")


def main() -> None:
    """Run the command line."""
    try:
        app(standalone_mode=True)
    except InvalidFileError as error:
        from bonafide.report.terminal import problems_table

        console = Console(stderr=True)
        console.print(problems_table(error))
        say(str(error))
        sys.exit(2)
    except BonafideError as error:
        say(str(error))
        sys.exit(2)
    except OSError as error:
        say(f"The operating system says: {error}.")
        sys.exit(2)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    """Print the version."""
    if show:
        typer.echo(f"bonafide {__version__}")
        raise typer.Exit()
