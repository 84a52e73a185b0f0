"""Two ways of learning from the same answers, side by side: one page that shows what each learned, and why.

Figures are of the runs themselves; gold is used here alone, after training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bonafide.examples import Example, Gold
from bonafide.files import write_whole
from bonafide.learn.saved import Model
from bonafide.reconstruct.layout import tokenise
from bonafide.report.charts import line_chart
from bonafide.report.inspect import bound_sql
from bonafide.report.page import STYLE
from bonafide.report.runs import Evaluation
from bonafide.tasks.sql.query import Query, parse_query
from bonafide.tasks.sql.rendering import rendered_query
from bonafide.tasks.sql.tables import Table

_MORE_STYLE = """
figure { margin: .8rem 0; } figcaption { font-weight: 600; margin-bottom: .3rem; }
svg line.grid { stroke: var(--line); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; }
.right { color: var(--good); font-weight: 600; } .wrong { color: var(--none); font-weight: 600; }
.tokens span { border-radius: .2rem; padding: 0 .05rem; } td.figure { text-align: right; }
"""


@dataclass(frozen=True)
class Learned:
    """One method: its run, what it predicts on dev, and what was selected while it learned."""

    name: str
    run: Path
    evaluation: Evaluation
    over_time: Sequence[Mapping[str, float]]

    @property
    def row(self) -> dict[str, float]:
        """The figures of the comparison."""
        figures = self.evaluation.figures
        return {
            "right answer": figures["execution"]["share"],
            "right solution": figures["logical_form"]["share"],
            "right aggregate": figures["slots"]["aggregate"]["share"],
            "gold chosen from the set": figures["selection"]["solver"]["accuracy"]["share"],
            "trained on gold at the end": self.over_time[-1].get("selected", 0.0),
        }


@dataclass(frozen=True)
class Shown:
    """An example of the page: what each method predicts, and how well the question follows from each."""

    example: Example
    table: Table
    gold: Query
    predicted: dict[str, Query | None]


def write_learning_page(
    path: Path,
    methods: Sequence[Learned],
    shown: Sequence[Shown],
    judge: Model,
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
        *(
            line_chart(f"Aggregates that {m.name} trained on", _mix(m.run, ("none", "max", "min", "count")))
            for m in methods
        ),
    ]
    articles = "".join(_article(each, judge) for each in shown)
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Right for the right reasons?</title><style>{STYLE}{_MORE_STYLE}</style></head><body>
<h1>Right for the right reasons?</h1>
<p class="note">{escape(about)}</p>
<p>Both methods saw the same questions, the same tables and the same answers, and no query. <b>Right answer</b> is
whether the predicted query returns the answer on dev; <b>right solution</b> is whether it is the query that the
question means.</p>
<article><table><thead><tr><th>method</th>{head}</tr></thead><tbody>{rows}</tbody></table></article>
<div class="charts">{"".join(charts)}</div>
<h2>What each method predicts</h2>
<p class="note">The score is log P(question given query) under the reconstructor: how well the question can be
reconstructed from the query. Words are shaded where the last method's query explains them better (blue) or
worse (red) than the first method's.</p>
{articles}
</body></html>
"""
    with write_whole(path) as stream:
        stream.write(html.encode())


def _article(shown: Shown, judge: Model) -> str:
    queries = {"gold": shown.gold, **{name: query for name, query in shown.predicted.items() if query is not None}}
    scores = {name: _token_scores(judge, shown, query) for name, query in queries.items()}
    rows = []
    for name, query in queries.items():
        right = query == shown.gold
        mark = (
            "" if name == "gold" else f'<span class="{"right" if right else "wrong"}">{"✓" if right else "✗"}</span> '
        )
        total = float(scores[name][1].sum())
        rows.append(
            f"<tr><td>{mark}{escape(name)}</td><td><code>{escape(bound_sql(query, shown.table))}</code></td>"
            f"<td class=figure>{total:.1f}</td></tr>"
        )
    first, last = next(iter(shown.predicted)), list(shown.predicted)[-1]
    words = escape(shown.example.question)
    if first in scores and last in scores:
        words = _shaded(scores[last][0], scores[last][1] - scores[first][1])
    answer = ", ".join(map(str, shown.example.answers))
    return (
        f'<article><h3 class="tokens">{words}</h3><p class=note><span class=answer>answer: {escape(answer)}</span> · '
        f"{escape(shown.example.id)}</p><table><thead><tr><th></th><th>query</th><th>score</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></article>"
    )


def _token_scores(judge: Model, shown: Shown, query: Query) -> tuple[list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """The question's tokens as text, and the log-probability of each given the query."""
    assert judge.reconstructor is not None
    verbalised = judge.about["recipe"]["reconstructor"]["verbalised"]
    tokenizer = judge.reconstructor_tokenizer
    layout = tokenise(rendered_query(query, shown.table, verbalised), shown.example.question, tokenizer)
    with torch.no_grad():
        batch = judge.reconstructor.batch([layout], [np.zeros(1, dtype=np.int64)])
        scores = judge.reconstructor.token_log_prob(batch, full_precision=True)[0].double().cpu().numpy()
    words = [tokenizer.decode([token]) for token in layout.question.tolist()[:-1]]
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
    table_of: Any,
    gold: Mapping[str, Gold],
    count: int = 10,
) -> list[Shown]:
    """Examples on which the methods part: first those that one gets right and the other does not."""
    predicted = {
        method.name: {each.example: each.query for each in method.evaluation.predictions} for method in methods
    }
    candidates = []
    for example in examples:
        table = table_of(example)
        query = parse_query(gold[example.id].solution, table)
        made = {name: queries[example.id] for name, queries in predicted.items()}
        right = [each == query for each in made.values()]
        interest = (len(set(right)) > 1) * 2 + (len(set(made.values())) > 1)
        candidates.append((-interest, example.id, Shown(example, table, query, made)))
    return [shown for _, _, shown in sorted(candidates, key=lambda each: each[:2])[:count]]


def _dev_execution(run: Path) -> list[tuple[float, float]]:
    return [(entry["epoch"], entry["evaluation"]["dev_execution"]) for entry in _evaluations(run)]


def _mix(run: Path, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    entries = _evaluations(run)
    return {name: [(each["epoch"], each["evaluation"][f"selected_{name}"]) for each in entries] for name in names}


def _evaluations(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if "evaluation" in entry]
