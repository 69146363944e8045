"""MTFL: learn which groups of tasks share a feature space; our reconstruction.

After P. Jawanpuria, J. S. Nath: A Convex Feature Learning Formulation for Latent Task
Structure Discovery. ICML 2012.

The paper's ideas are kept: a convex problem over all groups of tasks, kernels with
zero blocks outside a group, tasks of a group pulled together, and a norm on the lattice
of groups under which a group without a feature space leaves none to its supersets.
Exponents, weights and loss are reconstructed from the abstract and the authors' related
work, not read off the paper: results are of "MTFL, reconstructed".
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from priormtl.baselines.base import Baseline, Outcome, Settings
from priormtl.baselines.lattice.feature_blocks import read_blocks
from priormtl.baselines.lattice.group_choice import choose_groups
from priormtl.baselines.lattice.growing import grow_groups
from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.reweighting import (
    LatticePoint,
    LatticeProblem,
    reweight,
)
from priormtl.baselines.lattice.suggestions import suggest_settings
from priormtl.baselines.lattice.task_curvature import TaskCurvature, rotate_fit
from priormtl.baselines.lattice.task_groups import TaskGroups
from priormtl.baselines.models import LinearModel
from priormtl.data import TaskData
from priormtl.estimators import (
    ClassificationTasks,
    RegressionTasks,
    check_count,
    check_positive,
    check_strength,
    check_tolerance,
)
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit

__all__ = ["MTFL", "MTFLClassifier"]

LEAST_POWER = 1.05  # below, weights lose their closed form
NEGLIGIBLE = 1e-5  # share of the norm below which a group counts as unused


class _Bound(NamedTuple):
    fit: SquaredFit
    curvature: TaskCurvature
    groups: TaskGroups
    choice: str


class _MTFL(Baseline):
    followed = "C"
    fit_intercept: bool | str

    def __init__(
        self,
        C: float = 1.0,
        *,
        mean_share: float = 0.1,
        growth: float = 1.5,
        p: float = 1.5,
        q: float = 1.5,
        blocks: Any = None,
        groups: Any = "auto",
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        task: Any = None,
    ) -> None:
        self.C = C
        self.mean_share = mean_share
        self.growth = growth
        self.p = p
        self.q = q
        self.blocks = blocks
        self.groups = groups
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.task = task

    def _bind(self, data: TaskData) -> _Bound:
        intercepts = FreeIntercepts() if self.fit_intercept else NoIntercepts()
        fit = Squared().bind(data, intercepts)
        curvature = rotate_fit(fit, read_blocks(self.blocks, data))
        choice, groups = choose_groups(self.groups, data.tasks, curvature)
        return _Bound(fit, curvature, groups, choice)

    def _follow(self, bound: _Bound, strengths: Sequence[float]) -> Iterator[Outcome]:
        last = None
        norm = self._norm(bound.groups)
        for value in strengths:
            problem = LatticeProblem(bound.curvature, norm, check_positive("C", value))
            if bound.choice == "active":
                yield self._describe(bound, *grow_groups(problem, self._solve))
                continue
            last, n_iter = self._solve(problem, last)
            yield self._describe(bound, problem, last, n_iter)

    def _norm(self, groups: TaskGroups) -> LatticeNorm:
        return LatticeNorm(
            groups,
            _check_share(self.mean_share),
            check_positive("growth", self.growth),
            _check_power("p", self.p),
            _check_power("q", self.q),
        )

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
        model = LinearModel(coef, bound.fit.intercept(coef.T))
        shortfall = self._shortfall(problem, point, n_iter)
        return Outcome(model, point.objective, n_iter, learned, shortfall)

    def _shortfall(
        self, problem: LatticeProblem, point: LatticePoint, n_iter: int
    ) -> str | None:
        if problem.is_solved(point, self.tol):
            return None
        return (
            f"the duality gap is {point.gap:.3g}, above tol={self.tol:g} times the "
            f"objective {point.objective:.3g}, after {n_iter} reweightings; raise "
            "max_iter or tol."
        )

    def _suggest(self, bound: _Bound, n: int) -> list[Settings]:
        return suggest_settings(bound.curvature, bound.groups, self.p, self.q, n)


def _check_share(value: Any) -> float:
    share = check_positive("mean_share", value)
    if share > 1.0:
        raise ValueError(f"mean_share must be at most 1: got {value!r}.")
    return share


def _check_power(name: str, value: Any) -> float:
    power = check_strength(name, value)
    if not LEAST_POWER <= power <= 2.0:
        raise ValueError(
            f"{name} must be between {LEAST_POWER} and 2, where weights of groups have "
            f"a closed form: got {value!r}."
        )
    return power


class MTFL(RegressionTasks, _MTFL):
    """Regression that finds out which groups of tasks share coefficients.

    Our reconstruction of the method of Jawanpuria and Nath (2012), whose exponents,
    weights and loss could not be read. Every group of tasks g has coefficients U_jg of
    its own on each block j of features; those of a task are the sum over its groups.
    Minimises over U and intercepts b::

        1/2 Ω(U)² + C/2 Σ w (x p_i + b_i − y)²

        Θ_jg² = mean_share |g| ‖mean of U_jg‖² + Σ_i∈g ‖u_i − mean‖²
        Q_g = (Σ_j Θ_jg^p)^(1/p),   N_v = (Σ_g⊇v Q_g^q)^(1/q)
        Ω = Σ_v growth^(|v| − 1) N_v

    which is convex. A group whose tasks share nothing (N_v = 0) leaves nothing to any
    group that contains it. The norm sums over all tasks before it is squared: the right
    C grows with their number, and strong tasks can silence weak ones.

    Parameters
    ----------
    C : float
        Strength of the loss, above 0; fits follow each other along it.
    mean_share : float
        What the mean of a group counts (μ), in (0, 1]: 1 pulls tasks together no more
        than towards zero.
    growth : float
        How much more each further task makes a group cost (a), above 0. Large values
        leave only single tasks.
    p, q : float
        How blocks, and groups that contain a group, are joined; from 1.05 to 2. At
        q = 2 groups no longer vanish.
    blocks : list of lists of features, optional
        Positions or names; each feature in one block. None: all in one.
    groups : {"auto", "all", "tree", "active"} or list of lists of task labels
        Which groups there are. "all": every subset, for up to 10 tasks. "tree": the
        nodes of an average-linkage tree of single-task ridge regressions, 2m − 1 at
        most. "active": single tasks first; then, until there is none, groups whose
        proper subsets are all there and whose tasks pull at them by more than they
        cost, which is necessary for them to be used, not sufficient, and at most 1023.
        "auto": "all" for up to 10 tasks, else "tree".
    fit_intercept : bool
        Whether tasks have intercepts, which are not penalised.
    task_weight : {"sum", "mean"}
        Whether tasks count by their rows or all the same.
    standardize, task
        As in :class:`MultiTaskRegressor`.
    tol : float
        Stop at a duality gap of ``tol`` times the objective.
    max_iter : int
        Most reweightings; reached before ``tol``, a ConvergenceWarning names the gap.

    Attributes
    ----------
    coef_ : (m, d) array
        Coefficients, one row per task.
    intercept_ : (m,) array
        Intercepts.
    tasks_ : (m,) array
        Task labels.
    groups_ : list of tuples of task labels
        The groups that there were, small ones first.
    group_weights_ : (g,) array
        Q_g, how much each of them is used; 0 below a share of 1e-5 of the norm.
    group_choice_ : str
        How the groups were chosen: "all", "tree", "active" or "given".
    objective_, dual_gap_ : float
        Objective reached, and how far the optimum can be below it, at most.
    n_iter_ : int
        Reweightings.
    n_features_in_, feature_names_in_ : int, array
        As in :class:`MultiTaskRegressor`.

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
    """Classification that finds out which groups of tasks share coefficients.

    :class:`MTFL` on classes coded −1 and +1, by squared loss: scores are no log-odds,
    and there are no probabilities.

    Parameters
    ----------
    C, mean_share, growth, p, q, blocks, groups, fit_intercept, task_weight, \
standardize, tol, max_iter, task
        As in :class:`MTFL`.

    Attributes
    ----------
    classes_ : (2,) array, or list of m arrays where tasks have different classes
        Class labels; the second is the positive one.
    coef_, intercept_, tasks_, groups_, group_weights_, group_choice_, objective_, \
dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`MTFL`.

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
