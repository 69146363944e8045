"""MKMTL: multiple-kernel multi-task learning.

X. Liu, P. Cao, J. Yang, D. Zhao: Linearized and Kernelized Sparse Multitask Learning
for Predicting Cognitive Outcomes in Alzheimer's Disease. Computational and Mathematical
Methods in Medicine 2018, 7429782.

Each task is a sum of functions, one in the space of each base kernel. Kernels become
explicit features (``kernels``), and the convex problem in their coefficients is solved
to a duality gap by ADMM (``admm``).
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from priormtl.baselines.base import Baseline, Outcome, Settings, crossed
from priormtl.baselines.mkmtl import admm
from priormtl.baselines.mkmtl.kernels import (
    KernelFeatures,
    KernelModel,
    KernelTasks,
    choose_landmarks,
    common_features,
    gather_tasks,
    own_features,
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
from priormtl.exceptions import ApproximationWarning

VARIANTS = ("auto", "shared", "low-rank")
LARGEST_TABLE = 10_000_000  # numbers in the features that "auto" computes: 80 MB
LANDMARKS = 64

SEVERAL = 4  # values of C to try before another p or q is tried
P_VALUES = (2.0, 4.0)
Q_VALUES = (1.5, 1.01, 1.99)
WEAKEST, STRONGEST = -1.0, 3.0  # decades of C per row of weight one


class Plan(NamedTuple):
    """Which variant is fitted, and on which rows."""

    variant: str
    landmarks: tuple[int, int] | None  # number and seed; None: all rows


@dataclass(frozen=True, eq=False)
class PlannedFeatures:
    """Kernel tasks, and the features of each plan, computed once."""

    data: KernelTasks
    cache: dict[Plan, KernelFeatures] = field(default_factory=dict)

    def of(self, plan: Plan) -> KernelFeatures:
        if plan not in self.cache:
            if plan.landmarks is not None:
                landmarks = choose_landmarks(self.data.rows.shape[0], *plan.landmarks)
                features = common_features(self.data, landmarks)
            elif plan.variant == "shared":
                features = own_features(self.data)
            else:
                features = common_features(self.data, None)
            self.cache[plan] = features
        return self.cache[plan]


def choose_plan(
    data: KernelTasks, variant: Any, max_rows: int, n_landmarks: Any, seed: int
) -> Plan:
    """Which variant, on which rows; landmarks if there are more than ``max_rows``."""
    u = data.rows.shape[0]
    chosen = check_choice("variant", variant, VARIANTS)
    fits = (data.sizes.max() if chosen == "shared" else u) <= max_rows
    if chosen == "auto":
        chosen = "low-rank"
        fits = fits and data.table_size <= LARGEST_TABLE
    if n_landmarks is None or (n_landmarks == "auto" and (fits or u <= LANDMARKS)):
        return Plan(chosen, None)
    if n_landmarks != "auto":
        return Plan(chosen, (check_count("n_landmarks", n_landmarks), seed))
    saved = 8.0 * (data.table_size - data.table_size * LANDMARKS // u) / 2**30
    warnings.warn(
        f"kernels are approximated with {LANDMARKS} landmarks among {u} distinct rows "
        f"(Nyström), which saves {saved:.2g} GiB of memory. Set n_landmarks to a "
        "larger number for more accuracy, or to None to use all rows.",
        ApproximationWarning,
        stacklevel=2,
    )
    return Plan(chosen, (LANDMARKS, seed))


@dataclass(eq=False, repr=False)
class _MKMTL(Baseline):
    followed = "C"
    loss = "squared"

    C: float = 1.0
    _: KW_ONLY
    variant: str = "auto"
    p: float = 2.0
    q: float = 1.5
    kernels: Any = None
    normalize: bool = True
    max_rows: int = 3000
    n_landmarks: Any = "auto"
    tol: float = 1e-4
    max_iter: int = 10_000
    random_state: int = 0

    def _bind(self, data: TaskData) -> PlannedFeatures:
        normalize, centred = bool(self.normalize), bool(self.fit_intercept)
        tasks = gather_tasks(data, self.kernels, normalize=normalize, centred=centred)
        return PlannedFeatures(tasks)

    def _follow(
        self, bound: PlannedFeatures, strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        data, plan = bound.data, self._plan(bound.data)
        features, norm = bound.of(plan), self._norm(plan)
        # The published losses are C/2 and C times the squared error.
        factor = 1.0 if plan.variant == "shared" else 2.0
        tol, steps = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        state, square = admm.ADMMState.zero(features.shape), data.unit**2
        for C in strengths:
            c = factor * check_positive("C", C)
            found = admm.minimise(
                admm.SplitProblem(features.groups, norm, c), state, tol, steps
            )
            state, shortfall = found.state, None
            if found.gap > tol * found.primal:
                shortfall = (
                    f"the duality gap is {found.gap / found.primal:.3g} of the "
                    f"objective, above tol={tol:g}, after {found.n_iter} iterations; "
                    "raise max_iter or tol."
                )
            # Targets were divided by ``unit``.
            coef = data.unit * state.coef
            learned = {
                "dual_gap_": square * found.gap,
                "kernel_weights_": norm.kernel_weights(state.coef),
                "kernels_": data.kernels.kernels,
                "variant_": plan.variant,
            }
            yield Outcome(
                KernelModel(data.kernels, features.expansion, coef, data.offset),
                square * (found.primal + 0.5 * c * features.unexplained),
                found.n_iter,
                learned,
                shortfall,
            )

    def _norm(self, plan: Plan) -> admm.Norm:
        if plan.variant == "shared":
            if check_strength("p", self.p) < 2.0:
                raise ValueError(f"p must be at least 2: got {self.p!r}.")
            return admm.SharedNorm(float(self.p))
        if not 1.0 < check_strength("q", self.q) < 2.0:
            raise ValueError(f"q must be between 1 and 2, both excluded: got {self.q}.")
        return admm.LowRankNorm(float(self.q))

    def _plan(self, data: KernelTasks) -> Plan:
        max_rows = check_count("max_rows", self.max_rows)
        return choose_plan(
            data, self.variant, max_rows, self.n_landmarks, self.random_state
        )

    def _suggest(self, bound: PlannedFeatures, n: int) -> list[Settings]:
        variant, landmarks = self._plan(bound.data)
        chosen = {
            "variant": variant,
            "n_landmarks": None if landmarks is None else landmarks[0],
        }
        name, values = ("p", P_VALUES) if variant == "shared" else ("q", Q_VALUES)
        outer = [{**chosen, name: value} for value in values[: max(1, n // SEVERAL)]]
        count = max(1, n // len(outer))
        decades = np.linspace(WEAKEST, STRONGEST, count)
        if count < 3:  # stay away from the ends of the range
            share = (np.arange(count) + 0.5) / count
            decades = WEAKEST + (STRONGEST - WEAKEST) * share
        strengths = 10.0**decades / bound.data.row_weight
        return list(crossed(outer, "C", strengths))[:n]


class MKMTL(RegressionTasks, _MKMTL):
    """Multiple-kernel multi-task regression (MKMTL).

    Each task is a sum of functions, one in the space of each kernel. Two variants
    couple the tasks. "shared": all tasks use the same few kernels::

        1/2 (Σ_j (Σ_i ‖f_ij‖^p)^{1/p})² + C/2 Σ_i Σ w (y − Σ_j f_ij(x))²

    "low-rank": in each kernel's space the functions F_j of all tasks have low rank::

        1/2 (Σ_j ‖F_j‖_*^q)^{2/q} + C Σ_i Σ w (y − Σ_j f_ij(x))²

    Both are convex and solved to a duality gap. Targets are centred per task. Scaling
    the targets scales the predictions, so C does not depend on their unit.

    Parameters
    ----------
    C : float, default=1.0
        Strength of the loss, above 0; larger values regularise less.
    variant : {"auto", "shared", "low-rank"}, default="auto"
        How tasks are coupled. For k kernels on u distinct rows "low-rank" stores k u²
        numbers, and k u for each row of each task unless all tasks have the same rows
        and weights. "shared" stores k n_i² for each task of n_i rows and couples tasks
        only by their choice of kernels. "auto" is "low-rank", with landmarks if it
        would store more than 10 million numbers.
    p : float, default=2.0
        Exponent of "shared", at least 2; larger values make tasks less alike.
    q : float, default=1.5
        Exponent of "low-rank", between 1 and 2; smaller values select fewer kernels.
    kernels : tuple of kernels, optional
        Base kernels, such as ``(Gaussian(1.0), Polynomial(2), Linear())``. The default
        is Gaussians of 1/4, 1/2, 1, 2 and 4 times the root mean square distance of
        training rows, polynomials of degree 2 and 3, and the linear kernel.
    normalize : bool, default=True
        Whether to divide kernels by their mean diagonal on the training rows.
    max_rows : int, default=3000
        Maximum number of rows without landmarks if ``n_landmarks="auto"``.
    n_landmarks : int, None or "auto", default="auto"
        Number of distinct rows whose kernels span the functions (Nyström). None: all
        rows. "auto": 64 if there are too many rows, with an ApproximationWarning.
    fit_intercept : bool, default=True
        Whether to centre targets per task.
    task_weight, standardize, task
        See :class:`DMTL`.
    tol : float, default=1e-4
        Stop at a duality gap of ``tol`` times the objective.
    max_iter : int, default=10000
        Maximum number of iterations. If it is reached before ``tol``, a
        ConvergenceWarning names the gap.
    random_state : int, default=0
        Seed of the landmarks.

    Attributes
    ----------
    kernel_weights_ : (k,) array
        Share of each kernel; they sum to one.
    kernels_ : tuple
        The kernels, before normalisation.
    variant_ : str
        "shared" or "low-rank".
    objective_, dual_gap_ : float
        Value of the objective, and its duality gap.
    n_iter_ : int
        Number of iterations.
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
    """Multiple-kernel multi-task classification: MKMTL on labels −1 and +1.

    The loss is squared, as published, so there are no probabilities. Parameters and
    further attributes are those of :class:`MKMTL`.

    Attributes
    ----------
    classes_ : array
        Class labels.
    """
