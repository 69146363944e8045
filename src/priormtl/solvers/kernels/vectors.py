"""Vectors (rows, tasks) of conjugate gradients, moved in place."""

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled, inlined

__all__ = ["advance", "blend", "inner", "step_along"]


@compiled
def inner(x: Array, y: Array) -> float:
    """⟨x, y⟩."""
    total = 0.0
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            total += x[r, i] * y[r, i]
    return total


@compiled
def advance(x: Array, factor: float, y: Array) -> None:
    """Add factor · y, in place."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += factor * y[r, i]


@inlined
def blend(x: Array, factor: float, y: Array) -> None:
    """Factor · x + y, in place of x."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] = factor * x[r, i] + y[r, i]


@inlined
def step_along(x: Array, rest: Array, p: Array, product: Array, old: float) -> bool:
    """Take the step of conjugate gradients along p; False where nothing curves.

    ``product`` is the matrix times p, and ``old`` what the last step left.
    """
    bowl = inner(p, product)
    if bowl <= 0.0:
        return False
    size = old / bowl
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += size * p[r, i]
            rest[r, i] -= size * product[r, i]
    return True
