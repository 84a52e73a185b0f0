"""The audit: its functions on arrays, the kinds of spuriousness, exact counts with gold, estimates without."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from bonafide.cli import app
from bonafide.documents import Document
from bonafide.errors import BonafideError, InvalidFileError
from bonafide.evaluate.predictions import write_predictions
from bonafide.evaluate.sql import Accuracy, SqlPrediction
from bonafide.examples import read_gold, write_jsonl
from bonafide.learn.learnable import learnable
from bonafide.learn.trainer import train
from bonafide.report.audit import (
    audit_predictions,
    calibrate,
    label_quality,
    margin,
    spurious,
    support,
    suspicious_labels,
)
from bonafide.report.audit_page import to_json, write_audit_page
from bonafide.report.calibration import calibrated_interval
from bonafide.report.demo import run_demo
from bonafide.report.demo_sql import SqlDemo
from bonafide.report.judging import Judgements, Pair
from bonafide.report.predicted import asked_of_store, shown_answer
from bonafide.report.runs import evaluate_run
from bonafide.report.spurious import kinds_of
from bonafide.search.discrete import search_discrete
from bonafide.search.sql import search_sql
from bonafide.search.text import import_candidates
from bonafide.synth.sql import write_benchmark
from bonafide.tasks.discrete.language import Language as Programs
from bonafide.tasks.discrete.notation import parse_program
from bonafide.tasks.discrete.passage import Passage, Reading
from bonafide.tasks.reading.span import Mention
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import Aggregate, execute, parse_query
from bonafide.tasks.sql.tables import Table, table_from_line
from tiny_runs import recipe

torch.set_num_threads(1)
WORDS = {Aggregate.NONE: "show", Aggregate.MAX: "largest", Aggregate.MIN: "smallest"}
ONE_CONDITION = Language(max_conditions=1)


def write_plain_data(folder: Path, tables: int, seed: int) -> None:
    """Questions without paraphrases on orders, such as ``largest price of city oslo``: learned within seconds."""
    chance = random.Random(seed)
    listed, examples, gold = [], [], []
    for number in range(tables):
        rows = [
            [chance.choice(["oslo", "riga", "cork", "lyon", "bern", "turin"]), chance.choice(["lamp", "desk", "chair"]),
             chance.randrange(10, 99), chance.randrange(100, 999)]
            for _ in range(8)
        ]  # fmt: skip
        header = ["city", "item", "units", "price"]
        listed.append({"id": f"t{number}", "header": header, "types": ["text", "text", "real", "real"], "rows": rows})
        table = table_from_line(json.dumps(listed[-1]).encode())
        for place in range(10):
            column, select, aggregate = chance.randrange(2), chance.choice([2, 3]), chance.choice(list(WORDS))
            value = chance.choice(rows)[column]
            query = {"sel": select, "agg": int(aggregate), "conds": [[column, 0, value]]}
            name = f"{folder.name}-{number}-{place}"
            question = f"{WORDS[aggregate]} {header[select]} of {header[column]} {value}"
            answers = execute(parse_query(query, table), table)
            examples.append({"id": name, "question": question, "context": f"t{number}", "answers": answers})
            gold.append({"id": name, "solution": query})
    write_jsonl(folder / "tables.jsonl", listed)
    write_jsonl(folder / "examples.jsonl", examples)
    write_jsonl(folder / "gold.jsonl", gold)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain data, a store of its 80 dev examples, and a MIMAX run."""
    folder = tmp_path_factory.mktemp("data")
    write_plain_data(folder / "train", 30, 0)
    write_plain_data(folder / "dev", 8, 1)
    search_sql(folder / "train" / "examples.jsonl", folder / "solutions", language=ONE_CONDITION)
    search_sql(folder / "dev" / "examples.jsonl", folder / "devs", language=ONE_CONDITION)
    rates = dict.fromkeys(("encoder_rate", "head_rate", "reconstructor_rate"), 5e-3)
    settings = recipe(
        folder,
        "mimax",
        solver={"dropout": 0.0, "head_width": 32},
        reconstructor={"dropout": 0.0},
        objective={"options": {"switch": -1.0}},
        train={
            "epochs": 7.0,
            "batch": 16,
            "budget": 400_000,
            "checkpoint_every": 1000,
            "evaluate_every": 100.0,
            **rates,
        },
    )
    train(settings, folder / "run")
    return folder


def write_predicted(data: Path, name: str, every: int) -> Path:
    """Gold for each example but every n-th, which gets another solution of its set where it has one."""
    asked = asked_of_store(data / "devs")
    gold, store = read_gold(data / "dev" / "gold.jsonl"), learnable("sql").open_store(data / "devs")
    made = []
    for place, (example, solutions) in enumerate(store):
        true = asked.gold(gold[example], asked.examples[example])
        others = [each for each in solutions if each != true]
        query = others[0] if place % every == 0 and others else true
        made.append(SqlPrediction(example, query, -1.0))
    path = data / f"{name}.jsonl"
    write_predictions(path, made, lambda each: asked.context_of(asked.examples[each]))
    return path


def test_spurious_is_a_right_answer_with_a_wrong_solution() -> None:
    assert spurious([True, True, False, False], [True, False, False, True]).tolist() == [False, True, False, False]
    with pytest.raises(BonafideError, match=r"shapes \(2,\) and \(1,\)"):
        spurious([True, True], [True])


def test_support_and_margin_by_hand() -> None:
    scores = np.log([0.2, 0.6, 0.2]) - 40.0  # of a long question
    assert support(scores, 1) == pytest.approx(0.6)
    assert margin(scores, 1) == pytest.approx(np.log(3))
    assert margin(scores, 0) == pytest.approx(-np.log(3))
    assert (support([-7.0], 0), margin([-7.0], 0)) == (1.0, np.inf)


def test_a_calibration_finds_what_judgements_were_drawn_from() -> None:
    chance = np.random.default_rng(0)
    margins = chance.normal(0, 3, 4000)
    right = chance.random(4000) < 1 / (1 + np.exp(-(0.5 + 0.8 * margins)))
    found = calibrate(margins, right)
    assert found.intercept == pytest.approx(0.5, abs=0.1)
    assert found.slope == pytest.approx(0.8, abs=0.1)
    assert found.probability([np.inf, 0.0]).tolist() == pytest.approx([1.0, 1 / (1 + np.exp(-found.intercept))])
    assert calibrate(margins[:9], right[:9]) is None
    assert calibrate(margins[:20], np.ones(20, bool)) is None


def test_labels_are_suspicious_where_nothing_explains_the_question() -> None:
    quality = label_quality([-20.0, -20.0, -20.0, -20.0, -np.inf], [-30.0, -19.0, -12.0, -np.inf, -np.inf])
    assert quality.tolist() == [0.0, -1.0, -8.0, 0.0, -np.inf]
    assert suspicious_labels(quality).tolist() == [False, False, True, False, True]
    with pytest.raises(BonafideError, match=r"shapes \(1,\) and \(2,\)"):
        label_quality([1.0], [1.0, 2.0])


TABLE = Table(
    "t",
    ("city", "twin", "month", "units"),
    ("text", "text", "text", "real"),
    (("oslo", "oslo", "may", 1), ("riga", "oslo", "june", 2), ("cork", "cork", "may", 2), ("lyon", "bern", "may", 5)),
)


def kinds(query: dict[str, object], reference: dict[str, object]) -> list[str]:
    return kinds_of("sql", parse_query(query, TABLE), parse_query(reference, TABLE), TABLE)


def asks(select: int, aggregate: int, *conditions: list[object]) -> dict[str, object]:
    return {"sel": select, "agg": aggregate, "conds": list(conditions)}


def test_kinds_of_spurious_queries() -> None:
    riga = [0, 0, "riga"]
    assert kinds(asks(0, 0, [0, 0, "cork"]), asks(1, 0, [0, 0, "cork"])) == [
        "constant coincidence", "wrong column with the same value",
    ]  # fmt: skip
    assert kinds(asks(3, 0, riga, [2, 0, "june"]), asks(3, 0, riga)) == ["redundant condition"]
    assert kinds(asks(3, 0, riga), asks(3, 0, riga, [2, 0, "june"])) == ["missing condition"]
    assert "wrong column with the same value" in kinds(asks(3, 0, [1, 0, "cork"]), asks(3, 0, [0, 0, "cork"]))
    assert kinds(asks(0, 3, [1, 0, "oslo"]), asks(3, 0, riga)) == ["count by accident"]
    assert kinds(asks(0, 3, [1, 0, "oslo"]), asks(0, 3, [3, 0, 2])) == ["count by accident"]
    assert kinds(asks(3, 1, riga), asks(3, 0, riga)) == ["idle aggregate"]
    assert kinds(asks(3, 2), asks(0, 3, riga)) == ["other"]
    one, two = (kinds(asks(3, 4, [3, 0, units]), asks(3, 4, [2, 0, "may"])) for units in (5, 2))  # 2 + 2 is not 2
    assert ("constant coincidence" in one, "constant coincidence" in two) == (True, False)


def test_kinds_of_spurious_programs() -> None:
    text = "The siege began in 1648. Five towns fell in 1648. The treaty was signed in 1653."
    reading, language = Reading(Passage("how many years after 1648?"), Passage(text)), Programs()
    numbers = {text[each.start : each.end]: place for place, each in enumerate(reading.passage.numbers)}
    years = [place for place, each in enumerate(reading.passage.numbers) if text[each.start : each.end] == "1648"]

    def of(program: str, reference: str) -> list[str]:
        read = [parse_program(each, reading, language) for each in (program, reference)]
        return kinds_of("discrete", *read, reading, language)

    meant = f'subtract(n{numbers["1653"]} "1653", n{years[0]} "1648")'
    assert of(f'value(n{numbers["Five"]} "Five")', meant) == ["other operation"]
    assert of(f'subtract(n{numbers["1653"]} "1653", n{years[1]} "1648")', meant) == ["wrong mention"]
    assert of(f'subtract(n{numbers["1653"]} "1653", m0 "1648")', meant) == ["constant coincidence", "wrong mention"]
    spans = ", ".join(f'p{place}-{place} "{reading.passage.span_text(place, place)}"' for place in range(5))
    assert of(f"count({spans})", meant) == ["count by accident"]


def test_kinds_of_spurious_mentions() -> None:
    document = Document("d", None, ("Ada runs it. Ada signs.", "Ada left."))
    first, second, third = Mention(0, 0, 3), Mention(0, 13, 16), Mention(1, 0, 3)
    assert kinds_of("reading", first, second, document) == ["wrong mention"]
    assert kinds_of("reading", third, second, document) == ["wrong mention", "wrong paragraph"]
    assert kinds_of("reading", Mention(0, 0, 8), second, document) == ["other"]


def test_with_gold_the_count_is_exact(data: Path) -> None:
    path, store = write_predicted(data, "half", 2), learnable("sql").open_store(data / "devs")
    expected = sum(len(solutions) > 1 for place, (_, solutions) in enumerate(store) if place % 2 == 0)
    found = audit_predictions(path, data / "devs", gold=data / "dev" / "gold.jsonl")
    accuracy, interval = found.exact
    assert (found.right, accuracy.right, accuracy.of) == (80, expected, 80)
    assert interval.low < expected / 80 < interval.high
    assert found.estimate is None
    assert sum(each.doubtful for each in found.examples) == expected
    assert set(found.kinds) <= {"idle aggregate", "wrong column with the same value", "constant coincidence",
                                "count by accident", "missing condition", "other"}  # fmt: skip
    assert found.kinds["idle aggregate"] > 0


def test_without_gold_the_estimate_follows_the_truth(data: Path) -> None:
    paths = {every: write_predicted(data, f"every-{every}", every) for every in (1, 2, 1000)}
    found = {every: audit_predictions(path, data / "devs", run=data / "run") for every, path in paths.items()}
    exact = {
        every: audit_predictions(path, data / "devs", gold=data / "dev" / "gold.jsonl").exact[0].share
        for every, path in paths.items()
    }
    shares = {every: each.estimate.share for every, each in found.items()}
    assert shares[1] > shares[2] > shares[1000]
    for every, share in shares.items():
        assert share == pytest.approx(exact[every], abs=0.2)
    assert found[1].exact is None
    assert found[1].agreement.share > 0.8
    assert found[1].estimate.calibration is None


def test_judgements_calibrate_the_estimate(data: Path) -> None:
    path = write_predicted(data, "judged", 2)
    asked = asked_of_store(data / "devs")
    gold, store = read_gold(data / "dev" / "gold.jsonl"), learnable("sql").open_store(data / "devs")
    pairs = []
    for name, solutions in store:
        example = asked.examples[name]
        true = asked.gold(gold[name], example)
        others = [each for each in solutions if each != true]
        if others:
            texts = [asked.text(each, example) for each in (true, others[0])]
            pairs.append(Pair(name, name, example.question, None, [], *texts, "a", "b"))
    judgements = Judgements(pairs, {pair.id: "left" for pair in pairs}, 0, 0)
    found = audit_predictions(path, data / "devs", run=data / "run", judgements=judgements)
    exact = audit_predictions(path, data / "devs", gold=data / "dev" / "gold.jsonl").exact[0]
    assert found.estimate.calibration.judged == len(pairs) > 20  # of each pair the prediction alone
    assert found.estimate.calibration.slope > 0
    assert found.estimate.share == pytest.approx(exact.share, abs=0.1)
    assert found.estimate.interval.low < exact.share < found.estimate.interval.high
    assert 0 < found.judged.right < found.judged.of == len(pairs)


def test_people_find_spurious_solutions_among_right_answers_alone(tmp_path: Path) -> None:
    candidates = [{"text": "12 + 7", "answer": 19}, "20 - 1", "3 + 4 = 7"]
    lines = [
        {"id": str(number), "question": f"Of {number} apples, how many?", "answer": 19, "candidates": candidates}
        for number in range(4)
    ]
    write_jsonl(tmp_path / "file.jsonl", lines)
    import_candidates(tmp_path / "file.jsonl", tmp_path / "dev")
    texts = ["12 + 7", "20 - 1", "9 + 9 = 18", "1 + 1 = 2"]
    write_jsonl(tmp_path / "picked.jsonl", [{"id": str(number), "picked": each} for number, each in enumerate(texts)])
    pairs = [Pair(str(n), str(n), "Of apples, how many?", None, [], each, "", "a", "b") for n, each in enumerate(texts)]
    judgements = Judgements(pairs, {"0": "left", "1": "right", "2": "right", "3": "right"}, 0, 0)
    found = audit_predictions(tmp_path / "picked.jsonl", tmp_path / "dev/solutions", judgements=judgements)
    assert found.right == 2  # 12 + 7 reaches the answer and does not state it
    assert found.judged == Accuracy(1, 2)


def exchange_answers(folder: Path, out: Path, count: int, seed: int = 0) -> set[str]:
    """Copy a split, with the answers of some examples exchanged for another question's on the same table; which."""
    lines = [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]
    chance, wrong = random.Random(seed), {}
    for line in chance.sample(lines, count):
        others = [each for each in lines if each["context"] == line["context"] and each["answers"] != line["answers"]]
        wrong[line["id"]] = chance.choice(others)["answers"]
    write_jsonl(out / "examples.jsonl", ({**line, "answers": wrong.get(line["id"], line["answers"])} for line in lines))
    (out / "tables.jsonl").write_bytes((folder / "tables.jsonl").read_bytes())
    return set(wrong)


def test_wrong_labels_are_found(data: Path, tmp_path: Path) -> None:
    wrong = exchange_answers(data / "dev", tmp_path, 8)
    search_sql(tmp_path / "examples.jsonl", tmp_path / "devs", language=ONE_CONDITION)
    path = write_predicted(data, "gold", 1000)
    found = audit_predictions(path, tmp_path / "devs", run=data / "run")
    flagged = {each.predicted.example.id for each in found.labels}
    assert flagged <= wrong
    assert len(flagged) >= 6
    assert any(each.size for each in found.labels)
    write_audit_page(tmp_path / "audit.html", found)
    assert "nats behind" in (tmp_path / "audit.html").read_text()


def test_the_command_writes_a_page_that_nothing_breaks(data: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (data / "dev" / "examples.jsonl").read_text().splitlines()]
    lines[0]["question"] += " <script>alert(1)</script>"
    write_jsonl(tmp_path / "examples.jsonl", lines)
    (tmp_path / "tables.jsonl").write_bytes((data / "dev" / "tables.jsonl").read_bytes())
    search_sql(tmp_path / "examples.jsonl", tmp_path / "devs", language=ONE_CONDITION)
    path = write_predicted(data, "all", 1)
    options = ["--solutions", tmp_path / "devs", "--run", data / "run", "--html", tmp_path / "audit.html"]
    done = CliRunner().invoke(app, ["audit", str(path), *map(str, options)])
    assert done.exit_code == 0, done.output
    assert "spurious, an estimate" in done.stdout
    page = (tmp_path / "audit.html").read_text()
    assert "seems spurious" in page
    assert "<script" not in page
    assert "http" not in page
    found = audit_predictions(path, tmp_path / "devs", gold=data / "dev" / "gold.jsonl")
    write_audit_page(tmp_path / "gold.html", found)
    assert "<script" not in (tmp_path / "gold.html").read_text()
    assert json.loads(json.dumps(to_json(found)))["right_answers"] == 80


def test_answers_are_shown_as_a_person_reads_them(data: Path, tmp_path: Path) -> None:
    answers = [{"day": "", "month": "May", "year": "1648"}, ["Oslo", "Lyon"], 7]
    lines = [{"id": "q1", "question": "When, and where?", "context": "Nothing is said.", "answers": answers}]
    write_jsonl(tmp_path / "examples.jsonl", lines)
    search_discrete(tmp_path / "examples.jsonl", tmp_path / "devs")
    write_jsonl(tmp_path / "predictions.jsonl", [{"example": "q1", "program": 'spans(p0-0 "Nothing")'}])
    write_audit_page(tmp_path / "audit.html", audit_predictions(tmp_path / "predictions.jsonl", tmp_path / "devs"))
    assert "<td>May 1648, Oslo and Lyon, 7</td>" in (tmp_path / "audit.html").read_text()
    asked = asked_of_store(data / "devs")
    example = next(iter(asked.examples.values()))
    table = asked.context(example)
    for aggregate, returned in ((0, "nothing"), (1, "NULL")):
        query = parse_query({"sel": 1, "agg": aggregate, "conds": [[0, 0, "nowhere"]]}, table)
        assert shown_answer(query, asked, example) == returned


def test_what_cannot_be_audited_is_refused(data: Path, tmp_path: Path) -> None:
    path = write_predicted(data, "some", 2)
    with pytest.raises(InvalidFileError, match="the id of an example"):
        audit_predictions(path, data / "solutions")  # a store of other examples
    write_jsonl(tmp_path / "gold.jsonl", [{"id": "else", "solution": {}}])
    with pytest.raises(BonafideError, match="has gold for none"):
        audit_predictions(path, data / "devs", gold=tmp_path / "gold.jsonl")
    train(recipe(data, "hard-em", train={"epochs": 0.2, "checkpoint_every": 1000}), tmp_path / "hard-em")
    with pytest.raises(BonafideError, match="has no reconstructor"):
        audit_predictions(path, data / "devs", run=tmp_path / "hard-em")


def covered(margins: np.ndarray, genuine: np.ndarray, judged: int, draws: int) -> list[bool]:
    """In each of some draws of judged solutions, whether the calibrated interval covers the share of spurious ones."""
    chance = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        some = chance.choice(len(margins), judged, replace=False)
        interval = calibrated_interval(margins[some], genuine[some], margins)
        found.append(bool(interval.low <= 1 - genuine.mean() <= interval.high))
    return found


def test_the_calibrated_interval_covers_the_count() -> None:
    chance = np.random.default_rng(0)
    margins = chance.normal(1, 3, 300)
    genuine = chance.random(300) < 1 / (1 + np.exp(-(0.3 * margins - 0.5)))
    assert sum(covered(margins, genuine, 50, 20)) >= 17
    few, many = (calibrated_interval(margins[:count], genuine[:count], margins) for count in (30, 200))
    assert many.high - many.low < few.high - few.low


def audit_fresh_data(runs: Path, folder: Path, seed: int) -> None:
    """Hold the demo's runs to new data and to new wrong labels: none was looked at when the 3 nats were chosen."""
    demo, dev, language = SqlDemo(), folder / "dev", Language(max_conditions=SqlDemo().max_conditions)
    write_benchmark(dev, seed, demo.dev_tables, 12, demo.spuriousness, "dev", (demo.domain,), demo.max_conditions)
    search_sql(dev / "examples.jsonl", folder / "devs", language=language)
    asked = asked_of_store(folder / "devs")
    found = {}
    for name in demo.methods:
        done = evaluate_run(runs / name, dev / "examples.jsonl", gold=dev / "gold.jsonl")
        path = folder / f"{name}.jsonl"
        write_predictions(path, done.predictions, lambda each: asked.context_of(asked.examples[each]))
        found[name] = audit_predictions(path, folder / "devs", runs / "MIMAX", dev / "gold.jsonl")
        scored = [one for one in found[name].examples if one.predicted.right and one.support is not None]
        genuine = np.array([bool(one.predicted.genuine) for one in scored])
        inside = covered(np.array([one.margin for one in scored]), genuine, 50, 20)
        print(name, found[name].right, found[name].exact, found[name].estimate, "covered", sum(inside), "of 20")
        assert sum(inside) >= 16
        assert found[name].estimate.share == pytest.approx(found[name].exact[0].share, abs=0.15)
    assert found["HardEM"].exact[0].share > found["MIMAX"].exact[0].share + 0.3
    assert found["HardEM"].estimate.share > found["MIMAX"].estimate.share + 0.3
    hits = flags = 0
    for exchange in (1, 2, 3):
        wrong = exchange_answers(dev, folder / f"wrong-{exchange}", 36, exchange)
        store = folder / f"wrongs-{exchange}"
        search_sql(folder / f"wrong-{exchange}" / "examples.jsonl", store, language=language)
        labels = audit_predictions(folder / "MIMAX.jsonl", store, run=runs / "MIMAX").labels
        flagged = {each.predicted.example.id for each in labels}
        empty = sum(not each.size for each in labels)
        print(exchange, "found", len(flagged & wrong), "of 36, others", len(flagged - wrong), "empty sets", empty)
        hits, flags = hits + len(flagged & wrong), flags + len(flagged)
    assert hits / (3 * 36) >= 0.8
    assert hits / flags >= 0.9


@pytest.mark.long
def test_estimates_intervals_and_labels_hold_on_fresh_data(tmp_path: Path) -> None:
    run_demo(SqlDemo(), tmp_path / "demo")
    audit_fresh_data(tmp_path / "demo" / "runs", tmp_path / "fresh", seed=11)


def test_a_pick_that_reaches_the_answer_without_stating_it_is_a_right_answer(tmp_path: Path) -> None:
    candidates = [{"text": "12 + 7", "answer": 19}, "20 - 1"]
    lines = [
        {"id": str(number), "question": f"Of {number} apples, how many?", "answer": 19, "candidates": candidates}
        for number in range(4)
    ]
    write_jsonl(tmp_path / "file.jsonl", [line | {"gold": "12 + 7"} for line in lines])
    import_candidates(tmp_path / "file.jsonl", tmp_path / "dev")
    picks = [{"id": str(number), "picked": each} for number, each in enumerate(["12 + 7", "20 - 1", "18 + 1", None])]
    write_jsonl(tmp_path / "picked.jsonl", picks)
    found = audit_predictions(tmp_path / "picked.jsonl", tmp_path / "dev/solutions", gold=tmp_path / "dev/gold.jsonl")
    assert [each.predicted.right for each in found.examples] == [True, True, False, False]
    assert [each.doubtful for each in found.examples] == [False, True, False, False]


def test_of_no_right_answer_nothing_is_said_to_be_spurious(tmp_path: Path) -> None:
    line = {"id": "0", "question": "How many?", "answer": 19, "candidates": ["12 + 7"], "gold": "12 + 7"}
    write_jsonl(tmp_path / "file.jsonl", [line])
    import_candidates(tmp_path / "file.jsonl", tmp_path / "dev")
    write_jsonl(tmp_path / "picked.jsonl", [{"id": "0", "picked": "3 + 4 = 7"}])
    found = audit_predictions(tmp_path / "picked.jsonl", tmp_path / "dev/solutions", gold=tmp_path / "dev/gold.jsonl")
    assert (found.right, found.exact) == (0, None)
    write_audit_page(tmp_path / "audit.html", found)
    assert "spurious, by gold" not in (tmp_path / "audit.html").read_text()
