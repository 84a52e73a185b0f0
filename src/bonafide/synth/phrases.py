"""How the benchmark asks: every aggregate and every operator in its own words, some kept for dev and test.

Each list of phrasings has a part for train and one phrasing each that only dev or only test uses. A
held-out phrasing puts words that train knows in a new order, or adds a word that train never saw.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bonafide.synth.domains import Domain, Field, Split
from bonafide.tasks.sql.query import Aggregate, Operator

HELD_OUT_SHARE = 0.3
"""How often a phrasing of a dev or test question is one that train does not have."""


@dataclass(frozen=True, slots=True)
class Phrasings:
    """Phrasings of one meaning: what train uses, and what dev or test use besides."""

    train: tuple[str, ...]
    dev: str
    test: str

    def choose(self, split: Split, chance: random.Random) -> str:
        """One phrasing of this split."""
        if split != "train" and chance.random() < HELD_OUT_SHARE:
            return self.dev if split == "dev" else self.test
        return chance.choice(self.train)


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition to be said: its column, its operator, and its value as written."""

    field: Field
    operator: Operator
    value: str


ASK: dict[Aggregate, Phrasings] = {
    Aggregate.NONE: Phrasings(
        (
            "what is the {select} of the {one}?",
            "which {select} belongs to the {one}?",
            "tell me the {select} of the {one}.",
            "what {select} is given for the {one}?",
            "for the {one}, what is the {select}?",
            "for the {one}, which {select} is listed?",
            "give the {select} for the {one}.",
            "what is listed as the {select} of the {one}?",
        ),
        dev="tell me which {select} is listed for the {one}.",
        test="for the {one}, tell me the {select}.",
    ),
    Aggregate.MAX: Phrasings(
        (
            "what is the highest {select} among {many}?",
            "what is the largest {select} of all {many}?",
            "among {many}, what is the maximum {select}?",
            "find the greatest {select} for {many}.",
            "which {select} is the highest among {many}?",
            "for {many}, what is the top {select}?",
            "how high does the {select} get for {many}?",
            "for {many}, give the largest {select}.",
        ),
        dev="of all {many}, which {select} is the greatest?",
        test="how high is the top {select} among {many}?",
    ),
    Aggregate.MIN: Phrasings(
        (
            "what is the lowest {select} among {many}?",
            "what is the smallest {select} of all {many}?",
            "among {many}, what is the minimum {select}?",
            "find the least {select} for {many}.",
            "which {select} is the lowest among {many}?",
            "for {many}, what is the bottom {select}?",
            "how low does the {select} get for {many}?",
            "for {many}, give the smallest {select}.",
        ),
        dev="of all {many}, which {select} is the least?",
        test="how low is the bottom {select} among {many}?",
    ),
    Aggregate.COUNT: Phrasings(
        (
            "how many {selects} are listed for {many}?",
            "what is the number of {selects} for {many}?",
            "for {many}, how many {selects} are there?",
            "count the {selects} of {many}.",
            "how many {selects} belong to {many}?",
            "for {many}, count the {selects}.",
            "find the number of {selects} given for {many}.",
        ),
        dev="what number of {selects} is listed for {many}?",
        test="among {many}, how many {selects} are given?",
    ),
    Aggregate.SUM: Phrasings(
        (
            "what is the total {select} of {many}?",
            "what is the sum of the {selects} of {many}?",
            "for {many}, what is the combined {select}?",
            "what total do the {selects} add up to for {many}?",
            "add up the {selects} of {many}.",
            "for {many}, what is the {select} in total?",
            "taken together, what is the overall {select} of {many}?",
            "for {many}, find the total {select}.",
        ),
        dev="in total, what is the {select} of {many}?",
        test="what is the combined total of the {selects} of {many}?",
    ),
    Aggregate.MEAN: Phrasings(
        (
            "what is the average {select} of {many}?",
            "what is the mean {select} of {many}?",
            "for {many}, what is the {select} on average?",
            "on average, what is the {select} of {many}?",
            "find the mean of the {selects} of {many}.",
            "for {many}, give the average {select}.",
            "averaged over {many}, what is the {select}?",
        ),
        dev="for {many}, what is the mean of the {selects}?",
        test="taking the mean over {many}, what is the {select}?",
    ),
}
LIST = Phrasings(
    (
        "what are the {selects} of {many}?",
        "which {selects} belong to {many}?",
        "list the {selects} of {many}.",
        "for {many}, name the {selects}.",
        "what {selects} are given for {many}?",
        "for {many}, what are the {selects}?",
    ),
    dev="name the {selects} of {many}.",
    test="tell me the {selects} of {many}.",
)
"""No aggregate over several rows."""

Style = Literal["predicate", "attribute"]
LEADS: dict[Style, tuple[str, ...]] = {
    "predicate": ("whose", "where the", "such that the"),
    "attribute": ("with", "having"),
}
PREDICATES: dict[Operator, Phrasings] = {
    Operator.EQUAL: Phrasings(
        (
            "{column} is {value}",
            "{column} equals {value}",
            "{column} is given as {value}",
            "{column} is listed as {value}",
            "{column} is recorded as {value}",
            "{column} happens to be {value}",
        ),
        dev="{column} is noted as {value}",
        test="{column} is shown as {value}",
    ),
    Operator.ABOVE: Phrasings(
        (
            "{column} is more than {value}",
            "{column} is above {value}",
            "{column} exceeds {value}",
            "{column} is greater than {value}",
            "{column} is over {value}",
            "{column} is higher than {value}",
        ),
        dev="{column} lies above {value}",
        test="{column} is beyond {value}",
    ),
    Operator.BELOW: Phrasings(
        (
            "{column} is less than {value}",
            "{column} is below {value}",
            "{column} is under {value}",
            "{column} is smaller than {value}",
            "{column} is lower than {value}",
            "{column} stays below {value}",
        ),
        dev="{column} lies below {value}",
        test="{column} stays under {value}",
    ),
}
ATTRIBUTES: dict[Operator, Phrasings] = {
    Operator.EQUAL: Phrasings(
        (
            "{a} {column} of {value}",
            "{a} {column} equal to {value}",
            "{a} {column} of exactly {value}",
            "{value} as the {column}",
            "{value} for the {column}",
            "{a} {column} given as {value}",
        ),
        dev="{a} {column} that equals {value}",
        test="{a} {column} recorded as {value}",
    ),
    Operator.ABOVE: Phrasings(
        (
            "{a} {column} above {value}",
            "{a} {column} of more than {value}",
            "{a} {column} greater than {value}",
            "{a} {column} over {value}",
            "{a} {column} higher than {value}",
            "{a} {column} exceeding {value}",
        ),
        dev="{a} {column} that exceeds {value}",
        test="{a} {column} beyond {value}",
    ),
    Operator.BELOW: Phrasings(
        (
            "{a} {column} below {value}",
            "{a} {column} of less than {value}",
            "{a} {column} under {value}",
            "{a} {column} smaller than {value}",
            "{a} {column} lower than {value}",
            "{a} {column} of under {value}",
        ),
        dev="{a} {column} that is less than {value}",
        test="{a} {column} not reaching {value}",
    ),
}
NAMED = Phrasings(
    (
        "{column} {value}",
        "the {column} {value}",
        "{value} as the {column}",
        "{value} for the {column}",
        "{value} as {column}",
        "{value} listed as the {column}",
    ),
    dev="{value} given as the {column}",
    test="{value} recorded as the {column}",
)
"""A text as an attribute: *with city Oslo*, *with Oslo as the city*."""


def ask(
    aggregate: Aggregate,
    select: Field,
    clauses: Sequence[Clause],
    domain: Domain,
    several: bool,
    split: Split,
    chance: random.Random,
) -> str:
    """The question for a query; ``several`` says that more than one row is selected."""
    phrasings = LIST if aggregate is Aggregate.NONE and several else ASK[aggregate]
    restriction = _restriction(clauses, split, chance)
    question = phrasings.choose(split, chance).format(
        select=select.name.lower(),
        selects=select.plural,
        one=f"{domain.one} {restriction}",
        many=f"{domain.many} {restriction}",
    )
    return question[0].upper() + question[1:]


def _restriction(clauses: Sequence[Clause], split: Split, chance: random.Random) -> str:
    """*placed by Ada Lund with a price above 40 and a weight of 3*: one style a question."""
    said: list[str] = []
    rest: list[Clause] = []
    for clause in chance.sample(clauses, len(clauses)):
        if clause.field.said and clause.operator is Operator.EQUAL and chance.random() < 0.5:
            said.append(clause.field.said.format(value=clause.value))
        else:
            rest.append(clause)
    style: Style = "predicate" if chance.random() < 0.5 else "attribute"
    lead = chance.choice(LEADS[style])
    # "whose city is Oslo and whose price is 3", but "with a price of 3 and a weight of 4"
    again = "whose " if lead == "whose" else "the " if style == "predicate" else ""
    first, *others = [_clause(clause, style, split, chance) for clause in rest] or [""]
    words = [_listed(said)] if said else []
    if rest:
        words.append(_listed([f"{lead} {first}", *(again + other for other in others)]))
    return " ".join(words)


def _listed(parts: Sequence[str]) -> str:
    """*a, b and c*."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _clause(clause: Clause, style: Style, split: Split, chance: random.Random) -> str:
    if style == "predicate":
        phrasings = PREDICATES[clause.operator]
    else:
        phrasings = NAMED if clause.field.texts else ATTRIBUTES[clause.operator]
    column = clause.field.name.lower()
    article = "an" if column[0] in "aeiou" else "a"
    return phrasings.choose(split, chance).format(column=column, value=clause.value, a=article)
