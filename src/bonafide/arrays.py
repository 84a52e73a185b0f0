"""Groups of different sizes, one after the other in one array: where they start, and what stands in some of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def offsets(sizes: npt.ArrayLike) -> Indices:
    """(groups + 1,): where each group of these sizes starts."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))]).astype(np.int64)


def ranges(starts: Indices, lengths: Indices) -> Indices:
    """start, start + 1, … for each (start, length), one after the other."""
    before = offsets(lengths)
    return np.repeat(starts - before[:-1], lengths) + np.arange(before[-1])
