"""The text task in the explorer: candidates ranked by both, votes, copied words marked, gold, and pairs to judge."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from bonafide.examples import Example, read_gold, write_jsonl
from bonafide.explore.candidates import TextView
from bonafide.explore.judge import Sheet, make_sheet
from bonafide.explore.judging import Bench
from bonafide.explore.workspace import Workspace
from bonafide.learn.learnable import Item
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import load
from bonafide.learn.text import gold_texts
from bonafide.reconstruct.layout import tokenise
from bonafide.search.text import import_candidates
from bonafide.tasks.text.words import COPIED_MARK, copied_pieces, normalised, without_copies
from explored import opened_app, run_on_texts, text_of

torch.set_num_threads(1)
LINES: list[dict[str, Any]] = [
    {"id": "q1", "question": "Ada has 12 apples and buys 7 more. How many has she?", "answer": 19,
     "context": "Apples are sold by the dozen.\nAda likes apples.", "gold": "12 + 7 = 19",
     "candidates": ["12 + 7 = 19", "12+7=19", "Ada has 12 apples and buys 7 more, so the answer is 19", "20 - 1 = 19"]},
    {"id": "q2", "question": "How many is nothing?", "answer": 0, "candidates": ["0", "1 - 1 = 0"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_on_texts(tmp_path_factory.mktemp("text"), "text")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "all.jsonl", LINES)
    import_candidates(tmp_path / "all.jsonl", tmp_path / "data")
    return tmp_path / "data"


def test_candidates_have_votes_copied_words_context_and_gold(store: Path) -> None:
    with opened_app(Workspace(store / "solutions", gold=store / "gold.jsonl")) as client:
        page = client.get("/example/0?z=1").text
        rows = re.findall(r"<td><a data-go.*?</td>", page, re.DOTALL)
        assert [text_of(each).split() for each in rows] == [
            ["12", "+", "7", "=", "19", "2", "votes", "gold"],
            [*LINES[0]["candidates"][2].split(), "1", "vote", "57%", "copied"],
            ["20", "-", "1", "=", "19", "1", "vote"],
        ]
        marked = re.findall(r'<mark class="copied"[^>]*>(.*?)</mark>', page)
        assert marked == ["Ada has 12 apples and buys 7 more"] * 2  # in the list, and as the chosen one
        context = text_of(page.partition("<h2>Context</h2>")[2])
        assert "Apples are sold by the dozen." in context
        assert "The question stands alone" in client.get("/example/1").text
        assert "Every candidate that reaches the answer" in client.get("/").text


def test_scores_and_shading_are_those_of_the_model(run: Path) -> None:
    gold = read_gold(run.parent / "train/gold.jsonl")
    workspace, model = Workspace(run, gold=run.parent / "train/gold.jsonl"), load(run)
    settings = recipe_from(model.about["recipe"], "a test")
    with opened_app(workspace, in_passing=False) as client:
        scorer = client.app.state.scorer  # type: ignore[attr-defined]
        for place in range(workspace.index.count):
            opened = workspace.open(place)
            wanted = {normalised(each) for each in gold_texts(gold[opened.row.id])}
            places = workspace.gold_places(opened)
            assert places == [at for at, text in enumerate(opened.solutions) if normalised(text) in wanted]
        opened = workspace.open(0)
        scores = scorer.scores(0, 60)
        with torch.no_grad():
            batch = model.solver.collate([model.solver.features(opened.example.question, "", opened.solutions)])
            theta = model.solver.log_prob(model.solver(batch), batch).double().numpy()
            (shown,) = model.task.rendered(Item(opened.example, "", opened.solutions), settings)
            layout = tokenise(shown, opened.example.question, model.reconstructor_tokenizer)
            assert model.reconstructor is not None
            ready = model.reconstructor.batch([layout], [np.arange(len(layout))])
            phi = model.reconstructor.log_prob(ready, full_precision=True).double().numpy()
            tokens = model.reconstructor.token_log_prob(ready, full_precision=True).double().numpy()
        np.testing.assert_allclose(scores.solver, theta, atol=1e-4)
        np.testing.assert_allclose(scores.reconstructor, phi, atol=1e-3)
        gains = scorer.gains(opened, 1, 0)
        wanted_gains = tokens[1, : len(gains)] - tokens[0, : len(gains)]
        np.testing.assert_allclose([each.gain for each in gains], wanted_gains, atol=1e-3)
        page = client.get("/example/0?sort=reconstructor").text
        listed = [
            html.unescape(re.sub("<[^>]+>", "", each)) for each in re.findall(r"data-go.*?<code>(.*?)</code>", page)
        ]
        assert listed == [opened.solutions[at] for at in np.argsort(-phi, kind="stable")]


def test_a_question_that_the_reconstructor_cannot_read_to_its_end_is_shown(run: Path, tmp_path: Path) -> None:
    long = {"id": "q1", "question": "how long is it? " * 400, "answer": 7, "candidates": ["7", "3 + 4 = 7"]}
    write_jsonl(tmp_path / "all.jsonl", [long])
    import_candidates(tmp_path / "all.jsonl", tmp_path / "data")
    workspace = Workspace(run, solutions=tmp_path / "data/solutions", examples=tmp_path / "data/examples.jsonl")
    with opened_app(workspace, in_passing=False) as client:
        scorer = client.app.state.scorer  # type: ignore[attr-defined]
        scores = scorer.scores(0, 60)
        assert client.get("/example/0?z=1&against=0").status_code == 200
        read = load(run).reconstructor.markers.positions  # type: ignore[union-attr]
        assert len(scorer.gains(workspace.open(0), 1, 0)) == read - 1
        assert workspace.index.row(0).explained == pytest.approx(scores.reconstructor.max() / read)


def test_pairs_of_candidates_are_judged_with_their_context_once(store: Path, tmp_path: Path) -> None:
    workspace = Workspace(store / "solutions")
    workspace.index.change("UPDATE examples SET solver = 0, reconstructor = 1", [])
    assert make_sheet(workspace, tmp_path / "judge.jsonl") == 2
    sheet = Sheet(tmp_path / "judge.jsonl", "ada")
    place = next(at for at, each in enumerate(sheet.pairs) if each.example == "q1")
    shown = Bench(workspace).shown(sheet.pairs[place])
    assert (shown.left.returns, shown.right.returns, shown.compared) == ("19", "19", False)
    assert shown.left.lit == shown.right.lit
    with opened_app(workspace, sheet=tmp_path / "judge.jsonl") as client:
        page = client.get(f"/judge/{place}").text
        assert page.count("Apples are sold by the dozen.") == 1
        assert page.count('<mark class="copied"') == 1
        assert client.post(f"/judge/{place}", data={"choice": "left"}).status_code == 200
    assert len((tmp_path / "judge.judged.jsonl").read_text().splitlines()) == 1


@given(st.lists(st.sampled_from(["a", "b", "c", "12", "ﬁ", "x", " ", "\n", ",", "É"]), max_size=30), st.integers(0, 4))
def test_pieces_put_together_are_the_candidate_and_marks_stand_for_the_copied_ones(words: list[str], run: int) -> None:
    text, question = " ".join(words), "a b c 12 x a b c fi É"
    found = copied_pieces(text, question, run)
    copied = any(each for _, each in found)
    joined = "".join(piece for piece, _ in found)
    assert normalised(joined) == normalised(text)
    assert joined == text or copied
    assert without_copies(text, question, run) == "".join(COPIED_MARK if each else piece for piece, each in found)
    example = Example("q", question, None, ())
    shown = TextView(run).pieces(text, example)
    assert "".join(piece for piece, _ in shown) == joined
