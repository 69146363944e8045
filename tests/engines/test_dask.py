"""Partitions that Dask holds give what their rows in memory give, whatever happens."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from drawn_tables import (
    MOMENTS,
    assert_same_columns,
    assert_same_model,
    fit_tightly,
    mixed_frame,
    summarize_naively,
    to_arrow,
)
from priormtl.engines import dask as engine
from priormtl.engines import parquet
from priormtl.exceptions import DataFileError, ModelFileError

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

COLUMNS = {
    "task": "school",
    "target": "score",
    "weight": "w",
    "features": ["size", "colour", "count"],
}
KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "table": to_arrow,
    "batch": lambda frame: to_arrow(frame).combine_chunks().to_batches()[0],
}


# To start and to end a cluster takes ten seconds.
CLUSTER = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Two worker processes, which are gone afterwards; no default for other tests."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any port, since tests run side by side
            silence_logs=logging.CRITICAL,
            local_directory=str(tmp_path_factory.mktemp("workers")),
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def shuffle(frame, seed=0):
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def cut(frame, count):
    pieces = np.array_split(np.arange(len(frame)), count)
    return [frame.iloc[rows] for rows in pieces]


def later(pieces):
    """Partitions that are made by the workers."""
    return [dask.delayed(piece, pure=True) for piece in pieces]


def assert_identical(a, b):
    assert a.tasks == b.tasks
    for name in MOMENTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


# Laws: no scheduler, partitioning or order of rows changes the result.


@CLUSTER
@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_a_cluster_gives_what_memory_gives(client, missing):
    frame = mixed_frame(gaps=0.15)
    table = dd.from_pandas(shuffle(frame), npartitions=11)
    found = engine.summarize(table, **COLUMNS, missing=missing, client=client)
    assert_same_columns(found.whole, summarize_naively(frame, missing))
    assert found.rows == 200
    assert found.counts.keys() == set("abcde")


@pytest.mark.parametrize(
    ("count", "missing"), [(1, "drop"), (2, "mean"), (9, "drop"), (70, "mean")]
)
def test_any_partitioning_gives_what_memory_gives(count, missing):
    frame = mixed_frame(gaps=0.15)
    table = later(cut(shuffle(frame, count), count))
    found = engine.summarize(table, **COLUMNS, missing=missing)
    assert_same_columns(found.whole, summarize_naively(frame, missing))


@CLUSTER
def test_coefficients_agree(client, tmp_path):
    """From a cluster, from files and from memory."""
    frame, count = mixed_frame(), 5
    for i, piece in enumerate(cut(shuffle(frame, count), count)):
        piece.to_parquet(tmp_path / f"{i:02d}.parquet", row_group_size=11)
    table = dd.read_parquet(tmp_path)
    models = [
        fit_tightly(engine.summarize(table, **COLUMNS, client=client).whole),
        fit_tightly(parquet.summarize(tmp_path, **COLUMNS).whole),
    ]
    for model in models:
        assert_same_model(model, fit_tightly(summarize_naively(frame)))


def test_categories_put_tasks_in_order():
    frame, order = mixed_frame(), ["e", "none", "c", "a", "d", "b"]
    frame["school"] = pd.Categorical(frame["school"], categories=order)
    table = dd.from_pandas(frame.sort_values("school"), npartitions=4, sort=False)
    found = engine.summarize(table, **COLUMNS).whole
    assert found.tasks == ("e", "c", "a", "d", "b")


def test_small_tasks_are_left_out():
    table = dd.from_pandas(mixed_frame(), npartitions=3)
    whole = engine.summarize(table, **COLUMNS)
    least = sorted(whole.counts.values())[2]
    found = engine.summarize(table, **COLUMNS, min_rows=least)
    assert_same_columns(found.whole, whole.without_small(least).whole)
    assert min(found.counts.values()) == least
    with pytest.raises(ValueError, match="min_rows must be a whole number from 1 on"):
        engine.summarize(None, **COLUMNS, min_rows=0)


def test_tasks_and_categories_may_come_in_the_last_partition():
    frame = mixed_frame()
    late = (frame["school"] == "e") | (frame["colour"] == "amber")
    table = later([*cut(frame[~late], 9), frame[late]])
    found = engine.summarize(table, **COLUMNS)
    assert_same_columns(found.whole, summarize_naively(frame))
    assert found.categories == {"colour": ("amber", "blue", "green", "red")}


@CLUSTER
@pytest.mark.parametrize("folding", [{"folds": 4, "key": "id"}, {"folds": 3}])
def test_folds_are_those_of_files(client, folding):
    frame = mixed_frame()
    expected = parquet.summarize(ds.dataset(to_arrow(frame)), **COLUMNS, **folding)
    table = dd.from_pandas(shuffle(frame), npartitions=7)
    found = engine.summarize(table, **COLUMNS, **folding, client=client)
    for part, twin in zip(found.parts, expected.parts, strict=True):
        assert_same_columns(part, twin)
        assert part.features == twin.features


@CLUSTER
def test_threads_and_processes_give_the_same_bits(client):
    table = dd.from_pandas(mixed_frame(gaps=0.15), npartitions=10)
    here = engine.summarize(table, **COLUMNS, missing="mean")
    there = engine.summarize(table, **COLUMNS, missing="mean", client=client)
    assert_identical(here.whole, there.whole)


@pytest.mark.slow
def test_threads_need_no_cluster():
    """In a process of its own, since Dask remembers whether it found distributed."""
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "import pyarrow as pa\n"
        "from priormtl.engines import dask\n"
        "rows = pa.table({'x': [1.0, 3.0], 'y': [0.0, 1.0], 't': ['u', 'v']})\n"
        "print(dask.summarize([rows] * 9, task='t', target='y').whole)"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "TaskStatistics(2 tasks, 1 features, weight 18)\n"


@CLUSTER
def test_the_current_client_is_used(client, monkeypatch):
    def tell(*_):
        import os  # noqa: PLC0415

        from priormtl.exceptions import DataFileError  # noqa: PLC0415

        raise DataFileError(f"process {os.getpid()}")

    monkeypatch.setattr(engine, "summarize_partition", tell)
    table = later(cut(mixed_frame(), 3))
    with client.as_current(), pytest.raises(DataFileError, match="process") as caught:
        engine.summarize(table, **COLUMNS)
    assert f"process {os.getpid()}" not in str(caught.value)


def test_merges_are_a_tree_and_the_client_gets_one_object(monkeypatch):
    merge, unpack = engine.merge_partitions, engine.from_bytes
    sizes, arrived = [], []

    def spy(spans, *contents):
        sizes.append(len(contents))
        return merge(spans, *contents)

    monkeypatch.setattr(engine, "merge_partitions", spy)
    monkeypatch.setattr(engine, "from_bytes", lambda x: arrived.append(x) or unpack(x))
    with dask.config.set(scheduler="synchronous"):
        engine.summarize(later(cut(mixed_frame(), 65)), **COLUMNS)
    assert sorted(sizes) == [2, *[8] * 9]
    assert len(arrived) == sum(sizes) + 1  # what merges unpack, and one result


# Kinds of partitions.


@pytest.mark.parametrize("kind", KINDS)
def test_partitions_may_be_tables_of_any_kind(kind):
    frame = mixed_frame()
    pieces = [KINDS[kind](piece) for piece in cut(frame, 4)]
    assert_same_columns(
        engine.summarize(pieces, **COLUMNS).whole, summarize_naively(frame)
    )
    found = engine.summarize(later(pieces), task="school", target="score", key="id")
    assert found.whole.features[-2:] == ("count", "w")


@CLUSTER
def test_partitions_may_be_futures(client):
    frame = mixed_frame()
    futures = client.scatter(cut(frame, 4))
    found = engine.summarize(futures, **COLUMNS, client=client)
    assert_same_columns(found.whole, summarize_naively(frame))


def test_partitions_may_have_no_rows():
    frame = mixed_frame()
    pieces = cut(frame, 3)
    table = later([frame.iloc[:0], *pieces, frame.iloc[:0]])
    assert_same_columns(
        engine.summarize(table, **COLUMNS).whole, summarize_naively(frame)
    )


@CLUSTER
def test_partitions_may_be_the_end_of_a_pipeline(client, tmp_path):
    frame = mixed_frame()
    shuffle(frame).to_parquet(tmp_path / "a.parquet", row_group_size=20)
    table = dd.read_parquet(tmp_path, split_row_groups=True)
    table = table[table["id"] >= 50].assign(count=table["count"] * 2.0)
    found = engine.summarize(table.shuffle("school"), **COLUMNS, client=client)
    kept = frame[frame["id"] >= 50]
    assert_same_columns(
        found.whole, summarize_naively(kept.assign(count=kept["count"] * 2.0))
    )


@CLUSTER
@pytest.mark.parametrize(
    "where",
    [
        "id >= 50 and colour != 'red'",
        (pc.field("id") >= 50) & (pc.field("colour") != "red"),
    ],
)
def test_filters_leave_rows_out(client, where):
    frame = mixed_frame()
    table = dd.from_pandas(frame, npartitions=4)
    found = engine.summarize(table, **COLUMNS, where=where, client=client)
    kept = frame[(frame["id"] >= 50) & (frame["colour"] != "red")]
    assert_same_columns(found.whole, summarize_naively(kept))


def test_files_are_read_by_the_columns_in_use(tmp_path, monkeypatch):
    frame = mixed_frame()
    for i, piece in enumerate(cut(frame, 3)):
        piece.assign(text="long").to_parquet(tmp_path / f"{i}.parquet")
    table = dd.read_parquet(tmp_path)
    assert_same_columns(
        engine.summarize(table, **COLUMNS).whole, summarize_naively(frame)
    )
    step, seen = engine.summarize_partition, []

    def spy(schema, where, columns, number, rows):
        seen.append(set(rows.columns))
        return step(schema, where, columns, number, rows)

    monkeypatch.setattr(engine, "summarize_partition", spy)
    engine.summarize(table, **COLUMNS)
    assert seen == [{"school", "score", "w", "size", "colour", "count"}] * 3


# Faults.


@CLUSTER
def test_a_killed_worker_changes_nothing(client, monkeypatch, tmp_path):
    """Partials that die with a worker are made again, and count once."""
    table = later(cut(mixed_frame(gaps=0.15), 20))
    expected = engine.summarize(table, **COLUMNS, missing="mean").whole
    step = engine.summarize_partition

    def dying(schema, where, columns, number, rows):
        import os  # noqa: PLC0415

        (tmp_path / f"{number}-{os.getpid()}").touch()
        if number == 12 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return step(schema, where, columns, number, rows)

    monkeypatch.setattr(engine, "summarize_partition", dying)
    found = engine.summarize(table, **COLUMNS, missing="mean", client=client)
    assert_identical(found.whole, expected)
    assert found.rows == 200
    tries = [path.name for path in Path(tmp_path).iterdir() if path.name != "died"]
    assert len([name for name in tries if name.startswith("12-")]) == 2
    client.wait_for_workers(2, timeout=120)


@CLUSTER
def test_a_partition_that_lacks_a_column_is_named(client):
    pieces = cut(mixed_frame(), 12)
    pieces[10] = pieces[10].drop(columns="size")
    with pytest.raises(DataFileError, match=r"^partition 10: .*'size'"):
        engine.summarize(later(pieces), **COLUMNS, client=client)
    whole = {"task": "school", "target": "score"}
    with pytest.raises(DataFileError, match=r"^partition 10: .* lacks \['size'\]"):
        engine.summarize(later(pieces), **whole)
    pieces[10] = mixed_frame(20).assign(extra=1.0)
    with pytest.raises(DataFileError, match=r"^partition 10: .* also has \['extra'\]"):
        engine.summarize(later(pieces), **whole)


@pytest.mark.parametrize("number", [0, 1, 4, 6])
def test_a_partition_that_dask_cannot_make_is_named(number):
    pieces = cut(mixed_frame(), 7)
    meta = pieces[0].iloc[:0]
    pieces[number] = pieces[number].drop(columns="size")
    table = dd.from_delayed(later(pieces), meta=meta, verify_meta=False)
    message = rf"^partition {number} cannot be made: .*'size'"
    with pytest.raises(DataFileError, match=message):
        engine.summarize(table, **COLUMNS)


DAMAGES = {
    "lacks a column": lambda file: mixed_frame().drop(columns="size").to_parquet(file),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-30]),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize(
    ("damage", "on_cluster"),
    [
        *((damage, False) for damage in DAMAGES),
        pytest.param("gone", True, marks=CLUSTER),
    ],
)
def test_a_file_that_cannot_be_read_is_named(request, tmp_path, damage, on_cluster):
    client = request.getfixturevalue("client") if on_cluster else None
    for i, piece in enumerate(cut(mixed_frame(), 5)):
        piece.to_parquet(tmp_path / f"{i}.parquet")
    table = dd.read_parquet(tmp_path)
    DAMAGES[damage](tmp_path / "3.parquet")
    message = rf"^partition 3 \({tmp_path}/3\.parquet\) cannot be made: "
    with pytest.raises(DataFileError, match=message):
        engine.summarize(table, **COLUMNS, client=client)


@CLUSTER
def test_asynchronous_clients_are_refused(client):
    async def summarize(current):
        address = client.scheduler_info()["address"]
        ways = {"asynchronous": True, "set_as_default": current}
        async with distributed.Client(address, **ways) as other:
            table = later(cut(mixed_frame(), 2))
            engine.summarize(table, **COLUMNS, client=None if current else other)

    for current in (True, False):
        with pytest.raises(ValueError, match="client must wait for results"):
            asyncio.run(summarize(current))


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ([1], "partition 0 and partition 1"),
        ([3], "partitions 0 to 2 and partition 3"),
        ([8, 9, 10, 11], "partitions 0 to 7 and partitions 8 to 11"),
    ],
)
def test_partitions_of_other_types_are_named(wrong, place):
    for change, reason in (
        ({"size": "big"}, "column 'size' must hold numbers everywhere"),
        ({"school": 1}, "tasks to be merged"),
    ):
        pieces = cut(mixed_frame(), 12)
        for number in wrong:
            pieces[number] = mixed_frame(20).assign(**change)
        message = f"^{place} do not fit together: {reason}"
        with pytest.raises(DataFileError, match=message):
            engine.summarize(later(pieces), **COLUMNS)


def test_values_that_cannot_be_used_name_their_partition():
    frame = mixed_frame()
    frame.loc[199, "size"] = None
    with pytest.raises(DataFileError, match=r"^partition 4: column 'size' lacks 1 of"):
        engine.summarize(later(cut(frame, 5)), **COLUMNS)
    pieces = cut(mixed_frame(), 3)
    pieces[2] = pieces[2].assign(size=[1, "x"] * 33)
    with pytest.raises(DataFileError, match=r"^partition 2 cannot be read: .* size"):
        engine.summarize(pieces, **COLUMNS)
    with pytest.raises(DataFileError, match=r"^partition 0: .* Arrow: got list"):
        engine.summarize([[1, 2]], **COLUMNS)


def test_what_dask_raises_passes_where_every_partition_can_be_made(monkeypatch):
    def fail(*_):
        raise KeyError("once")

    monkeypatch.setattr(engine, "summarize_partition", fail)
    with pytest.raises(KeyError, match="once"):
        engine.summarize(later(cut(mixed_frame(), 3)), **COLUMNS)


def test_damaged_statistics_are_refused(monkeypatch):
    monkeypatch.setattr(engine, "summarize_partition", lambda *_: b"nonsense")
    with pytest.raises(ModelFileError, match="did not arrive as sent"):
        engine.summarize(later([mixed_frame()]), **COLUMNS)


def test_wrong_arguments_are_refused_at_once():
    table = dd.from_pandas(mixed_frame(), npartitions=2)
    with pytest.raises(ValueError, match=r"unknown column 'schol'.*'school'"):
        engine.summarize(table, task="schol", target="score")
    with pytest.raises(ValueError, match="unknown column 'yaer'"):
        engine.summarize(table, **COLUMNS, where="yaer > 3")
    with pytest.raises(DataFileError, match="where cannot be used on these columns"):
        engine.summarize(table, **COLUMNS, where="colour > 3")
    numbered = mixed_frame().rename(columns={"id": 0})
    for wrong in (dd.from_pandas(numbered, npartitions=2), [numbered]):
        with pytest.raises(ValueError, match="must be strings: got 0; rename it"):
            engine.summarize(wrong, **COLUMNS)
    with pytest.raises(ValueError, match="list of partitions: got DataFrame"):
        engine.summarize(mixed_frame(), **COLUMNS)
    with pytest.raises(ValueError, match="list of partitions: got an empty list"):
        engine.summarize([], **COLUMNS)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"pip install 'priormtl\[dask\]'"):
        engine.summarize([mixed_frame()], **COLUMNS)
