"""What a search trains on, what judges it, and which strengths it tries."""

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from drawn_tables import assert_same_statistics
from priormtl import MultiTaskRegressor, MultiTaskRegressorCV, summarize
from priormtl.data import Table, summarize_tasks
from priormtl.estimators.splitting import (
    ScorerOnRows,
    check_parts,
    with_task_column,
)
from priormtl.fitted import Fitted
from priormtl.selection import divide, leave_one_out, read_lams, split_by_fold

FOLDS = np.arange(24) % 3


def table():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)), rng.normal(size=24)
    codes = np.arange(24) // 12
    return Table(X, y, codes, ("a", "b"), None, None)


def test_statistics_train_on_what_rows_train_on():
    splits, data = split_by_fold(FOLDS), table().to_tasks()
    whole, by_rows = divide(table(), data, splits, by_rows=True)
    assert whole is data
    whole, by_statistics = divide(table(), data, splits, by_rows=False)
    assert_same_statistics(whole, summarize_tasks(data))
    for rows, merged in zip(by_rows, by_statistics, strict=True):
        assert_same_statistics(merged.train, summarize_tasks(rows.train))


def test_statistics_of_held_out_rows_are_kept_where_they_are_known():
    splits, data = split_by_fold(FOLDS), table().to_tasks()
    for k, fold in enumerate(divide(table(), data, splits, by_rows=False)[1]):
        test = np.flatnonzero(k == FOLDS)
        assert fold.split.test.tolist() == test.tolist()
        assert_same_statistics(
            fold.test, summarize_tasks(table().take(test).to_tasks())
        )
    _, folds = divide(table(), data, splits, by_rows=True)
    assert [fold.test for fold in folds] == [None] * 3
    overlapping = [splits[0], splits[0]]
    _, folds = divide(table(), data, overlapping, by_rows=False)
    assert [fold.test for fold in folds] == [None] * 2


def test_a_task_that_only_one_part_holds_is_named():
    a, b = (summarize(np.eye(2), np.ones(2), task=[name] * 2) for name in "ab")
    always = (a + b).only(np.zeros(2, dtype=bool))
    with pytest.raises(ValueError, match=r"trains without \['a'\]"):
        leave_one_out([a, b], always)


@pytest.mark.parametrize("parts", [[], [1.0, 2.0]])
def test_parts_are_several_statistics(parts):
    with pytest.raises(TypeError, match="two or more TaskStatistics"):
        check_parts(parts)


def shell(d, m):
    model = MultiTaskRegressor(task=d)
    model._adopt(
        Fitted("", model._model(), np.arange(m), np.zeros((m, d)), np.zeros(m))
    )
    return model


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_task_is_the_last_column(form):
    X = with_task_column(form(np.eye(3)), np.array([2, 0, 1]))
    assert issparse(X) == (form is csr_array)
    dense = X.toarray() if issparse(X) else X
    np.testing.assert_array_equal(dense, np.column_stack([np.eye(3), [2, 0, 1]]))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_each_model_predicts_with_its_own_coefficients(form):
    X = with_task_column(form(np.ones((3, 1))), np.array([1, 0, 1]))
    seen = []

    def scorer(model, X, y):
        seen.append(model.predict(X).tolist())
        return y.sum()

    score = ScorerOnRows(scorer, shell(1, 2), X, np.array([1.0, 2.0, 3.0]))
    coefs = np.array([[[1.0], [10.0]], [[2.0], [20.0]]])
    intercepts = np.array([[0.0, 0.0], [0.5, 0.0]])
    assert score(coefs, intercepts).tolist() == [6.0, 6.0]
    assert seen == [[10.0, 1.0, 10.0], [20.0, 2.5, 20.0]]
    assert not score.model.coef_.any()


def problem():
    rng = np.random.default_rng(0)
    data = summarize(rng.normal(size=(20, 3)), rng.normal(size=(20, 2)))
    return MultiTaskRegressor()._model().pose(data).problem


@pytest.mark.parametrize(("lams", "count"), [(None, 10), (4, 4), (1, 1)])
def test_a_number_of_lams_begins_at_lam_max(lams, count):
    found = read_lams(lams, problem())
    assert len(found) == count
    assert found[0] == pytest.approx(problem().lam_max)
    assert (np.diff(found) < 0).all()


def test_listed_lams_are_taken_as_they_are():
    assert read_lams([3.0, 0.0, 30.0], problem()).tolist() == [3.0, 0.0, 30.0]


@pytest.mark.parametrize("name", ["lams", "thetas", "epsilons"])
def test_bad_values_name_their_argument(name):
    grids = {"lams": [1.0], "thetas": [1.0], "epsilons": [1.0], name: [-1.0]}
    with pytest.raises(ValueError, match=name):
        MultiTaskRegressorCV(**grids, cv=2).fit(np.eye(6, 2), np.arange(6.0))
