"""compare: the same rows for all methods, metrics, and estimators by name."""

import logging
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_gamma_deviance,
    mean_poisson_deviance,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    TaskKFold,
    tabular_model,
)
from priormtl.baselines import (
    BASELINES,
    REFERENCES,
    USUAL,
    DMTLClassifier,
    TunedClassifier,
    TunedRegressor,
    comparison,
    usual,
)
from priormtl.baselines.comparison import (
    Ours,
    are_classes,
    compare,
    list_methods,
    make_methods,
    methods_left_out,
    read_comparison,
)
from priormtl.datasets import make_related_tasks
from priormtl.design import frames
from priormtl.estimators import progress
from priormtl.metrics import corrected_interval

pytestmark = pytest.mark.usefixtures("few_trees")

COLUMNS = ["method", "metric", "mean", "sd", "seconds", "difference", "low", "high"]
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


class Doubled:
    """Predicts twice the first three features, for three tasks."""

    def predict(self, X):
        return 2.0 * X[:, :3]


def fail(X, y, task):
    raise RuntimeError("no luck")


def fail_without_first_row(X, y, task):
    if not np.any(X == 0.125):
        raise RuntimeError("no luck")


def complain(X, y, task):
    warnings.warn(f"{len(X)} rows", ConvergenceWarning, stacklevel=1)


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
    methods = {"dmtl": DMTLClassifier(0.5)}
    found = compare(X, y > 0, task=task, methods=methods, **FAST)
    assert found["metric"].tolist() == ["log_loss", "auc", "accuracy"]
    assert found["mean"][1:].between(0.5, 1.0).all()
    assert 0.0 < found["mean"][0] < 1.0
    numbers = {"task": task, "methods": "ridge-single", "classify": False}
    forced = compare(X, (y > 0).astype(float), **numbers, **FAST)
    assert forced["metric"][0] == "rmse"


@pytest.mark.parametrize(
    "loss", ["poisson", pytest.param("gamma", marks=pytest.mark.slow)]
)
def test_counts_and_amounts_are_judged_by_deviance(loss):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=90), "days": rng.uniform(1.0, 9.0, 90)})
    mean = X["days"] * np.exp(0.5 * X["x"])
    y = rng.gamma(4.0, mean / 4.0) if loss == "gamma" else rng.poisson(mean)
    X["site"] = np.arange(90) % 3
    split = np.arange(60), np.arange(60, 90)
    given = {"task": "site", "loss": loss, "exposure": "days", "cv": [split]}
    found = compare(X, y, methods=["priormtl", "ridge-dummies"], **given)
    assert found["metric"].tolist() == ["deviance"] * 2 + ["rmse"] * 2
    judge = mean_gamma_deviance if loss == "gamma" else mean_poisson_deviance
    model = tabular_model("regressor", task="site", loss=loss, exposure="days")
    predicted = model.fit(X[:60], y[:60]).predict(X[60:])
    ours = found.query("method == 'priormtl' and metric == 'deviance'")
    assert ours["mean"].item() == pytest.approx(judge(y[60:], predicted))
    assert (found["mean"][:2] < judge(y[60:], np.full(30, y[:60].mean()))).all()
    with pytest.raises(ValueError, match=r"rmtl is not for loss='\w+': leave it out"):
        compare(X, y, methods="rmtl", **given)
    with pytest.raises(ValueError, match="needs numbers as targets: got classify"):
        compare(X, y, classify=True, **given)


def test_several_classes(rows):
    X, y, task = rows
    labels = np.array(["a", "b", "c"])[np.searchsorted([-1.0, 1.0], y)]
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    found = compare(X, labels, task=task, methods={"tree": tree}, **FAST)
    assert found["metric"].tolist() == ["log_loss", "accuracy"]
    # The default method with several classes: cli/test_compare.py.
    found = compare(X, labels, task=task, methods="ridge-dummies", **FAST)
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    assert found["mean"][0] < -shares @ np.log(shares)
    assert 0.5 < found["mean"][1] < 1.0
    left_out = methods_left_out("squared", 3, timed=False)
    assert left_out["mixed-model"] == left_out["rmtl"] == "not for 3 classes"


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


@pytest.mark.slow
def test_runs_are_equal_but_for_seconds_whatever_the_jobs(rows):
    X, y, task = rows
    again = [
        compare(
            X, y, task=task, methods=["priormtl", "ridge-single"], n_jobs=jobs, **FAST
        )
        for jobs in (None, 2)
    ]
    for other in again[1:]:
        pd.testing.assert_frame_equal(
            again[0].drop(columns="seconds"),
            other.drop(columns="seconds"),
            check_exact=True,
        )


@pytest.mark.parametrize(
    "library",
    [pytest.param(pd.DataFrame, marks=pytest.mark.slow), pl.DataFrame, pa.table],
)
def test_frames_in_frames_out(rows, library):
    X, y, task = rows
    names = np.array(["north", "south", "west"])[task]
    frame = library({f"x{j}": X[:, j] for j in range(4)} | {"school": names.tolist()})
    prior = FeaturePrior.similar([("x0", "x1")])
    # Ours, which knows names, takes seconds.
    methods = "priormtl" if library is pd.DataFrame else "ridge-single"
    found = compare(
        frame, y, task="school", methods=methods, feature_prior=prior, **FAST
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


def test_the_first_warning_of_a_method_is_told_with_its_name(rows):
    X, y, _ = rows
    splits = [(np.arange(18), np.arange(18, 36)), (np.arange(9, 36), np.arange(9))]
    with pytest.warns(ConvergenceWarning, match="slow: 18 rows") as told:
        compare(X, y, methods={"slow": Constant(act=complain)}, cv=splits)
    assert len(told) == 1


def test_seconds_are_means_over_splits(rows, monkeypatch):
    X, y, task = rows
    monkeypatch.setattr(comparison, "perf_counter", iter(range(100)).__next__)
    found = compare(X, y, task=task, methods={"zero": Constant()}, cv=3)
    assert found["seconds"].tolist() == [1.0, 1.0, 1.0]


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
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
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


def test_any_regressor_of_scikit_learn_gets_the_task_as_a_column():
    rng = np.random.default_rng(0)
    task = np.repeat(["a", "b", "c"], 40)
    X = rng.normal(size=(120, 2))
    # Only who knows the task can predict.
    y = 5.0 * (task == "b") + 0.1 * rng.normal(size=120)
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(school=task)
    methods = {
        "hgb": HistGradientBoostingRegressor(min_samples_leaf=5),
        "tree": DecisionTreeRegressor(random_state=0),
        "pipe": make_pipeline(
            make_column_transformer(
                (OneHotEncoder(), ["school"]), remainder="passthrough"
            ),
            Ridge(0.1),
        ),
    }
    named = compare(frame, y, task="school", methods=methods, cv=3)
    assert named[named["metric"] == "variance_explained"]["mean"].min() > 0.9
    del methods["pipe"]
    plain = compare(X, y, task=task, methods=methods, cv=3)
    sparse = compare(csr_array(X), y, task=task, methods={"r": Ridge()}, cv=3)
    assert plain[plain["metric"] == "variance_explained"]["mean"].min() > 0.9
    assert sparse["mean"].notna().all()
    classes = {
        "hgb": HistGradientBoostingClassifier(min_samples_leaf=5),
        "tree": DecisionTreeClassifier(random_state=0),
    }
    found = compare(frame, task == "b", task="school", methods=classes, cv=3)
    assert found[found["metric"] == "accuracy"]["mean"].min() > 0.9
    assert found[found["metric"] == "log_loss"]["mean"].max() < 0.3


def test_searches_find_the_column_themselves(rows):
    X, y, task = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(school=task)
    cv = TaskKFold(2, task="school")
    model = GridSearchCV(MultiTaskRegressor(task="school"), {"lam": [0.1, 1.0]}, cv=cv)
    found = compare(frame, y, task="school", methods={"grid": model}, cv=2)
    assert found["mean"].notna().all()


def test_differences_are_paired_and_corrected(rows):
    X, y, task = rows
    methods = {"one": Constant(1.0), "zero": Constant()}
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    found = compare(X, y, task=task, methods=methods, cv=splits)
    first, second = found[found["metric"] == "rmse"].to_dict("records")
    assert (first["difference"], first["low"], first["high"]) == (0.0, 0.0, 0.0)
    each = {
        name: np.array([np.sqrt(np.mean((y[test] - c) ** 2)) for _, test in splits])
        for name, c in (("one", 1.0), ("zero", 0.0))
    }
    a, b = each[first["method"]], each[second["method"]]
    low, high, _ = corrected_interval(b - a, 0.5)
    assert second["difference"] == pytest.approx(np.mean(b - a))
    assert (second["low"], second["high"]) == pytest.approx((low, high))


# Rows held out and metrics.


def test_metrics_of_numbers(rows):
    X, y, task = rows
    comparison = read_comparison(X, y, task, 3, classify=False)
    model = comparison.fit(MultiTaskRegressor(lam=1.0), 1)
    test = comparison.splits[1].test
    predicted = model.predict(X[test], task=task[test])
    by_task = [
        r2_score(y[test][task[test] == k], predicted[task[test] == k])
        for k in np.unique(task)
    ]
    expected = [
        np.sqrt(np.mean((predicted - y[test]) ** 2)),
        r2_score(y[test], predicted),
        np.mean(by_task),
    ]
    np.testing.assert_allclose(comparison.score(model, 1), expected)
    assert comparison.metrics[0] == "rmse"
    assert comparison.rows_per_task == 12.0


def test_metrics_of_classes(rows):
    X, y, task = rows
    labels = np.where(y > 0, "yes", "no")
    comparison = read_comparison(X, labels, task, 2, classify=True)
    model = comparison.fit(MultiTaskClassifier(lam=1.0), 0)
    test = comparison.splits[0].test
    scores = model.decision_function(X[test], task=task[test])
    areas = [
        roc_auc_score(labels[test][task[test] == k], scores[task[test] == k])
        for k in np.unique(task)
    ]
    share = accuracy_score(labels[test], model.predict(X[test], task=task[test]))
    chances = model.predict_proba(X[test], task=task[test])
    loss = log_loss(labels[test], np.clip(chances, 1e-3, 1 - 1e-3))
    expected = [loss, np.mean(areas), share]
    np.testing.assert_allclose(comparison.score(model, 0), expected, rtol=1e-5)


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], [False, True]])
def test_classifiers_without_decision_values_are_ranked_too(rows, labels):
    X, y, _ = rows
    classes = np.array(labels)[(y > 0).astype(int)]
    comparison = read_comparison(X, classes, None, 3, classify=True)
    test = comparison.splits[0].test
    tree = comparison.fit(DecisionTreeClassifier(max_depth=2, random_state=0), 0)
    area = roc_auc_score(y[test] > 0, tree.predict_proba(X[test])[:, 1])
    assert comparison.score(tree, 0)[1] == pytest.approx(area)

    class LabelsOnly:
        def predict(self, X):
            return tree.predict(X)

    positive = tree.predict(X[test]) == labels[1]
    area = roc_auc_score(y[test] > 0, positive)
    found = comparison.score(LabelsOnly(), 0)
    assert found[1] == pytest.approx(area)
    assert np.isnan(found[0])  # labels have no probabilities


def test_columns_with_gaps(rows):
    X, rng = rows.X, np.random.default_rng(0)
    Y = X @ rng.normal(size=(4, 3))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[5] = np.nan
    comparison = read_comparison(X, Y, None, 3, classify=False)
    assert all(5 not in split.test for split in comparison.splits)
    for number in range(3):
        model = comparison.fit(MultiTaskRegressor(lam=0.01, epsilon=0.0), number)
        assert comparison.score(model, number)[1] > 0.99
    classes = np.where(np.isnan(Y), np.nan, Y > 0)
    comparison = read_comparison(X, classes, None, 3, classify=True)
    model = comparison.fit(MultiTaskClassifier(lam=0.1), 0)
    assert comparison.score(model, 0)[2] > 0.6


def test_only_measured_targets_of_the_held_out_rows_count(rows):
    X, Y = rows.X, rows.X @ np.random.default_rng(0).normal(size=(4, 3))
    test = np.arange(6)
    Y[2], Y[test, 0] = np.nan, np.nan
    splits = [(np.arange(6, 36), test)]
    comparison = read_comparison(X, Y, None, splits, classify=False)
    error = (Y - 2.0 * X[:, :3])[test]
    expected = np.sqrt(np.nanmean(error**2))
    assert comparison.score(Doubled(), 0)[0] == pytest.approx(expected)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_methods_see_frames_without_the_task_column(rows, library):
    X, y, task = rows
    columns = {f"x{j}": X[:, j] for j in range(4)} | {"school": task}
    comparison = read_comparison(library(columns), y, "school", 3, classify=False)
    model = comparison.fit(MultiTaskRegressor(lam=1.0), 0)
    assert list(model.feature_names_in_) == ["x0", "x1", "x2", "x3"]
    plain = read_comparison(X, y, task, 3, classify=False)
    expected = plain.score(plain.fit(MultiTaskRegressor(lam=1.0), 0), 0)
    np.testing.assert_allclose(comparison.score(model, 0), expected, rtol=1e-6)


def test_one_column_of_targets_may_be_predicted_flat(rows):
    comparison = read_comparison(rows.X, rows.y[:, np.newaxis], None, 3, classify=False)

    class Flat(LinearRegression):
        def predict(self, X):
            return super().predict(X).ravel()

    assert np.isfinite(comparison.score(comparison.fit(Flat(), 0), 0)).all()


def test_predictions_of_wrong_shape_or_value_are_refused(rows):
    comparison = read_comparison(rows.X, rows.y, None, 3, classify=False)

    class Wrong:
        def __init__(self, shape, value):
            self.shape, self.value = shape, value

        def predict(self, X):
            return np.full((len(X), *self.shape), self.value)

    with pytest.raises(ValueError, match="shape of the targets"):
        comparison.score(Wrong((1,), 0.0), 0)
    with pytest.raises(ValueError, match="must be finite"):
        comparison.score(Wrong((), np.inf), 0)


def test_splits_must_leave_every_task_in_training(rows):
    order = np.argsort(rows.task, kind="stable")
    X, y, task = rows.X[order], rows.y[order], rows.task[order]
    with pytest.raises(ValueError, match="rows of every task"):
        read_comparison(X, y, task, KFold(3), classify=False)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.array([0.5, 1.0, 2.0]), False),
        (np.array([1.0, 2.0, 1.0]), True),
        (np.array([[1.0, np.nan], [2.0, 1.0]]), True),
        (np.array([True, True]), True),
        (["1", "2", "3"], True),
        (["a", "b"], True),
        (pd.Series(["1", "2", "3"]), True),
        (pd.Series([1, 2, 3]), False),
        (pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, None]}), False),
        (pl.Series([True, False, True]), True),
        (pa.chunked_array([["x", "y"]]), True),
        (pd.Series(pd.Categorical(["x", "y"])), True),
    ],
)
def test_classes_are_recognised(y, expected):
    assert are_classes(y) is expected


# Methods by name.

SETTINGS = {
    "n_settings": 6,
    "rows_per_task": 10.0,
    "feature_prior": None,
    "task_prior": "mean",
}


def find(methods, **settings):
    return make_methods(methods, Ours(**(SETTINGS | settings)))


def ours(n_settings, **settings):
    return Ours(**(SETTINGS | {"n_settings": n_settings} | settings)).build()


def test_all_are_ours_the_usual_ways_and_those_of_the_catalogue(monkeypatch):
    monkeypatch.setattr(usual, "find_spec", lambda name: name)
    assert list(find("all")) == list(list_methods())
    assert list_methods() == ("priormtl", *USUAL, *BASELINES, *REFERENCES)


def test_defaults_are_fast_and_installed(monkeypatch):
    monkeypatch.setattr(usual, "find_spec", lambda name: name != "gpboost" or None)
    found = set(list_methods()) - set(find("default"))
    assert found == {"fedem", "mtfl", "mkmtl", "gpboost", "last-value"}
    found = set(list_methods()) - set(find("default", n_classes=2))
    assert found == {"fedem", "mtfl", "mkmtl", "gpboost", "mixed-slopes", "last-value"}
    with pytest.raises(ImportError, match=r"gpboost needs .* pip install gpboost"):
        find("gpboost")
    with pytest.raises(ValueError, match="mixed-slopes is not for classes"):
        find("mixed-slopes", n_classes=2)


@pytest.mark.parametrize(
    ("classify", "kind"), [(False, TunedRegressor), (True, TunedClassifier)]
)
def test_named_methods_are_tuned_on_standardised_features(classify, kind):
    for name, model in find([*BASELINES, *REFERENCES], n_classes=2 * classify).items():
        if name != "priormtl":
            assert isinstance(model, kind)
            assert model.n_settings == 6
            assert model.method.standardize is True


def test_names_alone_or_listed():
    assert list(find("clmt")) == ["clmt"]
    assert list(find(("clmt", "priormtl"))) == ["clmt", "priormtl"]


@pytest.mark.parametrize("prior", [None, FeaturePrior.similar([(0, 1)])])
@pytest.mark.parametrize("task_prior", [None, "mean"])
@pytest.mark.parametrize("n", [1, 2, 6, 20, 50])
def test_our_grid_is_about_as_large_as_that_of_others(n, prior, task_prior):
    model = ours(n, feature_prior=prior, task_prior=task_prior)
    size = model.lams * len(model.thetas) * len(model.epsilons)
    assert size <= max(n, 2)
    assert size >= 0.75 * n
    assert model.lams >= 2
    assert (model.thetas == [0.0]) == (prior is None)
    assert (model.epsilons == [0.0]) == (task_prior is None)


@pytest.mark.parametrize("classify", [False, True])
def test_ours_is_the_tabular_model_where_the_task_is_a_column(classify):
    n_classes = 2 * classify
    model = ours(20, n_classes=n_classes, column="school", task_prior="auto")
    assert isinstance(model, Pipeline)
    kind = "classifier" if classify else "regressor"
    assert repr(model) == repr(tabular_model(kind, task="school"))
    chained = ours(20, n_classes=n_classes, column="school", task_prior="chain")
    assert chained[-1].model.task_prior == "chain"
    assert not isinstance(ours(20, n_classes=n_classes, column=3), Pipeline)


def test_the_row_of_ours_is_the_error_of_the_tabular_model():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=90), "b": rng.integers(0, 3, 90)}
    ).assign(school=np.arange(90) % 3)
    y = frame["a"] + frame["school"] + rng.normal(size=90)
    split = np.arange(60), np.arange(60, 90)
    table = compare(frame, y, task="school", methods="priormtl", cv=[split])
    model = tabular_model("regressor", task="school").fit(frame[:60], y[:60])
    error = np.sqrt(np.mean((model.predict(frame[60:]) - y[60:]) ** 2))
    assert table.query("metric == 'rmse'")["mean"].item() == pytest.approx(error)


def test_strengths_are_multiples_of_the_rows_per_task():
    model = ours(20)
    assert model.lams == 5
    assert model.epsilons == [0.0, 10.0, 100.0, 1000.0]
    assert model.standardize is True
    with_prior = ours(20, feature_prior=FeaturePrior.similar([(0, 1)]))
    assert with_prior.thetas == [0.0, 10.0, 100.0]
    assert with_prior.epsilons == [0.0, 100.0]


def test_estimators_of_users_get_labels_and_stay_untouched():
    own = MultiTaskRegressor(lam=2.0, task="school")
    found = find({"own": own, "ridge": Ridge()})
    assert found["own"].task is None
    assert (found["own"].lam, own.task) == (2.0, "school")
    assert isinstance(found["ridge"], Ridge)


def test_case_of_names_does_not_matter():
    assert list(find(["PriorMTL", "RMTL", "Ridge-Single"])) == [
        "priormtl",
        "rmtl",
        "ridge-single",
    ]
    assert list(find("DEFAULT")) == list(find("default"))


def test_unknown_names_and_estimators_are_refused():
    with pytest.raises(ValueError, match=r"unknown method 'clnt'.* mean 'clmt'"):
        find(["priormtl", "clnt"])
    with pytest.raises(TypeError, match="methods must be"):
        find(3)
    with pytest.raises(TypeError, match="'own' is 3"):
        find({"own": 3})
    with pytest.raises(ValueError, match="n_settings"):
        find("default", n_settings=0)
