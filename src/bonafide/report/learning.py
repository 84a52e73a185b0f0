"""Ways of learning from the same answers, side by side: one page that shows what each learned, and why.

Figures are of the runs themselves; gold is used here alone, after training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bonafide.examples import Example
from bonafide.files import write_whole
from bonafide.learn.saved import Model
from bonafide.reconstruct.layout import tokenise
from bonafide.rendering import RenderedSet
from bonafide.report.charts import line_chart
from bonafide.report.page import STYLE
from bonafide.report.predicted import accepted_answers
from bonafide.sealed import read_log

GOLD = "gold"
CASE_STYLE = """
.right { color: var(--good); font-weight: 600; } .wrong { color: var(--none); font-weight: 600; }
.tokens span { border-radius: .2rem; padding: 0 .05rem; } td.figure { text-align: right; }
"""
_MORE_STYLE = """
figure { margin: .8rem 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
svg line.grid { stroke: var(--line); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
"""


@dataclass(frozen=True)
class Learned:
    """One method: its run, its figures on dev, what it predicts there, and what was selected while it learned."""

    name: str
    run: Path
    figures: Mapping[str, float]
    predicted: Mapping[str, Any]  # by example: a solution, or None
    over_time: Sequence[Mapping[str, float]]

    @property
    def row(self) -> dict[str, float]:
        """The figures of the comparison."""
        return {**self.figures, "trained on gold at the end": self.over_time[-1].get("selected", 0.0)}


@dataclass(frozen=True)
class Entry:
    """A solution on the page: whose, as text, whether it is gold's (None: not known), as the reconstructor reads it."""

    name: str
    text: str
    right: bool | None
    rendered: RenderedSet


@dataclass(frozen=True)
class Shown:
    """An example of the page: gold, and what each method predicts."""

    example: Example
    entries: Sequence[Entry]


@dataclass(frozen=True)
class Words:
    """How a task speaks on the page: what a context is, what a solution is, and which operations are charted."""

    contexts: str
    solution: str
    operations: str
    charted: tuple[str, ...]


def write_learning_page(
    path: Path,
    methods: Sequence[Learned],
    shown: Sequence[Shown],
    judge: Model,
    words: Words,
    about: str,
) -> None:
    """Write the page; ``judge`` is the model whose reconstructor explains the choices."""
    names = list(methods[0].row)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{escape(method.name)}</th>"
        + "".join(f"<td class=figure>{method.row[name]:.1%}</td>" for name in names)
        + "</tr>"
        for method in methods
    )
    charts = [
        line_chart(
            "Solutions that trained the solver and are gold (train)",
            {m.name: [(row["epoch"], row.get("selected", 0.0)) for row in m.over_time] for m in methods},
        ),
        line_chart("Right answers on dev", {m.name: _dev_execution(m.run) for m in methods}),
        *(line_chart(f"{words.operations} that {m.name} trained on", _mix(m.run, words.charted)) for m in methods),
    ]
    articles = "".join(article(each, judge, words.solution) for each in shown)
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Right for the right reasons?</title><style>{STYLE}{_MORE_STYLE}{CASE_STYLE}</style></head><body>
<h1>Right for the right reasons?</h1>
<p class="note">{escape(about)}</p>
<p>All methods saw the same questions, the same {words.contexts} and the same answers, and no {words.solution}.
<b>Right answer</b> is whether the predicted {words.solution} returns the answer on dev; <b>right solution</b> is
whether it is the {words.solution} that the question means.</p>
<article><table><thead><tr><th>method</th>{head}</tr></thead><tbody>{rows}</tbody></table></article>
<div class="charts">{"".join(charts)}</div>
<h2>What each method predicts</h2>
<p class="note">The score is log P(question given {words.solution}) under the reconstructor: how well the question can
be reconstructed from the {words.solution}. Words are shaded where the last method's {words.solution} explains them
better (blue) or worse (red) than the first method's.</p>
{articles}
</body></html>
"""
    with write_whole(path) as stream:
        stream.write(html.encode())


def article(shown: Shown, judge: Model, solution: str) -> str:
    """An example as HTML; ``solution`` is what the task calls one. The question is shaded by what tells them apart."""
    scores = {each.name: _token_scores(judge, shown.example.question, each.rendered) for each in shown.entries}
    rows = []
    for entry in shown.entries:
        mark = f'<span class="{"right" if entry.right else "wrong"}">{"✓" if entry.right else "✗"}</span> '
        rows.append(
            f"<tr><td>{'' if entry.name == GOLD or entry.right is None else mark}{escape(entry.name)}</td>"
            f"<td><code>{escape(entry.text)}</code></td>"
            f"<td class=figure>{float(scores[entry.name][1].sum()):.1f}</td></tr>"
        )
    methods = [each.name for each in shown.entries if each.name != GOLD]
    question = escape(shown.example.question)
    if len(methods) > 1:
        question = _shaded(scores[methods[-1]][0], scores[methods[-1]][1] - scores[methods[0]][1])
    answer = accepted_answers(shown.example)
    return (
        f'<article><h3 class="tokens">{question}</h3>'
        f"<p class=note><span class=answer>answer: {escape(answer)}</span> · {escape(shown.example.id)}</p>"
        f"<table><thead><tr><th></th><th>{escape(solution)}</th><th>score</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></article>"
    )


def _token_scores(
    judge: Model, question: str, rendered: RenderedSet
) -> tuple[list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """The question's tokens as text, and the log-probability of each given the solution."""
    assert judge.reconstructor is not None
    tokenizer = judge.reconstructor_tokenizer
    layout = tokenise(rendered, question, tokenizer)
    with torch.no_grad():
        batch = judge.reconstructor.batch([layout], [np.zeros(1, dtype=np.int64)])
        scores = judge.reconstructor.token_log_prob(batch, full_precision=True)[0].double().cpu().numpy()
    read = layout.question[: judge.reconstructor.markers.positions]  # what is longer is not scored
    words = [tokenizer.decode([token]) for token in read.tolist()[:-1]]
    return words, scores[: len(words)]


def _shaded(words: Sequence[str], gain: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    most = max(1.0, float(np.abs(gain).max(initial=0.0)))
    parts = []
    for word, each in zip(words, gain.tolist(), strict=True):
        strength = min(0.75, abs(each) / most)
        colour = f"rgba(47,111,179,{strength:.2f})" if each > 0 else f"rgba(179,64,47,{strength:.2f})"
        parts.append(f'<span style="background:{colour}" title="{each:+.2f}">{escape(word)}</span>')
    return "".join(parts)


def choose_examples(
    methods: Sequence[Learned],
    examples: Sequence[Example],
    gold: Mapping[str, Any],
    entry: Callable[[str, Example, Any, bool], Entry],
    count: int = 10,
) -> list[Shown]:
    """Examples on which the methods part: first those that one gets right and the other does not.

    ``gold`` are solutions by example; ``entry`` makes what is shown of (name, example, solution, whether it is right).
    """
    candidates = []
    for example in examples:
        made = {method.name: method.predicted.get(example.id) for method in methods}
        right = {each == gold[example.id] for each in made.values()}
        different = any(one != other for one, other in combinations(made.values(), 2))
        candidates.append((-2 * len(right) - different, example.id, example, made))
    return [
        Shown(
            example,
            [
                entry(GOLD, example, gold[example.id], True),
                *(
                    entry(name, example, each, each == gold[example.id])
                    for name, each in made.items()
                    if each is not None
                ),
            ],
        )
        for _, _, example, made in sorted(candidates, key=lambda each: each[:2])[:count]
    ]


def _dev_execution(run: Path) -> list[tuple[float, float]]:
    return [(entry["epoch"], entry["evaluation"]["dev_execution"]) for entry in _evaluations(run)]


def _mix(run: Path, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    entries = _evaluations(run)
    return {name: [(each["epoch"], each["evaluation"][f"selected_{name}"]) for each in entries] for name in names}


def _evaluations(run: Path) -> list[dict[str, Any]]:
    return [entry for entry in read_log(run / "metrics.jsonl") if "evaluation" in entry]
