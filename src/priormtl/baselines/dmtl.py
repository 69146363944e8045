"""DMTL: the dirty model, rows that all tasks share plus sparse task-specific entries.

A. Jalali, P. Ravikumar, S. Sanghavi, C. Ruan: A Dirty Model for Multi-task Learning.
NeurIPS 2010.

The best split of any sum P = B + S into its two parts has a closed form. So the penalty
is a norm of P alone (``penalties.Dirty``), the problem is solved for P, and P is split
afterwards.
"""

from dataclasses import KW_ONLY, dataclass

from priormtl._arrays import Array
from priormtl.baselines.base import Fit
from priormtl.baselines.convex import TwoParts
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.penalties import Dirty, Penalty
from priormtl.problem import Problem, QuadraticPrior


class _DMTL(TwoParts):
    powers = (0.5, 0.25, 0.75, 1.0, 0.0)

    def _pose(self, fit: Fit, ratio: float) -> tuple[Problem, float]:
        return Problem(fit, QuadraticPrior.none(*fit.shape), Dirty(ratio), 1.0), 1.0

    def _split(self, penalty: Penalty, P: Array) -> dict[str, Array]:
        assert isinstance(penalty, Dirty)
        shared, own = penalty.split(P)
        return {"shared_": shared, "own_": own}

    def _largest(self, ratio: float, gradient: Array) -> float:
        return Dirty(ratio).dual_norm(gradient)


class DMTL(RegressionTasks, _DMTL):
    """Dirty model: coefficients are shared rows plus sparse entries of single tasks.

    Minimises over B, S (features × tasks) and intercepts b, with P = B + S::

        1/2 Σ w (x p_i + b_i − y)² + lam Σ|S_ji| + ratio · lam Σ_j max_i |B_ji|

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on task-specific entries.
    ratio : float, optional
        Strength of the penalty on shared rows, as a multiple of ``lam``; None means √m
        for m tasks. From m on nothing is shared (one lasso per task); up to 1 there are
        no task-specific entries.
    fit_intercept : bool, default=True
        Whether to fit an unpenalised intercept for each task.
    task_weight : {"sum", "mean"}, default="sum"
        Whether losses of rows are summed or averaged within each task.
    standardize : bool, default=False
        Whether to divide features by their pooled standard deviation before fitting.
    tol : float, default=1e-6
        Stop at a duality gap of ``tol`` times the objective at zero.
    max_iter : int, default=10000
        Maximum number of iterations.
    task : column name or index, optional
        Column of X that holds the task of each row.

    Attributes
    ----------
    coef_, intercept_ : (m, d), (m,) arrays
        One row of coefficients and one intercept per task.
    shared_, own_ : (m, d) arrays
        Parts B and S, whose sum is ``coef_``. The split is not unique in general.
    tasks_ : (m,) array
        Task names.
    objective_, dual_gap_, n_iter_ : float, float, int
        Objective, an upper bound on its distance to the optimum, and iterations.

    Examples
    --------
    >>> from priormtl.baselines import DMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = DMTL(lam=5.0, ratio=2.0).fit(X, y, task=task)
    >>> model.coef_.shape, model.predict(X, task=task).shape
    ((4, 6), (120,))
    """

    loss = "squared"


@dataclass(eq=False, repr=False)
class DMTLClassifier(ClassificationTasks, _DMTL):
    """Dirty model for two classes in every task.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        Loss on classes coded −1 and +1.
    lam, ratio, fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`DMTL`, which also lists the fitted attributes.
    """

    _: KW_ONLY
    loss: str = "logistic"
