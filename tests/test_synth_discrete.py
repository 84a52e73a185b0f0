"""The synthetic passages: the same for the same seed, honest about their gold, and as coincidental as the dial says."""

from __future__ import annotations

import hashlib
import json
import re
import string
import subprocess
import sys
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bonafide.documents import DocumentFile, document_to_json
from bonafide.errors import BonafideError
from bonafide.examples import DateAnswer, example_to_json, open_examples, read_gold
from bonafide.synth.discrete import generate_discrete, write_discrete_benchmark
from bonafide.synth.domains import SPLITS, values_of
from bonafide.synth.measure_discrete import measure_discrete
from bonafide.synth.scenes import PLACES, SCENES
from bonafide.synth.wording import OPERATORS, WORDING, Ask
from bonafide.tasks.discrete.execution import execute
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.notation import parse_program, program_text
from bonafide.tasks.discrete.passage import Passage, read
from bonafide.tasks.discrete.program import Number, Operator

DIALS = (0.0, 0.5, 1.0)
LANGUAGE = Language()


def digest(documents, pairs) -> str:
    lines = [*map(document_to_json, documents), *(example_to_json(example) for example, _ in pairs)]
    lines += [gold.solution for _, gold in pairs]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]


PROGRAM = "from test_synth_discrete import *; print(digest(*generate_discrete(passages=14, questions=6, seed=7)))"


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_seed_gives_the_same_bytes_in_every_process(hash_seed):
    here = str(__file__).rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": here},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "ef8b8c040f44956e"  # the same on every Python: only stable methods of Random are used


def test_seed_dial_and_split_all_change_the_data():
    made = {
        digest(*generate_discrete(passages=2, questions=2, seed=seed, coincidence=dial, split=split))
        for seed in (0, 1)
        for dial in DIALS
        for split in SPLITS
    }
    assert len(made) == 2 * len(DIALS) * len(SPLITS)


def readings(documents, pairs):
    """(reading, gold program, example) of each question."""
    passages = {document.name: document.text for document in documents}
    for example, gold in pairs:
        reading = read(example.question, passages[example.context])
        yield reading, parse_program(gold.solution["program"], reading, LANGUAGE), example


def as_answer(value):
    if isinstance(value, Fraction):
        return value
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("dial", DIALS)
def test_gold_returns_the_answer_of_thousands_of_questions(dial, split):
    """Together 4,536; parsing checks every text that a program points at, and that it is a program of the language."""
    made = generate_discrete(passages=42, questions=12, seed=3, coincidence=dial, split=split)
    for reading, program, example in readings(*made):
        assert example.answers == (as_answer(execute(program, reading, LANGUAGE)),)
    assert program_text(program, reading, LANGUAGE) == made[1][-1][1].solution["program"]


@settings(max_examples=40, deadline=None)
@given(st.integers(), st.floats(0, 1), st.sampled_from(SPLITS), st.sampled_from(sorted(SCENES)))
def test_gold_returns_the_answer_for_every_seed_and_dial(seed, dial, split, scene):
    made = generate_discrete(passages=1, questions=8, seed=seed, coincidence=dial, split=split, scenes=(scene,))
    for reading, program, example in readings(*made):
        assert example.answers == (as_answer(execute(program, reading, LANGUAGE)),)


def test_every_number_and_date_of_a_passage_is_one_that_was_put_there():
    """What the parser finds besides would be a number that nobody meant."""
    digits = re.compile(r"\d[\d,]*\d|\d")
    words = {"two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
    for document in generate_discrete(passages=140, questions=1, seed=4)[0]:
        passage = Passage(document.text)
        written = len(digits.findall(document.text))
        written += sum(word in words for word in re.findall(r"[a-z]+", document.text.lower()))
        assert len(passage.numbers) == written, document.text


def test_every_operator_is_asked_for_and_every_shape_of_answer_is_there():
    made = generate_discrete(passages=105, questions=12, seed=0)
    operators: Counter[Operator] = Counter()
    answers = Counter()
    arguments = Counter()
    for _, program, example in readings(*made):
        operators[program.operator] += 1
        arguments[program.operator, len(program.arguments)] += 1
        answers[type(example.answers[0])] += 1
    assert all(operators[operator] >= 12 for operator in Operator)
    assert set(answers) == {int, str, tuple, DateAnswer}
    assert all(arguments[Operator.SPANS, size] for size in (1, 2, 3, 4))
    assert all(arguments[Operator.COUNT, size] for size in (2, 3, 4))
    assert all(arguments[Operator.DATE, size] for size in (1, 2))
    assert max(operators.values()) < 0.2 * len(made[1])


def test_the_words_of_a_question_stand_next_to_what_gold_points_at():
    """Names of the question are found within the clause of an operand: so the reconstructor can tell operands apart."""
    asked = 0
    for reading, program, example in readings(*generate_discrete(passages=70, questions=12, seed=2, coincidence=1)):
        if program.operator not in (Operator.ADD, Operator.ADD_ADD, Operator.ADD_SUBTRACT):
            continue
        tokens = reading.passage.tokens
        question = example.question.lower()
        for argument in program.arguments:
            place = reading.passage.numbers[argument.index].first
            near = [word for word in tokens.words[max(0, place - 9) : place] if word[0].isupper()]
            assert any(word.lower() in question for word in near), (example.question, near)
            assert tokens.words[place + 1] in question
            asked += 1
    assert asked > 300


@pytest.mark.parametrize("scene", SCENES)
def test_passages_have_60_to_180_words_and_read_as_sentences(scene):
    for split in SPLITS:
        documents, _ = generate_discrete(passages=30, questions=1, seed=1, split=split, scenes=(scene,))
        for document in documents:
            words = len(document.text.split())
            assert 60 <= words <= 180, document.text
            assert "  " not in document.text
            assert "{" not in document.text
            assert all(each[0].isupper() or each[0].isdigit() for each in re.split(r"(?<=\.) ", document.text))


def test_the_small_scene_has_a_small_vocabulary():
    documents, pairs = generate_discrete(passages=120, questions=12, seed=0, scenes=("games",))
    texts = [document.text for document in documents] + [example.question for example, _ in pairs]
    words = {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}
    lengths = [len(Passage(document.text)) for document in documents]
    assert len(words) < 300
    assert 70 < sum(lengths) / len(lengths) < 90
    numbers = [number.value for document in documents for number in Passage(document.text).numbers]
    assert sum(value < 100 for value in numbers) > 0.75 * len(numbers)


def test_questions_are_sentences():
    for split in SPLITS:
        for example, _ in generate_discrete(passages=28, questions=10, seed=5, split=split)[1]:
            assert re.fullmatch(r"[A-Z][^{}]*[.?]", example.question), example.question
            assert "  " not in example.question
            assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]", example.question), example.question


def test_no_passage_is_asked_the_same_twice():
    for seed in range(5):
        pairs = generate_discrete(passages=7, questions=12, seed=seed)[1]
        asked = Counter((example.context, example.question) for example, _ in pairs)
        assert max(asked.values()) == 1


def test_a_passage_that_has_nothing_new_to_ask_is_asked_again():
    assert len(generate_discrete(passages=1, questions=300, seed=0, scenes=("games",))[1]) == 300


def test_names_and_places_are_held_out_for_dev_and_test():
    for pool in (PLACES, *(scene.names for scene in SCENES.values())):
        assert len(set(pool)) == len(pool)
        train, dev, test = (set(values_of(pool, split)) for split in SPLITS)
        assert train & dev
        assert train & test
        assert dev - train
        assert test - train
        assert not dev & test


def test_every_way_of_asking_has_six_phrasings_and_others_held_out():
    assert set(WORDING) == set(OPERATORS) == set(Ask)
    assert set(OPERATORS.values()) == set(Operator)
    fields = {}
    for ask, phrasings in WORDING.items():
        every = (*phrasings.train, phrasings.dev, phrasings.test)
        assert len(set(phrasings.train)) >= 6
        assert len(set(every)) == len(phrasings.train) + 2
        for phrasing in every:
            fields[phrasing] = {field for _, field, _, _ in string.Formatter().parse(phrasing) if field}
        operands = [fields[phrasing] & {"a", "b", "c", "number", "thing", "things"} for phrasing in every]
        assert len({frozenset("thing" if each == "things" else each for each in used) for used in operands}) == 1, ask
    assert len(fields) == sum(len(phrasings.train) + 2 for phrasings in WORDING.values())  # no two ask alike


def test_held_out_phrasings_appear_in_their_split_alone():
    questions = {
        split: " ".join(example.question for example, _ in generate_discrete(70, 12, seed=2, split=split)[1])
        for split in SPLITS
    }
    for words, home in (
        ("combined total", "dev"),
        ("recorded, not", "dev"),
        ("How large", "test"),
        ("is lowest?", "test"),
    ):
        assert [split for split in SPLITS if words in questions[split]] == [home]


def test_most_words_of_dev_questions_are_known_from_train():
    def words(split, questions):
        pairs = generate_discrete(passages=70, questions=questions, seed=0, split=split)[1]
        return [word for example, _ in pairs for word in re.findall(r"[a-z]+", example.question.lower())]

    known = set(words("train", 12))
    for split in ("dev", "test"):
        seen = words(split, 5)
        assert 0.9 < sum(word in known for word in seen) / len(seen) < 1


def test_turning_the_dial_up_makes_sets_larger_and_misleads_more():
    low, middle, high = (
        measure_discrete(*generate_discrete(passages=42, questions=12, seed=1, coincidence=dial)) for dial in DIALS
    )
    assert low.mean < middle.mean < high.mean
    assert high.mean > 1.5 * low.mean
    assert low.alone > middle.alone > high.alone
    assert low.simpler + 0.05 < middle.simpler < high.simpler - 0.05
    assert low.other_operator < middle.other_operator < high.other_operator
    assert min(low.gold_in_set, middle.gold_in_set, high.gold_in_set) > 0.99


def stands_elsewhere(reading, program, example) -> bool:
    return any(
        number.value == example.answers[0] and Number(index) not in program.arguments
        for index, number in enumerate(reading.passage.numbers)
    )


def test_the_dial_puts_answers_of_calculations_into_the_passage():
    shares = []
    for dial in DIALS:
        made = [
            stands_elsewhere(*each)
            for each in readings(*generate_discrete(passages=42, questions=12, seed=1, coincidence=dial))
            if each[1].operator in (Operator.ADD, Operator.SUBTRACT, Operator.COUNT, Operator.DAYS, Operator.MONTHS)
        ]
        shares.append(sum(made) / len(made))
    assert shares[0] < 0.1
    assert 0.2 < shares[1] < shares[2] - 0.1
    assert shares[2] > 0.5


def test_a_written_benchmark_is_a_data_set(tmp_path):
    files = write_discrete_benchmark(tmp_path / "dev", seed=0, passages=3, questions=4, split="dev")
    examples = list(open_examples(files.examples))
    assert len(examples) == 12
    made = generate_discrete(passages=3, questions=4, seed=0, split="dev")
    assert [example.answers for example in examples] == [example.answers for example, _ in made[1]]
    assert set(read_gold(files.gold)) == {example.id for example in examples}
    documents = DocumentFile(files.documents)
    assert {example.context for example in examples} == set(documents)
    assert [documents[document.name] for document in made[0]] == made[0]
    files.store.mkdir()
    with pytest.raises(BonafideError, match="already there"):
        write_discrete_benchmark(tmp_path / "dev", seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coincidence": 1.5}, "from 0 to 1"),
        ({"split": "tset"}, "train"),
        ({"scenes": ("games", "weddings")}, "weddings"),
        ({"scenes": ()}, "games"),
    ],
)
def test_settings_that_do_not_exist_are_refused(options, message):
    with pytest.raises(BonafideError, match=message):
        generate_discrete(passages=1, questions=1, seed=0, **options)
