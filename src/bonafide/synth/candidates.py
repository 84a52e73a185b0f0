"""Candidates as a language model samples them, with known gold: word problems, and derivations that reach the answer.

A problem tells of a number of things and a few changes; half of the problems mention a number that has nothing
to do with it. Every derivation is written in one of four ways, whatever it says, so that the way it is written gives
nothing away. ``spurious`` is the share of derivations that are right by accident:

======== ===========================================================================================
constant numbers that the problem does not have happen to give the answer
operands one number of the problem, and others made up so that the answer comes out
extra    the right steps, and two more that cancel each other
copied   the problem's own words, and then the answer
======== ===========================================================================================

As a model does, the generator has habits: of the accidental derivations of a problem one comes up more often than
the others, so that counting votes is not enough. A few derivations arrive at another answer, and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bonafide.errors import BonafideError

KINDS = ("constant", "operands", "extra", "copied")
_HABIT = (0.5, 0.3, 0.2)
"""How often each of the accidental derivations of a problem comes up."""
_WRONG = 0.1
"""Derivations beyond the asked-for number that arrive at another answer, as a share of it."""

_PEOPLE = ("Ada", "Bruno", "Chiara", "Daud", "Elin", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Kaya", "Lars")
_THINGS = ("apples", "stamps", "marbles", "books", "candles", "tickets", "shells", "postcards", "buttons", "plants")
_OPENINGS = (
    "{who} has {n} {things}.",
    "There are {n} {things} on the shelf of {who}.",
    "In the morning {who} counts {n} {things}.",
    "{who} starts the week with {n} {things}.",
)
_CHANGES = {
    "+": (
        "{who} buys {n} more.",
        "A neighbour brings {n} more.",
        "Then {who} finds {n} in a drawer.",
        "Another {n} arrive in the post.",
    ),
    "-": (
        "{who} gives {n} of them to {other}.",
        "Sadly {n} of them get lost.",
        "{who} sells {n} at the market.",
        "{other} borrows {n} and does not return them.",
    ),
    "*": (
        "By summer {who} has {n} times as many.",
        "The collection then grows to {n} times its size.",
        "{other} multiplies the lot by a factor of {n}.",
    ),
    "/": (
        "They are split evenly into {n} boxes, of which {who} keeps one.",
        "{who} shares them fairly in {n} equal parts and keeps a single part.",
        "Only one part out of {n} equal ones remains.",
    ),
}
_ASIDES = (
    "{other} is {n} years old.",
    "The bus to town takes {n} minutes.",
    "It is {n} degrees outside.",
    "The house of {who} has number {n}.",
)
_CLOSINGS = (
    "How many {things} does {who} have now?",
    "How many {things} are there in the end?",
    "What is the number of {things} that {who} is left with?",
)
_SAID = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
_DONE = {"+": "Adding {n} gives", "-": "Taking away {n} leaves", "*": "Times {n} is", "/": "Divided by {n} that is"}

Steps = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Derivation:
    """A number to begin with, and what is done to it."""

    start: int
    steps: Steps

    @property
    def values(self) -> list[int]:
        """The number after each step, the first one before any."""
        found = [self.start]
        for sign, number in self.steps:
            found.append(_applied(sign, found[-1], number))
        return found

    @property
    def numbers(self) -> list[int]:
        """The numbers that it is made of."""
        return [self.start, *(number for _, number in self.steps)]

    def written(self, way: int) -> str:
        """The derivation in one of four ways."""
        values = self.values
        if way == 0:
            text = str(self.start)
            for place, (sign, number) in enumerate(self.steps):
                loose = sign in "*/" and place and self.steps[place - 1][0] in "+-"
                text = f"({text}) {sign} {number}" if loose else f"{text} {sign} {number}"
            return f"{text} = {values[-1]}"
        if way == 1:
            return "; ".join(
                f"{before} {sign} {number} = {after}"
                for (sign, number), before, after in zip(self.steps, values[:-1], values[1:], strict=True)
            )
        if way == 2:
            done = [
                f"{_DONE[sign].format(n=number)} {after}."
                for (sign, number), after in zip(self.steps, values[1:], strict=True)
            ]
            return " ".join([f"Begin with {self.start}.", *done])
        parts = [
            f"{_SAID[sign]} {number} is {after}" for (sign, number), after in zip(self.steps, values[1:], strict=True)
        ]
        return f"{self.start} {', '.join(parts)}. The answer is {values[-1]}"


def generate_candidates(
    count: int, seed: int = 0, spurious: float = 0.7, samples: int = 8, steps: int = 3
) -> list[dict[str, Any]]:
    """Problems of up to ``steps`` changes with ``samples`` derivations of the answer, ``spurious`` of them by accident.

    A line has ``gold``, the texts that are right for the right reasons, and ``kinds``, one entry a candidate:
    ``genuine``, one of :data:`KINDS`, or ``wrong``.
    """
    if not 0 < spurious < 1 or samples < 2 or steps < 1:
        raise BonafideError(
            f"Expected a share of spurious candidates from 0 to 1, at least 2 samples and 1 step, found {spurious}, "
            f"{samples} and {steps}."
        )
    return [_problem(place, np.random.default_rng([seed, place]), spurious, samples, steps) for place in range(count)]


def _problem(place: int, chance: np.random.Generator, spurious: float, samples: int, steps: int) -> dict[str, Any]:
    right = _derivation(chance, steps)
    question, numbers = _told(right, chance)
    answer = right.values[-1]
    lucky = max(1, min(samples - 1, round(spurious * samples)))
    kinds = chance.choice(KINDS, len(_HABIT), replace=False).tolist()
    accidents = [(kind, _accident(kind, right, numbers, chance, steps)) for kind in kinds]
    made: list[tuple[str, str, int]] = []
    for _ in range(samples - lucky):
        made.append(("genuine", right.written(int(chance.integers(4))), answer))
    for choice in chance.choice(len(accidents), lucky, p=_HABIT).tolist():
        kind, derivation = accidents[choice]
        text = _copied(question, answer, chance) if derivation is None else derivation.written(int(chance.integers(4)))
        made.append((kind, text, answer))
    for _ in range(round(_WRONG * samples)):
        other = _derivation(chance, steps)
        if other.values[-1] != answer:
            made.append(("wrong", other.written(int(chance.integers(4))), other.values[-1]))
    mixed = [made[each] for each in chance.permutation(len(made)).tolist()]
    return {
        "id": f"problem-{place}",
        "question": question,
        "answer": answer,
        "candidates": [{"text": text, "answer": value} for _, text, value in mixed],
        "gold": sorted({text for kind, text, _ in mixed if kind == "genuine"}),
        "kinds": [kind for kind, _, _ in mixed],
    }


def _derivation(chance: np.random.Generator, most: int) -> Derivation:
    """One step or more, whole numbers from 1 to 999 all the way."""
    value = start = int(chance.integers(6, 60))
    steps: list[tuple[str, int]] = []
    for _ in range(int(chance.integers(1, most + 1))):
        sign = str(chance.choice(("+", "-", "*", "/"), p=(0.35, 0.35, 0.15, 0.15)))
        number = int(chance.integers(2, 6) if sign in "*/" else chance.integers(2, 40))
        after = _applied(sign, value, number)
        if (sign == "/" and value % number) or not 0 < after < 1000:
            sign, number, after = "+", number, value + number
        steps.append((sign, number))
        value = after
    return Derivation(start, tuple(steps))


def _told(right: Derivation, chance: np.random.Generator) -> tuple[str, list[int]]:
    """The problem in words, and the numbers that stand in it."""
    who, other = chance.choice(_PEOPLE, 2, replace=False).tolist()
    things = str(chance.choice(_THINGS))

    def said(templates: Sequence[str], number: int) -> str:
        return str(chance.choice(templates)).format(who=who, other=other, things=things, n=number)

    sentences = [said(_OPENINGS, right.start), *(said(_CHANGES[sign], number) for sign, number in right.steps)]
    numbers = right.numbers
    if chance.random() < 0.5:
        aside = int(chance.integers(2, 40))
        sentences.insert(int(chance.integers(1, len(sentences) + 1)), said(_ASIDES, aside))
        numbers.append(aside)
    return " ".join([*sentences, said(_CLOSINGS, 0)]), numbers


def _accident(
    kind: str, right: Derivation, numbers: Sequence[int], chance: np.random.Generator, most: int
) -> Derivation | None:
    """Another way to the same answer; None where it is no derivation at all."""
    answer = right.values[-1]
    if kind == "copied":
        return None
    if kind == "extra":
        number = int(chance.integers(2, 40))
        undone = (("+", number), ("-", number)) if chance.random() < 0.5 else (("*", number), ("/", number))
        return Derivation(right.start, (*right.steps, *undone))
    while True:
        made = _made_up(kind, answer, numbers, chance, most)
        if sorted(made.numbers) != sorted(right.numbers):  # the same numbers in another order are no accident
            return made


def _made_up(kind: str, answer: int, numbers: Sequence[int], chance: np.random.Generator, most: int) -> Derivation:
    """One step or more to the answer from a number of the problem, or from one that it does not have."""
    length = int(chance.integers(1, max(2, most) + 1))  # by one step alone there may be no other way
    start = int(chance.choice(numbers)) if kind == "operands" else _unused(numbers, chance)
    steps: list[tuple[str, int]] = []
    value = start
    for _ in range(length - 1):
        number = _unused(numbers, chance)
        sign = "-" if value > number and chance.random() < 0.5 else "+"
        steps.append((sign, number))
        value = _applied(sign, value, number)
    if value == answer:
        value += 1
        steps.append(("+", 1))
    return Derivation(start, (*steps, ("+", answer - value) if answer > value else ("-", value - answer)))


def _unused(numbers: Sequence[int], chance: np.random.Generator) -> int:
    """A number that the problem does not mention."""
    free = [number for number in range(2, 60) if number not in numbers]
    return int(chance.choice(free))


def _copied(question: str, answer: int, chance: np.random.Generator) -> str:
    """The problem once more, or all but its last sentence."""
    told = question if chance.random() < 0.5 else question[: question.rindex(". ") + 1]
    return f"{told} The answer is {answer}"


def _applied(sign: str, value: int, number: int) -> int:
    if sign == "+":
        return value + number
    if sign == "-":
        return value - number
    return value * number if sign == "*" else value // number
