"""Candidates that a user brings: what is the same, what is copied, what reaches the answer, and the files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.examples import open_examples, read_gold
from bonafide.search.text import import_candidates
from bonafide.solutions import SolutionStore
from bonafide.synth.candidates import KINDS, generate_candidates
from bonafide.tasks.text.candidates import Candidate, CandidateFile, reaching, text_set
from bonafide.tasks.text.task import TextCodec
from bonafide.tasks.text.words import (
    copied_words,
    copy_rate,
    final_answer,
    normalised,
    same_answer,
    without_copies,
    words,
)

QUESTION = "Ada has 12 apples and buys 7 more. How many apples does Ada have now?"


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1,200", 1200, True),
        ("1200.0", 1200, True),
        ("Oslo", "oslo ", True),
        ("−3", -3, True),
        ("12", "12 apples", True),
        (12, "$12", True),
        (50, "50%", True),
        ("12,5", 12.5, True),
        ("12,500", 12500, True),
        ("12 pears", "12 apples", False),
        (66, "Route 66", False),
        (12, "12 or 13", False),
        ("1.5", 15, False),
        (0.1 + 0.2, 0.3, True),
        (10**20, 10**20 + 1, False),
        (".5", 0.5, True),
        (3_000_000, "3 million", True),
        (3, "3 million", False),
        (10, "10²", False),
        ("Oslo", "Lyon", False),
        (19, "19k", False),
        (19_000, "19k", True),
        (1.5, "1.5M", False),
        (1_500_000, "1.5M", True),
        (1_500_000, "$1.5m", True),
        (1.5, "$1.5m", False),
        (1.5, "$1.5 m", False),
        (19, "19 m", True),
        (19, "19 kg", True),
        (19, "19 K", False),
        (2 * 10**9, "2bn euros", True),
        (5, "5 hundred thousand", False),
        (500_000, "5 hundred thousand red apples", True),
        (5, "5 thousand hundred", False),
        (3, "3 millions", False),
        (2, "2 dozens", False),
        (19, "19 minus two", False),
        (19, "19 plus x", False),
        (19, "19 hundredths", False),
        (19, "19 times", True),
        (19, "19 millionaires", True),
        ("1e6", 1_000_000, True),
        ("1.5E-3", 0.0015, True),
        ("1e6 m", 1_000_000, True),
        ("1e6", 1, False),
        ("1e99999", "1e99999", True),
        ("1e9999999999999999999999", 1, False),
        ("19k", "19k runners", True),
        ("3 million", "3 million people", True),
        ("19k", "19 runners", False),
    ],
)
def test_answers_are_compared_as_numbers_where_both_are(one: Any, other: Any, same: bool) -> None:
    assert same_answer(one, other) is same
    assert same_answer(other, one) is same


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("12 + 7 = 19", "19"),
        ("12 + 7 = 19; 19 - 3 = 16", "16"),
        ("First 19.\n#### 16", "16"),
        ("12 plus 7 is 19. The answer is 19.", "19"),
        ("Answer: Oslo", "Oslo"),
        ("It was built there\nin Oslo", "in Oslo"),
        ("Adding 7 gives 19 apples.", "19"),
        ("total = 19 apples", "19"),
        ("So the answer is: **19**.", "19"),
        ("**Answer:** 19", "19"),
        ("The answer is $19.", "19"),
        ("The answer is **19** apples.", "19 apples"),
        ("The answer is $19$ apples.", "19 apples"),
        (r"Answer: \(19\)", "19"),
        (r"\boxed{50\%}", "50%"),
        (r"The answer is \$19.", "19"),
        ("The answer is 3*4*5", "3*4*5"),
        ("Final answer: 1,200 dollars", "1,200 dollars"),
        ("25/2 = 12,5", "12,5"),
        (r"So it is $\boxed{19}$, as said.", "19"),
        (r"The answer is \boxed{\text{Oslo}}.", "Oslo"),
        (r"So $x = \boxed{\frac{1}{2}}$", r"\frac{1}{2}"),
        ("The answer is .75", ".75"),
        ("The answer is $.50.", ".50"),
        ("3 * 4 = 12 m2", "12"),
        ("The answer isn't 5, it is 7.", "7"),
        ("3/6 = 1/2", "1/2"),
        ("They meet at 3:30.", "3:30"),
        ("The scale is 1:2.5.", "1:2.5"),
        ("a chance of 1/1,000", "1/1,000"),
        ("It is on the pages 10-14", "14"),
        ("12 - 17 = -5", "-5"),
        ("x = 1e6", "1e6"),
        ("x = 19k", "19k"),
        ("x = 19 k", "19 k"),
        ("x = $1.5m", "$1.5m"),
        ("The answer is $1.5m.", "$1.5m"),
        ("That makes 3 million dollars.", "3 million"),
        ("x = 2^10", "2^10"),
        ("x = 2**10", "2**10"),
        ("x = 10²", "10²"),
        ("It is 2^10.", "It is 2^10"),
        ("x = 1.5 × 10^6", "1.5 × 10^6"),
        ("x = 19 minus two", "19 minus two"),
        ("x = 19 - 3", "19 - 3"),
        ("x = sqrt(19)", "sqrt(19)"),
        ("total = **19** apples", "19"),
        ("Total = **19** (12 + 7)", "19"),
        ("**Total = 19** (12 + 7)", "19"),
        ("= *19* (12 + 7)", "19"),
        ("She has **19** (nineteen) apples", "19"),
        ("总共是**19**个苹果", "19"),
        ("x = 2 ** (3 + 1)", "2 ** (3 + 1)"),
        ("x = 19\nThousands of thanks", "19"),
        ("the wall is 5m high", "5"),
        ("x = $1.5 m", "$1.5 m"),
        ("x = 19 - the answer", "19"),
        ("x = 19\n- 3 pears are left", "19"),
        ("The answer is 19!", "19"),
        ("The answer is **19**!", "19"),
        ("The answer is 19. Ada has 19 apples.", "19"),
        ("The answer is $19 million. That is it.", "19 million"),
        ("The answer is 19. No, it is 20.", "19. No, it is 20"),
        ("The answer is 1.5 apples. So it is.", "1.5 apples"),
        ("The answer is St. Petersburg.", "St. Petersburg"),
        ("Answer: Yahoo!", "Yahoo!"),
    ],
)
def test_the_answer_that_a_text_states(text: str, answer: str) -> None:
    assert final_answer(text) == answer


NUMBERS = st.integers(0, 10**6) | st.decimals(0, 1000, places=2)
WORTH = {
    "": 1, " apples": 1, "%": 1, "k": 10**3, " thousand": 10**3, " hundred thousand": 10**5, " dozen": 12, "M": 10**6,
    "bn": 10**9,
}  # fmt: skip
FRAMES = ["x = {}", "#### {}.", "The answer is {}.", "{}"]
SIGNS = ["^", " ^ ", "**", " * ", " + ", " - ", "/", " plus ", " minus ", " times ", " divided by ", " over ", " × "]


@given(NUMBERS, st.sampled_from(sorted(WORTH)), st.sampled_from([*FRAMES, "The answer is {}! So it is."]))
def test_a_stated_number_is_worth_what_its_scale_says_and_nothing_else(number: Any, scale: str, frame: str) -> None:
    stated = final_answer(frame.format(f"{number}{scale}"))
    assert same_answer(stated, number * WORTH[scale])
    assert same_answer(stated, number) is (WORTH[scale] == 1 or number == 0)


@given(st.integers(2, 499), st.sampled_from(SIGNS), st.integers(500, 999), st.sampled_from(FRAMES))
def test_a_part_of_a_sum_is_not_the_answer(one: int, sign: str, other: int, frame: str) -> None:
    stated = final_answer(frame.format(f"{one}{sign}{other}"))
    assert not same_answer(stated, one)
    if frame != "{}" or sign in ("^", " ^ ", "**"):  # of a line alone the last number counts
        assert not same_answer(stated, other)


@given(st.text("0123456789.,eEkKmMbB $€-−+^*/! tnhousad\n", max_size=30))
def test_whatever_is_said_is_compared(text: str) -> None:
    stated = final_answer(text)
    assert same_answer(stated, stated)
    same_answer(stated, 19)


def test_a_square_is_no_digit() -> None:
    assert len(text_set(["3² + 4² = 25", "32 + 42 = 25"])) == 2


def test_candidates_that_say_the_same_are_one_with_their_votes() -> None:
    made = text_set(["12+7=19", "20 - 1", "12 + 7 = 19", "12 + 7\n= 19"])
    assert made.texts == ("12+7=19", "20 - 1")
    assert made.counts == (3, 1)
    assert made.index_of("20-1") == 1
    assert made.index_of(("nothing", "12 + 7 = 19")) == 0
    assert "21 - 2" not in made


def test_only_candidates_that_do_not_miss_the_answer_are_solutions() -> None:
    candidates = [Candidate("a", 19), Candidate("b", "19.0"), Candidate("c", 20), Candidate("d"), Candidate("e", "")]
    assert reaching(candidates, [19]).texts == ("a", "b", "d")
    assert reaching(candidates, [20, 19]).texts == ("a", "b", "c", "d")


def test_what_is_copied_is_hidden_and_the_rest_stays_as_it_stands() -> None:
    text = "Well: Ada has 12 apples and, so 12 + 7 = 19"
    assert without_copies(text, QUESTION) == "Well: …, so 12 + 7 = 19"
    assert copy_rate(text, QUESTION) == 5 / len(words(text))
    assert without_copies("12 + 7 = 19", QUESTION) == "12 + 7 = 19"
    assert copy_rate(QUESTION, QUESTION) == 1
    assert without_copies(QUESTION, QUESTION) == "…"
    assert without_copies(QUESTION, QUESTION, 0) == QUESTION


@given(st.text("ab 1+ßA\n", max_size=40), st.text("ab 1+ßA\n", max_size=40), st.integers(1, 4))
def test_no_run_of_the_question_is_left_after_masking(text: str, question: str, run: int) -> None:
    shown, asked = words(without_copies(text, question, run)), words(question)
    runs = {tuple(asked[start : start + run]) for start in range(len(asked) - run + 1)}
    spaced = [each for word in shown for each in ([word] if word != "." else [None] * run)]  # NFKC writes … as dots
    assert not any(tuple(spaced[start : start + run]) in runs for start in range(len(spaced) - run + 1))
    assert len(copied_words(text, question, run)) == len(words(text))


def test_an_import_writes_examples_candidates_gold_and_solutions(tmp_path: Path) -> None:
    path = write(
        tmp_path / "mine.jsonl",
        {"id": "q1", "question": QUESTION, "answer": 19, "gold": "12 + 7 = 19",
         "candidates": ["12+7=19", {"text": "20 - 1", "answer": "19"}, {"text": "9 + 9", "answer": 18}, "20-1"]},
        {"question": "Where?", "context": "In Oslo.", "answer": ["Oslo", "oslo city"],
         "candidates": [{"text": "Lyon", "answer": "Lyon"}]},
    )  # fmt: skip
    done = import_candidates(path, tmp_path / "data")
    assert (done.examples, done.candidates, done.kept, done.wrong_answer, done.repeated) == (2, 5, 2, 2, 1)
    assert (done.without_answer, done.without_solution, done.gold, done.gold_in_set) == (2, 1, 1, 1)
    first, second = open_examples(tmp_path / "data/examples.jsonl")
    assert (first.id, first.answers, first.context) == ("q1", (19,), None)
    assert (second.id, second.context, second.answers) == ("line-2", "In Oslo.", ("Oslo", "oslo city"))
    assert "gold" not in (tmp_path / "data/examples.jsonl").read_text()
    assert read_gold(tmp_path / "data/gold.jsonl")["q1"].solution == {"texts": ["12 + 7 = 19"]}
    store = SolutionStore(tmp_path / "data/solutions", TextCodec())
    assert store.manifest["task"] == "text"
    assert store["q1"].texts == ("12+7=19", "20 - 1")
    assert store["q1"].counts == (1, 2)
    assert len(store["line-2"]) == 0
    assert len(CandidateFile(tmp_path / "data/candidates.jsonl")["q1"]) == 4


def test_the_same_import_again_is_no_error_and_another_one_is(tmp_path: Path) -> None:
    line = {"question": QUESTION, "answer": 19, "candidates": ["12 + 7"]}
    path = write(tmp_path / "mine.jsonl", line)
    import_candidates(path, tmp_path / "data")
    before = {each: each.read_bytes() for each in (tmp_path / "data").iterdir() if each.is_file()}
    import_candidates(path, tmp_path / "data")
    write(path, {**line, "answer": 20})
    with pytest.raises(BonafideError, match="another file"):
        import_candidates(path, tmp_path / "data")
    assert {each: each.read_bytes() for each in (tmp_path / "data").iterdir() if each.is_file()} == before


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ({"answer": 1, "candidates": ["a"]}, "question", "a text that is not empty"),
        ({"question": "q?", "candidates": ["a"]}, "answer", "accepted ones"),
        ({"question": "q?", "answer": True, "candidates": ["a"]}, "answer", "accepted ones"),
        ({"question": "q?", "answer": []}, "answer", "accepted ones"),
        ({"question": "q?", "answer": math.inf, "candidates": ["a"]}, "answer", "accepted ones"),
        ({"question": "q?", "answer": 1}, "candidates", "at least one candidate"),
        ({"question": "q?", "answer": 1, "candidates": []}, "candidates", "at least one candidate"),
        ({"question": "q?", "answer": 1, "candidates": [" "]}, "candidates", "not empty"),
        ({"question": "q?", "answer": 1, "candidates": [{"answer": 1}]}, "candidates", "not empty"),
        (
            {"question": "q?", "answer": 1, "candidates": [{"text": "a", "answer": [1]}]},
            "candidates.answer",
            "a number",
        ),
        ({"question": "q?", "answer": 1, "candidates": ["a"], "context": 3}, "context", "a text, or nothing"),
        ({"question": "q?", "answer": 1, "candidates": ["a"], "gold": 3}, "gold", "a list of texts"),
        ({"id": "", "question": "q?", "answer": 1, "candidates": ["a"]}, "id", "no id at all"),
        (["no object"], "(line)", "one JSON object"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_line_and_field(
    tmp_path: Path, line: Any, field: str, expected: str
) -> None:
    right = {"id": "x", "question": "q?", "answer": 1, "candidates": ["a"]}
    path = write(tmp_path / "mine.jsonl", right, line)
    with pytest.raises(InvalidFileError) as caught:
        import_candidates(path, tmp_path / "data")
    problem = caught.value.problems[0]
    assert (problem.line, problem.field) == (2, field)
    assert expected in problem.expected
    assert not (tmp_path / "data").exists()


def test_the_command_reports_what_was_left_out(tmp_path: Path) -> None:
    line = {"question": QUESTION, "answer": 19, "candidates": ["12 + 7", "12+7", {"text": "9 + 9", "answer": 18}]}
    done = CliRunner().invoke(
        app, ["import", "candidates", str(write(tmp_path / "c.jsonl", line)), "--out", str(tmp_path / "d")]
    )
    assert done.exit_code == 0, done.output
    for said in ("1 examples with 1 distinct candidates", "1 candidates arrive at another answer", "as votes for it"):
        assert said in done.output


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_generated_derivations_reach_their_answer_and_are_as_spurious_as_asked_for(share: float) -> None:
    made = generate_candidates(60, seed=1, spurious=share, samples=10)
    assert made == generate_candidates(60, seed=1, spurious=share, samples=10)
    seen = set()
    for line in made:
        named = list(zip(line["candidates"], line["kinds"], strict=True))
        seen |= set(line["kinds"])
        for candidate, kind in named:
            assert same_answer(candidate["answer"], line["answer"]) is (kind != "wrong")
            assert same_answer(final_answer(candidate["text"]), candidate["answer"])
            assert (normalised(candidate["text"]) in map(normalised, line["gold"])) is (kind == "genuine")
            if kind == "copied":
                assert copy_rate(candidate["text"], line["question"]) > 0.7
        reached = [kind for _, kind in named if kind != "wrong"]
        assert sum(kind != "genuine" for kind in reached) == round(10 * share)
    assert seen == {"genuine", "wrong", *KINDS}


def test_problems_of_a_single_change_have_accidents_too() -> None:
    for line in generate_candidates(40, seed=0, spurious=0.7, steps=1):
        assert set(line["kinds"]) & set(KINDS)
