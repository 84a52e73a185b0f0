"""A synthetic passage: sentences about one scene, and where each name, number and date of them stands.

What is told is a list of pieces, plain or marked; once the sentences stand in their order, each mark has its place in
the text, and :class:`Story` turns it into what a program points at. Where two marks have the same text (a name that
is mentioned again, a number that is there twice) they are still two.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from bonafide.synth.chances import Grain, Numbers
from bonafide.synth.domains import Split, values_of
from bonafide.synth.scenes import PLACES, Deed, Measure, Scene, Share
from bonafide.tasks.discrete.dates import MONTHS
from bonafide.tasks.discrete.passage import Passage
from bonafide.tasks.discrete.program import Date, Number, PassageSpan


@dataclass(frozen=True, eq=False, slots=True)
class Mark:
    """A piece of the text that a program may point at; each is itself alone."""

    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """*Lowry scored 14 points*."""

    measure: Measure
    name: Mark
    number: Mark
    value: int


@dataclass(frozen=True, slots=True)
class Done:
    """*Lowry kicked a field goal*."""

    name: Mark
    thing: Mark


@dataclass(frozen=True, slots=True)
class Event:
    """*The cup final took place on 3 June 1921*."""

    noun: Mark
    date: Mark
    day: datetime.date


@dataclass(frozen=True, slots=True)
class Story:
    """A passage and what it tells."""

    passage: Passage
    scene: Scene
    entries: tuple[Entry, ...]
    deed: Deed
    done: tuple[Done, ...]
    grain: Grain
    events: tuple[Event, ...]
    year: Mark | None
    total: Mark | None
    """Of the first measure, with those who are not named."""
    share: tuple[Share, Mark] | None
    places: Mapping[Mark, int]
    """The first character of each mark."""

    def number(self, mark: Mark) -> Number:
        """The number that stands here."""
        start = self.places[mark]
        found = [
            index
            for index, each in enumerate(self.passage.numbers)
            if (each.start, each.end) == (start, start + len(mark.text))
        ]
        assert len(found) == 1, (mark.text, self.passage.text)
        return Number(found[0])

    def span(self, mark: Mark) -> PassageSpan:
        """The tokens that stand here."""
        tokens, start = self.passage.tokens, self.places[mark]
        return PassageSpan(tokens.starts.index(start), tokens.ends.index(start + len(mark.text)))

    def date(self, mark: Mark) -> Date:
        """The whole date that stands here."""
        span = self.span(mark)
        found = [
            index
            for index, each in enumerate(self.passage.dates)
            if each.whole and (each.first, each.last) == (span.first, span.last)
        ]
        assert len(found) == 1, (mark.text, self.passage.text)
        return Date(found[0])


_Piece = str | Mark
_LEAST_WORDS = 60
_LEADS = ("", "", "", "", "", "that time ", "in the end ", "as it turned out ")
_JOINTS = (", and ", ", while ", "; ")
_CAME = ("the {noun} took place {on} {date}", "{on} {date} the {noun} took place", "the {noun} was {on} {date}")
_TOTALS = ("in all, {number} {many} were recorded", "altogether {number} {many} were recorded")
_SHARES = ("{number} of the {many} {past}", "of the {many}, {number} {past}")
_YEARS = ("all of this was in {year}", "the year was {year}")
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def tell(scene: Scene, split: Split, chance: random.Random, coincidence: float) -> Story:
    """A new passage about this scene."""
    return _Teller(scene, split, chance, coincidence).story()


class _Teller:
    def __init__(self, scene: Scene, split: Split, chance: random.Random, coincidence: float) -> None:
        self._scene, self._split, self._chance, self._dial = scene, split, chance, coincidence
        self._numbers = Numbers(chance, coincidence)
        self._places = chance.sample(values_of(PLACES, split), 6)

    def story(self) -> Story:
        chance, scene = self._chance, self._scene
        names = chance.sample(values_of(scene.names, self._split), 4 if scene.brief else chance.randint(4, 5))
        entries, clauses = self._entries(names)
        deed = chance.choice(scene.deeds)
        done, told = self._done(deed, names)
        sentences = self._joined(clauses, told)
        total = share = None
        if chance.random() < 0.5:
            first = [entry for entry in entries if entry.measure == entries[0].measure]
            rest = self._numbers.fresh(3, max(9, entries[0].value))
            total = self._number(self._numbers.keep(sum(entry.value for entry in first) + rest))
            many = entries[0].measure.many
            sentences.append(_filled(chance.choice(_TOTALS), number=total, many=many))
        if chance.random() < (0.25 if scene.brief else 0.4):
            chosen = chance.choice(scene.shares)
            percent = Mark(f"{self._numbers.draw(6, 94)}{chance.choice((' percent', '%'))}")
            share = (chosen, percent)
            sentences.append(_filled(chance.choice(_SHARES), number=percent, many=chosen.many, past=chosen.past))
        grain, events, year, dated = self._events()
        sentences += dated
        for aside in chance.sample(scene.asides, 1 if scene.brief and events else 2):
            number = self._number(self._numbers.planned([(entry.measure, entry.value) for entry in entries], len(done)))
            sentences.append(_filled(aside, number=number))
        chance.shuffle(sentences)
        opening = chance.choice(scene.openings).format(place=self._places[0])
        sentences.insert(0, [opening.removesuffix(".")])
        for turn, remark in enumerate(chance.sample(scene.remarks, len(scene.remarks))):
            if len(_written(sentences)[0].split()) >= _LEAST_WORDS and (turn or scene.brief):
                break
            sentences.append([remark.removesuffix(".")])
        text, places = _written(sentences)
        passage = Passage(text)
        return Story(passage, scene, tuple(entries), deed, tuple(done), grain, events, year, total, share, places)

    def _entries(self, names: Sequence[str]) -> tuple[list[Entry], list[list[_Piece]]]:
        """Two measures of some of these names, told in clauses of one or two numbers."""
        chance, scene = self._chance, self._scene
        measures = chance.sample(scene.measures, 2)
        owners = [names[: chance.randint(3, len(names))], chance.sample(names, 2 if scene.brief else 3)]
        values: list[dict[str, int]] = []
        for measure, own in zip(measures, owners, strict=True):
            values.append({})
            for name in own:
                taken = set(values[-1].values())  # who has the most must be clear
                values[-1][name] = self._numbers.draw(measure.low, measure.high, taken)
        entries: list[Entry] = []
        clauses: list[list[_Piece]] = []
        for name in names:
            had = [turn for turn in (0, 1) if name in values[turn]]
            together = len(had) == 2 and not scene.brief and chance.random() < 0.4
            for group in [had] if together else [[turn] for turn in had]:
                mark = Mark(name)
                clause: list[_Piece] = [scene.the, mark]
                for place, turn in enumerate(group):
                    measure, value = measures[turn], values[turn][name]
                    entries.append(Entry(measure, mark, self._number(value), value))
                    clause += [f"{' and' if place else ''} {measure.past} ", entries[-1].number, f" {measure.many}"]
                clauses.append(clause)
        entries.sort(key=lambda entry: measures.index(entry.measure))  # stable: in the order of telling
        return entries, clauses

    def _done(self, deed: Deed, names: Sequence[str]) -> tuple[list[Done], list[list[_Piece]]]:
        done: list[Done] = []
        clauses: list[list[_Piece]] = []
        for name in self._chance.sample(names, self._chance.randint(2, len(names))):
            done.append(Done(Mark(name), Mark(deed.one)))
            clauses.append([self._scene.the, done[-1].name, f" {deed.past} a ", done[-1].thing])
        return done, clauses

    def _joined(self, entries: list[list[_Piece]], deeds: list[list[_Piece]]) -> list[list[_Piece]]:
        """Sentences of one or two clauses. A deed comes first, or the number before it might be taken for its own."""
        chance = self._chance
        chance.shuffle(entries)
        chance.shuffle(deeds)
        sentences: list[list[_Piece]] = []
        while entries or deeds:
            sentence = ["" if self._scene.brief else chance.choice(_LEADS), *(deeds or entries).pop()]
            if entries and chance.random() < 0.5:
                sentence += [chance.choice(_JOINTS), *entries.pop()]
            sentences.append(sentence)
        return sentences

    def _events(self) -> tuple[Grain, tuple[Event, ...], Mark | None, list[list[_Piece]]]:
        chance = self._chance
        grain = chance.choice(list(Grain))
        count = chance.randint(2, 3 if self._scene.brief else 4)
        if self._scene.brief and chance.random() < 0.6:
            count = 0
        nouns = chance.sample(self._scene.events, count)
        days = self._numbers.dates(count, grain)
        sentences: list[list[_Piece]] = []
        events: list[Event] = []
        month_first = chance.random() < 0.5
        for turn, (noun, day) in enumerate(zip(nouns, days, strict=True)):
            marks = Mark(noun.format(place=self._places[turn + 1])), Mark(_date_text(day, grain, month_first))
            events.append(Event(*marks, day))
            on = "in" if grain in (Grain.MONTHS, Grain.BARE_YEARS) else "on"
            sentences.append(_filled(chance.choice(_CAME), noun=marks[0], date=marks[1], on=on))
        year = None
        if grain is Grain.SAME_YEAR and events:
            year = Mark(str(days[0].year))
            sentences.append(_filled(chance.choice(_YEARS), year=year))
        return grain, tuple(events), year, sentences

    def _number(self, value: int) -> Mark:
        """The number as it is written: small ones sometimes in words."""
        if 2 <= value <= 12 and self._chance.random() < 0.25:
            return Mark(_WORDS[value - 2])
        return Mark(f"{value:,}")


def _date_text(day: datetime.date, grain: Grain, month_first: bool) -> str:
    month = MONTHS[day.month - 1]
    if grain is Grain.BARE_YEARS:
        return str(day.year)
    if grain is Grain.MONTHS:
        return f"{month} {day.year}"
    if grain is Grain.SAME_YEAR:
        return f"{month} {day.day}"
    return f"{month} {day.day}, {day.year}" if month_first else f"{day.day} {month} {day.year}"


def _filled(template: str, **values: _Piece) -> list[_Piece]:
    """The template with its fields filled, marks kept."""
    pieces: list[_Piece] = []
    for literal, field, _, _ in Formatter().parse(template):
        pieces.append(literal)
        if field is not None:
            pieces.append(values[field])
    return pieces


def _written(sentences: Sequence[Sequence[_Piece]]) -> tuple[str, dict[Mark, int]]:
    """The text of these sentences, each with a capital and a full stop, and where each mark begins."""
    text = ""
    places: dict[Mark, int] = {}
    for sentence in sentences:
        begins = len(text) + bool(text)
        text += " " if text else ""
        for piece in sentence:
            if isinstance(piece, Mark):
                places.setdefault(piece, len(text))
            text += piece if isinstance(piece, str) else piece.text
        text = text[:begins] + text[begins].upper() + text[begins + 1 :] + "."
    return text, places
