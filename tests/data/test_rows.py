"""Rows of anything that users pass, of the same kind."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csc_array, issparse

from priormtl.data import encode_labels, take_rows

ROWS = np.array([2, 0])


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_rows_of_frames_are_frames(library):
    frame = library({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
    part = take_rows(frame, ROWS)
    assert type(part) is type(frame)
    assert list(np.asarray(part["a"])) == [3.0, 1.0]


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3]),
        pd.Series([1, 2, 3], index=[7, 7, 7]),
        pl.Series([1, 2, 3]),
        pa.array([1, 2, 3]),
        pa.chunked_array([[1, 2], [3]]),
    ],
)
def test_rows_of_columns(values):
    assert list(np.asarray(take_rows(values, ROWS))) == [3, 1]


def test_rows_of_sparse_matrices():
    part = take_rows(csc_array(np.diag([1.0, 2.0, 3.0])), ROWS)
    assert issparse(part)
    np.testing.assert_array_equal(part.toarray(), [[0, 0, 3], [1, 0, 0]])


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical(["b", "c", "a"], categories=["c", "b", "a"]),
        pd.Series(pd.Categorical(["b", "c", "a"], categories=["c", "b", "a"])),
        pl.Series(["b", "c", "a"], dtype=pl.Enum(["c", "b", "a"])),
        pa.DictionaryArray.from_arrays([1, 0, 2], ["c", "b", "a"], ordered=True),
    ],
)
def test_categories_keep_their_order(labels):
    _, tasks = encode_labels(take_rows(labels, ROWS), 2)
    assert tasks == ("b", "a")
