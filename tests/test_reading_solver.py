"""The span reader: a proper distribution over the mentions of a document, whatever the windows and batches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from bonafide.documents import Document
from bonafide.learn.learnable import Item
from bonafide.learn.reading import ReadingLearning
from bonafide.tasks.reading import solver as reading_solver
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.solver import Reader, ReaderSpec, build_reader
from bonafide.tasks.reading.span import Mention, MentionSet
from bonafide.tasks.reading.windows import EncodedDocument

DOCUMENT = Document(
    "harbour",
    None,
    (
        "anna built the harbour in 1912 and ben paid for it .",
        "the harbour burned in 1934 ; anna sold what was left of the harbour to carl .",
        "carl and anna met ben in 1912 .",
    ),
)
OTHER = Document("mill", None, ("the mill was built by carl in 1912 .", "ben ran the mill ."))
QUESTION = "who built the harbour ?"


def reader(**changed: Any) -> Reader:
    spec = ReaderSpec(
        **{"encoder": "scratch", "layers": 1, "width": 16, "heads": 2, "window": 18, "stride": 5, **changed}
    )
    made = build_reader(spec, texts=[DOCUMENT.text, OTHER.text, QUESTION], seed=1).double().eval()
    with torch.no_grad():  # far from even, so that what is wrong is seen
        for parameter in (*made.bounds.parameters(), *made.window.parameters()):
            parameter.mul_(8)
    return made


def mentions(answer: str, document: Document = DOCUMENT) -> MentionSet:
    return search([answer], DocumentIndex(document, Matching()), None, "")


def log_probs(
    solver: Reader, *asked: tuple[str, Document, MentionSet], every: bool = True, draw: int = 0
) -> list[float]:
    features = [solver.features(*each) for each in asked]
    batch = solver.collate_all(features) if every else solver.collate(features, draw=draw)
    with torch.no_grad():
        return list(solver.log_prob(solver(batch), batch).tolist())


def every_run(solver: Reader, document: Document) -> list[Mention]:
    """All runs of pieces of the document."""
    encoded = solver.encoded(document)
    runs = []
    for first, stop in itertools.pairwise(encoded.offsets.tolist()):
        runs += [(a, b) for a in range(first, stop) for b in range(a + 1, stop + 1)]
    columns = encoded.mentions_of(*np.array(runs).T)
    return [Mention(*span) for span in zip(*(each.tolist() for each in columns), strict=True)]


def as_set(found: list[Mention]) -> MentionSet:
    columns = np.array([(each.paragraph, each.start, each.end, 0) for each in found], np.int32).T
    return MentionSet(*columns, len(found), True)


@pytest.mark.parametrize(("window", "stride"), [(18, 5), (18, 3), (64, 64), (12, 9)])
def test_the_probabilities_of_all_runs_of_a_document_sum_to_one(window: int, stride: int) -> None:
    solver = reader(window=window, stride=stride)
    scores = log_probs(solver, (QUESTION, DOCUMENT, as_set(every_run(solver, DOCUMENT))))
    assert np.exp(scores).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_mention_in_several_windows_is_the_sum_of_its_places() -> None:
    solver = reader()
    features = solver.features(QUESTION, DOCUMENT, mentions("anna"))
    assert (np.diff(features.place_offsets) > 1).any()
    batch = solver.collate_all([features])
    with torch.no_grad():
        output = solver(batch)
        scores = solver.log_prob(output, batch)
    for number, (low, high) in enumerate(itertools.pairwise(batch.place_offsets.tolist())):
        total = 0.0
        for place in range(low, high):
            row, start, end = (int(each[place]) for each in (batch.place_row, batch.place_start, batch.place_end))
            ends = output.end[row, start : int(batch.lengths[row])].softmax(-1)
            total += float(output.window[row].exp() * output.start[row, start].exp() * ends[end - start])
        assert float(scores[number].exp()) == pytest.approx(total, rel=1e-9)


def test_what_else_is_read_changes_no_posterior() -> None:
    solver = reader(others=0.2)
    one, two = (
        np.array(log_probs(solver, (QUESTION, DOCUMENT, mentions("1912")), every=False, draw=n)) for n in (0, 7)
    )
    whole = np.array(log_probs(solver, (QUESTION, DOCUMENT, mentions("1912"))))
    assert not np.allclose(one, whole)  # fewer windows share the probability
    np.testing.assert_allclose(one - one[0], whole - whole[0], atol=1e-9)
    np.testing.assert_allclose(two - two[0], whole - whole[0], atol=1e-9)


def test_each_draw_reads_other_windows_and_all_that_hold_a_mention() -> None:
    solver = reader(others=0.5)
    features = solver.features(QUESTION, DOCUMENT, mentions("carl"))
    chosen = [tuple(features.chosen(draw).tolist()) for draw in range(20)]
    assert len(set(chosen)) > 1
    assert all(set(features.holding.tolist()) <= set(each) for each in chosen)
    assert chosen[3] == tuple(features.chosen(3).tolist())


def test_words_that_question_and_document_share_have_the_same_number_in_every_window() -> None:
    """Words, not pieces: all letters of ``harbour`` have its number wherever it stands, signs and articles none."""
    solver = reader(vocabulary=1, window=120, stride=60)  # every word is spelled in letters
    batch = solver.collate_all([solver.features("who built the Harbour in Oslo ?", DOCUMENT)])
    marked: dict[int, list[str]] = {}
    for part in batch.rows:
        for pieces, shared in zip(part.pieces.tolist(), part.shared.tolist(), strict=True):
            letters = solver.tokenizer.convert_ids_to_tokens(pieces)
            for letter, number in zip(letters, shared, strict=True):
                marked.setdefault(number, []).append(letter.removeprefix("##"))
    windows = len(batch.lengths)
    for number, word in enumerate(("built", "harbour", "in"), start=1):
        said = "".join(marked.pop(number))
        assert said == word * said.count(word)
        assert said.count(word) > windows  # in every question, and in some windows
    assert set(marked) == {0}


def test_first_pieces_of_all_windows_compete_with_each_other() -> None:
    """With equal window scores, P(w) · P(start | w) is one softmax over the pieces of all windows."""
    solver = reader(window=64, stride=64)
    with torch.no_grad():
        for parameter in solver.window.parameters():
            parameter.zero_()
    batch = solver.collate_all([solver.features(QUESTION, DOCUMENT)])
    scores: list[torch.Tensor] = []
    solver.bounds.register_forward_hook(lambda module, given, made: scores.append(made[..., 0]))
    with torch.no_grad():
        output = solver(batch)
    (part,), (start,) = batch.rows, scores
    flat = torch.cat(
        [start[line, int(part.question[line]) + 2 :][: int(batch.lengths[row])] for line, row in enumerate(part.places)]
    ).log_softmax(-1)
    joint = torch.cat([(output.window[row] + output.start[row])[: int(batch.lengths[row])] for row in part.places])
    torch.testing.assert_close(joint, flat)


@pytest.mark.parametrize("local", [False, True])
def test_a_batch_scores_as_its_examples_do_alone(local: bool) -> None:
    solver = reader(local=local)
    asked = [
        (QUESTION, DOCUMENT, mentions("anna")),
        ("who ran the mill ?", OTHER, mentions("ben", OTHER)),
        ("when ?", DOCUMENT, mentions("1912")),
        ("nobody ?", OTHER, mentions("zeno", OTHER)),
    ]
    together = log_probs(solver, *asked)
    alone = [score for each in asked for score in log_probs(solver, each)]
    np.testing.assert_allclose(together, alone, atol=1e-9)


def test_window_local_probabilities_are_those_of_the_reference() -> None:
    """Σ over answers of one window is P(answer | w); other windows without a mention say "no answer"."""
    solver = reader(local=True, window=64, stride=64)
    found = mentions("1934")
    batch = solver.collate_all([solver.features(QUESTION, DOCUMENT, found)])
    with torch.no_grad():
        output = solver(batch)
        (score,) = solver.log_prob(output, batch).tolist()
    row, start, end = int(batch.place_row[0]), int(batch.place_start[0]), int(batch.place_end[0])
    inside = int(batch.lengths[row])
    expected = float(output.window[row]) + float(output.start[row, start])
    expected += float(output.end[row, :inside].log_softmax(-1)[end])
    expected += sum(float(output.none[other]) for other in range(len(batch.lengths)) if other != row)
    assert score == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("stride", [64, 16])
def test_the_best_mention_is_the_best_of_all_runs(stride: int) -> None:
    solver = reader(window=64, stride=stride)
    batch = solver.collate_all([solver.features(QUESTION, DOCUMENT)])
    with torch.no_grad():
        (((best, score), *rest),) = solver.best(solver(batch), batch, top=5)
    runs = every_run(solver, DOCUMENT)
    scores = log_probs(solver, (QUESTION, DOCUMENT, as_set(runs)))
    assert score == pytest.approx(max(scores), rel=1e-9)
    assert best == runs[int(np.argmax(scores))]
    assert [each for _, each in rest] == sorted((each for _, each in rest), reverse=True)


@pytest.mark.parametrize("top", [1, 5])
def test_the_best_mention_of_few_words_is_the_best_of_these(top: int) -> None:
    """Also where all that is likely is longer."""
    solver = reader(window=64, stride=16)
    batch = solver.collate_all([solver.features(QUESTION, DOCUMENT)])
    with torch.no_grad():
        output = solver(batch)
        output = output._replace(end=output.end + 3 * torch.arange(output.end.shape[1]))
        inside = torch.arange(output.end.shape[1]) < batch.lengths[:, None]
        total = output.end.masked_fill(~inside, reading_solver.NEVER).flip(-1).logcumsumexp(-1).flip(-1)
        output = output._replace(end_total=total)
        runs = every_run(solver, DOCUMENT)
        features = solver.features(QUESTION, DOCUMENT, as_set(runs))
        scores = solver.log_prob(output, solver.collate_all([features])).tolist()
        (found,) = solver.best(output, batch, top, words=2)
    short = [len(each.text(DOCUMENT).split()) <= 2 for each in runs]
    likeliest = max((score, place) for place, score in enumerate(scores) if short[place])
    assert max(scores) > likeliest[0] + 5
    assert next(found) == (runs[likeliest[1]], pytest.approx(likeliest[0]))


@pytest.mark.parametrize("top", [1, 3])
def test_what_is_passed_over_would_change_nothing(top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of windows that overlap, with probabilities as far apart as a trained reader's."""
    solver = reader(window=24, stride=4)
    batch = solver.collate_all([solver.features(QUESTION, DOCUMENT)])
    looked_at: list[int] = []
    mentions_of = EncodedDocument.mentions_of
    counted = lambda self, first, stop: looked_at.extend(first) or mentions_of(self, first, stop)  # noqa: E731
    monkeypatch.setattr(EncodedDocument, "mentions_of", counted)
    with torch.no_grad():
        solver.bounds.weight.mul_(60)
        output = solver(batch)
        found = list(solver.best(output, batch, top)[0])
        few = len(looked_at)
        monkeypatch.setattr(reading_solver, "_NOTHING", 1e9)
        everything = list(solver.best(output, batch, top)[0])
    assert few < len(looked_at) - few
    assert [mention for mention, _ in found[:top]] == [mention for mention, _ in everything[:top]]
    assert [score for _, score in found[:top]] == pytest.approx([score for _, score in everything[:top]], abs=1e-5)


def test_only_the_first_ranked_window_can_be_asked() -> None:
    solver = reader(window=64, stride=64)
    batch = solver.collate_all([solver.features(QUESTION, DOCUMENT)])
    with torch.no_grad():
        output = solver(batch)
        (found,) = solver.best(output, batch, top=3, one_window=True)
    first = int(output.window.argmax())
    assert {mention.paragraph for mention, _ in found} == {
        int(batch.features[0].windows.paragraph[batch.chosen[0][first]])
    }


def test_every_parameter_receives_a_gradient() -> None:
    solver = reader().float().train()
    batch = solver.collate([solver.features(QUESTION, DOCUMENT, mentions("anna"))])
    solver.log_prob(solver(batch), batch).logsumexp(0).backward()
    silent = [name for name, each in solver.named_parameters() if each.grad is None or not each.grad.abs().sum() > 0]
    assert [name for name in silent if "position_embeddings" not in name and "word_embeddings" not in name] == []


def test_a_mention_longer_than_a_window_cannot_be_produced() -> None:
    solver = reader()
    whole = Mention(1, 0, len(DOCUMENT.paragraphs[1]))
    (score,) = log_probs(solver, (QUESTION, DOCUMENT, as_set([whole])))
    assert score == -np.inf
    assert solver.features(QUESTION, DOCUMENT, as_set([whole])).unreachable == 1


def test_mentions_are_rendered_in_the_order_of_the_solutions() -> None:
    task = ReadingLearning()
    found = mentions("anna")
    sets = task.rendered(Item(None, DOCUMENT, found), None)  # type: ignore[arg-type]
    assert sum(len(each) for each in sets) == len(found)
    shown = [
        each.context[piece.start : piece.end]
        for each in sets
        for place in range(len(each))
        for piece in each[place]
        if hasattr(piece, "start")
    ]
    assert shown == [mention.text(DOCUMENT) for mention in found]
    assert [each.context for each in sets] == [DOCUMENT.paragraphs[n] for n in sorted({m.paragraph for m in found})]


def test_the_posterior_over_mentions_needs_only_the_windows_that_hold_one() -> None:
    solver = reader()
    features = [solver.features(QUESTION, DOCUMENT, mentions("anna")), solver.features(QUESTION, OTHER, None)]
    every, narrow = solver.collate_all(features), solver.collate_posterior(features)
    assert sum(len(part.counts) for part in narrow.rows) < sum(len(part.counts) for part in every.rows)
    with torch.no_grad():
        known, less = (solver.log_prob(solver(batch), batch) for batch in (every, narrow))
    assert len(known) > 1
    torch.testing.assert_close(less - less.logsumexp(0), known - known.logsumexp(0), atol=1e-9, rtol=0)


def test_a_document_of_which_nothing_can_be_read_has_no_mentions() -> None:
    solver = reader()
    batch = solver.collate_all([solver.features(QUESTION, Document("odd", None, ("\x1b",)))])
    with torch.no_grad():
        output = solver(batch)
    assert len(solver.log_prob(output, batch)) == 0
    assert [list(found) for found in solver.best(output, batch)] == [[]]
