"""MKMTL: many tasks over many kernels.

X. Liu, P. Cao, J. Yang, D. Zhao: Linearized and Kernelized Sparse Multitask Learning
for Predicting Cognitive Outcomes in Alzheimer's Disease. Computational and Mathematical
Methods in Medicine 2018, 7429782.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Baseline, Outcome, Settings, crossed
from priormtl.baselines.multikernel.gathering import gather_tasks
from priormtl.baselines.multikernel.kernel_features import (
    KernelFeatures,
    KernelTasks,
    make_model,
)
from priormtl.baselines.multikernel.low_rank_kernels import LowRankKernels
from priormtl.baselines.multikernel.plans import Plan, PlannedFeatures, choose_plan
from priormtl.baselines.multikernel.shared_weights import SharedWeights
from priormtl.baselines.multikernel.splitting import (
    Found,
    SplitProblem,
    SplitState,
    minimise,
)
from priormtl.data import TaskData
from priormtl.estimators import (
    ClassificationTasks,
    RegressionTasks,
    check_count,
    check_positive,
    check_strength,
    check_tolerance,
)

__all__ = ["MKMTL", "MKMTLClassifier"]

SEVERAL = 4  # strengths at least, before another p or q is tried
P_VALUES = (2.0, 4.0)
Q_VALUES = (1.5, 1.01, 1.99)
WEAKEST, STRONGEST = -1.0, 3.0  # decades of C per row of weight one


class _MKMTL(Baseline):
    followed: ClassVar[str] = "C"
    loss = "squared"
    fit_intercept: bool | str
    dual_gap_: float
    kernel_weights_: Array

    def __init__(
        self,
        C: float = 1.0,
        *,
        variant: str = "auto",
        p: float = 2.0,
        q: float = 1.5,
        kernels: Any = None,
        normalize: bool = True,
        max_rows: int = 3000,
        n_landmarks: Any = "auto",
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        random_state: int = 0,
        task: Any = None,
    ) -> None:
        self.C = C
        self.variant = variant
        self.p = p
        self.q = q
        self.kernels = kernels
        self.normalize = normalize
        self.max_rows = max_rows
        self.n_landmarks = n_landmarks
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.task = task

    def _bind(self, data: TaskData) -> PlannedFeatures:
        return PlannedFeatures(
            gather_tasks(
                data,
                self.kernels,
                normalize=bool(self.normalize),
                centred=bool(self.fit_intercept),
            )
        )

    def _follow(
        self, bound: PlannedFeatures, strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        plan = self._plan(bound.data)
        features = bound.of(plan)
        norm = self._norm(plan)
        factor = 1.0 if plan.variant == "shared" else 2.0
        tol, steps = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        state = SplitState.zero(features.shape)
        for C in strengths:
            c = factor * check_positive("C", C)
            problem = SplitProblem(features.groups, norm, c)
            found = minimise(problem, state, tol, steps)
            state = found.state
            yield self._describe(bound.data, features, norm, c, found)

    def _describe(
        self,
        data: KernelTasks,
        features: KernelFeatures,
        norm: SharedWeights | LowRankKernels,
        c: float,
        found: Found,
    ) -> Outcome:
        coef, square = found.state.coef, data.unit**2
        return Outcome(
            make_model(data, features, coef),
            square * (found.primal + 0.5 * c * features.rest),
            found.n_iter,
            {
                "dual_gap_": square * found.gap,
                "kernel_weights_": norm.kernel_weights(coef),
                "kernels_": data.kernels.kernels,
                "variant_": "shared" if isinstance(norm, SharedWeights) else "low-rank",
            },
            self._shortfall(found),
        )

    def _shortfall(self, found: Found) -> str | None:
        if found.gap <= self.tol * found.primal:
            return None
        return (
            f"the duality gap is {found.gap / found.primal:.3g} of the objective "
            f"reached, above tol={self.tol:g}, after {found.n_iter} iterations; raise "
            "max_iter or tol."
        )

    def _norm(self, plan: Plan) -> SharedWeights | LowRankKernels:
        if plan.variant == "shared":
            if check_strength("p", self.p) < 2.0:
                raise ValueError(f"p must be at least 2: got {self.p!r}.")
            return SharedWeights(float(self.p))
        if not 1.0 < check_strength("q", self.q) < 2.0:
            raise ValueError(f"q must be between 1 and 2, both excluded: got {self.q}.")
        return LowRankKernels(float(self.q))

    def _plan(self, data: KernelTasks) -> Plan:
        most = check_count("max_rows", self.max_rows)
        return choose_plan(
            data, self.variant, most, self.n_landmarks, self.random_state
        )

    def _suggest(self, bound: PlannedFeatures, n: int) -> list[Settings]:
        plan = self._plan(bound.data)
        chosen = {"variant": plan.variant, "n_landmarks": plan.n_landmarks}
        name, values = ("p", P_VALUES) if plan.variant == "shared" else ("q", Q_VALUES)
        outer = [{**chosen, name: value} for value in values[: max(1, n // SEVERAL)]]
        count = max(1, n // len(outer))
        strengths = 10.0 ** _decades(count) / bound.data.row_weight
        return list(crossed(outer, "C", strengths))[:n]


class MKMTL(RegressionTasks, _MKMTL):
    """Regression with several kernels for many tasks (MKMTL).

    Each task is a sum of functions, one in the space of each kernel. Two variants
    tie the tasks. "shared": all tasks use the same few kernels::

        1/2 (Σ_j (Σ_i ‖f_ij‖^p)^{1/p})² + C/2 Σ_i Σ w (y − Σ_j f_ij(x))²

    "low-rank": in each kernel's space the functions F_j of all tasks span little::

        1/2 (Σ_j ‖F_j‖_*^q)^{2/q} + C Σ_i Σ w (y − Σ_j f_ij(x))²

    Both are convex and solved to a duality gap. Targets are centred per task, and
    scaling them scales predictions, so C does not depend on their unit.

    Parameters
    ----------
    C : float
        Strength of the fit, above 0: the larger, the less regular.
    variant : {"auto", "shared", "low-rank"}
        "low-rank" keeps, for k kernels on u distinct rows, k u² doubles, and k u for
        each row of each task unless all tasks have the same rows and weights; "shared"
        keeps k n_i² for each task of n_i rows, and ties tasks by their choice of
        kernels alone. "auto" is "low-rank", on landmarks where that would keep more
        than 10 million doubles.
    p : float
        At least 2; for "shared": the larger, the less tasks are alike.
    q : float
        Between 1 and 2; for "low-rank": the smaller, the fewer kernels.
    kernels : tuple of kernels, optional
        Such as ``(Gaussian(1.0), Polynomial(2), Linear())``. By default Gaussians of
        1/4, 1/2, 1, 2 and 4 times the root mean square distance of training rows,
        polynomials of degree 2 and 3, and the linear kernel.
    normalize : bool
        Divide kernels by their mean diagonal on the training rows.
    max_rows : int
        Most rows for which kernels are used as they are if ``n_landmarks="auto"``.
    n_landmarks : int, None or "auto"
        Seek functions in the span of the kernels of so many of the distinct rows
        (Nyström), which keeps k times as many doubles for each row; None: of all
        rows; "auto": of 64 where all rows are too many, with an ApproximationWarning.
    fit_intercept : bool
        Centre targets per task.
    task_weight : {"sum", "mean"}
        Sum or average over the rows of each task.
    standardize : bool
        Divide features by their pooled standard deviation.
    tol : float
        Stop at a duality gap of ``tol`` times the objective reached: at zero it would
        grow with C.
    max_iter : int
        Most steps; reached before ``tol``, a ConvergenceWarning names the gap.
    random_state : int
        Which landmarks are drawn.
    task : str or int, optional
        Column of X that holds the task.

    Attributes
    ----------
    kernel_weights_ : (k,) array
        Share of each kernel; they sum to one.
    kernels_ : tuple
        The kernels, before their division.
    variant_ : str
        "shared" or "low-rank".
    objective_, dual_gap_ : float
        Objective reached, and how far the optimum can be below it, at most.
    n_iter_ : int
        Steps taken.
    tasks_ : (m,) array
        Task labels.

    References
    ----------
    X. Liu, P. Cao, J. Yang, D. Zhao: Linearized and Kernelized Sparse Multitask
    Learning for Predicting Cognitive Outcomes in Alzheimer's Disease. Computational
    and Mathematical Methods in Medicine 2018.

    Examples
    --------
    >>> from priormtl.baselines import MKMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MKMTL(C=10.0).fit(X, y, task=task)
    >>> model.variant_, model.kernel_weights_.shape
    ('low-rank', (8,))
    >>> model.predict(X, task=task).shape
    (120,)
    """


class MKMTLClassifier(ClassificationTasks, _MKMTL):
    """Classification with several kernels for many tasks: MKMTL on labels −1 and 1.

    Squared loss, as published, so there are no probabilities. Parameters and further
    attributes are those of :class:`MKMTL`.

    Attributes
    ----------
    classes_ : array
        Class labels.

    Examples
    --------
    >>> from priormtl.baselines import MKMTLClassifier
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MKMTLClassifier(C=10.0).fit(X, y > 0, task=task)
    >>> model.decision_function(X, task=task).shape
    (120,)
    """


def _decades(count: int) -> Array:
    """Even steps over the range of C; one or two stay away from its ends."""
    if count < 3:
        share = (np.arange(count) + 0.5) / count
        return WEAKEST + (STRONGEST - WEAKEST) * share
    return np.linspace(WEAKEST, STRONGEST, count)
