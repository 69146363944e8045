"""Partitions that Spark holds give what their rows in memory give, whatever happens."""

import sys
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest

import priormtl
from drawn_tables import (
    MOMENTS,
    assert_same_columns,
    assert_same_model,
    fit_tightly,
    mixed_frame,
    summarize_naively,
    to_arrow,
)
from priormtl.engines import parquet
from priormtl.engines import spark as engine
from priormtl.engines.spark import first_line, plain_errors, refuse_large
from priormtl.exceptions import DataFileError, ModelFileError
from shown_code import DOCS, find_examples, run_python

COLUMNS = {
    "task": "school",
    "target": "score",
    "weight": "w",
    "features": ["size", "colour", "count"],
}
SCHEMA = (
    "size double, colour string, count double, school string, score double, "
    "w double, id long"
)
LEVELS = engine.LEVELS
REASON = "pyspark is not installed: make test-spark"
# Spark 3.5 leaves sockets to the collector of garbage.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Two executors, in processes of their own, which are gone afterwards."""
    sql = pytest.importorskip("pyspark.sql", reason=REASON)
    here = Path(__file__).parents[1]
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": f"{Path(priormtl.__file__).parents[1]}:{here}",
        "spark.local.dir": tmp_path_factory.mktemp("spark"),
        "spark.locality.wait": "0s",
        "spark.log.level": "OFF",
        # Else every worker that is killed costs seconds of imports.
        "spark.python.daemon.module": "spark_daemon",
        "spark.shuffle.io.maxRetries": 1,
        "spark.shuffle.io.retryWait": "1s",
        "spark.task.maxFailures": 2,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_HOSTNAME", "127.0.0.1")
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def few_merges(monkeypatch):
    """Most of 73 tasks would have nothing to do."""
    monkeypatch.setattr(engine, "LEVELS", (4, 2, 1))


def shuffle(frame, seed=0):
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def share(session, frame, count):
    """Table of these rows in order, in so many partitions."""
    rows = [
        tuple(None if value != value else value for value in row)  # noqa: PLR0124
        for row in frame.astype(object).itertuples(index=False)
    ]
    return session.createDataFrame(
        session.sparkContext.parallelize(rows, count), SCHEMA
    )


def assert_identical(a, b):
    assert a.tasks == b.tasks
    for name in MOMENTS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


# Laws: no partitioning and no order of rows changes the result.


@pytest.mark.parametrize(("missing", "count"), [("drop", 1), ("drop", 9), ("mean", 40)])
def test_any_partitioning_gives_what_memory_gives(session, missing, count):
    frame = mixed_frame(gaps=0.15)
    table = share(session, shuffle(frame, count), count)
    found = engine.summarize(table, **COLUMNS, missing=missing)
    assert_same_columns(found.whole, summarize_naively(frame, missing))
    assert found.rows == 200
    assert found.counts.keys() == set("abcde")


@pytest.mark.parametrize("count", [2, 7])
def test_coefficients_agree(session, monkeypatch, count):
    if count == 7:
        monkeypatch.setattr(engine, "LEVELS", LEVELS)
    frame = mixed_frame()
    table = share(session, shuffle(frame, count), count)
    found = fit_tightly(engine.summarize(table, **COLUMNS).whole)
    for twin in (
        summarize_naively(frame),
        parquet.summarize(to_arrow(frame), **COLUMNS).whole,
    ):
        assert_same_model(found, fit_tightly(twin))


def test_tasks_and_categories_may_come_in_the_last_partition(session):
    frame = mixed_frame()
    late = (frame["school"] == "e") | (frame["colour"] == "amber")
    table = share(session, frame[~late], 9).union(share(session, frame[late], 1))
    found = engine.summarize(table, **COLUMNS)
    assert_same_columns(found.whole, summarize_naively(frame))
    assert found.categories == {"colour": ("amber", "blue", "green", "red")}


@pytest.mark.parametrize("folding", [{"folds": 4, "key": "id"}, {"folds": 3}])
def test_folds_are_those_of_files(session, folding):
    frame = mixed_frame()
    expected = parquet.summarize(ds.dataset(to_arrow(frame)), **COLUMNS, **folding)
    found = engine.summarize(share(session, shuffle(frame), 7), **COLUMNS, **folding)
    for part, twin in zip(found.parts, expected.parts, strict=True):
        assert_same_columns(part, twin)
        assert part.features == twin.features


def test_rows_may_count_alike(session):
    frame = mixed_frame()
    columns = {**COLUMNS, "weight": None}
    found = engine.summarize(share(session, frame, 3), **columns)
    assert_same_columns(found.whole, summarize_naively(frame, weighted=False))


def test_small_tasks_are_left_out(session):
    table = share(session, mixed_frame(), 3)
    whole = engine.summarize(table, **COLUMNS)
    least = sorted(whole.counts.values())[2]
    found = engine.summarize(table, **COLUMNS, min_rows=least)
    assert_same_columns(found.whole, whole.without_small(least).whole)
    assert min(found.counts.values()) == least


# Kinds of tables.


def test_partitions_may_have_no_rows(session):
    frame = mixed_frame(6)
    found = engine.summarize(share(session, frame, 10), **COLUMNS)
    assert_same_columns(found.whole, summarize_naively(frame))
    with pytest.raises(ValueError, match="there must be rows to learn from"):
        engine.summarize(share(session, frame, 2), **COLUMNS, where="id < 0")


def test_the_page_on_scaling_runs_as_written(session, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, *others = find_examples(DOCS / "guide" / "scale.md")
    exec(first, {})
    (code,) = [block for block in others if "pyspark" in block]
    run_python(code.replace('"exams"', f'"{tmp_path}/exams"'), {}, capsys)


def test_files_are_read_by_the_columns_in_use(session, tmp_path, capsys):
    frame = mixed_frame().rename(columns={"size": "size.of `x`"})
    frame.to_parquet(tmp_path / "a.parquet")
    columns = {**COLUMNS, "features": ["size.of `x`", "colour", "count"]}
    table = session.read.parquet(str(tmp_path))
    found = engine.summarize(table, **columns, where="id >= 50 and colour != 'red'")
    kept = mixed_frame()
    kept = kept[(kept["id"] >= 50) & (kept["colour"] != "red")]
    assert found.whole.features[0] == "size.of `x`"
    np.testing.assert_allclose(
        found.whole.x_mean, summarize_naively(kept).x_mean, rtol=1e-9
    )
    engine._narrow(engine.Schema(**columns), None, table).explain()
    read = capsys.readouterr().out.split("ReadSchema:")[1]
    assert "school" in read
    assert "id:" not in read


def test_filters_may_be_columns(session):
    frame = mixed_frame()
    table = share(session, frame, 4)
    where = (table["id"] >= 50) & (table["colour"] != "red")
    found = engine.summarize(table, **COLUMNS, where=where)
    kept = frame[(frame["id"] >= 50) & (frame["colour"] != "red")]
    assert_same_columns(found.whole, summarize_naively(kept))


# Faults.


def kill_worker():
    import os  # noqa: PLC0415

    os._exit(1)


def kill_executor():
    """The machine that Python works for, two processes above."""
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415

    with open(f"/proc/{os.getppid()}/stat") as file:
        os.kill(int(file.read().split()[3]), signal.SIGKILL)
    os._exit(1)


@pytest.mark.parametrize(
    ("step", "kill", "when"),
    [
        ("summarize_partition", kill_worker, "before"),
        ("summarize_partition", kill_worker, "after"),
        ("summarize_partition", kill_executor, "before"),
        ("merge_partitions", kill_executor, "before"),
    ],
)
def test_what_is_killed_changes_nothing(
    session, monkeypatch, tmp_path, step, kill, when
):
    """Partials that die with an executor are made again, and count once.

    "after": the result was given to Spark already, as by tasks that it runs twice
    (which it does on machines of different names only, so not here).
    """
    if kill is kill_executor and not sys.platform.startswith("linux"):
        pytest.skip("processes are looked up in /proc")
    table = share(session, mixed_frame(gaps=0.15), 20)
    expected = engine.summarize(table, **COLUMNS, missing="mean")
    work, deadly, marker = getattr(engine, step), by_value(kill), tmp_path / "died"

    def dying(*arguments):
        from pyspark import TaskContext  # noqa: PLC0415

        dies = TaskContext.get().partitionId() == 3 and not marker.exists()
        if dies and when == "before":
            marker.touch()
            deadly()
        yield from work(*arguments)
        if dies:
            marker.touch()
            deadly()

    monkeypatch.setattr(engine, step, dying)
    found = engine.summarize(table, **COLUMNS, missing="mean")
    assert marker.exists()
    assert_identical(found.whole, expected.whole)
    assert found.rows == 200


def by_value(function):
    """The function so that it travels without this file."""
    from types import FunctionType  # noqa: PLC0415

    return FunctionType(function.__code__, {"__name__": "__main__"}, function.__name__)


def test_values_that_cannot_be_used_name_their_partition(session):
    frame = mixed_frame()
    frame.loc[199, "size"] = None
    table = share(session, frame, 5)
    with pytest.raises(DataFileError) as caught:
        engine.summarize(table, **COLUMNS)
    told = str(caught.value)
    assert told.startswith("partition 4: column 'size' lacks 1 of 40 values: fill them")
    assert "\n" not in told
    assert "Traceback" not in told
    assert caught.value.__suppress_context__


def test_statistics_that_do_not_fit_together_are_refused(session):
    frame = mixed_frame(1500).assign(colour=[str(i) for i in range(1500)])
    with pytest.raises(DataFileError, match="do not fit together: column 'colour'"):
        engine.summarize(share(session, frame, 4), **COLUMNS)


def test_damaged_statistics_are_refused(session, monkeypatch):
    def damaged(_):
        import pyarrow as pa  # noqa: PLC0415

        yield pa.RecordBatch.from_pydict(
            {"number": pa.array([0], pa.int32()), "content": [b"nonsense"]}
        )

    monkeypatch.setattr(engine, "merge_partitions", damaged)
    with pytest.raises(ModelFileError, match=r"^statistics did not arrive as sent"):
        engine.summarize(share(session, mixed_frame(), 2), **COLUMNS)


def test_executors_without_the_package_are_told_of(session, monkeypatch):
    def absent(*_):
        raise ModuleNotFoundError("No module named 'priormtl'")

    monkeypatch.setattr(engine, "summarize_partition", absent)
    with pytest.raises(ImportError, match="executors of Spark must find priormtl"):
        engine.summarize(share(session, mixed_frame(), 2), **COLUMNS)


DAMAGES = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-30]),
    "gone": lambda file: file.unlink(),
    "other types": lambda file: mixed_frame(20).assign(size="big").to_parquet(file),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_read_is_named(session, tmp_path, damage):
    for name in ("a", "b"):
        mixed_frame().to_parquet(tmp_path / f"{name}.parquet")
    table = session.read.parquet(str(tmp_path))
    DAMAGES[damage](tmp_path / "b.parquet")
    with pytest.raises(
        DataFileError, match=r"^\S*b\.parquet cannot be read: \w"
    ) as caught:
        engine.summarize(table, **COLUMNS)
    assert "\n" not in str(caught.value)


def test_a_full_driver_is_told_of(session):
    settings = session.sparkContext._jsc.sc().conf()
    settings.set("spark.driver.maxResultSize", "1b")
    try:
        with pytest.raises(ValueError, match=r"raise spark\.driver\.maxResultSize"):
            engine.summarize(share(session, mixed_frame(), 2), **COLUMNS)
    finally:
        settings.remove("spark.driver.maxResultSize")


def test_statistics_too_large_for_spark_are_refused(monkeypatch):
    """As on an executor, without two gigabytes."""
    pytest.importorskip("pyspark", reason=REASON)
    monkeypatch.setattr(engine, "LARGEST", 1000)
    rows, schema = to_arrow(mixed_frame()), engine.Schema(**COLUMNS)
    step = engine.summarize_partition(schema, rows.column_names, rows.to_batches())
    with pytest.raises(DataFileError, match="5 tasks over 6 features must be smal"):
        list(step)


def test_wrong_arguments_are_refused_at_once(session):
    table = share(session, mixed_frame(), 2)
    with pytest.raises(ValueError, match=r"unknown column 'schol'.*'school'"):
        engine.summarize(table, task="schol", target="score")
    with pytest.raises(ValueError, match=r"^where cannot be used .*yaer[^\n]*$"):
        engine.summarize(table, **COLUMNS, where="yaer > 3")
    twice = table.withColumnRenamed("id", "size")
    with pytest.raises(
        ValueError, match=r"^the columns of table cannot be .*size[^\n]*$"
    ):
        engine.summarize(twice, **COLUMNS)
    with pytest.raises(ValueError, match="a Spark data frame: got DataFrame"):
        engine.summarize(mixed_frame(), **COLUMNS)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match=r"pip install 'priormtl\[spark\]'"):
        engine.summarize(mixed_frame(), **COLUMNS)


# Errors in one sentence.


HEAD = "An error occurred while calling o153.collectToPython.\n: org.x.SparkException: "
FAILED = (
    "[FAILED_READ_FILE] Encountered error while reading file file:///a%20b/1.parquet"
)
TRACE = "\n\tat org.apache.spark.sql.Errors$.fail(Errors.scala:920)\n"
CASES = {
    "own": (
        "Traceback\n  x\npriormtl.exceptions.DataFileError: partition 4: no.\n\tat",
        DataFileError,
        r"^partition 4: no\.$",
    ),
    "damaged": (
        "x\npriormtl.exceptions.ModelFileError: statistics did not arrive as sent: a.",
        ModelFileError,
        r"^statistics did not arrive as sent: a\.$",
    ),
    "cut off": (
        f"{FAILED}.  SQLSTATE: KD001{TRACE}Caused by: a.b.C$D: first\n"
        "Caused by: java.lang.RuntimeException: it is not a Parquet file.\n\tat x",
        DataFileError,
        r"^file:///a%20b/1\.parquet cannot be read: it is not a Parquet file\.$",
    ),
    "gone": (
        f"{FAILED}. File does not exist. It is possible.\nYou can. SQLSTATE: KD001",
        DataFileError,
        r"1\.parquet cannot be read: File does not exist\. It is possible\.$",
    ),
    "other types": (
        f"{FAILED}. Data type mismatches. SQLSTATE: KD001{TRACE}",
        DataFileError,
        r"1\.parquet cannot be read: Data type mismatches\.$",
    ),
    "no reason": (
        f"Error while reading file s3://b/1.parquet.{TRACE}",
        DataFileError,
        r"^s3://b/1\.parquet cannot be read: .*",
    ),
    "cut off, 3.5": (
        f"{HEAD}java.lang.RuntimeException: file:/a/1.parquet is not a Parquet file. "
        f"Expected magic number at tail, but found [1]{TRACE}",
        DataFileError,
        r"^file:/a/1\.parquet cannot be read: is not a Parquet file\.$",
    ),
    "gone, 3.5": (
        f"{HEAD}a.b.C: File file:/a/1.parquet does not exist\nIt is possible{TRACE}",
        DataFileError,
        r"^file:/a/1\.parquet cannot be read: does not exist\.$",
    ),
    "other types, 3.5": (
        f"{HEAD}Parquet column cannot be converted in file file:///a/1.parquet. "
        f"Column: [size], Expected: double, Found: BINARY.{TRACE}",
        DataFileError,
        r"1\.parquet cannot be read: Column: \[size\], Expected: .*: BINARY\.$",
    ),
    "no package": (
        "ModuleNotFoundError: No module named 'priormtl'",
        ImportError,
        "executors of Spark must find priormtl",
    ),
    "full driver": (
        "Total size of results is bigger than spark.driver.maxResultSize (1.0 GiB)",
        ValueError,
        r"raise spark\.driver\.maxResultSize",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_helps_is_said_in_one_sentence(case):
    told, kind, message = CASES[case]
    with pytest.raises(kind, match=message) as caught, plain_errors():
        raise RuntimeError(HEAD + told)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_all_else_passes():
    error = RuntimeError("no executor is left")
    with pytest.raises(RuntimeError) as caught, plain_errors():
        raise error
    assert caught.value is error


def test_statistics_beyond_the_largest_value_are_refused():
    refuse_large(engine.LARGEST, (500, 1000))
    message = r"1000 tasks over 500 features .* 2\.15 GB .* got 3\.00 GB; use fewer"
    with pytest.raises(DataFileError, match=message):
        refuse_large(3 * 10**9, (500, 1000))


def test_first_lines_are_short():
    assert first_line(ValueError("  a. \nb")) == "a"
    assert first_line(ValueError("")) == "ValueError"
    assert len(first_line(ValueError("a" * 999))) == 300


# Fits of tasks on executors.


TASKS = {"task": "school", "target": "score", "weight": "w"}


@pytest.mark.parametrize("lam", [0.0, 3.0])
def test_tasks_are_fitted_where_they_are(session, tmp_path, lam):
    settings = {"lam": lam, "theta": 0.0, "task_prior": "mean", "standardize": True}
    settings |= {"fit_intercept": "tied"}
    if lam == 0.0:
        settings |= {"ties": "adaptive", "intercept_strength": "adaptive"}
    frame = mixed_frame()
    model, again = (priormtl.MultiTaskRegressor(**settings) for _ in range(2))
    features = COLUMNS["features"]
    priormtl.engines.fit(again, to_arrow(frame), **TASKS, features=features)
    table, out = share(session, shuffle(frame, 1), 3), tmp_path / "out"
    engine.fit(model, table, **TASKS, features=features, n_parts=3)
    order, back = np.argsort(model.tasks_), np.argsort(again.tasks_)
    np.testing.assert_allclose(model.coef_[order], again.coef_[back], atol=1e-9)
    np.testing.assert_allclose(
        model.intercept_[order], again.intercept_[back], atol=1e-9
    )
    found = engine.fit(
        priormtl.MultiTaskRegressor(**settings),
        table,
        **TASKS,
        features=features,
        n_parts=2,
        out=out,
    )
    rows = frame.assign(school=frame["school"].where(frame.index > 3, "new"))
    got = engine.predict(out, share(session, rows, 2)).toArrow().to_pandas()
    got, rows = got.sort_values("id"), rows.sort_values("id")
    known = rows["school"].to_numpy() != "new"
    want = model.predict(rows[known], task=rows["school"][known])
    np.testing.assert_allclose(got["prediction"][known], want, atol=1e-9)
    shared = model.design_.encode(rows[~known]) @ found.shared_coef
    np.testing.assert_allclose(
        got["prediction"][~known], shared + found.shared_intercept, atol=1e-9
    )
