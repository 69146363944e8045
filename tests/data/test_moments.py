"""All ways of keeping moments agree with each other and with a naive twin."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, issparse, random_array

from instances import LAYOUTS, plain_rows, random_coef, random_tasks
from priormtl.data import (
    centre_samples,
    from_columns,
    from_labels,
    moments,
    pooled_scale,
    pooled_variance,
    summarize_tasks,
)

LAW = settings(max_examples=20, deadline=None, derandomize=True, database=None)

KEPT = {
    "statistics": summarize_tasks,
    "samples": centre_samples,
    "streamed": lambda data: summarize_tasks(data).streamed(),
    "streamed, none held": lambda data: summarize_tasks(data).streamed(0),
}

FEATURES = np.array([3, 0, 2])

SCALE = np.array([0.5, 2.0, 10.0, 1e-3])

AGREE = {"rtol": 1e-9, "atol": 1e-9}


class NaiveMoments:
    """Each task's centred rows, times the root of their weights, in full."""

    def __init__(self, rows):
        self.rows = [self._centre(*task) for task in rows]
        self.weight = np.array([weight.sum() for _, _, weight in rows])
        self.x_mean = np.array([np.average(X, 0, w) for X, _, w in rows])
        self.y_mean = np.array([np.average(y, 0, w) for _, y, w in rows])
        self.xy = np.array([A.T @ b for A, b in self.rows])
        self.yy = np.array([b @ b for _, b in self.rows])

    @staticmethod
    def _centre(X, y, weight):
        root = np.sqrt(weight)
        A = (X - np.average(X, 0, weight)) * root[:, np.newaxis]
        return A, (y - np.average(y, 0, weight)) * root

    def gram_product(self, P):
        return np.column_stack(
            [A.T @ (A @ p) for (A, _), p in zip(self.rows, P.T, strict=True)]
        )

    def squared_deviations(self):
        return np.array([np.sum(A**2, axis=0) for A, _ in self.rows])

    def within_task_products(self, features):
        return sum(A.T @ A for A, _ in self.rows)[features]

    def task_spectra(self):
        values = [np.linalg.eigvalsh(A.T @ A) for A, _ in self.rows]
        return np.array([[v[0], v[-1]] for v in values]).T


def assert_agree(found, naive):
    P = random_coef((naive.x_mean.shape[1], len(naive.weight)))
    every = np.arange(naive.x_mean.shape[1])
    for name in ("weight", "x_mean", "y_mean", "xy", "yy"):
        np.testing.assert_allclose(getattr(found, name), getattr(naive, name), **AGREE)
    for name, arguments in [
        ("gram_product", (P,)),
        ("squared_deviations", ()),
        ("within_task_products", (every,)),
        ("within_task_products", (every[1:2],)),
        ("task_spectra", ()),
    ]:
        mine = getattr(found, name)(*arguments)
        np.testing.assert_allclose(mine, getattr(naive, name)(*arguments), **AGREE)


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_moments_agree_with_the_naive_twin(layout, keep):
    data = random_tasks(layout)
    assert_agree(keep(data), NaiveMoments(plain_rows(data)))


@LAW
@given(st.sampled_from(LAYOUTS), st.integers(0, 10**6))
def test_moments_agree_on_any_data(layout, seed):
    data = random_tasks(layout, seed)
    naive = NaiveMoments(plain_rows(data))
    assert_agree(summarize_tasks(data), naive)
    assert_agree(centre_samples(data), naive)


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_restricted_moments_are_those_of_the_restricted_rows(layout, keep):
    data = random_tasks(layout)
    rows = [(X[:, FEATURES], y, w) for X, y, w in plain_rows(data)]
    found = keep(data).restrict(FEATURES)
    assert_agree(found, NaiveMoments(rows))
    assert found.shape == (3, 3)


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rescaled_moments_are_those_of_the_rescaled_rows(layout, keep):
    data = random_tasks(layout)
    naive = NaiveMoments([(X / SCALE, y, w) for X, y, w in plain_rows(data)])
    found = keep(data).rescale(SCALE)
    np.testing.assert_allclose(found.x_mean, naive.x_mean, rtol=1e-9)
    np.testing.assert_allclose(found.xy, naive.xy, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        found.squared_deviations(), naive.squared_deviations(), rtol=1e-8
    )
    P = random_coef((4, 3)) * SCALE[:, np.newaxis]
    expected = naive.gram_product(P)
    np.testing.assert_allclose(found.gram_product(P), expected, rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_names_follow_the_features(keep):
    rng = np.random.default_rng(0)
    names = ["u", "v", "w", "z"]
    data = from_labels(rng.normal(size=(8, 4)), np.ones(8), [0, 1] * 4, features=names)
    assert keep(data).features.names == ("u", "v", "w", "z")
    assert keep(data).restrict(FEATURES).features is None
    assert keep(data).tasks == keep(data).restrict(FEATURES).tasks == (0, 1)


def all_rows(data):
    parts = plain_rows(data)
    return np.concatenate([X for X, _, _ in parts]), np.concatenate(
        [w for *_, w in parts]
    )


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_pooled_variance_is_that_of_all_rows(layout, keep):
    data = random_tasks(layout)
    X, weight = all_rows(data)
    variance = np.average((X - np.average(X, 0, weight)) ** 2, 0, weight)
    np.testing.assert_allclose(pooled_variance(keep(data)), variance, rtol=1e-9)
    np.testing.assert_allclose(pooled_scale(keep(data)), np.sqrt(variance), rtol=1e-9)


CONSTANTS = [0.0, 0.1, 0.7, 1.0, -1e8 + 0.1, 1e-120, 1e120]


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("m", [1, 3])
def test_constant_features_have_scale_one(keep, form, constant, m):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(1000, constant), rng.normal(size=1000)])
    data = from_labels(form(X), np.zeros(1000), np.arange(1000) % m)
    scale = pooled_scale(keep(data))
    assert scale[0] == 1.0
    assert scale[1] == pytest.approx(X[:, 1].std())


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_a_feature_that_differs_between_tasks_only_is_not_constant(keep):
    X = np.repeat([[0.1], [0.3]], 50, axis=0)
    data = from_labels(X, np.zeros(100), np.repeat([0, 1], 50))
    assert pooled_scale(keep(data))[0] == pytest.approx(0.1)


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("offset", [1e8, 1e12])
def test_large_offsets_keep_the_scale(keep, offset):
    X = np.random.default_rng(0).normal(size=(200, 2)) + offset
    data = from_labels(X, np.zeros(200), [0] * 200)
    expected = (X - offset).std(axis=0)
    np.testing.assert_allclose(pooled_scale(keep(data)), expected, rtol=1e-12)


def test_sparse_samples_stay_sparse():
    kept = centre_samples(random_tasks("sparse"))
    assert issparse(kept.data.X)
    assert issparse(kept.restrict(FEATURES).data.X)
    assert issparse(kept.rescale(SCALE).data.X)


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
