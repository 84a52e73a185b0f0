"""Any language model as it is, to score texts without training: log P(text given prompt).

A causal model reads prompt and text as one; an encoder–decoder such as BART reads the prompt and writes the text.
Prompts that do not fit the model lose their beginning, texts their end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from bonafide.errors import BonafideError
from bonafide.pretrained import checkpoint_errors, resolve_checkpoint

_BATCH = 16
_POSITIONS = ("max_position_embeddings", "n_positions")


class LanguageModel:
    """A pretrained model in fp32 and its tokenizer."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        path = resolve_checkpoint(name)
        with checkpoint_errors(name):
            config = AutoConfig.from_pretrained(path)
            kind: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            self.tokenizer: Any = AutoTokenizer.from_pretrained(path)
            self.model: Any = kind.from_pretrained(path, dtype=torch.float32, use_safetensors=True)
        self.model.to(device).eval()
        self._writes = bool(config.is_encoder_decoder)
        found = [getattr(config, key) for key in _POSITIONS if getattr(config, key, None)]
        self._longest = int(found[0]) if found else 2048
        if self.tokenizer.eos_token_id is None:
            raise BonafideError(f"The tokenizer of {name} has no end token, so no text ends. Use another model.")

    def log_prob(
        self, pairs: Sequence[tuple[str, str]], progress: Callable[[int, int], None] | None = None
    ) -> npt.NDArray[np.float64]:
        """(pairs,): log P(text | prompt) of each (prompt, text), the end token included."""
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place][0]) + len(pairs[place][1]))
        scores = np.zeros(len(pairs))
        for start in range(0, len(order), _BATCH):
            part = order[start : start + _BATCH]
            held = [self._encoded(*pairs[place]) for place in part]
            with torch.no_grad():
                scores[part] = (self._written(held) if self._writes else self._continued(held)).cpu().numpy()
            if progress is not None:
                progress(min(start + _BATCH, len(order)), len(order))
        return scores

    def _encoded(self, prompt: str, text: str) -> tuple[list[int], list[int]]:
        """Both in tokens, together within the model's positions."""
        end = self.tokenizer.eos_token_id
        given = [token for token in self.tokenizer(prompt, verbose=False)["input_ids"] if token != end]
        said = self.tokenizer(f" {text}", add_special_tokens=False, verbose=False)["input_ids"]
        said = [*said[: self._longest // 2 - 1], end]
        room = self._longest - (0 if self._writes else len(said))
        return given[-room:] or [end], said

    def _continued(self, held: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        tokens = _padded([[*given, *said] for given, said in held], self._padding).to(self.model.device)
        lengths = torch.tensor([len(given) + len(said) for given, said in held], device=tokens.device)
        begins = torch.tensor([len(given) for given, _ in held], device=tokens.device)
        place = torch.arange(tokens.shape[1], device=tokens.device)
        logits = self.model(input_ids=tokens, attention_mask=(place < lengths[:, None]).long()).logits
        mask = (place >= begins[:, None]) & (place < lengths[:, None])
        return _summed(logits[:, :-1], tokens[:, 1:], mask[:, 1:])

    def _written(self, held: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        given = _padded([each for each, _ in held], self._padding).to(self.model.device)
        said = _padded([each for _, each in held], self._padding).to(self.model.device)
        first = torch.full_like(said[:, :1], self.model.config.decoder_start_token_id)
        lengths = torch.tensor([len(each) for each, _ in held], device=given.device)
        asked = torch.tensor([len(each) for _, each in held], device=given.device)
        logits = self.model(
            input_ids=given,
            attention_mask=(torch.arange(given.shape[1], device=given.device) < lengths[:, None]).long(),
            decoder_input_ids=torch.cat([first, said[:, :-1]], dim=1),
        ).logits
        return _summed(logits, said, torch.arange(said.shape[1], device=said.device) < asked[:, None])

    @property
    def _padding(self) -> int:
        known = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if known is None else known)


def _padded(rows: Sequence[list[int]], padding: int) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])


def _summed(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    scores = -functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return (scores.view(targets.shape) * mask).sum(1)
