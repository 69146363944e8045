"""METHODS: all methods of the tables by name, behind one interface.

A method builds an estimator for a training set. The runner asks nothing more of it than
``fit(X, y, task=)`` and ``decision_function`` or ``predict``, so that any estimator can
join. Every method is tuned on folds of the same training rows.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array, eye_array
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import MultiTaskLassoCV

from priormtl._arrays import Array, Index
from priormtl.baselines import (
    BASELINES,
    CLASSIFIERS,
    UsualRegressor,
    tuned,
)
from priormtl.data import Moments, centre_samples, to_tasks
from priormtl.datasets import Rows, TaskSet
from priormtl.estimators import (
    CopyFeatures,
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
)
from priormtl.experiments.protocol import MOST_FOLDS, PROTOCOLS, Budget, Split
from priormtl.priors import FeaturePrior, difference_matrix
from priormtl.selection import split_by_fold


@dataclass(frozen=True, eq=False)
class Training:
    """What a method may use: a training set, its folds and its budget."""

    data: TaskSet  # names and notes, not rows
    rows: Rows
    folds: Index
    budget: Budget  # of our model
    n_settings: int  # of other methods, at most
    tol: float
    seed: int
    wrong: float = 0.0  # share of the relations that are made wrong
    held_out: int = MOST_FOLDS  # folds on which our model is tuned

    @property
    def classify(self) -> bool:
        return self.data.kind == "classification"

    @property
    def splits(self) -> list[tuple[Index, Index]]:
        """Training and held-out rows of each fold, as scikit-learn's ``cv``."""
        return [(split[0], split[1]) for split in split_by_fold(self.folds)]

    @property
    def rows_per_task(self) -> float:
        n = len(self.rows.y)
        return float(n if self.rows.task is None else n / len(self.data.task_names))

    @property
    def slopes(self) -> Array:
        """Minus the gradient of the squared loss at P = 0, features × tasks."""
        # With free intercepts it is that of centred rows.
        X, y, task = self.rows
        if task is None:
            return (X - X.mean(axis=0)).T @ (y - y.mean(axis=0))
        groups = [task == name for name in np.unique(task)]
        return np.array(
            [(y[r] - y[r].mean()) @ (X[r] - X[r].mean(axis=0)) for r in groups]
        ).T

    @property
    def lam_max(self) -> float:
        """The lam at which all coefficients vanish: largest row of the slopes."""
        return float(np.linalg.norm(self.slopes, axis=1).max())


@dataclass(frozen=True)
class Method:
    """Label of a method, how to build its estimator, and where it applies."""

    label: str
    build: Callable[[Training], BaseEstimator]
    applies: Callable[[TaskSet], bool] = lambda data: True
    version: int = 1  # to be raised when its results change


class Scored(NamedTuple):
    """Scores of test rows, the strengths that were chosen, and what these selected."""

    scores: Array
    strengths: dict[str, float]  # and the number of features, or the rank, of our fits


def fit_method(method: Method, training: Training, split: Split) -> Scored:
    X, y, task = training.rows
    model = method.build(training).fit(X, y, task=task)
    scores = _score_rows(model, split.test.X, split.test.task)
    # Our searches have lam_, theta_ and epsilon_, tuned baselines best_params_, and
    # scikit-learn's lasso alpha_.
    names = ("lam", "theta", "epsilon", "alpha")
    chosen = {name: getattr(model, f"{name}_", None) for name in names}
    chosen |= getattr(model, "best_params_", {})
    strengths = {k: float(x) for k, x in chosen.items() if isinstance(x, int | float)}
    if isinstance(method.build, Ours) and method.build.ties == "uniform":
        # In units of the grid too.
        n = training.rows_per_task
        units = {"lam": method.build.lam_max(training), "theta": n, "epsilon": n}
        relative = {f"relative_{k}": strengths[k] / unit for k, unit in units.items()}
        strengths |= {name: float(f"{x:.6g}") for name, x in relative.items()}
        strengths |= method.build.count_selected(model)
    return Scored(scores * split.unit, strengths)


def _score_rows(model: BaseEstimator, X: Array, task: np.ndarray | None) -> Array:
    classifies = hasattr(model, "decision_function")
    predict = model.decision_function if classifies else model.predict
    return predict(X, task=task)


# The paper's model.


@dataclass(frozen=True)
class Ours:
    """The library's model with a feature prior, a task prior and intercepts."""

    prior: str = "none"
    task_prior: str = "chain"
    intercepts: bool | str = True
    ties: str = "uniform"
    penalty: str = "l21"
    coupled: bool = True  # False: epsilon = 0, tasks share their features only
    few: bool = False  # as many settings as a compared method may try

    def __call__(self, training: Training) -> BaseEstimator:
        if self.prior == "artificial":
            return _WithCopies(self, training)
        return self.search(training, _feature_prior(self.prior, training))

    def thetas(self, budget: Budget) -> tuple[float, ...]:
        """Candidates of theta: those of the budget if it matters, 0 always."""
        if self.prior == "none":
            return (0.0,)
        # Copies share their effect equally for any theta: see docs/mathematics.md.
        return (0.0, 1.0) if self.prior == "artificial" else budget.thetas

    def lam_max(self, training: Training) -> float:
        """The lam at which all coefficients vanish: the dual norm of the slopes."""
        if self.penalty == "nuclear":
            return float(np.linalg.norm(training.slopes, 2))
        return training.lam_max

    def count_selected(self, model: BaseEstimator) -> dict[str, float]:
        """Features with an effect in some task; the rank under the nuclear norm."""
        coef = (model.model_ if isinstance(model, _WithCopies) else model).coef_
        if self.penalty == "nuclear":
            return {"rank": float(np.linalg.matrix_rank(coef, rtol=1e-6))}
        return {"features": float(np.count_nonzero(coef.any(axis=0)))}

    def search(self, training: Training, prior: FeaturePrior | None) -> BaseEstimator:
        budget, n = training.budget, training.rows_per_task
        if self.few:
            budget = draw_few(budget, np.random.default_rng(training.seed))
        epsilons = np.array(budget.epsilons if self.coupled else (0.0,)) * n
        if self.ties == "adaptive":  # factors of the estimated strengths
            epsilons = np.geomspace(0.1, 10.0, len(epsilons))
        lams, thetas = np.array(budget.lams), np.array(self.thetas(budget))
        build: Callable[..., BaseEstimator] = MultiTaskRegressorCV
        if training.classify:
            build = partial(MultiTaskClassifierCV, loss="squared", scoring="task_auc")
        return build(
            lams * self.lam_max(training),
            thetas * n,
            epsilons,
            cv=training.splits[: training.held_out],
            feature_prior=prior,
            task_prior=self.task_prior,
            fit_intercept=self.intercepts,
            intercept_strength=1.0,
            ties=self.ties,
            penalty=self.penalty,
            standardize=False,
            tol=training.tol,
        )


def draw_few(budget: Budget, rng: np.random.Generator) -> Budget:
    """At most 18 settings of a grid, drawn at random; theta = 0 is among them."""

    def draw(values: tuple[float, ...], count: int) -> tuple[float, ...]:
        chosen = rng.choice(len(values), min(count, len(values)), replace=False)
        return tuple(values[k] for k in sorted(chosen))

    thetas = (budget.thetas[0], *draw(budget.thetas[1:], 1))
    return Budget(draw(budget.lams, 3), thetas, draw(budget.epsilons, 3))


class _WithCopies:
    """The paper's artificial prior: some features occur twice, known to be equal."""

    def __init__(self, ours: Ours, training: Training) -> None:
        self.ours, self.training = ours, training
        self.copies = CopyFeatures(0.05, random_state=training.seed)

    def fit(self, X: Array, y: Array, *, task: np.ndarray | None) -> Self:
        wide = self.copies.fit_transform(X)
        model = self.ours.search(self.training, self.copies.prior_)
        self.model_ = model.fit(wide, y, task=task)
        self.lam_, self.theta_, self.epsilon_ = model.lam_, model.theta_, model.epsilon_
        return self

    def predict(self, X: Array, *, task: np.ndarray | None) -> Array:
        return _score_rows(self.model_, self.copies.transform(X), task)


def _feature_prior(name: str, training: Training) -> FeaturePrior | None:
    if name == "natural":
        return FeaturePrior.from_correlation(strongest=training.rows.X.shape[1])
    if name == "none":
        return None
    if name == "ridge":  # ‖DP‖² is ‖P‖²: shrinkage that relates no features
        return FeaturePrior.from_matrix(
            eye_array(training.rows.X.shape[1], format="csr")
        )
    prior = expert_prior(training.data)
    if prior is None or not training.wrong:
        return prior
    rng = np.random.default_rng(training.seed)
    moments = centre_samples(to_tasks(*training.rows))
    spoil = contradict_prior if name == "contradictory" else corrupt_prior
    return spoil(prior, moments, training.wrong, rng)


# Expert priors.


def expert_prior(data: TaskSet) -> FeaturePrior | None:
    """What an expert would say of a data set before seeing it; None if nothing.

    Neighbouring pixels are similar. School's indicators of one kind are similar, and
    the share of poor pupils is opposite to that of able ones.
    """
    if data.image_shape is not None:
        return FeaturePrior.grid(*data.image_shape)
    if data.name != "school":
        return None
    kinds: dict[str, str | tuple[str, ...]] = {
        "years": "year_",
        "ethnic groups": "ethnic_",
        "kinds of school": ("school_mixed", "school_boys", "school_girls"),
        "denominations": (
            "school_maintained",
            "school_church_of_england",
            "school_roman_catholic",
        ),
    }
    names = data.feature_names
    groups = {
        title: [k for k, name in enumerate(names) if name.startswith(start)]
        for title, start in kinds.items()
    }
    poor, able = map(names.index, ("school_pct_free_meals", "school_pct_vr_band1"))
    return FeaturePrior.from_groups(groups) + FeaturePrior.opposite([(poor, able)])


def corrupt_prior(
    prior: FeaturePrior, moments: Moments, share: float, rng: np.random.Generator
) -> FeaturePrior:
    """Replace a share of the relations by ones between features drawn at random."""
    D = difference_matrix(prior, moments).tolil()
    s, d = D.shape
    # A relation keeps its weights and gets other features.
    for row in rng.permutation(s)[: round(share * s)]:
        count = len(D.data[row])
        D.rows[row] = sorted(rng.choice(d, size=count, replace=False).tolist())
    return FeaturePrior.from_matrix(csr_array(D.tocsr()))


def contradict_prior(
    prior: FeaturePrior, moments: Moments, share: float, rng: np.random.Generator
) -> FeaturePrior:
    """Reverse a share of the relations: similar features become opposite ones."""
    D = difference_matrix(prior, moments).tocsr()
    for row in rng.permutation(D.shape[0])[: round(share * D.shape[0])]:
        D.data[D.indptr[row + 1] - 1] *= -1.0
    return FeaturePrior.from_matrix(csr_array(D))


# The paper's eight compared methods: our implementations and our tuning, since the
# paper gives no grids, intercepts or weights. The loss is squared, as in the paper's
# own model, where a method has the choice.

MOST_SETTINGS = 20  # one or two strengths need no finer grid
COMPARED: Mapping[str, str] = {
    name.lower(): name
    for name in ["FedEM", "DMTL", "MTFL", "MMTFL", "MTRL", "RMTL", "CLMT", "MKMTL"]
} | {"fedem": "FedEM, linear components", "mtfl": "MTFL, reconstructed"}


def build_compared(name: str, training: Training) -> BaseEstimator:
    fixed: dict[str, object] = {"tol": _tolerance(name, training.tol)}
    kind = (CLASSIFIERS if training.classify else BASELINES)[name]
    if "loss" in kind().get_params():
        fixed["loss"] = "squared"
    return tuned(
        name,
        classify=training.classify,
        n_settings=min(training.n_settings, MOST_SETTINGS),
        cv=training.splits,
        **fixed,
    )


def _tolerance(name: str, tol: float) -> float:
    # FedEM stops by the gain of a step per sample, which must be small for images too;
    # MKMTL by a gap relative to the objective reached, of which a thousandth suffices.
    return {"fedem": min(tol, 1e-3), "mkmtl": max(tol, 1e-3)}.get(name, tol)


# Simple methods that a practitioner would try first.


def _build_ridge(name: str, training: Training) -> BaseEstimator:
    relative = np.geomspace(1e-3, 1e3, training.n_settings)
    return tuned(
        name,
        classify=training.classify,
        settings=[{"lam": float(x)} for x in relative * training.rows_per_task],
        cv=training.splits,
    )


class SharedLasso(RegressorMixin, BaseEstimator):
    """scikit-learn's MultiTaskLasso, tuned by its own cross-validation on the folds."""

    def __init__(self, alphas: Array, folds: Index) -> None:
        self.alphas = alphas
        self.folds = folds

    @classmethod
    def of(cls, training: Training) -> Self:
        # scikit-learn divides the squared error by the number of rows.
        largest = training.lam_max / len(training.rows.y)
        alphas = largest * np.geomspace(1.0, 1e-3, training.n_settings)
        return cls(alphas, training.folds)

    def fit(self, X: Array, y: Array, *, task: None = None) -> Self:
        splits = [tuple(split) for split in split_by_fold(np.asarray(self.folds))]
        with warnings.catch_warnings():
            # Its smallest alphas stop at max_iter, with a warning each.
            warnings.simplefilter("ignore")
            search = MultiTaskLassoCV(alphas=self.alphas, cv=splits, tol=1e-3)
            self.model_ = search.fit(X, y)
        self.alpha_ = float(search.alpha_)
        return self

    def predict(self, X: Array, *, task: None = None) -> Array:
        return self.model_.predict(X)


# All methods.

PRIORS = ("none", "natural", "artificial", "expert")


def _has_expert(data: TaskSet) -> bool:
    return expert_prior(data) is not None


def _is_regression(data: TaskSet) -> bool:
    return data.kind == "regression"


METHODS: Mapping[str, Method] = {
    "none": Method("ours, without prior", Ours()),
    "natural": Method("ours, natural prior", Ours("natural")),
    "artificial": Method("ours, artificial prior", Ours("artificial")),
    "expert": Method("ours, expert prior", Ours("expert"), _has_expert),
    "contradictory": Method(
        "ours, expert prior, relations reversed", Ours("contradictory"), _has_expert
    ),
    "ridge": Method("ours, ridge in place of a prior", Ours("ridge"), _has_expert),
    "natural-few": Method(
        "ours, natural prior, at most 20 settings",
        Ours("natural", few=True),
        lambda data: PROTOCOLS[data.name].budget.settings > MOST_SETTINGS,
    ),
    "separate": Method("ours, without prior, epsilon = 0", Ours(coupled=False)),
    "nuclear": Method("ours, without prior, nuclear norm", Ours(penalty="nuclear")),
    # Other structures of the tasks than the paper's chain with free intercepts.
    "none-chain-tied": Method(
        "ours, without prior, chain of tasks, tied intercepts",
        Ours(intercepts="tied"),
    ),
    "none-mean": Method(
        "ours, without prior, mean of tasks, free intercepts", Ours(task_prior="mean")
    ),
    "none-mean-tied": Method(
        "ours, without prior, mean of tasks, tied intercepts",
        Ours(task_prior="mean", intercepts="tied"),
    ),
    "adaptive": Method(
        "ours, adaptive ties to the mean, tied intercepts",
        Ours("none", "mean", "tied", "adaptive"),
        _is_regression,
    ),
    **{
        name: Method(label, partial(build_compared, name))
        for name, label in COMPARED.items()
    },
    "ridge-single": Method("ridge per task", partial(_build_ridge, "ridge-single")),
    "ridge-pooled": Method(
        "ridge, tasks pooled",
        partial(_build_ridge, "ridge-pooled"),
        # Where classes share rows, the mean target of a row is constant.
        lambda data: _is_regression(data) or data.code is not None,
    ),
    "mixed": Method(
        "mixed model, random intercept",
        lambda training: UsualRegressor("mixed-model"),
        # Tasks must be groups of rows of one target.
        lambda data: _is_regression(data) and data.code is not None,
    ),
    "multitask-lasso": Method(
        "scikit-learn's MultiTaskLasso",
        SharedLasso.of,
        lambda data: data.code is None,
    ),
}
OURS = tuple(name for name, method in METHODS.items() if isinstance(method.build, Ours))
