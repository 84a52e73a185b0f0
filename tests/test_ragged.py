"""Ragged reductions equal a padded double-precision reference, with their gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide import ragged

sizes = st.lists(st.integers(0, 6), min_size=1, max_size=6)


def grouped(sizes, seed, infinite=0.0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(sum(sizes), generator=generator, dtype=torch.float64) * 5
    values[torch.rand(sum(sizes), generator=generator) < infinite] = -torch.inf
    return values, ragged.offsets_of(sizes)


def padded(values, sizes):
    rows = torch.full((len(sizes), max([1, *sizes])), -torch.inf, dtype=values.dtype)
    return torch.stack(
        [torch.cat([part, row[len(part) :]]) for part, row in zip(values.split(sizes), rows, strict=True)]
    )


@given(sizes, st.integers(0, 1000))
@settings(deadline=None, max_examples=80)
def test_reductions_and_gradients_equal_a_padded_reference(sizes, seed):
    values, offsets = grouped(sizes, seed)
    flat, other = values.clone().requires_grad_(), values.clone().requires_grad_()
    keep = torch.tensor(sizes) > 0
    ours, reference = ragged.logsumexp(flat, offsets), padded(other, sizes).logsumexp(1)
    torch.testing.assert_close(ours[keep], reference[keep])
    assert (ours[~keep] == -torch.inf).all()
    ours[keep].square().sum().backward()
    reference[keep].square().sum().backward()
    torch.testing.assert_close(flat.grad, other.grad)
    shares = [part.softmax(0) for part in values.split(sizes)]
    torch.testing.assert_close(ragged.softmax(values, offsets), torch.cat(shares))
    best = [sum(sizes[:i]) + int(part.argmax()) if len(part) else -1 for i, part in enumerate(values.split(sizes))]
    assert ragged.argmax(values, offsets).tolist() == best


@given(sizes, st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_infinities_give_no_nan(sizes, seed):
    values, offsets = grouped(sizes, seed, infinite=0.6)
    values.requires_grad_()
    total = ragged.logsumexp(values, offsets)
    total[torch.isfinite(total)].sum().backward()
    assert not torch.isnan(values.grad).any()
    assert not torch.isnan(ragged.softmax(values.detach(), offsets)).any()
    drawn = ragged.sample(values.detach(), offsets, torch.full((len(sizes),), 0.999999))
    for group, index in enumerate(drawn.tolist()):
        assert (index == -1) == (sizes[group] == 0)
        part = values.detach()[offsets[group] : offsets[group + 1]]
        if torch.isfinite(part).any():
            assert math.isfinite(values.detach()[index])


def test_the_first_of_equal_values_wins():
    assert ragged.argmax(torch.tensor([1.0, 3.0, 3.0, 2.0, 2.0]), ragged.offsets_of([3, 2])).tolist() == [1, 3]


def test_what_is_not_a_number_wins_so_that_it_is_seen_and_indices_stay_in_their_group():
    values = torch.tensor([1.0, math.nan, 3.0, math.nan, math.nan])
    assert ragged.argmax(values, ragged.offsets_of([3, 2, 0])).tolist() == [1, 3, -1]


def test_samples_follow_the_weights_and_the_draw_alone():
    values, offsets = torch.tensor([0.1, 0.7, 0.2, 1.0]).log(), ragged.offsets_of([3, 0, 1])
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    drawn = torch.stack([ragged.sample(values, offsets, u.repeat(3)) for u in uniform[:2000]])
    shares = torch.bincount(drawn[:, 0], minlength=3) / 2000
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.7, 0.2]), atol=0.04, rtol=0)
    assert (drawn[:, 1] == -1).all()
    assert (drawn[:, 2] == 3).all()
    alone = ragged.sample(values[:3], ragged.offsets_of([3]), uniform[:1])
    assert alone[0] == drawn[0, 0]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 0.9999999999])
def test_a_draw_at_the_edges_is_inside_its_group(uniform):
    values, offsets = torch.tensor([-torch.inf, 0.0, -torch.inf, 1.0, 2.0]), ragged.offsets_of([3, 2])
    drawn = ragged.sample(values, offsets, torch.full((2,), uniform, dtype=torch.float64))
    assert drawn[0] == 1
    assert drawn[1] in (3, 4)
