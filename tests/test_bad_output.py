"""Output folders that cannot be had and disks that are full: one paragraph, exit code 2, all as it was."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bonafide.search.sql import search_sql
from bonafide.synth.sql import Benchmark, write_benchmark
from command_line import (
    TABLES,
    WIKISQL,
    bonafide,
    change_manifest,
    contents,
    examples,
    refused,
    refused_unchanged,
    write_data,
    write_lines,
)

_LIBC = ctypes.CDLL(None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path)


@pytest.fixture
def store(data: Path) -> Path:
    search_sql(data / "examples.jsonl", data / "store")
    return data / "store"


def stopped_after_one_shard(examples: Path, out: Path) -> None:
    def stop(examples: int, solutions: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_sql(examples, out, progress=stop)


# --- Output folders that cannot be had ---------------------------------------------------------------------


def without_override() -> None:
    """Take from root the power to read and write where permissions forbid it."""
    drop, override, read_search = 24, 1, 2  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if os.geteuid() == 0 and any(_LIBC.prctl(drop, power, 0, 0, 0) for power in (override, read_search)):
        raise OSError("prctl failed")


@pytest.fixture
def locked_folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    attempt = [sys.executable, "-c", f"open({str(folder / 'x')!r}, 'w')"]
    try:
        if subprocess.run(attempt, capture_output=True, preexec_fn=without_override).returncode == 0:
            pytest.skip("permissions do not bind this user")
    except subprocess.SubprocessError:
        pytest.skip("root cannot give up its power to write anywhere")
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize("below", [".", "out", "a/b"])
def test_a_folder_without_permission_is_named(data: Path, locked_folder: Path, below: str) -> None:
    out = locked_folder / below
    for command in (
        ["search", "sql", "--examples", data / "examples.jsonl"],
        ["import", "wikisql", data / "questions.jsonl", data / "tables.jsonl"],
    ):
        message, _ = refused_unchanged(data, lambda c=command: bonafide(*c, "--out", out, before=without_override))
        assert f"Cannot write {out}" in message
        assert "permission denied" in message


def test_examples_without_permission_are_named(data: Path, locked_folder: Path) -> None:
    path = data / "examples.jsonl"
    path.chmod(0)
    before = contents(data)
    outcome = bonafide("search", "sql", "--examples", path, "--out", data / "out", before=without_override)
    assert refused(outcome).startswith(f"Cannot read {path}: permission denied.")
    assert contents(data) == before


@pytest.mark.parametrize("below", ["examples.jsonl", "examples.jsonl/out"])
def test_a_file_where_the_folder_should_be_is_refused(data: Path, below: str) -> None:
    message, _ = refused_unchanged(
        data, lambda: bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", data / below)
    )
    assert "part of this path is a file, not a folder" in message


def test_a_folder_of_other_files_is_refused(data: Path) -> None:
    message, _ = refused_unchanged(
        data, lambda: bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", data)
    )
    assert f"{data} is not empty and holds no solution store." in message


@pytest.mark.parametrize("difference", ["options", "examples", "tables"])
def test_a_folder_of_another_search_is_refused(data: Path, store: Path, difference: str) -> None:
    if difference == "examples":
        write_lines(data / "examples.jsonl", examples(9))
    if difference == "tables":
        write_lines(data / "tables.jsonl", TABLES[:1])
    option = ["--max-conditions", "2"] if difference == "options" else []
    message, _ = refused_unchanged(
        data, lambda: bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", store, *option)
    )
    assert "already holds solutions of other inputs, options or version" in message


def test_a_store_of_an_older_version_is_not_taken_for_finished(data: Path, store: Path) -> None:
    change_manifest(store, tool="bonafide 0.0.1")
    message, _ = refused_unchanged(
        data, lambda: bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", store)
    )
    assert "other inputs, options or version" in message


def test_a_folder_that_another_run_holds_is_refused(data: Path, tmp_path: Path) -> None:
    out = data / "held"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        (out / ".shard-00000.parquet.x.part").write_bytes(b"what the first run is writing")
        message, _ = refused_unchanged(
            data, lambda: bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", out)
        )
    finally:
        os.close(handle)
    assert f"Another run is writing to {out} right now." in message


# --- Disks that are full -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """Three shards of which two do not fit into 64 KiB."""
    return write_benchmark(tmp_path_factory.mktemp("larger"), seed=1, tables=36, questions=40)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk; the limit on file sizes stands in for it")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_000, 16_000))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_that_fills_the_disk_leaves_nothing(larger: Benchmark, tiny_disk: Path, workers: int) -> None:
    message, _ = refused_unchanged(
        tiny_disk,
        lambda: bonafide(
            "search", "sql", "--examples", larger.examples, "--out", tiny_disk / "a" / "b", "--workers", str(workers)
        ),
    )
    assert f"Cannot write {tiny_disk / 'a' / 'b'}" in message
    assert "the disk is full" in message


def test_a_continued_search_that_fills_the_disk_keeps_what_was_there(larger: Benchmark, tiny_disk: Path) -> None:
    out = tiny_disk / "out"
    stopped_after_one_shard(larger.examples, out)
    assert (out / "shard-00000.parquet").exists()
    message, _ = refused_unchanged(
        tiny_disk, lambda: bonafide("search", "sql", "--examples", larger.examples, "--out", out)
    )
    assert "the disk is full" in message


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_over_the_limit_of_file_sizes_leaves_nothing(larger: Benchmark, tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out"
    message, _ = refused_unchanged(
        tmp_path,
        lambda: bonafide(
            "search", "sql", "--examples", larger.examples, "--out", out, "--workers", str(workers), before=small_files
        ),
    )
    assert f"Cannot write {out}/shard-0000" in message
    assert "the disk is full" in message


@pytest.mark.parametrize("imported_before", [False, True])
def test_an_import_that_fills_the_disk_leaves_everything_as_it_was(tiny_disk: Path, imported_before: bool) -> None:
    questions = write_lines(tiny_disk.parent / "questions.jsonl", WIKISQL)
    tables = write_lines(tiny_disk.parent / "tables.jsonl", TABLES)
    out = tiny_disk / "out"
    if imported_before:
        assert bonafide("import", "wikisql", questions, tables, "--out", out).code == 0
    write_lines(questions, WIKISQL * 1000)
    message, _ = refused_unchanged(tiny_disk, lambda: bonafide("import", "wikisql", questions, tables, "--out", out))
    assert f"Cannot write {out}/" in message
    assert "the disk is full" in message


def test_a_page_that_fills_the_disk_is_not_written(store: Path) -> None:
    page = store.parent / "page.html"
    message, _ = refused_unchanged(
        store.parent,
        lambda: bonafide(
            "inspect", store, "--html", page, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        ),
    )
    assert f"Cannot write {page}: the disk is full" in message


def test_an_unfinished_store_is_refused(larger: Benchmark, tmp_path: Path) -> None:
    stopped_after_one_shard(larger.examples, tmp_path / "out")
    message, _ = refused_unchanged(tmp_path, lambda: bonafide("inspect", tmp_path / "out"))
    assert "is not a finished solution store" in message
    assert "run the same search command again to finish it" in message


# --- Names that look like something else -------------------------------------------------------------------


def test_names_that_look_like_markup_are_shown_as_they_are(data: Path) -> None:
    out = data / "[bold]" / "x[" / "red]"
    done = bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", out)
    assert done.code == 0, done
    assert f"Written to {out}." in done.stderr
    assert f"bonafide inspect '{out}'" in done.stderr


def test_a_store_behind_a_symbolic_link_finds_its_inputs(data: Path) -> None:
    (data / "far" / "away").mkdir(parents=True)
    (data / "link").symlink_to(data / "far" / "away")
    done = bonafide("search", "sql", "--examples", data / "examples.jsonl", "--out", data / "link" / "store")
    assert done.code == 0, done
    assert bonafide("inspect", data / "link" / "store").code == 0
    assert bonafide("inspect", data / "far" / "away" / "store").code == 0
