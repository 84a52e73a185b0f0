"""Comparisons of two things that the question names: *Which was larger, Oslo or Riga?*, *What came first, … or …?*

The answer stands on one side of an *or* and the other thing on its other side. Each is looked up in the passage and
goes with the nearest number (or, where the question asks what came first or last, date) of its sentence: on the same
side of both, so that a list is not read across its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from bonafide.tasks.discrete.arithmetic import Proposal
from bonafide.tasks.discrete.asked import Asked
from bonafide.tasks.discrete.dates import comparable, sort_key
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.matching import find_text
from bonafide.tasks.discrete.outline import Place, outline
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import ActionKind, Operator, PassageSpan
from bonafide.tasks.discrete.programset import Actions
from bonafide.tasks.discrete.units import number_class

_ARTICLES = frozenset(("a", "an", "the", ",", "in", "by", "of"))
_LONGEST_OPTION = 8
_MOST_MENTIONS = 3
_MOST_PROGRAMS = 6

_Nearest = Callable[[Passage, Place, bool], int | None]


def comparisons(reading: Reading, question: Asked, answer: str, language: Language) -> Iterator[Proposal]:
    """argmax and argmin of the answer and of what the question sets against it."""
    if not question.sorts or not language.has(Rule.SORT) or "or" not in reading.question.tokens.lower:
        return
    passage = reading.passage
    keys = find_text(passage, answer, language.max_span_tokens)[:_MOST_MENTIONS]
    found = 0
    for other in _others(reading, answer, language):
        against = find_text(passage, other, language.max_span_tokens)[:_MOST_MENTIONS]
        for (key, rival), after in product(product(keys, against), (True, False)):
            for actions in (
                *_by(_nearest_number, passage, key, rival, after, question),
                *_by(_nearest_date, passage, key, rival, after, question),
            ):
                if found < _MOST_PROGRAMS:
                    found += 1
                    yield actions, Rule.SORT


def _others(reading: Reading, answer: str, language: Language) -> Iterator[str]:
    """For each *or* beside the answer, the longest text on its other side that stands in the passage."""
    question = reading.question
    lower = question.tokens.lower
    spans = find_text(question, answer, language.max_span_tokens)
    for at, word in enumerate(lower):
        if word != "or":
            continue
        if any(last < at and all(each in _ARTICLES for each in lower[last + 1 : at]) for _, last in spans):
            sides = [(at + 1, end) for end in range(min(at + _LONGEST_OPTION, len(lower) - 1), at, -1)]
        elif any(first > at and all(each in _ARTICLES for each in lower[at + 1 : first]) for first, _ in spans):
            sides = [(start, at - 1) for start in range(max(0, at - _LONGEST_OPTION), at)]
        else:
            continue
        for start, end in sides:
            text = question.span_text(start, end)
            if find_text(reading.passage, text, language.max_span_tokens):
                yield text
                break


def _by(
    nearest: _Nearest, passage: Passage, key: Place, rival: Place, after: bool, question: Asked
) -> Iterator[Actions]:
    """The program that compares both by their nearest numbers (or dates), if the key wins as the question asks."""
    mine, theirs = nearest(passage, key, after), nearest(passage, rival, after)
    if mine is None or theirs is None or mine == theirs or key == rival:
        return
    if nearest is _nearest_number:
        numbers = passage.numbers[mine], passage.numbers[theirs]
        if number_class(numbers[0]) != number_class(numbers[1]):
            return
        larger, smaller = numbers[0].rank > numbers[1].rank, numbers[0].rank < numbers[1].rank
        kind = ActionKind.NUMBER
    else:
        dates = passage.dates[mine], passage.dates[theirs]
        if not comparable(*dates):
            return
        larger, smaller = sort_key(dates[0]) > sort_key(dates[1]), sort_key(dates[0]) < sort_key(dates[1])
        kind = ActionKind.DATE_MENTION
    for operator, wins in ((Operator.ARGMAX, question.most and larger), (Operator.ARGMIN, question.least and smaller)):
        if wins:
            pairs = sorted(
                (*PassageSpan(*place).actions, (kind, index)) for place, index in ((key, mine), (rival, theirs))
            )
            yield (ActionKind.OPERATOR, operator), *pairs[0], *pairs[1], (ActionKind.CLOSE, 0)


def _nearest_number(passage: Passage, place: Place, after: bool) -> int | None:
    """The nearest number after (or before) a mention, in its sentence; of its readings the longest, as 1.2 million."""
    shape = outline(passage)
    found: list[tuple[int, int, int]] = []
    for index, number in enumerate(passage.numbers):
        gap = number.first - place[1] if after else place[0] - number.last
        if gap > 0 and shape.same_sentence(number.first, place[0]):
            found.append((gap, number.first - number.last, -index))
    return -min(found)[-1] if found else None


def _nearest_date(passage: Passage, place: Place, after: bool) -> int | None:
    """The nearest whole date after (or before) a mention, in its sentence."""
    shape, best, least = outline(passage), None, len(passage)
    for index, date in enumerate(passage.dates):
        gap = date.first - place[1] if after else place[0] - date.last
        if date.whole and 0 < gap < least and shape.same_sentence(date.first, place[0]):
            best, least = index, gap
    return best
