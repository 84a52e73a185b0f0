"""HardEM: train on the solution that the solver itself finds most likely.

    maximise  log max_{z ∈ Z} P_θ(z | d, q)

With ``anneal`` = τ > 0, step t uses HardEM with probability min(t/τ, 0.8) and MML otherwise. That direction, MML
first and HardEM more and more, is that of both public codes; the paper's text says the reverse, which is the
option ``anneal_reversed``. The maximum is taken over scores without dropout, as in the authors' code after its
switch (the older code takes it over the noisy training scores).

``simplicity`` λ subtracts λ per operation when choosing: the control that isolates what a reconstructor adds.
``words`` w adds w · log P(q's words | z) of the reconstructor of single words (:mod:`bonafide.learn.words`).
"""

from __future__ import annotations

from dataclasses import dataclass

from bonafide.learn.mml import MarginalLikelihood
from bonafide.learn.objective import Batch, Moment, Outcome, best_solution, chosen_loss


@dataclass(frozen=True, slots=True)
class HardEM:
    """The solver's own best solution trains it."""

    anneal: int = 0
    anneal_reversed: bool = False
    simplicity: float = 0.0
    words: float = 0.0

    @property
    def needs_reconstructor(self) -> bool:
        """It does not."""
        return False

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Choose the most likely solution, or marginalise while annealing."""
        if self.anneal:
            hard = batch.common("anneal") < min(moment.step / self.anneal, 0.8)
            if hard == self.anneal_reversed:
                return MarginalLikelihood().step(batch, moment)
        scores = batch.solver_scores()
        chosen_by = scores - self.simplicity * batch.operations
        if self.words:
            chosen_by = chosen_by + self.words * batch.words
        best = best_solution(chosen_by, batch.offsets)
        return Outcome(chosen_loss(batch, best), selected=best, solver_scores=scores)
