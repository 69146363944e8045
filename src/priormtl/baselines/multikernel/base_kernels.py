"""Base kernels of MKMTL, their scales, and their values on new rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index, Matrix

__all__ = [
    "BaseKernel",
    "Gaussian",
    "KernelSet",
    "Linear",
    "Polynomial",
    "check_kernels",
    "default_kernels",
]

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # in root mean square distances
DEGREES = (2, 3)


class Pairs:
    """Inner products and squared distances of rows, as far as kernels ask."""

    def __init__(self, X: Matrix, Z: Matrix, centre: Array) -> None:
        self._X, self._Z, self._centre = X, Z, centre
        self._kept: dict[str, Array] = {}

    def products(self) -> Array:
        """Inner products divided by the number of features (n, u)."""
        if "products" not in self._kept:
            self._kept["products"] = _product(self._X, self._Z) / self._X.shape[1]
        return self._kept["products"]

    def distances(self) -> Array:
        """Squared distances (n, u)."""
        if "distances" not in self._kept:
            # About a centre: far from the origin, squares would cancel.
            X, Z = _shift(self._X, self._centre), _shift(self._Z, self._centre)
            squares = np.add.outer(_squares(X), _squares(Z)) - 2.0 * _product(X, Z)
            self._kept["distances"] = np.maximum(squares, 0.0)
        return self._kept["distances"]


@runtime_checkable
class BaseKernel(Protocol):
    """A positive semidefinite function of two rows."""

    def values(self, pairs: Pairs) -> Array:
        """Kernel of every pair of rows (n, u)."""

    def diagonal(self, X: Matrix) -> Array:
        """Kernel of each row with itself (n,)."""


@dataclass(frozen=True)
class Gaussian:
    """exp(−‖x − z‖² / (2 width²)).

    Examples
    --------
    >>> from priormtl.baselines import Gaussian
    >>> Gaussian(width=2.0)
    Gaussian(width=2.0)
    """

    width: float

    def values(self, pairs: Pairs) -> Array:
        """Kernel of every pair of rows (n, u)."""
        return np.asarray(np.exp(pairs.distances() / (-2.0 * self.width**2)))

    def diagonal(self, X: Matrix) -> Array:
        """Kernel of each row with itself: one."""
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class Polynomial:
    """(xᵀz / d + 1)^degree, d the number of features."""

    degree: int

    def values(self, pairs: Pairs) -> Array:
        """Kernel of every pair of rows (n, u)."""
        return np.asarray((pairs.products() + 1.0) ** self.degree)

    def diagonal(self, X: Matrix) -> Array:
        """Kernel of each row with itself (n,)."""
        return np.asarray((_squares(X) / X.shape[1] + 1.0) ** self.degree)


@dataclass(frozen=True)
class Linear:
    """xᵀz / d, d the number of features."""

    def values(self, pairs: Pairs) -> Array:
        """Kernel of every pair of rows (n, u)."""
        return pairs.products()

    def diagonal(self, X: Matrix) -> Array:
        """Kernel of each row with itself (n,)."""
        return np.asarray(_squares(X) / X.shape[1])


@dataclass(frozen=True, eq=False)
class KernelSet:
    """Base kernels, each divided by a number that was learned from training rows."""

    kernels: tuple[BaseKernel, ...]
    unit: Array  # (k,)
    centre: Array  # (d,) where distances are measured from

    def __len__(self) -> int:
        return len(self.kernels)

    @classmethod
    def fit(
        cls,
        kernels: Sequence[BaseKernel] | None,
        X: Matrix,
        weight: Array,
        *,
        normalize: bool,
    ) -> Self:
        """Kernels divided by their weighted mean diagonal on these rows."""
        share = weight / weight.sum()
        centre = np.asarray(share @ X)
        chosen = default_kernels(X, share) if kernels is None else tuple(kernels)
        mean = np.array([_mean_diagonal(kernel, X, share) for kernel in chosen])
        unit = np.where((mean > 0) & normalize, mean, 1.0)
        return cls(chosen, unit, centre)

    def each(self, X: Matrix, Z: Matrix, which: Index) -> Iterator[Array]:
        """Values of some of the kernels on all pairs of rows (n, u)."""
        pairs = Pairs(X, Z, self.centre)
        return (self.kernels[j].values(pairs) / self.unit[j] for j in which.tolist())

    def grams(self, X: Matrix, Z: Matrix) -> Array:
        """Values of all kernels (k, n, u)."""
        return np.stack(list(self.each(X, Z, np.arange(len(self)))))


def default_kernels(X: Matrix, share: Array) -> tuple[BaseKernel, ...]:
    """Five Gaussians around the root mean square distance, two polynomials, linear."""
    with np.errstate(over="ignore"):
        distance = float(np.sqrt(2.0 * _variance(X, share))) or 1.0
    gaussians = (Gaussian(distance * width) for width in WIDTHS)
    return (*gaussians, *(Polynomial(degree) for degree in DEGREES), Linear())


def _variance(X: Matrix, share: Array) -> float:
    """Weighted mean squared distance of rows from their mean."""
    centre = np.asarray(share @ X)
    if not issparse(X):
        return float(share @ _squares(X - centre))
    return max(float(share @ _squares(X) - centre @ centre), 0.0)


def check_kernels(value: Any) -> tuple[BaseKernel, ...] | None:
    """Several kernels, or None."""
    if value is None:
        return None
    listed = isinstance(value, tuple | list) and len(value) > 0
    if listed and all(isinstance(kernel, BaseKernel) for kernel in value):
        return tuple(value)
    raise ValueError(
        "kernels must be None or a tuple of kernels such as (Gaussian(1.0), Linear()): "
        f"got {value!r}."
    )


def _mean_diagonal(kernel: BaseKernel, X: Matrix, share: Array) -> float:
    with np.errstate(over="ignore"):
        mean = float(share @ kernel.diagonal(X))
    if not np.isfinite(mean):
        raise ValueError(
            f"X must not be so large that {kernel} leaves the range of doubles; set "
            "standardize=True or divide the features."
        )
    return mean


def _shift(X: Matrix, centre: Array) -> Matrix:
    """Rows about a centre; sparse ones stay as they are."""
    return X if issparse(X) else X - centre


def _squares(X: Matrix) -> Array:
    """Squared length of each row."""
    if issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X))


def _product(X: Matrix, Z: Matrix) -> Array:
    product = X @ Z.T
    return np.asarray(product.toarray() if issparse(product) else product)
