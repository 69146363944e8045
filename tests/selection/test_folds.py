"""Folds: even within tasks, never without a task, merged exactly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priormtl.data import Table, TaskStatistics, summarize_tasks
from priormtl.exceptions import FoldsError
from priormtl.selection import (
    as_splits,
    deal_rows,
    find_partition,
    leave_one_out,
    split_by_fold,
    strata_of,
    summarize_parts,
    take_test,
    take_training,
    task_places,
)

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def table_of(codes, y=None, weight=None, tasks=None, d=2):
    codes = np.asarray(codes)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(codes), d))
    y = rng.normal(size=len(codes)) if y is None else np.asarray(y, float)
    names = tuple(range(codes.max() + 1)) if tasks is None else tasks
    return Table(X, y, codes, names, weight, None)


def gappy_table(n=12, m=3, share=0.4, seed=0, d=2):
    rng = np.random.default_rng(seed)
    Y = np.where(rng.random((n, m)) < share, np.nan, rng.normal(size=(n, m)))
    Y[rng.integers(n, size=m), np.arange(m)] = 1.0
    return Table(rng.normal(size=(n, d)), Y, None, tuple(range(m)), None, None)


@LAW
@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 10**6))
def test_folds_are_even_within_tasks_and_overall(m, n_folds, seed):
    codes = np.random.default_rng(seed).integers(m, size=60)
    folds = deal_rows(strata_of(table_of(codes), by_class=False), n_folds)
    for i in np.unique(codes):
        own = folds[codes == i]
        counts = np.bincount(own[own >= 0], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    counts = np.bincount(folds[folds >= 0], minlength=n_folds)
    assert counts.max() - counts.min() <= 1 + np.sum(folds < 0)


@LAW
@given(st.integers(0, 10**6), st.booleans())
def test_every_training_part_holds_every_task_and_class(seed, by_class):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(4), rng.integers(4, size=20)])
    y = rng.choice([-1.0, 1.0], size=24)
    strata = strata_of(table_of(codes, y), by_class=by_class)
    for split in split_by_fold(deal_rows(strata, 4)):
        assert set(strata[split.train, 0]) == set(strata[:, 0])


@LAW
@given(st.integers(0, 10**6), st.booleans())
def test_columns_with_gaps_never_lose_a_task(seed, by_class):
    table = gappy_table(n=20, m=4, share=0.8, seed=seed)
    table = replace(table, y=np.sign(table.y))
    strata = strata_of(table, by_class=by_class)
    if np.sum((strata >= 0).any(axis=1)) < 12:
        return
    for split in split_by_fold(deal_rows(strata, 2)):
        for column in strata.T:
            known = set(column[column >= 0])
            assert set(column[split.train]) >= known


def test_rows_ordered_by_target_are_spread():
    y = np.arange(100.0)
    folds = deal_rows(strata_of(table_of(np.zeros(100, int), y), by_class=False), 5)
    means = [y[folds == k].mean() for k in range(5)]
    assert np.ptp(means) < 30


def test_single_rows_stay_in_training():
    folds = deal_rows(strata_of(table_of([0, 1, 1, 1, 1, 2, 2]), by_class=False), 2)
    assert folds[0] == -1
    assert np.all(folds[1:] >= 0)


def test_rows_of_weight_zero_are_in_no_fold():
    weight = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    table = table_of([0, 0, 0, 0, 0], weight=weight)
    assert deal_rows(strata_of(table, by_class=False), 2)[0] == -1


def test_dealing_is_always_the_same():
    strata = strata_of(table_of(np.arange(30) % 4), by_class=False)
    np.testing.assert_array_equal(deal_rows(strata, 3), deal_rows(strata, 3))


def test_too_many_folds_are_refused():
    with pytest.raises(ValueError, match=r"cv=5 for 3 rows .*n_samples=4"):
        deal_rows(strata_of(table_of([0, 0, 0, 1]), by_class=False), 5)


def test_partitions_are_recognised():
    folds = np.array([0, 1, 2, 0, 1, -1])
    splits = split_by_fold(folds)
    np.testing.assert_array_equal(find_partition(splits, 6), folds)
    overlapping = [splits[0], splits[0]]
    assert find_partition(overlapping, 6) is None
    partial = [splits[0]._replace(train=splits[0].train[:-1]), *splits[1:]]
    assert find_partition(partial, 6) is None
    repeated = [splits[0]._replace(train=np.repeat(splits[0].train, 2)), *splits[1:]]
    assert find_partition(repeated, 6) is None


def test_splits_may_be_masks_or_numbers_from_the_end():
    mask = np.array([True, False, True])
    (split,) = as_splits([(mask, [-2])], 3)
    assert split.train.tolist() == [0, 2]
    assert split.test.tolist() == [1]


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "at least one pair"),
        ([([0, 7], [1])], "below n_samples=3: got 7"),
        ([(["a"], [1])], "row numbers or masks"),
    ],
)
def test_bad_splits_are_refused(pairs, words):
    with pytest.raises(ValueError, match=words):
        as_splits(pairs, 3)


def assert_same(a, b):
    for name in ("weight", "x_mean", "y_mean", "xx", "xy", "yy"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=1e-10, atol=1e-10, err_msg=name
        )
    assert a.tasks == b.tasks


@pytest.mark.parametrize(
    "table",
    [
        table_of([0, 1, 1, 1, 0, 2, 1, 1, 0, 2, 0], tasks=("z", "a", "m")),
        table_of([0, 1, 1, 1, 0], weight=np.array([1.0, 0.0, 2.0, 0.5, 3.0])),
        gappy_table(),
        gappy_table(share=0.0),
    ],
    ids=["own order of tasks", "weighted", "gaps", "shared"],
)
def test_merged_parts_are_the_statistics_of_the_rest(table):
    folds = deal_rows(strata_of(table, by_class=False), 2)
    *parts, always = summarize_parts(table, folds)
    trains, whole = leave_one_out(parts, always)
    assert_same(whole, summarize_tasks(table.to_tasks()))
    for train, split in zip(trains, split_by_fold(folds), strict=True):
        known = summarize_tasks(take_training(table, split, 0))
        assert_same(train, known)
        assert train.is_shared == known.is_shared


def test_folds_without_a_task_have_weight_zero_there():
    table = table_of([0, 0, 0, 0, 1, 1])
    parts = summarize_parts(table, np.array([0, 1, 2, 2, 0, 1]))
    assert [part.weight.tolist() for part in parts] == [[1, 1], [1, 1], [2, 0], [0, 0]]
    assert all(isinstance(part, TaskStatistics) for part in parts)


def test_training_without_a_task_names_it():
    table = table_of([0, 0, 1, 1], tasks=("north", "south"))
    (split,) = as_splits([([0, 1], [2, 3])], 4)
    with pytest.raises(ValueError, match=r"split 3 trains without \['south'\]"):
        take_training(table, split, 3)


def test_held_out_rows_must_be_measured():
    table = table_of([0, 0, 0], weight=np.array([1.0, 1.0, 0.0]))
    (split,) = as_splits([([0, 1], [2])], 3)
    with pytest.raises(ValueError, match="split 1 has none"):
        take_test(table, split, 1)
    (split,) = as_splits([([0], [1, 2])], 3)
    assert len(take_test(table, split, 0)) == 1


def test_places_of_tasks():
    assert task_places(("c", "a"), ("a", "b", "c")).tolist() == [2, 0]


def test_tasks_that_are_held_out_whole_keep_their_place_but_say_nothing():
    table = table_of([0, 0, 1, 2, 2], weight=np.array([1.0, 1.0, 3.0, 1.0, 1.0]))
    (split,) = as_splits([([0, 1, 3, 4], [2])], 5)
    with pytest.raises(FoldsError, match="split 0 trains without"):
        take_training(table, split, 0)
    train = take_training(table, split, 0, whole_tasks=True)
    assert train.tasks == table.tasks
    # Faint rows weigh a share of the mean weight, 7 / 5.
    np.testing.assert_allclose(train.task_weight, [2.0, 1.4e-8, 2.0])
    parts = summarize_parts(table, np.array([0, 1, 0, 1, 0]))
    with pytest.raises(FoldsError, match="split 0 trains without"):
        leave_one_out(parts[:-1], parts[-1])
    merged, _ = leave_one_out(parts[:-1], parts[-1], whole_tasks=True)
    assert merged[0].weight.tolist() == [1.0, 0.0, 1.0]
