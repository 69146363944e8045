"""Conjugate gradients for several systems at once, one per row of a block."""

from collections.abc import Callable

import numpy as np

from priormtl._arrays import Array

__all__ = ["conjugate_gradients"]

SMALLEST = 1e-300


def conjugate_gradients(
    multiply: Callable[[Array], Array],
    right: Array,
    diagonal: Array,
    *,
    forcing: float,
    products: int,
) -> Array:
    """Rows V_k with H_k V_k = right_k, until errors have fallen to ``forcing``.

    ``multiply`` gives all rows H_k V_k in one pass over the data; ``diagonal`` is
    close to that of each H_k. Coordinates where it vanishes are left alone.
    """
    curved = diagonal > SMALLEST
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=curved)
    solution, rest = np.zeros_like(right), right
    direction = inverse * rest
    energy = _dots(rest, direction)
    enough = forcing**2 * energy
    for _ in range(products):
        if np.all(energy <= enough):
            break
        product = multiply(direction)
        step = _ratio(np.where(energy > enough, energy, 0.0), _dots(direction, product))
        solution = solution + step * direction
        rest = rest - step * product
        eased = inverse * rest
        before, energy = energy, _dots(rest, eased)
        direction = eased + _ratio(energy, before) * direction
    return solution


def _dots(a: Array, b: Array) -> Array:
    """Inner products, row by row (M, 1)."""
    return np.sum(a * b, axis=1, keepdims=True)


def _ratio(part: Array, whole: Array) -> Array:
    """Zero where the whole is."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > SMALLEST)
