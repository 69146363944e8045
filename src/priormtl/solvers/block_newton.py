"""Block Newton: block coordinate descent finds the zero rows, Newton steps do the rest.

For a quadratic f (squared loss with its prior) and a penalty of rows, Σ_j lam_j ‖q^j‖.
Block coordinate descent minimises over one row while all others stay, exactly, and soon
leaves the right rows at zero (`kernels.rows`). On the other rows the objective is
smooth; with unit vectors u and bend = lam/‖q‖ of the rows, Newton's equations are

    (H + bend (I − u uᵀ)) V = −∇f − lam u,

solved inexactly by preconditioned conjugate gradients (`newton_step`). With few rows a
Newton step follows wherever sweeps converge slowly. With many, sweeps are extrapolated
(`descend_extrapolated`; Anderson acceleration of coordinate descent as in Bertrand and
Massias, AISTATS 2021), and Newton steps help only where these are stuck. Features take
part once their gradient is too long for a row of zeros. How data are kept is the matter
of `layouts`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._numerics import (
    EPS,
    RIDGE,
    ROUNDING,
    TIE_RIDGE,
    TINY,
    VANISHING,
    conjugate_gradients,
    line_search,
)
from priormtl.penalties import RowConstraints
from priormtl.problem import Point, Problem
from priormtl.solvers.blocks import BlockQuadratic

if TYPE_CHECKING:
    from priormtl.solvers.layouts import ActiveRows, Layout

FIRST_FEATURES = 32  # in use at first where matrices are large
SLOW = 0.4  # shrinkage of moves beyond which it pays with few rows
MEMO = "layout of block Newton"
# Anderson extrapolation.
N_SWEEPS = 8  # from one check of the gap to the next
FIRST, PERIOD = 4, 2  # extrapolations, in sweeps: the first sweeps only find the rows


@dataclass(frozen=True, eq=False)
class Laid:
    """Features in use, laid out for compiled loops."""

    # Fit, prior and penalty. Not the problem, whose memo holds this: in a circle,
    # matrices of many megabytes would stay until the garbage collector finds them.
    source: tuple[object, object, object]
    whole: BlockQuadratic  # of all features
    features: Index  # those in use; all others are zero
    blocks: BlockQuadratic  # of these
    layout: "Layout"

    def holds(self, in_use: NDArray[np.bool_]) -> bool:
        """Whether no other features are in use."""
        return int(in_use[self.features].sum()) == int(in_use.sum())


@dataclass(frozen=True, eq=False)
class BlockNewtonState:
    """State of block Newton."""

    point: Point
    laid: Laid
    Q: Array  # (k, m) rows, those of tied intercepts first
    mu: Array  # (k,) lam/‖row‖ of the last sweep, where the next one starts
    n_steps: int
    gap: float = np.inf  # computed with many rows only
    is_stuck: bool = False  # whether the last step has hardly closed it


@dataclass(frozen=True)
class BlockNewton:
    """For squared loss with row penalties, on Gram matrices or samples.

    A step is at least ``sweeps`` sweeps of exact row updates (``first_sweeps`` in the
    first step), and a Newton step where these are slow.
    """

    sweeps: int = 2
    first_sweeps: int = 6

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> BlockNewtonState:
        """Lay the problem out, unless it was at another lam."""
        laid = problem.memo.get(MEMO)
        if laid is not None:
            fit, prior, penalty = laid.source
            same = fit is problem.fit and prior is problem.prior
            laid = laid if same and penalty is problem.penalty else None
        if laid is None:
            whole = BlockQuadratic.from_problem(problem)
        else:
            from priormtl.solvers.layouts import at_other_lam  # noqa: PLC0415

            whole = laid.whole.at_lam(problem)
            first = whole.n_intercepts
            rows = np.concatenate([np.arange(first), first + laid.features])
            blocks = replace(laid.blocks, lam=whole.lam[rows])
            layout = at_other_lam(laid.layout, blocks)
            laid = replace(laid, whole=whole, blocks=blocks, layout=layout)
        used = np.asarray(point.coef.any(axis=1))
        # Zero rows with a gradient near lam are used from the start.
        in_use = _in_use(problem, point, whole, 0.7, used)
        if laid is None or not laid.holds(in_use):
            laid = _lay_out(problem, whole, in_use)
        return _start_from(problem, point, laid)

    def step(self, problem: Problem, state: BlockNewtonState) -> BlockNewtonState:
        """Sweep, then take a Newton step on the rows that are not zero."""
        laid, whole = state.laid, state.laid.whole
        if state.n_steps and len(laid.features) < problem.shape[0]:
            # Add features whose gradient is too long for a row of zeros.
            held = np.zeros(problem.shape[0], dtype=bool)
            held[laid.features] = True
            called = _in_use(problem, state.point, whole, 1.0, held)
            if not laid.holds(called):
                laid = _lay_out(problem, whole, called)
                state = _start_from(problem, state.point, laid)
        # Block coordinate descent converges where the part that is not smooth is a sum
        # over blocks (Tseng, "Convergence of a block coordinate descent method for
        # nondifferentiable minimization", 2001). It keeps the gradient of the quadratic
        # part as rows move.
        Q, mu, layout = state.Q.copy(), state.mu.copy(), laid.layout
        if laid.blocks.n_intercepts:
            gradient = layout.gradient(Q)
        else:
            gradient = np.array(state.point.gradient[laid.features], order="C")
        descent = layout.descend(Q, gradient, mu)
        # With so few rows a Newton step costs less than a few sweeps.
        few = len(Q) <= 64
        if few:
            least = self.sweeps if state.n_steps else self.first_sweeps
            is_slow = descent.run(least, SLOW) > SLOW
        else:
            is_slow = not descend_extrapolated(descent) or state.is_stuck
        if is_slow:
            newton_step(layout, Q, descent.gradient())
        if laid.blocks.is_constrained:
            Q = RowConstraints(laid.blocks.sign, laid.blocks.common).project(Q)
        coef = np.zeros(problem.shape)
        coef[laid.features] = Q[laid.blocks.n_intercepts :]
        point = problem.at(coef, near=state.point)
        gap = np.inf if few else problem.certify(point).gap
        # Sweeps that leave so much of the gap lead nowhere: a Newton step is next.
        stuck = gap > 0.8 * state.gap
        return BlockNewtonState(point, laid, Q, mu, state.n_steps + 1, gap, stuck)


def _lay_out(
    problem: Problem, whole: BlockQuadratic, in_use: NDArray[np.bool_]
) -> Laid:
    """Lay out the features in use, or all where few or none would be left out."""
    # Numba takes long to load: only those who need it should wait.
    from priormtl.solvers.layouts import choose_layout  # noqa: PLC0415

    # Where most features are in use, leaving the others out saves nothing.
    few = 0 < np.count_nonzero(in_use) <= 0.7 * len(in_use)
    features = np.flatnonzero(in_use) if few else np.arange(len(in_use))
    blocks = whole.restrict(features)
    source = problem.fit, problem.prior, problem.penalty
    laid = Laid(source, whole, features, blocks, choose_layout(blocks))
    problem.memo[MEMO] = laid
    return laid


def _start_from(problem: Problem, point: Point, laid: Laid) -> BlockNewtonState:
    """State at a point, tied intercepts at their best."""
    blocks = laid.blocks
    Q = np.zeros((len(blocks.lam), problem.shape[1]))
    Q[blocks.n_intercepts :] = point.coef[laid.features]
    if blocks.n_intercepts:
        Q[0] = problem.fit.intercept(point.coef)
    return BlockNewtonState(point, laid, Q, np.full(len(Q), -1.0), 0)


def _in_use(
    problem: Problem,
    point: Point,
    whole: BlockQuadratic,
    share: float,
    held: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Features held, and those with a gradient beyond a share of lam.

    Few features account for most of the gradients at zero. So where matrices are large,
    the others wait until these are fitted: at most as many are added as are held. Once
    that is a large part of all features, layouts on the way would cost too much memory.
    """
    urgency = problem.penalty.row_dual_norms(point.gradient)  # type: ignore[attr-defined]
    in_use = (urgency > share * problem.lam) | held
    most = max(FIRST_FEATURES, 2 * int(held.sum()))
    # Others wait where those in use are few.
    waits = whole.is_large and most <= len(held) / 3
    if waits and np.count_nonzero(in_use) > most:
        order = np.argsort(-np.where(held, np.inf, urgency), kind="stable")
        in_use = np.zeros_like(held)
        in_use[order[:most]] = True
    return in_use


# Anderson extrapolation of sweeps.


class Sweeps(Protocol):
    """What extrapolation needs of block coordinate descent."""

    @property
    def trail(self) -> tuple[Array, ...]:
        """Rows, and all that is kept for them and affine in them."""

    def sweep(self) -> float:
        """Minimise over one row after the other; how far rows moved, squared."""

    def value(self) -> float:
        """Objective, but for a constant."""


def descend_extrapolated(descent: Sweeps) -> bool:
    """Sweep, and extrapolate every few sweeps; whether rows still move."""
    trail = descent.trail
    window = 5  # sweeps that are combined
    moves = np.empty((window, trail[0].size))  # of the last sweeps
    places = [np.empty((window, array.size)) for array in trail]  # where they led
    known = 0

    def move_to(weights: Array) -> None:
        for place, array in zip(places, trail, strict=True):
            array[:] = (weights @ place[: len(weights)]).reshape(array.shape)

    for count in range(1, N_SWEEPS + 1):
        last, rows = known % window, trail[0]
        moves[last] = rows.ravel()
        if descent.sweep() == 0.0:
            return False
        # Sweeps are affine near the optimum, Q ↦ T Q + b: the combination of the last
        # places whose moves cancel best is nearly its fixed point.
        np.subtract(rows.ravel(), moves[last], out=moves[last])
        for place, array in zip(places, trail, strict=True):
            place[last] = array.ravel()
        known += 1
        if count >= FIRST and (count - FIRST) % PERIOD == 0:
            before, n = descent.value(), min(known, window)
            move_to(anderson_weights(moves[:n]))
            if not descent.value() < before:
                # Not better: go back and forget.
                here = np.zeros(n)
                here[last] = 1.0
                move_to(here)
                known = 0
    return True


def anderson_weights(moves: Array) -> Array:
    """Weights, with sum 1, of the moves whose combination is shortest."""
    # min ‖Σ w_k move_k‖² with Σ w_k = 1 has the solution w ∝ (M Mᵀ)⁻¹ 1; moves are all
    # but parallel, hence the small ridge (Scieur, d'Aspremont and Bach 2016).
    products = moves @ moves.T
    products.flat[:: len(products) + 1] += 1e-10 * np.trace(products)
    weights = np.linalg.solve(products, np.ones(len(products)))
    return weights / weights.sum()


# Newton steps, whatever the layout.


def newton_step(layout: "Layout", Q: Array, gradient: Array) -> None:
    """Move the rows of Q that are not zero towards the minimum of their model.

    The penalty has no curvature along a row; with more rows than the data can tell
    apart (one task above all) the model would have no minimum. So rows are damped also
    along themselves, less and less towards the optimum. Where lam is tiny, collinear
    rows have no curvature but a few rounding errors: a ridge of that size,
    bend (I − keep² u uᵀ) + ridge I = bend' (I − u' u'ᵀ), keeps them from running away.
    """
    from priormtl.solvers.layouts import ActiveRows  # noqa: PLC0415

    # On rows that are not zero lam ‖q‖ is smooth: gradient lam u, Hessian
    # lam/‖q‖ (I − u uᵀ), with u = q/‖q‖.
    lam = layout.system.lam
    place, bend, unit = find_rows(lam, Q)
    if not len(place):
        return
    # The negative gradient of the whole objective, and its size against lam.
    weight = lam[place]
    downhill = -(gradient[place] + weight[:, np.newaxis] * unit)
    slope = sqrt(float(np.vdot(downhill, downhill)) / (float(weight @ weight) + TINY))
    free = None
    if layout.blocks.is_constrained:
        free = FreeEntries.at(layout.blocks, place, Q)
        downhill, slope = free.descent(weight, downhill)
    rows = ActiveRows(place, bend, unit, layout.system.tie[place])
    # Damping: bend (I − keep² u uᵀ) + ridge I, written as bend' (I − u' u'ᵀ) with
    # bend' = bend + ridge and u' = √(keep bend / bend') u.
    ridge = RIDGE * (10 + len(place)) * layout.curvature[place]
    ridge = ridge + TIE_RIDGE * rows.tie * layout.graph.degree.mean()
    keep = 1.0 - min(0.1, max(1e-8, slope))
    stiff = bend + ridge
    share = np.sqrt(keep * bend / np.where(stiff > 0, stiff, 1.0))
    damped = rows._replace(bend=stiff, unit=share[:, np.newaxis] * unit)
    # Inexact Newton (Dembo, Eisenstat and Steihaug 1982): errors that shrink with the
    # gradient keep convergence superlinear.
    tol = min(0.1, max(1e-6, 0.3 * sqrt(slope)))
    if free is None:
        step = layout.direction(damped, downhill, tol)
        move_rows(lam, place, Q, gradient, step, layout.multiply(rows, step))
    else:
        step = free.direction(layout, damped, downhill, tol)
        move_within_signs(layout, rows, free, Q, gradient, step)


def find_rows(lam: Array, Q: Array) -> tuple[Index, Array, Array]:
    """Rows that are not zero or not penalised, their bend, and their unit vectors."""
    size = np.sqrt(np.einsum("ij,ij->i", Q, Q))
    place = np.flatnonzero((size > 0.0) | (lam == 0.0))
    length = np.where(size[place] > 0.0, size[place], 1.0)
    return place, lam[place] / length, Q[place] / length[:, np.newaxis]


def move_rows(
    lam: Array, place: Index, Q: Array, gradient: Array, step: Array, product: Array
) -> None:
    """Take the largest halving of a step that lowers the objective, if any does.

    ``product`` is the Hessian of the quadratic part times the step.
    """
    before, weight = Q[place], lam[place]
    along = float(np.vdot(gradient[place], step))
    bowl = float(np.vdot(step, product))
    old = np.sqrt(np.einsum("ij,ij->i", before, before))

    def attempt(size: float) -> Array | None:
        after = before + size * step
        new = np.sqrt(np.einsum("ij,ij->i", after, after))
        change = size * along + 0.5 * size**2 * bowl + float(weight @ (new - old))
        falls = change < -ROUNDING * (abs(size * along) + size**2 * bowl)
        return after if falls else None

    after = line_search(attempt)
    if after is not None:
        Q[place] = after


# Newton steps where rows have a sign or are the same in all tasks. Entries at the bound
# of their sign stay there, and rows of common effects move as one number: Newton's
# equations are solved by conjugate gradients in what is left. The end of a step is
# projected on the signs, and the step is halved until that lowers the objective
# (Bertsekas, "Projected Newton methods for optimization problems with simple
# constraints", SIAM Journal on Control and Optimization 20, 1982).


class FreeEntries(NamedTuple):
    """Which entries of the rows that are not zero may move, and how."""

    free: NDArray[np.bool_]  # (a, m)
    common: NDArray[np.bool_]  # (a,)
    sign: Array  # (a,)

    @classmethod
    def at(cls, blocks: BlockQuadratic, place: Index, Q: Array) -> Self:
        """Entries at their bound stay there: sweeps have just decided about them."""
        sign = blocks.sign[place]
        free = (sign == 0)[:, np.newaxis] | (Q[place] != 0)
        return cls(free, blocks.common[place], sign)

    def project(self, x: Array) -> Array:
        """Part of a direction along which rows may move."""
        out = np.where(self.free, x, 0.0)
        if self.common.any():
            out[self.common] = out[self.common].mean(axis=1, keepdims=True)
        return out

    def clip(self, x: Array) -> Array:
        """Entries of the wrong sign become zero."""
        return np.where(self.sign[:, np.newaxis] * x < 0, 0.0, x)

    def descent(self, lam: Array, downhill: Array) -> tuple[Array, float]:
        """Negative gradient along which rows may move, and its size against lam.

        Where nothing is penalised the step should be exact: its size is zero then.
        """
        free, force = self.project(downhill), float(np.linalg.norm(lam))
        return free, float(np.linalg.norm(free)) / force if force > 0 else 0.0

    def direction(
        self, layout: "Layout", rows: "ActiveRows", downhill: Array, tol: float
    ) -> Array:
        """Newton direction, written out if small, else by conjugate gradients."""
        rest = self.project(downhill)
        if not rest.any():  # perhaps all entries are at their bounds
            return rest
        if np.count_nonzero(self.free) <= 64:
            return self._solve_dense(layout, rows, rest)
        solve = self._preconditioner(layout, rows)
        return conjugate_gradients(
            solve, lambda p, _: self._multiply(layout, rows, p), rest, tol
        )

    def _multiply(self, layout: "Layout", rows: "ActiveRows", p: Array) -> Array:
        product = layout.multiply(rows, p) + rows.bend[:, np.newaxis] * p
        return self.project(product - rows.straighten(p))

    def _solve_dense(
        self, layout: "Layout", rows: "ActiveRows", downhill: Array
    ) -> Array:
        """Solve in the free entries and common effects, by eigenvectors.

        Strong ties beside common effects, which have none, are too much for conjugate
        gradients: their preconditioner does not see both at once.
        """
        shape = self.free.shape
        own = np.argwhere(self.free & ~self.common[:, np.newaxis])
        shared = np.flatnonzero(self.common & self.free.all(axis=1))
        units = np.zeros((len(own) + len(shared), *shape))
        units[np.arange(len(own)), own[:, 0], own[:, 1]] = 1.0
        units[np.arange(len(own), len(units)), shared] = 1.0 / np.sqrt(shape[1])
        flat = units.reshape(len(units), -1)
        products = [self._multiply(layout, rows, unit).ravel() for unit in units]
        matrix = flat @ np.array(products).T
        scale = np.sqrt(np.maximum(matrix.diagonal(), TINY))
        values, vectors = np.linalg.eigh(
            0.5 * (matrix + matrix.T) / np.outer(scale, scale)
        )
        parts = vectors.T @ (flat @ downhill.ravel() / scale)
        kept = values > EPS * len(values) * values[-1]
        x = vectors[:, kept] @ (parts[kept] / values[kept]) / scale
        return np.asarray((x @ flat).reshape(shape))

    def _preconditioner(
        self, layout: "Layout", rows: "ActiveRows"
    ) -> Callable[[Array], Array]:
        """That of the layout for rows that vary; for common effects their own block."""
        common = self.common
        varies = self.free & ~common[:, np.newaxis]
        inverse = layout.inverse(rows, varies)
        if not common.any():
            return lambda r: self.project(inverse(r))
        # Columns of the Hessian over common effects, each the same in all tasks.
        k, m = int(common.sum()), rows.unit.shape[1]
        block = np.empty((k, k))
        for c, j in enumerate(np.flatnonzero(common)):
            unit = np.zeros(rows.unit.shape)
            unit[j] = 1.0
            block[:, c] = layout.multiply(rows, unit)[common].sum(axis=1)
        values, vectors = np.linalg.eigh(block + np.diag(m * rows.bend[common]))
        # Collinear effects hardly curve in some direction.
        values = np.maximum(values, max(VANISHING * values[-1], TINY))
        scaled = vectors / values

        def solve(r: Array) -> Array:
            z = np.where(varies, inverse(np.where(varies, r, 0.0)), 0.0)
            z[common] = (scaled @ (vectors.T @ r[common].sum(axis=1)))[:, np.newaxis]
            return z

        return solve


def move_within_signs(
    layout: "Layout",
    rows: "ActiveRows",
    free: FreeEntries,
    Q: Array,
    gradient: Array,
    step: Array,
) -> None:
    """Take as much of a step as lowers the objective, projected on the signs."""
    before, slope = Q[rows.place], gradient[rows.place]
    lam = layout.system.lam[rows.place]
    norms = lam @ np.sqrt(np.einsum("ij,ij->i", before, before))

    def attempt(size: float) -> Array | None:
        after = free.clip(before + size * step)
        move = after - before
        along = float(np.vdot(slope, move))
        bowl = float(np.vdot(move, layout.multiply(rows, move)))
        penalties = lam @ np.sqrt(np.einsum("ij,ij->i", after, after)) - norms
        falls = along + 0.5 * bowl + penalties < -ROUNDING * (abs(along) + bowl)
        return after if falls else None

    after = line_search(attempt)
    if after is not None:
        Q[rows.place] = after
