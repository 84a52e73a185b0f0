"""MIMAX: the solution from which the question can best be reconstructed trains the solver.

    z′ ~ P_θ(z | d, q) over Z                       trains φ:  maximise log P_φ(q | d, z′)
    z″ = argmax_{z ∈ Z} log P_φ(q | d, z)           trains θ:  maximise log P_θ(z″ | d, q)

and, after ``switch`` epochs, HardEM. Both draws and choices use the models as they were before the step, with
dropout off and in fp32, over all of Z.

How this can differ from the paper, all off by default:

``simplicity`` λ     choose by log P_φ(q | d, z) − λ · operations(z): a crude P(z | d), which makes the choice a noisy
                     channel. Without it a longer solution wins by carrying more of the question's words.
``told`` w           draw z′ from P_θ(z | d, q) · P(q's words | z)^w, by the reconstructor of single words
                     (:mod:`bonafide.learn.words`): φ is shown from the start what it would have to find out, and
                     nothing else changes. ``mimax+`` is this, w = 1.
``words`` w          add w · log P(q's words | z) to what chooses, after the switch too.
``marginal``         after the switch maximum marginal likelihood instead of HardEM, with ``words`` as its prior:
                     solutions that are as good as each other need not be told apart.
``lasting``          φ goes on learning from draws after the switch, for its vote on what is predicted (the paper's
                     stops there, since it chooses no more).
``solver_weight`` α  choose by log P_φ + α log P_θ; with ``ramp``, α grows from 0 over so many epochs: what the solver
                     finds likely at first is an accident of its start, and would only be confirmed.
``soft``             train θ on all of Z, weighted by the softmax of the score, instead of on the argmax.
``candidates``       both only among so many of Z, drawn anew at each step, as in the authors' code (30 to 50); faster,
                     and the best of fewer is less often the best by accident. 0: all of Z.
``samples``          how many z′ train φ.
``temperature``      draw z′ from P_θ^(1/temperature). Free texts differ by dozens of nats in length alone: at 1 the
                     shortest is always drawn, and φ learns from nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bonafide import ragged
from bonafide.learn.hard_em import HardEM
from bonafide.learn.mml import MarginalLikelihood
from bonafide.learn.objective import IMPOSSIBLE, Batch, Moment, Outcome, best_solution, chosen_loss, scores_of


@dataclass(frozen=True, slots=True)
class Mimax:
    """The reconstructor's best solution trains the solver; the solver's draws train the reconstructor."""

    switch: float = 1.0  # epochs; after them, HardEM. 0: HardEM alone; negative: never
    simplicity: float = 0.0
    solver_weight: float = 0.0
    ramp: float = 0.0  # epochs; 0: the whole of it from the start
    soft: bool = False
    candidates: int = 0
    samples: int = 1
    temperature: float = 1.0
    words: float = 0.0
    told: float = 0.0
    marginal: bool = False
    lasting: bool = False

    @property
    def needs_reconstructor(self) -> bool:
        """It does."""
        return True

    def switched(self, moment: Moment) -> bool:
        """Whether HardEM has taken over."""
        return 0 <= self.switch * moment.steps_per_epoch <= moment.step

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """Draw z′ for the reconstructor and choose z″ for the solver."""
        if self.switched(moment):
            later = MarginalLikelihood(words=self.words) if self.marginal else HardEM(words=self.words)
            outcome = later.step(batch, moment)
            if not self.lasting or not len(likely := batch.solver_scores()):
                return outcome
            return replace(outcome, reconstructor_loss=self._explaining_loss(batch, likely))
        # The longest job first: while a GPU scores all of Z, the CPU queues the many small ones that follow.
        reconstructor = batch.reconstructor_scores(self.candidates)
        solver = batch.solver_scores()
        if not len(solver):
            return HardEM(words=self.words).step(batch, moment)
        likely = torch.where(reconstructor == -torch.inf, -torch.inf, solver) if self.candidates else solver
        loss = self._explaining_loss(batch, likely)
        score = reconstructor - self.simplicity * batch.operations
        if alpha := self._alpha(moment):
            score = score + alpha * solver
        if self.words:
            score = score + self.words * batch.words
        score = torch.where(solver <= IMPOSSIBLE, -torch.inf, score)  # what the solver cannot produce cannot train it
        chosen = best_solution(score, batch.offsets)
        if self.soft:
            weights = ragged.softmax(score, batch.offsets)
            solver_loss = -(weights * batch.solver_training_scores().clamp(min=-1e4)).sum()
        else:
            solver_loss = chosen_loss(batch, chosen)
        return Outcome(solver_loss, loss, chosen, solver, reconstructor)

    def _alpha(self, moment: Moment) -> float:
        """What the solver's own score counts by now."""
        grown = moment.step / (self.ramp * moment.steps_per_epoch) if self.ramp > 0 else 1.0
        return self.solver_weight * min(1.0, grown)

    def _explaining_loss(self, batch: Batch, likely: Tensor) -> Tensor:
        """−Σ log P_φ(q | d, z′) of draws by these scores of the solver."""
        likely = torch.where(likely <= IMPOSSIBLE, likely, likely / self.temperature)
        if self.told:
            likely = torch.where(likely <= IMPOSSIBLE, likely, likely + self.told * batch.words)
        drawn = torch.cat(
            [ragged.sample(likely, batch.offsets, batch.uniform(f"z-prime-{n}")) for n in range(self.samples)]
        )
        impossible = scores_of(likely, drawn) <= IMPOSSIBLE  # masked, not left out: that would wait for the device
        explained = batch.reconstructor_training_scores(drawn.clamp(min=0))
        return -torch.where(impossible, 0.0, explained).sum() / self.samples


@dataclass(frozen=True, slots=True)
class MimaxPlus(Mimax):
    """MIMAX whose reconstructor learns from solutions that the question's words speak for."""

    switch: float = 4.0
    told: float = 1.0
