"""Memory that is not needed any more goes back to the system, as far as the system lets us say so.

Each thread of a server that reads much would otherwise keep an arena of what it once needed: with glibc, about a tenth
of all that the explorer holds. Arrow has a pool of its own, which it keeps as well; here it shares the others' memory.
And of the code of PyTorch, most is read once, while it is loaded.

All of this is for a process that does nothing but show a run: ``bonafide explore`` calls it, the library does not.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import pyarrow as pa

_TRIM_THRESHOLD, _ARENAS = -1, -8  # of glibc's malloc.h
_NOT_NEEDED = 4  # MADV_DONTNEED of Linux


def give_back_freed() -> None:
    """One arena for all threads, trimmed where a mebibyte is free at its end; nothing where there is no glibc."""
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_ARENAS, 1)
        library.mallopt(_TRIM_THRESHOLD, 1 << 20)
    except (OSError, AttributeError):
        return


def settle() -> None:
    """What was loaded stays: it is not looked through for garbage again, so that garbage is found sooner."""
    gc.collect()
    gc.freeze()
    gc.collect()  # counts what is left, which says how soon all of it is looked through again
    give_back_code()


def give_back_code() -> None:
    """Drop the pages of all code that is mapped from files: what is still used is read again, from the page cache.

    Only mappings that can be executed and not written are dropped, which are as they stand in their files. About 80 MB
    after a model was loaded; nothing where there is no Linux with glibc.
    """
    maps = Path("/proc/self/maps")
    try:
        library = ctypes.CDLL("libc.so.6")
        lines = maps.read_text().splitlines()
    except (OSError, AttributeError):
        return
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in lines:
        span, rights, *rest = line.split(maxsplit=5)
        if rights == "r-xp" and rest[-1].startswith("/"):
            start, end = (int(each, 16) for each in span.split("-"))
            library.madvise(start, end - start, _NOT_NEEDED)
