"""Trees: sums of binary trees as arrays, grown elsewhere and kept without a pickle."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array

TYPES = "i4", "i4", "f8", "u1", "i4"  # of the arrays, in their order


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

        sums = np.full(len(X), self.base)
        add_trees(X, *self[1:], sums)
        return sums

    def fits(self, d: int) -> bool:
        """Whether ways through the trees end inside, so that no file reads beyond."""
        base, roots, feature, number, missing_left, right = self
        n = len(feature)
        alike = all(part.shape == (n,) for part in (number, missing_left, right))
        types = tuple(part.dtype.str[1:] for part in self[1:])
        if not alike or roots.ndim != 1 or types != TYPES:
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
