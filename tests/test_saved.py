"""A saved model is the same model: predictions, probabilities, and what it takes to load it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import bonafide
from bonafide.errors import BonafideError
from bonafide.learn.data import load_training_data
from bonafide.learn.learnable import Item
from bonafide.learn.saved import Model, load, model_writer, save_model
from bonafide.learn.trainer import train
from bonafide.reconstruct.layout import tokenise
from bonafide.sealed import read_sealed, write_sealed
from bonafide.tasks.sql.rendering import rendered
from command_line import BONAFIDE, contents, refused
from command_line import bonafide as bonafide_command
from tiny_runs import recipe, write_data

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    train(recipe(data, "mimax"), data / "run")
    return data / "run"


@pytest.fixture(scope="module")
def items(data: Path) -> list[Item]:
    return load_training_data(recipe(data, "mimax"), data).items


def scores(model: Model, items: list[Item]) -> tuple[list[float], list[float]]:
    """log P_θ and log P_φ of every solution."""
    solver, reconstructor = model.solver.eval(), model.reconstructor
    assert reconstructor is not None
    reconstructor.eval()
    with torch.no_grad():
        batch = solver.collate([solver.features(each.example.question, each.context, each.solutions) for each in items])
        theta = solver.log_prob(solver(batch), batch)
        layouts = [
            tokenise(rendered(each.solutions, each.context), each.example.question, model.reconstructor_tokenizer)
            for each in items
        ]
        ready = reconstructor.batch(layouts, [np.arange(len(each.solutions)) for each in items])
        return theta.tolist(), reconstructor.log_prob(ready, full_precision=True).tolist()


def test_a_model_saved_again_gives_the_same_predictions_and_probabilities(
    run: Path, items: list[Item], tmp_path: Path
) -> None:
    first = load(run)
    save_model(tmp_path / "copy", first)
    again = load(tmp_path / "copy")
    asked = [(item.context, item.example.question) for item in items[:10]]
    assert again.predict_all(asked, top=3, beam=4) == first.predict_all(asked, top=3, beam=4)
    assert scores(again, items[:10]) == scores(first, items[:10])
    assert all(map(np.isfinite, scores(first, items[:10])[1]))


def test_the_model_of_a_run_is_the_one_that_was_trained(
    data: Path, tmp_path: Path, items: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Model] = []

    def keep(folder: Path, model: Model) -> Callable[[], None]:
        kept.append(model)
        return model_writer(folder, model)

    monkeypatch.setattr("bonafide.learn.trainer.model_writer", keep)
    train(recipe(data, "mimax", train={"select_by": "last"}), tmp_path / "run")
    assert scores(load(tmp_path / "run"), items[:10]) == scores(kept[-1], items[:10])


def test_bonafide_load_predicts(run: Path, items: list[Item]) -> None:
    model = bonafide.load(run)
    predictions = model.predict(items[0].context, items[0].example.question, top=3)
    assert 1 <= len(predictions) <= 3
    confidences = [each.confidence for each in predictions]
    assert confidences == sorted(confidences, reverse=True)
    assert 0 < confidences[0] <= 1
    assert predictions[0].sql.startswith("SELECT")
    assert bonafide.load(str(run / "model")).predict(items[0].context, items[0].example.question, top=3) == predictions


def test_the_reconstructor_votes_on_the_order_of_the_beam(
    run: Path, items: list[Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(run)
    asked = [(item.context, item.example.question) for item in items[:12]]
    beams = model.predict_all(asked, top=6, beam=6)
    explained = model.explained(asked, beams)
    one_by_one = [
        [model.explained([pair], [[each]])[0][0] for each in beam] for pair, beam in zip(asked, beams, strict=True)
    ]
    for fast, slow in zip(explained, one_by_one, strict=True):
        assert fast == pytest.approx(slow, abs=1e-4)
    for weight in (0.0, 0.5, 1e6):
        ordered = model.predict_all(asked, top=2, beam=6, reconstruction=weight)
        for beam, scores, found in zip(beams, explained, ordered, strict=True):
            both = [each.log_probability + weight * score for each, score in zip(beam, scores, strict=True)]
            best = sorted(range(len(beam)), key=lambda place: -both[place])
            assert found == [beam[place] for place in best[:2]]
    with monkeypatch.context() as patched:  # contexts are read in parts
        patched.setattr("bonafide.learn.saved._CONTEXTS", 3)
        for part, whole in zip(model.explained(asked, beams), explained, strict=True):
            assert part == pytest.approx(whole, abs=1e-4)
    moved = [a != b for a, b in zip(model.predict_all(asked), model.predict_all(asked, 1, 6, False, 1e6), strict=True)]
    assert any(moved)
    assert model.explained(asked[:2], [[], beams[1]])[0].shape == (0,)


def test_a_model_without_a_reconstructor_is_not_voted_on(data: Path, tmp_path: Path, items: list[Item]) -> None:
    train(recipe(data, "hard-em"), tmp_path / "run")
    asked = [(item.context, item.example.question) for item in items[:4]]
    model = load(tmp_path / "run")
    assert model.predict_all(asked, 2, 4, False, 0.5) == model.predict_all(asked, 2, 4)
    files = ["evaluate", tmp_path / "run", "--examples", data / "dev" / "examples.jsonl"]
    said = refused(bonafide_command(*files, "--reconstruction", "0.3"))
    assert "needs a model with a reconstructor" in said
    asked = [
        "predict",
        tmp_path / "run",
        "how many?",
        "--reconstruction",
        "0.3",
        "--passage",
        data / "dev" / "gold.jsonl",
    ]
    assert "has no use for --passage" in refused(bonafide_command(*asked))


def test_evaluate_lets_the_reconstructor_vote(run: Path, data: Path, tmp_path: Path) -> None:
    files = ["evaluate", run, "--examples", data / "dev" / "examples.jsonl", "--beam", "6", "--json"]
    assert bonafide_command(*files, "--out", tmp_path / "plain.jsonl").code == 0
    assert bonafide_command(*files, "--reconstruction", "1000", "--out", tmp_path / "voted.jsonl").code == 0
    plain, voted = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("plain.jsonl", "voted.jsonl")
    )
    assert len(plain) == len(voted) == 6
    assert plain != voted


def test_saving_over_a_model_replaces_it_and_leaves_nothing_else(run: Path, tmp_path: Path) -> None:
    model = load(run)
    save_model(tmp_path / "model", model)
    (tmp_path / "model" / "stale").write_text("from before")
    save_model(tmp_path / "model", model)
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
    assert not (tmp_path / "model" / "stale").exists()


def test_a_model_that_cannot_be_written_leaves_the_one_before(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(run)
    save_model(tmp_path / "model", model)
    before = contents(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise Exception("No space left on device (os error 28)")  # what tokenizers raises

    monkeypatch.setattr(type(model.solver.tokenizer), "save_pretrained", full)
    with pytest.raises(BonafideError, match="No space left on device"):
        save_model(tmp_path / "model", model)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ("solver.safetensors", "solver.safetensors is damaged or cut short"),
        ("reconstructor.safetensors", "reconstructor.safetensors is damaged or cut short"),
        ("model.json", "expected JSON"),
    ],
)
def test_a_file_that_was_cut_short_is_named(run: Path, tmp_path: Path, damaged: str, said: str) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    file = tmp_path / "model" / damaged
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(BonafideError, match=said):
        load(tmp_path)


@pytest.mark.parametrize("missing", ["solver-tokenizer", "reconstructor-tokenizer"])
def test_a_missing_tokenizer_is_named(run: Path, tmp_path: Path, missing: str) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / missing)
    with pytest.raises(BonafideError, match=missing):
        load(tmp_path)


@pytest.mark.parametrize("missing", ["solver.safetensors", "reconstructor.safetensors"])
def test_missing_weights_are_named(run: Path, tmp_path: Path, missing: str) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    (tmp_path / "model" / missing).unlink()
    with pytest.raises(BonafideError, match=missing):
        load(tmp_path)


@pytest.mark.parametrize("key", ["solver", "recipe"])
def test_a_description_that_lacks_something_is_refused(run: Path, tmp_path: Path, key: str) -> None:
    shutil.copytree(run / "model", tmp_path / "model")
    about = read_sealed(tmp_path / "model" / "model.json")
    del about[key]
    write_sealed(tmp_path / "model" / "model.json", about)
    with pytest.raises(BonafideError, match=r"model\.json"):
        load(tmp_path)


# --- What is imported when ----------------------------------------------------------------------------------


def test_importing_bonafide_does_not_import_torch() -> None:
    program = "import sys, bonafide, bonafide.cli; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_help_answers_at_once() -> None:
    """0.5 s on an idle machine; the best of three, since this one may be busy."""
    best = 60.0
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([BONAFIDE, "--help"], check=True, capture_output=True, timeout=60)
        best = min(best, time.perf_counter() - start)
    assert best < 1.5
