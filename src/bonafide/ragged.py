"""One value per solution, grouped by example: log-sum-exp, softmax, argmax, sampling.

``values`` is flat; the solutions of example i are ``values[offsets[i]:offsets[i + 1]]``. Everything stays on the
device of ``values`` and is free of Python loops. An example without solutions gives −inf for a log-sum-exp and
−1 for an index.
"""

from __future__ import annotations

import torch
from torch import Tensor


def offsets_of(sizes: list[int], device: torch.device | str = "cpu") -> Tensor:
    """Offsets (examples + 1,) of groups of these sizes."""
    return torch.tensor([0, *sizes], device=device).cumsum(0)


def owners(offsets: Tensor, total: int) -> Tensor:
    """(solutions,): the example of each solution."""
    sizes = offsets.diff()
    return torch.repeat_interleave(torch.arange(len(sizes), device=offsets.device), sizes, output_size=total)


def logsumexp(values: Tensor, offsets: Tensor) -> Tensor:
    """(examples,): log of the sum of exp over each group; −inf for an empty group, gradients without NaN."""
    owner = owners(offsets, len(values))
    groups = len(offsets) - 1
    most = _group_max(values.detach(), owner, groups)
    shift = torch.where(torch.isfinite(most), most, torch.zeros_like(most))
    total = values.new_zeros(groups).index_add(0, owner, torch.exp(values - shift[owner]))
    empty = total == 0
    return torch.where(empty, values.new_full((), -torch.inf), torch.where(empty, 1.0, total).log() + shift)


def log_softmax(values: Tensor, offsets: Tensor) -> Tensor:
    """(solutions,): log of each solution's share of its group; −inf where the whole group is."""
    normaliser = logsumexp(values, offsets)
    normaliser = torch.where(torch.isfinite(normaliser), normaliser, torch.zeros_like(normaliser))
    return values - normaliser[owners(offsets, len(values))]


def softmax(values: Tensor, offsets: Tensor) -> Tensor:
    """(solutions,): each solution's share of its group."""
    return log_softmax(values, offsets).exp()


def argmax(values: Tensor, offsets: Tensor) -> Tensor:
    """(examples,): the index into ``values`` of each group's largest value, the first of equals; −1 if empty.

    What is not a number counts as the largest, as in torch: it is to be seen, and an index is always one of the group.
    """
    owner = owners(offsets, len(values))
    groups = len(offsets) - 1
    most = _group_max(values.detach(), owner, groups)
    place = torch.arange(len(values), device=values.device)
    candidate = torch.where((values.detach() == most[owner]) | values.detach().isnan(), place, len(values))
    first = place.new_full((groups,), len(values)).scatter_reduce(0, owner, candidate, "amin")
    return torch.where(offsets.diff() > 0, first, -1)


def sample(log_weights: Tensor, offsets: Tensor, uniform: Tensor) -> Tensor:
    """(examples,): an index drawn from each group in proportion to exp(log_weights), by one number in [0, 1) each.

    The draw is by inverse cumulative distribution in double precision, so that it depends on ``uniform`` and the
    weights alone, not on how the groups are batched. A group whose weights are all zero is drawn from evenly.
    """
    shares = softmax(log_weights.detach().double(), offsets)
    owner = owners(offsets, len(shares))
    groups = len(offsets) - 1
    sums = shares.new_zeros(groups).index_add(0, owner, shares)
    shares = torch.where((sums > 0)[owner], shares, 1.0 / offsets.diff()[owner].clamp(min=1))
    running = shares.cumsum(0)
    before = torch.cat([running.new_zeros(1), running])[offsets[:-1]]
    inside = running - before[owner]
    total = torch.cat([running.new_zeros(1), running])[offsets[1:]] - before
    passed = (inside <= (uniform.double() * total)[owner]) | (shares == 0)
    positive_after = shares.new_zeros(groups, dtype=torch.long).index_add(0, owner, (~passed).long())
    place = torch.arange(len(shares), device=shares.device)
    first = place.new_full((groups,), len(shares)).scatter_reduce(
        0, owner, torch.where(passed, len(shares), place), "amin"
    )
    last = place.new_full((groups,), -1).scatter_reduce(0, owner, torch.where(shares > 0, place, -1), "amax")
    return torch.where(offsets.diff() > 0, torch.where(positive_after > 0, first, last), -1)


def _group_max(values: Tensor, owner: Tensor, groups: int) -> Tensor:
    return values.new_full((groups,), -torch.inf).scatter_reduce(0, owner, values, "amax")
