"""Modules that are no part of a package: benchmarks and tools, by their files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def module_at(place: str) -> ModuleType:
    """The module of a file, such as ``benchmarks/memory.py``."""
    path = ROOT / place
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module
