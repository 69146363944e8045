"""Base kernels of MKMTL, and kernels of many tasks as explicit features.

Base kernels are Gaussian, polynomial or linear. A ``KernelSet`` divides each by its
mean diagonal on the training rows, so that test rows never enter the normalisation.

A kernel matrix K = Φ Φᵀ of some rows gives features Φ = K T. A function with
coordinates f has values Φ f on these rows, squared norm fᵀf, and values k(x, rows) T f
elsewhere. The rows are those of each task ("shared" variant), all distinct rows, or
some of them as landmarks, which is the Nyström approximation of

C. K. I. Williams, M. Seeger: Using the Nyström Method to Speed Up Kernel Machines.
NIPS 2000.

Each task is rotated into the eigenvectors of its Gram matrix, where ADMM needs
divisions only. Equal rows are merged, and targets are centred and scaled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl.baselines.base import find_distinct
from priormtl.baselines.mkmtl.admm import RotatedTasks
from priormtl.data import SharedRows, StackedRows, TaskData

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # in root mean square distances
DEGREES = (2, 3)
SMALLEST_EIGENVALUE = 1e-10  # of the largest one of a kernel, below which it is noise
SMALLEST_SQUARE = 1e-14  # of the largest one of a task, below which an axis is noise


class Pairs:
    """Inner products and squared distances of rows, computed when first needed."""

    def __init__(self, X: Matrix, Z: Matrix, centre: Array) -> None:
        self._X, self._Z, self._centre = X, Z, centre
        self._kept: dict[str, Array] = {}

    def products(self) -> Array:
        """Inner products divided by the number of features (n, u)."""
        if "products" not in self._kept:
            self._kept["products"] = _product(self._X, self._Z) / self._X.shape[1]
        return self._kept["products"]

    def distances(self) -> Array:
        if "distances" not in self._kept:
            # About a centre: far from the origin, squares would cancel.
            X, Z = (
                rows if issparse(rows) else rows - self._centre
                for rows in (self._X, self._Z)
            )
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
        return np.asarray(np.exp(pairs.distances() / (-2.0 * self.width**2)))

    def diagonal(self, X: Matrix) -> Array:
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class Polynomial:
    """(xᵀz / d + 1)^degree, d the number of features."""

    degree: int

    def values(self, pairs: Pairs) -> Array:
        return np.asarray((pairs.products() + 1.0) ** self.degree)

    def diagonal(self, X: Matrix) -> Array:
        return np.asarray((_squares(X) / X.shape[1] + 1.0) ** self.degree)


@dataclass(frozen=True)
class Linear:
    """xᵀz / d, d the number of features."""

    def values(self, pairs: Pairs) -> Array:
        return pairs.products()

    def diagonal(self, X: Matrix) -> Array:
        return np.asarray(_squares(X) / X.shape[1])


@dataclass(frozen=True, eq=False)
class KernelSet:
    """Base kernels, each divided by its mean diagonal on the training rows."""

    kernels: tuple[BaseKernel, ...]
    unit: Array  # (k,)
    centre: Array  # (d,) subtracted before distances are computed

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
        """Normalise kernels by their weighted mean diagonal on these rows."""
        share = weight / weight.sum()
        centre = np.asarray(share @ X)
        chosen = default_kernels(X, share) if kernels is None else tuple(kernels)
        with np.errstate(over="ignore"):
            mean = np.array([float(share @ kernel.diagonal(X)) for kernel in chosen])
        for kernel, value in zip(chosen, mean, strict=True):
            if not np.isfinite(value):
                raise ValueError(
                    f"X is too large: {kernel} overflows. Set standardize=True or "
                    "rescale the features."
                )
        unit = np.where((mean > 0) & normalize, mean, 1.0)
        return cls(chosen, unit, centre)

    def each(self, X: Matrix, Z: Matrix, which: Index) -> Iterator[Array]:
        """Values of some of the kernels on all pairs of rows (n, u)."""
        pairs = Pairs(X, Z, self.centre)
        return (self.kernels[j].values(pairs) / self.unit[j] for j in which.tolist())

    def grams(self, X: Matrix, Z: Matrix) -> Array:
        return np.stack(list(self.each(X, Z, np.arange(len(self)))))


def default_kernels(X: Matrix, share: Array) -> tuple[BaseKernel, ...]:
    """Five Gaussians around the root mean square distance, two polynomials, linear."""
    centre = np.asarray(share @ X)
    with np.errstate(over="ignore"):
        if issparse(X):
            variance = max(float(share @ _squares(X) - centre @ centre), 0.0)
        else:
            variance = float(share @ _squares(X - centre))
        distance = float(np.sqrt(2.0 * variance)) or 1.0
    gaussians = (Gaussian(distance * width) for width in WIDTHS)
    return (*gaussians, *(Polynomial(degree) for degree in DEGREES), Linear())


def check_kernels(value: Any) -> tuple[BaseKernel, ...] | None:
    if value is None:
        return None
    listed = isinstance(value, tuple | list) and len(value) > 0
    if listed and all(isinstance(kernel, BaseKernel) for kernel in value):
        return tuple(value)
    raise ValueError(
        "kernels must be None or a tuple of kernels such as (Gaussian(1.0), Linear()): "
        f"got {value!r}."
    )


def _squares(X: Matrix) -> Array:
    if issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X))


def _product(X: Matrix, Z: Matrix) -> Array:
    product = X @ Z.T
    return np.asarray(product.toarray() if issparse(product) else product)


# Tasks over distinct rows


class TaskRows(NamedTuple):
    """Samples of one task, equal rows merged."""

    row: Index  # (n,) index among the distinct rows
    y: Array  # (n,) mean target of equal rows
    weight: Array  # (n,) their total weight
    scatter: float  # weighted squares of targets about the means of equal rows


@dataclass(frozen=True, eq=False)
class KernelTasks:
    """Samples of m tasks over distinct rows, and the kernels between these."""

    rows: Matrix  # (u, d)
    tasks: tuple[TaskRows, ...]
    kernels: KernelSet
    offset: Array  # (m,) subtracted from the targets
    unit: float  # what they are divided by then

    @property
    def sizes(self) -> Index:
        return np.array([len(task.y) for task in self.tasks])

    @property
    def have_same_rows(self) -> bool:
        first = self.tasks[0]
        return all(
            np.array_equal(task.row, first.row)
            and np.array_equal(task.weight, first.weight)
            for task in self.tasks
        )

    @property
    def table_size(self) -> int:
        """Numbers in the features of all distinct rows."""
        u = int(self.rows.shape[0])
        kept = u if self.have_same_rows else int(self.sizes.sum())
        return len(self.kernels) * u * max(kept, u)

    @property
    def row_weight(self) -> float:
        """Mean weight of a task's distinct row."""
        total = sum(float(task.weight.sum()) for task in self.tasks)
        return total / float(self.sizes.sum())

    def targets(self, i: int) -> Array:
        """Targets of task ``i``, centred, scaled and weighted (n,)."""
        task = self.tasks[i]
        centred = (task.y - self.offset[i]) / self.unit
        return np.asarray(np.sqrt(task.weight) * centred)


def gather_tasks(
    data: TaskData, kernels: Any, *, normalize: bool, centred: bool
) -> KernelTasks:
    """Merge equal rows, centre targets per task, and fit the kernels to the rows."""
    distinct = find_distinct(data.X)
    tasks = merge_rows(data, distinct.kind)
    rows = data.X[distinct.first]
    weight = np.zeros(len(distinct.first))
    for task in tasks:
        weight[task.row] += task.weight
    fitted = KernelSet.fit(check_kernels(kernels), rows, weight, normalize=normalize)
    offset = np.zeros(len(tasks))
    if centred:
        for i, (_, y, w, _) in enumerate(tasks):
            # Weighted mean about the first target: exact where all are equal.
            offset[i] = y[0] + w @ (y - y[0]) / w.sum()
    # Squares of targets of any size stay in the range of doubles.
    unit = max(
        float(np.abs(task.y - mean).max())
        for task, mean in zip(tasks, offset, strict=True)
    )
    return KernelTasks(rows, tasks, fitted, offset, unit or 1.0)


def merge_rows(data: TaskData, row: Index) -> tuple[TaskRows, ...]:
    """Samples of each task; equal rows become one with their total weight.

    ``row`` holds the index of each row of the data among the distinct rows.
    """
    if isinstance(data, StackedRows):
        parts = zip(data.starts[:-1], data.starts[1:], strict=True)
        samples = [(row[a:b], data.y[a:b], data.weight[a:b]) for a, b in parts]
    elif isinstance(data, SharedRows):
        used = [np.flatnonzero(data.weight[:, i]) for i in range(data.shape[1])]
        samples = [
            (row[r], data.y[r, i], data.weight[r, i]) for i, r in enumerate(used)
        ]
    else:
        raise TypeError(f"data must be stacked or shared rows: got {type(data)}.")
    merged = []
    for own, y, weight in samples:
        rows, place = np.unique(own, return_inverse=True)
        total = np.asarray(np.bincount(place, weight), dtype=np.float64)
        # Means about one of the targets: exact where all are equal.
        start = np.zeros(len(rows))
        start[place] = y
        mean = start + np.bincount(place, weight * (y - start[place])) / total
        scatter = float(weight @ (y - mean[place]) ** 2)
        merged.append(TaskRows(rows.astype(np.intp), mean, total, scatter))
    return tuple(merged)


def choose_landmarks(u: int, count: int, random_state: int) -> Index:
    """``count`` of u distinct rows, drawn uniformly."""
    rng = np.random.default_rng(random_state)
    return np.sort(rng.permutation(u)[:count]).astype(np.intp)


def inverse_roots(grams: Array) -> Array:
    """T with K T Tᵀ K = K for each Gram matrix K (..., n, n), so Φ = K T (..., n, r).

    Columns are padded with zeros to the largest rank r.
    """
    values, vectors = np.linalg.eigh(grams)
    values, vectors = values[..., ::-1], vectors[..., ::-1]
    noise = SMALLEST_EIGENVALUE * np.maximum(values[..., :1], np.finfo(float).tiny)
    kept = values > noise
    rank = max(1, int(kept.sum(axis=-1).max(initial=1)))
    kept, values = kept[..., :rank], values[..., :rank]
    roots = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors[..., :rank] * roots[..., np.newaxis, :])


# Features of all tasks


@dataclass(frozen=True, eq=False)
class Expansion:
    """How coordinates (m, k, r) become weights of kernels."""

    rows: Matrix  # (u, d)
    own: tuple[Index, ...] | None  # rows of each task; None: all tasks use all rows
    roots: tuple[Array, ...]  # (k, n, r) of each task, or one for all

    def support(self, i: int) -> Matrix:
        """Rows whose kernels span the functions of task ``i`` (n, d)."""
        return self.rows if self.own is None else self.rows[self.own[i]]

    def weights(self, F: Array, i: int) -> Array:
        """Weights (k, n) of these kernels in task ``i``."""
        roots = self.roots[0 if self.own is None else i]
        coef = F[i, :, : roots.shape[2], np.newaxis]
        return np.asarray((roots @ coef)[:, :, 0])


class KernelFeatures(NamedTuple):
    """What ADMM needs of kernels, and the way back."""

    groups: tuple[RotatedTasks, ...]
    shape: tuple[int, int, int]  # (m, k, r)
    unexplained: float  # weighted squares of targets that no function changes
    expansion: Expansion


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Functions of m tasks, each a sum over kernels."""

    kernels: KernelSet
    expansion: Expansion
    coef: Array  # (m, k, r)
    offset: Array  # (m,)

    def scores(self, X: Matrix, i: int) -> Array:
        """Σ_j k_j(x, rows) a_ij + offset_i, over the kernels in use."""
        weights = self.expansion.weights(self.coef, i)
        used = np.flatnonzero(weights.any(axis=1))
        values = self.kernels.each(X, self.expansion.support(i), used)
        parts = (K @ a for K, a in zip(values, weights[used], strict=True))
        return np.asarray(sum(parts, np.full(X.shape[0], self.offset[i])))


class _Rotated(NamedTuple):
    """Some tasks with the same rows, in the eigenvectors of their Gram matrix."""

    features: Array  # (s, D)
    squares: Array  # (s,)
    targets: Array  # (b, s)
    unexplained: float


def own_features(data: KernelTasks) -> KernelFeatures:
    """Features of each task's own rows: as many as it has rows, per kernel."""
    sizes, k, m = data.sizes, len(data.kernels), len(data.tasks)
    roots: list[Array] = [np.empty(0)] * m
    groups, unexplained = [], 0.0
    # Tasks of equal size are stacked, so that ADMM handles them in one product.
    for size in np.unique(sizes):
        tasks = np.flatnonzero(sizes == size)
        supports = [data.rows[data.tasks[i].row] for i in tasks]
        grams = np.stack([data.kernels.grams(rows, rows) for rows in supports])
        found = inverse_roots(grams)
        rotated = [
            _rotate(data, [i], np.hstack(list(K @ T)))
            for i, K, T in zip(tasks.tolist(), grams, found, strict=True)
        ]
        groups.append(_group(tasks, rotated, (k, found.shape[-1])))
        unexplained += sum(task.unexplained for task in rotated)
        for i, T in zip(tasks, found, strict=True):
            roots[i] = T
    widest = max(group.shape[1] for group in groups)
    own = tuple(task.row for task in data.tasks)
    expansion = Expansion(data.rows, own, tuple(roots))
    return KernelFeatures(tuple(groups), (m, k, widest), unexplained, expansion)


def common_features(data: KernelTasks, landmarks: Index | None) -> KernelFeatures:
    """Features of all distinct rows, or of landmarks, the same for all tasks."""
    m, support = len(data.tasks), data.rows
    if landmarks is not None:
        support = support[landmarks]
    roots = inverse_roots(data.kernels.grams(support, support))
    k, _, r = roots.shape
    values = data.kernels.each(data.rows, support, np.arange(k))
    table = np.hstack([K @ T for K, T in zip(values, roots, strict=True)])
    groups = []
    if m > 1 and data.have_same_rows:  # one matrix for all tasks
        rotated = [_rotate(data, range(m), table[data.tasks[0].row])]
        groups.append(_group(np.arange(m), rotated, (k, r)))
    else:
        rotated = [_rotate(data, [i], table[data.tasks[i].row]) for i in range(m)]
        sizes = np.array([len(task.squares) for task in rotated])
        for size in np.unique(sizes):
            tasks = np.flatnonzero(sizes == size)
            groups.append(_group(tasks, [rotated[i] for i in tasks], (k, r)))
    unexplained = sum(task.unexplained for task in rotated)
    expansion = Expansion(support, None, (roots,))
    return KernelFeatures(tuple(groups), (m, k, r), unexplained, expansion)


def _rotate(data: KernelTasks, tasks: Sequence[int], table: Array) -> _Rotated:
    """Tasks with these rows (n, D), which they weigh alike."""
    targets = np.stack([data.targets(i) for i in tasks])
    features = np.sqrt(data.tasks[tasks[0]].weight)[:, np.newaxis] * table
    n, D = features.shape
    # Of both Gram matrices, which have the same eigenvalues, the smaller one.
    if n <= D:
        squares, axes = np.linalg.eigh(features @ features.T)
        squares, rows = np.maximum(squares, 0.0), axes.T @ features
        rotated = targets @ axes
    else:
        squares, axes = np.linalg.eigh(features.T @ features)
        squares = np.maximum(squares, 0.0)
        rows = np.sqrt(squares)[:, np.newaxis] * axes.T
        kept = squares > SMALLEST_SQUARE * squares.max(initial=0.0)
        roots = np.sqrt(np.where(kept, squares, 1.0))
        rotated = np.where(kept, (targets @ features) @ axes / roots, 0.0)
    # What lies outside the range of the features no function can fit.
    outside = max(float(np.sum(targets**2) - np.sum(rotated**2)), 0.0)
    scatter = sum(data.tasks[i].scatter / data.unit**2 for i in tasks)
    return _Rotated(rows, squares, rotated, outside + scatter)


def _group(
    tasks: Index, rotated: Sequence[_Rotated], shape: tuple[int, int]
) -> RotatedTasks:
    return RotatedTasks(
        tasks.astype(np.intp),
        np.stack([task.features for task in rotated]),
        np.stack([task.squares for task in rotated]),
        np.concatenate([task.targets for task in rotated]),
        shape,
    )
