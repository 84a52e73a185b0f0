"""``bonafide serve``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from bonafide.cli.own_tasks import TaskFile, load_run
from bonafide.cli.shown import TableFiles, Types, column_types, tell, tell_if_training
from bonafide.errors import BonafideError


def serve_command(
    run: Annotated[Path, typer.Argument(help="A folder that train wrote.")],
    port: Annotated[int, typer.Option(help="0: one that is free.", min=0, max=65535)] = 8000,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    table: TableFiles = None,
    types: Types = None,
    task: TaskFile = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A name by which the server may be called, where it is not only local."),
    ] = None,
) -> None:
    """A JSON API for a trained model, and a page to ask it in."""
    try:
        from bonafide.serve.application import serve_app
    except ModuleNotFoundError as error:
        raise BonafideError(f"bonafide serve needs {error.name}: pip install 'bonafide[explore]'.") from None
    import torch

    from bonafide.serve.service import Service
    from bonafide.tasks.sql.sources import open_tables
    from bonafide.web.guard import door
    from bonafide.web.running import run as run_app

    if types and not table:
        raise BonafideError("--type says how a column of --table is read: add --table.")
    console = Console(stderr=True)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # the other half is for everything but the model
    model = load_run(run, task)
    tell_if_training(run)
    tables = {}
    if table:
        source = open_tables(None, table, column_types(types)).tables
        tables = {name: source[name] for name in source}
    service = Service(model, tables)
    app = serve_app(service, door(host, allow_host or (), service.limits.body))
    if host not in ("127.0.0.1", "localhost", "::1"):
        tell(console, "[yellow]Other machines can reach this server, and it asks nobody for a password.[/yellow]")
    run_app(
        app,
        host,
        port,
        ready=lambda where: tell(console, f"Ask at [bold]{escape(where)}[/bold]; the API is at {escape(where)}api"),
        stopping=service.queue.stop,
    )
