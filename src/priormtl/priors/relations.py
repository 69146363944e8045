"""Relations between features: the parts of a FeaturePrior that are rows of D.

Each relation is one row of D in θ/2 ‖D P − C‖²: √w (p_a − p_b) for similar features,
√w (p_a + p_b) for opposite ones, √w p_j for small ones. They are given as pairs, as
rows of a matrix (which alone may have targets C other than zero), as neighbours in a
grid or as the most correlated pairs. A part is resolved against the features of a fit
into pairs of positions or rows of D, and describes itself in lines of a table.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse, triu

from priormtl._arrays import Array, Index
from priormtl.archive import Settings
from priormtl.data import Moments, pooled_variance, unnamed_feature
from priormtl.design import Design
from priormtl.design.columns import find_name
from priormtl.exceptions import unknown_name
from priormtl.rendering import Table, TableRow, TextCell, spell_number

MOST_SHOWN = 20  # lines of a table
MOST_TERMS = 4  # names in a line
BLOCK_CELLS = 2**22  # correlations computed in one go: 32 MB

Tasks = Sequence[Hashable]
Line = tuple[str, str, str]  # what is related, how, how strongly
Edge = tuple[Hashable, Hashable, float]


class Targets(NamedTuple):
    """Right-hand sides C of D P = C, in the units of X and with the rows' weights."""

    values: Array  # (s, m); zero where none is given
    given: np.ndarray  # (s,) bool


class Part(ABC):
    """One kind of statement about features; a FeaturePrior is a sum of them."""

    kind: ClassVar[str]  # in saved models
    noun: ClassVar[str] = "relation"

    @property
    @abstractmethod
    def count(self) -> int | str:
        """Number of statements; words where that is not known before a fit."""

    @abstractmethod
    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        """Lines of a table that describe it; ``names`` replace positions."""

    @abstractmethod
    def resolve(self, moments: Moments) -> "Part":
        """Same statement by positions of features."""

    @property
    def n_rows(self) -> int:
        """Number of rows of D, of a resolved part."""
        assert isinstance(self.count, int)
        return self.count

    def matrix(self, d: int) -> csr_array:
        raise TypeError("a prior must be resolved before it has a matrix.")

    def targets(self, tasks: Tasks) -> Array | None:
        """Right-hand sides (n_rows, m) in the units of X; None: none are given."""
        return None

    def to_plain(self) -> Settings:
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"part": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
        }

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        return cls(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in plain.items()
            }
        )


@dataclass(frozen=True)
class Pairs(Part):
    """Relations between named or numbered features: sign +1 alike, −1 opposite."""

    kind = "pairs"
    first: tuple[Hashable, ...]
    second: tuple[Hashable, ...]
    sign: tuple[float, ...]
    weight: tuple[float, ...]
    among: int | None = None  # number of features of an adjacency matrix

    def resolve(self, moments: Moments) -> "Pairs":
        if self.among not in (None, moments.shape[0]):
            raise ValueError(
                "feature_prior must have one row per feature: the adjacency matrix has "
                f"{self.among} for {moments.shape[0]} features."
            )
        places = find_features((*self.first, *self.second), moments)
        first, second = places[: len(self.first)], places[len(self.first) :]
        for a, b, name in zip(first, second, self.first, strict=True):
            if a == b:
                raise ValueError(
                    f"feature_prior must relate different features: {name!r} is "
                    "related to itself."
                )
        return Pairs(tuple(first), tuple(second), self.sign, self.weight)

    def matrix(self, d: int) -> csr_array:
        """Rows of D: √weight at the first feature, ∓√weight at the second."""
        k = len(self.first)
        root = np.sqrt(np.array(self.weight, dtype=np.float64))
        values = np.concatenate([root, -np.array(self.sign) * root])
        rows = np.tile(np.arange(k), 2)
        columns = np.array([*self.first, *self.second], dtype=np.intp)
        return csr_array((values, (rows, columns)), shape=(k, d))

    @property
    def count(self) -> int:
        return len(self.first)

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        pairs = zip(self.first, self.second, self.sign, self.weight, strict=True)
        for a, b, sign, weight in pairs:
            relation = "similar" if sign > 0 else "opposite"
            pair = f"{feature_name(a, names)}, {feature_name(b, names)}"
            yield pair, relation, spell_number(weight)


@dataclass(frozen=True, eq=False)
class Rows(Part):
    """Rows of D as given by the user, whose columns may have names."""

    kind = "rows"
    D: csr_array
    features: tuple[str, ...] | None = None
    target: Array | None = None  # (rows, 1) or (rows, m)

    def resolve(self, moments: Moments) -> "Rows":
        """D with one column per feature, by name where both sides have names.

        Features that D does not name are not in its relations.
        """
        d, m = moments.shape
        if self.target is not None and self.target.shape[1] not in (1, m):
            raise ValueError(
                "target must have one column per task: it has "
                f"{self.target.shape[1]} for {m} tasks."
            )
        if self.features is None or moments.features is None:
            return Rows(self.matrix(d), None, self.target)
        places = np.array(find_features(self.features, moments), dtype=np.intp)
        cells = (self.D.data, places[self.D.indices], self.D.indptr)
        placed = csr_array(cells, shape=(self.D.shape[0], d), copy=True)
        placed.sort_indices()  # in place
        return Rows(placed, None, self.target)

    def matrix(self, d: int) -> csr_array:
        if self.D.shape[1] != d:
            raise ValueError(
                f"feature_prior must have one column per feature: D has "
                f"{self.D.shape[1]} columns for {d} features."
            )
        return self.D

    @property
    def count(self) -> int:
        return int(self.D.shape[0])

    def targets(self, tasks: Tasks) -> Array | None:
        if self.target is None:
            return None
        return np.broadcast_to(self.target, (self.count, len(tasks)))

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        D, names = self.D, self.features or names
        for row, (start, end) in enumerate(pairwise(D.indptr)):
            cells = zip(D.data[start:end], D.indices[start:end], strict=True)
            terms = [
                f"{spell_number(float(value))} · {feature_name(int(j), names)}"
                for value, j in islice(cells, MOST_TERMS)
            ]
            more = ["…"] if end - start > MOST_TERMS else []
            words = "near zero"
            if self.target is not None:
                low, high = self.target[row].min(), self.target[row].max()
                ends = dict.fromkeys([spell_number(low), spell_number(high)])
                words = f"near {' … '.join(ends)}"
            yield " + ".join(terms + more) or "nothing", words, spell_number(1.0)

    def to_plain(self) -> Settings:
        return {
            "part": self.kind,
            "shape": list(self.D.shape),
            "indptr": self.D.indptr.tolist(),
            "indices": self.D.indices.tolist(),
            "data": self.D.data.tolist(),
            "features": None if self.features is None else list(self.features),
            "target": None if self.target is None else self.target.tolist(),
        }

    @classmethod
    def from_plain(cls, plain: Settings) -> Self:
        arrays = (plain["data"], plain["indices"], plain["indptr"])
        names, target = plain.get("features"), plain.get("target")
        return cls(
            csr_array(arrays, shape=tuple(plain["shape"])),
            None if names is None else tuple(map(str, names)),
            None if target is None else np.array(target, dtype=np.float64),
        )


@dataclass(frozen=True)
class Grid(Part):
    """Neighbouring cells of a grid of features, row by row, are alike."""

    kind = "grid"
    height: int
    width: int
    weight: float

    def resolve(self, moments: Moments) -> Pairs:
        d = moments.shape[0]
        if self.height * self.width != d:
            raise ValueError(
                f"feature_prior must match the features: a {self.height} x "
                f"{self.width} grid has {self.height * self.width} cells for {d} "
                "features."
            )
        return self.pairs()

    def pairs(self) -> Pairs:
        cells = np.arange(self.height * self.width).reshape(self.height, self.width)
        first = np.concatenate([cells[:, :-1].ravel(), cells[:-1].ravel()])
        second = np.concatenate([cells[:, 1:].ravel(), cells[1:].ravel()])
        return _numbered(first, second, np.ones(len(first)), self.weight)

    @property
    def count(self) -> str:
        return f"{self.height} x {self.width} grid"

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        place = f"neighbours in a {self.height} × {self.width} grid"
        yield place, "similar", spell_number(self.weight)


@dataclass(frozen=True)
class Correlated(Part):
    """The most strongly correlated pairs; the sign decides alike or opposite."""

    kind = "correlated"
    strongest: int
    weight: float

    def resolve(self, moments: Moments) -> Pairs:
        """Compute all correlations over all tasks' rows, a block at a time."""
        d = moments.shape[0]
        found: list[tuple[float, int, int, float]] = []
        step = max(1, BLOCK_CELLS // max(1, d))
        # Features that are constant up to rounding have no correlations.
        deviations = np.sqrt(pooled_variance(moments))
        noise = 1e-14 * np.abs(moments.x_mean).max(axis=0)
        deviations = np.where(deviations > noise, deviations, 0.0)
        for start in range(0, d, step):
            block = np.arange(start, min(start + step, d))
            found += self._strongest_in(block, moments, deviations)
            # Ties go to the earlier pair, so that the result never depends on blocks.
            found = sorted(found)[: self.strongest]
        pairs = np.array([item[1:3] for item in found], dtype=np.intp).reshape(-1, 2)
        signs = np.array([item[3] for item in found])
        return _numbered(pairs[:, 0], pairs[:, 1], signs, self.weight)

    def _strongest_in(
        self, block: Index, moments: Moments, deviations: Array
    ) -> Sequence[tuple[float, int, int, float]]:
        """(−|correlation|, j, k, sign) of the strongest pairs j < k with j in block."""
        total = moments.weight.sum()
        share = moments.weight / total
        apart = moments.x_mean - share @ moments.x_mean
        between = (apart[:, block] * share[:, np.newaxis]).T @ apart
        covariance = moments.within_task_products(block) / total + between
        # Products of deviations, since those of variances leave the doubles.
        scale = np.outer(deviations[block], deviations)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.where(scale > 0, covariance / scale, 0.0)
        correlation[np.arange(len(deviations)) <= block[:, np.newaxis]] = 0.0
        # Rounding must not order pairs that are equally strong.
        strength = np.round(np.abs(correlation), 12).ravel()
        usable = np.flatnonzero(strength > 0)
        order = np.argsort(-strength[usable], kind="stable")[: self.strongest]
        best = usable[order]
        rows, columns = np.unravel_index(best, correlation.shape)
        signs = np.sign(correlation[rows, columns])
        places = zip(block[rows], columns, strict=True)
        return [
            (-size, int(j), int(k), float(sign))
            for size, (j, k), sign in zip(strength[best], places, signs, strict=True)
        ]

    @property
    def count(self) -> str:
        return "strongest correlations"

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        found = f"{self.strongest} most correlated pairs"
        yield found, "as the correlation's sign", spell_number(self.weight)


@dataclass(frozen=True)
class Shrunken(Part):
    """Coefficients that are small: of features, or of the wiggles of columns."""

    kind = "shrunken"
    features: tuple[Hashable, ...] | None  # None: all features but wiggles
    weight: float
    smooth: bool  # whether wiggles of these columns are meant

    def resolve(self, moments: Moments) -> "Ridge":
        """Positions, and families of features whose coefficients are alike in size.

        These are the wiggles of one column, the categories of one column, and all
        other features together.
        """
        design = moments.features or Design(())
        if self.smooth:
            return self.smooth_ridge(design)
        categories, kept = design.categories(), set(range(moments.shape[0]))
        if self.features is not None:
            kept = set()
            for feature in self.features:
                made = categories.get(find_name(feature, categories), [])
                kept.update(made or find_features([feature], moments))
        column = {j: name for name, group in categories.items() for j in group}
        families = tuple(column.get(j, "") for j in sorted(kept))
        return Ridge(tuple(sorted(kept)), families, self.weight)

    def smooth_ridge(self, design: Design) -> "Ridge":
        """Wiggles of these columns, which are a family each."""
        wiggles = design.wiggles()
        positions, families = list[int](), list[str]()
        for feature in self.features or tuple(wiggles):
            column = find_name(feature, wiggles)
            if column not in wiggles:
                raise ValueError(
                    f"smooth needs the wiggles {column}~1, {column}~2 and so on among "
                    "the features. Add them with SplineFeatures."
                )
            positions += wiggles[str(column)]
            families += [str(column)] * len(wiggles[str(column)])
        return Ridge(tuple(positions), tuple(families), self.weight, smooth=True)

    @property
    def count(self) -> str:
        return "smooth effects" if self.smooth else "small effects"

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        some = self.features or ("all numeric columns" if self.smooth else "others",)
        word = "smooth" if self.smooth else "near zero"
        yield ", ".join(map(str, some)), word, spell_number(self.weight)


@dataclass(frozen=True)
class Ridge(Part):
    """Squares of coefficients, at most one variance per family of features.

    Strengths that were estimated are no rows of D: theta does not multiply them.
    """

    kind = "ridge"
    positions: tuple[int, ...]
    families: tuple[str, ...]  # columns; "" for all plain features together
    weight: float
    strengths: tuple[float, ...] | None = None  # one per position; None: all one
    smooth: bool = False  # whether these are the wiggles of curves

    def resolve(self, moments: Moments) -> "Ridge":
        return self

    def curves(self) -> dict[str, list[int]]:
        """Positions of the wiggles of each column, in order."""
        found: dict[str, list[int]] = {}
        if self.smooth:
            for j, family in zip(self.positions, self.families, strict=True):
                found.setdefault(family, []).append(j)
        return found

    def without(self, positions: Collection[int]) -> Self:
        """Ridge on other features."""
        pairs = zip(self.positions, self.families, strict=True)
        kept = [(j, family) for j, family in pairs if j not in positions]
        places, families = (
            (tuple(part) for part in zip(*kept, strict=True)) if kept else ((), ())
        )
        return replace(self, positions=places, families=families)

    @property
    def n_rows(self) -> int:
        return len(self.positions) if self.strengths is None else 0

    def matrix(self, d: int) -> csr_array:
        """Rows of D: √weight at each feature."""
        k = self.n_rows
        values = np.full(k, np.sqrt(self.weight))
        columns = np.array(self.positions[:k], dtype=np.intp)
        return csr_array((values, (np.arange(k), columns)), shape=(k, d))

    @property
    def count(self) -> int:
        return len(self.positions)

    def lines(self, names: Sequence[str] | None) -> Iterator[Line]:
        strengths = self.strengths or (1.0,) * len(self.positions)
        for j, strength in zip(self.positions, strengths, strict=True):
            weight = spell_number(self.weight * strength)
            yield feature_name(j, names), "near zero", weight


def find_features(features: Sequence[Hashable], moments: Moments) -> list[int]:
    """Position of each feature, given by name or by number."""
    d, design = moments.shape[0], moments.features
    found = list[int]()
    for name in features:
        if isinstance(name, str):
            if design is None:
                raise ValueError(
                    f"feature_prior names the feature {name!r}, but X has no column "
                    "names. Pass a data frame, or positions."
                )
            place = design.find(name)
            if place is None:
                raise unknown_name("feature", name, design.names)
            found.append(place)
        elif isinstance(name, int) and 0 <= name < d:
            found.append(name)
        else:
            raise ValueError(
                f"feature_prior must name features or give positions 0 … {d - 1}: "
                f"got {name!r}."
            )
    return found


def feature_name(feature: Hashable, names: Sequence[str] | None) -> str:
    if isinstance(feature, int):
        return unnamed_feature(feature) if names is None else names[feature]
    return str(feature)


def _numbered(first: Index, second: Index, sign: Array, weight: float) -> Pairs:
    return Pairs(
        tuple(first.tolist()),
        tuple(second.tolist()),
        tuple(sign.tolist()),
        (weight,) * len(first),
    )


# What feature and task priors share: reading graphs, and tables for notebooks.


def read_edges(graph: object) -> list[Edge]:
    """Edges (a, b, weight) of a graph; an adjacency matrix gives positions."""
    if hasattr(graph, "edges") and callable(graph.edges):
        edges = graph.edges(data="weight", default=1.0)
        return [_edge(edge) for edge in edges]
    if issparse(graph) or isinstance(graph, np.ndarray):
        return _adjacency_edges(graph)
    if isinstance(graph, Iterable) and not isinstance(graph, str):
        return [_edge(edge) for edge in graph]
    raise TypeError(
        "graph must be an edge list, an adjacency matrix or a networkx graph: got "
        f"{type(graph).__name__}."
    )


def _edge(edge: Any) -> Edge:
    if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) not in (2, 3):
        raise ValueError(
            f"an edge must be (first, second) or (first, second, weight): got {edge!r}."
        )
    weight = float(edge[2]) if len(edge) == 3 else 1.0
    if not np.isfinite(weight):
        raise ValueError(f"an edge must have a finite weight: got {edge!r}.")
    return plain_label(edge[0]), plain_label(edge[1]), weight


def _adjacency_edges(matrix: object) -> list[Edge]:
    adjacency = coo_array(matrix, dtype=np.float64)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(
            f"an adjacency matrix must be square: got shape {adjacency.shape}."
        )
    if not np.all(np.isfinite(adjacency.data)):
        raise ValueError("an adjacency matrix must be finite.")
    if abs(adjacency - adjacency.T).max() > 0:
        raise ValueError(
            "an adjacency matrix must be symmetric: relations have no direction."
        )
    upper = triu(adjacency, format="coo")
    return [
        (int(a), int(b), float(w))
        for a, b, w in zip(*upper.coords, upper.data, strict=True)
        if w != 0
    ]


def plain_label(label: object) -> Hashable:
    """NumPy scalars as Python ones, so that labels compare and save alike."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bool) or not isinstance(value, Hashable):
        raise ValueError(f"a name must be text or a position: got {label!r}.")
    return value


def check_weight(weight: float, name: str = "weight") -> float:
    if not np.isfinite(weight) or weight <= 0:
        raise ValueError(f"{name} must be positive and finite: got {weight!r}.")
    return float(weight)


def line_table(title: str, lines: Iterator[Line], total: int, what: str) -> Table:
    """Table of the first lines of a prior, which may hold millions."""
    rows = [
        TableRow(label, tuple(map(TextCell, cells)))
        for label, *cells in islice(lines, MOST_SHOWN)
    ]
    more = total - len(rows)
    notes = (f"… and {more} more {what}.",) if more > 0 else ()
    first = "features" if what == "relations" else "tasks"
    return Table(title, (first, "relation", "weight"), tuple(rows), "llr", notes)
