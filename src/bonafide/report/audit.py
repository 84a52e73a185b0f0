"""Audit predictions: how often a right answer has a wrong solution, of which kinds, and which labels look wrong.

With gold the share of spurious solutions among right answers is counted. Without, it is *estimated* by a
reconstructor: of the solutions that reach the answer, how much of P_φ(question | solution), normalised over the set,
goes to the predicted one (:func:`support`), and how far is it ahead of its best rival (:func:`margin`). An estimate is
only as good as its reconstructor; judgements of people calibrate it (:func:`calibrate`).

The functions on arrays come first and know nothing of tasks; scores are log P_φ(question | solution), one a solution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped]

from bonafide.errors import BonafideError
from bonafide.evaluate.sql import Accuracy
from bonafide.examples import read_gold
from bonafide.learn.learnable import learnable
from bonafide.report.calibration import Calibration, calibrate, calibrated_interval
from bonafide.report.explained import Explainer
from bonafide.report.judging import Judgements
from bonafide.report.predicted import Asked, Predicted, asked_of_store, read_predicted
from bonafide.report.spurious import kinds_of
from bonafide.report.statistics import Interval, bootstrap_interval, wilson
from bonafide.solutions import read_manifest
from bonafide.tasks.discrete.task import language_of
from bonafide.tasks.reading.span import GoldSpans

Scores = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Judged = tuple[list[float], list[bool]]  # margins, and whether a person finds the solution right


def spurious(right: npt.ArrayLike, genuine: npt.ArrayLike) -> Mask:
    """(examples,): the answer is right and the solution is not."""
    answers, solutions = np.asarray(right, dtype=bool), np.asarray(genuine, dtype=bool)
    if answers.shape != solutions.shape:
        raise BonafideError(f"Expected one answer a solution, found the shapes {answers.shape} and {solutions.shape}.")
    return np.asarray(answers & ~solutions, dtype=np.bool_)


def support(scores: npt.ArrayLike, place: int) -> float:
    """The share of the set's probability that goes to the solution at ``place``; 1 in a set of one."""
    return float(special.softmax(np.asarray(scores, dtype=np.float64))[place])


def margin(scores: npt.ArrayLike, place: int) -> float:
    """How far the solution at ``place`` is ahead of its best rival, negative if behind; infinite without rivals."""
    values = np.asarray(scores, dtype=np.float64)
    return float(values[place] - np.delete(values, place).max(initial=-np.inf))


def label_quality(best: npt.ArrayLike, other: npt.ArrayLike) -> Scores:
    """(examples,): the best score of each set, less that of a solution with another answer, where that is higher.

    0: what reaches the answer explains the question at least as well. Lower is worse; −∞: nothing reaches the answer
    (``best`` is −∞). ``other`` is −∞ where there is no such solution.
    """
    values, others = np.asarray(best, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if values.shape != others.shape:
        raise BonafideError(f"Expected scores in pairs, found the shapes {values.shape} and {others.shape}.")
    quality = np.full(values.shape, -np.inf)
    known = np.isfinite(values)
    quality[known] = values[known] - np.maximum(values, others)[known]
    return quality


def suspicious_labels(quality: npt.ArrayLike, nats: float = 3.0) -> Mask:
    """(examples,): empty sets, and those that another solution beats by more than ``nats``: e³ is 20 to 1."""
    return np.asarray(np.asarray(quality, dtype=np.float64) < -nats, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Audited:
    """A prediction under audit. ``reference`` is gold's solution, or φ's favourite of the set; None: not known.

    ``support``, ``margin``, ``quality`` and ``agrees`` (θ and φ favour the same solution) need a reconstructor;
    the first two also need the prediction to be in the set.
    """

    predicted: Predicted
    size: float
    reference: Any = None
    support: float | None = None
    margin: float | None = None
    quality: float | None = None
    agrees: bool | None = None
    doubtful: bool = False
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated share of spurious solutions among ``of`` right answers.

    The interval is over examples alone or, where people judged some, over which ones were judged.
    """

    share: float
    interval: Interval | None
    of: int
    calibration: Calibration | None


@dataclass(frozen=True)
class Audit:
    """Predictions, audited. ``doubtful`` examples are right answers with a solution that is, or seems, spurious.

    ``judged``: spurious ones among the right answers whose solution people judged.
    """

    asked: Asked
    examples: Sequence[Audited]
    has_gold: bool
    explained: bool
    judgements: Judged
    judged: Accuracy | None

    @cached_property
    def calibration(self) -> Calibration | None:
        """What people said of solutions with a margin, where it is enough."""
        return calibrate(*self.judgements)

    @property
    def right(self) -> int:
        """Right answers."""
        return sum(each.predicted.right for each in self.examples)

    @cached_property
    def exact(self) -> tuple[Accuracy, Interval] | None:
        """Spurious solutions among the right answers whose gold is known, with Wilson's interval; None of none."""
        known = [
            each.predicted for each in self.examples if each.predicted.right and each.predicted.genuine is not None
        ]
        if not known:
            return None
        count = int(spurious([each.right for each in known], [bool(each.genuine) for each in known]).sum())
        return Accuracy(count, len(known)), wilson(count, len(known))

    @cached_property
    def estimate(self) -> Estimate | None:
        """The same without gold, over the right answers whose solution is in its set."""
        scored = [each for each in self.examples if each.predicted.right and each.support is not None]
        if not scored:
            return None
        if self.calibration is not None:
            margins = np.array([each.margin for each in scored], dtype=np.float64)
            share = float(1 - self.calibration.probability(margins).mean())
            return Estimate(share, calibrated_interval(*self.judgements, margins), len(scored), self.calibration)
        genuine = np.array([each.support for each in scored], dtype=np.float64)
        interval = bootstrap_interval(np.zeros(len(scored)), 1 - genuine) if len(scored) > 1 else None
        return Estimate(float(1 - genuine.mean()), interval, len(scored), None)

    @cached_property
    def kinds(self) -> Counter[str]:
        """How many doubtful examples are of each kind."""
        return Counter(kind for each in self.examples if each.doubtful for kind in each.kinds)

    @cached_property
    def labels(self) -> list[Audited]:
        """Examples whose answer looks wrong, the worst first: empty sets, and those that another solution beats."""
        quality = [-np.inf if not each.size else each.quality or 0.0 for each in self.examples]
        flagged = np.flatnonzero(suspicious_labels(quality))
        return [self.examples[place] for place in sorted(flagged.tolist(), key=lambda place: quality[place])]

    @property
    def agreement(self) -> Accuracy | None:
        """How often θ and φ favour the same solution of a set."""
        known = [each.agrees for each in self.examples if each.agrees is not None]
        return Accuracy(sum(known), len(known)) if known else None


def audit_predictions(
    predictions: Path,
    solutions: Path,
    run: Path | None = None,
    gold: Path | None = None,
    judgements: Judgements | None = None,
    examples: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Audit a file of predictions on the examples of a store; ``run`` gives the reconstructor that estimates."""
    asked = asked_of_store(solutions, examples)
    known = {} if gold is None else read_gold(gold)
    predicted = read_predicted(predictions, asked, known)
    if gold is not None and not any(each.genuine is not None for each in predicted.values()):
        raise BonafideError(f"{gold} has gold for none of the examples in {predictions}: it belongs to others.")
    store = learnable(read_manifest(solutions)["task"]).open_store(solutions)
    explainer = None if run is None else Explainer.open(run, asked)
    said: dict[str, dict[str, bool]] = {}
    for each in judgements.solutions() if judgements else ():
        said.setdefault(each.example, {})[each.text] = each.right
    audited: list[Audited] = []
    predictions_said: list[tuple[float, bool]] = []
    rivals_said: list[tuple[float, bool]] = []
    for name, sets in store:
        if name not in predicted:
            continue
        mine = predicted[name]
        if asked.task == "text" and mine.solution in sets:
            mine = replace(mine, right=True)  # a program may reach the answer and not state it
        reference = asked.gold(known[name], mine.example) if name in known else None
        explained = None if explainer is None else explainer.explain(mine.example, sets, mine.solution)
        if explained is not None and name in said:
            texts = [asked.text(each, mine.example) for each in explained.solutions]
            for text, right in said[name].items():
                if text in texts:
                    of = predictions_said if text == mine.text else rivals_said
                    of.append((margin(explained.scores, texts.index(text)), right))
        audited.append(_audited(asked, mine, sets.size, reference, explained))
        if progress is not None:
            progress(len(audited), len(predicted))
    if len(audited) < len(predicted):
        missing = min(set(predicted) - {each.predicted.example.id for each in audited})
        raise BonafideError(f"{solutions} lacks {len(predicted) - len(audited):,} of the predicted examples, such as "
                            f"{missing!r}: expected a store of these examples.")  # fmt: skip
    reached = {each.predicted.example.id: each.predicted.text for each in audited if each.predicted.right}
    judged = [said[name][text] for name, text in reached.items() if text in said.get(name, {})]
    return Audit(
        asked,
        audited,
        bool(known),
        explainer is not None,
        _enough(predictions_said, rivals_said),
        Accuracy(len(judged) - sum(judged), len(judged)) if judged else None,
    )


def _enough(predicted: list[tuple[float, bool]], rivals: list[tuple[float, bool]]) -> Judged:
    """What was said of predictions, which is what is estimated; with their rivals where that alone is too little."""
    for some in (predicted, predicted + rivals):
        judged = [each for each, _ in some], [right for _, right in some]
        if calibrate(*judged) is not None:
            break
    return judged


def _audited(asked: Asked, mine: Predicted, size: float, gold: Any, explained: Any) -> Audited:
    reference = gold
    if isinstance(gold, GoldSpans):
        reference = gold.mentions[0] if gold.mentions else None
    elif isinstance(gold, tuple):
        reference = gold[0]  # of several texts that are all right
    if explained is None:
        place = quality = agrees = None
    else:
        place, agrees = explained.place, explained.agrees
        other = -np.inf if mine.right or explained.outside is None else explained.outside
        quality = float(label_quality([explained.scores.max()], [other])[0])
        if mine.genuine is None:
            reference = explained.solutions[int(explained.scores.argmax())]
    if mine.genuine is not None:
        doubtful = mine.right and not mine.genuine
    else:
        doubtful = mine.right and place is not None and int(explained.scores.argmax()) != place
    kinds: tuple[str, ...] = ()
    if doubtful and reference is not None:
        context = [asked.context(mine.example)]
        if asked.task == "discrete":
            context.append(language_of(asked.options))
        elif asked.task == "text":
            context.append(mine.example.question)
        kinds = tuple(kinds_of(asked.task, mine.solution, reference, *context))
    return Audited(
        mine,
        size,
        reference,
        None if place is None else support(explained.scores, place),
        None if place is None else margin(explained.scores, place),
        quality,
        agrees,
        doubtful,
        kinds,
    )
