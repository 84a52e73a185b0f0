"""Every area, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from faults.evaluating import evaluating
from faults.judging import judging
from faults.record import Area
from faults.searching import searching
from faults.serving import serving
from faults.together import together
from faults.training import training

AREAS: dict[str, Callable[[Path], Area]] = {
    "searching": searching,
    "training": training,
    "together": together,
    "evaluating": evaluating,
    "judging": judging,
    "serving": serving,
}
