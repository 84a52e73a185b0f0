"""Which runs are one method: by their settings, and by what they were trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from bonafide.errors import BonafideError
from bonafide.files import content_hash
from bonafide.learn.learnable import learnable
from bonafide.report.compare import compare_runs
from bonafide.report.compare_page import described
from bonafide.report.subset import write_part, write_subset
from bonafide.sealed import read_sealed, write_sealed
from bonafide.search.sql import search_sql
from compared_runs import retold, write_runs

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("data"))


def test_runs_of_one_method_are_set_apart_by_their_settings(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "mimax-5", tmp_path / "other")
    values = read_sealed(tmp_path / "other" / "recipe.json")
    values["objective"]["options"]["switch"] = 3.0
    write_sealed(tmp_path / "other" / "recipe.json", values)
    for run in (data / "mimax-5", tmp_path / "other"):
        (run / "predictions.jsonl").unlink(missing_ok=True)
    found = compare_runs([data / "mimax-5", tmp_path / "other"])
    assert [each.name for each in found.methods] == [
        "mimax (objective.options.switch=2)", "mimax (objective.options.switch=3)",
    ]  # fmt: skip
    assert "Not all were trained on the same" not in described(found)


def test_runs_of_one_method_are_set_apart_by_what_they_were_trained_on(data: Path, tmp_path: Path) -> None:
    for seed, split in ((5, "train"), (6, "dev")):
        run = shutil.copytree(data / f"mimax-{seed}", tmp_path / split)
        (run / "predictions.jsonl").unlink(missing_ok=True)
        values = read_sealed(run / "recipe.json")
        write_sealed(run / "recipe.json", values | {"data": values["data"] | {"solutions": ""}})
        search_sql(data / split / "examples.jsonl", run / "solutions")
    found = compare_runs([tmp_path / "train", tmp_path / "dev"])
    hashes = [content_hash(data / split / "examples.jsonl") for split in ("train", "dev")]
    assert [each.name for each in found.methods] == [f"mimax (train examples='{each[:12]}')" for each in hashes]
    assert "Not all were trained on the same examples." in described(found)
    shutil.rmtree(tmp_path / "dev" / "solutions")  # then nothing is known of it
    with pytest.raises(BonafideError, match="found mimax alone"):
        compare_runs([tmp_path / "train", tmp_path / "dev"])


def test_where_a_store_lies_and_how_often_is_written_sets_no_seeds_apart(data: Path, tmp_path: Path) -> None:
    """As ``bonafide train --starts`` writes them: the first seed searches, the others name its store."""
    base = retold(data / "hard-em-5", tmp_path / "base")
    first = retold(data / "mimax-5", tmp_path / "seed-5", data={"solutions": ""})
    shutil.copytree(data / "solutions", first / "solutions")
    kept = {"checkpoint_every": 7, "log_every": 9}
    other = retold(data / "mimax-6", tmp_path / "seed-6", data={"solutions": str(first / "solutions")}, train=kept)
    found = compare_runs([base, first, other], data / "dev" / "examples.jsonl")
    assert {each.name: list(each.runs) for each in found.methods} == {"hard-em": [5], "mimax": [5, 6]}
    assert "Not all were trained on the same" not in described(found)


def test_the_hard_part_of_a_store_is_other_data_than_the_whole_however_it_was_taken(data: Path, tmp_path: Path) -> None:
    write_subset(data / "solutions", tmp_path / "hard", 0.5)
    write_subset(tmp_path / "hard", tmp_path / "harder", 0.5)
    base, whole = (retold(data / f"{name}-5", tmp_path / name) for name in ("hard-em", "mimax"))
    part = retold(data / "mimax-5", tmp_path / "part", data={"solutions": str(tmp_path / "hard")})
    share = retold(data / "mimax-6", tmp_path / "share", data={"largest": 0.5})
    harder = retold(data / "mimax-5", tmp_path / "least", data={"solutions": str(tmp_path / "harder")})
    fewer = retold(data / "mimax-6", tmp_path / "fewer", data={"solutions": str(tmp_path / "hard"), "largest": 0.5})
    searched = content_hash(data / "train" / "examples.jsonl")[:12]
    found = compare_runs([whole, part, share, harder, fewer], data / "dev" / "examples.jsonl")
    assert {each.name: list(each.runs.values()) for each in found.methods} == {
        f"mimax (train examples='{searched}')": [whole],
        f"mimax (train examples='24 largest of {searched}')": [part, share],
        f"mimax (train examples='12 largest of {searched}')": [harder, fewer],
    }
    assert "Not all were trained on the same examples." in described(found)
    assert "Not all" not in described(compare_runs([base, whole], data / "dev" / "examples.jsonl"))
    other = compare_runs([base, part], data / "dev" / "examples.jsonl")
    assert "Not all were trained on the same examples." in described(other)


def test_sets_that_were_cut_are_other_data_than_the_whole_ones(data: Path, tmp_path: Path) -> None:
    store = learnable("sql").open_store(data / "solutions")
    write_part(store, tmp_path / "cut", {"likeliest": {"most": 3, "said": False}}, iter(store), len(store))
    base, whole = (retold(data / f"{name}-5", tmp_path / name) for name in ("hard-em", "mimax"))
    cut = retold(data / "mimax-6", tmp_path / "run", data={"solutions": str(tmp_path / "cut")})
    found = compare_runs([whole, cut], data / "dev" / "examples.jsonl")
    assert [each.name for each in found.methods] == [
        "mimax",
        "mimax (search.likeliest.most=3, search.likeliest.said=False)",
    ]
    assert "Not all were trained on the same solution sets." in described(found)
    gold = {"method": "supervised", "options": {}}
    solved = [retold(each, tmp_path / f"solved-{each.name}", objective=gold) for each in (whole, cut)]
    found = compare_runs([base, *solved], data / "dev" / "examples.jsonl")  # they learn from no set
    assert {each.name: len(each.runs) for each in found.methods} == {"hard-em": 1, "supervised": 2}
    assert "Not all were trained on the same" not in described(found)


def test_a_store_that_is_gone_is_told(data: Path, tmp_path: Path) -> None:
    base = retold(data / "hard-em-5", tmp_path / "base")
    lost = retold(data / "mimax-5", tmp_path / "lost", data={"solutions": str(tmp_path / "gone")})
    found = compare_runs([base, lost], data / "dev" / "examples.jsonl")
    assert "What 1 of the 2 runs were trained on is not known: their stores are gone." in described(found)


def test_a_recipe_that_was_spoilt_by_hand_is_refused_in_a_sentence(data: Path, tmp_path: Path) -> None:
    spoilt = {
        "data": lambda recipe: recipe.pop("data"),
        "objective.method": lambda recipe: recipe["objective"].pop("method"),
        "train.seed": lambda recipe: recipe["train"].update(seed="x"),
    }
    for name, spoil in spoilt.items():
        run = retold(data / "mimax-5", tmp_path / name)
        values = read_sealed(run / "recipe.json")
        spoil(values)
        (run / "recipe.json").write_text(json.dumps(values))
        with pytest.raises(BonafideError, match=rf"recipe\.json is not as bonafide train writes it: {name} is"):
            compare_runs([data / "hard-em-5", run], data / "dev" / "examples.jsonl")
    run = retold(data / "mimax-5", tmp_path / "no-root")
    values = read_sealed(run / "recipe.json")
    del values["data"]["root"]
    (run / "recipe.json").write_text(json.dumps(values))
    with pytest.raises(BonafideError, match="Give examples with --examples"):
        compare_runs([run, data / "hard-em-5"])
