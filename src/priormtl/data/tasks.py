"""TaskData: the samples of m tasks over the same d features, in two layouts.

Everything above works with per-sample arrays (targets, weights, scores, residuals)
whose shape is the layout's own: (n,) when rows are stacked task after task, (n, m)
when all tasks share the rows of one X. A :class:`Table` holds rows in the order in
which they came, so that folds can be taken from it; ``to_tasks`` sorts them by task.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl._numerics import LARGEST
from priormtl.data.labels import encode_labels, keep_tasks
from priormtl.data.tables import read_matrix, read_targets
from priormtl.design import Crossed, Design, column_names

FEW = 0.2  # share of features in use, up to which others are left out of products


@dataclass(frozen=True, eq=False)
class TaskData(ABC):
    """Samples of m tasks; build it with from_labels, from_codes or from_columns."""

    X: Matrix  # (n, d), dense or sparse
    y: Array  # per sample
    weight: Array  # per sample, positive; zero marks an unmeasured cell of (n, m)
    tasks: tuple[Hashable, ...]
    features: Design | None  # names, and how columns became the features
    # Known part of each score, per sample or (n, 1) for all tasks; None: zero.
    offset: Array | None = field(default=None, kw_only=True)
    # Moments of these rows, which `condense` keeps for other models of them.
    condensed: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[1]), len(self.tasks)

    @abstractmethod
    def forward(self, P: Array) -> Array:
        """Scores x p_i of every sample."""

    @abstractmethod
    def adjoint(self, R: Array) -> Array:
        """Sums of x r over each task's samples (d, m)."""

    @abstractmethod
    def task_sums(self, R: Array) -> Array:
        """Sums of r over each task's samples (m,)."""

    @abstractmethod
    def spread(self, b: Array) -> Array:
        """Entry of b (m,) for the task of every sample; may broadcast."""

    @abstractmethod
    def rows_of(self, i: int) -> tuple[Matrix, Array, Array]:
        """X, targets and weights of task ``i``."""

    def with_matrix(self, X: Matrix) -> Self:
        return replace(self, X=X)

    def restrict(self, features: Index) -> Self:
        return replace(self, X=take_columns(self.X, features), features=None)

    def without_offset(self) -> Self:
        """Targets less the offset, which is how squared loss takes it."""
        if self.offset is None:
            return self
        y = np.where(self.weight > 0, self.y - self.offset, 0.0)
        return replace(self, y=y, offset=None)

    def rescale(self, scale: Array) -> Self:
        if issparse(self.X):
            return self.with_matrix(csr_array(self.X @ diags_array(1.0 / scale)))
        return self.with_matrix(self.X / scale)

    def shift(self, centre: Array) -> Self:
        """Features less ``centre`` (d,), which makes sparse ones dense."""
        X = self.X
        if issparse(X):
            # 512 MB of numbers.
            if X.shape[0] * X.shape[1] > 2**26:
                raise ValueError(
                    "standardize must be False where intercepts are tied and X is "
                    f"sparse and large, since it centres features: got X of shape "
                    f"{X.shape}; divide the features by their scale beforehand, or use "
                    "fit_intercept=True."
                )
            X = X.toarray()
        return self.with_matrix(X - centre)

    @cached_property
    def task_weight(self) -> Array:
        """Total weight of each task (m,)."""
        return self.task_sums(self.weight)

    @cached_property
    def feature_means(self) -> Array:
        """Weighted mean of each feature in each task (m, d)."""
        return (self.adjoint(self.weight) / self.task_weight).T


@dataclass(frozen=True, eq=False)
class StackedRows(TaskData):
    """Rows of task after task; ``starts`` (m + 1,) marks where each begins."""

    starts: Index
    crossed: Crossed | None = field(default=None, kw_only=True)
    time: Array | None = field(default=None, kw_only=True)  # (n,) of rows

    def forward(self, P: Array) -> Array:
        used = P.any(axis=1)
        if used.sum() <= FEW * len(P):
            features = np.flatnonzero(used)
            return self.restrict(features)._multiply(P[features])
        return self._multiply(P)

    def _multiply(self, P: Array) -> Array:
        scores, columns = np.empty(self.X.shape[0]), np.ascontiguousarray(P.T)
        for block, rows, p in zip(self._blocks, self._slices, columns, strict=True):
            scores[rows] = block @ p
        return scores

    def adjoint(self, R: Array) -> Array:
        sums = np.empty(self.shape[::-1])
        for block, rows, total in zip(self._blocks, self._slices, sums, strict=True):
            total[:] = R[rows] @ block
        return np.ascontiguousarray(sums.T)

    def task_sums(self, R: Array) -> Array:
        return np.add.reduceat(R, self.starts[:-1])

    def spread(self, b: Array) -> Array:
        return np.asarray(b[self.task_codes])

    def rows_of(self, i: int) -> tuple[Matrix, Array, Array]:
        rows = self._slices[i]
        return self._blocks[i], self.y[rows], self.weight[rows]

    @cached_property
    def task_codes(self) -> Index:
        """Task of each row (n,)."""
        return np.repeat(np.arange(len(self.tasks)), np.diff(self.starts))

    @cached_property
    def _slices(self) -> list[slice]:
        ends = self.starts.tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def _blocks(self) -> list[Matrix]:
        return [self.X[rows] for rows in self._slices]


@dataclass(frozen=True, eq=False)
class SharedRows(TaskData):
    """All tasks share the rows of X; y and weight are (n, m)."""

    def forward(self, P: Array) -> Array:
        used = P.any(axis=1)
        if used.sum() > FEW * len(P):
            return np.asarray(self.X @ P)
        return np.asarray(take_columns(self.X, np.flatnonzero(used)) @ P[used])

    def adjoint(self, R: Array) -> Array:
        return np.asarray(self.X.T @ R)

    def task_sums(self, R: Array) -> Array:
        return np.asarray(R.sum(axis=0))

    def spread(self, b: Array) -> Array:
        return b[np.newaxis, :]

    def rows_of(self, i: int) -> tuple[Matrix, Array, Array]:
        rows = self.weight[:, i] > 0
        if rows.all():
            return self.X, self.y[:, i], self.weight[:, i]
        return self.X[rows], self.y[rows, i], self.weight[rows, i]

    def stacked(self) -> StackedRows:
        """The measured cells as rows of each task: X is copied for each of them."""
        parts = [self.rows_of(i) for i in range(len(self.tasks))]
        X, y, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
        starts = np.cumsum([0, *(len(y) for _, y, _ in parts)])
        offset = None
        if self.offset is not None:
            cells = np.broadcast_to(self.offset, self.y.shape)
            offset = cells.T[self.weight.T > 0]
        return StackedRows(
            X, y, weight, self.tasks, self.features, starts, offset=offset
        )

    @cached_property
    def feature_means(self) -> Array:
        if not self.has_one_gram:
            return super().feature_means
        share = self.weight[:, 0] / self.task_weight[0]
        return np.tile(np.asarray(share @ self.X), (self.shape[1], 1))

    @cached_property
    def has_one_gram(self) -> bool:
        """Whether every task weighs the rows alike, so that one XᵀX serves all."""
        return bool(np.all(self.weight == self.weight[:, :1]))


def take_columns(X: Matrix, columns: Index) -> Matrix:
    """Some columns of X, faster than by indexing."""
    return X[:, columns] if issparse(X) else np.take(X, columns, axis=1, mode="clip")


def to_tasks(
    X: object, y: object, task: object = None, sample_weight: object = None
) -> TaskData:
    matrix, targets = read_matrix(X), read_targets(y)
    weights = None if sample_weight is None else read_targets(sample_weight, "weight")
    names = column_names(X)
    if matrix.shape[0] == 0:
        raise ValueError("X must have at least one row: got none.")
    if targets.ndim not in (1, 2) or 0 in targets.shape:
        raise ValueError(
            "y must be (n,), or (n, m) with one column per task: "
            f"got shape {targets.shape}."
        )
    if targets.ndim == 2:
        if task is not None:
            raise ValueError("task must be None if y has one column per task.")
        return from_columns(matrix, targets, weights, column_names(y), names)
    labels = [0] * len(targets) if task is None else task
    return from_labels(matrix, targets, labels, weights, names)


def from_labels(
    X: Matrix,
    y: Array,
    task: object,
    weight: Array | None = None,
    features: Sequence[str] | None = None,
) -> StackedRows:
    """Stacked rows with one task label each; rows of weight zero are dropped."""
    n = int(X.shape[0])
    if len(y) != n:
        raise _wrong_length(y, n)
    codes, tasks = encode_labels(task, n)
    return from_codes(X, y, codes, tasks, weight, features)


def from_codes(  # noqa: PLR0913, PLR0917
    X: Matrix,
    y: Array,
    codes: Index,
    tasks: tuple[Hashable, ...],
    weight: Array | None = None,
    features: Sequence[str] | None = None,
    offset: Array | None = None,
    crossed: Crossed | None = None,
    time: Array | None = None,
) -> StackedRows:
    n, m = int(X.shape[0]), len(tasks)
    if len(y) != n:
        raise _wrong_length(y, n)
    weights = _check_samples(y, weight, (n,))
    kept = weights > 0
    counts = np.bincount(codes[kept], minlength=m)
    if not counts.all():
        raise _no_targets(tasks, counts == 0)
    if time is not None or not kept.all() or np.any(codes[1:] < codes[:-1]):
        # Rows of a task are in the order of their times, and those of one time in that
        # of their targets: levels that drift depend on it by rounding, and the noise of
        # score tests by more.
        order = np.lexsort([codes] if time is None else [y, time, codes])
        order = order[kept[order]]
        X, y, weights, codes = X[order], y[order], weights[order], codes[order]
        offset = None if offset is None else offset[order]
        crossed = None if crossed is None else crossed.take(order)
        time = None if time is None else time[order]
    starts = np.searchsorted(codes, np.arange(m + 1)).astype(np.intp)
    names = None if features is None else Design.of_names(features)
    return StackedRows(
        X, y, weights, tasks, names, starts, offset=offset, crossed=crossed, time=time
    )


def from_columns(
    X: Matrix,
    Y: Array,
    weight: Array | None = None,
    tasks: Sequence[Hashable] | None = None,
    features: Sequence[str] | None = None,
    offset: Array | None = None,
) -> SharedRows:
    """Shared X: one column of ``Y`` per task, NaN where it was not measured.

    ``weight`` and ``offset`` are one number per row or one per cell of Y.
    """
    n, m = Y.shape
    if X.shape[0] != n:
        raise ValueError(f"y must have one row per row of X: got {n} for {X.shape[0]}.")
    measured = ~np.isnan(Y)
    targets = np.where(measured, Y, 0.0)
    per_row = weight is None or np.ndim(weight) == 1
    weights = _check_samples(targets, weight, (n,) if per_row else (n, m))
    cells = np.where(measured, weights[:, np.newaxis] if per_row else weights, 0.0)
    columns = tuple(range(m)) if tasks is None else tuple(tasks)
    empty = np.all(cells == 0, axis=0)
    if empty.any():
        raise _no_targets(columns, empty)
    names = None if features is None else Design.of_names(features)
    if offset is not None and offset.ndim == 1:
        offset = offset[:, np.newaxis]
    return SharedRows(X, targets, cells, columns, names, offset=offset)


def _wrong_length(y: Array, n: int) -> ValueError:
    return ValueError(f"y must have one value per row of X: got {len(y)} for {n} rows.")


def _check_samples(y: Array, weight: Array | None, shape: tuple[int, ...]) -> Array:
    """Weights of this shape; fails unless they are valid and targets finite."""
    if not np.all(np.abs(y) <= LARGEST):
        what = "NaN" if np.isnan(y).any() else "inf"
        if np.all(np.isfinite(y)):
            what = f"values beyond {LARGEST:g}"
        raise ValueError(
            f"y must be finite: it contains {what}. Drop these rows; only with one "
            "column per task may NaN mark a target that was not measured."
        )
    if weight is None:
        return np.ones(shape)
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape != shape:
        raise ValueError(
            "sample_weight must have one value per row of X: "
            f"got shape {weights.shape} for {shape}."
        )
    valid = (weights >= 0) & (weights <= LARGEST)
    if not np.all(valid):
        raise ValueError(
            "sample_weight must be finite, not negative and at most "
            f"{LARGEST:g}: got {weights[~valid][0]:g}."
        )
    if not np.any(weights > 0):
        raise ValueError("sample_weight must not be zero for all rows.")
    return weights


def _no_targets(tasks: Sequence[Hashable], empty: np.ndarray) -> ValueError:
    names = [tasks[i] for i in np.flatnonzero(empty)[:8]]
    return ValueError(
        f"every task needs at least one measured target of positive weight: {names} "
        "have none. Drop these tasks."
    )


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of m tasks, not yet sorted: (n,) targets with codes, or (n, m) targets."""

    X: Matrix  # (n, d)
    y: Array  # (n,), or (n, m) with NaN where not measured
    codes: Index | None  # (n,) position of each row's task; None for (n, m) targets
    tasks: tuple[Hashable, ...]
    weight: Array | None  # (n,), or (n, m) with such targets
    features: Design | None
    offset: Array | None = None  # known part of each score (n,), or (n, m)
    crossed: Crossed | None = None  # with (n,) targets
    time: Array | None = None  # (n,) of rows, likewise

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def to_tasks(self) -> TaskData:
        if self.codes is None:
            return from_columns(
                self.X, self.y, self.weight, self.tasks, self.features, self.offset
            )
        known = self.weight, self.features, self.offset, self.crossed, self.time
        return from_codes(self.X, self.y, self.codes, self.tasks, *known)

    def measured(self) -> NDArray[np.bool_]:
        """Whether each target counts, with positive weight: (n, 1) or (n, m)."""
        known = ~np.isnan(self.y if self.y.ndim == 2 else self.y[:, np.newaxis])
        if self.weight is None:
            return known
        counts = self.weight > 0
        return known & (counts if counts.ndim == 2 else counts[:, np.newaxis])

    def trend(self) -> list[int]:
        """Places of the features that are lines and curves of time."""
        lines, wiggles = ([], []) if self.features is None else self.features.trend()
        return sorted({*lines, *wiggles})

    def has_trials(self) -> bool:
        """Whether weights are whole numbers, which are numbers of trials."""
        weight = self.weight
        return weight is not None and bool(np.all(weight == np.round(weight)))

    def mean_weight(self) -> float:
        """Mean weight of the targets that count; ``to_tasks`` checks weights."""
        weight = self.weight
        if weight is None or weight.shape not in (self.y.shape, self.y.shape[:1]):
            return 1.0
        measured = self.measured()
        cells = weight[:, np.newaxis] if weight.ndim == 1 else weight
        used = np.broadcast_to(cells, measured.shape)[measured]
        return float(used.mean()) if len(used) else 1.0

    def take(self, rows: Index) -> Self:
        """Only these rows, and only the tasks that they measure."""
        measured, tasks, codes = self.measured()[rows], self.tasks, self.codes
        if codes is None:
            present = np.count_nonzero(measured, axis=0) > 0
        else:
            own = codes[rows][measured[:, 0]]
            present = np.bincount(own, minlength=len(tasks)) > 0
        columns: slice | np.ndarray = slice(None)
        if not present.all():
            tasks = keep_tasks(tasks, compress(tasks, present))
            if codes is None:
                columns = present
            else:  # rows of weight zero go with their task
                rows, codes = rows[present[codes[rows]]], np.cumsum(present)[codes] - 1

        def take(values: Array | None) -> Any:
            if values is None or values.ndim == 1:
                return None if values is None else values[rows]
            return values[rows][:, columns]

        return replace(
            self,
            X=self.X[rows],
            y=take(self.y),
            codes=None if codes is None else codes[rows],
            tasks=tasks,
            weight=take(self.weight),
            offset=take(self.offset),
            crossed=None if self.crossed is None else self.crossed.take(rows),
            time=take(self.time),
        )


def strata_of(table: Table, *, by_class: bool) -> Index:
    """Task of every target (n, 1) or (n, m), by class also that; −1: not measured.

    Rows of one stratum are alike for dealing.
    """
    y = table.y if table.codes is None else table.y[:, np.newaxis]
    own = np.arange(y.shape[1]) if table.codes is None else table.codes[:, np.newaxis]
    strata = np.broadcast_to(own, y.shape)
    if by_class:
        classes = np.unique(y[~np.isnan(y)])
        strata = (len(classes) + 1) * own + np.searchsorted(classes, y)
    return np.where(table.measured(), strata, -1).astype(np.intp)


def score_by_task(
    X: Matrix,
    codes: Index,
    score: Callable[[Matrix, int], Array],
    columns: int | None = None,
) -> Array:
    """Score rows task by task: (n,), or (n, columns)."""
    scores = np.empty(len(codes) if columns is None else (len(codes), columns))
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        if len(rows):
            scores[rows] = score(X[rows], int(codes[rows[0]]))
    return scores
