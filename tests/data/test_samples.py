"""CentredSamples: digits at large offsets, sparse rows left sparse, spectra."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from instances import random_tasks
from priormtl.data import (
    centre_samples,
    from_columns,
    from_labels,
    moments,
    summarize_tasks,
)


def offset_rows(offset, seed=0, n=40, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + offset
    return X, rng.normal(size=n), np.arange(n) % 2


@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
def test_stacked_rows_keep_their_digits_at_large_offsets(offset):
    data = from_labels(*offset_rows(offset))
    found, expected = centre_samples(data), summarize_tasks(data)
    P = np.ones((3, 2))
    np.testing.assert_allclose(found.x_mean, expected.x_mean, rtol=1e-15)
    np.testing.assert_allclose(found.xy, expected.xy, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        found.gram_product(P), expected.gram_product(P), rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
def test_shared_rows_with_gaps_keep_their_digits_at_large_offsets(offset):
    X, y, _ = offset_rows(offset)
    Y = np.column_stack([y, y[::-1], y**2])
    Y[:5, 0] = Y[20:, 1] = np.nan
    data = from_columns(X, Y)
    found, expected = centre_samples(data), summarize_tasks(data)
    P = np.ones((3, 3))
    np.testing.assert_allclose(found.x_mean, expected.x_mean, rtol=1e-15)
    np.testing.assert_allclose(found.xy, expected.xy, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        found.gram_product(P), expected.gram_product(P), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(
        found.squared_deviations(), expected.squared_deviations(), rtol=1e-11
    )


def test_targets_keep_their_digits_at_large_offsets():
    X, y, task = offset_rows(0.0)
    found = centre_samples(from_labels(X, y + 1e8, task))
    expected = summarize_tasks(from_labels(X, y + 1e8, task))
    np.testing.assert_allclose(found.xy, expected.xy, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.yy, expected.yy, rtol=1e-12)


def test_the_users_rows_are_left_alone():
    X, y, task = offset_rows(5.0)
    before = X.copy()
    centre_samples(from_labels(X, y, np.sort(task)))
    centre_samples(from_columns(X, y[:, np.newaxis]))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("layout", ["sparse", "sparse shared"])
def test_sparse_rows_are_never_all_dense(layout):
    n, d = 200, 20_000
    X = csr_array(random_array((n, d), density=1e-3, random_state=0))
    Y = np.random.default_rng(1).normal(size=(n, 2))
    shared = layout == "sparse shared"
    data = from_columns(X, Y) if shared else from_labels(X, Y[:, 0], np.arange(n) % 2)
    full = n * d * 8
    for use in USES:
        assert peak_of(lambda use=use: use(centre_samples(data))) < full / 4, use


def use_products(kept):
    kept.gram_product(np.ones(kept.shape))


def use_targets(kept):
    return kept.xy, kept.yy


def use_deviations(kept):
    kept.squared_deviations()


def use_correlations(kept):
    kept.within_task_products(np.arange(5))


def use_spectra(kept):
    kept.task_spectra()


USES = (use_products, use_targets, use_deviations, use_correlations, use_spectra)


def peak_of(action):
    """Most memory held at once during the action."""
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_correlations_of_long_sparse_rows_need_no_dense_copy():
    n, d = 20_000, 100
    X = csr_array(random_array((n, d), density=1e-2, random_state=0))
    kept = centre_samples(from_labels(X, np.zeros(n), [0] * n))
    peak = peak_of(lambda: kept.within_task_products(np.arange(d)))
    assert peak < n * d * 8 / 4


@pytest.mark.parametrize("shape", [(30, 5), (5, 30)], ids=["long", "wide"])
def test_spectra_of_sparse_rows_agree_however_they_are_found(shape, monkeypatch):
    X = random_array(shape, density=0.4, random_state=0) * 3
    kept = centre_samples(from_labels(csr_array(X), np.zeros(shape[0]), [0] * shape[0]))
    lowest, highest = kept.task_spectra()
    monkeypatch.setattr(moments, "MOST_DENSE_ROWS", 2)
    bound, iterated = kept.task_spectra()
    np.testing.assert_allclose(iterated, highest, rtol=1e-9)
    assert np.all(bound <= lowest + 1e-12)


def test_spectra_are_the_same_each_time(monkeypatch):
    monkeypatch.setattr(moments, "MOST_DENSE_ROWS", 2)
    kept = centre_samples(random_tasks("sparse"))
    first, second = kept.task_spectra()[1], kept.task_spectra()[1]
    assert first.tobytes() == second.tobytes()


def test_fewer_rows_than_features_have_no_lowest_eigenvalue():
    kept = centre_samples(random_tasks("wide"))
    assert kept.task_spectra()[0].tolist() == [0.0, 0.0, 0.0]
