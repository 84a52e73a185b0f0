"""Small models to serve: one trained for a second on tables, others that know texts and have learned nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model
from bonafide.learn.trainer import train
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.solver import DiscreteSpec, build_discrete_solver
from bonafide.tasks.reading.solver import ReaderSpec, build_reader
from bonafide.tasks.text.solver import TextSpec, build_text_solver
from bonafide.web.running import address, bind
from tiny_runs import recipe, write_data

SALES = "Order,City,Month,Units,Price\n1001,Oslo,May,3,1200\n1002,Lyon,May,1,350\n1003,Oslo,June,2,980\n"
ROWS: list[dict[str, Any]] = [{"City": "Oslo", "Units": 3}, {"City": "Lyon", "Units": 1}]
PASSAGE = "The siege began in 1648. Five towns fell. The treaty was signed in 1653."
PROBLEM = "Ada has 12 apples and buys 7 more apples. How many has she?"
DERIVATIONS = ["12 + 7 = 19", "20 - 1 = 19", "Ada has 12 apples and buys 7 more: 19"]
PARAGRAPHS = ["Ada Lund runs the archive.", "Travel claims are signed by Ada Lund."]


def write_run(folder: Path) -> Path:
    """A run on tables, solver and reconstructor trained for a second."""
    write_data(folder)
    train(recipe(folder, "mimax"), folder / "run")
    return folder / "run"


def passage_model() -> Model:
    """A solver of discrete reasoning as it was made."""
    spec = DiscreteSpec(
        encoder="scratch", layers=1, width=32, heads=2, decoder_layers=1, decoder_width=32, language=Language()
    )
    solver = build_discrete_solver(spec, texts=[PASSAGE], seed=0).eval()
    return Model(solver, None, None, {"recipe": recipe_from({"data": {"task": "discrete"}}, "a test").to_json()})


def text_model() -> Model:
    """A solver of the text task and its reconstructor as they were made."""
    texts = [PROBLEM, *DERIVATIONS]
    solver = build_text_solver(TextSpec(layers=1, width=32, heads=2, positions=64), texts, seed=0).eval()
    made = recipe_from({"data": {"task": "text"}}, "a test")
    spec = ReconstructorSpec(layers=1, width=32, heads=2, feed_forward=64)
    reconstructor, tokenizer = build_reconstructor(spec, texts=texts)
    return Model(solver, reconstructor, tokenizer, {"recipe": made.to_json()})


def document_model() -> Model:
    """A reader as it was made."""
    spec = ReaderSpec(encoder="scratch", layers=1, width=32, heads=2)
    solver = build_reader(spec, texts=PARAGRAPHS, seed=0).eval()
    return Model(solver, None, None, {"recipe": recipe_from({"data": {"task": "reading"}}, "a test").to_json()})


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The address of an app that a thread of this process serves."""
    bound = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield address(bound).rstrip("/")
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


__all__ = [
    "DERIVATIONS", "PARAGRAPHS", "PASSAGE", "PROBLEM", "ROWS", "SALES", "document_model", "listening", "passage_model",
    "text_model", "write_run",
]  # fmt: skip
