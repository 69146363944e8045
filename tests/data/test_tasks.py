"""Samples of many tasks in both layouts, and rows from which folds are taken."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, issparse

from instances import LAYOUTS, from_lists, plain_rows, random_coef, random_tasks
from priormtl.data import (
    Table,
    centre_samples,
    condense,
    from_codes,
    from_columns,
    from_labels,
    summarize_tasks,
)
from priormtl.losses import Logistic, NoIntercepts

LAW = settings(max_examples=40, deadline=None, derandomize=True, database=None)

CASES = (st.sampled_from(LAYOUTS), st.integers(0, 10**6))


def same_samples(m=3, n=5, d=2, seed=0):
    """X of n rows and Y (n, m), for each builder to read in its own way."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, m))


def dense(X):
    return X.toarray() if issparse(X) else X


@LAW
@given(*CASES)
def test_adjoint_is_adjoint_to_forward(layout, seed):
    data = random_tasks(layout, seed)
    P, R = random_coef(data.shape, seed), random_coef(data.y.shape, seed + 1)
    ours = np.vdot(data.forward(P), R)
    assert ours == pytest.approx(np.vdot(P, data.adjoint(R)), rel=1e-10, abs=1e-12)


@LAW
@given(*CASES)
def test_task_sums_are_adjoint_to_spread(layout, seed):
    data = random_tasks(layout, seed)
    b, R = random_coef(data.shape[1], seed), random_coef(data.y.shape, seed + 1)
    ours = np.sum(data.spread(b) * R)
    assert ours == pytest.approx(b @ data.task_sums(R), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_forward_scores_each_sample_with_its_tasks_coefficients(layout):
    data = random_tasks(layout)
    P = random_coef(data.shape)
    scores = data.with_matrix(data.X).forward(P)
    for i, (X, _, weight) in enumerate(plain_rows(data)):
        measured = scores[data.weight[:, i] > 0, i] if scores.ndim == 2 else None
        rows = scores[data.spread(np.arange(3)) == i] if measured is None else measured
        assert len(rows) == len(weight)
        np.testing.assert_allclose(rows, X @ P[:, i], rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_means_and_weights_are_each_tasks_own(layout):
    data = random_tasks(layout)
    for i, (X, _, weight) in enumerate(plain_rows(data)):
        assert data.task_weight[i] == pytest.approx(weight.sum())
        mean = np.average(X, axis=0, weights=weight)
        np.testing.assert_allclose(data.feature_means[i], mean, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_restrict_and_rescale_change_the_features_only(layout):
    data = random_tasks(layout)
    kept, scale = np.array([2, 0]), np.array([2.0, 4.0])
    changed = data.restrict(kept).rescale(scale)
    np.testing.assert_allclose(dense(changed.X), dense(data.X)[:, kept] / scale)
    np.testing.assert_array_equal(changed.y, data.y)
    np.testing.assert_array_equal(changed.weight, data.weight)
    assert issparse(changed.X) == issparse(data.X)
    assert changed.shape == (2, 3)


def test_all_builders_agree_on_the_same_samples():
    X, Y = same_samples()
    columns = from_columns(X, Y)
    lists = from_lists([X] * 3, list(Y.T))
    labels = from_labels(np.tile(X, (3, 1)), Y.T.ravel(), np.repeat([0, 1, 2], 5))
    assert columns.tasks == lists.tasks == labels.tasks == (0, 1, 2)
    for a, b, c in zip(*map(plain_rows, (columns, lists, labels)), strict=True):
        for ours, theirs, others in zip(a, b, c, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            np.testing.assert_array_equal(ours, others)


@LAW
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_shuffled_rows_are_sorted_by_task(seed, random):
    X, Y = same_samples(seed=seed)
    rows, task = np.tile(X, (3, 1)), np.repeat([0, 1, 2], 5)
    order = random.sample(range(15), 15)
    shuffled = from_labels(rows[order], Y.T.ravel()[order], task[order])
    assert shuffled.starts.tolist() == [0, 5, 10, 15]
    found, expected = summarize_tasks(shuffled), summarize_tasks(from_columns(X, Y))
    np.testing.assert_allclose(found.xy, expected.xy, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.yy, expected.yy, rtol=1e-12)


def test_rows_of_a_task_keep_their_order():
    data = from_labels(np.arange(4.0)[:, None], np.arange(4.0), ["b", "a", "b", "a"])
    assert data.tasks == ("a", "b")
    assert data.y.tolist() == [1.0, 3.0, 0.0, 2.0]
    assert data.X.ravel().tolist() == [1.0, 3.0, 0.0, 2.0]


def test_gaps_have_weight_zero_and_no_row():
    Y = np.array([[1.0, np.nan], [2.0, 5.0], [np.nan, 6.0]])
    data = from_columns(np.eye(3), Y, np.array([1.0, 2.0, 3.0]))
    assert data.weight.tolist() == [[1.0, 0.0], [2.0, 2.0], [0.0, 3.0]]
    assert [y.tolist() for _, y, _ in plain_rows(data)] == [[1.0, 2.0], [5.0, 6.0]]
    assert not data.has_one_gram
    assert from_columns(np.eye(3), np.ones((3, 2))).has_one_gram


def test_gaps_in_the_same_rows_leave_one_gram():
    Y = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0]])
    assert from_columns(np.eye(3), Y).has_one_gram


def test_weights_may_differ_from_cell_to_cell():
    weight = np.array([[1.0, 2.0], [3.0, 4.0]])
    data = from_columns(np.eye(2), np.ones((2, 2)), weight)
    np.testing.assert_array_equal(data.weight, weight)
    assert data.task_weight.tolist() == [4.0, 6.0]


def test_lists_keep_the_order_of_their_names():
    data = from_lists([np.eye(2)] * 3, [np.ones(2)] * 3, tasks=["z", "a", "m"])
    assert data.tasks == ("z", "a", "m")


def test_lists_may_mix_sparse_and_dense_rows():
    data = from_lists([np.eye(2), csr_array(np.eye(2))], [np.ones(2), np.ones(2)])
    assert issparse(data.X)
    np.testing.assert_array_equal(data.X.toarray(), np.tile(np.eye(2), (2, 1)))


def test_lists_carry_weights():
    weight = [np.array([1.0, 2.0]), np.array([3.0, 0.0])]
    data = from_lists([np.eye(2)] * 2, [np.ones(2)] * 2, weight)
    assert data.task_weight.tolist() == [3.0, 3.0]
    assert len(data.y) == 3


@pytest.mark.parametrize("layout", ["stacked", "shared"])
def test_the_users_arrays_are_left_alone(layout):
    X, Y = same_samples()
    before = X.copy(), Y.copy()
    data = (
        from_columns(X, Y) if layout == "shared" else from_labels(X, Y[:, 0], [1] * 5)
    )
    summarize_tasks(data.rescale(np.full(2, 3.0)))
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])


BAD_TARGETS = {
    "NaN": (np.array([1.0, np.nan]), "y must be finite: it contains NaN"),
    "inf": (np.array([1.0, -np.inf]), "y must be finite: it contains inf"),
    "huge": (
        np.array([1.0, 1e200]),
        r"y must be finite: it contains values beyond 1e\+",
    ),
    "short": (np.array([1.0]), "y must have one value per row of X: got 1 for 2 rows"),
}


@pytest.mark.parametrize(("y", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS)
def test_bad_targets_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        from_labels(np.eye(2), y, [0, 0])


@pytest.mark.parametrize("value", [np.inf, -1e200])
def test_bad_targets_in_columns_are_refused(value):
    with pytest.raises(ValueError, match="y must be finite"):
        from_columns(np.eye(2), np.array([[1.0, value], [np.nan, 1.0]]))


def test_columns_need_one_row_per_row_of_x():
    with pytest.raises(ValueError, match="one row per row of X: got 3 for 2"):
        from_columns(np.eye(2), np.ones((3, 2)))


BAD_WEIGHTS = {
    "negative": ([1.0, -1.0], "finite, not negative"),
    "NaN": ([1.0, np.nan], "finite, not negative"),
    "inf": ([1.0, np.inf], "finite, not negative"),
    "huge": ([1.0, 1e300], r"at most 1e\+100"),
    "zero": ([0.0, 0.0], "not be zero for all rows"),
    "short": ([1.0], r"one value per row of X: got shape \(1,\) for \(2,\)"),
}


@pytest.mark.parametrize(("weight", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS)
def test_bad_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=f"sample_weight must .*{message}"):
        from_labels(np.eye(2), np.ones(2), [0, 0], np.array(weight))
    with pytest.raises(ValueError, match=f"sample_weight must .*{message}"):
        from_columns(np.eye(2), np.ones((2, 2)), np.array(weight))


def test_weights_per_cell_must_have_the_shape_of_y():
    with pytest.raises(ValueError, match=r"got shape \(2, 3\) for \(2, 2\)"):
        from_columns(np.eye(2), np.ones((2, 2)), np.ones((2, 3)))


def test_a_task_without_weight_is_refused_by_name():
    with pytest.raises(ValueError, match=r"positive weight: \['b'\] have none"):
        from_labels(np.eye(2), np.ones(2), ["a", "b"], np.array([1.0, 0.0]))


def test_a_column_without_targets_is_refused_by_name():
    Y = np.array([[1.0, np.nan], [2.0, np.nan]])
    with pytest.raises(ValueError, match=r"positive weight: \['q'\] have none"):
        from_columns(np.eye(2), Y, tasks=["p", "q"])


def test_an_empty_list_is_refused_by_name():
    with pytest.raises(ValueError, match=r"positive weight: \['q'\] have none"):
        from_lists([np.eye(2), np.ones((0, 2))], [np.ones(2), np.ones(0)], tasks="pq")


def test_a_list_without_weight_is_refused_by_name():
    weight = [np.ones(2), np.zeros(2)]
    with pytest.raises(ValueError, match=r"positive weight: \['q'\] have none"):
        from_lists([np.eye(2)] * 2, [np.ones(2)] * 2, weight, ["p", "q"])


def stacked(weight=None, form=np.asarray):
    rng = np.random.default_rng(0)
    codes = np.array([2, 0, 1, 0, 2, 2, 0])
    X, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    return Table(form(X), y, codes, ("a", "b", "c"), weight, ("u", "v"))


def columns(weight=None):
    y = np.array([[1.0, np.nan, 3.0], [2.0, np.nan, np.nan], [3.0, 5.0, 6.0]])
    X = np.random.default_rng(0).normal(size=(3, 2))
    return Table(X, y, None, ("a", "b", "c"), weight, None)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_stacked_rows_become_tasks(form):
    table = stacked(form=form)
    data = table.to_tasks()
    known = from_codes(table.X, table.y, table.codes, table.tasks)
    np.testing.assert_array_equal(data.y, known.y)
    assert data.features.names == ("u", "v")
    assert issparse(data.X) == issparse(table.X)


def test_taking_rows_drops_tasks_without_any():
    part = stacked().take(np.array([4, 2, 0]))
    assert part.tasks == ("b", "c")
    assert part.codes.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(part.y, stacked().y[[4, 2, 0]])


def test_rows_of_weight_zero_do_not_keep_a_task():
    weight = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    part = stacked(weight).take(np.array([0, 1, 2]))
    assert part.tasks == ("a", "c")
    assert len(part) == 2
    assert part.to_tasks().tasks == ("a", "c")


def test_rows_may_be_taken_twice():
    part = stacked().take(np.array([1, 1, 3]))
    assert part.to_tasks().y.tolist() == stacked().y[[1, 1, 3]].tolist()


@pytest.mark.parametrize("weight", [None, np.ones(3), np.ones((3, 3))])
def test_columns_without_a_measured_target_are_dropped(weight):
    part = columns(weight).take(np.array([0, 1]))
    assert part.tasks == ("a", "c")
    assert part.to_tasks().shape == (2, 2)


def test_measured_targets():
    assert stacked().measured().shape == (7, 1)
    weight = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    known = [[True, False, False], [True, False, False], [True, True, True]]
    assert columns(weight).measured().tolist() == known
    assert columns(np.array([0.0, 1.0, 1.0])).measured()[0].tolist() == [False] * 3


@LAW
@given(*CASES)
def test_squared_loss_takes_targets_less_the_offset(layout, seed):
    data = random_tasks(layout, seed)
    offset = np.random.default_rng(seed).normal(size=data.y.shape)
    moved = replace(data, offset=offset)
    known = replace(data, y=np.where(data.weight > 0, data.y - offset, 0.0))
    for form in (summarize_tasks, centre_samples, condense):
        found, expected = form(moved), form(known)
        np.testing.assert_array_equal(found.y_mean, expected.y_mean)
        np.testing.assert_array_equal(found.xy, expected.xy)


def test_offsets_follow_their_rows():
    offset = np.arange(7.0)
    table = replace(stacked(), offset=offset)
    data = table.to_tasks()
    order = np.argsort(table.codes, kind="stable")
    np.testing.assert_array_equal(data.offset, offset[order])
    part = table.take(np.array([4, 2, 0]))
    assert part.offset.tolist() == [4.0, 2.0, 0.0]
    shared = replace(columns(), offset=np.arange(3.0))
    assert shared.to_tasks().offset.tolist() == [[0.0], [1.0], [2.0]]
    cells = replace(columns(), offset=np.arange(9.0).reshape(3, 3))
    assert cells.take(np.array([0, 1])).offset.tolist() == [[0.0, 2.0], [3.0, 5.0]]


def test_offset_is_one_part_of_logistic_scores():
    data = random_tasks("weighted")
    signs = replace(data, y=np.sign(data.y))
    coef = random_coef(data.shape)
    known = replace(signs, offset=signs.forward(coef))
    zero = np.zeros_like(coef)
    found = Logistic().bind(known, NoIntercepts()).evaluate(zero)
    expected = Logistic().bind(signs, NoIntercepts()).evaluate(coef)
    assert found.value == pytest.approx(expected.value, rel=1e-14)
    np.testing.assert_allclose(found.gradient, expected.gradient)
