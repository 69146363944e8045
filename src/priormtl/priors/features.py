"""FeaturePrior: which features are known to act alike, or oppositely.

Each relation is one row of D in θ/2 ‖D P‖²: √w (p_a − p_b) for similar features,
√w (p_a + p_b) for opposite ones. A prior is a sum of parts: pairs of features, rows of
a matrix that the user gives, neighbours in a grid, or the most correlated pairs. A part
is resolved against the features of a fit into pairs of positions or rows of D.
"""

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice, pairwise
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl._arrays import Array, Index
from priormtl.data import (
    Moments,
    as_frame,
    column_names,
    pooled_variance,
    unnamed_feature,
)
from priormtl.exceptions import unknown_name
from priormtl.priors.edges import (
    MOST_TERMS,
    Line,
    check_weight,
    line_table,
    plain_label,
    read_edges,
)
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.splines import wiggles_of
from priormtl.tables import Table, spell_number, to_notebook

BLOCK_CELLS = 2**22  # correlations computed in one go: 32 MB

Relation = tuple[Hashable, Hashable]


@dataclass(frozen=True)
class Pairs:
    """Relations between named or numbered features: sign +1 alike, −1 opposite."""

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
        places = _positions((*self.first, *self.second), moments)
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

    def to_plain(self) -> dict[str, Any]:
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
        places = np.array(_positions(self.features, moments), dtype=np.intp)
        cells = (self.D.data, places[self.D.indices], self.D.indptr)
        placed = csr_array(cells, shape=(self.D.shape[0], d), copy=True)
        placed.sort_indices()  # in place
        return Rows(placed)

    def matrix(self, d: int) -> csr_array:
        if self.D.shape[1] != d:
            raise ValueError(
                f"feature_prior must have one column per feature: D has "
                f"{self.D.shape[1]} columns for {d} features."
            )
        return self.D

    def to_plain(self) -> dict[str, Any]:
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

    def to_plain(self) -> dict[str, Any]:
        return {"part": "grid", **asdict(self)}


@dataclass(frozen=True)
class Correlated:
    """The most strongly correlated pairs; the sign decides alike or opposite."""

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

    def to_plain(self) -> dict[str, Any]:
        return {"part": "correlated", **asdict(self)}


@dataclass(frozen=True)
class Shrunken:
    """Coefficients that are small: of features, or of the wiggles of columns."""

    features: tuple[Hashable, ...] | None  # None: all features but wiggles
    weight: float
    smooth: bool  # whether wiggles of these columns are meant

    def resolve(self, moments: Moments) -> "Ridge":
        """Positions, and families of features whose coefficients are alike in size.

        These are the wiggles of one column, the categories of one column, and all
        other features together.
        """
        names = moments.features or ()
        wiggles = wiggles_of(names)
        if not self.smooth:
            curved = {j for group in wiggles.values() for j in group}
            kept = set(range(moments.shape[0])) - curved
            if self.features is not None:
                kept = set(_positions(self.features, moments))
            columns = [category_column(names[j]) if names else "" for j in sorted(kept)]
            return Ridge(tuple(sorted(kept)), tuple(columns), self.weight)
        positions, families = list[int](), list[str]()
        for column in self.features or tuple(wiggles):
            if column not in wiggles:
                raise ValueError(
                    f"smooth needs the wiggles {column}~1, {column}~2 and so on among "
                    "the features. Add them with SplineFeatures."
                )
            positions += wiggles[str(column)]
            families += [f"{column}~"] * len(wiggles[str(column)])
        return Ridge(tuple(positions), tuple(families), self.weight)

    def to_plain(self) -> dict[str, Any]:
        features = None if self.features is None else list(self.features)
        return {"part": "shrunken", **asdict(self), "features": features}


@dataclass(frozen=True)
class Ridge:
    """Squares of coefficients, at most one variance per family of features."""

    positions: tuple[int, ...]
    families: tuple[str, ...]
    weight: float
    strengths: tuple[float, ...] | None = None  # one per position; None: all one

    def resolve(self, moments: Moments) -> "Ridge":
        return self

    def matrix(self, d: int) -> csr_array:
        """Rows of D: √weight at each feature."""
        k = len(self.positions)
        values = np.full(k, self.weight) * (self.strengths or np.ones(k))
        rows, columns = np.arange(k), np.array(self.positions, dtype=np.intp)
        return csr_array((np.sqrt(values), (rows, columns)), shape=(k, d))

    def to_plain(self) -> dict[str, Any]:
        lists = {"positions": list(self.positions), "families": list(self.families)}
        strengths = None if self.strengths is None else list(self.strengths)
        return {"part": "ridge", **lists, "weight": self.weight, "strengths": strengths}


def category_column(name: str) -> str:
    """Column of which a feature such as "colour=red" is a category, else nothing."""
    column, sign, _ = name.partition("=")
    return f"{column}=" if sign else ""


Part = Pairs | Rows | Grid | Correlated | Shrunken | Ridge


def _count(part: Part) -> int | str:
    if isinstance(part, Pairs | Rows):
        return len(part.first) if isinstance(part, Pairs) else int(part.D.shape[0])
    if isinstance(part, Grid):
        return f"{part.height} x {part.width} grid"
    if isinstance(part, Ridge):
        return len(part.positions)
    if isinstance(part, Shrunken):
        return "smooth effects" if part.smooth else "small effects"
    return "strongest correlations"


def _lines(part: Part, names: Sequence[str] | None) -> Iterator[Line]:
    if isinstance(part, Pairs):
        pairs = zip(part.first, part.second, part.sign, part.weight, strict=True)
        for a, b, sign, weight in pairs:
            relation = "similar" if sign > 0 else "opposite"
            pair = f"{_name(a, names)}, {_name(b, names)}"
            yield pair, relation, spell_number(weight)
    elif isinstance(part, Rows):
        D, names = part.D, part.features or names
        for start, end in pairwise(D.indptr):
            cells = zip(D.data[start:end], D.indices[start:end], strict=True)
            terms = [
                f"{spell_number(float(value))} · {_name(int(j), names)}"
                for value, j in islice(cells, MOST_TERMS)
            ]
            more = ["…"] if end - start > MOST_TERMS else []
            yield " + ".join(terms + more) or "nothing", "near zero", spell_number(1.0)
    elif isinstance(part, Grid):
        place = f"neighbours in a {part.height} × {part.width} grid"
        yield place, "similar", spell_number(part.weight)
    elif isinstance(part, Ridge):
        strengths = part.strengths or (1.0,) * len(part.positions)
        for j, strength in zip(part.positions, strengths, strict=True):
            yield _name(j, names), "near zero", spell_number(part.weight * strength)
    elif isinstance(part, Shrunken):
        some = part.features or ("all numeric columns" if part.smooth else "others",)
        word = "smooth" if part.smooth else "near zero"
        yield ", ".join(map(str, some)), word, spell_number(part.weight)
    else:
        found = f"{part.strongest} most correlated pairs"
        yield found, "as the correlation's sign", spell_number(part.weight)


@dataclass(frozen=True)
class FeaturePrior:
    """Known relations between features.

    Each relation is one row of D in the penalty theta/2 ‖D P‖². Features are given by
    name or by position, starting at 0. Names are resolved during fit, and unknown
    names raise a ValueError. Priors can be added: ``a + b`` contains the relations of
    both.

    See Also
    --------
    TaskPrior : Known similarities between tasks.

    Examples
    --------
    >>> prior = FeaturePrior.similar([("maths", "physics")])
    >>> prior + FeaturePrior.opposite([("price", "demand")], weight=2.0)
    FeaturePrior(2 relations)
    """

    parts: tuple[Part, ...]

    @classmethod
    def similar(cls, pairs: Iterable[Relation], weight: float = 1.0) -> Self:
        """Both features of a pair have similar coefficients.

        The penalty is weight · ‖p_a − p_b‖².

        Parameters
        ----------
        pairs : iterable of (feature, feature)
            Names or positions of the features of each pair.
        weight : float, default=1.0
            Weight of each relation. It multiplies ``theta``.

        Examples
        --------
        >>> FeaturePrior.similar([("maths", "physics"), (3, 7)])
        FeaturePrior(2 relations)
        """
        return cls((_pairs(pairs, 1.0, weight),))

    @classmethod
    def opposite(cls, pairs: Iterable[Relation], weight: float = 1.0) -> Self:
        """Both features of a pair have coefficients of opposite sign.

        The penalty is weight · ‖p_a + p_b‖².

        Parameters
        ----------
        pairs : iterable of (feature, feature)
            Names or positions of the features of each pair.
        weight : float, default=1.0
            Weight of each relation. It multiplies ``theta``.
        """
        return cls((_pairs(pairs, -1.0, weight),))

    @classmethod
    def from_correlation(cls, strongest: int = 20, weight: float = 1.0) -> Self:
        """Relate the most strongly correlated pairs of features.

        The pairs are found during fit, from the rows of all tasks. Positive
        correlations give similar features, negative correlations give opposite
        features. Constant features are ignored.

        Parameters
        ----------
        strongest : int, default=20
            Number of pairs.
        weight : float, default=1.0
            Weight of each relation. It multiplies ``theta``.
        """
        count = _check_count("strongest", strongest)
        return cls((Correlated(count, check_weight(weight)),))

    @classmethod
    def from_groups(
        cls, groups: Mapping[str, Iterable[Hashable]], weight: float = 1.0
    ) -> Self:
        """All features of a group have similar coefficients.

        Parameters
        ----------
        groups : mapping from names to features
            Names or positions of the features of each group. All pairs within a group
            are related.
        weight : float, default=1.0
            Weight of each relation. It multiplies ``theta``.

        Examples
        --------
        >>> FeaturePrior.from_groups({"verbal": ["reading", "essay", "debate"]})
        FeaturePrior(3 relations)
        """
        if not isinstance(groups, Mapping):
            raise TypeError(
                "groups must map names to lists of features: got "
                f"{type(groups).__name__}."
            )
        pairs = [pair for group in groups.values() for pair in combinations(group, 2)]
        return cls.similar(pairs, weight)

    @classmethod
    def from_graph(cls, graph: Any) -> Self:
        """Relate features that are joined by an edge of a graph.

        Edges with positive weights mean similar features, edges with negative weights
        mean opposite features.

        Parameters
        ----------
        graph : edge list, symmetric matrix or networkx graph
            Graph of features. A matrix, dense or sparse, is the adjacency matrix with
            one row per feature.
        """
        edges = [edge for edge in read_edges(graph) if edge[2] != 0]
        first, second, weight = zip(*edges, strict=True) if edges else ((), (), ())
        sign = tuple(float(np.sign(w)) for w in weight)
        size = int(graph.shape[0]) if hasattr(graph, "shape") else None
        return cls((Pairs(first, second, sign, tuple(map(abs, weight)), size),))

    @classmethod
    def from_file(cls, file: str | os.PathLike[str] | PriorFile) -> Self:
        """Read relations from a TOML or CSV file.

        Parameters
        ----------
        file : path or PriorFile
            TOML file with tables ``[[similar]]``, ``[[opposite]]`` and ``[[group]]``,
            or CSV file with the columns relation, first, second and (optionally)
            weight.
        """
        read = file if isinstance(file, PriorFile) else read_prior_file(file)
        pairs = [
            (*pair, -1.0 if one.kind == "opposite" else 1.0, one.weight)
            for one in read.relations
            for pair in combinations(one.features, 2)
        ]
        first, second, sign, weight = zip(*pairs, strict=True)
        return cls((Pairs(first, second, sign, weight),))

    @classmethod
    def grid(cls, height: int, width: int, weight: float = 1.0) -> Self:
        """Neighbouring pixels of an image have similar coefficients.

        Parameters
        ----------
        height, width : int
            Shape of the image. Features are its pixels, row by row.
        weight : float, default=1.0
            Weight of each relation. It multiplies ``theta``.
        """
        sides = _check_count("height", height), _check_count("width", width)
        return cls((Grid(*sides, check_weight(weight)),))

    @classmethod
    def from_matrix(cls, D: Any) -> Self:
        """Use any matrix D.

        Parameters
        ----------
        D : (k, d) array, sparse matrix or data frame
            One relation per row and one column per feature. If D is a data frame and
            the features have names, columns are matched by name, and features without a
            column are not related.
        """
        frame = as_frame(D)
        table = D if frame is None else frame.to_numpy()
        rows = table if issparse(table) else np.atleast_2d(np.asarray(table))
        if rows.ndim != 2 or rows.dtype.kind not in "biuf":
            raise ValueError("feature_prior as a matrix must be (relations, features).")
        matrix = csr_array(rows, dtype=np.float64)
        if not np.all(np.isfinite(matrix.data)):
            raise ValueError("feature_prior as a matrix must be finite.")
        return cls((Rows(matrix, column_names(D)),))

    @classmethod
    def smooth(cls, columns: Sequence[str] | None = None, weight: float = 1.0) -> Self:
        """Effects of these columns are smooth curves.

        The penalty is weight · Σ γ_r² over the wiggles ``x~1``, ``x~2`` and so on that
        :class:`SplineFeatures` makes of each column, which is the roughness of its
        curve. With a large ``theta`` effects are straight lines. With
        ``ties="adaptive"`` the smoothness of each column is estimated from the data,
        and ``weight`` multiplies the estimate.

        Parameters
        ----------
        columns : list of str, optional
            Columns; by default all that have wiggles.
        weight : float, default=1.0
            Weight of the penalty. It multiplies ``theta``.

        Examples
        --------
        >>> FeaturePrior.smooth(["age"])
        FeaturePrior(smooth effects)
        """
        named = None if columns is None else tuple(columns)
        return cls((Shrunken(named, check_weight(weight), smooth=True),))

    @classmethod
    def shrink(
        cls, features: Sequence[Hashable] | None = None, weight: float = 1.0
    ) -> Self:
        """Coefficients of these features are small (a ridge penalty).

        The penalty is weight · ‖p_j‖² for each feature. With ``ties="adaptive"`` the
        strength is estimated from the data, one for the categories of each column and
        one for all other features, and ``weight`` multiplies the estimate.

        Parameters
        ----------
        features : list of features, optional
            Names or positions; by default all features but wiggles.
        weight : float, default=1.0
            Weight of the penalty. It multiplies ``theta``.

        Examples
        --------
        >>> FeaturePrior.shrink()
        FeaturePrior(small effects)
        """
        named = None if features is None else tuple(map(plain_label, features))
        return cls((Shrunken(named, check_weight(weight), smooth=False),))

    def __add__(self, other: Self) -> Self:
        """Relations of both priors."""
        if not isinstance(other, FeaturePrior):
            return NotImplemented
        return type(self)(self.parts + other.parts)

    @property
    def words(self) -> str:
        """Number of relations, where that is known before the fit."""
        counts = [_count(part) for part in self.parts]
        if all(isinstance(count, int) for count in counts):
            total = sum(counts)  # type: ignore[arg-type]
            return f"{total} relation{'' if total == 1 else 's'}"
        return " + ".join(map(str, counts))

    def __repr__(self) -> str:
        return f"FeaturePrior({self.words})"

    def _repr_html_(self) -> str:
        return to_notebook([self.table()])

    def table(self, names: Sequence[str] | None = None) -> Table:
        """Table of the first relations; ``names`` replace positions."""
        lines = (line for part in self.parts for line in _lines(part, names))
        counts = [_count(part) for part in self.parts]
        total = sum(count if isinstance(count, int) else 1 for count in counts)
        return line_table(repr(self), lines, total, "relations")

    def matrix(self, d: int) -> csr_array:
        """D (s, d), one row per relation, of a resolved prior."""
        rows = [csr_array((0, d))]
        for part in self.parts:
            if not isinstance(part, Pairs | Rows | Ridge):
                raise TypeError("a prior must be resolved before it has a matrix.")
            rows.append(part.matrix(d))
        return rows[1] if len(rows) == 2 else csr_array(vstack(rows))

    def resolve(self, moments: Moments) -> Self:
        """Same prior with positions in place of names and rules."""
        return type(self)(tuple(part.resolve(moments) for part in self.parts))

    def to_plain(self) -> list[dict[str, Any]]:
        """JSON values that describe the prior."""
        return [part.to_plain() for part in self.parts]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Prior from what ``to_plain`` made."""
        parts = list[Part]()
        for one in plain:
            settings = dict(one)
            kind = settings.pop("part")
            if kind == "pairs":
                among = settings.pop("among")
                lists = {name: tuple(values) for name, values in settings.items()}
                parts.append(Pairs(**lists, among=among))
            elif kind == "rows":
                arrays = (settings["data"], settings["indices"], settings["indptr"])
                matrix = csr_array(arrays, shape=tuple(settings["shape"]))
                names = settings.get("features")  # older files have none
                known = None if names is None else tuple(map(str, names))
                parts.append(Rows(matrix, known))
            elif kind in ("shrunken", "ridge"):
                tuples: dict[str, Any] = {
                    name: tuple(value) if isinstance(value, list) else value
                    for name, value in settings.items()
                }
                build = Shrunken if kind == "shrunken" else Ridge
                parts.append(build(**tuples))
            else:
                kinds = {"grid": Grid, "correlated": Correlated}
                parts.append(kinds[kind](**settings))
        return cls(tuple(parts))


def difference_matrix(prior: FeaturePrior, moments: Moments) -> csr_array:
    """D (s, d), one row per relation, for the features of a fit."""
    return prior.resolve(moments).matrix(moments.shape[0])


def as_feature_prior(prior: Any) -> FeaturePrior | None:
    """Take a FeaturePrior, a bare matrix or data frame D, or None."""
    if prior is None or isinstance(prior, FeaturePrior):
        return prior
    is_matrix = issparse(prior) or isinstance(prior, np.ndarray | list)
    if is_matrix or as_frame(prior) is not None:
        return FeaturePrior.from_matrix(prior)
    raise TypeError(
        "feature_prior must be a FeaturePrior, a matrix D or None: got "
        f"{type(prior).__name__}."
    )


def measure_violations(D: csr_array, P: Array, largest: float | None = None) -> Array:
    """‖d P‖ of each row d of D, as a share of what the largest coefficients allow.

    It is divided by √k ‖d‖ times the largest norm of a row of P, where k features are
    related. 0: the relation holds; 1: all k coefficients are as large as any, and say
    the opposite; ½: of two features one is as large as any and the other has no effect.
    Relations between features that hardly matter are hardly violated. ``largest`` is
    that norm where several P are compared.
    """
    if largest is None:
        largest = float(np.sqrt(np.sum(P**2, axis=1).max(initial=0.0)))
    related = np.asarray((D != 0).sum(axis=1)).ravel()
    most = np.sqrt(np.asarray(D.multiply(D).sum(axis=1)).ravel() * related) * largest
    found = np.linalg.norm(D @ P, axis=1)
    return np.divide(found, most, out=np.zeros_like(most), where=most > 0)


def _pairs(pairs: Iterable[Relation], sign: float, weight: float) -> Pairs:
    first, second = [], []
    for pair in pairs:
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"a relation must be a pair of features: got {pair!r}.")
        first.append(plain_label(pair[0]))
        second.append(plain_label(pair[1]))
    k = len(first)
    weights = (check_weight(weight),) * k
    return Pairs(tuple(first), tuple(second), (sign,) * k, weights)


def _check_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number: got {value!r}.")
    return int(value)


def _positions(features: Sequence[Hashable], moments: Moments) -> list[int]:
    """Position of each feature, given by name or by number."""
    d, names = moments.shape[0], moments.features or ()
    place, found = dict(zip(names, range(d), strict=False)), list[int]()
    for name in features:
        if isinstance(name, str):
            if not names:
                raise ValueError(
                    f"feature_prior names the feature {name!r}, but X has no column "
                    "names. Pass a data frame, or positions."
                )
            if name not in place:
                raise unknown_name("feature", name, names)
            found.append(place[name])
        elif isinstance(name, int) and 0 <= name < d:
            found.append(name)
        else:
            raise ValueError(
                f"feature_prior must name features or give positions 0 … {d - 1}: "
                f"got {name!r}."
            )
    return found


def _name(feature: Hashable, names: Sequence[str] | None) -> str:
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
