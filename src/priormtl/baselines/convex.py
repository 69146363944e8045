"""Convex compared methods: data fit + ridge + lam · penalty, with a duality gap.

A convex method states its ``Problem`` and how coefficients follow from a solution. The
rest is common: the data fit (``bind_loss``), the path of strengths
(``solve_strengths``) and the result with its certificate (``describe``). Solvers and
duality gap are those of our own estimators.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from priormtl import solvers
from priormtl._arrays import Array
from priormtl.baselines.base import (
    Baseline,
    LinearModel,
    Outcome,
    Settings,
    crossed,
)
from priormtl.checks import check_count, check_tolerance
from priormtl.data import TaskData, summarize_tasks
from priormtl.losses import DataFit, FreeIntercepts, Logistic, NoIntercepts, Squared
from priormtl.problem import Problem

FEW_GRAM_NUMBERS = 2**20  # 8 MB


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


def stop_rules(method: solvers.Method, tol: float, most: int) -> list[solvers.StopRule]:
    """When to stop, anew for each run."""
    return [
        solvers.gap_below(check_tolerance(tol), method.check_every),
        solvers.stalled(),
        solvers.diverged(every=method.check_every),
        solvers.max_iter(check_count("max_iter", most)),
    ]


def solve_strengths(
    problem: Problem,
    lams: Sequence[float],
    rules: Callable[[solvers.Method], list[solvers.StopRule]],
    choose: Callable[[Problem], solvers.Method] = solvers.default_method,
) -> Iterator[tuple[Problem, solvers.Solution]]:
    """The problem at each lam with its solution, warm-started along the path."""
    solutions = solvers.solve_path(problem, lams, choose=choose, rules=rules)
    for lam, solution in zip(lams, solutions, strict=True):
        yield problem.with_strengths(lam=lam), solution


@dataclass
class SplittingGap:
    """Stop ADMM at a gap of ``tol`` times the objective.

    Residuals after the fit's step of ADMM make better dual points than those of the
    penalty's, above all for large C.
    """

    tol: float
    dual: float = 0.0  # best so far
    gap: float = np.inf

    def __call__(self, progress: solvers.Progress) -> solvers.StopReason | None:
        problem, state = progress.problem, progress.state
        right = state.rho * state.point.coef - state.dual - problem.null_point.gradient
        fitted = problem.at(problem.fit.solve_shifted(state.rho, right))
        self.dual = max(self.dual, problem.certify(fitted).dual)
        self.gap = max(progress.objective - self.dual, 0.0)
        noise = 4.0 * problem.fit.rounding(state.point.fit)
        if self.gap <= max(self.tol * progress.objective, noise):
            return solvers.StopReason.GAP
        return None


def describe(
    problem: Problem,
    solution: solvers.Solution,
    tol: float,
    *,
    coef: Array | None = None,
    learned: Mapping[str, Any] = MappingProxyType({}),
    parts: Mapping[str, Array] = MappingProxyType({}),
) -> Outcome:
    """Result with its certificate; ``coef`` (d, m): if not those of the solution."""
    P = solution.coef if coef is None else coef
    certificate, unit = solution.certificate, problem.null_objective
    solved = (
        certificate.gap <= tol * unit or solution.reason is solvers.StopReason.ROUNDING
    )
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


# Two strengths, lam and ratio · lam


def check_ratio(value: Any, default: float) -> float:
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
    # Few settings go to one ratio: lam matters more than how it is shared.
    distinct = list(dict.fromkeys(float(ratio) for ratio in ratios))
    chosen = distinct[: max(1, n // 6)]
    settings: list[Settings] = []
    for k, ratio in enumerate(chosen):
        # Paths are as equally long as can be, the first ones longer.
        points = n // len(chosen) + (k < n % len(chosen))
        shares = np.geomspace(1.0, 1e-3, points) if points > 1 else np.array([0.03])
        lams = (largest(ratio) or 1.0) * shares
        settings += crossed([{"ratio": ratio}], "lam", lams)
    return settings
