"""Rounds of exact steps of a quadratic and of the nuclear norm in turn (ADMM).

Tasks are rows here: ``coef`` and all that goes with it are (m, d).
"""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled
from priormtl.solvers.kernels.tangent import multiply_blocks

__all__ = ["Sides", "exchange"]

RELAXATION = 1.6  # beyond the fit's point, towards where it pulls
LEAST_SHARE = 1e-5  # of the largest singular value, that squares can still tell


class Sides(NamedTuple):
    """Both sides at one price of a difference between them."""

    inverse: Array  # (m, d, d) or (1, d, d) of Gram matrices + price · I
    linear: Array  # (m, d)
    price: float
    lam: float


@compiled
def exchange(sides: Any, coef: Array, pull: Array, n: int) -> float:
    """Exchange ``n`` times, in place; returns the nuclear norm of the coefficients.

    It is negative, and no more is done, where digits do not suffice.
    """
    norm = 0.0
    for _ in range(n):
        norm = _exchange_once(sides, coef, pull)
        if norm < 0.0:
            break
    return norm


@compiled
def _exchange_once(sides: Any, coef: Array, pull: Array) -> float:
    target = _aim(sides, coef, pull)
    squares = np.dot(target.T, target)
    if not np.isfinite(squares.sum()):
        return -1.0
    values, vectors = np.linalg.eigh(squares)
    least = sides.lam / sides.price
    if not least > LEAST_SHARE * np.sqrt(values[-1]):
        return -1.0
    first = len(values)
    while first > 0 and values[first - 1] > least * least:
        first -= 1
    kept = np.ascontiguousarray(vectors[:, first:])
    turned = np.dot(target, kept)
    norm = 0.0
    for k in range(turned.shape[1]):
        value = np.sqrt(values[first + k])
        norm += value - least
        share = 1.0 - least / value
        for i in range(len(turned)):
            turned[i, k] *= share
    _settle(sides.price, target, np.dot(turned, kept.T), coef, pull)
    return norm


@compiled
def _aim(sides: Any, coef: Array, pull: Array) -> Array:
    """Where the fit would go, and the pull with it."""
    price = sides.price
    target = np.empty_like(coef)
    for i in range(coef.shape[0]):
        for j in range(coef.shape[1]):
            target[i, j] = price * coef[i, j] - pull[i, j] + sides.linear[i, j]
    fitted = multiply_blocks(sides.inverse, target)
    for i in range(coef.shape[0]):
        for j in range(coef.shape[1]):
            ahead = RELAXATION * (fitted[i, j] - coef[i, j])
            target[i, j] = coef[i, j] + ahead + pull[i, j] / price
    return target


@compiled
def _settle(price: float, target: Array, new: Array, coef: Array, pull: Array) -> None:
    """Write the penalty's point, and the pull that is left."""
    for i in range(coef.shape[0]):
        for j in range(coef.shape[1]):
            pull[i, j] = price * (target[i, j] - new[i, j])
            coef[i, j] = new[i, j]
