"""How short question, solution and answer can be told together: a figure of predicted solutions that needs no gold.

    L(q, z, a) = −log P(q | z) + price · operations(z) + [z does not return a] · price of an answer

Execution accuracy cannot see a wrong aggregate, and a run's own reconstructor has learned from that run's choices, so
its likelihoods compare nothing between runs. Here every run is held to the same small model of words, fitted to the
run's own predictions and tried on questions it was not fitted to:

    P(w | z) = c · [w is copied from z] + (1 − c) · Σ_{o ∈ z} share(o) · P(w | o)

where o are the operation words of the solution's rendering (select, max, where, =), and what can be copied are its
literals and the names it points at. Where a solution leaves out a condition, its words are not copied; where the
operations do not go with the words of the questions, P(w | o) explains nothing. What this alone cannot see is a name
that was exchanged (MAX wherever no aggregate is meant): it explains as much. The price breaks the tie for less. An
answer that the solution returns need not be told; any other costs as much as a rare word, and so does one for which no
solution was predicted, whose question is told by common words alone.

The shares and P(w | o) are found by EM, and the likelihood of a fold comes from the other folds.

A place in a text has no operations; what is asked shows in the words around it. There P(q | z) is that of ``words.py``,
which is fitted to nothing but how often the questions use each word, and the price is the same for every place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bonafide.learn.words import WordModel, words_in
from bonafide.rendering import Literal, RenderedSet, SpanReference

PRICE = 2.0
"""Nats for each operation."""
ANSWER = 10.0
"""Nats for an answer that the solution does not return: one of some 20,000."""
_FOLDS = 5
_ROUNDS = 8
_SMOOTHING = 2.0
_NOWHERE = RenderedSet("", ((),), np.zeros((1, 1), np.int32))

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Described:
    """A question, and the solution that was predicted for it; without one, all but the question is empty."""

    question: tuple[str, ...]
    operations: tuple[str, ...]  # operation words of the rendering
    copied: frozenset[str]  # words that can be copied
    size: int  # operations that are paid for
    right: bool = True  # whether it returns the answer


@dataclass(frozen=True, slots=True)
class Placed:
    """A question, and the place in a text that was predicted for it, if any."""

    question: str
    shown: RenderedSet | None
    right: bool = True

    @property
    def size(self) -> int:
        """It is one operation."""
        return int(self.shown is not None)


def described(question: str, rendered: RenderedSet, size: int, right: bool = True) -> Described:
    """From the rendering of one solution."""
    operations, copied = [], set()
    for piece in rendered[0]:
        if isinstance(piece, SpanReference):
            copied.update(words_in(rendered.context[piece.start : piece.end]))
        elif isinstance(piece, Literal):
            copied.update(words_in(piece.text))
        else:
            operations.append(piece.text)
    return Described(tuple(words_in(question)), tuple(dict.fromkeys(operations)), frozenset(copied), size, right)


def unanswered(question: str) -> Described:
    """Where nothing was predicted: there is nothing to copy and nothing to pay for, and the answer has to be told."""
    return Described(tuple(words_in(question)), (), frozenset(), 0, right=False)


def description_length(predictions: Sequence[Described | Placed], price: float = PRICE) -> float:
    """The mean L(q, z, a) in nats; runs with predictions for the same questions can be compared by it."""
    if not predictions:
        return 0.0
    placed = [each for each in predictions if isinstance(each, Placed)]
    counted = [each for each in predictions if isinstance(each, Described)]
    questions = placed_log_probs(placed) if placed else question_log_probs(counted)
    solutions = price * np.mean([each.size for each in predictions])
    answers = ANSWER * np.mean([not each.right for each in predictions])
    return float(-questions.mean() + solutions + answers)


def placed_log_probs(predictions: Sequence[Placed]) -> Floats:
    """(predictions,): log P(q | z); where no place was predicted, no word is told by one."""
    words = WordModel(each.question for each in predictions)
    return np.array(
        [words.log_prob(each.question, _NOWHERE if each.shown is None else each.shown)[0] for each in predictions]
    )


def question_log_probs(predictions: Sequence[Described]) -> Floats:
    """(predictions,): log P(q | z), each by a model that was fitted to the other folds."""
    words = _numbered(word for each in predictions for word in each.question)
    operations = _numbered(each for one in predictions for each in one.operations)
    asked = np.full((len(predictions), max(1, *(len(each.question) for each in predictions))), -1)
    done = np.full((len(predictions), max(1, *(len(each.operations) for each in predictions))), -1)
    copying = np.zeros(asked.shape)
    for row, each in enumerate(predictions):
        asked[row, : len(each.question)] = [words[word] for word in each.question]
        done[row, : len(each.operations)] = [operations[word] for word in each.operations]
        there = [word in each.copied for word in each.question]
        copying[row, : len(there)] = np.array(there) / max(1, len(each.copied))
    fold = np.arange(len(predictions)) % min(_FOLDS, max(2, len(predictions)))
    scores = np.zeros(len(predictions))
    for number in np.unique(fold):
        inside = fold == number
        fitted = _Words.fit(asked[~inside], done[~inside], copying[~inside], len(words) or 1, len(operations))
        scores[inside] = fitted.log_prob(asked[inside], done[inside], copying[inside])
    return scores


@dataclass(frozen=True, slots=True)
class _Words:
    """P(w | z); the last operation is none of them, and goes with every solution."""

    of: Floats  # (operations + 1, words): P(w | o)
    share: Floats  # (operations + 1,)
    copies: float

    @classmethod
    def fit(
        cls,
        asked: npt.NDArray[np.int64],
        done: npt.NDArray[np.int64],
        copying: Floats,
        words: int,
        operations: int,
    ) -> _Words:
        there = asked >= 0
        counts = np.bincount(asked[there], minlength=words) + 1.0
        common = counts / counts.sum()
        made = cls(np.tile(common, (operations + 1, 1)), np.ones(operations + 1), 0.5)
        for _ in range(_ROUNDS):
            by_operation, copied = made._parts(asked, done, copying)
            total = by_operation.sum(axis=1) + copied
            by_operation = np.where(there[:, None], by_operation / total[:, None], 0.0)
            owner = np.broadcast_to(_with_none(done, operations)[..., None], by_operation.shape)
            word = np.broadcast_to(asked[:, None], by_operation.shape)
            counted = np.zeros((operations + 1, words))
            np.add.at(counted, (owner, word), by_operation)
            mass = counted.sum(axis=1)
            present = np.append(np.bincount(done[done >= 0], minlength=operations), len(done))
            made = cls(
                (counted + _SMOOTHING * common) / (mass + _SMOOTHING)[:, None],
                (mass + 1e-3) / np.maximum(present, 1),
                float(np.where(there, copied / total, 0.0).sum() / max(1, there.sum())),
            )
        return made

    def _parts(
        self, asked: npt.NDArray[np.int64], done: npt.NDArray[np.int64], copying: Floats
    ) -> tuple[Floats, Floats]:
        """(questions, operations, words) and (questions, words): what each operation, and copying, gives a word."""
        places = _with_none(done, len(self.share) - 1)
        shares = np.where(np.concatenate([done >= 0, np.ones((len(done), 1), bool)], axis=1), self.share[places], 0.0)
        shares = (1 - self.copies) * shares / shares.sum(axis=1, keepdims=True)
        return shares[..., None] * self.of[places[..., None], asked[:, None]], self.copies * copying

    def log_prob(self, asked: npt.NDArray[np.int64], done: npt.NDArray[np.int64], copying: Floats) -> Floats:
        """(questions,)."""
        by_operation, copied = self._parts(asked, done, copying)
        logs: Floats = np.where(asked >= 0, np.log(by_operation.sum(axis=1) + copied), 0.0).sum(axis=1)
        return logs


def _with_none(done: npt.NDArray[np.int64], last: int) -> npt.NDArray[np.int64]:
    return np.concatenate([np.where(done >= 0, done, last), np.full((len(done), 1), last)], axis=1)


def _numbered(found: Iterable[str]) -> dict[str, int]:
    return {word: place for place, word in enumerate(dict.fromkeys(found))}
