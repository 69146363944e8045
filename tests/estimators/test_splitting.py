"""What a search trains on, what judges it, and which strengths it tries."""

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from priormtl import MultiTaskRegressor, summarize
from priormtl.data import Table, summarize_tasks
from priormtl.estimators.splitting import (
    ScorerOnRows,
    check_parts,
    merge_folds,
    part_rows,
    part_statistics,
    read_grid,
    read_lams,
    with_task_column,
)
from priormtl.selection import find_partition, split_by_fold
from summarized_rows import assert_same

FOLDS = np.arange(24) % 3


def table():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)), rng.normal(size=24)
    codes = np.arange(24) // 12
    return Table(X, y, codes, ("a", "b"), None, None)


def judge(split, number, part=None):
    """Stands for a score: what it was told."""
    return number, split.test.tolist(), part


def test_statistics_train_on_what_rows_train_on():
    splits = split_by_fold(FOLDS)
    data = table().to_tasks()
    checked = []
    by_rows = part_rows(
        table(), data, splits, judge, lambda train, number: checked.append(number)
    )
    folds = find_partition(splits, 24)
    by_statistics = part_statistics(table(), folds, splits, judge)
    assert checked == [0, 1, 2]
    assert by_rows.whole is data
    assert_same(by_statistics.whole, summarize_tasks(data))
    pairs = zip(by_rows.folds, by_statistics.folds, strict=True)
    for (rows, _), (merged, _) in pairs:
        assert_same(merged, summarize_tasks(rows))


def test_judges_get_the_statistics_of_their_rows_where_these_are_known():
    splits = split_by_fold(FOLDS)
    parts = part_statistics(table(), FOLDS, splits, judge)
    for k, (_, (number, test, part)) in enumerate(parts.folds):
        assert (number, test) == (k, np.flatnonzero(k == FOLDS).tolist())
        assert_same(part, summarize_tasks(table().take(np.array(test)).to_tasks()))
    data = table().to_tasks()
    rows = part_rows(table(), data, splits, judge, lambda train, number: None)
    assert [part for _, (_, _, part) in rows.folds] == [None] * 3


def test_a_task_that_only_one_part_holds_is_named():
    a, b = (summarize(np.eye(2), np.ones(2), task=[name] * 2) for name in "ab")
    always = (a + b).only(np.zeros(2, dtype=bool))
    with pytest.raises(ValueError, match=r"trains without \['a'\]"):
        merge_folds([a, b], always, [None, None])


@pytest.mark.parametrize("parts", [[], [1.0, 2.0]])
def test_parts_are_several_statistics(parts):
    with pytest.raises(TypeError, match="two or more TaskStatistics"):
        check_parts(parts)


def shell(d, m):
    model = MultiTaskRegressor(task=d)
    model.n_features_in_, model.tasks_ = d, np.arange(m)
    model._targets_are_columns = False
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
    assert not hasattr(score.model, "coef_")


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
        read_grid(**grids, problem=problem())
