"""What runs read: recipes, stores of solutions, checkpoints, models, predictions, and what people judged."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from hashlib import sha256
from importlib import resources
from pathlib import Path

from bonafide.errors import BonafideError
from fuzzing.contract import Target
from fuzzing.tables import TABLES, lines

_PAIRS = [
    {
        "id": "0a1b", "example": "dev-1", "question": "how many?", "context": "1-10", "answer": [3], "left": "SELECT 1",
        "right": "SELECT 2", "left_from": "hard-em", "right_from": "mimax",
    },
    {
        "id": "0a1c", "example": "dev-2", "question": "who?", "context": None, "answer": ["x"], "left": "a",
        "right": "b",
        "left_from": "mimax", "right_from": "hard-em",
    },
]  # fmt: skip
_SAID = [
    {"id": "0a1b", "choice": "left", "judge": "ann", "time": "2026-11-15T10:00:00"},
    {"id": "0a1b", "choice": "both", "judge": "bo"},
    {"id": "0a1c", "choice": "unsure"},
]
_PREDICTED = [
    {
        "example": "a",
        "query": {"sel": 1, "agg": 1, "conds": [[0, 0, "ann lee"]]},
        "log_probability": -0.25,
        "alternatives": [{"query": {"sel": 0, "agg": 0, "conds": []}, "log_probability": -3}],
        "rank_of_gold": 2,
    },
    {"example": "b", "query": None, "log_probability": None},
]


def recipe(folder: Path) -> Target:
    """TOML recipes."""
    from bonafide.learn.recipe import read_recipe

    path = folder / "recipe.toml"
    inside = resources.files("bonafide") / "recipes"
    names = ("wikisql-hard-mimax", "drop-vae", "quasar-t-hard-em", "text-mimax", "wikisql-full-hard-em-thres")
    seeds = [(inside / f"{name}.toml").read_bytes() for name in names]
    seeds += [b'[objective]\nmethod = "mimax"\n[objective.options]\nswitch = 2.0\n', _written_out()]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_recipe(str(path))

    return Target(read, seeds, path.name, as_json=False)


def recipe_values(folder: Path) -> Target:
    """The values of a recipe as a model keeps them, and ``--set``."""
    from bonafide.learn.recipe import read_recipe, recipe_from

    whole = json.dumps(tomllib.loads(_written_out().decode())).encode()

    def read(data: bytes) -> None:
        value = _parsed(data)
        if isinstance(value, dict):
            recipe_from(value, "model.json")
        else:
            read_recipe("wikisql-hard-mimax", [f"train.epochs={value}", f"{value}"])

    return Target(read, [whole, b'{"objective": {"method": "vae", "options": {"samples": 3}}}', b'"train.seed=3"'])


def manifest(folder: Path) -> Target:
    """A store whose manifest was changed."""
    from bonafide.solutions import MANIFEST, SolutionStore, damaged_shards
    from bonafide.tasks.sql.task import QueryCodec

    store = _store(folder)
    path = store / MANIFEST

    def read(data: bytes) -> None:
        path.write_bytes(data)
        opened = SolutionStore(store, QueryCodec())
        damaged_shards(store)
        len(opened), list(opened), opened.sizes, opened.ids

    return Target(read, [path.read_bytes(), _unsealed(path)], store.name)


def shard(folder: Path) -> Target:
    """A store whose shard was changed, with a manifest that vouches for it every second time."""
    from bonafide.solutions import MANIFEST, SolutionStore, shard_counts
    from bonafide.tasks.sql.task import QueryCodec

    store = _store(folder)
    path, about = store / "shard-00000.parquet", json.loads((store / MANIFEST).read_bytes())
    about.pop("checksum", None)
    whole = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        digest = sha256(data).hexdigest()
        about["shards"][0]["sha256"] = digest if digest < "8" else sha256(whole).hexdigest()
        (store / MANIFEST).write_text(json.dumps(about))
        shard_counts(path, "any")
        opened = SolutionStore(store, QueryCodec())
        for _, solutions in opened:
            list(solutions)
        opened.sizes, opened.ids  # noqa: B018

    return Target(read, [whole], path.name, as_json=False)


def checkpoint(folder: Path) -> Target:
    """A checkpoint whose state was changed."""
    from bonafide.learn.checkpoint import load_checkpoint, save_checkpoint

    made = _trained()
    saved = save_checkpoint(folder / "checkpoints", made(), {"step": 4, "best": None, "objective": {}})

    def read(data: bytes) -> None:
        (saved / "state.json").write_bytes(data)
        load_checkpoint(saved, made())

    return Target(read, [(saved / "state.json").read_bytes()], saved.name)


def tensors(folder: Path) -> Target:
    """A checkpoint whose tensors were changed, with a checksum that vouches for them every second time."""
    from bonafide.learn.checkpoint import load_checkpoint, save_checkpoint

    made = _trained()
    saved = save_checkpoint(folder / "checkpoints", made(), {"step": 4})
    path, state = saved / "tensors.safetensors", json.loads((saved / "state.json").read_bytes())
    whole = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        digest = sha256(data).hexdigest()
        state["sha256"] = digest if digest < "8" else sha256(whole).hexdigest()
        (saved / "state.json").write_text(json.dumps(state))
        load_checkpoint(saved, made())

    return Target(read, [whole], saved.name, as_json=False)


def model(folder: Path) -> Target:
    """A trained model whose ``model.json`` was changed."""
    from bonafide.learn.saved import load, save_model
    from served import passage_model

    save_model(folder / "model", passage_model())
    path = folder / "model" / "model.json"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        load(folder / "model")

    return Target(read, [_unsealed(path)], "model")


def sheet(folder: Path) -> Target:
    """A blind sheet."""
    from bonafide.report.sheets import counted, read_sheet

    path = folder / "judge.jsonl"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        pairs = read_sheet(path)
        counted(pairs, {pair.id: {"ann": "left"} for pair in pairs}).solutions()

    return Target(read, [lines(_PAIRS), lines(_PAIRS[:1])], path.name)


def judgements(folder: Path) -> Target:
    """What was said of a sheet."""
    from bonafide.report.sheets import LOG, read_judgements

    path = folder / "judge.judged.jsonl"
    (folder / "judge.jsonl").write_bytes(lines(_PAIRS))

    def read(data: bytes) -> None:
        path.write_bytes(data)
        LOG.disabled = True  # a line that is cut short is told of, each time
        try:
            read_judgements(path).solutions()
        finally:
            LOG.disabled = False

    return Target(read, [lines(_SAID), lines(_SAID[:1]), lines(_SAID)[:-20]], path.name)


def predictions(folder: Path) -> Target:
    """``predictions.jsonl`` of the SQL task, read to be scored again."""
    from bonafide.evaluate.predictions import prediction_to_json, read_predictions
    from fuzzing.languages import example_table

    path, table = folder / "predictions.jsonl", example_table()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for each in read_predictions(path, {"a": table, "b": table}.__getitem__):
            prediction_to_json(each, table)

    return Target(read, [lines(_PREDICTED), lines(_PREDICTED[:1])], path.name)


def pairs(folder: Path) -> Target:
    """A user's own question–answer pairs on a table."""
    from bonafide.own.pairs import read_pairs
    from bonafide.tasks.sql.language import Language
    from bonafide.tasks.sql.sources import open_tables

    path, tables = folder / "qa.jsonl", folder / "tables.jsonl"
    tables.write_bytes(lines(TABLES))
    source = open_tables(tables)
    seeds = [
        {"question": "who has 12?", "answer": "Ann Lee", "table": "1-10"},
        {"question": "goals?", "answer": [12, "7.5"], "table": "1-10"},
    ]
    seeds += [{"id": "x", "question": "when", "table": "1-11", "answer": "1,990"}]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_pairs(path, source, Language())

    return Target(read, [lines(seeds), lines(seeds[:1])], path.name)


def _parsed(data: bytes) -> object:
    from bonafide.files import parse_json

    try:
        return parse_json(data)
    except ValueError as error:
        raise BonafideError(f"model.json: {error}") from None


def _unsealed(path: Path) -> bytes:
    """A file of ours without its checksum, so that what reads it is reached."""
    return json.dumps(
        {key: value for key, value in json.loads(path.read_bytes()).items() if key != "checksum"}
    ).encode()


def _store(folder: Path) -> Path:
    """A finished store of the SQL task."""
    from bonafide.search.sql import search_sql

    (folder / "tables.jsonl").write_bytes(lines(TABLES))
    asked = [
        {"id": "a", "question": "goals of ann lee?", "context": "1-10", "answers": [12]},
        {"id": "b", "question": "who has 7.5 in riga", "context": "1-10", "answers": ["bo ray"]},
        {"id": "c", "question": "?", "context": "1-11", "answers": ["nothing"]},
    ]
    (folder / "examples.jsonl").write_bytes(lines(asked))
    shutil.rmtree(folder / "solutions", ignore_errors=True)
    search_sql(folder / "examples.jsonl", folder / "solutions")
    return folder / "solutions"


def _trained() -> Callable[[], object]:
    import torch

    from bonafide.learn.checkpoint import Trained

    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 2)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    return lambda: Trained({"solver": module}, {"solver": optimiser})


def _written_out() -> bytes:
    """A recipe with every key of it."""
    from bonafide.learn.recipe import recipe_from

    text = []
    for section, content in recipe_from({}, "").to_json().items():
        text.append(f"[{section}]")
        text += [f"{key} = {json.dumps(value)}" for key, value in content.items() if not isinstance(value, dict)]
    return "\n".join(text).encode()
