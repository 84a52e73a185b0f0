"""A table that grows run by run: what is killed goes on, what is there is kept, and the figures are the models' own."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.learn.checkpoint import checkpoints
from bonafide.learn.recipe import read_recipe
from bonafide.learn.steps import Progress
from bonafide.report.runs import evaluate_run
from bonafide.reproduce import runs
from bonafide.reproduce.compared import by_seed
from bonafide.reproduce.one_run import SHORT, Watch, _take_share, run_job
from bonafide.reproduce.results import Result, read_result
from bonafide.reproduce.runs import Asked, fill, missing, planned, refusals, results_of
from bonafide.reproduce.tables import Table, table
from bonafide.synth.discrete import write_discrete_benchmark
from command_line import BONAFIDE, bonafide, contents
from reproduced import ROWS, TINY, lines_of, write_data

torch.set_num_threads(1)
DEADLINE = 300.0


def interrupt_once_it_has_a_checkpoint(out: Path, name: str, number: int, process: int | None = None) -> None:
    """Wait until a run could go on, and send its process a signal, or another."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        for run in (out / "work" / "runs").glob(name):
            if checkpoints(run / "checkpoints"):
                os.kill(process or _process_of(f"{run.name}.json"), number)
                return
        time.sleep(0.005)


def _process_of(argument: str) -> int:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"/" + argument.encode()) for word in words) and b"bonafide.reproduce.one_run" in words:
            return int(folder.name)
    raise AssertionError(f"nothing works on {argument}")


@pytest.mark.slow
def test_a_table_whose_runs_are_killed_is_completed_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    data, out = write_data(tmp_path / "data"), tmp_path / "results"
    wanted, asked = table("sql-synthetic"), Asked(out, data, 2, ROWS, TINY)
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        ends = [("wikisql-hard-mimax-*-0", signal.SIGKILL), ("wikisql-hard-hard-em-*-0", signal.SIGTERM)]
        sent = [pool.submit(interrupt_once_it_has_a_checkpoint, out, *each) for each in ends]
        filled = fill([wanted], asked, together=2, report=said.append)[wanted.name]
    assert [each.result() for each in sent] == [None, None]
    assert [name.rpartition("-")[2] for name in filled.done] == ["1", "1"]
    assert ["mimax" in name for name in filled.failed] == [True]
    assert "exit status -9" in next(iter(filled.failed.values()))
    assert any(each.startswith("MIMAX (the paper's), seed 0: failed.") for each in said)
    assert ["hard-em" in name for name in filled.left] == [True]
    assert [(row.name, seed) for row, seed in missing(wanted, asked)] == [("hard-em", 0), ("mimax", 0)]
    kept = contents(out / "rows")
    named = ["--data", data, "--out", out, "--seeds", "2", "--rows", ",".join(ROWS), "--jobs", "2"]
    done = bonafide("reproduce", "sql-synthetic", *named, *(part for each in TINY for part in ("--set", each)))
    assert done.code == 0, done.stderr
    assert "Means over seeds" in done.stdout
    assert contents(out / "rows").items() >= kept.items()
    assert not missing(wanted, asked)
    found = results_of(wanted, asked)
    assert [each.content["seconds"]["resumed"] for each in (*found["hard-em"], *found["mimax"])] == [True, False] * 2
    _figures_are_those_of_the_models(found, data, out)
    _an_interrupted_run_is_as_one_that_was_not(found["mimax"][0], out, tmp_path)
    _the_page_has_the_figures(found, out)


def _figures_are_those_of_the_models(found: dict[str, list[Result]], data: Path, out: Path) -> None:
    """By an evaluation of the saved models that knows nothing of results."""
    for name in ROWS:
        for result in found[name]:
            run = out / "work" / "runs" / result.path.stem
            assert not (run / "checkpoints").exists()
            judged = evaluate_run(run, data / "dev" / "examples.jsonl", gold=data / "dev" / "gold.jsonl")
            right = [each.execution for each in judged.outcomes]
            genuine = [bool(each.logical_form) for each in judged.outcomes]
            assert result.flags("answer").tolist() == right
            assert result.flags("solution").tolist() == genuine
            assert result.figure("answer") == pytest.approx(np.mean(right))
            assert result.figure("solution") == judged.figures["logical_form"]["share"]
            assert result.content["figures"]["slots"]["aggregate"] == judged.figures["slots"]["aggregate"]["share"]
            curve = result.content["curve"]
            assert [point["epoch"] for point in curve] == [2, 4]
            assert curve[-1]["solver"] == result.content["figures"]["selection"]["solver"]
            assert result.figure("selection") == curve[-1]["solver"]["share"]
    assert any(result.figure("answer") for name in ROWS for result in found[name]), "nothing was learned: look closer"


def _an_interrupted_run_is_as_one_that_was_not(killed: Result, out: Path, folder: Path) -> None:
    """The same job, not interrupted and without the selection task on the way: the same weights, the same figures."""
    job = json.loads((out / "work" / "logs" / killed.path.name).read_text())
    run_job({**job, "curve": False, "run": str(folder / "whole"), "result": str(folder / "whole.json")})
    whole = read_result(folder / "whole.json").content
    assert (whole["flags"], whole["figures"]) == (killed.content["flags"], killed.content["figures"])
    for name in ("solver.safetensors", "reconstructor.safetensors"):
        trained = out / "work" / "runs" / killed.path.stem / "model" / name
        assert (folder / "whole" / "model" / name).read_bytes() == trained.read_bytes()


def _the_page_has_the_figures(found: dict[str, list[Result]], out: Path) -> None:
    page = (out / "sql-synthetic.md").read_text()
    for name in ROWS:
        seeds = by_seed(found[name], "solution")
        label = table("sql-synthetic").row(name).label
        lines = page.partition("### Right solution\n")[2].splitlines()
        row = next(line for line in lines if line.startswith(f"| {label} |"))
        assert f"| {', '.join(f'{100 * each:.1f}' for each in seeds.values())} |" in row
        assert f"| {100 * np.mean(list(seeds.values())):.1f} % " in row
        assert f"| {100 * min(seeds.values()):.1f} % |" in row
    assert "### Selection after so many epochs" in page
    wanted = table("sql-synthetic").row("mimax")
    assert f"(so far; {wanted.label}: 2 of {wanted.seeds} seeds; HardEM: 2 of 3 seeds; VAE: 0 of 5 seeds)" in page
    assert "### Right solution by type of the dev question's answer" in page
    for chart in ("solution", "answer", "selection", "by-size", "by-type", "curve"):
        assert f"sql-synthetic-{chart}.svg" in page
        assert (out / f"sql-synthetic-{chart}.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "http" not in (out / "sql-synthetic.html").read_text().replace("http://www.w3.org/2000/svg", "")


def test_a_run_that_was_stopped_while_it_was_judged_is_not_trained_again(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    asked = Asked(tmp_path / "out", data, 1, ("mimax+",), TINY)
    (job,) = planned(table("sql-hard"), asked)
    assert Path(job.content["recipe"]["data"]["solutions"]).name.endswith("-likeliest-20-said")
    run_job({**job.content, "side_by_side": 3})
    (first,) = results_of(table("sql-hard"), asked)["mimax+"]
    first.path.unlink()
    (Path(job.content["run"]) / "metrics.jsonl").rename(tmp_path / "not needed")
    run_job(job.content)
    (again,) = results_of(table("sql-hard"), asked)["mimax+"]
    assert again.content["seconds"]["side_by_side"] == 3, "of the training, not of the judging"
    assert {**again.content, "seconds": 0} == {**first.content, "seconds": 0}
    assert again.content["seconds"]["training"] == first.content["seconds"]["training"]


def test_other_data_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    asked = Asked(tmp_path / "out", data, 2, ROWS[:1], TINY)
    first, _ = planned(table("sql-synthetic"), asked)
    run_job(first.content)
    for name in ("dev/gold.jsonl", "train/gold.jsonl", "dev/tables.jsonl", "train/tables.jsonl", "dev/examples.jsonl"):
        kept = (data / name).read_text()
        (data / name).write_text("".join(kept.splitlines(keepends=True)[::-1]))
        with pytest.raises(BonafideError, match="was made on other data"):
            planned(table("sql-synthetic"), asked)
        (data / name).write_text(kept)
    assert len(planned(table("sql-synthetic"), asked)) == 1
    complete = dataclasses.replace(asked, seeds=1)
    assert not planned(table("sql-synthetic"), complete)
    (data / "dev/gold.jsonl").unlink()
    for each in (asked, complete):  # also where nothing is to be run: its figures are not those of this data
        with pytest.raises(BonafideError, match="was made on other data"):
            planned(table("sql-synthetic"), each)
    said: list[str] = []
    assert planned(table("sql-synthetic"), dataclasses.replace(asked, out=tmp_path / "new"), report=said.append)
    assert said[0].endswith("dev/gold.jsonl: which solutions are right is not measured.")


def test_gold_of_other_questions_is_refused(tmp_path: Path) -> None:
    _, asked, job = one_job(tmp_path)
    gold = asked.data / "dev" / "gold.jsonl"
    write_jsonl(gold, [{**each, "id": f"x{each['id']}"} for each in lines_of(gold)])
    with pytest.raises(BonafideError, match=r"dev/gold.jsonl has gold for none of the examples beside it"):
        run_job(job.content)
    assert not Path(job.content["run"]).exists()


def test_a_run_on_other_gold_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(tmp_path / "out", write_data(tmp_path / "data"), 1, ("gold",), TINY)
    (job,) = planned(table("sql-synthetic"), asked)
    interrupted(job, monkeypatch)
    gold = asked.data / "train" / "gold.jsonl"
    write_jsonl(gold, lines_of(gold)[:30])
    (job,) = planned(table("sql-synthetic"), asked)
    run_job(job.content)
    assert not read_result(Path(job.content["result"])).content["seconds"]["resumed"]


def test_other_tables_are_searched_anew(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    asked = Asked(tmp_path / "out", data, 1, ROWS[:1], TINY)
    (job,) = planned(table("sql-synthetic"), asked)
    tables = data / "dev" / "tables.jsonl"
    first_table, *others = lines_of(tables)
    write_jsonl(tables, [{**first_table, "rows": first_table["rows"][:-1]}, *others])
    (other,) = planned(table("sql-synthetic"), asked)  # the same questions on another table
    assert other.name == job.name
    assert other.content["dev_solutions"] != job.content["dev_solutions"]
    assert other.content["recipe"]["data"]["solutions"] == job.content["recipe"]["data"]["solutions"]


def interrupted(job: runs.Job, monkeypatch: pytest.MonkeyPatch, step: int = 10) -> None:
    """Run it as far as this step."""
    watch = Watch.__call__

    def stop(self: Watch, progress: Progress) -> None:
        watch(self, progress)
        if progress.step >= step:
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "__call__", stop)
    with pytest.raises(KeyboardInterrupt):
        run_job(job.content)
    monkeypatch.setattr(Watch, "__call__", watch)


def one_job(folder: Path) -> tuple[Table, Asked, runs.Job]:
    """The only run of a table, which is not begun."""
    wanted, asked = table("sql-synthetic"), Asked(folder / "out", write_data(folder / "data"), 1, ROWS[:1], TINY)
    (job,) = planned(wanted, asked)
    return wanted, asked, job


def test_a_run_that_was_interrupted_goes_on_after_its_folder_and_its_data_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, asked, job = one_job(tmp_path)
    interrupted(job, monkeypatch)
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    (tmp_path / "data").rename(tmp_path / "questions")
    asked = dataclasses.replace(asked, out=tmp_path / "elsewhere", data=tmp_path / "questions")
    (job,) = planned(wanted, asked)
    run_job(job.content)
    (result,) = results_of(wanted, asked)[ROWS[0]]
    assert result.content["seconds"]["resumed"]
    saved = json.loads((Path(job.content["run"]) / "recipe.json").read_text())
    assert saved["data"]["solutions"] == job.content["recipe"]["data"]["solutions"]
    whole = {**job.content, "run": str(tmp_path / "whole"), "result": str(tmp_path / "whole.json")}
    run_job(whole)
    assert read_result(tmp_path / "whole.json").content["flags"] == result.content["flags"]


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("trained", [False, True])
def test_a_run_of_other_data_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: str, trained: bool
) -> None:
    wanted, asked, job = one_job(tmp_path)
    if trained:
        run_job(job.content)
        results_of(wanted, asked)[ROWS[0]][0].path.unlink()
    else:
        interrupted(job, monkeypatch)
    questions = asked.data / split / "examples.jsonl"
    write_jsonl(questions, lines_of(questions)[1:])
    (job,) = planned(wanted, asked)
    run_job(job.content)
    (result,) = results_of(wanted, asked)[ROWS[0]]
    assert not result.content["seconds"]["resumed"]
    assert result.content["trained_on"]["examples"] == (47 if split == "train" else 48)


def test_a_run_of_other_settings_in_the_same_folder_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a default has changed since it was interrupted."""
    wanted, asked, job = one_job(tmp_path)
    interrupted(job, monkeypatch)
    job.content["recipe"]["train"]["clip"] = 0.5
    run_job(job.content)
    (result,) = results_of(wanted, asked)[ROWS[0]]
    assert not result.content["seconds"]["resumed"]


def test_no_run_is_started_when_there_is_no_time(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    filled = fill([table("sql-synthetic")], Asked(tmp_path / "out", data, 1, ROWS, TINY), minutes=0.0)["sql-synthetic"]
    assert (len(filled.left), filled.done, filled.failed) == (2, [], {})
    stores = sorted(each.name for each in (tmp_path / "out" / "work" / "solutions").iterdir())
    assert [each.rpartition("-")[0] for each in stores] == ["sql-dev", "sql-train"]  # once, for both rows


def test_runs_that_time_runs_out_on_are_stopped_and_left_to_do(tmp_path: Path) -> None:
    asked = Asked(tmp_path / "out", write_data(tmp_path / "data"), 1, ROWS, TINY)
    (job, other), began = planned(table("sql-synthetic"), asked, 2), time.monotonic()
    filled = fill([table("sql-synthetic")], asked, together=2, minutes=2 / 60)["sql-synthetic"]
    assert sorted(filled.left) == sorted([job.name, other.name])
    assert (filled.done, filled.failed, list(tmp_path.glob("out/rows/*"))) == ([], {}, [])
    assert time.monotonic() - began < 30, "they were stopped, not waited for"
    for each in (job, other):
        with pytest.raises(AssertionError, match="nothing works on"):
            _process_of(f"{each.name}.json")


def test_a_command_that_is_terminated_ends_its_runs_first(tmp_path: Path) -> None:
    asked = Asked(tmp_path / "out", write_data(tmp_path / "data"), 1, ROWS[:1], TINY)
    (job,) = planned(table("sql-synthetic"), asked)
    words = ["--data", asked.data, "--out", asked.out, "--seeds", "1", "--rows", ROWS[0]]
    words += [part for each in TINY for part in ("--set", each)]
    with subprocess.Popen([BONAFIDE, "reproduce", "sql-synthetic", *map(str, words)]) as command:
        interrupt_once_it_has_a_checkpoint(asked.out, job.name, signal.SIGTERM, command.pid)
        assert command.wait(DEADLINE) == 128 + signal.SIGTERM
    with pytest.raises(AssertionError, match="nothing works on"):
        _process_of(f"{job.name}.json")
    assert missing(table("sql-synthetic"), asked)


def test_a_run_whose_command_is_gone_stops() -> None:
    watch = Watch(read_recipe("wikisql-hard-mml"), Path("nowhere"), None, parent=os.getppid())
    watch(Progress(1, 2, {"examples_per_second": 1.0}))
    orphan = Watch(read_recipe("wikisql-hard-mml"), Path("nowhere"), None, parent=-1)
    with pytest.raises(KeyboardInterrupt):
        orphan(Progress(1, 2, {"examples_per_second": 1.0}))


def test_a_run_whose_command_is_gone_before_it_begins_does_not_begin(tmp_path: Path) -> None:
    _, _, job = one_job(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_job(job.content, parent=-1)
    assert not Path(job.content["run"]).exists()


def test_rows_that_need_a_bart_are_refused_without_one_and_before_anything_is_searched(tmp_path: Path) -> None:
    wanted, asked = table("sql-selection"), Asked(tmp_path / "out", write_data(tmp_path / "data"), 1, ("bart-parser",))
    assert list(fill([wanted], asked)[wanted.name].failed) == ["BART as parser, HardEM"]
    assert not (tmp_path / "out").exists()
    (why,) = refusals(wanted, dataclasses.replace(asked, bart=str(tmp_path / "nothing"))).values()
    assert why.startswith("--bart: There is no folder")
    assert not refusals(wanted, dataclasses.replace(asked, rows=("hard-em",)))
    assert not refusals(wanted, dataclasses.replace(asked, overrides=("solver.encoder=scratch",)))
    (discrete,) = refusals(table("discrete"), Asked(tmp_path, rows=("hard-em", "mimax")))
    assert discrete == "MIMAX"
    assert not refusals(wanted, dataclasses.replace(asked, bart="facebook/bart-base"))


def test_a_run_without_enough_memory_goes_on_when_another_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as had it run side by side from then on; one that is short of it alone has failed."""
    code = "import sys, time; time.sleep(float(sys.argv[1])); sys.exit(int(sys.argv[2]))"
    started: list[str] = []
    beside: list[int] = []
    ends = {"a": [(1.0, 0)], "b": [(0.2, SHORT), (0.2, 0)], "c": [(0.2, SHORT)]}

    def begin(job: runs.Job, *_: object) -> subprocess.Popen[bytes]:
        seconds, status = ends[job.name][min(started.count(job.name), len(ends[job.name]) - 1)]
        started.append(job.name)
        beside.append(job.content["side_by_side"])
        (tmp_path / f"{job.name}.log").write_text("Error: memory")
        return subprocess.Popen([sys.executable, "-c", code, str(seconds), str(status)])

    monkeypatch.setattr(runs, "_started", begin)
    row = table("sql-hard").row("mml")
    jobs = [runs.Job(row, 0, name, {"name": name}) for name in ("a", "b", "c")]
    said: list[str] = []
    filled = runs._run(jobs, tmp_path, 2, None, said.append)
    assert started == ["a", "b", "b", "c"]
    assert beside == [2, 2, 1, 1]  # by which they share the memory
    assert filled.done == ["a", "b"]
    assert list(filled.failed) == ["c"]
    assert any("memory ran out beside another" in each for each in said)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_run_beside_others_keeps_to_its_part_of_a_gpus_memory() -> None:
    _, whole = torch.cuda.mem_get_info()
    try:
        _take_share(10)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(whole // 10, dtype=torch.uint8, device="cuda")
        torch.empty(whole // 12, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_what_is_overridden_for_some_rows_need_not_fit_the_others(tmp_path: Path) -> None:
    words = ("objective.options.words=1.0",)
    wanted = missing(table("reading"), Asked(tmp_path, rows=("mimax+",), overrides=words))
    assert [(row.name, seed) for row, seed in wanted] == [("mimax+", 0), ("mimax+", 1), ("mimax+", 2)]
    with pytest.raises(BonafideError, match="'first-only' has no option 'words'"):
        missing(table("reading"), Asked(tmp_path, rows=("first-only",), overrides=words))
    with pytest.raises(BonafideError, match="with --rows"):
        missing(table("reading"), Asked(tmp_path, overrides=words))
    with pytest.raises(BonafideError, match=r"train.epoch is not known \(did you mean 'epochs'\?\)\.$"):
        missing(table("reading"), Asked(tmp_path, overrides=("train.epoch=1",)))
    with pytest.raises(BonafideError, match="say how many with --seeds"):
        Asked(tmp_path, overrides=("train.seed=7",))
    with pytest.raises(BonafideError, match="with --data"):
        Asked(tmp_path, overrides=("data.dev=other",))


def test_tables_are_filled_together_and_what_they_share_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the rows that it has, on its own data, the first seeds of all before the second of any."""
    write_data(tmp_path / "data" / "wikisql")
    write_discrete_benchmark(tmp_path / "data" / "demo-discrete" / "train", seed=1, passages=2, questions=4)
    write_discrete_benchmark(tmp_path / "data" / "demo-discrete" / "dev", seed=1, passages=1, questions=4, split="dev")
    wanted = [table(name) for name in ("sql-hard", "sql-plus", "discrete-synthetic")]
    started: list[runs.Job] = []

    def run(jobs: list[runs.Job], *_: object) -> runs.Filled:
        started.extend(jobs)
        names = [job.name for job in jobs]
        return runs.Filled(names[:1], {names[1]: "why"}, names[2:])

    monkeypatch.setattr(runs, "_run", run)
    asked = Asked(tmp_path / "out", tmp_path / "data", 2, ("mimax-60", "words", "mml"))
    filled = fill(wanted, asked)
    assert [(job.seed, job.content["recipe_name"]) for job in started] == [
        (seed, name)
        for seed in (0, 1)
        for name in ("wikisql-hard-mimax", "wikisql-hard-mml", "wikisql-hard-hard-em", "drop-mml")
    ]
    roots = {job.content["recipe_name"]: Path(job.content["recipe"]["data"]["root"]).name for job in started}
    assert (roots["wikisql-hard-mml"], roots["drop-mml"]) == ("wikisql", "demo-discrete")
    assert filled["sql-hard"].done == filled["sql-plus"].done == [started[0].name]
    assert [list(each.failed) for each in filled.values()] == [[started[1].name], [], []]
    assert [len(each.left) for each in filled.values()] == [2, 3, 2]
    with pytest.raises(BonafideError, match="has no row 'mimaxx'"):
        fill(wanted, dataclasses.replace(asked, rows=("mimax-60", "mimaxx")))


def test_runs_side_by_side_share_the_cores_unless_somebody_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(16)))
    shares = [runs._share_of_the_cores(together) for together in (1, 5, 40)]
    assert [each["OMP_NUM_THREADS"] for each in shares] == [each["RAYON_NUM_THREADS"] for each in shares]
    assert [each["OMP_NUM_THREADS"] for each in shares] == ["16", "3", "1"]
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    assert runs._share_of_the_cores(1)["TOKENIZERS_PARALLELISM"] == "false"
