"""Sweeps over rows with a dirty norm: each is minimised while all others stay."""

from typing import NamedTuple

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled

__all__ = ["DirtyRows", "find_shift", "sweep"]

MOST_STEPS = 200
ROUNDING = 1e-15


class DirtyRows(NamedTuple):
    """A quadratic in rows with a dirty norm, laid out for the loops."""

    gram: Array  # (d, d, m)
    own: Array  # (d, m) its diagonals
    lam: float
    ratio: float
    shift: Array  # (d,) of each row's last projection, where the next one starts


@compiled
def find_shift(
    sizes: Array, own: Array, most: float, total: float, near: float
) -> float:
    """Least μ ≥ 0 at which Σ min(own · (size − μ)₊, most) ≤ total; ``near`` is a guess.

    The sum is piecewise linear: Newton's steps end on the right piece, and halvings
    of the bracket stand in where they leave it.
    """
    low, high = -1.0, 0.0  # below zero: nothing is known from below
    for i in range(len(sizes)):
        high = max(high, sizes[i])
    shift = near if near < high else 0.0
    for _ in range(MOST_STEPS):
        above, slope = -total, 0.0
        for i in range(len(sizes)):
            rest = own[i] * (sizes[i] - shift)
            above += min(max(rest, 0.0), most)
            slope += own[i] if (rest > 0.0) & (rest < most) else 0.0
        if abs(above) <= ROUNDING * total or (above < 0.0 and shift == 0.0):
            break
        if above > 0.0:
            low = shift
        else:
            high = shift
        trial = shift + above / slope if slope > 0.0 else -1.0
        if trial <= 0.0 and low < 0.0:
            trial = 0.0
        elif not (low < trial < high):
            trial = 0.5 * (max(low, 0.0) + high)
        if trial in (shift, low, high):
            break
        shift = trial
    return shift


@compiled
def sweep(rows: DirtyRows, Q: Array, gradient: Array, move: Array) -> float:
    """Minimise over one row after the other; how far they moved, in the data's metric.

    Q and the gradient of the quadratic move along, in place; ``move`` (m,) is scratch.
    Entries that the data do not see become zero.
    """
    moved = 0.0
    for j in range(Q.shape[0]):
        change = _update_row(rows, j, Q[j], gradient[j], move)
        if change > 0.0:
            _spread(rows.gram[j], move, gradient)
            moved += change
    return moved


@compiled
def _update_row(rows: DirtyRows, j: int, q: Array, slope: Array, move: Array) -> float:
    """Minimise over row ``j``: what projection on the scaled dual ball leaves."""
    own = rows.own[j]
    for i in range(len(q)):
        move[i] = abs(q[i] - slope[i] / own[i]) if own[i] > 0.0 else 0.0
    shift = find_shift(move, own, rows.lam, rows.lam * rows.ratio, rows.shift[j])
    rows.shift[j] = shift
    change = 0.0
    for i in range(len(q)):
        new = 0.0
        if own[i] > 0.0:
            free = q[i] - slope[i] / own[i]
            held = own[i] * (abs(free) - shift)
            if held <= rows.lam:
                # As a rule exact: shared sizes are equal, entries of no size zero.
                new = min(abs(free), shift)
            else:
                new = abs(free) - rows.lam / own[i]
            new = new if free > 0.0 else -new
        move[i] = new - q[i]
        change += own[i] * move[i] ** 2
        q[i] = new
    return change


@compiled
def _spread(gram: Array, move: Array, gradient: Array) -> None:
    """Add what the move of one row does to all gradients."""
    for k in range(len(gram)):
        for i in range(len(move)):
            gradient[k, i] += gram[k, i] * move[i]
