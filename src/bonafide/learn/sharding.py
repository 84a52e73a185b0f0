"""Weights too many for one device: each process holds a part of the encoder's (``train.shard``, torch's FSDP).

Of the encoder's weights, gradients and optimiser state a process holds its share; a layer's weights are brought
together while it computes. What is on top of the encoder, and the reconstructor, stay whole in every process.

A pass of the encoder is made by all processes together or by none. So each takes as many micro-batches as the one that
has the most, those that it does not have with a loss of nothing; a solver whose passes depend on the example (reading)
or which shares its encoder's weights with a decoder (text) cannot be sharded. The first process predicts and saves with
a whole copy of the solver, which lies on the CPU in between. A checkpoint holds whole tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from bonafide.errors import BonafideError
from bonafide.learn.learnable import Narrowing, SolverModule
from bonafide.learn.objective import Outcome


def shard_encoder(solver: SolverModule, device: torch.device, processes: int) -> None:
    """From now on this process holds its share of the encoder; give it the weights before, and an optimiser after."""
    inside = any(module is solver.encoder for module in solver.modules())
    if not inside or isinstance(solver, Narrowing):
        raise BonafideError(
            "train.shard is for solvers that read each example in one pass of an encoder of their own: sql (with "
            "solver.kind slots) and discrete. Leave it out: --set train.shard=false"
        )
    mesh = init_device_mesh(device.type, (processes,))
    for layers in [each for each in solver.encoder.modules() if isinstance(each, nn.ModuleList)]:
        for layer in layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(solver.encoder, mesh=mesh)


def whole(tensor: Any) -> Any:
    """A tensor of which each process has a part, put together: all processes must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def bring_together(solver: SolverModule, copy: SolverModule | None) -> None:
    """Give the copy, where this process has it, the weights of the sharded solver: all processes must call it."""
    found = {name: whole(weight).cpu() for name, weight in solver.state_dict().items()}
    if copy is not None:
        copy.load_state_dict(found)


def spread(tensor: Tensor, like: Any) -> Tensor:
    """This process's part of a whole tensor, where ``like`` is one of which each has a part."""
    if not isinstance(like, DTensor) or tensor.shape != like.shape:
        return tensor
    moved = tensor.to(like.device, like.dtype)
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)


def summed_gradients(weights: Sequence[Tensor], processes: int) -> list[Tensor]:
    """Make FSDP's means over the processes sums; returns the weights of which each process has all."""
    for weight in weights:
        if isinstance(weight, DTensor) and weight.grad is not None:
            weight.grad.mul_(processes)
    return [weight for weight in weights if not isinstance(weight, DTensor)]


def clip_gradients(weights: Sequence[Tensor], most: float) -> None:
    """``clip_grad_norm_`` of weights of which some are sharded: the norm is that of all of them."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norms = [whole(torch.linalg.vector_norm(gradient)) for gradient in gradients]
    scale = (most / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        (gradient.to_local() if isinstance(gradient, DTensor) else gradient).mul_(scale)


def of_no_weight(outcome: Outcome) -> Outcome:
    """The same losses, times nothing: for a pass that the other processes need."""
    losses = (outcome.solver_loss, outcome.reconstructor_loss)
    solver, reconstructor = (None if loss is None else 0.0 * loss for loss in losses)
    return replace(outcome, solver_loss=solver, reconstructor_loss=reconstructor)
