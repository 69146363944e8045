"""RMTL: robust multi-task learning, coefficients of low rank plus outlier tasks.

J. Chen, J. Zhou, J. Ye: Integrating Low-Rank and Group-Sparse Structures for Robust
Multi-Task Learning. KDD 2011.

The problem is solved for both blocks [L, S] at once (``losses.SumFit``,
``penalties.Robust``), except where one of them must be zero, because ‖S‖_* ≤ Σ‖s_i‖ ≤
√m ‖S‖_*. With ``losses.OutlierFit``, which minimises over S inside the loss, the
solutions are the same, but small problems take longer.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Fit
from priormtl.baselines.convex import TwoParts
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import SumFit
from priormtl.penalties import Columns, Nuclear, Penalty, Robust, halve
from priormtl.problem import Problem, QuadraticPrior


class _RMTL(TwoParts):
    powers = (0.25, 0.125, 0.375, 0.0, 0.5)

    def _pose(self, fit: Fit, ratio: float) -> tuple[Problem, float]:
        # Of [L, S] one block may have to be zero, see above.
        penalty: Penalty = Nuclear() if ratio <= 1 else Columns()
        if 1 < ratio < fit.shape[1] ** 0.5:
            fit, penalty = SumFit(fit), Robust(ratio)
        problem = Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)
        # Without outliers the problem's lam is the strength of the trace norm.
        return problem, min(1.0, ratio)

    def _split(self, penalty: Penalty, P: Array) -> dict[str, Array]:
        if isinstance(penalty, Robust):
            L, S = halve(P)
        else:
            zero = np.zeros_like(P)
            L, S = (P, zero) if isinstance(penalty, Nuclear) else (zero, P)
        return {"low_rank_": L, "outliers_": S}

    def _largest(self, ratio: float, gradient: Array) -> float:
        return Robust(ratio).dual_norm(np.hstack([gradient, gradient]))


class RMTL(RegressionTasks, _RMTL):
    """Robust multi-task learning: coefficients of low rank, plus outlier tasks.

    Minimises over L, S (features × tasks) and intercepts b, with P = L + S::

        1/2 Σ w (x p_i + b_i − y)² + ratio · lam ‖L‖_* + lam Σ_i ‖s_i‖

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on outlier tasks.
    ratio : float, optional
        Strength of the trace norm, as a multiple of ``lam``; None means m^¼ for m
        tasks. Up to 1 there are no outliers; from √m on there is no low-rank part.
    fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`DMTL`.

    Attributes
    ----------
    low_rank_, outliers_ : (m, d) arrays
        Parts L and S, whose sum is ``coef_``. Where tasks differ in size, outliers are
        easier to interpret with ``task_weight="mean"``.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_
        See :class:`DMTL`.

    Examples
    --------
    >>> from priormtl.baselines import RMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = RMTL(lam=5.0, ratio=1.5).fit(X, y, task=task)
    >>> model.coef_.shape, model.predict(X, task=task).shape
    ((4, 6), (120,))
    """

    loss = "squared"


@dataclass(eq=False, repr=False)
class RMTLClassifier(ClassificationTasks, _RMTL):
    """Robust multi-task learning for two classes in every task.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        Loss on classes coded −1 and +1.
    lam, ratio, fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`RMTL`, which also lists the fitted attributes.
    """

    _: KW_ONLY
    loss: str = "logistic"
