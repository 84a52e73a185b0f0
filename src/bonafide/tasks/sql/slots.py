"""The slots of a query as tables of log-probabilities, from one pass of the encoder.

SQLova's six modules with column attention: the select column; its aggregate; the number of conditions; their
columns; the operator of a column; the value of a column and operator. They make an exact joint:

    log P(z) = log p(select) + log p(aggregate | select) + log p(K) + log P(columns | K)
             + Σ over conditions of log p(operator | column) + log P(run | column, operator)

- P(columns | K) is the conditional Bernoulli: the logits of the chosen columns, less the log of the elementary
  symmetric polynomial of order K of all columns. It sums to one over the sets of K columns.
- P(run | column, operator) is a start score plus an end score, normalised over the runs that the column may take:
  start ≤ end on a text column, the runs that read as a number on a real one.
- What the language or the question rules out (an aggregate, an operator, more conditions than there are columns
  with a value) has probability zero, so that all queries over all runs sum to one.

How this differs from SQLova: it has one linear projection of the encoder's last layer a module in place of two
BiLSTMs, and headers are the mean of their pieces; this is what makes a pass cheap, and the prototype measured that
it suffices (``prototype.md`` §2). Value scores are bilinear, so that one matrix product gives them for every
column, operator and token. SQLova's column probabilities are independent of the number of conditions and its start
of its end (it may put the end first); ours are not. Values given an operator are given *that* operator, not the
likeliest one. There is no fourth, unused operator.
Column attention starts as the likeness of header and piece (see ``Slots``), since columns are mostly asked for by
name: a small encoder from scratch learns this much sooner.

With the language's ``similar_cells`` several cells may be grounded in one run; each then has the run's probability,
and the sum over such queries can exceed one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bonafide import ragged
from bonafide.tasks.sql.features import AGGREGATES, OPERATORS, SolverBatch

NEVER = -1e30
"""The log-probability of what cannot be, inside the tables: finite, so that no gradient is NaN."""

_SELECT, _AGGREGATE, _SIZE, _COLUMN, _OPERATOR, _VALUE = range(6)


@dataclass(frozen=True, eq=False)
class SolverOutput:
    """Tables of log-probabilities; ``column``, ``start`` and ``end`` are scores that the totals normalise."""

    select: Tensor  # (examples, columns)
    aggregate: Tensor  # (examples, columns, aggregates)
    size: Tensor  # (examples, numbers of conditions)
    column: Tensor  # (examples, columns)
    column_total: Tensor  # (examples, numbers of conditions): log of the sum over the sets of that many columns
    operator: Tensor  # (examples, columns, operators)
    start: Tensor  # (examples, columns, operators, question tokens)
    end: Tensor  # (examples, columns, operators, question tokens)
    run_total: Tensor  # (examples, columns, operators): log of the sum over the runs


class Slots(nn.Module):
    """From the encoder's states to the tables."""

    def __init__(self, states: int, width: int, dropout: float, max_conditions: int) -> None:
        super().__init__()
        self.width, self.max_conditions = width, max_conditions
        self.dropout = nn.Dropout(dropout)
        self.question = nn.Linear(states, 6 * width)
        self.header = nn.Linear(states, 6 * width)
        self.attention = nn.Parameter(torch.empty(6, width, width))
        # Columns are mostly asked for by name, so attention starts as the likeness of header and piece where the
        # column is what matters; for aggregates and the number of conditions other words count.
        with torch.no_grad():
            self.header.load_state_dict(self.question.state_dict())
            for module, matrix in enumerate(self.attention):
                if module in (_SELECT, _COLUMN, _OPERATOR, _VALUE):
                    matrix.copy_(torch.eye(width) * math.sqrt(width))
                else:
                    nn.init.xavier_uniform_(matrix)
        self.select = _scores(width, 1)
        self.aggregate = _scores(width, AGGREGATES)
        self.header_weight = nn.Linear(width, 1, bias=False)
        self.size = _scores(width, max_conditions + 1)
        self.column = _scores(width, 1)
        self.operator = _scores(width, OPERATORS)
        self.value = nn.Linear(2 * width, width)
        self.value_operator = nn.Parameter(0.1 * torch.randn(OPERATORS, width))
        self.bounds = nn.Linear(width, 2 * width)

    def forward(self, states: Tensor, batch: SolverBatch) -> SolverOutput:
        """``states``: (examples, pieces, states)."""
        examples, pieces, _ = states.shape
        states = self.dropout(states)
        place = torch.arange(pieces, device=states.device)
        # [CLS] counts as a piece of the question, so that there is always one to attend to.
        in_question = place <= batch.question_pieces[:, None]  # (examples, pieces)
        start, end = batch.headers.unbind(-1)  # (examples, columns)
        in_header = (place >= start[..., None]) & (place < end[..., None])  # (examples, columns, pieces)
        share = in_header.to(states.dtype) / (end - start).clamp(min=1)[..., None].to(states.dtype)
        # (examples, modules, pieces or columns, width)
        question = self.question(states).view(examples, pieces, 6, self.width).transpose(1, 2)
        headers = self.header(share @ states).view(examples, -1, 6, self.width).transpose(1, 2)
        present = end > start  # (examples, columns)

        # The number of conditions attends with a mean of all headers, the other modules with each header.
        weight = _masked(self.header_weight(headers[:, _SIZE]).squeeze(-1), present).softmax(-1)
        summary = weight.to(headers.dtype)[:, None] @ headers[:, _SIZE]  # (examples, 1, width)
        everywhere = summary[:, None].expand(-1, 1, headers.shape[2], -1)
        headers = torch.cat([headers[:, :_SIZE], everywhere, headers[:, _SIZE + 1 :]], dim=1)
        asked = torch.einsum("emcw,mwv->emcv", headers, self.attention) / math.sqrt(self.width)
        scores = asked @ question.transpose(-1, -2)  # (examples, modules, columns, pieces)
        attention = _masked(scores, in_question[:, None, None]).softmax(-1)
        read = attention.to(question.dtype) @ question
        both = torch.cat([read, headers], dim=-1)  # (examples, modules, columns, 2 width)

        usable = batch.operators.any(-1)  # (examples, columns): columns that a condition can be on
        column = _masked(self.column(both[:, _COLUMN]).squeeze(-1), usable)
        run_start, run_end, run_total = self._runs(both[:, _VALUE], question[:, _VALUE], batch)
        return SolverOutput(
            _masked(self.select(both[:, _SELECT]).squeeze(-1), present).log_softmax(-1),
            _masked(self.aggregate(both[:, _AGGREGATE]), batch.aggregates).log_softmax(-1),
            _masked(self.size(both[:, _SIZE, 0]), batch.sizes).log_softmax(-1),
            column,
            log_symmetric(column, self.max_conditions),
            _masked(self.operator(both[:, _OPERATOR]), batch.operators).log_softmax(-1),
            run_start,
            run_end,
            run_total,
        )

    def _runs(self, both: Tensor, question: Tensor, batch: SolverBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Start and end scores (examples, columns, operators, tokens), and their totals over the allowed runs."""
        hidden = torch.tanh(self.value(both)[:, :, None] + self.value_operator)
        asked = self.bounds(hidden) / math.sqrt(self.width)  # (examples, columns, operators, 2 width)
        known = (batch.token_pieces >= 0).all(-1)[:, None, None]  # (examples, 1, 1, tokens)
        bounds = []
        for query, piece in zip(asked.chunk(2, dim=-1), batch.token_pieces.unbind(-1), strict=True):
            tokens = question.gather(1, piece.clamp(min=0)[..., None].expand(-1, -1, self.width))
            scores = query.flatten(1, 2) @ tokens.transpose(-1, -2)
            bounds.append(_masked(scores.view(*query.shape[:3], -1), known))
        start, end = bounds
        any_run = (start + end.flip(-1).logcumsumexp(-1).flip(-1)).logsumexp(-1)
        first, last = batch.number_runs.clamp(min=0)[:, None, None].unbind(-1)  # (examples, 1, 1, runs)
        shape = (*start.shape[:3], -1)
        number = start.gather(-1, first.expand(shape)) + end.gather(-1, last.expand(shape))
        number_run = _masked(number, (batch.number_runs >= 0).all(-1)[:, None, None]).logsumexp(-1)
        return start, end, torch.where(batch.real[..., None], number_run, any_run)


def log_prob(output: SolverOutput, batch: SolverBatch) -> Tensor:
    """(solutions,): log P(z) of every solution of every example; −inf where it cannot be produced."""
    value = _run_scores(output, batch) - _taken(output.run_total, batch.condition_operator)
    condition = _taken(output.column, batch.condition_column) + _operators(output, batch) + value
    total = _heads(output, batch) + _taken(output.size - output.column_total, batch.size) + _sums(condition, batch)
    return total.masked_fill(~batch.reachable, -torch.inf)


def averaged_log_prob(output: SolverOutput, batch: SolverBatch) -> Tensor:
    """(solutions,): the pseudo-likelihood of the released code, which does not sum to one.

    Operator and value terms are averaged over the conditions, each column is an independent Bernoulli (of those
    that can have a condition), start and end are independent. The released code conditions a value on the likeliest
    operator; here it is the solution's own.
    """
    bound_total = _taken(output.start.logsumexp(-1) + output.end.logsumexp(-1), batch.condition_operator)
    value = _operators(output, batch) + _run_scores(output, batch) - bound_total
    conditions = (batch.where < len(batch.condition_column)).sum(-1)
    absent = nn.functional.logsigmoid(-output.column).masked_fill(~batch.operators.any(-1), 0.0).sum(-1)
    example = ragged.owners(batch.offsets, len(batch.head))
    columns = _taken(absent, example) + _sums(_taken(output.column, batch.condition_column), batch)
    total = _heads(output, batch) + _taken(output.size, batch.size) + columns
    total = total + _sums(value, batch) / conditions.clamp(min=1)
    return total.masked_fill(~batch.reachable, -torch.inf)


def log_symmetric(logits: Tensor, order: int) -> Tensor:
    """(examples, order + 1): log of the elementary symmetric polynomials of exp(logits), orders 0 to ``order``.

    The product of (1 + x·exp(logit)) over the columns, as a balanced tree of products of polynomials in log space:
    few kernels, where a loop over columns would launch thousands of small ones.
    """
    never = torch.full_like(logits, NEVER)[..., None].expand(*logits.shape, order + 1)
    polynomial = torch.cat([torch.zeros_like(logits)[..., None], logits[..., None], never], -1)[..., : order + 1]
    power = torch.arange(order + 1, device=logits.device)
    other = power[:, None] - power  # (order + 1, order + 1): the power that completes one to the sum
    while polynomial.shape[1] > 1:
        if polynomial.shape[1] % 2:
            one = torch.zeros_like(polynomial[:, :1]).masked_fill(power > 0, NEVER)
            polynomial = torch.cat([polynomial, one], dim=1)
        left, right = polynomial[:, 0::2], polynomial[:, 1::2]
        completing = right.index_select(-1, other.clamp(min=0).flatten()).view(*right.shape, order + 1)
        terms = left[..., None, :] + completing
        polynomial = terms.masked_fill(other < 0, NEVER).logsumexp(-1)
    return polynomial[:, 0]


def _heads(output: SolverOutput, batch: SolverBatch) -> Tensor:
    return _taken(output.select[..., None] + output.aggregate, batch.head)


def _operators(output: SolverOutput, batch: SolverBatch) -> Tensor:
    return _taken(output.operator, batch.condition_operator)


def _run_scores(output: SolverOutput, batch: SolverBatch) -> Tensor:
    """(conditions,): log of the sum over the places where the value stands."""
    scores = _taken(output.start, batch.grounding_start) + _taken(output.end, batch.grounding_end)
    return ragged.logsumexp(scores, batch.condition_offsets)


def _sums(conditions: Tensor, batch: SolverBatch) -> Tensor:
    """(solutions,): the sum over each solution's conditions."""
    return _taken(torch.cat([conditions, conditions.new_zeros(1)]), batch.where).sum(-1)


def _taken(table: Tensor, index: Tensor) -> Tensor:
    # index_select, not indexing, whose gradient sorts on GPU: slow where many solutions share a cell.
    return table.flatten().index_select(0, index.flatten()).view(index.shape)


def _scores(width: int, outputs: int) -> nn.Sequential:
    # No bias on one score per column: a softmax over columns does not see it.
    return nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, outputs, bias=outputs > 1))


def _masked(scores: Tensor, allowed: Tensor) -> Tensor:
    """In full precision whatever the encoder's, since what follows decides."""
    scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    return scores.masked_fill(~allowed, NEVER)
