"""MIMAX by hand: what is drawn for the reconstructor, what is chosen for the solver, each departure from the paper."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from bonafide.learn.hard_em import HardEM
from bonafide.learn.mimax import Mimax, MimaxPlus
from bonafide.learn.mml import MarginalLikelihood
from bonafide.learn.objective import Moment
from number_batches import LOGS, PHI, START, Numbers, chosen, drawn, gradient, loss_of

torch.set_num_threads(1)


def test_mimax_trains_the_solver_on_what_reconstructs_the_question_best() -> None:
    batch = Numbers(LOGS, PHI)
    outcome = Mimax().step(batch, START)
    assert chosen(outcome) == [2, 3]
    assert loss_of(outcome) == pytest.approx(-math.log(0.2) - math.log(0.05))
    assert gradient(outcome.solver_loss, batch.theta) == [0, 0, -1, -1, 0]
    assert len(drawn(batch, outcome)) == 2
    assert Mimax().needs_reconstructor


def test_mimax_draws_follow_the_posterior_over_the_set() -> None:
    counts: Counter[int] = Counter()
    for step in range(3000):
        batch = Numbers(LOGS[:1], PHI[:1], step=step)
        counts.update(drawn(batch, Mimax().step(batch, START)))
    shares = [counts[place] / 3000 for place in range(3)]
    assert shares == pytest.approx([1 / 6, 3 / 6, 2 / 6], abs=0.03)


def test_mimax_draws_depend_on_seed_step_and_example_alone() -> None:
    even = [-1.0] * 50

    def places(ids: Sequence[str], **where: int) -> dict[str, int]:
        batch = Numbers([even] * len(ids), ids=ids, **where)
        found = drawn(batch, Mimax().step(batch, START))
        return {name: place % 50 for name, place in zip(ids, found, strict=True)}

    together = places(["a", "b", "c", "d"])
    assert places(["d", "b", "a", "c"]) == together
    assert {name: place for each in "abcd" for name, place in places([each]).items()} == together
    assert len(set(together.values())) > 1
    assert places(["a", "b", "c", "d"], step=1) != together
    assert places(["a", "b", "c", "d"], seed=1) != together


@pytest.mark.parametrize(
    ("switch", "step", "switched"),
    [(1.0, 9, False), (1.0, 10, True), (0.5, 4, False), (0.5, 5, True), (0.0, 0, True), (-1.0, 10_000, False)],
)
def test_mimax_gives_way_to_hard_em_after_its_epochs(switch: float, step: int, switched: bool) -> None:
    outcome = Mimax(switch=switch).step(Numbers(LOGS, PHI), Moment(step, 10))
    assert (outcome.reconstructor_loss is None) == switched
    assert chosen(outcome) == ([1, 3] if switched else [2, 3])


def test_after_its_epochs_mimax_can_be_marginal_likelihood() -> None:
    words = [[-1.0, -2.0, -4.0], [-2.0, -1.0]]
    batches = [Numbers(LOGS, PHI, words=words) for _ in range(2)]
    outcome = Mimax(marginal=True, words=1.0).step(batches[0], Moment(10, 10))
    wanted = MarginalLikelihood(words=1.0).step(batches[1], START)
    assert outcome.reconstructor_loss is None
    assert loss_of(outcome) == loss_of(wanted)
    assert gradient(outcome.solver_loss, batches[0].theta) == gradient(wanted.solver_loss, batches[1].theta)
    assert chosen(Mimax(marginal=True).step(Numbers(LOGS, PHI), START)) == [2, 3]  # before, as ever


@pytest.mark.parametrize("marginal", [False, True])
def test_a_lasting_reconstructor_learns_on_from_draws_and_changes_nothing_for_the_solver(marginal: bool) -> None:
    counts: Counter[int] = Counter()
    for step in range(1000):
        batches = [Numbers([[math.log(0.7), math.log(0.3)]], [[-1.0, -2.0]], step=step) for _ in range(2)]
        outcome = Mimax(lasting=True, marginal=marginal).step(batches[0], Moment(10, 10))
        usual = Mimax(marginal=marginal).step(batches[1], Moment(10, 10))
        assert usual.reconstructor_loss is None
        assert chosen(outcome) == chosen(usual)
        assert gradient(outcome.solver_loss, batches[0].theta) == gradient(usual.solver_loss, batches[1].theta)
        counts.update(drawn(batches[0], outcome))
    assert counts[0] / 1000 == pytest.approx(0.7, abs=0.05)
    assert counts[0] + counts[1] == 1000


@pytest.mark.parametrize("marginal", [False, True])
def test_a_lasting_reconstructor_learns_from_scores_without_dropout(marginal: bool) -> None:
    sure, noisy = [[0.0, -1e3]], [[-1e3, 0.0]]
    for step in range(5):
        batch = Numbers(sure, [[-1.0, -2.0]], training=noisy, step=step)
        outcome = Mimax(lasting=True, marginal=marginal).step(batch, Moment(10, 10))
        assert drawn(batch, outcome) == [0]


def test_a_temperature_is_the_solvers_and_not_that_of_the_words() -> None:
    for step in range(5):
        batch = Numbers([[0.0, -1e3]], [[-1.0, -2.0]], words=[[-60.0, 0.0]], step=step)
        outcome = Mimax(switch=-1.0, told=1.0, temperature=1e3).step(batch, START)
        assert drawn(batch, outcome) == [1]  # −60 against −1; by the words too, −0.06 against −1


def test_mimax_simplicity_is_a_price_for_each_operation() -> None:
    batch = Numbers(LOGS, PHI, operations=[[0, 0, 3], [0, 0]])
    assert chosen(Mimax(simplicity=0.5).step(batch, START)) == [2, 3]  # −1 − 1.5 > −3
    assert chosen(Mimax(simplicity=1.0).step(batch, START)) == [0, 3]  # −1 − 3 < −3


def test_mimax_solver_weight_adds_what_the_solver_thinks() -> None:
    batch = Numbers([[-1.0, -5.0]], [[-3.0, -2.0]])
    assert chosen(Mimax(solver_weight=0.2).step(batch, START)) == [1]  # −3.2 < −3.0
    assert chosen(Mimax(solver_weight=0.3).step(batch, START)) == [0]  # −3.3 > −3.5


@pytest.mark.parametrize(("step", "best"), [(0, 1), (9, 1), (11, 0), (20, 0), (90, 0)])
def test_what_the_solver_thinks_counts_more_and_more(step: int, best: int) -> None:
    """Chosen by 0.5 · min(1, step / 20): from 0.25 on the solver's. Ten steps an epoch."""
    batch = Numbers([[-1.0, -5.0]], [[-3.0, -2.0]])
    objective = Mimax(solver_weight=0.5, ramp=2.0, switch=-1.0)
    assert chosen(objective.step(batch, Moment(step, 10))) == [best]


@pytest.mark.parametrize(("weight", "best"), [(0.0, 1), (0.4, 1), (0.6, 0)])
def test_words_are_added_to_what_chooses(weight: float, best: int) -> None:
    words = [[-1.0, -3.0]]
    assert chosen(HardEM(words=weight).step(Numbers([[-2.0, -1.0]], words=words), START)) == [best]
    batch = Numbers([[-1.0, -1.0]], [[-2.0, -1.0]], words=words)
    assert chosen(Mimax(words=weight).step(batch, START)) == [best]


def test_mimax_plus_draws_by_solver_and_words_and_chooses_by_the_reconstructor_alone() -> None:
    theta, words = [[math.log(0.8), math.log(0.1), math.log(0.1)]], [[math.log(0.01), math.log(0.2), math.log(0.4)]]
    counts: Counter[int] = Counter()
    for step in range(2000):
        batch = Numbers(theta, [[-3.0, -1.0, -2.0]], words=words, step=step)
        outcome = MimaxPlus().step(batch, START)
        counts.update(drawn(batch, outcome))
        assert chosen(outcome) == [1]
    expected = np.array([0.008, 0.02, 0.04]) / 0.068
    assert [counts[place] / 2000 for place in range(3)] == pytest.approx(expected.tolist(), abs=0.04)
    switched = MimaxPlus().step(batch, Moment(40, 10))
    assert switched.reconstructor_loss is None
    assert chosen(switched) == [0]


def test_what_the_solver_cannot_produce_is_not_drawn_however_its_words_fit() -> None:
    for step in range(50):
        batch = Numbers([[-1.0, -1e31]], [[-3.0, -1.0]], words=[[-900.0, 0.0]], step=step)
        assert drawn(batch, MimaxPlus().step(batch, START)) == [0]


def test_soft_mimax_weighs_solutions_by_the_softmax_of_the_score() -> None:
    batch = Numbers([[-1.0, -2.0]], [[math.log(0.1), math.log(0.3)]])
    outcome = Mimax(soft=True).step(batch, START)
    assert gradient(outcome.solver_loss, batch.theta) == pytest.approx([-0.25, -0.75])
    assert loss_of(outcome) == pytest.approx(0.25 * 1 + 0.75 * 2)


def test_mimax_draws_and_chooses_among_the_drawn_candidates_alone() -> None:
    counts: Counter[int] = Counter()
    for step in range(50):
        batch = Numbers([[-2.0, -2.0, -0.1]], [[-3.0, -2.0, -1.0]], step=step)
        outcome = Mimax(candidates=2).step(batch, START)
        counts.update(drawn(batch, outcome))
        assert chosen(outcome) == [1]
    assert set(counts) == {0, 1}


def test_more_samples_train_the_reconstructor_on_their_mean() -> None:
    batch = Numbers([[-1.0] * 20], [[-1.0] * 20])
    outcome = Mimax(samples=4).step(batch, START)
    found = gradient(outcome.reconstructor_loss, batch.phi)
    assert sum(found) == pytest.approx(-1.0)
    assert len([each for each in found if each]) > 1
    assert outcome.reconstructor_loss is not None
    assert float(outcome.reconstructor_loss.detach()) == pytest.approx(1.0)
