"""The explorer's Ask page: the model's own answers, on the run's tables and on what is brought, within the limits."""

from __future__ import annotations

import html
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from bonafide.examples import write_jsonl
from bonafide.explore.asking import TablesOfRun
from bonafide.explore.workspace import Workspace
from bonafide.learn.saved import load
from bonafide.learn.trainer import train
from bonafide.report.inspect import bound_sql
from bonafide.search.sql import search_sql
from bonafide.serve.ask import Form, blank_page
from bonafide.serve.asked import LIMITS
from bonafide.serve.service import Service
from bonafide.tasks.sql.query import selected_rows
from bonafide.tasks.sql.readers import read_tables
from bonafide.web.pages import environment
from explored import opened_app, run_on_texts, text_of
from served import SALES
from tiny_runs import recipe, write_data

torch.set_num_threads(1)
QUESTION = "how many units were sold in Oslo in May?"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_data(tmp_path_factory.mktemp("data"))
    train(recipe(root, "mimax"), root / "run")
    return root / "run"


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[TestClient]:
    with opened_app(Workspace(run)) as client:
        yield client


def ask(client: TestClient, file: bytes | None = None, **fields: str) -> tuple[int, str]:
    files = {"file": ("", file or b"")} if file is None else {"file": ("table.csv", file)}
    found = client.post("/ask", data=fields, files=files)
    return found.status_code, found.text


def solutions(page: str) -> list[str]:
    return [text_of(each) for each in re.findall(r"<code>(.*?)</code>", page.partition('id="answer"')[2])]


def test_a_question_on_a_table_of_the_run_is_answered_as_the_model_answers_it(client: TestClient, run: Path) -> None:
    workspace, model = Workspace(run), load(run)
    opened = workspace.open(3)
    blank = client.get("/ask?example=3").text
    assert f'value="{opened.example.context}" selected' in blank
    assert f'value="{html.escape(opened.example.question)}"' in blank
    assert '<a href="/ask" aria-current="page">Ask</a>' in blank
    status, page = ask(client, question=opened.example.question, table=str(opened.example.context), text="")
    found = model.predict(opened.context, opened.example.question, top=5, execution_guided=True)
    assert status == 200
    assert solutions(page) == [bound_sql(each.solution, opened.context) for each in found]
    assert f"{found[0].confidence:.1%} sure" in page
    assert page.count('class="lit"') == selected_rows(found[0].solution, opened.context).sum()
    workspace.close()


def test_tables_that_are_pasted_or_uploaded_are_read_apart(client: TestClient, run: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(SALES)
    table = read_tables(tmp_path / "table.csv")["table"]
    best = load(run).predict(table, QUESTION, top=5, execution_guided=True)[0]
    for page in (
        ask(client, question=QUESTION, table="", text=SALES),
        ask(client, SALES.encode(), question=QUESTION, table="", text=""),
    ):
        assert page[0] == 200
        assert f"{best.confidence:.1%} sure" in page[1]
        assert "Order" in text_of(page[1])
        assert "1002" in text_of(page[1])


def test_a_file_that_is_not_utf_8_is_put_back_as_it_was_read(client: TestClient) -> None:
    _, page = ask(client, SALES.replace("Oslo", "Målmö").encode("cp1252"), question=QUESTION, table="", text="")
    assert "Målmö" in page
    assert "\ufffd" not in page


def test_the_limits_and_guards_of_the_server_hold_here_too(client: TestClient) -> None:
    assert ask(client, question=" ", table="", text=SALES)[0] == 422
    assert ask(client, question="x" * (LIMITS.question + 1), table="", text=SALES)[0] == 422
    status, page = ask(client, question=QUESTION, table="no such table", text="")
    assert status == 422
    assert "There is no table" in text_of(page)
    assert ask(client, b"PK\x03\x04" + bytes(100), question=QUESTION, table="", text="")[0] == 415
    wide = ("," * LIMITS.columns + "\n") * 3
    assert ask(client, question=QUESTION, table="", text=wide)[0] == 413
    assert ask(client, bytes(LIMITS.body + 1), question=QUESTION, table="", text="")[0] == 413
    assert client.post("/ask", data={"question": QUESTION}).status_code == 415
    files = {"file": ("x", b"")}
    foreign = client.post("/ask", data={"question": QUESTION}, files=files, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    assert client.get("/ask", headers={"host": "evil.example"}).status_code == 421
    for place in (99999, -1, 99999999999999999999):
        assert client.get(f"/ask?example={place}").status_code == client.get(f"/example/{place}").status_code == 404


def test_asking_goes_before_scoring_and_scoring_goes_on(client: TestClient) -> None:
    scorer = client.app.state.scorer  # type: ignore[attr-defined]
    assert ask(client, question=QUESTION, table="", text=SALES)[0] == 200
    index = scorer._workspace.index
    with scorer._wake:
        assert scorer._wake.wait_for(lambda: index.value("SELECT min(scored) FROM examples") == 1, 60)
    assert scorer.state == "ready"


def test_who_goes_away_or_fails_does_not_hold_up_the_others(client: TestClient) -> None:
    scorer = client.app.state.scorer  # type: ignore[attr-defined]
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Any) -> bool:
        begun.set()
        return go_on.wait(30)

    def fail(_: Any) -> None:
        raise ValueError("on purpose")

    first = scorer.turn(wait)
    assert begun.wait(30)
    gone, failing, last = scorer.turn(wait), scorer.turn(fail), scorer.turn(lambda model: model.task.name)
    assert gone.cancel()
    go_on.set()
    assert first.result(30)
    with pytest.raises(ValueError, match="on purpose"):
        failing.result(30)
    assert last.result(30) == "sql"


def test_of_many_tables_some_are_offered_and_all_can_be_named(run: Path) -> None:
    workspace, model = Workspace(run), load(run)
    table = workspace.open(0).context
    service = Service(model, {f"table {place}": table for place in range(300)}, turn=lambda work: work())
    values = blank_page(service, Form("", "table 250", "", None))
    assert values["many"]
    assert len(values["tables"]) == 200
    assert values["columns"] == {"table 250": table.header}
    page = environment("bonafide.explore", "bonafide.serve").get_template("ask.html").render(**values)
    assert page.count("<option") == 200
    assert '<input id="table" name="table" list="tables" value="table 250"' in page
    few = blank_page(Service(model, {"one": table, "two": table}))
    assert (few["many"], list(few["columns"])) == (False, ["one", "two"])
    workspace.close()


@pytest.mark.parametrize("task", ["discrete", "reading", "text"])
def test_runs_on_texts_are_asked_about_the_text_of_an_example(task: str, tmp_path: Path) -> None:
    run = run_on_texts(tmp_path, task)
    workspace = Workspace(run)
    with opened_app(workspace, in_passing=False) as client:
        example = workspace.open(0).example
        blank = client.get("/ask?example=0").text
        assert f'value="{html.escape(example.question)}"' in blank
        text = text_of(re.findall(r"<textarea.*?>(.*?)</textarea>", blank, re.DOTALL)[0]).strip()
        assert bool(text) == (task != "text")  # these problems stand alone
        status, page = ask(client, question=example.question, table="", text=text)
        assert status == 200
        assert re.search(r"[\d.]+% sure", page)
        assert 'href="/ask?example=0"' in client.get("/example/0").text


def test_the_tables_to_pick_are_those_of_the_examples(run: Path, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(SALES)
    write_jsonl(tmp_path / "examples.jsonl", [{"id": "q1", "question": QUESTION, "answers": [3]}])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[tmp_path / "sales.csv"])
    for workspace in (Workspace(tmp_path / "store"), Workspace(run)):
        tables = TablesOfRun(workspace)
        asked = {workspace.open(place).context.id for place in range(workspace.index.count)}
        assert set(tables) == asked
        assert len(tables) == len(asked)
        assert all(name in tables and tables[name].id == name for name in asked)
        assert "nothing" not in tables
        workspace.close()


def test_a_store_alone_cannot_be_asked(run: Path) -> None:
    with opened_app(Workspace(run.parent / "solutions")) as client:
        assert client.get("/ask").status_code == 404
        assert "/ask" not in client.get("/").text
        assert "/ask" not in client.get("/example/0").text


def test_a_model_that_cannot_be_loaded_is_said_and_the_rest_is_shown(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("explore", "checkpoints"))
    (tmp_path / "run/model/solver.safetensors").write_bytes(b"no tensors")
    with opened_app(Workspace(tmp_path / "run")) as client:
        assert client.app.state.scorer.state == "failed"  # type: ignore[attr-defined]
        refused = client.get("/ask")
        assert refused.status_code == 422
        assert "model" in refused.text
        assert client.get("/example/0").status_code == 200
        overview = client.get("/").text
        assert "could not be loaded" in text_of(overview)
        assert "/ask" not in overview
