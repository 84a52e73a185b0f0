"""Description length: right solutions tell their questions in fewer words than wrong ones, and no gold is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bonafide.examples import read_gold
from bonafide.learn.data import open_dev
from bonafide.learn.description import (
    ANSWER,
    PRICE,
    Described,
    Placed,
    described,
    description_length,
    question_log_probs,
    unanswered,
)
from bonafide.learn.monitor import chosen_by, dev_figures, standing
from bonafide.learn.reading import ReadingAnswer, ReadingLearning
from bonafide.learn.saved import Model, load
from bonafide.learn.trainer import train
from bonafide.rendering import Literal, RenderedSet, SpanReference, Word
from bonafide.synth.reading import write_reading_benchmark
from bonafide.tasks.reading.span import Mention, parse_gold
from tiny_runs import recipe, write_data

ASKED = {"none": "what is", "max": "the highest", "min": "the lowest", "count": "how many"}
COLUMNS, VALUES = ("city", "price", "weight", "colour"), ("oslo", "bern", "vigo", "red", "blue", "7", "12")


def asked(count: int = 300, seed: int = 0) -> list[tuple[str, str, list[str]]]:
    """(question, aggregate, words that the solution says): a column, and one or two values."""
    chance = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        aggregate = str(chance.choice(list(ASKED), p=[0.6, 0.15, 0.15, 0.1]))
        column, values = str(chance.choice(COLUMNS)), chance.choice(VALUES, chance.integers(1, 3), replace=False)
        question = f"{ASKED[aggregate]} {column} for {' and '.join(values)} ?"
        made.append((question, aggregate, [column, *map(str, values)]))
    return made


def told(pairs: list[tuple[str, str, list[str]]]) -> list[Described]:
    return [
        Described(
            tuple(question.split()), ("select", aggregate), frozenset(said), len(said) - 1 + (aggregate != "none")
        )
        for question, aggregate, said in pairs
    ]


def test_the_more_solutions_are_wrong_the_longer_is_the_description() -> None:
    chance = np.random.default_rng(1)
    genuine = asked()
    lengths = []
    for share in (0.0, 0.2, 0.5, 1.0):
        wrong = chance.random(len(genuine)) < share
        changed = [
            (question, str(chance.choice(list(ASKED))) if bad else aggregate, said)
            for (question, aggregate, said), bad in zip(genuine, wrong, strict=True)
        ]
        lengths.append(description_length(told(changed)))
    assert lengths == sorted(lengths)
    assert lengths[-1] > lengths[0] + 1


def test_a_condition_that_is_left_out_and_one_too_many_are_seen() -> None:
    genuine = asked()
    without = [(question, aggregate, said[:2]) for question, aggregate, said in genuine]
    more = [(question, aggregate, [*said, "other"]) for question, aggregate, said in genuine]
    assert description_length(told(genuine)) < min(description_length(told(each)) for each in (without, more))


def test_an_aggregate_that_stands_for_none_explains_as_much_and_costs_more() -> None:
    genuine = asked()
    exchanged = [(question, {"none": "max", "max": "none"}.get(each, each), said) for question, each, said in genuine]
    assert description_length(told(genuine), price=0.0) == pytest.approx(description_length(told(exchanged), price=0.0))
    assert description_length(told(genuine)) < description_length(told(exchanged)) - 0.5


def test_a_question_is_told_by_what_was_learned_from_others() -> None:
    """Noise that is as predictable as it can be from its own question explains nothing."""
    chance = np.random.default_rng(2)
    genuine = asked()
    noise = [(question, f"o{number}", said) for number, (question, _, said) in enumerate(genuine)]
    chance.shuffle(noise)  # type: ignore[arg-type]
    assert question_log_probs(told(noise)).mean() < question_log_probs(told(genuine)).mean()


def test_few_predictions_have_a_length_too() -> None:
    assert description_length([]) == 0.0
    assert np.isfinite(description_length(told(asked(1))))
    assert np.isfinite(description_length([Described((), (), frozenset(), 0)] * 3))


def test_an_answer_that_is_not_returned_has_to_be_told() -> None:
    right = Described(("how", "many"), ("select",), frozenset(), 1)
    wrong = replace(right, right=False)
    assert description_length([right, wrong, right, right]) == pytest.approx(description_length([right] * 4) + 2.5)


def test_words_of_a_rendering_are_operations_or_can_be_copied() -> None:
    segments = ((Word("select"), Word("max"), SpanReference(7, 12)), (Word("where"), Literal("New York")))
    rendered = RenderedSet("city ; price", segments, np.array([[0, 1]], np.int32))
    made = described("Highest price in New York?", rendered, 2)
    assert made.question == ("highest", "price", "in", "new", "york", "?")
    assert made.operations == ("select", "max", "where")
    assert made.copied == {"price", "new", "york"}


def test_a_run_keeps_the_checkpoint_with_the_shortest_description(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    made = recipe(data, "hard-em", train={"evaluate_every": 0.5})  # it is the default
    run = train(made, tmp_path / "run")
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    found = {each["step"]: each["evaluation"]["dev_description"] for each in lines if "evaluation" in each}
    assert len(found) > 4
    best = json.loads((run.path / "result.json").read_text())["best"]
    assert best["by"] == "dev_description"
    assert best["figure"] == pytest.approx(max(found.values()))


def test_the_fewer_questions_are_answered_the_longer_is_the_description() -> None:
    genuine = asked()
    lengths = []
    for share in (0.0, 0.3, 0.9, 1.0):
        silent = np.random.default_rng(1).random(len(genuine)) < share
        pairs = zip(told(genuine), genuine, silent, strict=True)
        lengths.append(description_length([unanswered(each[0]) if none else said for said, each, none in pairs]))
    assert lengths == sorted(lengths)
    assert lengths[-1] > lengths[0] + 10


def test_a_model_that_predicts_nothing_has_a_figure_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = recipe(write_data(tmp_path), "mml", train={"epochs": 1.0})
    train(wanted, tmp_path / "run")
    model, dev = load(tmp_path / "run"), open_dev(wanted)
    assert dev is not None
    spoken = dev_figures(model, dev, wanted)
    monkeypatch.setattr(Model, "predict_all", lambda _, asked: [[] for _ in asked])
    silent = dev_figures(model, dev, wanted)
    assert (set(silent), silent["dev_execution"]) == (set(spoken), 0.0)


def places(data: Path, genuine: bool) -> list[Placed]:
    """For each question gold's mention, or that of the register: the shortest paragraph, which holds every answer."""
    task, found = ReadingLearning(), []
    split, gold = task.open_split(data), read_gold(data / "gold.jsonl")
    for example in split.file:
        document = split.context_of(example)
        mention = parse_gold(gold[example.id].solution, document).mentions[0]
        said, register = mention.text(document), int(np.argmin([len(each) for each in document.paragraphs]))
        if not genuine:
            start = document.paragraphs[register].index(said)
            mention = Mention(register, start, start + len(said))
        found.append(Placed(example.question, task.place_of(ReadingAnswer(mention, said, 0.0), document)))
    return found


def test_places_whose_words_are_not_asked_for_take_longer_to_tell(tmp_path: Path) -> None:
    write_reading_benchmark(tmp_path / "dev", seed=1, documents=6, questions=3, split="dev", topics=("ships",))
    genuine, register = (places(tmp_path / "dev", each) for each in (True, False))
    silent = [Placed(each.question, None) for each in genuine]
    told = [description_length(each, price=0.0) for each in (genuine, register, silent)]
    assert told[0] < told[1] - 2
    assert told[1] == pytest.approx(told[2], abs=1.0)
    half = [*genuine[::2], *register[1::2]]
    assert told[0] + 0.5 < description_length(half, price=0.0) < told[1] - 0.5
    wrong = [replace(each, right=False) for each in genuine]
    assert description_length(wrong) == pytest.approx(description_length(genuine) + ANSWER)
    assert description_length(silent) == pytest.approx(description_length(register) - PRICE, abs=1.0)


def test_a_figure_that_was_not_asked_for_is_never_before_one_that_was() -> None:
    found = [("dev_reconstruction", -70.0), ("last step", 36.0), ("dev_reconstruction", -50.0), ("last step", 48.0)]
    order = sorted(found, key=lambda each: standing(*each, "reconstruction"))
    assert order == [
        ("last step", 36.0),
        ("last step", 48.0),
        ("dev_reconstruction", -70.0),
        ("dev_reconstruction", -50.0),
    ]


@pytest.mark.parametrize(
    ("select_by", "figures", "expected"),
    [
        ("description", {"dev_description": -50.0, "dev_execution": 0.9}, ("dev_description", -50.0)),
        ("description", {"dev_execution": 0.9, "dev_f1": 0.95}, ("dev_execution", 0.9)),  # texts
        ("execution", {"dev_description": -50.0, "dev_execution": 0.9}, ("dev_execution", 0.9)),
        ("reconstruction", {"dev_execution": 0.9}, ("last step", 7.0)),
        ("last", {"dev_description": -50.0, "dev_execution": 0.9}, ("last step", 7.0)),
        ("description", {}, ("last step", 7.0)),
    ],
)
def test_the_figure_that_picks_a_checkpoint(select_by: str, figures: dict[str, float], expected: object) -> None:
    assert chosen_by(figures, select_by, 7) == expected
