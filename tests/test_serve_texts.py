"""Models that write their solutions, served and asked: the text task, and a task of a user's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")

from fastapi import FastAPI
from fastapi.testclient import TestClient

from bonafide.cli import app
from bonafide.errors import BonafideError
from bonafide.learn.saved import Model, save_model
from bonafide.learn.text import TextAnswer, TextLearning, rendered_texts
from bonafide.reconstruct.layout import tokenise
from bonafide.sealed import read_sealed, write_sealed
from bonafide.serve.application import serve_app
from bonafide.serve.service import Service
from bonafide.tasks.text.words import COPIED_RUN
from bonafide.web.guard import door
from browser import CHROMIUM, browser
from served import DERIVATIONS, PROBLEM, listening, text_model

torch.set_num_threads(1)
FACT = "Every crate of apples holds 12."


def app_of(model: Model) -> FastAPI:
    service = Service(model)
    return serve_app(service, door("127.0.0.1", max_body=service.limits.body))


def client_of(model: Model) -> TestClient:
    return TestClient(app_of(model), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def model() -> Model:
    return text_model()


@pytest.fixture(scope="module")
def client(model: Model) -> Iterator[TestClient]:
    with client_of(model) as made:
        yield made


@pytest.mark.parametrize("context", ["", FACT])
def test_a_prediction_is_the_models_own_with_the_answer_that_it_states(
    client: TestClient, model: Model, context: str
) -> None:
    expected = model.predict(context, PROBLEM, top=10, beam=1)
    answer = client.post("/predict", json={"question": PROBLEM, "context": context, "alternatives": 9}).json()
    shown = [answer, *answer["alternatives"]]
    assert [each["solution"] for each in shown] == [each.text for each in expected]
    assert [each["answer"] for each in shown] == [[each.answer] for each in expected]
    assert [each["confidence"] for each in shown] == pytest.approx([each.confidence for each in expected])


def test_the_context_is_read(client: TestClient) -> None:
    confidences = {
        client.post("/predict", json={"question": PROBLEM, "context": context}).json()["confidence"]
        for context in ("", FACT, f"{FACT} {FACT}")
    }
    assert len(confidences) == 3


def test_candidates_are_ranked_by_solver_and_reconstructor(client: TestClient, model: Model) -> None:
    request = {"question": PROBLEM, "context": FACT, "candidates": [*DERIVATIONS, DERIVATIONS[0].replace(" ", "")]}
    answer = client.post("/solutions", json=request).json()
    assert (answer["found"], answer["ranked"], answer["complete"], answer["next"]) == (3, 3, True, None)
    found = {each["solution"]: each for each in answer["solutions"]}
    assert set(found) == set(DERIVATIONS)
    assert [found[each]["answer"] for each in DERIVATIONS] == [["19"]] * 3
    assert [found[each]["copy_rate"] > 0 for each in DERIVATIONS] == [False, False, True]

    assert model.reconstructor is not None
    with torch.no_grad():
        batch = model.solver.collate([model.solver.features(PROBLEM, FACT, DERIVATIONS)])
        solver = model.solver.log_prob(model.solver(batch), batch).tolist()
        layout = tokenise(
            rendered_texts(DERIVATIONS, PROBLEM, FACT, COPIED_RUN), PROBLEM, model.reconstructor_tokenizer
        )
        reconstructor = model.reconstructor.log_prob(
            model.reconstructor.batch([layout], [range(len(DERIVATIONS))]), full_precision=True
        ).tolist()
    for name, expected in (("solver", solver), ("reconstructor", reconstructor)):
        scores = {text: each[f"{name}_log_probability"] for text, each in found.items()}
        assert [scores[each] for each in DERIVATIONS] == pytest.approx(expected, abs=1e-4)
        page = client.post("/solutions", json={**request, "order": name, "limit": 2}).json()
        assert page["next"] == 2
        best = sorted(DERIVATIONS, key=lambda text, scores=scores: -scores[text])  # type: ignore[misc]
        assert [each["solution"] for each in page["solutions"]] == best[:2]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/predict", {"question": "x", "passage": "y"}, 422, "passage"),
        ("/predict", {"question": "x", "context": "y" * 50_001}, 422, "at most 50000 characters"),
        ("/predict", {"question": "x", "context": "a\0b"}, 422, "NUL"),
        ("/solutions", {"question": "x"}, 422, "candidates"),
        ("/solutions", {"question": "x", "candidates": []}, 422, "candidates"),
        ("/solutions", {"question": "x", "candidates": [" "]}, 422, "blank"),
        ("/solutions", {"question": "x", "candidates": ["y"] * 257}, 422, "256"),
        ("/solutions", {"question": "x", "candidates": ["y" * 30_000] * 2}, 413, "60,000 characters in all candidates"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(
    client: TestClient, path: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.json()


def test_a_person_asks_with_and_without_a_text(client: TestClient) -> None:
    blank = client.get("/").text
    assert "<h1>Ask a question</h1>" in blank
    for text in ("", FACT):
        page = client.post("/ask", files={"question": (None, PROBLEM), "text": (None, text)})
        assert page.status_code == 200
        assert 'class="best"' in page.text
        assert "Where the answer comes from" not in page.text
    attack = "</textarea><script>alert(1)</script>"
    page = client.post("/ask", files={"question": (None, attack), "file": ("a.txt", attack)})
    assert page.text.count("<script") == 1


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_person_asks_in_a_browser(model: Model, tmp_path: Path) -> None:
    with listening(app_of(model)) as address, browser(tmp_path / "profile") as page:
        page.size(360, 800)
        page.open(address)
        page.type(PROBLEM)
        page.press("Enter")
        page.wait("document.querySelector('#answer .best')")
        best = model.predict("", PROBLEM, top=10, beam=1)[0]
        assert page.run("document.querySelector('#answer .result').textContent") == (best.answer or "nothing")
        assert page.run("document.querySelector('#answer .best code').textContent") == best.text
        assert page.run("document.documentElement.scrollWidth") <= 360
        assert page.complaints == []


class Own(TextLearning):
    """A task of a user's own: only it knows what a text returns."""

    name = "own"

    def predict(self, solver: Any, asked: Any, top: int, beam: int, execution_guided: bool) -> list[list[Any]]:
        found = super().predict(solver, asked, top, beam, execution_guided)
        return [
            [_Returned(each, len(context)) for each in texts] for (context, _), texts in zip(asked, found, strict=True)
        ]


class _Returned(TextAnswer):
    def __init__(self, found: TextAnswer, length: int) -> None:
        super().__init__(found.text, found.log_probability)
        object.__setattr__(self, "length", length)

    @property
    def answer(self) -> Any:
        return (self.length, {"odd"}, float("inf")) if self.length else None  # type: ignore[attr-defined]


class NotOfTexts:
    """A task whose contexts a request cannot bring."""

    name = "maps"

    def build_solver(self) -> None: ...


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("own_of_a_test")
    module.Own, module.NotOfTexts = Own, NotOfTexts  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_of_a_test", module)


def of_own_task(model: Model, name: str) -> Model:
    data = {**model.about["recipe"]["data"], "task": f"own_of_a_test:{name}"}
    return Model(
        model.solver,
        model.reconstructor,
        model.reconstructor_tokenizer,
        {"recipe": {**model.about["recipe"], "data": data}},
    )


@pytest.mark.usefixtures("own_module")
def test_a_task_of_ones_own_says_itself_what_a_text_returns(model: Model) -> None:
    with client_of(of_own_task(model, "Own")) as client:
        assert client.get("/health").json()["task"] == "own"
        assert client.post("/predict", json={"question": PROBLEM}).json()["answer"] is None
        answer = client.post("/predict", json={"question": PROBLEM, "context": FACT}).json()
        assert answer["answer"] == [len(FACT), "{'odd'}", "inf"]
        ranked = client.post("/solutions", json={"question": PROBLEM, "candidates": DERIVATIONS}).json()
        assert [each["answer"] for each in ranked["solutions"]] == [None] * 3
        assert client.post("/ask", files={"question": (None, PROBLEM), "text": (None, FACT)}).status_code == 200


@pytest.mark.usefixtures("own_module")
def test_a_task_whose_contexts_cannot_be_brought_is_refused(model: Model) -> None:
    with pytest.raises(BonafideError, match=r"'maps' cannot be served: expected sql, .*TextLearning"):
        Service(of_own_task(model, "NotOfTexts"))


@pytest.fixture(scope="module")
def run(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    save_model(folder / "model", model)
    return folder


def command(*arguments: str | Path) -> None:
    app([str(each) for each in arguments], standalone_mode=False)


def test_the_command_line_takes_a_context_as_a_file_or_as_a_text(
    run: Path, model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "facts.txt").write_text(FACT)
    for given, context in ([], ""), (["--context", tmp_path / "facts.txt"], FACT), (["--context", FACT], FACT):
        command("predict", run, PROBLEM, *given, "--top", "2", "--json")
        shown = json.loads(capsys.readouterr().out)
        expected = model.predict(context, PROBLEM, top=2)
        assert [(each["text"], each["answer"]) for each in shown] == [(each.text, each.answer) for each in expected]
        assert [each["confidence"] for each in shown] == pytest.approx([each.confidence for each in expected])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--context", "nowhere.txt"], "nowhere.txt"),
        (["--context", " "], "--context is empty"),
        (["--table", "sales.csv"], "not on tables: give a text with --context FILE"),
        (["--task", "units.py"], "leave --task out"),
    ],
)
def test_what_cannot_be_asked_is_said(run: Path, options: list[str], said: str) -> None:
    with pytest.raises(BonafideError, match=said):
        command("predict", run, PROBLEM, *options)


def test_a_task_of_ones_own_is_imported_from_the_file_that_is_named_and_from_nothing_else(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "apples", raising=False)
    task = tmp_path / "kept" / "apples.py"
    task.parent.mkdir()
    task.write_text(
        "from pathlib import Path\nfrom bonafide.learn.text import TextLearning\n"
        "Path(__file__).with_name('imported').touch()\nclass Apples(TextLearning):\n    name = 'apples'\n"
    )
    save_model(tmp_path / "run" / "model", model)
    about = tmp_path / "run" / "model" / "model.json"
    said = read_sealed(about)
    said["recipe"]["data"]["task"] = "apples:Apples"
    write_sealed(about, said)
    with pytest.raises(BonafideError, match="apples:Apples: give its file with --task FILE"):
        command("predict", tmp_path / "run", PROBLEM)
    with pytest.raises(BonafideError, match=r"expected a file apples\.py, found pears\.py"):
        command("serve", tmp_path / "run", "--task", "pears.py")
    assert not (task.parent / "imported").exists()
    command("predict", tmp_path / "run", PROBLEM, "--task", task, "--top", "1", "--json")
    assert json.loads(capsys.readouterr().out)[0]["text"] == model.predict("", PROBLEM, top=1)[0].text
    assert (task.parent / "imported").exists()
    other = tmp_path / "apples.py"
    other.write_text("")
    with pytest.raises(BonafideError, match="Another module goes by the name apples"):
        command("predict", tmp_path / "run", PROBLEM, "--task", other)
