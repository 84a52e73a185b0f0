"""The training loop.

An optimiser step is a fixed number of examples; the token budget only cuts it into micro-batches. The order of the
examples and every draw are keyed by (seed, epoch or step, example id), so a run that was killed goes on to the same
weights. Decisions (which solution trains what) are made in fp32 with dropout off; training is bf16 on a GPU.

Devices, mixed precision and gradient scaling are accelerate's; several processes train one run as ``together.py`` says.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor, nn

from bonafide import ragged
from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.learn import draws
from bonafide.learn.checkpoint import (
    Trained,
    checkpoint_path,
    checkpoints,
    keep_only,
    load_checkpoint,
    save_checkpoint,
)
from bonafide.learn.data import TrainingData, load_training_data
from bonafide.learn.hard_em_threshold import HardEMThreshold
from bonafide.learn.learnable import Item, Proposing, SolverModule, learnable
from bonafide.learn.methods import build_objective
from bonafide.learn.microbatch import Ahead, MicroBatch, Models, Prepared
from bonafide.learn.monitor import Monitor, dev_figures, proposals
from bonafide.learn.objective import Moment, Objective, Outcome
from bonafide.learn.recipe import Recipe
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import Model, save_model
from bonafide.learn.together import Together
from bonafide.learn.track import Board
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.denoise import Denoising
from bonafide.reconstruct.layout import Layout, tokenise


@dataclass(frozen=True, slots=True)
class Progress:
    """What a watcher is told after each step."""

    step: int
    steps: int
    figures: dict[str, float]


Watcher = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class _Launched:
    """A step that the device was asked for."""

    step: int  # optimiser steps before it
    names: list[str]
    losses: Tensor  # (losses,), there once ``arrived``
    candidates: int
    arrived: torch.cuda.Event | None


def train(
    recipe: Recipe, out: Path, resume: bool = False, watcher: Watcher | None = None, search_progress: Any = None
) -> RunFolder:
    """Train by a recipe into the folder ``out``; with ``resume``, go on from its last checkpoint."""
    # A step is thousands of launches: queue more than 1,024 of them. CUDA reads this once, when it is first asked for.
    os.environ.setdefault("CUDA_SCALE_LAUNCH_QUEUES", "4x")
    # The first process may search for hours while the others wait.
    patience = InitProcessGroupKwargs(timeout=timedelta(days=7))
    accelerator = Accelerator(mixed_precision=_precision(recipe.train.precision), kwargs_handlers=[patience])
    together = Together(accelerator.device)
    with RunFolder.open(out, recipe, resume) if together.first else nullcontext(RunFolder(out, recipe)) as folder:
        if together.first:
            data = load_training_data(recipe, out, *(search_progress or (None, None)))
        together.wait()
        if not together.first:  # the first has searched, where there was no store
            data = load_training_data(recipe, out)
        trainer = Trainer(recipe, data, folder, watcher, accelerator)
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
        self.accelerator = accelerator or Accelerator(mixed_precision=_precision(recipe.train.precision))
        self.together = Together(self.accelerator.device)
        self._watcher = watcher if self.together.first else None
        if recipe.data.propose and not self.together.alone:
            raise BonafideError("data.propose needs one process: leave it out, or start without accelerate launch.")
        if self.accelerator.device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32: scores that decide stay well above bf16
            torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each shape, ten times slower here
        self.objective: Objective = build_objective(recipe.objective.method, recipe.objective.options)
        self._build_models()
        self._prepare()
        total = math.ceil(recipe.train.epochs * self.steps_per_epoch)
        self.steps = max(1, total)
        self.monitor = Monitor(self.items, data.items, self.task)
        self.best: dict[str, Any] = {}
        self.proposed: list[tuple[int, str]] = []
        self.step = 0
        self._stopped = False
        self._ahead = Ahead(self.models, recipe.train.seed)

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of one pass over the training examples; the last one may be smaller."""
        return -(-len(self.items) // self.recipe.train.batch)

    def _build_models(self) -> None:
        recipe = self.recipe
        texts = self.task.texts(self.data.items)
        self.solver: SolverModule = self.task.build_solver(recipe, self.data.store, texts)
        self.reconstructor, self.reconstructor_tokenizer = None, None
        if self.objective.needs_reconstructor:
            options = recipe.reconstructor
            spec = ReconstructorSpec(
                kind=cast(Any, options.kind),
                path=options.path or None,
                layers=options.layers,
                width=options.width,
                heads=options.heads,
                feed_forward=4 * options.width,
                dropout=options.dropout,
                denoising=Denoising(epochs=options.denoise_epochs),
            )
            self.reconstructor, self.reconstructor_tokenizer = build_reconstructor(
                spec, texts=texts, questions=[item.example.question for item in self.data.items], seed=recipe.train.seed
            )
        self._seed_dropout(0)  # training draws the same whatever building the models drew
        self.modules: dict[str, nn.Module] = {"solver": self.solver}
        self.optimisers = {"solver": _solver_optimiser(self.solver, recipe, self.accelerator.device.type == "cuda")}
        if self.reconstructor is not None:
            self.modules["reconstructor"] = self.reconstructor
            self.optimisers["reconstructor"] = torch.optim.AdamW(
                self.reconstructor.parameters(),
                lr=recipe.train.reconstructor_rate,
                eps=1e-6,
                weight_decay=0.0,
                fused=self.accelerator.device.type == "cuda",
            )
        self._weights = {name: list(module.parameters()) for name, module in self.modules.items()}
        self._rates = {name: [group["lr"] for group in each.param_groups] for name, each in self.optimisers.items()}
        for name, module in self.modules.items():
            module.to(self.accelerator.device).train()
            self.together.share_weights([module])
            self.optimisers[name] = self.accelerator.prepare_optimizer(self.optimisers[name])
        if self.accelerator.device.type == "cuda" and recipe.train.graphs:
            self.solver.encoder.record()
            if self.reconstructor is not None:
                self.reconstructor.record()
        self.models = Models(self.solver, self.reconstructor, self.accelerator.device, self.accelerator.autocast)

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

    def _prepared(self, item: Item) -> Prepared:
        layouts: tuple[Layout, ...] = ()
        if self.reconstructor_tokenizer is not None:
            layouts = tuple(
                tokenise(shown, item.example.question, self.reconstructor_tokenizer)
                for shown in self.task.rendered(item, self.recipe)
            )
        operations = self.task.operations(item.solutions)
        features = self.solver.features(item.example.question, item.context, item.solutions)
        return Prepared(item.example.id, features, layouts, operations)

    def _extend(self, proposed: list[tuple[int, str]]) -> None:
        """Add proposed solutions, each given by an example's place and its text, to the sets."""
        for place, text in proposed:
            item = self.data.items[place]
            task = cast(Proposing, self.task)
            self.data.items[place] = replace(item, solutions=task.extended(item, text, self.data.store))
            self.items[place] = self._prepared(self.data.items[place])
        self.proposed += proposed
        self._ahead.forget()  # the next batch may have been made of what was there before

    def run(self) -> None:
        """Train to the end, from the start or from the last checkpoint."""
        self._restore()
        self._board = Board(self.folder.path / "tensorboard", self.step) if self.together.first else None
        started, done_before = time.perf_counter(), self.step
        allowed: list[bool] | None = None
        launched: _Launched | None = None
        while self.step < self.steps and not self._stopped:
            moment = Moment(self.step, self.steps_per_epoch)
            if isinstance(self.objective, HardEMThreshold) and (
                allowed is None or self.step % self.steps_per_epoch == 0
            ):
                allowed = self._filter(moment)
            before, launched = launched, self._step(moment, allowed)
            self.step += 1
            if before is not None:
                self._report(before, (before.step + 1 - done_before) / (time.perf_counter() - started))
            evaluates = self._due(self.recipe.train.evaluate_every) or self.step == self.steps
            saves = self.step % self.recipe.train.checkpoint_every == 0
            if evaluates or saves or self.accelerator.device.type != "cuda":
                self._report(launched, (self.step - done_before) / (time.perf_counter() - started))
                launched = None
            if evaluates:
                if self._evaluate() and self.step < self.steps:
                    self._log({"step": self.step, "stopped": "no better dev figure for some evaluations"})
                    self._stopped = True
                    self._save()
            elif saves:
                self._save()
        unreachable = sum(getattr(item.features, "unreachable", 0) for item in self.items)
        unreachable = int(self.together.summed(torch.tensor(unreachable)))
        if self._board is None:
            return
        self._board.close()
        if self.proposed:
            named = [{"id": self.items[place].id, "solution": text} for place, text in self.proposed]
            write_jsonl(self.folder.path / "proposed.jsonl", named)
        counted = {**self.data.report, "unreachable": unreachable, "proposed": len(self.proposed)}
        self.folder.finish(self.best, counted)

    def _log(self, entry: dict[str, Any]) -> None:
        if self._board is not None:
            self.folder.log(entry)
            self._board.log(entry)

    def _report(self, launched: _Launched, steps_per_second: float) -> None:
        """Log a step. On a GPU this is done when the next step is on its way, so that the GPU never waits for it."""
        if launched.arrived is not None:
            launched.arrived.synchronize()
        figures = dict(zip(launched.names, launched.losses.tolist(), strict=True))
        for name, loss in figures.items():
            if not math.isfinite(loss):
                self._stop_for_nan(name, launched.step)
        figures["candidates"] = float(launched.candidates)
        figures["examples_per_second"] = steps_per_second * self.recipe.train.batch
        step = launched.step + 1
        if step % self.recipe.train.log_every == 0 or step == self.steps:
            self._log({"step": step, "epoch": step / self.steps_per_epoch, **figures})
        if self._watcher is not None:
            self._watcher(Progress(step, self.steps, figures))

    def _due(self, epochs: float) -> bool:
        return self.step % max(1, round(epochs * self.steps_per_epoch)) == 0

    def _step(self, moment: Moment, allowed: list[bool] | None) -> _Launched:
        totals: dict[str, Tensor] = {}
        parts = self._parts(moment.step)
        examples, candidates = len(self._chosen(moment.step)), 0
        following = [*parts[1:], *(self._parts(moment.step + 1)[:1] if moment.step + 1 < self.steps else [])]
        for place, part in enumerate(parts):
            items = [self.items[index] for index in part]
            ready = self._ahead.take(items, moment)
            permitted = None if allowed is None else [allowed[index] for index in part]
            batch = MicroBatch(items, self.models, moment, self.recipe.train.seed, permitted, ready)
            outcome = self.objective.step(batch, moment)
            candidates += sum(item.size for item in items)
            self._backward(outcome, examples, totals)
            self.monitor.see(part, batch.offsets, outcome)
            if place == len(parts) - 1:
                self._optimise(moment)  # before the next batch is put together, which a GPU need not wait for
            if place < len(following):
                then = Moment(moment.step + (place == len(parts) - 1), self.steps_per_epoch)
                self._ahead.prepare([self.items[index] for index in following[place]], batch.asked, then)
        if not parts:
            self._optimise(moment)
        losses, candidates = self._over_all(totals, candidates)
        arrived = None
        if self.accelerator.device.type == "cuda":
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        return _Launched(moment.step, list(totals), losses, candidates, arrived)

    def _over_all(self, totals: dict[str, Tensor], candidates: int) -> tuple[Tensor, int]:
        """(losses,), on their way to the CPU, and the solutions that were scored, of all processes."""
        if not self.together.alone:
            names, nothing = ("loss", "reconstructor_loss"), torch.zeros((), device=self.models.device)
            there = self.together.largest(torch.tensor([name in totals for name in names], dtype=torch.int64)).tolist()
            for name, has in zip(names, there, strict=True):
                if has:
                    totals[name] = self.together.summed(totals.get(name, nothing))
            candidates = int(self.together.summed(torch.tensor(candidates)))
        losses = torch.stack([torch.zeros((), device=self.models.device), *totals.values()])[1:]
        return losses.to("cpu", non_blocking=True), candidates

    def _backward(self, outcome: Outcome, examples: int, totals: dict[str, Tensor]) -> None:
        for name, loss in (("loss", outcome.solver_loss), ("reconstructor_loss", outcome.reconstructor_loss)):
            if loss is None:
                continue
            mean = loss / examples
            if mean.requires_grad:
                self.accelerator.backward(mean)
            totals[name] = totals.get(name, torch.zeros((), device=mean.device)) + mean.detach()

    def _optimise(self, moment: Moment) -> None:
        rate = _schedule(moment.step, self.steps, self.recipe.train.warmup)
        for name, optimiser in self.optimisers.items():
            weights = self._weights[name]
            self.together.add_gradients(weights)
            if any(weight.grad is not None for weight in weights):
                self.accelerator.clip_grad_norm_(weights, self.recipe.train.clip)
                for group, full in zip(optimiser.param_groups, self._rates[name], strict=True):
                    group["lr"] = full * rate
                optimiser.step()
                optimiser.zero_grad()

    def _parts(self, step: int) -> list[list[int]]:
        """The micro-batches of a step that are this process's."""
        return list(self._micro_batches([each for each in self._chosen(step) if self.together.owns(each)]))

    def _chosen(self, step: int) -> list[int]:
        place = (step % self.steps_per_epoch) * self.recipe.train.batch
        return self._order(step // self.steps_per_epoch)[place : place + self.recipe.train.batch]

    def _micro_batches(self, chosen: Sequence[int]) -> Iterator[list[int]]:
        """The examples of a step in parts of like size, each within the token budget if one example allows it."""
        part: list[int] = []
        cost = 0
        for index in sorted(chosen, key=lambda each: (self.items[each].size, self.items[each].id)):
            tokens = self.items[index].tokens
            if part and cost + tokens > self.recipe.train.budget:
                yield part
                part, cost = [], 0
            part.append(index)
            cost += tokens
        if part:
            yield part

    def _order(self, epoch: int) -> list[int]:
        if getattr(self, "_ordered", None) != epoch:
            self._ordered, self._permutation = epoch, draws.permutation(self.recipe.train.seed, epoch, len(self.items))
        return self._permutation

    def _filter(self, moment: Moment) -> list[bool]:
        """HardEM-thres's filter of this epoch, from the solver's best score of every training example."""
        assert isinstance(self.objective, HardEMThreshold)
        own = [place for place in range(len(self.items)) if self.together.owns(place)]
        best = torch.full((len(self.items),), -torch.inf)
        for start in range(0, len(own), self.recipe.train.batch):
            part = own[start : start + self.recipe.train.batch]
            batch = MicroBatch([self.items[place] for place in part], self.models, moment, self.recipe.train.seed)
            scores = batch.solver_scores()
            best[part] = scores[ragged.argmax(scores, batch.offsets)].float().cpu()
        sizes = torch.tensor([len(item.solutions) for item in self.data.items])
        used = self.objective.prepare(self.together.largest(best), sizes, moment.epoch)
        self._log({"step": self.step, "used_by_threshold": float(used.float().mean())})
        return [bool(each) for each in used]

    def _evaluate(self) -> bool:
        """Log the epoch and the dev figures, save, and say whether to stop early."""
        self.monitor.gather(self.together)
        stops = self._judge() if self.together.first else False
        self.monitor.forget_sums()
        for module in self.modules.values():
            module.train()
        self._save()
        return bool(self.together.largest(torch.tensor(int(stops))))

    def _judge(self) -> bool:
        """The first process's part of an evaluation."""
        figures = self.monitor.epoch_figures()
        self.folder.log_selections(self.step / self.steps_per_epoch, self.monitor.selections())
        model = self._model()
        if self.data.dev is not None:
            figures |= dev_figures(model, self.data.dev, self.recipe)
        if self.recipe.data.propose:
            self._extend(proposals(model, self.data.items))
            figures["proposed"] = float(len(self.proposed))
        self._log({"step": self.step, "epoch": self.step / self.steps_per_epoch, "evaluation": figures})
        if self._watcher is not None:
            self._watcher(Progress(self.step, self.steps, figures))
        key = f"dev_{self.recipe.train.select_by}"  # dev_last is never there
        known = key in figures  # without dev examples or a reconstructor, the last is the best
        figure = figures[key] if known else float(self.step)
        if not self.best or figure >= self.best["figure"]:
            self.best = {"figure": figure, "by": key if known else "last step", "step": self.step, **figures}
            save_model(self.folder.path / "model", model)
        waited = sum(1 for step in self.folder.evaluated_steps() if step > self.best["step"])
        return bool(self.recipe.train.patience) and waited >= self.recipe.train.patience

    def _model(self) -> Model:
        about = {"recipe": self.recipe.to_json(), "step": self.step}
        return Model(self.solver, self.reconstructor, self.reconstructor_tokenizer, about)

    def _save(self) -> None:
        self.monitor.gather(self.together)
        if not self.together.first:
            self._seed_dropout(self.step)  # as when it goes on from here
            self.together.wait()
            return
        state = {
            "step": self.step,
            "stopped": self._stopped,
            "best": self.best,
            "monitor": self.monitor.state(),
            "proposed": self.proposed,
        }
        if isinstance(self.objective, HardEMThreshold):
            state["objective"] = self.objective.state
        path = save_checkpoint(self.folder.checkpoints, Trained(self.modules, self.optimisers), state)
        best = checkpoint_path(self.folder.checkpoints, self.best.get("step", self.step))
        keep_only(self.folder.checkpoints, {path, best})
        self.together.wait()

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
        self._extend([(place, text) for place, text in state.get("proposed", [])])
        if isinstance(self.objective, HardEMThreshold):
            self.objective.state = state["objective"]
        if self.together.first:
            self.folder.forget_after(self.step)
        self.together.wait()

    def _stop_for_nan(self, name: str, step: int) -> None:
        examples = [self.items[index].id for index in self._chosen(step)]
        if self.together.first:
            self.folder.write_failure({"step": step, "loss": name, "examples": examples})
        raise BonafideError(
            f"The {name} of step {step} is not a number. Its batch is saved in "
            f"{self.folder.path / 'failed-batch.json'}; the last checkpoint is unharmed. A lower learning rate usually "
            "helps."
        )


def _solver_optimiser(solver: SolverModule, recipe: Recipe, fused: bool) -> torch.optim.Optimizer:
    encoder = {id(parameter) for parameter in solver.encoder.parameters()}
    groups = [
        {
            "params": [each for each in solver.parameters() if (id(each) in encoder) == inside],
            "lr": rate,
        }
        for inside, rate in ((True, recipe.train.encoder_rate), (False, recipe.train.head_rate))
    ]
    return torch.optim.AdamW(groups, eps=1e-6, weight_decay=recipe.train.weight_decay, fused=fused)


def _schedule(step: int, steps: int, warmup: float) -> float:
    """Linear warm-up, then linear decay that ends at 0 with the last step."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    return max(0.0, (steps - step) / max(1, steps - rising))


def _precision(wanted: str) -> str:
    if wanted == "bf16" or (wanted == "auto" and torch.cuda.is_available()):
        return "bf16"
    return "no"
