"""Tables from files: three layouts, text encoded, all else refused by a sentence."""

import decimal
import gzip
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from priormtl.cli.tables import MOST_CODES, encode_text, read_table, split_table

TEXT = "x,kind,school,score\n1,a,n,0.5\n2,b,s,1.5\n3,a,n,2.5\n"
TABLE = pa.table(
    {
        "x": [1, 2, 3],
        "kind": ["a", "b", "a"],
        "school": ["n", "s", "n"],
        "score": [0.5, 1.5, 2.5],
    }
)


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        if isinstance(content, pa.Table):
            parquet.write_table(content, path)
        else:
            path.write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        return path

    return write


def split(table):
    return split_table(table, task="school", target="score")


def test_layouts_hold_the_same(write, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    write(TABLE.slice(0, 2), "parts/1.parquet")
    write(TABLE.slice(2), "parts/2.parquet")
    write("no table", "parts/notes.txt")
    paths = [
        write(TEXT),
        write(TABLE, "table.parquet"),
        write(TABLE, "year=7.csv"),
        folder,
        write(gzip.compress(TEXT.encode()), "table.csv.gz"),
    ]
    for path in paths:
        assert read_table(path).to_pydict() == TABLE.to_pydict(), path


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + TEXT,
        TEXT.replace("\n", "\r\n"),
        TEXT.rstrip("\n"),
        TEXT.replace("kind", '"kind"').replace(",a,", ',"a",'),
    ],
)
def test_dialects_of_csv(write, content):
    assert read_table(write(content)).to_pydict() == TABLE.to_pydict()


def test_quotes_may_span_lines(write):
    table = read_table(write('x,kind\n1,"two\nlines"\n2,b\n'))
    assert table["kind"].to_pylist() == ["two\nlines", "b"]


def test_features_targets_and_tasks_are_told_apart():
    rows = split(TABLE)
    assert rows.X.to_pydict() == {
        "x": [1.0, 2.0, 3.0],
        "kind=a": [1.0, 0.0, 1.0],
        "kind=b": [0.0, 1.0, 0.0],
    }
    assert rows.encoded == ("kind",)
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
    assert encode_text(pa.table({"c": column}))[0].to_pydict() == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("x,y\n", "has no rows"),
        ("x,x\n1,2\n", "2 columns have the name 'x'"),
        (",x\n0,1\n", "column without a name at position 1.*index=False"),
        ("x,y\n1,2\n3\n", "cannot be read as CSV"),
        (TEXT.encode("utf-16"), "cannot be read as CSV"),
        (b"PAR1 cut", "cannot be read as Parquet"),
        (TABLE.slice(0, 0), "has no rows"),
    ],
)
def test_unusable_files_are_refused(write, content, words):
    with pytest.raises(ValueError, match=words) as refused:
        read_table(write(content))
    assert "\n" not in str(refused.value)


def test_missing_files_and_folders_are_refused(write, tmp_path):
    with pytest.raises(OSError, match="is not a file or folder"):
        read_table(tmp_path / "nothing.csv")
    folder = tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"no files that end in \.parquet"):
        read_table(folder)
    write(TABLE, "parts/1.parquet")
    write(TABLE.drop_columns(["x"]), "parts/2.parquet")
    with pytest.raises(
        ValueError, match=r"2\.parquet must have the columns.*1\.parquet"
    ):
        read_table(folder)


def with_column(name, values):
    return TABLE.set_column(TABLE.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (with_column("x", [1, None, 3]), "column 'x' lacks 1 of 3"),
        (with_column("x", [1.0, float("nan"), 3.0]), "column 'x' lacks 1 of 3"),
        (with_column("kind", ["a", None, None]), "column 'kind' lacks 2 of 3"),
        (with_column("score", [None, 1.0, 2.0]), "column 'score' lacks 1 of 3"),
        (with_column("school", [None, "n", "s"]), "column 'school' lacks 1 of 3"),
        (with_column("x", pa.nulls(3)), "column 'x' lacks 3 of 3 values"),
        (with_column("x", [date(2020, 1, 1)] * 3), "column 'x' must hold numbers"),
        (with_column("x", [[1], [2], [3]]), "column 'x' must hold numbers"),
        (TABLE.select(["school", "score"]), "needs features"),
        (TABLE.rename_columns(["x", "kind", "school", "scores"]), "mean 'scores'"),
        (TABLE.append_column("kind=a", TABLE["x"]), "2 columns have the name 'kind=a'"),
    ],
)
def test_unusable_columns_are_refused(table, words):
    with pytest.raises(ValueError, match=words):
        split(table)


def test_the_task_is_not_the_target():
    with pytest.raises(ValueError, match="two columns: both are 'x'"):
        split_table(TABLE, task="x", target="x")


def test_text_that_is_hardly_categories_is_refused():
    texts = [f"{i},5" for i in range(MOST_CODES + 1)]
    with pytest.raises(
        ValueError, match=r"'c' holds 101 different texts.*decimal points"
    ):
        encode_text(pa.table({"c": texts}))


def test_missing_values_of_csv_are_seen_in_text_too(write):
    table = read_table(write("x,kind\n1,\n2,NA\n3,b\n"))
    assert table["kind"].null_count == 2
    assert read_table(write('x,kind\n1,"NA"\n')).to_pydict()["kind"] == ["NA"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_damaged_files_give_a_table_or_a_sentence(write, kind):
    path = write(TABLE if kind == "parquet" else TEXT, f"whole.{kind}")
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [content[:end] for end in range(0, len(content), max(1, len(content) // 60))]
    flips = [flip(content, rng) for _ in range(200)]
    assert all("\n" not in reading(path, damaged) for damaged in cuts + flips)


def reading(path, content):
    """What reading says; errors of other kinds are not expected."""
    path.write_bytes(content)
    try:
        split(read_table(path))
    except (OSError, ValueError) as refused:
        return str(refused)
    return "fine"


def flip(content, rng):
    damaged = bytearray(content)
    for place in rng.integers(len(content), size=3):
        damaged[place] = rng.integers(256)
    return bytes(damaged)
