"""TaskKFold: even within tasks, for tables that are sorted by task."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)

from priormtl import (
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskKFold,
)
from priormtl.baselines import compare
from priormtl.datasets import make_related_tasks
from priormtl.exceptions import FoldsError

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module")
def table():
    X, y, task = make_related_tasks(4, 3, 15, noise=0.3, random_state=0)
    order = np.argsort(task, kind="stable")
    names = np.array(["east", "north", "south", "west"])[task[order]]
    return pd.DataFrame(X[order], columns=list("abc")).assign(school=names), y[order]


def counts(labels, cv, y=None):
    """Rows of each label in each test part (labels, folds)."""
    X = np.zeros((len(labels), 1))
    tests = [test for _, test in cv.split(X, y)]
    kinds = np.unique(labels)
    return np.array([[np.sum(labels[t] == kind) for t in tests] for kind in kinds])


@LAW
@given(st.integers(1, 8), st.integers(2, 6), st.integers(0, 10**6), st.booleans())
def test_folds_are_even_within_tasks_and_overall(m, k, seed, by_class):
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(m, size=40))
    y = rng.integers(2, size=40) if by_class else None
    found = counts(labels, TaskKFold(k, task=labels, random_state=seed), y)
    sizes = np.array([np.sum(labels == label) for label in np.unique(labels)])
    # A task of a single row is never held out.
    assert np.array_equal(found.sum(axis=1), np.where(sizes > 1, sizes, 0))
    assert np.all(np.ptp(found, axis=1) <= 1)
    assert np.ptp(found.sum(axis=0)) <= 1 + np.sum(sizes == 1)


@LAW
@given(st.integers(0, 10**6))
def test_each_split_trains_on_all_other_rows_of_every_task(seed):
    labels = np.sort(np.random.default_rng(seed).integers(6, size=30))
    for train, test in TaskKFold(3, task=labels).split(np.zeros((30, 1))):
        assert set(labels[train]) == set(labels)
        np.testing.assert_array_equal(np.sort([*train, *test]), np.arange(30))


def test_classes_are_spread_within_tasks():
    labels = np.repeat(["a", "b"], 20)
    y = np.tile(np.repeat(["no", "yes"], 10), 2)
    both = np.char.add(labels, y)
    found = counts(labels, TaskKFold(5, task=labels), y)
    assert np.all(found == 4)
    for _, test in TaskKFold(5, task=labels).split(np.zeros((40, 1)), y):
        assert np.all(np.unique(both[test], return_counts=True)[1] == 2)


def test_folds_are_the_same_for_a_seed_and_differ_between_seeds():
    labels = np.repeat(np.arange(3), 20)
    X = np.zeros((60, 1))

    def tests(seed):
        cv = TaskKFold(task=labels, random_state=seed)
        return [test.tolist() for _, test in cv.split(X)]

    assert tests(0) == tests(0)
    assert tests(0) != tests(1)
    assert tests(None) != tests(None)


def test_cross_val_score_on_a_table_sorted_by_task(table):
    frame, y = table
    model = MultiTaskRegressor(0.1, task="school")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        with pytest.warns(UserWarning, match="Scoring failed"):
            assert np.isnan(cross_val_score(model, frame, y, cv=KFold(4))).any()
    cv = TaskKFold(4, task="school")
    assert cross_val_score(model, frame, y, cv=cv).min() > 0.0
    assert cross_val_predict(model, frame, y, cv=cv).shape == y.shape


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_frames_and_arrays_mean_the_same(table, library):
    frame, y = table
    data = library({name: frame[name].tolist() for name in frame})
    array = np.column_stack([frame[list("abc")], pd.factorize(frame["school"])[0]])

    def tests(X, task):
        return [test.tolist() for _, test in TaskKFold(task=task).split(X, y)]

    assert tests(data, "school") == tests(frame, frame["school"])
    assert tests(array, 3) == tests(frame, "school")


@pytest.mark.slow
def test_searches_of_scikit_learn_and_ours_take_it(table):
    frame, y = table
    cv = TaskKFold(3, task="school")
    grid = GridSearchCV(
        MultiTaskRegressor(0.1, task="school"), {"epsilon": [0.1, 1.0]}, cv=cv
    )
    assert cross_val_score(grid, frame, y, cv=cv).min() > 0.0
    fixed = {"thetas": [0.0], "epsilons": [1.0], "task": "school"}
    ours = MultiTaskRegressorCV(3, **fixed, cv=cv).fit(frame, y)
    assert ours.n_splits_ == 3
    classes = np.where(y > np.median(y), "yes", "no")
    found = MultiTaskClassifierCV(3, **fixed, cv=cv).fit(frame, classes)
    assert found.n_splits_ == 3
    again = clone(ours)
    assert again.cv.task == "school"


def test_compare_takes_it(table):
    frame, y = table
    cv = TaskKFold(3, task="school")
    found = compare(
        frame, y, task="school", methods="ridge-single", cv=cv, n_settings=2
    )
    assert found["mean"].notna().all()


def test_small_tables_have_rows_in_every_fold():
    for n in range(10, 21):
        labels = np.arange(n) % 2
        assert counts(labels, TaskKFold(5, task=labels)).sum(axis=0).min() >= 2


def test_it_says_what_it_is():
    text = repr(TaskKFold(3, task="school"))
    assert text == "TaskKFold(n_splits=3, random_state=0, task='school')"
    assert TaskKFold(3, task="school").get_n_splits() == 3


def test_mistakes_are_one_sentence(table):
    frame, y = table
    for n_splits in (1, 2.5, True):
        with pytest.raises(ValueError, match="n_splits must be"):
            TaskKFold(n_splits, task="school")
    with pytest.raises(ValueError, match="task must be the name of a column"):
        TaskKFold(task=None)
    with pytest.raises(ValueError, match="scool"):
        next(TaskKFold(task="scool").split(frame, y))
    with pytest.raises(ValueError, match="one label per row"):
        next(TaskKFold(task=frame["school"][:-1]).split(frame, y))
    with pytest.raises(FoldsError, match="leave rows for every fold"):
        next(TaskKFold(5, task=[1, 1, 2]).split(np.zeros((3, 1))))
