"""Fill tables: what is missing is trained and judged, several runs side by side, until all is there or time is up.

results/
  rows/                  one small file a run; those of other machines can be copied here
  sql-hard.md .html      the table; sql-hard-*.svg its plots
  work/solutions/        the solution sets, searched once for all rows of a language
  work/runs/             the runs: to go on with, to look at; not needed for the table
  work/logs/             what each run said
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.files import content_hash, made_folder, write_json
from bonafide.learn.data import likeliest_sets
from bonafide.learn.learnable import Learnable, learnable
from bonafide.learn.recipe import Recipe
from bonafide.pretrained import resolve_checkpoint
from bonafide.report.subset import content_of, write_part, write_subset
from bonafide.reproduce.one_run import SHORT, STOPPED
from bonafide.reproduce.results import BESIDE, Result, comparable, hash_of, read_result, result_name
from bonafide.reproduce.tables import Row, Table
from bonafide.stopping import ended_properly

HUB_BART = "facebook/bart-base"
"""The paper's, and the one whose results are looked for where none is named."""
_CONTEXTS = ("tables.jsonl", "documents.jsonl")
_OURS = dict.fromkeys(("data.root", "data.train", "data.dev"), "Say where train/ and dev/ are with --data.") | {
    "data.solutions": "The solutions are searched by reproduce itself.",
    "train.seed": "A row is run with the seeds from 0 on: say how many with --seeds.",
}
_TAIL = 12
_GRACE = 30.0
_EXAMPLES_A_WORKER = 2000
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for on the command line, beside the table."""

    out: Path
    data: Path | None = None
    seeds: int | None = None
    rows: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    bart: str | None = None

    def __post_init__(self) -> None:
        for each in self.overrides:
            if (name := each.partition("=")[0].strip()) in _OURS:
                raise BonafideError(f"--set {name}: this is not a setting of a row. {_OURS[name]}")

    def data_of(self, table: Table) -> Path:
        """The folder with train/ and dev/ of a table: ``data`` itself, or the table's own in it."""
        assert self.data is not None, "runs are planned where there is data"
        own = self.data / table.folder
        found = own if own.is_dir() else self.data
        if not all((found / split / "examples.jsonl").exists() for split in ("train", "dev")):
            raise BonafideError(
                f"There is no data of {table.name}: --data {self.data} must hold train/ and dev/ with examples.jsonl, "
                f"as import writes them, or a folder {table.folder} with these."
            )
        return found

    @property
    def folder(self) -> Path:
        """Where results are."""
        return self.out / "rows"

    @property
    def work(self) -> Path:
        """What is not needed for the table."""
        return self.out / "work"

    @property
    def checkpoint(self) -> str:
        """The BART of the rows that have one."""
        return self.bart or HUB_BART


@dataclass(frozen=True, slots=True)
class Job:
    """A run that is missing."""

    row: Row
    seed: int
    name: str
    content: dict[str, Any]


@dataclass
class Filled:
    """What came of it: runs that are done, that failed (with what they said last), and that are still to do."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def only(self, names: set[str], refused: dict[str, str]) -> Filled:
        """Of these runs, and with those that were refused."""
        failed = {name: said for name, said in self.failed.items() if name in names}
        done, left = ([each for each in listed if each in names] for listed in (self.done, self.left))
        return Filled(done, failed | refused, left)


def results_of(table: Table, asked: Asked) -> dict[str, list[Result]]:
    """By row, the results that there are, in the order of their seeds; all must be of the same data."""
    found: dict[str, list[Result]] = {}
    refused: BonafideError | None = None
    read = False
    for row in table.rows:
        try:
            recipe = row.settings(table.common, asked.overrides, asked.checkpoint)
        except BonafideError as error:
            if row.name in asked.rows or not asked.overrides:
                raise
            refused, found[row.name] = refused or error, []  # what was overridden is nothing that this row has
            continue
        read = True
        settings = comparable(recipe, table.curve)
        stem = result_name(row.recipe, settings, 0).removesuffix("0.json")
        listed = [read_result(path) for path in asked.folder.glob(f"{stem}*.json")]
        found[row.name] = sorted((each for each in listed if each.made_with(settings)), key=lambda each: each.seed)
        _refuse_copies(found[row.name])
    if refused is not None and not asked.rows:
        some = "Name the rows that have it with --rows." if read else ""
        raise BonafideError(f"{refused} {some}".strip())
    everything = [each for listed in found.values() for each in listed]
    for key, called in BESIDE.items():
        if len({each.content[key]["ids"] for each in everything if key in each.content}) > 1:
            raise BonafideError(
                f"The results of {table.name} in {asked.folder} were judged on different {called} questions. Move "
                "some of them away, or name another folder with --out."
            )
    _refuse_other_data(everything)
    return found


def _refuse_copies(results: Sequence[Result]) -> None:
    for one, other in itertools.pairwise(results):
        if one.seed == other.seed:
            raise BonafideError(
                f"{one.path} and {other.path} are results of the same row, both of seed {one.seed}. Move one of them "
                "away."
            )


def _refuse_other_data(results: Sequence[Result]) -> None:
    """What two results both say of their data must be the same; older ones say less."""
    said: dict[str, Result] = {}
    for each in results:
        for called, value in each.judged_on.items():
            other = said.setdefault(called, each)
            if other.judged_on[called] != value:
                raise BonafideError(
                    f"{each.path} was made on other data than {other.path} ({called}): one table is of one train and "
                    "one dev split. Move one of them away, or name another folder with --out."
                )


def missing(table: Table, asked: Asked) -> list[tuple[Row, int]]:
    """What is wanted and not there: the first seed of every row, then the second."""
    rows = [table.row(name) for name in asked.rows] if asked.rows else list(table.rows)
    there = {(name, each.seed) for name, listed in results_of(table, asked).items() for each in listed}
    wanted = [(row, seed) for row in rows for seed in range(asked.seeds or row.seeds)]
    return sorted((each for each in wanted if (each[0].name, each[1]) not in there), key=lambda each: each[1])


def fill(
    wanted: Sequence[Table],
    asked: Asked,
    together: int = 1,
    minutes: float | None = None,
    report: Report = lambda text: None,
) -> dict[str, Filled]:
    """Run what is missing in these tables, ``together`` runs at a time, for at most so many minutes.

    What came of it, by the table's name. A run that several tables have is run once. Without data nothing is run, and
    there must be some results of each table.
    """
    until = None if minutes is None else time.monotonic() + 60 * minutes
    parts = [(table, part) for table in wanted if (part := _part_of(asked, table, wanted)) is not None]
    if asked.data is None:
        for table, part in parts:
            _tell_what_is_missing(table, part, report)
        return {table.name: Filled() for table in wanted}
    for table, part in parts:
        part.data_of(table)  # before the solutions of another are searched
    refused = {table.name: refusals(table, part) for table, part in parts}
    for label, reason in {label: reason for each in refused.values() for label, reason in each.items()}.items():
        report(f"{label}: not run. {reason}")
    with ended_properly():
        jobs = {table.name: planned(table, part, together, report) for table, part in parts}
        if len(parts) > 1:  # say which table a run is of
            for name, listed in jobs.items():
                for job in listed:
                    job.content["name"] = f"{name}, {job.content['name']}"
        every = {job.name: job for listed in jobs.values() for job in listed}
        filled = _run(sorted(every.values(), key=lambda job: job.seed), asked.work / "logs", together, until, report)
    runs = {table.name: {job.name for job in jobs.get(table.name, ())} for table in wanted}
    return {name: filled.only(named, refused.get(name, {})) for name, named in runs.items()}


def _tell_what_is_missing(table: Table, asked: Asked, report: Report) -> None:
    lacking = len(missing(table, asked))
    if lacking and not any(results_of(table, asked).values()):
        raise BonafideError(f"{_lacking(lacking, table)}: say where its data is with --data DIR.")
    if lacking:
        report(f"{_lacking(lacking, table)}; with --data DIR they are run.")


def _lacking(count: int, table: Table) -> str:
    return f"1 run of {table.name} is missing" if count == 1 else f"{count} runs of {table.name} are missing"


def _part_of(asked: Asked, table: Table, wanted: Sequence[Table]) -> Asked | None:
    """What of it is this table's: rows that it has not are those of another; None where all of them are."""
    own, others = ({row.name for each in listed for row in each.rows} for listed in ([table], wanted))
    rows = tuple(name for name in asked.rows if name in own or name not in others)  # the latter is an error
    return None if asked.rows and not rows else replace(asked, rows=rows)


def refusals(table: Table, asked: Asked) -> dict[str, str]:
    """By label, why rows with missing runs cannot be run: those that need a BART, where there is none."""
    rows = {row.name: row for row, _ in missing(table, asked)}
    labels = [row.label for row in rows.values() if row.needs_bart(table.common, asked.overrides)]
    if not labels:
        return {}
    if asked.bart is None:
        reason = f"It needs a BART: name one with --bart, as a folder or by hub name (the paper's is {HUB_BART})."
        return dict.fromkeys(labels, reason)
    try:
        resolve_checkpoint(asked.bart)
    except BonafideError as error:
        return dict.fromkeys(labels, f"--bart: {error}")
    return {}


def planned(table: Table, asked: Asked, together: int = 1, report: Report = lambda text: None) -> list[Job]:
    """The runs that are missing and can be run, their solutions searched."""
    refused = refusals(table, asked)
    wanted = [(row, seed) for row, seed in missing(table, asked) if row.label not in refused]
    data = asked.data_of(table)
    stores = _Stores(data, asked.work / "solutions", report)
    for each in itertools.chain.from_iterable(results_of(table, asked).values()):
        if each.knows_gold != ("dev_gold" in stores.hashes) or any(
            stores.hashes.get(key, value) != value for key, value in each.data.items()
        ):
            raise BonafideError(
                f"{each.path} was made on other data than {data}: one table is of one train and one dev split. Name "
                "that data with --data, or another folder with --out."
            )
    if wanted and "solution" in table.measures and "dev_gold" not in stores.hashes:
        report(f"There is no {data / 'dev' / 'gold.jsonl'}: which solutions are right is not measured.")
    return [_job(table, row, seed, asked, stores, together) for row, seed in wanted]


def _job(table: Table, row: Row, seed: int, asked: Asked, stores: _Stores, together: int) -> Job:
    recipe = row.settings(table.common, asked.overrides, asked.checkpoint)
    settings = comparable(recipe, table.curve)
    name = result_name(row.recipe, settings, seed)
    train, dev = stores.of(recipe)
    data = replace(recipe.data, root=str(stores.root), solutions=str(train), largest=1.0)
    recipe = replace(recipe, data=data, train=replace(recipe.train, seed=seed))
    stem = name.removesuffix(".json")
    content = {
        "name": f"{row.label}, seed {seed}",
        "recipe_name": row.recipe,
        "recipe": recipe.to_json(),
        "settings": settings,
        "seed": seed,
        "data": stores.hashes,
        "dev_solutions": str(dev),
        "curve": table.curve,
        "run": str((asked.work / "runs" / stem).resolve()),
        "result": str((asked.folder / name).resolve()),
        "side_by_side": together,
    }
    return Job(row, seed, stem, content)


class _Stores:
    """The solution sets of train and dev, searched once for each language; parts of them in stores beside."""

    def __init__(self, data: Path, folder: Path, report: Report) -> None:
        self.root, self._folder, self._report = data.resolve(), folder.resolve(), report
        self._examples = {split: content_hash(data / split / "examples.jsonl") for split in ("train", "dev")}
        self._contexts = {
            split: [content_hash(path) for name in _CONTEXTS for path in sorted((data / split).glob(f"{name}*"))]
            for split in ("train", "dev")
        }
        contexts = {f"{split}_contexts": hash_of(each) for split, each in self._contexts.items() if each}
        gold = {f"{split}_gold": data / split / "gold.jsonl" for split in ("train", "dev")}
        known = {name: content_hash(path) for name, path in gold.items() if path.exists()}
        self.hashes = self._examples | contexts | known

    def of(self, recipe: Recipe) -> tuple[Path, Path]:
        """The stores that a recipe trains on and is judged with."""
        task = learnable(recipe.data.task)
        train = self._searched(task, recipe, "train")
        if recipe.data.largest < 1:
            hard = train.with_name(f"{train.name}-{recipe.data.largest:g}")
            if not hard.exists():
                write_subset(train, hard, recipe.data.largest)
            train = hard
        if recipe.data.likeliest:
            train = self._likeliest(task, recipe, train)
        return train, self._searched(task, recipe, "dev")

    def _likeliest(self, task: Learnable, recipe: Recipe, store: Path) -> Path:
        """Cut once for all runs; it takes each of them as long as the search."""
        most, said = recipe.data.max_solutions, recipe.reconstructor.verbalised
        out = store.with_name(f"{store.name}-likeliest-{most}{'-said' if said else ''}")
        if not out.exists():
            whole = task.open_store(store)
            self._report(f"Keeping the {most} likeliest solutions of each of {len(whole):,} questions.")
            placed = replace(recipe, data=replace(recipe.data, root=str(self.root)))
            chosen = {"likeliest": {"most": most, "said": said, "of": content_of(whole)}}
            write_part(whole, out, chosen, likeliest_sets(placed, whole), len(whole))
        return out

    def _searched(self, task: Learnable, recipe: Recipe, split: str) -> Path:
        language = json.dumps([asdict(recipe.language), self._examples[split], self._contexts[split]], sort_keys=True)
        out = self._folder / f"{task.name}-{split}-{hashlib.sha256(language.encode()).hexdigest()[:8]}"
        if not (out / "manifest.json").exists():
            file = task.open_split(self.root / split).file
            self._report(f"Searching the solutions of {file.count:,} {split} questions.")
            cores = len(os.sched_getaffinity(0))
            workers = max(1, min(cores, file.count // _EXAMPLES_A_WORKER))
            task.search(replace(recipe, data=replace(recipe.data, workers=workers)), file, out, None, None)
        return out


def _run(jobs: Sequence[Job], logs: Path, together: int, until: float | None, report: Report) -> Filled:
    filled, waiting = Filled(), list(jobs)
    running: dict[str, tuple[Job, subprocess.Popen[bytes], float]] = {}
    environment = _share_of_the_cores(together)
    try:
        while (waiting or running) and (until is None or time.monotonic() < until):
            while waiting and len(running) < together:
                job = waiting.pop(0)
                job.content["side_by_side"] = together
                running[job.name] = job, _started(job, logs, environment), time.monotonic()
                report(f"{job.content['name']}: started.")
            for name, (job, process, began) in list(running.items()):
                if process.poll() is None:
                    continue
                del running[name]
                if process.returncode == 0:
                    filled.done.append(name)
                    report(f"{job.content['name']}: done after {time.monotonic() - began:,.0f} s.")
                elif process.returncode == STOPPED:
                    filled.left.append(name)
                elif process.returncode == SHORT and running:
                    waiting.insert(0, job)
                    together = len(running)  # from now on: as many have the memory they need
                    others = "another" if together == 1 else f"{together} others"
                    report(f"{job.content['name']}: memory ran out beside {others}. It goes on when one has ended.")
                else:
                    filled.failed[name] = _tail(logs / f"{name}.log", process.returncode)
                    report(f"{job.content['name']}: failed. {filled.failed[name].splitlines()[-1]}")
            time.sleep(0.1)
    finally:
        _end([process for _, process, _ in running.values()])
    for name, (_, process, _) in running.items():  # stopped; unless it was about to end anyway
        (filled.done if process.returncode == 0 else filled.left).append(name)
    filled.left += [job.name for job in waiting]
    return filled


def _share_of_the_cores(together: int) -> dict[str, str]:
    """The environment of each of so many processes: threads of PyTorch and of tokenizers, unless somebody said."""
    threads = str(max(1, len(os.sched_getaffinity(0)) // together))
    ours = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"}
    return {**ours, **os.environ}


def _started(job: Job, logs: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    path = logs / f"{job.name}.json"
    write_json(path, job.content)
    with made_folder(logs), (logs / f"{job.name}.log").open("wb") as log:
        command = [sys.executable, "-m", "bonafide.reproduce.one_run", str(path), str(os.getpid())]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _tail(log: Path, status: int) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join([f"(exit status {status}; work/logs/{log.name})", *lines[-_TAIL:]])
