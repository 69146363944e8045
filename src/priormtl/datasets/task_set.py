"""TaskSet: rows of many tasks, with the rows of the original table kept once."""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.datasets.bunch import Bunch

__all__ = ["Rows", "TaskSet", "name_pixels", "pair_classes"]

Kind = Literal["regression", "classification"]


class Rows(NamedTuple):
    """Some rows of a task set, as ``fit`` takes them."""

    X: Array  # (k, d)
    y: Array  # (k,), or (k, m) where all tasks share X
    task: np.ndarray | None  # (k,) names, None where all tasks share X


@dataclass(frozen=True, eq=False, repr=False)
class TaskSet(Bunch):
    """Real tasks with names and notes; unpacks as ``X, y, task``.

    ``data["y"]`` and ``data.keys()`` work as in scikit-learn's Bunch.

    Tasks either have rows of their own (``y`` (n,), ``task`` (n,)) or share one X
    (``y`` (n, m), ``task`` None); ``model.fit(X, y, task=task)`` takes both. An image
    that stands in several tasks is kept once: ``originals[sample]`` are the stacked
    rows, which ``X`` and ``rows`` build as float64 only when asked.

    Classes are −1 and +1, as ``classes`` says: in a pair the second one named is
    positive, against the rest the task's own class is.
    """

    name: str
    kind: Kind
    originals: np.ndarray  # (n_originals, d), in the file's dtype
    sample: Index  # (n,) row of originals
    y: Array  # (n,) or (n, m)
    code: Index | None  # (n,) position in task_names, None where all tasks share X
    feature_names: tuple[str, ...]
    task_names: tuple[str, ...]  # in sorted order
    description: str
    quirks: tuple[str, ...]
    source: str
    classes: tuple[tuple[str, str], ...] | None = None  # negative, positive, per task
    label: np.ndarray | None = None  # (n_originals,) class of each original row
    group: Index | None = None  # (n_originals,) originals that belong together
    image_shape: tuple[int, int] | None = None  # height, width

    def __repr__(self) -> str:
        n, d = len(self.sample), self.originals.shape[1]
        count = f"{len(self.task_names)} {self.kind} tasks"
        return f"TaskSet({self.name}: {count}, {n} rows, {d} features)"

    @property
    def X(self) -> Array:  # noqa: N802
        """All rows as float64 (n, d), built anew at each call."""
        return self._take(self.sample)

    @property
    def task(self) -> np.ndarray | None:
        """Name of each row's task (n,), None where all tasks share X."""
        return None if self.code is None else np.array(self.task_names)[self.code]

    @property
    def groups(self) -> Index:
        """What each row must be held out with (n,): its word, or its original row."""
        return self.sample if self.group is None else self.group[self.sample]

    def rows(self, index: Any) -> Rows:
        """The chosen rows only: positions, a slice or a mask over the n rows.

        Examples
        --------
        >>> data = TaskSet(
        ...     "toy", "classification", np.array([[1], [2]], np.uint8),
        ...     np.array([0, 1, 1]), np.array([-1.0, 1.0, -1.0]), np.array([0, 0, 1]),
        ...     ("size",), ("a vs b", "b vs c"), "", (), "")
        >>> X, y, task = data.rows([0, 2])
        >>> X.ravel().tolist(), y.tolist(), task.tolist()
        ([1.0, 2.0], [-1.0, -1.0], ['a vs b', 'b vs c'])
        """
        names = None
        if self.code is not None:
            names = np.array(self.task_names)[self.code[index]]
        return Rows(self._take(self.sample[index]), self.y[index], names)

    def find(self, samples: Any) -> Index:
        """Positions of all rows that stem from the given originals.

        A split of the originals, made once, so splits every task alike: no image is
        in one task's training rows and in another one's test rows.
        """
        wanted = np.zeros(len(self.originals), dtype=bool)
        wanted[samples] = True
        return np.flatnonzero(wanted[self.sample])

    def stacked(self) -> "TaskSet":
        """The same tasks with rows of their own, task by task; itself if they have."""
        if self.code is not None:
            return self
        n, m = self.y.shape
        return replace(
            self,
            sample=np.tile(self.sample, m),
            y=self.y.T.ravel(),
            code=np.repeat(np.arange(m), n),
        )

    def _take(self, sample: Index) -> Array:
        return self.originals[sample].astype(np.float64)


def pair_classes(
    label: np.ndarray, pairs: list[tuple[Any, Any]]
) -> tuple[Index, Array, Index]:
    """Rows of one task per pair of classes: sample, y and code, each (n,)."""
    members = [np.flatnonzero((label == a) | (label == b)) for a, b in pairs]
    sample = np.concatenate(members)
    code = np.repeat(np.arange(len(pairs)), [len(part) for part in members])
    second = np.array([b for _, b in pairs])
    return sample, np.where(label[sample] == second[code], 1.0, -1.0), code


def name_pixels(height: int, width: int) -> tuple[str, ...]:
    """``"row,column"`` of each pixel, row by row."""
    return tuple(f"{row},{column}" for row in range(height) for column in range(width))
