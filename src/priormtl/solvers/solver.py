"""Solver: how problems are solved, as a value: method, tolerance, limits.

The method that "auto" stands for is decided here and nowhere else (`default_method`).

Paths go from large lam to small, each fit warm-started by the last. Features that
cannot be identified from the data are left out of the path, and each fit begins with
the features that the strong rule keeps (Tibshirani et al., "Strong rules for discarding
predictors in lasso-type problems", JRSS B 74, 2012). What these leave out wrongly shows
in the gap of the whole problem, and is put right there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._machine import free_bytes
from priormtl._numerics import HIDDEN, VANISHING
from priormtl.checks import check_choice, check_count, check_tolerance
from priormtl.penalties import Columns, Dirty, Nuclear, Robust, RowSeparable
from priormtl.problem import Certificate, Point, Problem
from priormtl.solvers.block_newton import BlockNewton
from priormtl.solvers.blocks import BlockQuadratic
from priormtl.solvers.first_order import Fista, Gd, Ista, IstaReverse, Linear
from priormtl.solvers.loop import (
    Method,
    Solution,
    StopReason,
    StopRule,
    diverged,
    gap_below,
    max_iter,
    no_progress,
    settle,
    solve,
    stalled,
)
from priormtl.solvers.newton import Newton, ProximalNewton
from priormtl.solvers.nuclear import NuclearNewton, NuclearSplitting
from priormtl.solvers.splitting import Splitting
from priormtl.solvers.working_set import WorkingSet

SMALL_GRAM_NUMBERS = 2**22  # 32 MB: always there is memory for these
FEW_GRAM_NUMBERS = 2**20  # 8 MB: always worth it

Choose = Callable[[Problem], Method]
Rules = Callable[[Method], Sequence[StopRule]]

METHODS: dict[str, Callable[[], Method]] = {
    "gd": Gd,
    "ista": Ista,
    "ista-reverse": IstaReverse,
    "fista": Fista,
    "linear": Linear,
}
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
        """Method of this name; "auto" picks one for the problem."""
        if self.method == "auto":
            return default_method(problem)
        if not problem.fit.has_lipschitz_gradient:
            raise ValueError(
                f'solver must be "auto" with this loss: got {self.method!r}, which '
                "needs a Lipschitz constant of its gradient."
            )
        return METHODS[self.method]()

    def rules(self, method: Method) -> list[StopRule]:
        """When to stop; new for each run, because some rules have a memory."""
        rules: list[StopRule] = [
            gap_below(self.tol, method.check_every),
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


# Which method suits a problem.


def default_method(problem: Problem) -> Method:
    """Newton's method in the form that fits the problem, else FISTA with restart.

    No penalty: plain Newton. Penalty of rows: block Newton on Gram matrices or samples,
    for many features, or statistics too large to hold, inside a working set. Nuclear
    norm: Newton along matrices of one rank, on Gram matrices, after ADMM where these
    are small. Norms of dirty, robust or separate tasks: splitting.
    Losses that are not squared: these inside proximal Newton. Gram matrices too large
    to hold, and nuclear norms of very many features: FISTA, where the gradient has a
    Lipschitz constant.
    """
    held = problem.constraints is not None and problem.constraints.signs.any()
    if problem.lam == 0 and not held:
        return Newton()
    by_rows = isinstance(problem.penalty, RowSeparable)
    on_device = problem.fit.is_on_device and problem.constraints is None
    if on_device and BlockQuadratic.fits(problem):
        # PyTorch takes long to load: only those who need it should wait.
        from priormtl.solvers.device import DeviceNewton  # noqa: PLC0415

        return DeviceNewton()
    size, rows = problem.fit.normal_size, problem.fit.rows_per_task
    # Gram matrices are all there is, and only parts of them can be held.
    too_large = size is not None and rows is None and not _is_room_for(problem, size)
    if by_rows and too_large:
        return WorkingSet(_method_for_all_rows, whole=1.0)
    # Up to here a working set gains nothing.
    if by_rows and problem.fit.shape[0] > 256:
        return WorkingSet(_method_for_all_rows)
    return _method_for_all_rows(problem)


def _method_for_all_rows(problem: Problem) -> Method:
    if not problem.fit.has_lipschitz_gradient:
        return ProximalNewton(default_method)
    if isinstance(problem.penalty, Nuclear):
        return _method_for_nuclear_norm(problem)
    if isinstance(problem.penalty, Dirty | Robust | Columns):
        return _method_for_parts(problem)
    if not problem.fit.is_quadratic:
        return ProximalNewton(default_method)
    pays = BlockQuadratic.keeps_samples(problem) or _gram_pays(problem)
    if BlockQuadratic.fits(problem) and pays:
        return BlockNewton()
    return Fista(restart=True)


def _method_for_nuclear_norm(problem: Problem) -> Method:
    # Features whose modes cost less than the steps they save.
    few = problem.shape[0] <= 256
    if not (few and NuclearNewton.fits(problem) and _gram_pays(problem)):
        return Fista(restart=True)
    if not problem.fit.is_quadratic:
        return ProximalNewton(default_method)
    d, m = problem.shape
    # Axes of so few features are found in less time than Newton steps take.
    small = d <= 64 and m * d * d <= FEW_GRAM_NUMBERS
    if small and NuclearSplitting.fits(problem):
        return NuclearSplitting()
    return NuclearNewton()


def _method_for_parts(problem: Problem) -> Method:
    d, m = problem.shape
    most_mode_numbers = 2**22  # 32 MB: beyond, modes cost more than the steps they save
    if not problem.fit.is_quadratic:
        few = m * d * min(d, problem.fit.size // d) <= most_mode_numbers
        return ProximalNewton(default_method) if few else Fista(restart=True)
    size = problem.fit.shifted_size
    few = size is not None and size <= most_mode_numbers
    return Splitting() if few and Splitting.fits(problem) else Fista(restart=True)


def _gram_pays(problem: Problem) -> bool:
    """Whether Gram matrices are not much larger than what they are made of."""
    d, m = problem.fit.shape
    # Models of other losses weigh every task's samples in their own way.
    size = problem.fit.normal_size or m * d * d
    share = max(FEW_GRAM_NUMBERS, problem.fit.size)
    return size <= share and _is_room_for(problem, size)


def _is_room_for(problem: Problem, size: int) -> bool:
    """Whether Gram matrices of so many numbers can be laid out in memory.

    Statistics on disk have a limit of their own, above which they stay there.
    """
    most = problem.fit.most_held
    if most is not None and size > most:
        return False
    # 12 bytes per number: a layout of their own, and what works on it.
    return size <= SMALL_GRAM_NUMBERS or 12 * size <= free_bytes()


# Regularisation paths.


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
