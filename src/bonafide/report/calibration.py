"""From judged solutions to how likely others are genuine: a reconstructor's margins, calibrated on what people said.

Scores are log P_φ(question | solution); a margin is how far a solution is ahead of its best rival. What is fitted is
P(genuine) = σ(intercept + slope · margin). Its interval says what judging others of the same number might have given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special  # type: ignore[import-untyped]

from bonafide.errors import BonafideError
from bonafide.report.statistics import CONFIDENCE, Interval

Scores = npt.NDArray[np.float64]
LEAST_JUDGED = 10
"""Judged solutions, right and wrong ones among them, from which a calibration is made."""
_RESAMPLES = 250
_HELD = 0.01  # how strongly intercept and slope are held to 0, so that they stay finite


@dataclass(frozen=True, slots=True)
class Calibration:
    """P(genuine) = σ(intercept + slope · margin), fitted on ``judged`` solutions."""

    intercept: float
    slope: float
    judged: int

    def probability(self, margins: npt.ArrayLike) -> Scores:
        """(solutions,): how likely each is genuine; a solution without rivals is."""
        values = np.asarray(margins, dtype=np.float64)
        found: Scores = special.expit(self.intercept + self.slope * np.where(np.isinf(values), 0.0, values))
        return np.where(np.isposinf(values), 1.0, found)


def calibrate(margins: npt.ArrayLike, genuine: npt.ArrayLike) -> Calibration | None:
    """Logistic regression of judgements on margins, slightly held to 0; None of too few judgements or of one kind."""
    values, right = _judged(margins, genuine)
    if len(values) < LEAST_JUDGED or right.all() or not right.any():
        return None
    return _fitted(values, right)


def calibrated_interval(margins: npt.ArrayLike, genuine: npt.ArrayLike, of: npt.ArrayLike, seed: int = 0) -> Interval:
    """Of the share of spurious solutions among those with the margins ``of``, from judged ones.

    The judged solutions are drawn anew, a calibration is fitted to each draw, and whether each solution is genuine is
    drawn by it: so the interval covers which solutions were judged and what a probability leaves open.
    """
    values, right = _judged(margins, genuine)
    others, chance = np.asarray(of, dtype=np.float64), np.random.default_rng(seed)
    shares = np.empty(_RESAMPLES)
    for number in range(_RESAMPLES):
        drawn = chance.integers(len(values), size=len(values))
        likely = _fitted(values[drawn], right[drawn]).probability(others)
        shares[number] = (chance.random(len(others)) >= likely).mean()
    low, high = np.quantile(shares, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def _judged(margins: npt.ArrayLike, genuine: npt.ArrayLike) -> tuple[Scores, npt.NDArray[np.bool_]]:
    """Those with rivals."""
    values, right = np.asarray(margins, dtype=np.float64), np.asarray(genuine, dtype=bool)
    if values.shape != right.shape:
        raise BonafideError(f"Expected one judgement a margin, found the shapes {values.shape} and {right.shape}.")
    finite = np.isfinite(values)
    return values[finite], right[finite]


def _fitted(values: Scores, right: npt.NDArray[np.bool_]) -> Calibration:
    signs = np.where(right, 1.0, -1.0)

    def loss(weights: Scores) -> tuple[float, Scores]:
        odds = signs * (weights[0] + weights[1] * values)
        wrong = signs * special.expit(-odds)
        slope = np.array([-wrong.sum(), -(wrong * values).sum()]) + 2 * _HELD * weights
        return float(-special.log_expit(odds).sum() + _HELD * (weights @ weights)), slope

    fitted = optimize.minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B")
    return Calibration(float(fitted.x[0]), float(fitted.x[1]), len(values))
