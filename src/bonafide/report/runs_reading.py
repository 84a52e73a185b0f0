"""Judge a reader: exact match and F1, the right paragraph, the right mention, and selection over the mention sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bonafide.documents import Document, DocumentSource, open_documents
from bonafide.errors import BonafideError
from bonafide.evaluate.sql import Accuracy
from bonafide.examples import Example, open_examples, read_gold, write_jsonl
from bonafide.learn.learnable import Item
from bonafide.learn.objective import IMPOSSIBLE
from bonafide.learn.reading import ReadingAnswer
from bonafide.learn.recipe import recipe_from
from bonafide.learn.saved import Model
from bonafide.reconstruct.layout import tokenise
from bonafide.report.decoded import decoded, hash_of_documents
from bonafide.sealed import vouched
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.metrics import Prediction, right_mention, score
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import GoldSpans, MentionSet, parse_gold

_BATCH = 32
_MOST = 2000
"""Mentions of an example over which solver and reconstructor are ranked."""


@dataclass(frozen=True)
class ReadingEvaluation:
    """A reader on a file of examples."""

    figures: dict[str, Any]
    answers: dict[str, ReadingAnswer | None]  # by example


def evaluate_reading(
    model: Model,
    run: Path,
    examples: Path,
    documents: Path | None = None,
    gold: Path | None = None,
    out: Path | None = None,
    alternatives: int = 5,
    progress: Callable[[int, int], None] | None = None,
    beam: int = 1,
    reconstruction: float = 0.0,
) -> ReadingEvaluation:
    """Predict every example; with gold, also the paragraph, the mention, and selection over the mention sets.

    Predictions are written to ``out`` (default: ``predictions.jsonl`` in the run's folder). ``reconstruction``: see
    :meth:`Model.predict_all`; it puts the ``beam`` likeliest mentions in order, or ``alternatives`` if that is more.
    """
    source = open_documents(documents, examples)
    listed = list(open_examples(examples, source.check))
    known = _gold(gold, listed, source, examples)
    documents_of = _Kept(source)
    answers: dict[str, ReadingAnswer | None] = {}
    lines: list[dict[str, Any]] = []
    chosen: dict[str, list[bool]] = {"solver": [], "reconstructor": []}
    in_set = 0
    for start in range(0, len(listed), _BATCH):
        part = listed[start : start + _BATCH]
        asked = [(documents_of(each), each.question) for each in part]
        predicted = model.predict_all(asked, alternatives, beam, reconstruction=reconstruction)
        for example, (document, _), found in zip(part, asked, predicted, strict=True):
            answers[example.id] = found[0] if found else None
            lines.append(_line(example, found))
            if example.id in known:
                right = _selected(model, example, document, known[example.id])
                in_set += right is not None
                for name, each in (right or {}).items():
                    chosen[name].append(each)
        if progress is not None:
            progress(len(answers), len(listed))
    predictions = [_prediction(example, answers[example.id], known.get(example.id)) for example in listed]
    scores = asdict(score(predictions))
    exact = Accuracy(round(scores["exact_match"] * len(listed)), len(listed))
    figures: dict[str, Any] = {
        "run": str(run),
        "method": model.about["recipe"]["objective"]["method"],
        "examples": len(listed),
        "execution": exact.to_json(),
        "f1": scores["f1"],
    }
    if known:
        figures["paragraph"] = Accuracy(round(scores["paragraph"] * len(known)), len(known)).to_json()
        if scores["known"]:
            figures["mention"] = Accuracy(round(scores["mention"] * scores["known"]), scores["known"]).to_json()
        figures["selection"] = {
            name: {
                "accuracy": Accuracy(sum(each), len(each)).to_json(),
                "gold_in_set": Accuracy(in_set, len(known)).to_json(),
            }
            for name, each in chosen.items()
            if each
        }
    path = out or run / "predictions.jsonl"
    read = hash_of_documents(source.path)
    with decoded(path, run, examples, beam, reconstruction, documents=read), vouched(path):
        write_jsonl(path, lines)
    return ReadingEvaluation(figures, answers)


class _Kept:
    """Documents of examples; the last is kept, since its questions mostly follow each other."""

    def __init__(self, source: DocumentSource) -> None:
        self._source = source
        self._last: tuple[str | None, Document] | None = None

    def __call__(self, example: Example) -> Document:
        if self._last is None or self._last[0] != example.context:
            self._last = example.context, self._source.document_of(example)
        return self._last[1]


def _gold(path: Path | None, listed: Sequence[Example], source: DocumentSource, examples: Path) -> dict[str, GoldSpans]:
    if path is None:
        return {}
    gold, document_of = read_gold(path), _Kept(source)
    known = {each.id: parse_gold(gold[each.id].solution, document_of(each)) for each in listed if each.id in gold}
    if not known:
        raise BonafideError(f"{path} has gold for none of the examples in {examples}: it belongs to others.")
    return known


def _prediction(example: Example, answer: ReadingAnswer | None, gold: GoldSpans | None) -> Prediction:
    accepted = tuple(str(each) for each in example.answers)
    if answer is None:
        return Prediction("", None, accepted, gold)
    return Prediction(answer.answer, answer.mention, accepted, gold)


def _line(example: Example, found: Sequence[ReadingAnswer]) -> dict[str, Any]:
    def entry(answer: ReadingAnswer) -> dict[str, Any]:
        return {"answer": answer.answer, **asdict(answer.mention), "log_probability": answer.log_probability}

    first = entry(found[0]) if found else {"answer": None, "log_probability": None}
    return {"example": example.id, **first, "alternatives": [entry(each) for each in found[1:]]}


def _selected(model: Model, example: Example, document: Document, gold: GoldSpans) -> dict[str, bool] | None:
    """Whether θ's and φ's favourite of the mention set is gold; None where the set does not hold gold."""
    recipe = recipe_from(model.about["recipe"], "the model")
    matching = Matching(**asdict(recipe.language))
    mentions = search(example.answers, DocumentIndex(document, matching), _MOST, example.id)
    if gold.place_in(mentions) is None:
        return None

    def right(scores: npt.NDArray[np.float64]) -> bool:
        best = int(scores.argmax())
        return scores[best] > IMPOSSIBLE and bool(right_mention(mentions[best], gold))  # of several gold ones, any

    found = {"solver": right(_solver_scores(model, example, document, mentions))}
    if model.reconstructor is not None:
        layouts = [
            tokenise(shown, example.question, model.reconstructor_tokenizer)
            for shown in model.task.rendered(Item(example, document, mentions), recipe)
        ]
        with torch.no_grad():
            batch = model.reconstructor.batch(layouts, [np.arange(len(each)) for each in layouts])
            scores = model.reconstructor.log_prob(batch, full_precision=True).double().cpu().numpy()
        found["reconstructor"] = right(scores)
    return found


def _solver_scores(model: Model, example: Example, document: Document, mentions: MentionSet) -> npt.NDArray[np.float64]:
    solver = model.solver
    device = next(solver.parameters()).device
    batch = solver.collate([solver.features(example.question, document, mentions)]).to(device)
    with torch.no_grad():
        scores: npt.NDArray[np.float64] = solver.log_prob(solver(batch), batch).double().cpu().numpy()
    return scores
