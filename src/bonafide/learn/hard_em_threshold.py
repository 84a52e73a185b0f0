"""HardEM-thres: HardEM on the examples that the solver is already sure enough of.

    maximise  1[P_θ(z*) > γ] · log P_θ(z*),   z* = argmax_{z ∈ Z} P_θ(z | d, q),   γ = 0.5ⁿ

n starts where at least half of the training data is used in the first epoch, and grows by one each epoch. In the
first epoch an example with a single solution is always used. The filter is set once an epoch, from scores of the
whole training set (``prepare``); z* is chosen anew at each batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bonafide.learn.objective import Batch, Moment, Outcome, best_solution, chosen_loss


@dataclass(slots=True)
class HardEMThreshold:
    """The solver's own best solution trains it where it is likely enough."""

    state: dict[str, Any] = field(default_factory=dict)  # n of the first epoch; the epoch of the filter; the filter

    @property
    def needs_reconstructor(self) -> bool:
        """It does not."""
        return False

    def prepare(self, best: Tensor, sizes: Tensor, epoch: int) -> Tensor:
        """(training examples,): which ones this epoch uses, by the best log P_θ of each and the size of its set.

        The filter of an epoch is set once: a run that is resumed within the epoch goes on with the same.
        """
        if self.state.get("epoch") != epoch:
            if epoch == 0:
                self.state["first"] = self._first(best, sizes)
            used = ~(best <= (self.state["first"] + epoch) * math.log(0.5))  # what is not a number must reach the loss
            self.state["epoch"] = epoch
            self.state["used"] = (used | (sizes == 1) if epoch == 0 else used).tolist()
        return torch.tensor(self.state["used"])

    def _first(self, best: Tensor, sizes: Tensor) -> int:
        wanted = math.ceil(0.5 * len(best))
        power = 1
        while power < 10_000:
            if int(((best > power * math.log(0.5)) | (sizes == 1)).sum()) >= wanted:
                return power
            power += 1
        return power

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Choose the most likely solution of each example that the epoch's filter let through."""
        scores = batch.solver_scores()
        best = torch.where(batch.allowed, best_solution(scores, batch.offsets), -1)
        return Outcome(chosen_loss(batch, best), selected=best, solver_scores=scores)
