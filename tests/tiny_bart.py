"""A BART of one narrow layer, untrained, as a local checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import BartConfig, BartForConditionalGeneration

from bonafide.tasks.text.solver import train_tokenizer

WORDS = "select none max min count sum average ( ) where = > < and"


def write_bart(folder: Path, texts: Sequence[str]) -> Path:
    """Its vocabulary is that of these texts and of written queries."""
    tokenizer = train_tokenizer([*texts, *[WORDS] * 5], 600)
    ends = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=48, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=128, dropout=0.0,
        forced_eos_token_id=None, **ends,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bart = BartForConditionalGeneration(config)
        for layer in (*bart.model.encoder.layers, *bart.model.decoder.layers):
            for parameter in layer.parameters():
                if parameter.dim() == 2:
                    torch.nn.init.xavier_uniform_(parameter)
    bart.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
