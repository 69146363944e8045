"""Convex compared methods: data fit + ridge + lam · penalty, with a duality gap.

A convex method states its ``Problem`` and how coefficients follow from a solution. The
rest is common: the data fit (``bind_loss``), the path of strengths
(``solve_strengths``) and the result with its certificate (``describe``). Solvers and
duality gap are those of our own estimators.

DMTL and RMTL are sums of two parts, with strengths lam and ratio · lam: ``check_ratio``
and ``cross_ratios`` read and propose such ratios.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.baselines.base import Baseline, LinearModel, Outcome, Settings, crossed
from priormtl.data import TaskData, summarize_tasks
from priormtl.estimators import check_count, check_tolerance
from priormtl.losses import DataFit, FreeIntercepts, Logistic, NoIntercepts, Squared
from priormtl.problem import Problem
from priormtl.solvers import (
    Method,
    Solution,
    StopReason,
    StopRule,
    default_method,
    diverged,
    gap_below,
    max_iter,
    solve_path,
    stalled,
)

FEW_GRAM_NUMBERS = 2**20  # 8 MB

LOWEST = 1e-3  # last lam of a path, as a share of the first
ONLY = 0.03  # the lam of a path of one point, as a share of the largest
POINTS = 6  # of a path, before another ratio is worth trying


def bind_loss(method: Baseline, data: TaskData, *, grams: bool = True) -> DataFit[Any]:
    """Data fit of the method's loss; ``grams``: by Gram matrices where these are small.

    One product with small Gram matrices serves all tasks.
    """
    intercepts = FreeIntercepts() if method.fit_intercept else NoIntercepts()
    if method.loss == "logistic":
        return Logistic().bind(data, intercepts)
    d, m = data.shape
    small = m * d * d <= FEW_GRAM_NUMBERS and not issparse(data.X)
    return Squared().bind(
        summarize_tasks(data) if grams and small else data, intercepts
    )


def stop_rules(method: Method[Any], tol: float, most: int) -> list[StopRule]:
    """When to stop, anew for each run."""
    return [
        gap_below(check_tolerance(tol), method.check_every),
        stalled(),
        diverged(every=method.check_every),
        max_iter(check_count("max_iter", most)),
    ]


def solve_strengths(
    problem: Problem,
    lams: Sequence[float],
    rules: Callable[[Method[Any]], list[StopRule]],
    choose: Callable[[Problem], Method[Any]] = default_method,
) -> Iterator[tuple[Problem, Solution]]:
    """The problem at each lam with its solution, warm-started along the path."""
    solutions = solve_path(problem, lams, choose=choose, rules=rules)
    for lam, solution in zip(lams, solutions, strict=True):
        yield problem.with_strengths(lam=lam), solution


def describe(
    problem: Problem,
    solution: Solution,
    tol: float,
    *,
    coef: Array | None = None,
    learned: Mapping[str, Any] = MappingProxyType({}),
    parts: Mapping[str, Array] = MappingProxyType({}),
) -> Outcome:
    """Result with its certificate; ``coef`` (d, m): if not those of the solution."""
    P = solution.coef if coef is None else coef
    certificate, unit = solution.certificate, problem.null_objective
    solved = certificate.gap <= tol * unit or solution.reason is StopReason.ROUNDING
    shortfall = (
        f"{solution.reason.value}: the duality gap is {certificate.gap:.3g}, above "
        f"tol={tol:g} times {unit:.3g}, the objective at zero, after "
        f"{solution.n_iter} iterations; raise max_iter or tol."
    )
    return Outcome(
        LinearModel(np.ascontiguousarray(P.T), solution.intercept),
        certificate.primal,
        solution.n_iter,
        {"dual_gap_": certificate.gap, **learned},
        None if solved else shortfall,
        parts,
    )


# Two parts with strengths lam and ratio · lam.


def check_ratio(value: Any, default: float) -> float:
    """Positive finite number; ``default`` for None."""
    if value is None:
        return default
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not np.isfinite(value) or not value > 0:
        raise ValueError(
            f"ratio must be a positive finite number or None: got {value!r}."
        )
    return float(value)


def cross_ratios(
    ratios: Iterable[float], largest: Callable[[float], float], n: int
) -> list[Settings]:
    """At most ``n`` settings: for the first ratios a path of lam, from large to small.

    ``largest`` is the lam from which on the solution for a ratio is zero.
    """
    distinct = list(dict.fromkeys(float(ratio) for ratio in ratios))
    chosen = distinct[: max(1, n // POINTS)]
    settings: list[Settings] = []
    for k, ratio in enumerate(chosen):
        # Paths are as equally long as can be, the first ones longer.
        points = n // len(chosen) + (k < n % len(chosen))
        shares = np.geomspace(1.0, LOWEST, points) if points > 1 else np.array([ONLY])
        lams = (largest(ratio) or 1.0) * shares
        settings += crossed([{"ratio": ratio}], "lam", lams)
    return settings
