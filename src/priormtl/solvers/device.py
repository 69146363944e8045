"""Device Newton: Newton's method on all rows at once, where a device holds the data.

The problem is that of `block_newton`: a quadratic with a penalty of rows. Sweeps over
single rows suit a processor; a device wants few large operations. So rows are chosen
all at once. From a point Q with gradient g, a step

1. keeps the rows whose own minimum, for a Hessian h_j I of the row, is not zero:
   ‖q^j − g^j/h_j‖ > lam_j/h_j; the others become zero,
2. takes a Newton step on these rows, where the penalty is smooth; with unit vectors u
   and bend = lam/‖q‖ of the rows, (H + bend (I − u uᵀ)) V = −g − lam u,
3. sets rows to zero that the step would lead through zero,
4. halves the step until the objective falls.

This is a primal-dual active set method (Hintermüller, Ito and Kunisch, SIAM Journal on
Optimization 13, 2002) for the ℓ2,1 norm. Where nothing falls it takes a proximal
gradient step, so that it converges from everywhere. Newton's equations are solved by
conjugate gradients, preconditioned by Cholesky factors of the tasks' own blocks, all at
once, or, where ties dominate, by modes of the mean block with tasks tied exactly.

Where Gram matrices are not large, the time to launch operations counts. There a few
accelerated proximal gradient steps lead away from zero: each launches a tenth of a
Newton step's operations, and together they find most rows.

Everything is in double precision. Arrays are (m, k), tasks first.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._numerics import ROUNDING, TINY, VANISHING, line_search
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Point, Problem

try:
    import torch
except ModuleNotFoundError:  # `data.find_device` says so before anything is solved
    torch = None

MEMO = "layout of device Newton"
ALIKE = 3.0  # ratio of diagonals up to which factors are used again

Tensor = Any
Solver = Callable[[Tensor], Tensor]


def norms(x: Tensor) -> Tensor:
    """Lengths of rows over all tasks (k,)."""
    return torch.linalg.vector_norm(x, dim=0)


# The problem.


class Ties(NamedTuple):
    """L of the tasks, on a device."""

    times: Solver  # L x for x (m, k), without cancellation
    degree: Tensor  # (m, 1) diagonal of L
    dense: Tensor | None  # (m, m) L, unless tasks are many
    modes: Callable[[], tuple[Tensor, Tensor]]  # eigenvalues (m,), eigenvectors (m, m)

    @classmethod
    def of(cls, laplacian: Laplacian, device: Any) -> Self:
        degree = put(laplacian.degree[:, np.newaxis], device)
        weight = laplacian.one_group or laplacian.chain
        # Up to here one product with L is quicker than differences.
        is_needed = not weight or len(degree) <= 256
        dense = put(laplacian.dense(), device) if is_needed else None

        def modes() -> tuple[Tensor, Tensor]:
            known = laplacian.modes
            if known is not None:
                values, vectors = known
                return put(values, device), put(np.asarray(vectors), device)
            values, vectors = torch.linalg.eigh(put(laplacian.dense(), device))
            return values.clamp(min=0.0), vectors

        if laplacian.one_group:
            # Tasks that agree cancel: by differences, twice.
            def times(x: Tensor) -> Tensor:
                apart = x - x.mean(0)
                return weight * (apart - apart.mean(0))

        elif laplacian.chain:

            def times(x: Tensor) -> Tensor:
                out, steps = torch.zeros_like(x), weight * (x[1:] - x[:-1])
                out[1:] = steps
                out[:-1] -= steps
                return out

        else:

            def times(x: Tensor) -> Tensor:
                return dense @ x

        return cls(times, degree, dense, modes)

    def between(self, x: Tensor) -> Tensor:
        """Off-diagonal part of L times x, for directions that need not be exact."""
        product = self.times(x) if self.dense is None else self.dense @ x
        return torch.addcmul(product, self.degree, x, value=-1.0)


def put(values: Array, device: Any) -> Tensor:
    """Copy of an array on a device."""
    return torch.from_numpy(np.array(values, dtype=np.float64)).to(device)


class Numbers(NamedTuple):
    """Numbers of rows (k,) in ordinary memory, where rows are chosen."""

    lam: Array
    curvature: Array
    strongly_tied: Array


@dataclass(frozen=True, eq=False)
class Quadratic:
    """½ Σ qᵀ gram q − linear q, relations and ties, with the penalty Σ lam ‖row‖.

    Tied intercepts are a row before those of the features.
    """

    gram: Tensor  # (m, k, k), or (1, k, k) where all tasks have the same
    linear: Tensor  # (m, k)
    relation: Tensor | None  # (k, k)
    tie: Tensor  # (k,)
    lam: Tensor  # (k,)
    ties: Ties | None
    own: Tensor  # (k,) diagonal of the Hessian, mean over tasks, ties not counted
    curvature: Tensor  # (k,) the same with a bound on ties
    size: float  # sum of squared targets: twice the value at Q = 0
    numbers: Numbers
    n_intercepts: int
    intercept_factor: Tensor | None = None  # (m, m) of the Hessian of their row

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Lay a problem out on the device that holds its Gram matrices."""
        prior, d, form = problem.prior, problem.shape[0], problem.fit.device_form()
        gram, linear, strengths = form.gram, form.linear, form.intercept_ties
        device, size = gram.device, 2.0 * problem.fit.magnitude
        if prior.pull is not None:
            # Known values are targets of more samples, one for each relation.
            linear = linear + prior.pull.T
            size += prior.slack(np.zeros(problem.shape))
        if len(strengths):
            t, wide = len(gram), gram.new_empty(len(gram), d + 1, d + 1)
            wide[:, 1:, 1:] = gram
            wide[:, 0, 0] = put(form.weight[:t], device)
            wide[:, 0, 1:] = wide[:, 1:, 0] = put(form.edge[:t], device)
            gram, linear = wide, np.column_stack([form.total, linear])
        extra, own, relation = len(strengths), gram.diagonal(dim1=1, dim2=2), None
        if prior.relation.nnz:
            relation = gram.new_zeros(extra + d, extra + d)
            relation[extra:, extra:] = put(prior.relation.toarray(), device)
            own = own + relation.diagonal()
        weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
        tie = np.concatenate([strengths, prior.epsilon * weights])
        is_tied = tie.any() and not prior.laplacian.is_zero
        ties = Ties.of(prior.laplacian, device) if is_tied else None
        own, strength = own.mean(0), put(tie, device)
        tied = strength * (0.0 if ties is None else ties.degree.mean())
        curvature = own + 2.0 * tied + TINY
        # Against the data's curvature: modes precondition if most rows are tied so
        # strongly.
        strong = (tied > 20.0 * own).cpu().numpy()
        numbers = Numbers(np.zeros(0), curvature.cpu().numpy(), strong)
        factor = None
        if extra:
            hessian = strengths[0] * prior.laplacian.dense() + np.diag(form.weight)
            factor = torch.linalg.cholesky(put(hessian, device))
        found = cls(
            gram,
            put(linear, device),
            relation,
            strength,
            gram.new_zeros(extra + d),
            ties,
            own,
            curvature,
            size,
            numbers,
            extra,
            factor,
        )
        return found.at_lam(problem)

    def at_lam(self, problem: Problem) -> Self:
        """Same quadratic with the penalty of a problem that differs in lam only."""
        rows = problem.lam * problem.penalty.row_weights(problem.shape[0])  # type: ignore[attr-defined]
        lam = np.concatenate([np.zeros(self.n_intercepts), rows])
        there = put(lam, self.gram.device)
        return replace(self, lam=there, numbers=self.numbers._replace(lam=lam))

    def times(self, x: Tensor) -> Tensor:
        """Hessian times x, by one pass over the Gram matrices."""
        if len(self.gram) == 1:
            product = x @ self.gram[0]
        else:
            product = torch.bmm(self.gram, x[:, :, None])[:, :, 0]
        if self.relation is not None:
            product = product + x @ self.relation
        return product if self.ties is None else product + self.tie * self.ties.times(x)

    def best_intercepts(self, Q: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Q and its gradient after the rows of tied intercepts are minimised over."""
        if not self.n_intercepts:
            return Q, gradient
        step = -torch.cholesky_solve(gradient[:, :1], self.intercept_factor)
        turn = step * self.gram[:, 0]
        turn[:, :1] += self.tie[0] * self.ties.times(step)  # type: ignore[union-attr]
        Q = Q.clone()
        Q[:, :1] += step
        return Q, gradient + turn

    def shrink(self, x: Tensor, size: Any) -> Tensor:
        """Proximal operator of the penalty, with steps ``size`` (k,) or a number."""
        length, least = norms(x), size * self.lam
        return x * (1.0 - least / (length + TINY)).clamp(min=0.0)

    def largest_eigenvalue(self) -> Tensor:
        """Of the Hessian, about, by the power method from the largest diagonals."""
        x = torch.sqrt(self.curvature).expand_as(self.linear)
        for _ in range(12):
            x = self.times(x / torch.linalg.vector_norm(x))
        # Power iterations underestimate it.
        return 1.05 * torch.linalg.vector_norm(x)

    def penalty(self, x: Tensor) -> Tensor:
        return self.lam @ norms(x)

    def measure(self, Q: Tensor, gradient: Tensor) -> tuple[float, float]:
        """Objective and duality gap, as `Problem.certify` has them.

        Tied intercepts must be at their best.
        """
        length = norms(gradient)
        ratios = torch.where(self.lam > 0, length / (self.lam + TINY), 0.0)
        sums = [(Q * self.linear).sum(), (Q * gradient).sum(), self.penalty(Q)]
        along, smooth, penalty, ratio = torch.stack([*sums, ratios.max()]).tolist()
        value, rise = 0.5 * (smooth - along + self.size), self.size - along
        scale = min(1.0, 1.0 / ratio) if ratio > 0 else 1.0
        if value > 0:
            scale = min(scale, max(0.0, rise / (2.0 * value)))
        return value + penalty, value + penalty - scale * (rise - scale * value)


# The method.


class Factors(NamedTuple):
    """Inverse M⁻¹ of each task's block on some rows, with a diagonal."""

    rows: Index
    bend: Tensor  # (a,) part of the diagonal
    diagonal: Tensor  # (m, a), or (1, a) where one serves all tasks
    inverse: Tensor  # (m, a, a), or (1, a, a)

    def solve(self, r: Tensor) -> Tensor:
        if len(self.inverse) == 1:
            return r @ self.inverse[0]
        return torch.bmm(self.inverse, r[:, :, None])[:, :, 0]

    def without(self, unit: Tensor, taken: Tensor) -> Solver | None:
        """Inverse of M − U diag(taken) Uᵀ, by Woodbury's formula.

        Column j of U is ``unit`` of row j over all tasks, so that UᵀM⁻¹U is a sum over
        tasks. None if the difference is not positive definite.
        """
        if len(self.inverse) == 1:
            within = self.inverse[0] * (unit.T @ unit)
        else:
            half = self.inverse * unit[:, None, :]
            within = torch.einsum("ij,ijk->jk", unit, half)
            del half
        root = torch.sqrt(taken)
        core = -root[:, None] * within * root
        core.diagonal().add_(1.0)
        lower, info = torch.linalg.cholesky_ex(core)
        if int(info):
            return None
        small = invert(lower[None])[0] * root[:, None] * root

        def solve(r: Tensor) -> Tensor:
            first = self.solve(r)
            return first + self.solve(((unit * first).sum(0) @ small) * unit)

        return solve


def invert(lower: Tensor) -> Tensor:
    """Inverses of L Lᵀ, by products where these are what a device does best."""
    inverse = invert_triangles(lower)
    return inverse.transpose(1, 2) @ inverse


def invert_triangles(lower: Tensor) -> Tensor:
    """Inverses of lower triangles, by halves."""
    k = lower.shape[-1]
    # Small triangles are inverted by substitution.
    if k <= 128:
        eye = torch.eye(k, dtype=lower.dtype, device=lower.device)
        return torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    half = k // 2
    first = invert_triangles(lower[:, :half, :half])
    last = invert_triangles(lower[:, half:, half:])
    found = torch.zeros_like(lower)
    found[:, :half, :half], found[:, half:, half:] = first, last
    found[:, half:, :half] = -last @ (lower[:, half:, :half] @ first)
    return found


@dataclass
class Run:
    """Q with its gradient, moved until the gap is small enough."""

    quadratic: Quadratic
    Q: Tensor
    gradient: Tensor
    factors: Factors | None = None
    value: float = field(init=False)
    gap: float = field(init=False)
    steps: int = 0
    caution: float = 1.0  # factor of the curvature by which rows are chosen

    def __post_init__(self) -> None:
        self._measure()

    def _measure(self) -> None:
        q = self.quadratic
        self.Q, self.gradient = q.best_intercepts(self.Q, self.gradient)
        self.value, self.gap = q.measure(self.Q, self.gradient)

    def minimise(self, goal: float) -> None:
        """Steps until the gap is at most ``goal``, or nothing falls any more."""
        q = self.quadratic
        # Up to 1 GB of Gram matrices, accelerated steps from zero pay.
        small = q.gram.numel() <= 2**27
        if small and self.gap > goal and not bool(self.Q[:, q.n_intercepts :].any()):
            self._find_rows()
        for _ in range(50):
            if self.gap <= goal:
                return
            before, gap = self.value, self.gap
            if self._newton_step():
                self.caution = max(1.0, 0.5 * self.caution)
            elif self._proximal_step():
                self.caution *= 4.0
            else:
                return
            self.steps += 1
            self._measure()
            # Near the optimum objectives have no digits left, but the gap has.
            if not self.value < before and not self.gap < 0.5 * gap:
                return

    def _find_rows(self) -> None:
        """Accelerated proximal gradient steps (FISTA), if they lower the objective."""
        q, begin = self.quadratic, (self.Q, self.gradient, self.value, self.gap)
        reach = 1.0 / q.largest_eigenvalue()
        ahead, slope, momentum = self.Q, self.gradient, 1.0
        for _ in range(30):
            last, last_gradient = self.Q, self.gradient
            self.Q = q.shrink(ahead - reach * slope, reach)
            self.gradient = q.times(self.Q) - q.linear
            faster = 0.5 + sqrt(0.25 + momentum * momentum)
            share, momentum = (momentum - 1.0) / faster, faster
            ahead = torch.lerp(last, self.Q, 1.0 + share)
            slope = torch.lerp(last_gradient, self.gradient, 1.0 + share)
        self._measure()
        if not self.value < begin[2]:
            self.Q, self.gradient, self.value, self.gap = begin

    def _newton_step(self) -> bool:
        """Choose rows and take a Newton step on them; whether the objective fell."""
        q = self.quadratic
        h, lam = self.caution * q.numbers.curvature, q.numbers.lam
        shifted = self.Q - self.gradient / (self.caution * q.curvature)
        size, length = torch.stack([norms(self.Q), norms(shifted)]).cpu().numpy()
        free = lam == 0
        kept, stays = (length > lam / h) | free, (size > 0) | free
        # Rows join by and by, the steepest first: then each step is easy to take.
        new = np.flatnonzero(kept & ~stays)
        most = max(64, 2 * int(np.count_nonzero(size)))
        if len(new) > most:
            steep = length[new] * h[new] / lam[new]
            kept[new[np.argsort(steep)[:-most]]] = False
        rows = np.flatnonzero(kept)
        if not len(rows):
            return False
        base, gradient, cost = self.Q, self.gradient, self.Q.new_zeros(())
        if (kept != stays).any():
            # Rows that change their state turn the gradient, and cost something.
            shrunken = 1.0 - lam / h / (length + TINY)
            shares = np.where(kept & stays, 1.0, 0.0), np.where(stays, 0.0, shrunken)
            old, joining = put(np.stack([shares[0], kept * shares[1]]), base.device)
            base = old * base + joining * shifted
            move = base - self.Q
            turn = q.times(move)
            cost = (move * (gradient + 0.5 * turn)).sum()
            cost = cost + q.penalty(base) - q.penalty(self.Q)
            gradient = gradient + turn
        step = self._direction(base, gradient, rows)
        if step is None:
            return False
        crosses = (((base + step) * base).sum(0) <= 0) & (q.lam > 0)
        clipped = torch.where(crosses, -base, step)
        any_crosses = bool(crosses.any())
        if self._move(base, gradient, clipped, cost, halve=not any_crosses):
            return True
        return any_crosses and self._move(base, gradient, step, cost, halve=True)

    def _direction(self, base: Tensor, gradient: Tensor, kept: Index) -> Tensor | None:
        """Newton direction on these rows, zero on others."""
        q, rows = self.quadratic, torch.as_tensor(kept, device=base.device)
        x, lam = base[:, rows], self.quadratic.lam[rows]
        length = norms(x)
        length = torch.where(length > 0, length, 1.0)
        unit, bend = x / length, lam / length
        downhill = -(gradient[:, rows] + lam * unit)
        force = sqrt(float((downhill * downhill).sum() / ((lam * lam).sum() + TINY)))
        # The penalty has no curvature along a row: rows are damped along themselves,
        # less and less towards the optimum (as in `block_newton.newton_step`).
        along = bend * (1.0 - min(0.3, max(1e-8, force)))
        tol = min(0.3, max(1e-6, 0.3 * sqrt(force)))
        tie = q.tie[rows]
        degree = 0.0 if q.ties is None else q.ties.degree

        def straighten(p: Tensor) -> Tensor:
            return (along * (unit * p).sum(0)) * unit

        strong = np.count_nonzero(q.numbers.strongly_tied[kept])
        if 2 * strong > len(kept):
            modes = self._modes(rows, bend)
            block = self._block(rows)

            def multiply(p: Tensor, _: Tensor) -> Tensor:
                product = p @ block[0] if len(block) == 1 else None
                if product is None:
                    product = torch.bmm(block, p[:, :, None])[:, :, 0]
                tied = tie * q.ties.times(p)  # type: ignore[union-attr]
                return product + bend * p + tied - straighten(p)

            found = conjugate_gradients(modes, multiply, downhill, tol)
        else:
            # Intercepts of a task without rows, or rows without data: not singular.
            ridge = VANISHING * q.own[rows].mean() + TINY
            factors = self._factorise(kept, rows, bend, ridge + tie * degree)
            if factors is None:
                return None
            # No more is taken from the diagonal than the factors hold of it.
            taken = along * (factors.bend / bend.clamp(min=TINY)).clamp(max=1.0)
            solve = factors.without(unit, taken)
            if solve is None:
                return None
            excess = bend + tie * degree - factors.diagonal
            left = along - taken
            is_exact = factors.bend is bend and len(factors.diagonal) > 1

            def correct(p: Tensor, product: Tensor) -> Tensor:
                """Hessian times p, from the preconditioner's product."""
                if q.ties is not None:
                    product = torch.addcmul(product, tie, q.ties.between(p))
                if not is_exact:
                    product = torch.addcmul(product, excess, p)
                    product = product - (left * (unit * p).sum(0)) * unit
                return product

            found = conjugate_gradients(solve, correct, downhill, tol)
        step = torch.zeros_like(base)
        step[:, rows] = found
        return step

    def _block(self, rows: Tensor) -> Tensor:
        """Gram matrices on these rows, relations added; a copy unless these are all."""
        q = self.quadratic
        block = q.gram
        if len(rows) < block.shape[1]:
            block = block[:, rows[:, None], rows]
        if q.relation is not None:
            block = block + q.relation[rows[:, None], rows]
        return block

    def _factorise(
        self, kept: Index, rows: Tensor, bend: Tensor, rest: Tensor
    ) -> Factors | None:
        """Factors for these rows, with about this diagonal; None if there are none."""
        q, known = self.quadratic, self.factors
        diagonal = torch.atleast_2d(bend + rest)
        if len(q.gram) == 1:
            diagonal = diagonal.mean(0, keepdim=True)
        if known is not None and np.array_equal(known.rows, kept):
            ratio = diagonal / known.diagonal
            if bool(((ratio < ALIKE) & (ratio > 1.0 / ALIKE)).all()):
                return known
        self.factors = known = None  # before others take memory
        block = self._block(rows)
        if block is q.gram:
            block = block.clone()
        block.diagonal(dim1=1, dim2=2).add_(diagonal)
        lower, info = torch.linalg.cholesky_ex(block)
        if bool((info != 0).any()):
            return None
        del block
        self.factors = Factors(kept, bend, diagonal, invert(lower))
        return self.factors

    def _modes(self, rows: Tensor, bend: Tensor) -> Solver:
        """Inverse for the mean block with ties, in modes, where ties dominate.

        With modes of features scaled so that all are tied alike, and those of tasks,
        it is diagonal (as `layouts.feature_modes`).
        """
        q, tie = self.quadratic, self.quadratic.tie[rows]
        bent = self._block(rows).mean(0)
        bent.diagonal().add_(bend)
        own = bent.diagonal()
        # Rows that are not tied count as hardly tied.
        least = 1e-9 * torch.where(own > 0, own, 1.0)
        scale = 1.0 / torch.sqrt(torch.maximum(tie, least))
        stiffness, basis = torch.linalg.eigh(scale[:, None] * bent * scale)
        stiffness = stiffness.clamp(min=VANISHING * float(stiffness[-1]))
        basis = scale[:, None] * basis
        values, vectors = q.ties.modes()  # type: ignore[union-attr]
        total = values[:, None] + stiffness
        return lambda r: vectors @ ((vectors.T @ r @ basis) / total) @ basis.T

    def _move(
        self,
        base: Tensor,
        gradient: Tensor,
        step: Tensor,
        cost: Tensor,
        *,
        halve: bool,
    ) -> bool:
        """Take as much of a step as lowers the objective, if any does."""
        q = self.quadratic
        turn = q.times(step)
        along, bowl = (step * gradient).sum(), (step * turn).sum()
        before = q.penalty(base) - cost + 8.0 * ROUNDING * self.value

        def attempt(size: float) -> bool | None:
            change = size * along + 0.5 * size * size * bowl - before
            if not bool(change + q.penalty(base + size * step) < 0.0):
                return None
            self.Q, self.gradient = base + size * step, gradient + size * turn
            return True

        return bool(line_search(attempt, most=20 if halve else 1))

    def _proximal_step(self) -> bool:
        """Proximal gradient step in the metric of the rows, as long as it can be."""
        q = self.quadratic
        before = q.penalty(self.Q)

        def attempt(size: float) -> bool | None:
            reach = size / q.curvature
            move = q.shrink(self.Q - reach * self.gradient, reach) - self.Q
            turn = q.times(move)
            change = (move * (self.gradient + 0.5 * turn)).sum() - before
            if not bool(change + q.penalty(self.Q + move) < 0.0):
                return None
            self.Q, self.gradient = self.Q + move, self.gradient + turn
            return True

        return bool(line_search(attempt, most=20))


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Inner product."""
    return torch.dot(x.reshape(-1), y.reshape(-1))


def conjugate_gradients(
    solve: Solver,
    multiply: Callable[[Tensor, Tensor], Tensor],
    rhs: Tensor,
    tol: float,
) -> Tensor:
    """As `_numerics.conjugate_gradients`, with fused sums and numbers on the device."""
    x, rest, z = torch.zeros_like(rhs), rhs, solve(rhs)
    p, Mp, old = z, rest, dot(rhs, z)
    goal = tol * tol * float(old)
    for _ in range(300):
        if float(old) <= goal:
            break
        product = multiply(p, Mp)
        size = old / dot(p, product)
        x = torch.addcmul(x, size, p)
        rest = torch.addcmul(rest, size, product, value=-1.0)
        z = solve(rest)
        new = dot(rest, z)
        share = new / old
        p, Mp, old = torch.addcmul(z, share, p), torch.addcmul(rest, share, Mp), new
    return x


@dataclass(frozen=True, eq=False)
class DeviceNewtonState:
    """State of device Newton."""

    point: Point
    run: Run | None = None  # what led there: its rows and factors serve again


@dataclass(frozen=True)
class DeviceNewton:
    """For squared loss with row penalties, on Gram matrices that a device holds.

    The first step closes the gap to what tolerances usually ask for, further ones all
    but a small share of it.
    """

    check_every: ClassVar[int] = 1
    chooses_rows: ClassVar[bool] = True  # paths need not screen

    def start(self, problem: Problem, point: Point) -> DeviceNewtonState:
        return DeviceNewtonState(point)

    def step(self, problem: Problem, state: DeviceNewtonState) -> DeviceNewtonState:
        quadratic, factors = _lay_out(problem)
        first, device = quadratic.n_intercepts, quadratic.gram.device
        coef = state.point.coef
        if state.run is not None:
            run = Run(quadratic, state.run.Q, state.run.gradient, state.run.factors)
        else:
            Q = np.ascontiguousarray(coef.T)
            if first:
                Q = np.column_stack([problem.fit.intercept(coef), Q])
                start = put(Q, device)
                gradient = quadratic.times(start) - quadratic.linear
            else:
                start, gradient = put(Q, device), put(state.point.gradient.T, device)
            run = Run(quadratic, start, gradient, factors)
        # What tolerances usually ask for, per unit of the objective at zero.
        usual = 3e-7 * problem.null_objective
        run.minimise(usual if run.gap > usual else 1e-3 * run.gap)
        problem.memo[MEMO][2] = run.factors
        found = run.Q[:, first:].T.contiguous().cpu().numpy()
        return DeviceNewtonState(problem.at(found, near=state.point), run)


def _lay_out(problem: Problem) -> tuple[Quadratic, Factors | None]:
    """Quadratic of a problem, laid out once for all lam, and the last factors."""
    source = problem.fit, problem.prior, problem.penalty
    known = problem.memo.get(MEMO)
    if known is None or not all(a is b for a, b in zip(known[0], source, strict=True)):
        known = [source, Quadratic.of(problem), None]
        problem.memo[MEMO] = known
    return known[1].at_lam(problem), known[2]
