"""The span reader: P(mention given question, document) on any encoder, across all paragraphs of the document.

Each window is read as ``[CLS] question [SEP] window [SEP]``; from its states come one score for the window and, for
each of its pieces, one as the first and one as the last of a mention::

    P(z) = Σ_w P(w) · P(start | w) · P(end | start, w)      over the windows w that hold z whole

P(start | w) is a softmax over the window's pieces, P(end | start, w) over those from start on. P(w) is a softmax over
the windows of the window's score plus the log-sum of its first-piece scores: first pieces of all windows are compared
with each other, and a window need not be understood before what is in it can be. So the distribution is proper: it
sums to one over all runs of pieces of the document, and the posterior over Z, which needs only the windows with a
mention, is exact: choices and draws read only those. In training the softmax over windows is over those that are read
(all with a mention, and as many others, drawn anew each epoch): log P(z) is too high by the same amount for all of Z.

How this differs from the reference code, which is ``local=True``: there a window knows nothing of the others; it says
by itself whether it holds an answer, and where. As a joint, P(z) = P(answer | w) · P(start | w) · P(end | w) times
P(no answer | w′) over the windows w′ without a mention that are read, which is the same for all of Z. It does not sum
to one, and windows are compared by log-odds that were never trained against each other.

The encoder is told which words question and document share, and what stands next to a piece is added to its state
(``shared_words.py``): with both, an encoder from scratch learns to read from some hundreds of questions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from bonafide import ragged
from bonafide.documents import Document
from bonafide.encoders import (
    Encoder,
    Scratch,
    empty_encoder,
    load_encoder,
    load_tokenizer,
    scratch_encoder,
    special_pieces,
)
from bonafide.errors import BonafideError
from bonafide.tasks.reading.features import (
    MARKERS,
    Features,
    Markers,
    SolverBatch,
    collate,
    make_features,
)
from bonafide.tasks.reading.span import Mention, MentionSet
from bonafide.tasks.reading.windows import (
    QUESTION_PIECES,
    STRIDE,
    WINDOW_PIECES,
    EncodedDocument,
    cut_windows,
    encode_document,
    encode_question,
)
from bonafide.tasks.shared_words import SharedWords, Surroundings

NEVER = -1e30
_NOTHING = 14.0
"""In nats: what is so much less likely changes a sum by a millionth."""
_KEPT_DOCUMENTS = 512


@dataclass(frozen=True, slots=True)
class ReaderSpec:
    """What a span reader is built from; ``encoder`` and the sizes of a scratch one are as for the other solvers.

    ``window``, ``stride`` and ``question`` are in pieces; ``others`` is how many windows without a mention training
    reads for each with one; ``local`` is the reference's way.
    """

    encoder: str = "minilm"
    layers: int = 2
    width: int = 64
    heads: int = 4
    vocabulary: int = 8000
    positions: int = 512
    dropout: float = 0.1
    window: int = WINDOW_PIECES
    stride: int = STRIDE
    question: int = QUESTION_PIECES
    others: float = 1.0
    local: bool = False


class ReaderOutput(NamedTuple):
    """Log-probabilities; the shape of a window's is (rows, window width), padded with NEVER."""

    window: Tensor  # (rows,): log P(w), or with ``local`` log P(answer | w)
    none: Tensor  # (rows,): with ``local`` log P(no answer | w)
    start: Tensor  # (rows, width): log P(start | w)
    end: Tensor  # (rows, width): scores of the last piece
    end_total: Tensor  # (rows, width): their log-sum from each piece on; with ``local`` over the window


class Reader(nn.Module):
    """An encoder, its tokenizer, and three scores on top."""

    def __init__(self, spec: ReaderSpec, encoder: Encoder, tokenizer: Any) -> None:
        super().__init__()
        self.spec = spec
        self.tokenizer = tokenizer
        self.markers = Markers(*special_pieces(tokenizer), tokenizer.pad_token_id or 0)
        self.encoder = encoder
        self.shared = SharedWords(encoder.embedding_width)
        self.surroundings = Surroundings(encoder.width)
        self.dropout = nn.Dropout(spec.dropout)
        self.bounds = nn.Linear(encoder.width, 2)
        self.window = nn.Sequential(
            nn.Linear(encoder.width, encoder.width), nn.Tanh(), nn.Linear(encoder.width, 1, bias=spec.local)
        )
        self._encoded: dict[int, tuple[Document, EncodedDocument]] = {}

    @property
    def window_pieces(self) -> int:
        """Pieces of a window with question and markers."""
        return min(self.spec.window, self.encoder.max_pieces)

    def features(self, question: str, document: Document, mentions: MentionSet | None = None) -> Features:
        """What is read of an example; ``mentions`` are the solutions to score."""
        encoded = self.encoded(document)
        asked = encode_question(question, self.tokenizer, min(self.spec.question, self.window_pieces // 2))
        windows = cut_windows(encoded, self.window_pieces - len(asked) - MARKERS, self.spec.stride)
        return make_features(f"{document.name}/{question}", asked, encoded, windows, mentions, self.spec.others)

    def encoded(self, document: Document) -> EncodedDocument:
        """A document's pieces, kept for the next question about it."""
        kept = self._encoded.pop(id(document), None)
        if kept is None or kept[0] is not document:
            kept = document, encode_document(document, self.tokenizer)
        self._encoded[id(document)] = kept  # the last is the latest
        if len(self._encoded) > _KEPT_DOCUMENTS:
            del self._encoded[next(iter(self._encoded))]
        return kept[1]

    def collate(self, features: Sequence[Features], *, draw: int = 0) -> SolverBatch:
        """What training reads in draw ``draw``, on the CPU."""
        return collate(features, [each.chosen(draw) for each in features], self.markers)

    def collate_posterior(self, features: Sequence[Features]) -> SolverBatch:
        """The windows with a mention alone, on the CPU: scores of solutions, but for what is the same for all of Z."""
        holding = [each.holding if len(each.holding) else each.chosen(0)[:1] for each in features]
        return collate(features, holding, self.markers)

    def collate_all(self, features: Sequence[Features]) -> SolverBatch:
        """Every window, on the CPU."""
        everything = [
            np.concatenate([each.holding, np.setdiff1d(np.arange(len(each.windows)), each.holding)]).astype(np.int64)
            for each in features
        ]
        return collate(features, everything, self.markers)

    def forward(self, batch: SolverBatch) -> ReaderOutput:
        """Log-probabilities of windows, first and last pieces."""
        device = batch.lengths.device
        rows, width = len(batch.lengths), batch.width
        column = torch.arange(width, device=device)
        inside = column < batch.lengths[:, None]
        if not rows:
            none, nowhere = self.bounds.weight.new_zeros(0), self.bounds.weight.new_zeros(0, width)
            return ReaderOutput(none, none, nowhere, nowhere, nowhere)
        scores: list[Tensor] = []
        windows: list[Tensor] = []
        for part in batch.rows:
            marks = self.shared(part.shared)
            read = self.encoder(part.pieces, part.counts, part.question, marks)
            there = torch.arange(read.shape[1], device=device) < part.counts[:, None]
            states = self.dropout(self.surroundings(read, there))
            first = part.question + 2
            index = (first[:, None] + column).clamp(max=states.shape[1] - 1)
            bounds = self.bounds(states).gather(1, index[..., None].expand(-1, -1, 2))
            scores.append(bounds.float() if bounds.dtype in (torch.float16, torch.bfloat16) else bounds)
            windows.append(self.window(states[:, 0]).squeeze(-1).to(scores[-1].dtype))
        order = torch.cat([part.places for part in batch.rows])
        back = torch.empty_like(order).index_copy(0, order, torch.arange(rows, device=device))
        bounds = torch.cat(scores).index_select(0, back)
        window = torch.cat(windows).index_select(0, back)
        start, end = (bounds[..., side].masked_fill(~inside, NEVER) for side in (0, 1))
        if self.spec.local:
            total = end.logsumexp(-1, keepdim=True).expand_as(end)
            return ReaderOutput(F.logsigmoid(window), F.logsigmoid(-window), start.log_softmax(-1), end, total)
        total = end.flip(-1).logcumsumexp(-1).flip(-1)
        shares = ragged.log_softmax(window + start.logsumexp(-1), batch.row_offsets)
        return ReaderOutput(shares, torch.zeros_like(shares), start.log_softmax(-1), end, total)

    def log_prob(self, output: ReaderOutput, batch: SolverBatch) -> Tensor:
        """(solutions,): log P(z | d, q); −inf where no window holds z whole."""
        start = batch.place_row * batch.width + batch.place_start
        end = batch.place_row * batch.width + batch.place_end
        span = _taken(output.start, start) + _taken(output.end, end) - _taken(output.end_total, start)
        places = _taken(output.window, batch.place_row) + span
        scores = ragged.logsumexp(places, batch.place_offsets)
        if self.spec.local:
            none = torch.where(batch.empty, output.none, 0.0)
            owner = ragged.owners(batch.row_offsets, len(none))
            by_example = none.new_zeros(len(batch)).index_add(0, owner, none)
            scores = scores + by_example[ragged.owners(batch.offsets, len(scores))]
        return scores

    def best(
        self,
        output: ReaderOutput,
        batch: SolverBatch,
        top: int = 1,
        longest: int = 40,
        one_window: bool = False,
        words: int | None = None,
    ) -> list[Iterator[tuple[Mention, float]]]:
        """For each example the likeliest mentions of at most ``longest`` pieces, with their log-probabilities.

        At least ``top`` if there are so many, the likeliest first, made as they are asked for. ``one_window``: only
        from the window that is ranked first, as in the paper. ``words``: of at most so many, as white space parts them.
        """
        longest = min(batch.width, longest)
        width = output.start.shape[1]
        ends = F.pad(output.end, (0, longest - 1), value=NEVER).unfold(-1, longest, 1)  # (rows, width, longest)
        scores = output.window[:, None, None] + output.start[..., None] + ends - output.end_total[..., None]
        if words is not None:
            parted = _parted(batch, width).to(scores.device)
            reached = F.pad(parted, (0, longest - 1)).unfold(-1, longest, 1)
            scores = scores.masked_fill(reached - parted[..., None] >= words, NEVER)
        best, place = scores.flatten(1).topk(min(width * longest, max(16, 8 * top)), dim=-1)
        begun = place // longest
        last = begun + place % longest
        listed = [each.cpu().numpy() for each in (best.double(), begun, last)]
        window = output.window.cpu().numpy()
        results = []
        for number, (features, chosen) in enumerate(zip(batch.features, batch.chosen, strict=True)):
            base = int(batch.row_offsets[number])
            lines = np.arange(len(chosen))
            if one_window and len(chosen):
                lines = lines[[int(window[base : base + len(chosen)].argmax())]]
            own_scores, firsts, lasts = (each[base + lines] for each in listed)  # (lines, count)
            offsets = features.windows.first[chosen[lines]].astype(np.int64)[:, None]
            lengths = features.windows.stop[chosen[lines]].astype(np.int64)[:, None] - offsets
            taken = (own_scores > max(NEVER / 2, self._least(own_scores, top))) & (lasts < lengths)
            places = (offsets + firsts)[taken], (offsets + lasts)[taken] + 1
            results.append(_ranked(features.document, *places, own_scores[taken]))
        return results

    def _least(self, scores: npt.NDArray[np.float64], top: int) -> float:
        """Below this no place is among the ``top`` likeliest mentions, or adds anything to one of them.

        At most ``held`` windows hold one mention. So ``top`` of them have a place among the first top · held, and one
        that is as likely as the last of these has a place that is at most log(held) below it.
        """
        held = math.ceil(self.window_pieces / self.spec.stride)
        place = min(top * held, scores.size)
        if not place:
            return NEVER
        worst = float(np.partition(scores, scores.size - place, axis=None)[scores.size - place])
        return worst - math.log(held) - _NOTHING

    def config(self) -> dict[str, Any]:
        """What :meth:`from_config` needs besides the weights and the tokenizer, as JSON."""
        return {"spec": asdict(self.spec), "encoder": self.encoder.to_json()}

    @classmethod
    def from_config(cls, config: dict[str, Any], tokenizer_folder: str | Path) -> Self:
        """The reader that :meth:`config` describes, its weights yet to be loaded."""
        return cls(ReaderSpec(**config["spec"]), empty_encoder(config["encoder"]), load_tokenizer(tokenizer_folder))


def build_reader(spec: ReaderSpec, texts: Iterable[str] | None = None, seed: int = 0) -> Reader:
    """A new reader; ``texts`` (questions and paragraphs) give a scratch encoder its words."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)  # weights are made on the CPU
        if spec.encoder == "scratch":
            if texts is None:
                raise BonafideError("A reader with a scratch encoder makes its vocabulary from texts: give texts=[…].")
            scratch = Scratch(spec.layers, spec.width, spec.heads, spec.vocabulary, spec.positions, spec.dropout)
            return Reader(spec, *scratch_encoder(scratch, texts))
        return Reader(spec, *load_encoder(spec.encoder))


def _ranked(
    document: EncodedDocument, first: npt.ArrayLike, stop: npt.ArrayLike, scores: npt.NDArray[np.float64]
) -> Iterator[tuple[Mention, float]]:
    """The mentions that runs of pieces are, the likeliest first; what windows that overlap say of one is added up."""
    paragraph, start, end = document.mentions_of(first, stop)
    order = np.lexsort((end, start, paragraph))
    order = order[start[order] < end[order]]
    spans = np.stack([paragraph[order], start[order], end[order]])
    begins = np.flatnonzero((np.diff(spans, axis=1, prepend=-1) != 0).any(axis=0))
    if not len(begins):
        return
    totals = np.logaddexp.reduceat(scores[order], begins)
    for place in np.argsort(-totals, kind="stable").tolist():
        yield Mention(*spans[:, begins[place]].tolist()), float(totals[place])


def _parted(batch: SolverBatch, width: int) -> Tensor:
    """(rows, width): the number of the word in which each piece ends."""
    rows = np.zeros((len(batch.lengths), width), np.int64)
    row = 0
    for features, chosen in zip(batch.features, batch.chosen, strict=True):
        for first, stop in zip(features.windows.first[chosen], features.windows.stop[chosen], strict=True):
            rows[row, : stop - first] = features.document.parted[first:stop]
            row += 1
    return torch.from_numpy(rows)


def _taken(table: Tensor, index: Tensor) -> Tensor:
    return table.flatten().index_select(0, index)
