"""WikiSQL's format, and the figures on the real data where it is at hand (BONAFIDE_DATA)."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import pytest

from bonafide.errors import InvalidFileError
from bonafide.examples import read_gold, write_jsonl
from bonafide.report.inspect import Inspection
from bonafide.search.sql import search_sql
from bonafide.tasks.sql.engine import Engine
from bonafide.tasks.sql.language import Language
from bonafide.tasks.sql.query import same_answer
from bonafide.tasks.sql.wikisql import import_wikisql

DATA = os.environ.get("BONAFIDE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="BONAFIDE_DATA is not set: no real data at hand")

TABLE = {
    "id": "1-1",
    "header": ["Player", "No.", "player"],
    "types": ["text", "real", "text"],
    "rows": [["Ann", 3, "x"], ["Bo", 3, "y"]],
}
QUESTION = {
    "phase": 1,
    "table_id": "1-1",
    "question": "who wears 3?",
    "sql": {"sel": 0, "agg": 0, "conds": [[1, 0, "3"]]},
}


def write(folder: Path, questions: list, tables: list) -> tuple[Path, Path]:
    paths = folder / "train.jsonl", folder / "train.tables.jsonl"
    for path, lines in zip(paths, (questions, tables), strict=True):
        write_jsonl(path, lines)
    return paths


def test_import_keeps_gold_apart_from_examples(tmp_path):
    done = import_wikisql(*write(tmp_path, [QUESTION, QUESTION], [TABLE]), tmp_path / "out")
    assert (done.examples, done.tables, done.renamed_columns) == (2, 1, 1)
    text = (tmp_path / "out/examples.jsonl").read_text()
    assert json.loads(text.splitlines()[0]) == {
        "id": "train-1",
        "question": "who wears 3?",
        "context": "1-1",
        "answers": ["ann", "bo"],
    }
    assert "sel" not in text
    assert "conds" not in text
    assert read_gold(tmp_path / "out/gold.jsonl")["train-2"].solution == QUESTION["sql"]
    table = json.loads((tmp_path / "out/tables.jsonl").read_text())
    assert table["header"] == ["Player", "No.", "player (2)"]


def test_compressed_files_read_the_same(tmp_path):
    questions, tables = write(tmp_path, [QUESTION], [TABLE])
    import_wikisql(questions, tables, tmp_path / "plain")
    packed = []
    for path in (questions, tables):
        packed.append(path.with_name(path.name + ".gz"))
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
    import_wikisql(*packed, tmp_path / "packed")
    for name in ("examples.jsonl", "tables.jsonl", "gold.jsonl"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "packed" / name).read_bytes()


def test_every_problem_of_a_wikisql_file_is_reported(tmp_path):
    wrong = [
        QUESTION,
        {**QUESTION, "table_id": "9-9"},
        {**QUESTION, "sql": {"sel": 7, "agg": 0, "conds": []}},
        {**QUESTION, "question": ""},
        {**QUESTION, "sql": None},
    ]
    with pytest.raises(InvalidFileError) as caught:
        import_wikisql(*write(tmp_path, wrong, [TABLE]), tmp_path / "out")
    assert [(problem.line, problem.field) for problem in caught.value.problems] == [
        (2, "table_id"),
        (3, "sql"),
        (4, "question"),
        (5, "sql"),
    ]
    assert not (tmp_path / "out").exists()


@needs_data
@pytest.mark.parametrize(
    ("split", "examples", "aggregates", "coverage", "gold_in_set"),
    [
        pytest.param("dev", 5221, "untyped", 0.99, 0.97, marks=pytest.mark.slow),
        pytest.param("dev", 5221, "typed", 0.99, 0.955, marks=pytest.mark.slow),
        pytest.param("train", 40411, "untyped", 0.99, 0.97, marks=pytest.mark.long),
        pytest.param("train", 40411, "typed", 0.98, 0.955, marks=pytest.mark.long),
    ],
)
def test_the_real_data_is_covered(tmp_path, split, examples, aggregates, coverage, gold_in_set):
    source = Path(DATA) / "wikisql"
    done = import_wikisql(source / f"{split}.jsonl.xz", source / f"{split}.tables.jsonl.xz", tmp_path / "data")
    assert done.examples == examples
    language = Language(aggregates=aggregates)
    search_sql(tmp_path / "data/examples.jsonl", tmp_path / "store", language=language, cap=None, workers=2)
    inspection = Inspection(tmp_path / "store")
    figures = inspection.figures(tmp_path / "data/gold.jsonl")
    assert figures["complete"] == 1
    assert figures["coverage"] >= coverage
    assert figures["gold_in_set"] >= gold_in_set
    for name in random.Random(0).sample(inspection.store.ids, 60):
        table, example = inspection.table_of(name), inspection.examples[name]
        with Engine(table) as engine:
            for query in inspection.store[name][:200]:
                assert same_answer(engine.run(*query.to_sql(table)), example.answers), (name, query)
