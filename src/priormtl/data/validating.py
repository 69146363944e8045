"""Statistics that come from outside: what arithmetic can tell about them.

With D the centred rows and targets of a task, times the roots of their weights, the
moments are one matrix DᵀD = [[xx, xy], [xyᵀ, yy]]. So it is finite, symmetric and
positive semidefinite, which also says that |xy_j|² ≤ xx_jj yy (Cauchy and Schwarz), and
that xy lies in the range of xx. All of this is checked on correlations, that is, after
division by standard deviations, so that units do not matter. Eigenvalues cost a
Cholesky factorisation per task; those of matrices on disk are not computed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from priormtl._arrays import Array
from priormtl.archive import Settings
from priormtl.data.moments import SMALLEST
from priormtl.data.on_disk import BLOCK_NUMBERS, MappedGrams

if TYPE_CHECKING:
    from priormtl.data.statistics import TaskStatistics

# Of correlations: far above the rounding of sums, and of sums of a million parts.
TOLERANCE = 1e-9
SHAPES = {"weight": "m", "x_mean": "md", "y_mean": "m", "xy": "md", "yy": "m"}


def as_arrays(statistics: "TaskStatistics") -> Settings:
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


def check_statistics(statistics: "TaskStatistics", *, matrices: bool = True) -> None:
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


def _check_shapes(s: "TaskStatistics") -> None:
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
def _check_matrices(s: "TaskStatistics") -> None:
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


def _check_definite(s: "TaskStatistics", tasks: slice, gram: Array, xy: Array) -> None:
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


def _beyond(s: "TaskStatistics", i: int) -> ValueError:
    words = (
        "must be possible with xx and yy: it explains more than yy, since features "
        "that depend on each other have products that do not. Use summarize(X, y, "
        "task)."
    )
    return _wrong(s, "xy", i, words)


def _wrong(s: "TaskStatistics", name: str, i: int, words: str) -> ValueError:
    whose = "all tasks" if name == "xx" and s.is_shared else f"task {s.tasks[i]!r}"
    return ValueError(f"{name} of {whose} {words}")


def _for(s: "TaskStatistics", *features: Any) -> str:
    names = [int(j) if s.features is None else s.features[j] for j in features]
    listed = " and ".join(map(repr, names))
    return f" for feature{'s' if len(names) > 1 else ''} {listed}"
