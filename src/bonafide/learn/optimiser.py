"""How weights are moved: AdamW, and the course of its rates."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from bonafide.learn.learnable import SolverModule
from bonafide.learn.recipe import Recipe


def optimisers(
    modules: Mapping[str, nn.Module], recipe: Recipe, device: torch.device
) -> dict[str, torch.optim.Optimizer]:
    """One for the solver, and one for the reconstructor where there is one."""
    make = {"solver": _solver_optimiser, "reconstructor": _reconstructor_optimiser}
    return {name: make[name](module, recipe, device.type == "cuda") for name, module in modules.items()}


def precision(wanted: str) -> str:
    """As accelerate names it."""
    if wanted == "bf16" or (wanted == "auto" and torch.cuda.is_available()):
        return "bf16"
    return "no"


def _solver_optimiser(solver: SolverModule, recipe: Recipe, fused: bool) -> torch.optim.Optimizer:
    """AdamW, with a rate for the encoder and one for what is on top."""
    encoder = {id(parameter) for parameter in solver.encoder.parameters()}
    groups = [
        {
            "params": [each for each in solver.parameters() if (id(each) in encoder) == inside],
            "lr": rate,
        }
        for inside, rate in ((True, recipe.train.encoder_rate), (False, recipe.train.head_rate))
    ]
    return torch.optim.AdamW(groups, eps=1e-6, weight_decay=recipe.train.weight_decay, fused=fused)


def schedule(step: int, steps: int, warmup: float) -> float:
    """Linear warm-up, then linear decay that ends at 0 with the last step."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return max(0.0, (steps - step) / max(1, steps - rising))


def _reconstructor_optimiser(module: nn.Module, recipe: Recipe, fused: bool) -> torch.optim.Optimizer:
    """AdamW, without weight decay."""
    return torch.optim.AdamW(
        module.parameters(), lr=recipe.train.reconstructor_rate, eps=1e-6, weight_decay=0.0, fused=fused
    )
