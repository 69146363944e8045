"""Compile kernels once and keep them, also where nothing can be written."""

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile at the first call; the machine code is cached on disk if possible.

    Sums may be reordered for speed, in the same way at every call.
    """
    options: dict[str, Any] = {
        "fastmath": {"contract", "reassoc", "nsz"},
        "error_model": "numpy",
    }
    try:
        return numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(nogil=True, **options)(function)
