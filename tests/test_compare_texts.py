"""Comparison and audit on texts: programs over passages, mentions in documents, candidates that a user brings."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import test_discrete_learning
import test_reading_learning
import test_text_learning
from bonafide.errors import BonafideError
from bonafide.examples import Example, read_gold, write_jsonl
from bonafide.files import content_hash
from bonafide.learn.learnable import learnable
from bonafide.learn.text import rendered_texts
from bonafide.learn.trainer import train
from bonafide.reconstruct.build import ReconstructorSpec, build_reconstructor
from bonafide.report.audit import Audit, audit_predictions
from bonafide.report.audit_page import write_audit_page
from bonafide.report.compare import ANSWER, F1, SOLUTION, compare_runs
from bonafide.report.compare_page import described
from bonafide.report.decoded import how_decoded
from bonafide.report.judging import sheet
from bonafide.report.learning import Entry, Shown, article
from bonafide.report.predicted import Asked, asked_of_store, read_predicted, shown_answer
from bonafide.report.runs import load_for_evaluation
from bonafide.report.runs_discrete import evaluate_discrete
from bonafide.report.runs_reading import evaluate_reading
from bonafide.report.runs_text import evaluate_text
from bonafide.sealed import read_sealed, write_sealed
from bonafide.search.discrete import search_discrete
from bonafide.search.reading import search_reading
from bonafide.search.text import import_candidates, search_text
from bonafide.synth.candidates import generate_candidates
from bonafide.synth.discrete import write_discrete_benchmark
from bonafide.synth.reading import write_reading_benchmark
from bonafide.tasks.discrete.language import Language
from bonafide.tasks.discrete.metrics import score
from bonafide.tasks.discrete.program import Constant, Program
from bonafide.tasks.text.words import normalised

torch.set_num_threads(1)
SHORT = {"train": {"epochs": 1.0, "checkpoint_every": 1000, "evaluate_every": 1.0}}


@pytest.fixture(scope="module", params=["discrete", "reading", "text"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The task, and a folder with its train split, the store of it, and short runs of two methods."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "discrete":
        write_discrete_benchmark(folder / "train", seed=1, passages=4, questions=6, scenes=("games",))
        search_discrete(folder / "train" / "examples.jsonl", folder / "solutions")
        recipe = test_discrete_learning.recipe
    elif request.param == "text":
        write_jsonl(folder / "train.jsonl", generate_candidates(16, seed=1, spurious=0.5, samples=4))
        import_candidates(folder / "train.jsonl", folder / "train")
        search_text(folder / "train" / "examples.jsonl", folder / "solutions")
        recipe = test_text_learning.recipe
    else:
        write_reading_benchmark(folder / "train", seed=1, documents=4, questions=4, topics=("ships",))
        search_reading(folder / "train" / "examples.jsonl", folder / "solutions")
        recipe = test_reading_learning.recipe
    for method in ("hard-em", "mimax"):
        settings = {"dev": "", "solutions": str(folder / "solutions")}
        train(recipe(folder, method, data=settings, **SHORT), folder / method)
    return request.param, folder


def line(asked: Asked, name: str, solution: Any) -> dict[str, Any]:
    example = asked.examples[name]
    if asked.task == "discrete":
        return {"example": name, "program": asked.text(solution, example)}
    if asked.task == "text":
        return {"id": name, "picked": solution}  # as bonafide select writes it
    return {"example": name, "answer": solution.text(asked.context(example)), **asdict(solution)}


def predicted(folder: Path, genuine: bool) -> tuple[Path, int]:
    """Predictions that are gold, or another solution of the set where there is one; and how many are another."""
    asked, lines, others = asked_of_store(folder / "solutions"), [], 0
    gold = read_gold(folder / "train" / "gold.jsonl")
    for name, solutions in learnable(asked.task).open_store(folder / "solutions"):
        true = asked.gold(gold[name], asked.examples[name])
        right = [each for each in solutions if _is(each, true)]
        wrong = [each for each in solutions if not _is(each, true)]
        chosen = right[0] if right and (genuine or not wrong) else (wrong or right)[0]
        others += chosen not in right
        lines.append(line(asked, name, chosen))
    write_jsonl(folder / "chosen.jsonl", lines)
    return folder / "chosen.jsonl", others


def _is(solution: Any, true: Any) -> bool:
    if isinstance(true, tuple):
        return normalised(solution) in map(normalised, true)
    if hasattr(true, "mentions"):
        return any(solution.overlaps(each) for each in true.mentions)
    return bool(solution == true)


def test_figures_are_those_of_the_evaluation(data: tuple[str, Path]) -> None:
    task, folder = data
    examples, gold = folder / "train" / "examples.jsonl", folder / "train" / "gold.jsonl"
    evaluate: Any = {"discrete": evaluate_discrete, "reading": evaluate_reading, "text": evaluate_text}[task]
    found = compare_runs([folder / "hard-em", folder / "mimax"], examples, gold)
    for method in found.methods:
        (run,) = method.runs.values()
        figures = evaluate(load_for_evaluation(run), run, examples, gold=gold).figures
        assert method.right(ANSWER).mean() == pytest.approx(figures["execution"]["share"])
        solution = "mention" if task == "reading" else "logical_form"
        assert method.right(SOLUTION).sum() == figures[solution]["right"]
        if task != "text":
            assert method.values(F1).mean() == pytest.approx(figures["f1"])
    assert found.figures == ((ANSWER, SOLUTION) if task == "text" else (ANSWER, F1, SOLUTION))
    assert sum(each.of for each in found.by_set_size(ANSWER)["mimax"].values()) == len(found.asked.examples)
    assert ("where gold has its paragraph alone, anywhere in it" in described(found)) == (task == "reading")


def test_f1_is_computed_from_the_predicted_solutions(data: tuple[str, Path], tmp_path: Path) -> None:
    """So of files that were written before a comparison had any F1 too."""
    task, folder = data
    asked = asked_of_store(folder / "solutions")
    made = {name: found[0] for name, found in learnable(task).open_store(folder / "solutions") if len(found)}
    said = {name: shown_answer(each, asked, asked.examples[name]) for name, each in made.items()}
    for name, answer in said.items():
        asked.examples[name] = replace(asked.examples[name], answers=(f"{answer} indeed",))
    write_jsonl(tmp_path / "predictions.jsonl", (line(asked, name, each) for name, each in made.items()))
    found = read_predicted(tmp_path / "predictions.jsonl", asked)
    if task == "text":
        assert {each.f1 for each in found.values()} == {None}
        return
    assert not any(each.right for each in found.values())
    words = {name: each.f1 for name, each in found.items() if said[name].isalnum()}
    assert words
    assert list(words.values()) == pytest.approx([2 / 3] * len(words), abs=0.005)  # DROP's is rounded
    if task == "reading":
        write_jsonl(tmp_path / "predictions.jsonl", [{"example": min(made), "answer": None}])
        assert read_predicted(tmp_path / "predictions.jsonl", asked)[min(made)].f1 == 0.0


def test_predictions_on_texts_that_have_changed_are_refused(data: tuple[str, Path], tmp_path: Path) -> None:
    task, folder = data
    examples = shutil.copytree(folder / "train", tmp_path / "train") / "examples.jsonl"
    pair = [
        shutil.copytree(folder / name, tmp_path / name, ignore=shutil.ignore_patterns("predictions*"))
        for name in ("hard-em", "mimax")
    ]
    compare_runs(pair, examples)
    documents = examples.with_name("documents.jsonl")
    if task == "text":
        assert not documents.exists()  # a context stands in its example
        return
    made = pair[0] / "predictions.made.json"
    said = read_sealed(made)
    assert said["documents"] == content_hash(documents)
    lines = [json.loads(each) for each in documents.read_text().splitlines()]
    write_jsonl(documents, [{**each, "paragraphs": [f"Yes: {one}" for one in each["paragraphs"]]} for each in lines])
    with pytest.raises(BonafideError, match=r"hard-em.*jsonl was made on other documents\. Run bonafide evaluate"):
        compare_runs(pair, examples)
    write_sealed(made, {name: value for name, value in said.items() if name != "documents"})  # by an earlier version
    assert how_decoded(pair[0] / "predictions.jsonl") is not None
    with pytest.raises(BonafideError, match=r"mimax.*jsonl was made on other documents"):
        compare_runs(pair, examples)


def has_constant(program: Program) -> bool:
    return any(isinstance(each, Constant) for each in program.arguments)


def test_programs_are_read_in_the_language_of_their_own_run(tmp_path: Path) -> None:
    write_discrete_benchmark(tmp_path / "train", seed=1, passages=4, questions=6, scenes=("games",))
    examples, gold = tmp_path / "train" / "examples.jsonl", tmp_path / "train" / "gold.jsonl"
    languages = {"hard-em": Language(constants=(7, 1), max_operands=2), "mimax": Language()}
    search_discrete(examples, tmp_path / "narrow", language=languages["hard-em"])
    solved = {name for name, found in learnable("discrete").open_store(tmp_path / "narrow") if len(found)}
    lines = [json.loads(each) for each in examples.read_text().splitlines()]
    write_jsonl(examples, [each for each in lines if each["id"] in solved])
    for method, language in languages.items():
        store = tmp_path / f"of-{method}"
        search_discrete(examples, store, language=language)
        settings = {"dev": "", "solutions": str(store)}
        train(test_discrete_learning.recipe(tmp_path, method, data=settings, **SHORT), tmp_path / method)
        asked = asked_of_store(store)
        made = (
            line(asked, name, max(found, key=lambda each: (has_constant(each), len(each.arguments))))
            for name, found in learnable("discrete").open_store(store)
        )
        write_jsonl(tmp_path / method / "predictions.jsonl", made)
    runs = [tmp_path / method for method in languages]
    for pair in (runs, runs[::-1]):
        found = compare_runs(pair, examples, gold)
        assert [each.right(ANSWER).mean() for each in found.methods] == [1.0, 1.0]
        pairs = sheet(found)
        assert pairs
        made = {method.name: method.predicted[min(method.runs)] for method in found.methods}
        for each in (*made["hard-em"], *made["mimax"]):  # all are programs of one language, and say what they said
            assert found.asked.text(each.solution, each.example) == each.text
            returned = shown_answer(each.solution, found.asked, each.example)
            assert score(returned.split(", "), each.example.answers).exact_match == 1
        assert any(has_constant(each.solution) for each in made["hard-em"])
        sizes = compare_runs(pair, examples, gold, tmp_path / f"of-{pair[0].name}").sizes
        assert found.sizes == sizes  # those of the first run's language


def test_a_case_whose_question_is_longer_than_the_reconstructor_reads_is_shown() -> None:
    question = "how long is it? " * 400
    small = ReconstructorSpec(layers=1, width=16, heads=2, feed_forward=16)
    reconstructor, tokenizer = build_reconstructor(small, texts=[question], seed=0)
    judge: Any = SimpleNamespace(reconstructor=reconstructor, reconstructor_tokenizer=tokenizer)
    entries = [Entry(text, text, None, rendered_texts([text], question, "", 4)) for text in ("7", "3 + 4")]
    page = article(Shown(Example("q", question, None, (7,)), entries), judge, "candidate")
    assert page.count("<span style=") == reconstructor.markers.positions - 1


def test_an_audit_counts_exactly_and_names_kinds(data: tuple[str, Path], tmp_path: Path) -> None:
    task, folder = data
    gold = folder / "train" / "gold.jsonl"
    path, others = predicted(folder, genuine=False)
    found: Audit = audit_predictions(path, folder / "solutions", gold=gold)
    assert others > 0
    assert found.right == len(found.examples)
    assert found.exact[0].right == others
    assert found.kinds.total() >= others
    if task == "reading":
        assert found.kinds["wrong mention"] == others
    if task == "text":
        assert {"constant coincidence", "redundant steps"} <= set(found.kinds)
    write_audit_page(tmp_path / "audit.html", found)
    path, others = predicted(folder, genuine=True)
    assert audit_predictions(path, folder / "solutions", gold=gold).exact[0].right == others


def test_an_audit_without_gold_gives_every_solution_its_support(data: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = data
    path, _ = predicted(folder, genuine=True)
    found = audit_predictions(path, folder / "solutions", run=folder / "mimax")
    assert found.exact is None
    assert found.estimate.of == len(found.examples)
    assert 0 < found.estimate.share < 1
    assert all(each.support == 1.0 for each in found.examples if each.size == 1)
    write_audit_page(tmp_path / "audit.html", found)
    assert "estimate" in (tmp_path / "audit.html").read_text()
