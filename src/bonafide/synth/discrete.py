"""Synthetic passages and questions with known gold programs, in our own words, the same for the same seed.

``coincidence`` (0 to 1) is the dial. Turning it up repeats numbers, gives several pairs the same difference, spaces
events evenly, puts answers into the passage as numbers that belong to nothing (``chances.py``), and asks more of the
questions whose answer stands there: a program that just points at it is shorter than the genuine one.

The genuine program is identifiable all the same. A question names those whose numbers are meant, in the words that
stand next to these numbers, and each operator has words of its own (``wording.py``); an accidental program points at
other places, or does something that other words ask for. Who trains on the program that is the most likely anyway
never weighs that.

Dev and test have passages of their own, names that train never shows, and phrasings that train never uses.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import prod
from pathlib import Path

from bonafide.documents import Document, document_to_json
from bonafide.errors import BonafideError
from bonafide.examples import AcceptedAnswer, Example, Gold, example_to_json, write_jsonl_files
from bonafide.synth.chances import Grain
from bonafide.synth.domains import SPLITS, Split
from bonafide.synth.scenes import SCENES
from bonafide.synth.story import Entry, Event, Mark, Story, tell
from bonafide.synth.wording import OPERATORS, WORDING, Ask
from bonafide.tasks.discrete.execution import Value, execute
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import program_text
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.discrete.program import Argument, Constant, Number, Pair, Program, canonical

_WEIGHTS: dict[Ask, int] = {
    Ask.VALUE: 8, Ask.SHARE: 2, Ask.ADD: 8, Ask.SUBTRACT: 10, Ask.REST: 2, Ask.OTHER_SHARE: 2, Ask.LATER_YEARS: 6,
    Ask.ADD_ADD: 4, Ask.ADD_SUBTRACT: 4, Ask.SUBTRACT_SUBTRACT: 5, Ask.MAX: 4, Ask.MIN: 4, Ask.COUNT: 10, Ask.WHO: 6,
    Ask.WHO_ALL: 9, Ask.MOST: 4, Ask.FEWEST: 4, Ask.YEARS: 12, Ask.MONTHS: 12,
    Ask.DAYS: 8, Ask.DATE: 5,
}  # fmt: skip
"""How often each is tried; what needs dates of some kind is tried more often, as few passages have them."""
_TRIES = 60
_LURES = 8  # how many questions are looked at to find one whose answer stands elsewhere
_MOST_SETS = 12  # of mentions of the names that a question asks for; the search tries all of so many
_HUNDRED = Constant(Language().constants.index(100))


@dataclass(frozen=True, slots=True)
class DiscreteBenchmark:
    """Where the files of a written benchmark are, and where its solutions belong."""

    examples: Path
    documents: Path
    gold: Path
    store: Path


def generate_discrete(
    passages: int,
    questions: int,
    seed: int,
    coincidence: float = 0.5,
    split: Split = "train",
    scenes: Sequence[str] = tuple(SCENES),
) -> tuple[list[Document], list[tuple[Example, Gold]]]:
    """``passages`` passages with ``questions`` questions each; the scenes take turns."""
    if not 0 <= coincidence <= 1:
        raise BonafideError(f"coincidence={coincidence!r}: expected a number from 0 to 1.")
    if split not in SPLITS:
        raise BonafideError(f"split={split!r}: expected one of {', '.join(SPLITS)}.")
    if not scenes or set(scenes) - set(SCENES):
        raise BonafideError(f"scenes={tuple(scenes)}: expected some of {', '.join(SCENES)}.")
    chance = random.Random(f"bonafide/discrete/{seed}/{float(coincidence)}/{split}")  # noqa: S311 (data, not a secret)
    documents: list[Document] = []
    pairs: list[tuple[Example, Gold]] = []
    for number in range(passages):
        name = scenes[number % len(scenes)]
        story = tell(SCENES[name], split, chance, coincidence)
        document = Document(f"{split}-{name}-{number + 1}", None, (story.passage.text,))
        documents.append(document)
        asker = _Asker(story, split, chance, coincidence)
        pairs += [asker.pair(document.name, f"{document.name}-q{turn + 1}") for turn in range(questions)]
    return documents, pairs


def write_discrete_benchmark(
    out: Path,
    seed: int,
    passages: int = 100,
    questions: int = 12,
    coincidence: float = 0.5,
    split: Split = "train",
    scenes: Sequence[str] = tuple(SCENES),
) -> DiscreteBenchmark:
    """Write ``examples.jsonl``, ``documents.jsonl`` and ``gold.jsonl`` under ``out``."""
    names = ("examples.jsonl", "documents.jsonl", "gold.jsonl", "solutions")
    files = DiscreteBenchmark(*(out / name for name in names))
    if files.store.exists():
        raise BonafideError(f"{files.store} is already there. Delete {out}, or name another folder.")
    documents, pairs = generate_discrete(passages, questions, seed, coincidence, split, scenes)
    write_jsonl_files(
        {
            files.documents: map(document_to_json, documents),
            files.gold: ({"id": gold.id, "solution": gold.solution} for _, gold in pairs),
            files.examples: (example_to_json(example) for example, _ in pairs),
        }
    )
    return files


_Asked = tuple[Sequence[Argument], dict[str, str]]
"""The arguments of a gold program, and what fills the fields of its phrasing."""
_Choice = tuple[Ask, Program, dict[str, str]]


class _Asker:
    """Asks about one story, nothing twice."""

    def __init__(self, story: Story, split: Split, chance: random.Random, coincidence: float) -> None:
        self._story, self._split, self._chance, self._dial = story, split, chance, coincidence
        self._language = Language()
        self._asked: set[tuple[Ask, Program]] = set()

    def pair(self, document: str, name: str) -> tuple[Example, Gold]:
        """A question with its answer, and its gold program."""
        ask, program, fields = self._choose()
        self._asked.add((ask, program))
        question = WORDING[ask].choose(self._split, self._chance).format(**fields)
        question = re.sub(r"\ba (?=[aeiou])", "an ", question[0].upper() + question[1:])
        reading = Reading(Passage(question), self._story.passage)
        text = program_text(program, reading, self._language)
        return Example(name, question, document, (self._answer(program),)), Gold(name, {"program": text})

    def _choose(self) -> _Choice:
        """What to ask; by the dial something whose answer also stands in the passage as a number."""
        chance = self._chance
        possible: list[_Choice] = []
        lured = chance.random() < self._dial
        for attempt in range(_TRIES):
            if attempt % 6 == 0 and not possible:  # else this passage has nothing (more) to ask in this way
                ask = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            found = self._arguments(ask)
            if found is None:
                continue
            program = canonical(Program(OPERATORS[ask], tuple(found[0])))
            if (ask, program) in self._asked:
                continue
            possible.append((ask, program, found[1]))
            if not lured or self._stands_elsewhere(program) or len(possible) == _LURES:
                break
        if possible:
            return possible[-1]
        self._asked.clear()  # everything was asked: begin again, in other words
        return self._choose()

    def _stands_elsewhere(self, program: Program) -> bool:
        """Whether a number of the passage that the program does not point at is its answer."""
        answer = self._executed(program)
        return isinstance(answer, Fraction) and any(
            number.value == answer and Number(index) not in program.arguments
            for index, number in enumerate(self._story.passage.numbers)
        )

    def _executed(self, program: Program) -> Value:
        return execute(program, Reading(Passage(""), self._story.passage), self._language)

    def _answer(self, program: Program) -> AcceptedAnswer:
        value = self._executed(program)
        if isinstance(value, Fraction):
            return int(value)
        return value[0] if isinstance(value, tuple) and len(value) == 1 else value

    def _arguments(self, ask: Ask) -> _Asked | None:
        """Operands for this way of asking, at random; None where there are none, or none were found this time."""
        if ask in (Ask.YEARS, Ask.MONTHS, Ask.DAYS, Ask.LATER_YEARS, Ask.DATE):
            return self._of_events(ask)
        if ask in (Ask.SHARE, Ask.OTHER_SHARE):
            return self._of_share(ask)
        if ask in (Ask.COUNT, Ask.WHO_ALL):
            return self._of_deeds(ask)
        return self._of_entries(ask)

    def _of_entries(self, ask: Ask) -> _Asked | None:
        story, chance = self._story, self._chance
        measure = chance.choice(story.entries).measure
        entries = [entry for entry in story.entries if entry.measure == measure]
        fields = {"many": measure.many, "base": measure.base, "past": measure.past, **self._group}
        numbers = [story.number(entry.number) for entry in entries]
        totalled = story.total is not None and measure == story.entries[0].measure
        if ask in (Ask.MAX, Ask.MIN, Ask.MOST, Ask.FEWEST) and totalled:
            return None  # the total would be the largest number of its kind
        if ask in (Ask.MAX, Ask.MIN):
            return numbers, fields
        if ask in (Ask.MOST, Ask.FEWEST):
            keys = [story.span(entry.name) for entry in entries]
            return [Pair(key, number) for key, number in zip(keys, numbers, strict=True)], fields
        if ask is Ask.WHO:
            entry = chance.choice(entries)
            return [story.span(entry.name)], {**fields, "number": entry.number.text}
        return self._arithmetic(ask, entries, fields)

    def _arithmetic(self, ask: Ask, entries: Sequence[Entry], fields: dict[str, str]) -> _Asked | None:
        story, chance = self._story, self._chance
        size = {Ask.VALUE: 1, Ask.REST: 1, Ask.ADD_ADD: 3, Ask.ADD_SUBTRACT: 3}.get(ask, 2)
        orders = list(permutations(entries, size))
        if ask is Ask.SUBTRACT:
            orders = [order for order in orders if order[0].value > order[1].value]
        elif ask is Ask.ADD_SUBTRACT:
            orders = [order for order in orders if order[0].value + order[1].value > order[2].value]
        rest = ask in (Ask.REST, Ask.SUBTRACT_SUBTRACT)
        if not orders or (rest and (story.total is None or entries[0].measure != story.entries[0].measure)):
            return None
        chosen = chance.choice(orders)
        named = {letter: story.scene.the + entry.name.text for letter, entry in zip("abc", chosen, strict=False)}
        whole: list[Mark] = [story.total] if rest and story.total is not None else []
        return [story.number(mark) for mark in [*whole, *(entry.number for entry in chosen)]], {**fields, **named}

    def _of_share(self, ask: Ask) -> _Asked | None:
        if self._story.share is None:
            return None
        share, mark = self._story.share
        number = self._story.number(mark)
        fields = {"many": share.many, "base": share.base, "past": share.past}
        return ([_HUNDRED, number] if ask is Ask.OTHER_SHARE else [number]), fields

    def _of_deeds(self, ask: Ask) -> _Asked | None:
        story, deed = self._story, self._story.deed
        mentions = [story.passage.text.count(each.name.text) for each in story.done]
        if ask is Ask.WHO_ALL and prod(mentions) > _MOST_SETS:
            return None
        spans = [story.span(each.thing if ask is Ask.COUNT else each.name) for each in story.done]
        fields = {"thing": deed.one, "things": deed.many, "base": deed.base, "past": deed.past, **self._group}
        return spans, fields

    def _of_events(self, ask: Ask) -> _Asked | None:
        story, chance = self._story, self._chance
        if not story.events or story.grain not in _GRAINS[ask]:
            return None
        if ask is Ask.DATE:
            event = chance.choice(story.events)
            year = [] if story.year is None else [story.date(story.year)]
            return [story.date(event.date), *year], {"a": event.noun.text}
        two: list[Event] = sorted(chance.sample(story.events, 2), key=lambda event: event.day)
        fields = {letter: event.noun.text for letter, event in zip("ab", two, strict=True)}
        if ask is Ask.LATER_YEARS:
            return [story.number(event.date) for event in reversed(two)], fields
        return [story.date(event.date) for event in two], fields

    @property
    def _group(self) -> dict[str, str]:
        return {"one": self._story.scene.one, "group": self._story.scene.many}


_GRAINS: dict[Ask, frozenset[Grain]] = {
    Ask.YEARS: frozenset((Grain.YEARS,)),
    Ask.MONTHS: frozenset((Grain.MONTHS,)),
    Ask.DAYS: frozenset((Grain.DAYS, Grain.SAME_YEAR)),
    Ask.LATER_YEARS: frozenset((Grain.BARE_YEARS,)),
    Ask.DATE: frozenset(Grain) - {Grain.BARE_YEARS},
}
"""Where each question on events can be asked; bare years are numbers and dates, so what is meant would be open."""
