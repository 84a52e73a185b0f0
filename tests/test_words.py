"""The reconstructor of single words: what it prefers, that it is its formula, and that large sets are cut."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from bonafide.examples import read_gold
from bonafide.learn import words as module
from bonafide.learn.data import load_training_data, word_scores
from bonafide.learn.learnable import learnable
from bonafide.learn.words import COPIED, MOST_SAID, SAID, WordModel, words_in
from bonafide.rendering import Literal, RenderedSet, SpanReference, Word
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.rendering import rendered
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import Table
from by_path import module_at
from tiny_runs import recipe, write_data

GAMES = Table(
    "games",
    ("Team", "Arena", "Attendance"),
    ("text", "text", "real"),
    [("Lions", "north park", 300), ("Bears", "south park", 150)],
)
QUESTIONS = [
    "What is the highest attendance at north park?",
    "What is the attendance at south park?",
    "How many teams play at south park?",
    "What is the average attendance of the bears?",
    *20 * ["Which team plays at north park?", "What is the attendance at south park?"],
]


def best(question: str, answer: object) -> str:
    found = search(question, [answer], GAMES, Language(aggregates="untyped"))
    assert len(found) >= 5
    scores = WordModel(QUESTIONS).log_prob(question, rendered(found, GAMES, verbalised=True))
    return str(found[int(scores.argmax())].to_sql(GAMES)[0])


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        ("What is the highest attendance at north park?", 300, "MAX"),
        ("What is the lowest attendance at north park?", 300, "MIN"),
        ("What is the total attendance at north park?", 300, "SUM"),
        ("What is the average attendance at north park?", 300, "AVG"),
    ],
)
def test_where_all_aggregates_give_the_answer_the_one_that_is_asked_for_wins(question, answer, said):
    assert f"{said}(" in best(question, answer)


def test_an_aggregate_that_nobody_asked_for_costs_something():
    chosen = best("What is the attendance at north park?", 300)
    assert not any(name in chosen for name in ("MAX(", "MIN(", "SUM(", "AVG(", "COUNT("))
    assert '"Arena"' in chosen
    assert '"Attendance"' in chosen


TEXT = "The Lions won the final in Oslo in 1990 . After a long pause the Bears lost the opening game in Bern in 1990 ."


def test_in_running_text_the_mention_that_the_question_speaks_of_wins():
    first, second = TEXT.index("1990"), TEXT.rindex("1990")
    segments = tuple((Word("passage"), Word("span"), SpanReference(at, at + 4)) for at in (first, second))
    shown = RenderedSet(TEXT, segments, np.array([[0], [1]], np.int32), running=True)
    words = WordModel(["when did the lions win", "when did the bears lose", "when was the game"])
    assert words.log_prob("When did the Lions win the final?", shown).argmax() == 0
    assert words.log_prob("When did the Bears lose the game?", shown).argmax() == 1
    apart = RenderedSet(TEXT, segments, shown.composition)  # what is around a column's name says nothing of it
    scores = words.log_prob("When did the Bears lose the game?", apart)
    assert scores[0] == scores[1]


def test_what_stands_around_a_mention_are_shares_of_all_other_words():
    words = words_in(TEXT)
    asked = list(dict.fromkeys(words))
    at = TEXT.index("Oslo")
    shares = module._around(asked, TEXT, at, at + 4)
    elsewhere = module._ANYWHERE / len(words)  # of the mention itself
    assert shares.sum() == pytest.approx(1.0)
    assert shares[asked.index("oslo")] == pytest.approx(elsewhere)
    assert shares[asked.index("final")] > shares[asked.index("opening")] > elsewhere
    assert module._around(["zebra"], TEXT, at, at + 4).tolist() == [0.0]
    assert module._around(["oslo"], "Oslo", 0, 4).tolist() == [pytest.approx(module._ANYWHERE)]


def test_a_letter_that_becomes_two_in_lower_case_is_found():
    text = "The Lions met the Bears in İzmir ."
    at = text.index("Lions")
    assert (module._around(words_in("İzmir"), text, at, at + 5) > 0).all()


def test_it_is_its_formula():
    shown = RenderedSet(
        "city ; price",
        (
            (Word("select"), Word("highest most"), SpanReference(7, 12), Word("where")),
            (Word("select"), SpanReference(7, 12), Word("where")),
            (SpanReference(0, 4), Word("="), Literal("new york")),
        ),
        np.array([[0, 2], [1, 2], [1, -1]], np.int32),
    )
    questions = ["the highest price in new york", "the price"]
    question = "the highest price in york"
    counts = Counter(word for each in questions for word in words_in(each))
    total = sum(counts.values()) + len(counts) + 1

    def expected(copied: list[str], operation: list[str]) -> float:
        share = SAID if operation else 0.0
        return sum(
            math.log(
                (1 - share) * (COPIED * copied.count(word) / len(copied) + (1 - COPIED) * (counts[word] + 1) / total)
                + share * operation.count(word) / max(1, len(operation))
            )
            for word in words_in(question)
        )

    found = WordModel(questions).log_prob(question, shown)
    long = ["price", "city", "new", "york"]
    np.testing.assert_allclose(
        found, [expected(long, ["highest", "most"]), expected(long, []), expected(["price"], [])], rtol=1e-12
    )


@pytest.mark.parametrize("operations", [0, 1, 5, 12])
def test_the_likelihoods_of_all_words_sum_to_one(operations):
    """Of the words of the questions, those of the operations, and as many others as are counted: one."""
    letters = "abcdefghijkl"[:operations]
    said = tuple(Word(f"{letter}x {letter}y") for letter in letters)
    shown = RenderedSet("name", ((SpanReference(0, 4), *said), (SpanReference(0, 4),)), np.array([[0], [1]], np.int32))
    common = {"the", "name", "of"}
    known = common | {word for each in said for word in each.text.split()} | {"unseen"}
    model = WordModel(["the name of the name"])
    likely = {word: math.exp(model.log_prob(word, shown)[0]) for word in known}
    more = (len(known - common) - 1) * (1 - min(SAID * operations, MOST_SAID)) * (1 - COPIED) / (5 + 3 + 1)
    assert sum(likely.values()) - more == pytest.approx(1)


def test_many_solutions_are_scored_in_parts(monkeypatch):
    found = search("What is the attendance at north park?", [300], GAMES, Language(aggregates="untyped"))
    model, shown = WordModel(QUESTIONS), rendered(found, GAMES, verbalised=True)
    whole = model.log_prob(QUESTIONS[0], shown)
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    np.testing.assert_array_equal(model.log_prob(QUESTIONS[0], shown), whole)


def test_nothing_to_say_and_nothing_asked():
    shown = RenderedSet("", (), np.zeros((0, 1), np.int32))
    assert WordModel([]).log_prob("anything", shown).shape == (0,)
    one = RenderedSet("", ((Word("select"),),), np.zeros((1, 1), np.int32))
    assert WordModel([]).log_prob("  ", one).tolist() == [0.0]
    assert np.isfinite(WordModel([]).log_prob("never seen", one)).all()


def test_the_likeliest_of_a_large_set_are_kept(tmp_path):
    root = write_data(tmp_path)
    few = {"max_solutions": 6, "likeliest": True}
    said = {"reconstructor": {"verbalised": True}}
    kept = load_training_data(recipe(root, "hard-em", data=few, **said), tmp_path)
    whole = load_training_data(recipe(root, "hard-em", data={"max_solutions": 100_000}, **said), tmp_path)
    assert kept.words is None  # nobody chooses by it
    assert kept.report["capped"] == sum(len(item.solutions) > 6 for item in whole.items) > 5
    model = WordModel(item.example.question for item in whole.items)
    task, made = learnable("sql"), recipe(root, "hard-em", **said)
    for few_of, all_of in zip(kept.items, whole.items, strict=True):
        scores = word_scores(task, all_of, made, model)
        places = [all_of.solutions.index_of(each) for each in few_of.solutions]
        assert places == sorted(np.argsort(-scores, kind="stable")[:6])


def test_the_benchmark_counts_gold_among_the_first(tmp_path):
    data, benchmark = write_data(tmp_path), module_at("benchmarks/words.py")
    ranks = {}
    found = benchmark.measured(
        "wikisql-hard-mimax+", [f"data.root={data}", f"data.solutions={data / 'solutions'}", "data.largest=1.0"], 48
    )
    made = recipe(data, "mimax+", data={"max_solutions": 10**9}, reconstructor={"verbalised": True})
    task, items, gold = learnable("sql"), load_training_data(made, tmp_path).items, read_gold(data / "train/gold.jsonl")
    words = WordModel(item.example.question for item in items)
    for item in items:
        places = task.places_of_gold(gold[item.example.id], item, made)
        if places and len(item.solutions) > 1:
            order = np.argsort(-word_scores(task, item, made, words), kind="stable").tolist()
            ranks[item.example.id] = order.index(places[0]), len(order)
    assert found["questions"] == len(ranks) > 20
    assert found["first 1"] == np.mean([first == 0 for first, _ in ranks.values()])
    assert found["first 5"] == np.mean([first < 5 for first, _ in ranks.values()])
    assert found["chance"] == pytest.approx(np.mean([1 / count for _, count in ranks.values()]))
    assert found["first 1"] > 3 * found["chance"]


def test_the_benchmark_counts_the_operations_of_what_is_kept(tmp_path):
    data, benchmark = write_data(tmp_path), module_at("benchmarks/words.py")
    overrides = [f"data.root={data}", f"data.solutions={data / 'solutions'}", "data.largest=1.0"]
    found = benchmark.mixes("wikisql-hard-mimax+", overrides, 48, 1)
    first = benchmark.measured("wikisql-hard-mimax+", overrides, 48)
    names = {name for name, _ in found}
    assert sum(found[name, "likeliest"]["questions"] for name in names) == first["questions"]
    own = sum(found[name, "likeliest"][name] * found[name, "likeliest"]["questions"] for name in names)
    assert own / first["questions"] >= first["first 1"]  # who finds gold finds its aggregate
    for shares in found.values():
        assert sum(shares[each] for each in shares if each.count("_") == 1) == pytest.approx(1)
    whole = benchmark.mixes("wikisql-hard-mimax+", overrides, 48, 10**9)
    for name in names:
        assert whole[name, "likeliest"] == pytest.approx(whole[name, "at random"])
