"""FedEM: tasks as mixtures of shared components.

O. Marfoq, G. Neglia, A. Bellet, L. Kameni, R. Vidal: Federated Multi-Task Learning
under a Mixture of Distributions. NeurIPS 2021.

Each sample of task i comes from one of M shared components, from the k-th with
probability π_ik. Components and mixing weights maximise the penalised likelihood
(``em``). Regression is our adaptation: its components are Gaussian with one noise
variance, which is learned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit, logsumexp

from priormtl._arrays import Array, Matrix
from priormtl.baselines.base import (
    Baseline,
    LinearModel,
    Outcome,
    Settings,
    TaskModel,
    crossed,
)
from priormtl.baselines.fedem import em
from priormtl.baselines.fedem.components import (
    LinearFamily,
    NetworkFamily,
    check_networks,
    network_scores,
)
from priormtl.baselines.fedem.samples import (
    Bernoulli,
    BoundSamples,
    Gaussian,
    gather_samples,
)
from priormtl.checks import check_choice, check_count, check_strength, check_tolerance
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks

MODES = ("exact", "federated")
COMPONENTS = ("linear", "mlp")
WIDEST, NARROWEST = 10.0, 1e-5  # range of ridges to try, times the mean curvature


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """Means of targets or of probabilities, by each task's mixing weights."""

    components: LinearModel | tuple[Any, ...]  # M linear models, or M networks
    weights: Array  # π (m, M)
    has_classes: bool

    def scores(self, X: Matrix, i: int) -> Array:
        """Σ π_k s_k, or for classes the log-odds of Σ π_k expit(s_k)."""
        if isinstance(self.components, LinearModel):
            coef, intercept = self.components.coef, self.components.intercept
            scores = np.asarray((X @ coef.T + intercept).T)
        else:
            scores = np.array([network_scores(net, X) for net in self.components])
        if not self.has_classes:
            return np.asarray(self.weights[i] @ scores)
        weights = em.log_weights(self.weights[i])[:, np.newaxis]
        positive = logsumexp(weights + log_expit(scores), axis=0)
        return np.asarray(positive - logsumexp(weights + log_expit(-scores), axis=0))


@dataclass(eq=False, repr=False)
class _FedEM(Baseline):
    followed = "ridge"

    n_components: int = 2
    ridge: float = 0.1
    _: KW_ONLY
    mode: str = "exact"
    component: str = "linear"
    hidden: tuple[int, ...] = (100,)
    n_init: int = 3
    learning_rate: float = 0.1
    epochs: int = 1
    batch_size: int = 128
    tol: float = 1e-6
    max_iter: int = 2000
    random_state: Any = 0

    def _bind(self, data: TaskData) -> BoundSamples:
        response = Gaussian() if self.loss == "squared" else Bernoulli()
        rotate = not self._is_federated and not self._is_neural
        return BoundSamples(
            gather_samples(data), response, rotate, bool(self.fit_intercept)
        )

    def _follow(
        self, bound: BoundSamples, strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        # Every fit starts afresh: a path would follow one local optimum.
        for ridge in strengths:
            yield self._fit_once(bound, check_strength("ridge", ridge))

    def _suggest(self, bound: BoundSamples, n: int) -> list[Settings]:
        counts = [1, 3, 5] if n < 12 else [1, 2, 3, 5]
        if n < 6:
            counts = [3] if n < 2 else [1, 3]
        ridges = np.geomspace(WIDEST, NARROWEST, n // len(counts) + 2)[1:-1]
        outer = [{"n_components": count} for count in counts]
        return list(crossed(outer, "ridge", bound.curvature * ridges))[:n]

    @property
    def _is_federated(self) -> bool:
        return check_choice("mode", self.mode, MODES) == "federated"

    @property
    def _is_neural(self) -> bool:
        return check_choice("component", self.component, COMPONENTS) == "mlp"

    def _fit_once(self, bound: BoundSamples, ridge: float) -> Outcome:
        samples, response = bound.samples, bound.response
        has_classes = not response.is_quadratic
        model: TaskModel
        learned: dict[str, Any]
        parts: dict[str, Array] = {}
        if self._is_neural:
            if self._is_federated:
                raise ValueError(
                    'mode must be "exact" for component="mlp": got "federated", which '
                    "averages linear components only."
                )
            check_networks()
            hidden = tuple(check_count("every one of hidden", n) for n in self.hidden)
            epochs = check_count("epochs", self.epochs)
            run = self._run_em(NetworkFamily(samples, response, ridge, hidden, epochs))
            networks, weights = run.mixture.components.networks, run.mixture.weights
            model = MixtureModel(networks, weights, has_classes)
            learned = {"components_": list(networks)}
        else:
            family = LinearFamily(samples, bound.features, response, ridge)
            run = self._run_sgd(family) if self._is_federated else self._run_em(family)
            weights = run.mixture.weights
            coef, intercept = bound.features.to_features(run.mixture.components.coef)
            parts["components_"] = coef
            learned = {"component_intercepts_": intercept}
            if has_classes:
                model = MixtureModel(LinearModel(coef, intercept), weights, True)
            else:
                model = LinearModel(weights @ coef, weights @ intercept)
        learned |= {
            "mixture_": weights,
            "log_likelihood_": run.expectation.log_likelihood,
            "residual_": abs(run.gain),
        }
        if not has_classes:
            learned["noise_variance_"] = run.mixture.components.variance
        shortfall = None
        # The number of federated rounds is a setting, not a limit.
        if not self._is_federated and abs(run.gain) > self.tol:
            shortfall = (
                f"the last of {run.n_iter} EM steps changed the log-likelihood per "
                f"sample by {abs(run.gain):.3g}, above tol={self.tol:g}; raise "
                "max_iter or tol."
            )
        objective = run.expectation.objective
        return Outcome(model, objective, run.n_iter, learned, shortfall, parts)

    def _run_em(self, family: em.Family[Any]) -> em.Fitted[Any]:
        count = check_count("n_components", self.n_components)
        n_init = check_count("n_init", self.n_init)
        rng = np.random.default_rng(self.random_state)
        starts = em.start_mixtures(family, count, n_init, rng)
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        return em.fit_mixture(family, starts, tol, most)

    def _run_sgd(self, family: LinearFamily) -> em.Fitted[Any]:
        count = check_count("n_components", self.n_components)
        rng = np.random.default_rng(self.random_state)
        sgd = em.SGD(
            check_strength("learning_rate", self.learning_rate),
            check_count("epochs", self.epochs),
            check_count("batch_size", self.batch_size),
        )
        start = em.random_mixture(family, count, rng)
        rounds = check_count("max_iter", self.max_iter)
        return em.fit_federated(family, start, sgd, rounds, rng)


class FedEM(RegressionTasks, _FedEM):
    """Regression tasks as mixtures of a few shared linear models.

    Every sample of task i comes from one of M components, from the k-th with
    probability π_ik. The method maximises over components θ, b, mixing weights π and
    the noise variance s²::

        Σ w log Σ_k π_ik N(y; x θ_k + b_k, s²)  −  ridge/2 Σ_k ‖θ_k‖²

    and predicts Σ_k π_ik (x θ_k + b_k). Intercepts belong to components, not to tasks,
    as in the published model. The problem is not convex: EM continues from the best of
    several starts, and there is no duality gap.

    Parameters
    ----------
    n_components : int, default=2
        Number M of components; 1 is one ridge regression for all tasks.
    ridge : float, default=0.1
        Strength of the penalty, in units of the log-likelihood.
    mode : {"exact", "federated"}, default="exact"
        "exact": EM with exact M-steps. "federated": the published algorithm, in which
        every task runs stochastic gradient descent on its own rows and a server
        averages the components. Its gradients are those of the squared error, not of
        the squared error over s².
    component : {"linear", "mlp"}, default="linear"
        Linear models, or scikit-learn networks (1.7 or later) whose M-step is some
        epochs of Adam. With networks the likelihood need not increase in every step.
    hidden : tuple of int, default=(100,)
        Sizes of the networks' hidden layers.
    n_init : int, default=3
        Number of starts, each fitted to random parts of the tasks. After ten steps the
        start with the highest likelihood is continued.
    learning_rate, batch_size : float, int
        Settings of federated descent. The rate falls to a tenth after half of the
        rounds, and again after three quarters.
    epochs : int, default=1
        Passes over the rows per federated round, or per M-step of networks.
    fit_intercept : bool, default=True
        Whether components have an intercept, which is not penalised.
    task_weight, standardize, task
        See :class:`DMTL`.
    tol : float, default=1e-6
        Stop when a step changes the log-likelihood per sample by at most ``tol``.
    max_iter : int, default=2000
        Maximum number of EM steps, or the number of federated rounds (200 in the
        paper).
    random_state : int, Generator or None, default=0
        Seed of starts, batches and networks.

    Attributes
    ----------
    components_, component_intercepts_ : (M, d) and (M,) arrays
        Components; with networks ``components_`` is a list of them.
    mixture_ : (m, M) array
        Mixing weights π of the components in each task.
    coef_, intercept_ : (m, d) and (m,) arrays
        Mixed coefficients and intercepts of each task; absent with networks.
    noise_variance_ : float
        s², at least a millionth of the variance of y.
    log_likelihood_, objective_ : float
        Log-likelihood; the negative of what is maximised, divided by the total weight.
    residual_ : float
        Change of ``objective_`` in the last step.
    n_iter_ : int
        Number of EM steps or federated rounds.
    tasks_, n_features_in_, feature_names_in_
        See :class:`MultiTaskRegressor`.

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

    The method maximises over components θ, b and mixing weights π, with classes coded
    −1 and +1::

        Σ w log Σ_k π_ik expit(y (x θ_k + b_k))  −  ridge/2 Σ_k ‖θ_k‖²

    and predicts the probability Σ_k π_ik expit(x θ_k + b_k). Probabilities are mixed,
    not scores, so there is no ``coef_``.

    Parameters
    ----------
    n_components, ridge, mode, component, hidden, n_init, learning_rate, epochs, \
batch_size, fit_intercept, task_weight, standardize, tol, max_iter, random_state, task
        See :class:`FedEM`.

    Attributes
    ----------
    classes_ : (2,) array, or list of m arrays where tasks have different classes
        Class labels; the second is the positive one.
    components_, component_intercepts_, mixture_, log_likelihood_, objective_, \
residual_, n_iter_, tasks_, n_features_in_, feature_names_in_
        See :class:`FedEM`.

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
