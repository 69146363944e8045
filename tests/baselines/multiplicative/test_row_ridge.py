from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.multiplicative.row_ridge import (
    GramRidge,
    ProductRidge,
    SampleRidge,
    ridge_step,
)
from priormtl.baselines.multiplicative.row_steps import Place
from priormtl.data import from_columns, from_labels
from priormtl.losses import FreeIntercepts, Logistic, NoIntercepts, Squared


def stacked(n=40, d=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 1.0
    weight = rng.integers(1, 3, n).astype(float)
    return from_labels(X, rng.standard_normal(n), np.arange(n) % 3, weight)


def shared(n=20, d=5):
    rng = np.random.default_rng(1)
    return from_columns(rng.standard_normal((n, d)), rng.standard_normal((n, 3)))


def place_of(fit, v, lam=0.3, seed=0):
    W = np.random.default_rng(seed).standard_normal(fit.shape) * (v > 0)[:, np.newaxis]
    return Place(W, fit.evaluate(W), v, lam, 0.0)


V = np.array([0.5, 1.0, 0.0, 2.0, 1e-3])


WAYS = [
    *product((GramRidge, ProductRidge), (stacked(), shared())),
    *product((GramRidge, SampleRidge, ProductRidge), (stacked(9), shared(4))),
]


@pytest.mark.parametrize(("kind", "data"), WAYS)
@pytest.mark.parametrize("intercepts", [FreeIntercepts(), NoIntercepts()])
def test_steps_end_where_the_slope_vanishes(kind, data, intercepts):
    fit = Squared().bind(data, intercepts)
    place = place_of(fit, V)
    for _ in range(1 if kind is not ProductRidge else 30):
        W = kind(fit).move(place)
        place = place._replace(coef=W, point=fit.evaluate(W))
    assert not W[V == 0].any()
    slope = fit.evaluate(W).gradient + 2 * 0.3 * W / np.maximum(V, 1e-9)[:, None] ** 2
    np.testing.assert_allclose((V[:, None] * slope)[V > 0], 0.0, atol=1e-7)


def test_newton_steps_of_other_losses_use_their_curvature():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.arange(60) % 3
    fit = Logistic().bind(
        from_labels(X, np.sign(X[:, 0] + rng.standard_normal(60)), task),
        FreeIntercepts(),
    )
    for kind in (GramRidge, ProductRidge):
        place = place_of(fit, V + 0.1, lam=1.0)
        for _ in range(8):
            W = kind(fit).move(place)
            place = place._replace(coef=W, point=fit.evaluate(W))
        slope = place.point.gradient + 2 * W / (V + 0.1)[:, np.newaxis] ** 2
        np.testing.assert_allclose(slope, 0.0, atol=1e-3)


def test_the_way_follows_the_sizes():
    def way(data):
        return type(ridge_step(Squared().bind(data, FreeIntercepts())))

    assert way(stacked()) is GramRidge
    assert way(stacked(9, 300)) is SampleRidge
    assert way(shared(10, 3000)) is SampleRidge
    wide = csr_array(np.eye(30, 6000))
    assert way(from_labels(wide, np.ones(30), np.arange(30) % 3)) is ProductRidge


def test_restricted_steps_are_steps_of_restricted_fits():
    fit = Squared().bind(stacked(), FreeIntercepts())
    kept = np.array([0, 3])
    v = np.where(np.isin(np.arange(5), kept), 1.0, 0.0)
    place = place_of(fit, v)
    part = place._replace(
        coef=place.coef[kept], point=fit.restrict(kept).evaluate(place.coef[kept])
    )._replace(shared=v[kept])
    for kind in (GramRidge, ProductRidge):
        few = kind(fit).restrict(kept).move(part)
        whole = GramRidge(fit).move(place)[kept]
        np.testing.assert_allclose(few, whole, atol=1e-6)


def test_tiny_strengths_leave_systems_regular():
    fit = Squared().bind(stacked(6), FreeIntercepts())
    W = GramRidge(fit).move(place_of(fit, np.ones(5), lam=1e-300))
    assert np.all(np.isfinite(W))
