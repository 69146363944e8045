"""fit_source: files give the model that their rows give."""

import logging
import sys
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import parquet

from drawn_tables import encode_naively, mixed_frame, to_arrow
from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskStatistics,
    load,
    save,
    summarize,
)
from priormtl.data import on_disk, pooled_means
from priormtl.data.on_disk import MOST_HELD
from priormtl.engines import Schema, open_shards, sources
from priormtl.engines import summarize as summarize_files
from priormtl.estimators import progress
from priormtl.estimators.sources import hold_back, read_source
from priormtl.exceptions import DataFileError

COLUMNS = {"target": "score", "weight": "w", "features": ["size", "colour", "count"]}
FAST = {"lams": 3, "thetas": [1.0], "epsilons": [0.1, 10.0]}


@pytest.fixture
def frame():
    return mixed_frame(gaps=0.1)


@pytest.fixture
def folder(frame, tmp_path):
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        parquet.write_table(to_arrow(frame.iloc[rows]), tmp_path / f"{i}.parquet")
    return tmp_path


def fit_rows(model, frame, missing):
    X, rows, weight = encode_naively(frame, missing)
    return model.fit(
        X, rows["score"], task=rows["school"].to_list(), sample_weight=weight
    )


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_files_give_the_model_of_their_rows(folder, frame, missing):
    settings = {"lam": 0.5, "standardize": True, "tol": 1e-12}
    model = MultiTaskRegressor(**settings)
    model.fit_source(folder, task="school", missing=missing, **COLUMNS)
    expected = fit_rows(MultiTaskRegressor(**settings), frame, missing)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-7, atol=1e-9)
    assert model.tasks_.tolist() == expected.tasks_.tolist()
    assert model.feature_names_in_.tolist() == expected.feature_names_in_.tolist()
    X, rows, _ = encode_naively(frame, missing)
    task = rows["school"].to_list()
    np.testing.assert_allclose(
        model.predict(X, task=task), expected.predict(X, task=task), rtol=1e-5
    )


def test_strengths_are_chosen_on_parts_of_one_pass(folder):
    model = MultiTaskRegressorCV(**FAST, cv=3, standardize=True)
    model.fit_source(folder, task="school", missing="mean", key="id", **COLUMNS)
    parts = summarize_files(
        folder, task="school", missing="mean", key="id", folds=3, **COLUMNS
    ).parts
    twin = MultiTaskRegressorCV(**FAST, standardize=True).fit_statistics(parts)
    assert model.n_splits_ == 3
    assert model.best_score_ == pytest.approx(twin.best_score_, rel=1e-12)
    np.testing.assert_allclose(model.coef_, twin.coef_, rtol=1e-9)


def test_tasks_of_one_part_stay_in_training(folder, frame, tmp_path):
    alone = frame.iloc[:1].assign(school="z", size=1.0, colour="red", count=1.0)
    parquet.write_table(to_arrow(alone), tmp_path / "9.parquet")
    model = MultiTaskRegressorCV(**FAST, cv=3)
    model.fit_source(folder, task="school", missing="mean", **COLUMNS)
    assert model.tasks_.tolist() == ["a", "b", "c", "d", "e", "z"]


def test_held_back_tasks_are_all_of_their_rows():
    X, y = np.arange(6.0)[:, np.newaxis], np.arange(6.0)
    a = summarize(X[:3], y[:3], ["u", "u", "v"])
    b = summarize(X[3:], y[3:], ["v", "v", "w"])
    *tests, always = hold_back([a, b])
    assert [part.weight.tolist() for part in tests] == [[0, 1, 0], [0, 2, 0]]
    assert always.weight.tolist() == [2, 0, 1]
    assert always.x_mean[:, 0].tolist() == [0.5, 0, 5]
    whole = (tests[0] + tests[1]) + always
    assert whole.xx.tolist() == (a + b).xx.tolist()
    with pytest.raises(
        ValueError, match="each of 2 parts must hold rows of tasks that"
    ):
        hold_back([a, summarize(X[3:], y[3:], ["w", "w", "w"])])


def test_the_task_may_come_from_the_constructor(folder):
    model = MultiTaskRegressor(task="school")
    model.fit_source(folder, missing="drop", **COLUMNS)
    assert len(model.tasks_) == 5
    with pytest.raises(ValueError, match="task must name the column of the tasks"):
        MultiTaskRegressor(task=3).fit_source(folder, **COLUMNS)


def test_a_schema_says_what_its_fields_say(folder):
    schema = Schema("school", missing="mean", **COLUMNS)
    named = {"task": "school", "missing": "mean", **COLUMNS}
    for model in (MultiTaskRegressor(), MultiTaskRegressorCV(**FAST, cv=3)):
        coef = model.fit_source(folder, schema).coef_.copy()
        assert np.array_equal(coef, model.fit_source(folder, **named).coef_)
    dropped = MultiTaskRegressor().fit_source(folder, schema, missing="drop")
    assert dropped.design_.missing == "drop"


def test_text_is_no_target_of_a_regression(folder):
    with pytest.raises(ValueError, match=r"column 'colour' must hold numbers .*class"):
        MultiTaskRegressor().fit_source(folder, task="school", target="colour")


@pytest.mark.parametrize("cv", [1, True, [([0], [1])], None, 2.0])
def test_folds_must_be_a_number(folder, cv):
    model = MultiTaskRegressorCV(cv=cv)
    with pytest.raises(ValueError, match="cv must be a number of folds"):
        model.fit_source(folder, task="school", **COLUMNS)


def test_scorings_that_need_rows_are_refused_before_reading(folder):
    model = MultiTaskRegressorCV(scoring="r2")
    with pytest.raises(ValueError, match="scoring='r2' needs rows"):
        model.fit_source(folder / "none", task="school", **COLUMNS)


@pytest.mark.parametrize("kind", [MultiTaskRegressor, MultiTaskRegressorCV])
def test_errors_leave_the_model_as_it_was(folder, kind):
    model = kind().fit_source(folder, task="school", missing="drop", **COLUMNS)
    before = dict(vars(model))
    (folder / "1.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataFileError, match=r"1\.parquet cannot be read"):
        model.fit_source(folder, task="school", missing="drop", **COLUMNS)
    assert vars(model) == before


def test_long_readings_are_told_by_bytes(folder, monkeypatch, caplog):
    ticks = iter(range(0, 10**6, 10))
    monkeypatch.setattr(progress, "monotonic", lambda: next(ticks))
    stderr = SimpleNamespace(isatty=lambda: False)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stderr))
    caplog.set_level(logging.INFO, "priormtl")
    model = MultiTaskRegressor()
    model.fit_source(folder, task="school", missing="drop", **COLUMNS)
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert "MultiTaskRegressor, reading:" in caplog.text
    assert f"of {size} bytes" in caplog.text


def test_rows_in_memory_are_a_source(frame):
    model = MultiTaskRegressor()
    source = ds.dataset(to_arrow(frame))
    model.fit_source(source, task="school", missing="drop", **COLUMNS)
    assert model.coef_.shape == (5, 6)


def test_without_pyarrow_a_sentence_says_what_to_install(folder, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("priormtl.engines")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("priormtl.engines", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'priormtl\[arr"):
        MultiTaskRegressor().fit_source(folder, task="school", **COLUMNS)


KINDS = {
    "fixed": lambda: MultiTaskRegressor(standardize=True),
    "searched": lambda: MultiTaskRegressorCV(**FAST, cv=3),
    "fixed classes": MultiTaskClassifier,
    "searched classes": lambda: MultiTaskClassifierCV(**FAST, cv=3),
}
BUILDS = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "arrow": to_arrow}


@pytest.fixture(scope="module", params=KINDS)
def learned(request):
    """Model of files, and the table that it learned from; neither is to be changed."""
    frame = mixed_frame(gaps=0.1)
    frame = frame.assign(score=np.where(frame["score"] > 0, 1.0, 0.0))
    source = ds.dataset(to_arrow(frame))
    model = KINDS[request.param]()
    return model.fit_source(source, task="school", missing="mean", **COLUMNS), frame


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_raw_tables_are_predicted_as_their_features(learned, build):
    model, frame = learned
    X, rows, _ = encode_naively(frame, "mean")
    expected = model._scores(X, rows["school"].to_list())[0]
    found = model._scores(build(frame), None)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert model.task_column_ == "school"


def test_files_of_models_keep_the_columns(learned, tmp_path):
    model, frame = learned
    save(model, tmp_path / "a.model")
    twin = load(tmp_path / "a.model")
    np.testing.assert_array_equal(twin.predict(frame), model.predict(frame))
    assert twin.design_ == model.design_
    assert twin.task_column_ == "school"
    np.testing.assert_array_equal(twin.feature_scale_, model.feature_scale_)


def test_rows_are_scored_and_tasks_may_be_given(learned):
    model, frame = learned
    others = frame.assign(school=frame["school"].to_numpy()[::-1])
    labels = frame["school"].to_list()
    assert model.score(frame, frame["score"]) == model.score(
        others, frame["score"], task=labels
    )
    with pytest.raises(ValueError, match="task must be given"):
        model.predict(frame.drop(columns="school"))
    with pytest.raises(ValueError, match=r"unknown task 'q'; known: 'a', 'b'"):
        model.predict(frame.assign(school="q"))


def test_a_fit_to_rows_forgets_the_columns(learned):
    model, frame = deepcopy(learned)
    X, rows, _ = encode_naively(frame, "mean")
    model.fit(X, rows["score"], task=rows["school"].to_list())
    assert model.design_.is_plain
    assert not hasattr(model, "task_column_")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame)


def test_statistics_of_sites_keep_the_columns(folder, frame, tmp_path):
    columns = COLUMNS | {"task": "school", "missing": "mean"}
    columns["categories"] = {"colour": ["amber", "blue", "green", "red"]}
    for name, where in (("a", "id < 90"), ("b", "id >= 90")):
        found = summarize_files(folder, where=where, **columns)
        found.whole.save(tmp_path / f"{name}.stats")
    parts = [TaskStatistics.load(tmp_path / f"{name}.stats") for name in "ab"]
    for model in (
        MultiTaskRegressor().fit_statistics(parts[0] + parts[1]),
        MultiTaskRegressorCV(**FAST).fit_statistics(parts),
    ):
        assert np.isfinite(model.predict(frame)).all()
        X, weight = encode_naively(frame, "mean")[::2]
        means = pooled_means(parts[0] + parts[1])
        fills = [np.ravel(term.fill) for term in model.design_.terms]
        np.testing.assert_allclose(np.concatenate(fills), means)
        np.testing.assert_allclose(means, np.average(X, axis=0, weights=weight), 0.1)


def test_further_rows_may_come_as_tables(folder, frame):
    model = MultiTaskRegressor().fit_source(
        folder, task="school", missing="mean", **COLUMNS
    )
    more = frame.iloc[:50]
    model.partial_fit(more, more["score"], sample_weight=more["w"])
    weight = frame["w"].sum() + more["w"].sum()
    assert model.statistics_.weight.sum() == pytest.approx(weight)
    assert model.design_.missing == "mean"


def test_classes_of_files_with_the_task_in_the_constructor(frame):
    frame = frame.assign(score=np.where(frame["score"] > 0, "yes", "no"))
    model = MultiTaskClassifier(task="school", standardize=True)
    model.fit_source(to_arrow(frame), missing="drop", **COLUMNS)
    known = frame.dropna()
    assert set(model.predict(known)) <= {"yes", "no"}
    with pytest.raises(ValueError, match="column 'size' lacks"):
        model.predict(frame)


def test_statistics_on_disk_give_the_same_model(folder, tmp_path_factory):
    shards = tmp_path_factory.mktemp("shards") / "statistics"
    settings = {"lam": 0.5, "standardize": True, "tol": 1e-12}
    there = MultiTaskRegressor(**settings)
    there.fit_source(folder, task="school", missing="drop", shards=shards, **COLUMNS)
    here = MultiTaskRegressor(**settings)
    here.fit_source(folder, task="school", missing="drop", **COLUMNS)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-9, atol=1e-9)
    assert there.statistics_.is_mapped
    assert shards.is_dir()


SEARCHES = {
    "plain": {},
    "standardised": {"standardize": True},
    "adaptive": {"standardize": True, "ties": "adaptive"},
    "tied": {"fit_intercept": "tied"},
    "correlations": {"feature_prior": FeaturePrior.from_correlation(2)},
    "nuclear": {"penalty": "nuclear", "standardize": True},
    "outliers": {"outlier_tasks": True, "standardize": True},
    "threads": {"n_jobs": 2},
}


@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)
def test_searches_on_folds_on_disk_are_those_in_memory(frame, tmp_path, settings):
    frame["score"] += 2.0 * frame["count"].fillna(2.0)
    frame.loc[7, "school"] = "alone"
    columns = COLUMNS | {"task": "school", "missing": "mean", "key": "id"}
    fixed = {"lams": 3, "thetas": [0.0, 1.0], "epsilons": [0.1, 10.0], "cv": 3}
    here, there = (
        MultiTaskRegressorCV(**PAPER | fixed | settings, tol=1e-12) for _ in range(2)
    )
    here.fit_source(to_arrow(frame), **columns)
    there.fit_source(to_arrow(frame), **columns, shards=tmp_path / "statistics")
    assert here.coef_.any()
    for name in ("split0_test_score", "split2_test_score", "mean_test_score"):
        expected = here.cv_results_[name]
        np.testing.assert_allclose(there.cv_results_[name], expected, rtol=1e-9)
    assert there.best_index_ == here.best_index_
    close = {"rtol": 1e-7, "atol": 1e-7 * np.abs(here.coef_).max()}
    np.testing.assert_allclose(there.coef_, here.coef_, **close)
    np.testing.assert_allclose(there.intercept_, here.intercept_, rtol=1e-7, atol=1e-6)
    assert there.statistics_.is_mapped


def test_what_statistics_on_disk_cannot_do_is_said_and_changes_nothing(
    folder, tmp_path_factory, monkeypatch
):
    shards = tmp_path_factory.mktemp("shards") / "statistics"
    monkeypatch.setattr(on_disk.StreamedGrams, "size", MOST_HELD + 1)
    model = MultiTaskRegressorCV(**FAST, ties="adaptive")
    columns = COLUMNS | {"task": "school", "missing": "drop"}
    with pytest.raises(MemoryError, match=r'neither ties="adaptive" nor'):
        model.fit_source(folder, **columns, shards=shards)
    assert not hasattr(model, "cv_results_")
    assert len(open_shards(shards).parts) == 5  # they are whole, and can be used
    # What needs them all at once is not tried unless it is asked for.
    other = shards.with_name("other")
    model = MultiTaskRegressorCV(**FAST).fit_source(folder, **columns, shards=other)
    assert (model.structure_["ties"], model.structure_["fit_intercept"]) == (
        "uniform",
        True,
    )


# Small tables are dealt evenly to folds.


def small_table(n=20, tasks=1, seed=0):
    rng = np.random.default_rng(seed)
    labels = [f"t{i % tasks}" for i in range(n)]
    return pa.table({"x": rng.normal(size=n), "y": rng.normal(size=n), "t": labels})


def fold_weights(source, folds=5, **columns):
    """Rows of each task in each fold (folds, tasks)."""
    found = read_source(source, task="t", target="y", folds=folds, **columns)
    return np.array([part.weight for part in found.parts])


@pytest.mark.parametrize("tasks", [1, 3, 7])
def test_folds_of_small_tables_are_even_within_tasks_and_overall(tasks):
    for seed in range(20):
        found = fold_weights(small_table(20 + seed, tasks, seed))
        assert np.ptp(found, axis=0).max() <= 1
        assert np.ptp(found.sum(axis=1)) <= 1


def test_even_folds_do_not_depend_on_files_order_and_batches(tmp_path, monkeypatch):
    table = small_table(60, 4)
    expected = read_source(table, task="t", target="y", folds=4).parts
    order = np.random.default_rng(1).permutation(60)
    for k, rows in enumerate(np.array_split(order, 5)):
        parquet.write_table(table.take(rows), tmp_path / f"{k}.parquet")
    monkeypatch.setattr(sources, "choose_rows", lambda *_: 7)
    found = read_source(tmp_path, task="t", target="y", folds=4).parts
    for one, other in zip(expected, found, strict=True):
        assert one.tasks == other.tasks
        np.testing.assert_allclose(one.x_mean, other.x_mean, rtol=1e-12)
        np.testing.assert_array_equal(one.weight, other.weight)


def test_dropped_rows_do_not_take_turns():
    table = small_table(24, 2)
    holes = [None if i % 3 == 0 else v for i, v in enumerate(table["x"].to_pylist())]
    table = table.set_column(0, "x", pa.array(holes))
    found = fold_weights(table, 4, missing="drop")
    assert np.ptp(found, axis=0).max() <= 1
    assert found.sum() == 16


def test_larger_tables_and_keys_are_dealt_by_hashes(tmp_path, monkeypatch):
    table = small_table(60, 4).append_column("id", pa.array(range(60)))
    by_hash = summarize_files(table, task="t", target="y", folds=4, features=["x"])
    monkeypatch.setattr(sources, "SMALL_ROWS", 59)
    found = fold_weights(table, 4, features=["x"])
    np.testing.assert_array_equal(found, [part.weight for part in by_hash.parts])
    monkeypatch.undo()
    assert np.ptp(fold_weights(table, 4, features=["x"]), axis=0).max() <= 1
    keyed = summarize_files(table, task="t", target="y", folds=4, key="id")
    found = fold_weights(table, 4, key="id")
    np.testing.assert_array_equal(found, [part.weight for part in keyed.parts])


def test_statistics_on_disk_have_the_same_even_folds(tmp_path):
    table = small_table(30, 3)
    found = fold_weights(table, 4, shards=tmp_path / "out")
    np.testing.assert_array_equal(found, fold_weights(table, 4))
