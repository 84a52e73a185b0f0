"""The explorer's pages: overview, examples, one example, judging."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

import numpy as np
from fastapi import FastAPI, Query, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from bonafide.explore import listing
from bonafide.explore.asking import Asking, add_ask, check_place
from bonafide.explore.charts import bars, curves
from bonafide.explore.judge import MOST_PAIRS, Sheet
from bonafide.explore.judging import Bench, SheetInUse
from bonafide.explore.methods import Methods
from bonafide.explore.scoring import Scorer, Scores
from bonafide.explore.views import answer_text
from bonafide.explore.workspace import Opened, Workspace, logged
from bonafide.web.answers import RefusedError
from bonafide.web.application import make_app
from bonafide.web.guard import Door

_WAIT = 0.06
"""Seconds that a page waits for scores before it shows what is there."""
_CORNER = 5

Text = Annotated[str, Query(max_length=200)]
Number = Annotated[int, Query(ge=0, le=2**62)]


def explorer(
    workspace: Workspace,
    hosts: Door,
    sheet: Path | None = None,
    judge: str = "me",
    in_passing: bool = True,
    others: Sequence[Path] = (),
    loaded: Callable[[], None] | None = None,
) -> FastAPI:
    """The app; ``in_passing``: whether all examples are scored while nobody waits; ``others``: runs to compare.

    ``loaded`` is called when the model is there.
    """
    scorer, methods = Scorer(workspace, in_passing, loaded), Methods(workspace, others)
    asking = Asking(workspace, scorer)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        scorer.start()
        methods.start()
        try:
            yield
        finally:
            await asking.end()
            methods.stop()
            scorer.stop()
            workspace.close()

    packages = ["bonafide.explore", "bonafide.serve"]
    app, pages = make_app("bonafide explorer", hosts=hosts, packages=packages, lifespan=lifespan)
    app.state.scorer, app.state.methods = scorer, methods
    counted = _Counted(workspace)
    bench = Bench(workspace)
    in_use = SheetInUse(workspace, scorer, judge, sheet)
    common: dict[str, Any] = {"workspace": workspace, "scorer": scorer, "word": workspace.view.solution, "url": _url}
    orders = {**listing.SOLUTION_ORDERS, "simple": workspace.view.order}
    if scorer.state != "none":
        add_ask(app, asking, partial(pages, "asking.html", here="ask", **common))

    @app.get("/")
    def overview() -> Response:
        values = {"figures": counted, "corners": _corners(workspace), "methods": methods}
        return pages("overview.html", here="overview", **values, **common)

    @app.get("/examples")
    def examples(
        show: Text = "all", sort: Text = "file", find: Text = "", low: Number = 0, high: Number = 0, page: Number = 1
    ) -> Response:
        found = listing.examples(workspace, show, sort, find, low, high or (low and 2**62), page)
        asked = {"show": show, "sort": sort, "find": find, "low": low or None, "high": high or None}
        return pages("examples.html", here="examples", found=found, asked=asked, listing=listing, **common)

    @app.get("/find")
    def by_id(id: Annotated[str, Query(max_length=2000)]) -> Response:
        place = workspace.index.value("SELECT place FROM examples WHERE id = ?", [id])
        if place is None:
            raise RefusedError(404, f"There is no example with the id {id[:80]!r}.")
        return RedirectResponse(f"/example/{place}", 303)

    @app.get("/example/{place}")
    def example(
        place: int,
        z: Number | None = None,
        against: Number | None = None,
        sort: Text = "",
        find: Text = "",
        page: Number = 1,
    ) -> Response:
        check_place(workspace, place)
        opened = workspace.open(place)
        scores = scorer.scores(place, _WAIT)
        sort = sort or ("reconstructor" if scorer.has_reconstructor else "solver" if scores is not None else "simple")
        total = len(opened.solutions)
        chosen, rival = _pair(opened, scores, z, against)
        for given in (chosen, rival):
            if given is not None and given >= total:
                raise RefusedError(404, f"This example has {total:,} solutions; there is none with the number {given}.")
        solution = opened.solutions[chosen] if chosen is not None else None
        asked = {"z": z, "against": against, "sort": sort, "find": find}
        found = listing.solutions(workspace, opened, scores, sort, find, page)

        def link(one: int, other: int | None) -> str:
            return _url(f"/example/{place}", {**asked, "z": one, "against": other, "page": found.page})

        values = {
            "opened": opened,
            "answer": answer_text(opened.example.answers),
            "found": found,
            "link": link,
            "orders": orders,
            "asked": asked,
            "scores": scores,
            "chosen": chosen,
            "rival": rival,
            "texts": {
                each: workspace.view.pieces(workspace.text(opened, each), opened.example)
                for each in (chosen, rival)
                if each is not None
            },
            "gains": scorer.gains(opened, chosen, rival) if chosen is not None else [],
            "lit": workspace.view.lit(solution, opened.solutions, opened.example, opened.context),
            "count": workspace.index.count,
        }
        return pages("example.html", here="examples", **values, **common)

    @app.get("/example/{place}/state")
    def state(place: int) -> Response:
        check_place(workspace, place)
        scores = scorer.scores(place, 0)
        done, of = (scores.done, len(scores.solver)) if scores is not None else (0, 0)
        finished = scorer.state in ("none", "failed") or (scores is not None and scores.complete)
        return JSONResponse({"done": done, "of": of, "finished": finished})

    @app.get("/judge")
    def judging() -> Response:
        waits = in_use.waits  # asked first: a sheet that is complete by now is opened, whatever it was before
        found = in_use.open()
        place = None if found is None else found.next()
        if found is None or place is None:
            said = in_use.progress
            return pages("judged.html", here="judge", sheet=found, waits=waits, said=said, most=MOST_PAIRS, **common)
        return RedirectResponse(f"/judge/{place}", 303)

    @app.get("/judge/state")
    def judging_state() -> Response:
        finished = scorer.state == "failed" or not in_use.waits
        return JSONResponse({"finished": finished, "text": in_use.progress})

    @app.get("/judge/{place}")
    def pair(place: int) -> Response:
        found = _known(in_use.open(), place)
        shown = bench.shown(found.pairs[place])
        return pages("judge.html", here="judge", sheet=found, place=place, shown=shown, **common)

    @app.post("/judge/{place}")
    async def record(place: int, request: Request) -> Response:
        found = _known(in_use.open(), place)
        fields = parse_qs((await request.body()).decode("utf-8", "replace"))
        found.record(place, fields.get("choice", [""])[0])
        following = found.next(place)
        return RedirectResponse("/judge" if following is None else f"/judge/{following}", 303)

    return app


class _Counted:
    """Figures of the overview that do not change while the explorer runs."""

    def __init__(self, workspace: Workspace) -> None:
        sizes = workspace.index.query("SELECT size, count(*) FROM examples GROUP BY size ORDER BY size")
        manifest = workspace.store.manifest["counts"]
        total, half, median = workspace.index.count, 0, 0
        for size, count in sizes:
            half += count
            if half * 2 >= total:
                median = size
                break
        self.examples, self.solutions, self.capped = total, manifest["solutions"], manifest["capped"]
        self.coverage = manifest["covered"] / max(1, total)
        self.median, self.largest = median, max((size for size, _ in sizes), default=0)
        self.bars = bars([(size, count) for size, count in sizes])
        self.charts = curves(logged(workspace.folder) if workspace.is_run else [])


def _corners(workspace: Workspace) -> dict[str, Any]:
    index = workspace.index
    both, disagree, scored, known, wrong = index.query(
        "SELECT count(solver + reconstructor), coalesce(sum(solver <> reconstructor), 0), sum(scored), count(wrong), "
        "coalesce(sum(wrong), 0) FROM examples"
    )[0]
    return {
        "both": both,
        "disagree": disagree,
        "scored": scored,
        "known": known,
        "wrong": wrong,
        "none": index.value("SELECT count(*) FROM examples WHERE size = 0"),
        "largest": index.rows("ORDER BY size DESC, place LIMIT ?", [_CORNER]),
        "disagreeing": index.rows("WHERE solver <> reconstructor ORDER BY place LIMIT ?", [_CORNER]),
        "wrongly": index.rows("WHERE wrong = 1 ORDER BY place LIMIT ?", [_CORNER]),
        "unexplained": index.rows("WHERE explained IS NOT NULL ORDER BY explained LIMIT ?", [_CORNER]),
    }


def _pair(opened: Opened, scores: Scores | None, z: int | None, against: int | None) -> tuple[int | None, int | None]:
    """The chosen solution and its rival: what the user says, else φ's best against θ's, or against φ's second."""
    if not len(opened.solutions):
        return None, None
    if scores is None or not len(scores.solver):
        return (z if z is not None else 0), against
    explained = scores.reconstructor
    known = explained is not None and not np.isnan(explained).all()
    order = np.argsort(-(explained if known and explained is not None else scores.solver), kind="stable").tolist()
    theta = int(scores.solver.argmax())
    chosen = z if z is not None else int(order[0])
    if against is None:
        others = [each for each in (theta, *order[:2]) if each != chosen]
        against = int(others[0]) if others else None
    return chosen, against


def _known(sheet: Sheet | None, place: int) -> Sheet:
    if sheet is None or not 0 <= place < len(sheet.pairs):
        raise RefusedError(404, "There is no such pair to judge.")
    return sheet


def _url(path: str, asked: dict[str, Any], **changed: Any) -> str:
    """A deep link: what was asked for, with some of it changed; what is empty is left out."""
    values = {key: value for key, value in {**asked, **changed}.items() if value is not None and value != ""}
    return f"{path}?{urlencode(values)}" if values else path
