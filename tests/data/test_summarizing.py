"""Rows into statistics: large offsets, weights, chunks, gaps, sparsity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from instances import LAYOUTS, plain_rows, random_tasks
from priormtl.data import summarize, summarize_tasks, summarizing
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
        for name, expected in zip(ARRAYS, naive_moments(*rows), strict=True):
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
    assert_same(summarize(X, y, task, times), summarize(*repeated))


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
    assert_same(part_of(rows, order), summarize(*rows))


@pytest.mark.parametrize("cells", [1, 7, 10, 64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_do_not_matter(layout, cells, monkeypatch):
    data = random_tasks(layout, n=20)
    whole = summarize_tasks(data)
    monkeypatch.setattr(summarizing, "CHUNK_CELLS", cells)
    assert_same(summarize_tasks(data), whole, rtol=1e-11)


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
    assert_same(shared, stacked)


def test_gaps_and_weights_per_cell_need_a_gram_matrix_per_task():
    data = random_tasks("gaps")
    assert summarize_tasks(data).xx.shape == (3, 4, 4)


def test_targets_not_measured_are_absent_rows():
    rng = np.random.default_rng(8)
    X, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    rows, tasks = np.nonzero(~np.isnan(Y))
    assert_same(summarize(X, Y), summarize(X[rows], Y[rows, tasks], tasks))


@pytest.mark.parametrize("seed", range(3))
def test_sparse_rows_give_the_statistics_of_dense_ones(seed):
    X, y, task, weight = random_rows(seed)
    X = np.where(np.random.default_rng(seed).random(X.shape) < 0.5, X, 0.0)
    sparse = summarize(csr_array(X), y, task, weight)
    assert_same(sparse, summarize(X, y, task, weight))


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
