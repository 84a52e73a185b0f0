"""Recipes: everything that a training run depends on, as TOML, strict.

A recipe is addressed by name (those in the package, ``bonafide/recipes``) or by path. An unknown key is an error that
names the nearest known one; a value of the wrong type is an error; ``--set section.key=value`` overrides a value.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, get_type_hints

from bonafide.errors import BonafideError, shortened
from bonafide.files import open_bytes
from bonafide.learn.learnable import import_task, learnable
from bonafide.learn.methods import build_objective


@dataclass(frozen=True, slots=True)
class Data:
    """What is learned from: folders with ``examples.jsonl`` and its contexts under ``root``."""

    task: str = "sql"
    root: str = ""
    train: str = "train"
    dev: str = "dev"
    solutions: str = ""  # a solution store of the train examples; empty: searched into the run's folder
    largest: float = 1.0  # the share of train examples with the largest sets: 0.18 is the paper's hard set
    max_solutions: int = 2000  # solutions of an example that are used; more are sampled once, and reported
    simplest: float = 0.0  # the share of a sampled set that are its simplest solutions; the rest is drawn
    likeliest: bool = False  # keep those whose words make the question likeliest (learn/words.py) in place of a sample
    propose: bool = False  # discrete: at each evaluation, add the right programs that the model predicts to the sets
    dev_examples: int = 0  # dev examples that are decoded at each evaluation; 0: all
    workers: int = 1


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """The solver: an encoder by hub name, path or ``minilm``, or ``scratch`` for a small one from nothing."""

    kind: str = "slots"  # sql: fills the slots of a query; text writes it, with a BART as its encoder
    encoder: str = "minilm"
    layers: int = 2  # of a scratch encoder
    width: int = 64
    heads: int = 4
    head_width: int = 128
    dropout: float = 0.1
    averaged: bool = False  # sql: the reference's averaged pseudo-likelihood instead of the exact joint
    window: int = 300  # reading: pieces of a window, with the question
    stride: int = 128  # reading: pieces from the begin of a window to the next
    others: float = 1.0  # reading: windows without a mention that training reads, for each with one
    local: bool = False  # reading: the reference's window-local probabilities, with a "no answer" class


@dataclass(frozen=True, slots=True)
class ReconstructorOptions:
    """The reconstructor: ``t-scratch``, ``t-dae``, ``warm`` (encoder from ``path``) or ``bart`` (from ``path``)."""

    kind: str = "t-scratch"
    path: str = ""
    layers: int = 3
    width: int = 384
    heads: int = 6
    dropout: float = 0.1
    denoise_epochs: int = 1  # of t-dae
    verbalised: bool = False


@dataclass(frozen=True, slots=True)
class ObjectiveOptions:
    """The learning method, and its own options under ``[objective.options]``."""

    method: str = "mimax"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The optimisation. A step is ``batch`` examples, whatever fits the device at a time."""

    epochs: float = 10.0
    batch: int = 64
    encoder_rate: float = 1e-4
    head_rate: float = 1e-3
    reconstructor_rate: float = 3e-4
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    budget: int = 400_000  # tokens of solutions and questions in a micro-batch
    seed: int = 0
    precision: str = "auto"  # of training: auto (bf16 on a GPU), fp32, bf16. Decisions are always fp32
    graphs: bool = True  # on a GPU, launch small kernels together (CUDA graphs)
    shard: bool = False  # of several processes, each holds a part of the encoder's weights (FSDP)
    evaluate_every: float = 1.0  # epochs
    checkpoint_every: int = 200  # steps
    # The dev figure that picks the best checkpoint: description, execution, reconstruction; or the last one.
    select_by: str = "description"
    patience: int = 0  # evaluations without a better figure before training stops; 0: never
    log_every: int = 10


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that a training run depends on."""

    data: Data = field(default_factory=Data)
    language: Any = None  # the task's own options: what is searched, where the run searches itself
    solver: SolverOptions = field(default_factory=SolverOptions)
    reconstructor: ReconstructorOptions = field(default_factory=ReconstructorOptions)
    objective: ObjectiveOptions = field(default_factory=ObjectiveOptions)
    train: TrainOptions = field(default_factory=TrainOptions)

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain values."""
        return asdict(self)


_CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("language", "aggregates"): ("typed", "untyped"),
    ("solver", "kind"): ("slots", "text"),
    ("reconstructor", "kind"): ("t-scratch", "t-dae", "warm", "bart"),
    ("train", "precision"): ("auto", "fp32", "bf16"),
    ("train", "select_by"): ("description", "execution", "reconstruction", "last"),
}


def named_recipes() -> list[str]:
    """The recipes in the package."""
    folder = resources.files("bonafide") / "recipes"
    return sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml"))


def read_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of this name or at this path, with ``section.key=value`` overrides."""
    if name.endswith(".toml") or "/" in name:
        with open_bytes(Path(name)) as stream:
            text = stream.read()
    elif name in named_recipes():
        text = (resources.files("bonafide") / "recipes" / f"{name}.toml").read_bytes()
    else:
        raise BonafideError(
            f"There is no recipe {shortened(name)}{_nearest(name, named_recipes())}. Name one, or give a path."
        )
    values = _parsed(text, name)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or "." not in key:
            raise BonafideError(f"--set takes section.key=value, found {shortened(override)}.")
        *path, last = key.strip().split(".")
        place = values
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise BonafideError(f"--set {shortened(override)}: {part!r} is a value, not a section.")
        place[last] = _value(value.strip())
    data = values.get("data")
    task = data.get("task") if isinstance(data, dict) else None
    if isinstance(task, str) and ":" in task:
        with _named(name):
            import_task(task, Path(name).parent)
    return recipe_from(values, name)


def recipe_from(values: dict[str, Any], source: str) -> Recipe:
    """A recipe from plain values, checked."""
    sections = {}
    known = {each.name: each for each in fields(Recipe)}
    hints = get_type_hints(Recipe)
    data = values.get("data", {})
    task = data.get("task", "sql") if isinstance(data, dict) else "sql"
    if not isinstance(task, str):
        raise BonafideError(f"{source}: data.task: expected str, found {shortened(task)}.")
    with _named(source):
        hints["language"] = learnable(task).language_options
    for section, content in values.items():
        if section not in known:
            raise BonafideError(f"{source}: there is no section {shortened(section)}{_nearest(section, list(known))}.")
        if not isinstance(content, dict):
            raise BonafideError(f"{source}: [{section}] must be a section with keys, found {shortened(content)}.")
        sections[section] = _section(hints[section], section, content, source)
    sections.setdefault("language", hints["language"]())
    recipe = Recipe(**sections)
    _check(recipe, source)
    return recipe


def _section(kind: type, section: str, content: dict[str, Any], source: str) -> Any:
    hints = get_type_hints(kind)
    values = {}
    for key, value in content.items():
        where = f"{source}: {section}.{key if len(key) <= 60 else key[:59] + '…'}"
        if key not in hints:
            raise BonafideError(f"{where} is not known{_nearest(key, list(hints))}.")
        wanted = hints[key]
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**53 else math.inf
        plain = dict if key == "options" else wanted
        if not isinstance(value, plain) or (plain is not bool and isinstance(value, bool)):
            raise BonafideError(f"{where}: expected {plain.__name__}, found {shortened(value)}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise BonafideError(f"{where}: expected a finite number, found {value}.")
        if (section, key) in _CHOICES and value not in _CHOICES[section, key]:
            raise BonafideError(
                f"{where}: expected one of {', '.join(_CHOICES[section, key])}, found {shortened(value)}."
            )
        values[key] = value
    return kind(**values)


def _check(recipe: Recipe, source: str) -> None:
    with _named(source):
        objective = build_objective(recipe.objective.method, recipe.objective.options)
    if recipe.train.select_by == "reconstruction" and not objective.needs_reconstructor:
        raise BonafideError(
            f"{source}: train.select_by is reconstruction, and {recipe.objective.method} trains no reconstructor."
        )
    positive = {
        "train.epochs": recipe.train.epochs,
        "train.batch": recipe.train.batch,
        "train.budget": recipe.train.budget,
        "train.evaluate_every": recipe.train.evaluate_every,
        "train.checkpoint_every": recipe.train.checkpoint_every,
        "train.log_every": recipe.train.log_every,
        "train.clip": recipe.train.clip,
        "solver.head_width": recipe.solver.head_width,
        "solver.window": recipe.solver.window,
        "solver.stride": recipe.solver.stride,
        "data.workers": recipe.data.workers,
        "data.largest": recipe.data.largest,
        "data.max_solutions": recipe.data.max_solutions,
    }
    for section, options in (("solver", recipe.solver), ("reconstructor", recipe.reconstructor)):
        positive |= {f"{section}.{key}": getattr(options, key) for key in ("layers", "width", "heads")}
        if not 0 <= options.dropout < 1:
            raise BonafideError(f"{source}: {section}.dropout is a share below 1, found {options.dropout}.")
    for key, number in positive.items():
        if number <= 0:
            raise BonafideError(f"{source}: {key} must be more than 0, found {number}.")
    not_negative = {
        "data.dev_examples": recipe.data.dev_examples,
        "solver.others": recipe.solver.others,
        "reconstructor.denoise_epochs": recipe.reconstructor.denoise_epochs,
        "train.encoder_rate": recipe.train.encoder_rate,
        "train.head_rate": recipe.train.head_rate,
        "train.reconstructor_rate": recipe.train.reconstructor_rate,
        "train.weight_decay": recipe.train.weight_decay,
        "train.patience": recipe.train.patience,
    }
    for key, number in not_negative.items():
        if number < 0:
            raise BonafideError(f"{source}: {key} must be 0 or more, found {number}.")
    for section, options in (("solver", recipe.solver), ("reconstructor", recipe.reconstructor)):
        if options.width % options.heads:
            raise BonafideError(
                f"{source}: {section}.width must be a multiple of {section}.heads, found {options.width} and "
                f"{options.heads}."
            )
    if recipe.data.propose and recipe.data.task != "discrete":
        raise BonafideError(f"{source}: data.propose is for the task discrete; the sets of the others are complete.")
    if recipe.solver.kind != "slots" and recipe.data.task != "sql":
        raise BonafideError(f"{source}: solver.kind is for the task sql; each of the others has one solver.")
    if not 0 <= recipe.train.seed < 2**63:
        raise BonafideError(f"{source}: train.seed must be 0 or more, and below 2 ** 63; found {recipe.train.seed}.")
    for key, share in {"data.simplest": recipe.data.simplest, "train.warmup": recipe.train.warmup}.items():
        if not 0 <= share <= 1:
            raise BonafideError(f"{source}: {key} is a share, from 0 to 1; found {share}.")
    if recipe.data.largest > 1:
        raise BonafideError(f"{source}: data.largest is a share, at most 1; found {recipe.data.largest}.")
    if recipe.reconstructor.kind in ("bart", "warm") and not recipe.reconstructor.path:
        raise BonafideError(
            f"{source}: a reconstructor of kind {recipe.reconstructor.kind!r} needs reconstructor.path."
        )


def _parsed(text: bytes, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode())
    except ValueError as error:  # of TOML, of UTF-8, or of an integer with too many digits
        reason = str(error) if len(str(error)) <= 200 else f"{str(error)[:199]}…"
        raise BonafideError(f"{source} is not a recipe: {reason}.") from None
    except RecursionError:
        raise BonafideError(f"{source} is not a recipe: its values are nested too deeply.") from None


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Say in which recipe it is, where something is wrong."""
    try:
        yield
    except BonafideError as error:
        raise BonafideError(f"{source}: {error}") from None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else f"; known are {', '.join(known)}"
