"""TensorBoard, where it is installed (the extra ``[track]``): every figure of ``metrics.jsonl``, as curves.

``metrics.jsonl`` stays the record. A resumed run hides what was logged after its checkpoint, as the record does.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Board:
    """Event files in a folder; does nothing where TensorBoard is not installed."""

    def __init__(self, folder: Path, after: int = 0) -> None:
        self._folder, self._after = folder, after
        self._writer: Any = None

    def _open(self) -> None:
        """With the first figure: a run that has nothing more to do writes nothing."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self._folder), purge_step=self._after + 1 if self._after else None)

    def log(self, entry: Mapping[str, Any]) -> None:
        """Add the numbers of an entry, at its step; those of an evaluation by that name."""
        if self._writer is None and find_spec("tensorboard") is None:
            return
        if self._writer is None:
            self._open()
        for name, value in entry.items():
            if isinstance(value, Mapping):
                for inner, number in value.items():
                    self._writer.add_scalar(f"{name}/{inner}", number, entry["step"])
            elif name not in ("step", "epoch") and isinstance(value, (int, float)):
                self._writer.add_scalar(f"train/{name}", value, entry["step"])

    def close(self) -> None:
        """Write what is still held."""
        if self._writer is not None:
            self._writer.close()
