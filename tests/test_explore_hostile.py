"""Hostile texts in real Chromium: whatever a file or a form says is shown as text, runs nothing and moves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import torch

from bonafide.examples import write_jsonl
from bonafide.explore.pages import explorer
from bonafide.explore.workspace import Workspace
from bonafide.learn.trainer import train
from bonafide.search.sql import search_sql
from bonafide.search.text import import_candidates
from bonafide.web.guard import door
from browser import CHROMIUM, Page, browser
from explored import CONTRAST
from served import listening
from tiny_runs import recipe

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")]
torch.set_num_threads(1)

PAYLOADS = [
    "<script>window.hacked = 1; document.title = 'hacked'</script>",
    "<img src=x onerror=\"window.hacked = 2; document.title = 'hacked'\">",
    "\"><svg onload=window.hacked=3><a href=\"javascript:window.hacked=4\">",
    "' autofocus onfocus=window.hacked=5 x='",
    "</textarea></title></code></table><script>window.hacked = 6</script><table>",
    "{{ 7 * 7 }}${7*7}<%= 7 %><!--]]>",
    "</main></body><style>body { display: none }</style><iframe srcdoc='<script>parent.hacked=7</script>'>",
    "=cmd|' /C calc'!A0\u202e<b>" + "w" * 900,
]  # fmt: skip
ALL = " ".join(PAYLOADS)
_UNHURT = """
(() => ({
  hacked: window.hacked ?? null,
  title: document.title.startsWith("hacked"),
  foreign: document.querySelectorAll("main :is(img, iframe, script, style, object, embed, svg[onload])").length,
  handlers: [...document.querySelectorAll("main *")].filter((each) =>
    [...each.attributes].some((one) => one.name.startsWith("on") || one.value.trim().startsWith("javascript:"))).length,
  scripts: [...document.scripts].filter((each) => !each.src.startsWith(location.origin + "/assets/")).length,
  links: document.querySelectorAll("nav a").length,
  visible: document.querySelector("main").getBoundingClientRect().height > 50,
  fits: document.documentElement.scrollWidth <= innerWidth,
}))()
"""

_TURNED = """
(() => [...document.querySelectorAll("main :is(li small, h1 + p, caption)")].filter((node) => {
  const own = [...node.childNodes].filter((each) => each.nodeType === 3 && /[0-9a-z]{2}/.test(each.data)).at(-1);
  if (!own) return false;
  const at = own.data.search(/[0-9a-z]{2}/);
  const [first, second] = [at, at + 1].map((place) => {
    const range = document.createRange();
    range.setStart(own, place);
    range.setEnd(own, place + 1);
    return range.getBoundingClientRect();
  });
  return first.top === second.top && first.left > second.left;
}).map((node) => node.textContent.slice(-30)))()
"""
"""Our own words and numbers that a text beside them turned round."""


def unhurt(links: int) -> dict[str, Any]:
    return {"hacked": None, "title": False, "foreign": 0, "handlers": 0, "scripts": 0, "links": links, "visible": True,
            "fits": True}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A run whose table, header, cells, questions and ids are hostile, and a sheet that is."""
    root = tmp_path_factory.mktemp("tables")
    name = f"../{PAYLOADS[0]}"
    rows = [[payload, place] for place, payload in enumerate(PAYLOADS)]
    table = {"id": name, "header": [PAYLOADS[1], PAYLOADS[4]], "types": ["text", "real"], "rows": rows}
    write_jsonl(root / "train/tables.jsonl", [table])
    write_jsonl(
        root / "train/examples.jsonl",
        [
            {"id": f"{place}{payload}", "question": f"{ALL} {payload}?", "context": name, "answers": [place]}
            for place, payload in enumerate(PAYLOADS)
        ],
    )
    search_sql(root / "train/examples.jsonl", root / "solutions")
    train(recipe(root, "mimax", data={"dev": ""}, train={"epochs": 1.0}), root / "<run>")
    said = dict.fromkeys(("question", "context", "left", "right", "left_from", "right_from"), ALL)
    query = f'SELECT "{PAYLOADS[4].replace(chr(34), chr(34) * 2)}" FROM "x"'
    write_jsonl(
        root / "judge.jsonl",
        [
            {**said, "id": ALL, "example": "nobody", "answer": [ALL]},
            {**said, "id": "2", "example": f"0{PAYLOADS[0]}", "answer": PAYLOADS, "left": query},
        ],
    )
    workspace = Workspace(root / "<run>")
    app = explorer(workspace, door("127.0.0.1"), sheet=root / "judge.jsonl", judge=PAYLOADS[1])
    with listening(app) as where:
        yield where


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of hostile candidates, questions and contexts."""
    root = tmp_path_factory.mktemp("texts")
    line = {"id": PAYLOADS[0], "question": ALL, "context": ALL, "answer": PAYLOADS[2], "candidates": [*PAYLOADS, ALL]}
    write_jsonl(root / "all.jsonl", [line])
    import_candidates(root / "all.jsonl", root / "data")
    with listening(explorer(Workspace(root / "data/solutions"), door("127.0.0.1"))) as where:
        yield where


def test_hostile_tables_questions_ids_and_sheets_do_nothing(page: Page, tables: str) -> None:
    page.complaints.clear()
    for width in (360, 1280):
        page.size(width, 800)
        for path in ("", "examples", "example/0", "example/5", "judge/0", "judge/1", "judge", "ask?example=0"):
            page.open(f"{tables}/{path}")
            page.wait("document.readyState === 'complete' && document.querySelector('main:not(:has([data-poll]))')")
            assert page.run(_UNHURT) == unhurt(4), (width, path)
    page.open(f"{tables}/example/0")
    assert page.run("document.querySelector('.question').textContent") == f"{ALL} {PAYLOADS[0]}?"
    cells = page.run("[...document.querySelectorAll('.data td:nth-child(2)')].map((each) => each.textContent)")
    assert cells == PAYLOADS
    assert page.complaints == []


def test_hostile_filters_and_links_do_nothing(page: Page, tables: str) -> None:
    page.size(1280, 800)
    page.complaints.clear()
    for payload in PAYLOADS:
        page.open(f"{tables}/examples")
        page.run("document.getElementById('find').focus()")
        page.type(payload[:200])
        page.press("Enter")
        page.wait("location.search.includes('find=') && document.readyState === 'complete'")
        assert page.run("document.getElementById('find').value") == payload[:200]
        assert page.run(_UNHURT) == unhurt(4), payload
    assert page.complaints == []


def test_what_is_asked_and_brought_does_nothing(page: Page, tables: str, tmp_path: Path) -> None:
    page.size(1280, 800)
    page.complaints.clear()
    rows = [f'"{payload.replace(chr(34), chr(34) * 2)}",{place}' for place, payload in enumerate(PAYLOADS)]
    head = '"' + PAYLOADS[2].replace('"', '""') + '",Units'
    (tmp_path / "evil.csv").write_text("\n".join([head, *rows]) + "\n")
    for bring in ("pick", "paste", "upload"):
        page.open(f"{tables}/ask")
        page.run("document.getElementById('question').focus()")
        page.type(ALL[:500])
        if bring == "paste":
            page.run("document.querySelector('details').open = true; document.getElementById('text').focus()")
            page.type((tmp_path / "evil.csv").read_text())
        elif bring == "upload":
            page.choose_file("#file", tmp_path / "evil.csv")
        page.run("document.getElementById('ask').requestSubmit()")
        page.wait("document.querySelector('#answer code, #answer [role=alert]')")
        assert page.run("document.querySelector('#answer [role=alert]')") is None, bring
        shown = page.run("[...document.querySelectorAll('#answer td')].map((each) => each.textContent)")
        assert PAYLOADS[0] in shown, bring
        assert page.run(_UNHURT) == unhurt(4), bring
    assert page.complaints == []


def test_a_text_that_turns_the_direction_turns_nothing_beside_it(page: Page, tmp_path: Path) -> None:
    turned = "how many \u202e apples?"
    line = {"question": turned, "answer": turned, "candidates": [f"{number}" for number in range(14)]}
    write_jsonl(tmp_path / "all.jsonl", [line])
    import_candidates(tmp_path / "all.jsonl", tmp_path / "data")
    write_jsonl(tmp_path / "tables.jsonl", [{"id": turned, "header": ["a"], "types": ["text"], "rows": [["x"]] * 12}])
    write_jsonl(tmp_path / "examples.jsonl", [{"id": "q", "question": "x?", "context": turned, "answers": ["x"]}])
    search_sql(tmp_path / "examples.jsonl", tmp_path / "solutions")
    page.size(1280, 800)
    for store in ("data/solutions", "solutions"):
        with listening(explorer(Workspace(tmp_path / store), door("127.0.0.1"))) as where:
            for path in ("", "example/0"):
                page.open(f"{where}/{path}")
                assert page.run(_TURNED) == [], (store, path)


def test_hostile_candidates_do_nothing(page: Page, texts: str) -> None:
    page.complaints.clear()
    for width, dark in ((360, True), (1280, False)):
        page.size(width, 800, dark)
        for path in ("", "examples", "example/0", "example/0?z=8&against=4", "judge"):
            page.open(f"{texts}/{path}")
            assert page.run(_UNHURT) == unhurt(3), (width, path)
            assert page.run(CONTRAST) == [], (dark, path)
    page.open(f"{texts}/example/0")
    assert page.run("document.querySelectorAll('mark.copied').length") > 1
    shown = page.run("[...document.querySelectorAll('.solutions a[data-go] code')].map((each) => each.textContent)")
    assert json.dumps(PAYLOADS[0]) in map(json.dumps, shown)
    assert len(shown) == len(PAYLOADS) + 1
    assert page.complaints == []
