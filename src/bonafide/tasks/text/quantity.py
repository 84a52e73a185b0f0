"""The numbers that an answer states: digits, perhaps with an exponent, a scale such as *k* or *million*, and a unit.

Where a text can be read in two ways it is read in none: a wrong number that is taken for the answer does more harm
than a right one that is not. So ``19 minus two``, ``2^10`` and ``19 M`` are no numbers here.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any

NUMBER = (
    r"(?:[+\-−]?\d{1,3}(?:,\d{3})+(?![,\d])(?:\.\d+)?|[+\-−]?\d+,\d+(?![,\d])|[+\-−]?\d+(?:\.\d+)?"
    r"|(?<![\w.])[+\-−]?\.\d+)(?:[eE][+\-−]?\d+)?"
)
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_SCALES |= {"mn": 10**6, "bn": 10**9, "tn": 10**12}
_LETTERS = {"k": 10**3, "K": 10**3, "M": 10**6, "b": 10**9, "B": 10**9}
"""Of a number that they stand at; apart from it they may be units, such as kelvin."""
METRES = "m"
"""Metres, and of money millions."""
SCALE = rf"(?:(?:(?:[^\S\r\n]|-)*(?i:{'|'.join(_SCALES)})(?i:s?)\b)+|(?:{'|'.join(_LETTERS)}|{METRES})(?![^\W_]))"
_SPOKEN = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty",
    "fifty", "sixty", "seventy", "eighty", "ninety",
)  # fmt: skip
_PARTS = (
    "half", "halves", "third", "quarter", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "hundredth", "thousandth", "millionth",
)  # fmt: skip
_OPERATORS = ("plus", "minus", "divided", "multiplied", "over", "modulo", "squared", "cubed")
_NO_UNITS = {*_SCALES, *_SPOKEN, *_PARTS, *(f"{part}s" for part in _PARTS), *_OPERATORS}
"""With these in it, what follows a number makes another one of it."""
_NO_FIRST_UNITS, _SIGNS = {"or", "and", "to"}, {"", *"%°$€£¥"}
_MEASURED = re.compile(
    rf"(?P<money>[$€£¥])?\s*(?P<number>{NUMBER})(?P<scale>{SCALE})?"
    r"\s*(?P<unit>[%°$€£¥]|[^\W\d_]+(?:[ -][^\W\d_]+){0,2})?"
)
"""A number with its unit: a sign before or behind it, or up to three words."""
_NUMBER = re.compile(NUMBER)
_SCALED = re.compile(rf"{NUMBER}(?P<scale>{SCALE})?")
_LARGEST_EXPONENT = 400

COUNTED_ON = re.compile(
    r"[ \t]*(?:\^|[⁰¹²³⁴⁵⁶⁷⁸⁹]|(?:\*{1,2}|[ \t]\*{1,2}[ \t]+|[+·÷/\-−–][ \t]*)[\d(]|[+×÷][ \t]*\w"
    rf"|[ \t](?-i:{'|'.join(_LETTERS)})\b|(?:plus|minus|squared|cubed)\b"
    rf"|(?:times|over|divided by|multiplied by)[ \t]+(?:\d|(?:{'|'.join(_SPOKEN)})\b))",
    re.IGNORECASE,
)
"""What stands after a number that is only the first part of another one, or in a unit that may be a scale.

The marks of Markdown are none of it: **19** (12 + 7).
"""
COUNTED_BEFORE = re.compile(r"(?:(?:[\^√]|[0-9A-Za-z_)]\*\*)[ \t]*[({]?|(?:sqrt|frac|log|ln)[({])$")
"""What stands before one that is only the last part."""


def number(value: Any) -> Decimal | None:
    """The value of a number, or of a text that is one and nothing else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Decimal(str(value))
    text = str(value).strip().replace("−", "-")
    if not _NUMBER.fullmatch(text):
        return None
    if re.search(r",\d{3}(?!\d)", text) is None:
        text = text.replace(",", ".")  # 12,5
    try:
        found = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None
    return None if "e" in text.lower() and abs(found.adjusted()) > _LARGEST_EXPONENT else found


def scaled(value: Any) -> Decimal | None:
    """The value of a number, or of one with its scale and nothing else: ``19k``, ``3 million``."""
    found = _SCALED.fullmatch(str(value).strip())
    return measured(value) if found is not None and found["scale"] not in (None, METRES) else number(value)


def measured(value: Any) -> Decimal | None:
    """The value of a number with its scale and unit: ``19 apples``, ``$19k``, ``5 hundred thousand``."""
    found = _MEASURED.fullmatch(str(value).strip())
    stated = None if found is None else number(found["number"])
    if found is None or stated is None:
        return None
    first, *rest = re.split("[ -]", found["unit"] or "")
    if first in _LETTERS or (first == METRES and found["money"]) or first.casefold() in _NO_FIRST_UNITS:
        return None  # as in 19 M, $2 m, 12 or 13
    unit = [each.casefold() for each in (first, *rest) if each not in _SIGNS]
    if not all(each.isalpha() and each not in _NO_UNITS for each in unit):
        return None  # as in 10², 19 minus two
    factor = _factor(found["scale"] or "", found["money"] is not None)
    return None if factor is None else stated * factor


def _factor(scale: str, of_money: bool) -> int | None:
    """What a scale multiplies by; None where its words do not grow, as in a thousand hundred."""
    if scale == METRES:
        return 10**6 if of_money else 1
    if scale in _LETTERS:
        return _LETTERS[scale]
    factors = [_SCALES[each.removesuffix("s")] for each in re.findall("[a-z]+", scale.casefold())]
    product = 1
    for factor in factors:
        product *= factor
    return product if factors == sorted(factors) else None
