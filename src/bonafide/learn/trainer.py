"""The training loop.

An optimiser step is a fixed number of examples; the token budget only cuts it into micro-batches. The order of the
examples and every draw are keyed by (seed, epoch or step, example id), so a run that was killed goes on to the same
weights. Decisions (which solution trains what) are made in fp32 with dropout off; training is bf16 on a GPU.

Devices, mixed precision and gradient scaling are accelerate's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from bonafide import ragged
from bonafide.errors import BonafideError
from bonafide.learn import draws
from bonafide.learn.checkpoint import Trained, checkpoints, keep_only, load_checkpoint, save_checkpoint
from bonafide.learn.data import TrainingData, load_training_data, texts_of
from bonafide.learn.hard_em_threshold import HardEMThreshold
from bonafide.learn.methods import build_objective
from bonafide.learn.microbatch import MicroBatch, Models, Prepared
from bonafide.learn.monitor import Monitor, dev_figures
from bonafide.learn.objective import Moment, Objective, Outcome
from bonafide.learn.recipe import Recipe
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import Model, save_model
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.denoise import Denoising
from bonafide.reconstruct.layout import tokenise
from bonafide.tasks.sql.rendering import rendered
from bonafide.tasks.sql.solver import SolverSpec, SqlSolver, build_sql_solver


@dataclass(frozen=True, slots=True)
class Progress:
    """What a watcher is told after each step."""

    step: int
    steps: int
    figures: dict[str, float]


Watcher = Callable[[Progress], None]


def train(
    recipe: Recipe, out: Path, resume: bool = False, watcher: Watcher | None = None, search_progress: Any = None
) -> RunFolder:
    """Train by a recipe into the folder ``out``; with ``resume``, go on from its last checkpoint."""
    with RunFolder.open(out, recipe, resume) as folder:
        data = load_training_data(recipe, out, *(search_progress or (None, None)))
        trainer = Trainer(recipe, data, folder, watcher)
        trainer.run()
        return folder


class Trainer:
    """One run. Public so that a test or a notebook can look inside; :func:`train` is the way to use it."""

    def __init__(self, recipe: Recipe, data: TrainingData, folder: RunFolder, watcher: Watcher | None = None) -> None:
        self.recipe, self.data, self.folder, self._watcher = recipe, data, folder, watcher
        torch.manual_seed(recipe.train.seed)
        self.accelerator = Accelerator(mixed_precision=_precision(recipe.train.precision))
        if self.accelerator.device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32: scores that decide stay well above bf16
            torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each shape, ten times slower here
        self.objective: Objective = build_objective(recipe.objective.method, recipe.objective.options)
        self._build_models()
        self._prepare()
        total = math.ceil(recipe.train.epochs * self.steps_per_epoch)
        self.steps = max(1, total)
        self.monitor = Monitor(self.items, data.items)
        self.best: dict[str, Any] = {}
        self.step = 0

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of one pass over the training examples; the last one may be smaller."""
        return -(-len(self.items) // self.recipe.train.batch)

    def _build_models(self) -> None:
        recipe = self.recipe
        texts = texts_of(self.data.items)
        solver = recipe.solver
        self.solver: SqlSolver = build_sql_solver(
            SolverSpec(
                encoder=solver.encoder,
                layers=solver.layers,
                width=solver.width,
                heads=solver.heads,
                head_width=solver.head_width,
                dropout=solver.dropout,
                averaged=solver.averaged,
                language=self.data.language,
            ),
            texts=texts,
            seed=recipe.train.seed,
        )
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
        torch.manual_seed(recipe.train.seed)  # training draws the same whatever building the models drew
        self.modules: dict[str, nn.Module] = {"solver": self.solver}
        self.optimisers = {"solver": _solver_optimiser(self.solver, recipe)}
        if self.reconstructor is not None:
            self.modules["reconstructor"] = self.reconstructor
            self.optimisers["reconstructor"] = torch.optim.AdamW(
                self.reconstructor.parameters(), lr=recipe.train.reconstructor_rate, eps=1e-6, weight_decay=0.0
            )
        self._rates = {name: [group["lr"] for group in each.param_groups] for name, each in self.optimisers.items()}
        for name, module in self.modules.items():
            module.to(self.accelerator.device).train()
            self.optimisers[name] = self.accelerator.prepare_optimizer(self.optimisers[name])
        self.models = Models(self.solver, self.reconstructor, self.accelerator.device, self.accelerator.autocast)

    def _prepare(self) -> None:
        """Tokenise every example once."""
        self.items: list[Prepared] = []
        for item in self.data.items:
            layout = None
            if self.reconstructor is not None and self.reconstructor_tokenizer is not None:
                shown = rendered(item.solutions, item.table, verbalised=self.recipe.reconstructor.verbalised)
                layout = tokenise(shown, item.example.question, self.reconstructor_tokenizer)
            operations = (item.solutions.where >= 0).sum(axis=1) + (item.solutions.aggregate > 0)
            features = self.solver.features(item.example.question, item.table, item.solutions)
            self.items.append(Prepared(item.example.id, features, layout, operations.astype(np.int64)))

    def run(self) -> None:
        """Train to the end, from the start or from the last checkpoint."""
        self._restore()
        started, done_before = time.perf_counter(), self.step
        allowed: list[bool] | None = None
        while self.step < self.steps:
            moment = Moment(self.step, self.steps_per_epoch)
            if isinstance(self.objective, HardEMThreshold) and (
                allowed is None or self.step % self.steps_per_epoch == 0
            ):
                allowed = self._filter(moment)
            figures = self._step(moment, allowed)
            self.step += 1
            spent = time.perf_counter() - started
            figures["examples_per_second"] = (self.step - done_before) * self.recipe.train.batch / spent
            if self.step % self.recipe.train.log_every == 0 or self.step == self.steps:
                self.folder.log({"step": self.step, "epoch": self.step / self.steps_per_epoch, **figures})
            if self._watcher is not None:
                self._watcher(Progress(self.step, self.steps, figures))
            if self._due(self.recipe.train.evaluate_every) or self.step == self.steps:
                if self._evaluate() and self.step < self.steps:
                    self.folder.log({"step": self.step, "stopped": "no better dev figure for some evaluations"})
                    self._save()
                    break
            elif self.step % self.recipe.train.checkpoint_every == 0:
                self._save()
        self.folder.finish(self.best, self.data.report)

    def _due(self, epochs: float) -> bool:
        return self.step % max(1, round(epochs * self.steps_per_epoch)) == 0

    def _step(self, moment: Moment, allowed: list[bool] | None) -> dict[str, float]:
        epoch_order = self._order(moment.epoch)
        place = (moment.step % self.steps_per_epoch) * self.recipe.train.batch
        chosen = epoch_order[place : place + self.recipe.train.batch]
        totals: dict[str, Tensor] = {}
        solutions = 0
        for part in self._micro_batches(chosen):
            batch = MicroBatch(
                [self.items[index] for index in part],
                self.models,
                moment,
                self.recipe.train.seed,
                None if allowed is None else [allowed[index] for index in part],
            )
            outcome = self.objective.step(batch, moment)
            solutions += sum(self.items[index].size for index in part)
            self._backward(outcome, len(chosen), totals)
            self.monitor.see(part, batch.offsets, outcome)
        self._optimise(moment)
        figures = {name: float(value) for name, value in totals.items()}
        figures["candidates"] = float(solutions)
        return figures

    def _backward(self, outcome: Outcome, examples: int, totals: dict[str, Tensor]) -> None:
        for name, loss in (("loss", outcome.solver_loss), ("reconstructor_loss", outcome.reconstructor_loss)):
            if loss is None:
                continue
            mean = loss / examples
            if not bool(torch.isfinite(mean)):
                self._stop_for_nan(name)
            if mean.requires_grad:
                self.accelerator.backward(mean)
            totals[name] = totals.get(name, torch.zeros((), device=mean.device)) + mean.detach()

    def _optimise(self, moment: Moment) -> None:
        rate = _schedule(moment.step, self.steps, self.recipe.train.warmup)
        for name, optimiser in self.optimisers.items():
            module = self.modules[name]
            if any(parameter.grad is not None for parameter in module.parameters()):
                self.accelerator.clip_grad_norm_(module.parameters(), self.recipe.train.clip)
                for group, full in zip(optimiser.param_groups, self._rates[name], strict=True):
                    group["lr"] = full * rate
                optimiser.step()
                optimiser.zero_grad()

    def _micro_batches(self, chosen: Sequence[int]) -> Iterator[list[int]]:
        """The examples of a step in parts of like size, each within the token budget if one example allows it."""
        part: list[int] = []
        cost = 0
        for index in sorted(chosen, key=lambda each: (self.items[each].size, self.items[each].id)):
            tokens = self.items[index].size * 40 if self.reconstructor is not None else 40
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
        best = []
        for start in range(0, len(self.items), self.recipe.train.batch):
            part = self.items[start : start + self.recipe.train.batch]
            batch = MicroBatch(part, self.models, moment, self.recipe.train.seed)
            scores = batch.solver_scores()
            best.append(scores[ragged.argmax(scores, batch.offsets)])
        sizes = torch.tensor([item.size for item in self.items])
        used = self.objective.prepare(torch.cat(best).cpu(), sizes, moment.epoch)
        self.folder.log({"step": self.step, "used_by_threshold": float(used.float().mean())})
        return [bool(each) for each in used]

    def _evaluate(self) -> bool:
        """Log the epoch and the dev figures, save, and say whether to stop early."""
        figures = self.monitor.epoch_figures()
        self.folder.log_selections(self.step / self.steps_per_epoch, self.monitor.selections())
        model = self._model()
        if self.data.dev is not None:
            figures |= dev_figures(model, self.data.dev, self.recipe)
        for module in self.modules.values():
            module.train()
        self.folder.log({"step": self.step, "epoch": self.step / self.steps_per_epoch, "evaluation": figures})
        if self._watcher is not None:
            self._watcher(Progress(self.step, self.steps, figures))
        key = {"execution": "dev_execution", "reconstruction": "dev_reconstruction"}.get(self.recipe.train.select_by)
        figure = figures.get(key, float(self.step)) if key else float(self.step)
        if not self.best or figure >= self.best["figure"]:
            self.best = {"figure": figure, "by": key or "last step", "step": self.step, **figures}
            save_model(self.folder.path / "model", model)
        waited = sum(1 for step in self.folder.evaluated_steps() if step > self.best["step"])
        self._save()
        return bool(self.recipe.train.patience) and waited >= self.recipe.train.patience

    def _model(self) -> Model:
        about = {"recipe": self.recipe.to_json(), "step": self.step}
        return Model(self.solver, self.reconstructor, self.reconstructor_tokenizer, about)

    def _save(self) -> None:
        state = {"step": self.step, "best": self.best, "monitor": self.monitor.state()}
        if isinstance(self.objective, HardEMThreshold):
            state["objective"] = self.objective.state
        path = save_checkpoint(self.folder.checkpoints, Trained(self.modules, self.optimisers), state)
        keep_only(self.folder.checkpoints, {path})

    def _restore(self) -> None:
        found = checkpoints(self.folder.checkpoints)
        if not found:
            self.folder.forget_after(0)
            return
        state = load_checkpoint(found[-1], Trained(self.modules, self.optimisers))
        self.step, self.best = state["step"], state["best"]
        self.monitor.restore(state["monitor"])
        if isinstance(self.objective, HardEMThreshold):
            self.objective.state = state["objective"]
        self.folder.forget_after(self.step)

    def _stop_for_nan(self, name: str) -> None:
        self._save_failed_batch(name)
        raise BonafideError(
            f"The {name} of step {self.step} is not a number. Its batch is saved in "
            f"{self.folder.path / 'failed-batch.json'}; the last checkpoint is unharmed. A lower learning rate usually "
            "helps."
        )

    def _save_failed_batch(self, name: str) -> None:
        place = (self.step % self.steps_per_epoch) * self.recipe.train.batch
        chosen = self._order(self.step // self.steps_per_epoch)[place : place + self.recipe.train.batch]
        self.folder.write_failure({"step": self.step, "loss": name, "examples": [self.items[i].id for i in chosen]})


def _solver_optimiser(solver: SqlSolver, recipe: Recipe) -> torch.optim.Optimizer:
    encoder = {id(parameter) for parameter in solver.encoder.parameters()}
    groups = [
        {
            "params": [each for each in solver.parameters() if (id(each) in encoder) == inside],
            "lr": rate,
        }
        for inside, rate in ((True, recipe.train.encoder_rate), (False, recipe.train.head_rate))
    ]
    return torch.optim.AdamW(groups, eps=1e-6, weight_decay=recipe.train.weight_decay)


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
