"""VAE: the reconstructor as a reward, in three stages (the paper's baseline; it published no code for it).

    L = log Σ_{z ∈ B} P_θ(z | d, q) + λ · E_{z ~ P_θ(· | d, q)} [log P_φ(q | d, z) − log P_θ(z | d, q)]

Stage 1: θ alone, with HardEM. Stage 2: one epoch in which the second term trains φ only. Stage 3: it
also reaches θ, by REINFORCE: the reward R = log P_φ − log P_θ less its mean over ``samples`` draws.

Differs from the paper: its first term is Σ log P_θ, which wants all of B to be equally likely, right or not; stage 1
there is HardEM-thres, from its best checkpoint; z is drawn from P_θ restricted to Z
(the paper draws from the unrestricted model, and B is the
set of model predictions with the right answer; ours is Z). The paper reports its collapse on DROP.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bonafide import ragged
from bonafide.learn.hard_em import HardEM
from bonafide.learn.mml import MarginalLikelihood
from bonafide.learn.objective import IMPOSSIBLE, Batch, Moment, Outcome, best_solution, scores_of


@dataclass(frozen=True, slots=True)
class Vae:
    """Likelihood of all solutions, and a reward for those that explain the question."""

    first_stage: int = 2  # epochs of HardEM
    second_stage: int = 1  # epochs in which φ alone learns from the draws
    weight: float = 0.1  # λ
    samples: int = 5

    @property
    def needs_reconstructor(self) -> bool:
        """It does."""
        return True

    def step(self, batch: Batch, moment: Moment) -> Outcome:
        """HardEM, then the likelihood with φ learning from draws, then the reward on top."""
        if moment.epoch < self.first_stage:
            return HardEM().step(batch, moment)
        likelihood = MarginalLikelihood().step(batch, moment)
        scores = batch.solver_scores()
        draws = torch.stack(
            [ragged.sample(scores, batch.offsets, batch.uniform(f"draw-{number}")) for number in range(self.samples)]
        )  # (samples, examples)
        draws = draws[:, (scores_of(scores, draws) > IMPOSSIBLE).all(dim=0)]  # there, and possible
        if not draws.numel():
            return likelihood
        explained = batch.reconstructor_training_scores(draws.reshape(-1)).view_as(draws)
        loss = -self.weight * explained.mean(dim=0).sum()
        solver_loss = likelihood.solver_loss
        assert solver_loss is not None
        if moment.epoch >= self.first_stage + self.second_stage:
            training = batch.solver_training_scores()
            reward: Tensor = explained.detach() - scores[draws]
            advantage = reward - reward.mean(dim=0, keepdim=True)
            solver_loss = solver_loss - self.weight * (advantage * training[draws]).mean(dim=0).sum()
        chosen = best_solution(scores, batch.offsets)
        return Outcome(solver_loss, loss, chosen, scores)
