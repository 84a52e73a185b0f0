"""All sums and differences of two or three numbers that make a given one, by hashing on the remainder.

Numbers are scaled to integers once a passage, and a dictionary says where each value stands; a program of *k*
operands then takes one look-up for each choice of the first *k* − 1, not one for each choice of *k*.

Most such programs are accidents, so which numbers go together is bounded (``language.operands``). *any*: all that
the language has. *alike*, the default: two operands of one class (years and decades, percentages, ordinals, all
others; a year BC is not subtracted from one AD, nor the other way round), three operands of one unit (the word after
them, such as yards) or of one class and sentence, and three with a minus only for questions with a word that may ask
for it (``COMBINING``); no operand is 0, and ordinals are operands only for questions with a word of rank
(``RANKING``); a constant is 100, minus one or two percentages. What *any* has and *alike* has not is proposed where
no rule found anything at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm

from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.outline import outline
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import ActionKind, Operator
from bonafide.tasks.discrete.programset import Actions
from bonafide.tasks.discrete.units import number_class, number_units

COMBINING = frozenset(
    (
        *("combined", "total", "together", "altogether", "sum", "both", "all", "overall", "net", "remaining", "left"),
        *(
            "other",
            "others",
            "neither",
            "nor",
            "rest",
            "not",
            "besides",
            "except",
            "without",
            "and",
            "more",
            "compared",
        ),
    )
)
"""Words of a question that may ask for a difference of three numbers."""
RANKING = frozenset(("century", "centuries", "place", "places", "rank", "ranked", "ranks", "seed", "round", "rounds"))
"""Words of a question whose numbers may be ordinals: centuries, places."""
MOST_FOR_THREE = 250
"""Passages with more numbers get no programs of three operands: their time grows with the square."""

Proposal = tuple[Actions, Rule]
_Operand = tuple[int, int]
_PERCENT_WHOLE = 100


class Figures:
    """The numbers of a passage as integers, and where each value stands."""

    def __init__(self, passage: Passage) -> None:
        numbers = passage.numbers
        self.scale = lcm(*(number.value.denominator for number in numbers))
        self.values = [int(number.value * self.scale) for number in numbers]
        self.classes = [number_class(number) for number in numbers]
        self.eras = [number.before_era for number in numbers]
        self.units = number_units(passage)
        self.where: dict[int, list[int]] = {}
        for index, value in enumerate(self.values):
            self.where.setdefault(value, []).append(index)
        self.starts = {number.first: index for index, number in reversed(list(enumerate(numbers)))}
        self.plain_ends = {
            number.last: number.first for number, kind in zip(numbers, self.classes, strict=True) if kind == "plain"
        }
        self.alike: dict[str, list[int]] = {}
        for index, unit in enumerate(self.units):
            self.alike.setdefault(unit, []).append(index)
        sentences = outline(passage).sentences
        self.near = [(sentences[number.first], kind) for number, kind in zip(numbers, self.classes, strict=True)]
        self.beside: dict[tuple[int, str], list[int]] = {}
        for index, place in enumerate(self.near):
            self.beside.setdefault(place, []).append(index)

    def operands(self, any_operands: bool, reading: Reading) -> frozenset[int]:
        """The numbers that are put together with others."""
        if any_operands:
            return frozenset(range(len(self.values)))
        ranks = bool(RANKING & set(reading.question.tokens.lower))
        return frozenset(
            index for index, value in enumerate(self.values) if value and (ranks or self.classes[index] != "ordinal")
        )

    def scaled(self, number: Fraction) -> int | None:
        """A number on the scale of the passage; None where no sum of the passage's numbers can make it."""
        whole = number * self.scale
        return int(whole) if whole.denominator == 1 else None


@lru_cache(maxsize=64)
def figures(passage: Passage) -> Figures:
    """The figures of a passage, made once for all of its questions."""
    return Figures(passage)


def arithmetic(reading: Reading, answer: Fraction, language: Language, any_operands: bool) -> Iterator[Proposal]:
    """The programs of one to three operands that make ``answer``, within the bounds unless ``any_operands``."""
    known = figures(reading.passage)
    target = known.scaled(answer)
    if target is not None:
        if language.has(Rule.VALUE):
            for index in known.where.get(target, ()):
                yield ((ActionKind.OPERATOR, Operator.VALUE), (ActionKind.NUMBER, index)), Rule.VALUE
        if language.max_operands >= 2 and language.has(Rule.ARITHMETIC_TWO):
            yield from _two(known, target, any_operands, known.operands(any_operands, reading))
        if language.max_operands >= 3 and language.has(Rule.ARITHMETIC_THREE):
            minus = any_operands or bool(COMBINING & set(reading.question.tokens.lower))
            yield from _three(known, target, any_operands, minus, known.operands(any_operands, reading))
    others: list[tuple[_Operand, Fraction, str, bool, Rule]] = []
    if language.has(Rule.ARITHMETIC_CONSTANT):
        others += [
            ((ActionKind.CONSTANT, index), Fraction(value), "percent", False, Rule.ARITHMETIC_CONSTANT)
            for index, value in enumerate(language.constants)
            if any_operands or value == _PERCENT_WHOLE
        ]
    if language.question_numbers and language.has(Rule.ARITHMETIC_QUESTION):
        others += [
            (
                (ActionKind.QUESTION_NUMBER, index),
                number.value,
                number_class(number),
                number.before_era,
                Rule.ARITHMETIC_QUESTION,
            )
            for index, number in enumerate(reading.question.numbers)
        ]
    if language.max_operands >= 2:
        for operand, value, kind, era, rule in others:
            whole = rule is Rule.ARITHMETIC_CONSTANT and not any_operands
            bound = None if any_operands else kind
            for actions in _with_other(known, answer, operand, value, language, bound, era, whole):
                yield actions, rule


def _two(known: Figures, target: int, any_operands: bool, operands: frozenset[int]) -> Iterator[Proposal]:
    values, classes, eras, where = known.values, known.classes, known.eras, known.where
    for one, value in enumerate(values):
        if one not in operands:
            continue
        for other in where.get(target - value, ()):
            if other > one and other in operands and (any_operands or classes[one] == classes[other]):
                yield _written(Operator.ADD, one, other), Rule.ARITHMETIC_TWO
        for other in where.get(value - target, ()):
            alike = classes[one] == classes[other] and eras[one] == eras[other]
            if other != one and other in operands and (any_operands or alike):
                yield _written(Operator.SUBTRACT, one, other), Rule.ARITHMETIC_TWO


def _three(
    known: Figures, target: int, any_operands: bool, minus: bool, operands: frozenset[int]
) -> Iterator[Proposal]:
    """For each pair of operands with the same sign, look the third one up."""
    if len(known.values) > MOST_FOR_THREE:
        return
    if any_operands:
        yield from _three_of(known, [list(range(len(known.values)))], [0] * len(known.values), target, minus)
        return
    for groups, group_of in ((known.alike.values(), known.units), (known.beside.values(), known.near)):
        kept = [[index for index in group if index in operands] for group in groups]
        for actions, rule in _three_of(known, kept, group_of, target, minus):
            if all(index in operands for _, index in actions[1:]):
                yield actions, rule


def _three_of(
    known: Figures, groups: Iterable[list[int]], group_of: Sequence[object], target: int, minus: bool
) -> Iterator[Proposal]:
    """Three operands of one group; ``group_of`` says which group each number is in."""
    values, where = known.values, known.where
    for group in groups:
        if len(group) < 3:
            continue
        for place, one in enumerate(group):
            for two in group[place + 1 :]:
                pair = values[one] + values[two]
                for third in where.get(target - pair, ()):
                    if third > two and group_of[third] == group_of[one]:
                        yield _written(Operator.ADD_ADD, one, two, third), Rule.ARITHMETIC_THREE
                if not minus:
                    continue
                for third in where.get(pair - target, ()):
                    if third not in (one, two) and group_of[third] == group_of[one]:
                        yield _written(Operator.ADD_SUBTRACT, one, two, third), Rule.ARITHMETIC_THREE
                for third in where.get(pair + target, ()):
                    if third not in (one, two) and group_of[third] == group_of[one]:
                        yield _written(Operator.SUBTRACT_SUBTRACT, third, one, two), Rule.ARITHMETIC_THREE


def _with_other(
    known: Figures,
    answer: Fraction,
    operand: _Operand,
    value: Fraction,
    language: Language,
    kind: str | None,
    era: bool,
    only_from: bool,
) -> Iterator[Actions]:
    """Programs with one operand that does not stand in the passage; ``only_from``: subtracting from it alone."""

    def at(number: Fraction) -> list[int]:
        scaled = known.scaled(number)
        found = known.where.get(scaled, []) if scaled is not None else []
        return [index for index in found if kind is None or known.classes[index] == kind]

    def apart(number: Fraction) -> list[int]:
        return [index for index in at(number) if kind is None or known.eras[index] == era]

    for index in apart(value - answer):
        yield _mixed(Operator.SUBTRACT, operand, _number(index))
    if not only_from:
        for index in at(answer - value):
            yield _mixed(Operator.ADD, _number(index), operand)
        for index in apart(answer + value):
            yield _mixed(Operator.SUBTRACT, _number(index), operand)
    if language.max_operands < 3 or not language.has(Rule.ARITHMETIC_THREE) or len(known.values) > MOST_FOR_THREE:
        return
    if not only_from and kind is not None:
        return
    rest = known.scaled(value - answer), known.scaled(answer - value), known.scaled(answer + value)
    group = [index for index, each in enumerate(known.classes) if kind is None or each == kind]
    for place, one in enumerate(group):
        for other in group[place + 1 :]:
            pair, gap = known.values[one] + known.values[other], known.values[one] - known.values[other]
            first, second = _number(one), _number(other)
            if pair == rest[0]:
                yield _mixed(Operator.SUBTRACT_SUBTRACT, operand, first, second)
            if only_from:
                continue
            if pair == rest[1]:
                yield _mixed(Operator.ADD_ADD, first, second, operand)
            if pair == rest[2]:
                yield _mixed(Operator.ADD_SUBTRACT, first, second, operand)
            if gap == rest[1]:
                yield _mixed(Operator.ADD_SUBTRACT, first, operand, second)
            if -gap == rest[1]:
                yield _mixed(Operator.ADD_SUBTRACT, second, operand, first)
            if gap == rest[2]:
                yield _mixed(Operator.SUBTRACT_SUBTRACT, first, second, operand)
            if -gap == rest[2]:
                yield _mixed(Operator.SUBTRACT_SUBTRACT, second, first, operand)


def _number(index: int) -> _Operand:
    return ActionKind.NUMBER, index


def _written(operator: Operator, *numbers: int) -> Actions:
    return (ActionKind.OPERATOR, operator), *((ActionKind.NUMBER, index) for index in numbers)


def _mixed(operator: Operator, *operands: _Operand) -> Actions:
    return (ActionKind.OPERATOR, operator), *operands
