"""DROP's exact match and F1: bags of words that care about numbers, aligned at their best, over all accepted answers.

``official=True`` gives the figures of the official evaluator, its flaws included: it splits at spaces and hyphens
alone, so that a number with a sign attached (``$3.14``, ``3.5%``) or one that a line break parts from the next word
is read as something else. ``official=False`` mends that: it splits at all white space and every dash, and takes
signs off the ends of a word before it asks whether it is a number; and of spans that are said several times it
counts how often (to the official one, Ann and Ann and Bo are Ann and Bo and Bo).
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

from bonafide.examples import AcceptedAnswer, DateAnswer
from bonafide.tasks.discrete.execution import Value, number_text

AnswerType = Literal["number", "span", "spans", "date"]
ANSWER_TYPES: tuple[AnswerType, ...] = ("number", "span", "spans", "date")

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_OFFICIAL_SPLIT = re.compile(r"[ -]")
_SPLIT = re.compile(r"[\s\-–—‒−]+")
_ATTACHED = string.punctuation + "£€¥°“”‘’"


@dataclass(frozen=True, slots=True)
class Score:
    """How right a prediction is, and the type of the accepted answer that it is closest to."""

    exact_match: float
    f1: float
    answer_type: AnswerType


def score(predicted: Sequence[str], answers: Sequence[AcceptedAnswer], official: bool = True) -> Score:
    """The best exact match and the best F1 over all accepted answers that say something."""
    best = Score(0.0, 0.0, answer_type(answers[0]))
    for answer in answers:
        gold = answer_texts(answer)
        if not gold or not gold[0].strip():
            continue
        exact, f1 = exact_match_and_f1(predicted, gold, official)
        most = max(best.exact_match, exact), max(best.f1, f1)
        best = Score(*most, answer_type(answer) if most == (exact, f1) else best.answer_type)
    return best


def exact_match_and_f1(predicted: Sequence[str], gold: Sequence[str], official: bool = True) -> tuple[float, float]:
    """Of one prediction and one accepted answer, each a list of spans; F1 is rounded to two decimals."""
    said, meant = ([normalised(span, official) for span in spans] for spans in (predicted, gold))
    same = set(said) == set(meant) and len(said) == len(meant) if official else sorted(said) == sorted(meant)
    exact = float(same)
    bags = [[set(span.split()) for span in spans] for spans in (meant, said)]
    if not bags[0] or not bags[1]:
        return exact, 0.0
    matrix = np.array([[_overlap(wanted, found) for found in bags[1]] for wanted in bags[0]])
    rows, columns = linear_sum_assignment(-matrix)
    return exact, round(float(matrix[rows, columns].sum()) / max(matrix.shape), 2)


def value_texts(value: Value) -> tuple[str, ...]:
    """What a program returned, as the spans that are scored."""
    if isinstance(value, Fraction):
        return (number_text(value),)
    return (value.text,) if isinstance(value, DateAnswer) else value


def answer_texts(answer: AcceptedAnswer) -> tuple[str, ...]:
    """An accepted answer as the spans that are scored; empty where there is none."""
    if answer is None:
        return ()
    if isinstance(answer, tuple):
        return answer
    if isinstance(answer, float):  # 0.00003: Python's 3e-05 would be split at its hyphen
        return (number_text(Fraction(repr(answer))),)
    return (answer.text if isinstance(answer, DateAnswer) else str(answer),)


def answer_type(answer: AcceptedAnswer) -> AnswerType:
    """number, span, spans or date."""
    if isinstance(answer, DateAnswer):
        return "date"
    if isinstance(answer, (int, float)):
        return "number"
    return "spans" if isinstance(answer, tuple) and len(answer) > 1 else "span"


@lru_cache(maxsize=1 << 16)
def normalised(text: str, official: bool = True) -> str:
    """A span as it is compared: lower case, without punctuation and articles, numbers as floating-point numbers."""
    word: Callable[[str], str] = _official_word if official else _word
    words = (_OFFICIAL_SPLIT if official else _SPLIT).split(text)
    parts = (" ".join(_ARTICLE.sub(" ", word(each.lower())).split()) for each in words)
    return " ".join(part for part in parts if part)


def is_number(word: str) -> bool:
    """Whether Python reads the word as a number, which is what the official evaluator asks."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _official_word(word: str) -> str:
    if not is_number(word):
        word = word.translate(_WITHOUT_PUNCTUATION)
    return str(float(word)) if is_number(word) else word


def _word(word: str) -> str:
    bare = word.strip(_ATTACHED)
    digits = bare.replace(",", "")
    if digits[:1].isdigit() or digits[:1] == ".":
        if word.startswith("."):  # .75, not a full stop
            digits = "." + digits.lstrip(".")
        if is_number(digits):
            return str(float(digits))
    return word.translate(_WITHOUT_PUNCTUATION)


def _overlap(gold: set[str], predicted: set[str]) -> float:
    """F1 of two bags; 0 where the gold one has numbers and the other has none of them."""
    numbers = {word for word in gold if is_number(word)}
    if numbers and not numbers & predicted:
        return 0.0
    both = len(gold & predicted)
    precision = both / len(predicted) if predicted else 1.0
    recall = both / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
