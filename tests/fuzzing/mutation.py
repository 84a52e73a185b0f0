"""Files that are almost right: valid ones with bytes or values changed, each a function of its random state alone.

Three ways take turns. Bytes are flipped, cut, repeated, spliced from two files, or replaced by signs that readers are
known to trip over. Lines of JSON are changed as values: fields dropped, repeated, renamed, retyped, replaced by what
no one expects (numbers beyond every bound, half characters, deep nesting). And some inputs are nothing but noise.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

LARGEST = 1 << 16
"""Bytes of the longest input."""

_RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400, "-" + "9" * 5000, "-0", "-0.0", "5e-324",
    "1e308",
    "[" * 60 + "]" * 60, "[" * 940 + "]" * 940, "[" * 965 + "]" * 965, "[" * 975 + "]" * 975,
    "[" * 30000 + "]" * 30000, '{"a":' * 400 + "1" + "}" * 400,
    '{"id": 1, "id": 2}', '"\\ud800"', '"\\udc00\\ud800"', "nul", "'a'", "01", "1.", "",
]  # fmt: skip
_ODD: list[Any] = [
    None, True, False, 0, 1, 2, 3, 5, 7, -1, 255, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1,
    2**64, 10**30,
    0.1, 0.5, 1.0, 2.0, -0.0, 1e-300, 1e300, 1e308, "", " ", "\0", "a\0b", "\n", "\r", "\u2028", "\ufeff", "\ud800",
    "nan", "inf", "1e999", "-", "1,000", "٣", "²", "½", "İ", "ß", "𝟙", "e\u0301", "\u202e", "text", "real", "id", "0",
    "1",
    "a" * 3000, "9" * 400, " ".join("ab" for _ in range(300)), "x" * 40000, [], {}, [[]], [None], [0], [""], ["a", "b"],
    [[0, "a"]], {"": None}, {"text": "a"}, {"text": "a", "start": -1}, {"day": "1"}, [1, 2, 3], [0, 0, "a"], [0, 5,
    None],
]  # fmt: skip
_TOKENS = [
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf5", b"\r", b"\n", b"\n\n", b'"', b'""', b"'", b",",
    b";", b"\t",
    b"|", b"{", b"}", b"[", b"]", b":", b"=", b"#", b"\\", b"\\u", b"\\ud800", b"(", b")", b"%", b"-", b"e9", b"NaN",
    b"1e999",
    b"null", b"true", b"9" * 30, b"\xe2\x88\x92", b"\xc2\xa0", b"\xc2\xb2", b"\xd9\xa3", b"\xe2\x80\xa8", b" and ",
    b" where ",
    b"0x", b"PAR1", b"\x1f\x8b", b"SQLite format 3\0", b"[" * 300, b'"""', b"'''", b"[[", b"]]", b"../", b"/etc/passwd",
]  # fmt: skip
_PLACE = "\x02{}\x02"
_PLACED = re.compile(r'"\\u0002(\d+)\\u0002"')


def mutated(seeds: Sequence[bytes], chance: Random, as_json: bool = True) -> bytes:
    """An input made of one of these files, or of none."""
    way = chance.random()
    if way < 0.03:
        return noise(chance)
    data = chance.choice(seeds)
    if way < 0.06:
        return data
    if as_json and way < 0.66:
        same, data = data, with_values_changed(data, chance)
        if way < 0.58 and data != same:
            return data[:LARGEST]
    for _ in range(_few(chance)):
        data = _with_bytes_changed(data, seeds, chance)
    return data[:LARGEST]


def noise(chance: Random) -> bytes:
    """Random bytes, or random signs of the kind that files are made of."""
    size = chance.choice((0, 1, 2, 8, 60, 500, 5000))
    if chance.random() < 0.5:
        return chance.randbytes(size)
    return b"".join(chance.choice(_TOKENS) for _ in range(size // 4 + 1))


def with_values_changed(data: bytes, chance: Random) -> bytes:
    """A file of JSON, or of one such value a line, with some values changed; unchanged where it is neither."""
    if data[:1] in b"[{" and b"\n{" not in data[:-1]:
        return _changed_text(data, chance)
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    for _ in range(_few(chance)):
        place = chance.randrange(len(lines))
        change = chance.random()
        if change < 0.8:
            lines[place] = _changed_text(lines[place].rstrip(b"\n"), chance) + b"\n"
        elif change < 0.9:
            lines.insert(chance.randrange(len(lines) + 1), lines[place])
        elif len(lines) > 1:
            del lines[place]
    return b"".join(lines)


def changed(value: Any, chance: Random) -> Any:
    """A JSON value with some place in it changed; raw texts of JSON stand in it as marked places."""
    holder = [value]
    for _ in range(_few(chance)):
        _change_one(holder, chance)
    return holder[0]


def written(value: Any, chance: Random) -> bytes:
    """A value of :func:`changed` as JSON, raw texts in their places."""
    text = json.dumps(value, ensure_ascii=True)
    if chance.random() < 0.5:  # the other way to write it, where it can be written so
        try:
            text.encode("utf-8")
            raw = json.dumps(value, ensure_ascii=False)
            raw.encode()
            text = raw.replace("\x02", "\\u0002")
        except UnicodeEncodeError:
            pass
    return _PLACED.sub(lambda found: _RAW[int(found[1]) % len(_RAW)], text).encode()


def _changed_text(text: bytes, chance: Random) -> bytes:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        return written(changed(value, chance), chance)
    except RecursionError:
        return text


def _change_one(holder: list[Any], chance: Random) -> None:
    """Walk down to some place, and change what is there."""
    place: Any = holder
    key: Any = 0
    while isinstance(place[key], (list, dict)) and place[key] and chance.random() < 0.85:
        place = place[key]
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
    way = chance.random()
    if way < 0.45:
        place[key] = _copied(chance.choice(_ODD))
    elif way < 0.55:
        place[key] = _PLACE.format(chance.randrange(len(_RAW)))
    elif way < 0.65 and place is not holder:
        del place[key]
    elif way < 0.75 and isinstance(place, list) and place is not holder:
        place.insert(key, _copied(place[key]))
    elif way < 0.82 and isinstance(place, dict):
        place[chance.choice(("", "id", "text", "answers", "\ud800", "A" * 300))] = place.pop(key)
    elif way < 0.9:
        place[key] = [place[key]]
    else:
        place[key] = _retyped(place[key], chance)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except RecursionError:
        return None


def _retyped(value: Any, chance: Random) -> Any:
    if isinstance(value, str):
        return chance.choice((len(value), list(value[:50]), {value[:50]: value}, value * 2, value[: len(value) // 2]))
    if isinstance(value, (int, float)):
        return chance.choice((str(value), -value, value - 1, value + 1, [value, value]))
    return chance.choice((str(value), len(value) if isinstance(value, (list, dict)) else 0, {"value": value}))


def _with_bytes_changed(data: bytes, seeds: Sequence[bytes], chance: Random) -> bytes:
    place, way = chance.randrange(len(data) + 1), chance.random()
    if way < 0.25:
        return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    if way < 0.5:
        return data[:place] + chance.choice(_TOKENS) + data[place + chance.choice((0, 0, 1, 4)) :]
    if way < 0.62:
        return data[:place] + data[place + chance.choice((1, 2, 8, 60, 1000)) :]
    if way < 0.72:
        return data[:place]
    if way < 0.82:
        chunk = data[place : place + chance.choice((1, 4, 30, 300))]
        return data[:place] + chunk * chance.choice((1, 2, 50)) + data[place:]
    if way < 0.92:
        other = chance.choice(seeds)
        return data[:place] + other[chance.randrange(len(other) + 1) :]
    end = min(len(data), place + chance.choice((1, 4, 16)))
    return data[:place] + chance.randbytes(end - place) + data[end:]


def _few(chance: Random) -> int:
    return chance.choice((1, 1, 1, 2, 3, 6))
