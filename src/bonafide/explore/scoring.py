"""What solver and reconstructor make of a solution set.

The model is loaded, and all of its work is done, in one thread of its own. A page waits for a small set; of a large one
it shows what is there and asks again. While nobody waits, the thread goes through the examples in random order, so that
the overview can say where the two disagree and which questions nothing explains, long before it is through.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from bonafide.errors import BonafideError
from bonafide.explore.workspace import Opened, Workspace

if TYPE_CHECKING:
    from bonafide.learn.saved import Model

T = TypeVar("T")
LOG = logging.getLogger("bonafide.web")
Floats = npt.NDArray[np.float64]
_LEAST, _MOST_AT_ONCE, _TOO_LONG = 16, 48, 0.04
"""Solutions that the reconstructor scores between two looks at who waits: as many as it manages in these seconds."""
_PATIENCE = 2.0
"""Seconds before the model is loaded, unless scores are asked for."""
_LONGEST = 60.0
"""Seconds after which a page gives up on the shading of a question."""
_QUIET = 1.0
"""Seconds without a request after which the thread goes on with the examples that nobody asked for."""
_MOST = 20_000
"""Solutions of an example that are scored, the simplest first; a page says so where there are more."""
_IN_PASSING = 2_000
"""The same while nobody waits."""
_KEPT = 2_000_000
"""Scores that are kept."""


@dataclass
class Scores:
    """Of a set's first solutions: log P_θ(z | d, q) of each, and log P_φ(q | d, z) of the first ``done`` of them."""

    solver: Floats
    reconstructor: Floats | None
    tokens: int
    done: int = 0

    @property
    def complete(self) -> bool:
        """Whether the reconstructor has scored all of them."""
        return self.reconstructor is None or self.done >= len(self.solver)


@dataclass(frozen=True, slots=True)
class Gain:
    """A token of the question, and its log-probability given each of two solutions."""

    text: str
    chosen: float
    rival: float | None

    @property
    def gain(self) -> float:
        """How much better the chosen solution explains it."""
        return 0.0 if self.rival is None else self.chosen - self.rival

    @property
    def shade(self) -> str:
        """A CSS class: m is better, l is worse, 1 to 5."""
        strength = min(5, math.ceil(abs(self.gain) / 0.6)) if abs(self.gain) >= 0.1 else 0
        return "" if not strength else f"{'m' if self.gain > 0 else 'l'}{strength}"


class Scorer:
    """Scores the examples of a workspace with the model of its run."""

    def __init__(self, workspace: Workspace, in_passing: bool = True, loaded: Callable[[], None] | None = None) -> None:
        """``loaded`` is called when the model is there."""
        self._workspace, self._in_passing, self._loaded = workspace, in_passing, loaded
        self._kept: OrderedDict[int, Scores] = OrderedDict()
        self._asked: deque[int] = deque()
        self._wake = threading.Condition()
        self._turns: deque[tuple[Future[Any], Callable[[Model], Any]]] = deque()
        self._model: Model | None = None
        self._recipe: Any = None
        self._at_once, self._last_asked = _LEAST, 0.0
        self.state = "loading" if (workspace.folder / "model").is_dir() else "none"
        self._stop = self.state == "none"
        self._thread = threading.Thread(target=self._work, name="scorer", daemon=True)

    def start(self) -> None:
        """Begin to load the model."""
        if not self._stop:
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        with self._wake:
            self._stop = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    @property
    def has_reconstructor(self) -> bool:
        """Whether the model has one; False until it is loaded."""
        return self._model is not None and self._model.reconstructor is not None

    def scores(self, place: int, wait: float) -> Scores | None:
        """What is known of an example after at most ``wait`` seconds; the rest is on its way."""
        if self.state in ("none", "failed"):
            return None
        with self._wake:
            self._last_asked = time.monotonic()
            known = self._kept.get(place)
            if known is None or not known.complete:
                if place in self._asked:
                    self._asked.remove(place)
                self._asked.appendleft(place)  # who asked last looks at it now
                self._wake.notify_all()
            until = time.monotonic() + wait
            while self.state == "ready" and (left := until - time.monotonic()) > 0:
                known = self._kept.get(place)
                if known is not None and known.complete:
                    break
                self._wake.wait(left)
            known = self._kept.get(place)
            if known is None or known.reconstructor is None:
                return known
            # Scoring goes on while a page is made of it.
            return replace(known, reconstructor=known.reconstructor.copy())

    def gains(self, opened: Opened, chosen: int, rival: int | None) -> list[Gain]:
        """The question's tokens, and how well each of two solutions explains them; nothing without a reconstructor."""
        if not self.has_reconstructor:
            return []
        return self.turn(lambda model: _gains(model, self._recipe, opened, chosen, rival)).result(_LONGEST)

    def turn(self, work: Callable[[Model], T]) -> Future[T]:
        """Have something done with the model, in its thread, before any more is scored."""
        waiting: Future[T] = Future()
        with self._wake:
            if self._stop or self.state == "failed":
                raise BonafideError("The model cannot be asked: it could not be loaded, or the explorer is ending.")
            self._last_asked = time.monotonic()
            self._turns.append((waiting, work))
            self._wake.notify_all()
        return waiting

    def _work(self) -> None:
        with self._wake:  # the first page comes first: loading a model takes the interpreter for seconds
            self._wake.wait_for(lambda: self._asked or self._turns or self._stop, _PATIENCE)
        try:
            self._load()
        except Exception as error:  # sets and examples are shown without it
            LOG.warning("The model could not be loaded: %s", error)
            self._refuse_turns("failed", f"The model could not be loaded: {error}")
            return
        while not self._stop:
            self._take_turns()
            place, asked = self._next()
            if place is None:
                continue
            try:
                self._score(place, _MOST if asked else _IN_PASSING, asked)
            except Exception as error:  # one example that cannot be scored must not end the others
                LOG.warning("Example %d cannot be scored: %s", place, error)
                self._workspace.index.change("UPDATE examples SET scored = 1 WHERE place = ?", [place])
        self._refuse_turns(self.state, "The explorer is ending.")

    def _load(self) -> None:
        from bonafide.explore.model import load_model

        self._model, self._recipe = load_model(self._workspace.folder)
        if self._model.task.name != self._workspace.task:
            raise BonafideError(
                f"The model is of the task {self._model.task.name!r}, the store of {self._workspace.task!r}."
            )
        if self._loaded is not None:
            self._loaded()
        with self._wake:
            self.state = "ready"
            self._wake.notify_all()

    def _next(self) -> tuple[int | None, bool]:
        with self._wake:
            if self._asked:
                return self._asked.popleft(), True
            if self._turns:
                return None, False
            quiet = time.monotonic() - self._last_asked
            if not self._in_passing or quiet < _QUIET:
                self._wake.wait(_QUIET)
                return None, False
        index = self._workspace.index
        place = index.value("SELECT place FROM examples WHERE scored = 0 ORDER BY turn, place LIMIT 1")
        if place is None:
            with self._wake:
                if not self._asked and not self._stop:
                    self._wake.wait(1.0)
        return place, False

    def _score(self, place: int, most: int, asked: bool) -> None:
        from bonafide.explore.model import Layouts, solver_scores

        assert self._model is not None
        opened = self._workspace.open(place)
        count = min(most, len(opened.solutions))
        kept = self._kept.get(place)
        if kept is None or len(kept.solver) < count:
            layouts = Layouts(self._model, self._recipe, opened, count)
            kept = Scores(
                solver_scores(self._model, opened, count),
                np.full(count, np.nan) if self._model.reconstructor is not None else None,
                layouts.tokens,
            )
            if asked:
                self._keep(place, kept)
        else:
            layouts = Layouts(self._model, self._recipe, opened, count)
        while kept.reconstructor is not None and kept.done < count and not self._stop:
            upto, start = min(count, kept.done + self._at_once), time.monotonic()
            kept.reconstructor[kept.done : upto] = layouts.scores(kept.done, upto)
            spent = time.monotonic() - start
            self._at_once = (
                max(_LEAST, self._at_once // 2) if spent > _TOO_LONG else min(_MOST_AT_ONCE, self._at_once * 2)
            )
            with self._wake:
                kept.done = upto
                self._wake.notify_all()
                waiting = bool(self._asked)
                quiet = time.monotonic() - self._last_asked
            self._take_turns()
            if not asked and quiet < _QUIET:
                return  # somebody is looking at another example: this one has its turn later
            if waiting and not kept.complete:
                if asked:
                    with self._wake:
                        self._asked.append(place)  # it goes on when the others have had their turn
                return
        if kept.complete:
            self._note(opened, kept)
            with self._wake:
                self._wake.notify_all()

    def _take_turns(self) -> None:
        """Do what others wait for."""
        while self._turns:
            waiting, work = self._turns.popleft()
            if not waiting.set_running_or_notify_cancel():
                continue  # nobody waits any more
            try:
                assert self._model is not None
                waiting.set_result(work(self._model))
            except Exception as error:  # whoever waits is told
                waiting.set_exception(error)

    def _refuse_turns(self, state: str, reason: str) -> None:
        with self._wake:
            self.state = state
            while self._turns:
                waiting = self._turns.popleft()[0]
                if waiting.set_running_or_notify_cancel():
                    waiting.set_exception(BonafideError(reason))
            self._wake.notify_all()

    def _keep(self, place: int, scores: Scores) -> None:
        with self._wake:
            self._kept[place] = scores
            while sum(len(each.solver) for each in self._kept.values()) > _KEPT and len(self._kept) > 1:
                self._kept.popitem(last=False)

    def _note(self, opened: Opened, scores: Scores) -> None:
        """Write into the index what an example's scores say."""
        solver = reconstructor = explained = wrong = None
        if len(scores.solver):
            solver = int(scores.solver.argmax())
            if scores.reconstructor is not None:
                reconstructor = int(scores.reconstructor.argmax())
                explained = float(scores.reconstructor.max()) / max(1, scores.tokens)
            gold = self._workspace.gold_places(opened)
            wrong = None if gold is None else int(solver not in gold)
        self._workspace.index.change(
            "UPDATE examples SET solver = ?, reconstructor = ?, explained = ?, wrong = ?, scored = 1 WHERE place = ?",
            [solver, reconstructor, explained, wrong, opened.row.place],
        )


def _gains(model: Model, recipe: Any, opened: Opened, chosen: int, rival: int | None) -> list[Gain]:
    from bonafide.explore.model import token_scores

    words, found = token_scores(model, recipe, opened, [chosen] if rival is None else [chosen, rival])
    rows = found.tolist()
    return [Gain(word, rows[0][at], None if rival is None else rows[1][at]) for at, word in enumerate(words)]
