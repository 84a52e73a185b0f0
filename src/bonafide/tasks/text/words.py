"""The words of a text: when two candidates say the same, when two answers are the same, what was copied.

A word is a number in digits with its separators, a run of letters, or any other single sign. Two texts are the same
if their words are, upper and lower case aside: ``12+7`` and ``12 + 7`` are one candidate.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Any

from bonafide.tasks.text.quantity import COUNTED_BEFORE, COUNTED_ON, METRES, NUMBER, SCALE, measured, number, scaled

COPIED_RUN = 4
"""So many words in a row that stand in the question just so are copied; fewer happen to be the same."""
COPIED_MARK = "…"

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[^\w\s]|_")
_STATED = re.compile(
    rf"(?:(?<=\d)[\-−])?(?P<money>[$€£¥]\s?)?(?P<number>{NUMBER}(?:[/:]\d+(?:[.,]\d+)*)*)(?P<scale>{SCALE})?"
)
"""A number within a text: of a range the end and not less than nothing, a fraction and a time as a whole."""
_SENTENCE = re.compile(r"(?P<said>.{1,80}?)[.!]{1,3}(?:\s+(?P<rest>.*))?")
_MILLIONS = re.compile(rf"[$€£¥]\s?{NUMBER}\s?m\b")
"""Of money: its sign tells it from metres."""
_ANSWER = re.compile(
    r"(?:####|\banswer(?:\s+is\b|\W*[:=]))\s*(?P<answer>[^\n]+)"
    r"|\\boxed\{(?:\\text\{)?(?P<boxed>(?:[^{}\n]|\{[^{}\n]*\})+)\}",
    re.IGNORECASE,
)
_MARKS = " \t*_`$;:="
"""What stands around an answer and is none of it."""
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|`|\$)(?=\S)([^\n]{1,200}?)(?<=\S)\1(?!\w)|\\[()]|\\(?=[$%])")
"""A part of an answer that Markdown or TeX sets apart, as in **19** apples; not the signs in 3*4*5."""
_RAISED = str.maketrans({sign: f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_NEAR = Decimal("1e-9")


def words(text: str) -> list[str]:
    """The words of a text, in order, upper and lower case made the same."""
    return [found.casefold() for found in _WORD.findall(_plain(text))]


def _plain(text: str) -> str:
    """A text with its signs in their usual form; 10² does not become 102."""
    return unicodedata.normalize("NFKC", text.translate(_RAISED))


def normalised(text: str) -> str:
    """What is the same for texts that say the same."""
    return " ".join(words(text))


def same_answer(one: Any, other: Any) -> bool:
    """Whether two answers are the same: as numbers where both are (``1,200`` is 1200.0), else by their words.

    Where one is a number, the other may have a unit and a scale: 19 and ``19 apples``, 50 and ``50%``, 19,000 and
    ``19k`` (``quantity.py``). Numbers that are not whole may differ by what a computer rounds: 0.1 + 0.2 is 0.3.
    """
    first, second = scaled(one), scaled(other)
    if first is not None or second is not None:
        first = measured(one) if first is None else first
        second = measured(other) if second is None else second
    if first is not None and second is not None:
        whole = first == first.to_integral_value() and second == second.to_integral_value()
        return first == second or (not whole and abs(first - second) <= _NEAR * max(abs(first), abs(second)))
    return normalised(str(one)) == normalised(str(other))


def final_answer(text: str) -> str:
    """The answer that a rationale or a program states.

    What follows the last ``####``, ``answer:`` or ``answer is``, or stands in the last box, without marks of Markdown
    and TeX, and of a number without the sentence after it, where that has no other; else the number that follows the
    last ``=``; else the last number of the last line; or that line, where the number is a part of a sum or a power.
    A fraction (``1/2``), a time (``3:30``) and a number with its scale (``3 million``) are one number.
    """
    stated = list(_ANSWER.finditer(text))
    if stated:
        last = stated[-1]["boxed"] or stated[-1]["answer"]
        boxed = _ANSWER.search(last)  # the answer is \\boxed{19}
        said = _EMPHASIS.sub(r"\2", boxed["boxed"] or last if boxed else last)
        bare = said.lstrip(_MARKS.replace("$", ""))
        if not _MILLIONS.match(bare):
            bare = bare.lstrip(_MARKS)
        return _first_sentence(bare.rstrip(f"{_MARKS}."))
    result = text.rpartition("=")[2].strip() if "=" in text else ""
    found = result or (text.strip().splitlines() or [""])[-1]
    numbers = list(_STATED.finditer(found))
    if not numbers:
        return found.strip().rstrip(".;").strip()
    last = numbers[0 if result else -1]
    apart = not last["scale"] and _MILLIONS.match(found, last.start())  # $5 m
    if apart or COUNTED_ON.match(found, last.end()) or COUNTED_BEFORE.search(found[: last.start()]):
        return found.splitlines()[0].rstrip(".; ")
    if not last["scale"] or (last["scale"] == METRES and not last["money"]):
        return last["number"]
    return f"{last['money'] or ''}{last['number']}{last['scale']}"


def _first_sentence(said: str) -> str:
    """What is said first, where that is a number and what follows names no other."""
    found = _SENTENCE.fullmatch(said)
    stated = None if found is None else number(found["said"]) or measured(found["said"])
    if found is None or stated is None:
        return said
    others = [number(each["number"]) for each in _STATED.finditer(found["rest"] or "")]
    return found["said"] if all(each == stated for each in others) else said


def copied_words(text: str, question: str, run: int = COPIED_RUN) -> list[bool]:
    """For each word of the text, whether it stands in a run of at least ``run`` words of the question."""
    said, asked = words(text), words(question)
    marked = [False] * len(said)
    if run < 1:
        return marked
    known = {tuple(asked[start : start + run]) for start in range(len(asked) - run + 1)}
    for start in range(len(said) - run + 1):
        if tuple(said[start : start + run]) in known:
            marked[start : start + run] = [True] * run
    return marked


def copy_rate(text: str, question: str, run: int = COPIED_RUN) -> float:
    """The share of a text's words that are copied from the question."""
    marked = copied_words(text, question, run)
    return sum(marked) / max(1, len(marked))


def without_copies(text: str, question: str, run: int = COPIED_RUN) -> str:
    """The text with each copied run replaced by one mark, so that nothing is explained by repeating the question."""
    return "".join(COPIED_MARK if copied else piece for piece, copied in copied_pieces(text, question, run))


def copied_pieces(text: str, question: str, run: int = COPIED_RUN) -> list[tuple[str, bool]]:
    """The text in pieces, each copied or not; where something is copied, with its signs in their usual form (NFKC)."""
    marked = copied_words(text, question, run)
    if not any(marked):
        return [(text, False)]
    plain = _plain(text)
    spans: list[list[int]] = []
    inside = False
    for found, copied in zip(_WORD.finditer(plain), marked, strict=True):
        if copied and inside:
            spans[-1][1] = found.end()
        elif copied:
            spans.append([found.start(), found.end()])
        inside = copied
    pieces: list[tuple[str, bool]] = []
    position = 0
    for start, end in spans:
        pieces += [(plain[position:start], False), (plain[start:end], True)]
        position = end
    return [each for each in (*pieces, (plain[position:], False)) if each[0]]
