"""FeaturePrior: what is known about features before the data are seen.

A prior is a sum of parts: relations between features (``relations``), which are rows of
D in θ/2 ‖D P − C‖², and statements about single features (``statements``): known
values, which are rows of D with targets C, signs, and effects that all tasks have in
common. Parts are resolved against the features of a fit.
"""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl._arrays import Array
from priormtl.archive import Settings
from priormtl.checks import check_count
from priormtl.data import Moments
from priormtl.design import Design, as_frame, column_names
from priormtl.exceptions import DataFileError
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.relations import (
    Correlated,
    Grid,
    Pairs,
    Part,
    Ridge,
    Rows,
    Shrunken,
    Targets,
    Tasks,
    check_weight,
    line_table,
    plain_label,
    read_edges,
)
from priormtl.priors.statements import (
    Common,
    Near,
    Signs,
    check_consistency,
    list_features,
)
from priormtl.rendering import Table, count_words, to_notebook

KINDS: dict[str, type[Part]] = {
    part.kind: part
    for part in (
        *(Pairs, Rows, Grid, Correlated, Shrunken, Ridge),
        *(Near, Signs, Common),
    )
}

Relation = tuple[Hashable, Hashable]


@dataclass(frozen=True)
class FeaturePrior:
    """What is known about features.

    Relations between features and known values are rows of D in the penalty
    theta/2 ‖D P − C‖², where C is zero except for known values. Signs and common
    effects are constraints. Features are given by name or by position, starting at 0.
    Names are resolved during fit, and unknown names raise a ValueError. Priors can be
    added: ``a + b`` contains the statements of both.

    See Also
    --------
    TaskPrior : Known similarities between tasks.

    Examples
    --------
    >>> prior = FeaturePrior.similar([("maths", "physics")])
    >>> prior + FeaturePrior.opposite([("price", "demand")], weight=2.0)
    FeaturePrior(2 relations)
    >>> prior + FeaturePrior.near({"dose": 0.3}) + FeaturePrior.nonpositive(["price"])
    FeaturePrior(1 relation + 1 known value + 1 sign)
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
    def near(
        cls,
        values: Mapping[Hashable, float | Mapping[Hashable, float]],
        weight: float = 1.0,
    ) -> Self:
        """Coefficients of these features are known, for example from a trial.

        The penalty is weight · Σ (p_j − value)² over all tasks.

        Parameters
        ----------
        values : mapping from features to values
            Names or positions of features, and their coefficients in the units of X
            (also with ``standardize=True``). A value is a number, or a mapping from
            task labels to numbers that contains every task.
        weight : float, default=1.0
            Weight of each value. It multiplies ``theta``.

        Examples
        --------
        >>> FeaturePrior.near({"dose": 0.3, "age": {"north": 0.1, "south": 0.2}})
        FeaturePrior(2 known values)
        """
        return cls((Near.of(values, check_weight(weight)),))

    @classmethod
    def nonnegative(cls, features: Iterable[Hashable]) -> Self:
        """Coefficients of these features are at least zero in every task.

        Parameters
        ----------
        features : list of features
            Names or positions.

        Examples
        --------
        >>> FeaturePrior.nonnegative(["dose", "hours"])
        FeaturePrior(2 signs)
        """
        return cls((Signs(list_features(features), 1),))

    @classmethod
    def nonpositive(cls, features: Iterable[Hashable]) -> Self:
        """Coefficients of these features are at most zero in every task.

        Parameters
        ----------
        features : list of features
            Names or positions.

        Examples
        --------
        >>> FeaturePrior.nonpositive(["price"])
        FeaturePrior(1 sign)
        """
        return cls((Signs(list_features(features), -1),))

    @classmethod
    def common(cls, features: Iterable[Hashable]) -> Self:
        """Coefficients of these features are the same in all tasks.

        Mixed models call them fixed effects.

        Parameters
        ----------
        features : list of features
            Names or positions. A column includes its wiggles (``age~1`` and so on, see
            :class:`SplineFeatures`) and its categories (such as ``colour=red``).

        Examples
        --------
        >>> FeaturePrior.common(["age"])
        FeaturePrior(1 common effect)
        """
        return cls((Common(list_features(features)),))

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
        count = check_count("strongest", strongest)
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
    def from_graph(cls, graph: object) -> Self:
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
        """Read what is known about features from a TOML file.

        Parameters
        ----------
        file : path or PriorFile
            TOML file with tables ``[[similar]]``, ``[[opposite]]``, ``[[group]]``,
            ``[[near]]``, ``[[nonnegative]]``, ``[[nonpositive]]``, ``[[common]]`` and
            ``[[smooth]]``. Relations of tasks are left to :meth:`TaskPrior.from_file`.
        """
        read = file if isinstance(file, PriorFile) else read_prior_file(file)
        if not read.feature_relations:
            raise DataFileError(
                f"{read.path} relates tasks only: read it with TaskPrior.from_file."
            )
        pairs, others = list[tuple[Any, ...]](), cls(())
        for one in read.feature_relations:
            if one.kind in ("similar", "opposite", "group"):
                sign = -1.0 if one.kind == "opposite" else 1.0
                pairs += [(*p, sign, one.weight) for p in combinations(one.names, 2)]
            elif one.kind == "near":
                others += cls.near({one.names[0]: one.values[0]}, one.weight)
            elif one.kind == "smooth":
                others += cls.smooth(one.names, one.weight)
            else:
                others += getattr(cls, one.kind)(one.names)
        if not pairs:
            return others
        first, second, signs, weights = zip(*pairs, strict=True)
        return cls((Pairs(first, second, signs, weights),)) + others

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
        sides = check_count("height", height), check_count("width", width)
        return cls((Grid(*sides, check_weight(weight)),))

    @classmethod
    def from_matrix(cls, D: Any, target: Any = None) -> Self:
        """Use any matrix D, with D P near zero or near a target.

        Parameters
        ----------
        D : (k, d) array, sparse matrix or data frame
            One relation per row and one column per feature. If D is a data frame and
            the features have names, columns are matched by name, and features without a
            column are not related.
        target : float, (k,) or (k, m) array, optional
            Values of D P: one for all rows, one per row, or one per row and task, in
            the order of ``tasks_``. They refer to coefficients in the units of X. By
            default D P is near zero, in the units of the fit.

        Examples
        --------
        Three shares add up to one:

        >>> FeaturePrior.from_matrix([[1.0, 1.0, 1.0]], target=1.0)
        FeaturePrior(1 relation)
        """
        frame = as_frame(D)
        table = D if frame is None else frame.to_numpy()
        rows = table if issparse(table) else np.atleast_2d(np.asarray(table))
        if rows.ndim != 2 or rows.dtype.kind not in "biuf":
            raise ValueError("feature_prior as a matrix must be (relations, features).")
        matrix = csr_array(rows, dtype=np.float64)
        if not np.all(np.isfinite(matrix.data)):
            raise ValueError("feature_prior as a matrix must be finite.")
        return cls((Rows(matrix, column_names(D), _read_target(target, matrix)),))

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
            Names or positions; by default all features but wiggles. A column of
            categories includes them all; if it is also ``common``, this is a crossed
            random intercept.
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
    def features_in_units(self) -> frozenset[Hashable]:
        """Features whose coefficients are said to have a sign or a value."""
        found: set[Hashable] = set()
        for part in self.parts:
            if isinstance(part, Near | Signs):
                found |= set(part.features)
            elif isinstance(part, Rows) and part.target is not None:
                found |= set(part.features or ())
        return frozenset(found)

    @property
    def words(self) -> str:
        """Number of statements of each kind, where that is known before the fit."""
        found = dict[str, int]()
        for part in self.parts:
            count = part.count
            if isinstance(count, str):
                found[count] = 0
            elif count:
                found[part.noun] = found.get(part.noun, 0) + count
        words = [count_words(n, word) if n else word for word, n in found.items()]
        return " + ".join(words) or "0 relations"

    def __repr__(self) -> str:
        return f"FeaturePrior({self.words})"

    def _repr_html_(self) -> str:
        return to_notebook([self.table()])

    def table(self, names: Sequence[str] | None = None) -> Table:
        """Table of the first statements; ``names`` replace positions."""
        lines = (line for part in self.parts for line in part.lines(names))
        counts = [part.count for part in self.parts]
        total = sum(count if isinstance(count, int) else 1 for count in counts)
        return line_table(repr(self), lines, total, "relations")

    def resolve(self, moments: Moments) -> Self:
        """Same prior with positions in place of names and rules."""
        resolved, may_contradict = list[Part](), False
        for part in self.parts:
            found = part.resolve(moments)
            may_contradict |= isinstance(found, Signs)
            if isinstance(part, Shrunken) and part.features is None and not part.smooth:
                assert isinstance(found, Ridge)
                curved = curves_of(self, moments.features)
                found = found.without({j for group in curved.values() for j in group})
            resolved.append(found)
        if may_contradict:
            check_consistency(resolved, moments)
        return type(self)(tuple(resolved))

    # What a resolved prior means.

    def matrix(self, d: int) -> csr_array:
        """D (s, d), one row per relation and known value."""
        if len(self.parts) == 1:
            return self.parts[0].matrix(d)
        rows = [part.matrix(d) for part in self.parts]
        return csr_array(vstack([csr_array((0, d)), *rows]))

    def targets(self, tasks: Tasks) -> Targets | None:
        """Right-hand sides of the rows of D in these tasks; None: all are zero."""
        found, any_given = list[Array | None](), False
        for part in self.parts:
            found.append(part.targets(tasks))
            any_given |= found[-1] is not None
        if not any_given:
            return None
        values, given = [np.zeros((0, len(tasks)))], []
        for part, target in zip(self.parts, found, strict=True):
            rows = np.zeros((part.n_rows, len(tasks))) if target is None else target
            values.append(rows)
            given.append(np.full(len(rows), target is not None))
        return Targets(np.concatenate(values), np.concatenate(given))

    def rows_in_units(
        self, scale: Array, tasks: Tasks
    ) -> tuple[csr_array, Targets | None]:
        """D for coefficients of features that were divided by ``scale``, and targets.

        Relations hold in the units of the fit, but targets are in those of X: rows that
        have one are divided by the scale. Both sides are then multiplied so that the
        row is as long as before, and its weight means the same in all units.
        """
        D, targets = self.matrix(len(scale)), self.targets(tasks)
        if targets is None:
            return D, None
        divided = csr_array((D.data / scale[D.indices], D.indices, D.indptr), D.shape)
        before, after = (np.sqrt((part**2).sum(axis=1)) for part in (D, divided))
        longer = targets.given & (after > 0)
        factor = np.divide(before, after, out=np.ones_like(before), where=longer)
        rows = np.repeat(np.arange(len(factor)), np.diff(D.indptr))
        scaled = np.where(targets.given[rows], divided.data * factor[rows], D.data)
        D = csr_array((scaled, D.indices, D.indptr), D.shape)
        values = targets.values * factor[:, np.newaxis]
        return D, targets._replace(values=values)

    def divided(self, classes: Mapping[Hashable, Sequence[str]]) -> "FeaturePrior":
        """The same for tasks that were divided, each into its classes."""
        parts = [p.divided(classes) if isinstance(p, Near) else p for p in self.parts]
        return FeaturePrior(tuple(parts))

    def signs(self, d: int) -> np.ndarray | None:
        """Sign of each feature (d,): 1 nonnegative, −1 nonpositive, 0 any."""
        found = np.zeros(d, dtype=np.int8)
        for part in self.parts:
            if isinstance(part, Signs):
                found[part.positions] = part.sign
        return found if found.any() else None

    def ridge(self, d: int) -> Array | None:
        """Estimated strengths of ½ Σ_j r_j ‖p^j‖² (d,); None: there are none."""
        found = np.zeros(d)
        for part in self.parts:
            if isinstance(part, Ridge) and part.strengths is not None:
                found[list(part.positions)] += part.weight * np.array(part.strengths)
        return found if found.any() else None

    @property
    def common_features(self) -> tuple[int, ...]:
        """Sorted positions of features whose effect is the same in all tasks."""
        found: set[int] = set()
        for part in self.parts:
            if isinstance(part, Common):
                found.update(part.positions.tolist())
        return tuple(sorted(found))

    def to_plain(self) -> list[Settings]:
        """JSON values that describe the prior."""
        return [part.to_plain() for part in self.parts]

    @classmethod
    def from_plain(cls, plain: Sequence[Settings]) -> Self:
        """Prior from what ``to_plain`` made."""
        parts = []
        for one in plain:
            settings = dict(one)
            parts.append(KINDS[settings.pop("part")].from_plain(settings))
        return cls(tuple(parts))


def curves_of(
    prior: FeaturePrior | None, design: Design | None = None
) -> dict[str, list[int]]:
    """Positions of the wiggles of each column that a prior states to be smooth.

    A resolved prior needs no design.
    """
    found: dict[str, list[int]] = {}
    for part in () if prior is None else prior.parts:
        if isinstance(part, Shrunken) and part.smooth:
            found |= part.smooth_ridge(design or Design(())).curves()
        elif isinstance(part, Ridge):
            found |= part.curves()
    return found


def difference_matrix(prior: FeaturePrior, moments: Moments) -> csr_array:
    """D (s, d), one row per relation, for the features of a fit."""
    return prior.resolve(moments).matrix(moments.shape[0])


def as_feature_prior(prior: object) -> FeaturePrior | None:
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


def measure_violations(
    D: csr_array,
    P: Array,
    targets: Targets | None = None,
    largest: float | None = None,
) -> Array:
    """‖d P − c‖ of each row d of D, as a share of what the largest coefficients allow.

    It is divided by √k ‖d‖ times the largest norm of a row of P, where k features are
    related, plus the size of the target c. 0: the relation holds; 1: all k coefficients
    are as large as any, and say the opposite; ½: of two features one is as large as any
    and the other has no effect. Relations between features that hardly matter are
    hardly violated. ``largest`` is that norm where several P are compared.
    """
    if largest is None:
        largest = float(np.sqrt(np.sum(P**2, axis=1).max(initial=0.0)))
    related = np.asarray((D != 0).sum(axis=1)).ravel()
    most = np.sqrt(np.asarray(D.multiply(D).sum(axis=1)).ravel() * related) * largest
    misfits = D @ P
    if targets is not None:
        misfits = misfits - targets.values
        most = most + np.linalg.norm(targets.values, axis=1)
    found = np.linalg.norm(misfits, axis=1)
    return np.divide(found, most, out=np.zeros_like(most), where=most > 0)


def _read_target(target: Any, D: csr_array) -> Array | None:
    """Targets (rows, 1) or (rows, tasks)."""
    if target is None:
        return None
    rows, values = D.shape[0], np.asarray(target)
    if values.dtype.kind not in "iuf" or not np.all(np.isfinite(values)):
        raise ValueError("target must hold finite numbers.")
    if values.ndim == 0:
        values = np.full(rows, values)
    if values.ndim == 1:
        values = values[:, np.newaxis]
    if values.ndim != 2 or len(values) != rows:
        raise ValueError(
            f"target must be a number, ({rows},) or ({rows}, tasks) for "
            f"{count_words(rows, 'row')} of D: got shape {np.shape(target)}."
        )
    return values.astype(np.float64)


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
