"""``bonafide explore``."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.shown import searching, tell, tell_if_training, working
from bonafide.errors import BonafideError


def explore_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="A folder that train wrote, or a solution store; then other runs on the same examples, to compare. "
            "Without others, those in the folders beside it."
        ),
    ],
    examples: Annotated[
        Path | None,
        typer.Option(help="Other examples than the run was trained on, such as dev; they are searched first."),
    ] = None,
    solutions: Annotated[
        Path | None, typer.Option(help="A solution store of these examples; by default the run's.")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="gold.jsonl, to see what is right.")] = None,
    tables: Annotated[
        list[Path] | None,
        typer.Option(
            help="tables.jsonl, or each of your own tables in their order, where they were moved since the search."
        ),
    ] = None,
    documents: Annotated[
        Path | None, typer.Option(help="documents.jsonl, where it was moved since the search.")
    ] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Pairs to judge, as compare --sheet writes them; by default the run's own.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Who judges; by default your user name.")] = None,
    port: Annotated[int, typer.Option(help="0 takes one that is free.", min=0, max=65535)] = 8360,
    host: Annotated[str, typer.Option(help="Where to listen; by default on this machine alone.")] = "127.0.0.1",
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in your browser.")] = True,
) -> None:
    """Look at a run in your browser: its solution sets, what solver and reconstructor make of them; and judge."""
    try:
        from bonafide.explore.pages import explorer
        from bonafide.web.guard import door
        from bonafide.web.running import run as serve
    except ModuleNotFoundError as error:
        raise BonafideError(
            f"The explorer needs {error.name}, which is not installed: pip install 'bonafide[explore]'."
        ) from None
    from bonafide.explore.memory import give_back_freed, settle
    from bonafide.explore.workspace import Workspace, search_for

    run, *others = runs
    for each in runs:
        tell_if_training(each)
    give_back_freed()
    with ExitStack() as held:
        if (run / "model").is_dir():
            from torch.backends import mkldnn

            # It keeps a kernel a shape: 12 MB. Whether TF32 is allowed is left as it is: to say so gives a warning.
            held.enter_context(mkldnn.flags(enabled=False, allow_tf32=None))
            settle()
        if examples is not None and solutions is None:
            with searching(run / "explore") as (started, advance):
                solutions = search_for(run, examples, advance, started)
        with working("Indexing") as progress:
            workspace = Workspace(
                run,
                solutions=solutions,
                examples=examples,
                contexts=tables or ([documents] if documents is not None else []),
                gold=gold,
                progress=progress,
            )

        def ready(address: str) -> None:
            tell(Console(stderr=True), f"The explorer is at {escape(address)} (Ctrl-C ends it).")
            if open_browser:
                typer.launch(address)

        app = explorer(workspace, door(host), sheet, judge or own_name(), others=others, loaded=settle)
        serve(app, host, port, ready)


def own_name() -> str:
    """The user's, as the judge; a process may run as one who has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "me"
