"""Solver: how problems are solved, as a value: method, tolerance, limits."""

from dataclasses import dataclass, replace
from typing import Self

from priormtl._arrays import Array
from priormtl._numerics import HIDDEN
from priormtl.checks import check_choice, check_count, check_tolerance
from priormtl.problem import Certificate, Point, Problem
from priormtl.solvers.choose import METHODS, method_by_name
from priormtl.solvers.loop import (
    Method,
    Solution,
    StopRule,
    diverged,
    gap_below,
    max_iter,
    no_progress,
    solve,
    stalled,
)
from priormtl.solvers.newton import ProximalNewton
from priormtl.solvers.path import solve_path

SOLVERS = ("auto", *METHODS)


@dataclass(frozen=True)
class Solver:
    """Method, tolerance and limit of iterations."""

    method: str = "auto"
    tol: float = 1e-6
    max_iter: int = 10_000

    def __post_init__(self) -> None:
        check_choice("solver", self.method, SOLVERS)
        check_tolerance(self.tol)
        check_count("max_iter", self.max_iter)

    def choose(self, problem: Problem) -> Method:
        return method_by_name(self.method, problem)

    def rules(self, method: Method) -> list[StopRule]:
        """When to stop; new for each run, because some rules have a memory."""
        gap = gap_below(self.tol, method.check_every)
        rules: list[StopRule] = [
            gap,
            stalled(self.tol),
            diverged(),
            max_iter(self.max_iter),
        ]
        if method.check_every == 1:
            solves = isinstance(method, ProximalNewton)
            # Fewer checks where each step solves a problem of its own.
            idle = 10 if solves else 30
            rules.insert(3, no_progress(idle, self.tol))
        return rules

    def rough(self) -> Self:
        """Solver of models that are there to be scored.

        They may start at the optimum of all rows, which knows those held out: what is
        left of that must be far below the differences between scores.
        """
        return replace(self, tol=max(self.tol, 1e-5))

    def solve(self, problem: Problem, coef: Array | Point | None = None) -> Solution:
        method = self.choose(problem)
        return solve(problem, method, coef=coef, stop=self.rules(method))

    def path(self, problem: Problem, lams: Array) -> list[Solution]:
        """Solve for each lam, in this order, each from the last solution."""
        return solve_path(problem, lams, choose=self.choose, rules=self.rules)

    def accepts(self, problem: Problem, certificate: Certificate) -> bool:
        """Whether a gap is within the tolerance, or as small as rounding allows.

        Tolerances that rounding errors put out of reach count as met once these hide
        what is left, as long as that is next to nothing. (Targets of the prior may
        make objectives far larger than the unit of tolerances.)
        """
        unit = problem.null_objective
        most = 2.0 * HIDDEN * max(unit, certificate.primal)
        hidden = certificate.gap <= 2.0 * certificate.least_gap <= most
        return hidden or certificate.gap <= max(self.tol * unit, problem.fit.noise)
