"""FedEM: tasks as mixtures of shared components.

O. Marfoq, G. Neglia, A. Bellet, L. Kameni, R. Vidal: Federated Multi-Task Learning
under a Mixture of Distributions. NeurIPS 2021.

Each sample of task i comes from one of M shared components, from the k-th with
probability π_ik. EM maximises Σ w log Σ_k π_ik p(y | x, θ_k) − ridge/2 ‖θ‖². E-step:
responsibilities q_k ∝ π_ik p(y | x, θ_k) of every sample. M-step: π_i is the mean of q
over task i, and θ_k fits the samples weighted by q_k. In the published federated rounds
every task makes some epochs of stochastic gradient descent instead, and a server
averages the components. Regression is our adaptation: Gaussian components with one
noise variance, which is learned.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array, hstack, issparse
from scipy.special import expit, log_expit, logit, logsumexp
from sklearn.neural_network import MLPClassifier, MLPRegressor

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl.baselines.base import (
    Baseline,
    LinearModel,
    Outcome,
    Settings,
    TaskModel,
    crossed,
    find_distinct,
)
from priormtl.checks import check_choice, check_count, check_strength, check_tolerance
from priormtl.data import StackedRows, TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks

LARGEST_DENSE = 10**7  # numbers up to which sparse features are made dense
DIRECT_SIZE = 2000  # coordinates up to which normal equations are written out
SHORT = 10  # EM steps after which starts are compared, and steps of L-BFGS in each
BATCH = 200  # rows per step of Adam
EPSILON = float(np.finfo(float).eps)


class Mixture(NamedTuple):
    """Components, their scores and each task's mixing weights."""

    components: Any  # coefficients (M, p), or M networks
    scores: Array  # (M, r) of the distinct rows
    variance: float  # of the noise; 1 for classes
    weights: Array  # π (m, M), rows sum to one


class Run(NamedTuple):
    """A mixture, and its E-step."""

    mixture: Mixture
    responsibility: Array  # (M, N), columns sum to one
    log_likelihood: float
    objective: float  # negative penalised log-likelihood per weight
    gain: float = np.inf  # of the last step
    n_iter: int = 0


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples over r distinct rows: one product serves all tasks of a row."""

    X: Matrix  # (r, d)
    row: Index  # (N,)
    task: Index  # (N,)
    y: Array  # (N,) numbers, or 1 and 0 for classes
    weight: Array  # (N,), positive
    n_tasks: int
    classify: bool

    @classmethod
    def of(cls, data: TaskData, *, classify: bool) -> "Samples":
        """Samples of either layout; equal stacked rows become one."""
        X, m = data.X, data.shape[1]
        if issparse(X) and X.shape[0] * X.shape[1] <= LARGEST_DENSE:
            X = X.toarray()
        if isinstance(data, StackedRows):
            first, row = find_distinct(X)
            task, y, weight = (
                np.repeat(np.arange(m), np.diff(data.starts)),
                data.y,
                data.weight,
            )
            X = X[first]
        else:
            row, task = np.nonzero(data.weight)
            y, weight = data.y[row, task], data.weight[row, task]
        y = (y > 0).astype(np.float64) if classify else y
        return cls(X, row, task, y, weight, m, classify)

    @cached_property
    def row_weight(self) -> Array:
        """Total weight of each distinct row (r,)."""
        return self.by_row(self.weight[np.newaxis])[0]

    def by_row(self, values: Array) -> Array:
        """Sums over the samples of each distinct row: (k, N) to (k, r)."""
        return np.array([np.bincount(self.row, v, self.X.shape[0]) for v in values])

    def log_density(self, scores: Array, variance: float) -> Array:
        """log p(y | s_k) of every sample (M, N)."""
        s = scores[:, self.row]
        if self.classify:
            return np.asarray(log_expit(np.where(self.y > 0, s, -s)))
        constant = 0.5 * np.log(2.0 * np.pi * variance)
        return np.asarray(-0.5 / variance * (self.y - s) ** 2 - constant)

    def learn_variance(self, scores: Array, responsibility: Array) -> float:
        """Mean squared residual, at least a millionth of the targets' variance."""
        if self.classify:
            return 1.0
        weight = responsibility * self.weight
        squares = float(np.vdot(weight, (self.y - scores[:, self.row]) ** 2))
        mean = float(np.average(self.y, weights=self.weight))
        spread = float(np.average((self.y - mean) ** 2, weights=self.weight))
        if spread <= EPSILON * mean**2:  # constant targets
            spread = mean**2 or 1.0
        return max(squares / float(weight.sum()), 1e-6 * spread)

    def mixing_weights(self, responsibility: Array) -> Array:
        """M-step of π: mean responsibilities of each task (m, M)."""
        weighted = responsibility * self.weight
        sums = np.array([np.bincount(self.task, w, self.n_tasks) for w in weighted])
        return (sums / np.bincount(self.task, self.weight, self.n_tasks)).T

    def e_step(self, mixture: Mixture, penalty: float, last: Run | None) -> Run:
        """Responsibilities, and with them the likelihood (log-sum-exp)."""
        joint = self.log_density(mixture.scores, mixture.variance)
        joint = joint + log_weights(mixture.weights).T[:, self.task]
        total = logsumexp(joint, axis=0)
        likelihood = float(self.weight @ total)
        objective = (penalty - likelihood) / float(self.weight.sum())
        run = Run(mixture, np.exp(joint - total), likelihood, objective)
        if last is None:
            return run
        return run._replace(gain=last.objective - objective, n_iter=last.n_iter + 1)


def log_weights(weights: Array) -> Array:
    """Logarithms; minus infinity for a weight of zero."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


# Linear components


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """M linear or logistic models in coordinates of the rows, the last one constant."""

    samples: Samples
    ridge: float
    matrix: Matrix  # (r, p)
    basis: Array | None  # (d, q) orthonormal; None: the coordinates are the features
    shift: Array  # (d,) subtracted from the features
    penalised: Array  # (p,) 1, and 0 for the constant

    @classmethod
    def of(cls, samples: Samples, *, intercept: bool, rotate: bool) -> "LinearFamily":
        """Principal axes, in which Hessians are nearly diagonal, or plain features."""
        X, basis, weight = samples.X, None, samples.row_weight
        shift = np.zeros(X.shape[1])
        if rotate and not issparse(X):
            shift = shift + intercept * np.average(X, axis=0, weights=weight)
            X = X - shift
            scaled = X * np.sqrt(weight / weight.sum())[:, np.newaxis]
            # By the smaller Gram matrix, then orthonormal to rounding.
            wide = len(X) < X.shape[1]
            gram = scaled @ scaled.T if wide else scaled.T @ scaled
            squares, axes = np.linalg.eigh(gram)
            axes = axes[:, squares > len(axes) * EPSILON * squares[-1]]
            basis = np.linalg.qr(scaled.T @ axes)[0] if wide else axes
            X = X @ basis
        penalised = np.ones(X.shape[1])
        if intercept:
            ones = np.ones((X.shape[0], 1))
            X = csr_array(hstack([X, ones])) if issparse(X) else np.hstack([X, ones])
            penalised = np.append(penalised, 0.0)
        return cls(samples, 0.0, X, basis, shift, penalised)

    def to_features(self, coef: Array) -> tuple[Array, Array]:
        """Coefficients (M, d) of the original features, and intercepts (M,)."""
        n = int(self.penalised.sum())
        slope = coef[:, :n] if self.basis is None else coef[:, :n] @ self.basis.T
        return np.ascontiguousarray(slope), coef[:, n:].sum(axis=1) - slope @ self.shift

    @cached_property
    def spectrum(self) -> Array:
        """Weighted sums of squares of the coordinates (p,)."""
        X = self.matrix
        squares = X.multiply(X) if issparse(X) else X**2
        return np.asarray(self.samples.row_weight @ squares)

    @property
    def curvature(self) -> float:
        """Mean second derivative of the negative log-likelihood in a coefficient."""
        samples = self.samples
        noise = samples.learn_variance(
            np.zeros((1, samples.X.shape[0])), np.ones((1, len(samples.y)))
        )
        second = 0.25 if samples.classify else 1.0
        total = float(self.spectrum @ self.penalised)
        return (second * total / noise / samples.X.shape[1]) or 1.0

    def at(self, coef: Array, weights: Array, variance: float = 1.0) -> Mixture:
        return Mixture(coef, np.asarray(coef @ self.matrix.T), variance, weights)

    def penalty(self, coef: Array) -> float:
        return 0.5 * self.ridge * float(np.sum(coef**2 @ self.penalised))

    def start(self, q: Array, weights: Array, rng: np.random.Generator) -> Mixture:
        """Components fitted to these samples, then moved apart at random."""
        samples, M = self.samples, len(q)
        mixture = self.improve(self.at(np.zeros((M, len(self.penalised))), weights), q)
        if M == 1:
            return mixture
        # Drawn for the original features: the signs of principal axes are arbitrary.
        weight, X = samples.row_weight, samples.X
        squares = X.multiply(X) if issparse(X) else (X - self.shift) ** 2
        size = np.sqrt(np.asarray(weight @ squares) / weight.sum())
        unit = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        move = rng.standard_normal((M, len(unit))) * unit
        level = (rng.standard_normal(M) + move @ self.shift)[:, np.newaxis]
        move = move if self.basis is None else move @ self.basis
        move = np.hstack([move, level]) if self.penalised[-1] == 0 else move
        sizes = np.asarray(move @ self.matrix.T) ** 2 @ weight / weight.sum()
        # A fifth of the noise between the scores.
        length = 0.2 * np.sqrt(mixture.variance / np.maximum(sizes, 1e-300))
        moved = self.at(mixture.components + move * length[:, np.newaxis], weights)
        return moved._replace(variance=samples.learn_variance(moved.scores, q))

    def improve(self, mixture: Mixture, q: Array) -> Mixture:
        """M-step at responsibilities q (M, N): coefficients, then the variance.

        Row r costs c A(s) − t s with its weight c, weighted targets t and A' the mean.
        For squares the minimum is exact; for classes some steps of L-BFGS lower it,
        since more would be wasted while responsibilities still change.
        """
        samples, X = self.samples, self.matrix
        weight = samples.by_row(q * samples.weight)
        target = samples.by_row(q * samples.weight * samples.y)
        ridge = self.ridge * mixture.variance * self.penalised
        shape = mixture.components.shape
        if not samples.classify and shape[1] <= DIRECT_SIZE:
            X = X.toarray() if issparse(X) else X
            systems = X.T @ (weight[:, :, np.newaxis] * X) + np.diag(ridge)
            pairs = zip(systems, target @ X, strict=True)
            # The shortest solution where components have too few samples.
            coef = np.array([np.linalg.lstsq(A, b, rcond=1e-13)[0] for A, b in pairs])
        else:
            # Scaled by the diagonal of the Hessian.
            second = 0.25 if samples.classify else 1.0
            level = second * weight.sum(axis=1, keepdims=True) / samples.weight.sum()
            unit = 1.0 / np.sqrt(np.maximum(level * self.spectrum + ridge, 1e-300))

            def cost(flat: Array) -> tuple[float, Array]:
                coef = unit * flat.reshape(shape)
                s = np.asarray(coef @ X.T)
                mean, A = s, 0.5 * s**2
                if samples.classify:
                    mean, A = expit(s), -log_expit(-s)
                value = np.vdot(weight, A) - np.vdot(target, s)
                value += 0.5 * np.sum(coef**2 @ ridge)
                gradient = np.asarray((weight * mean - target) @ X) + ridge * coef
                return float(value), (unit * gradient).ravel()

            flat = (mixture.components / unit).ravel()
            options = {"maxiter": SHORT, "ftol": 0.0, "gtol": 1e-12}
            flat = minimize(cost, flat, jac=True, method="L-BFGS-B", options=options).x
            coef = unit * flat.reshape(shape)
        moved = self.at(coef, mixture.weights)
        return moved._replace(variance=samples.learn_variance(moved.scores, q))


# Neural components: networks of scikit-learn, whose M-step is some epochs of Adam


@dataclass(frozen=True, eq=False)
class NetworkFamily:
    """M networks with the same hidden layers."""

    samples: Samples
    ridge: float
    hidden: tuple[int, ...]
    epochs: int

    def penalty(self, networks: Sequence[Any]) -> float:
        """ridge/2 times the squares of all weights, without biases."""
        squares = (np.sum(W**2) for net in networks for W in net.coefs_)
        return 0.5 * self.ridge * float(sum(squares))

    def start(self, q: Array, weights: Array, rng: np.random.Generator) -> Mixture:
        """Networks of different seeds, after one M-step on these samples."""
        kind = MLPClassifier if self.samples.classify else MLPRegressor
        networks = tuple(
            kind(hidden_layer_sizes=self.hidden, random_state=int(seed))
            for seed in rng.integers(2**31, size=len(q))
        )
        # A share of every sample for all, so that no network is left unfitted.
        return self.improve(Mixture(networks, np.empty(0), 1.0, weights), 0.5 + 0.5 * q)

    def improve(self, mixture: Mixture, q: Array) -> Mixture:
        """M-step: some epochs from where the networks are, then the variance."""
        samples, n = self.samples, self.samples.X.shape[0]
        networks = deepcopy(mixture.components)
        for network, own in zip(networks, q * samples.weight, strict=True):
            total, hits = samples.by_row(np.array([own, own * samples.y]))
            row, weight = np.arange(n), total
            y = np.divide(hits, total, out=np.zeros(n), where=total > 0)
            if samples.classify:  # each row once with each class
                row, y = np.tile(row, 2), np.repeat([1.0, 0.0], n)
                weight = np.append(hits, np.maximum(total - hits, 0.0))
            seen = weight > 1e-3 * weight.mean()
            if not seen.any():
                continue
            # Each batch adds the whole penalty to its own mean loss.
            network.set_params(alpha=self.ridge * min(BATCH / seen.sum(), 1.0))
            extra = {"classes": [0.0, 1.0]} if samples.classify else {}
            for _ in range(self.epochs):
                network.partial_fit(
                    samples.X[row[seen]], y[seen], sample_weight=weight[seen], **extra
                )
        scores = np.array([network_scores(network, samples.X) for network in networks])
        variance = samples.learn_variance(scores, q)
        return Mixture(networks, scores, variance, mixture.weights)


def network_scores(network: Any, X: Matrix) -> Array:
    """Predicted targets, or log-odds of the positive class (n,)."""
    if isinstance(network, MLPRegressor):
        return np.asarray(network.predict(X))
    return np.asarray(
        logit(np.clip(network.predict_proba(X)[:, 1], EPSILON, 1 - EPSILON))
    )


# Expectation maximisation


def fit_mixture(
    family: LinearFamily | NetworkFamily,
    M: int,
    n_init: int,
    tol: float,
    most: int,
    rng: Any,
) -> Run:
    """EM from the best of several short runs, since the problem is not convex.

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
        runs.append(follow(run, min(SHORT, most)))
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
                    s = np.asarray(coef @ X.T)
                    error = (expit(s) if samples.classify else s) - samples.y[batch]
                    slope = np.asarray((q[:, batch] * error * (w / w.sum())) @ X)
                    coef = coef - self.rate * (slope + ridge * coef)
            average += samples.weight[members].sum() / total * coef
        found = family.at(average, samples.mixing_weights(q))
        return found._replace(variance=samples.learn_variance(found.scores, q))


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """Means of targets or of probabilities, by each task's mixing weights."""

    components: LinearModel | tuple[Any, ...]  # M linear models, or M networks
    weights: Array  # π (m, M)
    classify: bool

    def scores(self, X: Matrix, i: int) -> Array:
        """Σ π_k s_k, or for classes the log-odds of Σ π_k expit(s_k)."""
        if isinstance(self.components, LinearModel):
            coef, intercept = self.components.coef, self.components.intercept
            s = np.asarray((X @ coef.T + intercept).T)
        else:
            s = np.array([network_scores(network, X) for network in self.components])
        if not self.classify:
            return np.asarray(self.weights[i] @ s)
        log = log_weights(self.weights[i])[:, np.newaxis]
        positive = logsumexp(log + log_expit(s), axis=0)
        return np.asarray(positive - logsumexp(log + log_expit(-s), axis=0))


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

    def _bind(self, data: TaskData) -> LinearFamily:
        federated = check_choice("mode", self.mode, ("exact", "federated")) != "exact"
        neural = check_choice("component", self.component, ("linear", "mlp")) == "mlp"
        samples = Samples.of(data, classify=self.loss == "logistic")
        # Published gradient steps are those of the plain features.
        rotate = not (federated or neural)
        return LinearFamily.of(
            samples, intercept=bool(self.fit_intercept), rotate=rotate
        )

    def _follow(
        self, bound: LinearFamily, strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        # Every fit starts afresh: a path would follow one local optimum.
        for ridge in strengths:
            yield self._fit_once(replace(bound, ridge=check_strength("ridge", ridge)))

    def _suggest(self, bound: LinearFamily, n: int) -> list[Settings]:
        counts = [1, 3, 5] if n < 12 else [1, 2, 3, 5]
        if n < 6:
            counts = [3] if n < 2 else [1, 3]
        ridges = np.geomspace(10.0, 1e-5, n // len(counts) + 2)[1:-1]
        outer = [{"n_components": count} for count in counts]
        return list(crossed(outer, "ridge", bound.curvature * ridges))[:n]

    def _fit_once(self, family: LinearFamily) -> Outcome:
        samples, M = family.samples, check_count("n_components", self.n_components)
        rng = np.random.default_rng(self.random_state)
        n_init, epochs = (
            check_count("n_init", self.n_init),
            check_count("epochs", self.epochs),
        )
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        federated, neural = self.mode == "federated", self.component == "mlp"
        if neural:
            if federated:
                raise ValueError(
                    'mode must be "exact" for component="mlp": got "federated", which '
                    "averages linear components only."
                )
            if "sample_weight" not in signature(MLPRegressor.partial_fit).parameters:
                raise ImportError(
                    'component="mlp" needs scikit-learn 1.7 or later, whose networks '
                    'take sample weights. Update it or use component="linear".'
                )
            hidden = tuple(check_count("every one of hidden", n) for n in self.hidden)
            networks = NetworkFamily(samples, family.ridge, hidden, epochs)
            run = fit_mixture(networks, M, n_init, tol, most, rng)
        elif federated:
            rate = check_strength("learning_rate", self.learning_rate)
            size = check_count("batch_size", self.batch_size)
            run = Descent(rate, epochs, size).fit(family, M, most, rng)
        else:
            run = fit_mixture(family, M, n_init, tol, most, rng)
        weights, found = run.mixture.weights, run.mixture.components
        learned: dict[str, Any] = {
            "mixture_": weights,
            "log_likelihood_": run.log_likelihood,
            "residual_": abs(run.gain),
        }
        parts = {}
        if not samples.classify:
            learned["noise_variance_"] = run.mixture.variance
        if neural:
            learned["components_"] = list(found)
            model: TaskModel = MixtureModel(found, weights, samples.classify)
        else:
            coef, intercept = family.to_features(found)
            parts["components_"], learned["component_intercepts_"] = coef, intercept
            model = LinearModel(weights @ coef, weights @ intercept)
            if samples.classify:
                model = MixtureModel(LinearModel(coef, intercept), weights, True)
        shortfall = None
        # The number of federated rounds is a setting, not a limit.
        if not federated and abs(run.gain) > tol:
            shortfall = (
                f"the last of {run.n_iter} EM steps changed the log-likelihood per "
                f"sample by {abs(run.gain):.3g}, above tol={tol:g}; raise max_iter "
                "or tol."
            )
        return Outcome(model, run.objective, run.n_iter, learned, shortfall, parts)


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
    tol, max_iter : float, default=1e-6; int, default=2000
        Stop when a step changes the log-likelihood per sample by at most ``tol``.
        ``max_iter`` limits EM steps, or is the number of rounds (200 in the paper).
    random_state : int, Generator or None, default=0
        Seed of starts, batches and networks.
    task_weight, standardize, task
        See :class:`DMTL`.

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
