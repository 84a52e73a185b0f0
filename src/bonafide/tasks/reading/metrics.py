"""Whether an answer is right, and whether it is right for the right reason.

Exact match and F1 are SQuAD's: lower case, ASCII punctuation and the articles removed, white space squeezed; F1 is the
overlap of the words as bags; of several accepted answers the best counts. Paragraph and mention accuracy hold the
predicted mention itself to gold, where there is gold.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bonafide.errors import BonafideError
from bonafide.tasks.reading.span import GoldSpans, Mention

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(answer: str) -> str:
    """An answer as SQuAD's evaluation compares it."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Iterable[str]) -> float:
    """1 if the answer is one of the accepted ones, else 0; 0 where none is accepted."""
    said = normalised(answer)
    return float(any(said == normalised(each) for each in accepted))


def f1(answer: str, accepted: Iterable[str]) -> float:
    """The best overlap of words with an accepted answer; 0 where none is accepted.

    Of two answers without a word left, the overlap is 1: both say nothing.
    """
    return max((_overlap(normalised(answer).split(), normalised(each).split()) for each in accepted), default=0.0)


def _overlap(said: list[str], wanted: list[str]) -> float:
    if not said or not wanted:
        return float(said == wanted)
    common = sum((Counter(said) & Counter(wanted)).values())
    return 2 * common / (len(said) + len(wanted))


def right_paragraph(mention: Mention, gold: GoldSpans) -> bool:
    """Whether the mention stands in the gold paragraph."""
    return mention.paragraph == gold.paragraph


def right_mention(mention: Mention, gold: GoldSpans) -> bool | None:
    """Whether the mention shares a character with a gold one; None where only the paragraph is known."""
    return any(mention.overlaps(each) for each in gold.mentions) if gold.mentions else None


def rouge_l(answer: str, accepted: Sequence[str]) -> float:
    """The best ROUGE-L F-measure against an accepted answer, for free-form answers; needs ``bonafide[rouge]``."""
    try:
        from rouge_score import rouge_scorer
    except ImportError:
        raise BonafideError("ROUGE-L needs rouge-score: install it with `pip install bonafide[rouge]`.") from None
    scorer: Any = rouge_scorer.RougeScorer(["rougeL"])
    return max((float(scorer.score(each, answer)["rougeL"].fmeasure) for each in accepted), default=0.0)


@dataclass(frozen=True, slots=True)
class ReadingScores:
    """Means over examples. ``mention`` is over the ``known`` examples whose gold says where in the paragraph."""

    examples: int
    exact_match: float
    f1: float
    paragraph: float | None = None
    mention: float | None = None
    known: int = 0
    rouge_l: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted answer, the mention it was read from, and what is accepted; None: nothing was predicted."""

    answer: str
    mention: Mention | None
    accepted: tuple[str, ...]
    gold: GoldSpans | None = None


def score(predictions: Sequence[Prediction], rouge: bool = False) -> ReadingScores:
    """The scores of some predictions; an example without a prediction counts as wrong."""
    if not predictions:
        raise BonafideError("There are no predictions to score.")
    golden = [(each.mention, each.gold) for each in predictions if each.gold is not None]
    known = [(mention, gold) for mention, gold in golden if gold.mentions]
    return ReadingScores(
        len(predictions),
        _mean([exact_match(each.answer, each.accepted) for each in predictions]),
        _mean([f1(each.answer, each.accepted) for each in predictions]),
        _mean([mention is not None and right_paragraph(mention, gold) for mention, gold in golden]) if golden else None,
        _mean([mention is not None and bool(right_mention(mention, gold)) for mention, gold in known])
        if known
        else None,
        len(known),
        _mean([rouge_l(each.answer, each.accepted) for each in predictions]) if rouge else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
