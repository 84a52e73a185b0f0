"""What a run is made of: its models, as the recipe says, and its examples in tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import torch

from bonafide.learn.data import TrainingData, word_scores
from bonafide.learn.learnable import Item, Learnable, SolverModule
from bonafide.learn.microbatch import Prepared
from bonafide.learn.recipe import Recipe
from bonafide.learn.words import WordModel
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.reconstruct.denoise import Denoising
from bonafide.reconstruct.layout import Layout, tokenise
from bonafide.reconstruct.model import Reconstructor

_logger = logging.getLogger(__name__)


def new_models(
    recipe: Recipe, task: Learnable, data: TrainingData, explains: bool, device: torch.device
) -> tuple[SolverModule, Reconstructor | None, Any]:
    """The solver and, where one ``explains``, the reconstructor, pre-trained on ``device``, and its tokenizer."""
    texts = task.texts(data.items)
    solver = task.build_solver(recipe, data.store, texts)
    if not explains:
        return solver, None, None
    return solver, *new_reconstructor(recipe, texts, [item.example.question for item in data.items], device)


def new_reconstructor(
    recipe: Recipe, texts: Sequence[str], questions: Sequence[str], device: torch.device
) -> tuple[Reconstructor, Any]:
    """It and its tokenizer; ``texts`` give one from scratch its words."""
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
    return build_reconstructor(spec, texts=texts, questions=questions, seed=recipe.train.seed, device=device)


def prepared(
    item: Item,
    task: Learnable,
    recipe: Recipe,
    solver: SolverModule,
    tokenizer: Any,
    words: WordModel | None = None,
) -> Prepared:
    """A training example, tokenised for the solver and, where there is a reconstructor's tokenizer, for that."""
    layouts: tuple[Layout, ...] = ()
    if tokenizer is not None:
        layouts = tuple(tokenise(shown, item.example.question, tokenizer) for shown in task.rendered(item, recipe))
    features = solver.features(item.example.question, item.context, item.solutions)
    worded = None if words is None else word_scores(task, item, recipe, words)
    return Prepared(item.example.id, features, layouts, task.operations(item.solutions), worded)


def warn_of_long(count: int, examples: int, solver: SolverModule) -> None:
    """Say how many examples are not read whole."""
    _logger.warning(
        f"{count:,} of {examples:,} examples are longer than the encoder reads ({solver.encoder.max_pieces:,} pieces): "
        "what does not fit is left out."
    )
