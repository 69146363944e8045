"""MTFL: learn which groups of tasks share a feature space; our reconstruction.

After P. Jawanpuria, J. S. Nath: A Convex Feature Learning Formulation for Latent Task
Structure Discovery. ICML 2012.

The paper's ideas are kept: a convex problem over all groups of tasks, kernels with zero
blocks outside a group, tasks of a group shrunk towards their mean, and a norm on the
lattice of groups (``lattice``) under which a group without a feature space leaves none
to its supersets. Exponents, weights and loss are reconstructed from the abstract and
the authors' related work: results must be called "MTFL, reconstructed". The problem is
solved by reweighted ridge regressions (``reweighting``).
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Index
from priormtl.baselines.base import Baseline, LinearModel, Outcome, Settings, crossed
from priormtl.baselines.mtfl import lattice
from priormtl.baselines.mtfl.reweighting import (
    LatticePoint,
    LatticeProblem,
    TaskCurvature,
    grow_groups,
    reweight,
    rotate_fit,
    solve_ridge,
)
from priormtl.checks import (
    check_choice,
    check_count,
    check_positive,
    check_strength,
    check_tolerance,
)
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit

GROUPS = ("auto", "all", "tree", "active")
LEAST_POWER = 1.05  # below, weights lose their closed form
NEGLIGIBLE = 1e-5  # share of the norm below which a group counts as unused

STRENGTHS = (1e-2, 1e3)  # range of C to try, relative to natural_strength
# Pairs of mean_share and growth to try, from cheap groups to single tasks.
PAIRS = (
    (0.1, 1.0),
    (0.01, 1.0),
    (0.1, 1.5),
    (0.01, 1.5),
    (0.1, 2.0),
    (0.01, 2.0),
    (1.0, 1.0),
    (1.0, 1.5),
    (1.0, 2.0),
)


def read_blocks(blocks: Any, data: TaskData) -> list[Index]:
    """Positions of the features of each block; one block by default."""
    d = data.shape[0]
    if blocks is None:
        return [np.arange(d)]
    names: dict[Any, int] = {name: j for j, name in enumerate(data.features or ())}
    places: dict[Any, int] = {j: j for j in range(d)} | names
    found = [[places.get(entry, -1) for entry in block] for block in blocks]
    if sorted(chain(*found)) != list(range(d)) or not all(found):
        raise ValueError(
            f"blocks must hold each of the {d} features exactly once, by position or "
            f"name, and none may be empty: got {blocks!r}."
        )
    return [np.array(block, dtype=np.intp) for block in found]


def choose_groups(
    groups: Any, tasks: tuple[Hashable, ...], curvature: TaskCurvature
) -> tuple[str, lattice.TaskGroups]:
    """How groups are chosen, and the first groups."""
    if not isinstance(groups, str):
        return "given", lattice.named_groups(groups, tasks)
    m, choice = len(tasks), check_choice("groups", groups, GROUPS)
    if choice == "auto":
        choice = "all" if m <= lattice.MOST_TASKS_OF_ALL else "tree"
    if choice == "all":
        return choice, lattice.all_groups(m)
    if choice == "active":
        return choice, lattice.single_groups(m)
    # The tree is that of single-task ridge regressions, at the mean curvature.
    strength = float(curvature.mean.mean())
    coef = np.zeros_like(curvature.linear)
    if strength > 0.0:
        C = 1.0 / strength
        alone = np.tile(np.eye(m), (len(curvature.blocks), 1, 1))
        accuracy = 1e-12 * C * curvature.constant
        coef = solve_ridge(
            curvature, C, alone, coef, accuracy=accuracy, max_iter=200
        ).coef
    return choice, lattice.tree_groups(coef)


def natural_strength(curvature: TaskCurvature, norm: lattice.LatticeNorm) -> float:
    """‖y‖² / Ω°(Xᵀy)²: a unit of C that knows the scale of X and the cost of groups.

    At this C the best multiple of the targets as a dual point is a half.
    """
    shape = len(curvature.blocks), len(norm.groups)
    squares = norm.dual_squares(curvature.linear, curvature.blocks)
    bound = norm.dual_bound(np.sqrt(squares), np.zeros(shape))
    return curvature.constant / bound**2 if bound > 0 else 1.0


class _Bound(NamedTuple):
    fit: SquaredFit
    curvature: TaskCurvature
    groups: lattice.TaskGroups
    choice: str


@dataclass(eq=False, repr=False)
class _MTFL(Baseline):
    followed = "C"

    C: float = 1.0
    _: KW_ONLY
    mean_share: float = 0.1
    growth: float = 1.5
    p: float = 1.5
    q: float = 1.5
    blocks: Any = None
    groups: Any = "auto"
    tol: float = 1e-6
    max_iter: int = 1000

    def _bind(self, data: TaskData) -> _Bound:
        intercepts = FreeIntercepts() if self.fit_intercept else NoIntercepts()
        fit = Squared().bind(data, intercepts)
        curvature = rotate_fit(fit, read_blocks(self.blocks, data))
        choice, groups = choose_groups(self.groups, data.tasks, curvature)
        return _Bound(fit, curvature, groups, choice)

    def _follow(self, bound: _Bound, strengths: Sequence[float]) -> Iterator[Outcome]:
        last = None
        mean_share = check_positive("mean_share", self.mean_share)
        if mean_share > 1.0:
            raise ValueError(f"mean_share must be at most 1: got {self.mean_share!r}.")
        norm = lattice.LatticeNorm(
            bound.groups,
            mean_share,
            check_positive("growth", self.growth),
            _check_power("p", self.p),
            _check_power("q", self.q),
        )
        for value in strengths:
            problem = LatticeProblem(bound.curvature, norm, check_positive("C", value))
            if bound.choice == "active":
                yield self._describe(bound, *grow_groups(problem, self._solve))
                continue
            last, n_iter = self._solve(problem, last)
            yield self._describe(bound, problem, last, n_iter)

    def _solve(
        self, problem: LatticeProblem, last: LatticePoint | None
    ) -> tuple[LatticePoint, int]:
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        steps = enumerate(islice(reweight(problem, last), most), start=1)
        return next(
            (point, n)
            for n, point in steps
            if n == most or problem.is_solved(point, tol)
        )

    def _describe(
        self, bound: _Bound, problem: LatticeProblem, point: LatticePoint, n_iter: int
    ) -> Outcome:
        coef = np.ascontiguousarray(bound.curvature.to_features(point.ridge.coef))
        group, _, total = problem.norm.levels(point.lengths)
        used = group > NEGLIGIBLE * total * problem.norm.start
        learned = {
            "dual_gap_": point.gap,
            "groups_": problem.norm.groups.named(bound.fit.moments.tasks),
            "group_weights_": np.where(used, group, 0.0),
            "group_choice_": bound.choice,
        }
        shortfall = None
        if not problem.is_solved(point, self.tol):
            shortfall = (
                f"the duality gap is {point.gap:.3g}, above tol={self.tol:g} times the "
                f"objective {point.objective:.3g}, after {n_iter} iterations; raise "
                "max_iter or tol."
            )
        model = LinearModel(
            coef, bound.fit.intercept_at_zero(bound.fit.evaluate(coef.T))
        )
        return Outcome(model, point.objective, n_iter, learned, shortfall)

    def _suggest(self, bound: _Bound, n: int) -> list[Settings]:
        n_pairs = int(np.clip(n // 5, 1, len(PAIRS)))
        n_strengths, (low, high) = n // n_pairs, STRENGTHS
        # Centres of equal parts of the range, in logarithms.
        grid = low * (high / low) ** ((np.arange(n_strengths) + 0.5) / n_strengths)
        settings: list[Settings] = []
        for mean_share, growth in PAIRS[:n_pairs]:
            norm = lattice.LatticeNorm(bound.groups, mean_share, growth, self.p, self.q)
            outer = {"mean_share": mean_share, "growth": growth}
            unit = natural_strength(bound.curvature, norm)
            settings += crossed([outer], "C", unit * grid)
        return settings


def _check_power(name: str, value: Any) -> float:
    power = check_strength(name, value)
    if not LEAST_POWER <= power <= 2.0:
        raise ValueError(f"{name} must be between {LEAST_POWER} and 2: got {value!r}.")
    return power


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
    groups : {"auto", "all", "tree", "active"} or list of lists of task labels
        Candidate groups. "all": every subset, for up to 10 tasks. "tree": the nodes of
        an average-linkage tree of single-task ridge regressions, at most 2m − 1.
        "active": starts with single tasks and adds groups that violate a necessary
        optimality condition and whose proper subsets are all present, up to 1023
        groups. "auto": "all" for up to 10 tasks, else "tree".
    fit_intercept, task_weight, standardize, task
        See :class:`DMTL`.
    tol : float, default=1e-6
        Stop at a duality gap of ``tol`` times the objective.
    max_iter : int, default=1000
        Maximum number of iterations. If it is reached before ``tol``, a
        ConvergenceWarning names the gap.

    Attributes
    ----------
    coef_ : (m, d) array
        Coefficients, one row per task.
    intercept_ : (m,) array
        Intercepts.
    tasks_ : (m,) array
        Task labels.
    groups_ : list of tuples of task labels
        The candidate groups, small ones first.
    group_weights_ : (g,) array
        Q_g of each group; 0 below a share of 1e-5 of the norm.
    group_choice_ : str
        How the groups were chosen: "all", "tree", "active" or "given".
    objective_, dual_gap_ : float
        Value of the objective, and its duality gap.
    n_iter_ : int
        Number of iterations.
    n_features_in_, feature_names_in_ : int, array
        See :class:`MultiTaskRegressor`.

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
    """Classification that learns which groups of tasks share coefficients.

    :class:`MTFL` on classes coded −1 and +1 with squared loss, so there are no
    probabilities.

    Parameters
    ----------
    C, mean_share, growth, p, q, blocks, groups, fit_intercept, task_weight, \
standardize, tol, max_iter, task
        See :class:`MTFL`.

    Attributes
    ----------
    classes_ : (2,) array, or list of m arrays where tasks have different classes
        Class labels; the second is the positive one.
    coef_, intercept_, tasks_, groups_, group_weights_, group_choice_, objective_, \
dual_gap_, n_iter_, n_features_in_, feature_names_in_
        See :class:`MTFL`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import one_vs_one
    >>> from priormtl.baselines import MTFLClassifier
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MTFLClassifier(C=0.1).fit(X, y, task=task)
    >>> bool(model.score(X, y, task=task) > 0.95)
    True
    """

    loss = "squared"
