"""read_rows: whole tables, encoded as the statistics of the same files are."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mixed_rows import encode, mixed_frame, to_arrow
from priormtl.engines import read_rows, summarize

COLUMNS = {
    "task": "school",
    "target": "score",
    "weight": "w",
    "features": ["size", "colour", "count"],
}


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_rows_are_those_of_pandas(missing):
    frame = mixed_frame(gaps=0.1)
    rows = read_rows(to_arrow(frame), missing=missing, **COLUMNS)
    X, kept, weight = encode(frame, missing)
    np.testing.assert_allclose(rows.X.to_pandas(), X, rtol=1e-12)
    assert rows.X.column_names == list(X)
    assert rows.y.to_pylist() == kept["score"].tolist()
    assert rows.task.to_pylist() == kept["school"].tolist()
    np.testing.assert_array_equal(rows.weight, weight)
    assert rows.read == 200
    assert rows.dropped == 200 - len(kept)


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_the_encoding_is_that_of_statistics(missing):
    table = to_arrow(mixed_frame(gaps=0.1))
    rows = read_rows(table, missing=missing, **COLUMNS)
    whole = summarize(table, missing=missing, **COLUMNS).whole
    expected = whole.encoding.with_means(whole.pooled_means())
    assert rows.encoding.columns == expected.columns
    assert (rows.encoding.missing, rows.encoding.task) == (missing, "school")
    np.testing.assert_allclose(rows.encoding.means, expected.means, rtol=1e-12)


def test_targets_stay_as_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y,t\n1,0,u\n2,1,u\n")
    assert read_rows(path, task="t", target="y").y.to_pylist() == [0, 1]
    text = pa.table({"x": [1], "y": ["no"], "t": [1]})
    assert read_rows(text, task="t", target="y").y.to_pylist() == ["no"]


def test_files_may_differ_in_types_of_numbers_only(tmp_path):
    for name, x in (("a", [1]), ("b", [0.5])):
        table = pa.table({"x": x, "y": [1], "t": ["u"]})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    told = []
    rows = read_rows(tmp_path, task="t", target="y", advance=told.append)
    assert rows.X["x"].to_pylist() == [1.0, 0.5]
    assert sum(told) == sum(path.stat().st_size for path in tmp_path.iterdir())
    table = pa.table({"x": ["one"], "y": [1], "t": ["u"]})
    parquet.write_table(table, tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="must hold columns of one kind"):
        read_rows(tmp_path, task="t", target="y")


@pytest.mark.parametrize(
    ("change", "missing", "words"),
    [
        ({"x": [1.0, float("nan")]}, "error", "column 'x' lacks 1 of 2 values"),
        ({"y": [None, "a"]}, "error", "column 'y' lacks 1 of 2 values"),
        ({"t": [float("nan"), 1.0]}, "error", "column 't' lacks 1 of 2 values"),
        ({"x": [None, None]}, "mean", "column 'x' has no values at all"),
        ({"x": [None, None]}, "drop", "there must be rows to learn from: 2 were read"),
    ],
)
def test_unusable_tables_are_refused(change, missing, words):
    table = pa.table({"x": [1.0, 2.0], "y": ["a", "b"], "t": ["u", "u"]} | change)
    with pytest.raises(ValueError, match=words):
        read_rows(table, task="t", target="y", missing=missing)
