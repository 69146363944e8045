"""Tasks that are fitted where they are have the coefficients of a fit in memory."""

import logging
import os
import signal

import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    engines,
)
from priormtl.engines import dask as on_dask
from priormtl.engines import task_blocks
from priormtl.estimators import many_tasks
from priormtl.exceptions import DataFileError, ModelFileError

SETTINGS = {
    "lam": 0.0,
    "theta": 0.0,
    "task_prior": "mean",
    "fit_intercept": "tied",
    "standardize": True,
}
ADAPTIVE = SETTINGS | {"ties": "adaptive", "intercept_strength": "adaptive"}
COLUMNS = {"task": "shop", "target": "y", "weight": "w"}


def draw(loss="squared", m=80, seed=0):
    """Rows of shops in any order, with a text column."""
    rng = np.random.default_rng(seed)
    shop = rng.permutation(np.repeat(np.arange(m), rng.integers(2, 12, m)))
    n = len(shop)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(3.0, 1.0, n)})
    frame["day"] = rng.choice(["mon", "tue"], n)
    slope = rng.normal(1.0, 0.5, m)[shop]
    eta = slope * frame["a"] - 0.3 * frame["b"] + (frame["day"] == "tue")
    eta = eta + rng.normal(size=m)[shop]
    frame["y"] = eta + rng.normal(size=n)
    if loss == "logistic":
        frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    if loss == "poisson":
        frame["y"] = rng.poisson(np.exp(0.3 * eta))
    frame["w"] = rng.uniform(0.5, 2.0, n)
    frame["shop"] = [f"shop {i:03d}" for i in shop]
    return frame


def make(loss, settings):
    if loss == "logistic":
        return MultiTaskClassifier(**settings)
    return MultiTaskRegressor(loss=loss, **settings)


def fit_in_memory(monkeypatch, loss, settings):
    monkeypatch.setattr(many_tasks, "MANY", 2)
    frame = draw(loss, m=30)
    X = frame[["a", "b"]].assign(
        **{f"day={v}": (frame["day"] == v) * 1.0 for v in ("mon", "tue")}
    )
    model = make(loss, settings)
    return model.fit(X, frame["y"], task=frame["shop"], sample_weight=frame["w"])


def assert_same(one, other):
    a, b = np.argsort(one.tasks_), np.argsort(other.tasks_)
    np.testing.assert_array_equal(one.tasks_[a], other.tasks_[b])
    np.testing.assert_allclose(one.coef_[a], other.coef_[b], atol=1e-9)
    np.testing.assert_allclose(one.intercept_[a], other.intercept_[b], atol=1e-9)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)


CASES = [
    ("squared", ADAPTIVE),
    ("squared", SETTINGS | {"lam": 5.0}),
    pytest.param("logistic", ADAPTIVE, marks=pytest.mark.slow),
    ("poisson", SETTINGS | {"lam": 1.0}),
]


@pytest.mark.parametrize(("loss", "settings"), CASES)
def test_dask_and_files_agree_with_memory(monkeypatch, tmp_path, loss, settings):
    whole = fit_in_memory(monkeypatch, loss, settings)
    frame = draw(loss, m=30)
    table = dd.from_pandas(frame, npartitions=2)
    model = make(loss, settings)
    found = on_dask.fit(model, table, **COLUMNS)
    assert_same(whole, model)
    assert found.gap <= 1e-6 * found.unit
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    again = make(loss, settings)
    engines.fit(again, tmp_path / "rows.parquet", **COLUMNS, folder=tmp_path)
    assert_same(whole, again)
    # Spill files that are too large for memory are split.
    monkeypatch.setattr(task_blocks, "BUCKETS", 3)
    monkeypatch.setattr(task_blocks, "BUCKET", 3000)
    engines.fit(again, tmp_path / "rows.parquet", **COLUMNS, folder=tmp_path)
    assert_same(whole, again)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize(
    ("loss", "match"),
    [
        ("poisson", "at least one count above 0"),
        ("logistic", "two classes"),
        ("gamma", None),
    ],
)
def test_parts_may_hold_one_value_the_table_may_not(tmp_path, loss, match):
    """A bucket of tasks may have no count above zero, or one class."""
    frame, settings = draw(loss, m=8), SETTINGS | {"lam": 0.1}
    frame["w"] = 1.0
    if loss == "gamma":
        frame["y"] = np.exp(0.3 * frame["y"])
    flat = frame["shop"] < "shop 005"
    frame.loc[flat, "y"] = 1.0 if loss == "gamma" else 0.0
    model = make(loss, settings).fit(
        frame[["a", "b"]], frame["y"], task=frame["shop"], sample_weight=frame["w"]
    )
    path, columns = tmp_path / "rows.parquet", COLUMNS | {"features": ["a", "b"]}
    frame.to_parquet(path, row_group_size=40)
    on_files, in_parts = make(loss, settings), make(loss, settings)
    engines.fit(on_files, path, **columns, folder=tmp_path)
    table = dd.from_pandas(frame, npartitions=2)
    on_dask.fit(in_parts, table, **columns, n_parts=8)
    for other in (on_files, in_parts):
        order = np.argsort(other.tasks_)
        np.testing.assert_allclose(model.coef_, other.coef_[order], atol=1e-5)
    if match is not None:
        frame.assign(y=0).to_parquet(path)
        with pytest.raises(ValueError, match=match):
            engines.fit(on_files, path, **columns, folder=tmp_path)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_written_coefficients_predict_by_a_join(tmp_path, loss):
    frame, out = draw(loss), tmp_path / "out"
    settings = SETTINGS | {"unseen_tasks": "shared"}
    model, table = make(loss, settings), dd.from_pandas(frame, npartitions=3)
    on_dask.fit(model, table, **COLUMNS)
    found = on_dask.fit(make(loss, settings), table, **COLUMNS, out=out, n_parts=2)
    coefs = pq.read_table(out).to_pandas().set_index("task").loc[list(model.tasks_)]
    names = ["(intercept)", "a", "b", "day=mon", "day=tue"]
    assert list(coefs.columns) == names
    np.testing.assert_allclose(coefs.to_numpy()[:, 1:], model.coef_, atol=1e-10)
    rows = frame.assign(id=range(len(frame))).drop(columns=["y", "w"])
    rows.loc[rows.index[:5], "shop"] = "never seen"
    got = on_dask.predict(out, dd.from_pandas(rows, npartitions=2)).compute()
    got = got.sort_values("id")["prediction"].to_numpy()
    want = model.predict(rows, task=rows["shop"])
    np.testing.assert_allclose(got[5:], want[5:], atol=1e-9)
    score = found.shared_intercept + (
        np.column_stack(
            [rows["a"], rows["b"], rows["day"] == "mon", rows["day"] == "tue"]
        )
        @ found.shared_coef
    )
    shared = score if loss == "squared" else np.exp(score)
    np.testing.assert_allclose(got[:5], shared[:5], atol=1e-9)


def test_small_tasks_are_left_out():
    frame = draw()
    counts = frame["shop"].value_counts()
    model = MultiTaskRegressor(**SETTINGS)
    on_dask.fit(model, dd.from_pandas(frame, npartitions=2), **COLUMNS, min_rows=6)
    assert set(model.tasks_) == set(counts[counts >= 6].index)


def test_what_is_not_offered_is_said(tmp_path):
    frame = draw()
    table = dd.from_pandas(frame, npartitions=2)
    chain = MultiTaskRegressor(**SETTINGS | {"task_prior": "chain"})
    with pytest.raises(ValueError, match='task_prior must be "mean" or None'):
        on_dask.fit(chain, table, **COLUMNS)
    with pytest.raises(TypeError, match="choose strengths on a sample of the tasks"):
        on_dask.fit(MultiTaskRegressorCV(), table, **COLUMNS)
    model = MultiTaskRegressor(**SETTINGS)
    with pytest.raises(ValueError, match="table must be a Dask data frame"):
        on_dask.fit(model, frame.to_numpy(), **COLUMNS)
    with pytest.raises(ValueError, match="missing must be 'error' or 'drop'"):
        on_dask.fit(model, table, **COLUMNS, missing="mean")
    with pytest.raises(ValueError, match="folds and key must be None"):
        on_dask.fit(model, table, **COLUMNS, folds=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="out must be a new or empty folder"):
        on_dask.fit(model, table, **COLUMNS, out=tmp_path)
    with pytest.raises(ModelFileError, match="not a complete folder of coefficients"):
        on_dask.predict(tmp_path, table)
    with pytest.raises(DataFileError, match="'y' must hold 0 and 1"):
        on_dask.fit(MultiTaskClassifier(**SETTINGS), table, **COLUMNS)
    assert not hasattr(model, "coef_")


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(monkeypatch, tmp_path):
    """Blocks that die with a worker are made again, and count once."""
    frame = draw()
    table = dd.from_pandas(frame, npartitions=4)
    expected, model = make("squared", ADAPTIVE), make("squared", ADAPTIVE)
    on_dask.fit(expected, table, **COLUMNS)
    add, passes = on_dask.DaskTasks.add, []
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):

        def killing(tasks, step):
            passes.append(step)
            if len(passes) == 3:
                worker = next(iter(cluster.workers.values()))
                os.kill(worker.pid, signal.SIGKILL)
            return add(tasks, step)

        monkeypatch.setattr(on_dask.DaskTasks, "add", killing)
        on_dask.fit(model, table, **COLUMNS, client=client)
    assert len(passes) > 3
    assert_same(expected, model)
