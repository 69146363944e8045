"""Gradient boosting: sums of binary trees as arrays, and how they are grown.

Each tree is a Newton step: its leaves minimise Σ f′ v + ½ (Σ f″ + ridge) v² over their
rows, and nodes are divided where that gains most, by histograms of features in bins
(Chen and Guestrin 2016, "XGBoost"; Ke et al. 2017, "LightGBM"). Any family will do.
The trees are those of scikit-learn's histogram boosting with the same settings, which
takes several times as long on tables of some thousand rows: most of its time is spent
on its objects for each node.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.losses import Family, Squared


class Trees(NamedTuple):
    """Sum of binary trees, whose nodes stand before their left and right subtrees."""

    base: float
    roots: NDArray[np.int32]  # (t,) first node of each tree
    feature: NDArray[np.int32]  # (nodes,) that a node compares; −1 in leaves
    number: Array  # (nodes,) values up to it go left; in leaves, their value
    missing_left: NDArray[np.uint8]  # (nodes,) 1 where missing values do, too
    right: NDArray[np.int32]  # (nodes,) right child; the left one is the next node

    @classmethod
    def constant(cls, value: float) -> Self:
        """No tree at all."""
        none = np.zeros(0, np.int32)
        return cls(value, none, none, np.zeros(0), np.zeros(0, np.uint8), none)

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

        sums, few = np.full(len(X), self.base), 256  # rows that stay in the cache
        for start in range(0, len(X), few):
            part = slice(start, start + few)
            add_trees(X[part], *self[1:], sums[part])
        return sums

    def fits(self, d: int) -> bool:
        """Whether ways through the trees end inside, so that no file reads beyond."""
        base, roots, feature, number, missing_left, right = self
        n = len(feature)
        alike = all(part.shape == (n,) for part in (number, missing_left, right))
        types = tuple(part.dtype.str[1:] for part in self[1:])
        if not alike or roots.ndim != 1 or types != ("i4", "i4", "f8", "u1", "i4"):
            return False
        fits = bool(np.all((roots >= 0) & (roots < n)))
        fits &= bool(np.all((feature >= -1) & (feature <= d)))
        inner = np.flatnonzero(feature >= 0)
        # Children come after their parents, and the last node is a leaf.
        ahead = (right[inner] > inner) & (right[inner] < n) & (inner < n - 1)
        fits &= bool(np.all(ahead))
        return fits and not np.isnan(np.append(number, base)).any()


class ClassTrees(NamedTuple):
    """Sums of trees of K > 2 classes."""

    classes: tuple[Trees, ...]

    @classmethod
    def mix(cls, parts: Sequence[Self], shares: Sequence[float]) -> Self:
        """Sums of several sums of trees, times their shares, class by class."""
        by_class = zip(*(one.classes for one in parts), strict=True)
        return cls(tuple(Trees.mix(own, shares) for own in by_class))

    def predict(self, X: Array) -> Array:
        """Sums over the trees of each class for each row of X (n, K)."""
        return np.column_stack([one.predict(X) for one in self.classes])


class Boosted(NamedTuple):
    """Boosting that is mixed into a linear model."""

    share: float  # of the trees in predictions
    # Learned without each fold; their mean is used.
    folds: tuple[Trees | ClassTrees, ...]

    @property
    def sums(self) -> list[Trees]:
        """All sums of trees, those of several classes one after the other."""
        found = list[Trees]()
        for one in self.folds:
            found += one.classes if isinstance(one, ClassTrees) else [one]
        return found

    @classmethod
    def of_sums(cls, share: float, sums: Sequence[Trees], classes: int) -> Self:
        """Inverse of ``sums``, given the number of classes, or 1."""
        if classes == 1:
            return cls(share, tuple(sums))
        starts = range(0, len(sums), classes)
        folds = (ClassTrees(tuple(sums[a : a + classes])) for a in starts)
        return cls(share, tuple(folds))

    def predict(self, X: Array) -> Array:
        """Mean over folds for each row of X (n, d)."""
        return np.asarray(np.mean([trees.predict(X) for trees in self.folds], axis=0))


class Booster(NamedTuple):
    """Size of a sum of trees, and settings that go with it."""

    max_iter: int
    max_leaf_nodes: int
    learning_rate: float
    max_bins: int
    sees_scores: bool = False  # whether the score of the linear model is a column, too


# Of draws of features: what scikit-learn makes of random_state=0.
SEED = int(np.random.RandomState(0).randint(2**32 - 1, size=2, dtype="u8")[1])


def grow(
    size: Booster,
    X: Array,
    y: Array,
    weight: Array | None,
    family: Family | Squared,
    signs: Array | None = None,
) -> Trees | ClassTrees:
    """Grow trees that sum to the scores η of a loss.

    Sums of trees rise or fall with features that have a sign. Targets of K classes are
    one-hot (n, K).
    """
    from priormtl.solvers.kernels.boosting import grow_tree  # noqa: PLC0415

    several = y.ndim == 2
    mean = np.asarray(np.average(y, axis=0, weights=weight))
    if several:
        signs = None  # trees of one class alone do not decide on its chance
        base, grown = family.link(np.maximum(mean, 1e-6)), np.flatnonzero(mean > 0)
        if len(grown) < 3:  # next to nothing is known of the others
            return ClassTrees(tuple(map(Trees.constant, base.tolist())))
    elif not family.has_finite_score(mean):  # one class, or no count above zero
        return Trees.constant(float(family.link(0.98 * mean)))
    else:
        base, grown = np.atleast_1d(family.link(mean)), np.zeros(1, int)
    bins, first, edges = divide_features(X, size.max_bins, weight)
    sizes = np.array([len(own) + 1 for own in edges])
    directions = np.asarray(np.zeros(len(edges)) if signs is None else signs, np.int64)
    per_tree = 2 * size.max_leaf_nodes - 1  # searches, at most
    draws = _draw_features(len(edges), size.max_iter * len(grown) * per_tree)
    room = np.empty((size.max_leaf_nodes, first[-1], 3))
    scores = np.repeat(base[:, np.newaxis], len(y), axis=1)  # (K, n)
    nodes: list[list[Any]] = [[] for _ in base]
    searched, shares = 0, 1.0 if weight is None else weight
    # Of all sizes, as chosen with them (see `estimators.stacked`).
    min_samples_leaf, l2_regularization = 5, 1.0
    for _ in range(size.max_iter):
        eta = scores.T if several else scores[0]
        both = np.stack(family.boosting_derivatives(eta, y)).reshape(2, len(y), -1)
        for k in grown:
            *tree, searches = grow_tree(
                bins,
                first,
                sizes,
                directions,
                draws[searched : searched + per_tree],
                np.array((shares * both[..., k]).T, np.float32, order="C"),
                size.max_leaf_nodes,
                min_samples_leaf,
                l2_regularization,
                size.learning_rate,
                room,
                scores[k],
            )
            searched += searches
            nodes[k].append(tree)
    found = tuple(
        _join_trees(level, trees, edges) if trees else Trees.constant(level)
        for level, trees in zip(base.tolist(), nodes, strict=True)
    )
    return ClassTrees(found) if several else found[0]


def _join_trees(base: float, trees: Sequence[Any], edges: Sequence[Array]) -> Trees:
    """One sum of trees, with thresholds for the bins of `grow_tree`."""
    feature, number, missing_left, right = map(np.concatenate, zip(*trees, strict=True))
    lengths = [len(tree[0]) for tree in trees]
    roots = np.cumsum([0, *lengths[:-1]]).astype(np.int32)
    # Beyond the last edge, all values go left, and only missing ones right.
    thresholds = np.concatenate([np.append(own, np.inf) for own in edges])
    starts = np.cumsum([0, *(len(own) + 1 for own in edges[:-1])])
    inner = feature >= 0
    number[inner] = thresholds[starts[feature[inner]] + number[inner].astype(np.intp)]
    right = np.where(inner, right + np.repeat(roots, lengths), 0).astype(np.int32)
    return Trees(base, roots, feature, number, missing_left, right)


def divide_features(
    X: Array, most: int, weight: Array | None = None
) -> tuple[NDArray[np.uint8], Index, list[Array]]:
    """Bins of values (n, d), the first of each feature, and edges between them.

    Bins are values where there are at most so many, else quantiles. Missing values
    have a bin behind the others, where there are some.
    """
    n, d = X.shape
    bins, edges = np.empty((n, d), np.uint8), []
    first = np.zeros(d + 1, np.intp)
    for j, column in enumerate(np.ascontiguousarray(X.T)):
        missing = np.isnan(column)
        known = column[~missing]
        values = np.unique(known)
        own = 0.5 * (values[:-1] + values[1:])
        if len(values) > most:
            shares = np.linspace(0.0, 1.0, most + 1)[1:-1]
            own = np.unique(
                _quantiles(known, shares, None if weight is None else weight[~missing])
            )
        bins[:, j] = np.searchsorted(own, column)
        bins[missing, j] = len(own) + 1
        first[j + 1] = first[j] + len(own) + 1 + missing.any()
        edges.append(own)
    return bins, first, edges


def _quantiles(values: Array, shares: Array, weight: Array | None) -> Array:
    """Quantiles, the mean of two values where the share lies between them."""
    if weight is None:
        return np.quantile(values, shares, method="averaged_inverted_cdf")
    order = np.argsort(values, kind="stable")
    values, below = values[order], np.cumsum(weight[order])
    return values[np.searchsorted(below, shares * below[-1] * (1.0 - 1e-12))]


@lru_cache(maxsize=2)
def _draw_features(d: int, count: int) -> NDArray[np.bool_]:
    """Features that are tried in each search (count, d), the same for every fold."""
    rng = np.random.default_rng(SEED)
    draws = np.zeros((count, d), dtype=bool)
    draws[:, : max(1, int(np.ceil(0.5 * d)))] = True  # half of the features
    for row in draws:
        rng.shuffle(row)
    return draws
