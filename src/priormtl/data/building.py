"""build_frame: results as a data frame of the library that the user has."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import narwhals as nw

from priormtl.data.frames import as_frame

__all__ = ["build_frame", "find_frame_library"]

LIBRARIES = ("pandas", "polars", "pyarrow")


def find_frame_library(like: Any) -> Any:
    """Library of a frame, as narwhals calls it; else the first that is installed."""
    frame = as_frame(like)
    if frame is not None:
        return frame.implementation
    for name in LIBRARIES:
        if find_spec(name) is not None:
            return name
    raise ImportError(
        "results are a data frame: install pandas, polars or pyarrow, for example by "
        "pip install pandas."
    )


def build_frame(columns: Mapping[str, Any], library: Any) -> Any:
    """Data frame of these columns."""
    return nw.from_dict(dict(columns), backend=library).to_native()
