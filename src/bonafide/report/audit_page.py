"""An audit for people: tables for the terminal, and one page with the figures, the kinds and the cases."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from bonafide.report.audit import Audit, Audited
from bonafide.report.compare_page import write_report
from bonafide.report.predicted import accepted_answers, shown_answer
from bonafide.report.spurious import meaning
from bonafide.report.statistics import wilson
from bonafide.report.tabled import Tabled, percent

_SHOWN = 20


def tables(audit: Audit) -> list[Tabled]:
    """The figures, the kinds, and the labels that look wrong."""
    made = [_figures(audit)]
    if audit.kinds:
        made.append(_kinds(audit))
    if audit.labels:
        made.append(_labels(audit))
    return made


def described(audit: Audit) -> str:
    """What was audited, in a sentence."""
    by = (
        "Solutions are held against gold."
        if audit.has_gold
        else "There is no gold: figures marked as estimates come from a reconstructor, and solutions are held against "
        "the one that explains the question best."
        if audit.explained
        else "There is neither gold nor a reconstructor: only answers and labels can be looked at."
    )
    return f"{len(audit.examples):,} predictions of the task {audit.asked.task}. {by} Intervals are at 95 %."


def write_audit_page(path: Path, audit: Audit) -> None:
    """Write the audit as one page that needs nothing else."""
    doubtful = [each for each in audit.examples if each.doubtful]
    doubtful.sort(key=lambda each: 1.0 if each.support is None else each.support)
    word = "is" if audit.has_gold else "seems"
    body = "".join(each.html() for each in tables(audit))
    if doubtful:
        body += f"<h2>Right answers whose solution {word} spurious</h2>" + _limit(len(doubtful))
        body += "".join(_article(audit, each) for each in doubtful[:_SHOWN])
    write_report(path, "Audit: right for the right reasons?", described(audit), _tiles(audit) + body)


def to_json(audit: Audit) -> dict[str, Any]:
    """The figures for other tools."""
    found: dict[str, Any] = {
        "examples": len(audit.examples),
        "right_answers": audit.right,
        "kinds": dict(audit.kinds.most_common()),
        "labels": [each.predicted.example.id for each in audit.labels],
    }
    if audit.exact is not None:
        accuracy, interval = audit.exact
        found["spurious"] = {**accuracy.to_json(), **asdict(interval)}
    if audit.estimate is not None:
        found["estimate"] = asdict(audit.estimate)
    if audit.judged is not None:
        found["judged_spurious"] = {**audit.judged.to_json(), **asdict(wilson(audit.judged.right, audit.judged.of))}
    if audit.agreement is not None:
        found["agreement"] = audit.agreement.to_json()
    return found


def _rows(audit: Audit) -> list[tuple[str, str, str]]:
    of = len(audit.examples)
    rows = [("right answers", percent(audit.right / of, wilson(audit.right, of)), f"{of:,} predictions")]
    if audit.exact is not None:
        accuracy, interval = audit.exact
        rows.append(("spurious, by gold", percent(accuracy.share, interval), f"{accuracy.of:,} right answers"))
    if audit.judged is not None:
        judged = audit.judged
        interval = wilson(judged.right, judged.of)
        rows.append(("spurious, as people judge", percent(judged.share, interval), f"{judged.of:,} judged"))
    if (guess := audit.estimate) is not None:
        how = "not calibrated" if guess.calibration is None else f"calibrated on {guess.calibration.judged:,} judged"
        of_set = f"{guess.of:,} right answers; {how}"
        rows.append(("spurious, an estimate", percent(guess.share, guess.interval), of_set))
    if audit.agreement is not None:
        rows.append(("θ and φ agree", percent(audit.agreement.share), f"{audit.agreement.of:,} solution sets"))
    empty = sum(not each.size for each in audit.examples)
    rows.append(("no solution reaches the answer", percent(empty / of), f"{of:,} predictions"))
    rows.append(("labels that look wrong", f"{len(audit.labels):,}", f"{of:,} predictions"))
    return rows


def _figures(audit: Audit) -> Tabled:
    note = "Spurious: the answer is right and the solution is not."
    if audit.estimate is not None:
        note += (
            " The interval of the estimate is over examples: it knows nothing of the reconstructor's own errors."
            if audit.calibration is None
            else " The interval of the estimate covers which solutions were judged."
        )
        outside = audit.right - audit.estimate.of
        if outside:
            note += f" {outside:,} right answers come from solutions outside their set and are left out of it."
    return Tabled("Right for the right reasons", note, ["figure", "share", "of"], _rows(audit), ("of",))


def _tiles(audit: Audit) -> str:
    tiles = [(name, share.partition(" [")[0]) for name, share, _ in _rows(audit)]
    return (
        "<dl>" + "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(each)}</dd></div>" for name, each in tiles) + "</dl>"
    )


def _kinds(audit: Audit) -> Tabled:
    of = sum(each.doubtful for each in audit.examples)
    rows = [
        [kind, f"{count:,}", percent(count / of), meaning(audit.asked.task, kind)]
        for kind, count in audit.kinds.most_common()
    ]
    against = "gold" if audit.has_gold else "the one that explains the question best"
    note = f"Of {of:,} right answers with another solution than {against}; one can be of several kinds."
    return Tabled("Kinds of spuriousness", note, ["kind", "examples", "share", "meaning"], rows, ("meaning",))


def _labels(audit: Audit) -> Tabled:
    rows = []
    for each in audit.labels[:_SHOWN]:
        example, mine = each.predicted.example, each.predicted
        why = "no solution reaches the answer"
        if each.size:
            returns = shown_answer(mine.solution, audit.asked, example)
            why = f"{-(each.quality or 0.0):.1f} nats behind {mine.text}, which returns {returns}"
        rows.append([example.id, accepted_answers(example), why, example.question])
    note = "The answer, or the question, may be wrong; or the language lacks what it takes. Worst first."
    if len(audit.labels) > _SHOWN:
        note += f" The first {_SHOWN} of {len(audit.labels):,}."
    return Tabled(
        "Labels that look wrong", note, ["example", "answer", "why", "question"], rows, ("answer", "why", "question")
    )


def _limit(count: int) -> str:
    return f"<p class=note>The {_SHOWN} least supported of {count:,}.</p>" if count > _SHOWN else ""


def _article(audit: Audit, each: Audited) -> str:
    example = each.predicted.example
    answer = accepted_answers(example)
    support = "" if each.support is None else f" · support {each.support:.1%}"
    against = "gold" if each.predicted.genuine is not None else "explains best"
    rows = [("predicted", each.predicted.text, shown_answer(each.predicted.solution, audit.asked, example))]
    if each.reference is not None:
        text = audit.asked.text(each.reference, example)
        rows.append((against, text, shown_answer(each.reference, audit.asked, example)))
    listed = "".join(
        f"<tr><th>{escape(name)}</th><td><code>{escape(text)}</code></td><td>{escape(returns)}</td></tr>"
        for name, text, returns in rows
    )
    return (
        f"<article><h3>{escape(example.question)}</h3>"
        f"<p class=note><span class=answer>answer: {escape(answer)}</span> · {escape(example.id)} · "
        f"{each.size:,.0f} solutions{support} · {escape(', '.join(each.kinds))}</p>"
        f"<table><thead><tr><th></th><th>solution</th><th>returns</th></tr></thead><tbody>{listed}</tbody></table>"
        "</article>"
    )
