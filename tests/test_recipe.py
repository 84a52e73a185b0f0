"""Recipes are strict, and every one in the package reads."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from bonafide.errors import BonafideError
from bonafide.learn.learnable import learnable
from bonafide.learn.methods import METHODS
from bonafide.learn.recipe import Recipe, named_recipes, read_recipe

PAGE = (Path(__file__).parents[1] / "docs" / "recipes.md").read_text()


@pytest.mark.parametrize("name", named_recipes())
def test_every_recipe_of_the_package_reads_and_has_its_launch_line(name):
    recipe = read_recipe(name)
    assert recipe.objective.method in name
    sets = {"wikisql-hard": 0.18, "squad-article": 0.192}  # the others take all questions
    assert recipe.data.largest == next((share for each, share in sets.items() if name.startswith(each)), 1.0)


def test_there_is_a_recipe_for_each_method_on_full_and_hard_sets():
    wanted = {f"wikisql-{size}-{method}" for size in ("full", "hard") for method in METHODS}
    assert wanted <= set(named_recipes())


def table(section: str) -> list[list[str]]:
    """The cells of the table of a section in docs/recipes.md."""
    after = PAGE.partition(f"## `[{section}]")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", after, re.MULTILINE)[2:]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def coded(cell: str) -> list[str]:
    return re.findall("`(.*?)`", cell)


def defaults(cell: str, many: int) -> list[Any]:
    values = [tomllib.loads(f"value = {each}")["value"] for each in coded(cell)]
    return values * many if len(values) == 1 else values


@pytest.mark.parametrize("section", ["data", "solver", "reconstructor", "train"])
def test_the_page_of_settings_has_each_with_its_default(section: str) -> None:
    options = getattr(Recipe(), section)
    said: dict[str, Any] = {}
    for keys, given, _ in table(section):
        said |= zip(coded(keys), defaults(given, len(coded(keys))), strict=True)
    assert said == {each.name: getattr(options, each.name) for each in fields(options)}


def test_it_has_those_of_each_language() -> None:
    said: dict[str, dict[str, Any]] = {task: {} for task in ("sql", "discrete", "reading", "text")}
    for task, keys, given, _ in table("language"):
        said[task] |= zip(coded(keys), defaults(given, len(coded(keys))), strict=True)
    for task, options in said.items():
        language = learnable(task).language_options()
        assert options == {each.name: getattr(language, each.name) for each in fields(language)}


def test_it_has_those_of_each_method() -> None:
    said: dict[str, dict[str, Any]] = {method: {} for method in METHODS}
    for keys, methods, given, _ in table("objective"):
        names = methods.split(", ")
        pairs = [(name, key) for key in coded(keys) for name in names]
        for (name, key), value in zip(pairs, defaults(given, len(pairs)), strict=True):
            said[name][key] = value
    for method, options in said.items():
        built = METHODS[method]()
        known = [each.name for each in fields(built) if each.name != "state"] if is_dataclass(built) else []
        assert options == {name: getattr(built, name) for name in known}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nepoch = 3", "did you mean 'epochs'"),
        ("[trains]\nepochs = 3", "did you mean 'train'"),
        ("[train]\nbatch = 'many'", "expected int"),
        ("[train]\nbatch = true", "expected int"),
        ("[train]\nbatch = 0", "more than 0"),
        ("[train]\nprecision = 'fp8'", "expected one of"),
        ("[objective]\nmethod = 'magic'", "expected one of first-only"),
        ("[objective]\nmethod = 'mimax'\n[objective.options]\nswich = 2.0", "has no option 'swich'"),
        ("[objective]\nmethod = 'mimax'\n[objective.options]\nsoft = 3", "takes a bool"),
        ("[reconstructor]\nkind = 'bart'", "needs reconstructor.path"),
        ("[data]\nlargest = 2", "at most 1"),
        ("[data]\ndev_examples = -5", "0 or more"),
        ("[train]\nencoder_rate = -1.0", "0 or more"),
        ("[train]\nweight_decay = -1.0", "0 or more"),
        ("[train]\npatience = -1", "0 or more"),
        ("[train]\nwarmup = 5", "is a share, from 0 to 1"),
        ("[train]\nseed = -1", "0 or more, and below"),
        ("[train]\nseed = 9223372036854775808", "0 or more, and below"),
        ("[train]\nselect_by = 'reconstruction'\n[objective]\nmethod = 'hard-em'", "hard-em trains no reconstructor"),
        ("[solver]\nhead_width = 0", "more than 0"),
        ("[objective.options]\ncandidates = -1", "at least 0"),
        ("[objective.options]\ntemperature = 0.0", "at least 0.001"),
        ("train = 3", "must be a section"),
        ("[train\n", "not a recipe"),
    ],
)
def test_a_wrong_recipe_says_what_is_wrong(tmp_path, text, message):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(BonafideError, match=message):
        read_recipe(str(tmp_path / "mine.toml"))


def test_values_can_be_set_from_the_command_line():
    recipe = read_recipe(
        "wikisql-hard-mimax", ["data.root=/data", "train.epochs=2", "objective.options.simplicity=1.0", "train.seed=7"]
    )
    assert (recipe.data.root, recipe.train.epochs, recipe.train.seed) == ("/data", 2.0, 7)
    assert recipe.objective.options == {"switch": 5.0, "simplicity": 1.0}
    with pytest.raises(BonafideError, match=r"section\.key=value"):
        read_recipe("wikisql-hard-mimax", ["epochs"])


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(BonafideError, match="did you mean 'wikisql-hard-mimax'"):
        read_recipe("wikisql-hard-mimx")
