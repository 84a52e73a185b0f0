"""Memory that is freed goes back to the system, as far as the C library lets us say so.

Each thread of a server that reads much would otherwise keep an arena of what it once needed: with glibc, about a tenth
of all that the explorer holds. Arrow has a pool of its own, which it keeps as well; here it shares the others' memory.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

_TRIM_THRESHOLD, _ARENAS = -1, -8  # of glibc's malloc.h


def give_back_freed() -> None:
    """One arena for all threads, trimmed where a mebibyte is free at its end; nothing where there is no glibc."""
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_ARENAS, 1)
        library.mallopt(_TRIM_THRESHOLD, 1 << 20)
    except (OSError, AttributeError):
        return
