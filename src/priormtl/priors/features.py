"""FeaturePrior: which features are known to act alike, or oppositely."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl.data import Moments, as_frame, column_names
from priormtl.priors.edges import check_weight, plain_label, read_edges
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.relations import (
    Correlated,
    Grid,
    Pairs,
    Part,
    Rows,
    part_from_plain,
)
from priormtl.priors.words import relation_table
from priormtl.tables import Table, to_notebook

__all__ = ["FeaturePrior", "difference_matrix"]

Relation = tuple[Hashable, Hashable]


@dataclass(frozen=True)
class FeaturePrior:
    """Known relations between features, each one row of D in θ/2 ‖D P‖².

    Features are named, or numbered from 0. Names are resolved when a model is
    fitted. ``a + b`` holds the relations of both.

    Examples
    --------
    >>> prior = FeaturePrior.similar([("maths", "physics")])
    >>> prior + FeaturePrior.opposite([("price", "demand")], weight=2.0)
    FeaturePrior(2 relations)
    """

    parts: tuple[Part, ...]

    @classmethod
    def similar(cls, pairs: Iterable[Relation], weight: float = 1.0) -> Self:
        """Both features of a pair act alike: weight · ‖p_a − p_b‖².

        Examples
        --------
        >>> FeaturePrior.similar([("maths", "physics"), (3, 7)])
        FeaturePrior(2 relations)
        """
        return cls((_pairs(pairs, 1.0, weight),))

    @classmethod
    def opposite(cls, pairs: Iterable[Relation], weight: float = 1.0) -> Self:
        """Both features of a pair act oppositely: weight · ‖p_a + p_b‖²."""
        return cls((_pairs(pairs, -1.0, weight),))

    @classmethod
    def from_correlation(cls, strongest: int = 20, weight: float = 1.0) -> Self:
        """The most strongly correlated pairs of features, found at fit.

        The sign of the correlation over all rows decides between similar and
        opposite. Constant features have none.
        """
        count = _check_count("strongest", strongest)
        return cls((Correlated(count, check_weight(weight)),))

    @classmethod
    def from_groups(
        cls, groups: Mapping[str, Iterable[Hashable]], weight: float = 1.0
    ) -> Self:
        """All features of a group are pairwise similar.

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
        """Edges of a graph: positive weights mean similar, negative ones opposite.

        ``graph`` is an edge list, a symmetric adjacency matrix over the features
        (dense or sparse), or a networkx graph whose nodes are features.
        """
        edges = [edge for edge in read_edges(graph) if edge[2] != 0]
        first, second, weight = zip(*edges, strict=True) if edges else ((), (), ())
        sign = tuple(float(np.sign(w)) for w in weight)
        size = int(graph.shape[0]) if hasattr(graph, "shape") else None
        return cls((Pairs(first, second, sign, tuple(map(abs, weight)), size),))

    @classmethod
    def from_file(cls, file: str | os.PathLike[str] | PriorFile) -> Self:
        """Relations by name that a TOML or CSV file holds; see ``priors/files.py``.

        Parameters
        ----------
        file : path, or PriorFile
            TOML with tables ``[[similar]]``, ``[[opposite]]`` and ``[[group]]``, or
            CSV with columns relation, first, second and (optionally) weight.
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
        """Neighbouring pixels are similar; features are pixels, row by row."""
        sides = _check_count("height", height), _check_count("width", width)
        return cls((Grid(*sides, check_weight(weight)),))

    @classmethod
    def from_matrix(cls, D: Any) -> Self:
        """Any D (s, d), dense, sparse or a data frame, one relation per row.

        Columns of a frame whose names are texts are matched with the features' names,
        where these have some; features without a column are in no relation.
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

    def __add__(self, other: Self) -> Self:
        """Relations of both priors."""
        if not isinstance(other, FeaturePrior):
            return NotImplemented
        return type(self)(self.parts + other.parts)

    @property
    def words(self) -> str:
        """Number of relations, where that is known before the fit."""
        words = [_count(part) for part in self.parts]
        if all(isinstance(word, int) for word in words):
            total = sum(words)  # type: ignore[arg-type]
            return f"{total} relation{'' if total == 1 else 's'}"
        return " + ".join(map(str, words))

    def __repr__(self) -> str:
        return f"FeaturePrior({self.words})"

    def _repr_html_(self) -> str:
        return to_notebook([self.table()])

    def table(self, names: Sequence[str] | None = None) -> Table:
        """Relations, cut after the first ones; ``names`` stand for positions."""
        return relation_table(repr(self), self.parts, names)

    def matrix(self, d: int) -> csr_array:
        """D (s, d), one row per relation, of a prior that was resolved."""
        resolved = [part for part in self.parts if isinstance(part, Pairs | Rows)]
        if len(resolved) < len(self.parts):
            raise TypeError("only a prior that was resolved has a matrix.")
        return csr_array(
            vstack([csr_array((0, d)), *(part.matrix(d) for part in resolved)])
        )

    def resolve(self, moments: Moments) -> Self:
        """Same prior with positions for names and the rules carried out."""
        return type(self)(tuple(part.resolve(moments) for part in self.parts))

    def to_plain(self) -> list[dict[str, Any]]:
        """JSON values that describe the prior."""
        return [part.to_plain() for part in self.parts]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Prior from what ``to_plain`` made."""
        return cls(tuple(part_from_plain(part) for part in plain))


def difference_matrix(prior: FeaturePrior, moments: Moments) -> csr_array:
    """D (s, d), one row per relation, for the features of a fit."""
    return prior.resolve(moments).matrix(moments.shape[0])


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


def _count(part: Part) -> int | str:
    """Number of relations, or the rule that finds them."""
    if isinstance(part, Pairs):
        return len(part.first)
    if isinstance(part, Rows):
        return int(part.D.shape[0])
    if isinstance(part, Grid):
        return f"{part.height} x {part.width} grid"
    return "strongest correlations"
