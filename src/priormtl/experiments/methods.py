"""METHODS: everything the tables compare, name by name, behind one interface.

A method builds an estimator for a training set. The runner asks nothing more of it than
``fit(X, y, task=)`` and ``decision_function`` or ``predict``, so that any estimator can
join.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines import tuned
from priormtl.data import centre_samples, to_tasks
from priormtl.datasets import TaskSet
from priormtl.estimators import (
    CopyFeatures,
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
)
from priormtl.experiments.compared import COMPARED, build_compared, build_neural
from priormtl.experiments.experts import expert_prior, spoil_prior
from priormtl.experiments.protocol import Split
from priormtl.experiments.simple import MixedModel, SharedLasso
from priormtl.experiments.training import Training
from priormtl.priors import FeaturePrior
from priormtl.selection import split_by_fold

__all__ = ["LABELS", "METHODS", "PRIORS", "Method", "Training", "fit_method"]

PRIORS = ("none", "natural", "artificial", "expert")
TIES = ("chain", "mean")
INTERCEPTS: tuple[bool | str, ...] = (True, "tied")
STRENGTHS = ("lam", "theta", "epsilon", "alpha")
COPIED_SHARE = 0.05


class Fitted(NamedTuple):
    """Scores of test rows, and the strengths that were chosen."""

    scores: Array
    strengths: dict[str, float]


@dataclass(frozen=True)
class Method:
    """A name for people, and how to build the estimator."""

    label: str
    build: Callable[[Training], Any]
    applies: Callable[[TaskSet], bool] = lambda data: True
    version: int = 1  # to be raised when its results change


def fit_method(method: Method, training: Training, split: Split) -> Fitted:
    """Tune and fit a method on the training rows, and score the test rows."""
    model = method.build(training)
    model.fit(training.rows.X, training.rows.y, task=training.rows.task)
    scores = _score(model, split.test.X, split.test.task)
    return Fitted(scores * split.unit, _chosen_strengths(model))


def _score(model: Any, X: Array, task: np.ndarray | None) -> Array:
    """Decision values where the model has them, predictions elsewhere."""
    classifies = hasattr(model, "decision_function")
    ask = model.decision_function if classifies else model.predict
    return ask(X, task=task)


def _chosen_strengths(model: Any) -> dict[str, float]:
    """What the model has chosen, of the strengths that it has."""
    named = {name: getattr(model, f"{name}_", None) for name in STRENGTHS}
    chosen = {**named, **getattr(model, "best_params_", {})}
    return {
        name: float(value)
        for name, value in chosen.items()
        if isinstance(value, int | float)
    }


@dataclass(frozen=True)
class Ours:
    """The library's model with a prior, ties between tasks, and intercepts."""

    prior: str = "none"
    ties: str = "chain"
    intercepts: bool | str = True
    tie_weights: str | None = None

    def __call__(self, training: Training) -> Any:
        """Searching estimator."""
        if self.prior == "artificial":
            return _WithCopies(self, training)
        prior = _relations(self.prior, training)
        return self.searching(training, prior)

    def searching(self, training: Training, prior: FeaturePrior | None) -> Any:
        """Estimator that tries as many settings as every method may."""
        lams, thetas, epsilons = _strengths(training, with_prior=prior is not None)
        if self.tie_weights == "adaptive":
            epsilons = np.geomspace(0.1, 10.0, len(epsilons))  # of what was estimated
        settings: dict[str, Any] = {
            "cv": [tuple(split) for split in split_by_fold(training.folds)],
            "feature_prior": prior,
            "task_prior": self.ties,
            "fit_intercept": self.intercepts,
            "tie_weights": self.tie_weights,
            "tol": training.tol,
        }
        if training.data.kind == "regression":
            return MultiTaskRegressorCV(lams, thetas, epsilons, **settings)
        return MultiTaskClassifierCV(lams, thetas, epsilons, loss="squared", **settings)


class _WithCopies:
    """The paper's artificial prior: some features stand twice, known to act alike."""

    def __init__(self, ours: Ours, training: Training) -> None:
        self.ours, self.training = ours, training
        self.copies = CopyFeatures(COPIED_SHARE, random_state=training.seed)

    def fit(self, X: Array, y: Array, *, task: np.ndarray | None) -> Self:
        """Copy, then learn."""
        wide = self.copies.fit_transform(X)
        model = self.ours.searching(self.training, self.copies.prior_)
        self.model_ = model.fit(wide, y, task=task)
        self.lam_, self.theta_, self.epsilon_ = model.lam_, model.theta_, model.epsilon_
        return self

    def predict(self, X: Array, *, task: np.ndarray | None) -> Array:
        """Scores of rows."""
        return _score(self.model_, self.copies.transform(X), task)


def _strengths(training: Training, *, with_prior: bool) -> tuple[Array, Array, Array]:
    """Grids in absolute units; what theta does not need goes to a finer lam."""
    budget, n = training.budget, training.rows_per_task
    lams, thetas = np.array(budget.lams), np.array(budget.thetas)
    if not with_prior:
        lams = np.geomspace(lams[0], lams[-1], len(lams) * len(thetas))
        thetas = np.zeros(1)
    return lams * training.lam_max, thetas * n, np.array(budget.epsilons) * n


def _relations(prior: str, training: Training) -> FeaturePrior | None:
    if prior == "natural":
        return FeaturePrior.from_correlation(strongest=training.rows.X.shape[1])
    relations = expert_prior(training.data) if prior == "expert" else None
    if relations is not None and training.wrong:
        rng = np.random.default_rng(training.seed)
        moments = centre_samples(to_tasks(*training.rows))
        relations = spoil_prior(relations, moments, training.wrong, rng)
    return relations


def _ridge(name: str, training: Training) -> Any:
    """Ridge with as many strengths as every method may try."""
    relative = np.geomspace(1e-3, 1e3, training.budget.settings)
    strengths = relative * training.rows_per_task
    return tuned(
        name,
        classify=training.data.kind == "classification",
        settings=[{"lam": float(value)} for value in strengths],
        cv=[tuple(split) for split in split_by_fold(training.folds)],
    )


def _shared_lasso(training: Training) -> SharedLasso:
    """Strengths in scikit-learn's units: it divides the squares by the rows."""
    largest = training.lam_max / len(training.rows.y)
    alphas = largest * np.geomspace(1.0, 1e-3, training.budget.settings)
    return SharedLasso(alphas, training.folds)


def _shared_x(data: TaskSet) -> bool:
    return data.code is None


def _can_be_pooled(data: TaskSet) -> bool:
    """Not where classes share rows: the mean target of a row is then constant."""
    return data.kind == "regression" or data.code is not None


def _grouped_rows(data: TaskSet) -> bool:
    """Regression whose tasks are groups of alike rows, as a mixed model wants them."""
    return data.kind == "regression" and data.code is not None


def _has_expert(data: TaskSet) -> bool:
    return expert_prior(data) is not None


def _name(prior: str, ties: str, intercepts: bool | str) -> str:
    suffix = "-tied" if intercepts == "tied" else ""
    return prior if ties == "chain" and not suffix else f"{prior}-{ties}{suffix}"


def _ours(prior: str, ties: str, intercepts: bool | str) -> Method:
    with_prior = "without prior" if prior == "none" else f"{prior} prior"
    kind = "tied" if intercepts == "tied" else "free"
    label = f"ours, {with_prior}"
    if (ties, kind) != ("chain", "free"):
        label = f"{label}, {ties} of tasks, {kind} intercepts"
    applies = _has_expert if prior == "expert" else lambda data: True
    return Method(label, Ours(prior, ties, intercepts), applies)


METHODS: Mapping[str, Method] = {
    **{
        _name(prior, ties, intercepts): _ours(prior, ties, intercepts)
        for ties, intercepts, prior in product(TIES, INTERCEPTS, PRIORS)
    },
    "adaptive": Method(
        "ours, adaptive ties to the mean, tied intercepts",
        Ours("none", "mean", "tied", "adaptive"),
        lambda data: data.kind == "regression",
    ),
    **{
        name: Method(label, partial(build_compared, name))
        for name, label in COMPARED.items()
    },
    "fedem-mlp": Method(
        "FedEM, neural components, not tuned",
        build_neural,
        lambda data: data.name == "mnist",
    ),
    "ridge-single": Method("ridge per task", partial(_ridge, "ridge-single")),
    "ridge-pooled": Method(
        "ridge, tasks pooled", partial(_ridge, "ridge-pooled"), _can_be_pooled
    ),
    "mixed": Method(
        "mixed model, random intercept", lambda training: MixedModel(), _grouped_rows
    ),
    "multitask-lasso": Method(
        "scikit-learn's MultiTaskLasso",
        _shared_lasso,
        _shared_x,
    ),
}
LABELS = {name: method.label for name, method in METHODS.items()}
