"""The training loop.

An optimiser step is a fixed number of examples; the token budget only cuts it into micro-batches. The order of the
examples and every draw are keyed by (seed, epoch or step, example id), so a run that was killed goes on to the same
weights. Decisions (which solution trains what) are made in fp32 with dropout off; training is bf16 on a GPU.

Devices, mixed precision and gradient scaling are accelerate's; several processes train one run as ``together.py`` says.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor, nn

from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.learn import draws
from bonafide.learn.building import new_models, prepared, warn_of_long
from bonafide.learn.checkpoint import (
    Trained,
    checkpoint_path,
    checkpoint_writer,
    checkpoints,
    keep_only,
    load_checkpoint,
    take_part,
)
from bonafide.learn.cutting import Budget, micro_batches
from bonafide.learn.data import TrainingData, load_training_data
from bonafide.learn.hard_em_threshold import HardEMThreshold
from bonafide.learn.kept import KEPT
from bonafide.learn.learnable import Item, Proposing, learnable
from bonafide.learn.learned_from import check_learned_from, note_learned_from
from bonafide.learn.memory import ENDLESS, Room, fitting, give_back, no_way_back
from bonafide.learn.methods import build_objective
from bonafide.learn.microbatch import Ahead, Asked, MicroBatch, Models, Prepared, best_scores
from bonafide.learn.monitor import Monitor, chosen_by, dev_figures, proposals, standing
from bonafide.learn.objective import Moment, Objective, Outcome
from bonafide.learn.optimiser import new_accelerator, optimisers, schedule
from bonafide.learn.recipe import Recipe
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import Model, model_writer
from bonafide.learn.saving import Saving
from bonafide.learn.sharding import bring_together, clip_gradients, of_no_weight, shard_encoder
from bonafide.learn.steps import Done, Launched, Order, Progress, Watcher, arrival, stop_for_nan
from bonafide.learn.together import Together
from bonafide.learn.track import Board


def train(
    recipe: Recipe, out: Path, resume: bool = False, watcher: Watcher | None = None, search_progress: Any = None
) -> RunFolder:
    """Train by a recipe into the folder ``out``; with ``resume``, go on from its last checkpoint."""
    # A step is thousands of launches: queue more than 1,024 of them. CUDA reads this once, when it is first asked for.
    os.environ.setdefault("CUDA_SCALE_LAUNCH_QUEUES", "4x")
    # The first process may search for hours while the others wait.
    patience = InitProcessGroupKwargs(timeout=timedelta(days=7))
    accelerator = new_accelerator(recipe, patience)
    together = Together(accelerator.device)
    with RunFolder.open(out, recipe, resume) if together.first else nullcontext(RunFolder(out, recipe)) as folder:
        if together.first:
            progress, started = search_progress or (None, None)
            found = check_learned_from(out, recipe)
            data = load_training_data(recipe, out, progress, started, kept=out / KEPT)
            note_learned_from(out, found)
        together.wait()
        if not together.first:  # the first has searched, where there was no store
            data = load_training_data(recipe, out)
        trainer = Trainer(recipe, data, folder, watcher, accelerator)
        with no_way_back():
            trainer.run()
        together.leave()
        return folder


class Trainer:
    """One run. Public so that a test or a notebook can look inside; :func:`train` is the way to use it."""

    def __init__(
        self,
        recipe: Recipe,
        data: TrainingData,
        folder: RunFolder,
        watcher: Watcher | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.recipe, self.data, self.folder = recipe, data, folder
        self.task = learnable(recipe.data.task)
        torch.manual_seed(recipe.train.seed)
        self.accelerator = accelerator or new_accelerator(recipe)
        self.together = Together(self.accelerator.device)
        self._watcher = watcher if self.together.first else None
        if self.accelerator.device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32: scores that decide stay well above bf16
            torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each shape, ten times slower here
        self.objective: Objective = build_objective(recipe.objective.method, recipe.objective.options)
        self._build_models()
        self._prepare()
        self._order = Order(recipe.train.seed, len(self.items), recipe.train.batch)
        total = math.ceil(recipe.train.epochs * self.steps_per_epoch)
        self.steps = max(1, total)
        self.monitor = Monitor(self.items, data.items, self.task)
        self.best: dict[str, Any] = {}
        self.proposed: list[tuple[int, str]] = []
        self.step = 0
        self._stopped = False
        self._budget = Budget(recipe.train.budget)
        self._at: list[int] = []  # the micro-batch that is computed
        self._ahead = Ahead(self.models, recipe.train.seed)
        self._saving = Saving()
        self._unsaved: Model | None = None  # a model that is better than the one that was written
        self.seconds = {"evaluating": 0.0, "saving": 0.0}  # in which nothing was trained; saving: copying, and waiting

    @property
    def sharded(self) -> bool:
        """Whether each process has a part of the encoder."""
        return self.recipe.train.shard and not self.together.alone

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of one pass over the training examples."""
        return self._order.steps_per_epoch

    @property
    def room(self) -> Room:
        """What the micro-batches are cut by."""
        return self._budget.room

    def _build_models(self) -> None:
        recipe, device = self.recipe, self.accelerator.device
        made = new_models(recipe, self.task, self.data, self.objective.needs_reconstructor, device)
        self.solver, self.reconstructor, self.reconstructor_tokenizer = made
        self._seed_dropout(0)  # training draws the same whatever building the models drew
        self.modules: dict[str, nn.Module] = {"solver": self.solver}
        if self.reconstructor is not None:
            self.modules["reconstructor"] = self.reconstructor
        for module in self.modules.values():
            module.to(device).train()
            self.together.share_weights([module])
        self._whole = self.solver  # what predicts and is saved
        if self.sharded:
            self._whole = copy.deepcopy(self.solver).cpu() if self.together.first else None
            shard_encoder(self.solver, device, self.together.count)
        self.optimisers = optimisers(self.modules, recipe, device)
        self._weights = {name: list(module.parameters()) for name, module in self.modules.items()}
        self._rates = {name: [group["lr"] for group in each.param_groups] for name, each in self.optimisers.items()}
        for name, optimiser in self.optimisers.items():
            self.optimisers[name] = self.accelerator.prepare_optimizer(optimiser)
        if device.type == "cuda" and recipe.train.graphs:
            if not self.sharded:
                self.solver.encoder.record()
            if self.reconstructor is not None:
                self.reconstructor.record()
        self.models = Models(self.solver, self.reconstructor, device, self.accelerator.autocast)

    def _seed_dropout(self, step: int) -> None:
        """What is not keyed by example: dropout, in each process its own."""
        seed, rank = self.recipe.train.seed, self.together.rank
        torch.manual_seed(seed if self.together.first else draws.key(f"{seed}/dropout/{rank}/{step}") >> 1)

    def _prepare(self) -> None:
        """Tokenise every example of this process once; the others' are left empty."""
        self.items: list[Prepared] = [
            self._prepared(item) if self.together.owns(place) else Prepared.of_another(item.example.id)
            for place, item in enumerate(self.data.items)
        ]
        self._shortened = self._count("shortened")
        if self._shortened and self.together.first:
            warn_of_long(self._shortened, len(self.items), self.solver)

    def _count(self, name: str) -> int:
        """The sum over all training examples of what their features say by this name."""
        return int(self.together.summed(torch.tensor(sum(int(getattr(each.features, name, 0)) for each in self.items))))

    def _prepared(self, item: Item) -> Prepared:
        tokenizer, words = self.reconstructor_tokenizer, self.data.words
        return prepared(item, self.task, self.recipe, self.solver, tokenizer, words)

    def _extend(self, proposed: list[tuple[int, str]]) -> None:
        """Add proposed solutions, each given by an example's place and its text, to the sets."""
        for place, text in proposed:
            item = self.data.items[place]
            task = cast(Proposing, self.task)
            self.data.items[place] = replace(item, solutions=task.extended(item, text, self.data.store))
            if self.together.owns(place):
                self.items[place] = self._prepared(self.data.items[place])
        self.proposed += proposed
        if proposed:
            self._ahead.forget()  # the next batch may have been made of what was there before

    def run(self) -> None:
        """Train to the end, from the start or from the last checkpoint."""
        with self._saving:
            self._train()
        self._finish()

    def _train(self) -> None:
        self._restore()
        self._board = Board(self.folder.path / "tensorboard", self.step) if self.together.first else None
        started, done_before = time.perf_counter(), self.step
        allowed: list[bool] | None = None
        launched: Launched | None = None
        while self.step < self.steps and not self._stopped:
            moment = Moment(self.step, self.steps_per_epoch)
            if isinstance(self.objective, HardEMThreshold) and (
                allowed is None or self.step % self.steps_per_epoch == 0
            ):
                allowed = self._filter(moment)
            before, launched = launched, self._step(moment, allowed)
            self.step += 1
            if not self.sharded and self._budget.grow(self.step):
                self._ahead.forget()
            if before is not None:
                self._report(before, (before.step + 1 - done_before) / (time.perf_counter() - started))
            evaluates = self._due(self.recipe.train.evaluate_every) or self.step == self.steps
            saves = self.step % self.recipe.train.checkpoint_every == 0
            if evaluates or saves or self.accelerator.device.type != "cuda":
                self._report(launched, (self.step - done_before) / (time.perf_counter() - started))
                launched = None
            if evaluates:
                with self._timed("evaluating"):
                    self._stopped = self._evaluate()
            if evaluates or saves:
                with self._timed("saving"):
                    self._save()
        with self._timed("saving"):
            self._saving.wait()

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[what] += time.perf_counter() - began

    def _finish(self) -> None:
        unreachable = self._count("unreachable")
        if self._board is None:
            return
        if self.proposed:
            named = [{"id": self.items[place].id, "solution": text} for place, text in self.proposed]
            write_jsonl(self.folder.path / "proposed.jsonl", named)
        counted = {"unreachable": unreachable, "shortened": self._shortened, "proposed": len(self.proposed)}
        self.folder.finish(self.best, {**self.data.report, **counted})

    def _log(self, entry: dict[str, Any]) -> None:
        if self._board is not None:
            self.folder.log(entry)
            self._board.log(entry)

    def _report(self, launched: Launched, steps_per_second: float) -> None:
        """Log a step. On a GPU this is done when the next step is on its way, so that the GPU never waits for it."""
        if launched.arrived is not None:
            launched.arrived.synchronize()
        figures = dict(zip(launched.names, launched.losses.tolist(), strict=True))
        for name, loss in figures.items():
            if not math.isfinite(loss):
                names = [self.items[index].id for index in self._order.of(launched.step)]
                stop_for_nan(self.folder, name, launched.step, names, self.together.first)
        figures["candidates"] = float(launched.candidates)
        figures["examples_per_second"] = steps_per_second * self.recipe.train.batch
        step = launched.step + 1
        if step % self.recipe.train.log_every == 0 or step == self.steps:
            self._log({"step": step, "epoch": step / self.steps_per_epoch, **figures})
        if self._watcher is not None:
            self._watcher(Progress(step, self.steps, figures))

    def _due(self, epochs: float) -> bool:
        return self.step % max(1, round(epochs * self.steps_per_epoch)) == 0

    def _step(self, moment: Moment, allowed: list[bool] | None) -> Launched:
        done = fitting(lambda: self._add_gradients(moment, allowed), self._shrink, self.models.device)
        self._optimise(moment)  # before the next batch is put together, which a GPU need not wait for
        if moment.step + 1 < self.steps:
            self._look_ahead(self._parts(moment.step + 1)[:1], done.asked, moment.step + 1)
        for part, offsets, outcome in done.seen:
            self.monitor.see(part, offsets, outcome)
        losses, candidates = self.together.losses(done.totals, done.candidates)
        return Launched(moment.step, list(done.totals), losses, candidates, arrival(self.accelerator.device))

    def _add_gradients(self, moment: Moment, allowed: list[bool] | None) -> Done:
        """Go through the micro-batches of a step."""
        done = Done()
        parts = self._parts(moment.step)
        examples = len(self._order.of(moment.step))
        room = self._room_inside
        for place, part in enumerate(self._each(parts)):
            items = [self.items[index] for index in part]
            ready = self._ahead.take(items, moment, room)
            permitted = None if allowed is None else [allowed[index] for index in part]
            batch = MicroBatch(items, self.models, moment, self.recipe.train.seed, permitted, ready, room)
            outcome = self.objective.step(batch, moment)
            if place >= len(parts):
                self._backward(of_no_weight(outcome), examples, {})
                continue
            done.candidates += sum(item.size for item in items)
            self._backward(outcome, examples, done.totals)
            done.seen.append((part, batch.offsets, replace(outcome, solver_loss=None, reconstructor_loss=None)))
            done.asked = batch.asked
            self._look_ahead(parts[place + 1 : place + 2], done.asked, moment.step)
        return done

    def _look_ahead(self, parts: list[list[int]], asked: Asked | None, step: int) -> None:
        for part in parts:
            if asked is not None:
                moment = Moment(step, self.steps_per_epoch)
                self._ahead.prepare([self.items[index] for index in part], asked, moment, self._room_inside)

    @property
    def _room_inside(self) -> Room:
        """What one micro-batch is cut by; sharded weights are read once for it, in all processes."""
        return ENDLESS if self.sharded else self.room

    def _each(self, parts: list[list[int]]) -> Iterator[list[int]]:
        """These micro-batches; where processes compute together, then any, until all have had as many."""
        most = int(self.together.largest(torch.tensor(len(parts)))) if self.sharded else len(parts)
        for part in [*parts, *[[self.together.rank]] * (most - len(parts))]:
            self._at = part
            yield part

    def _shrink(self, reason: str) -> None:
        """Drop what was begun and the recordings; where there are none, make the micro-batches smaller for a while."""
        for optimiser in self.optimisers.values():
            optimiser.zero_grad()
        self._ahead.forget()
        if self.sharded:
            raise BonafideError(
                f"Memory ran out on {len(self._at)} examples ({reason}). With train.shard, processes compute together, "
                "and one cannot do a step again alone. Start anew with a smaller train.budget."
            )
        readers = [self.solver.encoder, *([] if self.reconstructor is None else [self.reconstructor])]
        forgotten = [each.forget_recordings() for each in readers]  # they may hold as much as the step itself
        if any(forgotten):
            give_back(self.models.device)
        else:
            self._budget.shrink(self.step, self.items, self._at, self.models, reason)
        self._log({"step": self.step + 1, "out_of_memory": reason, "budget": self.room.budget})

    def _backward(self, outcome: Outcome, examples: int, totals: dict[str, Tensor]) -> None:
        for name, loss in (("loss", outcome.solver_loss), ("reconstructor_loss", outcome.reconstructor_loss)):
            if loss is None:
                continue
            mean = loss / examples
            if mean.requires_grad:
                self.accelerator.backward(mean)
            totals[name] = totals.get(name, torch.zeros((), device=mean.device)) + mean.detach()

    def _optimise(self, moment: Moment) -> None:
        rate = schedule(moment.step, self.steps, self.recipe.train.warmup)
        for name, optimiser in self.optimisers.items():
            weights = self._weights[name]
            self.together.add_gradients(weights)
            if any(weight.grad is not None for weight in weights):
                if self.sharded:
                    clip_gradients(weights, self.recipe.train.clip)
                else:
                    self.accelerator.clip_grad_norm_(weights, self.recipe.train.clip)
                for group, full in zip(optimiser.param_groups, self._rates[name], strict=True):
                    group["lr"] = full * rate
                optimiser.step()
                optimiser.zero_grad()

    def _parts(self, step: int) -> list[list[int]]:
        """The micro-batches of a step that are this process's."""
        return micro_batches(self.items, [each for each in self._order.of(step) if self.together.owns(each)], self.room)

    def _filter(self, moment: Moment) -> list[bool]:
        """HardEM-thres's filter of this epoch, from the solver's best score of every training example."""
        assert isinstance(self.objective, HardEMThreshold)
        if self.objective.state.get("epoch") == moment.epoch:  # resumed within the epoch
            return list(self.objective.state["used"])
        best = fitting(lambda: self._best_scores(moment), self._shrink, self.models.device)
        sizes = torch.tensor([len(item.solutions) for item in self.data.items])
        used = self.objective.prepare(self.together.largest(best), sizes, moment.epoch)
        self._log({"step": moment.step + 1, "used_by_threshold": float(used.float().mean())})
        return [bool(each) for each in used]

    def _best_scores(self, moment: Moment) -> Tensor:
        """(training examples,): the solver's best score of each of this process's, −inf for the others."""
        own = [place for place in range(len(self.items)) if self.together.owns(place)]
        starts, step = range(0, len(own), self.recipe.train.batch), self.recipe.train.batch
        parts = [part for start in starts for part in micro_batches(self.items, own[start : start + step], self.room)]
        seed = self.recipe.train.seed
        return best_scores(self.items, self._each(parts), self.models, moment, seed, self._room_inside)

    def _evaluate(self) -> bool:
        """Log the epoch and the dev figures, and say whether to stop early."""
        self.monitor.gather(self.together)
        if self.sharded:
            bring_together(self.solver, self._whole)
        stops, proposed = self._judge() if self.together.first else (False, [])
        self._extend([(place, text) for place, text in self.together.told(proposed)])
        self.monitor.forget_sums()
        for module in self.modules.values():
            module.train()
        if not self.together.largest(torch.tensor(int(stops))) or self.step == self.steps:
            return False
        self._log({"step": self.step, "stopped": "no better dev figure for some evaluations"})
        return True

    def _judge(self) -> tuple[bool, list[tuple[int, str]]]:
        """The first process's part of an evaluation: whether to stop, and solutions to add to the sets."""
        figures = self.monitor.epoch_figures()
        self.folder.log_selections(self.step / self.steps_per_epoch, self.monitor.selections())
        model = self._model()
        if self.data.dev is not None:
            figures |= dev_figures(model, self.data.dev, self.recipe)
        proposed = proposals(model, self.data.items) if self.recipe.data.propose else []
        if self.recipe.data.propose:
            figures["proposed"] = float(len(self.proposed) + len(proposed))
        self._log({"step": self.step, "epoch": self.step / self.steps_per_epoch, "evaluation": figures})
        if self._watcher is not None:
            self._watcher(Progress(self.step, self.steps, figures))
        by, figure = chosen_by(figures, self.recipe.train.select_by, self.step)
        wanted = self.recipe.train.select_by
        if not self.best or standing(by, figure, wanted) >= standing(self.best["by"], self.best["figure"], wanted):
            self.best = {"figure": figure, "by": by, "step": self.step, **figures}
            self._unsaved = model
        waited = sum(1 for step in self.folder.evaluated_steps() if step > self.best["step"])
        if self.sharded:
            self._whole.cpu()
        return bool(self.recipe.train.patience) and waited >= self.recipe.train.patience, proposed

    def _model(self) -> Model:
        about = {"recipe": self.recipe.to_json(), "step": self.step}
        solver = self._whole.to(self.accelerator.device)
        return Model(solver, self.reconstructor, self.reconstructor_tokenizer, about)

    def _save(self) -> None:
        self.monitor.gather(self.together)
        self._take_room(-int(self.together.largest(torch.tensor(-self.room.budget))))
        trained = Trained(self.modules, self.optimisers)
        if not self.together.first:
            if self.sharded:
                take_part(trained)
            self._seed_dropout(self.step)  # as when it goes on from here
            self.together.wait()
            return
        state = {
            "step": self.step,
            "stopped": self._stopped,
            "best": self.best,
            "monitor": self.monitor.state(),
            "proposed": self.proposed,
            "budget": self.room.budget,
            "pace": self._budget.pace,
        }
        if isinstance(self.objective, HardEMThreshold):
            state["objective"] = self.objective.state
        if self._unsaved is not None:  # before the checkpoint that says it is there
            self._saving.add(partial(model_writer, self.folder.path / "model", self._unsaved))
            self._unsaved = None
        best = checkpoint_path(self.folder.checkpoints, self.best.get("step", self.step))
        self._saving.add(lambda: self._checkpoint(trained, state, best))
        if not self.together.alone:  # the others wait for this one, and would not hear why it fails later
            self._saving.wait()
        self.together.wait()

    def _checkpoint(self, trained: Trained, state: dict[str, Any], best: Path) -> Callable[[], None]:
        write = checkpoint_writer(self.folder.checkpoints, trained, state)
        return lambda: keep_only(self.folder.checkpoints, {write(), best})

    def _take_room(self, budget: int) -> None:
        """The least that any process has, as when the run goes on from a checkpoint."""
        if self._budget.limit(budget):
            self._ahead.forget()

    def _restore(self) -> None:
        found = checkpoints(self.folder.checkpoints)
        if not found:
            if self.together.first:
                self.folder.forget_after(0)
            return
        state = load_checkpoint(found[-1], Trained(self.modules, self.optimisers))
        self.step, self._stopped, self.best = state["step"], state["stopped"], state["best"]
        self.monitor.restore(state["monitor"], self.together)
        if not self.together.first:
            self._seed_dropout(self.step)
        self._take_room(state.get("budget", self.room.budget))
        self._budget.pace = state.get("pace", self._budget.pace)
        self._extend([(place, text) for place, text in state.get("proposed", [])])
        if isinstance(self.objective, HardEMThreshold):
            self.objective.state = state["objective"]
        if self.together.first:
            self.folder.forget_after(self.step)
        self.together.wait()
