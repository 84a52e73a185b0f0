"""From a text that was read to programs: greedy and beam search, all examples and all beams in one batch.

Only what the grammar allows is ever chosen, so every program found is one of the language. Programs come with the
exact log P that scoring them as solutions gives. With a beam, what greedy search finds is found too: beam search
alone does not promise that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bonafide.errors import BonafideError
from bonafide.tasks.discrete.decoder import Decoder, Text, option_mask
from bonafide.tasks.discrete.features import SolverBatch
from bonafide.tasks.discrete.grammar import States, advance, allowed, beginning
from bonafide.tasks.discrete.options import CLOSE, Integers, Options, stacked
from bonafide.tasks.discrete.program import Program, from_actions


@dataclass(frozen=True, slots=True)
class Decoded:
    """A program, and its log P(z | d, q)."""

    program: Program
    log_probability: float


def decode(
    decoder: Decoder, text: Text, batch: SolverBatch, beam: int = 1, top_k: int | None = None
) -> list[list[Decoded]]:
    """For each example the ``top_k`` (default: ``beam``) likeliest programs found, best first, none twice."""
    if beam < 1 or (top_k is not None and top_k < 1):
        raise BonafideError(f"Decoding needs a beam and a top_k of 1 or more, found {beam} and {top_k}.")
    wanted = beam if top_k is None else top_k
    found = _Search(decoder, text, batch, 1, 1).run()
    if beam > 1:
        wider = _Search(decoder, text, batch, beam, wanted).run()
        found = [{**more, **one} for one, more in zip(found, wider, strict=True)]
    return [
        [
            Decoded(from_actions(features.options.actions(path)), score)
            for path, score in sorted(programs.items(), key=lambda each: (-each[1], each[0]))[:wanted]
        ]
        for features, programs in zip(batch.features, found, strict=True)
    ]


_Found = dict[tuple[int, ...], float]
"""Complete programs, as their options, with their log-probabilities."""


class _Search:
    """One search over a batch."""

    def __init__(self, decoder: Decoder, text: Text, batch: SolverBatch, beam: int, wanted: int) -> None:
        self._decoder, self._text, self._batch = decoder, text, batch
        self._beam, self._wanted = beam, wanted
        self._device = text.options.device
        examples = len(batch)
        self._example = torch.arange(examples, device=self._device)
        self._options: Options = stacked([each.options for each in batch.features]).take(
            np.repeat(np.arange(examples), beam)
        )
        self._states: States = beginning(examples * beam)
        self._paths: list[list[tuple[int, ...]]] = [[()] * beam for _ in range(examples)]
        self._scores = np.full((examples, beam), -np.inf)
        self._scores[:, 0] = 0.0
        self._found: list[_Found] = [{} for _ in range(examples)]
        self._prefixes: list[Tensor | None] = [None] * len(decoder.layers)

    def run(self) -> list[_Found]:
        """Search until no program under way can be among the wanted ones."""
        chosen = self._text.beginning.expand(len(self._batch), self._beam, -1).to(self._text.options.dtype)
        for step in range(self._decoder.places.num_embeddings):
            parents, options = self._step(chosen, step)
            if not np.isfinite(self._scores).any():
                break
            rows = torch.from_numpy(parents).to(self._device)
            self._prefixes = [
                None if prefix is None else prefix[self._example[:, None], rows] for prefix in self._prefixes
            ]
            chosen = self._text.options[self._example[:, None], torch.from_numpy(options).to(self._device)]
        return self._found

    def _step(self, chosen: Tensor, step: int) -> tuple[Integers, Integers]:
        """One more option for every beam: (examples, beam) each, which beam is gone on with, and the option."""
        shares = self._log_probabilities(chosen, step)  # (examples, beam, options)
        width = shares.shape[-1]
        totals = torch.from_numpy(self._scores).to(shares)[..., None] + shares
        most = min(1 if self._beam == 1 else 2 * self._beam, totals[0].numel())
        best, places = (each.cpu().numpy() for each in totals.flatten(1).topk(most, dim=1))
        alive = np.isfinite(best)
        parents = np.where(alive, places // width, np.where(alive[:, :1], places[:, :1] // width, 0))
        options = np.where(alive, places % width, np.where(alive[:, :1], places[:, :1] % width, CLOSE))
        rows = (np.arange(len(best))[:, None] * self._beam + parents).reshape(-1)
        reached = advance(self._options.take(rows), self._states.take(rows), options.reshape(-1))
        done = reached.done.reshape(best.shape)
        kept = np.zeros((len(best), self._beam), dtype=np.int64)
        self._scores = np.full(kept.shape, -np.inf)
        for example, found in enumerate(self._found):
            paths = [
                (*self._paths[example][parent], option)
                for parent, option in zip(parents[example].tolist(), options[example].tolist(), strict=True)
            ]
            for place in np.flatnonzero(alive[example] & done[example]).tolist():
                found[paths[place]] = float(best[example, place])
            enough = sorted(found.values(), reverse=True)[self._wanted - 1 : self._wanted]
            going = [
                place
                for place in np.flatnonzero(alive[example] & ~done[example]).tolist()
                if not enough or best[example, place] > enough[0]
            ][: self._beam]
            kept[example, : len(going)] = going
            self._scores[example, : len(going)] = best[example, going]
            self._paths[example] = [paths[place] for place in kept[example].tolist()]
        self._states = reached.take((np.arange(len(best))[:, None] * best.shape[1] + kept).reshape(-1))
        return np.take_along_axis(parents, kept, axis=1), np.take_along_axis(options, kept, axis=1)

    def _log_probabilities(self, chosen: Tensor, step: int) -> Tensor:
        text, decoder = self._text, self._decoder
        steps = decoder.embedded(chosen, torch.full(chosen.shape[:2], step, device=self._device))
        for number, layer in enumerate(decoder.stack):
            new, before = layer.of_prefix(steps)[:, :, None], self._prefixes[number]
            prefix = self._prefixes[number] = new if before is None else torch.cat([before, new], dim=2)
            mask = torch.ones(prefix.shape[:3], dtype=torch.bool, device=self._device)
            steps = layer(steps, prefix, mask, text.keys[number], text.values[number], text.mask)
        rules = allowed(self._options, self._states).array.reshape(*chosen.shape[:2], -1)
        mask = option_mask(torch.from_numpy(rules).to(self._device), self._batch.date_table, self._example)
        return decoder.log_probabilities(steps, text.options, mask)
