"""The explorer's app over small runs, its model loaded."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from bonafide.examples import write_jsonl
from bonafide.explore.pages import explorer
from bonafide.explore.scoring import Scorer
from bonafide.explore.workspace import Workspace
from bonafide.learn.recipe import recipe_from
from bonafide.learn.trainer import train
from bonafide.search.discrete import search_discrete
from bonafide.search.reading import search_reading
from bonafide.search.text import import_candidates, search_text
from bonafide.synth.candidates import generate_candidates
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from bonafide.web.guard import door

CONTRAST = """
(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = numbers(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const node of document.querySelectorAll("main *, nav *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest("svg, .hidden, option")) continue;
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push([node.tagName, node.className, node.textContent.slice(0, 30), ratio.toFixed(2)]);
  }
  return low;
})()
"""
"""Texts of a page whose colours are too alike, with their contrast."""


@contextmanager
def opened_app(workspace: Workspace, **options: Any) -> Iterator[TestClient]:
    app = explorer(workspace, door("127.0.0.1"), **options)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        scorer: Scorer = app.state.scorer
        scorer.scores(0, 0)  # the model is loaded at once
        with scorer._wake:
            assert scorer._wake.wait_for(lambda: scorer.state != "loading", 60)
        yield client


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def run_on_texts(tmp_path: Path, task: str) -> Path:
    """A small run on passages, documents or candidates, trained for a moment, with its gold in ``train``."""
    if task == "discrete":
        write_discrete_benchmark(tmp_path / "train", seed=1, passages=2, questions=6, scenes=("games",))
        search_discrete(tmp_path / "train/examples.jsonl", tmp_path / "solutions")
    elif task == "text":
        write_jsonl(tmp_path / "all.jsonl", generate_candidates(12, 1, 0.5, 6))
        import_candidates(tmp_path / "all.jsonl", tmp_path / "train")
        search_text(tmp_path / "train/examples.jsonl", tmp_path / "solutions")
    else:
        write_reading_benchmark(tmp_path / "train", seed=1, documents=3, questions=4, topics=("ships",))
        search_reading(tmp_path / "train/examples.jsonl", tmp_path / "solutions")
    more = {} if task == "text" else {"head_width": 16, "window": 64}
    values = {
        "data": {"task": task, "root": str(tmp_path), "solutions": str(tmp_path / "solutions"), "dev": ""},
        "solver": {"encoder": "scratch", "layers": 1, "width": 16, "heads": 2, **more},
        "reconstructor": {"kind": "t-scratch", "layers": 1, "width": 16, "heads": 2},
        "objective": {"method": "mimax", "options": {"switch": 0.5}},
        "train": {"epochs": 1.0, "batch": 8},
    }  # fmt: skip
    train(recipe_from(values, "a test"), tmp_path / "run")
    return tmp_path / "run"
