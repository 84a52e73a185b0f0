"""A trained model on disk and in use: ``bonafide.load(folder).predict(table, question)``.

model/
  model.json                    format, tool, what kind of solver and reconstructor, their configurations
  solver.safetensors            weights
  solver-tokenizer/             as transformers writes it
  reconstructor.safetensors     where there is one
  reconstructor-tokenizer/
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bonafide import __version__
from bonafide.errors import BonafideError
from bonafide.examples import Answer
from bonafide.files import explained, read_json, write_json
from bonafide.learn.checkpoint import read_tensors, replace_folder, write_tensors
from bonafide.pretrained import checkpoint_errors
from bonafide.reconstruct.model import Reconstructor
from bonafide.tasks.sql.query import Query, execute
from bonafide.tasks.sql.solver import SqlSolver
from bonafide.tasks.sql.tables import Table

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """A query that answers a question, what it returns, and how likely the solver finds it."""

    query: Query
    sql: str
    parameters: list[str | float]
    answer: list[Answer] | None
    log_probability: float

    @property
    def confidence(self) -> float:
        """P_θ(z | d, q)."""
        return math.exp(self.log_probability)


@dataclass(frozen=True, slots=True)
class Model:
    """A trained solver, and the reconstructor that taught it where there is one."""

    solver: SqlSolver
    reconstructor: Reconstructor | None
    reconstructor_tokenizer: Any
    about: dict[str, Any]

    def predict(
        self, table: Table, question: str, top: int = 5, beam: int = 8, execution_guided: bool = False
    ) -> list[Prediction]:
        """The most likely queries for a question, best first."""
        return self.predict_all([(table, question)], top, beam, execution_guided)[0]

    def predict_all(
        self, asked: Sequence[tuple[Table, str]], top: int = 1, beam: int = 1, execution_guided: bool = False
    ) -> list[list[Prediction]]:
        """The same for many questions, in one batch."""
        solver = self.solver
        device = next(solver.parameters()).device
        batch = solver.collate([solver.features(question, table, None) for table, question in asked]).to(device)
        solver.eval()
        with torch.no_grad():
            output = solver(batch)
            decoded = solver.decode(
                output,
                batch,
                [table for table, _ in asked],
                beam=max(beam, top),
                execution_guided=execution_guided,
            )
        return [
            [_prediction(query, score, table) for query, score in queries[:top]]
            for (table, _), queries in zip(asked, decoded, strict=True)
        ]


def _prediction(query: Query, score: float, table: Table) -> Prediction:
    sql, parameters = query.to_sql(table)
    result = execute(query, table)
    return Prediction(query, sql, parameters, None if result is None else list(result), score)


def save_model(folder: Path, model: Model) -> None:
    """Write a model so that the folder is there only when it is whole."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with explained(part, "write"):
            part.mkdir(parents=True)
            write_tensors(part / "solver.safetensors", model.solver.state_dict())
            _save_tokenizer(model.solver.tokenizer, part / "solver-tokenizer")
            about = {
                **model.about,
                "format": FORMAT,
                "tool": f"bonafide {__version__}",
                "solver": model.solver.config(),
            }
            if model.reconstructor is not None:
                write_tensors(part / "reconstructor.safetensors", model.reconstructor.state_dict())
                _save_tokenizer(model.reconstructor_tokenizer, part / "reconstructor-tokenizer")
                about["reconstructor"] = model.reconstructor.config()
            write_json(part / "model.json", about)
            replace_folder(part, folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    try:
        tokenizer.save_pretrained(folder)
    except OSError:
        raise
    except Exception as error:  # tokenizers raises nothing narrower, a full disk included
        raise BonafideError(f"Cannot write {folder}: {error}. Is the disk full?") from None


def load(run: Path | str, device: str | torch.device = "cpu") -> Model:
    """The model of a run's folder."""
    from transformers import AutoTokenizer

    folder = Path(run) / "model" if (Path(run) / "model").is_dir() else Path(run)
    if not (folder / "model.json").exists():
        raise BonafideError(f"{run} holds no trained model: there is no {folder / 'model.json'}. Train one first.")
    about = read_json(folder / "model.json")
    if about.get("format") != FORMAT:
        raise BonafideError(
            f"{folder} was written by {about.get('tool', 'an unknown tool')} in model format {about.get('format')!r}; "
            f"this is bonafide {__version__}, which reads format {FORMAT}."
        )
    for key in ("solver", "recipe"):
        if key not in about:
            raise BonafideError(f"{folder / 'model.json'} does not say what {key} the model has: it may be damaged.")
    solver = SqlSolver.from_config(about["solver"], folder / "solver-tokenizer")
    _load_weights(solver, folder / "solver.safetensors")
    reconstructor, tokenizer = None, None
    if "reconstructor" in about:
        with checkpoint_errors(folder / "reconstructor-tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(folder / "reconstructor-tokenizer")
        reconstructor = Reconstructor.from_config(about["reconstructor"])
        _load_weights(reconstructor, folder / "reconstructor.safetensors")
        reconstructor.to(device).eval()
    return Model(solver.to(device).eval(), reconstructor, tokenizer, about)


def _load_weights(module: torch.nn.Module, path: Path) -> None:
    try:
        module.load_state_dict(read_tensors(path))
    except (RuntimeError, KeyError) as error:
        raise BonafideError(f"{path} does not fit the model it is for: {str(error).splitlines()[0]}") from None
