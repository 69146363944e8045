"""Compiled inner loops on plain arrays, and how they are compiled with Numba.

Numba takes long to load: nothing imports this package before the first fit that needs
compiled loops. Machine code is cached on disk where that is possible.

Letters: k rows (features), m tasks; ``gram`` (k, k, m) with tasks last, so that every
inner loop runs over contiguous memory.
"""

from collections.abc import Callable
from typing import Any

import numba

OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "reassoc", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "no_cfunc_wrapper": True,  # never called from C
}


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile at the first call; cache the machine code on disk if possible.

    Sums may be reordered for speed, in the same way at every call.
    """
    try:
        return numba.njit(cache=True, **OPTIONS, **options)(function)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(**OPTIONS, **options)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Same for steps of compiled loops, which become part of their callers.

    A call would increment and decrement the reference count of every array of a tuple,
    and callers would be optimised together with it once more.
    """
    return compiled(function, inline="always")
