"""The synthetic benchmark: the same for the same seed, honest about its gold, and as spurious as its dial says."""

from __future__ import annotations

import hashlib
import json
import re
import string
import subprocess
import sys

import pytest

from bonafide.errors import BonafideError
from bonafide.examples import example_to_json, open_examples, read_gold
from bonafide.synth import phrases
from bonafide.synth.domains import DOMAINS, SPLITS, values_of
from bonafide.synth.measure import measure
from bonafide.synth.sql import generate, write_benchmark
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, Operator, execute, parse_query, same_answer
from bonafide.tasks.sql.search import search
from bonafide.tasks.sql.tables import TableFile, table_to_json

DIALS = (0.0, 0.5, 1.0)


def digest(tables, pairs) -> str:
    lines = [*map(table_to_json, tables), *(example_to_json(example) for example, _ in pairs)]
    lines += [gold.solution for _, gold in pairs]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]


PROGRAM = "from test_synth import *; print(digest(*generate(tables=15, questions=4, seed=7)))"


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_seed_gives_the_same_bytes_in_every_process(hash_seed):
    here = str(__file__).rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": here},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "d85a55b0608da4fd"  # the same on every Python: only stable methods of Random are used


def test_seed_dial_and_split_all_change_the_data():
    made = {
        digest(*generate(tables=2, questions=2, seed=seed, spuriousness=dial, split=split))
        for seed in (0, 1)
        for dial in DIALS
        for split in SPLITS
    }
    assert len(made) == 2 * len(DIALS) * len(SPLITS)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("dial", DIALS)
def test_gold_returns_the_answers_and_is_in_the_set(dial, split):
    tables, pairs = generate(tables=14, questions=6, seed=3, spuriousness=dial, split=split)
    by_id = {table.id: table for table in tables}
    for example, gold in pairs:
        table = by_id[example.context]
        query = parse_query(gold.solution, table)
        assert example.answers
        assert same_answer(execute(query, table), example.answers)
        with Engine(table) as engine:
            assert same_answer(engine.run(*query.to_sql(table)), example.answers)
        assert query in search(example.question, example.answers, table, Language())
        assert len({column for column, _, _ in gold.solution["conds"]}) == len(query.conditions) <= 3
        assert all(value in example.question for _, _, value in gold.solution["conds"])


def test_questions_are_sentences():
    for split in SPLITS:
        for example, _ in generate(tables=28, questions=10, seed=5, split=split)[1]:
            assert re.fullmatch(r"[A-Z][^{}]*[.?]", example.question), example.question
            assert "  " not in example.question
            assert not re.search(r"\b(a) [aeiou]|\b(an) [^aeiou]", example.question), example.question


def test_the_dial_turns_up_spuriousness():
    low, middle, high = (measure(*generate(tables=42, questions=12, seed=0, spuriousness=dial)) for dial in DIALS)
    assert low.median < middle.median < high.median
    assert low.mean < middle.mean < high.mean
    assert low.redundant < middle.redundant < high.redundant
    assert low.gold_in_set == middle.gold_in_set == high.gold_in_set == 1.0
    assert middle.median >= 15
    assert middle.open_aggregate >= 0.4


def test_aggregates_are_open_where_none_is_meant_and_settled_where_another_is():
    tables, pairs = generate(tables=42, questions=8, seed=1)
    none = [pair for pair in pairs if pair[1].solution["agg"] == Aggregate.NONE]
    others = [pair for pair in pairs if pair[1].solution["agg"] not in (Aggregate.NONE, Aggregate.COUNT)]
    assert measure(tables, none).open_aggregate > 0.8
    assert measure(tables, others).open_aggregate < 0.2
    assert {pair[1].solution["agg"] for pair in pairs} == set(map(int, Aggregate))


def test_dev_and_test_hold_values_that_train_never_shows():
    for domain in DOMAINS.values():
        for field in domain.fields:
            if not field.texts:
                continue
            assert len(set(field.texts)) == len(field.texts)
            train, dev, test = (set(values_of(field.texts, split)) for split in SPLITS)
            assert train & dev
            assert train & test
            assert dev - train
            assert test - train
            assert not (dev & test)


def all_phrasings():
    yield from phrases.ASK.items()
    yield "list", phrases.LIST
    yield from phrases.PREDICATES.items()
    yield from phrases.ATTRIBUTES.items()
    yield "named", phrases.NAMED


def test_every_aggregate_and_operator_has_six_phrasings_and_others_held_out():
    assert set(phrases.ASK) == set(Aggregate)
    assert set(phrases.PREDICATES) == set(phrases.ATTRIBUTES) == set(Operator)
    assert len(DOMAINS) >= 12
    for name, phrasings in all_phrasings():
        assert len(set(phrasings.train)) >= 6, name
        assert len({phrasings.dev, phrasings.test} | set(phrasings.train)) == len(phrasings.train) + 2, name
        fields = [{field for _, field, _, _ in string.Formatter().parse(each) if field} for each in phrasings.train]
        assert all(fields)


def test_no_two_aggregates_are_asked_in_the_same_words():
    asked = [each for value in phrases.ASK.values() for each in (*value.train, value.dev, value.test)]
    asked += [*phrases.LIST.train, phrases.LIST.dev, phrases.LIST.test]
    assert len(set(asked)) == len(asked)


def test_held_out_phrasings_appear_in_their_split_alone():
    questions = {
        split: " ".join(example.question for example, _ in generate(tables=28, questions=20, seed=2, split=split)[1])
        for split in SPLITS
    }
    for words, home in (("lies above", "dev"), ("that exceeds", "dev"), ("beyond", "test"), ("not reaching", "test")):
        assert [split for split in SPLITS if words in questions[split]] == [home]


def test_most_words_of_dev_questions_are_known_from_train():
    def words(split, questions):
        pairs = generate(tables=56, questions=questions, seed=0, split=split)[1]
        return [word for example, _ in pairs for word in re.findall(r"[a-z]+", example.question.lower())]

    known = set(words("train", 20))
    for split in ("dev", "test"):
        seen = words(split, 5)
        assert 0.9 < sum(word in known for word in seen) / len(seen) < 1


def test_a_written_benchmark_is_a_data_set(tmp_path):
    files = write_benchmark(tmp_path / "dev", seed=0, tables=3, questions=2, split="dev")
    examples = list(open_examples(files.examples))
    assert len(examples) == 6
    assert set(read_gold(files.gold)) == {example.id for example in examples}
    assert {example.context for example in examples} == set(TableFile(files.tables))
    files.store.mkdir()
    with pytest.raises(BonafideError, match="already there"):
        write_benchmark(tmp_path / "dev", seed=0)


@pytest.mark.parametrize(("options", "message"), [({"spuriousness": 1.5}, "from 0 to 1"), ({"split": "tset"}, "train")])
def test_settings_that_do_not_exist_are_refused(options, message):
    with pytest.raises(BonafideError, match=message):
        generate(tables=1, questions=1, seed=0, **options)
