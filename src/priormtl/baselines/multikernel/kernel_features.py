"""Kernels of many tasks as features, in which functions are vectors.

A kernel matrix K = Φ Φᵀ of some rows gives features Φ = K T; a function with
coordinates f has the values Φ f on them, the squared norm fᵀf, and k(x, rows) T f
elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from priormtl._arrays import Array, Index, Matrix
from priormtl.baselines.multikernel.base_kernels import KernelSet
from priormtl.baselines.multikernel.nystroem import inverse_roots
from priormtl.baselines.multikernel.splitting import RotatedTasks
from priormtl.baselines.multikernel.task_rows import TaskRows

__all__ = [
    "KernelFeatures",
    "KernelModel",
    "KernelTasks",
    "common_features",
    "make_model",
    "own_features",
]

SMALLEST_SHARE = 1e-14  # of the largest square, below which an axis holds noise


@dataclass(frozen=True, eq=False)
class KernelTasks:
    """Samples of m tasks over distinct rows, and the kernels between these."""

    rows: Matrix  # (u, d)
    tasks: tuple[TaskRows, ...]
    kernels: KernelSet
    offset: Array  # (m,) what is subtracted from the targets
    unit: float  # what they are divided by then

    @property
    def sizes(self) -> Index:
        """Number of distinct rows of each task (m,)."""
        return np.array([len(task.y) for task in self.tasks])

    @property
    def u(self) -> int:
        """Number of distinct rows."""
        return int(self.rows.shape[0])

    @property
    def common_cells(self) -> int:
        """Doubles in the features of all rows."""
        kept = self.u if _have_same_rows(self.tasks) else int(self.sizes.sum())
        return len(self.kernels) * self.u * max(kept, self.u)

    @property
    def row_weight(self) -> float:
        """Mean weight of a task's distinct row."""
        total = sum(float(task.weight.sum()) for task in self.tasks)
        return total / float(self.sizes.sum())

    def targets(self, i: int) -> Array:
        """Targets of task ``i``, centred, divided and weighed (n,)."""
        task = self.tasks[i]
        return np.asarray(
            np.sqrt(task.weight) * ((task.y - self.offset[i]) / self.unit)
        )

    def scatter(self, i: int) -> float:
        """Weighted squares of divided targets about the means of equal rows."""
        return self.tasks[i].scatter / self.unit**2

    @property
    def m(self) -> int:
        """Number of tasks."""
        return len(self.tasks)


class Expansion(Protocol):
    """How coordinates (m, k, r) become functions."""

    def support(self, i: int) -> Matrix:
        """Rows whose kernels span the functions of task ``i`` (n, d)."""

    def coef(self, F: Array, i: int) -> Array:
        """Weights (k, n) of these kernels in task ``i``."""


class KernelFeatures(NamedTuple):
    """What a solver needs of kernels, and the way back."""

    groups: tuple[RotatedTasks, ...]
    shape: tuple[int, int, int]  # (m, k, r)
    rest: float  # weighted squares of targets that no function changes
    expansion: Expansion


@dataclass(frozen=True, eq=False)
class CommonExpansion:
    """All tasks in the span of the kernels of the same rows."""

    rows: Matrix  # (u, d)
    roots: Array  # (k, u, r)

    def support(self, i: int) -> Matrix:
        """All rows."""
        return self.rows

    def coef(self, F: Array, i: int) -> Array:
        """Weights (k, u)."""
        return np.asarray((self.roots @ F[i][:, :, np.newaxis])[:, :, 0])


@dataclass(frozen=True, eq=False)
class OwnExpansion:
    """Each task in the span of the kernels of its own rows."""

    rows: Matrix  # (u, d)
    kinds: tuple[Index, ...]
    roots: tuple[Array, ...]  # (k, n, r) of each task

    def support(self, i: int) -> Matrix:
        """The task's rows."""
        return self.rows[self.kinds[i]]

    def coef(self, F: Array, i: int) -> Array:
        """Weights (k, n)."""
        roots = self.roots[i]
        own = F[i, :, : roots.shape[2], np.newaxis]
        return np.asarray((roots @ own)[:, :, 0])


@dataclass(frozen=True, eq=False)
class KernelModel:
    """Functions of m tasks, each a sum over kernels."""

    kernels: KernelSet
    expansion: Expansion
    coef: Array  # (m, k, r)
    offset: Array  # (m,)

    def scores(self, X: Matrix, i: int) -> Array:
        """Σ_j k_j(x, rows) a_ij + offset_i, by the kernels in use."""
        weights = self.expansion.coef(self.coef, i)
        used = np.flatnonzero(weights.any(axis=1))
        values = self.kernels.each(X, self.expansion.support(i), used)
        parts = (K @ a for K, a in zip(values, weights[used], strict=True))
        return np.asarray(sum(parts, np.full(X.shape[0], self.offset[i])))


def make_model(data: KernelTasks, features: KernelFeatures, coef: Array) -> KernelModel:
    """Functions of these coordinates, in the units of the targets."""
    return KernelModel(data.kernels, features.expansion, data.unit * coef, data.offset)


def own_features(data: KernelTasks) -> KernelFeatures:
    """Features of each task's own rows: as many as it has rows, per kernel."""
    sizes, k = data.sizes, len(data.kernels)
    roots: list[Array] = [np.empty(0)] * data.m
    groups, rest = [], 0.0
    for size in np.unique(sizes):
        tasks = np.flatnonzero(sizes == size)
        grams = np.stack([_gram(data, i) for i in tasks.tolist()])
        found = inverse_roots(grams)
        rotated = [
            _rotate(data, i, _beside(K @ T))
            for i, K, T in zip(tasks.tolist(), grams, found, strict=True)
        ]
        groups.append(_group(tasks, rotated, (k, found.shape[-1])))
        rest += sum(task.rest for task in rotated)
        for i, T in zip(tasks, found, strict=True):
            roots[i] = T
    widest = max(group.shape[1] for group in groups)
    kinds = tuple(task.kind for task in data.tasks)
    expansion = OwnExpansion(data.rows, kinds, tuple(roots))
    return KernelFeatures(tuple(groups), (data.m, k, widest), rest, expansion)


def common_features(data: KernelTasks, landmarks: Index | None) -> KernelFeatures:
    """Features of all distinct rows, or of landmarks, the same for all tasks."""
    support = data.rows if landmarks is None else data.rows[landmarks]
    roots = inverse_roots(data.kernels.grams(support, support))
    every = np.arange(len(data.kernels))
    values = data.kernels.each(data.rows, support, every)
    table = np.hstack([K @ T for K, T in zip(values, roots, strict=True)])
    k, _, r = roots.shape
    groups, rest = _group_tasks(data, table, (k, r))
    return KernelFeatures(groups, (data.m, k, r), rest, CommonExpansion(support, roots))


class _Rotated(NamedTuple):
    """One task in the axes in which its Gram matrix is diagonal."""

    features: Array  # (s, D)
    squares: Array  # (s,)
    target: Array  # (s,)
    rest: float


def _group_tasks(
    data: KernelTasks, table: Array, shape: tuple[int, int]
) -> tuple[tuple[RotatedTasks, ...], float]:
    """Tasks of equal size together; only one matrix where all have the same rows."""
    if data.m > 1 and _have_same_rows(data.tasks):
        return _group_same(data, table[data.tasks[0].kind], shape)
    rotated = [_rotate(data, i, table[data.tasks[i].kind]) for i in range(data.m)]
    sizes = np.array([len(task.target) for task in rotated])
    groups = []
    for size in np.unique(sizes):
        tasks = np.flatnonzero(sizes == size)
        groups.append(_group(tasks, [rotated[i] for i in tasks], shape))
    return tuple(groups), sum(task.rest for task in rotated)


def _group_same(
    data: KernelTasks, table: Array, shape: tuple[int, int]
) -> tuple[tuple[RotatedTasks, ...], float]:
    targets = np.stack([data.targets(i) for i in range(data.m)])
    features = np.sqrt(data.tasks[0].weight)[:, np.newaxis] * table
    axes, squares, rows = _axes(features)
    rotated = _project(targets, axes, squares, features)
    rest = _rest(targets, rotated)
    group = RotatedTasks(
        np.arange(data.m), rows[np.newaxis], squares[np.newaxis], rotated, shape
    )
    return (group,), rest + sum(data.scatter(i) for i in range(data.m))


def _rotate(data: KernelTasks, i: int, table: Array) -> _Rotated:
    task, target = data.tasks[i], data.targets(i)[np.newaxis]
    features = np.sqrt(task.weight)[:, np.newaxis] * table
    axes, squares, rows = _axes(features)
    rotated = _project(target, axes, squares, features)
    return _Rotated(rows, squares, rotated[0], _rest(target, rotated) + data.scatter(i))


def _axes(features: Array) -> tuple[Array, Array, Array]:
    """Eigenvectors on the smaller side, squares (s,), and rotated rows (s, D)."""
    n, D = features.shape
    if n <= D:
        squares, axes = np.linalg.eigh(features @ features.T)
        return axes, np.maximum(squares, 0.0), axes.T @ features
    squares, axes = np.linalg.eigh(features.T @ features)
    squares = np.maximum(squares, 0.0)
    return axes, squares, np.sqrt(squares)[:, np.newaxis] * axes.T


def _project(targets: Array, axes: Array, squares: Array, features: Array) -> Array:
    """Targets (b, n) along the axes (b, s)."""
    n, D = features.shape
    if n <= D:
        return np.asarray(targets @ axes)
    sums = (targets @ features) @ axes
    kept = squares > SMALLEST_SHARE * squares.max(initial=0.0)
    roots = np.sqrt(np.where(kept, squares, 1.0))
    return np.asarray(np.where(kept, sums / roots, 0.0))


def _rest(targets: Array, rotated: Array) -> float:
    """Squares that the axes do not reach."""
    return max(float(np.sum(targets**2) - np.sum(rotated**2)), 0.0)


def _group(
    tasks: Index, rotated: Sequence[_Rotated], shape: tuple[int, int]
) -> RotatedTasks:
    return RotatedTasks(
        tasks.astype(np.intp),
        np.stack([task.features for task in rotated]),
        np.stack([task.squares for task in rotated]),
        np.stack([task.target for task in rotated]),
        shape,
    )


def _gram(data: KernelTasks, i: int) -> Array:
    """Kernels of one task's rows (k, n, n)."""
    rows = data.rows[data.tasks[i].kind]
    return data.kernels.grams(rows, rows)


def _beside(blocks: Array) -> Array:
    """Blocks (k, n, r) side by side (n, k r)."""
    return np.hstack(list(blocks))


def _have_same_rows(tasks: Sequence[TaskRows]) -> bool:
    return all(_same(task, tasks[0]) for task in tasks)


def _same(a: TaskRows, b: TaskRows) -> bool:
    return np.array_equal(a.kind, b.kind) and np.array_equal(a.weight, b.weight)
