"""Gradient boosting beside a linear model, for interactions that this one lacks.

``StackedRegressor`` and ``StackedClassifier`` mix both as held-out rows say. Trees are
grown by scikit-learn's histogram boosting in two sizes, with half of the features at
each split, and kept as arrays, so that they can be saved without a pickle.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array, Index
from priormtl.data import (
    Table,
    as_frame,
    encode_labels,
    fill_absent,
    read_targets,
    split_task_column,
)
from priormtl.data.tables import column_floats
from priormtl.estimators.intervals import (
    Calibration,
    check_coverage,
    hold_out,
    score_folds,
)
from priormtl.metrics import Reliability
from priormtl.priors import curves_of

SETTINGS: dict[str, Any] = {
    "min_samples_leaf": 5,
    "l2_regularization": 1.0,
    "max_features": 0.5,
    "early_stopping": False,
    "random_state": 0,
}


class Booster(NamedTuple):
    """Size of a sum of trees, and settings that go with it."""

    max_iter: int
    max_leaf_nodes: int
    learning_rate: float
    max_bins: int


# Chosen on random splits of eleven of the fifteen tables of ``benchmarks.workloads.
# tables``, none of them a reported one: both sizes have 0.986 of the error of the first
# alone with four fifths of the rows, 0.988 with one fifth, and never more. 300 trees of
# 24 leaves come to the same, and so do, in twice the time, 800 of 12 at a rate of 0.05.
SIZES = Booster(200, 6, 0.05, 255), Booster(400, 12, 0.1, 63)
# Gain of smaller trees, in standard errors, from which larger ones are tried. On the
# same tables those helped from 0.6 on (storms), and never below.
LEAST_GAIN = 0.5
LEAST_SHARE = 1e-3  # of a size; below, it is left out


class Trees(NamedTuple):
    """Sum of binary trees, whose nodes stand before their left and right subtrees."""

    base: float
    roots: NDArray[np.int32]  # (t,) first node of each tree
    feature: NDArray[np.int32]  # (nodes,) that a node compares; −1 in leaves
    number: Array  # (nodes,) values up to it go left; in leaves, their value
    missing_left: NDArray[np.uint8]  # (nodes,) 1 where missing values do, too
    right: NDArray[np.int32]  # (nodes,) right child; the left one is the next node

    @classmethod
    def fit(
        cls,
        size: Booster,
        X: Array,
        y: Array,
        weight: Array | None,
        *,
        classify: bool,
        signs: Array | None = None,
    ) -> Self:
        """Grow trees for targets, or for the log-odds of y > 0.

        Sums of trees rise or fall with features that have a sign.
        """
        from sklearn import ensemble  # noqa: PLC0415  (slow to import)

        if classify and len(np.unique(y > 0)) < 2:
            share = np.clip(np.mean(y > 0), 0.01, 0.99)
            none = np.zeros(0, np.int32)
            base = float(np.log(share / (1.0 - share)))
            return cls(base, none, none, np.zeros(0), np.zeros(0, np.uint8), none)
        build = ensemble.HistGradientBoostingRegressor
        if classify:
            build, y = ensemble.HistGradientBoostingClassifier, np.sign(y)
        # On tables of this size threads wait for each other longer than they work.
        with threadpool_limits(1):
            model = build(**SETTINGS, **size._asdict(), monotonic_cst=signs)
            grown = model.fit(X, y, sample_weight=weight)
        nodes = [tree.nodes for (tree,) in grown._predictors]
        starts = np.cumsum([0, *map(len, nodes)])
        joined = np.concatenate(nodes)
        leaf = joined["is_leaf"].astype(bool)
        first = np.repeat(starts[:-1], np.diff(starts))
        return cls(
            float(np.ravel(grown._baseline_prediction)[0]),
            starts[:-1].astype(np.int32),
            np.where(leaf, -1, joined["feature_idx"]).astype(np.int32),
            np.where(leaf, joined["value"], joined["num_threshold"]),
            joined["missing_go_to_left"],
            np.where(leaf, 0, first + joined["right"]).astype(np.int32),
        )

    @classmethod
    def mix(cls, parts: Sequence[Self], shares: Iterable[float]) -> Self:
        """Sum of several sums of trees, times their shares."""
        base, start, arrays = 0.0, 0, []
        for one, share in zip(parts, shares, strict=True):
            if share > 0.0:
                number = np.where(one.feature < 0, share, 1.0) * one.number
                roots, right = one.roots + start, one.right + start
                arrays.append((roots, one.feature, number, one.missing_left, right))
                base += share * one.base
                start += len(one.feature)
        return cls(base, *map(np.concatenate, zip(*arrays, strict=True)))

    def predict(self, X: Array) -> Array:
        """Sum over trees for each row of X (n, d)."""
        from priormtl.solvers.kernels.boosting import add_trees  # noqa: PLC0415

        found = np.full(len(X), self.base)
        add_trees(X, *self[1:], found)
        return found


# Boosting beside the linear model.


class _Stacked(BaseEstimator):
    """A CV estimator and gradient boosting, mixed as held-out rows say.

    The prediction is (1 − Σ w) times that of the linear model plus w times that of the
    trees of each size. The weights w minimise the loss of held-out rows; all are
    learned from the same training parts (stacking: Wolpert 1992, Breiman 1996). They
    are smaller where the gain is within a few standard errors, and zero below one.
    """

    trees_weight_: float

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Fit the linear model, then trees on its training parts."""
        self.model_ = clone(self.model).fit(X, y, sample_weight=sample_weight)
        self.n_features_in_ = self.model_.n_features_in_
        names, tasks = self._wide(X)
        weight = None if sample_weight is None else read_targets(sample_weight)
        model = self.model_
        targets, held_out = self._targets(fill_absent(y, weight)), model.held_out_
        present = np.ones(len(targets), bool) if weight is None else weight > 0
        classify = isinstance(self, ClassifierMixin)
        matrix, signs = self._matrix(names, tasks), self._signs(names)
        shares = np.ones(len(targets)) if weight is None else weight
        # Rows of a task that was held out whole do not tell what its own rows add:
        # trees must help with the others, too.
        known = ~np.isnan(held_out)
        own = known & _has_company(encode_labels(tasks, len(known))[0], model.folds_)
        boosters, by_trees = [], np.empty((0, len(targets)))
        for size in SIZES:
            grown, scores = [], np.full(len(targets), np.nan)
            for fold in range(model.n_splits_):
                test = model.folds_ == fold
                train = ~test & present
                part = None if weight is None else weight[train]
                rows = matrix[train], targets[train], part
                grown.append(Trees.fit(size, *rows, classify=classify, signs=signs))
                scores[test] = grown[-1].predict(matrix[test])
            boosters.append(grown)
            by_trees = np.vstack([by_trees, scores])
            mixtures = [
                _mix(
                    targets[rows],
                    held_out[rows],
                    by_trees[:, rows],
                    shares[rows],
                    classify=classify,
                )
                for rows in (known, own)
            ]
            weights, z = min(mixtures, key=lambda found: float(found[0].sum()))
            if z < LEAST_GAIN:
                break
        self.trees_weight_, self.held_out_ = float(weights.sum()), held_out
        self.trees_ = []
        if self.trees_weight_ > 0.0:
            parts = weights / self.trees_weight_
            self.trees_ = [
                Trees.mix(fold, parts) for fold in zip(*boosters, strict=True)
            ]
            self.held_out_ = held_out + weights @ (by_trees - held_out)
        bins = Reliability.of_scores if classify else Reliability.of
        self.reliability_ = bins(self.held_out_[present], targets[present])
        if isinstance(self, StackedRegressor):
            self._calibrate(X, targets, shares, matrix)
        return self

    def _signs(self, names: Iterable[str]) -> Array | None:
        """Known signs of effects, which trees respect as well; the task has none."""
        prior = self.model_.feature_prior_
        signs = None if prior is None else prior.signs(self.model_.coef_.shape[1])
        if signs is None:
            return None
        known = dict(zip(self.model_.feature_names_in_, signs, strict=True))
        return np.array([*(known[name] for name in names), 0])

    def _wide(self, X: Any) -> tuple[dict[str, Array], Any]:
        """Features of the trees: all but most wiggles, and labels of tasks."""
        rest, labels = split_task_column(X, self.model_.task)
        frame = as_frame(rest)
        assert frame is not None
        curved = set[int]()
        prior = self.model_.feature_prior_
        for column, group in curves_of(prior, frame.columns).items():
            # Where in its period a value lies is known from the first two wiggles.
            curved.update(group if column in frame.columns else group[2:])
        kept = [n for j, n in enumerate(frame.columns) if j not in curved]
        return {n: column_floats(frame.get_column(n)) for n in kept}, labels

    def _matrix(self, columns: dict[str, Array], labels: Any) -> Array:
        """Features and the place of the task among those of the fit; NaN: unseen."""
        n = len(next(iter(columns.values())))
        codes, tasks = encode_labels(labels, n)
        place = {task: float(i) for i, task in enumerate(self.model_.tasks_.tolist())}
        plain = (t.item() if isinstance(t, np.generic) else t for t in tasks)
        places = np.array([place.get(task, np.nan) for task in plain])
        return np.column_stack([*columns.values(), places[codes]])

    def _mixed(self, X: Any, linear: Array) -> Array:
        if not self.trees_:
            return linear
        matrix = self._matrix(*self._wide(X))
        boosted = np.mean([trees.predict(matrix) for trees in self.trees_], axis=0)
        return (1.0 - self.trees_weight_) * linear + self.trees_weight_ * boosted

    def _targets(self, y: Any) -> Array:
        raise NotImplementedError

    def summary(self, level: float | None = None) -> Any:
        """Summary of the linear model; see :meth:`MultiTaskRegressor.summary`."""
        check_is_fitted(self)
        return self.model_.summary(level)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class StackedRegressor(RegressorMixin, _Stacked):
    """MultiTaskRegressorCV with gradient boosting mixed in where it helps.

    Parameters
    ----------
    model : MultiTaskRegressorCV
        Linear model, with the name of the task column as ``task``.

    Attributes
    ----------
    model_ : MultiTaskRegressorCV
        Fitted linear model.
    trees_weight_ : float
        Share of the trees in predictions, from 0 to 1.
    trees_ : list of Trees
        Trees learned without each fold; their mean is used. Empty if the share is 0.
    """

    calibration_: Calibration

    def predict(self, X: Any) -> Array:
        """Predict the target of each row."""
        check_is_fitted(self)
        return self._mixed(X, self.model_.predict(X))

    def predict_interval(self, X: Any, *, coverage: float = 0.9) -> Array:
        """Predict intervals (n, 2) that contain a given share of new targets.

        See :meth:`MultiTaskRegressorCV.predict_interval`. Models of folds are linear
        models mixed with the trees of the same fold.
        """
        check_is_fitted(self)
        coverage, w = check_coverage(coverage), self.trees_weight_
        found = self.model_._spread(X, None)
        if self.trees_:
            matrix = self._matrix(*self._wide(X))
            boosted = np.stack([trees.predict(matrix) for trees in self.trees_])
            mean, deviations = boosted.mean(axis=0), found.deviations
            if len(deviations):
                deviations = (1.0 - w) * deviations + w * (boosted - mean)
            prediction = (1.0 - w) * found.prediction + w * mean
            found = found._replace(prediction=prediction, deviations=deviations)
        return found.interval(self.calibration_, coverage)

    def _calibrate(self, X: Any, y: Array, weight: Array, matrix: Array) -> None:
        """Learn from held-out rows how far mixed predictions are off."""
        model, w = self.model_, self.trees_weight_
        if not self.trees_:
            self.calibration_ = model.calibration_
            return
        rest, labels = model._split_task(X, None)
        features = model._read_features(rest, reset=False)
        codes = model._find_tasks(labels, len(y))
        own, shared = score_folds(features, codes, model._fold_models)
        nobody = matrix.copy()
        nobody[:, -1] = np.nan  # a task that was not seen
        for k, trees in enumerate(self.trees_):
            own[k] += w * (trees.predict(matrix) - own[k])
            shared[k] += w * (trees.predict(nobody) - shared[k])
        m = len(model.tasks_)
        table = Table(features, y, codes, tuple(model.tasks_), weight, None)
        rows = hold_out(table, codes, model.folds_, own, shared, m)
        # Deviations of the linear models are kept with these.
        found = Calibration.of(rows, None, m, len(self.trees_))
        self.calibration_ = found._replace(
            coef=model.calibration_.coef[:0], intercept=model.calibration_.intercept[:0]
        )

    def _targets(self, y: Any) -> Array:
        return np.ravel(self.model_._check_targets(y))


class StackedClassifier(ClassifierMixin, _Stacked):
    """MultiTaskClassifierCV with gradient boosting mixed in where it helps.

    Log-odds are mixed. See :class:`StackedRegressor`.

    Parameters
    ----------
    model : MultiTaskClassifierCV
        Linear model with logistic loss, with the name of the task column as ``task``.

    Attributes
    ----------
    model_ : MultiTaskClassifierCV
        Fitted linear model.
    classes_ : (2,) array
        Classes.
    trees_weight_, trees_
        See :class:`StackedRegressor`.
    """

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the linear model."""
        return np.asarray(self.model_.classes_)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class."""
        check_is_fitted(self)
        return self._mixed(X, self.model_.decision_function(X))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of both classes (n, 2)."""
        second = 1.0 / (1.0 + np.exp(-np.clip(self.decision_function(X), -700, 700)))
        return np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row."""
        return self.classes_[(self.decision_function(X) > 0).astype(np.intp)]

    def _targets(self, y: Any) -> Array:
        labels = np.ravel(self.model_._check_targets(y))
        return np.where(labels == self.classes_[1], 1.0, -1.0)


def _has_company(codes: Index, folds: Index) -> NDArray[np.bool_]:
    """Whether other folds hold rows of the same task."""
    inside = np.unique(np.column_stack([codes, folds]), axis=0)[:, 0]
    return np.bincount(inside)[codes] > 1


def _mix(
    y: Array, linear: Array, boosted: Array, shares: Array, *, classify: bool
) -> tuple[Array, float]:
    """Weights of boosters that minimise the loss of held-out rows, and the gain.

    ``boosted`` (k, n) are predictions of k boosters, ``shares`` (n,) weights of rows.
    Weights are at least zero and sum to at most one. The gain is in standard errors.
    Up to one of them, weights are zero; else they are shrunk by 1 − 1/z², where z is
    that of the weights.
    """
    apart, none = boosted - linear, np.zeros(len(boosted))

    def losses(weights: Array) -> Array:
        scores = linear + weights @ apart
        loss = np.logaddexp(0.0, -y * scores) if classify else (y - scores) ** 2
        return shares * loss

    before = losses(none)
    if len(y) < 2 or not before.any():
        return none, 0.0
    found = minimize(
        lambda weights: float(losses(weights).sum() / before.sum()),
        np.full(len(none), 0.5 / len(none)),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(none),
        constraints={"type": "ineq", "fun": lambda weights: 1.0 - weights.sum()},
        options={"ftol": 1e-10},
    )
    weights = np.where(found.x > LEAST_SHARE, found.x, 0.0)
    gains = before - losses(weights)
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    gain = float(gains.mean()) / error if error > 0.0 else 0.0
    if gain <= 1.0:
        return none, gain
    # Near zero the gain is quadratic in the weights, whose z is twice as large.
    return weights * (1.0 - (0.5 / gain) ** 2), gain
