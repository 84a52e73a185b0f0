"""One run by several processes: `accelerate launch -m bonafide train …`.

Every process has the same weights and the same order of examples; an example is always trained by the same process,
which alone holds its solution set tokenised. Losses are divided by the examples of the whole step, so the sum of the
gradients over the processes is the gradient of one process on the same step, whatever their number. Draws and choices
are keyed by example, and so are the same too; dropout is drawn by each process for itself.

The first process writes everything that is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from bonafide.errors import BonafideError
from bonafide.learn.sharding import summed_gradients


class Together:
    """This process among those of the run; everything is a no-op where it is alone."""

    def __init__(self, device: torch.device) -> None:
        there = distributed.is_available() and distributed.is_initialized()
        self.count = distributed.get_world_size() if there else 1
        self.rank = distributed.get_rank() if there else 0
        self._device = device

    @property
    def alone(self) -> bool:
        """Whether there is no other process."""
        return self.count == 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def owns(self, place: int) -> bool:
        """Whether the training example at this place is this process's."""
        return place % self.count == self.rank

    def summed(self, values: Tensor) -> Tensor:
        """The sum over all processes, on the device of the values."""
        return self._reduced(values, distributed.ReduceOp.SUM if not self.alone else None)

    def largest(self, values: Tensor) -> Tensor:
        """The largest over all processes."""
        return self._reduced(values, distributed.ReduceOp.MAX if not self.alone else None)

    def _reduced(self, values: Tensor, operation: Any) -> Tensor:
        if self.alone:
            return values
        moved = values.to(self._device, copy=True)
        with _named():
            distributed.all_reduce(moved, operation)
        return moved.to(values.device)

    def losses(self, totals: dict[str, Tensor], candidates: int) -> tuple[Tensor, int]:
        """(losses,), on their way to the CPU, and the solutions that were scored, of all processes."""
        if not self.alone:
            names, nothing = ("loss", "reconstructor_loss"), torch.zeros((), device=self._device)
            there = self.largest(torch.tensor([name in totals for name in names], dtype=torch.int64)).tolist()
            for name, has in zip(names, there, strict=True):
                if has:
                    totals[name] = self.summed(totals.get(name, nothing))
            candidates = int(self.summed(torch.tensor(candidates)))
        losses = torch.stack([torch.zeros((), device=self._device), *totals.values()])[1:]
        return losses.to("cpu", non_blocking=True), candidates

    def told(self, value: Any) -> Any:
        """What the first process says, as JSON, in all."""
        if self.alone:
            return value
        said = torch.tensor(list(json.dumps(value).encode()), dtype=torch.int64)
        length = int(self.largest(torch.tensor(len(said) if self.first else 0)))
        heard = self.summed(said if self.first else torch.zeros(length, dtype=torch.int64))
        return json.loads(bytes(heard.tolist()))

    def wait(self) -> None:
        """Until all processes are here."""
        self.summed(torch.zeros(1))

    def leave(self) -> None:
        """All end together: a process that is gone looks to the others like one that was killed."""
        if not self.alone:
            self.wait()
            distributed.destroy_process_group()

    def share_weights(self, modules: Sequence[torch.nn.Module]) -> None:
        """Give all processes the weights of the first."""
        if self.alone:
            return
        with _named(), torch.no_grad():
            for module in modules:
                for weight in [*module.parameters(), *module.buffers()]:
                    distributed.broadcast(weight, src=0)

    def add_gradients(self, weights: Sequence[Tensor]) -> None:
        """Sum the gradients over the processes; a weight that has none in any process keeps none."""
        if self.alone or not weights:
            return
        weights = summed_gradients(weights, self.count)
        there = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.int64)
        used = [weight for weight, has in zip(weights, self.largest(there).tolist(), strict=True) if has]
        if not used:
            return
        parts = [weight.grad if weight.grad is not None else torch.zeros_like(weight) for weight in used]
        total = self.summed(torch.cat([part.flatten() for part in parts]))
        for weight, part in zip(used, torch.split(total, [weight.numel() for weight in used]), strict=True):
            if weight.grad is None:
                weight.grad = part.view_as(weight).clone()
            else:
                weight.grad.copy_(part.view_as(weight))


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise BonafideError(
            f"Another process of this run has ended ({str(error).splitlines()[0]}). The last checkpoint is unharmed: "
            "give the same command with --resume."
        ) from error
