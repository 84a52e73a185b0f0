"""Candidate families: mentions of the passage that a question may ask to count or to sort.

A family is a list of mentions in the order of the text.

* *items*: mentions of the phrase that the question counts (*field goals*), by the roots of its words, or of its last
  word where the whole phrase is nowhere. Where numbers stand before a mention (*a 20-yard and a 35-yard field goal*)
  or after it (*field goals of 20 and 35 yards*), each of them is an item, and so is a *28-yarder* elsewhere.
* *lists*: the members of an enumeration (*Oslo, Riga, and Cork*).
* *figures*: the numbers of one unit (yards, per cent, …).

Each may be narrowed: to the sentences that hold a word of the question, to the items right before such a word or
after such a name, to numbers beyond the question's bound (*over 40 yards*), to a stretch of the text (neighbouring
members).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb

from bonafide.tasks.discrete.arithmetic import figures
from bonafide.tasks.discrete.asked import Asked
from bonafide.tasks.discrete.outline import Outline, Place, outline
from bonafide.tasks.discrete.passage import Passage

_BETWEEN = frozenset((",", "and", "a", "an", "from", "&", "-", "–", "to", "or", "yard", "yards", "the"))
_AFTER = frozenset((*_BETWEEN, "of", "at", "then", "(", ")", "out", "away", "distances", "distance", "both", "by"))
_OTHER_WORDS = 3
_LONGEST_GAP = 14
_NEAR = 3
_LEAST_LIST = 2
_LONGEST_MEMBER = 8


def items(passage: Passage, head: tuple[str, ...]) -> list[Place]:
    """The mentions of what is counted, each number before one of them an item of its own."""
    shape = outline(passage)
    mentions = _phrase_mentions(passage, shape, head)
    found: list[Place] = []
    previous = -1
    for first, last in mentions:
        before = [place for place in _numbers_before(passage, shape, first) if place[0] > previous]
        after = _numbers_after(passage, shape, last)
        if len(after) > 1 or (after and not before):
            found += after
        else:
            found += [(place[0], last if place is before[-1] else place[1]) for place in before] or [(first, last)]
        previous = max(last, found[-1][1])
    return sorted({*found, *_yarders(passage, shape, found)})


def _yarders(passage: Passage, shape: Outline, found: list[Place]) -> list[Place]:
    """Numbers with a *-yarder*, in passages that count such things in yards."""
    if not any("yard" in shape.roots[first : last + 1] for first, last in found):
        return []
    lower = passage.tokens.lower
    return [
        (token - 2, token)
        for token in shape.places.get("yard", ())
        if lower[token] == "yarder" and token >= 2 and lower[token - 1] == "-"
    ]


def _numbers_after(passage: Passage, shape: Outline, last: int) -> list[Place]:
    """The numbers of a list after a mention: *of 20, 28 and 35 yards*, *(20, 28, 35)*, *by Ann from 20 and 35*."""
    starts = figures(passage).starts
    lower, at = passage.tokens.lower, last + 1
    found: list[Place] = []
    others = 0
    while at < len(passage) and at - last <= _LONGEST_GAP and shape.same_sentence(at, last):
        if at in starts:
            found.append((at, passage.numbers[starts[at]].last))
            at = found[-1][1] + 1
            continue
        if lower[at] not in _AFTER:
            others += 1
            if found or others > _OTHER_WORDS or not passage.tokens.words[at][0].isupper():
                break
        at += 1
    return found if others == 0 or len(found) > 1 else []


def _phrase_mentions(passage: Passage, shape: Outline, head: tuple[str, ...]) -> list[Place]:
    for size in range(len(head), 0, -1):
        for phrase in dict.fromkeys((head[-size:], head[:size])):
            found = []
            for start in shape.places.get(phrase[0], ()):
                end = _match(passage, shape, start, phrase)
                if end is not None:
                    found.append((start, end))
            if found:
                return found
    return []


def _match(passage: Passage, shape: Outline, start: int, phrase: tuple[str, ...]) -> int | None:
    """The last token of the phrase that begins here; hyphens between its words do not matter."""
    at = start
    for place, wanted in enumerate(phrase):
        if place and at < len(passage) and passage.tokens.words[at] == "-":
            at += 1
        if at >= len(passage) or shape.roots[at] != wanted:
            return None
        at += 1
    return at - 1


def _numbers_before(passage: Passage, shape: Outline, first: int) -> list[Place]:
    """The numbers that a mention beginning at ``first`` belongs to, nearest last; ordinals count nothing."""
    by_end, lower = figures(passage).plain_ends, passage.tokens.lower
    found: list[Place] = []
    others, at = 0, first - 1
    while at >= 0 and first - at <= _LONGEST_GAP and shape.same_sentence(at, first):
        if at in by_end:
            found.append((by_end[at], at))
            at = by_end[at] - 1
            others = 0
            continue
        if lower[at] not in _BETWEEN:
            others += 1
            if others > _OTHER_WORDS or (found and others > 0):
                break
        at -= 1
    return found[::-1]


@lru_cache(maxsize=64)
def lists(passage: Passage) -> list[list[Place]]:
    """Every enumeration: members of a few words, parted by commas and a last *and* or *or*."""
    tokens, shape = passage.tokens, outline(passage)
    found: list[list[Place]] = []
    for at, word in enumerate(tokens.lower):
        if word not in ("and", "or", "&") or at == 0 or at + 1 >= len(tokens):
            continue
        last = _member_after(passage, shape, at + 1)
        if last is None:
            continue
        members = [last]
        end = at - 1 if tokens.words[at - 1] != "," else at - 2
        while end >= 0 and shape.same_sentence(end, at):
            member = _member_before(passage, shape, end)
            if member is None:
                break
            members.append(member)
            if member[0] == 0 or tokens.words[member[0] - 1] != ",":
                break
            end = member[0] - 2
        if len(members) >= _LEAST_LIST and _is_list(passage, shape, members):
            found.append(members[::-1])
    return found


def _is_list(passage: Passage, shape: Outline, members: list[Place]) -> bool:
    """Whether this is no pair of clauses: two members must be names, more must end in words that name something."""
    if len(members) == _LEAST_LIST:
        return all(any(word[0].isupper() for word in passage.tokens.words[first : last + 1]) for first, last in members)
    return all(shape.roots[last] or passage.tokens.words[last][0].isdigit() for _, last in members)


def _member_before(passage: Passage, shape: Outline, end: int) -> Place | None:
    """The member of a list that ends here: back to the comma before it, or to where a name or noun begins."""
    words, lower = passage.tokens.words, passage.tokens.lower
    start = end
    while start >= 0 and end - start < _LONGEST_MEMBER and shape.same_sentence(start, end):
        if words[start] in (",", ";", ":", "(", ")") or lower[start] in ("and", "or"):
            return (start + 1, end) if start < end else None
        start -= 1
    for first, last in shape.names:
        if last == end:
            return first, last
    return (end, end) if words[end][0].isalnum() else None


def _member_after(passage: Passage, shape: Outline, start: int) -> Place | None:
    for first, last in shape.names:
        if first <= start <= last or (first == start + 1 and passage.tokens.lower[start] in ("the", "a", "an")):
            return start, last
    words = passage.tokens.words
    if not words[start][0].isalnum():
        return None
    end = start
    while end + 1 < len(words) and end - start < 2 and words[end + 1][0].isalpha() and shape.roots[end + 1]:
        end += 1
    return start, end


def narrowed(passage: Passage, family: list[Place], question: Asked) -> Iterator[list[Place]]:
    """The family, and what is left of it by what the question names and by its bounds; none twice."""
    seen: set[tuple[Place, ...]] = set()
    for each in _narrowings(passage, family, question):
        if each and tuple(each) not in seen:
            seen.add(tuple(each))
            yield each


def _narrowings(passage: Passage, family: list[Place], question: Asked) -> Iterator[list[Place]]:
    yield family
    if question.above is not None or question.below is not None:
        family = [place for place in family if _within(passage, place, question.above, question.below)]
        yield family
    shape, lower = outline(passage), passage.tokens.lower
    for name in question.names:
        sentences = {shape.sentences[token] for token, word in enumerate(lower) if word in name}
        yield [place for place in family if shape.sentences[place[0]] in sentences]
        yield [place for place in family if _nearest_name(passage, place) & name]
    for topic in sorted(question.topics):
        tokens = shape.places.get(topic, ())
        sentences = {shape.sentences[token] for token in tokens}
        yield [place for place in family if shape.sentences[place[0]] in sentences]
        yield [place for place in family if any(-1 <= token - place[1] <= _NEAR for token in tokens)]


def _within(passage: Passage, place: Place, above: Fraction | None, below: Fraction | None) -> bool:
    """Whether the number at this place lies within the bounds; both may be reached."""
    index = figures(passage).starts.get(place[0])
    if index is None:
        return False
    value = passage.numbers[index].value
    return (above is None or value >= above) and (below is None or value <= below)


def _nearest_name(passage: Passage, place: Place) -> frozenset[str]:
    """The words of the last name before a mention, in its sentence."""
    name = nearest_name(passage, place[0], before=True)
    return frozenset(passage.tokens.lower[name[0] : name[1] + 1]) if name is not None else frozenset()


def nearest_name(passage: Passage, token: int, before: bool) -> Place | None:
    """The nearest name before (or after) a token, in its sentence."""
    shape = outline(passage)
    place = bisect_left(shape.names, (token, -1)) - 1 if before else bisect_right(shape.names, (token, len(passage)))
    if not 0 <= place < len(shape.names):
        return None
    name = shape.names[place]
    return name if shape.same_sentence(name[0], token) and not name[0] <= token <= name[1] else None


def choices(family: list[Place], size: int, most: int) -> Iterator[tuple[Place, ...]]:
    """Members of the family, ``size`` of them: any where there are at most ``most`` such choices, else neighbours."""
    if size > len(family):
        return
    if comb(len(family), size) <= most:
        yield from combinations(family, size)
    else:
        for start in range(min(len(family) - size + 1, most)):
            yield tuple(family[start : start + size])
