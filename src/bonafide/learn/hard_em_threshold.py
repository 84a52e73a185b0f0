"""HardEM-thres: HardEM on the examples that the solver is already sure enough of.

    maximise  1[P_θ(z*) > γ] · log P_θ(z*),   z* = argmax_{z ∈ Z} P_θ(z | d, q),   γ = 0.5ⁿ

n starts where at least half of the training data is used in the first epoch, and grows by one each epoch. In the
first epoch an example with a single solution is always used. The filter is set once an epoch, from scores of the
whole training set (``prepare``); z* is chosen anew at each batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bonafide import ragged
from bonafide.learn.objective import Batch, Moment, Outcome, chosen_loss


@dataclass(slots=True)
class HardEMThreshold:
    """The solver's own best solution trains it where it is likely enough."""

    state: dict[str, int] = field(default_factory=dict)  # n of the first epoch

    @property
    def needs_reconstructor(self) -> bool:
        """It does not."""
        return False

    def prepare(self, best: Tensor, sizes: Tensor, epoch: int) -> Tensor:
        """(training examples,): which ones this epoch uses, by the best log P_θ of each and the size of its set."""
        if epoch == 0:
            self.state["first"] = self._first(best, sizes)
        threshold = (self.state.get("first", 1) + epoch) * math.log(0.5)
        used = best > threshold
        return used | (sizes == 1) if epoch == 0 else used

    def _first(self, best: Tensor, sizes: Tensor) -> int:
        wanted = int(0.5 * len(best))
        power = 1
        while power < 10_000:
            if int(((best > power * math.log(0.5)) | (sizes == 1)).sum()) >= wanted:
                return power
            power += 1
        return power

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Choose the most likely solution of each example that the epoch's filter let through."""
        scores = batch.solver_scores()
        best = ragged.argmax(scores, batch.offsets)
        best = torch.where(batch.allowed, best, -1)
        return Outcome(
            chosen_loss(batch.solver_training_scores(), best),
            selected=best,
            solver_scores=scores,
            used=int((best >= 0).sum()),
        )
