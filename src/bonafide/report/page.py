"""A solution store as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from bonafide.files import write_whole
from bonafide.report.inspect import Inspection, bound_sql, histogram
from bonafide.report.terminal import row_numbers
from bonafide.tasks.sql.query import selected_rows

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5c6675; --line: #d9dee6; --bar: #2f6fb3; --none: #b3402f;
  --paper: #fff; --panel: #f6f8fa; --good: #1c6b3c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #a2abb8; --line: #384150; --bar: #6ea8e6;
  --none: #e6806e; --paper: #14181f; --panel: #1d232c; --good: #7fd1a0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 62rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p.note { color: var(--soft); margin: .2rem 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; margin: 1.2rem 0; }
dl div { background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .8rem; } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg text.count { fill: var(--soft); } svg rect { fill: var(--bar); } svg rect.none { fill: var(--none); }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem; margin: .9rem 0; overflow-x: auto; }
article h3 { font-size: 1rem; margin: 0; } .answer { color: var(--good); unicode-bidi: isolate; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; margin-top: .5rem; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-top: 1px solid var(--line); vertical-align: top; }
code { font: .82rem ui-monospace, monospace; overflow-wrap: anywhere; } td.number { text-align: right; }
"""


def write_page(inspection: Inspection, figures: dict[str, Any], path: Path) -> None:
    """Write figures, histogram, largest sets and a few examples as one page."""
    language = figures["options"]["language"]
    tiles = [
        ("examples", f"{figures['examples']:,}"),
        ("coverage", f"{figures['coverage']:.2%}"),
        ("mean size", f"{figures['mean']:,.1f}"),
        ("median", f"{figures['median']:,.0f}"),
        ("90 % below", f"{figures['p90']:,.0f}"),
        ("largest", f"{figures['max']:,}"),
        ("complete sets", f"{figures['complete']:.2%}"),
    ]
    if figures["gold_in_set"] is not None:
        tiles.insert(2, ("gold in set", f"{figures['gold_in_set']:.2%}"))
    if figures["seconds_per_example"] is not None:
        tiles.append(("time an example", f"{figures['seconds_per_example'] * 1000:.2f} ms"))
    body = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    largest = "".join(
        f"<tr><td class=number>{size:,}</td><td>{escape(name)}</td>"
        f"<td>{escape(inspection.examples[name].question)}</td></tr>"
        for name, size in inspection.largest(10)
    )
    examples = "".join(_example(inspection, name) for name in inspection.typical(8))
    html = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Solution sets</title><style>{STYLE}</style></head><body>
<h1>Every query that reaches the answer</h1>
<p class="note">{escape(language["aggregates"])} aggregates, up to {language["max_conditions"]} conditions;
{figures["solutions"]:,} solutions stored. Coverage is the share of examples with at least one solution.</p>
<dl>{body}</dl>
<h2>Solutions an example</h2>
{_bars(histogram(inspection.store.sizes))}
<h2>Largest sets</h2><table><thead><tr><th>solutions</th><th>example</th><th>question</th></tr></thead>
<tbody>{largest}</tbody></table>
<h2>A few examples, from small sets to large</h2>{examples}
</body></html>
"""
    with write_whole(path) as stream:
        stream.write(html.encode())


def _bars(bins: list[tuple[str, int]]) -> str:
    most = max(count for _, count in bins) or 1
    rows = []
    for place, (label, count) in enumerate(bins):
        top = 4 + place * 24
        width = 560 * count / most
        kind = ' class="none"' if label == "0" else ""
        rows.append(
            f'<text x="150" y="{top + 14}" text-anchor="end">{escape(label)}</text>'
            f'<rect{kind} x="160" y="{top}" width="{width:.1f}" height="18" rx="3"/>'
            f'<text class="count" x="{168 + width:.1f}" y="{top + 14}">{count:,}</text>'
        )
    height = 8 + 24 * len(bins)
    label = "How many examples have how many solutions"
    return f'<svg viewBox="0 0 800 {height}" role="img" aria-label="{label}">{"".join(rows)}</svg>'


def _example(inspection: Inspection, name: str, limit: int = 8) -> str:
    solutions, example = inspection.store[name], inspection.examples[name]
    table = inspection.table_of(name)
    rows = "".join(
        f"<tr><td><code>{escape(bound_sql(query, table))}</code></td>"
        f"<td>{row_numbers(selected_rows(query, table).nonzero()[0].tolist())}</td></tr>"
        for query in solutions[:limit]
    )
    more = f", the first {limit} shown" if solutions.size > limit else ""
    number = f"{solutions.size:,} solution" + ("" if solutions.size == 1 else "s")
    answer = ", ".join(map(str, example.answers))
    return (
        f"<article><h3>{escape(example.question)}</h3><p class=note><span class=answer>answer: {escape(answer)}</span>"
        f" · {escape(name)} · table {escape(table.id)} · {number}{more}</p>"
        f"<table><thead><tr><th>SQL</th><th>rows</th></tr></thead><tbody>{rows}</tbody></table></article>"
    )
