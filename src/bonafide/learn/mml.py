"""MML: maximum marginal likelihood.

    maximise  log Σ_{z ∈ Z} P_θ(z | d, q)

Paper and this file: the true marginal over all of Z. (Of the public codes, one trains every solution as an instance
of its own, another has the sign of the exponent turned round; neither is offered here.)
"""

from __future__ import annotations

import torch

from bonafide import ragged
from bonafide.learn.objective import IMPOSSIBLE, Batch, Moment, Outcome, best_solution


class MarginalLikelihood:
    """All solutions train the solver, each by its share of the posterior."""

    needs_reconstructor = False

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Sum over the solutions of each example."""
        scores = batch.solver_training_scores()
        marginal = ragged.logsumexp(scores, batch.offsets)
        loss = -torch.where(marginal <= IMPOSSIBLE, 0.0, marginal).sum()
        return Outcome(loss, selected=best_solution(scores, batch.offsets), solver_scores=scores.detach())
