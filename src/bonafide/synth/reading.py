"""Synthetic documents with known gold mentions, in our own words, the same for the same seed.

A document tells of a few things of one topic: who steers the Quiet Lantern, where it was built. Each question asks
for one of these facts, and the answer's string is planted in ``decoys`` other places that do not answer it:

1. the register, a paragraph that lists names and values and stands at the beginning or the end of the document;
2. sentences that tell another relation to the same value, half of them of the thing asked about ("the Quiet Lantern was
   bought by Ada Lund" where it is asked who steers it), half of other things.

So a set has ``decoys + 1`` mentions, and all reach the answer. The genuine one is identifiable: its sentence names the
thing and says the relation, mostly in words of the question, and no decoy does both. But it is mostly not the first,
and who trains on its own favourite can settle for the register: it holds every answer, always in the same place and in
the same surroundings, and says nothing of which one is asked for.

Dev and test have documents of their own, names and values that train never shows, and phrasings that train never
uses (``topics.py``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bonafide.documents import Document, document_to_json
from bonafide.errors import BonafideError
from bonafide.examples import Example, Gold, example_to_json, write_jsonl_files
from bonafide.synth.domains import SPLITS, Split, values_of
from bonafide.synth.topics import ASK, REGISTER, REMARKS, TELL, TOPICS, Relation, Topic

PLAIN = "plain"
"""A folder like dev, beside it, whose documents have no decoys: what was learned of decoys is of no use there."""
_OTHER_FACTS = 1
"""For each question, a fact that nobody asks for and whose value stands nowhere else."""


@dataclass(frozen=True, slots=True)
class ReadingBenchmark:
    """Where the files of a written benchmark are, and where its solutions belong."""

    examples: Path
    documents: Path
    gold: Path
    store: Path


def generate(
    documents: int,
    questions: int,
    seed: int,
    decoys: int = 3,
    split: Split = "train",
    topics: Sequence[str] = tuple(TOPICS),
) -> tuple[list[Document], list[tuple[Example, Gold]]]:
    """``documents`` documents with ``questions`` questions each; the topics take turns."""
    if split not in SPLITS:
        raise BonafideError(f"split={split!r}: expected one of {', '.join(SPLITS)}.")
    if unknown := set(topics) - set(TOPICS):
        raise BonafideError(f"topics={sorted(unknown)}: expected some of {', '.join(TOPICS)}.")
    if not 1 <= questions <= 12 or not 0 <= decoys <= 8:
        raise BonafideError(f"Expected 1 to 12 questions and 0 to 8 decoys; found {questions} and {decoys}.")
    chance = random.Random(f"bonafide/reading/{seed}/{decoys}/{split}")  # noqa: S311 (data, not a secret)
    made: list[Document] = []
    pairs: list[tuple[Example, Gold]] = []
    for number in range(documents):
        name = topics[number % len(topics)]
        account = _Account(f"{split}-{name}-{number + 1}", TOPICS[name], split, chance)
        document, asked = account.written(questions, decoys)
        made.append(document)
        pairs += asked
    return made, pairs


def write_reading_benchmark(
    out: Path,
    seed: int,
    documents: int = 60,
    questions: int = 8,
    decoys: int = 3,
    split: Split = "train",
    topics: Sequence[str] = tuple(TOPICS),
) -> ReadingBenchmark:
    """Write ``examples.jsonl``, ``documents.jsonl`` and ``gold.jsonl`` under ``out``."""
    names = ("examples.jsonl", "documents.jsonl", "gold.jsonl", "solutions")
    files = ReadingBenchmark(*(out / name for name in names))
    if files.store.exists():
        raise BonafideError(f"{files.store} is already there. Delete {out}, or name another folder.")
    made, pairs = generate(documents, questions, seed, decoys, split, topics)
    write_jsonl_files(
        {
            files.documents: map(document_to_json, made),
            files.gold: ({"id": gold.id, "solution": gold.solution} for _, gold in pairs),
            files.examples: (example_to_json(example) for example, _ in pairs),
        }
    )
    return files


@dataclass(frozen=True, slots=True)
class _Fact:
    """Something told once; ``asked`` is the number of the question it answers, if it answers one."""

    thing: str
    relation: Relation
    value: str
    asked: int | None = None


class _Account:
    """One document, and the questions asked about it."""

    def __init__(self, name: str, topic: Topic, split: Split, chance: random.Random) -> None:
        self._name, self._topic, self._split, self._chance = name, topic, split, chance

    def written(self, questions: int, decoys: int) -> tuple[Document, list[tuple[Example, Gold]]]:
        """The document, and each question with its gold."""
        facts, register = self._facts(questions, decoys)
        sentences = [(self._told(fact), fact) for fact in facts]
        paragraphs = self._paragraphs(sentences)
        if register:
            listed = ", ".join(register[:-1]) + f" and {register[-1]}" if len(register) > 1 else register[0]
            line = REGISTER.choose(self._split, self._chance).format(list=listed)
            paragraphs.insert(0 if self._chance.random() < 0.5 else len(paragraphs), [(line, None)])
        pairs = []
        for place, paragraph in enumerate(paragraphs):
            start = 0
            for sentence, fact in paragraph:
                if fact is not None and fact.asked is not None:
                    span = {"text": fact.value, "start": start + sentence.index(fact.value)}
                    pairs.append((fact, {"paragraph": place, "spans": [span]}))
                start += len(sentence) + 1
        document = Document(self._name, None, tuple(" ".join(line for line, _ in each) for each in paragraphs))
        pairs.sort(key=lambda pair: pair[0].asked or 0)
        return document, [self._pair(fact, solution) for fact, solution in pairs]

    def _facts(self, questions: int, decoys: int) -> tuple[list[_Fact], list[str]]:
        """What the document tells, in any order, and what its register lists."""
        chance, relations = self._chance, self._topic.relations
        kinds = list(dict.fromkeys(relation.kind for relation in relations))
        chance.shuffle(kinds)
        pools = {kind: values_of(kind.values, self._split) for kind in kinds}
        values = {kind: chance.sample(pool, len(pool)) for kind, pool in pools.items()}
        # Questions take turns with the kinds; each kind needs room for its decoys, which have other relations.
        turns = -(-questions // len(kinds)) * max(1, decoys)
        rooms = [sum(each.kind is kind for each in relations) - 1 for kind in kinds]
        things = chance.sample(values_of(self._topic.names, self._split), 2 + -(-turns // min(rooms)))
        free = [(thing, relation) for thing in things for relation in relations]
        chance.shuffle(free)
        facts: list[_Fact] = []
        register: list[str] = []
        for number in range(questions):
            kind = kinds[number % len(kinds)]
            thing, relation = next(each for each in free if each[1].kind is kind)
            free.remove((thing, relation))
            value = values[kind].pop()
            facts.append(_Fact(thing, relation, value, number))
            if decoys:
                register.append(value)
            for decoy in range(decoys - 1):
                slot = self._decoy(free, thing, relation, same=decoy % 2 == 0)
                free.remove(slot)
                facts.append(_Fact(*slot, value))
        for thing, relation in free[: _OTHER_FACTS * questions]:
            if values[relation.kind]:
                facts.append(_Fact(thing, relation, values[relation.kind].pop()))
        chance.shuffle(register)
        return chance.sample(facts, len(facts)), register

    def _decoy(
        self, free: Sequence[tuple[str, Relation]], thing: str, relation: Relation, same: bool
    ) -> tuple[str, Relation]:
        """Another relation to this kind of value: of the same thing, if wanted and to be had, else of another."""
        fitting = [each for each in free if each[1].kind is relation.kind and each[1] is not relation]
        preferred = [each for each in fitting if (each[0] == thing) == same]
        return self._chance.choice(preferred or fitting)

    def _paragraphs(self, sentences: list[tuple[str, _Fact]]) -> list[list[tuple[str, _Fact | None]]]:
        """Four to six sentences each, some of them remarks."""
        chance = self._chance
        paragraphs: list[list[tuple[str, _Fact | None]]] = []
        start = 0
        while start < len(sentences):
            size = chance.randint(4, 6)
            paragraph: list[tuple[str, _Fact | None]] = list(sentences[start : start + size])
            if chance.random() < 0.5:
                paragraph.insert(chance.randint(0, len(paragraph)), (chance.choice(REMARKS), None))
            paragraphs.append(paragraph)
            start += size
        return paragraphs

    def _told(self, fact: _Fact) -> str:
        relation = fact.relation
        text = TELL.choose(self._split, self._chance).format(
            role=relation.role, verb=relation.verb, thing=fact.thing, value=fact.value
        )
        return text[0].upper() + text[1:] if not text.startswith(fact.value) else text

    def _pair(self, fact: _Fact, solution: dict[str, object]) -> tuple[Example, Gold]:
        relation = fact.relation
        name = f"{self._name}-q{(fact.asked or 0) + 1}"
        question = ASK.choose(self._split, self._chance).format(
            asks=relation.kind.asks, noun=relation.kind.noun, role=relation.role, verb=relation.verb, thing=fact.thing
        )
        return (
            Example(name, question[0].upper() + question[1:], self._name, (fact.value,)),
            Gold(name, dict(solution)),
        )
