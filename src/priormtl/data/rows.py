"""take_rows: some rows of whatever users pass as table, targets or labels."""

from typing import Any

import narwhals as nw
import numpy as np
from scipy.sparse import csr_array, issparse

from priormtl._arrays import Index
from priormtl.data.frames import as_frame

__all__ = ["take_rows"]


def take_rows(values: Any, rows: Index) -> Any:
    """Rows by position, of the same kind as ``values``: categories stay in order."""
    frame = as_frame(values)
    if frame is not None:
        return frame[rows].to_native()
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series[rows].to_native()
    if hasattr(values, "to_pylist"):  # a bare array of pyarrow
        return values.take(rows)
    if issparse(values):
        return csr_array(values)[rows]
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]
