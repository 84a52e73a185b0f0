"""First-only: train on the first solution.

    maximise  log P_θ(z₁ | d, q)

Paper: reading comprehension only, z₁ being the first mention in the document. On other tasks the first solution is
the first in the store's canonical order, fewest operations first; that reading is ours.
"""

from __future__ import annotations

import torch

from bonafide.learn.objective import IMPOSSIBLE, Batch, Moment, Outcome, loss_of


class FirstOnly:
    """The first solution of each example trains the solver."""

    needs_reconstructor = False

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Choose the first solution."""
        first = torch.where(batch.offsets.diff() > 0, batch.offsets[:-1], -1)
        scores = batch.solver_training_scores_of(first)
        return Outcome(loss_of(scores), selected=torch.where(scores.detach() > IMPOSSIBLE, first, -1))
