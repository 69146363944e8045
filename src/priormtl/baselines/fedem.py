"""FedEM: tasks as mixtures of shared components.

O. Marfoq, G. Neglia, A. Bellet, L. Kameni, R. Vidal: Federated Multi-Task Learning
under a Mixture of Distributions. NeurIPS 2021.

EM maximises the likelihood (:class:`FedEM`). E-step: responsibilities q_k ∝ π_ik p(y |
x, θ_k) of every sample. M-step: π_i is the mean of q over task i, and θ_k fits the
samples weighted by q_k. In the published federated rounds every task makes some epochs
of stochastic gradient descent instead, and a server averages the components. Regression
is our adaptation: Gaussian components with one noise variance, which is learned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from scipy.special import expit

from priormtl.baselines import base
from priormtl.baselines.mixtures import (
    LinearFamily,
    Mixture,
    MixtureModel,
    Run,
    Samples,
)
from priormtl.checks import check_choice, check_count, check_strength, check_tolerance
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks


def fit_mixture(
    family: LinearFamily,
    M: int,
    n_init: int,
    tol: float,
    most: int,
    rng: np.random.Generator,
) -> Run:
    """EM from the best of several runs of ten steps, since it is not convex.

    Components begin at random parts of the tasks, in even shares.
    """
    samples, runs = family.samples, []
    even, parts = np.full((samples.n_tasks, M), 1.0 / M), min(M, samples.n_tasks)

    def follow(run: Run, last: int) -> Run:
        while run.n_iter < last and abs(run.gain) > tol:
            q = run.responsibility
            mixture = family.improve(run.mixture, q)
            mixture = mixture._replace(weights=samples.mixing_weights(q))
            run = samples.e_step(mixture, family.penalty(mixture.components), run)
        return run

    for _ in range(n_init if M > 1 else 1):
        dealt = rng.permutation(samples.n_tasks) % parts
        masks = (dealt == np.arange(M)[:, np.newaxis] % parts).astype(np.float64)
        start = family.start(masks[:, samples.task], even, rng)
        run = samples.e_step(start, family.penalty(start.components), None)
        runs.append(follow(run, min(10, most)))
    return follow(min(runs, key=lambda run: run.objective), most)


@dataclass(frozen=True)
class Descent:
    """Stochastic gradient descent of the clients."""

    rate: float
    epochs: int
    batch_size: int

    def fit(
        self, family: LinearFamily, M: int, rounds: int, rng: np.random.Generator
    ) -> Run:
        """Rounds from components that are initialised like layers of a network."""
        samples, p = family.samples, len(family.penalised)
        start = family.at(
            rng.uniform(-1.0, 1.0, (M, p)) / np.sqrt(p),
            np.full((samples.n_tasks, M), 1.0 / M),
        )
        even = np.full((M, len(samples.y)), 1.0 / M)
        start = start._replace(variance=samples.learn_variance(start.scores, even))
        run = samples.e_step(start, family.penalty(start.components), None)
        for n in range(rounds):
            # A tenth of the rate after half of the rounds, again after three quarters.
            rate = self.rate * 0.1 ** ((2 * n >= rounds) + (4 * n >= 3 * rounds))
            with np.errstate(over="ignore", invalid="ignore"):
                mixture = replace(self, rate=rate).round(family, run, rng)
                run = samples.e_step(mixture, family.penalty(mixture.components), run)
            if not np.isfinite(run.objective):
                raise ValueError(
                    f"learning_rate={self.rate:g} is too large: gradient descent "
                    "diverged. Lower it or set standardize=True."
                )
        return run

    def round(
        self, family: LinearFamily, run: Run, rng: np.random.Generator
    ) -> Mixture:
        """Descent and mixing weights of each client, then the server's average."""
        samples, mixture, q = family.samples, run.mixture, run.responsibility
        total = samples.weight.sum()
        ridge = family.ridge * mixture.variance * family.penalised / total
        average = np.zeros_like(mixture.components)
        for i in range(samples.n_tasks):
            members, coef = np.flatnonzero(samples.task == i), mixture.components
            for _ in range(self.epochs):
                full = self.batch_size >= len(members)
                order = members if full else rng.permutation(members)
                for a in range(0, len(order), self.batch_size):
                    # Mean of q ∇ℓ over the batch.
                    batch = order[a : a + self.batch_size]
                    X, w = family.matrix[samples.row[batch]], samples.weight[batch]
                    s = coef @ X.T
                    error = (expit(s) if samples.classify else s) - samples.y[batch]
                    slope = (q[:, batch] * error * (w / w.sum())) @ X
                    coef = coef - self.rate * (slope + ridge * coef)
            average += samples.weight[members].sum() / total * coef
        found = family.at(average, samples.mixing_weights(q))
        return found._replace(variance=samples.learn_variance(found.scores, q))


@dataclass(eq=False, repr=False)
class _FedEM(base.Baseline):
    followed = "ridge"

    n_components: int = 2
    ridge: float = 0.1
    _: KW_ONLY
    mode: str = "exact"
    n_init: int = 3
    learning_rate: float = 0.1
    epochs: int = 1
    batch_size: int = 128
    tol: float = 1e-6
    max_iter: int = 2000
    random_state: int | np.random.Generator | None = 0

    def _bind(self, data: TaskData) -> LinearFamily:
        federated = check_choice("mode", self.mode, ("exact", "federated")) != "exact"
        samples = Samples.of(data, classify=self.loss == "logistic")
        # Published gradient steps are those of the plain features.
        return LinearFamily.of(
            samples, intercept=bool(self.fit_intercept), rotate=not federated
        )

    def _follow(
        self, bound: LinearFamily, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        # Every fit starts afresh: a path would follow one local optimum.
        for ridge in strengths:
            yield self._fit_once(replace(bound, ridge=check_strength("ridge", ridge)))

    def _suggest(self, bound: LinearFamily, n: int) -> list[base.Settings]:
        counts = [1, 3, 5] if n < 12 else [1, 2, 3, 5]
        if n < 6:
            counts = [3] if n < 2 else [1, 3]
        ridges = np.geomspace(10.0, 1e-5, n // len(counts) + 2)[1:-1]
        outer = [{"n_components": count} for count in counts]
        return list(base.crossed(outer, "ridge", bound.curvature * ridges))[:n]

    def _fit_once(self, family: LinearFamily) -> base.Outcome:
        samples, M = family.samples, check_count("n_components", self.n_components)
        rng = np.random.default_rng(self.random_state)
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        federated = self.mode == "federated"
        if federated:
            rate = check_strength("learning_rate", self.learning_rate)
            epochs = check_count("epochs", self.epochs)
            size = check_count("batch_size", self.batch_size)
            run = Descent(rate, epochs, size).fit(family, M, most, rng)
        else:
            n_init = check_count("n_init", self.n_init)
            run = fit_mixture(family, M, n_init, tol, most, rng)
        weights = run.mixture.weights
        learned: dict[str, object] = {
            "mixture_": weights,
            "log_likelihood_": run.log_likelihood,
            "residual_": abs(run.gain),
        }
        if not samples.classify:
            learned["noise_variance_"] = run.mixture.variance
        coef, intercept = family.to_features(run.mixture.components)
        learned["component_intercepts_"] = intercept
        model: base.TaskModel = base.LinearModel(weights @ coef, weights @ intercept)
        if samples.classify:
            model = MixtureModel(base.LinearModel(coef, intercept), weights)
        shortfall = None
        # The number of federated rounds is a setting, not a limit.
        if not federated and abs(run.gain) > tol:
            shortfall = (
                f"the last of {run.n_iter} EM steps changed the log-likelihood per "
                f"sample by {abs(run.gain):.3g}, above tol={tol:g}; raise max_iter "
                "or tol."
            )
        return base.Outcome(
            model, run.objective, run.n_iter, learned, shortfall, {"components_": coef}
        )


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
        "exact": EM. "federated": the published algorithm, in which every task runs
        stochastic gradient descent on its own rows and a server averages components.
        Its gradients are those of the squared error, not of the squared error over s².
    n_init : int, default=3
        Number of starts, each fitted to random parts of the tasks. After ten steps the
        start with the highest likelihood is continued.
    learning_rate, epochs, batch_size : float, int, int
        Settings of federated descent: passes over the rows per round, and a rate that
        falls to a tenth after half of the rounds, and again after three quarters.
    fit_intercept : bool, default=True
        Whether components have an intercept, which is not penalised.
    tol, max_iter : float, default=1e-6; int, default=2000
        Stop when a step changes the log-likelihood per sample by at most ``tol``.
        ``max_iter`` limits EM steps, or is the number of rounds (200 in the paper).
    random_state : int, Generator or None, default=0
        Seed of starts and batches.
    task_weight, standardize, task
        See :class:`DMTL`.

    Attributes
    ----------
    components_, component_intercepts_ : (M, d) and (M,) arrays
        Coefficients and intercepts of the components.
    mixture_ : (m, M) array
        Mixing weights π of the components in each task.
    coef_, intercept_ : (m, d) and (m,) arrays
        Mixed coefficients and intercepts of each task.
    noise_variance_ : float
        s², at least a millionth of the variance of y.
    log_likelihood_, objective_, residual_ : float
        Log-likelihood; the negative of what is maximised, divided by the total weight;
        and its change in the last step.
    n_iter_, tasks_
        Number of EM steps or federated rounds, and task labels.

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
    not scores, so there is no ``coef_``. Parameters and other attributes are those of
    :class:`FedEM`.
    """

    loss = "logistic"
