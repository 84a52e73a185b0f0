"""Scoring all solutions of a batch: the shared path against the plain one, in the same run, on the same weights.

    python benchmarks/score_solutions.py --device cuda
    python benchmarks/score_solutions.py --device cpu --quick

Plain is transformers' BART, one sequence per solution, batched, with scaled-dot-product attention; its inputs are on
the device before the clock starts. Weights are random: times do not depend on them. The bound is the ratio of
multiply-adds (matrix products, attention, vocabulary) of the two paths. On CUDA products are TF32 and cuDNN's
attention is off (it plans anew for every shape). On a CPU, plain is timed on a few of the solutions and scaled.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from transformers import BartConfig, BartForConditionalGeneration

from bonafide.reconstruct.batches import make_batch
from bonafide.reconstruct.layout import Layout
from bonafide.reconstruct.model import Reconstructor
from bonafide.reconstruct.plain import plain_parts, plain_token_log_prob

VOCABULARY = 50265
SOLUTION, SPAN = VOCABULARY, VOCABULARY + 1
SHAPES = [(300, 8, 16, 64), (400, 12, 16, 256), (48, 20, 16, 315)]  # context, solution, question tokens; |Z|
SIZES = {
    "BART-base": {"layers": 6, "width": 768, "heads": 12, "feed_forward": 3072},
    "t-dae": {"layers": 3, "width": 384, "heads": 6, "feed_forward": 1536},
}


def main() -> None:
    """Print one line per size and shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--quick", action="store_true", help="small batches, few repeats: to see that it runs")
    parser.add_argument("--examples", type=int, help="examples a batch (16 on CUDA, 1 on a CPU)")
    parser.add_argument("--tokens-per-chunk", type=int, help="of the shared path; its own choice if not given")
    parser.add_argument("--plain-tokens", type=int, help="tokens at once of the plain path")
    arguments = parser.parse_args()
    cuda = arguments.device == "cuda"
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    if cuda:
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.allow_tf32 = True
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, TF32")
    else:
        print(f"CPU, {torch.get_num_threads()} threads, torch {torch.__version__}, fp32")
    examples = arguments.examples or (16 if cuda and not arguments.quick else 1)
    repeats = 3 if arguments.quick or not cuda else 10

    head = f"{'size':10} {'d, z, q, |Z|':>18} {'batch':>6} {'plain':>11} {'shared':>11} {'ratio':>6} {'bound':>6}"
    print(f"{head} {'share':>6} {'scored/s':>10} {'assembly':>9} {'differ':>8}" + (f" {'memory':>8}" if cuda else ""))
    for name, size in SIZES.items():
        model = build(**size).to(arguments.device).eval()
        for context, solution, question, count in SHAPES:
            kept = min(count, 32) if arguments.quick else count
            layouts = [random_layout(seed, context, solution, question, kept) for seed in range(examples)]
            chosen = [np.arange(kept)] * examples
            start = time.perf_counter()
            batch = make_batch(layouts, chosen, model.markers, arguments.device, arguments.tokens_per_chunk)
            wait(cuda)
            assembly = time.perf_counter() - start

            shared = seconds(lambda batch=batch, model=model: model.log_prob(batch), repeats, cuda)
            memory = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
            few = examples * kept if cuda else min(examples * kept, 16)
            parts = plain_parts(batch, False, arguments.plain_tokens or (1 << 16 if cuda else 1 << 12))
            parts = parts[: max(1, few // len(parts[0].solutions))] if not cuda else parts
            timed = sum(len(part.solutions) for part in parts)

            def plain(model: Reconstructor = model, parts: list = parts) -> torch.Tensor:
                return torch.cat([plain_token_log_prob(model.bart, part).sum(1) for part in parts])

            plain_seconds = seconds(plain, max(2, repeats // 3), cuda) * examples * kept / timed
            places = torch.cat([part.solutions for part in parts])
            differ = float((model.log_prob(batch)[places] - plain()).abs().max())
            bound = multiply_adds(context, solution, question, kept, **size)
            ratio = plain_seconds / shared
            shape = f"{context}, {solution}, {question}, {kept}"
            print(
                f"{name:10} {shape:>18} {examples:6} {plain_seconds * 1e3:8.1f} ms "
                f"{shared * 1e3:8.1f} ms {ratio:6.2f} {bound:6.2f} {ratio / bound:6.0%} "
                f"{examples * kept / shared:10,.0f} {assembly * 1e3:6.1f} ms {differ:8.1e}"
                + (f" {memory:4.1f} GiB" if cuda else ""),
                flush=True,
            )


def build(layers: int, width: int, heads: int, feed_forward: int) -> Reconstructor:
    """Random weights in BART's shape, with the vocabulary rounded up to a multiple of 64 as the package does."""
    config = BartConfig(
        vocab_size=-(-(VOCABULARY + 2) // 64) * 64,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=feed_forward,
        decoder_ffn_dim=feed_forward,
    )
    bart = BartForConditionalGeneration(config)
    bart.final_logits_bias[:, VOCABULARY:] = -torch.inf
    return Reconstructor(bart, SOLUTION, SPAN)


def random_layout(seed: int, context: int, solution: int, question: int, count: int) -> Layout:
    """Lengths include the markers; every solution has two placeholders, over any of twenty spans of two tokens."""
    random = np.random.default_rng(seed)
    length = solution - 1
    tokens = random.integers(5, VOCABULARY, (count, length))
    placeholders = np.full((count, length), -1)
    placeholders[:, 2] = random.integers(0, 20, count)
    placeholders[:, length // 2 + 1] = random.integers(0, 20, count)
    spans = random.integers(0, context - 4, 20)
    return Layout(
        context=random.integers(5, VOCABULARY, context - 2).astype(np.int32),
        spans=np.stack([spans, spans + 2], axis=1).astype(np.int32),
        tokens=np.where(placeholders >= 0, SPAN, tokens).astype(np.int32).reshape(-1),
        placeholders=placeholders.astype(np.int32).reshape(-1),
        starts=np.arange(0, count * length + 1, length, dtype=np.int32),
        composition=np.arange(count, dtype=np.int32)[:, None],
        question=np.append(random.integers(5, VOCABULARY, question - 1), 2).astype(np.int32),
    )


def multiply_adds(
    context: int, solution: int, question: int, count: int, layers: int, width: int, heads: int, feed_forward: int
) -> float:
    """How many times fewer multiply-adds the shared path needs: the ratio that perfect hardware would show."""
    layer = 4 * width**2 + 2 * width * feed_forward  # one token's products in an encoder layer
    both = context + solution

    def encoder(tokens: int) -> int:
        return layers * (tokens * layer + tokens**2 * 2 * width)

    self_attention = question * 4 * width**2 + question**2 * 2 * width
    decoder = layers * (self_attention + question * (layer - 2 * width**2) + question * both * 2 * width)
    vocabulary = question * VOCABULARY * width
    read = layers * 2 * width**2  # one token's keys and values for the decoder
    plain = count * (encoder(both) + both * read + decoder + vocabulary)
    shared = encoder(context) + context * read + self_attention
    shared += count * (encoder(solution) + solution * read + decoder - self_attention + vocabulary)
    return plain / shared


def seconds(run: Callable[[], object], repeats: int, cuda: bool) -> float:
    """The median of some runs, after a warm-up."""
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(3 if cuda else 1):
        run()
    times = []
    for _ in range(repeats):
        wait(cuda)
        start = time.perf_counter()
        run()
        wait(cuda)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def wait(cuda: bool) -> None:
    """Until the device has done what was asked."""
    if cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
