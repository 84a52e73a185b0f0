"""The hard train set as an operation on a store: which examples, the same bytes, whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.examples import write_jsonl
from bonafide.learn.data import likeliest_sets, load_training_data
from bonafide.learn.learnable import learnable
from bonafide.report.inspect import Inspection
from bonafide.report.subset import write_part, write_subset
from bonafide.search.sql import search_sql
from bonafide.solutions import damaged_shards
from bonafide.tasks.sql.language import Language
from command_line import contents
from tiny_runs import recipe, settings, write_data, write_recipe


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def test_the_largest_sets_are_kept_as_they_are_and_in_their_order(data: Path, tmp_path: Path) -> None:
    whole = learnable("sql").open_store(data / "solutions")
    manifest = write_subset(data / "solutions", tmp_path / "hard", 0.25)
    part = learnable("sql").open_store(tmp_path / "hard")
    assert manifest["counts"]["examples"] == len(part) == 12
    assert min(part.sizes) >= np.sort(whole.sizes)[-12]
    assert part.ids == [name for name in whole.ids if name in set(part.ids)]
    for name, solutions in part:
        assert list(solutions) == list(whole[name])
        assert (solutions.size, solutions.complete) == (whole[name].size, whole[name].complete)
    assert damaged_shards(tmp_path / "hard") == []


def test_a_part_has_the_same_bytes_each_time_and_over_several_shards(data: Path, tmp_path: Path) -> None:
    write_subset(data / "solutions", tmp_path / "one", 0.5)
    write_subset(data / "solutions", tmp_path / "two", 0.5)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    many = [line for _ in range(15) for line in (data / "train" / "examples.jsonl").read_text().splitlines()]
    lines = [line.replace('"id": "', f'"id": "{place}-') for place, line in enumerate(many)]
    (tmp_path / "examples.jsonl").write_text("\n".join(lines) + "\n")
    shutil.copy(data / "train" / "tables.jsonl", tmp_path)
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store")
    manifest = write_subset(tmp_path / "store", tmp_path / "most", 0.9)
    assert [each["examples"] for each in manifest["shards"]] == [500, 148]


def test_training_on_the_part_is_training_on_that_share_of_the_whole(data: Path, tmp_path: Path) -> None:
    write_subset(data / "solutions", tmp_path / "hard", 0.4)
    by_share = load_training_data(recipe(data, "mimax", data={"largest": 0.4}), tmp_path)
    by_part = load_training_data(recipe(data, "mimax", data={"solutions": str(tmp_path / "hard")}), tmp_path)
    assert [item.example for item in by_part.items] == [item.example for item in by_share.items]
    for one, other in zip(by_part.items, by_share.items, strict=True):
        assert list(one.solutions) == list(other.solutions)


def test_sets_cut_to_their_likeliest_once_are_what_a_run_would_cut(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "mimax+", data={"largest": 0.5, "max_solutions": 5, "likeliest": True})
    write_subset(data / "solutions", tmp_path / "hard", 0.5)
    hard = learnable("sql").open_store(tmp_path / "hard")
    write_part(hard, tmp_path / "cut", {"likeliest": 5}, likeliest_sets(made, hard), len(hard))
    by_run = load_training_data(made, tmp_path)
    stored = replace(made, data=replace(made.data, largest=1.0, solutions=str(tmp_path / "cut")))
    by_part = load_training_data(stored, tmp_path)
    assert [item.example for item in by_part.items] == [item.example for item in by_run.items]
    assert any(item.solutions.size > 5 for item in by_run.items)
    for one, other in zip(by_part.items, by_run.items, strict=True):
        assert list(one.solutions) == list(other.solutions)
        assert one.solutions.size == other.solutions.size


def test_the_commands_make_a_part_and_train_on_it(data: Path, tmp_path: Path) -> None:
    command = ["subset", str(data / "solutions"), "--largest", "0.18", "--out", str(tmp_path / "hard")]
    made = CliRunner().invoke(app, command)
    assert made.exit_code == 0, made.output
    assert "9 of 48 examples" in made.stderr
    before = contents(tmp_path)
    assert "is already there" in str(CliRunner().invoke(app, command).exception)
    assert contents(tmp_path) == before
    values = settings(data, "hard-em", train={"epochs": 1.0}, data={"largest": 0.18})
    recipe_file = str(write_recipe(tmp_path / "a.toml", values))
    said = re.findall(r"--set (\S+)", made.stderr)  # as the command says
    assert [each.partition("=")[0] for each in said] == ["data.solutions", "data.largest"]
    told = [part for each in said for part in ("--set", each)]
    trained = CliRunner().invoke(app, ["train", recipe_file, *told, "--out", str(tmp_path / "run")])
    assert trained.exit_code == 0, trained.output
    assert "Trained on 9 examples" in trained.stderr


def test_a_part_finds_the_examples_and_tables_of_the_whole(data: Path, tmp_path: Path) -> None:
    write_subset(data / "solutions", tmp_path / "deep" / "hard", 0.1)
    inspection = Inspection(tmp_path / "deep" / "hard")
    name = inspection.store.ids[0]
    assert inspection.examples[name].id == name
    assert next(inspection.listed(name)).startswith(f'{{"example": "{name}"')


def test_a_search_does_not_take_a_part_for_its_own(data: Path, tmp_path: Path) -> None:
    write_subset(data / "solutions", tmp_path / "hard", 0.5)
    with pytest.raises(BonafideError, match="already holds solutions of other inputs, options or version"):
        search_sql(data / "train" / "examples.jsonl", tmp_path / "hard")


@pytest.mark.parametrize(
    ("share", "out", "expected"),
    [
        (0, "new", "expected more than 0, at most 1; found 0"),
        (1.5, "new", "expected more than 0, at most 1; found 1.5"),
        (0.001, "new", "0.001 of 48 examples is none of them"),
        (0.5, "full", "is already there"),
    ],
)
def test_a_wrong_share_or_place_is_refused(data: Path, tmp_path: Path, share: float, out: str, expected: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("mine")
    with pytest.raises(BonafideError, match=expected):
        write_subset(data / "solutions", tmp_path / out, share)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["full", "thing"]


def test_a_damaged_store_gives_no_part(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "solutions", tmp_path / "store")
    shard = tmp_path / "store" / "shard-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(BonafideError, match="is damaged"):
        write_subset(tmp_path / "store", tmp_path / "hard", 0.5)
    assert not (tmp_path / "hard").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_a_part_is_written_into_the_folder_that_one_stands_in(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_subset(data / "solutions", Path(), 0.5)
    write_subset(data / "solutions", tmp_path / "there", 0.5)
    one, other = (
        {each.name: each.read_bytes() for each in (tmp_path / name).iterdir() if each.suffix == ".parquet"}
        for name in ("here", "there")
    )
    assert one == other
    assert len(learnable("sql").open_store(Path().resolve())) == 24
    assert (tmp_path / "here").stat().st_mode == (tmp_path / "there").stat().st_mode
    assert sorted(each.name for each in tmp_path.iterdir()) == ["here", "there"]


def test_of_two_that_write_the_same_part_at_once_one_makes_it(data: Path, tmp_path: Path) -> None:
    """The second begins and ends while the first is half done."""
    store, out = learnable("sql").open_store(data / "solutions"), tmp_path / "hard"

    def interrupted() -> Iterator[tuple[str, Any]]:
        for place, each in enumerate(store):
            if place == 3:
                write_part(store, out, {"subset": {}}, iter(store), len(store))
            yield each

    with pytest.raises(BonafideError, match="hard is already there"):
        write_part(store, out, {"subset": {}}, interrupted(), len(store))
    assert len(learnable("sql").open_store(out)) == len(store)
    assert [each.name for each in tmp_path.iterdir()] == ["hard"]


def test_gold_has_as_many_conditions_as_the_store_that_is_learned_from(tmp_path: Path) -> None:
    rows = [["x", "red", "big", "old", "wet"], ["y", "red", "big", "old", "dry"], ["z", "blue", "big", "old", "wet"]]
    table = {"id": "t", "header": list("nabce"), "types": ["text"] * 5, "rows": rows}
    conditions = [[1, 0, "red"], [2, 0, "big"], [3, 0, "old"], [4, 0, "wet"]]
    (tmp_path / "train").mkdir()
    write_jsonl(tmp_path / "train/tables.jsonl", [table])
    question = {"id": "q", "question": "who is red big old wet", "context": "t", "answers": ["x"]}
    write_jsonl(tmp_path / "train/examples.jsonl", [question])
    write_jsonl(tmp_path / "train/gold.jsonl", [{"id": "q", "solution": {"sel": 0, "agg": 0, "conds": conditions}}])
    store = tmp_path / "solutions"
    search_sql(tmp_path / "train/examples.jsonl", store, language=Language(max_conditions=4))
    made = recipe(tmp_path, "supervised", data={"dev": "", "solutions": str(store)})
    assert made.language.max_conditions == 3
    (item,) = load_training_data(made, tmp_path).items
    assert len(item.solutions[0].conditions) == 4


def test_a_dev_folder_that_is_named_and_not_there_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BonafideError, match=r"data\.dev is 'validation', and there is no folder"):
        load_training_data(recipe(data, "hard-em", data={"dev": "validation", "solutions": ""}), tmp_path)
    assert not list(tmp_path.iterdir()), "before the search"
