"""Files that carry their checksum: whatever bit is turned over, the file is named; what was not sealed is read."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.learn.runfolder import RunFolder
from bonafide.learn.saved import load
from bonafide.learn.trainer import train
from bonafide.report.runs import selections_over_time
from bonafide.sealed import (
    check_lines,
    is_sealed_parquet,
    read_log,
    read_sealed,
    sums_of,
    vouch_for,
    vouched,
    write_sealed,
)
from bonafide.search.sql import search_sql
from bonafide.solutions import read_manifest, shard_counts, shard_name
from command_line import contents, write_data
from tiny_runs import recipe
from tiny_runs import write_data as write_training_data

FILE_FOR_EACH_EXAMPLE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
VALUES = st.dictionaries(
    st.text(max_size=4).filter(lambda key: key != "checksum"),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def flipped(path: Path, place: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)


@FILE_FOR_EACH_EXAMPLE
@given(VALUES)
def test_an_object_comes_back_as_it_was(tmp_path: Path, value: dict[str, object]) -> None:
    write_sealed(tmp_path / "a.json", value)
    assert read_sealed(tmp_path / "a.json") == value


@FILE_FOR_EACH_EXAMPLE
@given(VALUES, st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_of_an_object_is_found_or_changes_nothing(
    tmp_path: Path, value: dict[str, object], place: int, bit: int
) -> None:
    path = tmp_path / "a.json"
    write_sealed(path, value)
    flipped(path, place, bit)
    said = ""
    try:
        found = read_sealed(path)
    except BonafideError as error:
        found, said = value, str(error)
    assert str(path) in said or not said
    assert {key: found[key] for key in value} == value  # as in the name of the checksum, or in the e of a number


def test_an_object_without_a_checksum_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"b": 1}')
    assert read_sealed(tmp_path / "a.json") == {"b": 1}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = write_data(tmp_path_factory.mktemp("data"))
    search_sql(data / "examples.jsonl", data / "store")
    return data / "store"


def test_every_flipped_bit_and_every_cut_of_a_shard_is_found_before_there_is_a_manifest(
    store: Path, tmp_path: Path
) -> None:
    whole = (store / shard_name(0)).read_bytes()
    identity = _identity(store)
    path = tmp_path / "shard"
    path.write_bytes(whole)
    assert is_sealed_parquet(path)
    assert shard_counts(path, identity) is not None
    chance = random.Random(0)
    for place in [*range(0, len(whole), 23), *range(len(whole) - 400, len(whole))]:
        data = bytearray(whole)
        data[place] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        assert shard_counts(path, identity) is None, place
        path.write_bytes(whole[:place])
        assert shard_counts(path, identity) is None, place


def _identity(store: Path) -> str:
    import pyarrow.parquet as pq

    return str(pq.read_metadata(store / shard_name(0)).metadata[b"bonafide.identity"].decode())


def test_an_interrupted_search_does_a_damaged_shard_again(store: Path, tmp_path: Path) -> None:
    """Its data was damaged, and not its footer: the manifest would have vouched for what it had become."""
    copied = store.with_name("copied")
    shutil.copytree(store, copied)
    manifest = read_manifest(copied)
    before = contents(copied)
    search_again = {key: manifest[key] for key in ("format", "task", "options", "inputs", "shard_examples")}
    write_sealed(copied / "search.json", {**search_again, "identity": _identity(copied)})
    (copied / "manifest.json").unlink()
    flipped(copied / shard_name(0), 60, 3)
    search_sql(store.parent / "examples.jsonl", copied)
    assert {**contents(copied), "timings.jsonl": None} == {**before, "timings.jsonl": None}


@pytest.mark.parametrize("place", range(60, 1200, 37))
def test_a_flipped_bit_of_the_manifest_is_found(store: Path, place: int) -> None:
    whole = (store / "manifest.json").read_bytes()
    try:
        flipped(store / "manifest.json", place, place % 3)
        with pytest.raises(BonafideError, match=r"manifest\.json"):
            read_manifest(store)
    finally:
        (store / "manifest.json").write_bytes(whole)


def lines_file(path: Path, count: int = 5) -> list[bytes]:
    lines = [json.dumps({"line": number}).encode() + b"\n" for number in range(count)]
    with vouched(path):
        path.write_bytes(b"".join(lines))
    return lines


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines[:-1], lines[-1][:-3]],
        lambda lines: [lines[0].replace(b"0", b"1"), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [],
    ],
)
def test_lines_that_are_gone_or_changed_are_found(tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]]) -> None:
    path = tmp_path / "a.jsonl"
    lines = lines_file(path)
    check_lines(path)
    path.write_bytes(b"".join(damage(lines)))
    with pytest.raises(BonafideError, match=r"a\.jsonl is damaged.*a\.sums"):
        check_lines(path)


def test_lines_may_be_added_and_a_kill_between_a_line_and_its_checksum_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines_file(path)
    for line in (b'{"line": 9}\n', b'{"line": 9}\n'):
        with path.open("ab") as stream:
            stream.write(line)
        check_lines(path)
    vouch_for(path, b'{"line": 9}\n')
    with path.open("ab") as stream:
        stream.write(b'{"li')
    check_lines(path)
    assert len(read_log(path)) == 7
    sums_of(path).unlink()
    path.write_bytes(b'{"line": 1}\n')
    check_lines(path)


def test_writing_a_file_again_replaces_its_checksums(tmp_path: Path) -> None:
    lines_file(tmp_path / "a.jsonl", 5)
    lines_file(tmp_path / "a.jsonl", 3)
    check_lines(tmp_path / "a.jsonl")
    with pytest.raises(RuntimeError), vouched(tmp_path / "a.jsonl"):
        raise RuntimeError
    assert not sums_of(tmp_path / "a.jsonl").exists()


def test_files_of_like_names_vouch_each_for_itself(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.jsonl", "a.json", "a.txt", "a", "a.b.jsonl", "a.b.json")]
    for count, path in enumerate(paths, start=2):
        lines_file(path, count)
    for path in paths:
        check_lines(path)
        path.write_bytes(path.read_bytes()[:-5])
        with pytest.raises(BonafideError, match="is damaged"):
            check_lines(path)
    assert sums_of(tmp_path / "a.jsonl").name == "a.sums"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training_data(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(recipe(data, "mimax"), tmp_path_factory.mktemp("runs") / "run").path


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def test_any_damaged_file_of_a_model_is_named(copy: Path) -> None:
    load(copy)
    for path in sorted((copy / "model").rglob("*")):
        if path.is_file():
            whole = path.read_bytes()
            flipped(path, len(whole) // 2, 0)
            with pytest.raises(BonafideError, match=path.name):
                load(copy)
            path.write_bytes(whole)
    load(copy)


@pytest.mark.parametrize("name", ["metrics.jsonl", "selections.jsonl", "recipe.json"])
def test_damaged_logs_and_recipes_are_named_when_a_run_goes_on_or_is_looked_at(
    copy: Path, data: Path, name: str
) -> None:
    path = copy / name
    whole = path.read_bytes()
    digit = next(place for place in range(len(whole) // 2, len(whole)) if whole[place : place + 1].isdigit())
    flipped(path, digit, 0)  # another digit: it is JSON still
    with pytest.raises(BonafideError, match=name), RunFolder.open(copy, recipe(data, "mimax"), resume=True) as folder:
        folder.forget_after(24)
    if name != "metrics.jsonl":
        with pytest.raises(BonafideError, match=name):
            selections_over_time(copy, data / "train" / "gold.jsonl")
