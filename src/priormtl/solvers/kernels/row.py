"""One row in compiled loops: its system over tasks, and its minimum."""

from math import sqrt
from typing import Any, NamedTuple

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled, inlined
from priormtl.solvers.kernels.graph import (
    CHAIN,
    DEGREE,
    GROUP,
    LOOSE,
    MAIN,
    OFF,
    TOGETHER,
    add_row_ties,
)

__all__ = [
    "Row",
    "factor_row",
    "norm",
    "probe_row",
    "shrink_row",
    "solve_row",
    "update_row",
]

MOST_SECULAR_STEPS = 60
ROUNDING, NEARLY = 1e-14, 1e-4  # relative errors of lam/‖x‖
TINY = 1e-300  # a pivot that vanishes


class Row(NamedTuple):
    """What one row's minimum depends on: T = diag(own) + tie · L, or a bound on it.

    Few arrays: a call counts the references to each, which may take longer than a
    row's arithmetic.
    """

    own: Array  # (m,)
    band: Array  # (4, m) of the graph
    kind: int  # the graph's, or LOOSE: ties count twice their diagonal
    tie: float
    lam: float
    steepest: float  # bound on T


@compiled
def norm(x: Array) -> float:
    """Euclidean length."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return sqrt(total)


@inlined
def factor_chain(
    band: Array, tie: float, own: Array, shift: float, parts: Array
) -> None:
    """Factorise a tridiagonal row from both ends, which meet in the middle.

    Two chains of divisions that do not wait for each other take half the time of one.
    Parts: inverted pivots, and these times the links outwards and inwards.
    """
    main, off = band[MAIN], band[OFF]
    pivot, outer, inner = parts[0], parts[1], parts[2]
    m = len(own)
    middle = m // 2
    top, bottom = 0.0, 0.0  # the last pivots
    for i in range(middle):
        j = m - 1 - i
        up = tie * off[i - 1] if i > 0 else 0.0
        value = own[i] + shift + tie * main[i] - up * up * top
        top = 1.0 / value if value > TINY else 0.0
        pivot[i] = top
        if j > middle:
            down = tie * off[j]
            value = own[j] + shift + tie * main[j] - down * down * bottom
            bottom = 1.0 / value if value > TINY else 0.0
            pivot[j] = bottom
    up = tie * off[middle - 1] if middle > 0 else 0.0
    down = tie * off[middle]
    value = own[middle] + shift + tie * main[middle]
    value -= up * up * top + down * down * bottom
    pivot[middle] = 1.0 / value if value > TINY else 0.0
    for i in range(middle):
        outer[i] = pivot[i] * tie * off[i - 1] if i > 0 else 0.0
        inner[i] = pivot[i] * tie * off[i]
    for i in range(middle, m):
        outer[i] = pivot[i] * tie * off[i]
        inner[i] = pivot[i] * tie * off[i - 1] if i > 0 else 0.0


@compiled
def solve_chain(parts: Array, rhs: Array, out: Array) -> None:
    """Solve by the factors of ``factor_chain``: inwards, then outwards."""
    pivot, outer, inner = parts[0], parts[1], parts[2]
    m = len(rhs)
    middle = m // 2
    top, bottom = 0.0, 0.0
    for i in range(m):
        out[i] = pivot[i] * rhs[i]
    for i in range(middle):
        j = m - 1 - i
        top = out[i] - outer[i] * top
        out[i] = top
        if j > middle:
            bottom = out[j] - outer[j] * bottom
            out[j] = bottom
    out[middle] -= inner[middle] * top + outer[middle] * bottom
    top, bottom = out[middle], out[middle]
    for i in range(middle - 1, -1, -1):
        j = m - 1 - i
        top = out[i] - inner[i] * top
        out[i] = top
        if j > middle:
            bottom = out[j] - inner[j] * bottom
            out[j] = bottom


@compiled
def factor_row(
    kind: int, band: Array, tie: float, own: Array, shift: float, parts: Array
) -> float:
    """Factorise diag(own + shift) + tie · L, or a bound on it, into ``parts`` (3, m).

    ``kind`` is the graph's, or LOOSE: then ties count twice their diagonal.
    Returns what a group leaves of the mean, 1 − tie uᵀ(…)⁻¹u, in a form that does
    not cancel. Pivots that vanish are left out of the solution.
    """
    m = len(own)
    if kind == CHAIN and tie > 0.0:
        factor_chain(band, tie, own, shift, parts)
        return 1.0
    diagonal, factor = band[MAIN], tie
    if kind == LOOSE:
        diagonal, factor = band[DEGREE], 2.0 * tie
    pivot, left = parts[0], 0.0
    for i in range(m):
        value = own[i] + shift + factor * diagonal[i]
        inverse = 1.0 / value if value > TINY else 0.0
        pivot[i] = inverse
        left += (own[i] + shift) * inverse
    return left / m


@compiled
def solve_row(
    kind: int,
    band: Array,
    tie: float,
    parts: Array,
    left: float,
    rhs: Array,
    out: Array,
) -> None:
    """Solve by the factors of ``factor_row``."""
    if kind == CHAIN and tie > 0.0:
        solve_chain(parts, rhs, out)
        return
    m, pivot = len(rhs), parts[0]
    for i in range(m):
        out[i] = rhs[i] * pivot[i]
    if kind == GROUP and tie > 0.0 and left > 0.0:
        together, along = band[TOGETHER], 0.0
        for i in range(m):
            along += together[i] * out[i]
        along *= tie / left
        for i in range(m):
            out[i] += along * together[i] * pivot[i]


@inlined
def probe_loose_row(
    row: Any, mu: float, target: Array, work: Array
) -> tuple[float, float]:
    """As ``probe_row``, where ties count twice their diagonal."""
    own, degree, double = row.own, row.band[DEGREE], 2.0 * row.tie
    x, turned, size, slope = work[0], work[1], 0.0, 0.0
    for i in range(len(own)):
        value = own[i] + mu + double * degree[i]
        inverse = 1.0 / value if value > TINY else 0.0
        here = target[i] * inverse
        x[i], turned[i] = here, here * inverse
        size += here * here
        slope += here * here * inverse
    return size, slope


@inlined
def probe_row(row: Any, mu: float, target: Array, work: Array) -> tuple[float, float]:
    """x = (T + mu)⁻¹ target and (T + mu)⁻¹ x into ``work``; ‖x‖² and their product."""
    if row.kind == LOOSE:
        return probe_loose_row(row, mu, target, work)
    kind, band, tie = row.kind, row.band, row.tie
    x, turned, parts = work[0], work[1], work[2:5]
    left = factor_row(kind, band, tie, row.own, mu, parts)
    solve_row(kind, band, tie, parts, left, target, x)
    solve_row(kind, band, tie, parts, left, x, turned)
    size, slope = 0.0, 0.0
    for i in range(len(x)):
        size += x[i] * x[i]
        slope += x[i] * turned[i]
    return size, slope


@inlined
def shrink_row(
    row: Any, target: Array, length: float, guess: float, work: Array
) -> float:
    """Minimise ½ xᵀT x − target·x + lam ‖x‖ for ‖target‖ = length > lam; lam/‖x‖.

    With mu = lam/‖x‖ the solution is (T + mu)⁻¹ target; Newton on 1/‖x‖ − mu/lam
    finds mu, inside a bracket that always holds it. The last step moves x along its
    tangent. ``work`` (5, m) begins with x.
    """
    lam = row.lam
    low, high = 0.0, lam * row.steepest / (length - lam)
    mu = guess if 0.0 < guess < high else high
    for _ in range(MOST_SECULAR_STEPS):
        square, slope = probe_row(row, mu, target, work)
        size = sqrt(square)
        if abs(mu * size - lam) <= ROUNDING * lam:
            break
        if mu * size > lam:
            high = mu
        else:
            low = mu
        step = (mu - lam / size) / (lam * slope / size**3 - 1.0)
        if abs(step) <= NEARLY * mu:  # what is left is of second order
            x, turned = work[0], work[1]
            for i in range(len(x)):
                x[i] -= step * turned[i]
            return mu + step
        mu = mu + step if low < mu + step < high else 0.5 * (low + high)
    return mu


@inlined
def find_target(row: Any, x: Array, slope: Array, target: Array) -> None:
    """T x − slope: what the minimum over a row depends on."""
    own = row.own
    if row.kind == LOOSE:
        degree, double = row.band[DEGREE], 2.0 * row.tie
        for i in range(len(x)):
            target[i] = (own[i] + double * degree[i]) * x[i] - slope[i]
        return
    for i in range(len(x)):
        target[i] = own[i] * x[i] - slope[i]
    add_row_ties(row.kind, row.band, row.tie, x, target)


@compiled
def update_row(
    row: Any, x: Array, slope: Array, guess: float, work: Array
) -> tuple[float, bool]:
    """Minimise over x, or a bound on it, where the gradient is ``slope``.

    Returns lam/‖x‖, −1 if x = 0, and whether x moved. ``work`` (6, m) then begins with
    the move.
    """
    if guess < 0.0 and norm(x) == 0.0 and norm(slope) <= row.lam:
        return guess, False
    move, target = work[0], work[5]
    find_target(row, x, slope, target)
    length, mu = norm(target), -1.0
    if length <= row.lam:
        for i in range(len(x)):
            move[i] = 0.0
    else:
        mu = shrink_row(row, target, length, guess, work)
    moved = False
    for i in range(len(x)):
        new = move[i]
        move[i] = new - x[i]
        x[i] = new
        moved = moved or move[i] != 0.0
    return mu, moved
