"""Forecasts of later rows: simple ones beside the model, and their weights."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.selection.history import (
    MOST_DAMPED,
    RECENT,
    History,
    combine,
    weigh_origins,
)


def draw(k=4, n=40, origins=2, seed=0):
    """Targets, scores of a model and other forecasts with noise, and origins."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    others = y + rng.normal(size=(k, n))
    return y, y + rng.normal(size=n), others, np.ones(n), np.arange(n) % origins


def test_weights_are_shares():
    y, scores, others, weight, origin = draw()
    found = combine(y, scores, others, weight, origin)
    assert found.shape == (4,)
    assert np.all(found >= 0)
    assert found.sum() <= 1.0 + 1e-9
    # Errors that are independent average out.
    mixed = scores + found @ (others - scores)
    assert np.mean((mixed - y) ** 2) < 0.5 * np.mean((scores - y) ** 2)


def test_an_exact_forecast_is_taken_and_trends_that_stand_still_need_a_reason():
    y, scores, others, weight, origin = draw()
    exact = np.vstack([others[0], y, others[2:]])
    found = combine(y, scores, exact, weight, origin)
    assert found[1] > 0.9
    # Where nothing tells forecasts apart, trends are damped by as much as is allowed.
    alike = np.tile(scores, (4, 1))
    found = combine(y, scores, alike, weight, origin)
    assert found[2:].sum() == pytest.approx((1 - MOST_DAMPED) * 0.4 + MOST_DAMPED)


def test_origins_have_their_own_scale_and_the_latest_count_most():
    y, scores, others, weight, origin = draw(n=60, origins=3)
    found = combine(y, scores, others, weight, origin)
    scale = np.array([10.0, 1.0, 0.1])[origin]
    shrunk = y + scale * (scores - y), y + scale * (others - y)
    np.testing.assert_allclose(combine(y, *shrunk, weight, origin), found, atol=1e-5)
    # Two forecasts, each of which is best at one of two origins.
    early = origin < 1
    first, second = (np.where(early == own, 0.1, 1.0) for own in (True, False))
    signs = np.where(np.arange(60) % 2, 1.0, -1.0)
    both = np.stack([y + first * signs, y + second * signs])
    parts = y, y + 5.0 * signs, np.vstack([both, both + 9.0])
    found = combine(*parts, weight, early.astype(int))
    assert found[0] > found[1]
    found = combine(*parts, weight, 1 - early.astype(int))
    assert found[0] < found[1]


def test_without_rows_or_errors_the_model_stands():
    y, scores, others, weight, origin = draw()
    nothing = combine(y, scores, others, np.zeros(len(y)), origin)
    np.testing.assert_array_equal(nothing, 0.0)
    nothing = combine(y, y, np.tile(y, (4, 1)), weight, origin)
    np.testing.assert_array_equal(nothing, 0.0)


@pytest.mark.parametrize("build", [np.asarray, csr_array])
def test_still_trends_end_with_the_training_rows(build):
    rng = np.random.default_rng(1)
    time = np.tile(np.arange(6.0), 2)
    X = np.column_stack([rng.normal(size=12), time, time**2])
    codes, coef = np.repeat([0, 1], 6), rng.normal(size=(2, 3))
    scores = np.sum(X * coef[codes], axis=1)
    early = time < 4
    y = scores + np.array([1.0, -2.0])[codes]
    rows = y[early], scores[early], codes[early], time[early], np.ones(8)
    history = History.of(*rows, 2).with_trend(build(X[early]), time[early], [1, 2])
    np.testing.assert_allclose(history.residual, [1.0, -2.0])
    delta = history.growth(build(X), codes, time, coef)
    np.testing.assert_array_equal(delta[early], 0.0)
    still = X.copy()
    still[~early, 1], still[~early, 2] = 3.0, 9.0
    expected = np.sum(still * coef[codes], axis=1)
    np.testing.assert_allclose(scores - delta, expected)
    last, wandering, damped, both = history.forecasts(scores, codes, time, delta)
    np.testing.assert_allclose(wandering[~early], y[~early])
    np.testing.assert_allclose(damped, expected)
    np.testing.assert_allclose((both - damped)[~early], (y - scores)[~early])
    np.testing.assert_array_equal(last[~early], np.repeat(y[[3, 9]], 2))
    only = history._replace(weights=np.array([0.0, 0.0, 1.0, 0.0]))
    np.testing.assert_allclose(only.add(scores, codes, time, delta), expected)
    assert only.fits(2, 3)
    assert not only.fits(2, 2)


def test_weights_of_rows_follow_the_scale_and_age_of_origins():
    loss, origin = np.array([4.0, 4.0, 1.0, 1.0]), np.array([0, 0, 1, 1])
    found = weigh_origins(loss, np.ones(4), origin)
    assert found[2] / found[0] == pytest.approx(4.0 / RECENT)
