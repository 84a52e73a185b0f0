"""MML: maximum marginal likelihood.

    maximise  log Σ_{z ∈ Z} P_θ(z | d, q)

Paper and this file: the true marginal over all of Z. (Of the public codes, one trains every solution as an instance
of its own, another has the sign of the exponent turned round; neither is offered here.)

``words`` w weights each solution by its share of P(q's words | z)^w over Z, by the reconstructor of single words
(:mod:`bonafide.learn.words`): a prior that is not learned.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bonafide import ragged
from bonafide.learn.objective import IMPOSSIBLE, Batch, Moment, Outcome, best_solution


@dataclass(frozen=True, slots=True)
class MarginalLikelihood:
    """All solutions train the solver, each by its share of the posterior."""

    words: float = 0.0

    @property
    def needs_reconstructor(self) -> bool:
        """It does not."""
        return False

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Sum over the solutions of each example."""
        scores = batch.solver_training_scores()
        joint = scores
        if self.words:
            joint = joint + ragged.log_softmax(self.words * batch.words, batch.offsets)
        marginal = ragged.logsumexp(joint, batch.offsets)
        loss = -torch.where(marginal <= IMPOSSIBLE, 0.0, marginal).sum()
        return Outcome(loss, selected=best_solution(joint, batch.offsets), solver_scores=scores.detach())
