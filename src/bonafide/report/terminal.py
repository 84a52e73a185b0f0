"""Solution stores and errors in the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from bonafide.errors import InvalidFileError
from bonafide.report.inspect import Inspection, bound_sql, histogram
from bonafide.tasks.sql.query import selected_rows
from bonafide.tasks.sql.tables import Table

if TYPE_CHECKING:
    from bonafide.learn.sql import SqlAnswer

_SHOWN_PROBLEMS = 20
_CONTROL = {"Cc", "Cf", "Cs", "Co", "Cn"}
_KEPT = frozenset("\n\u200c\u200d")  # Persian, Hindi and emoji are written with joiners


def problems_table(error: InvalidFileError) -> Grid:
    """Every problem of a file (the first twenty, and how many more)."""
    grid = Grid(title=escape(error.path), title_justify="left", caption_justify="left")
    for column in ("line", "id", "field", "expected", "found"):
        grid.add_column(column, justify="right" if column == "line" else "left", overflow="fold")
    for problem in error.problems[:_SHOWN_PROBLEMS]:
        values = (problem.id, problem.field, problem.expected, problem.found)
        grid.add_row(str(problem.line), *map(_plain, values))
    if len(error.problems) > _SHOWN_PROBLEMS:
        grid.caption = f"and {len(error.problems) - _SHOWN_PROBLEMS:,} more"
    return grid


def figures_table(figures: dict[str, Any]) -> Grid:
    """The figures of a store, each with what it means."""
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    language = figures["options"]["language"]
    rows = [
        ("examples", f"{figures['examples']:,}", ""),
        ("coverage", f"{figures['coverage']:.2%}", "have at least one solution"),
    ]
    if figures["gold_in_set"] is not None:
        note = f"of {figures['gold_examples'] - figures['gold_too_long']:,} gold queries of at most "
        rows.append(("gold in set", f"{figures['gold_in_set']:.2%}", f"{note}{language['max_conditions']} conditions"))
    rows += [
        ("solutions", f"{figures['solutions']:,}", "stored"),
        ("mean size", f"{figures['mean']:,.1f}", "solutions an example"),
        ("median", f"{figures['median']:,.0f}", ""),
        ("90 % below", f"{figures['p90']:,.0f}", ""),
        ("largest", f"{figures['max']:,}", ""),
        (
            "complete",
            f"{figures['complete']:.2%}",
            "of the sets; the others are a uniform sample of their solutions",
        ),
        ("language", language["aggregates"], f"up to {language['max_conditions']} conditions"),
    ]
    if figures["seconds_per_example"] is not None:
        rows.append(("time", f"{figures['seconds_per_example'] * 1000:.2f} ms", "an example, on one core"))
    for name, value, note in rows:
        grid.add_row(f"[bold]{name}[/bold]", value, f"[dim]{note}[/dim]")
    return grid


def histogram_lines(sizes: Any, width: int = 48) -> Text:
    """Sizes of the solution sets as bars."""
    bins = histogram(sizes)
    most = max(count for _, count in bins) or 1
    label_width = max(len(label) for label, _ in bins)
    text = Text("Solutions an example\n", style="bold")
    for label, count in bins:
        bar = "█" * round(width * count / most) or ("▏" if count else "")
        text.append(f"{label:>{label_width}} ")
        text.append(bar, style="red" if label == "0" else "cyan")
        text.append(f" {count:,}\n", style="dim")
    return text


def overview(inspection: Inspection, figures: dict[str, Any], shown: int = 4, solutions: int = 4) -> Group:
    """Figures, histogram, the largest sets, and a few examples with their first solutions."""
    parts: list[RenderableType] = [figures_table(figures), Text(), histogram_lines(inspection.store.sizes)]
    largest = Grid(title="Largest sets", title_justify="left", box=None, show_header=False)
    for name, size in inspection.largest(5):
        largest.add_row(f"{size:,}", _plain(name), _plain(inspection.examples[name].question))
    parts += [largest, Text()]
    for name in inspection.typical(shown):
        parts.append(example_panel(inspection, name, solutions))
    return Group(*parts)


def example_panel(inspection: Inspection, name: str, limit: int | None = None) -> Panel:
    """One example with its solutions as SQL, and the rows each one touches."""
    solutions = inspection.store[name]
    example, table = inspection.examples[name], inspection.table_of(name)
    grid = Grid(box=None, padding=(0, 1, 0, 0))
    grid.add_column("SQL", overflow="fold", ratio=3)
    grid.add_column("rows", overflow="fold", ratio=1, style="dim")
    for query in solutions if limit is None else solutions[:limit]:
        rows = selected_rows(query, table).nonzero()[0].tolist()
        grid.add_row(_plain(bound_sql(query, table)), row_numbers(rows))
    count = f"{solutions.size:,} solution" + ("" if solutions.size == 1 else "s")
    if limit is not None and solutions.size > limit:
        count += f", the first {min(limit, len(solutions))} shown"
    elif not solutions.complete:
        count += f", a uniform sample of {len(solutions):,} stored"
    head = Text(f"{example.question}\n", style="bold")
    head.append(f"answer: {', '.join(map(str, example.answers))}   ", style="green")
    head.append(f"table: {table.id}\n", style="dim")
    return Panel(Group(head, grid), title=_plain(f"{name} · {count}"), title_align="left")


def touched_rows(inspection: Inspection, name: str, limit: int = 12) -> Grid:
    """The rows of the table that any solution of the example touches."""
    table, solutions = inspection.table_of(name), inspection.store[name]
    touched: set[int] = set()
    for query in solutions[:2000]:
        touched.update(selected_rows(query, table).nonzero()[0].tolist())
    grid = Grid(title=_plain(f"Table {table.id}: rows that a solution touches"), title_justify="left")
    grid.add_column("row", justify="right", style="dim")
    for title in table.header:
        grid.add_column(_plain(title), overflow="fold")
    for row in sorted(touched)[:limit]:
        grid.add_row(str(row + 1), *(_plain("" if cell is None else str(cell)) for cell in table.rows[row]))
    if len(touched) > limit:
        grid.caption = f"and {len(touched) - limit:,} more"
    return grid


def table_report(table: Table, shown: int = 5) -> Group:
    """What was read from the user's file: columns, types, what was coerced, the first rows."""
    columns = Grid(title=_plain(f"{table.id}: {len(table.rows):,} rows"), title_justify="left")
    for title in ("column", "type", "what reading it changed", "cells", "for instance"):
        columns.add_column(title, justify="right" if title == "cells" else "left", overflow="fold")
    for name, kind in zip(table.header, table.types, strict=True):
        mine = [each for each in table.coercions if each.column == name]
        columns.add_row(
            _plain(name),
            kind,
            "\n".join(each.kind for each in mine),
            "\n".join(f"{each.count:,}" for each in mine),
            _plain("\n".join(each.example for each in mine)),
        )
    for each in table.coercions:
        if each.column not in table.header:
            columns.add_row(_plain(each.column), "", each.kind, f"{each.count:,}", _plain(each.example))
    first = Grid(title="First rows", title_justify="left")
    for title in table.header:
        first.add_column(_plain(title), overflow="fold")
    for row in table.rows[:shown]:
        first.add_row(*(_plain("" if cell is None else str(cell)) for cell in row))
    return Group(columns, first)


def comparison_table(figures: dict[str, dict[str, float]]) -> Grid:
    """Methods side by side."""
    grid = Grid(title="Learned from the same answers, measured on dev", title_justify="left")
    grid.add_column("method")
    for name in next(iter(figures.values())):
        grid.add_column(name, justify="right")
    for method, row in figures.items():
        grid.add_row(method, *(f"{value:.1%}" for value in row.values()))
    return grid


def evaluation_table(figures: dict[str, Any]) -> Grid:
    """Accuracies with their counts."""
    grid = Grid(title=_plain(f"{figures['method']}: {figures['run']}"), title_justify="left")
    grid.add_column("figure")
    grid.add_column("share", justify="right")
    grid.add_column("of", justify="right", style="dim")

    def row(name: str, accuracy: dict[str, Any]) -> None:
        grid.add_row(name, f"{accuracy['share']:.1%}", f"{accuracy['of']:,}")

    row("right answer", figures["execution"])
    if "f1" in figures:
        grid.add_row("F1", f"{figures['f1']:.1%}", f"{figures['examples']:,}")
    for name, found in figures.get("answer_types", {}).items():
        grid.add_row(f"  {name}", f"{found['execution']['share']:.1%} / {found['f1']:.1%}",
                     f"{found['execution']['of']:,}")  # fmt: skip
    if "logical_form" in figures:
        row("right solution", figures["logical_form"])
        for part in ("slots", "operators", "operands"):
            for name, accuracy in figures.get(part, {}).items():
                row(f"  {name.replace('_', ' ')}{' operands' * (part == 'operands')}", accuracy)
    for part in ("paragraph", "mention"):
        if part in figures:
            row(f"right {part}", figures[part])
    for name, found in figures.get("selection", {}).items():
        row(f"gold is the {name}'s best of its set", found["accuracy"])
    return grid


def predictions_table(question: str, table: Table, predictions: Sequence[SqlAnswer]) -> Group:
    """The queries that a model proposes for a question, best first, with what each returns."""
    grid = Grid(title=_plain(question), title_justify="left")
    for name in ("confidence", "answer", "SQL", "rows"):
        grid.add_column(name, overflow="fold", justify="right" if name == "confidence" else "left")
    for place, each in enumerate(predictions):
        rows = selected_rows(each.query, table).nonzero()[0].tolist()
        answer = "error" if each.answer is None else few(list(map(_shown, each.answer))) or "nothing"
        style = "bold" if place == 0 else "dim"
        grid.add_row(
            f"{each.confidence:.1%}",
            _plain(answer),
            _plain(bound_sql(each.query, table)),
            row_numbers(rows),
            style=style,
        )
    if not predictions:
        return Group(Text("The model finds no query for this question."))
    return Group(grid)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.15g}"
    return "NULL" if value is None else str(value)


def few(shown: Sequence[str], limit: int = 8) -> str:
    """The first of a list, and of how many."""
    return ", ".join(shown[:limit]) + (f", … ({len(shown):,})" if len(shown) > limit else "")


def row_numbers(rows: list[int], limit: int = 8) -> str:
    """Rows as people count them, from 1."""
    return few([str(row + 1) for row in rows], limit) or "none"


def _plain(text: str) -> str:
    """Text of the user's, which must not act as markup or as terminal control."""
    return escape(harmless(text))


def harmless(text: str) -> str:
    """The same without terminal control."""
    return "".join("�" if unicodedata.category(char) in _CONTROL and char not in _KEPT else char for char in text)
