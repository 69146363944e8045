"""compare: same rows for all, tidy, repeatable, and robust to methods that fail."""

import logging
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import KFold

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.baselines.compare import compare
from priormtl.data import building
from priormtl.datasets import make_related_tasks
from priormtl.estimators import progress

COLUMNS = ["method", "metric", "mean", "sd", "seconds"]
FAST = {"cv": 2, "n_settings": 2}


@pytest.fixture
def rows():
    return make_related_tasks(3, 4, 12, noise=0.5, random_state=0)


class Constant(BaseEstimator):
    """Predicts one number, after doing what a test wants."""

    def __init__(self, value=0.0, act=None):
        self.value = value
        self.act = act

    def fit(self, X, y, task=None):
        if self.act is not None:
            self.act(X, y, task)
        self.n_ = len(X)
        return self

    def predict(self, X, task=None):
        return np.full(len(X), self.value)


def fail(X, y, task):
    raise RuntimeError("no luck")


def fail_without_first_row(X, y, task):
    if not np.any(X == 0.125):
        raise RuntimeError("no luck")


def complain(X, y, task):
    warnings.warn("not there yet", ConvergenceWarning, stacklevel=1)


def test_the_table_is_tidy_and_best_first(rows):
    X, y, task = rows
    found = compare(X, y, task=task, methods=["ridge-single", "priormtl"], **FAST)
    assert list(found.columns) == COLUMNS
    metrics = ["rmse", "variance_explained", "variance_explained_by_task"]
    assert found["metric"].tolist() == np.repeat(metrics, 2).tolist()
    first = found["mean"][:2]
    assert first.is_monotonic_increasing
    assert found["method"][:2].tolist() == found["method"][2:4].tolist()
    assert (found["seconds"] > 0).all()
    assert found["sd"].notna().all()


def test_classes(rows):
    X, y, task = rows
    found = compare(X, y > 0, task=task, methods="priormtl", **FAST)
    assert found["metric"].tolist() == ["auc", "accuracy"]
    assert found["mean"].between(0.5, 1.0).all()
    forced = compare(
        X, (y > 0).astype(float), task=task, methods="priormtl", classify=False, **FAST
    )
    assert forced["metric"][0] == "rmse"


def test_every_method_is_told_the_same_rows(rows):
    X, y, task = rows
    seen = {"a": [], "b": []}
    methods = {
        name: Constant(act=lambda X, y, task, name=name: seen[name].append((X, y)))
        for name in seen
    }
    # Clones share what lambdas write to.
    compare(X, y, task=task, methods=methods, cv=3)
    assert len(seen["a"]) == 3
    for (X1, y1), (X2, y2) in zip(seen["a"], seen["b"], strict=True):
        np.testing.assert_array_equal(X1, X2)
        np.testing.assert_array_equal(y1, y2)


def test_means_and_deviations_are_over_splits(rows):
    X, y, task = rows
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    found = compare(X, y, task=task, methods={"zero": Constant()}, cv=splits)
    each = [np.sqrt(np.mean(y[test] ** 2)) for _, test in splits]
    assert found["mean"][0] == pytest.approx(np.mean(each))
    assert found["sd"][0] == pytest.approx(np.std(each, ddof=1))
    one = compare(X, y, task=task, methods={"zero": Constant()}, cv=splits[:1])
    assert one["mean"][0] == pytest.approx(each[0])
    assert one["sd"].isna().all()


def test_runs_are_equal_but_for_seconds_whatever_the_jobs(rows):
    X, y, task = rows
    again = [
        compare(
            X, y, task=task, methods=["priormtl", "ridge-single"], n_jobs=jobs, **FAST
        )
        for jobs in (None, 1, 2)
    ]
    for other in again[1:]:
        pd.testing.assert_frame_equal(
            again[0].drop(columns="seconds"),
            other.drop(columns="seconds"),
            check_exact=True,
        )


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_in_frames_out(rows, library):
    X, y, task = rows
    names = np.array(["north", "south", "west"])[task]
    frame = library({f"x{j}": X[:, j] for j in range(4)} | {"school": names.tolist()})
    prior = FeaturePrior.similar([("x0", "x1")])
    found = compare(
        frame, y, task="school", methods="priormtl", feature_prior=prior, **FAST
    )
    assert type(found) is type(frame)


def test_columns_of_targets_with_gaps(rows):
    Y = rows.X @ np.random.default_rng(0).normal(size=(4, 3))
    Y[::5, 0] = np.nan
    found = compare(rows.X, Y, methods=["priormtl", "ridge-single"], **FAST)
    assert found["mean"].notna().all()


def test_a_method_that_fails_is_nan_and_told(rows):
    X, y, task = rows
    X = X.copy()
    X[0, 0] = 0.125
    methods = {"bad": Constant(act=fail_without_first_row), "good": Constant()}
    with pytest.warns(FitFailedWarning, match=r"bad failed on 1 of 3.*no luck"):
        found = compare(X, y, task=task, methods=methods, cv=3)
    bad = found[found["method"] == "bad"]
    assert bad[["mean", "sd", "seconds"]].isna().all(axis=None)
    good = found[found["method"] == "good"]
    assert good["mean"].notna().all()
    assert found["method"][0] == "good"


def test_wrong_predictions_are_failures_too(rows):
    X, y, task = rows
    methods = {"nan": Constant(np.nan), "zero": Constant()}
    with pytest.warns(FitFailedWarning, match="must be finite"):
        compare(X, y, task=task, methods=methods, cv=2)


def test_nothing_is_returned_where_all_fail(rows):
    X, y, task = rows
    with pytest.raises(ValueError, match=r"no method could be fitted.*no luck"):
        compare(X, y, task=task, methods={"bad": Constant(act=fail)}, cv=2)


def test_warnings_of_methods_are_told_once_with_their_name(rows):
    X, y, task = rows
    with pytest.warns(ConvergenceWarning, match="slow: not there yet") as told:
        compare(X, y, task=task, methods={"slow": Constant(act=complain)}, cv=3)
    assert len(told) == 1


def test_a_metric_without_a_value_on_a_split_is_left_out():
    X, y = np.arange(12.0).reshape(6, 2), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 5.0])
    splits = [([0, 1, 2, 3], [4, 5]), ([2, 3, 4, 5], [0, 1])]
    found = compare(X, y, methods={"zero": Constant()}, cv=splits)
    explained = found[found["metric"] == "variance_explained"]
    assert explained["mean"].item() == pytest.approx(1.0 - 5.0 / 0.5)
    assert explained["sd"].isna().all()


def test_mistakes_are_told_before_any_work(rows, monkeypatch):
    X, y, task = rows

    def ask(**settings):
        compare(
            X, y, **({"task": task, "methods": {"a": Constant(act=fail)}} | settings)
        )

    with pytest.raises(ValueError, match="unknown method 'dmlt'"):
        ask(methods=["dmlt"])
    with pytest.raises(ValueError, match="at least one method"):
        ask(methods=[])
    with pytest.raises(ValueError, match="at least 2 folds"):
        ask(cv=1)
    with pytest.raises(ValueError, match="n_jobs"):
        ask(n_jobs=0)
    with pytest.raises(ValueError, match="one label per row"):
        ask(task=task[:-1])
    monkeypatch.setattr(building, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="install pandas"):
        ask()


def test_one_bar_for_all(rows, monkeypatch, capsys):
    pytest.importorskip("rich")
    X, y, task = rows
    monkeypatch.setattr(progress, "SHORT", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    compare(X, y, task=task, methods=["priormtl", "ridge-single"], **FAST)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2 methods, 2 splits" in shown.err
    assert "MultiTaskRegressorCV" not in shown.err


def test_pipes_get_log_lines(rows, monkeypatch, caplog, capsys):
    X, y, task = rows
    monkeypatch.setattr(progress, "SHORT", 0.0)
    monkeypatch.setattr(progress, "BETWEEN_LINES", 0.0)
    with caplog.at_level(logging.INFO, "priormtl"):
        compare(X, y, task=task, methods=["priormtl"], **FAST)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(",")[1] for line in lines] == [
        " 2 splits: 1 of 2 fits",
        " 2 splits: 2 of 2 fits",
    ]
    assert capsys.readouterr() == ("", "")


def test_models_of_users_meet_the_same_judge(rows):
    X, y, task = rows
    found = compare(
        X, y, task=task, methods={"ours": MultiTaskRegressor(lam=0.5), "0": Constant()}
    )
    assert found["method"][0] == "ours"
