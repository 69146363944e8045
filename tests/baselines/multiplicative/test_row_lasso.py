import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

from priormtl.baselines.multiplicative.row_lasso import LassoStep, as_own_rows
from priormtl.baselines.multiplicative.row_steps import Place
from priormtl.data import from_columns, from_labels
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared

V = np.array([0.5, 1.0, 0.0, 2.0, 0.1] + [1.0] * 25)
LAM = 0.4


def solve(fit, v, lam):
    W = np.zeros(fit.shape)
    for _ in range(300):
        W = LassoStep(fit).move(Place(W, fit.evaluate(W), v, lam, 1e-16))
    return W


def stacked(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 0.5
    return X, X[:, 0] + rng.standard_normal(n), np.arange(n) % 3


@pytest.mark.parametrize("shape", [(60, 5), (15, 30)], ids=["grams", "samples"])
@pytest.mark.parametrize("intercept", [True, False])
def test_steps_lead_to_the_lasso_of_each_task(shape, intercept):
    X, y, task = stacked(*shape)
    v = V[: shape[1]]
    kind = FreeIntercepts() if intercept else NoIntercepts()
    W = solve(Squared().bind(from_labels(X, y, task), kind), v, LAM)
    for i in range(3):
        rows = task == i
        peer = Lasso(LAM / rows.sum(), fit_intercept=intercept, tol=1e-12)
        peer.max_iter = 100_000
        peer.fit(X[rows][:, v > 0] * v[v > 0], y[rows])
        np.testing.assert_allclose(W[v > 0, i], v[v > 0] * peer.coef_, atol=1e-6)
    assert not W[v == 0].any()


@pytest.mark.parametrize("shape", [(20, 5), (6, 30)], ids=["grams", "samples"])
def test_shared_rows_are_rows_of_every_task(shape):
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal(shape), rng.standard_normal((shape[0], 3))
    data, v = from_columns(X, Y), V[: shape[1]]
    together = solve(Squared().bind(data, FreeIntercepts()), v, LAM)
    apart = solve(Squared().bind(as_own_rows(data), FreeIntercepts()), v, LAM)
    np.testing.assert_allclose(together, apart, atol=1e-8)


def test_constant_columns_stay_at_zero():
    X, y, task = stacked(30, 5)
    X[:, 1], X[task == 0, 2] = 3.0, 0.0
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    W = solve(fit, np.ones(5), 0.1)
    assert not W[1].any()
    assert W[2, 0] == 0.0
    assert np.all(np.isfinite(W))


def test_own_rows_keep_samples_and_weights():
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
    Y = np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]])
    data = from_columns(csr_array(X), Y, np.array([1.0, 2.0, 3.0]))
    own = as_own_rows(data)
    np.testing.assert_array_equal(own.X, X[[0, 1, 2, 1, 2]])
    np.testing.assert_array_equal(own.y, [1, 2, 3, 5, 6])
    np.testing.assert_array_equal(own.weight, [1, 2, 3, 2, 3])
    again = as_own_rows(from_labels(csr_array(X), np.ones(3), [0, 0, 1]))
    np.testing.assert_array_equal(again.X, X)
