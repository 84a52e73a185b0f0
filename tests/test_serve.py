"""The server's answers: the model's own, checked, within limits, and with nothing that breaks a page."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from bonafide.errors import BonafideError
from bonafide.examples import Example
from bonafide.learn.saved import Model, load
from bonafide.serve.application import serve_app
from bonafide.serve.asked import LIMITS
from bonafide.serve.contexts import passage_of, table_of_csv
from bonafide.serve.service import Service
from bonafide.serve.tables import Tables
from bonafide.serve.worker import Worker
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import answer_as_written, execute
from bonafide.tasks.sql.readers import read_tables
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.task import SqlTask
from bonafide.web.answers import RefusedError
from bonafide.web.guard import door
from served import PARAGRAPHS, PASSAGE, SALES, document_model, passage_model, write_run

torch.set_num_threads(1)
QUESTION = "how many units were sold in Oslo in May?"
ATTACKS = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</textarea><script>alert(1)</script>",
    "=cmd|' /C calc'!A0", "{{ 7 * 7 }}", "'; DROP TABLE sales; --", '"; ATTACH DATABASE "/tmp/x" AS x; --',
    "../../../etc/passwd", "x' UNION SELECT sql FROM sqlite_master --", "javascript:alert(1)", "\u202e\u2028<b>",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def model(run: Path) -> Model:
    return load(run)


@pytest.fixture(scope="module")
def service(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Service:
    path = tmp_path_factory.mktemp("tables") / "sales.csv"
    path.write_text(SALES)
    return Service(model, read_tables(path))


def held(service: Service) -> Table:
    """The table that it was started with."""
    assert isinstance(service.kind, Tables)
    return service.kind.tables["sales"]


def client_of(service: Service) -> TestClient:
    app = serve_app(service, door("127.0.0.1", max_body=service.limits.body))
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with client_of(service) as made:
        yield made


def test_a_prediction_is_the_models_own_and_returns_what_sqlite_returns(client: TestClient, service: Service) -> None:
    table = held(service)
    expected = service.model.predict(table, QUESTION, top=10, execution_guided=True)
    answer = client.post("/predict", json={"question": QUESTION, "alternatives": 9}).json()
    shown = [answer, *answer["alternatives"]]
    assert [each["sql"] for each in shown] == [each.sql for each in expected]
    assert [each["confidence"] for each in shown] == pytest.approx([each.confidence for each in expected])
    with Engine(table) as engine:
        for each in shown:
            found = [value.lower() if isinstance(value, str) else value for value in each["answer"]]
            assert [
                value.lower() if isinstance(value, str) else value
                for value in engine.run(each["sql"], each["parameters"])
            ] == found


def test_a_table_may_be_named_given_as_rows_or_given_as_csv(client: TestClient) -> None:
    rows = [dict(zip(SALES.split("\n")[0].split(","), line, strict=True)) for line in _cells()]
    ways: list[dict[str, Any]] = [{"table": "sales"}, {"rows": rows}, {"csv": SALES}, {}]
    answers = [client.post("/predict", json={"question": QUESTION, **way}).json() for way in ways]
    assert len({json.dumps(each["answer"]) for each in answers}) == 1
    assert len({each["confidence"] for each in answers}) == 1


def _cells() -> list[list[Any]]:
    lines = [line.split(",") for line in SALES.split("\n")[1:-1]]
    return [[int(cell) if cell.isdigit() else cell for cell in line] for line in lines]


def test_texts_are_answered_as_the_table_writes_them(client: TestClient, service: Service) -> None:
    table, scores = held(service), service.model.task.scores
    found = service.model.predict(table, QUESTION, top=100, execution_guided=True)
    assert {"Oslo", "May"} & {value for each in found for value in each.answer}
    for each in found:
        assert each.answer == answer_as_written(each.query, table)
        assert scores(each, Example("x", QUESTION, None, tuple(execute(each.query, table))))["execution"] == 1
    answer = client.post("/solutions", json={"question": "which city has 1 units?", "answers": ["lyon"]}).json()
    assert {tuple(each["answer"]) for each in answer["solutions"]} == {("Lyon",)}


def test_solutions_are_those_of_the_search_in_the_order_asked_for(client: TestClient, service: Service) -> None:
    table = held(service)
    expected = search(QUESTION, [3], table, service.model.solver.spec.language)
    request = {"question": QUESTION, "answers": [3], "limit": 100}
    answer = client.post("/solutions", json=request).json()
    assert answer["found"] == answer["ranked"] == len(answer["solutions"]) == len(expected)
    assert answer["complete"]
    assert {each["sql"] for each in answer["solutions"]} == {query.to_sql(table)[0] for query in expected}
    assert all(each["answer"] == [3] for each in answer["solutions"])
    for order, name in (("solver", "solver_log_probability"), ("reconstructor", "reconstructor_log_probability")):
        listed = client.post("/solutions", json={**request, "order": order}).json()["solutions"]
        assert [each[name] for each in listed] == sorted((each[name] for each in listed), reverse=True)
        assert [each[name.replace("log_probability", "rank")] for each in listed] == list(range(1, len(listed) + 1))


def test_pages_of_solutions_fit_together(client: TestClient) -> None:
    whole = client.post("/solutions", json={"question": QUESTION, "answers": [3], "limit": 100}).json()["solutions"]
    pages: list[Any] = []
    place: int | None = 0
    while place is not None:
        page = client.post(
            "/solutions", json={"question": QUESTION, "answers": [3], "limit": 4, "offset": place}
        ).json()
        pages += page["solutions"]
        place = page["next"]
    assert pages == whole
    beyond = client.post("/solutions", json={"question": QUESTION, "answers": [3], "offset": 5000}).json()
    assert beyond["solutions"] == []
    assert beyond["next"] is None


def test_passages_and_documents_are_asked_in_their_own_way() -> None:
    with client_of(Service(passage_model())) as client:
        answer = client.post("/predict", json={"question": "how many years?", "passage": PASSAGE}).json()
        assert len(answer["alternatives"]) == 4
        assert all(each["solution"] and each["answer"] for each in [answer, *answer["alternatives"]])
        found = client.post(
            "/solutions", json={"question": "how many years?", "passage": PASSAGE, "answers": [5]}
        ).json()
        assert "1653 − 1648" in {each["solution"] for each in found["solutions"]}
        page = client.post("/ask", files={"question": (None, "how many years?"), "text": (None, PASSAGE)})
        assert "<mark>" in page.text
    with client_of(Service(document_model())) as client:
        answer = client.post("/predict", json={"question": "who signs?", "paragraphs": PARAGRAPHS}).json()
        assert answer["answer"][0] == PARAGRAPHS[answer["paragraph"]][answer["start"] : answer["end"]]
        found = client.post("/solutions", json={"question": "who?", "paragraphs": PARAGRAPHS, "answers": ["ada lund"]})
        assert [
            (each["paragraph"], each["answer"])
            for each in sorted(found.json()["solutions"], key=lambda each: each["paragraph"])
        ] == [(0, ["Ada Lund"]), (1, ["Ada Lund"])]
        unread = client.post("/solutions", json={"question": "0", "paragraphs": ["\x1b"], "answers": ["\x1b"]}).json()
        assert unread["solutions"][0]["solver_log_probability"] is None
        page = client.post("/ask", files={"question": (None, "who?"), "file": ("a.txt", "\n\n".join(PARAGRAPHS))})
        assert "<mark>" in page.text


def test_a_run_on_texts_takes_no_tables(service: Service) -> None:
    with pytest.raises(BonafideError, match="leave --table out"):
        Service(passage_model(), {"sales": held(service)})


def test_health_says_what_can_be_asked(client: TestClient) -> None:
    health = client.get("/health").json()
    assert (health["status"], health["task"], health["method"]) == ("ok", "sql", "mimax")
    assert health["tables"] == {"sales": ["Order", "City", "Month", "Units", "Price"]}
    assert client.get("/openapi.json").json()["paths"].keys() == {"/health", "/predict", "/solutions"}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 422, "question"),
        ({"question": " "}, 422, "blank"),
        ({"question": "x" * 501}, 422, "at most 500 characters"),
        ({"question": "a\0b"}, 422, "NUL"),
        ({"question": "\ud800"}, 422, "question"),
        ({"question": "x", "table": "nowhere"}, 422, "There is no table 'nowhere'"),
        ({"question": "x", "table": "../../etc/passwd"}, 422, "There is no table"),
        ({"question": "x", "table": "/etc/passwd"}, 422, "There is no table"),
        ({"question": "x", "table": "sales", "csv": SALES}, 422, "one table"),
        ({"question": "x", "rows": []}, 422, "empty"),
        ({"question": "x", "rows": [{}]}, 422, "empty"),
        ({"question": "x", "rows": [{"a": [1]}]}, 422, "rows.0.a"),
        ({"question": "x", "rows": [{str(column): 1 for column in range(201)}]}, 413, "201 columns"),
        ({"question": "x", "rows": [{"a": "y" * 10_001}]}, 413, "10,001 characters in a cell"),
        ({"question": "x", "csv": "a\n"}, 422, "no row"),
        ({"question": "x", "csv": "a,b\n1,2,3\n"}, 422, "expected 2 fields"),
        ({"question": "x", "csv": "a\n" + "1\n" * 20_001}, 413, "20,001 rows"),
        ({"question": "x", "csv": "a," * 1999 + "a\n" + "1\n" * 20_000}, 413, "cells"),
        ({"question": "x", "csv": "\n".join("a" for _ in range(90_000))}, 413, "lines"),
        ({"question": "x", "csv": "PK\x03\x04abc"}, 415, "zip"),
        ({"question": "x", "alternatives": 10}, 422, "alternatives"),
        ({"question": "x", "run": "/etc"}, 422, "run"),
        ([], 422, "body"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_with_a_reason(
    client: TestClient, body: Any, status: int, said: str
) -> None:
    answer = client.post("/predict", content=json.dumps(body), headers={"content-type": "application/json"})
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.json()


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"question": 1e999}', b"NaN", b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_json_is_refused(client: TestClient, raw: bytes) -> None:
    answer = client.post("/predict", content=raw, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_is_said_becomes_html_or_sql(client: TestClient, attack: str) -> None:
    table = f'City,"{attack.replace(chr(34), chr(34) * 2)}"\n"{attack.replace(chr(34), chr(34) * 2)}",1\nOslo,2\n'
    page = client.post(
        "/ask", files={"question": (None, f"{attack} of Oslo"), "table": (None, ""), "file": (attack, table)}
    )
    assert page.status_code == 200, page.text
    assert page.text.count("<script") == 1
    assert '<script src="/assets/ask.js" defer></script>' in page.text
    assert "<img" not in page.text
    assert "<b>" not in page.text
    assert "onerror=alert(1)>" not in page.text
    answer = client.post("/predict", json={"question": f"{attack} of Oslo", "rows": [{"City": attack, attack: 1}]})
    assert answer.headers["content-type"] == "application/json"
    named = client.post("/ask", files={"question": (None, "x"), "table": (None, attack)})
    assert named.status_code == 422
    assert named.text.count("<script") == 1


def test_every_query_that_is_shown_is_one_that_sqlite_can_only_read(client: TestClient) -> None:
    rows = [{"City": attack, "Units": number} for number, attack in enumerate(ATTACKS)]
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE "table" ("City" TEXT, "Units" REAL)')
    actions: list[int] = []
    connection.set_authorizer(lambda action, *_: actions.append(action) or sqlite3.SQLITE_OK)
    for attack in ATTACKS:
        answer = client.post("/predict", json={"question": f"units of {attack}", "rows": rows}).json()
        for each in [answer, *answer["alternatives"]]:
            connection.execute(each["sql"], each["parameters"]).fetchall()
    assert set(actions) <= {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ", b"(\xb5/\xfd"])
def test_packed_uploads_are_refused_unopened(client: TestClient, start: bytes) -> None:
    page = client.post("/ask", files={"question": (None, "x"), "file": ("t.csv", start + b"\0" * 100)})
    assert page.status_code == 415
    assert "must not be compressed" in page.text


def test_an_upload_is_never_written_to_the_disk(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", lambda _: pytest.fail("written to the disk"))
    big = SALES + "".join(f"{number},Rome,May,1,{'9' * 200}\n" for number in range(15_000))
    assert 3_000_000 < len(big) < LIMITS.body
    page = client.post("/ask", files={"question": (None, QUESTION), "file": ("t.csv", big)})
    assert page.status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data", "multipart/form-data; boundary=", "application/json"]
)
def test_a_form_that_is_none_is_refused(client: TestClient, kind: str) -> None:
    assert client.post("/ask", content=b"x=1", headers={"content-type": kind}).status_code in (400, 415)


def test_work_that_takes_too_long_or_too_much_is_stopped_and_the_next_is_done() -> None:
    worker = Worker("reading", seconds=1.0, memory=LIMITS.memory)

    async def calls() -> None:
        with pytest.raises(RefusedError, match="The reading took more than 1 seconds") as refused:
            await worker.run(time.sleep, 60)
        assert refused.value.status == 422
        assert (await worker.run(passage_of, "in May 1999")).dates[0].year == 1999
        with pytest.raises(RefusedError, match="more memory than it may have"):
            await worker.run(bytearray, 1 << 40)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            await worker.run(divmod, 1, 0)
        assert await worker.run(divmod, 7, 2) == (3, 1)
        assert worker._process is not None
        worker._process.kill()
        worker._process.join()
        assert await worker.run(divmod, 7, 2) == (3, 1)

    asyncio.run(calls())
    worker.close()


def test_a_batch_answers_as_each_question_alone(service: Service) -> None:
    chance = random.Random(3)
    table = held(service)
    words = ["units", "Oslo", "May", "price", "1001", "how many", "which city", "350", "?"]
    asked = [(table, " ".join(chance.choices(words, k=chance.randint(1, 12)))) for _ in range(16)]
    together = service._predict_all(asked)
    for one, found in zip(asked, together, strict=True):
        (alone,) = service._predict_all([one])
        assert [each.sql for each in alone] == [each.sql for each in found]
        assert [each.log_probability for each in alone] == pytest.approx(
            [each.log_probability for each in found], abs=1e-4
        )


def test_search_tasks_of_the_server_use_the_solvers_language(service: Service) -> None:
    task = service.kind.task(service.model, 7)
    assert task == SqlTask(Language(**service.model.about["solver"]["spec"]["language"]), 7)


def test_the_commands_of_the_documentation_are_answered(client: TestClient) -> None:
    page = (Path(__file__).parent.parent / "docs/serving.md").read_text()
    commands = re.findall(r"^curl localhost:8000(/\w+).*? -d '(.*?)'$", page, re.MULTILINE | re.DOTALL)
    assert [path for path, _ in commands] == ["/predict", "/solutions"]
    for path, body in commands:
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200, answer.json()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_table_of_any_line_ends_is_measured_by_its_header(end: str) -> None:
    lines = ["a,b,c,d,e", *(f"{number},1,2,3,4" for number in range(1000))]
    assert len(table_of_csv(end.join(lines).encode(), LIMITS).rows) == 1000


@pytest.mark.parametrize("header", ['5" disks,price', '"5"" disks",price', 'size, "price, in\n€"', '\n \nsize;"a;\nb"'])
def test_a_table_is_measured_by_its_header_whatever_quotes_stand_in_it(header: str) -> None:
    rows = [f"{number},1" if ";" not in header else f"{number};1" for number in range(10_000)]
    table = table_of_csv("\n".join([header, *rows]).encode(), LIMITS)
    assert (len(table.rows), len(table.header)) == (10_000, 2)


def test_a_header_too_wide_for_its_lines_is_refused_before_they_are_read() -> None:
    for header in ("," * 300, '"a\n,\n"' + "," * 300, "x" * 200_000 + ";" * 300, ", " * 300 + '"a"'):
        with pytest.raises(RefusedError, match="counting every line as long as the header"):
            table_of_csv((header + "\n1" * 10_000).encode(), LIMITS)


def test_who_brings_a_workbook_or_another_kind_of_table_is_told_to_export_it() -> None:
    for start, words in ((b"PK\x03\x04", "Excel"), (b"PAR1\x15\x04", "Parquet"), (b"SQLite format 3\0", "SQLite")):
        with pytest.raises(RefusedError, match=words) as caught:
            table_of_csv(start + bytes(100), LIMITS)
        assert "CSV" in str(caught.value)
        assert "give a Parquet" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"rows": [{"a": [1]}]}, "rows.0.a", "valid string or Input should be a valid integer"),
        ({"rows": [{"bool": 1e301}]}, "rows.0.bool", "less than or equal to 1000"),
        ({"rows": [[1]]}, "rows.0", "dictionary"),
        ({"rows": 5}, "rows", "list"),
        ({"question": None}, "question", "string"),
        ({"odd": 1}, "odd", "Extra inputs"),
    ],
)
def test_a_refusal_names_the_field_and_all_that_it_may_be(
    client: TestClient, body: dict[str, Any], field: str, words: str
) -> None:
    answer = client.post("/predict", json={"question": QUESTION, **body})
    assert answer.status_code == 422
    (problem,) = answer.json()["problems"]
    assert problem["field"] == field
    assert words in problem["expected"]
    assert answer.json()["error"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"day": 3}, "answers.0.day"),
        ({"year": "1" * 41}, "answers.0.year"),
        ({"hour": "3"}, "answers.0.hour"),
        (["five", 5], "answers.0.1"),
        (True, "answers.0"),
    ],
)
def test_a_refusal_of_a_date_or_a_list_names_the_part_that_is_wrong(answer: Any, field: str) -> None:
    with client_of(Service(passage_model())) as client:
        refused = client.post("/solutions", json={"question": QUESTION, "passage": PASSAGE, "answers": [answer]})
    assert refused.status_code == 422
    assert [problem["field"] for problem in refused.json()["problems"]] == [field]


@pytest.mark.parametrize("body", ['{"question": "a" "b"}', '{"question":', "?"])
def test_what_is_no_json_is_said_of_the_body(client: TestClient, body: str) -> None:
    refused = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert refused.json()["problems"] == [{"field": "body", "expected": "JSON decode error"}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": [{str(column): [] for column in range(20)}] * 18_000},
        {"rows": [{str(column): [] for column in range(300_000)}]},
        {str(field): 0 for field in range(300_000)},
    ],
)
def test_a_refusal_is_short_and_soon_said_however_much_is_wrong(client: TestClient, wrong: dict[str, Any]) -> None:
    body = json.dumps({"question": QUESTION, **wrong})
    assert len(body) <= LIMITS.body
    started = time.monotonic()
    refused = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert time.monotonic() - started < 5
    assert refused.status_code in (413, 422)
    assert len(refused.content) < 10_000
