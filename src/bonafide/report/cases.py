"""Case studies: questions that methods answer alike and rightly by different solutions, and what tells these apart.

They are found, not picked: of the questions to which all methods give the right answer, by solutions that are not all
the same, those come first of which gold says that some are right and some are not, and of these the ones between whose
solutions the reconstructor sees the largest difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from bonafide.learn import draws
from bonafide.report.compare import Comparison
from bonafide.report.explained import Explainer
from bonafide.report.learning import Entry, Shown, article

MOST = 10
_SCORED = 200
"""Questions whose solutions the reconstructor scores, of those that could be shown."""
_CALLED = {"sql": "query", "discrete": "program", "reading": "mention", "text": "solution"}


@dataclass(frozen=True, slots=True)
class Cases:
    """What was found, and by whose reconstructor it is explained. ``found``: questions of the kind; some are shown."""

    judge: Explainer
    by: str
    found: int
    shown: list[Shown]

    def html(self) -> str:
        """A part of a page."""
        called = _CALLED[self.judge.asked.task]
        articles = "".join(article(each, self.judge.model, called) for each in self.shown)
        return f"""<h2>Case studies: the same right answer by different solutions</h2>
<p class="note">{self.found:,} questions are answered rightly by all methods, but not by the same {called}; shown are
{len(self.shown)}. The score is log P(question given {called}) under the reconstructor of {escape(self.by)}. Words are
shaded where the last method's {called} explains them better (blue) or worse (red) than the first method's.</p>
{articles}"""


def case_studies(comparison: Comparison, most: int = MOST) -> Cases | None:
    """The cases of a comparison, of each method's first seed; None where no run has a reconstructor."""
    judge = _judge(comparison)
    if judge is None:
        return None
    name, explainer = judge
    candidates = []
    first = {method.name: method.predicted[min(method.predicted)] for method in comparison.methods}
    for place, example in enumerate(comparison.asked.examples.values()):
        made = {method: predicted[place] for method, predicted in first.items()}
        solutions = [each.solution for each in made.values()]
        if all(each.right for each in made.values()) and any(each != solutions[0] for each in solutions):
            alike = len({each.genuine for each in made.values()}) == 1
            candidates.append((alike, draws.key(f"cases/{example.id}"), example, made))
    candidates.sort(key=lambda each: each[:2])
    scored = []
    for alike, order, example, made in candidates[:_SCORED]:
        entries = [
            Entry(method, each.text, each.genuine, explainer.rendered_one(example, each.solution))
            for method, each in made.items()
        ]
        scores = explainer.reconstructed(example, [each.rendered for each in entries])
        scored.append((alike, float(scores.min() - scores.max()), order, Shown(example, entries)))
    scored.sort(key=lambda each: each[:3])
    return Cases(explainer, name, len(candidates), [shown for *_, shown in scored[:most]])


def _judge(comparison: Comparison) -> tuple[str, Explainer] | None:
    """The last method that has a reconstructor, and its first seed's."""
    for method in reversed(comparison.methods):
        run = method.runs[min(method.runs)]
        if (run / "model" / "reconstructor.safetensors").exists():
            return method.name, Explainer.open(run, comparison.asked)
    return None
