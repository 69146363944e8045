"""Values that data sets are: real ones, and synthetic ones with known coefficients.

A ``TaskSet`` has rows of many tasks, with the rows of the original table kept once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.datasets.files import Kind
from priormtl.exceptions import suggest
from priormtl.priors import FeaturePrior, TaskPrior

UNPACKED = ("X", "y", "task")


class Bunch:
    """Base class of data sets: frozen dataclasses with X, y and task.

    Values are accessible as ``data.y``, ``data["y"]`` and ``data.keys()``, as in
    scikit-learn's Bunch. In addition, data sets unpack as ``X, y, task``, which are
    also ``data[0]``, ``data[1]`` and ``data[2]``.
    """

    def __iter__(self) -> Iterator[Any]:
        return (self[name] for name in UNPACKED)

    def keys(self) -> tuple[str, ...]:
        """Return the names of all values, starting with X, y and task."""
        named = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return tuple(dict.fromkeys((*UNPACKED, *named)))

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, key: str | int | slice) -> Any:
        """Value of a name, or X, y and task by their places."""
        if isinstance(key, slice):
            return tuple(self[name] for name in UNPACKED[key])
        if not isinstance(key, str):
            return self[UNPACKED[key]]
        if key not in self:
            names = ", ".join(map(repr, self.keys()))
            raise KeyError(f"{key!r}; known: {names}.{suggest([key], self.keys())}")
        return getattr(self, key)


class Rows(NamedTuple):
    """Selected rows of a data set, as arguments of ``fit``."""

    X: Array  # (k, d)
    y: Array  # (k,), or (k, m) where all tasks share X
    task: np.ndarray | None  # (k,) names, None where all tasks share X


@dataclass(frozen=True, eq=False, repr=False)
class TaskSet(Bunch):
    """Real data set, with names and notes; unpacks as ``X, y, task``.

    Either each row belongs to one task (``y`` (n,), ``task`` (n,)), or all tasks share
    X (``y`` (n, m), ``task`` None). ``model.fit(X, y, task=task)`` accepts both. Images
    that belong to several tasks are stored once: the stacked rows are
    ``originals[sample]``. ``X`` and ``rows`` convert them to float64 on access.

    Classes are −1 and +1. In a pair, the second class is positive; in one-vs-rest
    tasks, the class of the task is positive. ``classes`` contains both classes of each
    task. Values are also accessible as ``data["y"]``, as in scikit-learn's Bunch.
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
        """All rows as float64 (n, d). They are converted on each access."""
        return self._take(self.sample)

    @property
    def task(self) -> np.ndarray | None:
        """Task of each row (n,), or None if all tasks share X."""
        return None if self.code is None else np.array(self.task_names)[self.code]

    @property
    def groups(self) -> Index:
        """Group of each row (n,), such as its word or image, for group-wise splits."""
        return self.sample if self.group is None else self.group[self.sample]

    def rows(self, index: Index | Sequence[int] | slice) -> Rows:
        """Return selected rows.

        Parameters
        ----------
        index : positions, slice or mask
            Rows to select.

        Returns
        -------
        X, y, task

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

    def find(self, samples: Index | Sequence[int]) -> Index:
        """Return the positions of all rows that belong to given images.

        Use it to split images instead of rows. Then no image is in the training rows of
        one task and in the test rows of another.

        Parameters
        ----------
        samples : positions
            Images, as positions in ``originals``.
        """
        wanted = np.zeros(len(self.originals), dtype=bool)
        wanted[samples] = True
        return np.flatnonzero(wanted[self.sample])

    def stacked(self) -> "TaskSet":
        """Return the same data set with separate rows for each task."""
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
    label: np.ndarray, pairs: Sequence[tuple[object, object]]
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


# Synthetic tasks


@dataclass(frozen=True, eq=False)
class RelatedTasks(Bunch):
    """Synthetic data set with its true coefficients; unpacks as ``X, y, task``.

    Values are also accessible as ``data["y"]``, as in scikit-learn's Bunch.
    """

    X: Array  # (n, d)
    y: Array  # (n,)
    task: Index  # (n,)
    coef: Array  # (m, d), zero for features that do not matter
    intercept: Array  # (m,)
    feature_prior: FeaturePrior  # relations that hold
    task_prior: TaskPrior  # the chain along which coefficients drift


def make_related_tasks(
    n_tasks: int = 10,
    n_features: int = 20,
    n_samples: int = 30,
    *,
    n_informative: int | None = None,
    n_relations: int | None = None,
    opposite: float = 0.5,
    relation_noise: float = 0.0,
    drift: float = 0.1,
    noise: float = 1.0,
    classification: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> RelatedTasks:
    """Generate tasks with sparse and related coefficients that drift along a chain.

    Parameters
    ----------
    n_tasks : int, default=10
        Number of tasks.
    n_features : int, default=20
        Number of features.
    n_samples : int, default=30
        Number of rows per task.
    n_informative : int, optional
        Number of features with nonzero coefficients, the same for all tasks. The
        default is half of the features.
    n_relations : int, optional
        Number of disjoint pairs of informative features with similar or opposite
        coefficients. The default is the largest possible number.
    opposite : float, default=0.5
        Fraction of the pairs with opposite coefficients.
    relation_noise : float, default=0.0
        Standard deviation of the differences between related coefficients.
    drift : float, default=0.1
        Standard deviation of the change of coefficients from one task to the next.
    noise : float, default=1.0
        Standard deviation of the noise in the targets.
    classification : bool, default=False
        Whether targets are classes −1 and +1, the signs of noisy scores.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    RelatedTasks
        ``X``, ``y`` and ``task``, with the true ``coef`` (m, d), ``intercept`` (m,),
        ``feature_prior`` and ``task_prior``.

    Examples
    --------
    >>> data = make_related_tasks(n_tasks=3, n_features=8, random_state=0)
    >>> data.X.shape, data.coef.shape, data.feature_prior
    ((90, 8), (3, 8), FeaturePrior(2 relations))
    """
    informative = n_features // 2 if n_informative is None else n_informative
    relations = informative // 2 if n_relations is None else n_relations
    counts = {"n_tasks": n_tasks, "n_features": n_features, "n_samples": n_samples}
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1: got {value}.")
    if not 0 <= informative <= n_features:
        raise ValueError(
            f"n_informative must be between 0 and n_features={n_features}: got "
            f"{informative}."
        )
    if not 0 <= 2 * relations <= informative:
        raise ValueError(
            "n_relations must be between 0 and half of the informative features "
            f"({informative // 2}): got {relations}."
        )
    if not 0 <= opposite <= 1:
        raise ValueError(f"opposite must be between 0 and 1: got {opposite}.")
    rng = np.random.default_rng(random_state)
    chosen = rng.choice(n_features, size=informative, replace=False)
    pairs = chosen[: 2 * relations].reshape(-1, 2)
    sign = np.where(np.arange(relations) < round(opposite * relations), -1.0, 1.0)
    coef = np.zeros((n_tasks, n_features))
    coef[:, chosen] = _walk(rng, n_tasks, informative, drift)
    slack = relation_noise * rng.standard_normal((n_tasks, relations))
    coef[:, pairs[:, 1]] = sign * coef[:, pairs[:, 0]] + slack
    intercept = _walk(rng, n_tasks, 1, drift)[:, 0]
    X = rng.standard_normal((n_tasks * n_samples, n_features))
    task = np.repeat(np.arange(n_tasks), n_samples)
    y = np.sum(X * coef[task], axis=1) + intercept[task]
    y = y + noise * rng.standard_normal(len(y))
    if classification:
        y = np.where(y >= 0, 1.0, -1.0)
    prior = FeaturePrior.similar(pairs[sign > 0].tolist()) + FeaturePrior.opposite(
        pairs[sign < 0].tolist()
    )
    return RelatedTasks(X, y, task, coef, intercept, prior, TaskPrior.chain())


def _walk(rng: np.random.Generator, m: int, d: int, drift: float) -> Array:
    """Random walk over tasks from a standard normal start (m, d)."""
    steps = drift * rng.standard_normal((m, d))
    steps[0] = rng.standard_normal(d)
    return np.cumsum(steps, axis=0)
