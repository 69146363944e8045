"""The one loop: every method is ``start`` and ``step``, all else happens here."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.problem import Certificate, Point, Problem

__all__ = [
    "Callback",
    "Method",
    "Progress",
    "Solution",
    "State",
    "StopReason",
    "StopRule",
    "iterate",
    "settle",
    "solve",
]


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
        """Where it stands."""


S = TypeVar("S", bound=State)


class Method(Protocol[S]):
    """A way to minimise: where to start, and how to take one step."""

    @property
    def look_every(self) -> int:
        """Steps after which a look at the certificate is worth its price."""

    def start(self, problem: Problem, point: Point) -> S:
        """State before the first step."""

    def step(self, problem: Problem, state: S) -> S:
        """State after one more step."""


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a run has come."""

    problem: Problem
    state: Any
    before: Any  # state one step ago; None at the start
    n_iter: int
    seconds: float  # spent in steps only

    @cached_property
    def objective(self) -> float:
        """Objective where the method stands."""
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
    """What a run ended with."""

    coef: Array  # P (d, m)
    intercept: Array  # (m,)
    certificate: Certificate
    n_iter: int
    seconds: float
    reason: StopReason
    point: Point  # where it ended; also a start for the same problem at another lam


StopRule = Callable[[Progress], StopReason | None]
Callback = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class Start:
    """Where a run stands before any method has begun."""

    point: Point


def iterate(
    problem: Problem, method: Method[S], coef: Array | Point | None = None
) -> Iterator[Progress]:
    """Run a method for ever, from ``coef`` or zero; the clock counts steps only."""
    begin = perf_counter()
    state, before = method.start(problem, _origin(problem, coef)), None
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
    method: Method[S],
    *,
    coef: Array | Point | None = None,
    stop: Sequence[StopRule],
    callbacks: Sequence[Callback] = (),
) -> Solution:
    """Run a method until a rule stops it, from ``coef`` or zero.

    A Point of the same problem, lam aside, spares the look at the start.
    """
    # A diverging run overflows before its rule sees it; the rule tells, not NumPy.
    with np.errstate(over="ignore", invalid="ignore"):
        for progress in iterate(problem, method, coef):
            for callback in callbacks:
                callback(progress)
            reason = _first_reason(progress, stop)
            if reason is not None:
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
    progress = Progress(problem, Start(point), None, 0, 0.0)
    reason = _first_reason(progress, stop)
    if reason is None:
        return None
    solution = _conclude(progress, reason)
    if part is None:
        return solution
    return replace(solution, n_iter=part.n_iter, seconds=part.seconds)


def _origin(problem: Problem, coef: Array | Point | None) -> Point:
    if coef is None:
        return problem.null_point
    return coef if isinstance(coef, Point) else problem.at(coef)


def _first_reason(progress: Progress, stop: Sequence[StopRule]) -> StopReason | None:
    return next(filter(None, (rule(progress) for rule in stop)), None)


def _conclude(progress: Progress, reason: StopReason) -> Solution:
    point = progress.state.point
    return Solution(
        point.coef,
        progress.problem.fit.intercept_at_zero(point.coef),
        progress.rounded,
        progress.n_iter,
        progress.seconds,
        reason,
        point,
    )
