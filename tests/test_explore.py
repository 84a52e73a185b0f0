"""The explorer: an index that agrees with the store, choices and scores that agree with the run, and its pages."""

from __future__ import annotations

import html
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from bonafide.errors import BonafideError
from bonafide.examples import open_examples, read_gold, write_jsonl
from bonafide.explore import listing
from bonafide.explore import scoring as scoring_module
from bonafide.explore.charts import bars
from bonafide.explore.lit import pieces, shown_places
from bonafide.explore.queries import parse_sql, plain_sql, plain_texts
from bonafide.explore.scoring import Scorer
from bonafide.explore.workspace import Workspace, search_for
from bonafide.learn.learnable import Item, learnable
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import load
from bonafide.learn.trainer import train
from bonafide.reconstruct.layout import tokenise
from bonafide.report.inspect import bound_sql
from bonafide.report.subset import write_subset
from bonafide.search.sql import search_sql
from bonafide.solutions import SolutionStore
from bonafide.tasks.sql.query import selected_rows
from bonafide.tasks.sql.task import QueryCodec
from explored import opened_app, run_on_texts, text_of
from tiny_runs import recipe, write_data

torch.set_num_threads(1)
HOSTILE = "<script>window.hacked = 1</script>\"'&amp;<img src=x onerror=hacked()>"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(data: Path) -> Path:
    train(recipe(data, "mimax", data={"max_solutions": 10}), data / "run")
    return data / "run"


@pytest.fixture(scope="module")
def client(run: Path, data: Path) -> Iterator[TestClient]:
    with opened_app(Workspace(run, gold=data / "train/gold.jsonl"), in_passing=False) as client:
        yield client


def test_the_index_finds_what_the_store_holds(run: Path, data: Path) -> None:
    store = SolutionStore(data / "solutions", QueryCodec())
    workspace = Workspace(run)
    assert workspace.index.count == len(store)
    for place, (name, solutions) in enumerate(store):
        opened = workspace.open(place)
        assert (opened.row.id, opened.row.size) == (name, solutions.size)
        assert opened.example.id == name
        assert opened.context.id == opened.example.context
        assert list(opened.solutions) == list(solutions)
    workspace.close()


def test_the_index_is_kept_until_a_file_changes_and_made_again_when_it_is_damaged(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("explore", "checkpoints"))
    index = copy / "explore" / "index.sqlite"

    def opened() -> int:
        Workspace(copy).close()
        return index.stat().st_ino

    first = opened()
    assert opened() == first
    os.utime(copy / "selections.jsonl", ns=(1, 1))
    second = opened()
    assert second != first
    index.write_bytes(b"no database")
    for end in ("-wal", "-shm"):
        index.with_name(index.name + end).unlink(missing_ok=True)
    opened()
    assert sqlite3.connect(index).execute("SELECT count(*) FROM examples").fetchone() == (48,)


def test_examples_that_were_not_searched_are_refused(run: Path, data: Path, tmp_path: Path) -> None:
    lines = (data / "train/examples.jsonl").read_text().splitlines()
    (tmp_path / "swapped.jsonl").write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    with pytest.raises(BonafideError, match="does not belong to the solution store"):
        Workspace(run, examples=tmp_path / "swapped.jsonl")
    (tmp_path / "changed.jsonl").write_text("\n".join(lines) + "\n\n")
    with pytest.raises(BonafideError, match="content differs"):
        Workspace(run, examples=tmp_path / "changed.jsonl")
    assert not list((run / "explore").glob(".*part"))


def test_a_part_of_a_store_shows_its_own_examples(data: Path, tmp_path: Path) -> None:
    write_subset(data / "solutions", tmp_path / "hard", 0.4)
    kept = dict(learnable("sql").open_store(tmp_path / "hard"))
    texts = {each.id: each.question for each in open_examples(data / "train/examples.jsonl")}
    workspace = Workspace(tmp_path / "hard")
    try:
        assert [row.id for row in workspace.index.rows("ORDER BY place")] == list(kept)
        assert 0 < len(kept) < len(texts)
        for place, (name, solutions) in enumerate(kept.items()):
            opened = workspace.open(place)
            assert (opened.example.question, list(opened.solutions)) == (texts[name], list(solutions))
    finally:
        workspace.close()


def test_scores_are_those_of_one_pass_over_the_whole_set(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_module, "_LEAST", 3)
    monkeypatch.setattr(scoring_module, "_MOST_AT_ONCE", 5)
    workspace, model = Workspace(run), load(run)
    scorer = Scorer(workspace, in_passing=False)
    scorer.start()
    scorer.scores(0, 0)
    settings = recipe_from(model.about["recipe"], "a test")
    place = workspace.index.value("SELECT place FROM examples ORDER BY size DESC LIMIT 1")
    with scorer._wake:
        assert scorer._wake.wait_for(lambda: scorer.state == "ready", 60)
    scores = scorer.scores(place, 60)
    assert scores is not None
    assert scores.complete
    opened = workspace.open(place)
    assert len(opened.solutions) > 20
    with torch.no_grad():
        batch = model.solver.collate([model.solver.features(opened.example.question, opened.context, opened.solutions)])
        theta = model.solver.log_prob(model.solver(batch), batch).double().numpy()
        (shown,) = model.task.rendered(Item(opened.example, opened.context, opened.solutions), settings)
        layout = tokenise(shown, opened.example.question, model.reconstructor_tokenizer)
        assert model.reconstructor is not None
        ready = model.reconstructor.batch([layout], [np.arange(len(layout))])
        phi = model.reconstructor.log_prob(ready, full_precision=True).double().numpy()
        tokens = model.reconstructor.token_log_prob(ready, full_precision=True).double().numpy()
    np.testing.assert_allclose(scores.solver, theta, atol=1e-4)
    np.testing.assert_allclose(scores.reconstructor, phi, atol=1e-3)
    gains = scorer.gains(opened, 2, 0)
    assert "".join(each.text for each in gains).strip().lower() == opened.example.question.lower()
    wanted = tokens[2, : len(gains)] - tokens[0, : len(gains)]
    np.testing.assert_allclose([each.gain for each in gains], wanted, atol=1e-3)
    row = workspace.index.row(place)
    assert (row.solver, row.reconstructor) == (theta.argmax(), phi.argmax())
    assert row.explained == pytest.approx(phi.max() / len(layout.question), abs=1e-3)
    scorer.stop()
    workspace.close()


def test_while_nobody_waits_every_example_is_scored_in_its_turn_and_held_to_gold(
    run: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = read_gold(data / "train/gold.jsonl")
    workspace = Workspace(run, gold=data / "train/gold.jsonl")
    in_turn = [place for (place,) in workspace.index.query("SELECT place FROM examples WHERE scored = 0 ORDER BY turn")]
    scorer, begun, score = Scorer(workspace), [], Scorer._score
    monkeypatch.setattr(Scorer, "_score", lambda self, *asked: (begun.append(asked[0]), score(self, *asked)))
    scorer.start()
    with scorer._wake:
        done = scorer._wake.wait_for(lambda: workspace.index.value("SELECT min(scored) FROM examples") == 1, 60)
    assert done
    assert begun == in_turn != sorted(in_turn)
    for row in workspace.index.rows(""):
        opened = workspace.open(row.place)
        places = workspace.gold_places(opened)
        assert places == [
            place for place in [opened.solutions.index_of(gold_query(gold[row.id], opened))] if place is not None
        ]
        assert row.wrong == int(row.solver not in places)
    scorer.stop()
    workspace.close()


def gold_query(gold: Any, opened: Any) -> Any:
    from bonafide.tasks.sql.query import parse_query

    return parse_query(gold.solution, opened.context)


def test_sql_as_it_is_shown_reads_back_as_the_same_query(run: Path) -> None:
    workspace = Workspace(run)
    for place in range(workspace.index.count):
        opened = workspace.open(place)
        for query in opened.solutions[:50]:
            assert parse_sql(plain_sql(query, opened.context), opened.context) == query
            assert parse_sql(bound_sql(query, opened.context), opened.context) == query
        backwards = range(len(opened.solutions) - 1, -1, -1)
        together = plain_texts(opened.solutions, backwards, opened.context)
        assert together == [plain_sql(opened.solutions[each], opened.context) for each in backwards]
    with pytest.raises(BonafideError, match="no column"):
        parse_sql('SELECT "nothing" FROM "x"', opened.context)
    for wrong in ("DROP TABLE x", plain_sql(opened.solutions[0], opened.context) + " OR 1 = 1"):
        with pytest.raises(BonafideError, match="Expected"):
            parse_sql(wrong, opened.context)
    workspace.close()


def test_lit_are_the_selected_rows_the_returned_cells_and_the_cells_asked_about(run: Path) -> None:
    workspace = Workspace(run)
    opened = workspace.open(0)
    for query in opened.solutions:
        lit = workspace.view.lit(query, opened.solutions, opened.example, opened.context)
        mask = selected_rows(query, opened.context)
        asked = {each.column for each in query.conditions} - {query.select}
        for row in lit.rows:
            assert row.lit == mask[row.number - 1]
            for column, (_, light) in enumerate(row.cells):
                wanted = "touched" if column == query.select else "condition" if column in asked else ""
                assert light == (wanted if row.lit else "")
    workspace.close()


def test_pieces_put_together_are_the_text_and_rows_shown_fit_the_page() -> None:
    assert pieces("abcdef", [(1, 3)], [(2, 5)]) == (("a", ""), ("bc", "touched"), ("de", "other"), ("f", ""))
    assert pieces("", [(0, 4)]) == ()
    assert shown_places(5, [], 10) == [0, 1, 2, 3, 4]
    assert shown_places(1000, [7, 900], 4) == [0, 1, 7, 900]
    assert [(bar.label, bar.count) for bar in bars([(0, 2), (1, 1), (4, 3), (5, 1)])] == [
        ("0", 2), ("1", 1), ("2", 0), ("3–4", 3), ("5–8", 1),
    ]  # fmt: skip


def test_the_overview_says_what_the_store_says(client: TestClient, data: Path) -> None:
    page = client.get("/")
    counts = json.loads((data / "solutions/manifest.json").read_text())["counts"]
    shown = text_of(page.text)
    assert page.status_code == 200
    assert f"{counts['solutions']:,}" in shown
    assert f"{counts['covered'] / counts['examples']:.1%}" in shown
    assert "While it learned" in shown
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_examples_are_filtered_sorted_and_found_by_id(client: TestClient, run: Path) -> None:
    workspace = Workspace(run)
    sizes = dict(workspace.index.query("SELECT place, size FROM examples"))
    listed = [
        int(each) for each in re.findall(r'data-go href="/example/(\d+)"', client.get("/examples?sort=largest").text)
    ]
    assert len(listed) == listing.PAGE
    assert [sizes[each] for each in listed] == sorted(sizes.values(), reverse=True)[: listing.PAGE]
    second = re.findall(r'data-go href="/example/(\d+)"', client.get("/examples?sort=largest&page=2").text)
    assert len(second) == len(sizes) - listing.PAGE
    row = workspace.index.row(7)
    found = client.get("/examples", params={"find": row.question.upper()})
    assert f'href="/example/{row.place}"' in found.text
    assert "1 example" in text_of(client.get("/examples", params={"find": row.id}).text)
    assert "0 examples" in text_of(client.get("/examples", params={"find": "100%_none"}).text)
    between = client.get("/examples?low=2&high=4").text
    assert all(2 <= sizes[int(each)] <= 4 for each in re.findall(r'data-go href="/example/(\d+)"', between))
    assert client.get("/find", params={"id": row.id}, follow_redirects=False).headers["location"] == "/example/7"
    assert client.get("/find", params={"id": "nobody"}).status_code == 404
    assert client.get("/examples?show=everything").status_code == 422
    workspace.close()


def test_an_example_lists_every_solution_once_over_its_pages(client: TestClient, run: Path) -> None:
    workspace = Workspace(run)
    place = workspace.index.value("SELECT place FROM examples ORDER BY size DESC LIMIT 1")
    opened = workspace.open(place)
    assert client.app.state.scorer.scores(place, 60).complete  # type: ignore[attr-defined]
    for sort in listing.SOLUTION_ORDERS:
        seen: list[str] = []
        for page in range(1, -(-len(opened.solutions) // listing.PAGE) + 1):
            shown = client.get(f"/example/{place}?sort={sort}&page={page}").text
            seen += [html.unescape(each) for each in re.findall(r"data-go [^>]*><code>(.*?)</code>", shown)]
        assert sorted(seen) == sorted(plain_sql(query, opened.context) for query in opened.solutions)
    wanted = max((plain_sql(query, opened.context) for query in opened.solutions), key=len)
    narrow = client.get(f"/example/{place}", params={"find": wanted})
    assert "1 shown" in text_of(narrow.text)
    workspace.close()


def test_solutions_are_ranked_by_the_score_that_is_asked_for(client: TestClient) -> None:
    assert client.app.state.scorer.scores(0, 60).complete  # type: ignore[attr-defined]
    for sort, column in (("solver", 0), ("reconstructor", 1)):
        page = client.get(f"/example/0?sort={sort}").text
        ranks = re.findall(r'<td class="number">(?:<b>([\d,]+)</b>.*?|<small>–</small>)</td>', page)
        own = [int(rank) for rank in ranks[column::2]]
        assert own == list(range(1, len(own) + 1))


def test_deep_links_choose_a_solution_and_its_rival(client: TestClient, run: Path) -> None:
    workspace = Workspace(run)
    opened = workspace.open(0)
    page = text_of(client.get("/example/0?z=1&against=0&sort=simple").text)
    chosen, rival = (plain_sql(opened.solutions[place], opened.context) for place in (1, 0))
    assert re.search(rf"chosen\s*{re.escape(chosen)}", page)
    assert re.search(rf"rival\s*{re.escape(rival)}", page)
    assert client.get("/example/0?z=999999").status_code == 404
    for wrong in ("/example/48", "/example/-1", "/example/x", "/example/0?z=x", "/example/0?sort=y", "/judge/99999"):
        assert client.get(wrong).status_code in (404, 422), wrong
    workspace.close()


def test_requests_from_elsewhere_and_paths_are_refused(client: TestClient) -> None:
    for path in ("/assets/..%2f..%2fpages.py", "/assets/../pages.py", "/assets/%2e%2e/x", "/..%2f..%2fetc/passwd"):
        assert client.get(path).status_code == 404, path
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert (
        client.post("/judge/0", data={"choice": "left"}, headers={"origin": "http://evil.example"}).status_code == 403
    )
    assert client.post("/", data={}).status_code == 405


def test_hostile_texts_are_shown_and_do_nothing(tmp_path: Path) -> None:
    (tmp_path / "evil.csv").write_text(f'"{HOSTILE.replace(chr(34), chr(34) * 2)}",City\n1,"=cmd()|<b>x</b>"\n2,Oslo\n')
    question = f"{HOSTILE} how many in Oslo?"
    write_jsonl(tmp_path / "examples.jsonl", [{"id": f"../{HOSTILE}", "question": question, "answers": [2]}])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "store", table=[tmp_path / "evil.csv"])
    write_jsonl(
        tmp_path / "judge.jsonl",
        [{"id": HOSTILE, "example": HOSTILE, "question": HOSTILE, "context": HOSTILE, "answer": [HOSTILE],
          "left": HOSTILE, "right": HOSTILE, "left_from": HOSTILE, "right_from": HOSTILE}],
    )  # fmt: skip
    with opened_app(Workspace(tmp_path / "store"), sheet=tmp_path / "judge.jsonl") as client:
        assert client.get("/judge/0").status_code == 200
        assert client.post("/judge/0", data={"choice": "left"}).status_code == 200
        for path in ("/", "/examples", f"/examples?find={HOSTILE[:20]}", "/example/0", "/judge", "/judge/0"):
            page = client.get(path)
            assert page.status_code == 200
            assert "window.hacked" in text_of(page.text) or path == "/judge"
            assert not re.search(
                r"<script(?! src=\"/assets/explore.js\" defer>)|<img|<b>x|onerror=h[^&]*\"", page.text
            ), path


@pytest.mark.parametrize("task", ["discrete", "reading"])
def test_runs_on_texts_are_shown_with_their_spans_lit(task: str, tmp_path: Path) -> None:
    run = run_on_texts(tmp_path, task)
    workspace = Workspace(run, gold=tmp_path / "train/gold.jsonl")
    with opened_app(workspace, in_passing=False) as client:
        right = 0
        for place in range(workspace.index.count):
            opened = workspace.open(place)
            gold = workspace.gold_places(opened)
            assert gold is not None
            right += bool(gold)
            for each in range(min(3, len(opened.solutions))):
                solution = opened.solutions[each]
                text = workspace.text(opened, each)
                assert workspace.view.parse(text, opened.example, opened.context) == solution
        assert right > workspace.index.count / 2
        scores = client.app.state.scorer.scores(0, 60)  # type: ignore[attr-defined]
        assert scores.complete
        assert all(math.isfinite(each) for each in scores.reconstructor)
        page = client.get("/example/0?z=0").text
        opened = workspace.open(0)
        lit = re.findall(r'<mark class="touched">(.*?)</mark>', page)
        if task == "reading":
            assert [html.unescape(each) for each in lit] == [opened.solutions[0].text(opened.context)]
        assert lit
        assert client.get("/").status_code == 200


def test_other_examples_are_searched_as_the_run_was(run: Path, data: Path) -> None:
    dev = data / "dev/examples.jsonl"
    store = search_for(run, dev)
    assert store is not None
    assert search_for(run, data / "train/examples.jsonl") is None
    workspace = Workspace(run, solutions=store, examples=dev, gold=data / "dev/gold.jsonl")
    assert workspace.index.count == 6
    assert workspace.store.manifest["options"]["language"]["max_conditions"] == 3
    assert workspace.index.value("SELECT count(trained) FROM examples") == 0
    workspace.index.change("UPDATE examples SET scored = 1", [])
    workspace.close()

    def scored() -> int:
        again = Workspace(run, solutions=store, examples=dev, gold=data / "dev/gold.jsonl")
        found: int = again.index.value("SELECT sum(scored) FROM examples")
        again.close()
        return found

    assert scored() == 6
    os.utime(run / "model/model.json", ns=(1, 1))  # training went on, and saved another model
    assert scored() == 0


def test_a_page_is_made_of_the_scores_at_its_beginning(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring_module, "_MOST_AT_ONCE", 1)
    monkeypatch.setattr(scoring_module, "_LEAST", 1)
    workspace = Workspace(run)
    place = workspace.index.value("SELECT place FROM examples ORDER BY size DESC LIMIT 1")
    with opened_app(workspace, in_passing=False) as client:
        scorer = client.app.state.scorer  # type: ignore[attr-defined]
        shade, go_on = scorer.gains, threading.Event()

        def once_all_are_scored(*asked: Any) -> Any:
            go_on.set()
            assert scorer.scores(place, 60).complete
            return shade(*asked)

        while scorer.scores(place, 0) is None:
            pass
        scorer.turn(lambda model: go_on.wait(60))  # between two solutions
        monkeypatch.setattr(scorer, "gains", once_all_are_scored)
        page = client.get(f"/example/{place}").text
        assert "<small>–</small>" in page
        assert "data-poll" in page  # it comes again for what is missing
        assert "data-poll" not in client.get(f"/example/{place}").text


_SETTLED = """
import re, sys
from pathlib import Path
import torch
from bonafide.explore.memory import settle
def held(): return int(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
numbers = torch.arange(4096.0).reshape(64, 64)
before, product = held(), numbers @ numbers
settle()
after = held()
assert torch.equal(numbers @ numbers, product)
print(before, after)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is counted on Linux")
def test_code_that_only_loading_needed_is_given_back_and_the_rest_still_runs() -> None:
    done = subprocess.run([sys.executable, "-c", _SETTLED], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before / 2


def test_the_command_serves_a_store_until_it_is_interrupted(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bonafide", "explore", str(data / "solutions"), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        where = next(found[1] for line in process.stderr if (found := re.search(r'"address": "(.*?)"', line)))
        with urllib.request.urlopen(where) as page:
            assert b"Every query that reaches the answer" in page.read()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 0
    assert "Traceback" not in rest
    for given, said in (
        ([str(tmp_path)], "neither recipe.json nor manifest.json"),
        ([str(data / "solutions"), str(data)], "is a solution store: other runs can be compared with a run only"),
    ):
        wrong = subprocess.run([*command[:4], *given], capture_output=True, text=True, check=False)
        assert wrong.returncode == 2
        assert said in " ".join(wrong.stderr.split())
