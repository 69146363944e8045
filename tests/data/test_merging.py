"""Sums of statistics: exact, in any order and grouping, tasks matched by name."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priormtl.data import from_columns, from_labels, summarize, summarize_tasks
from summarized_rows import (
    ARRAYS,
    assert_same,
    assert_same_bits,
    exact_moments,
    part_of,
    random_rows,
)

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 10**6)


@LAW
@given(SEEDS, st.integers(2, 6), st.randoms(use_true_random=False))
def test_merged_parts_equal_the_whole(seed, count, random):
    rows = random_rows(seed)
    owner = np.random.default_rng(seed).integers(0, count, len(rows[1]))
    parts = [part_of(rows, owner == k) for k in range(count) if np.any(owner == k)]
    random.shuffle(parts)
    assert_same(reduce(add, parts), summarize(*rows))


@LAW
@given(SEEDS, st.randoms(use_true_random=False))
def test_any_grouping_of_the_sums_gives_the_whole(seed, random):
    rows = random_rows(seed)
    parts = [part_of(rows, np.arange(k, 40, 8)) for k in range(8)]
    while len(parts) > 1:
        a = parts.pop(random.randrange(len(parts)))
        b = parts.pop(random.randrange(len(parts)))
        parts.append(a + b)
    assert_same(parts[0], summarize(*rows))


@LAW
@given(SEEDS)
def test_rows_one_by_one_give_the_whole(seed):
    rows = random_rows(seed, n=12)
    parts = [part_of(rows, [i]) for i in range(12)]
    assert_same(reduce(add, parts), summarize(*rows))


@LAW
@given(SEEDS, st.integers(5, 35))
def test_sums_commute_to_the_bit(seed, cut):
    rows = random_rows(seed)
    a, b = part_of(rows, slice(None, cut)), part_of(rows, slice(cut, None))
    assert_same_bits(a + b, b + a)


@LAW
@given(SEEDS)
def test_sums_of_shared_rows_commute_and_stay_shared(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(30, 4)), rng.normal(size=(30, 3))
    a, b = summarize(X[:11], Y[:11]), summarize(X[11:], Y[11:])
    assert (a + b).xx.shape == (1, 4, 4)
    assert_same_bits(a + b, b + a)
    assert_same(a + b, summarize(X, Y))


def test_shared_and_other_rows_add_up():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    holes = Y.copy()
    holes[0, 1] = np.nan
    shared, other = summarize(X, Y), summarize(X + 1, holes)
    total = summarize(np.concatenate([X, X + 1]), np.concatenate([Y, holes]))
    assert_same(shared + other, total)
    assert_same_bits(shared + other, other + shared)


def test_shared_rows_of_other_tasks_add_up_by_name():
    X, Y = np.arange(6.0).reshape(3, 2), np.arange(9.0).reshape(3, 3) ** 2
    a = summarize_tasks(from_columns(X, Y[:, :2], tasks=("a", "b")))
    b = summarize_tasks(from_columns(X + 1, Y[:, 1:], tasks=("b", "c")))
    labels = ["a"] * 3 + ["b"] * 6 + ["c"] * 3
    rows = np.concatenate([X, X, X + 1, X + 1])
    targets = np.concatenate([Y[:, 0], Y[:, 1], Y[:, 1], Y[:, 2]])
    assert_same(a + b, summarize(rows, targets, labels))


def test_tasks_are_matched_by_name():
    X, y, task, weight = random_rows(1)
    names = np.array(["x", "y", "z"])
    ours = summarize(X[:20], y[:20], names[task[:20]], weight[:20])
    theirs = summarize(X[20:], y[20:], names[::-1][task[20:]], weight[20:])
    joined = np.concatenate([names[task[:20]], names[::-1][task[20:]]])
    assert_same(ours + theirs, summarize(X, y, joined, weight))


def test_a_task_that_one_side_lacks_is_kept_to_the_bit():
    a = summarize([[1.0], [2.5]], [1.0, 2.0], ["a", "a"])
    b = summarize([[7.1], [9.3]], [0.1, 0.7], ["b", "b"])
    both = a + b
    for name in ARRAYS:
        assert getattr(both, name)[0].tobytes() == getattr(a, name)[0].tobytes()
        assert getattr(both, name)[1].tobytes() == getattr(b, name)[0].tobytes()


def test_tasks_of_several_kinds_are_refused():
    a, b = summarize([[1.0]], [1.0], ["a"]), summarize([[1.0]], [1.0], [1])
    with pytest.raises(ValueError, match=r"labels of one kind: got \['int', 'str'\]"):
        a + b


def test_only_the_same_features_can_be_added():
    a, b = summarize([[1.0]], [1.0]), summarize([[1.0, 2.0]], [1.0])
    with pytest.raises(ValueError, match="over the same features: got 1  and 2"):
        a + b


def test_features_of_other_names_cannot_be_added():
    a = summarize_tasks(from_labels(np.eye(2), np.ones(2), [0, 0], features=["u", "v"]))
    b = summarize_tasks(from_labels(np.eye(2), np.ones(2), [0, 0], features=["v", "u"]))
    with pytest.raises(ValueError, match=r"\('u', 'v'\) and 2 \('v', 'u'\)"):
        a + b


@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("count", [2, 10])
def test_merging_loses_no_more_than_the_means_do(offset, count):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(50, 3)) + offset, rng.normal(size=50) - offset
    parts = [summarize(X[k::count], y[k::count]) for k in range(count)]
    found = reduce(add, parts)
    moments = exact_moments(X, y)[1]
    # A mean near the offset is known to offset · 2⁻⁵³; moments of spread 1 inherit it.
    digits = 1e-13 + 20 * offset * np.finfo(float).eps
    np.testing.assert_allclose(found.xx[0], moments[:3, :3], atol=50 * digits)
    np.testing.assert_allclose(found.xy[0], moments[:3, 3], atol=50 * digits)
