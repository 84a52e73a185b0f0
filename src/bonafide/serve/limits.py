"""How much one request may bring, and how much all of them together may ask of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from bonafide.web.answers import RefusedError


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of a request, and of the work for it; what is beyond is refused with a reason."""

    body: int = 4 << 20  # bytes
    question: int = 500  # characters
    rows: int = 20_000
    columns: int = 200
    cells: int = 500_000
    cell: int = 10_000  # characters of one cell or column name
    text: int = 50_000  # characters of a passage, or of all paragraphs
    paragraphs: int = 500
    candidates: int = 256  # texts to rank
    answers: int = 1000  # values of an answer, to search for or to show
    alternatives: int = 9
    page: int = 100  # solutions on a page
    solutions: int = 2000  # solutions that are scored; more are sampled
    reading_seconds: float = 5.0  # for a table or a text
    search_seconds: float = 10.0
    memory: int = 4 << 30  # bytes, of the reading and of the search
    waiting: int = 64  # requests that wait or are worked on
    waiting_seconds: float = 30.0
    batch: int = 16  # questions that are predicted together
    batch_seconds: float = 0.004  # how long the first of them waits for the others


def at_most(count: int, most: int, what: str) -> None:
    """Refuse what is larger than allowed."""
    if count > most:
        raise RefusedError(413, f"Too much: {count:,} {what}, and at most {most:,} are taken.")


def busy(seconds: float) -> RefusedError:
    """What is said to who waited longer than this."""
    return RefusedError(
        503, f"The server is busy: this request waited for more than {seconds:.0f} seconds.", retry_after=5
    )
