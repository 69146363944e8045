"""Regularisation paths: lam from large to small, each fit warm-started by the last.

Features that cannot be identified from the data are left out of the path, and each fit
begins with the features that the strong rule keeps (Tibshirani et al., "Strong rules
for discarding predictors in lasso-type problems", JRSS B 74, 2012). What these leave
out wrongly shows in the gap of the whole problem, and is put right there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._numerics import VANISHING
from priormtl.penalties import Dirty, RowSeparable
from priormtl.problem import Point, Problem
from priormtl.solvers.choose import default_method
from priormtl.solvers.loop import Method, Solution, StopReason, StopRule, settle, solve

Choose = Callable[[Problem], Method]
Rules = Callable[[Method], Sequence[StopRule]]


def lam_grid(problem: Problem, n: int = 10, ratio: float = 1e-3) -> Array:
    """Geometric grid of ``n`` values from lam_max down to ``ratio`` · lam_max.

    Where lam_max is zero P = 0 is optimal at every lam, and the grid begins at 1.
    """
    return np.geomspace(1.0, ratio, n) * (problem.lam_max or 1.0)


def solve_path(
    problem: Problem,
    lams: Sequence[float] | Array,
    *,
    choose: Choose = default_method,
    rules: Rules,
) -> list[Solution]:
    """Solve for each lam, in the order of ``lams``; the certificates are exact.

    ``rules`` makes fresh rules for a method. Orders other than decreasing are right
    too, but slower.
    """
    features = identifiable_features(problem)
    if features is None:
        return list(_follow(problem, lams, choose, rules))
    part = problem.restrict(features)
    found = _follow(part, lams, choose, rules)
    return [
        _widen(problem.with_strengths(lam=float(lam)), features, narrow, choose, rules)
        for lam, narrow in zip(lams, found, strict=True)
    ]


def _widen(
    problem: Problem, features: Index, part: Solution, choose: Choose, rules: Rules
) -> Solution:
    """From a solution for some features to one that is certified for all."""
    method = choose(problem)
    coef = _embed(part.coef, features, problem.shape[0])
    point = problem.at(coef, norm=part.point.norm)
    done = settle(problem, point, rules(method), part)
    if done is not None:
        return replace(done, reason=part.reason)
    if part.reason is StopReason.GAP:
        return solve(problem, method, coef=point, stop=rules(method))
    certificate = problem.certify_rounded(point, problem.certify(point))
    return replace(part, coef=point.coef, certificate=certificate, point=point)


def _follow(
    problem: Problem, lams: Sequence[float] | Array, choose: Choose, rules: Rules
) -> Iterator[Solution]:
    point, last = problem.null_point, problem.lam_max
    for lam in lams:
        step = problem.with_strengths(lam=float(lam))
        solution = _solve_next(step, point, last, choose, rules)
        yield solution
        point, last = solution.point, float(lam)


def _solve_next(
    problem: Problem, point: Point, last: float, choose: Choose, rules: Rules
) -> Solution:
    """Solve from the point that was optimal at ``last``, on few features first."""
    method = choose(problem)
    done = settle(problem, point, rules(method))
    if done is not None:
        return done
    # Methods that choose rows by themselves, on data that they hold, need no screening.
    chooses = getattr(method, "chooses_rows", False)
    features = None if chooses else _screen(problem, point, last)
    if features is None:
        return solve(problem, method, coef=point, stop=rules(method))
    small = problem.restrict(features)
    inner = choose(small)
    part = solve(small, inner, coef=point.coef[features], stop=rules(inner))
    whole = problem.at(_embed(part.coef, features, problem.shape[0]), near=point)
    # What the rule left out wrongly shows in the gap of the whole problem.
    done = settle(problem, whole, rules(method), part)
    return done or solve(problem, method, coef=whole, stop=rules(method))


def _screen(problem: Problem, point: Point, last: float) -> Index | None:
    """Strong rule: features that may move, given how slowly gradients turn with lam.

    None where there are no rows to choose from, or too many are left.
    """
    penalty, lam = problem.penalty, problem.lam
    if lam == 0 or not isinstance(penalty, RowSeparable):
        return None
    kept = penalty.row_dual_norms(point.gradient) >= 2.0 * lam - last
    kept |= point.coef.any(axis=1)
    # Beyond half of the features screening saves nothing.
    return np.flatnonzero(kept) if 0 < kept.sum() <= 0.5 * len(kept) else None


def _embed(coef: Array, features: Index, d: int) -> Array:
    whole = np.zeros((d, coef.shape[1]))
    whole[features] = coef
    return whole


def identifiable_features(problem: Problem) -> Index | None:
    """Features that vary within some task; None: all, or not asked.

    All others have no product with any feature or target, and stay at zero. Penalties
    of rows leave them out by themselves, and relations of features could move them.
    """
    prior, fit = problem.prior, problem.fit
    related = prior.relation.nnz > 0
    by_rows = isinstance(problem.penalty, RowSeparable | Dirty)
    if related or by_rows or not fit.is_quadratic:
        return None
    d, m = problem.shape
    # Fixed numbers of no pattern (by the golden ratio): products do not cancel.
    golden = 0.5 * (1.0 + 5.0**0.5)
    probe = (np.arange(1.0, d * m + 1.0) * golden).reshape(d, m) % 1.0
    curved = np.abs(fit.majorant(probe)).max(axis=1, initial=0.0)
    sloped = np.abs(problem.null_point.fit.gradient).max(axis=1, initial=0.0)
    kept = curved > VANISHING * curved.max(initial=0.0)
    kept |= sloped > VANISHING * sloped.max(initial=0.0)
    if kept.all() or not kept.any():
        return None
    return np.flatnonzero(kept)
