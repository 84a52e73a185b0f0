"""Recipes are strict, and every one in the package reads."""

from __future__ import annotations

import pytest

from bonafide.errors import BonafideError
from bonafide.learn.methods import METHODS
from bonafide.learn.recipe import named_recipes, read_recipe


@pytest.mark.parametrize("name", named_recipes())
def test_every_recipe_of_the_package_reads_and_has_its_launch_line(name):
    recipe = read_recipe(name)
    assert recipe.objective.method in name
    sets = {"wikisql-hard": 0.18, "squad-article": 0.192}  # the others take all questions
    assert recipe.data.largest == next((share for each, share in sets.items() if name.startswith(each)), 1.0)


def test_there_is_a_recipe_for_each_method_on_full_and_hard_sets():
    wanted = {f"wikisql-{size}-{method}" for size in ("full", "hard") for method in METHODS}
    assert wanted <= set(named_recipes())


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
