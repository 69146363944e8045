"""Gradient boosting beside a linear model, for interactions that this one lacks.

``StackedRegressor`` and ``StackedClassifier`` mix both as held-out rows say. Trees are
grown by scikit-learn's histogram boosting, small and many (at most six leaves, half of
the features at each split), and kept as arrays, so that they can be saved without a
pickle.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
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
    "learning_rate": 0.05,
    "max_iter": 200,
    "max_leaf_nodes": 6,
    "min_samples_leaf": 5,
    "l2_regularization": 1.0,
    "max_features": 0.5,
    "early_stopping": False,
    "random_state": 0,
}
CHUNK = 2**14  # rows that go through the trees at once


class Trees(NamedTuple):
    """Sum of binary trees; leaves have themselves as children."""

    base: float
    roots: Index  # (t,) first node of each tree
    feature: Index  # (nodes,)
    threshold: Array  # (nodes,) values up to it go left
    missing_left: Index  # (nodes,) 1 where missing values do, too
    left: Index  # (nodes,)
    right: Index  # (nodes,)
    value: Array  # (nodes,) of leaves, else zero
    depth: int

    @classmethod
    def fit(
        cls,
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
            base = float(np.log(share / (1.0 - share)))
            none, zeros = np.zeros(0, dtype=np.intp), np.zeros(0)
            return cls(base, none, none, zeros, none, none, none, zeros, 0)
        build = ensemble.HistGradientBoostingRegressor
        if classify:
            build, y = ensemble.HistGradientBoostingClassifier, np.sign(y)
        # On tables of this size threads wait for each other longer than they work.
        with threadpool_limits(1):
            model = build(**SETTINGS, monotonic_cst=signs)
            grown = model.fit(X, y, sample_weight=weight)
        nodes = [tree.nodes for (tree,) in grown._predictors]
        starts = np.cumsum([0, *(len(one) for one in nodes)])
        joined = np.concatenate(nodes)
        first = np.repeat(starts[:-1], np.diff(starts))
        own = np.arange(len(joined))
        leaf = joined["is_leaf"].astype(bool)
        return cls(
            float(np.ravel(grown._baseline_prediction)[0]),
            starts[:-1].astype(np.intp),
            joined["feature_idx"].astype(np.intp),
            joined["num_threshold"].astype(np.float64),
            joined["missing_go_to_left"].astype(np.intp),
            np.where(leaf, own, first + joined["left"]).astype(np.intp),
            np.where(leaf, own, first + joined["right"]).astype(np.intp),
            np.where(leaf, joined["value"], 0.0),
            int(joined["depth"].max()),
        )

    def predict(self, X: Array) -> Array:
        """Sum over trees for each row of X (n, d)."""
        found = np.full(len(X), self.base)
        for start in range(0, len(X), CHUNK):
            rows = X[start : start + CHUNK]
            places = np.arange(len(rows))[:, np.newaxis]
            node = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
            for _ in range(self.depth):
                values = rows[places, self.feature[node]]
                left = values <= self.threshold[node]
                left |= np.isnan(values) & (self.missing_left[node] == 1)
                node = np.where(left, self.left[node], self.right[node])
            found[start : start + CHUNK] += self.value[node].sum(axis=1)
        return found


# Boosting beside the linear model.


class _Stacked(BaseEstimator):
    """A CV estimator and gradient boosting, mixed as held-out rows say.

    The prediction is (1 − w) times that of the linear model plus w times that of the
    trees. The weight w minimises the loss of held-out rows; both are learned from the
    same training parts (stacking: Wolpert 1992, Breiman 1996). It is smaller where the
    gain is within a few standard errors, and zero below one.
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
        if weight is not None:  # trees have a ridge; weights are relative
            weight = weight / weight[weight > 0].mean()
        model = self.model_
        targets, held_out = self._targets(fill_absent(y, weight)), model.held_out_
        present = np.ones(len(targets), bool) if weight is None else weight > 0
        classify = isinstance(self, ClassifierMixin)
        self.trees_, by_trees = [], np.full(len(targets), np.nan)
        matrix, signs = self._matrix(names, tasks), self._signs(names)
        for fold in range(self.model_.n_splits_):
            test = self.model_.folds_ == fold
            train = ~test & present
            part = None if weight is None else weight[train]
            rows = matrix[train], targets[train], part
            trees = Trees.fit(*rows, classify=classify, signs=signs)
            by_trees[test] = trees.predict(matrix[test])
            self.trees_.append(trees)
        known = ~np.isnan(held_out) & ~np.isnan(by_trees)
        shares = np.ones(len(targets)) if weight is None else weight
        scores = targets, held_out, by_trees, shares
        # Rows of a task that was held out whole do not tell what its own rows add:
        # trees must help with the others, too.
        own = known & _has_company(encode_labels(tasks, len(known))[0], model.folds_)
        self.trees_weight_ = min(
            _best_weight(*(part[rows] for part in scores), classify=classify)
            for rows in (known, own)
        )
        self.held_out_ = held_out
        if self.trees_weight_ == 0.0:
            self.trees_ = []
        else:
            self.held_out_ = held_out + self.trees_weight_ * (by_trees - held_out)
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
        variances = (1.0 - w) ** 2 * np.stack(model._fold_variances)
        rows = hold_out(table, codes, model.folds_, own, shared, variances)
        # Deviations of the linear models are kept with these.
        parts = None, m, len(self.trees_), (1.0 - w) ** 2 * model._task_variances
        found = Calibration.of(rows, *parts)
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


def _best_weight(
    y: Array, linear: Array, boosted: Array, shares: Array, *, classify: bool
) -> float:
    """Share of boosting that minimises the loss of held-out rows.

    It is zero where the gain is below its standard error, and else shrunk by 1 − 1/z²,
    where z is that of the weight.
    """

    def losses(w: float) -> Array:
        scores = linear + w * (boosted - linear)
        loss = np.logaddexp(0.0, -y * scores) if classify else (y - scores) ** 2
        return shares * loss

    if len(y) < 2:
        return 0.0
    found = minimize_scalar(
        lambda w: float(losses(w).sum()), bounds=(0.0, 1.0), method="bounded"
    )
    weight = float(found.x)
    gains = losses(0.0) - losses(weight)
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    gain, error = float(gains.mean()), float(error)
    if gain <= error:
        return 0.0
    # Near zero the gain is quadratic in the weight, whose z is twice as large.
    return weight * (1.0 - (0.5 * error / gain) ** 2)
