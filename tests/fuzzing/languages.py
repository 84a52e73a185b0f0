"""The parsers of our two languages, and the metrics: what they are given comes out of models and of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bonafide.errors import BonafideError
from bonafide.examples import DateAnswer
from bonafide.tasks.sql.query import execute, parse_query, same_answer
from bonafide.tasks.sql.tables import Table
from bonafide.tasks.sql.written import read_query
from fuzzing.contract import BrokenContractError, Target
from fuzzing.tables import QUESTIONS, TABLES

PASSAGE = "The siege began on 3 May 1648 with 1,200 men. Five towns fell; by 1653, 40% of 2.5 million people had fled."
QUESTION = "How many years after 1648 did the siege of the 3 towns end?"


def example_table() -> Table:
    """A small table of text, numbers and what is neither."""
    first = TABLES[0]
    return Table(first["id"], tuple(first["header"]), tuple(first["types"]), [tuple(row) for row in first["rows"]])  # type: ignore[arg-type]


def query(_: Path) -> Target:
    """A query as WikiSQL's dictionary: parsed, run, written as SQL."""
    table = example_table()

    def read(data: bytes) -> None:
        parsed = parse_query(_object(data), table)
        parsed.to_sql(table)
        execute(parsed, table)

    seeds = [json.dumps({**each["sql"], "sel": 1}).encode() for each in QUESTIONS]  # type: ignore[dict-item]
    return Target(read, seeds, "1-10")


def written_query(_: Path) -> Target:
    """A query as a text solver writes it; what says none is no query, and no error."""
    table = example_table()

    def read(data: bytes) -> None:
        found = read_query(data.decode(errors="replace"), table)
        if found is not None:
            execute(found, table)

    seeds = [
        b"select max ( goals ) where player = ann lee", b"select none ( club ) where goals > 5 and player = bo ray",
        b"select count ( player ) where", b"select sum ( goals ) where club < oslo and goals = n/a and goals > 1,000",
    ]  # fmt: skip
    return Target(read, seeds, as_json=False)


def program(_: Path) -> Target:
    """A program over a passage: parsed, run, and written as it was read."""
    from bonafide.tasks.discrete.execution import execute as run
    from bonafide.tasks.discrete.language import Language
    from bonafide.tasks.discrete.notation import formula, parse_program, program_text
    from bonafide.tasks.discrete.passage import read as read_passage

    reading, language = read_passage(QUESTION, PASSAGE), Language()

    def read(data: bytes) -> None:
        parsed = parse_program(data.decode(errors="surrogateescape"), reading, language)
        run(parsed, reading, language)
        formula(parsed, reading, language)
        again = program_text(parsed, reading, language)
        if parse_program(again, reading, language) != parsed:
            raise BrokenContractError(f"{again} is read as another program")

    numbers = [
        f"n{place} {json.dumps(PASSAGE[each.start : each.end])}" for place, each in enumerate(reading.passage.numbers)
    ]
    asked = [
        f"m{place} {json.dumps(QUESTION[each.start : each.end])}" for place, each in enumerate(reading.question.numbers)
    ]
    words = [f"p{place}-{place} {json.dumps(reading.passage.span_text(place, place))}" for place in range(6)]
    seeds = [
        f"value({numbers[0]})", f"subtract({numbers[4]}, {numbers[1]})", f"add({numbers[2]}, {asked[0]})",
        f"count({words[1]}, {words[4]})", f"spans({words[0]}, {words[1]})",
        f"argmax({words[1]}: {numbers[1]}, {words[4]}: {numbers[2]})",
        f'subtract(c0 "100", {numbers[0]})', "count()", f"add_subtract({numbers[0]}, {numbers[1]}, {numbers[2]})",
    ]  # fmt: skip
    return Target(read, [each.encode() for each in seeds], as_json=False)


def sql_metric(_: Path) -> Target:
    """When two results are the same answer."""

    def read(data: bytes) -> None:
        value = _object(data)
        left, right = (_answers(value.get(side)) for side in ("left", "right"))
        same = same_answer(left, right)
        if same != same_answer(right, left) or not (same_answer(left, left) or _holds_nan(left)):
            raise BrokenContractError("an answer that is not the same the other way round, or not as itself")

    seeds = [
        b'{"left": ["Oslo", 3, null], "right": ["oslo", 3.0, null]}',
        b'{"left": [0.30000000000000004], "right": [0.3]}',
    ]
    return Target(read, seeds)


def drop_metric(_: Path) -> Target:
    """DROP's exact match and F1, as the official evaluator has it and mended."""
    from bonafide.tasks.discrete.metrics import score

    def read(data: bytes) -> None:
        value = _object(data)
        said = _texts(value.get("predicted"))
        accepted = [_accepted(each) for each in _list(value.get("answers"))] or [None]
        for official in (True, False):
            found = score(said, accepted, official)
            if not (0 <= found.f1 <= 1 and found.exact_match in (0, 1)):
                raise BrokenContractError(f"a score out of bounds: {found}")

    seeds = [
        b'{"predicted": ["78-yard"], "answers": ["78 yard", 78, ["a", "b"]]}',
        b'{"predicted": ["John", "Joe K."], "answers": [["Joe Karman", "John"], {"day": "3", "month": "May"}]}',
        b'{"predicted": ["$3.14", "1,000", "10%"], "answers": [3.14, "the 1000", "."]}',
    ]
    return Target(read, seeds)


def squad_metric(_: Path) -> Target:
    """SQuAD's exact match and F1."""
    from bonafide.tasks.reading.metrics import exact_match, f1

    def read(data: bytes) -> None:
        value = _object(data)
        said, accepted = _text(value.get("said")), _texts(value.get("accepted"))
        exact, overlap = exact_match(said, accepted), f1(said, accepted)
        if not 0 <= exact <= overlap <= 1:
            raise BrokenContractError(f"exact match {exact} and F1 {overlap}")

    return Target(read, _ANSWERS)


def rouge_metric(_: Path) -> Target:
    """ROUGE-L of free answers."""
    from bonafide.tasks.reading.metrics import rouge_l

    def read(data: bytes) -> None:
        value = _object(data)
        found = rouge_l(_text(value.get("said"))[:400], _texts(value.get("accepted"))[:4])
        if not 0 <= found <= 1 + 1e-9:
            raise BrokenContractError(f"ROUGE-L of {found}")

    return Target(read, _ANSWERS)


_ANSWERS = [
    b'{"said": "the Saint Bernadette", "accepted": ["Saint Bernadette", "bernadette"]}',
    b'{"said": "a. b, c!", "accepted": ["A B D", ""]}',
    '{"said": "İstanbul — 3½ e\u0301", "accepted": ["istanbul", "é"]}'.encode(),
]


def _object(data: bytes) -> dict[str, Any]:
    """What a line of a file holds: that it is an object, who reads the file has made sure of."""
    from bonafide.files import parse_json

    try:
        value = parse_json(data)
    except ValueError as error:
        raise BonafideError(f"1-10: {error}") from None
    return value if isinstance(value, dict) else {"sel": value, "said": value, "predicted": value, "left": value}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)[:100]


def _texts(value: Any) -> list[str]:
    return [_text(each) for each in _list(value)][:30]


def _accepted(value: Any) -> Any:
    if isinstance(value, dict):
        return DateAnswer(*(_text(value.get(part, "")) for part in ("day", "month", "year")))
    if isinstance(value, list):
        return tuple(map(_text, value[:30]))
    return value if value is None or isinstance(value, (str, int, float)) else _text(value)


def _answers(value: Any) -> list[Any]:
    kept = [each if each is None or isinstance(each, (str, int, float)) else _text(each) for each in _list(value)]
    return [each for each in kept if not isinstance(each, int) or abs(each) < 10**300]


def _holds_nan(values: list[Any]) -> bool:
    return any(isinstance(each, float) and each != each for each in values)
