"""Answers found in a document, as people read them in a terminal: the span in its paragraph, and the alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.learn.reading import ReadingAnswer
from bonafide.learn.saved import load
from bonafide.report.runs import check_reconstruction
from bonafide.report.terminal import harmless
from bonafide.tasks.reading.plaintext import read_document

_AROUND = 160
"""Characters of the paragraph that are shown on each side of an answer."""


def answers_in(
    run: Path, question: str, path: Path, top: int, reconstruction: float = 0.0
) -> tuple[Document, list[ReadingAnswer]]:
    """Ask the model of a run about a text or Markdown file; ``reconstruction``: see :meth:`Model.predict_all`."""
    document = read_document(path)
    if not question.strip():
        raise BonafideError("The question is empty.")
    model = load(run)
    if model.task.name != "reading":
        raise BonafideError(f"{run} is a model of the task {model.task.name!r}, which has no use for --document.")
    check_reconstruction(model, run, reconstruction)
    return document, model.predict(document, question, top, reconstruction=reconstruction)


def answers_to_json(answers: Sequence[ReadingAnswer]) -> list[dict[str, Any]]:
    """The same for other tools."""
    return [
        {
            "answer": each.answer,
            "paragraph": each.mention.paragraph,
            "start": each.mention.start,
            "end": each.mention.end,
            "confidence": each.confidence,
        }
        for each in answers
    ]


def document_answers(question: str, document: Document, answers: Sequence[ReadingAnswer]) -> Group:
    """The best answer in its paragraph, and the alternatives."""
    parts: list[RenderableType] = [Text(harmless(question), style="dim")]
    if not answers:
        return Group(*parts, Text("The document holds nothing that could be an answer."))
    best = answers[0]
    parts.append(Text.assemble((harmless(best.answer), "bold"), (f"   {best.confidence:.1%}", "dim")))
    parts.append(_in_paragraph(best, document))
    if len(answers) > 1:
        grid = Grid("alternative", "confidence", "where", title="Alternatives", title_justify="left", box=None)
        for each in answers[1:]:
            grid.add_row(Text(harmless(each.answer)), f"{each.confidence:.1%}", _in_paragraph(each, document, 40))
        parts.append(grid)
    return Group(*parts)


def _in_paragraph(answer: ReadingAnswer, document: Document, around: int = _AROUND) -> Text:
    mention = answer.mention
    text = document.paragraphs[mention.paragraph]
    low, high = max(0, mention.start - around), min(len(text), mention.end + around)
    return Text.assemble(
        (f"paragraph {mention.paragraph + 1}: ", "dim"),
        ("…" if low else "") + harmless(text[low : mention.start]),
        (harmless(text[mention.start : mention.end]), "bold underline"),
        harmless(text[mention.end : high]) + ("…" if high < len(text) else ""),
    )
