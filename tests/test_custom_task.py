"""The page on a task of your own, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bonafide.errors import BonafideError
from bonafide.files import read_json
from bonafide.learn.learnable import learnable
from bonafide.learn.recipe import read_recipe
from bonafide.solutions import SolutionStore
from bonafide.tasks.text.task import TextCodec
from test_readme import run

PAGE = (Path(__file__).parent.parent / "docs" / "custom-task.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Everything on the page, in its order."""
    folder = tmp_path_factory.mktemp("units")
    task, data, ask = blocks("python")
    (recipe,), (command, predict) = blocks("toml"), blocks("bash")
    (folder / "units.py").write_text(task)
    (folder / "units.toml").write_text(recipe)
    run(f"python - <<'PYTHON'\n{data}\nPYTHON", folder)
    run(command, folder)
    (folder / "predicted.txt").write_text(run(predict, folder))
    (folder / "asked.txt").write_text(run(f"python - <<'PYTHON'\n{ask}\nPYTHON", folder))
    return folder


def test_the_task_is_about_fifty_lines_of_code():
    lines = [line for line in blocks("python")[0].splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 60


def test_the_search_finds_the_genuine_and_the_accidental_solutions(folder):
    store = SolutionStore(folder / "runs/units/solutions", TextCodec())
    sets = [set(found) for _, found in store]
    assert all(sets)
    assert any({"multiply 1 yard is 3 feet", "multiply 1 trio is 3 singers"} <= each for each in sets)


def test_the_genuine_solutions_are_learned(folder):
    assert read_json(folder / "runs/units/result.json")["best"]["dev_execution"] >= 0.8
    first = (folder / "asked.txt").read_text().splitlines()[0]
    assert first.endswith("multiply 1 yard is 3 feet  →  15")
    shown = (folder / "predicted.txt").read_text().splitlines()
    assert next(line for line in shown if "multiply 1 yard is 3 feet" in line).split("│")[2].strip() == "15"


def test_a_module_is_imported_for_a_recipe_and_for_nothing_else(tmp_path):
    (tmp_path / "own_task_of_a_test.py").write_text("class NotATask: pass\n")
    with pytest.raises(BonafideError, match="import own_task_of_a_test first"):
        learnable("own_task_of_a_test:NotATask")
    (tmp_path / "mine.toml").write_text('[data]\ntask = "own_task_of_a_test:NotATask"\n')
    with pytest.raises(BonafideError, match="expected a class 'NotATask' with the methods of Learnable"):
        read_recipe(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text('[data]\ntask = "no_such_module_of_mine:Task"\n')
    with pytest.raises(BonafideError, match="cannot be imported"):
        read_recipe(str(tmp_path / "mine.toml"))
