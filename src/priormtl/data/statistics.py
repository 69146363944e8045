"""TaskStatistics: means and centred moments per task, which merge by ``+``."""

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.archive import read_archive, write_archive
from priormtl.data.encoding import Encoding, read_encoding
from priormtl.data.grams import MappedGrams
from priormtl.data.merging import merge_statistics
from priormtl.data.moments import CentredRows
from priormtl.data.names import tasks_from_plain, tasks_to_plain
from priormtl.data.showing import statistics_html
from priormtl.exceptions import ModelFileError

__all__ = ["TaskStatistics"]

KIND = "task statistics"


@dataclass(frozen=True, eq=False)
class TaskStatistics:
    """Weights, means and centred second moments of m tasks over d features.

    These suffice for squared loss. ``a + b`` joins disjoint samples exactly (tasks
    are matched by name), so chunks, folds and sites can be added in any order. Sums of
    statistics of the same tasks that lie on disk stay there.

    Examples
    --------
    >>> from priormtl import summarize
    >>> a = summarize([[1.0], [2.0]], [1.0, 2.0], task=["u", "v"])
    >>> b = summarize([[3.0], [5.0]], [1.0, 0.0], task=["v", "w"])
    >>> (a + b).tasks, (a + b).weight
    (('u', 'v', 'w'), array([1., 2., 1.]))
    """

    weight: Array  # (m,)
    x_mean: Array  # (m, d)
    y_mean: Array  # (m,)
    # (m, d, d), or (1, d, d) where all tasks share X and its weights
    xx: Array | MappedGrams
    xy: Array  # (m, d)
    yy: Array  # (m,)
    tasks: tuple[Hashable, ...]
    features: tuple[str, ...] | None = None
    encoding: Encoding | None = None  # how columns of a table became the features

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""
        return int(self.x_mean.shape[1]), len(self.tasks)

    @property
    def is_shared(self) -> bool:
        """Whether one XᵀX serves all tasks."""
        return len(self.xx) < len(self.tasks)

    @property
    def is_mapped(self) -> bool:
        """Whether a XᵀX for each task lies on disk, mapped into memory."""
        return isinstance(self.xx, np.memmap | MappedGrams) and not self.is_shared

    @property
    def size(self) -> int:
        """Numbers that a product looks at."""
        return int(self.xx.size)

    @property
    def gram_size(self) -> int:
        """Numbers in ``gram``."""
        return int(self.xx.size)

    def gram(self) -> Array:
        """Centred XᵀX of each task, or one for all; not to be written."""
        view = self._held().view()
        view.flags.writeable = False
        return view

    def mapped_gram(self) -> MappedGrams:
        """Centred XᵀX of each task, to be read some tasks at a time."""
        if isinstance(self.xx, MappedGrams):
            return self.xx
        return MappedGrams.of(self.xx, self.weight, self.x_mean)

    def _held(self) -> Array:
        """XᵀX as an array: a sum of some on disk is formed."""
        return np.asarray(self.xx) if isinstance(self.xx, MappedGrams) else self.xx

    def raw_gram(self) -> Array:
        """XᵀX about zero."""
        t = len(self.xx)
        means = np.ascontiguousarray(self.x_mean[:t].T)
        # With tasks last in memory, as solvers read them.
        raw = (self.weight[:t] * means)[:, np.newaxis] * means
        raw += self._held().transpose(1, 2, 0)
        return raw.transpose(2, 0, 1)

    @property
    def rows_per_task(self) -> None:
        """None: samples are gone."""

    def rows(self) -> CentredRows:
        """Not at hand."""
        raise TypeError("statistics do not hold samples.")

    def __repr__(self) -> str:
        d, m = self.shape
        return f"TaskStatistics({m} tasks, {d} features, weight {self.weight.sum():g})"

    def _repr_html_(self) -> str:
        return statistics_html(self)

    def gram_product(self, P: Array) -> Array:
        """Column i is XᵀX of task i times column i of P."""
        xx = self._held()
        if len(xx) == 1:
            return np.asarray(xx[0] @ P)
        return np.matmul(xx, P.T[:, :, np.newaxis])[:, :, 0].T

    def model_products(self, coefs: Array) -> Array:
        """XᵀX of each task times its coefficients in each of l models (l, m, d)."""
        if isinstance(self.xx, MappedGrams):
            return self.xx.products(coefs.swapaxes(0, 1)).swapaxes(0, 1)
        return np.matmul(self.xx, coefs.transpose(1, 2, 0)).transpose(2, 0, 1)

    def squared_deviations(self) -> Array:
        """Diagonals of the centred XᵀX (m, d)."""
        if isinstance(self.xx, MappedGrams):
            return self.xx.diagonals()
        diagonals = np.diagonal(self.xx, axis1=1, axis2=2)
        return np.broadcast_to(diagonals, self.x_mean.shape)

    def within_task_products(self, features: Index) -> Array:
        """Rows ``features`` of the sum of the centred XᵀX over tasks (k, d)."""
        copies = len(self.tasks) // len(self.xx)
        return copies * self._held()[:, features, :].sum(axis=0)

    def task_spectra(self) -> tuple[Array, Array]:
        """Smallest and largest eigenvalue of each task's centred XᵀX."""
        values = np.linalg.eigvalsh(self._held())
        m = len(self.tasks)
        lowest, highest = np.maximum(values[:, 0], 0.0), values[:, -1]
        return np.broadcast_to(lowest, m), np.broadcast_to(highest, m)

    def restrict(self, features: Index) -> Self:
        """Only these features."""
        return replace(
            self,
            x_mean=self.x_mean[:, features],
            xx=self._held()[:, features[:, np.newaxis], features],
            xy=self.xy[:, features],
            features=self.features and tuple(self.features[j] for j in features),
            encoding=None,
        )

    def rescale(self, scale: Array) -> Self:
        """Features divided by ``scale``."""
        return replace(
            self,
            x_mean=self.x_mean / scale,
            xx=self._held() / scale / scale[:, np.newaxis],
            xy=self.xy / scale,
            encoding=None,
        )

    def shift(self, centre: Array) -> Self:
        """Features less ``centre`` (d,)."""
        return replace(self, x_mean=self.x_mean - centre, encoding=None)

    def __add__(self, other: "TaskStatistics") -> "TaskStatistics":
        """Statistics of both sets of samples; tasks are matched by name."""
        if not isinstance(other, TaskStatistics):
            return NotImplemented
        return merge_statistics(self, other)

    def __radd__(self, other: object) -> "TaskStatistics":
        """``sum`` begins with 0."""
        return self if other == 0 and isinstance(other, int) else NotImplemented

    def only(self, tasks: NDArray[np.bool_]) -> Self:
        """Same statistics, of no rows in the other tasks."""
        one, each = np.where(tasks, 1.0, 0.0), tasks[:, np.newaxis]
        return replace(
            self,
            weight=self.weight * one,
            x_mean=np.where(each, self.x_mean, 0.0),
            y_mean=self.y_mean * one,
            xx=self._only_grams(tasks),
            xy=np.where(each, self.xy, 0.0),
            yy=self.yy * one,
        )

    def _only_grams(self, tasks: NDArray[np.bool_]) -> Array | MappedGrams:
        if self.is_mapped:
            return self.mapped_gram().only(tasks)
        if self.is_shared and (tasks.all() or not tasks.any()):
            return self._held() * float(tasks.all())
        return np.where(tasks[:, np.newaxis, np.newaxis], self._held(), 0.0)

    def pooled_means(self) -> Array:
        """Mean of each feature over the rows of all tasks (d,)."""
        total = float(self.weight.sum())
        return self.weight @ self.x_mean / (total or 1.0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file, whole or not at all."""
        settings = {
            **tasks_to_plain(self.tasks),
            "features": None if self.features is None else list(self.features),
            "encoding": self.encoding and self.encoding.to_plain(),
        }
        names = ("weight", "x_mean", "y_mean", "xy", "yy")
        arrays = {name: getattr(self, name) for name in names} | {"xx": self._held()}
        write_archive(path, KIND, settings, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what ``save`` wrote; a changed file is refused."""
        settings, arrays = read_archive(path, KIND)
        try:
            tasks = tasks_from_plain(settings)
            features = settings["features"] and tuple(settings["features"])
            encoding = read_encoding(settings.get("encoding"), features)
            loaded = cls(**arrays, tasks=tasks, features=features, encoding=encoding)
            loaded.check_shapes()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise ModelFileError(f"{path} does not hold task statistics.") from None
        return loaded

    def check_shapes(self) -> None:
        """Fail where arrays do not go together."""
        d, m = self.shape
        expected: Sequence[tuple[Any, tuple[int, ...]]] = [
            (self.weight, (m,)),
            (self.x_mean, (m, d)),
            (self.y_mean, (m,)),
            (self.xx, (len(self.xx), d, d)),
            (self.xy, (m, d)),
            (self.yy, (m,)),
        ]
        fits = all(a.shape == shape and a.dtype == np.float64 for a, shape in expected)
        known = len(self.features or range(d)) == d
        if not (fits and known and len(self.xx) in (1, m)):
            raise ValueError("arrays of wrong shape")
