"""The language that is searched: which programs count as candidates, and which rules propose them.

Every option here changes what a solution set means, so the language is stored in the manifest of each solution
store. What the operators mean is in ``execution.py``, how programs are written as actions in ``program.py``, and
what each rule proposes in ``search.py`` and ``families.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from bonafide.errors import BonafideError


class Rule(IntEnum):
    """What proposed a solution. The numbers are part of the store's format: never change one, only add."""

    VALUE = 0
    ARITHMETIC_TWO = 1
    ARITHMETIC_THREE = 2
    ARITHMETIC_CONSTANT = 3
    ARITHMETIC_QUESTION = 4
    DATE_DIFFERENCE = 5
    DATE = 6
    SPAN = 7
    SPANS = 8
    QUESTION_SPAN = 9
    EXTREME = 10
    SORT = 11
    COUNT = 12
    COUNT_NONE = 13
    MODEL = 14

    @property
    def label(self) -> str:
        """Its name on the command line and in reports."""
        return self.name.lower().replace("_", "-")


SEARCHED_RULES = tuple(rule.label for rule in Rule if rule is not Rule.MODEL)
"""All rules but the one of solutions that a model proposed."""


@dataclass(frozen=True, slots=True)
class Language:
    """Which programs are candidates.

    ``constants``: the paper's S, numbers that need not stand in the passage. ``max_operands``: of arithmetic, 1 to
    3. ``operands``: which numbers the search puts together, see ``arithmetic.py``. ``question_numbers``: numbers of
    the question are operands too. ``max_span_tokens``: the longest span. ``max_items``: the most members of a set
    (spans, numbers, pairs). ``max_choices``: where a rule chooses some of several mentions, as in counts and sets
    of spans, the most choices it proposes. ``rules``: what may propose a solution.
    """

    constants: tuple[int, ...] = (100, 1, 2, 3, 10, 12)
    max_operands: int = 3
    operands: Literal["alike", "any"] = "alike"
    question_numbers: bool = True
    max_span_tokens: int = 60
    max_items: int = 20
    max_choices: int = 35
    rules: tuple[str, ...] = SEARCHED_RULES

    def __post_init__(self) -> None:
        if not 1 <= self.max_operands <= 3:
            raise BonafideError(f"Arithmetic has 1 to 3 operands; max_operands is {self.max_operands}.")
        if len(set(self.constants)) != len(self.constants):
            raise BonafideError(f"A constant is given twice in {self.constants}.")
        if self.max_span_tokens < 1 or self.max_items < 2 or self.max_choices < 1:
            raise BonafideError(
                "A span has at least 1 token, a set may have at least 2 members, and there is at least 1 choice."
            )
        if unknown := set(self.rules) - set(SEARCHED_RULES):
            raise BonafideError(f"There is no rule {sorted(unknown)[0]!r}; the rules are {', '.join(SEARCHED_RULES)}.")

    def has(self, rule: Rule) -> bool:
        """Whether this rule proposes solutions."""
        return rule.label in self.rules


def rules_without(left_out: Iterable[str]) -> tuple[str, ...]:
    """All rules but these; a name that is none is refused."""
    names = tuple(left_out)
    if unknown := [name for name in names if name not in SEARCHED_RULES]:
        raise BonafideError(f"There is no rule {unknown[0]!r}; the rules are {', '.join(SEARCHED_RULES)}.")
    return tuple(rule for rule in SEARCHED_RULES if rule not in names)
