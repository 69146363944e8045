"""Compiled block coordinate descent for the dirty norm: one row after the other.

With the Gram diagonal a_i of a row, its minimiser is q_i = free_i − h_i / a_i, where h
is the point nearest to a · free, in the metric 1/a, with |h_i| ≤ lam and Σ|h_i| ≤
lam · ratio: the scaled form of the projection in `penalties.Dirty.prox`.
"""

from typing import NamedTuple

from priormtl._arrays import Array
from priormtl._numerics import ROUNDING
from priormtl.solvers.kernels import compiled


class DirtyRows(NamedTuple):
    """A quadratic in rows with a dirty norm, laid out for the loops."""

    gram: Array  # (d, d, m)
    diagonal: Array  # (d, m) of the Gram matrices
    lam: float
    ratio: float
    threshold: Array  # (d,) of each row's last projection, where the next one starts


@compiled
def find_threshold(
    sizes: Array, weight: Array, most: float, total: float, near: float
) -> float:
    """Least μ ≥ 0 with Σ min(weight · (size − μ)₊, most) ≤ total; ``near`` is a guess.

    The sum is piecewise linear in μ: Newton's method is exact on the right piece, and
    bisection replaces steps that leave the bracket.
    """
    low, high = -1.0, 0.0  # below zero: no lower bound is known
    for i in range(len(sizes)):
        high = max(high, sizes[i])
    threshold = near if near < high else 0.0
    for _ in range(200):
        above, slope = -total, 0.0
        for i in range(len(sizes)):
            rest = weight[i] * (sizes[i] - threshold)
            above += min(max(rest, 0.0), most)
            slope += weight[i] if (rest > 0.0) & (rest < most) else 0.0
        if abs(above) <= ROUNDING * total or (above < 0.0 and threshold == 0.0):
            break
        if above > 0.0:
            low = threshold
        else:
            high = threshold
        trial = threshold + above / slope if slope > 0.0 else -1.0
        if trial <= 0.0 and low < 0.0:
            trial = 0.0
        elif not (low < trial < high):
            trial = 0.5 * (max(low, 0.0) + high)
        if trial in (threshold, low, high):
            break
        threshold = trial
    return threshold


@compiled
def sweep(rows: DirtyRows, Q: Array, gradient: Array, move: Array) -> float:
    """Minimise over one row after the other; returns Σ a (ΔQ)².

    Q and the gradient of the quadratic change in place; ``move`` (m,) is scratch.
    Entries without data (a = 0) become zero.
    """
    moved = 0.0
    for j in range(Q.shape[0]):
        change = _update_row(rows, j, Q[j], gradient[j], move)
        if change > 0.0:
            _update_gradient(rows.gram[j], move, gradient)
            moved += change
    return moved


@compiled
def _update_row(rows: DirtyRows, j: int, q: Array, slope: Array, move: Array) -> float:
    """Minimise over row ``j``: what projection on the scaled dual ball leaves."""
    diagonal = rows.diagonal[j]
    for i in range(len(q)):
        move[i] = abs(q[i] - slope[i] / diagonal[i]) if diagonal[i] > 0.0 else 0.0
    total = rows.lam * rows.ratio
    threshold = find_threshold(move, diagonal, rows.lam, total, rows.threshold[j])
    rows.threshold[j] = threshold
    change = 0.0
    for i in range(len(q)):
        new = 0.0
        if diagonal[i] > 0.0:
            free = q[i] - slope[i] / diagonal[i]
            held = diagonal[i] * (abs(free) - threshold)
            if held <= rows.lam:
                # Usually exact: shared entries have equal sizes, absent ones are zero.
                new = min(abs(free), threshold)
            else:
                new = abs(free) - rows.lam / diagonal[i]
            new = new if free > 0.0 else -new
        move[i] = new - q[i]
        change += diagonal[i] * move[i] ** 2
        q[i] = new
    return change


@compiled
def _update_gradient(gram: Array, move: Array, gradient: Array) -> None:
    """Add the effect of one row's move on the gradient of all rows."""
    for k in range(len(gram)):
        for i in range(len(move)):
            gradient[k, i] += gram[k, i] * move[i]
