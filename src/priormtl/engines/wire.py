"""Partial statistics as bytes: versioned, with a digest, checked on arrival, no pickle.

Gram matrices are symmetric; their upper halves travel.
"""

from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.archive import pack_archive, unpack_archive
from priormtl.data import TaskStatistics, tasks_from_plain, tasks_to_plain
from priormtl.engines.layout import Column, Layout
from priormtl.engines.partial import Partial
from priormtl.exceptions import ModelFileError

__all__ = ["from_bytes", "to_bytes"]

KIND = "partial statistics"
PLAIN = ("weight", "x_mean", "y_mean", "xy", "yy")


def to_bytes(partial: Partial) -> bytes:
    """Pack a partial for a journey between processes or machines.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from priormtl.engines import Recipe, from_bytes, summarize_batch, to_bytes
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "t": ["u", "u"]})
    >>> partial = summarize_batch(Recipe("t", "y"), rows)
    >>> from_bytes(to_bytes(partial)).rows
    2
    """
    settings = {
        "columns": [list(column) for column in partial.layout.columns],
        **tasks_to_plain(partial.tasks),
        "rows": partial.rows,
        "dropped": partial.dropped,
    }
    arrays = {
        name: np.array([getattr(part, name) for part in partial.parts])
        for name in PLAIN
    }
    arrays["xx"] = np.array([_upper(part.gram()) for part in partial.parts])
    arrays["centre"], arrays["observed"] = partial.centre, partial.observed
    arrays["counts"] = partial.counts.astype(np.int64)
    return pack_archive(KIND, settings, arrays)


def from_bytes(content: bytes) -> Partial:
    """Unpack what ``to_bytes`` made; anything else is refused."""
    try:
        return _build(*unpack_archive(bytes(content), KIND))
    except ModelFileError as error:
        raise ModelFileError(f"statistics did not arrive as sent: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ModelFileError(
            "statistics did not arrive as sent: their parts do not fit together."
        ) from None


def _build(settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> Partial:
    layout = Layout(tuple(_column(*values) for values in settings["columns"]))
    tasks, d = tasks_from_plain(settings), layout.starts()[-1]
    _check_shapes(arrays, len(tasks), d, len(layout.columns))
    parts = tuple(
        TaskStatistics(
            **{name: arrays[name][k] for name in PLAIN},
            xx=_whole(arrays["xx"][k], d),
            tasks=tasks,
        )
        for k in range(len(arrays["weight"]))
    )
    counts = arrays["counts"].astype(np.intp)
    rows, dropped = int(settings["rows"]), int(settings["dropped"])
    centre, observed = arrays["centre"], arrays["observed"]
    return Partial(parts, layout, centre, observed, counts, rows, dropped)


def _column(name: Any, values: Any, gaps: Any) -> Column:
    texts = [name, *(values or ())]
    if not all(isinstance(text, str) for text in texts) or type(gaps) is not bool:
        raise TypeError("not a column")
    return Column(name, None if values is None else tuple(values), gaps)


def _check_shapes(arrays: dict[str, np.ndarray], m: int, d: int, c: int) -> None:
    k = len(arrays["weight"])
    expected = {
        "weight": (k, m),
        "x_mean": (k, m, d),
        "y_mean": (k, m),
        "xy": (k, m, d),
        "yy": (k, m),
        "xx": (k, m, d * (d + 1) // 2),
        "centre": (d,),
        "observed": (c,),
        "counts": (m,),
    }
    if k < 1 or {name: array.shape for name, array in arrays.items()} != expected:
        raise ValueError("arrays of wrong shape")


def _upper(xx: Array) -> Array:
    return xx[:, *np.triu_indices(xx.shape[1])]


def _whole(upper: Array, d: int) -> Array:
    rows, columns = np.triu_indices(d)
    xx = np.empty((len(upper), d, d))
    xx[:, rows, columns] = upper
    xx[:, columns, rows] = upper
    return xx
