"""How weights are moved: AdamW, the course of its rates, and in which precision gradients are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn

from bonafide.learn.learnable import SolverModule
from bonafide.learn.recipe import Recipe


def optimisers(
    modules: Mapping[str, nn.Module], recipe: Recipe, device: torch.device
) -> dict[str, torch.optim.Optimizer]:
    """One for the solver, and one for the reconstructor where there is one."""
    make = {"solver": _solver_optimiser, "reconstructor": _reconstructor_optimiser}
    return {name: make[name](module, recipe, device.type == "cuda") for name, module in modules.items()}


def new_accelerator(recipe: Recipe, *handlers: Any) -> Accelerator:
    """Of the device at hand, and the recipe's precision."""
    AcceleratorState._reset_state()  # it would refuse another precision than that of an earlier run in this process
    wanted = recipe.train.precision
    half = wanted == "bf16" or (wanted == "auto" and torch.cuda.is_available())
    return Accelerator(mixed_precision="bf16" if half else "no", kwargs_handlers=list(handlers))


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
