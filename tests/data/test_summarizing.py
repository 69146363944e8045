"""Rows into statistics, and which form is chosen."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from drawn_tables import (
    MOMENTS,
    assert_same_bits,
    assert_same_statistics,
    exact_moments,
    part_of,
    random_rows,
)
from instances import LAYOUTS, plain_rows, random_tasks
from priormtl import MultiTaskRegressor
from priormtl.data import (
    CentredSamples,
    SharedRows,
    StackedRows,
    TaskStatistics,
    centre_samples,
    condense,
    from_codes,
    from_columns,
    from_labels,
    refuse_tiny,
    summarize,
    summarize_tasks,
    summarizing,
    to_tasks,
)

LAW = settings(max_examples=30, deadline=None, derandomize=True, database=None)

SEEDS = st.integers(0, 10**6)


def naive_moments(X, y, weight):
    """Weight, means and centred moments straight from the definition."""
    x_mean = np.average(X, axis=0, weights=weight)
    y_mean = np.average(y, weights=weight)
    A, b = X - x_mean, y - y_mean
    W = weight[:, np.newaxis]
    return (
        weight.sum(),
        x_mean,
        y_mean,
        A.T @ (W * A),
        A.T @ (weight * b),
        b @ (weight * b),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_statistics_are_what_their_names_say(layout):
    data = random_tasks(layout)
    found = summarize_tasks(data)
    for i, rows in enumerate(plain_rows(data)):
        for name, expected in zip(MOMENTS, naive_moments(*rows), strict=True):
            values = getattr(found, name)
            mine = values[min(i, len(values) - 1)]
            np.testing.assert_allclose(mine, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e8, 1e12])
def test_large_offsets_keep_all_digits(offset):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(50, 3)) + offset, rng.normal(size=50) - offset
    means, moments = exact_moments(X, y)
    found = summarize(X, y)
    np.testing.assert_allclose(found.x_mean[0], means[:3], rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(found.y_mean[0], means[3], rtol=1e-15)
    np.testing.assert_allclose(found.xx[0], moments[:3, :3], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(found.xy[0], moments[:3, 3], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(found.yy[0], moments[3, 3], rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1e50, 1e99])
def test_moments_of_extreme_scales_are_finite_and_scale(scale):
    X, y, task, weight = random_rows(2)
    found = summarize(X * scale, y, task, weight)
    plain = summarize(X, y, task, weight)
    np.testing.assert_allclose(found.xx / scale / scale, plain.xx, rtol=1e-10)
    np.testing.assert_allclose(found.xy / scale, plain.xy, rtol=1e-10, atol=1e-12)


@LAW
@given(SEEDS)
def test_weight_two_is_a_row_twice(seed):
    X, y, task, _ = random_rows(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    repeated = [np.repeat(values, times, axis=0) for values in (X, y, task)]
    assert_same_statistics(summarize(X, y, task, times), summarize(*repeated))


@LAW
@given(SEEDS)
def test_weight_zero_is_no_row(seed):
    X, y, task, weight = random_rows(seed)
    kept = np.random.default_rng(seed).random(len(y)) < 0.6
    kept[:3] = True
    zeroed = summarize(X, y, task, np.where(kept, weight, 0.0))
    assert_same_bits(zeroed, part_of((X, y, task, weight), kept))


def test_weight_zero_is_no_row_of_a_shared_table():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    weight = np.array([1.0, 0.0, 2.0] * 3)
    kept = weight > 0
    found = summarize(X, Y, sample_weight=weight)
    assert_same_bits(found, summarize(X[kept], Y[kept], sample_weight=weight[kept]))


@pytest.mark.parametrize("factor", [1e-300, 1e-10, 1e10, 1e99])
def test_weights_of_any_size_scale_the_moments(factor):
    X, y, task, weight = random_rows(6)
    found, plain = summarize(X, y, task, factor * weight), summarize(X, y, task, weight)
    np.testing.assert_allclose(found.x_mean, plain.x_mean, rtol=1e-12)
    np.testing.assert_allclose(found.xx / factor, plain.xx, rtol=1e-11)


@LAW
@given(SEEDS)
def test_the_order_of_rows_does_not_matter(seed):
    rows = random_rows(seed)
    order = np.random.default_rng(seed).permutation(len(rows[1]))
    assert_same_statistics(part_of(rows, order), summarize(*rows))


@pytest.mark.parametrize("cells", [1, 7, 10, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_do_not_matter(layout, cells, monkeypatch):
    data = random_tasks(layout, n=20)
    whole = summarize_tasks(data)
    monkeypatch.setattr(summarizing, "CHUNK_CELLS", cells)
    assert_same_statistics(summarize_tasks(data), whole, rtol=1e-11)


def test_one_row_has_no_spread():
    found = summarize([[3.0, 4.0]], [5.0])
    assert found.weight.tolist() == [1.0]
    assert found.x_mean.tolist() == [[3.0, 4.0]]
    assert not found.xx.any()
    assert not found.xy.any()
    assert not found.yy.any()


@pytest.mark.parametrize("value", [0.1, 1e8 + 0.1, -1e100])
def test_a_constant_column_has_no_spread(value):
    X, y = np.full((1000, 1), value), np.arange(1000.0)
    found = summarize(X, y)
    assert np.sqrt(found.xx[0, 0, 0] / 1000) <= 1e-15 * abs(value)


def test_the_same_row_many_times_has_no_spread():
    found = summarize(np.tile([[0.1, 0.7]], (10**5, 1)), np.full(10**5, 0.3))
    np.testing.assert_allclose(found.xx, 0.0, atol=1e-25)
    np.testing.assert_allclose(found.yy, 0.0, atol=1e-25)


def test_a_shared_table_has_one_gram_matrix_equal_to_each_tasks():
    rng = np.random.default_rng(7)
    X, Y = rng.normal(size=(20, 4)), rng.normal(size=(20, 3))
    weight = rng.uniform(0.5, 2.0, 20)
    shared = summarize(X, Y, sample_weight=weight)
    assert shared.xx.shape == (1, 4, 4)
    assert shared.is_shared
    stacked = summarize(
        np.tile(X, (3, 1)), Y.T.ravel(), np.repeat([0, 1, 2], 20), np.tile(weight, 3)
    )
    assert stacked.xx.shape == (3, 4, 4)
    assert not stacked.is_shared
    assert_same_statistics(shared, stacked)


def test_gaps_and_weights_per_cell_need_a_gram_matrix_per_task():
    data = random_tasks("gaps")
    assert summarize_tasks(data).xx.shape == (3, 4, 4)


def test_targets_not_measured_are_absent_rows():
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    rows, tasks = np.nonzero(~np.isnan(Y))
    assert_same_statistics(summarize(X, Y), summarize(X[rows], Y[rows, tasks], tasks))


@pytest.mark.parametrize("seed", range(3))
def test_sparse_rows_give_the_statistics_of_dense_ones(seed):
    X, y, task, weight = random_rows(seed)
    X = np.where(np.random.default_rng(seed).random(X.shape) < 0.5, X, 0.0)
    sparse = summarize(csr_array(X), y, task, weight)
    assert_same_statistics(sparse, summarize(X, y, task, weight))


def test_sparse_rows_are_made_dense_a_chunk_at_a_time(monkeypatch):
    sizes = []
    to_dense = csr_array.toarray

    def toarray(self, *args, **kwargs):
        sizes.append(np.prod(self.shape))
        return to_dense(self, *args, **kwargs)

    monkeypatch.setattr(summarizing, "CHUNK_CELLS", 50)
    monkeypatch.setattr(csr_array, "toarray", toarray)
    X = csr_array(np.eye(200)[:, :5])
    summarize(X, np.arange(200.0))
    assert max(sizes) == 50


def uneven_rows(weighted, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    starts = np.array([0, 1, 8, 11, 30])
    X = offset + rng.standard_normal((30, 3))
    weight = 0.5 + rng.random(30) if weighted else np.ones(30)
    return X, offset + rng.standard_normal(30), weight, starts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_many_tasks_at_once_are_one_after_the_other(weighted, offset):
    X, y, weight, starts = uneven_rows(weighted, offset)
    together = summarizing.task_products(X, y, weight, starts)
    for i, (a, b) in enumerate(pairwise(starts)):
        part = summarizing.centred_products(X[a:b], y[a:b], weight[a:b])
        for ours, alone in zip(together, summarizing._one_task(part), strict=True):
            assert ours[i] == pytest.approx(alone[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("cells", [4, 20, 60, 10**6])
def test_any_batches_give_the_same_statistics(cells, monkeypatch):
    X, y, weight, starts = uneven_rows(weighted=True)
    codes = np.repeat(np.arange(4), np.diff(starts))
    data = from_codes(X, y, codes, tuple("abcd"), weight)
    whole = summarize_tasks(data)
    monkeypatch.setattr(summarizing, "CHUNK_CELLS", cells)
    batched = summarize_tasks(data)
    for name in ("weight", "x_mean", "y_mean", "xx", "xy", "yy"):
        ours, expected = getattr(batched, name), getattr(whole, name)
        assert ours == pytest.approx(expected, rel=1e-11, abs=1e-12)


def test_constants_leave_no_noise():
    X, y, weight, starts = uneven_rows(weighted=True)
    X[:, 1], y[1:8] = 0.1 + 1e8, 1.0 / 3.0
    found = summarizing.task_products(X, y, weight, starts)
    assert not found.xx[:, 1].any()
    assert not found.xx[:, :, 1].any()
    assert not found.xy[1].any()
    assert found.yy[1] == 0.0
    assert found.xx[2, 0, 0] > 0.0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["drifting", "first rows far away", "far away"])
def test_large_tasks_keep_all_digits(monkeypatch, kind, order):
    """Chunks are centred about the mean of the first, however far it is."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.normal(size=120)
    if kind == "drifting":
        X += np.linspace(0.0, 1e3, 120)[:, np.newaxis]
    elif kind == "first rows far away":
        X[:6] += 1e9
    else:
        X += 1e12
    X[:, 1] = 0.1  # constant
    monkeypatch.setattr(summarizing, "CHUNK_CELLS", 18)
    means, moments = exact_moments(X, y)
    found = summarize(np.array(X, order=order), y)
    np.testing.assert_allclose(found.x_mean[0], means[:3], rtol=1e-14)
    scale = np.sqrt(np.outer(moments.diagonal(), moments.diagonal())) + 1e-300
    scale[:, 1] = scale[1] = 1.0
    expected = np.where(scale == 1.0, 0.0, moments / scale)
    np.testing.assert_allclose(
        found.xx[0] / scale[:3, :3], expected[:3, :3], atol=4e-15
    )
    np.testing.assert_allclose(found.xy[0] / scale[:3, 3], expected[:3, 3], atol=4e-15)
    assert not found.xx[0, 1].any()


@pytest.mark.parametrize("d", [3, 130])
def test_products_are_symmetric_and_float32_rows_lose_nothing(d):
    rng = np.random.default_rng(d)
    X, y = rng.normal(size=(60, d)).astype(np.float32), rng.normal(size=60)
    codes = np.repeat([0, 1], [25, 35])
    found = summarize_tasks(from_codes(X, y, codes, (0, 1)))
    expected = summarize_tasks(from_codes(X.astype(np.float64), y, codes, (0, 1)))
    assert_same_bits(found, expected)
    np.testing.assert_array_equal(found.xx, found.xx.transpose(0, 2, 1))
    for i in range(2):
        rows = X[codes == i].astype(np.float64)
        rows -= rows.mean(axis=0)
        np.testing.assert_allclose(found.xx[i], rows.T @ rows, atol=1e-12)


def stacked(n, d, m, form=np.asarray):
    rng = np.random.default_rng(0)
    return from_labels(
        form(rng.normal(size=(n, d))), rng.normal(size=n), np.arange(n) % m
    )


def shared(n, d, m, form=np.asarray):
    rng = np.random.default_rng(0)
    return from_columns(form(rng.normal(size=(n, d))), rng.normal(size=(n, m)))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (stacked(12, 4, 3), TaskStatistics),
        (stacked(11, 4, 3), CentredSamples),
        (stacked(50, 4, 3, csr_array), CentredSamples),
        (shared(4, 4, 3), TaskStatistics),
        (shared(3, 4, 3), CentredSamples),
        (shared(50, 4, 3, csr_array), CentredSamples),
    ],
    ids=["long", "wide", "sparse", "shared", "shared wide", "shared sparse"],
)
def test_the_smaller_representation_is_chosen(data, kind):
    assert isinstance(condense(data), kind)


def test_statistics_are_taken_as_they_are():
    statistics = summarize_tasks(stacked(12, 4, 3))
    assert condense(statistics) is statistics


@pytest.mark.parametrize("build", [stacked, shared])
def test_the_choice_does_not_change_the_moments(build):
    for n in (3, 30):
        data = build(n, 4, 2)
        np.testing.assert_allclose(
            condense(data).xy, summarize_tasks(data).xy, rtol=1e-10, atol=1e-12
        )


def test_chunks_accumulate_to_the_whole():
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(30, 2)), rng.normal(size=30), rng.integers(0, 3, 30)
    chunks = (from_labels(X[k::4], y[k::4], task[k::4]) for k in range(4))
    found, whole = sum(map(summarize_tasks, chunks)), summarize(X, y, task)
    assert found.tasks == whole.tasks
    np.testing.assert_allclose(found.xx, whole.xx, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.xy, whole.xy, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("columns", [False, True])
def test_small_tasks_are_left_out(columns):
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(9, 2)), rng.normal(size=9), np.repeat([2, 0, 1], 3)
    weight = np.ones(9)
    weight[0] = 0.0  # absent, so that task 2 has two rows
    if columns:
        cells = np.full((9, 3), np.nan)
        cells[np.arange(9), task] = y
        y, task = cells, None
    whole = summarize(X, y, task, weight)
    found = summarize(X, y, task, weight, min_rows=3)
    assert found.tasks == (0, 1)
    np.testing.assert_array_equal(found.xx, whole.gram()[:2])
    np.testing.assert_array_equal(found.yy, whole.yy[:2])
    assert summarize(X, y, task, weight, min_rows=2).tasks == whole.tasks


def test_small_tasks_may_be_all():
    with pytest.raises(ValueError, match="min_rows=3 must leave some tasks: none of 1"):
        summarize([[0.0], [2.0]], [1.0, 3.0], min_rows=3)
    with pytest.raises(ValueError, match=r"min_rows must be a whole .* got True"):
        summarize([[0.0], [2.0]], [1.0, 3.0], min_rows=True)


def test_no_labels_make_one_task():
    data = to_tasks([[1.0], [2.0]], [3.0, 4.0])
    assert isinstance(data, StackedRows)
    assert data.tasks == (0,)


def test_columns_of_targets_are_tasks():
    data = to_tasks([[1.0], [2.0]], [[3.0, 4.0], [5.0, np.nan]])
    assert isinstance(data, SharedRows)
    assert data.tasks == (0, 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns_name_features_and_tasks(frame):
    X, Y = (
        frame({"u": [1.0, 2.0], "v": [0.0, 1.0]}),
        frame({"p": [1, 2], "q": [3, None]}),
    )
    data = to_tasks(X, Y)
    assert data.features.names == ("u", "v")
    assert data.tasks == ("p", "q")
    assert data.weight.tolist() == [[1.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("series", [pd.Series, pl.Series, np.array, list])
def test_labels_and_weights_come_in_any_form(series):
    task, weight = series(["b", "a"]), series([1.0, 2.0])
    found = summarize([[1.0], [2.0]], series([3.0, 4.0]), task, weight)
    assert found.tasks == ("a", "b")
    assert found.weight.tolist() == [2.0, 1.0]
    assert found.y_mean.tolist() == [4.0, 3.0]


def test_the_index_of_a_series_does_not_matter():
    task = pd.Series(["b", "a"], index=[7, 3])
    found = summarize([[1.0], [2.0]], pd.Series([3.0, 4.0], index=[1, 0]), task)
    assert found.y_mean.tolist() == [4.0, 3.0]


def test_labels_and_columns_exclude_each_other():
    with pytest.raises(ValueError, match="task must be None if y has one column per"):
        summarize(np.eye(2), np.eye(2), task=["a", "b"])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (
            [1.0, 2.0],
            [1.0, 2.0],
            r"X must have two dimensions: got shape \(2,\)",
        ),
        (np.eye(2), [1.0], "y must have one value per row of X: got 1 for 2 rows"),
        (np.eye(2), ["a", "b"], "y must hold numbers: got list"),
        (np.eye(2), [1.0, np.nan], "y must be finite: it contains NaN"),
        (np.eye(2), 5.0, "y must"),
        (np.eye(2), np.ones((2, 1, 1)), "y must"),
        (np.eye(2), np.ones((2, 0)), "y must"),
        (np.empty((0, 2)), [], "at least one row"),
    ],
    ids=["flat X", "short", "text", "NaN", "one y", "3-D y", "no column", "no row"],
)
def test_tables_that_do_not_fit_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        summarize(X, y)


def test_integers_are_read_as_numbers():
    found = summarize(
        np.array([[1], [3]], dtype=np.int8), np.array([100, 120], np.int8)
    )
    assert found.xx[0, 0, 0] == 2.0
    assert found.y_mean[0] == 110.0


rng = np.random.default_rng(0)

X = rng.normal(size=(40, 3))

y = X @ [1.0, -1.0, 0.5]

task = np.repeat([0, 1], 20)


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1.0, 1e90])
def test_scales_that_doubles_can_square_are_taken(scale):
    weight = np.full(40, min(scale, 1.0))
    found = summarize(X * scale, y * scale, task, weight)
    np.testing.assert_allclose(found.x_mean / scale, summarize(X, y, task).x_mean)


@pytest.mark.parametrize("first", [0.0, 1.0])
@pytest.mark.parametrize("rest", [0.0, 1.0])
def test_constant_and_sparse_columns_are_taken(first, rest):
    column = np.r_[first, np.full(39, rest)]
    found = summarize(np.column_stack([X, column]), y, task)
    mean = found.weight @ found.x_mean[:, 3] / 40
    assert mean == pytest.approx((first + 39 * rest) / 40)


def test_a_mean_that_cancels_is_no_tiny_column():
    column = np.r_[1.0, -1.0, np.full(38, 0.0)]
    statistics = summarize(np.column_stack([X, column]), y)
    refuse_tiny(statistics.derive(x_mean=np.full((1, 4), 1e-160)))


@pytest.mark.parametrize("wanted", [summarize, MultiTaskRegressor().fit])
def test_what_vanishes_is_named(wanted):
    tiny = X * [1.0, 1e-200, 1.0]
    with pytest.raises(ValueError, match=r"feature 1 must reach 1e-150, or"):
        wanted(tiny, y, task=task)
    with pytest.raises(ValueError, match=r"target must reach.*for example by 1e2"):
        wanted(X, y * 1e-200, task=task)


def test_tiny_weights_add_up_but_do_not_fit():
    weight = np.full(40, 1e-300)
    statistics = summarize(X, y, task, weight)
    np.testing.assert_allclose(statistics.xx * 1e300, summarize(X, y, task).xx)
    for fit in (
        lambda: MultiTaskRegressor().fit(X, y, task=task, sample_weight=weight),
        lambda: MultiTaskRegressor().fit_statistics(statistics + statistics),
    ):
        with pytest.raises(ValueError, match="the weight must reach"):
            fit()


def test_numbers_below_the_normal_ones_are_named_too():
    with pytest.raises(ValueError, match="Multiply it, for example by 1e300"):
        summarize(np.full((3, 1), 1e-320), [1.0, 2.0, 3.0])


def test_all_parts_count_together():
    well, factor = summarize(X, y, task), np.array([1.0, 1e-200, 1.0])
    tiny = summarize(X * [1.0, 0.0, 1.0], y, task)
    tiny = tiny.derive(x_mean=well.x_mean * factor)
    refuse_tiny(well, tiny)
    with pytest.raises(ValueError, match="feature 1"):
        refuse_tiny(tiny)


@pytest.mark.parametrize("value", [0.1, -3.7, 1e8 + 0.3, 1e-9])
def test_constant_columns_have_no_deviations(value):
    X = np.random.default_rng(0).standard_normal((50, 3))
    X[:, 1] = value
    data = from_labels(X, X[:, 0], [0] * 20 + [1] * 30)
    assert not summarize_tasks(data).xx[:, 1].any()
    assert not centre_samples(data).squared_deviations()[:, 1].any()


def test_small_deviations_are_data():
    X = np.full((20, 1), 1e6)
    X[-1] += 1e-8
    data = from_labels(X, np.arange(20.0), [0] * 20)
    assert centre_samples(data).squared_deviations().all()
    assert summarize_tasks(data).xx.all()


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("d", [5, 70])
def test_threads_change_no_bit_of_the_products(monkeypatch, d, equal):
    rng = np.random.default_rng(d)
    X, y = rng.normal(size=(90, d)), rng.normal(size=90)
    X[:10, 1], y[:10] = 3.0, 2.0  # constant in the first task
    starts = np.array([0, 10, 20, 30] if equal else [0, 10, 40, 90])
    weight = rng.uniform(0.5, 2.0, 90)
    arguments = X[: starts[-1]], y[: starts[-1]], weight[: starts[-1]], starts
    expected = summarizing.task_products(*arguments)
    monkeypatch.setattr(summarizing, "MUCH", 0)
    monkeypatch.setattr(summarizing, "CACHED_CELLS", 1)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found = summarizing.task_products(*arguments)
        if threads == 1:
            again = found
        assert_same_products(found, again, rtol=0.0)
        assert_same_products(found, expected, rtol=1e-10)
    assert not found.xx[0, 1].any()
    assert not found.xy[0].any()
    for i, (a, b) in enumerate(pairwise(starts.tolist())):
        naive = naive_moments(X[a:b], y[a:b], weight[a:b])
        assert_same_products([part[i] for part in found], naive, rtol=1e-10)


def assert_same_products(found, expected, rtol):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-11 * (rtol > 0))
