"""Files of results: what is damaged, copied or of other runs is refused; what was right survives."""

from __future__ import annotations

import dataclasses
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bonafide.errors import BonafideError
from bonafide.files import write_json
from bonafide.learn.recipe import read_recipe
from bonafide.reproduce.results import (
    comparable,
    numbered,
    packed,
    packed_bytes,
    read_result,
    result_name,
    typed,
    unpacked,
    unpacked_bytes,
)
from bonafide.reproduce.runs import Asked, missing, results_of
from bonafide.reproduce.tables import table
from made_results import made


@pytest.mark.parametrize("damage", ["", "AAAA", "%%%%", "A"])
def test_a_damaged_row_is_named(tmp_path: Path, damage: str) -> None:
    result = made(tmp_path / "a.json", 0, [True] * 9, [True] * 9)
    result.write()
    assert read_result(result.path).flags("answer").all()
    result.content["flags"]["answer"] = damage
    result.write()
    with pytest.raises(BonafideError, match=r"a\.json is damaged"):
        read_result(result.path)


def changed(text: str, place: int) -> str:
    """One character of it is another."""
    return f"{text[:place]}{'A' if text[place] != 'A' else 'B'}{text[place + 1 :]}"


def halves(count: int) -> str:
    """F1 of so many examples, none of them alike."""
    return packed_bytes(np.linspace(0, 1, count).astype(np.float16))


def damaged(content: dict[str, Any], name: str) -> None:
    """Remove what is named, or set it to what it cannot be."""
    *folders, key = name.split(".")
    for each in folders:
        content = content[each]
    if key.endswith("?"):
        content[key[:-1]] = changed(content[key[:-1]], 12)
    elif key.endswith("!"):
        content[key[:-1]] = [None]
    else:
        del content[key]


NEEDED = (
    "settings", "seed", "data", "data.train", "data.dev", "examples", "ids", "figures", "flags", "flags.answer",
    "values", "sizes", "curve", "trained_on", "trained_on.used", "seconds", "seconds.training", "seconds.resumed",
    "seconds.side_by_side", "environment", "environment.gpu", "environment.cpus", "environment.bonafide",
    "environment.git", "environment.torch",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        *NEEDED, *(f"{each}!" for each in NEEDED), "sizes?", "values.f1?", "values.f1!", "plain.answer", "plain!",
        "types.of", "types.names", "types.names!", "types.of?", "types!", "contexts?", "contexts!", "plain.contexts?",
    ],
)  # fmt: skip
def test_a_row_that_lacks_what_a_table_needs_or_has_it_otherwise_is_named(tmp_path: Path, name: str) -> None:
    result = made(
        tmp_path / "a.json", 0, [True] * 9, [True] * 9, values={"f1": halves(9)},
        plain={"examples": 2, "ids": "d", "answer": packed([True, False]), "contexts": numbered(["a", None])},
        types=typed(["number", *8 * ["text"]]), contexts=numbered(9 * ["a"]),
    )  # fmt: skip
    write_json(result.path, {"format": 1, **result.content})  # as before rows had checksums
    assert read_result(result.path).figure("f1") == pytest.approx(0.5, abs=1e-3)
    damaged(result.content, name)
    write_json(result.path, {"format": 1, **result.content})
    with pytest.raises(BonafideError, match=r"a\.json is damaged.*Delete it and run its row again\."):
        read_result(result.path)


@pytest.mark.parametrize("curve", [[1], [{}], [{"epoch": 1.0, "solver": {"share": 0.5}}], [{"epoch": "1"}]])
@pytest.mark.parametrize("key", ["curve", "figures"])
def test_a_row_with_a_damaged_figure_is_named(tmp_path: Path, key: str, curve: list[Any]) -> None:
    figures: Any = {"description": curve}
    result = made(tmp_path / "a.json", 0, [True], [True], **{key: curve if key == "curve" else figures})
    result.write()
    with pytest.raises(BonafideError, match=rf"a\.json is damaged.* {key}"):
        read_result(result.path)


def test_a_row_in_which_one_bit_has_changed_is_named(tmp_path: Path) -> None:
    result = made(tmp_path / "a.json", 0, [True] * 90, [True] * 90)
    result.write()
    right = result.content["flags"]["solution"]
    result.path.write_text(result.path.read_text().replace(right, changed(right, 3), 1))
    with pytest.raises(BonafideError, match=r"a\.json is damaged: .*checksum.* delete it and run its row again\."):
        read_result(result.path)


def test_a_copy_of_a_row_is_not_another_seed(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    path = asked.folder / result_name(row.recipe, settings, 0)
    made(path, 0, [True, False], [True, True], settings=settings).write()
    copy = path.with_name(f"{path.stem} (1).json")
    shutil.copy(path, copy)
    with pytest.raises(BonafideError) as refused:
        results_of(wanted, asked)
    for each in (path, copy):
        assert str(each) in str(refused.value)
    assert "both of seed 0" in str(refused.value)


@given(st.lists(st.booleans(), min_size=1, max_size=70), st.lists(st.floats(0, 1, width=16), min_size=1, max_size=40))
def test_what_was_right_survives_packing(flags: list[bool], values: list[float]) -> None:
    assert unpacked(packed(flags), len(flags)).tolist() == flags
    halves = np.array(values, np.float16)
    assert unpacked_bytes(packed_bytes(halves)).view(np.float16).tolist() == halves.tolist()


@given(st.lists(st.none() | st.text("a\0", max_size=2)))
def test_examples_have_a_context_in_common_where_it_is_the_same(names: list[str | None]) -> None:
    numbers = unpacked_bytes(numbered(names)).view(np.uint32).tolist()
    own = [(place,) if name is None else name for place, name in enumerate(names)]
    assert [numbers.index(each) for each in numbers] == [own.index(each) for each in own]


def test_contexts_that_are_long_texts_are_not_copied() -> None:
    texts = ["x" * 1_000_000, *map(str, range(100))]
    tracemalloc.start()
    numbered(texts)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1_000_000


def test_results_are_told_apart_by_what_matters_and_not_by_places() -> None:
    def name(*settings: str) -> str:
        return result_name("drop-mimax", comparable(read_recipe("drop-mimax", settings), False), 0)

    usual = name()
    assert name("data.root=/here", "data.solutions=/there", "train.checkpoint_every=7", "train.seed=3") == usual
    assert name("reconstructor.path=/models/bart-base") == usual
    assert name("reconstructor.path=/models/other") != usual
    assert name("train.epochs=3.0") != usual
    assert usual.startswith("drop-mimax-")


def test_results_of_another_machine_are_used_and_those_of_other_settings_or_data_are_not(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    path = asked.folder / result_name(row.recipe, settings, 0)
    made(path, 0, [True, False], [True, True], settings=settings).write()
    assert [each.seed for each in results_of(wanted, asked)["mimax"]] == [0]
    assert [seed for row, seed in missing(wanted, asked) if row.name == "mimax"] == [1, 2, 3, 4]
    assert not results_of(wanted, dataclasses.replace(asked, overrides=("train.epochs=2.0",)))["mimax"]
    older = {**settings, "train": {key: value for key, value in settings["train"].items() if key != "graphs"}}
    made(path, 0, [True], [True], settings=older).write()  # from before there was this setting
    assert results_of(wanted, asked)["mimax"]
    made(path, 0, [True], [True], settings={**settings, "train": {**settings["train"], "epochs": 2.0}}).write()
    assert not results_of(wanted, asked)["mimax"]
    made(path, 0, [True], [True], settings=settings).write()
    made(path.with_name(path.name.replace("-0.json", "-1.json")), 1, [True], [True], settings=settings, ids="d").write()
    with pytest.raises(BonafideError, match="was made on other data than"):
        results_of(wanted, asked)


@pytest.mark.parametrize(
    ("key", "called"),
    [("train_contexts", "train contexts"), ("dev_contexts", "dev contexts"), ("dev_gold", "dev gold")],
)
def test_results_of_other_contexts_or_gold_are_refused_where_both_say_which(
    tmp_path: Path, key: str, called: str
) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    examples = {"train": "a" * 64, "dev": "b" * 64}
    for seed, data in enumerate((examples, {**examples, key: "c" * 64}, {**examples, key: "c" * 64})):
        path = asked.folder / result_name(row.recipe, settings, seed)
        made(path, seed, [True], [True], settings=settings, data=data).write()
    assert len(results_of(wanted, asked)["mimax"]) == 3  # the first is older, and says nothing of it
    made(path, 2, [True], [True], settings=settings, data={**examples, key: "d" * 64}).write()
    with pytest.raises(BonafideError, match=rf"was made on other data than .*-1\.json \({called}\)"):
        results_of(wanted, asked)


def test_results_that_know_the_truth_of_other_questions_are_refused(tmp_path: Path) -> None:
    wanted, asked = table("sql-hard"), Asked(tmp_path)
    row = wanted.row("mimax")
    settings = comparable(row.settings(wanted.common, (), asked.checkpoint), wanted.curve)
    paths = [asked.folder / result_name(row.recipe, settings, seed) for seed in range(3)]
    for seed, path in enumerate(paths):
        made(path, seed, [True, False], [True, True], settings=settings).write()
    without = made(paths[0], 0, [], [True, True], settings=settings)
    for name in ("solution", "known"):
        del without.content["flags"][name]  # judged without gold
    without.write()
    with pytest.raises(BonafideError, match=r"than .*-0\.json \(dev questions with gold\)"):
        results_of(wanted, asked)
    paths[0].unlink()
    assert len(results_of(wanted, asked)["mimax"]) == 2
    other = made(paths[2], 2, [True, False], [True, True], settings=settings)
    other.content["flags"]["known"] = packed([True, False])
    other.write()
    with pytest.raises(BonafideError, match=r"than .*-1\.json \(dev questions with gold\)"):
        results_of(wanted, asked)
