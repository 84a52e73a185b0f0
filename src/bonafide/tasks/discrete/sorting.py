"""Counts, extremes and sorts over candidate families: what each rule proposes for a given answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from bonafide.tasks.discrete.arithmetic import Proposal, figures
from bonafide.tasks.discrete.asked import Asked
from bonafide.tasks.discrete.families import choices, items, lists, narrowed, nearest_name
from bonafide.tasks.discrete.language import Language, Rule
from bonafide.tasks.discrete.outline import Place, outline, root
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import ActionKind, Operator, PassageSpan
from bonafide.tasks.discrete.programset import Actions

_MOST_LISTS = 4
_MOST_TOPICS = 2
_LEAST_NAMES = 2
_TIMES = (root("times"),)


def counts(reading: Reading, question: Asked, answer: Fraction, language: Language) -> Iterator[Proposal]:
    """Counts of as many mentions as the answer says."""
    if not question.counts or answer.denominator != 1:
        return
    size = int(answer)
    if size == 0 and language.has(Rule.COUNT_NONE):
        yield _count(()), Rule.COUNT_NONE
    if not 0 < size <= language.max_items or not language.has(Rule.COUNT):
        return
    passage = reading.passage
    chosen = list(_of_items(passage, _counted(passage, question), question, size, language))
    chosen += [tuple(numbers) for numbers in _bounded_figures(passage, question) if len(numbers) == size]
    chosen += _fitting_lists(passage, question, size)
    if not chosen:
        for family in _of_topics(passage, question, size):
            chosen += _of_items(passage, family, question, size, language)
        chosen += _fitting_names(passage, question, size)
    for places in dict.fromkeys(chosen):
        yield _count(places), Rule.COUNT


def _of_items(
    passage: Passage, family: list[Place], question: Asked, size: int, language: Language
) -> Iterator[tuple[Place, ...]]:
    """So many members of a family: what is left of it when it is narrowed, and choices from it."""
    for each in narrowed(passage, family, question):
        if len(each) == size:
            yield tuple(each)
    yield from choices(family, size, language.max_choices)


def _counted(passage: Passage, question: Asked) -> list[Place]:
    """The mentions of what the question counts; none for *how many times*."""
    return items(passage, question.head) if question.head != _TIMES else []


def _of_topics(passage: Passage, question: Asked, size: int) -> list[list[Place]]:
    """The mentions of the rarest other words of the question that are there so often."""
    families = [items(passage, (topic,)) for topic in sorted(question.topics)]
    return sorted((family for family in families if len(family) >= size), key=len)[:_MOST_TOPICS]


def _bounded_figures(passage: Passage, question: Asked) -> Iterator[list[Place]]:
    """The numbers of each unit that lie within the question's bounds."""
    if question.above is None and question.below is None:
        return
    for unit, indices in figures(passage).alike.items():
        if unit in question.units:
            numbers = [passage.numbers[index] for index in indices]
            places = [
                (number.first, number.last)
                for number in numbers
                if (question.above is None or number.value >= question.above)
                and (question.below is None or number.value <= question.below)
            ]
            yield list(dict.fromkeys(places))


def _fitting_lists(passage: Passage, question: Asked, size: int) -> Iterator[tuple[Place, ...]]:
    """Enumerations of this size, those first whose sentence shares the most words with the question."""
    shape = outline(passage)
    wanted = question.topics | set(question.head)

    def shared(members: list[Place]) -> int:
        sentence = shape.sentences[members[0][0]]
        return sum(any(shape.sentences[token] == sentence for token in shape.places.get(each, ())) for each in wanted)

    fitting = [(shared(members), members) for members in lists(passage) if len(members) == size]
    fitting.sort(key=lambda each: -each[0])
    for share, members in fitting[:_MOST_LISTS]:
        if share:
            yield tuple(members)


def _fitting_names(passage: Passage, question: Asked, size: int) -> Iterator[tuple[Place, ...]]:
    """The names of the sentence that shares the most words with the question, where they are as many."""
    shape = outline(passage)
    shares: dict[int, int] = {}
    for root_ in question.topics | set(question.head):
        for sentence in {shape.sentences[token] for token in shape.places.get(root_, ())}:
            shares[sentence] = shares.get(sentence, 0) + 1
    if not shares or size < _LEAST_NAMES:
        return
    best = max(shares, key=lambda sentence: (shares[sentence], -sentence))
    names = [name for name in shape.names if shape.sentences[name[0]] == best]
    asked_for = [name for name in names if not any(_is_name(passage, name, known) for known in question.names)]
    for each in (names, asked_for):
        if len(each) == size:
            yield tuple(each)


def _is_name(passage: Passage, name: Place, known: frozenset[str]) -> bool:
    return bool(known & set(passage.tokens.lower[name[0] : name[1] + 1]))


def extremes(reading: Reading, question: Asked, answer: Fraction, language: Language) -> Iterator[Proposal]:
    """The largest or smallest of numbers of one unit: all of them, or those that the question narrows them to."""
    if not question.sorts or not language.has(Rule.EXTREME):
        return
    passage = reading.passage
    for family in _figure_families(passage, question):
        if not 2 <= len(family) <= language.max_items:
            continue
        ordered = sorted((passage.numbers[index] for index in family), key=lambda number: number.rank)
        least, most = ordered[0], ordered[-1]
        if least.rank == most.rank:
            continue
        if question.most and most.value == answer:
            yield _extreme(Operator.MAX, family), Rule.EXTREME
        if question.least and least.value == answer:
            yield _extreme(Operator.MIN, family), Rule.EXTREME


def _figure_families(passage: Passage, question: Asked) -> Iterator[tuple[int, ...]]:
    """Numbers of one unit, and their narrowings; none twice."""
    seen: set[tuple[int, ...]] = set()
    known = figures(passage)
    at = {(passage.numbers[index].first, passage.numbers[index].last): index for index in range(len(passage.numbers))}
    for unit, indices in known.alike.items():
        if unit in ("", "ordinal") or len(indices) < 2:
            continue
        places = list(dict.fromkeys((passage.numbers[index].first, passage.numbers[index].last) for index in indices))
        for each in (*narrowed(passage, places, question), *_of_phrases(passage, places, question)):
            family = tuple(sorted(at[place] for place in each))
            if family not in seen:
                seen.add(family)
                yield family


def _of_phrases(passage: Passage, places: list[Place], question: Asked) -> Iterator[list[Place]]:
    """The numbers that belong to a phrase of the question (the yards of field goals), and their narrowings."""
    for phrase in question.phrases:
        starts = {first for first, _ in items(passage, phrase)}
        near = [place for place in places if place[0] in starts]
        if near:
            yield from narrowed(passage, near, question)


def sorts(reading: Reading, question: Asked, answer_spans: Sequence[Place], language: Language) -> Iterator[Proposal]:
    """argmax and argmin over (name, number) pairs whose best key is a mention of the answer."""
    if not question.sorts or not answer_spans or not language.has(Rule.SORT):
        return
    passage = reading.passage
    for family in _figure_families(passage, question):
        if not 2 <= len(family) <= language.max_items:
            continue
        values = [passage.numbers[index].rank for index in family]
        for operator, best in ((Operator.ARGMAX, max(values)), (Operator.ARGMIN, min(values))):
            wanted = question.most if operator is Operator.ARGMAX else question.least
            if not wanted or values.count(best) != 1:
                continue
            winner = family[values.index(best)]
            key = _nearest_span(passage, winner, answer_spans)
            if key is None:
                continue
            for before in (True, False):
                pairs = {winner: key}
                for index in family:
                    name = nearest_name(passage, passage.numbers[index].first, before)
                    if index != winner and name is not None:
                        pairs[index] = name
                if len(pairs) >= 2:
                    yield _sorted_pairs(operator, pairs), Rule.SORT


def _nearest_span(passage: Passage, number: int, spans: Sequence[Place]) -> Place | None:
    """The mention of the answer in the sentence of a number that is nearest to it."""
    shape, at = outline(passage), passage.numbers[number].first
    near = [span for span in spans if shape.same_sentence(span[0], at)]
    return min(near, key=lambda span: abs(span[0] - at), default=None)


def _count(places: Sequence[Place]) -> Actions:
    inner = [action for place in sorted(places) for action in PassageSpan(*place).actions]
    return (ActionKind.OPERATOR, Operator.COUNT), *inner, (ActionKind.CLOSE, 0)


def _extreme(operator: Operator, family: Sequence[int]) -> Actions:
    return (ActionKind.OPERATOR, operator), *((ActionKind.NUMBER, each) for each in family), (ActionKind.CLOSE, 0)


def _sorted_pairs(operator: Operator, pairs: dict[int, Place]) -> Actions:
    members = sorted((*PassageSpan(*key).actions, (ActionKind.NUMBER, index)) for index, key in pairs.items())
    return (ActionKind.OPERATOR, operator), *(action for member in members for action in member), (ActionKind.CLOSE, 0)
