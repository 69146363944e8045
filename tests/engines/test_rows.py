"""read_rows: whole tables, encoded as the statistics of the same files are."""

import decimal
import gzip

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


TEXT = "x,kind,school,score\n1,a,n,0.5\n2,b,s,1.5\n3,a,n,2.5\n"
TABLE = pa.table(
    {
        "x": [1, 2, 3],
        "kind": ["a", "b", "a"],
        "school": ["n", "s", "n"],
        "score": [0.5, 1.5, 2.5],
    }
)
ENCODED = {"x": [1, 2, 3], "kind=a": [1, 0, 1], "kind=b": [0, 1, 0]}


def write(path, content):
    if isinstance(content, pa.Table):
        parquet.write_table(content, path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("a.csv", TEXT, id="csv"),
        pytest.param("a.parquet", TABLE, id="parquet"),
        pytest.param("year=7.parquet", TABLE, id="looks-like-a-partition"),
        pytest.param("a.csv.gz", gzip.compress(TEXT.encode(), mtime=0), id="gzip"),
        pytest.param("a.csv", "\ufeff" + TEXT, id="byte-order-mark"),
        pytest.param("a.csv", TEXT.replace("\n", "\r\n"), id="windows"),
        pytest.param("a.csv", TEXT.rstrip("\n"), id="no-last-newline"),
        pytest.param(
            "a.csv",
            TEXT.replace("kind", '"kind"').replace(",a,", ',"a",'),
            id="quoted",
        ),
    ],
)
def test_layouts_and_dialects_hold_the_same(tmp_path, name, content):
    path = write(tmp_path / name, content)
    rows = read_rows(path, task="school", target="score")
    assert rows.X.to_pydict() == ENCODED
    assert rows.y.to_pylist() == [0.5, 1.5, 2.5]
    assert rows.task.to_pylist() == ["n", "s", "n"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([True, False]), {"c": [1.0, 0.0]}),
        (pa.array([2**60, 1]), {"c": [float(2**60), 1.0]}),
        (pa.array([decimal.Decimal("1.5"), decimal.Decimal(2)]), {"c": [1.5, 2.0]}),
        (pa.array(np.array([1, 2], np.float16)), {"c": [1.0, 2.0]}),
        (pa.array(["b", "a"], pa.large_string()), {"c=a": [0, 1], "c=b": [1, 0]}),
        (pa.array(["b", "a"], pa.string_view()), {"c=a": [0, 1], "c=b": [1, 0]}),
        (pa.array(["b", "a"]).dictionary_encode(), {"c=a": [0, 1], "c=b": [1, 0]}),
    ],
)
def test_kinds_of_columns(column, expected):
    table = pa.table({"c": column, "t": ["u", "u"], "y": [0, 1]})
    assert read_rows(table, task="t", target="y").X.to_pydict() == expected


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_damaged_files_give_rows_or_a_sentence(tmp_path, kind):
    path = write(tmp_path / f"a.{kind}", TABLE if kind == "parquet" else TEXT)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    step = max(1, len(content) // 40)
    damaged = [content[:end] for end in range(0, len(content), step)]
    damaged += [flip(content, rng) for _ in range(100)]
    assert all("\n" not in reading(path, one) for one in damaged)


def flip(content, rng):
    damaged = bytearray(content)
    for place in rng.integers(len(content), size=3):
        damaged[place] = rng.integers(256)
    return bytes(damaged)


def reading(path, content):
    """What reading says; errors of other kinds are not expected."""
    try:
        read_rows(write(path, content), task="school", target="score")
    except (OSError, ValueError) as refused:
        return str(refused)
    return "fine"


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


@pytest.mark.parametrize("read", [read_rows, summarize])
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -2.5], "column 'w' must hold weights, which are not negative: got -2.5"),
        ([0.0, 0.0], "0 of them dropped for missing values and 2 of weight zero"),
        ([1.0, 1e300], "column 'w' must hold finite numbers up to 1e"),
    ],
)
def test_weights_of_no_use_are_named(read, weights, words):
    table = pa.table({"x": [1.0, 2.0], "y": [1, 2], "t": ["u", "u"], "w": weights})
    with pytest.raises(ValueError, match=words):
        read(table, task="t", target="y", weight="w")
