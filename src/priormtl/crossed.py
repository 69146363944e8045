"""Effects of crossed factors in a problem: P and v by turns, certified together.

A row of task i whose levels have the effects z v has the score x p_i + b_i + z v, and
½ Σ s_l v_l² is added to the objective, s_l = σ² / τ² by REML. Given v, the problem in P
is one about other targets; given P, the best v solves

    (Zᵀ W Z + S) v = Zᵀ W (y − X p − b)

with squared loss, or a few such systems. Both are solved by turns, with Anderson
extrapolation of v; where REML's own solution is the optimum, the first turn ends it.

**Certificate.** With v at its best, let the problem in P have the gap g. Effects that
follow P absorb a part of every change δ of its scores, and leave at least
δᵀ W δ / (1 + κ) of its square, κ the largest eigenvalue of S^(−½) Zᵀ W Z S^(−½). On the
way from P to the joint optimum the objective is convex; a share 1 / (1 + κ) of the way
gains at most g in the problem in P, so that all of it gains at most (1 + κ) g in both.
With other losses W is the curvature at the solution, and this holds to second order.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl._numerics import NEWTON_STEPS, conjugate_gradients
from priormtl.design import Crossed
from priormtl.problem import Problem
from priormtl.reml import CrossedEffects
from priormtl.solvers import Solution, Solver, StopReason, max_iter, settle

__all__ = ["CrossedTerm", "solve_by_turns"]

# Residuals (n,), minus the derivatives of the loss of rows, and curvatures, at scores.
Pull = Callable[[Array], tuple[Array, Array]]

MEMORY = 8  # of Anderson extrapolation


@dataclass(frozen=True, eq=False)
class CrossedTerm:
    """Levels of rows, what their effects cost, and these effects."""

    levels: Crossed
    curvature: Array  # (n,) of the loss of rows: W
    estimate: CrossedEffects
    effects: Array  # v (levels,)
    left: float = 0.0  # bound on what better effects would still gain

    @classmethod
    def of(
        cls, levels: Crossed, curvature: Array, estimate: CrossedEffects | None
    ) -> Self:
        """Effects as they were estimated; zero where the data told nothing."""
        if estimate is None:
            sd, none = dict.fromkeys(levels.names, 0.0), np.zeros(levels.size)
            estimate = CrossedEffects(sd, 1.0, none, none.copy)
        return cls(levels, curvature, estimate, estimate.effects)

    @cached_property
    def strengths(self) -> Array:
        """s (levels,); infinite for factors without effects."""
        return self.estimate.strengths(self.levels.sizes)

    @property
    def cost(self) -> float:
        """½ Σ s_l v_l²."""
        used = np.isfinite(self.strengths)
        return 0.5 * float(self.strengths[used] @ self.effects[used] ** 2)

    @property
    def scores(self) -> Array:
        """z v of each row (n,)."""
        return self.levels.forward(self.effects)

    @cached_property
    def absorption(self) -> float:
        """Bound on κ: the sum of the bounds of single factors."""
        curvature = np.asarray(self.levels.matrix().T @ self.curvature)
        ratios = self.levels.split(curvature / self.strengths)
        return sum(float(each.max(initial=0.0)) for each in ratios.values())

    def fit(self, pull: Pull, scores: Array) -> Self:
        """Best effects beside given scores of the rows (n,), by Newton's method."""
        Z, used = self.levels.matrix(), np.isfinite(self.strengths)
        s = np.where(used, self.strengths, 1.0)

        def slope(v: Array) -> tuple[Array, Array]:
            """Descent direction in effects (levels,), and curvatures (n,)."""
            residual, curvature = pull(scores + Z @ v)
            return np.where(used, Z.T @ residual - s * v, 0.0), curvature

        v = np.where(used, self.effects, 0.0)
        gradient, curvature = slope(v)
        for _ in range(NEWTON_STEPS):
            diagonal = np.asarray(Z.T @ curvature) + s
            step = _solve(Z, used, s, curvature, gradient)
            if np.abs(step).max(initial=0.0) <= 1e-15 * np.abs(v).max(initial=0.0):
                break
            size, length = float(np.sum(gradient**2 / diagonal)), 1.0
            closer = slope(v + step)
            while float(np.sum(closer[0] ** 2 / diagonal)) > size and length > 1e-6:
                length *= 0.5
                closer = slope(v + length * step)
            if float(np.sum(closer[0] ** 2 / diagonal)) > size:
                break  # rounding hides what is left
            v, (gradient, curvature) = v + length * step, closer
            left = float(np.sum(gradient**2 / diagonal))
            if left <= 1e-26 * float(s @ v**2):
                break
        left = 0.5 * float(np.sum(gradient**2 / s))
        return replace(self, effects=v, curvature=curvature, left=left)


def _solve(Z: csr_array, used: Any, s: Array, curvature: Array, right: Array) -> Array:
    """Solve (Zᵀ W Z + S) u = right; with one factor it is its diagonal."""
    diagonal = np.asarray(Z.T @ curvature) + s

    def multiply(u: Array, _: Array) -> Array:
        return np.where(used, Z.T @ (curvature * (Z @ u)) + s * u, u)

    return conjugate_gradients(lambda u: u / diagonal, multiply, right, 1e-14, 1000)


def solve_by_turns(
    term: CrossedTerm,
    solver: Solver,
    problem_at: Callable[[CrossedTerm], Problem],
    scores_of: Callable[[Solution], Array],
    pull: Pull,
    coef: Array | None,
) -> tuple[CrossedTerm, Problem, Solution]:
    """Minimise over P and v.

    ``problem_at`` makes the problem in P for given effects, and ``scores_of`` the
    scores x p_i + b_i of a solution (n,).
    """
    places, images = list[Array](), list[Array]()
    iterations, best = 0, None
    most_turns = 100
    for _ in range(most_turns):
        # Given v: the problem in P, solved closer than asked for, since its gap counts
        # 1 + κ times in the gap of both. Given P: the best v.
        problem = problem_at(term)
        share = 0.5 / (1.0 + term.absorption)
        closer = replace(solver, tol=max(share * solver.tol, 1e-15))
        solution = closer.solve(problem, coef)
        coef, iterations = solution.coef, iterations + solution.n_iter
        fitted = term.fit(pull, scores_of(solution))
        found = _certify(fitted, problem_at(fitted), solution, iterations)
        if best is None or found[2].certificate.gap < best[2].certificate.gap:
            best = found
        accepted = solver.accepts(found[1], found[2].certificate)
        moved = np.abs(fitted.effects - term.effects).max(initial=0.0)
        settled = moved <= 1e-14 * np.abs(fitted.effects).max(initial=0.0)
        if accepted or settled or iterations > solver.max_iter:
            break
        # A turn maps v to its best value for the best P. Turns alone converge slowly
        # where factors and tasks explain the same differences.
        places.append(term.effects)
        images.append(fitted.effects)
        term = replace(term, effects=_extrapolate(places[-MEMORY:], images[-MEMORY:]))
    assert best is not None
    term, problem, solution = best
    reason = StopReason.GAP
    if not solver.accepts(problem, solution.certificate):
        reason = StopReason.STALLED
        if iterations > solver.max_iter:
            reason = StopReason.MAX_ITER
    return term, problem, replace(solution, reason=reason)


def _certify(
    term: CrossedTerm, problem: Problem, solution: Solution, iterations: int
) -> tuple[CrossedTerm, Problem, Solution]:
    """Solution in P at effects that are at their best, with the gap of both."""
    here = settle(problem, problem.at(solution.coef), [max_iter(0)])
    assert here is not None
    # The gap (1 + κ) g of the head of this page; ``left`` is what the effects, which
    # are found by iteration, lack to be at their best.
    known, factor = here.certificate, 1.0 + term.absorption
    primal = known.primal + term.cost
    both = known._replace(
        primal=primal,
        dual=primal - factor * (max(known.primal - known.dual, 0.0) + term.left),
        rounding=factor * known.rounding,
    )
    return term, problem, replace(here, certificate=both, n_iter=iterations)


def _extrapolate(places: list[Array], images: list[Array]) -> Array:
    """Fixed point that the last steps point to (Anderson 1965)."""
    if len(places) < 2:
        return images[-1]
    steps = np.stack(
        [image - place for image, place in zip(images, places, strict=True)]
    )
    differences = np.diff(steps, axis=0).T
    weights = np.linalg.lstsq(differences, steps[-1], rcond=1e-10)[0]
    return np.asarray(images[-1] - weights @ np.diff(np.stack(images), axis=0))
