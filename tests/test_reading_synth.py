"""Synthetic documents: the same for the same seed, honest about their gold, and as misleading as the dial says."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from itertools import combinations

import pytest

from bonafide.documents import DocumentFile, document_to_json
from bonafide.errors import BonafideError
from bonafide.examples import example_to_json, open_examples, read_gold
from bonafide.search.reading import search_reading
from bonafide.synth.domains import SPLITS, values_of
from bonafide.synth.measure_reading import measure
from bonafide.synth.reading import generate, write_reading_benchmark
from bonafide.synth.topics import ASK, REGISTER, REMARKS, TELL, TOPICS
from bonafide.tasks.reading.matching import Matching
from bonafide.tasks.reading.search import DocumentIndex, search
from bonafide.tasks.reading.span import parse_gold


def digest(documents, pairs) -> str:
    lines = [*map(document_to_json, documents), *(example_to_json(example) for example, _ in pairs)]
    lines += [gold.solution for _, gold in pairs]
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]


PROGRAM = "from test_reading_synth import *; print(digest(*generate(documents=13, questions=4, seed=7)))"


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_seed_gives_the_same_bytes_in_every_process(hash_seed):
    here = str(__file__).rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": here},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "55077f8de44a7927"  # the same on every Python: only stable methods of Random are used


def test_seed_dial_and_split_all_change_the_data():
    made = {
        digest(*generate(documents=2, questions=2, seed=seed, decoys=decoys, split=split))
        for seed in (0, 1)
        for decoys in (0, 2)
        for split in SPLITS
    }
    assert len(made) == 2 * 2 * len(SPLITS)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("decoys", [0, 1, 2, 5, 8])
def test_an_answer_stands_once_where_it_answers_and_as_often_elsewhere_as_the_dial_says(decoys, split):
    documents, pairs = generate(documents=24, questions=6, seed=3, decoys=decoys, split=split)
    indexes = {document.name: DocumentIndex(document, Matching()) for document in documents}
    for example, gold in pairs:
        index = indexes[example.context]
        mentions = search(example.answers, index)
        assert len(mentions) == decoys + 1, (example, index.document)
        spans = parse_gold(gold.solution, index.document)
        assert spans.mentions[0] in mentions
        assert spans.mentions[0].text(index.document) == example.answers[0]


def relations_told(sentence: str, topic) -> list[tuple[str, str]]:
    """(thing, role) of what a sentence tells."""
    lowered = sentence.lower()
    return [
        (thing, relation.role)
        for thing in topic.names
        for relation in topic.relations
        if re.search(rf"\b{re.escape(thing.lower())}\b", lowered)
        and (relation.verb.lower() in lowered or re.search(rf"(the|its) {re.escape(relation.role.lower())}\b", lowered))
    ]


def test_only_the_gold_sentence_tells_what_is_asked():
    documents, pairs = generate(documents=12, questions=5, seed=1, decoys=4)
    topics = {document.name: TOPICS[document.name.split("-")[1]] for document in documents}
    sentences = {
        document.name: [
            (place, sentence, relations_told(sentence, topics[document.name]))
            for place, paragraph in enumerate(document.paragraphs)
            for sentence in re.split(r"(?<=\.) ", paragraph)
        ]
        for document in documents
    }
    by_name = {document.name: document for document in documents}
    for example, gold in pairs:
        (asked,) = relations_told(example.question, topics[example.context])
        telling = [(place, sentence) for place, sentence, found in sentences[example.context] if asked in found]
        ((place, sentence),) = telling
        assert place == gold.solution["paragraph"]
        assert example.answers[0] in sentence
        start = by_name[example.context].paragraphs[place].index(sentence)
        assert start <= gold.solution["spans"][0]["start"] < start + len(sentence)


def test_decoys_mislead_who_takes_the_first_and_help_comes_from_the_words_of_the_question():
    results = [measure(*generate(documents=60, questions=8, seed=0, decoys=decoys)) for decoys in (0, 1, 3, 5)]
    assert [each.mean for each in results] == [1, 2, 4, 6]
    assert all(each.gold_in_set == 1 for each in results)
    first = [each.first for each in results]
    assert first == sorted(first, reverse=True)
    assert first[0] == 1
    assert first[2] < 0.35
    assert results[2].alike > 2 * first[2]
    assert results[2].alike < 0.95  # the words alone do not give it away


def test_the_register_is_first_as_often_as_last():
    documents, _ = generate(documents=200, questions=3, seed=0, decoys=1)
    starts = [phrasing.split("{")[0] for phrasing in REGISTER.train]
    first = sum(document.paragraphs[0].startswith(tuple(starts)) for document in documents)
    last = sum(document.paragraphs[-1].startswith(tuple(starts)) for document in documents)
    assert first + last == 200
    assert 70 < first < 130


def test_sentences_and_questions_are_well_formed():
    for split in SPLITS:
        documents, pairs = generate(documents=36, questions=6, seed=5, split=split)
        for example, _ in pairs:
            assert re.fullmatch(r"[A-Z][^{}]*[.?]", example.question), example.question
        for document in documents:
            for paragraph in document.paragraphs:
                assert re.fullmatch(r"[A-Z0-9a-z][^{}]*\.", paragraph), paragraph
                assert "  " not in paragraph


def test_no_value_is_part_of_another_of_a_name_or_of_a_phrasing():
    kinds = {relation.kind.noun: relation.kind for topic in TOPICS.values() for relation in topic.relations}
    values = [value for kind in kinds.values() for value in kind.values]
    assert len(set(values)) == len(values)
    phrases = [*TELL.train, TELL.dev, TELL.test, *ASK.train, ASK.dev, ASK.test, *REMARKS]
    phrases += [*REGISTER.train, REGISTER.dev, REGISTER.test]
    phrases += [text for topic in TOPICS.values() for each in topic.relations for text in (each.role, each.verb)]
    phrases += [name for topic in TOPICS.values() for name in topic.names]
    words = " ".join(["", *re.findall(r"\w+", " ".join(phrases).lower()), ""])
    assert not [value for value in values if f" {value.lower()} " in words]
    assert not [(one, other) for one, other in combinations(values, 2) if f" {one} " in f" {other} "]


def test_each_topic_can_hide_a_value_among_relations_of_its_kind():
    for topic in TOPICS.values():
        assert len(set(topic.names)) == len(topic.names) >= 50
        counts = [sum(each.kind is relation.kind for each in topic.relations) for relation in topic.relations]
        assert min(counts) >= 3
        assert len({relation.role for relation in topic.relations}) == len(topic.relations)
        assert len({relation.verb for relation in topic.relations}) == len(topic.relations)


def test_dev_and_test_hold_names_values_and_phrasings_that_train_never_shows():
    for topic in TOPICS.values():
        for pool in (topic.names, *(relation.kind.values for relation in topic.relations)):
            train, dev, test = (set(values_of(pool, split)) for split in SPLITS)
            assert dev - train
            assert test - train
    for phrasings in (TELL, ASK, REGISTER):
        assert phrasings.dev not in phrasings.train
        assert phrasings.test not in phrasings.train
    questions = {
        split: [example.question for example, _ in generate(documents=30, questions=6, seed=2, split=split)[1]]
        for split in SPLITS
    }
    held = {"dev": "Do you know which", "test": "Please tell me"}
    for split, beginning in held.items():
        share = sum(question.startswith(beginning) for question in questions[split]) / len(questions[split])
        assert 0.15 < share < 0.45
        assert not any(question.startswith(beginning) for question in questions["train"])


def test_a_written_benchmark_is_ready_to_search(tmp_path):
    files = write_reading_benchmark(tmp_path / "b", seed=0, documents=3, questions=4, decoys=2, split="dev")
    documents, pairs = generate(3, 4, 0, 2, "dev")
    opened = DocumentFile(files.documents)
    assert [opened[name] for name in opened] == documents
    assert list(open_examples(files.examples)) == [example for example, _ in pairs]
    assert [gold.solution for gold in read_gold(files.gold).values()] == [gold.solution for _, gold in pairs]
    manifest = search_reading(files.examples, files.store)
    assert manifest["counts"] == {"examples": 12, "covered": 12, "capped": 0, "solutions": 36}
    with pytest.raises(BonafideError, match="already there"):
        write_reading_benchmark(tmp_path / "b", seed=0)


@pytest.mark.parametrize(
    "wrong",
    [{"split": "all"}, {"topics": ["cars"]}, {"questions": 0}, {"questions": 13}, {"decoys": -1}, {"decoys": 9}],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(BonafideError):
        generate(**({"documents": 1, "questions": 1, "seed": 0} | wrong))


def test_the_largest_settings_are_possible_for_every_topic_and_split():
    for split in SPLITS:
        documents, pairs = generate(documents=3 * len(TOPICS), questions=12, seed=0, decoys=8, split=split)
        assert len(pairs) == 12 * len(documents)
