"""Answers about a passage, as people read them in a terminal: the formula, what it gives, and the text behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from bonafide.errors import BonafideError
from bonafide.evaluate.discrete import described
from bonafide.files import read_text
from bonafide.learn.discrete import DiscreteAnswer
from bonafide.learn.saved import load
from bonafide.report.runs import check_reconstruction
from bonafide.report.terminal import harmless
from bonafide.tasks.discrete.evidence import Operand, operands
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.discrete.program import PLAIN


def answers_about(run: Path, question: str, path: Path, top: int, reconstruction: float = 0.0) -> list[DiscreteAnswer]:
    """Ask the model of a run about a text file; ``reconstruction``: see :meth:`Model.predict_all`."""
    text = read_text(path)
    if not text.strip():
        raise BonafideError(f"{path} holds no text: the passage is empty.")
    if not question.strip():
        raise BonafideError("The question is empty.")
    model = load(run)
    if model.task.name != "discrete":
        raise BonafideError(f"{run} is a model of the task {model.task.name!r}, which has no use for --passage.")
    check_reconstruction(model, run, reconstruction)
    answers: list[DiscreteAnswer] = model.predict(Passage(text), question, top, reconstruction=reconstruction)
    return answers


def answer_line(answer: DiscreteAnswer) -> str:
    """``1653 − 1648 = 5``; a program that only points is what it points at."""
    value = " and ".join(answer.answer)
    return value if answer.program.operator in PLAIN else f"{answer.formula} = {value}"


def answers_to_json(answers: Sequence[DiscreteAnswer]) -> list[dict[str, object]]:
    """The same for other tools."""
    return [
        {
            **described(each.program, each.reading, each.language),
            "confidence": each.confidence,
            "tokens_read": each.read.passage,
            "tokens": len(each.reading.passage),
        }
        for each in answers
    ]


def passage_answers(question: str, answers: Sequence[DiscreteAnswer]) -> Group:
    """The best answer with each operand in the text it came from, and the alternatives."""
    best, *others = answers
    parts: list[RenderableType] = [
        Text(harmless(question), style="dim"),
        Text.assemble((harmless(answer_line(best)), "bold"), (f"   {best.confidence:.1%}", "dim")),
        *_cut(best),
        *(_shown(operand, best) for operand in operands(best.program, best.reading, best.language)),
    ]
    if others:
        grid = Grid(title="alternatives", title_justify="left", show_header=False)
        grid.add_column(justify="right")
        grid.add_column(overflow="fold")
        for each in others:
            grid.add_row(f"{each.confidence:.1%}", Text(harmless(answer_line(each))), style="dim")
        parts.append(grid)
    return Group(*parts)


def _cut(answer: DiscreteAnswer) -> list[Text]:
    if not answer.cut:
        return []
    read, reading = answer.read, answer.reading
    return [
        Text(
            f"The text is too long for the model: it read the first {read.passage:,} of {len(reading.passage):,} "
            f"tokens of the passage and {read.question:,} of {len(reading.question):,} of the question.",
            style="yellow",
        )
    ]


def _shown(operand: Operand, answer: DiscreteAnswer) -> Text:
    around = operand.surroundings(answer.reading)
    if around is None:
        return Text(f"  {operand.text}: a constant of the language", style="dim")
    before, itself, after = (harmless(part).replace("\n", " ") for part in around)
    where = "  in the question: " if operand.source == "question" else "  "
    return Text.assemble((where, "dim"), (before, "dim"), (itself, "bold reverse"), (after, "dim"))
