"""Rows held out, and metrics that agree with scikit-learn's."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeClassifier

from priormtl import MultiTaskClassifier, MultiTaskRegressor
from priormtl.baselines.compare import are_classes, read_comparison
from priormtl.datasets import make_related_tasks


@pytest.fixture
def rows():
    return make_related_tasks(3, 4, 12, noise=0.5, random_state=0)


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
    np.testing.assert_allclose(comparison.score(model, 0), [np.mean(areas), share])


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"], [False, True]])
def test_classifiers_without_decision_values_are_ranked_too(rows, labels):
    X, y, _ = rows
    classes = np.array(labels)[(y > 0).astype(int)]
    comparison = read_comparison(X, classes, None, 3, classify=True)
    test = comparison.splits[0].test
    tree = comparison.fit(DecisionTreeClassifier(max_depth=2, random_state=0), 0)
    area = roc_auc_score(y[test] > 0, tree.predict_proba(X[test])[:, 1])
    assert comparison.score(tree, 0)[0] == pytest.approx(area)

    class LabelsOnly:
        def predict(self, X):
            return tree.predict(X)

    positive = tree.predict(X[test]) == labels[1]
    area = roc_auc_score(y[test] > 0, positive)
    assert comparison.score(LabelsOnly(), 0)[0] == pytest.approx(area)


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
    assert comparison.score(model, 0)[1] > 0.6


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


def test_wrong_predictions_are_refused(rows):
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


def test_logistic_regression_of_one_task(rows):
    comparison = read_comparison(rows.X, rows.y > 0, None, 3, classify=True)
    scores = comparison.score(comparison.fit(LogisticRegression(), 0), 0)
    assert scores[0] > 0.5
