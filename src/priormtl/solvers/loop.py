"""The one loop of all solvers, its stopping rules and its records.

A method is ``start`` and ``step``. The loop (`iterate`, `solve`) runs steps, measures
time, calls back and asks the stopping rules, which see the run as `Progress`: state,
objective, and the certificate, computed once per step and only if a rule asks for it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import isfinite
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.problem import Certificate, Point, Problem

INEXACT_SHARE = 0.05  # of the gap at the start, at which an inner problem is left


class StopReason(Enum):
    """Why a solver stopped; the value is the sentence shown."""

    GAP = "the duality gap is below the tolerance"
    ROUNDING = "the duality gap is at the level of rounding errors"
    SMALL_CHANGE = "the objective hardly changes any more"
    STALLED = "rounding errors allow no further step"
    NO_PROGRESS = "the duality gap hardly shrinks any more"
    MAX_ITER = "the largest number of iterations was reached"
    MAX_SECONDS = "the time was used up"
    DIVERGED = "the objective grows beyond bounds"


class State(Protocol):
    """What a method remembers from step to step."""

    @property
    def point(self) -> Point:
        """Current iterate."""


class Method(Protocol):
    """A way to minimise: where to start, and how to take one step."""

    @property
    def check_every(self) -> int:
        """Steps from one check of the certificate to the next."""

    def start(self, problem: Problem, point: Point) -> State:
        """State before the first step."""

    def step(self, problem: Problem, state: Any) -> State:
        """State after one more step."""


@dataclass(frozen=True, eq=False)
class Progress:
    """State of a run, as stopping rules and callbacks see it."""

    problem: Problem
    state: Any  # what the method made of its point
    before: Any  # one step ago; None at the start
    n_iter: int
    seconds: float  # spent in steps only

    @cached_property
    def objective(self) -> float:
        return self.problem.objective(self.state.point)

    @cached_property
    def rise(self) -> float:
        """Change of the objective in the last step; minus infinity at the start."""
        if self.before is None:
            return -float("inf")
        return self.objective - self.problem.objective(self.before.point)

    @cached_property
    def certificate(self) -> Certificate:
        """Bound on the distance to the optimum but for rounding, computed once."""
        return self.problem.certify(self.state.point)

    @cached_property
    def rounded(self) -> Certificate:
        """The same with what rounding may hide."""
        return self.problem.certify_rounded(self.state.point, self.certificate)


@dataclass(frozen=True, eq=False)
class Solution:
    """Result of a run."""

    coef: Array  # P (d, m)
    intercept: Array  # (m,)
    certificate: Certificate
    n_iter: int
    seconds: float
    reason: StopReason
    point: Point  # where it ended; also a start for the same problem at another lam


StopRule = Callable[[Progress], StopReason | None]  # the reason to stop, if any
Callback = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class AtPoint:
    """State of what remembers nothing but its point."""

    point: Point


def iterate(
    problem: Problem, method: Method, coef: Array | Point | None = None
) -> Iterator[Progress]:
    """Run a method for ever, from ``coef`` or zero; the clock counts steps only."""
    begin = perf_counter()
    if coef is None:
        coef = problem.null_point
    if isinstance(coef, Point):
        point = coef
    else:  # estimates of other methods need not meet the constraints
        rows = problem.constraints
        point = problem.at(coef if rows is None else rows.project(coef))
    state, before = method.start(problem, point), None
    seconds = perf_counter() - begin
    n_iter = 0
    while True:
        yield Progress(problem, state, before, n_iter, seconds)
        begin = perf_counter()
        state, before = method.step(problem, state), state
        seconds += perf_counter() - begin
        n_iter += 1


def solve(
    problem: Problem,
    method: Method,
    *,
    coef: Array | Point | None = None,
    stop: Sequence[StopRule],
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Run a method until a rule stops it, from ``coef`` or zero.

    A Point of the same problem, lam aside, saves the evaluation at the start.
    """
    # A diverging run overflows before its rule sees it; the rule tells, not NumPy.
    with np.errstate(over="ignore", invalid="ignore"):
        for progress in iterate(problem, method, coef):
            for callback in callbacks:
                callback(progress)
            for rule in stop:
                if (reason := rule(progress)) is not None:
                    return _conclude(progress, reason)
    raise AssertionError("iterate never ends by itself")


def settle(
    problem: Problem,
    point: Point,
    stop: Sequence[StopRule],
    part: Solution | None = None,
) -> Solution | None:
    """Solution at a point that a rule accepts at once, before any method begins.

    ``part`` is the run on fewer features that led there, if there was one.
    """
    progress = Progress(problem, AtPoint(point), None, 0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        for rule in stop:
            if (reason := rule(progress)) is not None:
                solution = _conclude(progress, reason)
                if part is None:
                    return solution
                return replace(solution, n_iter=part.n_iter, seconds=part.seconds)
    return None


def _conclude(progress: Progress, reason: StopReason) -> Solution:
    if reason is StopReason.DIVERGED:
        # What was known before is better than where a run has gone astray.
        known = [AtPoint(progress.problem.null_point)]
        known += [] if progress.before is None else [progress.before]
        known.sort(key=lambda state: _or_infinity(progress.problem, state.point))
        progress = replace(progress, state=known[0], before=None)
    point = progress.state.point
    return Solution(
        point.coef,
        progress.problem.fit.intercept_at_zero(point.fit),
        progress.rounded,
        progress.n_iter,
        progress.seconds,
        reason,
        point,
    )


def _or_infinity(problem: Problem, point: Point) -> float:
    objective = problem.objective(point)
    return objective if isfinite(objective) else float("inf")


# Stopping rules: callable values, with small letters as they are used like functions.


@dataclass(frozen=True)
class gap_below:  # noqa: N801
    """Stop at gap ≤ tol · (objective at P = 0), checked every few steps."""

    tol: float
    every: int = 10

    def __call__(self, progress: Progress) -> StopReason | None:
        if progress.n_iter % self.every:
            return None
        problem, point = progress.problem, progress.state.point
        found, noise = progress.certificate.gap, problem.fit.noise
        limit = self.tol * problem.null_objective
        wide = found > max(limit, noise)
        if wide and not problem.is_nearly_smooth(point, limit):
            return None
        # Rounding is bounded only where it may decide.
        gap = progress.rounded.gap
        if gap <= limit:
            return StopReason.GAP
        # No step could show that it has gained anything.
        hidden = found <= progress.rounded.least_gap
        return StopReason.ROUNDING if gap <= noise or hidden else None


def _closes(progress: Progress, tol: float | None) -> bool:
    """Whether a closer look at the certificate finds the gap below a tolerance."""
    if tol is None:
        return False
    problem, found = progress.problem, progress.rounded
    found = problem.certify_closely(progress.state.point, found)
    progress.__dict__["rounded"] = found
    return found.gap <= tol * problem.null_objective


@dataclass(frozen=True)
class stalled:  # noqa: N801
    """Stop when a step has changed nothing, to the bit.

    With ``tol`` the certificate is then looked at more closely.
    """

    tol: float | None = None

    def __call__(self, progress: Progress) -> StopReason | None:
        if progress.before is None:
            return None
        here, there = progress.state.point.coef, progress.before.point.coef
        if not np.array_equal(here, there):
            return None
        return StopReason.GAP if _closes(progress, self.tol) else StopReason.STALLED


@dataclass
class no_progress:  # noqa: N801
    """Stop when the smallest gap has not halved for so many checks.

    For methods whose every step should shrink it: what is left is badly conditioned.
    With ``tol`` the certificate is looked at more closely after a few, and a run goes
    on whose objective or slope still falls: gaps follow only when the slope is near
    lam. A rule keeps count, so that every run needs its own.
    """

    checks: int
    tol: float | None = None
    every: int = 1  # steps from one check to the next
    best: float = float("inf")
    since: int = 0
    objective: float = float("inf")  # when the count began
    slope: float = 0.0
    extensions: int = 1  # how often a run whose slope falls may go on

    def __call__(self, progress: Progress) -> StopReason | None:
        if progress.n_iter % self.every:
            return None
        gap = progress.certificate.gap
        if gap < 0.5 * self.best:
            self.best, self.since = gap, 0
            return None
        self.since += 1
        ends = self.since >= self.checks
        # After three checks without progress the certificate is looked at closely, or
        # after six where Newton steps still promise some.
        few = 6 if progress.problem.is_far(progress.state.point) else 3
        if (ends or self.since == few) and _closes(progress, self.tol):
            return StopReason.GAP
        if self.tol is None or not (ends or self.since == 1):
            return StopReason.NO_PROGRESS if ends else None
        problem, point = progress.problem, progress.state.point
        # Beyond lam; at an optimum nothing is.
        slope = problem.penalty.dual_norm(point.gradient) - problem.lam
        objective = progress.objective
        falls = self.objective - objective > 0.1 * gap or slope < 0.5 * self.slope
        if ends and not (falls and self.extensions):
            return StopReason.NO_PROGRESS
        self.extensions -= ends
        self.objective, self.slope = objective, max(slope, 0.0)
        self.since = 1
        return None


@dataclass(frozen=True)
class max_iter:  # noqa: N801
    """Stop after ``n`` steps."""

    n: int

    def __call__(self, progress: Progress) -> StopReason | None:
        return StopReason.MAX_ITER if progress.n_iter >= self.n else None


@dataclass(frozen=True)
class max_seconds:  # noqa: N801
    """Stop when the steps have taken this long."""

    seconds: float

    def __call__(self, progress: Progress) -> StopReason | None:
        return StopReason.MAX_SECONDS if progress.seconds >= self.seconds else None


@dataclass(frozen=True)
class diverged:  # noqa: N801
    """Stop when the objective exceeds ``factor`` times that at P = 0.

    Checked every few steps, where objectives are expensive.
    """

    factor: float = 10.0
    every: int = 1

    def __call__(self, progress: Progress) -> StopReason | None:
        if progress.n_iter % self.every:
            return None
        if not isfinite(progress.objective):
            return StopReason.DIVERGED
        # A warm start may begin above the limit, and come down from there.
        null = progress.problem.null_point
        above = progress.objective > self.factor * null.value
        return StopReason.DIVERGED if above and progress.rise > 0 else None


# A callback that records a run.


class Row(NamedTuple):
    """One iteration of a run."""

    n_iter: int
    seconds: float
    objective: float
    gap: float | None  # None if History was told not to compute gaps


@dataclass
class History:
    """Record objective, gap and time of every few iterations.

    Parameters
    ----------
    every : int
        Number of iterations from one row to the next.
    gaps : bool
        Whether to compute the duality gap for each row.

    Examples
    --------
    >>> history = History(every=5)  # then solve(..., callbacks=[history])
    >>> history.rows
    []
    """

    every: int = 1
    gaps: bool = True
    rows: list[Row] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        if progress.n_iter % self.every == 0:
            gap = progress.certificate.gap if self.gaps else None
            row = Row(progress.n_iter, progress.seconds, progress.objective, gap)
            self.rows.append(row)


# Problems inside methods.


def solve_inexactly(problem: Problem, method: Method, coef: Array) -> Solution:
    """Close all but a small share of the gap at ``coef``: an outer method goes on."""
    point = problem.at(coef)
    gap = problem.certify_rounded(point, problem.certify(point)).gap
    unit = problem.null_objective
    tol = INEXACT_SHARE * gap / unit if unit > 0 else 0.0
    most = 1000 if method.check_every > 1 else 50
    rules: list[StopRule] = [gap_below(tol, method.check_every), stalled()]
    # The outer method's next model may be easier than the rest of this one.
    idle = 5 if method.check_every == 1 else 20
    rules.append(no_progress(idle, every=method.check_every))
    rules.append(max_iter(most))
    return solve(problem, method, coef=point, stop=rules)
