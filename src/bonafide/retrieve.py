"""Find the passages for questions that come without a context, by BM25: ``bonafide retrieve``.

The corpus is one object a line: ``{"id": …, "title": … (may be missing), "text": …}``. Each question gets a document
of its best passages, in decreasing score, each under its title. ``group`` joins several passages into a paragraph, as
the paper does: 5 for WebQuestions, all of them (0) for Quasar-T. Retrieval itself is bm25s (``pip install
bonafide[retrieve]``) in Lucene's formula with k₁ = 0.9 and b = 0.4, which suit passages better than the usual 1.2 and
0.75 suit long texts.

A word is a run of letters and digits, in lower case. Beyond ASCII words compare as mentions do (``matching.py``): NFKC,
case folding, combining marks with their letters, and in scripts without spaces each letter by itself.

The index is kept in a folder of its own and used again for as long as the corpus has the same content.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bonafide.documents import Document
from bonafide.errors import BonafideError
from bonafide.examples import Example, open_examples
from bonafide.files import content_hash, explained, made_folder, read_json, spare_inputs, write_json
from bonafide.tasks.reading.dpr import titled
from bonafide.tasks.reading.imported import Lines, WrongFieldError, grouped, text_field, write_data
from bonafide.tasks.reading.matching import Matching, marks_class
from bonafide.unspaced import UNSPACED_CLASS

_NOTE = "index.json"
_CUT = 2  # which rules cut texts into words: an index by others is made anew
_WORD = r"[^\s\x00-/:-@\[-^`{-\x7f]+"  # ASCII letters, digits and _, and all that is not ASCII
_BATCH = 200

Progress = Callable[[int, int], None]
"""Told how many questions are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The constants of BM25; ``stopwords`` is bm25s's name of a list, empty for none."""

    k1: float = 0.9
    b: float = 0.4
    stopwords: str = "en"


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a retrieval wrote; ``without`` counts questions of which no word is in the corpus."""

    examples: int
    passages: int
    without: int
    reused: bool


def retrieve(
    corpus: Path,
    examples: Path,
    out: Path,
    top: int = 50,
    group: int = 1,
    index: Path | None = None,
    ranking: Ranking | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Retrieved:
    """Write ``examples.jsonl`` and ``documents.jsonl`` into ``out``: each question with its ``top`` best passages.

    The index goes to ``index``, by default the folder ``index`` in ``out``.
    """
    if top < 1 or group < 0 or workers < 1:
        raise BonafideError(
            f"Expected --top and --workers of at least 1 and --group of at least 0; found {top}, {workers} and {group}."
        )
    spare_inputs(out, examples, corpus)
    place = index if index is not None else out / "index"
    _check_place(place)
    asked = list(open_examples(examples))
    passages = read_passages(corpus)
    with made_folder(out), made_folder(place.parent):
        searcher, reused = _index(corpus, passages, place, ranking or Ranking())
        found = searcher.find([example.question for example in asked], top, workers, progress)
        without = 0

        def documents() -> Iterator[Document]:
            nonlocal without
            for example, places in zip(asked, found, strict=True):
                without += not len(places)
                # A document has a paragraph, be it an empty one: the question stays, and its solution set is empty.
                texts = [passages[place] for place in places.tolist()] or [""]
                yield Document(example.id, None, grouped(texts, group))

        named = [Example(each.id, each.question, each.id, each.answers) for each in asked]
        write_data(out, named, documents())
    return Retrieved(len(asked), len(passages), without, reused)


def read_passages(corpus: Path) -> list[str]:
    """The passages of a corpus, each under its title."""
    lines = Lines(corpus)
    passages: list[str] = []
    for line, data in lines:
        name = data.get("id")
        try:
            title = data.get("title")
            if title is not None and not isinstance(title, str):
                raise WrongFieldError("title", "a text, or nothing", title)
            passages.append(titled(title, text_field(data, "text")))
            if isinstance(name, str):
                lines.used_once(line, name)
        except WrongFieldError as wrong:
            lines.add(line, name if isinstance(name, str) else "", wrong)
    lines.check()
    return passages


def tokenized(texts: Sequence[str], ranking: Ranking, ids: bool) -> Any:
    """Texts in words without stop words, as bm25s asks for them: ``ids`` to index them, none to search by them."""
    return _library().tokenize(
        [text if text.isascii() else _compared(text) for text in texts],
        token_pattern=_WORD,
        stopwords=ranking.stopwords or [],
        return_ids=ids,
        show_progress=False,
    )


class _Searcher:
    """An index that is ready to be asked."""

    def __init__(self, ranker: Any, ranking: Ranking, passages: int) -> None:
        self._ranker, self._ranking, self._passages = ranker, ranking, passages

    def find(
        self, questions: Sequence[str], top: int, workers: int, progress: Progress | None
    ) -> list[npt.NDArray[np.int64]]:
        """The places of the best passages of each question, in decreasing score; only those that share a word."""
        found: list[npt.NDArray[np.int64]] = []
        for start in range(0, len(questions), _BATCH):
            words = tokenized(questions[start : start + _BATCH], self._ranking, ids=False)
            places, scores = self._ranker.retrieve(
                words,
                k=min(top, self._passages),
                n_threads=workers if workers > 1 else 0,
                show_progress=False,
                backend_selection="numpy",
            )
            found += [row[score > 0] for row, score in zip(places, scores, strict=True)]
            if progress is not None:
                progress(len(found), len(questions))
        return found


def _index(corpus: Path, passages: Sequence[str], folder: Path, ranking: Ranking) -> tuple[_Searcher, bool]:
    """The index of this corpus: the one in the folder if it is of the same content, else a new one."""
    bm25s = _library()
    note = {"corpus": content_hash(corpus), "passages": len(passages), "words": _CUT, "bm25s": bm25s.__version__}
    note |= asdict(ranking)
    if folder.exists():
        with suppress(BonafideError, OSError, ValueError, KeyError):  # a damaged index is made anew
            if read_json(folder / _NOTE) == note:
                return _Searcher(bm25s.BM25.load(folder, show_progress=False), ranking, len(passages)), True
    ranker = bm25s.BM25(k1=ranking.k1, b=ranking.b, method="lucene")
    words = tokenized(passages, ranking, ids=True)
    if not any(words.ids):
        raise BonafideError(f"Cannot search {corpus}: its passages have no words but stop words.")
    ranker.index(words, show_progress=False)
    with explained(folder, "write"):
        held = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
        try:
            part = held / "index"  # with the usual permissions, which a temporary folder has not
            part.mkdir()
            ranker.save(part, show_progress=False)
            write_json(part / _NOTE, note)
            if folder.exists():
                shutil.rmtree(folder)
            part.replace(folder)
        finally:
            shutil.rmtree(held, ignore_errors=True)
    return _Searcher(ranker, ranking, len(passages)), False


def _check_place(folder: Path) -> None:
    """Refuse now a place where no index can be written after long work."""
    with explained(folder, "read"):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise BonafideError(f"{folder} is a file, and an index is a folder. Name a folder with --index.")
        if not _only_an_index(folder):
            raise BonafideError(f"{folder} holds other files than an index. Name another folder with --index.")


def _only_an_index(folder: Path) -> bool:
    """Whether a folder is empty or holds what was written here and nothing else: it may be replaced then."""
    names = {each.name for each in folder.iterdir()}
    parts = {name for name in names if ".index." in name}  # as bm25s names its files
    return not names or (bool(parts) and names - parts <= {_NOTE})


def _compared(text: str) -> str:
    """The words of a text as they are compared, with spaces between them; those of ASCII stay as they are."""
    return " ".join(each if each.isascii() else " ".join(_words(each)) for each in text.split())


def _words(text: str) -> Iterator[str]:
    return map(Matching().whole_form, _pattern().findall(text))


@cache
def _pattern() -> re.Pattern[str]:
    marks, spaced = marks_class(), rf"[^\W{UNSPACED_CLASS}]|\d"
    return re.compile(rf"(?:{spaced})(?:{spaced}|[{marks}])*|\w[{marks}]*")


def _library() -> Any:
    try:
        import bm25s
    except ImportError:
        raise BonafideError("Retrieval needs bm25s: install it with `pip install bonafide[retrieve]`.") from None
    return bm25s
