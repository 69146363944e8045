"""TaskStatistics: weights, means and centred moments per task, which merge by ``+``.

For disjoint sets a and b of rows, with weights w and means μ, Chan, Golub and LeVeque
(1979) give the centred products of both: S = S_a + S_b + w_a w_b / (w_a + w_b)
(μ_a − μ_b)(μ_a − μ_b)ᵀ. So chunks, folds and sites can be added in any order.
"""

import os
from collections.abc import Hashable, Iterator
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from priormtl._arrays import LARGE, Array, Index, restrict_tasks_last
from priormtl.archive import Settings, read_archive, write_archive
from priormtl.data.device import DeviceGrams
from priormtl.data.labels import merge_tasks, tasks_from_plain, tasks_to_plain
from priormtl.data.moments import SMALLEST, CentredRows, CentredSamples
from priormtl.data.on_disk import (
    BLOCK_NUMBERS,
    MOST_HELD,
    MappedGrams,
    StreamedGrams,
)
from priormtl.design import Design
from priormtl.exceptions import ModelFileError
from priormtl.rendering import build_table, spell_number, to_notebook

KIND = "task statistics"
MOST_SHOWN = 10  # tasks, and names of features, in notebooks
SHAPES = {"weight": "m", "x_mean": "md", "y_mean": "m", "xy": "md", "yy": "m"}
PLAIN = tuple(SHAPES)  # all arrays but xx


@dataclass(frozen=True, eq=False)
class TaskStatistics:
    """Sufficient statistics of squared loss: weights, means and centred second moments.

    Statistics of disjoint sets of rows can be added: ``a + b``. Tasks are matched by
    name. The sum of statistics on disk stays on disk if both have the same tasks. See
    ``summarize`` to compute statistics.

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
    xx: Array | MappedGrams | StreamedGrams | DeviceGrams
    xy: Array  # (m, d)
    yy: Array  # (m,)
    tasks: tuple[Hashable, ...]
    features: Design | None = None  # names, and how columns became the features
    shape: tuple[int, int] = field(init=False, repr=False)  # (d, m)
    is_shared: bool = field(init=False, repr=False)  # whether one XᵀX serves all tasks
    # Whether there is one XᵀX per task, on disk, mapped into memory.
    is_mapped: bool = field(init=False, repr=False)
    size: int = field(init=False, repr=False)  # entries that ``gram_product`` reads
    gram_size: int = field(init=False, repr=False)  # entries of ``gram``
    # False for what this package summed itself, see ``derive``.
    check: InitVar[bool] = True

    rows_per_task: ClassVar[None] = None  # samples are gone

    def __post_init__(self, check: bool) -> None:
        if self.features is not None:
            self.__dict__["features"] = Design.of_names(self.features)
        if check:
            self.__dict__.update(as_arrays(self))
        # Values are frozen: what was checked, or summed by us, stays as it is.
        for name in (*PLAIN, "xx"):
            array = self.__dict__[name]
            if isinstance(array, np.ndarray) and array.flags.writeable:
                self.__dict__[name] = array = array.view()
                array.flags.writeable = False
        size, shared = int(self.xx.size), len(self.xx) < len(self.tasks)
        mapped = isinstance(self.xx, np.memmap | MappedGrams) and not shared
        shape = int(self.x_mean.shape[1]), len(self.tasks)
        known = {"is_shared": shared, "is_mapped": mapped, "shape": shape}
        self.__dict__.update(known, size=size, gram_size=size)
        if check:
            check_statistics(self)

    def derive(self, **changes: Any) -> Self:
        """Same with other values that this package computed: they are not checked."""
        return replace(self, check=False, **changes)

    @property
    def task_columns(self) -> str | None:
        """Name of the column of the tasks, joined if there are several."""
        return None if self.features is None else self.features.task

    def gram(self) -> Array:
        """Centred XᵀX of each task (m, d, d), or one for all.

        It is writeable only if the caller owns it.
        """
        if isinstance(self.xx, StreamedGrams):
            return np.asarray(self.xx)
        view = np.asarray(self.xx).view()
        view.flags.writeable = False
        return view

    def mapped_gram(self) -> MappedGrams:
        """Centred XᵀX of each task, to be read some tasks at a time."""
        if isinstance(self.xx, MappedGrams):
            return self.xx
        return MappedGrams.of(np.asarray(self.xx), self.weight, self.x_mean)

    def streamed(self, most_held: int = MOST_HELD) -> Self:
        """Same with matrices that no step of a fit holds, unless they are few."""
        return self.derive(xx=StreamedGrams.of(self.mapped_gram(), most_held))

    def raw_gram(self) -> Array:
        """XᵀX about zero, as an array that the caller owns."""
        t = len(self.xx)
        means = np.ascontiguousarray(self.x_mean[:t].T)
        # With tasks last in memory, as solvers read them.
        raw = (self.weight[:t] * means)[:, np.newaxis] * means
        raw += np.asarray(self.xx).transpose(1, 2, 0)
        return raw.transpose(2, 0, 1)

    def rows(self) -> CentredRows:
        """Not available."""
        raise TypeError("statistics do not hold samples.")

    def __repr__(self) -> str:
        d, m = self.shape
        return f"TaskStatistics({m} tasks, {d} features, weight {self.weight.sum():g})"

    def _repr_html_(self) -> str:
        d, m = self.shape
        names = self.features or ()
        more = f", … ({d} in all)" if len(names) > MOST_SHOWN else ""
        held = sum(getattr(self, name).nbytes for name in PLAIN)
        if self.is_mapped:
            stored = sum(part.matrices.nbytes for part in self.mapped_gram().parts)
            sizes = [("memory", held), ("on disk", stored)]
        else:
            sizes = [("memory", held + self.xx.nbytes)]
        contents = [
            ("tasks", str(m)),
            ("features", str(d)),
            ("feature names", ", ".join(names[:MOST_SHOWN]) + more or "none"),
            ("total weight", spell_number(float(self.weight.sum()))),
            (
                "Gram matrices",
                "one for all tasks" if self.is_shared else "one per task",
            ),
            *((name, f"{count / 2**20:.3g} MB") for name, count in sizes),
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.sqrt(self.yy / self.weight)
        columns = zip(self.tasks, self.weight, self.y_mean, spread, strict=True)
        rows = [(str(task), *map(float, row)) for task, *row in columns]
        heads = ("task", "weight", "mean of y", "spread of y")
        tasks = build_table("Tasks", heads, rows, most=MOST_SHOWN, what="tasks")
        return to_notebook([build_table(repr(self), ("", "contents"), contents), tasks])

    def gram_product(self, P: Array) -> Array:
        """Column i is XᵀX of task i times column i of P."""
        if not isinstance(self.xx, np.ndarray):
            shared = len(self.xx) < len(self.tasks)
            found = self.xx.products(P.T[np.newaxis] if shared else P.T[:, np.newaxis])
            return (found[0] if shared else found[:, 0]).T
        xx = self.xx
        if len(xx) == 1:
            return np.asarray(xx[0] @ P)
        if xx.size > LARGE:
            # Gram matrices are symmetric: as few rows are read as P has.
            used, last = np.flatnonzero(P.any(axis=1)), xx.transpose(1, 2, 0)
            if last.flags.c_contiguous:
                out, part = np.zeros(P.shape), np.empty(P.shape)
                for j in used:
                    out += np.multiply(last[j], P[j], out=part)
                return out
            if 2 * len(used) <= len(P):
                columns = np.ascontiguousarray(P[used].T)
                pairs = zip(columns, xx, strict=True)
                return np.array([column @ matrix[used] for column, matrix in pairs]).T
        return np.matmul(xx, P.T[:, :, np.newaxis])[:, :, 0].T

    def model_products(self, coefs: Array) -> Array:
        """XᵀX of each task times its coefficients in each of l models (l, m, d)."""
        if not isinstance(self.xx, np.ndarray):
            return self.xx.products(coefs.swapaxes(0, 1)).swapaxes(0, 1)
        return np.matmul(self.xx, coefs.transpose(1, 2, 0)).transpose(2, 0, 1)

    def squared_deviations(self) -> Array:
        """Diagonals of the centred XᵀX (m, d)."""
        if isinstance(self.xx, np.ndarray):
            diagonals = np.diagonal(self.xx, axis1=1, axis2=2)
        else:
            diagonals = self.xx.diagonals()
        return np.broadcast_to(diagonals, self.x_mean.shape)

    def within_task_products(self, features: Index) -> Array:
        """Rows ``features`` of the sum of the centred XᵀX over tasks (k, d)."""
        copies = len(self.tasks) // len(self.xx)
        if isinstance(self.xx, DeviceGrams | StreamedGrams):
            return copies * self.xx.total(features)
        return copies * np.asarray(self.xx)[:, features, :].sum(axis=0)

    def task_spectra(self) -> tuple[Array, Array]:
        """Smallest and largest eigenvalue of each task's centred XᵀX."""
        if isinstance(self.xx, StreamedGrams):
            values = self.xx.eigenvalues()
        else:
            values = np.linalg.eigvalsh(np.asarray(self.xx))
        m = len(self.tasks)
        lowest, highest = np.maximum(values[:, 0], 0.0), values[:, -1]
        return np.broadcast_to(lowest, m), np.broadcast_to(highest, m)

    def restrict(self, features: Index) -> Self:
        """Only these features."""
        xx: Array | DeviceGrams | StreamedGrams
        if isinstance(self.xx, DeviceGrams | StreamedGrams):
            xx = self.xx.restrict(features)
        else:
            xx = restrict_tasks_last(np.asarray(self.xx), features)
        return self.derive(
            x_mean=self.x_mean[:, features],
            xx=xx,
            xy=self.xy[:, features],
            features=None,
        )

    def rescale(self, scale: Array) -> Self:
        """Features divided by ``scale``."""
        xx: Array | DeviceGrams | StreamedGrams
        if isinstance(self.xx, DeviceGrams | StreamedGrams):
            xx = self.xx.rescale(scale)
        else:
            xx = np.asarray(self.xx) / scale / scale[:, np.newaxis]
        return self.derive(
            x_mean=self.x_mean / scale,
            xx=xx,
            xy=self.xy / scale,
        )

    def shift(self, centre: Array) -> Self:
        """Features less ``centre`` (d,)."""
        return self.derive(x_mean=self.x_mean - centre)

    def lower(self, level: Array) -> Self:
        """Targets less ``level`` (m,)."""
        return self.derive(y_mean=self.y_mean - level)

    def __add__(self, other: "TaskStatistics") -> "TaskStatistics":
        if not isinstance(other, TaskStatistics):
            return NotImplemented
        a, b = self, other
        if a.shape[0] != b.shape[0] or _shown(a) != _shown(b):
            raise ValueError(
                "statistics can only be added over the same features: got "
                f"{a.shape[0]} {_shown(a)} and {b.shape[0]} {_shown(b)}."
            )
        features = a.features
        if a.features is not None and b.features is not None:
            features = a.features + b.features
        alike = (a.is_shared and b.is_shared) or (a.is_mapped and b.is_mapped)
        # Without declared orders, tasks that agree need no alignment.
        alike |= len(a.xx) == len(b.xx) and type(a.tasks) is type(b.tasks) is tuple
        if not (alike and a.tasks == b.tasks):
            tasks = merge_tasks(a.tasks, b.tasks)
            a, b = _align(a, tasks), _align(b, tasks)
        return _merge_aligned(a, b).derive(features=features)

    def __radd__(self, other: object) -> "TaskStatistics":
        """``sum`` begins with 0."""
        return self if other == 0 and isinstance(other, int) else NotImplemented

    def only(self, tasks: NDArray[np.bool_]) -> Self:
        """Same statistics, without the rows of other tasks."""
        one, each = np.where(tasks, 1.0, 0.0), tasks[:, np.newaxis]
        xx: Array | MappedGrams | DeviceGrams
        if self.is_mapped:
            xx = self.mapped_gram().only(tasks)
        elif isinstance(self.xx, DeviceGrams):
            position = np.arange(len(tasks)) % len(self.xx)
            xx = self.xx.take(position, tasks)
        elif self.is_shared and (tasks.all() or not tasks.any()):
            xx = np.asarray(self.xx) * float(tasks.all())
        else:
            xx = np.where(each[:, :, np.newaxis], np.asarray(self.xx), 0.0)
        return self.derive(
            weight=self.weight * one,
            x_mean=np.where(each, self.x_mean, 0.0),
            y_mean=self.y_mean * one,
            xx=xx,
            xy=np.where(each, self.xy, 0.0),
            yy=self.yy * one,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to one file. A failure leaves no partial file.

        Parameters
        ----------
        path : path
            File to write.
        """
        settings = {
            **tasks_to_plain(self.tasks),
            "features": None if self.features is None else self.features.to_plain(),
        }
        arrays = {name: getattr(self, name) for name in PLAIN} | {
            "xx": np.asarray(self.xx)
        }
        write_archive(path, KIND, settings, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read statistics that were written by ``save``.

        Parameters
        ----------
        path : path
            File to read. Modified files are rejected.

        Returns
        -------
        TaskStatistics
        """
        settings, arrays = read_archive(path, KIND)
        try:
            tasks = tasks_from_plain(settings)
            known = settings["features"]
            features = None if known is None else Design.from_plain(known)
            parts: Settings = {**arrays, "tasks": tasks, "features": features}
            return cls(**parts)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(
                f"{path} does not hold task statistics: {error}"
            ) from None


# What squared loss needs of the samples, in one of two forms with the same methods.
Moments = TaskStatistics | CentredSamples


def _shown(part: TaskStatistics) -> tuple[str, ...] | str:
    return "" if part.features is None else part.features.names


def align_tasks(part: TaskStatistics, tasks: tuple[Hashable, ...]) -> TaskStatistics:
    """Same statistics over ``tasks``, in this order; absent tasks get weight zero."""
    if part.tasks == tasks:
        return part.derive(tasks=tasks)  # these may declare an order
    return _align(part, tasks)


def _align(part: TaskStatistics, tasks: tuple[Hashable, ...]) -> TaskStatistics:
    """Same statistics over ``tasks``, with a Gram matrix for each."""
    d, m = part.shape
    position = {task: i for i, task in enumerate(part.tasks)}
    source = np.array([position.get(task, -1) for task in tasks])
    present = source >= 0
    xx: Array | DeviceGrams
    if isinstance(part.xx, DeviceGrams):
        xx = part.xx.take(source % len(part.xx), present)
    else:
        xx = np.broadcast_to(part.gram(), (m, d, d))
    if part.tasks == tasks:
        return part.derive(xx=xx)

    def take(values: Array) -> Array:
        taken = np.zeros((len(tasks), *values.shape[1:]))
        taken[present] = values[source[present]]
        return taken

    return part.derive(
        weight=take(part.weight),
        x_mean=take(part.x_mean),
        y_mean=take(part.y_mean),
        xx=xx if isinstance(xx, DeviceGrams) else take(xx),
        xy=take(part.xy),
        yy=take(part.yy),
        tasks=tasks,
    )


def _merge_aligned(a: TaskStatistics, b: TaskStatistics) -> TaskStatistics:
    """Chan's formula, all tasks at once; a side of weight zero changes nothing."""
    weight = a.weight + b.weight
    # A task may have no rows on either side yet.
    unit = np.where(weight > 0, weight, 1.0)
    share_a, share_b = a.weight / unit, b.weight / unit
    # w_a w_b / w in an order that makes a + b and b + a agree to the bit.
    between = np.minimum(a.weight, b.weight) * np.maximum(share_a, share_b)
    x_gap, y_gap = a.x_mean - b.x_mean, a.y_mean - b.y_mean
    one = slice(None, len(a.xx))
    xx: Array | MappedGrams | DeviceGrams
    if a.is_mapped and b.is_mapped:
        xx = a.mapped_gram() + b.mapped_gram()
    elif isinstance(a.xx, DeviceGrams) or isinstance(b.xx, DeviceGrams):
        device = next(p.xx.device for p in (a, b) if isinstance(p.xx, DeviceGrams))
        first, second = (DeviceGrams.of(part.xx, device) for part in (a, b))
        xx = first.merge(second, x_gap * between[:, np.newaxis], x_gap)
    else:
        xx = a.gram() + b.gram()
        spread = x_gap[one] * between[one, np.newaxis]
        # Task by task: the outer products of all would be as large as the sum.
        for total, left, right in zip(xx, spread, x_gap[one], strict=True):
            np.add(total, np.outer(left, right), out=total)
    return a.derive(
        weight=weight,
        x_mean=share_a[:, np.newaxis] * a.x_mean + share_b[:, np.newaxis] * b.x_mean,
        y_mean=share_a * a.y_mean + share_b * b.y_mean,
        xx=xx,
        xy=a.xy + b.xy + (between * y_gap)[:, np.newaxis] * x_gap,
        yy=a.yy + b.yy + between * y_gap**2,
    )


# What arithmetic can tell about statistics that come from outside.
#
# With D the centred rows and targets of a task, times the roots of their weights, the
# moments are one matrix DᵀD = [[xx, xy], [xyᵀ, yy]]. So it is finite, symmetric and
# positive semidefinite, which also says that |xy_j|² ≤ xx_jj yy (Cauchy and Schwarz),
# and that xy lies in the range of xx. All of this is checked on correlations, that is,
# after division by standard deviations, so that units do not matter. Eigenvalues cost a
# Cholesky factorisation per task; those of matrices on disk are not computed.

# Of correlations: far above the rounding of sums, and of sums of a million parts.
TOLERANCE = 1e-9


def as_arrays(statistics: TaskStatistics) -> Settings:
    """Fields as arrays of doubles; matrices on disk or on a device stay there."""
    fields: Settings = {}
    for name in (*SHAPES, "xx"):
        value = getattr(statistics, name)
        if isinstance(value, list | tuple | np.ndarray):
            value = value if isinstance(value, np.ndarray) else np.array(value)
            if value.dtype.kind not in "fiu":
                raise ValueError(f"{name} must hold numbers: got {value.dtype}.")
            if value.dtype != np.float64:
                value = value.astype(np.float64)
        fields[name] = value
    if fields["x_mean"].ndim != 2 or not len(fields["x_mean"]):
        raise ValueError(
            "x_mean must have a row for each task and a column for each feature: got "
            f"shape {fields['x_mean'].shape}."
        )
    tasks = statistics.tasks
    # Orders of tasks are tuples, too.
    return fields | {"tasks": tasks if isinstance(tasks, tuple) else tuple(tasks)}


def check_statistics(statistics: TaskStatistics, *, matrices: bool = True) -> None:
    """Fail with task and field if no rows have these statistics.

    Without ``matrices``, xx is not looked at.
    """
    s = statistics
    _check_shapes(s)
    for name in SHAPES:
        values = getattr(s, name)
        positive = name in ("weight", "yy")
        valid = np.isfinite(values)
        if positive:
            valid &= values >= 0
        if not valid.all():
            what = "finite and at least 0" if positive else "finite"
            i, *rest = np.argwhere(~valid)[0].tolist()
            got = f"{values[i, rest[0]]}{_for(s, *rest)}" if rest else values[i]
            raise _wrong(s, name, i, f"must be {what}: got {got}.")
    idle = np.flatnonzero((s.weight == 0) & ((s.yy > 0) | s.xy.any(axis=1)))
    if len(idle):
        words = f"must be positive where the task has moments: got {s.weight[idle[0]]}."
        raise _wrong(s, "weight", int(idle[0]), words)
    if matrices:
        _check_matrices(s)


def _check_shapes(s: TaskStatistics) -> None:
    d, m = s.shape
    sizes = {"m": m, "d": d}
    wanted = {name: tuple(map(sizes.get, axes)) for name, axes in SHAPES.items()}
    wanted["xx"] = (len(s.xx) if len(s.xx) in (1, m) else m, d, d)
    for name, shape in wanted.items():
        array = getattr(s, name)
        if array.shape != shape or array.dtype != np.float64:
            raise ValueError(
                f"{name} must be an array of doubles of shape {shape} for {m} tasks "
                f"and {d} features: got {array.dtype} of shape {array.shape}."
            )
    if s.features is not None and len(s.features) != d:
        raise ValueError(
            f"features must have one name for each of {d} columns: got "
            f"{len(s.features)}."
        )
    for name, labels in (("tasks", s.tasks), ("features", s.features or ())):
        if len(set(labels)) < len(labels):
            twice = next(one for i, one in enumerate(labels) if one in labels[:i])
            raise ValueError(f"{name} must differ: {twice!r} comes twice.")


@np.errstate(all="ignore")
def _check_matrices(s: TaskStatistics) -> None:
    xx, squares = s.xx, s.squared_deviations()
    valid = np.isfinite(squares) & (squares >= 0)
    if not valid.all():
        i, j = np.argwhere(~valid)[0].tolist()
        words = f"must have a finite diagonal of at least 0: got {squares[i, j]}"
        raise _wrong(s, "xx", i, f"{words}{_for(s, j)}.")
    # Squares of smaller numbers leave the range of doubles.
    x_unit = np.maximum(np.sqrt(squares), SMALLEST)
    y_unit = np.maximum(np.sqrt(s.yy), SMALLEST)
    xy = s.xy / x_unit / y_unit[:, np.newaxis]
    if np.any(np.abs(xy) > 1.0 + TOLERANCE):
        i, j = np.unravel_index(int(np.abs(xy).argmax()), xy.shape)
        words = (
            f"must be at most the root of xx times yy: got {s.xy[i, j]:g}{_for(s, j)}, "
            f"where xx is {squares[i, j]:g} and yy {s.yy[i]:g}."
        )
        raise _wrong(s, "xy", int(i), words)
    if not isinstance(xx, np.ndarray | MappedGrams):
        return  # on a device, where we put it
    for tasks, block in _blocks(xx):
        unit = x_unit[tasks]
        gram = block / unit[:, :, np.newaxis]
        gram /= unit[:, np.newaxis]
        # Comparisons with NaN are false.
        symmetric = np.abs(gram - gram.swapaxes(1, 2)) <= TOLERANCE
        if not symmetric.all():
            i, j, k = np.argwhere(~symmetric)[0].tolist()
            pair = f"{block[i, j, k]:g} and {block[i, k, j]:g}"
            words = f"must be finite and symmetric: got {pair}{_for(s, j, k)}."
            raise _wrong(s, "xx", tasks.start + i, words)
        if np.any(np.abs(gram) > 1.0 + TOLERANCE):
            i, j, k = np.unravel_index(int(np.abs(gram).argmax()), gram.shape)
            words = (
                f"must be at most the root of its diagonal: got {block[i, j, k]:g}"
                f"{_for(s, j, k)}, whose squares are {block[i, j, j]:g} and "
                f"{block[i, k, k]:g}."
            )
            raise _wrong(s, "xx", tasks.start + int(i), words)
        if not s.is_mapped:
            _check_definite(s, tasks, gram, xy if s.is_shared else xy[tasks])


def _check_definite(s: TaskStatistics, tasks: slice, gram: Array, xy: Array) -> None:
    """Fail where correlations, with those of the target, have negative eigenvalues."""
    t, d, _ = gram.shape
    if s.is_shared:
        joint = gram
    else:
        joint = np.empty((t, d + 1, d + 1))
        joint[:, :d, :d], joint[:, d, :d], joint[:, :d, d] = gram, xy, xy
        joint[:, d, d] = 1.0
    joint[:, range(joint.shape[1]), range(joint.shape[1])] += TOLERANCE
    try:
        factors = np.linalg.cholesky(joint)
    except np.linalg.LinAlgError:
        for i, (own, whole) in enumerate(zip(gram, joint, strict=True), tasks.start):
            least = float(np.linalg.eigvalsh(own)[0]) if d else 0.0
            if least < -TOLERANCE:
                words = (
                    "must be positive semidefinite: the least eigenvalue of its "
                    f"correlations is {least:.2g}. Subtract means before products are "
                    "summed, or use summarize(X, y, task)."
                )
                raise _wrong(s, "xx", i, words) from None
            if np.linalg.eigvalsh(whole)[0] < 0:
                raise _beyond(s, i) from None
        return  # within rounding
    if s.is_shared:
        explained = np.sum(solve_triangular(factors[0], xy.T, lower=True) ** 2, axis=0)
        beyond = np.flatnonzero(explained > 1.0 + TOLERANCE)
        if len(beyond):
            raise _beyond(s, int(beyond[0]))


def _blocks(xx: Array | MappedGrams) -> Iterator[tuple[slice, Array]]:
    count = max(1, BLOCK_NUMBERS // max(1, xx.size // max(1, len(xx))))
    for start in range(0, len(xx), count):
        tasks = slice(start, min(start + count, len(xx)))
        yield (
            tasks,
            np.asarray(xx.read(tasks) if isinstance(xx, MappedGrams) else xx[tasks]),
        )


def _beyond(s: TaskStatistics, i: int) -> ValueError:
    words = (
        "must be possible with xx and yy: it explains more than yy, since features "
        "that depend on each other have products that do not. Use summarize(X, y, "
        "task)."
    )
    return _wrong(s, "xy", i, words)


def _wrong(s: TaskStatistics, name: str, i: int, words: str) -> ValueError:
    whose = "all tasks" if name == "xx" and s.is_shared else f"task {s.tasks[i]!r}"
    return ValueError(f"{name} of {whose} {words}")


def _for(s: TaskStatistics, *features: Any) -> str:
    names = [int(j) if s.features is None else s.features[j] for j in features]
    listed = " and ".join(map(repr, names))
    return f" for feature{'s' if len(names) > 1 else ''} {listed}"
