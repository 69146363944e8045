"""FedEM: tasks as mixtures of shared components.

O. Marfoq, G. Neglia, A. Bellet, L. Kameni, R. Vidal: Federated Multi-Task Learning
under a Mixture of Distributions. NeurIPS 2021. Regression is our adaptation: there the
components are Gaussian with one variance of the noise, which is learned.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Baseline, Outcome, Prepared, Settings, crossed
from priormtl.baselines.mixtures.bound_cells import BoundCells
from priormtl.baselines.mixtures.cells import gather_cells
from priormtl.baselines.mixtures.components import LinearFamily, LinearParts
from priormtl.baselines.mixtures.federated import Descent, run_rounds, start_at_random
from priormtl.baselines.mixtures.learned import Learned, learned_networks, learned_parts
from priormtl.baselines.mixtures.mixture import (
    Family,
    Fitted,
    fit_mixture,
    start_mixtures,
)
from priormtl.baselines.mixtures.networks import NetworkFamily, check_networks
from priormtl.baselines.mixtures.responses import Bernoulli, Gaussian
from priormtl.data import TaskData
from priormtl.estimators import (
    ClassificationTasks,
    RegressionTasks,
    check_choice,
    check_count,
    check_strength,
    check_tolerance,
)

__all__ = ["FedEM", "FedEMClassifier"]

MODES = ("exact", "federated")
COMPONENTS = ("linear", "mlp")
WIDEST, NARROWEST = 10.0, 1e-5  # ridges to try lie between, times the curvature


class _FedEM(Baseline):
    followed: ClassVar[str] = "ridge"
    fit_intercept: bool | str
    components_: Array | list[Any]

    def __init__(
        self,
        n_components: int = 2,
        ridge: float = 0.1,
        *,
        mode: str = "exact",
        component: str = "linear",
        hidden: tuple[int, ...] = (100,),
        n_init: int = 3,
        learning_rate: float = 0.1,
        epochs: int = 1,
        batch_size: int = 128,
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 2000,
        random_state: Any = 0,
        task: Any = None,
    ) -> None:
        self.n_components = n_components
        self.ridge = ridge
        self.mode = mode
        self.component = component
        self.hidden = hidden
        self.n_init = n_init
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.task = task

    def _bind(self, data: TaskData) -> BoundCells:
        response = Gaussian() if self.loss == "squared" else Bernoulli()
        rotate = not self._is_federated and not self._is_neural
        return BoundCells(
            gather_cells(data), response, rotate, bool(self.fit_intercept)
        )

    def _follow(
        self, bound: BoundCells, strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        for ridge in strengths:
            yield self._fit_once(bound, check_strength("ridge", ridge))

    def _suggest(self, bound: BoundCells, n: int) -> list[Settings]:
        counts = _component_counts(n)
        ridges = np.geomspace(WIDEST, NARROWEST, n // len(counts) + 2)[1:-1]
        outer = [{"n_components": count} for count in counts]
        return list(crossed(outer, "ridge", bound.curvature * ridges))[:n]

    @property
    def _is_federated(self) -> bool:
        return check_choice("mode", self.mode, MODES) == "federated"

    @property
    def _is_neural(self) -> bool:
        return check_choice("component", self.component, COMPONENTS) == "mlp"

    def _fit_once(self, bound: BoundCells, ridge: float) -> Outcome:
        """Every fit starts afresh: a path would carry one local optimum along."""
        if self._is_neural:
            return self._fit_networks(bound, ridge)
        family = LinearFamily(bound.cells, bound.features, bound.response, ridge)
        run = self._run_rounds(family) if self._is_federated else self._run_em(family)
        return self._describe(run, learned_parts(bound, run))

    def _fit_networks(self, bound: BoundCells, ridge: float) -> Outcome:
        if self._is_federated:
            raise ValueError(
                'mode must be "exact" for component="mlp": got "federated"; federated '
                "rounds average linear components only."
            )
        check_networks()
        hidden = tuple(check_count("every one of hidden", size) for size in self.hidden)
        epochs = check_count("epochs", self.epochs)
        family = NetworkFamily(bound.cells, bound.response, ridge, hidden, epochs)
        run = self._run_em(family)
        return self._describe(run, learned_networks(bound, run))

    def _run_em(self, family: Family[Any]) -> Fitted[Any]:
        count = check_count("n_components", self.n_components)
        n_init = check_count("n_init", self.n_init)
        starts = start_mixtures(family, count, n_init, self._rng)
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        return fit_mixture(family, starts, tol, most)

    def _run_rounds(self, family: LinearFamily) -> Fitted[LinearParts]:
        count, rng = check_count("n_components", self.n_components), self._rng
        descent = Descent(
            check_strength("learning_rate", self.learning_rate),
            check_count("epochs", self.epochs),
            check_count("batch_size", self.batch_size),
        )
        start = start_at_random(family, count, rng)
        rounds = check_count("max_iter", self.max_iter)
        return run_rounds(family, start, descent, rounds, rng)

    @property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.random_state)

    def _describe(self, run: Fitted[Any], learned: Learned) -> Outcome:
        model, attributes = learned
        objective, shortfall = run.expectation.objective, self._shortfall(run)
        return Outcome(model, objective, run.n_iter, attributes, shortfall)

    def _shortfall(self, run: Fitted[Any]) -> str | None:
        """None for federated rounds, whose number is a setting of the method."""
        if self._is_federated or abs(run.gain) <= self.tol:
            return None
        return (
            f"the last of {run.n_iter} steps of EM changed the log-likelihood per "
            f"sample by {abs(run.gain):.3g}, above tol={self.tol:g}; raise max_iter or "
            "tol."
        )

    def _publish(self, outcome: Outcome, prepared: Prepared) -> None:
        super()._publish(outcome, prepared)
        if isinstance(self.components_, np.ndarray):
            self.components_ = self.components_ / prepared.scale


def _component_counts(n: int) -> tuple[int, ...]:
    """How many components to try, with n settings in all."""
    if n < 2:
        return (3,)
    if n < 6:
        return (1, 3)
    return (1, 3, 5) if n < 12 else (1, 2, 3, 5)


class FedEM(RegressionTasks, _FedEM):
    """Regression tasks as mixtures of a few shared linear models.

    Every sample of task i comes from one of M components, from the k-th with
    probability π_ik. Maximises over components θ, b, shares π and the noise s²::

        Σ w log Σ_k π_ik N(y; x θ_k + b_k, s²)  −  ridge/2 Σ_k ‖θ_k‖²

    and predicts Σ_k π_ik (x θ_k + b_k). Intercepts belong to components, not to tasks,
    as in the published model. The problem is not convex: of several starts the
    likeliest is followed, and no gap can be given.

    Parameters
    ----------
    n_components : int
        Number M of components; 1 is one ridge regression for all tasks.
    ridge : float
        Strength of the penalty, in units of the log-likelihood.
    mode : {"exact", "federated"}
        EM with exact steps, or the published algorithm: rounds in which every task
        makes passes of stochastic gradient descent over its own rows, from random
        components, and a server averages. There the step counts squared error, not
        squared error over s².
    component : {"linear", "mlp"}
        Linear models, or networks of scikit-learn (1.7 or later) whose M-step is some
        passes of Adam; these need not gain at every step.
    hidden : tuple of int
        Sizes of the networks' hidden layers.
    n_init : int
        Starts, each fitted to random parts of the tasks; the likeliest after ten
        steps goes on. Three cost less than the run they choose; more find better
        optima now and then.
    learning_rate, batch_size : float, int
        Of federated descent; the rate falls to a tenth after half of the rounds, and
        again after three quarters.
    epochs : int
        Passes over the rows per federated round, or per step of networks.
    fit_intercept : bool
        Whether components have an intercept, which is not penalised.
    task_weight : {"sum", "mean"}
        Whether all rows count alike, or all tasks.
    standardize : bool
        Divide features by their pooled standard deviation inside the fit.
    tol : float
        Stop when a step gains no more log-likelihood per sample.
    max_iter : int
        Most steps of EM; exactly so many federated rounds (200 when published).
    random_state : int, Generator or None
        Of starts, batches and networks.
    task : str or int, optional
        Column of X that holds the task, as in :class:`MultiTaskRegressor`.

    Attributes
    ----------
    components_, component_intercepts_ : (M, d) and (M,) arrays
        Components; for networks ``components_`` is the list of them.
    mixture_ : (m, M) array
        Shares π of the components in each task.
    coef_, intercept_ : (m, d) and (m,) arrays
        Mixed by these shares; not for networks.
    noise_variance_ : float
        s², at least a millionth of the variance of y.
    log_likelihood_, objective_ : float
        Log-likelihood; the negative of what is maximised, per weight of a row.
    residual_ : float
        Change of ``objective_`` in the last step.
    n_iter_ : int
        Steps taken.
    tasks_, n_features_in_, feature_names_in_
        As in :class:`MultiTaskRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from priormtl.baselines import FedEM
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((80, 2)), np.repeat(np.arange(4), 20)
    >>> y = np.where(task < 2, X[:, 0], 3 * X[:, 1]) + 0.1 * rng.standard_normal(80)
    >>> model = FedEM(n_components=2).fit(X, y, task=task)
    >>> model.coef_.round(1) + 0.0
    array([[1., 0.],
           [1., 0.],
           [0., 3.],
           [0., 3.]])
    """

    loss = "squared"


class FedEMClassifier(ClassificationTasks, _FedEM):
    """Binary tasks as mixtures of a few shared logistic models.

    Maximises over components θ, b and shares π, with classes coded −1 and +1::

        Σ w log Σ_k π_ik expit(y (x θ_k + b_k))  −  ridge/2 Σ_k ‖θ_k‖²

    and predicts the probability Σ_k π_ik expit(x θ_k + b_k): probabilities are mixed,
    not scores, so that tasks have no coefficients of their own.

    Parameters
    ----------
    n_components, ridge, mode, component, hidden, n_init, learning_rate, epochs, \
batch_size, fit_intercept, task_weight, standardize, tol, max_iter, random_state, task
        As in :class:`FedEM`.

    Attributes
    ----------
    classes_ : (2,) array, or list of m arrays where tasks have different classes
        Class labels; the second is the positive one.
    components_, component_intercepts_, mixture_, log_likelihood_, objective_, \
residual_, n_iter_, tasks_, n_features_in_, feature_names_in_
        As in :class:`FedEM`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import one_vs_one
    >>> from priormtl.baselines import FedEMClassifier
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = FedEMClassifier(n_components=3, tol=1e-4).fit(X, y, task=task)
    >>> model.mixture_.shape, bool(model.score(X, y, task=task) > 0.9)
    ((3, 3), True)
    """

    loss = "logistic"
