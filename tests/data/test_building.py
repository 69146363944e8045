"""Results come back in the library that the user has."""

import importlib.util

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from priormtl.data import build_frame, find_frame_library, tables

COLUMNS = {"name": ["a", "b"], "value": [1.0, float("nan")]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_come_back_as_they_came(library):
    like = library({"x": [1.0]})
    frame = build_frame(COLUMNS, find_frame_library(like))
    assert type(frame) is type(like)
    names = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    assert names == list(COLUMNS)


@pytest.mark.parametrize(
    ("missing", "kind"),
    [
        ((), pd.DataFrame),
        (("pandas",), pl.DataFrame),
        (("pandas", "polars"), pa.Table),
    ],
)
def test_arrays_take_the_first_library_installed(monkeypatch, missing, kind):
    without(monkeypatch, missing)
    frame = build_frame(COLUMNS, find_frame_library(np.eye(2)))
    assert isinstance(frame, kind)


def test_no_library_is_said(monkeypatch):
    without(monkeypatch, tables.LIBRARIES)
    with pytest.raises(ImportError, match="install pandas, polars or pyarrow"):
        find_frame_library(np.eye(2))


def without(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        tables, "find_spec", lambda name: None if name in missing else find(name)
    )
