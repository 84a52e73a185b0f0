"""Where the operands of a program stand in what was read: the evidence that a person is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import argument_text
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import (
    Argument,
    Constant,
    Date,
    Number,
    Pair,
    PassageSpan,
    Program,
    QuestionNumber,
    QuestionSpan,
)

Source = Literal["passage", "question", "constant"]


@dataclass(frozen=True, slots=True)
class Operand:
    """What an argument says, and where: [start, end) in characters of its source; a date may lie in pieces."""

    text: str
    source: Source
    pieces: tuple[tuple[int, int], ...]

    def to_json(self) -> dict[str, Any]:
        """As it stands in ``predictions.jsonl``."""
        return {"text": self.text, "source": self.source, "pieces": [list(piece) for piece in self.pieces]}

    def surroundings(self, reading: Reading, characters: int = 40) -> tuple[str, str, str] | None:
        """The text before it, itself, and the text after it, cut at words; None for a constant."""
        if self.source == "constant":
            return None
        text = (reading.passage if self.source == "passage" else reading.question).text
        start, end = self.pieces[0][0], self.pieces[-1][1]
        before, after = text[max(0, start - characters) : start], text[end : end + characters]
        if start > characters:
            before = "…" + before[before.find(" ") :] if " " in before.strip() else "…" + before
        if end + characters < len(text):
            after = after[: after.rfind(" ") + 1] + "…" if " " in after.strip() else after + "…"
        return before, text[start:end], after


def operands(program: Program, reading: Reading, language: Language) -> tuple[Operand, ...]:
    """All that a program points at, in its order; a pair is its key and its value."""
    return tuple(operand for argument in program.arguments for operand in _operands(argument, reading, language))


def _operands(argument: Argument, reading: Reading, language: Language) -> Iterator[Operand]:
    if isinstance(argument, Pair):
        yield from _operands(argument.key, reading, language)
        yield from _operands(argument.value, reading, language)
        return
    text = argument_text(argument, reading, language)
    source: Source = "constant"
    pieces: tuple[tuple[int, int], ...] = ()
    match argument:
        case Number(index):
            source, pieces = "passage", _number(reading.passage, index)
        case QuestionNumber(index):
            source, pieces = "question", _number(reading.question, index)
        case Date(index):
            source = "passage"
            pieces = tuple(_characters(reading.passage, *piece) for piece in reading.passage.dates[index].pieces)
        case PassageSpan(first, last):
            source, pieces = "passage", (_characters(reading.passage, first, last),)
        case QuestionSpan(first, last):
            source, pieces = "question", (_characters(reading.question, first, last),)
        case Constant():
            pass
    yield Operand(text, source, pieces)


def _number(passage: Passage, index: int) -> tuple[tuple[int, int], ...]:
    return ((passage.numbers[index].start, passage.numbers[index].end),)


def _characters(passage: Passage, first: int, last: int) -> tuple[int, int]:
    return passage.tokens.starts[first], passage.tokens.ends[last]
