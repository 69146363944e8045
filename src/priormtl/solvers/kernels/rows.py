"""Block coordinate descent over rows: each row is minimised while all others stay.

A row x of one feature over all tasks minimises ½ xᵀT x − target·x + lam ‖x‖ with
T = diag(own) + tie · L. With mu = lam/‖x‖ the solution is (T + mu)⁻¹ target, and
Newton's method finds mu (`shrink_row`). Rows of a chain are tridiagonal systems, those
of one group are diagonal but for a rank-one term, and those of groups and nested tasks
are eliminated from the leaves of a tree to its root. For other graphs T is bounded by a
diagonal, as it is for a row whose minimum does not have its sign. Then only the part of
the target that has the right sign moves the row (`update_signed_row`). Rows that are
the same in all tasks are single numbers (`update_common_row`).
"""

from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from priormtl._arrays import Array, Index
from priormtl._numerics import ROUNDING, TINY
from priormtl.priors.graphs import Laplacian
from priormtl.solvers.kernels import compiled, in_place, inlined

LOOSE, CHAIN, GROUP, TREE, COMMON = 0, 1, 2, 3, 4
MAIN, OFF, DEGREE, TOGETHER = 0, 1, 2, 3  # what the rows of a band hold
PARENT, UP, ABOVE, PIVOT = 0, 1, 2, 3  # and those of a tree
MOST_SWEEPS = 10  # in a step with few rows
HELD = 1e200  # curvature of an entry that stays at zero


# Task graphs.


class Loose(NamedTuple):
    """Edges off the band, and U of groups, both sparse by rows."""

    edge_start: Index  # (m + 1,)
    edge_task: Index
    edge_value: Array
    group_start: Index  # (m + 1,)
    group_number: Index
    group_value: Array
    n_groups: int


class Graph(NamedTuple):
    """L = a tridiagonal band + other edges − U Uᵀ, or a tree.

    Loops for trees and for loose graphs are compiled only where there is one.
    """

    kind: int  # what one row's system is: CHAIN, GROUP, TREE, or LOOSE: only bounded
    band: Array  # (4, m) its diagonal, its entries (i, i + 1) and a last zero; the
    #              diagonal of L; U of one group of all tasks
    tree: Array | None  # rows of `lay_out_tree`
    loose: Loose | None

    @property
    def degree(self) -> Array:
        """Diagonal of L (m,)."""
        return self.band[DEGREE]


@lru_cache(maxsize=8)
def lay_out_graph(laplacian: Laplacian, *, sparse: bool = False) -> Graph:
    """A task graph as plain arrays, laid out once; ``sparse``: none as a tree."""
    laplacian = laplacian.contracted()
    m, groups, degree = laplacian.m, laplacian.latent, laplacian.degree
    first, second, value = laplacian.first, laplacian.second, -laplacian.weight
    beside = (second - first == 1) & (second < m)
    off = np.zeros(m)
    off[first[beside]] = value[beside]
    rest = (second < m) & ~beside
    tail = np.concatenate([first[rest], second[rest]])
    head = np.concatenate([second[rest], first[rest]])
    order = np.argsort(tail, kind="stable")
    kind, tree = LOOSE, None
    if laplacian.one_group:
        kind = GROUP
    elif off.any() and not rest.any() and not groups.nnz:
        kind = CHAIN
    elif laplacian.is_tree:
        kind, tree = TREE, lay_out_tree(laplacian)
    together = groups.data if kind == GROUP else np.zeros(m)
    band = np.vstack([laplacian.diagonal, off, degree, together])
    if not sparse and (kind != LOOSE or not (rest.any() or groups.nnz)):
        return Graph(kind, band, tree, None)
    loose = Loose(
        np.append(0, np.cumsum(np.bincount(tail, minlength=m))).astype(np.intp),
        head[order].astype(np.intp),
        np.tile(value[rest], 2)[order],
        groups.indptr.astype(np.intp),
        groups.indices.astype(np.intp),
        groups.data,
        int(groups.shape[1]),
    )
    return Graph(kind, band, None, loose)


def lay_out_tree(laplacian: Laplacian) -> Array:
    """Tasks tied to one latent node each, as rows (4, m).

    The latent node of each task (−1: none), the parent of each latent node (−1: none),
    the weight of the edge to it, and its pivot (`graphs.Forest`), which is zero after
    the last one. A tree in which all latent nodes branch has fewer of them than leaves.
    """
    m, k, forest = laplacian.m, len(laplacian.names), laplacian.forest
    tree = np.zeros((4, m))
    tied = laplacian.first < m
    tree[0] = -1.0
    tree[0, laplacian.first[tied]] = laplacian.second[tied] - m
    tree[1, :k], tree[2, :k], tree[3, :k] = forest.parent, forest.weight, forest.pivot
    return tree


@in_place
def add_ties(
    kind: int,
    band: Array,
    tree: Array | None,
    loose: Loose | None,
    tie: float,
    x: Array,
    out: Array,
) -> None:
    """Add tie · L x."""
    if tree is not None:
        add_tree(band, tree, tie, x, out)
    else:
        main, off, m = band[MAIN], band[OFF], len(x)
        for i in range(m):
            out[i] += tie * main[i] * x[i]
        for i in range(m - 1):
            out[i] += tie * off[i] * x[i + 1]
        for i in range(m - 1):
            out[i + 1] += tie * off[i] * x[i]
        if kind == GROUP:
            together, along = band[TOGETHER], 0.0
            for i in range(m):
                along += together[i] * x[i]
            for i in range(m):
                out[i] -= tie * along * together[i]
    if loose is not None:
        add_loose_ties(loose, tie, x, out)


@compiled
def add_loose_ties(loose: Loose, tie: float, x: Array, out: Array) -> None:
    """Add what edges off the band contribute, and subtract tie · U Uᵀ x."""
    for i in range(len(x)):
        for k in range(loose.edge_start[i], loose.edge_start[i + 1]):
            out[i] += tie * loose.edge_value[k] * x[loose.edge_task[k]]
    sums = np.zeros(loose.n_groups)
    for i in range(len(x)):
        for k in range(loose.group_start[i], loose.group_start[i + 1]):
            sums[loose.group_number[k]] += loose.group_value[k] * x[i]
    for i in range(len(x)):
        for k in range(loose.group_start[i], loose.group_start[i + 1]):
            out[i] -= tie * loose.group_value[k] * sums[loose.group_number[k]]


@compiled
def add_tree(band: Array, tree: Array, tie: float, x: Array, out: Array) -> None:
    """Add tie · L x for a tree: weights times differences from latent nodes."""
    main, parent, m = band[MAIN], tree[PARENT], len(x)
    up, above, pivot = tree[UP], tree[ABOVE], tree[PIVOT]
    q, k = np.zeros(m), 0
    for i in range(m):
        if parent[i] >= 0.0:
            q[int(parent[i])] += main[i] * x[i]
    while k < m and pivot[k] > 0.0:
        if up[k] >= 0.0:
            q[int(up[k])] += above[k] / pivot[k] * q[k]
        k += 1
    for g in range(k - 1, -1, -1):
        if up[g] >= 0.0:
            q[g] += above[g] * q[int(up[g])]
        q[g] /= pivot[g]
    for i in range(m):
        if parent[i] >= 0.0:
            out[i] += tie * main[i] * (x[i] - q[int(parent[i])])


# One row.


class Row(NamedTuple):
    """What one row's minimum depends on: T = diag(own) + tie · L, or a bound on it."""

    own: Array  # (m,)
    band: Array  # (4, m) of the graph
    tree: Array | None  # (4, m) of the graph
    # The graph's; or LOOSE: ties count twice their diagonal; or COMMON: one number.
    kind: int
    tie: float
    lam: float
    steepest: float  # bound on T
    sign: float | None  # 1: x ≥ 0, −1: x ≤ 0, 0: any; None: no row is constrained


@in_place
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
    # Gaussian elimination of T + shift: with the links e = tie · off, the pivot of a
    # task is its diagonal less e² over the pivot of the task before.
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


@in_place
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


@in_place
def factor_tree(
    band: Array, tree: Array, tie: float, own: Array, shift: float, parts: Array
) -> None:
    """Eliminate tasks, then latent nodes from the leaves to the roots.

    A node with the diagonal a below an edge w hands on w a / (a + w): nothing cancels.
    Parts: inverted pivots of tasks and of latent nodes; the last is for `solve_tree`.
    """
    main, parent, m = band[MAIN], tree[PARENT], len(own)
    up, above, last = tree[UP], tree[ABOVE], tree[PIVOT]
    pivot, latent = parts[0], parts[1]
    for i in range(m):
        value = own[i] + shift + tie * main[i]
        pivot[i] = 1.0 / value if value > TINY else 0.0
        latent[i] = 0.0
    # A task with the diagonal a = own + shift beside its edge w = tie · main leaves
    # w − w² / (a + w) = w a / (a + w) at its parent (a Schur complement).
    for i in range(m):
        if parent[i] >= 0.0:
            left = tie * main[i] * (own[i] + shift) * pivot[i]
            latent[int(parent[i])] += left
    k = 0
    while k < m and last[k] > 0.0:
        left, edge = latent[k], tie * above[k]
        inverse = 1.0 / (left + edge) if left + edge > TINY else 0.0
        if up[k] >= 0.0:
            latent[int(up[k])] += edge * left * inverse
        latent[k] = inverse
        k += 1


@in_place
def solve_tree(
    band: Array, tree: Array, tie: float, parts: Array, rhs: Array, out: Array
) -> None:
    """Solve by the factors of ``factor_tree``: to the roots, and back to the leaves."""
    main, parent, m = band[MAIN], tree[PARENT], len(rhs)
    up, above, last = tree[UP], tree[ABOVE], tree[PIVOT]
    pivot, latent, q = parts[0], parts[1], parts[2]
    for i in range(m):
        out[i] = rhs[i] * pivot[i]
        q[i] = 0.0
    for i in range(m):
        if parent[i] >= 0.0:
            q[int(parent[i])] += tie * main[i] * out[i]
    k = 0
    while k < m and last[k] > 0.0:
        if up[k] >= 0.0:
            q[int(up[k])] += tie * above[k] * latent[k] * q[k]
        k += 1
    for g in range(k - 1, -1, -1):
        if up[g] >= 0.0:
            q[g] += tie * above[g] * q[int(up[g])]
        q[g] *= latent[g]
    for i in range(m):
        if parent[i] >= 0.0:
            out[i] += pivot[i] * tie * main[i] * q[int(parent[i])]


@in_place
def factor_row(
    kind: int,
    band: Array,
    tree: Array | None,
    tie: float,
    own: Array,
    shift: float,
    parts: Array,
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
    if tree is not None and kind == TREE and tie > 0.0:
        factor_tree(band, tree, tie, own, shift, parts)
        return 1.0
    # L ≤ 2 diag(L) for any graph (Gershgorin): hence the bound where ties are loose.
    diagonal, factor = band[MAIN], tie
    if kind == LOOSE:
        diagonal, factor = band[DEGREE], 2.0 * tie
    # For one group L = diag(c) − u uᵀ with c = m u²: by Sherman and Morrison's formula
    # the inverse needs 1 − tie Σ u² / p, and each p − tie c is own + shift.
    pivot, left = parts[0], 0.0
    for i in range(m):
        value = own[i] + shift + factor * diagonal[i]
        inverse = 1.0 / value if value > TINY else 0.0
        pivot[i] = inverse
        left += (own[i] + shift) * inverse
    return left / m


@in_place
def solve_row(
    kind: int,
    band: Array,
    tree: Array | None,
    tie: float,
    parts: Array,
    left: float,
    rhs: Array,
    out: Array,
) -> None:
    """Solve by the factors of ``factor_row``; ``out`` may be ``rhs``."""
    if kind == CHAIN and tie > 0.0:
        solve_chain(parts, rhs, out)
        return
    if tree is not None and kind == TREE and tie > 0.0:
        solve_tree(band, tree, tie, parts, rhs, out)
        return
    m, pivot = len(rhs), parts[0]
    for i in range(m):
        out[i] = rhs[i] * pivot[i]
    # (D − tie u uᵀ)⁻¹ r = D⁻¹ r + D⁻¹ u (tie uᵀ D⁻¹ r) / left.
    if kind == GROUP and tie > 0.0 and left > 0.0:
        together, along = band[TOGETHER], 0.0
        for i in range(m):
            along += together[i] * out[i]
        along *= tie / left
        for i in range(m):
            out[i] += along * together[i] * pivot[i]


@inlined
def probe_loose_row(
    row: "Row", mu: float, target: Array, work: Array
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
def probe_row(row: "Row", mu: float, target: Array, work: Array) -> tuple[float, float]:
    """x = (T + mu)⁻¹ target and (T + mu)⁻¹ x into ``work``; ‖x‖² and their product."""
    if row.kind == LOOSE:
        return probe_loose_row(row, mu, target, work)
    kind, band, tree, tie = row.kind, row.band, row.tree, row.tie
    x, turned, parts = work[0], work[1], work[2:5]
    left = factor_row(kind, band, tree, tie, row.own, mu, parts)
    solve_row(kind, band, tree, tie, parts, left, target, x)
    solve_row(kind, band, tree, tie, parts, left, x, turned)
    size, slope = 0.0, 0.0
    for i in range(len(x)):
        size += x[i] * x[i]
        slope += x[i] * turned[i]
    return size, slope


@inlined
def shrink_row(
    row: "Row", target: Array, length: float, guess: float, work: Array
) -> float:
    """Minimise ½ xᵀT x − target·x + lam ‖x‖ for ‖target‖ = length > lam; lam/‖x‖.

    With mu = lam/‖x‖ the solution is (T + mu)⁻¹ target; Newton on 1/‖x‖ − mu/lam
    finds mu, inside a bracket that always holds it. The last step moves x along its
    tangent. ``work`` (5, m) begins with x.
    """
    # The secular equation of trust regions, whose left side is nearly linear in mu
    # (Moré and Sorensen, "Computing a trust region step", 1983). As T ≤ steepest,
    # ‖x‖ ≥ length / (steepest + mu), which bounds mu from above.
    lam = row.lam
    low, high = 0.0, lam * row.steepest / (length - lam)
    mu = guess if 0.0 < guess < high else high
    for _ in range(60):
        square, slope = probe_row(row, mu, target, work)
        size = sqrt(square)
        if abs(mu * size - lam) <= 8.0 * ROUNDING * lam:
            break
        if mu * size > lam:
            high = mu
        else:
            low = mu
        # d‖x‖ / dmu = −xᵀ(T + mu)⁻¹x / ‖x‖: the slope of 1/‖x‖ is slope / ‖x‖³.
        step = (mu - lam / size) / (lam * slope / size**3 - 1.0)
        if abs(step) <= 1e-4 * mu:  # what is left is of second order
            x, turned = work[0], work[1]
            for i in range(len(x)):
                x[i] -= step * turned[i]
            return mu + step
        mu = mu + step if low < mu + step < high else 0.5 * (low + high)
    return mu


@inlined
def find_target(row: "Row", x: Array, slope: Array, target: Array) -> None:
    """T x − slope: what the minimum over a row depends on."""
    own = row.own
    if row.kind == LOOSE:
        degree, double = row.band[DEGREE], 2.0 * row.tie
        for i in range(len(x)):
            target[i] = (own[i] + double * degree[i]) * x[i] - slope[i]
        return
    for i in range(len(x)):
        target[i] = own[i] * x[i] - slope[i]
    add_ties(row.kind, row.band, row.tree, None, row.tie, x, target)


@inlined
def update_common_row(row: "Row", x: Array, slope: Array, work: Array) -> float:
    """New value into ``work``, where x is the same in all tasks; lam/‖x‖."""
    m, own, target, move = len(x), 0.0, 0.0, work[0]
    for i in range(m):
        own += row.own[i]
        target -= slope[i]
    # Soft thresholding of ½ own v² − target v + lam √m |v|, since ‖x‖ is √m |v|.
    target, threshold = target + own * x[0], row.lam * sqrt(m)
    wrong = target * row.sign < 0.0
    value = 0.0
    if not wrong and own > TINY and abs(target) > threshold:
        value = (target - threshold if target > 0.0 else target + threshold) / own
    for i in range(m):
        move[i] = value
    return row.lam / (sqrt(m) * abs(value)) if value != 0.0 else -1.0


@inlined
def right_norm(sign: float, x: Array) -> float:
    """Euclidean length of what has the right sign."""
    total = 0.0
    for i in range(len(x)):
        if sign * x[i] > 0.0:
            total += x[i] * x[i]
    return sqrt(total)


@in_place
def shrink_called(
    row: "Row", target: Array, length: float, guess: float, work: Array
) -> float:
    """``shrink_row`` as a function of its own, compiled once for all rows of a sign."""
    return shrink_row(row, target, length, guess, work)


@compiled
def shrink_signed_row(
    row: "Row", x: Array, target: Array, guess: float, work: Array
) -> float:
    """Minimise as ``shrink_row`` over x of one sign; −1 where that takes too long.

    T has no positive entries off its diagonal. So entries whose target has the right
    sign are part of the solution, and with them held free so are those that they pull:
    the set of free entries only grows (Chandrasekaran, "A special case of the
    complementary pivot problem", Opsearch 7, 1970). It begins with the last one.
    """
    m, sign, move = len(x), row.sign, work[0]
    own, right, pulls = np.empty(m), np.empty(m), np.empty(m)
    mu = guess
    for turn in range(10):
        for i in range(m):
            free = sign * target[i] > 0.0 or (turn == 0 and x[i] != 0.0)
            if turn > 0 and own[i] < HELD:
                free = True
            own[i] = row.own[i] if free else HELD
            right[i] = target[i] if free else 0.0
        tie, lam, steepest = row.tie, row.lam, row.steepest
        # An enormous diagonal holds entries at zero, and the form of T is kept.
        part = Row(own, row.band, row.tree, row.kind, tie, lam, steepest, sign)
        length = norm(right)
        if length <= row.lam:
            return -1.0
        mu = shrink_called(part, right, length, mu, work)
        wrong = False
        for i in range(m):
            pulls[i] = target[i]
            if own[i] == HELD:
                move[i] = 0.0
            elif sign * move[i] < 0.0:
                wrong = True
                own[i] = HELD
        if wrong:
            continue
        # What pulls the entries that are held: target − tie · L x.
        add_ties(row.kind, row.band, row.tree, None, -row.tie, move, pulls)
        for i in range(m):
            if own[i] == HELD and sign * pulls[i] > 0.0:
                own[i], wrong = 0.0, True
        if not wrong:
            return mu
    return -1.0


@in_place
def update_signed_row(
    row: Any, x: Array, slope: Array, guess: float, work: Array
) -> float:
    """New values into ``work``, where x has a sign; lam/‖x‖."""
    move, target, sign = work[0], work[5], row.sign
    find_target(row, x, slope, target)
    if right_norm(sign, target) <= row.lam:
        move[:] = 0.0
        return -1.0
    if row.kind != LOOSE:
        mu = shrink_called(row, target, norm(target), guess, work)
        if right_norm(-sign, move) > 0.0:
            mu = shrink_signed_row(row, x, target, guess, work)
        if mu >= 0.0:
            return mu
    # With a diagonal bound on T entries do not meet: those whose target has the wrong
    # sign are zero, and the others are shrunk as if there were no sign.
    own, tie, lam, steepest = row.own, row.tie, row.lam, row.steepest
    loose = Row(own, row.band, row.tree, LOOSE, tie, lam, steepest, sign)
    find_target(loose, x, slope, target)
    for i in range(len(x)):
        if sign * target[i] < 0.0:
            target[i] = 0.0
    length = norm(target)
    if length <= row.lam:
        move[:] = 0.0
        return -1.0
    return shrink_called(loose, target, length, guess, work)


@in_place
def update_if_constrained(
    row: "Row", x: Array, slope: Array, guess: float, work: Array
) -> tuple[bool, float]:
    """New values into ``work`` if x has a sign or is the same in all tasks."""
    if row.kind == COMMON:
        return True, update_common_row(row, x, slope, work)
    if row.sign != 0.0:
        return True, update_signed_row(row, x, slope, guess, work)
    return False, -1.0


def update_constrained(
    row: "Row", x: Array, slope: Array, guess: float, work: Array
) -> tuple[bool, float]:
    """``update_if_constrained``; compiled only for systems that have constraints.

    This body is what runs where Numba is disabled, and what the choice below compiles.
    """
    if row.sign is None:
        return False, -1.0
    return update_if_constrained(row, x, slope, guess, work)


# The annotations of a chooser and of what it chooses differ: hence strict=False.
@overload(update_constrained, strict=False)
def _choose_update(
    row: Any, x: object, slope: object, guess: object, work: object
) -> object:
    if isinstance(row.types[row.fields.index("sign")], types.NoneType):
        return lambda row, x, slope, guess, work: (False, -1.0)
    return lambda row, x, slope, guess, work: update_if_constrained(  # noqa: PLW0108
        row, x, slope, guess, work
    )


def take_sign(sign: Array | None, j: int) -> Any:
    """Sign of row ``j``; None where no row is constrained."""
    return None if sign is None else sign[j]


@overload(take_sign, strict=False)
def _choose_sign(sign: object, j: object) -> object:
    if isinstance(sign, types.NoneType):
        return lambda sign, j: None
    return lambda sign, j: sign[j]


@inlined
def update_row(
    row: "Row", x: Array, slope: Array, guess: float, work: Array
) -> tuple[float, bool]:
    """Minimise over x, or a bound on it, where the gradient is ``slope``.

    Returns lam/‖x‖, −1 if x = 0, and whether x moved. ``work`` (6, m) then begins with
    the move.
    """
    if guess < 0.0 and norm(x) == 0.0 and norm(slope) <= row.lam:
        return guess, False
    move, target = work[0], work[5]
    done, mu = update_constrained(row, x, slope, guess, work)
    if not done:
        find_target(row, x, slope, target)
        length = norm(target)
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


# Sweeps over all rows.


class System(NamedTuple):
    """A block quadratic with row penalties, laid out for the loops."""

    gram: Array  # (k, k, m), or (k, k) where one serves all tasks
    own: Array  # (k, m) diagonal of each row's Hessian, ties not counted
    lam: Array  # (k,)
    tie: Array  # (k,)
    steepest: Array  # (k,) bound on each row's Hessian, ties counted
    kind: Index  # (k,) how each row sees the graph: as it is, LOOSE, or COMMON
    sign: Array | None  # (k,); None: no row is constrained
    graph: Graph


@inlined
def pick_row(system: System, j: int) -> Row:
    """System of row ``j``."""
    return Row(
        system.own[j],
        system.graph.band,
        system.graph.tree,
        system.kind[j],
        system.tie[j],
        system.lam[j],
        system.steepest[j],
        take_sign(system.sign, j),
    )


@inlined
def sweep(system: System, Q: Array, gradient: Array, mu: Array, work: Array) -> float:
    """Minimise over one row after the other; how far all rows moved, squared."""
    graph, move, moved = system.graph, work[0], 0.0
    for j in range(len(Q)):
        row = pick_row(system, j)
        mu[j], moves = update_row(row, Q[j], gradient[j], mu[j], work)
        # A move of row j changes the gradient of row r by G_rj · move, task by task,
        # and its own by its ties as well.
        if moves:
            blocks = system.gram[j]
            for r in range(len(Q)):
                block, here = blocks[r], gradient[r]
                for i in range(len(move)):
                    here[i] += block[i] * move[i]
            if row.tie > 0.0:
                tree, loose, here = graph.tree, graph.loose, gradient[j]
                add_ties(graph.kind, graph.band, tree, loose, row.tie, move, here)
            moved += squared_size(row.own, move)
    return moved


@in_place
def descend(
    system: System,
    Q: Array,
    gradient: Array,
    mu: Array,
    work: Array,
    limits: tuple[int, int, float],
) -> tuple[float, float]:
    """Sweep at least so often, and on while moves shrink faster than a limit.

    ``limits``: the most and the fewest sweeps, and that limit. Returns how far rows
    moved in the last sweep, squared, and by what factor moves shrank; 1 where nothing
    moves any more.
    """
    first, last, rate = 0.0, 0.0, 1.0
    most, least, limit = limits
    for count in range(most):
        last = sweep(system, Q, gradient, mu, work)
        if not last > 0.0:  # or rounding has made curvatures negative
            return last, 1.0
        if count == 0:
            first = last
        else:
            rate = (last / first) ** (0.5 / count)
        if count + 1 >= least and rate > limit:
            break
    return last, rate


@in_place
def shared_sweep(
    system: System, Q: Array, gradient: Array, mu: Array, work: Array
) -> float:
    """Same where one Gram matrix (k, k) serves all tasks."""
    graph, move, moved = system.graph, work[0], 0.0
    for j in range(len(Q)):
        row = pick_row(system, j)
        mu[j], moves = update_row(row, Q[j], gradient[j], mu[j], work)
        if moves:
            for r in range(len(Q)):
                factor, here = system.gram[j, r], gradient[r]
                for i in range(len(move)):
                    here[i] += factor * move[i]
            if row.tie > 0.0:
                tree, loose, here = graph.tree, graph.loose, gradient[j]
                add_ties(graph.kind, graph.band, tree, loose, row.tie, move, here)
            moved += squared_size(row.own, move)
    return moved


@inlined
def squared_size(own: Array, move: Array) -> float:
    """Σ own · move²: what a move changes in fitted values, all other rows apart."""
    total = 0.0
    for i in range(len(move)):
        total += own[i] * move[i] * move[i]
    return total
