"""Parts of a feature prior: each says which features act alike, or oppositely.

A part is resolved against the features of a fit into pairs of positions, or is a
matrix already; D has one row per relation.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.data import Moments, pooled_variance
from priormtl.exceptions import unknown_name

__all__ = ["Correlated", "Grid", "Pairs", "Part", "Rows", "part_from_plain"]

BLOCK_CELLS = 2**22  # correlations looked at in one go: 32 MB


class Part(Protocol):
    """One source of relations between features."""

    def resolve(self, moments: Moments) -> "Pairs | Rows":
        """Relations between positions, for these features."""

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the part."""


@dataclass(frozen=True)
class Pairs:
    """Relations between named or numbered features: sign +1 alike, −1 opposite."""

    first: tuple[Hashable, ...]
    second: tuple[Hashable, ...]
    sign: tuple[float, ...]
    weight: tuple[float, ...]
    among: int | None = None  # number of features that an adjacency matrix spoke of

    def resolve(self, moments: Moments) -> "Pairs":
        """Same relations between positions."""
        if self.among not in (None, moments.shape[0]):
            raise ValueError(
                "feature_prior must have one row per feature: the adjacency matrix has "
                f"{self.among} for {moments.shape[0]} features."
            )
        place = _Positions(moments)
        first = tuple(place.of(name) for name in self.first)
        second = tuple(place.of(name) for name in self.second)
        for a, b, name in zip(first, second, self.first, strict=True):
            if a == b:
                raise ValueError(
                    f"feature_prior must relate different features: {name!r} is "
                    "related to itself."
                )
        return Pairs(first, second, self.sign, self.weight)

    def matrix(self, d: int) -> csr_array:
        """Rows of D: √weight at the first feature, ∓√weight at the second."""
        k = len(self.first)
        root = np.sqrt(np.array(self.weight, dtype=np.float64))
        values = np.concatenate([root, -np.array(self.sign) * root])
        rows = np.tile(np.arange(k), 2)
        columns = np.array([*self.first, *self.second], dtype=np.intp)
        return csr_array((values, (rows, columns)), shape=(k, d))

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the part."""
        return {
            "part": "pairs",
            "first": list(self.first),
            "second": list(self.second),
            "sign": list(self.sign),
            "weight": list(self.weight),
            "among": self.among,
        }


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of D as given by the user, whose columns may have names."""

    D: csr_array
    features: tuple[str, ...] | None = None

    def resolve(self, moments: Moments) -> "Rows":
        """D with one column per feature, by name where both sides have names.

        Features that D does not name are not in its relations.
        """
        d = moments.shape[0]
        if self.features is None or moments.features is None:
            return Rows(self.matrix(d))
        place = _Positions(moments)
        places = np.array([place.of(name) for name in self.features], dtype=np.intp)
        cells = (self.D.data, places[self.D.indices], self.D.indptr)
        placed = csr_array(cells, shape=(self.D.shape[0], d), copy=True)
        placed.sort_indices()  # in place
        return Rows(placed)

    def matrix(self, d: int) -> csr_array:
        """D itself."""
        if self.D.shape[1] != d:
            raise ValueError(
                f"feature_prior must have one column per feature: D has "
                f"{self.D.shape[1]} columns for {d} features."
            )
        return self.D

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the part."""
        return {
            "part": "rows",
            "shape": list(self.D.shape),
            "indptr": self.D.indptr.tolist(),
            "indices": self.D.indices.tolist(),
            "data": self.D.data.tolist(),
            "features": None if self.features is None else list(self.features),
        }


@dataclass(frozen=True)
class Grid:
    """Neighbouring cells of a grid of features, row by row, are alike."""

    height: int
    width: int
    weight: float

    def resolve(self, moments: Moments) -> Pairs:
        """Pairs of horizontal and vertical neighbours."""
        d = moments.shape[0]
        if self.height * self.width != d:
            raise ValueError(
                f"feature_prior must match the features: a {self.height} x "
                f"{self.width} grid has {self.height * self.width} cells for {d} "
                "features."
            )
        return self.pairs()

    def pairs(self) -> Pairs:
        """Neighbours, whatever the features are called."""
        cells = np.arange(self.height * self.width).reshape(self.height, self.width)
        first = np.concatenate([cells[:, :-1].ravel(), cells[:-1].ravel()])
        second = np.concatenate([cells[:, 1:].ravel(), cells[1:].ravel()])
        return _numbered(first, second, np.ones(len(first)), self.weight)

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the part."""
        return {
            "part": "grid",
            "height": self.height,
            "width": self.width,
            "weight": self.weight,
        }


@dataclass(frozen=True)
class Correlated:
    """The most strongly correlated pairs; the sign decides alike or opposite."""

    strongest: int
    weight: float

    def resolve(self, moments: Moments) -> Pairs:
        """Look at all correlations over all tasks' rows, a block at a time."""
        d = moments.shape[0]
        found: list[tuple[float, int, int, float]] = []
        step = max(1, BLOCK_CELLS // max(1, d))
        variance = _usable_variance(moments)
        for start in range(0, d, step):
            block = np.arange(start, min(start + step, d))
            found += _strongest_in(block, moments, variance, self.strongest)
            # Ties go to the earlier pair, so that the result never depends on blocks.
            found = sorted(found)[: self.strongest]
        pairs = np.array([item[1:3] for item in found], dtype=np.intp).reshape(-1, 2)
        signs = np.array([item[3] for item in found])
        return _numbered(pairs[:, 0], pairs[:, 1], signs, self.weight)

    def to_plain(self) -> dict[str, Any]:
        """JSON values that describe the part."""
        return {
            "part": "correlated",
            "strongest": self.strongest,
            "weight": self.weight,
        }


def part_from_plain(plain: Any) -> Part:
    """Part from what ``to_plain`` made."""
    settings = dict(plain)
    kind = settings.pop("part")
    if kind == "pairs":
        among = settings.pop("among")
        return Pairs(**{k: tuple(v) for k, v in settings.items()}, among=among)
    if kind == "rows":
        arrays = (settings["data"], settings["indices"], settings["indptr"])
        names = settings.get("features")  # older files have none
        matrix = csr_array(arrays, shape=tuple(settings["shape"]))
        return Rows(matrix, None if names is None else tuple(map(str, names)))
    kinds = {"grid": Grid, "correlated": Correlated}
    return kinds[kind](**settings)


class _Positions:
    """Where each feature stands, by name or by number."""

    def __init__(self, moments: Moments) -> None:
        self.d = moments.shape[0]
        self.names = moments.features or ()
        self.place = {name: j for j, name in enumerate(self.names)}

    def of(self, name: Hashable) -> int:
        if isinstance(name, str):
            return self._named(name)
        if not isinstance(name, int) or not 0 <= name < self.d:
            raise ValueError(
                f"feature_prior must name features or give positions 0 … {self.d - 1}: "
                f"got {name!r}."
            )
        return name

    def _named(self, name: str) -> int:
        if not self.names:
            raise ValueError(
                f"feature_prior names the feature {name!r}, but X has no column names: "
                "pass a data frame, or positions."
            )
        if name not in self.place:
            raise unknown_name("feature", name, self.names)
        return self.place[name]


def _numbered(first: Index, second: Index, sign: Array, weight: float) -> Pairs:
    return Pairs(
        tuple(first.tolist()),
        tuple(second.tolist()),
        tuple(sign.tolist()),
        (weight,) * len(first),
    )


def _usable_variance(moments: Moments) -> Array:
    """Pooled variances; zero where a feature is constant up to rounding."""
    variance = pooled_variance(moments)
    noise = 1e-14 * np.abs(moments.x_mean).max(axis=0)
    return np.where(np.sqrt(variance) > noise, variance, 0.0)


def _strongest_in(
    block: Index, moments: Moments, variance: Array, strongest: int
) -> Sequence[tuple[float, int, int, float]]:
    """(−|correlation|, j, k, sign) of the strongest pairs j < k with j in block."""
    total = moments.weight.sum()
    share = moments.weight / total
    deviation = moments.x_mean - share @ moments.x_mean
    between = (deviation[:, block] * share[:, np.newaxis]).T @ deviation
    covariance = moments.within_task_products(block) / total + between
    deviations = np.sqrt(variance)  # products of variances leave the doubles
    scale = np.outer(deviations[block], deviations)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(scale > 0, covariance / scale, 0.0)
    correlation[np.arange(len(variance)) <= block[:, np.newaxis]] = 0.0
    # Rounding must not order pairs that are equally strong.
    strength = np.round(np.abs(correlation), 12)
    usable = np.flatnonzero(strength.ravel() > 0)
    best = usable[np.argsort(-strength.ravel()[usable], kind="stable")[:strongest]]
    rows, columns = np.unravel_index(best, strength.shape)
    return [
        (-strength[r, c], int(block[r]), int(c), float(np.sign(correlation[r, c])))
        for r, c in zip(rows, columns, strict=True)
    ]
