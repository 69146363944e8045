"""Tables of every library give the same numbers, and results come back in it."""

import importlib.util
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix, csc_array, csr_array, issparse

import priormtl
from priormtl.data import (
    encode_labels,
    read_matrix,
    read_targets,
    split_task_column,
    take_rows,
)
from priormtl.design import (
    as_frame,
    build_frame,
    column_names,
    find_frame_library,
)
from priormtl.design import (
    frames as libraries,
)

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)

COLUMNS = {
    "floats": [0.5, 1.5, -2.0],
    "integers": [1, 2, 3],
    "large": [2**40, -(2**40), 0],
    "booleans": [True, False, True],
    "decimals": [Decimal("0.25"), Decimal("-1.5"), Decimal(3)],
}

MATRIX = np.array([[float(v) for v in column] for column in COLUMNS.values()]).T


@frames
def test_every_library_gives_the_same_matrix_and_names(frame):
    table = frame(COLUMNS)
    matrix = read_matrix(table)
    np.testing.assert_array_equal(matrix, MATRIX)
    assert matrix.dtype == np.float64
    assert column_names(table) == tuple(COLUMNS)
    assert as_frame(table) is not None


NARROW = {
    "float32": np.array([0.5, 1.5], np.float32),
    "float16": np.array([0.5, 1.5], np.float16),
    "int8": np.array([-100, 100], np.int8),
    "uint64": np.array([0, 2**63], np.uint64),
}


@frames
@pytest.mark.parametrize("values", NARROW.values(), ids=NARROW)
def test_narrow_numbers_are_widened(frame, values):
    matrix = read_matrix(frame({"a": values}))
    np.testing.assert_array_equal(matrix[:, 0], values.astype(np.float64))
    assert matrix.dtype == np.float64


@pytest.mark.parametrize("dtype", ["Int64", "UInt8", "boolean", "Float32", "Float64"])
def test_nullable_pandas_columns_are_numbers(dtype):
    table = pd.DataFrame({"a": pd.array([1, 0, 1], dtype=dtype)})
    np.testing.assert_array_equal(read_matrix(table), [[1.0], [0.0], [1.0]])


def test_arrow_columns_of_pandas_are_numbers():
    table = pd.DataFrame({"a": pd.array([1, 2], dtype=pd.ArrowDtype(pa.int32()))})
    np.testing.assert_array_equal(read_matrix(table), [[1.0], [2.0]])


def test_untyped_columns_of_numbers_are_numbers():
    table = pd.DataFrame({"a": pd.Series([1, 2.5, np.int8(3)], dtype=object)})
    np.testing.assert_array_equal(read_matrix(table), [[1.0], [2.5], [3.0]])


def test_frames_without_names_are_read_by_position():
    table = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(read_matrix(table), np.arange(6.0).reshape(3, 2))
    assert column_names(table) is None


def test_names_that_are_numbers_are_not_positions():
    table = pd.DataFrame({1: [1.0, 2.0], 0: [3.0, 4.0]})
    np.testing.assert_array_equal(read_matrix(table), [[1.0, 3.0], [2.0, 4.0]])


def test_the_index_of_a_frame_does_not_matter():
    table = pd.DataFrame({"a": [1.0, 2.0]}, index=[5, 5])
    np.testing.assert_array_equal(read_matrix(table), [[1.0], [2.0]])


@frames
def test_many_columns_are_read(frame):
    table = frame({f"x{j}": [float(j), -float(j)] for j in range(2000)})
    np.testing.assert_array_equal(read_matrix(table)[0], np.arange(2000.0))


@pytest.mark.parametrize("form", [csr_array, csc_array, coo_matrix])
def test_sparse_tables_stay_sparse(form):
    matrix = read_matrix(form(np.array([[1, 0], [0, 2]])))
    assert issparse(matrix)
    assert matrix.format == "csr"
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix.toarray(), [[1.0, 0.0], [0.0, 2.0]])


def test_arrays_have_no_column_names():
    assert column_names(np.eye(2)) is None
    assert as_frame(np.eye(2)) is None


@frames
def test_a_text_column_is_refused_by_name(frame):
    table = frame({"age": [1.0, 2.0], "city": ["x", "y"]})
    with pytest.raises(ValueError, match="X column 'city' must be numeric: got String"):
        read_matrix(table)


@frames
def test_numbers_written_as_text_are_refused(frame):
    with pytest.raises(
        ValueError, match="X column 'price' must be numeric: got String"
    ):
        read_matrix(frame({"price": ["1,5", "2,5"]}))


@frames
def test_dates_are_refused_by_name(frame):
    table = frame({"day": np.array(["2020-01-01"], dtype="M8[us]")})
    with pytest.raises(
        ValueError, match="X column 'day' must be numeric: got Datetime"
    ):
        read_matrix(table)


def test_untyped_text_is_refused_by_name():
    table = pd.DataFrame({"mixed": pd.Series([1, "a"], dtype=object)})
    with pytest.raises(ValueError, match="X column 'mixed' must be numeric"):
        read_matrix(table)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "twin", "twin"]),
        pa.table([[1.0], [2.0], [3.0]], names=["a", "twin", "twin"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_columns_of_the_same_name_are_refused(table):
    with pytest.raises(ValueError, match="twin"):
        read_matrix(table)


BAD_VALUES = {
    "NaN": (np.nan, "contains NaN; fill or drop"),
    "inf": (np.inf, "contains inf; replace or drop"),
    "minus inf": (-np.inf, "contains inf; replace or drop"),
    "huge": (1e200, r"contains values beyond 1e\+100; rescale it"),
    "minus huge": (-1e200, r"contains values beyond 1e\+100; rescale it"),
}

bad_values = pytest.mark.parametrize(
    ("value", "message"), BAD_VALUES.values(), ids=BAD_VALUES
)


@frames
@bad_values
def test_bad_values_are_refused_with_the_columns_name(frame, value, message):
    table = frame({"good": [1.0, 2.0], "bad": [1.0, value]})
    with pytest.raises(ValueError, match=f"X must be finite: column 'bad' {message}"):
        read_matrix(table)


@bad_values
@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_bad_values_are_refused_with_the_columns_position(form, value, message):
    table = form(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, value]]))
    with pytest.raises(ValueError, match=f"X must be finite: column 2 {message}"):
        read_matrix(table)


@frames
def test_missing_numbers_are_refused_with_the_columns_name(frame):
    for values in ([1, None], [True, None], [0.5, None]):
        if frame is pd.DataFrame and values[0] is True:
            values = pd.array(values, dtype="boolean")  # noqa: PLW2901
        with pytest.raises(ValueError, match="column 'bad' contains NaN"):
            read_matrix(frame({"bad": values}))


def test_values_of_any_usable_size_are_read():
    values = np.array([[1e100, -1e100, 5e-324, 0.0]])
    np.testing.assert_array_equal(read_matrix(values), values)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), r"two dimensions: got shape \(3,\)"),
        (np.ones((1, 2, 3)), r"two dimensions: got shape \(1, 2, 3\)"),
        (pd.Series([1.0]), r"two dimensions: got shape \(1,\)"),
        (np.array([["a"]]), "X must"),
        ([[1.0, 2.0], [3.0]], "X must"),
        (np.array([[1j]]), "X must"),
        (pl.DataFrame({"a": [1.0]}).lazy(), "X must"),
    ],
    ids=["flat", "3-D", "series", "text", "ragged", "complex", "lazy"],
)
def test_other_things_are_refused_by_the_name_of_the_argument(X, message):
    with pytest.raises(ValueError, match=message):
        read_matrix(X)


def test_a_table_without_rows_or_columns_is_read():
    assert read_matrix(pd.DataFrame(index=[0, 1])).shape == (2, 0)
    assert read_matrix(pl.DataFrame({"a": []}, schema={"a": pl.Float64})).shape == (
        0,
        1,
    )


TARGETS = {
    "list": [1.0, None],
    "numpy": np.array([1.0, np.nan]),
    "objects": np.array([1, None], dtype=object),
    "pandas": pd.Series([1.0, None]),
    "pandas Int64": pd.Series([1, None], dtype="Int64"),
    "pandas objects": pd.Series([1, None], dtype=object),
    "polars": pl.Series([1, None]),
    "pyarrow": pa.chunked_array([[1, None]]),
    "pyarrow array": pa.array([1.0, None]),
}


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_missing_targets_become_nan(y):
    found = read_targets(y)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.0, np.nan])


@frames
def test_columns_of_targets_are_read_with_their_gaps(frame):
    found = read_targets(frame({"p": [1.0, None], "q": [3, 4]}))
    np.testing.assert_array_equal(found, [[1.0, 3.0], [np.nan, 4.0]])


@pytest.mark.parametrize(
    "y", [pl.Series([True, False]), pd.Series([1, 0], dtype="int8")]
)
def test_targets_may_be_booleans_or_integers(y):
    np.testing.assert_array_equal(read_targets(y), [1.0, 0.0])


@pytest.mark.parametrize(
    "y",
    [
        ["a", "b"],
        np.array(["a", "b"]),
        pd.Series(["a", "b"]),
        pd.Series([1, "b"], dtype=object),
        pl.Series(["a", "b"]),
        pd.DataFrame({"p": ["a", "b"]}),
    ],
    ids=["list", "numpy", "pandas", "pandas objects", "polars", "frame"],
)
def test_text_targets_are_refused_by_the_name_of_the_argument(y):
    with pytest.raises(ValueError, match=r"^y "):
        read_targets(y)


def test_text_weights_are_refused_by_the_name_of_the_argument():
    with pytest.raises(ValueError, match="weight must"):
        read_targets(["a"], "weight")


@frames
def test_the_task_column_is_taken_out_by_name(frame):
    table = frame({"u": [1.0, 2.0], "school": ["b", "a"], "v": [3.0, 4.0]})
    X, labels = split_task_column(table, "school")
    assert isinstance(X, type(table))
    assert column_names(X) == ("u", "v")
    np.testing.assert_array_equal(read_matrix(X), [[1.0, 3.0], [2.0, 4.0]])
    assert list(map(str, labels)) == ["b", "a"]


def test_a_numbered_column_is_taken_out_of_a_frame_by_its_name():
    table = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    X, labels = split_task_column(table, 1)
    assert list(X.columns) == [0]
    assert list(labels) == [1.0, 3.0, 5.0]


def test_categories_survive_the_split():
    labels = pd.Categorical(["b", "a"], categories=["b", "a"])
    table = pd.DataFrame({"u": [1.0, 2.0], "school": labels})
    _, found = split_task_column(table, "school")
    assert encode_labels(found, 2)[1] == ("b", "a")


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("position", [1, -2, np.int64(1)])
def test_the_task_column_is_taken_out_by_position(form, position):
    table = form(np.arange(6.0).reshape(2, 3))
    X, labels = split_task_column(table, position)
    others = X.toarray() if issparse(X) else X
    np.testing.assert_array_equal(others, [[0.0, 2.0], [3.0, 5.0]])
    np.testing.assert_array_equal(labels, [1.0, 4.0])


def test_a_list_is_split_by_position():
    X, labels = split_task_column([[1.0, 7.0], [2.0, 8.0]], 1)
    np.testing.assert_array_equal(X, [[1.0], [2.0]])
    assert labels.tolist() == [7.0, 8.0]


@frames
def test_an_unknown_column_is_answered_with_a_near_one(frame):
    message = r"unknown column of X for task 'schol'; known: 'school'. Did you mean"
    with pytest.raises(ValueError, match=message):
        split_task_column(frame({"school": ["a"]}), "schol")


@pytest.mark.parametrize("name", ["school", True, 1.0])
def test_an_array_has_no_named_columns(name):
    with pytest.raises(ValueError, match="names a column, but X has no column names"):
        split_task_column(np.eye(3), name)


@pytest.mark.parametrize("position", [3, -4])
def test_a_position_must_exist(position):
    with pytest.raises(ValueError, match=r"must be a column of X: got shape \(3, 3\)"):
        split_task_column(np.eye(3), position)


@frames
def test_a_text_target_is_refused(frame):
    _, y = split_task_column(frame({"u": [1.0], "y": ["a"]}), "y")
    with pytest.raises(ValueError, match="y must be numeric: got String"):
        read_targets(y)


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


SUMMARIZE = "data.summarize(numpy.eye(3), numpy.ones(3), ['a', 'b', 'a']).tasks"


def test_reading_data_imports_no_frame_library():
    # A bare package: the full one imports scikit-learn, which imports pandas.
    code = (
        "import sys, types, numpy\n"
        f"sys.modules['priormtl'] = package = types.ModuleType('priormtl')\n"
        f"package.__path__ = [{str(Path(priormtl.__file__).parent)!r}]\n"
        f"import priormtl.data as data\n"
        f"{SUMMARIZE}\n"
        "print(sorted({'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"


def test_data_are_read_where_no_frame_library_is_installed():
    code = (
        "import sys, numpy\n"
        "sys.modules.update(dict.fromkeys(['pandas', 'polars', 'pyarrow']))\n"
        "import priormtl.data as data\n"
        f"print({SUMMARIZE})"
    )
    assert run_python(code) == "('a', 'b')"


def test_lazy_frames_are_told_to_be_collected():
    with pytest.raises(ValueError, match=r"got a lazy LazyFrame. Call its collect\(\)"):
        read_matrix(pl.LazyFrame({"x": [1.0]}))


def test_columns_of_one_name_are_refused_in_one_sentence():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "b"])
    with pytest.raises(ValueError, match=r"got 'a' 2 times; rename them\.$"):
        read_matrix(frame)


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


COLUMNS_BUILDING = {"name": ["a", "b"], "value": [1.0, float("nan")]}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_come_back_as_they_came(library):
    like = library({"x": [1.0]})
    frame = build_frame(COLUMNS_BUILDING, find_frame_library(like))
    assert type(frame) is type(like)
    names = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    assert names == list(COLUMNS_BUILDING)


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
    frame = build_frame(COLUMNS_BUILDING, find_frame_library(np.eye(2)))
    assert isinstance(frame, kind)


def test_no_library_is_said(monkeypatch):
    without(monkeypatch, libraries.LIBRARIES)
    with pytest.raises(ImportError, match="install pandas, polars or pyarrow"):
        find_frame_library(np.eye(2))


def without(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        libraries,
        "find_spec",
        lambda name: None if name in missing else find(name),
    )


def test_narwhals_is_used_through_its_stable_interface_only():
    folder = Path(priormtl.__file__).parent
    lines = [
        line
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(import|from) narwhals\b", line)
    ]
    assert lines
    assert all("narwhals.stable.v2" in line for line in lines)
