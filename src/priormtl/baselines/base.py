"""Baseline: what all compared methods share, from a table of rows to a fitted model.

A method consists of three steps, which a single fit and the search over folds
(``tuned``) both use. ``_bind`` computes what no strength changes (moments, Gram
matrices, kernels). ``_follow`` fits a path of strengths, with warm starts where these
are safe. ``_suggest`` proposes a grid of settings for a search.

Convex methods (data fit + ridge + lam · penalty) state a ``Problem``. Their data fit
(``bind_loss``), path of strengths (``solve_strengths``) and certified result
(``describe``) are common; solvers and duality gap are those of our own estimators.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning

from priormtl import solvers
from priormtl._arrays import Array, Index, Matrix
from priormtl.checks import check_choice, check_count, check_tolerance
from priormtl.data import (
    TaskData,
    TaskStatistics,
    condense,
    pooled_scale,
    summarize_tasks,
)
from priormtl.estimators import MultiTaskEstimator
from priormtl.fitted import task_array
from priormtl.losses import DataFit, FreeIntercepts, Logistic, NoIntercepts, Squared
from priormtl.problem import Problem

Settings = Mapping[str, Any]
Fit = DataFit[Any]  # a bound loss, whatever it keeps of an evaluation
Bound: TypeAlias = Any  # what a method computes of the data, each in its own form


# Fitted models.


class TaskModel(Protocol):
    """What a method has learned: scores of rows, task by task."""

    def scores(self, X: Matrix, i: int) -> Array:
        """Scores of rows under task ``i`` (n,)."""

    def in_user_units(self, scale: Array) -> Self:
        """The model of the original features, from one of features over ``scale``."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Coefficients and intercepts of m tasks."""

    coef: Array  # (m, d)
    intercept: Array  # (m,)

    def scores(self, X: Matrix, i: int) -> Array:
        return np.asarray(X @ self.coef[i] + self.intercept[i])

    def in_user_units(self, scale: Array) -> Self:
        return replace(self, coef=self.coef / scale)


class Outcome(NamedTuple):
    """Result of one fit on prepared data."""

    model: TaskModel
    objective: float
    n_iter: int
    learned: Mapping[str, object]  # further attributes by name, such as dual_gap_
    shortfall: str | None = None  # why the tolerance was missed; None: it was reached
    parts: Mapping[str, Array] = MappingProxyType({})  # further coefficients (m, d)


class Prepared(NamedTuple):
    """Data as the methods see them."""

    data: TaskData  # features scaled, tasks weighted
    scale: Array  # (d,) what features were divided by


@dataclass(eq=False, repr=False)
class Baseline(MultiTaskEstimator):
    """A compared method; subclasses define its settings, as fields, and its steps.

    Subclasses of one loss set ``loss``; others have it as a field.
    """

    followed: ClassVar[str]  # the setting that varies along a path

    _: KW_ONLY
    fit_intercept: bool | str = True
    task_weight: str = "sum"
    standardize: bool = False
    task: object = None

    def _bind(self, data: TaskData) -> Bound:
        """What is computed from the data once for all settings of ``_suggest``."""
        return bind_loss(self, data)

    @abstractmethod
    def _follow(self, bound: Bound, strengths: Sequence[float]) -> Iterable[Outcome]:
        """One fit per value of the followed setting, in their order."""

    @abstractmethod
    def _suggest(self, bound: Bound, n: int) -> list[Settings]:
        """At most ``n`` settings worth trying, the most regularised first."""

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        if not isinstance(data, TaskData):
            raise TypeError(f"{type(self).__name__} needs rows, got statistics.")
        prepared = self._prepare(data)
        self._fit_bound(self._bind(prepared.data), prepared)

    def _prepare(self, data: TaskData) -> Prepared:
        scale = np.ones(data.shape[0])
        if self.standardize:
            scale = pooled_scale(condense(data))
            data = data.rescale(scale)
        # "mean": the weights of each task sum to one.
        if check_choice("task_weight", self.task_weight, ("sum", "mean")) == "mean":
            share = data.weight / data.spread(data.task_weight)
            data = replace(data, weight=share)
        return Prepared(data, scale)

    def _fit_bound(self, bound: Bound, prepared: Prepared) -> None:
        strength = self.get_params(deep=False)[self.followed]
        (outcome,) = self._follow(bound, [strength])
        if outcome.shortfall is not None:
            message = f"not converged, {outcome.shortfall}"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        model = outcome.model.in_user_units(prepared.scale)
        if isinstance(model, LinearModel):
            self.coef_, self.intercept_ = model.coef, model.intercept
        self._model = model
        self.tasks_ = task_array(prepared.data.tasks)
        self.objective_ = outcome.objective
        self.n_iter_ = outcome.n_iter
        parts = {name: part / prepared.scale for name, part in outcome.parts.items()}
        self.__dict__.update(outcome.learned, **parts)

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return self._model.scores(X, i)


def crossed(
    outer: Iterable[Settings], name: str, strengths: Iterable[float]
) -> Iterator[Settings]:
    """Every outer setting with every strength, the strengths changing fastest."""
    values = [float(value) for value in strengths]
    return ({**part, name: value} for part in outer for value in values)


def principal_axes(X: Array) -> Array:
    """Orthonormal directions (d, r) in which rows (n, d) vary, at least one."""
    # By the smaller Gram matrix, then orthonormal to rounding.
    wide = X.shape[0] < X.shape[1]
    values, axes = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    kept = values > 1e-14 * len(values) * max(values[-1], 0.0)
    kept[-1] = True
    return np.linalg.qr(X.T @ axes[:, kept])[0] if wide else axes[:, kept]


# Convex methods.


def bind_loss(method: Baseline, data: TaskData) -> Fit:
    """Data fit of the method's loss, by Gram matrices where these are small.

    One product with small Gram matrices serves all tasks.
    """
    intercepts = FreeIntercepts() if method.fit_intercept else NoIntercepts()
    if method.loss == "logistic":
        return Logistic().bind(data, intercepts)
    d, m = data.shape
    small = m * d * d <= 2**20 and not issparse(data.X)  # 8 MB
    return Squared().bind(summarize_tasks(data) if small else data, intercepts)


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
    learned: Mapping[str, object] = MappingProxyType({}),
    parts: Mapping[str, Array] = MappingProxyType({}),
) -> Outcome:
    """Result with its certificate; ``coef`` (d, m): if not those of the solution."""
    P = solution.coef if coef is None else coef
    certificate, unit = solution.certificate, problem.null_objective
    solved = (
        certificate.gap <= tol * unit or solution.reason is solvers.StopReason.ROUNDING
    )
    shortfall = f"{solution.reason.value}: " + explain_gap(
        certificate.gap, tol, unit, solution.n_iter, "at zero"
    )
    return Outcome(
        LinearModel(np.ascontiguousarray(P.T), solution.intercept),
        certificate.primal,
        solution.n_iter,
        {"dual_gap_": certificate.gap, **learned},
        None if solved else shortfall,
        parts,
    )


def explain_gap(
    gap: float, tol: float, unit: float, n_iter: int, where: str = "reached"
) -> str:
    """Why a gap above ``tol`` times the objective reached, or at zero, is too large."""
    return (
        f"the duality gap is {gap:.3g}, above tol={tol:g} times {unit:.3g}, the "
        f"objective {where}, after {n_iter} iterations; raise max_iter or tol."
    )


# Rows that occur more than once, for methods whose cost depends on distinct rows.


class Distinct(NamedTuple):
    """Which rows are equal; kinds are in an order that depends on contents alone."""

    first: Index  # (u,) position of one row of each kind
    kind: Index  # (n,) kind of each row


def find_distinct(X: Matrix) -> Distinct:
    """Find equal rows by digests of their contents."""
    if issparse(X):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        rows = (X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends)
    else:
        # Adding zero makes −0 and 0 the same bytes.
        rows = ((row + 0.0).tobytes() for row in X)
    digests = [blake2b(row, digest_size=16).hexdigest() for row in rows]
    _, first, kind = np.unique(digests, return_index=True, return_inverse=True)
    return Distinct(first.astype(np.intp), kind.astype(np.intp))
