"""One column of cells: is it numbers or text, and which numbers.

People write the same number in many ways: ``1,200``, ``1 200``, ``$1,200.00``, ``(1,200)``, ``1.200,00``.
A column is ``real`` only when every cell that is not empty reads as a number under one convention, decided
for the whole column and never for one cell. Whatever could as well be a name stays text: ``007``, a
telephone number, a whole number with more digits than the engine's floats can tell apart. Dates stay text
exactly as written. A column of stored values (Parquet, SQLite) has its types already: there text is never
read as numbers unless the caller asks for it, and numbers are text only where one has so many digits.

Every change on the way in is counted as a :class:`Coercion`, by kind and with the first cell as an example.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import Any

from bonafide.tasks.sql.tables import Cell, Coercion, ColumnType

LARGEST = 10**300
"""Numbers from here on are no cells: ``tables.jsonl`` refuses them."""

_LONGEST = 400  # characters of the longest number that anybody writes
_GLANCE, _FEW = 200, 0.2  # texts that are looked at first, and the share of those that stand apart

# Only codes that no table uses as a word of its own: no ALL, COP, CUP, PEN or TOP ("TOP 10" is no amount).
_CODES = re.findall(
    "[A-Z]+",
    "AED ARS AUD BDT BGN BRL CAD CHF CLP CNY CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KES KRW LKR MXN "
    "MYR NGN NOK NZD PHP PKR PLN RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR",
)
_SIGNS = {"$": "USD", "US$": "USD", "A$": "AUD", "AU$": "AUD", "C$": "CAD", "CA$": "CAD", "HK$": "HKD"}
_SIGNS |= {"NZ$": "NZD", "R$": "BRL", "S$": "SGD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_SIGNS |= {"₽": "RUB", "₩": "KRW", "₺": "TRY", "₴": "UAH", "₪": "ILS", "฿": "THB", "₫": "VND", "₦": "NGN"}
_SIGNS |= {"₱": "PHP"}

_SPACES = " \u00a0\u2007\u2009\u202f"
_CURRENCY = "|".join(re.escape(mark) for mark in sorted([*_CODES, *_SIGNS], key=len, reverse=True))

_PLAIN_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_PLAIN_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,17}")


def _written(separators: str, decimals: str, plain: str) -> re.Pattern[str]:
    """A number as people write it: sign, currency, parentheses, digits, exponent, percent."""
    return re.compile(
        rf"(?P<open>\()?(?P<sign>[-+−])?(?:(?P<before>{_CURRENCY})[{_SPACES}]?)?(?P<inner>\()?(?P<second>[-+−])?"
        rf"(?P<digits>[1-9][0-9]{{0,2}}(?P<separator>[{separators}'’{_SPACES}])[0-9]{{3}}"
        rf"(?:(?P=separator)[0-9]{{3}})*(?:{decimals})?|{plain})"
        rf"(?P<exponent>[eE][-+−]?[0-9]{{1,3}})?(?P<percent>[{_SPACES}]?%)?"
        rf"(?P<close>\))?(?:[{_SPACES}]?(?P<after>{_CURRENCY}))?(?P<last>\))?"
    )


_WITH_POINT = _written(",", r"\.[0-9]+", r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_WITH_COMMA = _written(".", r",[0-9]+", r"[0-9]+(?:,[0-9]+)?")

_LEADING_ZEROS, _ROUNDED, _TELEPHONE = "leading zeros", "rounded", "telephone number"
_DOUBTFUL = frozenset({_LEADING_ZEROS, _ROUNDED, _TELEPHONE})
"""What reads as a number but may well be a name: read only where the caller says that it is a number."""


class Undecoded(str):
    """Text of a SQLite file that is not UTF-8, read as latin-1 so that no byte is lost."""

    __slots__ = ()


class Tally:
    """Counts what reading a column changed, by kind, with the first change of each kind as the example."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._kinds: dict[str, tuple[int, str]] = {}

    def changed(self, kind: str, before: object, after: object, count: int = 1) -> None:
        """``count`` cells written ``before`` became ``after``."""
        total, example = self._kinds.get(kind, (0, ""))
        if not total:
            example = f"{_shown(before)} → {_shown(after)}"
        self._kinds[kind] = (total + count, example)

    def kept(self, kind: str, cell: str, count: int = 1) -> None:
        """``count`` cells stayed as written, though a reader may have expected otherwise."""
        total, example = self._kinds.get(kind, (0, ""))
        self._kinds[kind] = (total + count, example or _shown(cell))

    def noted(self, kind: str, note: str) -> None:
        """Something else happened once; ``note`` says what."""
        total, example = self._kinds.get(kind, (0, ""))
        self._kinds[kind] = (total + 1, example or note)

    def kept_all(self, kind: str, cells: Iterable[str | None]) -> None:
        """All of these, but NULL, are now text that was something else in the file."""
        for cell in cells:
            if cell is not None:
                self.kept(kind, cell)

    def coercions(self) -> list[Coercion]:
        """The counts, in the order in which the kinds were met."""
        return [Coercion(self.column, kind, count, example) for kind, (count, example) in self._kinds.items()]


def read_column(
    name: str, cells: Sequence[str | None], wanted: ColumnType | None
) -> tuple[ColumnType, list[Cell], list[Coercion]]:
    """The type of a column, its cells, and what was changed; ``wanted`` overrides the type that was inferred.

    ``None`` stands for a cell that was never written. Under ``wanted="text"`` cells stay exactly as written;
    under ``wanted="real"`` a cell that is no number stays, as text.
    """
    tally = Tally(name)
    counts = Counter(cells)
    counts.pop(None, 0)
    if wanted == "text":
        if empty := counts[""]:
            tally.changed("empty", "", None, empty)
        return "text", [cell or None for cell in cells], tally.coercions()

    stripped: dict[str, str] = {cell: cell.strip() for cell in counts if cell is not None}
    for cell, text in stripped.items():
        if not text:
            tally.changed("empty", cell, None, counts[cell])
        elif len(text) != len(cell):
            tally.changed("white space", cell, text, counts[cell])
    texts = dict.fromkeys(text for text in stripped.values() if text)
    numbers = _insist(texts) if wanted == "real" else _infer(texts)
    if numbers is None:
        if texts and all(map(is_date, texts)):
            total = sum(counts[cell] for cell, text in stripped.items() if text)
            tally.kept("dates kept as text", next(iter(texts)), total)
        elif apart := _apart(texts):
            for cell, text in stripped.items():
                if text in apart:
                    tally.kept(
                        f"no number, unlike {len(texts) - len(apart):,} others: so all are text", text, counts[cell]
                    )
        values: dict[str | None, Cell] = {cell: text or None for cell, text in stripped.items()}
    else:
        found = numbers.values
        if numbers.kinds or len(found) < len(texts):
            for cell, text in stripped.items():
                for kind in numbers.kinds.get(text, ()):
                    tally.changed(kind, cell, found[text], counts[cell])
                if text and text not in found:
                    tally.kept("no number", text, counts[cell])
        values = {cell: found.get(text, text or None) for cell, text in stripped.items()}
    values[None] = None
    return "text" if numbers is None else "real", [values[cell] for cell in cells], tally.coercions()


def stored_column(
    name: str, values: Sequence[Any], numeric: bool, wanted: ColumnType | None, tally: Tally
) -> tuple[ColumnType, list[Cell], list[Coercion]]:
    """A column of stored numbers, texts and bytes; ``numeric`` is what the file declares."""
    if wanted == "text" or (wanted is None and any(value.__class__ is str or is_too_long(value) for value in values)):
        values = [_digits(value, tally) if isinstance(value, (int, Decimal)) else value for value in values]
    cells: list[Cell] = [
        value if value is None or value.__class__ is str else _stored(value, tally) for value in values
    ]
    kinds = {cell.__class__ for cell in cells}
    if wanted == "real" or (wanted is None and str not in kinds and (numeric or kinds & {int, float})):
        read: list[Coercion] = []
        if str in kinds:
            texts = [cell if isinstance(cell, str) else None for cell in cells]
            _, numbers, read = read_column(name, texts, "real")
            cells = [number if isinstance(cell, str) else cell for cell, number in zip(cells, numbers, strict=True)]
        return "real", cells, [*tally.coercions(), *read]
    for index, cell in enumerate(cells):
        if isinstance(cell, (int, float)):
            cells[index] = repr(cell)
            tally.changed("number as text", cell, cells[index])
    return "text", cells, tally.coercions()


def is_too_long(value: object) -> bool:
    """Whether this is a whole number with more digits than floats hold: an id rather than an amount."""
    if value.__class__ is int:
        return not -(2**53) <= value <= 2**53 and float(value) != value
    return isinstance(value, Decimal) and value.as_tuple().exponent == 0 and is_too_long(int(value))


def read_number(text: str) -> float | int | None:
    """The number that the whole of ``text`` writes, with a decimal point; ``None`` where it writes none.

    ``45%`` is 45: the number that is written, as a question would quote it.
    """
    numbers = _read([text.strip()], comma=False, doubtful=False)
    return next(iter(numbers.values.values()), None)


def is_date(text: str) -> bool:
    """Whether ``text`` is a date, perhaps with a time, in one of the usual orders."""
    for pattern in _DATES:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            month, day = _month(parts["month"]), int(parts["day"])
            year = int(parts["year"]) + (2000 if len(parts["year"]) == 2 else 0)
            if _exists(year, month, day) or (parts["month"].isdigit() and _exists(year, day, month)):
                return True
    return False


def shortest(value: float, kind: Any, tally: Tally) -> float:
    """What a person would have written for a number of fewer digits: 0.1, where its double is 0.100000001…"""
    short = float(str(kind.to_pandas_dtype()(value)))
    if short != value and not math.isnan(value):
        tally.changed("single precision", value, short)
    return short


@dataclass(slots=True)
class _Numbers:
    """How texts read under one convention."""

    values: dict[str, int | float] = field(default_factory=dict)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    currencies: set[str] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)


def _infer(texts: Iterable[str]) -> _Numbers | None:
    """The numbers, if every text is one; two currencies in a column would make $5 and €5 the same."""
    numbers = _read(texts, comma=False, doubtful=False, patient=False)
    if numbers.unread:
        numbers = _read(texts, comma=True, doubtful=False, patient=False)
        if not numbers.unread and not _proves_comma(texts):
            return None
    complete = numbers.values and not numbers.unread and len(numbers.currencies) < 2
    return numbers if complete else None


def _proves_comma(texts: Iterable[str]) -> bool:
    """Whether some text needs the decimal comma: '1.234.567' may be a version, and '1,234' is 1234."""
    with_point = _read(texts, comma=False, doubtful=True)
    return any("," in text for text in with_point.unread)


def _apart(texts: Mapping[str, object]) -> set[str]:
    """The few texts that are no numbers in a column whose others all are; none in one of texts."""
    some = list(islice(texts, _GLANCE))
    if len(texts) < 2 or len(_insist(some).unread) > len(some) * _FEW:
        return set()
    unread = set(_insist(texts).unread)
    return unread if len(unread) <= len(texts) * _FEW else set()


def _insist(texts: Iterable[str]) -> _Numbers:
    """The numbers under the convention that reads more of the texts."""
    with_point = _read(texts, comma=False, doubtful=True)
    if not with_point.unread:
        return with_point
    with_comma = _read(texts, comma=True, doubtful=True)
    return with_comma if len(with_comma.unread) < len(with_point.unread) else with_point


def _read(texts: Iterable[str], *, comma: bool, doubtful: bool, patient: bool = True) -> _Numbers:
    """Read texts under one convention; where not ``patient``, only up to the first that is no number."""
    numbers = _Numbers()
    values = numbers.values
    is_integer, is_decimal = _PLAIN_INTEGER.fullmatch, _PLAIN_DECIMAL.fullmatch
    for text in texts:
        if is_integer(text):  # the two plain forms first: most cells are, and a column may hold millions
            values[text] = int(text)
            continue
        if not comma and is_decimal(text):
            values[text] = float(text)
            continue
        reading = _read_written(text, comma)
        if reading is None or (not doubtful and not _DOUBTFUL.isdisjoint(reading[1])):
            numbers.unread.append(text)
            if not patient:
                break
            continue
        values[text], kinds, currency = reading
        if kinds:
            numbers.kinds[text] = kinds
        if currency:
            numbers.currencies.add(currency)
    return numbers


def _read_written(text: str, comma: bool) -> tuple[int | float, tuple[str, ...], str] | None:
    """(number, what it took to read it, currency), or nothing."""
    match = (_WITH_COMMA if comma else _WITH_POINT).fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    part = match.groupdict()
    opened, closed = (part["open"], part["inner"]), (part["close"], part["last"])
    signs = (part["sign"] or "") + (part["second"] or "")
    before, after = part["before"], part["after"]
    if opened.count(None) != closed.count(None) or opened.count(None) == 0:
        return None
    accounting = opened.count(None) == 1
    if len(signs) + accounting > 1 or (before and after) or ((before or after) and part["percent"]):
        return None

    separator, exponent = part["separator"] or "", (part["exponent"] or "").replace("−", "-")
    digits = part["digits"].replace(separator, "") if separator else part["digits"]
    decimal_comma = comma and "," in digits
    digits = digits.replace(",", ".")
    whole = "." not in digits and not exponent
    number: int | float = int(digits) if whole else float(digits + exponent)
    if number >= LARGEST or (number == 0 and digits.strip("0.")):  # too large, or too small to be told from 0
        return None
    rounded = whole and float(number) != number
    telephone = signs == "+" and (
        separator in tuple(_SPACES) or (whole and not separator and not before and not after and len(digits) > 7)
    )
    kinds = {
        "thousands separator": separator,
        "decimal comma": decimal_comma,
        "percent": part["percent"],
        "currency": before or after,
        "accounting negative": accounting,
        "minus sign": "−" in text,
        _LEADING_ZEROS: len(digits.partition(".")[0]) > 1 and digits[0] == "0",
        _ROUNDED: rounded,
        _TELEPHONE: telephone,
    }
    if rounded:
        number = float(number)
    if accounting or signs in ("-", "−"):
        number = -number
    currency = before or after or ""
    return number, tuple(kind for kind, present in kinds.items() if present), _SIGNS.get(currency, currency)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAME = (
    r"(?P<month>(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?))"
)
_YEAR = "(?P<year>[0-9]{4}|[0-9]{2})"
_CLOCK = (
    r"(?:(?:T| |, )[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?[AaPp]\.?[Mm]\.?)?"
    r"(?: ?(?:Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2}))?)?"
)
_DATES = [
    re.compile(form + _CLOCK)
    for form in (
        r"(?P<year>[0-9]{4})(?P<mark>[-/.])(?P<month>[0-9]{1,2})(?P=mark)(?P<day>[0-9]{1,2})",
        r"(?P<day>[0-9]{1,2})(?P<mark>[-/. ])(?P<month>[0-9]{1,2})(?P=mark)(?P<year>[0-9]{4})",
        r"(?P<day>[0-9]{1,2})(?P<mark>[-/])(?P<month>[0-9]{1,2})(?P=mark)(?P<year>[0-9]{2})",
        r"(?P<day>[0-9]{2})\.(?P<month>[0-9]{2})\.(?P<year>[0-9]{2})",  # two digits each: 1.2.10 is a version
        rf"(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?[-/. ]{{1,2}}{_NAME}\.?[-/ ,]{{1,2}}{_YEAR}",
        rf"{_NAME}\.?[- ](?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?[-, ]{{1,2}}(?P<year>[0-9]{{4}})",
        rf"(?P<year>[0-9]{{4}})[- ]{_NAME}[- ](?P<day>[0-9]{{1,2}})",
    )
]


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTHS.index(text[:3].lower()) + 1


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _shown(value: object) -> str:
    """A cell in an example: NULL, or its beginning as Python writes it."""
    if value is None:
        return "NULL"
    text = format(value, "f") if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _digits(value: int | Decimal, tally: Tally) -> str:
    """An exact number in a column of texts, with all of its digits: large ids stay apart, 1.50 keeps its zero."""
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    tally.changed("number as text", value, text)
    return text


def _stored(value: Any, tally: Tally) -> Cell:
    """One stored value as a cell."""
    cell: Cell
    if isinstance(value, Decimal):
        number = float(value)
        if value.as_tuple().exponent != 0:
            if Decimal(repr(number)) != value:
                tally.changed("rounded", value, number)
            return number
        value = int(value)  # its type has no decimals
    if isinstance(value, int):
        cell = value if float(value) == value else float(value)
        kind = "rounded"
    elif isinstance(value, float):
        cell = value if abs(value) < LARGEST else None  # NaN fails this too
        kind = "NaN" if math.isnan(value) else "beyond 1e300"
    elif isinstance(value, bytes):
        cell, kind = value.hex(), "blob"
    else:
        cell, kind = str.__str__(value), "encoding"
        tally.noted(kind, f"{_shown(cell)} read as latin-1")
        return cell
    if cell is not value:
        tally.changed(kind, value, cell)
    return cell
