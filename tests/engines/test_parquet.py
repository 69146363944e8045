"""One pass over files gives what the rows in memory give."""

import gc
import threading
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import csv, feather, parquet

from mixed_rows import assert_same, mixed_frame, naive, to_arrow
from priormtl.data import align_tasks
from priormtl.engines import accumulate, open_source, summarize
from priormtl.engines import parquet as engine
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


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("missing", ["drop", "mean"])
@pytest.mark.parametrize("rows", [None, 1, 17])
def test_files_give_what_memory_gives(tmp_path, kind, missing, rows):
    frame = mixed_frame(gaps=0.15)
    shuffled = frame.sample(frac=1.0, random_state=0)
    folder = write_folder(shuffled, tmp_path, kind)
    found = summarize(folder, **COLUMNS, missing=missing, batch_rows=rows)
    assert_same(found.whole, naive(frame, missing))
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
        assert_same(part, twin)
    assert_same(found.whole, naive(frame))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_categories_of_pandas_put_tasks_in_order(tmp_path, kind):
    frame, order = mixed_frame(), ["e", "none", "c", "a", "d", "b"]
    frame["school"] = pd.Categorical(frame["school"], categories=order)
    frame = frame.sort_values("school")  # so that no file has all tasks
    folder = write_folder(frame, tmp_path, kind)
    found = summarize(folder, **COLUMNS, batch_rows=17).whole
    assert found.tasks == ("e", "c", "a", "d", "b")
    assert_same(found, align_tasks(naive(frame), found.tasks))


def test_filters_leave_rows_out(tmp_path):
    frame = mixed_frame()
    folder = write_folder(frame, tmp_path, "parquet")
    found = summarize(folder, **COLUMNS, where="id >= 50 and colour != 'red'")
    kept = frame[(frame["id"] >= 50) & (frame["colour"] != "red")]
    assert_same(found.whole, naive(kept))


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
    assert_same(summarize(tmp_path, **COLUMNS).whole, naive(frame))


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
    with pytest.raises(DataFileError, match="parts has no rows that where lets"):
        summarize(tmp_path / "parts", **COLUMNS, where="year > 5")


def test_rows_are_dropped_as_they_are_summed_up(tmp_path, monkeypatch):
    """No more than a few tables are ever alive, however many there are."""
    folder = write_folder(mixed_frame(2000), tmp_path, "parquet")
    seen, most, add = [], [0], accumulate.summarize_batch

    def spy(recipe, table):
        seen.append(weakref.ref(table))
        gc.collect()
        most[0] = max(most[0], sum(one() is not None for one in seen))
        return add(recipe, table)

    monkeypatch.setattr(accumulate, "summarize_batch", spy)
    monkeypatch.setattr(engine, "count_threads", lambda: 2)
    assert summarize(folder, **COLUMNS, batch_rows=200).rows == 2000
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
    assert_same(found[0], found[1], rtol=1e-12)
    assert_same(found[0], found[2], rtol=1e-12)


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
    assert 1 <= engine.count_threads() <= engine.MOST_THREADS
