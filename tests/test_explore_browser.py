"""The explorer in real Chromium: it loads, filters, goes and judges by keys, answers, and the console stays silent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

import torch
import uvicorn

from bonafide.explore.pages import explorer
from bonafide.explore.workspace import Workspace
from bonafide.learn.trainer import train
from bonafide.web.guard import door
from bonafide.web.running import address, bind
from browser import CHROMIUM, Page, browser
from explored import CONTRAST
from tiny_runs import recipe, write_data

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")]
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("data"))
    for method in ("mimax", "hard-em"):
        train(recipe(folder, method), folder / ("run" if method == "mimax" else method))
    return folder


@pytest.fixture(scope="module")
def where(root: Path) -> Iterator[str]:
    """The explorer of a small run, its examples all scored."""
    workspace = Workspace(root / "run", gold=root / "train/gold.jsonl")
    app = explorer(workspace, door("127.0.0.1"), judge="ada")
    bound = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    scorer = app.state.scorer
    with scorer._wake:
        assert scorer._wake.wait_for(lambda: workspace.index.value("SELECT min(scored) FROM examples") == 1, 60)
    yield address(bound)
    server.should_exit = True
    thread.join()
    bound.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def test_pages_load_without_complaint_at_every_width_light_and_dark(page: Page, where: str) -> None:
    for width in (360, 1280):
        for dark in (False, True):
            page.size(width, 800, dark)
            for path in ("", "examples?show=disagree", "example/0", "judge", "ask", "ask?example=0"):
                page.open(where + path)
                assert page.run("document.querySelectorAll('main h1').length") == 1
                assert page.run("document.documentElement.scrollWidth <= innerWidth"), (width, path)
                assert page.run(CONTRAST) == [], (width, dark, path)
                fields = "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
                assert page.run(f"{fields}.filter((each) => !each.labels.length).length") == 0
    assert page.complaints == []


def test_examples_are_filtered_and_opened_by_keys_alone(page: Page, where: str) -> None:
    page.size(1280, 800)
    page.open(f"{where}examples")
    page.press("/")
    assert page.run("document.activeElement.id") == "find"
    page.type("many")
    page.press("Enter")
    page.wait("location.search.includes('find=many')")
    page.wait("document.readyState === 'complete'")
    rows = page.run("[...document.querySelectorAll('a[data-go]')].map((each) => each.textContent)")
    assert rows
    assert all("many" in each.lower() for each in rows)
    page.press("j")
    page.press("j")
    page.press("k")
    assert page.run("document.activeElement === document.querySelector('a[data-go]')")
    page.press("Enter")
    page.wait("location.pathname.startsWith('/example/') && document.readyState === 'complete'")
    assert page.run("document.querySelector('.question').textContent") == rows[0]
    assert page.complaints == []


def test_a_solution_and_its_rival_are_chosen_by_keys_and_the_link_says_so(page: Page, where: str) -> None:
    page.size(1280, 800)
    page.open(f"{where}examples?show=many&sort=largest")
    page.press("j")
    page.press("Enter")
    page.wait("location.pathname.startsWith('/example/') && document.readyState === 'complete'")
    for _ in range(3):
        page.press("j")
    text = page.run("document.activeElement.textContent")
    page.press("Enter")
    page.wait(f"document.querySelector('.versus dd code')?.textContent === {json.dumps(text)}")
    assert page.run("document.querySelectorAll('.tokens span').length") > 3
    assert page.run("document.querySelectorAll('.data td.touched').length") > 0
    before = page.run("location.href")
    page.press("j")
    page.press("r")
    page.wait("location.search.includes('against=') && location.href !== " + json.dumps(before))
    page.open(page.run("location.href"))  # a deep link shows the same
    assert page.run("document.querySelector('.versus dd code').textContent") == text
    page.press("n")
    page.wait("document.readyState === 'complete' && !location.search")
    assert page.complaints == []


def test_pairs_are_judged_by_keys_and_every_key_is_one_line_on_the_disk(page: Page, where: str, root: Path) -> None:
    page.size(1280, 800)
    page.open(f"{where}judge")
    judged = root / "run/explore/judge.judged.jsonl"
    pairs = [json.loads(line) for line in (root / "run/explore/judge.jsonl").read_text().splitlines()]
    assert len(pairs) > 2
    assert page.run("document.querySelector('main').textContent.includes('reconstructor')") is False  # blind
    for count, (key, choice) in enumerate((("1", "left"), ("u", "unsure"), ("b", "both")), start=1):
        at = page.run("location.pathname")
        page.press(key)
        page.wait(f"location.pathname !== {json.dumps(at)} && document.readyState === 'complete'")
        lines = [json.loads(line) for line in judged.read_text().splitlines()]
        assert len(lines) == count
        assert (lines[-1]["id"], lines[-1]["choice"], lines[-1]["judge"]) == (pairs[count - 1]["id"], choice, "ada")
    page.run("document.querySelector('.results').open = true")
    assert "95 % interval" in page.run("document.querySelector('.results').textContent")
    assert page.complaints == []


def test_a_person_asks_about_the_table_of_an_example_and_about_another(page: Page, where: str, tmp_path: Path) -> None:
    page.size(1280, 800)
    page.open(f"{where}example/0")
    question = page.run("document.querySelector('.question').textContent")
    page.run("document.querySelector('a[href^=\"/ask?\"]').click()")
    page.wait("location.pathname === '/ask' && document.readyState === 'complete'")
    assert page.run("document.getElementById('question').value") == question
    page.run("document.getElementById('question').focus()")
    page.press("Enter")
    page.wait("document.querySelector('#answer .result')")
    assert "SELECT" in page.run("document.querySelector('#answer code').textContent")
    assert page.run("document.querySelectorAll('#answer tbody tr').length") > 4  # alternatives, and the table
    assert page.run(CONTRAST) == []
    (tmp_path / "sales.csv").write_text("City,Units\nOslo,3\nLyon,1\n")
    page.choose_file("#file", tmp_path / "sales.csv")
    assert page.run("document.getElementById('table').value") == ""
    page.run("document.getElementById('question').focus()")
    page.press("Enter")
    page.wait("document.querySelector('#answer caption')?.textContent.startsWith('table')")
    assert page.run("[...document.querySelectorAll('#answer table:last-of-type td')].at(-2).textContent") == "Lyon"
    assert page.complaints == []


def test_methods_are_compared_on_the_overview(page: Page, where: str) -> None:
    page.size(1280, 800)
    page.open(where)
    page.wait("document.querySelector('#methods')")
    names = page.run("[...document.querySelectorAll('#methods ~ .scroll tbody th')].map((each) => each.textContent)")
    assert names == ["mimax", "hard-em"]
    assert page.run("document.querySelectorAll('#methods ~ .charts figure polyline').length") >= 4
    assert page.complaints == []
