"""Statistics by shards are those of one pass, and a broken pass leaves nothing."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from operator import add

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from drawn_tables import assert_same_columns, mixed_frame, summarize_naively, to_arrow
from priormtl import MultiTaskRegressor
from priormtl.archive import read_archive, write_archive
from priormtl.data.labels import declared_order
from priormtl.engines import (
    Schema,
    open_shards,
    shards,
    summarize,
    summarize_batch,
    summarize_sharded,
)
from priormtl.engines.batches import read_batch
from priormtl.engines.shards import KIND, Buckets, Spill, Survey
from priormtl.exceptions import DataFileError, FoldsError, ModelFileError
from processes import beside_tests

COLUMNS = {
    "task": "school",
    "target": "score",
    "weight": "w",
    "features": ["size", "colour", "count"],
}
LARGE = 2**40


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("missing", "buckets", "memory"),
    [
        ("drop", 1, 3000),
        ("drop", 3, LARGE),
        ("drop", 64, 1),
        ("mean", 1, LARGE),
        ("mean", 3, 1),
        ("mean", 64, 3000),
    ],
)
def test_shards_are_those_of_one_pass(tmp_path, monkeypatch, missing, buckets, memory):
    monkeypatch.setattr(shards, "BUCKETS", buckets)
    frame = mixed_frame(60 if memory == 1 else 200, gaps=0.15)
    columns = COLUMNS | {"missing": missing}
    found = summarize_sharded(
        to_arrow(frame), tmp_path / "out", **columns, memory=memory
    )
    expected = summarize(to_arrow(frame), **columns)
    assert_same_columns(found.whole, expected.whole, rtol=1e-12)
    assert found.whole.features == expected.whole.features
    assert_same_columns(found.whole, summarize_naively(frame, missing))
    for name in ("counts", "categories", "rows", "dropped"):
        assert getattr(found, name) == getattr(expected, name)


@pytest.mark.parametrize(
    ("key", "buckets", "memory"),
    [(None, 1, LARGE), (None, 64, 9000), ("id", 1, 1), ("id", 64, LARGE)],
)
def test_folds_are_those_of_one_pass(tmp_path, monkeypatch, key, buckets, memory):
    monkeypatch.setattr(shards, "BUCKETS", buckets)
    frame = mixed_frame(120, gaps=0.15)
    columns = COLUMNS | {"missing": "mean", "folds": 3, "key": key, "seed": 1}
    found = summarize_sharded(
        to_arrow(frame.sample(frac=1.0, random_state=0)),
        tmp_path / "out",
        **columns,
        memory=memory,
    )
    expected = summarize(to_arrow(frame), **columns)
    pairs = zip(found.parts, expected.parts, strict=True)
    for part, same in (*pairs, (found.whole, expected.whole)):
        assert_same_columns(part, same, rtol=1e-10)
        assert part.is_mapped
        assert part.features == same.features
    assert found.counts == expected.counts
    again = open_shards(tmp_path / "out")
    for part, same in zip(again.parts, found.parts, strict=True):
        assert_same_columns(part, same, rtol=0)


def test_folds_without_rows_are_refused_before_sums_are_made(tmp_path, monkeypatch):
    monkeypatch.delattr(shards.StatisticsFolder, "write")
    with pytest.raises(FoldsError, match="folds=3 must leave rows for every fold"):
        summarize_sharded(
            to_arrow(mixed_frame().assign(one=1)),
            tmp_path / "out",
            **COLUMNS,
            folds=3,
            key="one",
        )
    assert names(tmp_path) == []


def test_files_of_several_types_and_any_order(tmp_path):
    frame = mixed_frame(200, gaps=0.1)
    frame["size"] = frame["size"].astype("float32").astype(float)
    shuffled = frame.sample(frac=1.0, random_state=0)
    rows = tmp_path / "rows"
    rows.mkdir()
    for i, part in enumerate(np.array_split(np.arange(200), 4)):
        table = to_arrow(shuffled.iloc[part])
        if i % 2:
            coded = table["colour"].dictionary_encode()
            table = table.set_column(1, "colour", coded)
            narrow = table["size"].cast(pa.float32())
            table = table.set_column(0, "size", narrow)
        parquet.write_table(table, rows / f"{i}.parquet")
    columns = COLUMNS | {"missing": "mean"}
    found = summarize_sharded(rows, tmp_path / "out", **columns, memory=4000)
    assert_same_columns(found.whole, summarize_naively(frame, "mean"))


def test_a_column_may_be_empty_in_some_tasks_but_not_in_all(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BUCKETS", 2)
    rows = pa.table(
        {
            "a": pa.array([None, 1.0, None, 5.0]),
            "b": [1.0, 2.0, 4.0, 8.0],
            "y": [0.0, 1.0, 2.0, 3.0],
            "t": [7, 3, 7, 3],
        }
    )
    columns = {"task": "t", "target": "y", "missing": "mean"}
    found = summarize_sharded(rows, tmp_path / "out", **columns)
    assert_same_columns(found.whole, summarize(rows, **columns).whole, rtol=1e-12)
    assert found.whole.x_mean[1, 0] == 3.0
    empty = rows.set_column(0, "a", pa.nulls(4, pa.float64()))
    with pytest.raises(DataFileError, match="column 'a' has no values at all"):
        summarize_sharded(empty, tmp_path / "other", **columns)
    assert names(tmp_path) == ["out"]


def test_a_task_whose_rows_are_all_dropped_does_not_exist(tmp_path):
    rows = pa.table({"x": [1.0, None, 3.0], "y": [0.0, 1.0, 2.0], "t": ["ä", "ö", "ä"]})
    columns = {"task": "t", "target": "y", "missing": "drop"}
    found = summarize_sharded(rows, tmp_path / "out", **columns)
    assert found.whole.tasks == ("ä",)
    assert (found.rows, found.dropped) == (3, 1)


def test_filters_and_declared_categories_count(tmp_path):
    frame = mixed_frame()
    columns = COLUMNS | {
        "where": "id >= 50",
        "categories": {"colour": ["amber", "blue", "green", "red", "violet"]},
    }
    found = summarize_sharded(to_arrow(frame), tmp_path / "out", **columns)
    assert_same_columns(
        found.whole, summarize(to_arrow(frame), **columns).whole, rtol=1e-12
    )
    assert "colour=violet" in found.whole.features


def test_matrices_are_mapped_and_can_be_opened_again(tmp_path):
    found = summarize_sharded(to_arrow(mixed_frame()), tmp_path / "out", **COLUMNS)
    again = open_shards(tmp_path / "out")
    for summary in (found, again):
        assert summary.whole.is_mapped
        assert not summary.whole.xx.flags.writeable
    assert_same_columns(again.whole, found.whole, rtol=0)
    assert again.counts == found.counts
    assert names(tmp_path / "out") == ["statistics", "xx.npy"]


def test_categories_put_tasks_in_order(tmp_path):
    frame, order = mixed_frame(), ["e", "none", "c", "a", "d", "b"]
    frame["school"] = pd.Categorical(frame["school"], categories=order)
    table = pa.Table.from_pandas(frame.sort_values("school"))
    found = summarize_sharded(table, tmp_path / "out", **COLUMNS)
    for summary in (found, open_shards(tmp_path / "out")):
        assert summary.whole.tasks == ("e", "c", "a", "d", "b")
        assert declared_order(summary.whole.tasks) == tuple(order)
    assert_same_columns(found.whole, summarize(table, **COLUMNS).whole)


def test_models_are_those_of_the_rows(tmp_path):
    frame = mixed_frame()
    found = summarize_sharded(to_arrow(frame), tmp_path / "out", **COLUMNS)
    model = MultiTaskRegressor(2.0, standardize=True, tol=1e-10)
    coef = model.fit_statistics(found.whole).coef_
    expected = model.fit_statistics(summarize_naively(frame)).coef_
    np.testing.assert_allclose(coef, expected, rtol=1e-9, atol=1e-9)


def test_bytes_are_told(tmp_path):
    parquet.write_table(to_arrow(mixed_frame()), tmp_path / "a.parquet")
    told = []
    summarize_sharded(
        tmp_path / "a.parquet", tmp_path / "out", **COLUMNS, advance=told.append
    )
    assert sum(told) == (tmp_path / "a.parquet").stat().st_size


WRONG = {
    "gap": (lambda t: t.set_column(2, "count", pa.nulls(20, pa.float64())), "lacks"),
    "text": (lambda t: t.set_column(2, "count", [["x"] * 20]), "numbers everywhere"),
    "tasks": (lambda t: t.set_column(3, "school", [[1] * 20]), "labels of one kind"),
    "weight": (lambda t: t.set_column(5, "w", [[-1.0] * 20]), "nonnegative"),
}


@pytest.mark.parametrize(("spoil", "message"), WRONG.values(), ids=WRONG)
def test_wrong_rows_are_refused_and_leave_nothing(tmp_path, spoil, message):
    rows = tmp_path / "rows"
    rows.mkdir()
    parquet.write_table(to_arrow(mixed_frame()), rows / "a.parquet")
    parquet.write_table(spoil(to_arrow(mixed_frame(20))), rows / "b.parquet")
    with pytest.raises(DataFileError, match=message):
        summarize_sharded(rows, tmp_path / "out", **COLUMNS)
    assert names(tmp_path) == ["rows"]


def test_a_wrong_file_is_named(tmp_path):
    parquet.write_table(to_arrow(mixed_frame()), tmp_path / "a.parquet")
    parquet.write_table(to_arrow(mixed_frame(gaps=0.5)), tmp_path / "b.parquet")
    with pytest.raises(DataFileError, match=r"b\.parquet: column 'size' lacks"):
        summarize_sharded(tmp_path, tmp_path / "out", **COLUMNS)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("step", ["write", "finish"])
@pytest.mark.parametrize("folds", [None, 2])
def test_a_broken_pass_leaves_nothing(tmp_path, monkeypatch, error, step, folds):
    def fail(*_):
        raise error

    monkeypatch.setattr(shards.StatisticsFolder, step, fail)
    with pytest.raises(error):
        summarize_sharded(
            to_arrow(mixed_frame()), tmp_path / "out", **COLUMNS, folds=folds
        )
    assert names(tmp_path) == []


def test_no_rows_are_refused(tmp_path):
    build = partial(summarize_sharded, to_arrow(mixed_frame()), tmp_path / "out")
    with pytest.raises(ValueError, match="rows"):
        build(**COLUMNS, where="id < 0")
    assert names(tmp_path) == []


@pytest.mark.parametrize("memory", [0, -1, 1.5, True, None])
def test_memory_must_be_bytes(tmp_path, memory):
    with pytest.raises(ValueError, match="memory must be an integer number of bytes"):
        summarize_sharded(pa.table({}), tmp_path / "out", **COLUMNS, memory=memory)


def test_a_folder_in_use_is_refused_before_any_row_is_read(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="new or empty"):
        summarize_sharded(to_arrow(mixed_frame()), tmp_path, **COLUMNS)
    assert names(tmp_path) == ["file"]


def test_a_disk_too_small_is_refused_with_the_arithmetic(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shards.shutil, "disk_usage", lambda _: usage)
    for folds, needed in ((None, "1.44e-06 GB"), (3, "x 3 folds take 4.32e-06 GB")):
        with pytest.raises(OSError, match=f"5 tasks x 6² x 8 bytes.*{needed}"):
            summarize_sharded(
                to_arrow(mixed_frame()), tmp_path / "out", **COLUMNS, folds=folds
            )
    assert names(tmp_path) == []


def test_shards_are_worked_on_side_by_side(tmp_path, monkeypatch):
    counts = []

    def pool(threads, name):
        counts.append(threads)
        return ThreadPoolExecutor(threads, name)

    monkeypatch.setattr(shards, "ThreadPoolExecutor", pool)
    monkeypatch.setattr(shards, "count_threads", lambda: 4)
    frame = mixed_frame()
    for number, memory in enumerate([1, LARGE]):
        folder = tmp_path / str(number)
        found = summarize_sharded(to_arrow(frame), folder, **COLUMNS, memory=memory)
        assert_same_columns(found.whole, summarize_naively(frame))
    assert counts == [1, 4]


SETUP = """
import sys
import numpy as np
import pandas as pd
import pyarrow as pa
from priormtl.engines import shards, summarize_sharded

m, d, n = 150, 350, 1500
rng = np.random.default_rng(0)
columns = {f"x{j}": rng.normal(size=n) for j in range(d)}
rows = pa.table(columns | {"t": np.arange(n) % m, "y": rng.normal(size=n)})
"""
KILLED = """
def stop(*_):
    print("summing", flush=True)
    sys.stdin.read()

shards.count_threads = lambda: 1
shards.StatisticsFolder.write = stop
summarize_sharded(rows, sys.argv[1], task="t", target="y")
"""
MEMORY = """
from processes import watch_memory

shards.count_threads = lambda: 2
columns = {"task": "t", "target": "y"}
found, growth = watch_memory(
    lambda: summarize_sharded(rows, sys.argv[1], **columns, memory=2**25)
)
print(growth, found.whole.xx.nbytes // 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_below_the_statistics(tmp_path):
    command = [sys.executable, "-c", SETUP + MEMORY, str(tmp_path / "out")]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=beside_tests()
    )
    growth, size = map(int, result.stdout.split())
    assert size == 140
    assert growth < size / 2


SEARCH = """
from priormtl import MultiTaskRegressorCV
from processes import watch_memory

def search():
    columns = {"task": "t", "target": "z", "folds": 3, "memory": 2**25}
    features = [f"x{j}" for j in range(d)]
    found = summarize_sharded(rows, sys.argv[1], **columns, features=features)
    return found, model.fit_statistics(found.parts)

shards.count_threads = lambda: 1
rows = rows.append_column("z", [columns["x0"] - columns["x7"]])
model = MultiTaskRegressorCV([60.0, 40.0], [0.0], [1.0], standardize=True)
small = rng.normal(size=(600, 300))
model.fit(small, small[:, 0], task=np.arange(600) % 2)  # compiles
(found, _), growth = watch_memory(search)
size = sum(part.xx.nbytes for part in found.parts) // 2**20
print(growth, size, model.coef_.any(axis=0).sum())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_search_never_holds_what_lies_on_disk(tmp_path):
    fewer = SETUP.replace("150, 350, 1500", "50, 350, 1000")
    command = [sys.executable, "-c", fewer + SEARCH, str(tmp_path / "out")]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=beside_tests()
    )
    growth, size, active = map(int, result.stdout.split())
    assert size == 140
    assert 2 <= active < 50
    assert growth < size / 2


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_a_killed_pass_leaves_nothing_that_looks_finished(tmp_path):
    command = [sys.executable, "-c", SETUP + KILLED, str(tmp_path / "out")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        assert process.stdout.readline() == "summing\n"
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".priormtl-")
    assert names(left) == ["xx.npy"]


# Surveys.


FEATURES = ("size", "colour", "count")


def survey(schema, table):
    reading = read_batch(schema, table)
    return Survey.of(reading, table.num_rows, schema.folds or 1)


@pytest.mark.parametrize("missing", ["drop", "mean"])
@pytest.mark.parametrize("rows", [3, 200])
def test_a_survey_knows_what_the_partial_knows(missing, rows):
    table = to_arrow(mixed_frame(gaps=0.2))
    schema = Schema("school", "score", "w", FEATURES, missing=missing, folds=3)
    parts = [survey(schema, table.slice(i, rows)) for i in range(0, 200, rows)]
    found, known = reduce(add, parts), summarize_batch(schema, table)
    assert found.layout == known.layout
    assert found.tasks == known.tasks
    assert [found.counts[task] for task in found.tasks] == known.counts.tolist()
    assert (found.rows, found.dropped) == (known.rows, known.dropped)
    np.testing.assert_allclose(found.centre(), known.centre, rtol=1e-12)
    np.testing.assert_allclose(found.observed, known.observed, rtol=1e-12)
    np.testing.assert_allclose(found.fold_weight, known.fold_weight, rtol=1e-12)


def test_surveys_commute():
    table = to_arrow(mixed_frame(gaps=0.2))
    schema = Schema("school", "score", "w", FEATURES, missing="mean")
    a, b = survey(schema, table.slice(0, 90)), survey(schema, table.slice(90))
    assert (a + b).layout == (b + a).layout
    assert (a + b).tasks == (b + a).tasks
    np.testing.assert_array_equal((a + b).centre(), (b + a).centre())


def test_a_column_of_gaps_has_no_mean():
    rows = pa.table({"x": pa.nulls(2, pa.float64()), "y": [0.0, 1.0], "t": [1, 2]})
    found = survey(Schema("t", "y", missing="mean"), rows)
    assert found.centre().tolist() == [0.0, 0.0]
    assert found.observed.tolist() == [0.0]


def test_other_things_do_not_add():
    rows = pa.table({"x": [1.0], "y": [0.0], "t": [1]})
    with pytest.raises(TypeError):
        survey(Schema("t", "y"), rows) + 1


# Buckets.


DROPPING = Schema("school", "score", "w", ("size", "colour", "count"), missing="drop")


@pytest.fixture
def spill(tmp_path):
    with Spill(tmp_path, 2) as spill:
        yield spill


def test_every_row_that_counts_lies_in_the_bucket_of_its_task(spill):
    table = to_arrow(mixed_frame(gaps=0.1))
    buckets = Buckets(DROPPING, spill)
    for start in range(0, 200, 33):
        buckets.add(table.slice(start, 33))
    found, seen = [], []
    for bucket, tasks in buckets.tasks():
        rows = pa.concat_tables(buckets.rows(bucket, tasks))
        assert set(rows["school"].to_pylist()) == set(tasks)
        found += rows["id"].to_pylist()
        seen += tasks
    kept = mixed_frame(gaps=0.1).dropna()
    assert sorted(found) == kept["id"].tolist()
    assert sorted(seen) == list(buckets.survey.tasks) == list("abcde")
    assert buckets.survey.rows == 200


def test_rows_of_some_tasks_of_a_bucket(spill):
    buckets = Buckets(DROPPING, spill)
    buckets.add(to_arrow(mixed_frame()))
    bucket, tasks = next(buckets.tasks())
    assert len(tasks) == 3
    rows = pa.concat_tables(buckets.rows(bucket, tasks[1:2]))
    kept = mixed_frame().query("school == @tasks[1]")
    assert sorted(rows["id"].to_pylist()) == kept["id"].tolist()


def test_labels_that_are_equal_are_one_task_whatever_their_type(spill):
    buckets = Buckets(Schema("t", "y"), spill)
    for labels in ([1, 2], [2.0, 1.0], [True]):
        n = len(labels)
        buckets.add(pa.table({"t": labels, "x": [1.0] * n, "y": [0.0] * n}))
    assert buckets.survey.counts == {1: 3, 2: 2}
    sizes = [
        sum(table.num_rows for table in buckets.rows(bucket, tasks))
        for bucket, tasks in buckets.tasks()
    ]
    assert sizes == [3, 2]


# Spill files.


FIRST = pa.table({"x": [1.0, 2.0], "name": ["ä", None]})
OTHER = pa.table({"x": pa.array([3], pa.int8()), "name": ["b"]})


def test_pieces_come_back_in_order_whatever_their_types(tmp_path):
    coded = FIRST.set_column(1, "name", FIRST["name"].dictionary_encode())
    with Spill(tmp_path, 2) as spill:
        for table in (FIRST, OTHER, coded, FIRST.slice(1, 1)):
            spill.write(1, table)
        for _ in range(2):  # as often as one likes
            found = list(spill.read(1))
            assert found == [FIRST, OTHER, coded, FIRST.slice(1)]
        assert list(spill.read(0)) == []


def test_slices_take_their_own_place_only(tmp_path):
    long = pa.table({"x": pa.array(range(100_000), pa.float64())})
    with Spill(tmp_path, 1) as spill:
        spill.write(0, long.slice(5, 1))
        assert 0 < sum(spill.sizes) < 2000


def test_files_have_no_names(tmp_path):
    with Spill(tmp_path, 3) as spill:
        spill.write(0, FIRST)
        assert list(tmp_path.iterdir()) == []


def test_buckets_are_gone_once_they_are_dropped(tmp_path):
    with Spill(tmp_path, 2) as spill:
        spill.write(0, FIRST)
        spill.write(1, OTHER)
        spill.drop(0)
        with pytest.raises(ValueError, match="closed file"):
            list(spill.read(0))
        assert list(spill.read(1)) == [OTHER]
    with pytest.raises(ValueError, match="closed file"):
        list(spill.read(1))


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path):
    class Full:
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    with Spill(tmp_path, 1) as spill:
        spill._files[0] = Full()
        with pytest.raises(OSError, match=r"No space left.*larger disk") as caught:
            spill.write(0, FIRST)
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == str(tmp_path)


# Folders of statistics.


NUMERIC = {"task": "school", "target": "score", "features": ["size", "count"]}


@pytest.fixture
def folder(tmp_path):
    summarize_sharded(to_arrow(mixed_frame()), tmp_path / "out", **NUMERIC)
    return tmp_path / "out"


@pytest.fixture
def folds(tmp_path):
    columns = NUMERIC | {"folds": 3, "key": "id"}
    summarize_sharded(to_arrow(mixed_frame()), tmp_path / "folds", **columns)
    return tmp_path / "folds"


def test_matrices_of_a_task_lie_side_by_side(folds):
    found, matrices = open_shards(folds), np.load(folds / "xx.npy")
    assert matrices.shape == (5, 3, 2, 2)
    for k, part in enumerate(found.parts):
        np.testing.assert_array_equal(part.xx, matrices[:, k])


def test_folders_of_before_there_were_folds_are_opened(folder):
    settings, arrays = read_archive(folder / "statistics", KIND)
    expected = open_shards(folder).whole
    del settings["folds"]
    write_archive(folder / "statistics", KIND, settings, arrays)
    found = open_shards(folder).whole
    np.testing.assert_array_equal(found.xx, expected.xx)
    np.testing.assert_array_equal(found.weight, expected.weight)


@pytest.mark.parametrize("count", [None, 2, 4, "3", True])
def test_another_number_of_folds_is_refused(folds, count):
    settings, arrays = read_archive(folds / "statistics", KIND)
    write_archive(folds / "statistics", KIND, settings | {"folds": count}, arrays)
    with pytest.raises(ModelFileError, match="holds damaged or incomplete statistics"):
        open_shards(folds)


@pytest.mark.parametrize("shape", [(5,), (5, 2, 2), (5, 2, 2, 2), (5, 3, 2, 3)])
def test_matrices_of_other_folds_are_refused(folds, shape):
    np.save(folds / "xx.npy", np.zeros(shape))
    with pytest.raises(ModelFileError, match="holds damaged or incomplete statistics"):
        open_shards(folds)


def test_the_matrices_are_a_plain_numpy_file(folder):
    whole = open_shards(str(folder)).whole
    np.testing.assert_array_equal(np.load(folder / "xx.npy"), whole.xx)
    assert whole.xx.shape == (5, 2, 2)


def test_folders_may_be_moved(folder):
    shutil.move(folder, folder.parent / "elsewhere")
    assert open_shards(folder.parent / "elsewhere").whole.shape == (2, 5)


def test_a_folder_of_other_things_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ModelFileError, match="is not a folder of statistics"):
            open_shards(path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-8])


SPOILED = {
    "missing": lambda path: path.unlink(),
    "cut off": cut,
    "empty": lambda path: path.write_bytes(b""),
    "other shape": lambda path: np.save(path, np.zeros((5, 2, 3))),
    "other type": lambda path: np.save(path, np.zeros((5, 2, 2), np.float32)),
    "other order": lambda path: np.save(path, np.ones((5, 2, 2), order="F")),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_other_matrices_are_refused(folder, spoil):
    spoil(folder / "xx.npy")
    with pytest.raises(ModelFileError, match="holds damaged or incomplete statistics"):
        open_shards(folder)


def test_a_changed_archive_is_refused(folder):
    content = bytearray((folder / "statistics").read_bytes())
    content[-40] ^= 1
    (folder / "statistics").write_bytes(content)
    with pytest.raises(ModelFileError, match="digest"):
        open_shards(folder)


@pytest.mark.parametrize("name", ["tasks", "features", "categories", "rows"])
def test_an_archive_that_lacks_something_is_refused(folder, name):
    settings, arrays = read_archive(folder / "statistics", KIND)
    del settings[name]
    write_archive(folder / "statistics", KIND, settings, arrays)
    with pytest.raises(ModelFileError, match="holds damaged or incomplete statistics"):
        open_shards(folder)


@pytest.mark.parametrize("name", ["weight", "x_mean", "xy", "counts"])
def test_arrays_of_another_shape_are_refused(folder, name):
    settings, arrays = read_archive(folder / "statistics", KIND)
    arrays[name] = arrays[name][1:]
    write_archive(folder / "statistics", KIND, settings, arrays)
    with pytest.raises(ModelFileError, match="holds damaged or incomplete statistics"):
        open_shards(folder)
