"""Compile kernels once and keep them, also where nothing can be written."""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled", "inlined"]

OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "reassoc", "nsz"},
    "error_model": "numpy",
    "nogil": True,
    "no_cfunc_wrapper": True,  # nobody calls from C
}


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile at the first call; the machine code is cached on disk if possible.

    Sums may be reordered for speed, in the same way at every call.
    """
    try:
        return numba.njit(cache=True, **OPTIONS, **options)(function)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(**OPTIONS, **options)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Same for steps of compiled loops, which become part of their callers.

    A call would count the references to every array of a tuple, up and down again,
    and callers would be optimised with it once more.
    """
    return compiled(function, inline="always")
