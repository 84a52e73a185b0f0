"""TensorBoard, where it is installed (the extra ``[track]``): every figure of ``metrics.jsonl``, as curves.

``metrics.jsonl`` stays the record. A resumed run hides what was logged after its checkpoint, as the record does. Events
are written as they come, not by a thread of TensorBoard's, which would die unheard where the disk is full.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bonafide.files import explained


class Board:
    """Event files in a folder; does nothing where TensorBoard is not installed."""

    def __init__(self, folder: Path, after: int = 0) -> None:
        self._folder, self._after = folder, after
        self._there = find_spec("tensorboard") is not None
        self._path: Path | None = None

    def log(self, entry: Mapping[str, Any]) -> None:
        """Add the numbers of an entry, at its step; those of an evaluation by that name."""
        if not self._there:
            return
        figures: dict[str, float] = {}
        for name, value in entry.items():
            if isinstance(value, Mapping):
                figures |= {f"{name}/{inner}": number for inner, number in value.items()}
            elif name not in ("step", "epoch") and isinstance(value, (int, float)):
                figures[f"train/{name}"] = value
        with explained(self._folder, "write"):
            self._write(entry["step"], figures)

    def _write(self, step: int, figures: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        events = []
        if self._path is None:  # with the first figure: a run that has nothing more to do writes nothing
            self._folder.mkdir(parents=True, exist_ok=True)
            number = len(list(self._folder.iterdir()))  # files are read in the order of their names
            self._path = self._folder / f"events.out.tfevents.{int(time.time()):010d}.{number:04d}"
            events.append(Event(wall_time=time.time(), file_version="brain.Event:2"))
            if self._after:  # hides what was logged after that
                start = SessionLog(status=SessionLog.START)
                events.append(Event(wall_time=time.time(), step=self._after + 1, session_log=start))
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        events.append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        with self._path.open("ab") as stream:
            for event in events:
                RecordWriter(stream).write(event.SerializeToString())
