"""Calls on a GPU, recorded once for each shape of their inputs and then replayed: CUDA graphs.

A step of training is thousands of small kernels, and the CPU needs longer to launch one than the GPU to run it. A
recording is launched as a whole. It holds for one shape, so callers pad their inputs to few shapes
(:func:`rounded`); a shape is recorded when it is met for the second time.

    replay = Replay(module)
    states = replay(module.function, *inputs)      # the same values and gradients as module.function(*inputs)

The function gives one tensor; where no gradients are wanted, it may also give a tuple of tensors.

What a recording may do: no waiting for the device, no shape that depends on values. Differences to plain autograd:

- Gradients of the module's weights are summed into ``.grad`` by the recording itself, so hooks on them do not run.
- Activations stay in the recording until its own backward pass has run. Recordings share memory, so a forward pass
  takes a place that no other one holds, which still waits for its backward pass; if there is none, it is computed
  plainly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bonafide.errors import BonafideError, out_of_memory

Function = Callable[..., Any]

_MOST = 128
"""How many recordings are made; what has none is computed plainly."""
_PLACES = 8
"""How many forward passes may wait for their backward passes."""


def rounded(number: int, least: int) -> int:
    """The next multiple of an eighth of ``number``'s power of two, and of ``least``: few sizes, little padding."""
    step = max(least, 1 << max(0, number.bit_length() - 4))
    return -(-number // step) * step


def grown(number: int, least: int, times: int = 2) -> int:
    """The next of ``least``, ``times`` that, and so on: very few sizes, for what costs little."""
    size = least
    while size < number:
        size *= times
    return size


class Replay:
    """Runs functions of tensors that use the weights of one module."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._weights = [weight for weight in module.parameters() if weight.requires_grad]
        self._sums = [torch.zeros_like(weight) for weight in self._weights]  # of gradients
        self._device = self._weights[0].device
        self._anchor = torch.zeros((), device=self._device, requires_grad=True)  # autograd follows what it touches
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._begin(_MOST)

    def _begin(self, most: int) -> None:
        """With no recording yet, and so many at most."""
        # One memory for what needs no gradient (None), and one for each place.
        self._pools = {place: torch.cuda.graph_pool_handle() for place in (None, *range(_PLACES))}
        self._most = most
        self._met: set[Hashable] = set()
        self._recordings: dict[Hashable, _Recording] = {}
        self._waiting: dict[int, weakref.ref[_Pass]] = {}

    def forget(self) -> bool:
        """Let all recordings go, for the memory that they hold, and make half as many anew; whether there were any.

        To be called where no forward pass waits for its backward pass.
        """
        held = len(self._recordings)
        if held:
            self._begin(held // 2)
        return held > 0

    def __call__(self, function: Function, *inputs: Tensor, setting: Hashable = ()) -> Any:
        """``function(*inputs)``; ``setting`` is whatever else the function's kernels depend on."""
        if torch.is_inference_mode_enabled():
            return function(*inputs)
        training = torch.is_grad_enabled()
        shapes = tuple((each.shape, each.dtype, each.requires_grad and training) for each in inputs)
        precision = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
        place = next((each for each in range(_PLACES) if not self._taken(each)), None) if training else None
        if training and place is None:
            return function(*inputs)
        key = (shapes, place, precision, self._module.training, setting)
        recording = self._recordings.get(key)
        if recording is None:
            if key not in self._met or len(self._recordings) >= self._most:
                self._met.add(key)
                return function(*inputs)
            try:
                recording = self._recordings[key] = self._record(function, inputs, place)
            except RuntimeError as error:
                if not any(out_of_memory(each) for each in (error, error.__context__) if each is not None):
                    raise BonafideError(
                        f"A CUDA graph could not be recorded ({error}). Train without: --set train.graphs=false"
                    ) from error
            if recording is None:  # there is memory for the call itself, perhaps, but not for keeping it
                self._most = 0
                torch.cuda.empty_cache()
                return function(*inputs)
        if place is None:
            recording.load(inputs)
            recording.forward.replay()
            output = recording.output
            return output.clone() if isinstance(output, Tensor) else tuple(each.clone() for each in output)
        one = _Pass(self, recording, place)
        self._waiting[place] = weakref.ref(one)
        return _Replayed.apply(one, self._anchor, *inputs)  # type: ignore[no-untyped-call]

    def _taken(self, place: int) -> bool:
        one = self._waiting.get(place)
        return one is not None and one() is not None

    def _record(self, function: Function, inputs: Sequence[Tensor], place: int | None) -> _Recording:
        training = place is not None
        own = [each.detach().clone().requires_grad_(each.requires_grad and training) for each in inputs]
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream), _casting_anew(), self._other_leaves() as weights:
            forward = torch.cuda.CUDAGraph()
            with _capturing(forward, self._pools[place]):
                output = function(*own)
            recording = _Recording(own, forward, output.detach() if training else output)
            if training:
                recording.output_gradient = torch.empty_like(output)
                recording.backward = torch.cuda.CUDAGraph()
                learned = [each for each in own if each.requires_grad]
                with _capturing(recording.backward, self._pools[place]):
                    gradients = torch.autograd.grad(
                        output, [*learned, *weights], recording.output_gradient, allow_unused=True
                    )
                    of_weights = gradients[len(learned) :]
                    recording.used = [place for place, each in enumerate(of_weights) if each is not None]
                    torch._foreach_add_(
                        [self._sums[place] for place in recording.used],
                        [each for each in of_weights if each is not None],
                    )
                recording.gradients = list(gradients[: len(learned)])
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return recording

    @contextmanager
    def _other_leaves(self) -> Iterator[list[Tensor]]:
        """Let the module use other tensors with the memory of its weights: autograd ties a weight to a stream."""
        others = {id(weight): nn.Parameter(weight.detach()) for weight in self._weights}
        holders = [each._parameters for each in self._module.modules()]
        own = [(holder, name, weight) for holder in holders for name, weight in holder.items() if id(weight) in others]
        try:
            for holder, name, weight in own:
                holder[name] = others[id(weight)]
            yield list(others.values())
        finally:
            for holder, name, weight in own:
                holder[name] = weight

    def add_gradients(self, one: _Pass) -> None:
        """Replay the backward pass, and let ``.grad`` of the weights be the sums."""
        recording = one.recording
        assert recording.backward is not None
        weights = [(self._weights[place], self._sums[place]) for place in recording.used]
        fresh = [total for weight, total in weights if weight.grad is None]
        if fresh:
            torch._foreach_zero_(fresh)
        for weight, total in weights:
            if weight.grad is not total:
                if weight.grad is not None:
                    total.copy_(weight.grad)
                weight.grad = total
        recording.backward.replay()
        del self._waiting[one.place]


@dataclass(eq=False)
class _Recording:
    """One function for one shape."""

    inputs: list[Tensor]
    forward: torch.cuda.CUDAGraph
    output: Any
    backward: torch.cuda.CUDAGraph | None = None
    output_gradient: Tensor | None = None
    gradients: list[Tensor | None] | None = None  # of those inputs that have one
    used: Sequence[int] = ()  # the weights that have one

    def load(self, inputs: Sequence[Tensor]) -> None:
        """Copy the inputs to where the recording reads them."""
        torch._foreach_copy_([each.detach() for each in self.inputs], [each.detach() for each in inputs])


@dataclass(eq=False)
class _Pass:
    """A forward pass whose backward pass is to come."""

    replay: Replay
    recording: _Recording
    place: int


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: _Pass, _: Tensor, *inputs: Tensor) -> Tensor:
        ctx.one = one
        one.recording.load(inputs)
        one.recording.forward.replay()
        output: Tensor = one.recording.output.detach()
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        recording = ctx.one.recording
        recording.output_gradient.copy_(gradients[0])
        ctx.one.replay.add_gradients(ctx.one)
        of_inputs = iter(recording.gradients)
        return None, None, *(next(of_inputs) if each.requires_grad else None for each in recording.inputs)


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    # Only this thread is watched for what a recording may not do.
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        yield
    finally:
        graph.capture_end()


@contextmanager
def _casting_anew() -> Iterator[None]:
    """Autocast as it is, but weights that it has cast before are cast again: the recording must do it itself."""
    enabled = torch.is_autocast_enabled("cuda")
    with torch.autocast("cuda", dtype=torch.get_autocast_dtype("cuda"), enabled=enabled, cache_enabled=False):
        yield
