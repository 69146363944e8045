"""Gradient boosting as plain arrays, for interactions that a linear model lacks.

Trees are grown by scikit-learn's histogram boosting, small and many (at most six
leaves, half of the features at each split), and kept as arrays, so that they can be
saved without a pickle.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array, Index

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
