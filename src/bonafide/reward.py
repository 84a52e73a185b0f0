"""The reconstructor as a reward function, in the signature that TRL's trainers call (``reward_funcs``).

    from bonafide import reward
    trainer = GRPOTrainer(model, reward_funcs=[reward.from_run("runs/a")], train_dataset=data, …)

The data set has the columns ``question`` (else the prompt is the question), ``answer`` and, where the run was trained
with contexts, ``context``. A completion is judged as a candidate would be: it must state an accepted answer, and the
question should be reconstructible from it.

*Prefer selection*: rank several samples with ``bonafide select`` and train on the picks. As a reward the score is
optimised against, and a policy finds what a reconstructor overlooks; in the method's paper the baseline that uses
it so, a VAE trained by policy gradient, is the one that collapses. The copied-words mask and the simplicity prior
narrow that door and do not close it: watch the copy rate and keep a held-out set with gold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Reward = Callable[..., list[float | None]]


def from_run(run: Path | str, device: str = "cpu") -> Reward:
    """The reward function of a trained run of the text task.

    It returns, for each completion, None where it cannot judge (no question, no accepted answer, or an empty
    ``context`` in a data set that has the column); 0 where the completion states another answer; else
    exp((log P(question | context, completion) − simplicity · words) / question tokens), which is between 0 and 1.
    """
    from bonafide.errors import BonafideError
    from bonafide.learn.recipe import recipe_from
    from bonafide.learn.saved import load

    model = load(run, device)
    if model.task.name != "text" or model.reconstructor is None:
        raise BonafideError(
            f"{run} cannot reward texts: expected a run of the text task with a reconstructor (mimax or vae), found "
            f"the task {model.task.name!r}, method {model.about['recipe']['objective']['method']!r}. Train one with "
            "bonafide select or bonafide train text-mimax."
        )
    recipe = recipe_from(model.about["recipe"], str(run))

    def bonafide_reward(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        rows = [
            _row(place, prompt, completion, columns)
            for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True))
        ]
        rewards: list[float | None] = [None if row is None else 0.0 for row in rows]
        judged = [(place, row) for place, row in enumerate(rows) if row is not None and row.right]
        for (place, _), value in zip(judged, _support(model, recipe, [row for _, row in judged]), strict=True):
            rewards[place] = value
        return rewards

    return bonafide_reward


@dataclass(frozen=True, slots=True)
class _Row:
    """What is judged: a completion to a question, and whether it states an accepted answer."""

    question: str
    context: str
    text: str
    right: bool


def _row(place: int, prompt: Any, completion: Any, columns: dict[str, Any]) -> _Row | None:
    """The row in our own words; None where something is missing that a judgement needs."""
    from bonafide.tasks.text.words import final_answer, same_answer, words

    def column(name: str) -> Any:
        values = columns.get(name)
        return values[place] if isinstance(values, (list, tuple)) and place < len(values) else None

    question = column("question") if "question" in columns else _text(prompt, "user")
    accepted, context = _accepted(column("answer")), column("context")
    if not isinstance(question, str) or not words(question) or not accepted:
        return None
    if "context" in columns and not context:
        return None
    text = _text(completion, "assistant")
    right = bool(words(text)) and any(same_answer(final_answer(text), each) for each in accepted)
    return _Row(question, str(context or ""), text, right)


def _accepted(answer: Any) -> list[Any]:
    """The accepted answers; a missing one is None, blank, or the NaN that a table of numbers has in its place."""
    plain = answer.tolist() if hasattr(answer, "tolist") else answer  # of numpy or torch
    several = plain if isinstance(plain, (list, tuple)) else [plain]
    return [each for each in several if each is not None and each == each and str(each).strip()]


def _text(value: Any, role: str) -> str:
    """A prompt or completion as text: as it is, or the last message of this role in a conversation."""
    if isinstance(value, str):
        return value
    messages = [each for each in value or () if isinstance(each, dict) and each.get("role", role) == role]
    content = messages[-1].get("content", "") if messages else ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


def _support(model: Any, recipe: Any, rows: Sequence[_Row]) -> list[float]:
    """Support per token of the question, as a probability."""
    import numpy as np
    import torch

    from bonafide.learn.text import rendered_texts
    from bonafide.reconstruct.layout import tokenise
    from bonafide.tasks.text.words import words

    if not rows:
        return []
    layouts = [
        tokenise(
            rendered_texts([row.text], row.question, row.context, recipe.language.copied),
            row.question,
            model.reconstructor_tokenizer,
        )
        for row in rows
    ]
    with torch.no_grad():
        batch = model.reconstructor.batch(layouts, [np.zeros(1, np.int64)] * len(layouts))
        scores = model.reconstructor.log_prob(batch, full_precision=True).tolist()
    prior = float(recipe.objective.options.get("simplicity", 0.0))
    read = model.reconstructor.markers.positions  # of a question; what is longer is not scored
    return [
        math.exp(min(0.0, (score - prior * len(words(row.text))) / min(read, len(layout.question))))
        for score, row, layout in zip(scores, rows, layouts, strict=True)
    ]
