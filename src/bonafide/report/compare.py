"""Compare methods on the same examples: is one better, by how much, and where.

Runs are grouped by their recipe without its seed, and by what they were trained on (``trained.py``); a group goes by
its method, and by what else sets it apart where two groups have the same. The first group on the command line is what
the others are held against. Figures: how often the answer is right; its F1, where the task has one; and with gold how
often the solution is right, and how often a right answer has a right solution.

Over seeds: a t-test, paired where both have the same seeds, else Welch's. Over examples: a permutation test and a
bootstrap interval of each example's mean over all seeds of a method, in which the examples of one context go together;
seeds add no examples, so the interval of a mean counts each example once. It is Wilson's; of F1, which is no
proportion, the bootstrap's. All must have been decoded alike, on these examples (``decoded.py``).
Flips are McNemar's, seed by seed, since the flips of one example under several seeds are not independent; F1 has none.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.documents import documents_beside
from bonafide.errors import BonafideError
from bonafide.evaluate.sql import Accuracy
from bonafide.examples import read_gold
from bonafide.files import content_hash
from bonafide.learn.learnable import learnable
from bonafide.learn.saved import check_model
from bonafide.report.decoded import Decoded, hash_of_documents, hash_of_model, hash_of_tables, how_decoded
from bonafide.report.languages import asked_by_all, asked_by_run, brought
from bonafide.report.predicted import Asked, Predicted, answer_type, asked_beside, read_predicted
from bonafide.report.runs import check_reconstruction, evaluate_run, load_for_evaluation
from bonafide.report.runs_discrete import evaluate_discrete
from bonafide.report.runs_reading import evaluate_reading
from bonafide.report.runs_text import evaluate_text
from bonafide.report.statistics import (
    Flips,
    Interval,
    SeedTest,
    Units,
    Values,
    bootstrap_interval,
    bootstrap_mean,
    flips,
    over_seeds,
    permutation_p,
    units,
    wilson,
)
from bonafide.report.trained import flat, placed, recipe_of, trained_on
from bonafide.sealed import read_sealed
from bonafide.search.discrete import search_discrete
from bonafide.search.reading import search_reading
from bonafide.search.sql import search_sql, tables_beside
from bonafide.search.text import search_text
from bonafide.solutions import read_manifest
from bonafide.tasks.discrete.task import language_of
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.sql.language import Language as SqlLanguage
from bonafide.tasks.sql.sources import as_options
from bonafide.tasks.sql.tables import ColumnType

Right = npt.NDArray[np.bool_]
Progress = Callable[[int, int], None]
ANSWER, F1, SOLUTION = "right answer", "F1", "right solution"
_EDGES = (0, 1, 2, 10, 100, 1000)
_LOCAL = (
    "data.root",
    "data.solutions",
    "data.workers",
    "train.seed",
    "train.checkpoint_every",
    "train.log_every",
)
"""Settings that set no method apart; what is in a store does (``trained.py``)."""


@dataclass(frozen=True)
class Method:
    """The runs of one method by seed, each with its predictions in the order of the examples."""

    name: str
    runs: Mapping[int, Path]
    predicted: Mapping[int, Sequence[Predicted]]

    def right(self, figure: str, seeds: Sequence[int] | None = None) -> Right:
        """(seeds, examples): whether the answer, or the solution, is right."""
        listed = [self.predicted[seed] for seed in (sorted(self.runs) if seeds is None else seeds)]
        right = [[each.right if figure == ANSWER else bool(each.genuine) for each in run] for run in listed]
        return np.array(right, dtype=bool)

    def values(self, figure: str) -> Values:
        """(seeds, examples): F1, or 1 where the answer, or the solution, is right."""
        if figure != F1:
            return self.right(figure).astype(np.float64)
        return np.array([[each.f1 for each in self.predicted[seed]] for seed in sorted(self.runs)], dtype=np.float64)

    def genuine_when_right(self) -> tuple[float, Interval] | None:
        """Of right answers, the share with a right solution: over all seeds, its interval as of one run's answers.

        None where no answer is right.
        """
        answers, solutions = self.right(ANSWER), self.right(SOLUTION)
        both, of = float((answers & solutions).mean(axis=0).sum()), float(answers.mean(axis=0).sum())
        return (both / of, wilson(both, of)) if of else None


@dataclass(frozen=True, slots=True)
class Part(Accuracy):
    """A figure of some examples: its sum over them, mean over seeds, and the interval of its mean, if there is one."""

    interval: Interval | None


@dataclass(frozen=True)
class Contrast:
    """A method against the first, by one figure; ``flips`` by seed, none of F1."""

    figure: str
    difference: float
    interval: Interval
    p: float
    seeds: SeedTest | None
    flips: Mapping[int, Flips]


@dataclass(frozen=True)
class Comparison:
    """Methods on the same examples; ``sizes`` are those of the solution sets."""

    methods: Sequence[Method]
    asked: Asked
    sizes: Mapping[str, float]
    has_gold: bool

    @property
    def figures(self) -> tuple[str, ...]:
        """What can be compared."""
        return (ANSWER, *([F1] if self.has_f1 else []), *([SOLUTION] if self.has_gold else []))

    @property
    def has_f1(self) -> bool:
        """Whether the task measures F1."""
        return next(iter(self.methods[0].predicted.values()))[0].f1 is not None

    @cached_property
    def contrasts(self) -> dict[str, list[Contrast]]:
        """By the name of each method but the first."""
        first = self.methods[0]
        return {
            each.name: [_contrast(first, each, name, self.units) for name in self.figures] for each in self.methods[1:]
        }

    @cached_property
    def units(self) -> Units | None:
        """(examples,): which go together, since their contexts are the same; None where each stands for itself."""
        return units(self.contexts)

    @cached_property
    def contexts(self) -> list[str | None]:
        """(examples,): what each is asked of, by name; None where that is its own. Without a name: of the one table."""
        asked = self.asked
        one_table = asked.task == "sql"
        return [
            str(asked.context(each).id) if one_table and each.context is None else each.context
            for each in asked.examples.values()
        ]

    @cached_property
    def reasons(self) -> dict[str, dict[int, Flips]]:
        """By method but the first, and seed: of the questions that both answer rightly, whose solution is right."""
        first, found = self.methods[0], {}
        for method in self.methods[1:] if self.has_gold else ():
            seeds = sorted(set(first.runs) & set(method.runs))
            both = first.right(ANSWER, seeds) & method.right(ANSWER, seeds)
            one, other = first.right(SOLUTION, seeds), method.right(SOLUTION, seeds)
            found[method.name] = {
                seed: flips(one[place][both[place]], other[place][both[place]]) for place, seed in enumerate(seeds)
            }
        return found

    def by_answer_type(self, figure: str) -> dict[str, dict[str, Part]]:
        """By method and type of answer."""
        return self._grouped(figure, lambda each: answer_type(each.example, self.asked.task), None)

    def by_set_size(self, figure: str) -> dict[str, dict[str, Part]]:
        """By method and size of the solution set."""
        names = [_bucket(low, high) for low, high in zip(_EDGES, [*_EDGES[1:], None], strict=True)]

        def name(each: Predicted) -> str:
            return names[sum(self.sizes[each.example.id] >= edge for edge in _EDGES) - 1]

        return self._grouped(figure, name, names)

    def _grouped(
        self, figure: str, group: Callable[[Predicted], str], order: Sequence[str] | None
    ) -> dict[str, dict[str, Part]]:
        labels = np.array([group(each) for each in next(iter(self.methods[0].predicted.values()))])
        listed = [name for name in order or sorted(set(labels.tolist())) if (labels == name).any()]
        contexts = np.array(self.contexts, dtype=object)
        found: dict[str, dict[str, Part]] = {}
        for method in self.methods:
            values = method.values(figure).mean(axis=0)
            found[method.name] = {
                name: part_of(figure, values[labels == name], contexts[labels == name].tolist()) for name in listed
            }
        return found


def part_of(figure: str, values: Values, contexts: Sequence[str | None]) -> Part:
    """A figure of some examples, mean over seeds, with Wilson's interval; F1 is no proportion: with the bootstrap's."""
    total, count = float(values.sum()), len(values)
    return Part(total, count, bootstrap_mean(values, units(contexts)) if figure == F1 else wilson(total, count))


def compare_runs(
    runs: Sequence[Path],
    examples: Path | None = None,
    gold: Path | None = None,
    solutions: Path | None = None,
    table: Sequence[Path] = (),
    progress: Progress | None = None,
    types: Mapping[str, ColumnType] | None = None,
) -> Comparison:
    """Read what the runs predict on the same examples, and judge it; a run without predictions is evaluated first.

    ``examples``: by default the dev examples of the first run's recipe. ``solutions``: a store of these examples, for
    the sizes of their sets; by default they are searched in the language of the first run. ``table``: CSV, Parquet or
    SQLite files that the examples ask about, where there is no ``tables.jsonl`` beside them; ``types`` overrides those
    of their columns.
    """
    recipes = {run: recipe_of(run) for run in dict.fromkeys(runs)}
    tasks = {recipe["data"].get("task", "sql") for recipe in recipes.values()}
    if len(tasks) > 1:
        raise BonafideError(f"Runs of one task can be compared; found runs of {' and '.join(sorted(tasks))}.")
    groups = _groups(recipes)
    path = examples or _dev_examples(runs[0], recipes[runs[0]])
    task = tasks.pop()
    if task != "sql" and (table or types):
        raise BonafideError(f"--table and --type are for runs on tables; these are of the task {task!r}.")
    read_by = asked_by_run(asked_beside(task, path, runs[0], table, types), recipes)
    asked = asked_by_all(list(read_by.values()))
    again = _command(path, table, types)
    decoded = _decoding(groups, _wanted(task, path, table, types), again)
    known = None if gold is None else read_gold(gold)
    if known is not None and set(asked.examples) - set(known):
        missing = len(set(asked.examples) - set(known))
        raise BonafideError(f"{gold} lacks gold for {missing:,} of {len(asked.examples):,} examples: expected all.")
    methods = []
    for name, by_seed in groups.items():
        predicted = {}
        for seed, run in by_seed.items():
            if not (run / "predictions.jsonl").exists():
                _evaluate(run, path, table, types, progress, decoded[name])
            found = read_predicted(run / "predictions.jsonl", read_by[run], known)
            if missed := set(asked.examples) - set(found):
                raise BonafideError(
                    f"{run / 'predictions.jsonl'} lacks {len(missed):,} of the {len(asked.examples):,} examples in "
                    f"{path}, such as {min(missed)!r}. Run {again(run)} first."
                )
            predicted[seed] = [brought(found[each], read_by[run], asked) for each in asked.examples]
        methods.append(Method(name, by_seed, predicted))
    sizes = _searched_sizes(asked, path, runs[0], table, types) if solutions is None else _sizes(solutions, asked)
    return Comparison(methods, asked, sizes, known is not None)


def _contrast(first: Method, second: Method, figure: str, of: Units | None) -> Contrast:
    one, other = first.values(figure), second.values(figure)
    before, after = one.mean(axis=0), other.mean(axis=0)
    shared = sorted(set(first.runs) & set(second.runs)) if figure != F1 else []
    pairs = {seed: (first.right(figure, [seed])[0], second.right(figure, [seed])[0]) for seed in shared}
    by_seed = [
        dict(zip(sorted(each.runs), values.mean(axis=1), strict=True))
        for each, values in ((first, one), (second, other))
    ]
    return Contrast(
        figure,
        float(after.mean() - before.mean()),
        bootstrap_interval(before, after, of),
        permutation_p(before, after, of),
        over_seeds(*by_seed),
        {seed: flips(*pair) for seed, pair in pairs.items()},
    )


def _groups(recipes: Mapping[Path, dict[str, Any]]) -> dict[str, dict[int, Path]]:
    """Runs by the name of their method and by seed, in the order in which they were named."""
    settings = {run: flat(recipe) for run, recipe in recipes.items()}
    trained = {run: found for run in recipes if (found := trained_on(run)) is not None}
    if len(trained) == len(recipes):  # else nothing is known of some
        listed = trained.values()
        told = len({each.examples for each in listed}) < len({(each.examples, each.contexts) for each in listed})
        for run, values in settings.items():
            values.pop("data.largest", None)  # one of two ways to say how many examples are kept
            values |= trained[run].settings() | ({"train contexts": trained[run].contexts} if told else {})
    kinds: dict[tuple[tuple[str, str], ...], list[Path]] = {}
    for run, values in settings.items():
        key = tuple(sorted((name, _told(value)) for name, value in values.items() if name not in _LOCAL))
        kinds.setdefault(key, []).append(run)
    methods = {key: dict(key)["objective.method"].strip("'") for key in kinds}
    groups: dict[str, dict[int, Path]] = {}
    for key, runs in kinds.items():
        rivals = [dict(other) for other in kinds if other != key and methods[other] == methods[key]]
        own = dict(key)
        apart = sorted(name for name in own if any(other.get(name) != own[name] for other in rivals))
        shown = ", ".join(f"{name}={own[name]}" for name in apart)
        by_seed: dict[int, Path] = {}
        for run in runs:
            seed = int(settings[run]["train.seed"])
            if seed in by_seed:
                raise BonafideError(
                    f"{by_seed[seed]} and {run} are the same method with the same seed {seed}: expected one run a seed."
                )
            by_seed[seed] = run
        groups[methods[key] + (f" ({shown})" if shown else "")] = by_seed
    if len(groups) < 2:
        raise BonafideError(f"A comparison needs runs of two methods; found {', '.join(groups)} alone.")
    return groups


def _told(value: Any) -> str:
    """A setting; 4 and 4.0 are the same."""
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


def _dev_examples(run: Path, recipe: Mapping[str, Any]) -> Path:
    root, dev = (str(recipe["data"].get(name, "")) for name in ("root", "dev"))
    own = run / "data/dev/examples.jsonl"  # of `train --table … --dev …`
    path = placed(run, Path(root, dev, "examples.jsonl")) if dev else own
    if not path.exists() and not dev:
        raise BonafideError(f"{run} was trained without dev examples. Give examples with --examples.")
    if not path.exists():
        raise BonafideError(f"The dev examples of {run} are no longer at {path}. Give examples with --examples.")
    return path


def _command(examples: Path, table: Sequence[Path], types: Mapping[str, ColumnType] | None) -> Callable[..., str]:
    """The command that makes the predictions of a run anew; further words are options of the decoding."""
    given = f"--examples {shlex.quote(str(examples))} {as_options(table, types or {})}".rstrip()
    return lambda run, *how: " ".join(["bonafide evaluate", shlex.quote(str(run)), given, *how])


def _wanted(task: str, examples: Path, table: Sequence[Path], types: Mapping[str, ColumnType] | None) -> Decoded:
    """On what predictions must have been made to be judged now."""
    made = Decoded(content_hash(examples))
    if task == "sql":
        beside = None if table else tables_beside(examples)
        return replace(made, tables=hash_of_tables([beside] if beside else table, types or {}))
    return replace(made, documents=hash_of_documents(None if task == "text" else documents_beside(examples)))


def _decoding(
    groups: Mapping[str, Mapping[int, Path]], wanted: Decoded, again: Callable[..., str]
) -> dict[str, Decoded]:
    """By method, how its runs that have no predictions are to be decoded: as those that have some.

    All must have the same beam, execution-guided or not, and those of one method the same vote of its reconstructor.
    """
    first, found = None, {}
    for name, by_seed in groups.items():
        own = None
        for path, made in _known(by_seed.values(), wanted, again):
            first, own = first or (path, made), own or (path, made)
            if made.options != first[1].options:
                raise BonafideError(
                    f"{first[0]} was made with {first[1].options}, {path} with {made.options}: what is compared must "
                    "be decoded alike. Run bonafide evaluate on one of them again."
                )
            if made.reconstruction != own[1].reconstruction:
                raise BonafideError(
                    f"{own[0]} was made with {own[1].vote}, {path} with {made.vote}: the seeds of one method must be "
                    f"decoded alike. Run {again(path.parent, own[1].options, own[1].vote)} first."
                )
        found[name] = replace(wanted, reconstruction=own[1].reconstruction if own else 0.0)
    if first is None:
        return found
    return {
        name: replace(each, beam=first[1].beam, execution_guided=first[1].execution_guided)
        for name, each in found.items()
    }


def _known(runs: Iterable[Path], wanted: Decoded, again: Callable[..., str]) -> Iterator[tuple[Path, Decoded]]:
    """The predictions of runs with how they were made, where that is known; of something else they are refused."""
    for run in runs:
        path = run / "predictions.jsonl"
        made = how_decoded(path) if path.exists() else None
        if made is None:
            continue
        if made.model:
            check_model(run)
        others = {
            "on other examples": made.examples != wanted.examples,
            "on other tables, or with other types of their columns": made.tables and made.tables != wanted.tables,
            "on other documents": made.documents and made.documents != wanted.documents,
            "by an earlier model of this run": made.model and made.model != hash_of_model(run),
        }
        if how := next((each for each, found in others.items() if found), None):
            raise BonafideError(f"{path} was made {how}. Run {again(run)} first.")
        yield path, made


def _evaluate(
    run: Path,
    examples: Path,
    table: Sequence[Path],
    types: Mapping[str, ColumnType] | None,
    progress: Progress | None,
    how: Decoded,
) -> None:
    model = load_for_evaluation(run)
    options: dict[str, Any] = {"progress": progress, "beam": how.beam, "reconstruction": how.reconstruction}
    check_reconstruction(model, run, how.reconstruction, how.beam)
    if model.task.name == "discrete":
        evaluate_discrete(model, run, examples, **options)
    elif model.task.name == "reading":
        evaluate_reading(model, run, examples, **options)
    elif model.task.name == "text":
        evaluate_text(model, run, examples, **options)
    else:
        guided = how.execution_guided
        evaluate_run(run, examples, table=table, types=types, model=model, execution_guided=guided, **options)


def _searched_sizes(
    asked: Asked, examples: Path, run: Path, table: Sequence[Path], types: Mapping[str, ColumnType] | None
) -> dict[str, float]:
    """Sizes in the language of the run's model; the sets themselves are not kept."""
    model = read_sealed(run / "model" / "model.json")
    with TemporaryDirectory() as folder:
        store = Path(folder) / "solutions"
        if asked.task == "sql":
            language = SqlLanguage(**model["solver"]["spec"]["language"])
            search_sql(examples, store, table=table, types=types, language=language, cap=1)
        elif asked.task == "discrete":
            search_discrete(examples, store, language=language_of(model["solver"]["spec"]), cap=1)
        elif asked.task == "text":
            search_text(examples, store)
        else:
            search_reading(examples, store, matching=_matching(run, model["recipe"]["language"]), cap=1)
        return _sizes(store, asked)


def _matching(run: Path, language: Mapping[str, Any]) -> Matching:
    """How mentions were found for a run; as its recipe says, where its store is gone or gold took its place."""
    found = trained_on(run)
    searched = {} if found is None or found.search is None else found.search
    own = {name.removeprefix("matching."): value for name, value in searched.items() if name.startswith("matching.")}
    return Matching(**(own or language))


def _sizes(store: Path, asked: Asked) -> dict[str, float]:
    opened = learnable(read_manifest(store)["task"]).open_store(store)
    sizes = dict(zip(opened.ids, opened.sizes.tolist(), strict=True))
    if missing := set(asked.examples) - set(sizes):
        raise BonafideError(
            f"{store} lacks {len(missing):,} of the {len(asked.examples):,} examples, such as {min(missing)!r}: "
            "expected a store of these examples. Search them first, or leave --solutions out."
        )
    return sizes


def _bucket(low: int, high: int | None) -> str:
    return f"{low:,}+" if high is None else str(low) if high == low + 1 else f"{low:,}–{high - 1:,}"
