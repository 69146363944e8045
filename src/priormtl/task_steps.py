"""What blocks of tasks tell of a fit: sums over tasks at what they share, and tables.

Given q and the strengths s and ρ of `partitioned`, tasks are independent. Two ridges
about different points are one, ½ (s + ρ)(u − c q)² + ½ κ q² with c = s / (s + ρ) and
κ = s ρ / (s + ρ); so a task is solved as in `reml.sums`, with the variances
θ = 1 / (s + ρ). With other losses Newton's method solves it, and G_i = F_iᵀ V_i⁻¹ F_i
is that of the quadratic model at the solution.

The duality gap is a sum over tasks as well. With residuals r = f′ at the solutions of
tasks, a dual point has v_i for the ties, Σ_i v_i = 0, and z_i for the penalty,
‖z^j‖ ≤ lam w_j, such that F_iᵀ r_i + v_i + z_i = 0. Coefficients without a penalty have
z = 0, and so need Σ_i F_iᵀ r_i = 0: a step r − f″ F c, which a change of scores by −F c
would make, leads there exactly. Others have v = s (u_i − mean of all u_i). Then all is
scaled until z is feasible, and the gap is a sum of terms of which none is negative.

Steps are pure functions of a block. Blocks keep no state between passes: what a lost
worker knew is computed again.
"""

from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._numerics import TINY
from priormtl.data import Block, Chunk, Sums, compress
from priormtl.losses import Family
from priormtl.reml import turned, whitened

MOST_STEPS = 100  # of Newton's method


class Shared(NamedTuple):
    """What tasks need to know to solve for their coefficients."""

    turn: Array  # (d + 2, k + 1) of rows [1, x, y]
    theta: Array  # (k,) variances 1 / (s + ρ); zero: no deviation from the centre
    centre: Array  # (k,) c q
    family: Family | None  # None: squared loss
    second: bool = False  # whether derivatives in η are needed


class Solved(NamedTuple):
    """Tasks of a chunk at their best coefficients."""

    coef: Array  # (b, k)
    white: Array  # (b, r, k): Y_i with G_i = Y_iᵀ Y_i
    pulls: Array  # (b, k) minus the gradient of the loss
    values: Array  # (b,) loss, and cost of deviations


def solve_chunk(shared: Shared, chunk: Chunk) -> Solved:
    """Best coefficients of each task, given what tasks share."""
    theta, k = shared.theta, len(shared.theta)
    if shared.family is None:
        white, _ = whitened(turned(chunk, shared.turn), theta)
        Y = np.ascontiguousarray(white[:, :, :k])
        misses = white[:, :, k] - Y @ shared.centre
        pulls = np.matmul(misses[:, np.newaxis, :], Y)[:, 0]
        values = 0.5 * np.einsum("br,br->b", misses, misses)
        return Solved(shared.centre + theta * pulls, Y, pulls, values)
    return _solve_family(shared, chunk, shared.family)


class FamilyRows(NamedTuple):
    """Rows of a chunk for a loss that is not quadratic."""

    F: Array  # (b, r, k) columns in use
    y: Array  # (b, r)
    weight: Array  # (b, r)
    offset: Array  # (b, r)

    @classmethod
    def of(cls, shared: Shared, chunk: Chunk) -> Self:
        """Rows as they are used."""
        b, r, _ = chunk.rows.shape
        k, weight = len(shared.theta), chunk.weight
        assert weight is not None
        F = chunk.rows.reshape(b * r, -1) @ shared.turn[:, :k]
        # Rows that are lacking have no weight; any valid target will do.
        y = np.where(weight > 0, chunk.rows[:, :, -1], 1.0)
        offset = np.zeros((b, r)) if chunk.offset is None else chunk.offset
        return cls(F.reshape(b, r, k), y, weight, offset)

    def scores(self, coef: Array) -> Array:
        """Scores (b, r) without offsets, of coefficients (b, k)."""
        return np.matmul(self.F, coef[:, :, np.newaxis])[:, :, 0]

    def model(
        self, family: Family, eta: Array, tasks: Index | slice = slice(None)
    ) -> tuple[Array, Array]:
        """Slopes, and roots of bends, of weighted losses at scores of some tasks."""
        weight, y = self.weight[tasks], self.y[tasks]
        bend = np.maximum(weight * family.bend(eta, y), 1e-30)
        return weight * family.slope(eta, y), np.sqrt(bend)


def _solve_family(shared: Shared, chunk: Chunk, family: Family) -> Solved:
    """Newton's method for each task, with steps that self-concordance allows.

    Deviations are Θ Fᵀ α. With few rows per task its equations are those of α,
    (W⁻¹ + F Θ Fᵀ) α = z, else those of deviations.
    """
    from priormtl.reml.kernel import dual_steps  # noqa: PLC0415  (slow to import)

    theta, data = shared.theta, FamilyRows.of(shared, chunk)
    b, r, k = data.F.shape
    size, scaled = np.sqrt(theta), data.F * np.sqrt(theta)
    few = r <= k
    inner = scaled @ scaled.swapaxes(1, 2) if few else None
    base = data.F @ shared.centre + data.offset
    unknown, apart = np.zeros((b, r if few else k)), np.zeros((b, r))
    running = np.arange(b)  # tasks that still move
    for _ in range(MOST_STEPS):
        here = apart[running]
        slope, root = data.model(family, base[running] + here, running)
        target = root * here - slope / root
        step, moved = np.empty((len(running), unknown.shape[1])), np.empty_like(here)
        if inner is not None:
            dual_steps(inner, running, root, target, unknown, step, moved)
        else:
            own = scaled[running]
            rows = own * root[:, :, np.newaxis]
            turned_rows = rows.swapaxes(1, 2)
            rhs = np.matmul(turned_rows, target[:, :, np.newaxis])
            new = np.linalg.solve(turned_rows @ rows + np.eye(k), rhs)[:, :, 0]
            step = new - unknown[running]
            moved = np.matmul(own, step[:, :, np.newaxis])[:, :, 0]
        longest = np.where(data.weight[running] > 0, np.abs(moved), 0.0).max(axis=1)
        # All families have |f‴| ≤ f″ (see `losses.family`).
        share = np.log1p(longest) / np.maximum(longest, TINY)
        share = np.where(longest > 0, share, 1.0)[:, np.newaxis]
        unknown[running] += share * step
        apart[running] += share * moved
        running = running[longest > 1e-6]  # what is left is of the order of squares
        if len(running) == 0:
            break
    if few:
        unknown = np.matmul(unknown[:, np.newaxis, :], scaled)[:, 0]
    slope, root = data.model(family, base + apart)
    white, _ = whitened(compress(data.F * root[:, :, np.newaxis]), theta)
    pulls = -np.matmul(slope[:, np.newaxis, :], data.F)[:, 0]
    losses = family.loss(base + apart, data.y)
    values = np.einsum("br,br->b", data.weight, losses)
    values += 0.5 * np.einsum("bj,bj->b", unknown, unknown)
    return Solved(shared.centre + unknown * size, white, pulls, values)


class Totals(NamedTuple):
    """Sums over tasks at their best coefficients."""

    value: Array
    pulls: Array  # (k,)
    squares: Array  # (k,) of pulls
    coef: Array  # (k,)
    norms: Array  # (k,) squares of coefficients
    curvature: Array  # (k, k) Σ G_i
    crossed: Array  # (k, k) Σ u_ij G_ijl
    bent: Array  # (k, k) Σ u_ij u_il G_ijl


def add_totals(shared: Shared, block: Block) -> Sums:
    """The numbers of `Totals`."""
    k = len(shared.theta)
    value, pulls, squares, coef = 0.0, np.zeros(k), np.zeros(k), np.zeros(k)
    norms = np.zeros(k)
    curvature, crossed, bent = (np.zeros((k, k)) for _ in range(3))
    for chunk in block.chunks:
        found = solve_chunk(shared, chunk)
        value += float(found.values.sum())
        pulls += found.pulls.sum(axis=0)
        squares += np.einsum("bj,bj->j", found.pulls, found.pulls)
        coef += found.coef.sum(axis=0)
        norms += np.einsum("bj,bj->j", found.coef, found.coef)
        flat = found.white.reshape(-1, k)
        curvature += flat.T @ flat
        if shared.second:
            moved = (found.white * found.coef[:, np.newaxis, :]).reshape(-1, k)
            crossed += moved.T @ flat
            bent += moved.T @ moved
    return value, pulls, squares, coef, norms, curvature, crossed, bent


class DualPoint(NamedTuple):
    """How residuals become a dual point; see the head of this page."""

    shift: Array  # (k,) c
    scale: float
    mean: Array  # (k,) of the coefficients of all tasks
    q: Array  # (k,)
    strength: Array  # (k,) s
    is_free: np.ndarray  # (k,) whether there is no penalty


class Scored(NamedTuple):
    """Rows of a chunk at the solutions of its tasks."""

    F: Array  # (b, r, k) columns in use
    coef: Array  # (b, k)
    eta: Array  # (b, r) scores
    y: Array  # (b, r)
    weight: Array  # (b, r)
    slope: Array  # (b, r) f′, without weights
    bend: Array  # (b, r) f″, without weights

    @classmethod
    def of(cls, shared: Shared, chunk: Chunk) -> Self:
        """Solve tasks, and score their rows."""
        coef, family = solve_chunk(shared, chunk).coef, shared.family
        if family is None:
            rows, ones = turned(chunk, shared.turn), np.ones(chunk.rows.shape[:2])
            F, y = np.ascontiguousarray(rows[:, :, :-1]), rows[:, :, -1]
            eta = np.matmul(F, coef[:, :, np.newaxis])[:, :, 0]
            return cls(F, coef, eta, y, ones, eta - y, ones)
        data = FamilyRows.of(shared, chunk)
        eta, y = data.scores(coef) + data.offset, data.y
        slope, bend = family.slope(eta, y), family.bend(eta, y)
        return cls(data.F, coef, eta, y, data.weight, slope, bend)

    def lack(self, family: Family | None, v: Array) -> float:
        """Σ w (f(η) + f*(v) − v η) ≥ 0; infinite outside the domain of f*."""
        if family is None:
            return 0.5 * float(np.sum((self.slope - v) ** 2))
        low, high = family.domain(self.y)
        if np.any((self.weight > 0) & ((v < low) | (v > high))):
            return np.inf
        each = family.loss(self.eta, self.y) + family.conjugate(v, self.y)
        each = self.weight * (each - v * self.eta)
        return float(np.sum(each, where=self.weight > 0))


def add_bends(shared: Shared, block: Block) -> Sums:
    """Σ Fᵀ f″ F (k, k)."""
    k = len(shared.theta)
    total = np.zeros((k, k))
    for chunk in block.chunks:
        at = Scored.of(shared, chunk)
        root = np.sqrt(at.weight * at.bend)
        flat = (at.F * root[:, :, np.newaxis]).reshape(-1, k)
        total += flat.T @ flat
    return (total,)


def add_gap(shared: Shared, dual: DualPoint, block: Block) -> Sums:
    """Gap of rows and ties, and Σ z², Σ z u and Σ Fᵀ r (k,)."""
    k, t = len(shared.theta), dual.scale
    total, squares, along, left = 0.0, np.zeros(k), np.zeros(k), np.zeros(k)
    s, theta, is_free = dual.strength, shared.theta, dual.is_free
    for chunk in block.chunks:
        at = Scored.of(shared, chunk)
        slope = at.slope - at.bend * (at.F @ dual.shift)
        total += at.lack(shared.family, t * slope)
        pulls = np.matmul((at.weight * slope)[:, np.newaxis, :], at.F)[:, 0]
        left += pulls.sum(axis=0)
        apart, own = at.coef - dual.q, at.coef - dual.mean
        # ½ s (u − q)² + ½ v² / s − v (u − q), with v = −t Fᵀ r or t s (u − mean).
        free = np.where(s > 0, apart + t * theta * pulls, 0.0)
        lack = s * np.where(is_free, free, apart - t * own) ** 2
        total += 0.5 * float(lack.sum())
        z = np.where(is_free, 0.0, -pulls - s * own)
        squares += np.einsum("bj,bj->j", z, z)
        along += np.einsum("bj,bj->j", z, at.coef)
    return total, squares, along, left


def add_products_of_rows(block: Block) -> Sums:
    """Products of all rows."""
    width = block.chunks[0].rows.shape[2] if block.chunks else block.means.shape[1]
    total = np.zeros((width, width))
    for chunk in block.chunks:
        flat = chunk.weighted().reshape(-1, width)
        total += flat.T @ flat
    return (total,)


def add_constants(family: Family, block: Block) -> Sums:
    """What losses as they are written have more; see `losses.family`."""
    total = 0.0
    for chunk in block.chunks:
        assert chunk.weight is not None
        y = np.where(chunk.weight > 0, chunk.rows[:, :, -1], 1.0)
        total += float(np.sum(chunk.weight * family.constant(y)))
    return (total,)


def working_block(shared: Shared, block: Block) -> Block:
    """Rows of the quadratic model of a loss at the best coefficients of tasks.

    Columns are those in use, then working targets.
    """
    assert shared.family is not None
    chunks = []
    for chunk in block.chunks:
        data = FamilyRows.of(shared, chunk)
        score = data.scores(solve_chunk(shared, chunk).coef)
        slope, root = data.model(shared.family, score + data.offset)
        target = root * score - slope / root
        rows = data.F * root[:, :, np.newaxis]
        rows = np.concatenate([rows, target[:, :, np.newaxis]], axis=2)
        chunks.append(Chunk(compress(rows), chunk.places))
    return block._replace(chunks=tuple(chunks))


def centre_tasks(block: Block) -> Block:
    """Rows about the means of tasks, as free intercepts leave them."""
    chunks = []
    for chunk in block.chunks:
        first = chunk.rows[:, :, :1]
        weight = np.einsum("brc,brc->b", first, first)[:, np.newaxis, np.newaxis]
        means = first.swapaxes(1, 2) @ chunk.rows / weight
        rows = chunk.rows - first * means
        rows[:, :, 0] = 0.0
        chunks.append(chunk._replace(rows=rows))
    return block._replace(chunks=tuple(chunks))


class TaskTable(NamedTuple):
    """Coefficients of the tasks of a block."""

    tasks: np.ndarray  # (m,)
    weight: Array  # (m,)
    coef: Array  # (m, d + 1) intercept and slopes, in the units of X
    squares: Array  # (m,) weighted squared errors; zero unless the loss is squared
    deviance: Array  # (m,) weighted squares of targets about the mean of their task
    # (m, d + 2) of coefficients, and of the level of a task at mean features, less that
    # of all tasks; in units of the noise. None: they are not known.
    variances: Array | None
    # Curvature G (m, v, v) of the v coefficients in use that vary, and G u − gradient
    # (m, v), for `Conditional`. None: not wanted.
    curvature: Array | None
    right: Array | None


class Precision(NamedTuple):
    """How sure what tasks share is, in units of the noise."""

    half: Array  # (r, k) H with Hᵀ H the covariance of q
    mean_curvature: Array  # (k, k) mean of G_i
    middle: Array  # (d,) mean features

    def variances(self, white: Array, theta: Array, back: Array) -> Array:
        """Variances (b, d + 2) of coefficients of tasks, and of their levels.

        Cov(u_i) = Θ − Θ G Θ + (I − Θ G) K (I − G Θ).
        """
        G, eye = white.swapaxes(1, 2) @ white, np.eye(len(theta))
        level = back @ np.concatenate([[1.0], self.middle])
        ends = np.column_stack([back, level])
        scaled = theta[:, np.newaxis] * ends
        own = np.einsum("kc,kc->c", scaled, ends)
        taken = np.einsum("kc,bkc->bc", scaled, G @ scaled)
        right = (eye - G * theta) @ ends
        right[:, :, -1] -= (eye - self.mean_curvature * theta) @ level
        shared = self.half @ right
        return np.asarray(own - taken + np.einsum("bkc,bkc->bc", shared, shared))


class Readout(NamedTuple):
    """How blocks turn what tasks share into tables of coefficients."""

    shared: Shared
    back: Array  # (k, d + 1) from columns in use to intercept and slopes
    precision: Precision | None  # None: no variances
    free_intercepts: bool
    with_curvature: bool = False  # of each task

    def table(self, block: Block) -> TaskTable:
        """Coefficients of the tasks of a block."""
        d, m = block.shape
        theta, means = self.shared.theta, block.means
        if self.free_intercepts:
            block = centre_tasks(block)
        coef, squares, deviance = np.empty((m, d + 1)), np.zeros(m), np.zeros(m)
        variances = None if self.precision is None else np.empty((m, d + 2))
        curvature = right = None
        varying = np.flatnonzero(theta)
        if self.with_curvature:
            curvature = np.empty((m, len(varying), len(varying)))
            right = np.empty((m, len(varying)))
        for chunk in block.chunks:
            found, places = solve_chunk(self.shared, chunk), chunk.places
            if curvature is not None and right is not None:
                at = Scored.of(self.shared, chunk)
                Z, bend = at.F[:, :, varying], at.weight * at.bend
                G = (Z * bend[:, :, np.newaxis]).swapaxes(1, 2) @ Z
                pulls = np.matmul((at.weight * at.slope)[:, np.newaxis, :], Z)[:, 0]
                curvature[places] = G
                own = at.coef[:, varying, np.newaxis]
                right[places] = np.matmul(G, own)[:, :, 0] - pulls
            coef[places] = found.coef @ self.back
            if self.shared.family is None:
                # Of the value, deviations cost the squares of pulls.
                squares[places] = 2.0 * found.values - found.pulls**2 @ theta
                apart = chunk.rows[:, :, -1]
                apart = apart - chunk.rows[:, :, 0] * means[places, -1:]
                deviance[places] = np.einsum("br,br->b", apart, apart)
            if variances is not None and self.precision is not None:
                variances[places] = self.precision.variances(
                    found.white, theta, self.back
                )
        if self.free_intercepts:
            fitted = np.einsum("ij,ij->i", means[:, 1:-1], coef[:, 1:])
            coef[:, 0] = means[:, -1] - fitted
        size = block.tasks, means[:, 0]
        return TaskTable(*size, coef, squares, deviance, variances, curvature, right)
