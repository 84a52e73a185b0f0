"""Each learning method by hand: small numbers in, the loss and the choice that its formula gives out."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from bonafide import ragged
from bonafide.errors import BonafideError
from bonafide.learn.data import load_training_data
from bonafide.learn.first_only import FirstOnly
from bonafide.learn.hard_em import HardEM
from bonafide.learn.hard_em_threshold import HardEMThreshold
from bonafide.learn.methods import METHODS, build_objective
from bonafide.learn.microbatch import MicroBatch
from bonafide.learn.mml import MarginalLikelihood
from bonafide.learn.objective import Moment, Objective
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.supervised import Supervised
from bonafide.learn.trainer import Trainer
from bonafide.learn.vae import Vae
from number_batches import LOGS, PHI, START, Numbers, chosen, gradient, loss_of
from tiny_runs import OPTIONS, recipe, write_data

torch.set_num_threads(1)
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("objective", [FirstOnly(), Supervised()])
def test_first_only_trains_the_first_solution(objective: Objective) -> None:
    batch = Numbers(LOGS)
    outcome = objective.step(batch, START)
    assert chosen(outcome) == [0, 3]
    assert loss_of(outcome) == pytest.approx(-math.log(0.1) - math.log(0.05))
    assert gradient(outcome.solver_loss, batch.theta) == [-1, 0, 0, -1, 0]
    assert not objective.needs_reconstructor


def test_mml_trains_each_solution_by_its_share_of_the_posterior() -> None:
    batch = Numbers(LOGS)
    outcome = MarginalLikelihood().step(batch, START)
    assert loss_of(outcome) == pytest.approx(-math.log(0.6) - math.log(0.06))
    shares = [1 / 6, 3 / 6, 2 / 6, 5 / 6, 1 / 6]
    assert gradient(outcome.solver_loss, batch.theta) == pytest.approx([-share for share in shares])


def test_words_are_a_prior_of_mml() -> None:
    batch = Numbers(LOGS, words=[[math.log(0.04), math.log(0.02), math.log(0.02)], [-7.0, -7.0]])
    outcome = MarginalLikelihood(words=1.0).step(batch, START)
    assert loss_of(outcome) == pytest.approx(-math.log(0.1 / 2 + 0.3 / 4 + 0.2 / 4) - math.log(0.06 / 2))
    shares = [2 / 7, 3 / 7, 2 / 7, 5 / 6, 1 / 6]
    assert gradient(outcome.solver_loss, batch.theta) == pytest.approx([-share for share in shares])
    batch = Numbers([[-1.0, -1e31], [-1e31, -1e31]], words=[[-9.0, 0.0], [0.0, 0.0]])
    outcome = MarginalLikelihood(words=2.0).step(batch, START)
    assert chosen(outcome) == [0, -1]
    assert gradient(outcome.solver_loss, batch.theta) == [-1, 0, 0, 0]


def test_hard_em_trains_what_is_most_likely_without_dropout() -> None:
    batch = Numbers(LOGS, training=[[-9.0, -8.0, -1.0], [-1.0, -2.0]])
    outcome = HardEM().step(batch, START)
    assert chosen(outcome) == [1, 3]
    assert loss_of(outcome) == pytest.approx(8.0 + 1.0)
    assert gradient(outcome.solver_loss, batch.theta) == [0, -1, 0, -1, 0]


def test_hard_em_takes_the_first_of_equals() -> None:
    assert chosen(HardEM().step(Numbers([[-2.0, -1.0, -1.0]]), START)) == [1]


@pytest.mark.parametrize(("simplicity", "best"), [(0.0, 1), (0.4, 1), (0.6, 0)])
def test_simplicity_takes_something_off_for_each_operation(simplicity: float, best: int) -> None:
    batch = Numbers([[-2.0, -1.0]], operations=[[1, 3]])
    outcome = HardEM(simplicity=simplicity).step(batch, START)
    assert chosen(outcome) == [best]
    assert loss_of(outcome) == pytest.approx([2.0, 1.0][best])


@pytest.mark.parametrize("reverse", [False, True])
def test_annealing_goes_from_mml_to_hard_em_and_reversed_the_other_way(reverse: bool) -> None:
    objective = HardEM(anneal=100, anneal_reversed=reverse)

    def hard(step: int) -> bool:
        batch = Numbers(LOGS, step=step)
        return gradient(objective.step(batch, Moment(step, 10)).solver_loss, batch.theta)[0] == 0

    def share(first: int, last: int) -> float:
        return sum(map(hard, range(first, last))) / (last - first)

    assert hard(0) == reverse
    early, late = share(0, 40), share(1000, 1400)
    if reverse:
        assert early > 0.6
        assert late == pytest.approx(0.2, abs=0.06)
    else:
        assert early < 0.4
        assert late == pytest.approx(0.8, abs=0.06)


# --- HardEM-thres -------------------------------------------------------------------------------------------


def test_the_first_threshold_lets_at_least_half_through_and_is_the_highest_that_does() -> None:
    best = torch.tensor([-0.1, -0.9, -1.5, -2.5, -7.0])
    used = HardEMThreshold().prepare(best, torch.full((5,), 4), 0)
    assert used.tolist() == [True, True, True, False, False]  # 0.5³ = exp(−2.08): three of five are half or more


def test_the_threshold_halves_each_epoch() -> None:
    objective = HardEMThreshold()
    best = torch.tensor([-0.1, -1.0, -1.6, -2.5, -3.0, -4.0])
    half = math.log(0.5)
    objective.prepare(best, torch.full((6,), 2), 0)
    first = objective.state["first"]
    for epoch in range(1, 4):
        used = objective.prepare(best, torch.full((6,), 2), epoch)
        assert used.tolist() == (best > (first + epoch) * half).tolist()


def test_a_single_solution_is_always_used_in_the_first_epoch_only() -> None:
    objective = HardEMThreshold()
    best, sizes = torch.tensor([-0.1, -0.2, -50.0]), torch.tensor([3, 3, 1])
    assert objective.prepare(best, sizes, 0).tolist() == [True, True, True]
    assert objective.prepare(best, sizes, 1).tolist() == [True, True, False]


def test_single_solutions_count_towards_the_half() -> None:
    objective = HardEMThreshold()
    objective.prepare(torch.tensor([-50.0, -60.0, -3.0, -9.0]), torch.tensor([1, 1, 5, 5]), 0)
    assert objective.state["first"] == 1


def test_the_filter_of_an_epoch_stays_as_it_was_set() -> None:
    objective = HardEMThreshold()
    sizes = torch.full((4,), 2)
    before = objective.prepare(torch.tensor([-0.1, -0.2, -9.0, -9.0]), sizes, 0).tolist()
    resumed = HardEMThreshold(state=dict(objective.state))
    assert resumed.prepare(torch.tensor([-9.0, -9.0, -0.1, -0.1]), sizes, 0).tolist() == before
    assert resumed.prepare(torch.tensor([-9.0, -9.0, -0.1, -0.1]), sizes, 1).tolist() != before


def test_impossible_examples_do_not_keep_the_threshold_from_being_found() -> None:
    used = HardEMThreshold().prepare(torch.tensor([-INF, -INF, -INF, -0.1]), torch.full((4,), 2), 0)
    assert used.tolist() == [False, False, False, True]


def test_hard_em_thres_trains_what_the_filter_lets_through() -> None:
    batch = Numbers(LOGS, allowed=[False, True])
    outcome = HardEMThreshold().step(batch, START)
    assert chosen(outcome) == [-1, 3]
    assert gradient(outcome.solver_loss, batch.theta) == [0, 0, 0, -1, 0]


# --- VAE ----------------------------------------------------------------------------------------------------


def test_vae_begins_with_hard_em() -> None:
    outcome = Vae(first_stage=2).step(Numbers(LOGS, PHI), Moment(19, 10))
    assert outcome.reconstructor_loss is None
    assert chosen(outcome) == [1, 3]


def test_the_second_stage_of_vae_trains_the_reconstructor_and_leaves_the_solver_to_the_likelihood() -> None:
    batch = Numbers(LOGS, PHI)
    outcome = Vae(first_stage=2, second_stage=1, samples=3).step(batch, Moment(20, 10))
    likelihood = MarginalLikelihood().step(batch, START)
    assert gradient(outcome.solver_loss, batch.theta) == gradient(likelihood.solver_loss, batch.theta)
    assert sum(gradient(outcome.reconstructor_loss, batch.phi)) == pytest.approx(-0.1 * 2)


def test_the_third_stage_of_vae_rewards_what_explains_the_question() -> None:
    batch = Numbers(LOGS, PHI)
    objective = Vae(first_stage=2, second_stage=1, samples=3)
    outcome = objective.step(batch, Moment(30, 10))
    expected = torch.tensor(gradient(MarginalLikelihood().step(batch, START).solver_loss, batch.theta))
    scores = batch.solver_scores()
    places = torch.stack([ragged.sample(scores, batch.offsets, batch.uniform(f"draw-{n}")) for n in range(3)])
    for example in range(2):
        mine = places[:, example]
        reward = batch.phi.detach()[mine] - scores[mine]
        for place, each in zip(mine.tolist(), (reward - reward.mean()).tolist(), strict=True):
            expected[place] -= 0.1 * each / 3
    assert gradient(outcome.solver_loss, batch.theta) == pytest.approx(expected.tolist(), abs=1e-6)


# --- What cannot be trained on ------------------------------------------------------------------------------

EVERY: list[tuple[str, dict[str, Any], int]] = [
    *((method, {}, 0) for method in METHODS),
    ("hard-em", {"anneal": 10}, 0),
    ("mimax", {"soft": True, "simplicity": 0.5}, 0),
    ("mimax", {"solver_weight": 0.5, "samples": 2}, 0),
    ("mimax", {"candidates": 2}, 0),
    ("mimax", {}, 10),
    ("vae", {}, 20),
    ("vae", {}, 30),
]


@pytest.mark.parametrize(("method", "options", "step"), EVERY)
def test_what_the_solver_cannot_produce_and_what_has_no_solution_trains_nothing(
    method: str, options: dict[str, Any], step: int
) -> None:
    """An example without solutions, one with impossible ones, one with one that is possible."""
    batch = Numbers([[], [-INF, -INF], [-INF, -1.0, -INF]], [[], [-1.0, -2.0], [-0.5, -3.0, -0.2]])
    outcome = build_objective(method, options).step(batch, Moment(step, 10))
    loss = loss_of(outcome)
    found = gradient(outcome.solver_loss, batch.theta)
    assert math.isfinite(loss)
    assert all(map(math.isfinite, found))
    assert found[0] == found[1] == 0.0
    if method in ("first-only", "supervised"):  # the first of the third example is one of the impossible
        assert found == [0.0] * 5
    else:
        assert found == [0.0, 0.0, 0.0, -1.0, 0.0]
        assert chosen(outcome) == [-1, -1, 3]
    if outcome.reconstructor_loss is not None:
        assert math.isfinite(float(outcome.reconstructor_loss.detach()))
        assert all(map(math.isfinite, gradient(outcome.reconstructor_loss, batch.phi)))


@pytest.mark.parametrize(("method", "options", "step"), EVERY)
def test_what_is_not_a_number_reaches_the_loss(method: str, options: dict[str, Any], step: int) -> None:
    """A loss of 0 from weights that are broken would let a run train on nothing to its end."""
    outcome = build_objective(method, options).step(Numbers([[NAN, NAN], [NAN]], [[NAN, NAN], [NAN]]), Moment(step, 10))
    assert math.isnan(loss_of(outcome))
    if outcome.reconstructor_loss is not None:
        assert math.isnan(float(outcome.reconstructor_loss.detach()))


@pytest.mark.parametrize(("method", "options", "step"), EVERY)
def test_a_batch_without_any_solution_has_no_loss(method: str, options: dict[str, Any], step: int) -> None:
    outcome = build_objective(method, options).step(Numbers([[], []]), Moment(step, 10))
    assert loss_of(outcome) == 0.0
    assert chosen(outcome) == [-1, -1]


@pytest.mark.parametrize(("method", "fewest"), [("mimax", 1), ("vae", 2)])
def test_too_few_samples_are_refused(method: str, fewest: int) -> None:
    """The reward of a single draw, less its own mean, would be nothing."""
    with pytest.raises(BonafideError, match=f"must be at least {fewest}"):
        build_objective(method, {"samples": fewest - 1})


@pytest.mark.parametrize("value", [INF, NAN])
def test_options_are_finite(value: float) -> None:
    for name in ("words", "switch"):
        with pytest.raises(BonafideError, match=f"option '{name}' of 'mimax' takes a finite number"):
            build_objective("mimax", {name: value})


def test_the_threshold_keeps_what_is_not_a_number() -> None:
    used = HardEMThreshold().prepare(torch.tensor([NAN, -0.1, -0.1, -90.0]), torch.full((4,), 2), 0)
    assert used.tolist() == [True, True, True, False]


# --- Micro-batches ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def test_drawn_candidates_have_the_scores_they_have_among_all(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "mimax")
    with RunFolder.open(tmp_path / "run", made, resume=False) as folder:
        trainer = Trainer(made, load_training_data(made, folder.path), folder)
    everything = MicroBatch(trainer.items[:6], trainer.models, START, 0).reconstructor_scores()
    found = []
    for step in (0, 0, 1):
        batch = MicroBatch(trainer.items[:6], trainer.models, Moment(step, 10), 0)
        scores = batch.reconstructor_scores(3)
        scored = scores > -INF
        torch.testing.assert_close(scores[scored], everything[scored], atol=1e-4, rtol=0)
        sizes = [int(scored[first:last].sum()) for first, last in pairwise(batch.offsets.tolist())]
        assert sizes == [min(3, item.size) for item in trainer.items[:6]]
        assert max(item.size for item in trainer.items[:6]) > 3
        assert batch.asked.explains == 3
        found.append(scored.tolist())
    assert found[0] == found[1] != found[2]


def test_draws_of_one_example_share_its_context_and_equal_draws_are_scored_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recipe(data, "vae", reconstructor={"dropout": 0.0})
    with RunFolder.open(tmp_path / "run", made, resume=False) as folder:
        trainer = Trainer(made, load_training_data(made, folder.path), folder)
    reconstructor = trainer.models.reconstructor
    assert reconstructor is not None
    batch, read, log_prob = MicroBatch(trainer.items[:6], trainer.models, START, 0), [], reconstructor.log_prob
    monkeypatch.setattr(reconstructor, "log_prob", lambda each: read.append(each) or log_prob(each))
    first, second, third = batch.offsets[1:4].tolist()
    draws = torch.tensor([third - 1, second - 1, first, first + 1, first, 0, third - 1, second - 1])
    one_by_one = torch.cat([batch.reconstructor_training_scores(each[None]) for each in draws])
    together = batch.reconstructor_training_scores(draws)
    torch.testing.assert_close(together, one_by_one, atol=1e-4, rtol=0)
    assert len(set(together.tolist())) == 5
    assert [(len(each.streams.context), len(each)) for each in read] == [(1, 1)] * 8 + [(3, 5)]
    weights = torch.arange(8.0)
    gradients = [
        torch.autograd.grad((weights * scores).sum(), list(reconstructor.parameters()), allow_unused=True)
        for scores in (together, one_by_one)
    ]
    assert any(each is not None and each.abs().max() > 1 for each in gradients[0])
    for mine, theirs in zip(*gradients, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            torch.testing.assert_close(mine, theirs, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_how_a_step_is_cut_into_micro_batches_does_not_matter(data: Path, tmp_path: Path, method: str) -> None:
    """The gradients before clipping, and what was selected, of a step late enough to be in the last stage."""
    found = []
    for budget in (1, 1_000_000):
        changed = {
            "solver": {"dropout": 0.0},
            "reconstructor": {"dropout": 0.0},
            "train": {"budget": budget, "clip": 1e9},
            "objective": {"options": {**OPTIONS.get(method, {}), **({"switch": -1.0} if method == "mimax" else {})}},
        }
        made = recipe(data, method, **changed)
        with RunFolder.open(tmp_path / str(budget), made, resume=False) as folder:
            trainer = Trainer(made, load_training_data(made, folder.path), folder)
            moment = Moment(3 * trainer.steps_per_epoch, trainer.steps_per_epoch)
            assert len(trainer._parts(moment.step)) == (8 if budget == 1 else 1)
            trainer._optimise = lambda _: None  # type: ignore[method-assign]
            trainer._step(moment, None)
            gradients = {
                f"{name}.{key}": parameter.grad
                for name, module in trainer.modules.items()
                for key, parameter in module.named_parameters()
                if parameter.grad is not None
            }
            found.append((gradients, trainer.monitor.selections()["selected"]))
    (small, chosen_small), (large, chosen_large) = found
    assert chosen_small == chosen_large
    assert any(place >= 0 for place in chosen_small)
    assert small.keys() == large.keys()
    for name in small:
        torch.testing.assert_close(small[name], large[name], rtol=0, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
