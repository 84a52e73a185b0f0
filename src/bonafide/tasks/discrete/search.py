"""Every program of the language that returns an accepted answer, and the rule that proposed it.

An answer is searched by its type: numbers by arithmetic, differences of dates, counts and extremes; texts by their
mentions, in sets where there are several, and by sorts; dates by the dates of the passage. A text that reads as a
number, to the official evaluator too, is searched as both. The bounds of each rule are with the rule
(``arithmetic.py``, ``families.py``); where no rule finds anything, arithmetic is tried without its bounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import prod

from bonafide.examples import AcceptedAnswer, DateAnswer
from bonafide.tasks.discrete.arithmetic import Proposal, arithmetic
from bonafide.tasks.discrete.asked import Asked, asked
from bonafide.tasks.discrete.checking import disjoint, needs_met
from bonafide.tasks.discrete.comparing import comparisons
from bonafide.tasks.discrete.dates import MONTHS, DateMention, days_between, months_between, years_between
from bonafide.tasks.discrete.execution import number_text
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.matching import find_text, wider
from bonafide.tasks.discrete.metrics import normalised
from bonafide.tasks.discrete.numbers import plain_number
from bonafide.tasks.discrete.passage import Reading
from bonafide.tasks.discrete.program import ActionKind, Operator, PassageSpan, QuestionSpan, Span
from bonafide.tasks.discrete.programset import Actions, ProgramSet, actions_set
from bonafide.tasks.discrete.sorting import counts, extremes, sorts

_DIFFERENCES = (
    (Operator.DAYS, days_between, frozenset(("day", "days"))),
    (Operator.MONTHS, months_between, frozenset(("month", "months"))),
    (Operator.YEARS, years_between, frozenset(("year", "years"))),
)
_ANY_DIFFERENCE = frozenset(("long", "duration", "last", "lasted", "elapsed", "passed"))


def search(
    reading: Reading,
    answers: Sequence[AcceptedAnswer],
    language: Language,
    cap: int | None = None,
    seed: int | str = 0,
) -> ProgramSet:
    """Every program that returns one of the answers; a uniform sample of ``cap`` where there are more."""
    found: dict[Actions, Rule] = {}
    question = asked(reading.question)
    for answer in answers:
        for actions, rule in _proposals(reading, question, answer, language):
            found.setdefault(actions, rule)
    if not found and language.operands == "alike":
        for answer in answers:
            if (number := answer_number(answer)) is not None:
                for actions, rule in arithmetic(reading, number, language, any_operands=True):
                    found.setdefault(actions, rule)
    if cap is None or len(found) <= cap:
        return actions_set(found.items())
    chance = random.Random(str(seed))  # noqa: S311 (a sample, not a secret)
    return actions_set(chance.sample(sorted(found.items()), cap), len(found), complete=False)


def answer_number(answer: AcceptedAnswer) -> Fraction | None:
    """The number that an answer is, or that its text reads as, to the official evaluator too: −5 is none to it."""
    if isinstance(answer, (int, float)):
        return Fraction(repr(answer))
    if not isinstance(answer, str) or (number := plain_number(answer.strip())) is None:
        return None
    return number if normalised(number_text(number)) == normalised(answer) else None


def _proposals(reading: Reading, question: Asked, answer: AcceptedAnswer, language: Language) -> Iterator[Proposal]:
    if (number := answer_number(answer)) is not None:
        yield from arithmetic(reading, number, language, language.operands == "any")
        yield from _date_differences(reading, number, language)
        yield from extremes(reading, question, number, language)
        yield from counts(reading, question, number, language)
    if isinstance(answer, DateAnswer):
        yield from _dates(reading, answer, language)
    texts = (answer,) if isinstance(answer, str) else answer if isinstance(answer, tuple) else ()
    if texts:
        yield from _spans(reading, texts, language)
    if len(texts) == 1:
        spans = find_text(reading.passage, texts[0], language.max_span_tokens)
        yield from comparisons(reading, question, texts[0], language)
        yield from sorts(reading, question, spans, language)


def _spans(reading: Reading, texts: Sequence[str], language: Language) -> Iterator[Proposal]:
    """One mention of each text; where there are too many choices, for each mention of the rarest the nearest others."""
    mentions = [_mentions(reading, text, texts, language) for text in texts]
    if not all(mentions) or len(texts) > language.max_items:
        return
    if prod(map(len, mentions)) <= language.max_choices or len(texts) == 1:
        chosen: Iterable[tuple[Span, ...]] = product(*mentions)
    else:
        rarest = min(mentions, key=len)
        chosen = [_nearest(mentions, anchor) for anchor in rarest[: language.max_choices]]
    for each in chosen:
        if len(set(each)) == len(texts):
            asked_for = any(isinstance(span, QuestionSpan) for span in each)
            rule = Rule.QUESTION_SPAN if asked_for else Rule.SPAN if len(texts) == 1 else Rule.SPANS
            members = sorted(span.actions for span in each)
            inner = (action for member in members for action in member)
            yield ((ActionKind.OPERATOR, Operator.SPANS), *inner, (ActionKind.CLOSE, 0)), rule


def _mentions(reading: Reading, text: str, texts: Sequence[str], language: Language) -> list[Span]:
    """Where a text stands: in the passage, and in the question where it is the only one or stands nowhere else."""
    found: list[Span] = []
    if language.has(Rule.SPAN if len(texts) == 1 else Rule.SPANS):
        places = find_text(reading.passage, text, language.max_span_tokens)
        said = sum(normalised(other) == normalised(text) for other in texts)
        if 0 < len(places) < said:  # the answer says it more often than the passage does
            more = [place for each in places for place in wider(reading.passage, each)]
            places += more[: said - len(places)]
        found += [PassageSpan(*place) for place in places]
    if language.has(Rule.QUESTION_SPAN) and (len(texts) == 1 or not found):
        found += [QuestionSpan(*place) for place in find_text(reading.question, text, language.max_span_tokens)]
    return found


def _nearest(mentions: list[list[Span]], anchor: Span) -> tuple[Span, ...]:
    """Of each text the mention that is nearest to the anchor and not taken yet."""
    taken: list[Span] = []
    for each in mentions:
        free = [span for span in each if span not in taken] or each
        taken.append(min(free, key=lambda span: abs(span.first - anchor.first)))
    return tuple(taken)


def _date_differences(reading: Reading, number: Fraction, language: Language) -> Iterator[Proposal]:
    """Differences in the unit that the question names; in all where it asks how long something took."""
    if not language.has(Rule.DATE_DIFFERENCE):
        return
    words = set(reading.question.tokens.lower)
    for operator, between, units in _DIFFERENCES:
        named = words & (units | (_ANY_DIFFERENCE if operator is not Operator.YEARS else frozenset()))
        if not named:
            continue
        dates = [(index, date) for index, date in enumerate(reading.passage.dates) if needs_met(operator, date)]
        for (one, first), (other, second) in combinations(dates, 2):
            if between(first, second) == number:
                members = (ActionKind.DATE_MENTION, one), (ActionKind.DATE_MENTION, other)
                yield ((ActionKind.OPERATOR, operator), *members), Rule.DATE_DIFFERENCE


def _dates(reading: Reading, answer: DateAnswer, language: Language) -> Iterator[Proposal]:
    """Dates that say just what the answer says, and pairs of dates that say it together."""
    wanted = _parts(answer)
    if wanted is None or not language.has(Rule.DATE):
        return
    parts = {
        index: date
        for index, date in enumerate(reading.passage.dates)
        if all(mine in (None, theirs) for mine, theirs in zip(_said(date), wanted, strict=True))
    }
    exact = [index for index, date in parts.items() if _said(date) == wanted]
    for index in exact:
        yield _date_actions(index), Rule.DATE
    if exact:
        return  # a date that is said in one place is not put together from others
    for one, other in combinations(parts, 2):
        joint = tuple(
            mine if mine is not None else theirs
            for mine, theirs in zip(*map(_said, (parts[one], parts[other])), strict=True)
        )
        if disjoint(parts[one], parts[other]) and joint == wanted:
            yield _date_actions(one, other), Rule.DATE


def _said(date: DateMention) -> tuple[int | None, int | None, int | None]:
    return date.day, date.month, None if date.year is None else abs(date.year)  # an answer does not say its era


def _parts(answer: DateAnswer) -> tuple[int | None, int | None, int | None] | None:
    """Day, month and year of an answer in numbers; None where a part is none."""
    names = {name.lower(): number for number, name in enumerate(MONTHS, start=1)}
    month = answer.month.strip().lower()
    digits = [part.strip() for part in (answer.day, answer.year)]
    if (month and month not in names) or not all(part.isascii() and (part.isdigit() or not part) for part in digits):
        return None
    try:
        day, year = (int(part) if part else None for part in digits)
    except ValueError:  # Python's bound on the digits of an integer
        return None
    return day, names.get(month), year


def _date_actions(*indices: int) -> Actions:
    inner = ((ActionKind.DATE_MENTION, index) for index in indices)
    return (ActionKind.OPERATOR, Operator.DATE), *inner, (ActionKind.CLOSE, 0)
