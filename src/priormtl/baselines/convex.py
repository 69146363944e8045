"""Convex compared methods: data fit + ridge + lam · penalty, with a duality gap.

A convex method states its ``Problem`` and how coefficients follow from a solution. The
rest is common: the data fit (``bind_loss``), the path of strengths
(``solve_strengths``) and the result with its certificate (``describe``). Solvers and
duality gap are those of our own estimators.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from priormtl import solvers
from priormtl._arrays import Array
from priormtl.baselines.base import (
    Baseline,
    Fit,
    LinearModel,
    Outcome,
    Settings,
    crossed,
)
from priormtl.checks import check_count, check_strength, check_tolerance
from priormtl.data import TaskData, summarize_tasks
from priormtl.losses import FreeIntercepts, Logistic, NoIntercepts, Squared
from priormtl.penalties import Penalty
from priormtl.problem import Problem


def bind_loss(method: Baseline, data: TaskData, *, grams: bool = True) -> Fit:
    """Data fit of the method's loss; ``grams``: by Gram matrices where these are small.

    One product with small Gram matrices serves all tasks.
    """
    intercepts = FreeIntercepts() if method.fit_intercept else NoIntercepts()
    if method.loss == "logistic":
        return Logistic().bind(data, intercepts)
    d, m = data.shape
    small = m * d * d <= 2**20 and not issparse(data.X)  # 8 MB
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


# Coefficients that are a sum of two parts, with strengths lam and ratio · lam


@dataclass(eq=False, repr=False)
class TwoParts(Baseline):
    """What DMTL and RMTL share: a path of lam for a given ratio."""

    followed = "lam"
    powers: ClassVar[tuple[float, ...]]  # of m: ratios to try, the default first

    lam: float = 1.0
    _: KW_ONLY
    ratio: float | None = None
    tol: float = 1e-6
    max_iter: int = 10_000

    @abstractmethod
    def _pose(self, fit: Fit, ratio: float) -> tuple[Problem, float]:
        """Problem of strength one, and the multiple of ``lam`` that is its strength."""

    @abstractmethod
    def _split(self, penalty: Penalty, P: Array) -> dict[str, Array]:
        """Both parts (d, m) of a solution, by the names of their attributes."""

    @abstractmethod
    def _largest(self, ratio: float, gradient: Array) -> float:
        """The lam from which on the solution is zero."""

    def _bind(self, data: TaskData) -> Fit:
        return bind_loss(self, data)

    def _follow(self, bound: Fit, strengths: Sequence[float]) -> Iterator[Outcome]:
        ratio = check_ratio(self.ratio, bound.shape[1] ** self.powers[0])
        problem, unit = self._pose(bound, ratio)
        lams = [check_strength("lam", value) * unit for value in strengths]
        rules = partial(stop_rules, tol=self.tol, most=self.max_iter)
        for posed, solution in solve_strengths(problem, lams, rules):
            parts = self._split(posed.penalty, solution.coef)
            coef = np.sum(list(parts.values()), axis=0)
            by_task = {name: part.T for name, part in parts.items()}
            yield describe(posed, solution, self.tol, coef=coef, parts=by_task)

    def _suggest(self, bound: Fit, n: int) -> list[Settings]:
        ratios = np.power(float(bound.shape[1]), self.powers)
        gradient = bound.evaluate(np.zeros(bound.shape)).gradient
        return cross_ratios(ratios, lambda ratio: self._largest(ratio, gradient), n)


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
