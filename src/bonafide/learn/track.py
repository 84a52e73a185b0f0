"""TensorBoard, where it is installed (the extra ``[track]``): every figure of ``metrics.jsonl``, as curves.

``metrics.jsonl`` stays the record. A resumed run hides what was logged after its checkpoint, as the record does. Events
are written as they come, not by a thread of TensorBoard's, which would die unheard where the disk is full.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
        values = [{"tag": tag, "simple_value": float(value)} for tag, value in figures.items()]
        events = [] if self._path else self._first()
        events.append({"step": entry["step"], "summary": {"value": values}})
        with explained(self._folder, "write"):
            self._write(events)

    def _first(self) -> list[dict[str, Any]]:
        """With the first figure: a run that has nothing more to do writes nothing."""
        events: list[dict[str, Any]] = [{"file_version": "brain.Event:2"}]
        if self._after:
            events.append({"step": self._after + 1, "session_log": {"status": "START"}})  # hides what came after
        return events

    def _write(self, events: Sequence[dict[str, Any]]) -> None:
        from google.protobuf.json_format import ParseDict
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        if self._path is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            number = len(list(self._folder.iterdir()))  # files are read in the order of their names
            self._path = self._folder / f"events.out.tfevents.{int(time.time()):010d}.{number:04d}"
        with self._path.open("ab") as stream:
            for each in events:
                event = ParseDict({"wall_time": time.time(), **each}, Event())
                RecordWriter(stream).write(event.SerializeToString())
