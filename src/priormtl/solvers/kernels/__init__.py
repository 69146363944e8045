"""Compiled inner loops on plain arrays, and how they are compiled with Numba.

Numba takes long to load: nothing imports this package before the first fit that needs
compiled loops. Machine code is cached on disk where that is possible.

Letters: k rows (features), m tasks; ``gram`` (k, k, m) with tasks last, so that every
inner loop runs over contiguous memory.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

T = TypeVar("T")

OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "reassoc", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "no_cfunc_wrapper": True,  # never called from C
}


def compiled(
    function: Callable[..., T], *, allocates: bool = True, **options: Any
) -> Callable[..., T]:
    """Compile at the first call; cache the machine code on disk if possible.

    Sums may be reordered for speed, in the same way at every call. With
    ``NUMBA_DISABLE_JIT=1`` the function runs as it is, to debug it.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return np.errstate(all="ignore")(function)  # machine code does not warn either
    # References to arrays are counted only where new ones are made.
    options = OPTIONS | options | {"_nrt": allocates}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(**options)(function)


def in_place(function: Callable[..., T]) -> Callable[..., T]:
    """Same for loops that allocate nothing.

    Counting references would take a large part of the machine code, of the time to
    compile it, and of that of short loops.
    """
    return compiled(function, allocates=False)


def inlined(function: Callable[..., T]) -> Callable[..., T]:
    """Same for steps of such loops, which become part of their callers."""
    return compiled(function, allocates=False, inline="always")
