"""One pass over files gives what the rows in memory give."""

import decimal
import gc
import gzip
import threading
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import csv, feather, parquet

from drawn_tables import (
    assert_same_columns,
    encode_naively,
    mixed_frame,
    summarize_naively,
    to_arrow,
)
from priormtl._machine import memory_limit
from priormtl.data import align_tasks, from_labels, pooled_means, summarize_tasks
from priormtl.engines import batches, open_source, read_rows, summarize
from priormtl.engines import parquet as engine
from priormtl.engines.parquet import refuse_beyond_memory
from priormtl.exceptions import DataFileError

COLUMNS = {
    "task": "school",
    "target": "score",
    "weight": "w",
    "features": ["size", "colour", "count"],
}
WRITERS = {
    "csv": csv.write_csv,
    "parquet": lambda table, path: parquet.write_table(table, path, row_group_size=23),
    "arrow": feather.write_feather,
}


def write_folder(frame, folder, kind, count=3):
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), count)):
        WRITERS[kind](to_arrow(frame.iloc[rows]), folder / f"{i}.{kind}")
    return folder


@pytest.mark.parametrize(
    ("kind", "missing", "rows"),
    [
        *((kind, missing, 17) for kind in WRITERS for missing in ("drop", "mean")),
        *((kind, "mean", None) for kind in WRITERS),
        ("arrow", "mean", 1),
    ],
)
def test_files_give_what_memory_gives(tmp_path, kind, missing, rows):
    frame = mixed_frame(gaps=0.15)
    shuffled = frame.sample(frac=1.0, random_state=0)
    folder = write_folder(shuffled, tmp_path, kind)
    found = summarize(folder, **COLUMNS, missing=missing, batch_rows=rows)
    assert_same_columns(found.whole, summarize_naively(frame, missing))
    assert found.rows == 200
    assert found.counts.keys() == set("abcde")


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("key", ["id", None])
def test_folds_are_the_same_from_any_file(tmp_path, kind, key):
    frame = mixed_frame()
    folder = write_folder(frame.sample(frac=1.0, random_state=1), tmp_path, kind)
    expected = summarize(ds.dataset(to_arrow(frame)), **COLUMNS, folds=4, key=key)
    found = summarize(folder, **COLUMNS, folds=4, key=key, batch_rows=11)
    for part, twin in zip(found.parts, expected.parts, strict=True):
        assert_same_columns(part, twin)
    assert_same_columns(found.whole, summarize_naively(frame))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_categories_of_pandas_put_tasks_in_order(tmp_path, kind):
    frame, order = mixed_frame(), ["e", "none", "c", "a", "d", "b"]
    frame["school"] = pd.Categorical(frame["school"], categories=order)
    frame = frame.sort_values("school")  # so that no file has all tasks
    folder = write_folder(frame, tmp_path, kind)
    found = summarize(folder, **COLUMNS, batch_rows=17).whole
    assert found.tasks == ("e", "c", "a", "d", "b")
    assert_same_columns(found, align_tasks(summarize_naively(frame), found.tasks))


def test_filters_leave_rows_out(tmp_path):
    frame = mixed_frame()
    folder = write_folder(frame, tmp_path, "parquet")
    found = summarize(folder, **COLUMNS, where="id >= 50 and colour != 'red'")
    kept = frame[(frame["id"] >= 50) & (frame["colour"] != "red")]
    assert_same_columns(found.whole, summarize_naively(kept))


def test_small_tasks_are_left_out(tmp_path):
    frame = mixed_frame()
    folder = write_folder(frame, tmp_path, "parquet")
    columns = {**COLUMNS, "missing": "drop"}
    whole = summarize(folder, **columns)
    least = sorted(whole.counts.values())[2]
    found = summarize(folder, **columns, min_rows=least)
    assert found.counts == whole.without_small(least).counts
    assert found.whole.tasks == tuple(found.counts)
    assert len(found.counts) < len(whole.counts)
    with pytest.raises(ValueError, match="min_rows must be a whole number from 1 on"):
        summarize(folder / "absent", **columns, min_rows=2.5)


def test_files_may_store_numbers_in_several_types(tmp_path):
    frame = mixed_frame()
    frame["size"] = frame["size"].astype("float32").astype(float)
    first, second = to_arrow(frame.iloc[:100]), to_arrow(frame.iloc[100:])
    narrow = first.set_column(0, "size", first["size"].cast(pa.float32()))
    parquet.write_table(narrow, tmp_path / "a.parquet")
    parquet.write_table(second, tmp_path / "b.parquet")
    assert_same_columns(summarize(tmp_path, **COLUMNS).whole, summarize_naively(frame))


def test_bytes_are_told_and_add_up(tmp_path):
    source = open_source(write_folder(mixed_frame(), tmp_path, "parquet"))
    told = []
    summarize(source, **COLUMNS, batch_rows=30, advance=told.append)
    assert sum(told) == source.size
    assert len(told) > 6


def test_errors_in_rows_name_their_file(tmp_path):
    frame = mixed_frame()
    frame.loc[150, "size"] = None
    folder = write_folder(frame, tmp_path, "parquet")
    with pytest.raises(DataFileError, match=r"2\.parquet: column 'size' lacks 1 of"):
        summarize(folder, **COLUMNS)


def test_a_file_of_other_types_is_named(tmp_path):
    folder = write_folder(mixed_frame(), tmp_path, "parquet")
    other = mixed_frame(20)
    parquet.write_table(to_arrow(other.assign(size="big")), tmp_path / "1.parquet")
    with pytest.raises(DataFileError, match=r"1\.parquet: column 'size' must hold num"):
        summarize(folder, **COLUMNS)
    parquet.write_table(to_arrow(other.assign(school=1)), tmp_path / "1.parquet")
    with pytest.raises(DataFileError, match=r"1\.parquet: tasks to be merged must"):
        summarize(folder, **COLUMNS)


def test_no_rows_are_an_error(tmp_path):
    folder = write_folder(mixed_frame(), tmp_path, "parquet")
    with pytest.raises(ValueError, match=f"{folder}: there must be rows to learn from"):
        summarize(folder, **COLUMNS, where="id < 0")
    for year in (1, 2):
        (tmp_path / "parts" / f"year={year}").mkdir(parents=True)
        place = tmp_path / "parts" / f"year={year}" / "a.parquet"
        parquet.write_table(to_arrow(mixed_frame()), place)
    with pytest.raises(DataFileError, match="parts: no rows match where"):
        summarize(tmp_path / "parts", **COLUMNS, where="year > 5")


def test_rows_are_dropped_as_they_are_summed_up(tmp_path, monkeypatch):
    """No more than a few tables are ever alive, however many there are."""
    folder = write_folder(mixed_frame(2000), tmp_path, "parquet")
    seen, most, add = [], [0], batches.summarize_batch

    def spy(schema, table):
        seen.append(weakref.ref(table))
        gc.collect()
        most[0] = max(most[0], sum(one() is not None for one in seen))
        return add(schema, table)

    monkeypatch.setattr(batches, "summarize_batch", spy)
    monkeypatch.setattr(engine, "count_threads", lambda: 2)
    gc.freeze()  # so that only new objects are searched
    try:
        assert summarize(folder, **COLUMNS, batch_rows=200).rows == 2000
    finally:
        gc.unfreeze()
    assert len(seen) >= 8
    assert most[0] <= 3


@pytest.mark.parametrize("large", [0, 2**26])
def test_threads_do_not_matter(tmp_path, monkeypatch, large):
    folder = write_folder(mixed_frame(gaps=0.1), tmp_path, "csv")
    monkeypatch.setattr(engine, "LARGE", large)
    found = []
    for threads in (1, 2, 4):
        monkeypatch.setattr(engine, "count_threads", lambda count=threads: count)
        ways = {"missing": "mean", "batch_rows": 9}
        one, twin = (summarize(folder, **COLUMNS, **ways).whole for _ in range(2))
        assert one.xx.tolist() == twin.xx.tolist()
        found.append(one)
    assert_same_columns(found[0], found[1], rtol=1e-12)
    assert_same_columns(found[0], found[2], rtol=1e-12)


def test_threads_end_with_the_pass(tmp_path):
    frame = mixed_frame()
    frame.loc[150, "size"] = None
    folder = write_folder(frame, tmp_path, "parquet")
    with pytest.raises(DataFileError):
        summarize(folder, **COLUMNS, batch_rows=10)
    summarize(folder, **COLUMNS, missing="drop")
    ours = [t for t in threading.enumerate() if t.name.startswith("priormtl")]
    assert ours == []


def test_there_is_a_thread_at_least():
    assert 1 <= engine.count_threads() <= 4


# Limits of memory.


def statistics(m=4, d=10):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((40, d)), np.arange(40) % m
    return summarize_tasks(from_labels(X, X[:, 0], task))


def test_machines_say_how_much_they_hold():
    assert memory_limit() > 2**20


V1, V2 = "memory.limit_in_bytes", "memory.max"
GROUPS = {
    "version 2": ("0::/a/b", {f"a/b/{V2}": "4096", V2: "max"}, 4096),
    "a group above": ("0::/a/b", {f"a/b/{V2}": "max", f"a/{V2}": "8192"}, 8192),
    "the path of the host": ("0::/docker/1f", {V2: "2048"}, 2048),
    "version 1": ("4:cpu,memory:/a", {f"memory/a/{V1}": "4096"}, 4096),
    "version 1, in docker": ("4:memory:/docker/1f", {f"memory/{V1}": "1024"}, 1024),
    "both": ("4:memory:/\n0::/", {f"memory/{V1}": "9000", V2: "max"}, 9000),
    "no limit, version 1": ("4:memory:/", {f"memory/{V1}": str(2**63 - 4096)}, None),
    "no limit": ("0::/", {V2: "max"}, None),
    "another controller": ("3:cpu:/", {f"memory/{V1}": "1", V2: "1"}, None),
    "nonsense": ("x\n\n0::/../../..", {V2: "?"}, None),
    "no file": (None, {}, None),
}


@pytest.mark.parametrize(("groups", "files", "limit"), GROUPS.values(), ids=GROUPS)
def test_limits_of_containers_count(tmp_path, groups, files, limit):
    """Of both versions of control groups, each group with those above it."""
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, content in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    machine = memory_limit(tmp_path / "nothing")
    assert memory_limit(tmp_path) == (machine if limit is None else limit)


def test_statistics_that_fit_are_let_through(monkeypatch):
    monkeypatch.setattr(engine, "memory_limit", lambda: 3 * 8 * 4 * 10 * 10)
    refuse_beyond_memory([statistics()])
    monkeypatch.setattr(engine, "memory_limit", lambda: None)
    refuse_beyond_memory([statistics()] * 100)


@pytest.mark.parametrize(("folds", "words"), [(1, "10 features must"), (2, "2 folds")])
def test_larger_ones_are_refused_with_the_way_out(monkeypatch, folds, words):
    monkeypatch.setattr(engine, "memory_limit", lambda: 9599)
    with pytest.raises(ValueError, match=rf"4 tasks over .*{words}.*shards"):
        refuse_beyond_memory([statistics()] * folds)


# Rows in memory.


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
    X, kept, weight = encode_naively(frame, missing)
    np.testing.assert_allclose(rows.X, X, rtol=1e-12)
    assert list(rows.design) == list(X)
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
    expected = whole.features.with_means(pooled_means(whole))
    assert rows.design.names == expected.names
    assert (rows.design.missing, rows.design.task) == (missing, "school")
    for one, its in zip(rows.design.terms, expected.terms, strict=True):
        fills = [np.array(t.fill, float) for t in (one, its)]  # NaN: none
        np.testing.assert_allclose(*fills, rtol=1e-12)


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
    assert rows.X[:, list(rows.design).index("x")].tolist() == [1.0, 0.5]
    assert sum(told) == sum(path.stat().st_size for path in tmp_path.iterdir())
    table = pa.table({"x": ["one"], "y": [1], "t": ["u"]})
    parquet.write_table(table, tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="must hold columns of one type"):
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
    assert dict(zip(rows.design, rows.X.T.tolist(), strict=True)) == ENCODED
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
    rows = read_rows(table, task="t", target="y")
    assert dict(zip(rows.design, rows.X.T.tolist(), strict=True)) == expected


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
        ([1.0, -2.5], "column 'w' must hold nonnegative weights: got -2.5"),
        ([0.0, 0.0], "0 of them dropped for missing values and 2 have weight zero"),
        ([1.0, 1e300], "column 'w' must hold finite numbers up to 1e"),
    ],
)
def test_weights_of_no_use_are_named(read, weights, words):
    table = pa.table({"x": [1.0, 2.0], "y": [1, 2], "t": ["u", "u"], "w": weights})
    with pytest.raises(ValueError, match=words):
        read(table, task="t", target="y", weight="w")
