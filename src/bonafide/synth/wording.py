"""How questions on synthetic passages are asked: each way of asking has its own words, some kept for dev and test.

A way of asking belongs to one operator, and no two operators are asked in the same words; so the words of a question
say which operator is meant, and the names in it say which operands.
"""

from __future__ import annotations

from enum import StrEnum

from bonafide.synth.phrases import Phrasings
from bonafide.tasks.discrete.program import Operator


class Ask(StrEnum):
    """The ways of asking."""

    VALUE = "value"
    SHARE = "share"
    ADD = "add"
    SUBTRACT = "subtract"
    REST = "rest"
    OTHER_SHARE = "other share"
    LATER_YEARS = "later years"
    ADD_ADD = "add three"
    ADD_SUBTRACT = "together more"
    SUBTRACT_SUBTRACT = "rest of two"
    MAX = "max"
    MIN = "min"
    COUNT = "count"
    WHO = "who"
    WHO_ALL = "who all"
    MOST = "most"
    FEWEST = "fewest"
    YEARS = "years"
    MONTHS = "months"
    DAYS = "days"
    DATE = "date"


OPERATORS: dict[Ask, Operator] = {
    Ask.VALUE: Operator.VALUE,
    Ask.SHARE: Operator.VALUE,
    Ask.ADD: Operator.ADD,
    Ask.SUBTRACT: Operator.SUBTRACT,
    Ask.REST: Operator.SUBTRACT,
    Ask.OTHER_SHARE: Operator.SUBTRACT,
    Ask.LATER_YEARS: Operator.SUBTRACT,
    Ask.ADD_ADD: Operator.ADD_ADD,
    Ask.ADD_SUBTRACT: Operator.ADD_SUBTRACT,
    Ask.SUBTRACT_SUBTRACT: Operator.SUBTRACT_SUBTRACT,
    Ask.MAX: Operator.MAX,
    Ask.MIN: Operator.MIN,
    Ask.COUNT: Operator.COUNT,
    Ask.WHO: Operator.SPANS,
    Ask.WHO_ALL: Operator.SPANS,
    Ask.MOST: Operator.ARGMAX,
    Ask.FEWEST: Operator.ARGMIN,
    Ask.YEARS: Operator.YEARS,
    Ask.MONTHS: Operator.MONTHS,
    Ask.DAYS: Operator.DAYS,
    Ask.DATE: Operator.DATE,
}
"""What the gold program of each way of asking does."""

WORDING: dict[Ask, Phrasings] = {
    Ask.VALUE: Phrasings(
        (
            "how many {many} did {a} {base}?",
            "what number of {many} did {a} {base}?",
            "how many {many} are given for {a}?",
            "what is the number of {many} that {a} {past}?",
            "for {a}, how many {many} are given?",
            "{a} {past} how many {many}?",
        ),
        dev="for {a}, what is the number of {many}?",
        test="what number of {many} is given for {a}?",
    ),
    Ask.SHARE: Phrasings(
        (
            "what percent of the {many} {past}?",
            "which percentage of the {many} {past}?",
            "how many percent of the {many} {past}?",
            "of the {many}, what percent {past}?",
            "what is the percentage of {many} that {past}?",
            "of the {many}, how many percent {past}?",
        ),
        dev="of the {many}, which percentage {past}?",
        test="how large is the percentage of {many} that {past}?",
    ),
    Ask.ADD: Phrasings(
        (
            "how many {many} did {a} and {b} {base} in total?",
            "how many {many} did {a} and {b} {base} together?",
            "in total, how many {many} did {a} and {b} {base}?",
            "what is the total number of {many} that {a} and {b} {past}?",
            "what is the combined number of {many} of {a} and {b}?",
            "taken together, how many {many} did {a} and {b} {base}?",
        ),
        dev="what is the combined total of the {many} of {a} and {b}?",
        test="how many {many} in total did {a} and {b} {base} together?",
    ),
    Ask.SUBTRACT: Phrasings(
        (
            "how many more {many} did {a} {base} than {b}?",
            "how many fewer {many} did {b} {base} than {a}?",
            "by how many {many} was {a} ahead of {b}?",
            "what is the difference in {many} between {a} and {b}?",
            "compared with {b}, how many more {many} did {a} {base}?",
            "by how many {many} did {b} stay behind {a}?",
        ),
        dev="compared with {a}, how many fewer {many} did {b} {base}?",
        test="how large is the difference between {a} and {b} in {many}?",
    ),
    Ask.REST: Phrasings(
        (
            "apart from {a}, how many {many} were recorded?",
            "how many of the recorded {many} did {a} not {base}?",
            "leaving out {a}, how many {many} were recorded?",
            "without {a}, how many {many} were recorded?",
            "how many {many} were recorded for all others than {a}?",
            "not counting {a}, how many {many} were recorded?",
        ),
        dev="how many {many} were recorded, not counting {a}?",
        test="how many {many} were recorded, leaving out {a}?",
    ),
    Ask.OTHER_SHARE: Phrasings(
        (
            "what percent of the {many} did not {base}?",
            "which percentage of the {many} did not {base}?",
            "how many percent of the {many} did not {base}?",
            "of the {many}, what percent did not {base}?",
            "what is the percentage of {many} that did not {base}?",
            "of the {many}, how many percent did not {base}?",
        ),
        dev="of the {many}, which percentage did not {base}?",
        test="how large is the percentage of {many} that did not {base}?",
    ),
    Ask.LATER_YEARS: Phrasings(
        (
            "how many years after the {a} did the {b} come?",
            "how many years before the {b} did the {a} come?",
            "how many years later than the {a} was the {b}?",
            "the {b} was how many years after the {a}?",
            "how many years lie between the {a} and the {b}?",
            "how many years earlier than the {b} was the {a}?",
        ),
        dev="the {a} was how many years before the {b}?",
        test="by how many years was the {a} earlier than the {b}?",
    ),
    Ask.ADD_ADD: Phrasings(
        (
            "how many {many} did {a}, {b} and {c} {base} in total?",
            "how many {many} did {a}, {b} and {c} {base} together?",
            "in total, how many {many} did {a}, {b} and {c} {base}?",
            "what is the total number of {many} that {a}, {b} and {c} {past}?",
            "what is the combined number of {many} of {a}, {b} and {c}?",
            "taken together, how many {many} did {a}, {b} and {c} {base}?",
        ),
        dev="what is the combined total of the {many} of {a}, {b} and {c}?",
        test="how many {many} in total did {a}, {b} and {c} {base} together?",
    ),
    Ask.ADD_SUBTRACT: Phrasings(
        (
            "how many more {many} did {a} and {b} together {base} than {c}?",
            "together, how many more {many} did {a} and {b} {base} than {c}?",
            "by how many {many} were {a} and {b} together ahead of {c}?",
            "compared with {c}, how many more {many} did {a} and {b} together {base}?",
            "taken together, by how many {many} were {a} and {b} ahead of {c}?",
            "how many fewer {many} did {c} {base} than {a} and {b} together?",
        ),
        dev="by how many {many} did {c} stay behind {a} and {b} together?",
        test="compared with {a} and {b} together, how many fewer {many} did {c} {base}?",
    ),
    Ask.SUBTRACT_SUBTRACT: Phrasings(
        (
            "apart from {a} and {b}, how many {many} were recorded?",
            "how many of the recorded {many} did {a} and {b} not {base}?",
            "leaving out {a} and {b}, how many {many} were recorded?",
            "without {a} and {b}, how many {many} were recorded?",
            "how many {many} were recorded for all others than {a} and {b}?",
            "not counting {a} and {b}, how many {many} were recorded?",
        ),
        dev="how many {many} were recorded, not counting {a} and {b}?",
        test="how many {many} were recorded, leaving out {a} and {b}?",
    ),
    Ask.MAX: Phrasings(
        (
            "what is the highest number of {many} that a {one} {past}?",
            "what is the largest number of {many} of any {one}?",
            "how many {many} did the {one} at the top {base}?",
            "what was the greatest number of {many} for a {one}?",
            "what is the maximum of {many} that any {one} {past}?",
            "among all {group}, what is the highest number of {many}?",
        ),
        dev="among all {group}, what is the maximum of {many}?",
        test="what is the greatest number of {many} among all {group}?",
    ),
    Ask.MIN: Phrasings(
        (
            "what is the lowest number of {many} that a {one} {past}?",
            "what is the smallest number of {many} of any {one}?",
            "how many {many} did the {one} with the least {base}?",
            "what was the least number of {many} for a {one}?",
            "what is the minimum of {many} that any {one} {past}?",
            "among all {group}, what is the lowest number of {many}?",
        ),
        dev="among all {group}, what is the minimum of {many}?",
        test="what is the least number of {many} among all {group}?",
    ),
    Ask.COUNT: Phrasings(
        (
            "how many {things} did the {group} {base}?",
            "how many {things} are mentioned?",
            "how many different {things} did the {group} {base}?",
            "the {group} {past} how many {things}?",
            "of how many {things} do we read?",
            "how many {things} are mentioned for the {group}?",
        ),
        dev="of how many {things} for the {group} do we read?",
        test="how many different {things} are mentioned?",
    ),
    Ask.WHO: Phrasings(
        (
            "which {one} {past} {number} {many}?",
            "what {one} {past} {number} {many}?",
            "which of the {group} {past} {number} {many}?",
            "name the {one} that {past} {number} {many}.",
            "exactly {number} {many} are given for which {one}?",
            "for which {one} are {number} {many} given?",
        ),
        dev="name the {one} for which {number} {many} are given.",
        test="what is the name of the {one} that {past} {number} {many}?",
    ),
    Ask.WHO_ALL: Phrasings(
        (
            "which {group} {past} a {thing}?",
            "what {group} {past} a {thing}?",
            "name the {group} that {past} a {thing}.",
            "a {thing} is mentioned for which {group}?",
            "list the {group} that {past} a {thing}.",
            "for which {group} is a {thing} mentioned?",
        ),
        dev="list all {group} for which a {thing} is mentioned.",
        test="what are the names of the {group} that {past} a {thing}?",
    ),
    Ask.MOST: Phrasings(
        (
            "which {one} {past} the most {many}?",
            "what {one} {past} the most {many}?",
            "who among the {group} {past} the most {many}?",
            "which {one} is at the top by {many}?",
            "which of the {group} {past} more {many} than all others?",
            "name the {one} that {past} the most {many}.",
        ),
        dev="name the {one} that {past} more {many} than all others.",
        test="by {many}, who among the {group} is at the top?",
    ),
    Ask.FEWEST: Phrasings(
        (
            "which {one} {past} the fewest {many}?",
            "what {one} {past} the fewest {many}?",
            "who among the {group} {past} the fewest {many}?",
            "which {one} is lowest by {many}?",
            "which of the {group} {past} fewer {many} than all others?",
            "name the {one} that {past} the fewest {many}.",
        ),
        dev="name the {one} that {past} fewer {many} than all others.",
        test="by {many}, who among the {group} is lowest?",
    ),
    Ask.YEARS: Phrasings(
        (
            "how many full years passed from the {a} to the {b}?",
            "how many whole years after the {a} did the {b} take place?",
            "how many full years went by between the {a} and the {b}?",
            "how many whole years before the {b} did the {a} take place?",
            "from the {a} to the {b}, how many whole years passed?",
            "the {b} took place how many full years after the {a}?",
        ),
        dev="from the {a} to the {b}, how many full years went by?",
        test="the {a} took place how many whole years before the {b}?",
    ),
    Ask.MONTHS: Phrasings(
        (
            "how many months passed from the {a} to the {b}?",
            "how many months after the {a} did the {b} take place?",
            "how many months went by between the {a} and the {b}?",
            "how many months before the {b} did the {a} take place?",
            "from the {a} to the {b}, how many months passed?",
            "the {b} took place how many months after the {a}?",
        ),
        dev="from the {a} to the {b}, how many months went by?",
        test="the {a} took place how many months before the {b}?",
    ),
    Ask.DAYS: Phrasings(
        (
            "how many days passed from the {a} to the {b}?",
            "how many days after the {a} did the {b} take place?",
            "how many days went by between the {a} and the {b}?",
            "how many days before the {b} did the {a} take place?",
            "from the {a} to the {b}, how many days passed?",
            "the {b} took place how many days after the {a}?",
        ),
        dev="from the {a} to the {b}, how many days went by?",
        test="the {a} took place how many days before the {b}?",
    ),
    Ask.DATE: Phrasings(
        (
            "when did the {a} take place?",
            "on what date did the {a} take place?",
            "what was the date of the {a}?",
            "what date is given for the {a}?",
            "when was the {a}?",
            "the {a} took place when?",
        ),
        dev="on what date was the {a}?",
        test="which date is given for the {a}?",
    ),
}
"""The phrasings of each way of asking. ``{a}`` is the larger or the earlier of two."""
