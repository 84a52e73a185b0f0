"""Contexts of thousands of pieces train at once, or window by window."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bonafide.documents import Document
from bonafide.learn.microbatch import MicroBatch, Models, Prepared
from bonafide.learn.objective import Moment
from bonafide.tasks.discrete.language import Rule
from bonafide.tasks.discrete.passage import Passage, read
from bonafide.tasks.discrete.program import Operator, PassageSpan, Program
from bonafide.tasks.discrete.programset import program_set
from bonafide.tasks.discrete.solver import DiscreteSpec, build_discrete_solver
from bonafide.tasks.reading.solver import ReaderSpec, build_reader
from bonafide.tasks.reading.span import MentionSet
from bonafide.tasks.sql.features import Cut
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.solver import SolverSpec, build_sql_solver
from bonafide.tasks.sql.tables import Table

torch.set_num_threads(1)


def gradient_of(solver: Any, question: str, context: Any, solutions: Any) -> tuple[Any, Tensor]:
    """What was read of one example, and log P of its solutions after a backward pass that reached every piece."""
    item = Prepared("e", solver.features(question, context, solutions), (), np.zeros(len(solutions), np.int64))
    models = Models(solver, None, torch.device("cpu"), nullcontext)
    scores = MicroBatch([item], models, Moment(0, 1), 0).solver_training_scores()
    scores[scores.isfinite()].logsumexp(0).backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in solver.parameters())
    return item.features, scores.detach()


SMALL = {"layers": 1, "width": 8, "heads": 2, "dropout": 0.0}


def test_a_table_of_four_thousand_pieces_trains_at_once() -> None:
    """Of an encoder that has the positions, no column is cut; and of one that has not, what was cut is counted."""
    columns = 1_000
    header = tuple(f"the name {place}" for place in range(columns))
    table = Table("t", header, ("text",) * columns, [tuple("a" for _ in header)])
    question = "which name of a ?"
    solutions = search(question, ("a",), table, Language(max_conditions=1), cap=2_000)
    features = {}
    for positions in (8_192, 512):
        solver = build_sql_solver(
            SolverSpec("scratch", positions=positions, head_width=4, **SMALL), [question, *header]
        )
        features[positions], scores = gradient_of(solver, question, table, solutions)
        assert scores.isfinite().sum() == len(solutions) - features[positions].unreachable
    assert len(features[8_192].pieces) > 4_096
    assert features[8_192].cut == Cut()
    assert features[8_192].unreachable == 0
    assert len(features[512].pieces) <= 512
    assert features[512].cut.columns > 0
    assert features[512].unreachable > 0


def test_a_passage_of_four_thousand_pieces_trains_in_windows() -> None:
    text = " ".join(f"in {year} there were {year % 97} ships ." for year in range(1_000, 1_700))
    question = "how many ships in 1699 ?"
    last = len(read(question, text).passage.tokens) - 1
    spans = (PassageSpan(0, 0), PassageSpan(last, last))
    programs = program_set((Program(Operator.SPANS, (span,)), Rule.SPAN) for span in spans)
    spec = DiscreteSpec("scratch", positions=512, decoder_layers=1, decoder_width=8, **SMALL)
    features, scores = gradient_of(build_discrete_solver(spec, [question, text]), question, Passage(text), programs)
    assert len(features.windows.places) > 4_096
    assert len(features.windows.rows) > 8
    assert scores.isfinite().all()


def test_a_document_of_four_thousand_pieces_trains_in_windows() -> None:
    text = " ".join(f"in {year} there were {year % 97} ships ." for year in range(1_000, 1_700))
    starts = np.array([match.start() for match in re.finditer("ships", text)], np.int32)
    nothing = np.zeros_like(starts)
    places = MentionSet(nothing, starts, starts + len("ships"), nothing, len(starts), complete=True)
    document = Document("d", None, (text,))
    solver = build_reader(ReaderSpec("scratch", window=300, **SMALL), [text])
    features, scores = gradient_of(solver, "what was there ?", document, places)
    assert len(features.document.pieces) > 4_096
    covered = np.zeros(len(features.document.pieces), bool)
    for first, stop in zip(features.windows.first, features.windows.stop, strict=True):
        covered[first:stop] = True
    assert covered.all()
    assert scores.isfinite().all()
