"""MTFL: learn which groups of tasks share a feature space; our reconstruction.

After P. Jawanpuria, J. S. Nath: A Convex Feature Learning Formulation for Latent Task
Structure Discovery. ICML 2012. The paper's ideas are kept: a convex problem over all
groups of tasks, kernels with zero blocks outside a group, tasks of a group shrunk to
their mean, and a norm on the lattice of groups under which a group without a feature
space leaves none to its supersets. Exponents, weights and loss are reconstructed from
the abstract and related work: results must be called "MTFL, reconstructed".

½ Ω² (see :class:`MTFL`) is the minimum of ½ Σ Θ_jg² / κ_jg over weights κ in a convex
set. So two steps alternate: a ridge regression with kernels B_j = Σ_g κ_jg M_g⁻¹
between tasks, M_g⁻¹ = I + (1/μ − 1) 11ᵀ/|g| on the tasks of g, and the best κ in closed
form.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from priormtl import checks
from priormtl._arrays import Array
from priormtl.baselines import base, lattice
from priormtl.baselines.coupling import Ridge, Rotated, solve_ridge
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks

MOST_TASKS = 10  # of which all groups are tried
LEAST_GAP = 1e-13  # of the objective at zero: gaps below are rounding


class LatticePoint(NamedTuple):
    """Coefficients at given weights, and how good they are."""

    weights: Array  # κ (k, g)
    ridge: Ridge
    lengths: Array  # Θ (k, g)
    objective: float
    dual: float  # best lower bound so far

    @property
    def gap(self) -> float:
        return max(0.0, self.objective - self.dual)


@dataclass(frozen=True, eq=False)
class LatticeProblem:
    """Minimise ½ Ω² + C/2 Σ ‖X_i w_i − y_i‖²."""

    rotated: Rotated
    norm: lattice.LatticeNorm
    C: float

    @property
    def unit(self) -> float:
        """Objective at zero."""
        return 0.5 * self.C * self.rotated.constant

    def at(self, weights: Array, last: LatticePoint | None) -> LatticePoint:
        """Solve the ridge regression of these weights, as exactly as the gap needs."""
        rotated, norm = self.rotated, self.norm
        inner, share, dual = np.zeros_like(rotated.linear), 1e-2, 0.0
        if last is not None:
            inner, dual = last.ridge.inner, last.dual
            share = min(share, last.gap / last.objective if last.objective > 0 else 0.0)
        accuracy = max(1e-2 * share**2, 1e-26) * self.unit
        ridge = solve_ridge(rotated, self.C, norm.kernels(weights), inner, accuracy)
        # U_jg = κ_jg M_g⁻¹ H_j at the optimum, so that Θ_jg = κ_jg ‖H_j‖_g.
        lengths = weights * norm.dual_lengths(ridge.inner, rotated.blocks)
        objective = ridge.loss + 0.5 * norm.levels(lengths).total ** 2
        # max over s of s ⟨y, α⟩ − s² (‖α‖²/(2C) + ½ Ω°(Xᵀα)²), in closed form.
        slopes = norm.dual_lengths(ridge.correlation, rotated.blocks)
        height = 2.0 * ridge.loss + norm.dual_bound(slopes, lengths) ** 2
        if height > 0:
            dual = max(dual, 0.5 * ridge.target_product**2 / height)
        return LatticePoint(weights, ridge, lengths, objective, dual)

    def is_solved(self, point: LatticePoint, tol: float) -> bool:
        return point.gap <= max(tol * point.objective, LEAST_GAP * self.unit)

    def solve(
        self, last: LatticePoint | None, tol: float, most: int
    ) -> tuple[LatticePoint, int]:
        """Reweight until the gap is below tol, from another solution if any."""
        norm = self.norm
        weights = norm.weights(np.zeros((len(self.rotated.blocks), len(norm.groups))))
        if last is not None:
            weights = 0.9 * last.weights + 0.1 * weights
        point = self.at(weights, last and last._replace(dual=0.0, objective=self.unit))
        n_iter, stretch = 1, 1.0
        while n_iter < most and not self.is_solved(point, tol):
            n_iter += 1
            # Weights are bounded below so that unused groups can return.
            share = 0.1 * point.gap / point.objective / len(norm.groups)
            plain = norm.weights(point.lengths, float(np.clip(share, 1e-14, 1e-6)))
            # Longer steps in log κ while they lower the objective (Salakhutdinov and
            # Roweis: Adaptive Overrelaxed Bound Optimization Methods. ICML 2003).
            ratio = np.clip(plain / point.weights, 0.1, 10.0) ** (stretch - 1.0)
            tried = self.at(plain * ratio, point)
            worse = tried.objective > (1.0 + LEAST_GAP) * point.objective
            if worse and stretch > 1.0:
                stretch, point = 1.0, point._replace(dual=tried.dual)
                continue
            point, stretch = tried, 1.2 * stretch
        return point, n_iter


class _Bound(NamedTuple):
    rotated: Rotated
    tasks: tuple[Hashable, ...]
    groups: list[lattice.Group]
    choice: str


@dataclass(eq=False, repr=False)
class _MTFL(base.Baseline):
    followed = "C"

    C: float = 1.0
    _: KW_ONLY
    mean_share: float = 0.1
    growth: float = 1.5
    p: float = 1.5
    q: float = 1.5
    blocks: Sequence[Sequence[object]] | None = None
    groups: object = "auto"
    tol: float = 1e-6
    max_iter: int = 1000

    def _bind(self, data: TaskData) -> _Bound:
        d, m = data.shape
        listed = [range(d)] if self.blocks is None else self.blocks
        places: dict[object, int] = {j: j for j in range(d)}
        places |= {name: j for j, name in enumerate(data.features or ())}
        blocks = [[places.get(entry, -1) for entry in block] for block in listed]
        if sorted(chain(*blocks)) != list(range(d)) or not all(blocks):
            raise ValueError(
                f"blocks must hold each of the {d} features exactly once, by position "
                f"or name, and none may be empty: got {self.blocks!r}."
            )
        indices = [np.array(block, dtype=np.intp) for block in blocks]
        rotated = Rotated.of(data, indices, intercept=bool(self.fit_intercept))
        choice = self.groups
        if not isinstance(choice, str):
            given = lattice.named_groups(choice, data.tasks)
            return _Bound(rotated, data.tasks, given, "given")
        checks.check_choice("groups", choice, ("auto", "all", "tree"))
        if choice == "auto":
            choice = "all" if m <= MOST_TASKS else "tree"
        groups: list[lattice.Group] = [(i,) for i in range(m)]
        if choice == "all":
            if m > MOST_TASKS:
                raise ValueError(
                    f'groups="all" needs at most {MOST_TASKS} tasks: got {m}. Use '
                    '"tree" or a list of groups.'
                )
            groups = lattice.check_groups(
                chain(*(combinations(range(m), size) for size in range(1, m + 1)))
            )
        elif choice == "tree":
            # Single-task ridge regressions, at the mean curvature.
            coef, strength = np.zeros_like(rotated.linear), float(rotated.mean.mean())
            if strength > 0.0:
                alone = np.tile(np.eye(m), (len(blocks), 1, 1))
                accuracy = 1e-12 * rotated.constant / strength
                coef = solve_ridge(rotated, 1.0 / strength, alone, coef, accuracy).coef
            groups = lattice.tree_groups(coef)
        return _Bound(rotated, data.tasks, groups, choice)

    def _norm(
        self, bound: _Bound, mean_share: float, growth: float
    ) -> lattice.LatticeNorm:
        powers = checks.check_strength("p", self.p), checks.check_strength("q", self.q)
        for name, power in zip("pq", powers, strict=True):
            # Below, weights lose their closed form.
            if not 1.05 <= power <= 2.0:
                raise ValueError(f"{name} must be between 1.05 and 2: got {power!r}.")
        return lattice.LatticeNorm(
            bound.groups, len(bound.tasks), mean_share, growth, *powers
        )

    def _follow(
        self, bound: _Bound, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        mean_share = checks.check_positive("mean_share", self.mean_share)
        if mean_share > 1.0:
            raise ValueError(f"mean_share must be at most 1: got {self.mean_share!r}.")
        growth = checks.check_positive("growth", self.growth)
        norm = self._norm(bound, mean_share, growth)
        tol = checks.check_tolerance(self.tol)
        most = checks.check_count("max_iter", self.max_iter)
        point, fit = None, bound.rotated.fit
        for C in strengths:
            problem = LatticeProblem(bound.rotated, norm, checks.check_positive("C", C))
            point, n_iter = problem.solve(point, tol, most)
            group, _, total = problem.norm.levels(point.lengths)
            used = group > 1e-5 * total * problem.norm.start
            learned = {
                "dual_gap_": point.gap,
                "groups_": [
                    tuple(bound.tasks[i] for i in g) for g in problem.norm.groups
                ],
                "group_weights_": np.where(used, group, 0.0),
                "group_choice_": bound.choice,
            }
            shortfall = None
            if not problem.is_solved(point, tol):
                shortfall = base.explain_gap(point.gap, tol, point.objective, n_iter)
            W = np.ascontiguousarray(point.ridge.coef.T)
            coef = np.ascontiguousarray(bound.rotated.to_features(W.T))
            model = base.LinearModel(coef, fit.intercept_at_zero(fit.evaluate(W)))
            yield base.Outcome(model, point.objective, n_iter, learned, shortfall)

    def _suggest(self, bound: _Bound, n: int) -> list[base.Settings]:
        # mean_share and growth, from cheap groups to single tasks.
        pairs = [(mu, a) for a in (1.0, 1.5, 2.0) for mu in (0.1, 0.01)]
        pairs += [(1.0, a) for a in (1.0, 1.5, 2.0)]
        n_pairs = int(np.clip(n // 5, 1, len(pairs)))
        count, rotated = n // n_pairs, bound.rotated
        # Centres of equal parts of five decades, in logarithms.
        grid = 10.0 ** (-2.0 + 5.0 * (np.arange(count) + 0.5) / count)
        settings: list[base.Settings] = []
        for mean_share, growth in pairs[:n_pairs]:
            norm = self._norm(bound, mean_share, growth)
            # ‖y‖² / Ω°(Xᵀy)²: there the best multiple of y as a dual point is a half.
            lengths = norm.dual_lengths(rotated.linear, rotated.blocks)
            bottom = norm.dual_bound(lengths, np.zeros_like(lengths)) ** 2
            unit = rotated.constant / bottom if bottom > 0 else 1.0
            outer = {"mean_share": mean_share, "growth": growth}
            settings += base.crossed([outer], "C", unit * grid)
        return settings


class MTFL(RegressionTasks, _MTFL):
    """Regression that learns which groups of tasks share coefficients.

    This is our reconstruction of the method of Jawanpuria and Nath (2012): exponents,
    weights and loss are ours. Every group of tasks g has coefficients U_jg on each
    block j of features; the coefficients of a task are the sum over its groups. The
    method minimises over U and intercepts b::

        1/2 Ω(U)² + C/2 Σ w (x p_i + b_i − y)²

        Θ_jg² = mean_share |g| ‖mean of U_jg‖² + Σ_i∈g ‖u_i − mean‖²
        Q_g = (Σ_j Θ_jg^p)^(1/p),   N_v = (Σ_g⊇v Q_g^q)^(1/q)
        Ω = Σ_v growth^(|v| − 1) N_v

    which is convex. If a group of tasks shares nothing (N_v = 0), no group that
    contains it shares anything. The norm sums over all tasks before it is squared, so
    the best C grows with the number of tasks, and tasks compete for the norm.

    Parameters
    ----------
    C : float, default=1.0
        Strength of the loss, above 0; larger values regularise less.
    mean_share : float, default=0.1
        Weight of the mean of a group in its norm (μ), in (0, 1]. At 1, tasks are not
        shrunk towards the mean of their group.
    growth : float, default=1.5
        Factor by which each further task makes a group more expensive (a), above 0.
        With large values only single tasks are used.
    p, q : float, default=1.5
        Exponents over blocks, and over groups that contain a group, from 1.05 to 2. At
        q = 2 no group vanishes.
    blocks : list of lists of features, optional
        Positions or names; each feature belongs to one block. None: one block.
    groups : {"auto", "all", "tree"} or list of lists of task labels
        Candidate groups. "all": every subset, for up to 10 tasks. "tree": the nodes of
        an average-linkage tree of single-task ridge regressions. "auto": "all" for up
        to 10 tasks, else "tree".
    tol, max_iter : float, default=1e-6; int, default=1000
        Largest duality gap, relative to the objective, and number of iterations.
    fit_intercept, task_weight, standardize, task
        See :class:`DMTL`.

    Attributes
    ----------
    groups_, group_choice_ : list of tuples of task labels, str
        The candidate groups, small ones first, and how they were chosen.
    group_weights_ : (g,) array
        Q_g of each group; 0 below a share of 1e-5 of the norm.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_
        See :class:`DMTL`.

    Examples
    --------
    >>> import numpy as np
    >>> from priormtl.baselines import MTFL
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((30, 4)), np.repeat(["a", "b", "c"], 10)
    >>> direction = np.where(task == "c", -1.0, 1.0)
    >>> y = direction * (X @ [2.0, -1.0, 1.0, 0.5])
    >>> model = MTFL(mean_share=0.05, growth=0.7).fit(X, y, task=task)
    >>> used = model.group_weights_ > 0.01
    >>> [group for group, keep in zip(model.groups_, used) if keep]
    [('a',), ('b',), ('c',), ('a', 'b')]
    """

    loss = "squared"


class MTFLClassifier(ClassificationTasks, _MTFL):
    """:class:`MTFL` on classes coded −1 and +1: squared loss, no probabilities."""

    loss = "squared"
