"""The model card of a run, ``card.md``: what the model is, where it comes from, how good it is, what it is not for.

It goes where the model goes, to people who never saw the run: it names no folder of the machine that trained it.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.learn.methods import build_objective
from bonafide.learn.recipe import Recipe
from bonafide.pretrained import minilm_path
from bonafide.solutions import examples_hash

_ASKED = {
    "sql": "questions on a table, by writing an SQL query",
    "discrete": "questions on the numbers, dates and spans of a passage, by writing a program",
    "reading": "questions on a document, by pointing at a mention of the answer",
    "text": "questions, by writing a solution as text",
}
_BEYOND = {
    "sql": "Questions that need more than one table, grouping, ordering or nested queries: it cannot write these.",
    "discrete": "Questions that need knowledge or arithmetic beyond the passage and the searched programs.",
    "reading": "Questions whose answer does not stand in the document: it always points at something.",
    "text": "Solutions that nobody executes or checks: it writes text, and text can be wrong or harmful.",
}
_PLACES = (("data", "root"), ("data", "solutions"), ("data", "workers"))
"""Settings that say where things are or how fast they go; a recipe is the same without them."""


def recipe_hash(recipe: Recipe) -> str:
    """SHA-256 of every setting of a run but where its data is: equal for runs that are to be the same."""
    values = json.loads(json.dumps(recipe.to_json()))
    for section, key in _PLACES:
        values[section].pop(key)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def licence_of(encoder: str) -> str | None:
    """What the card of a checkpoint says of its licence; None where it says nothing or is not on this machine."""
    try:
        folder = minilm_path() if encoder == "minilm" else Path(encoder).expanduser()
        front = re.match(r"---\n(.*?)\n---\n", (folder / "README.md").read_text(), re.DOTALL)
    except (BonafideError, OSError, UnicodeDecodeError):
        return None
    stated = re.search(r"^license:\s*(\S+)\s*$", front.group(1), re.MULTILINE) if front else None
    return stated.group(1) if stated else None


def model_card(
    recipe: Recipe, environment: dict[str, Any], best: dict[str, Any], data: dict[str, Any], store: Path
) -> str:
    """The card, from what a run knows when it ends; ``store`` is its solution store."""
    task = recipe.data.task
    answers = _ASKED.get(task, f"the questions of the task {task}")
    rows = {
        "task": f"{task}: answers {answers}",
        "method": recipe.objective.method + (", on gold solutions" if data["gold"] else ", on answers alone"),
        "data": _data(recipe, data),
        "examples, SHA-256": f"`{found}`" if (found := examples_hash(store)) else None,
        "recipe, SHA-256": f"`{recipe_hash(recipe)}` (without where the data is)",
        "encoder": _encoder(recipe.solver.encoder),
        "reconstructor": _reconstructor(recipe),
        "made with": _versions(environment),
    }
    lines = [f"# Model card: {recipe.objective.method}, {task}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows.items() if value]
    lines += ["", "## How good it is", "", *_figures(best, data)]
    lines += ["", "## What it is not for", "", *(f"- {each}" for each in _not_for(recipe, data))]
    return "\n".join(lines) + "\n"


def _data(recipe: Recipe, data: dict[str, Any]) -> str:
    root = Path(recipe.data.root).resolve()
    name = f"{root.parent.name}/data" if root.name == "data" else root.name  # data/ says nothing by itself
    text = (
        f"{name}, split {recipe.data.train}: {data['used']:,} of {data['examples']:,} examples with "
        f"{data['solutions']:,} solutions"
    )
    if data["without_solution"]:
        text += f"; {data['without_solution']:,} have none"
    if data["capped"]:
        text += f"; {data['capped']:,} sets {cut_down(recipe)}"
    return text


def cut_down(recipe: Recipe) -> str:
    """What was done to sets that are too large."""
    most = recipe.data.max_solutions
    return f"cut to their {most:,} likeliest" if recipe.data.likeliest else f"sampled down to {most:,}"


def _encoder(name: str) -> str:
    if name == "scratch":
        return "from nothing: no pretrained weights"
    shown = name if name.count("/") <= 1 and not Path(name).expanduser().exists() else Path(name).name
    licence = licence_of(name)
    return f"{shown}; licence {licence}" if licence else f"{shown}; licence not known here: look at its own card"


def _reconstructor(recipe: Recipe) -> str | None:
    if not build_objective(recipe.objective.method, recipe.objective.options).needs_reconstructor:
        return None
    path = recipe.reconstructor.path
    return f"{recipe.reconstructor.kind}, {_encoder(path)}" if path else recipe.reconstructor.kind


def _versions(environment: dict[str, Any]) -> str:
    text = ", ".join(f"{name} {environment[name]}" for name in ("bonafide", "torch", "transformers", "python"))
    return f"{text}; {environment['gpu'] or environment['machine']}"


def _figures(best: dict[str, Any], data: dict[str, Any]) -> list[str]:
    measured = {name.removeprefix("dev_"): value for name, value in best.items() if name.startswith("dev_")}
    if not measured:
        return [
            "Not measured while it was trained: the run had no dev examples. Measure it with `bonafide evaluate`; of a "
            "model of your own tables, `report.html` says how much is right of what was held out."
        ]
    lines = ["| on the dev examples | value |", "|---|---|"]
    lines += [f"| {name} | {value:.4g} |" for name, value in measured.items()]
    lines += ["", f"Taken at step {best['step']:,}, which was chosen by {best['by']}."]
    if data["gold"]:
        return [*lines, "It learned from gold solutions: an upper bound, not a result of learning from answers."]
    return [*lines, "A right answer can have a wrong derivation: `bonafide audit` says how often it does."]


def _not_for(recipe: Recipe, data: dict[str, Any]) -> list[str]:
    limits = [
        "Decisions about people, or others that nobody checks. Look at the derivation, not at the answer alone.",
        "Other kinds of questions, contexts or languages than those it learned from: nothing was measured there.",
    ]
    if beyond := _BEYOND.get(recipe.data.task):
        limits.append(beyond)
    if data["unreachable"]:
        limits.append(
            f"{data['unreachable']:,} solutions of its own training data were beyond what it reads or writes."
        )
    return limits
