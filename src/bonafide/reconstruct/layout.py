"""What the reconstructor reads of one example, as token ids: context, segments of solutions, question.

An example is tokenised once. Its solutions share segments (see ``rendering.py``), and so does their tokenised
form: putting many solutions together is indexing, without a Python loop over solutions (``batches.py``).

Where this differs from the reference code: the context is tokenised as it stands, once, so its tokens do not depend
on the solution (the reference cuts it at the span, which marks the span in the tokenisation itself); text is not
lower-cased or split into word-pieces beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase

from bonafide.errors import BonafideError
from bonafide.rendering import RenderedSet, SpanReference

SOLUTION_MARKER = "<sol>"
SPAN_MARKER = "<span>"
_BRACKETS = frozenset("()[]{},")

Integers = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """One example in tokens; the markers around the streams are put there by the batch."""

    context: Integers  # (context tokens,): without <s> and </s>
    spans: Integers  # (spans, 2): ranges [start, end) of context tokens; end may be one past the last: that is </s>
    tokens: Integers  # (segment tokens,): the segments, one after the other
    placeholders: Integers  # (segment tokens,): which span a <span> token stands for; −1 for every other token
    starts: Integers  # (segments + 1,): where each segment starts in tokens
    composition: Integers  # (solutions, most segments): which segments, in order; −1 where fewer
    question: Integers  # (question tokens,): ends with </s>

    def __len__(self) -> int:
        return len(self.composition)


def tokenise(rendered: RenderedSet, question: str, tokenizer: PreTrainedTokenizerBase) -> Layout:
    """The layout of one example. The tokenizer must be a fast one that knows ``<sol>`` and ``<span>``."""
    span_token = _placeholder_id(tokenizer)
    pieces = [piece for segment in rendered.segments for piece in segment]
    texts = tuple(dict.fromkeys(_spaced(piece.text) for piece in pieces if not isinstance(piece, SpanReference)))
    encoded = dict(zip(texts, _remembered(texts, tokenizer), strict=True))
    references = list(dict.fromkeys(piece for piece in pieces if isinstance(piece, SpanReference)))
    number = {reference: place for place, reference in enumerate(references)}

    tokens: list[int] = []
    placeholders: list[int] = []
    starts = [0]
    for segment in rendered.segments:
        for piece in segment:
            if isinstance(piece, SpanReference):
                tokens.append(span_token)
                placeholders.append(number[piece])
            else:
                ids = encoded[_spaced(piece.text)]
                tokens.extend(ids)
                placeholders.extend([-1] * len(ids))
        starts.append(len(tokens))

    context, spans = _context(rendered.context, references, tokenizer)
    return Layout(
        context=context,
        spans=spans,
        tokens=np.array(tokens, np.int32),
        placeholders=np.array(placeholders, np.int32),
        starts=np.array(starts, np.int32),
        composition=np.asarray(rendered.composition, np.int32),
        question=np.array([*_remembered((question,), tokenizer)[0], closing_token(tokenizer)], np.int32),
    )


def question_layout(context: npt.ArrayLike, question: npt.ArrayLike) -> Layout:
    """A layout without solutions: the context stream holds these tokens. The denoiser learns from such layouts."""
    return Layout(
        context=np.asarray(context, np.int32),
        spans=np.zeros((0, 2), np.int32),
        tokens=np.zeros(0, np.int32),
        placeholders=np.zeros(0, np.int32),
        starts=np.zeros(1, np.int32),
        composition=np.zeros((0, 0), np.int32),
        question=np.asarray(question, np.int32),
    )


def encode(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Token ids of each text, without markers; a marker written out in a text (``</s>``) is text like any other."""
    if not texts:
        return []
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, split_special_tokens=True, verbose=False)[
        "input_ids"
    ]
    return ids


@lru_cache(maxsize=64)  # a question has a layout for each of its paragraphs, and their solutions the same words
def _remembered(texts: tuple[str, ...], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    return encode(list(texts), tokenizer)


def closing_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id of ``</s>``, or of what a BERT-like tokenizer has in its place."""
    token = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id
    if token is None:
        raise BonafideError("The reconstructor's tokenizer has neither an end token (</s>) nor a separator ([SEP]).")
    return int(token)


def _placeholder_id(tokenizer: PreTrainedTokenizerBase) -> int:
    if not tokenizer.is_fast:
        raise BonafideError(
            f"{type(tokenizer).__name__} does not say which characters a token covers. Use a fast tokenizer "
            "(a checkpoint with tokenizer.json)."
        )
    token = tokenizer.convert_tokens_to_ids(SPAN_MARKER)
    if not isinstance(token, int) or token == tokenizer.unk_token_id:
        raise BonafideError(f"The tokenizer has no {SPAN_MARKER}: build it with build_reconstructor(…).")
    return token


def _spaced(text: str) -> str:
    """Words are tokenised as inside a sentence, with the space before them; brackets stand close, as in BART's text."""
    return text if text in _BRACKETS else f" {text}"


def _context(
    text: str, references: list[SpanReference], tokenizer: PreTrainedTokenizerBase
) -> tuple[Integers, Integers]:
    """Context tokens, and the tokens that overlap each reference's characters.

    A reference that overlaps none (an empty column name) is given the next token; there is one, since </s> comes last.
    """
    for reference in references:
        if not 0 <= reference.start <= reference.end <= len(text):
            raise BonafideError(
                f"A solution refers to characters {reference.start}–{reference.end} of a context of {len(text)}."
            )
    if not text:
        return np.zeros(0, np.int32), np.tile(np.array([[0, 1]], np.int32), (len(references), 1))
    context, begins, ends = _encoded(text, tokenizer)
    wanted = np.array([(reference.start, reference.end) for reference in references], np.int64).reshape(-1, 2)
    first = np.searchsorted(ends, wanted[:, 0], side="right")
    last = np.searchsorted(begins, wanted[:, 1], side="left")
    return context, np.stack([first, np.maximum(last, first + 1)], axis=1).astype(np.int32)


@lru_cache(maxsize=1024)  # many questions are asked about one text
def _encoded(
    text: str, tokenizer: PreTrainedTokenizerBase
) -> tuple[Integers, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Tokens, and where each begins and ends, in order."""
    encoding = tokenizer(
        text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False
    )
    tokens = np.array(encoding["input_ids"], np.int32)
    offsets = np.array(encoding["offset_mapping"], np.int64).reshape(-1, 2)
    # A token of zero characters ("Ġ" before a word) has no place of its own: order must hold for the search above.
    found = tokens, np.maximum.accumulate(offsets[:, 0]), np.maximum.accumulate(offsets[:, 1])
    for each in found:
        each.flags.writeable = False
    return found
