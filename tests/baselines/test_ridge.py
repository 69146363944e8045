"""Ridge regressions: closed forms that agree with scikit-learn's."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

from priormtl.baselines.ridge import (
    PooledRidge,
    PooledRidgeClassifier,
    SingleTaskRidge,
    SingleTaskRidgeClassifier,
)
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks

REGRESSORS = [SingleTaskRidge, PooledRidge]
BOTH = pytest.mark.parametrize("kind", REGRESSORS)
WIDE_AND_TALL = pytest.mark.parametrize("d", [4, 30], ids=["tall", "wide"])


def rows(d=4):
    data = make_related_tasks(3, d, 12, noise=0.3, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, len(data.y)).astype(float)
    return data.X + 0.5, data.y, data.task, weight


@WIDE_AND_TALL
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("lam", [1e-3, 1.0, 100.0])
def test_each_task_is_a_ridge_of_its_own(d, intercept, lam):
    X, y, task, weight = rows(d)
    model = SingleTaskRidge(lam, fit_intercept=intercept)
    model.fit(X, y, task=task, sample_weight=weight)
    for i in range(3):
        mine = task == i
        peer = Ridge(lam, fit_intercept=intercept)
        peer.fit(X[mine], y[mine], sample_weight=weight[mine])
        np.testing.assert_allclose(model.coef_[i], peer.coef_, atol=1e-8)
        assert model.intercept_[i] == pytest.approx(peer.intercept_, abs=1e-8)
    assert model.residual_ < 1e-10


@WIDE_AND_TALL
@pytest.mark.parametrize("intercept", [True, False])
def test_pooled_tasks_are_one_ridge(d, intercept):
    X, y, task, weight = rows(d)
    model = PooledRidge(2.0, fit_intercept=intercept)
    model.fit(X, y, task=task, sample_weight=weight)
    peer = Ridge(2.0, fit_intercept=intercept).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, np.tile(peer.coef_, (3, 1)), atol=1e-8)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-8)


@BOTH
def test_published_objective_is_that_of_the_published_model(kind):
    X, y, task, _ = rows()
    model = kind(0.7).fit(X, y, task=task)
    rest = y - model.predict(X, task=task)
    length = np.sum(model.coef_**2) / (3 if kind is PooledRidge else 1)
    assert model.objective_ == pytest.approx(0.5 * rest @ rest + 0.35 * length)


@BOTH
@WIDE_AND_TALL
def test_shared_rows_with_gaps_are_stacked_rows_said_shorter(kind, d):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((15, d)), rng.standard_normal((15, 3))
    for gaps in ([], [0, 4]):
        Y[gaps, 1] = np.nan
        known = ~np.isnan(Y)
        row, task = np.nonzero(known)
        together = kind().fit(X, Y)
        apart = kind().fit(X[row], Y[known], task=task)
        np.testing.assert_allclose(together.coef_, apart.coef_, atol=1e-10)
        assert together.objective_ == pytest.approx(apart.objective_)


@BOTH
@WIDE_AND_TALL
def test_sparse_and_dense_are_the_same(kind, d):
    X, y, task, _ = rows(d)
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = kind().fit(thin, y, task=task)
    sparse = kind().fit(csr_array(thin), y, task=task)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-8)


@BOTH
@WIDE_AND_TALL
def test_paths_are_single_fits(kind, d):
    X, y, task, _ = rows(d)
    method = kind()
    bound = method._bind(from_labels(X, y, task))
    lams = [part["lam"] for part in method._suggest(bound, 5)]
    assert lams == sorted(lams, reverse=True)
    for lam, outcome in zip(lams, method._follow(bound, lams), strict=True):
        alone = kind(lam).fit(X, y, task=task)
        np.testing.assert_allclose(outcome.model.coef, alone.coef_, atol=1e-12)
    assert len(method._suggest(bound, 1)) == 1


@BOTH
@WIDE_AND_TALL
def test_without_strength_the_shortest_solution_is_taken(kind, d):
    X, y, task, _ = rows(d)
    X = np.column_stack([X, X[:, 0]])
    model = kind(0.0).fit(X, y, task=task)
    mine = slice(None) if kind is PooledRidge else task == 0
    centred = X[mine] - X[mine].mean(axis=0)
    expected = np.linalg.pinv(centred, rcond=1e-10) @ (y[mine] - y[mine].mean())
    np.testing.assert_allclose(model.coef_[0], expected, atol=1e-6)


@BOTH
def test_residual_is_the_gradient_relative_to_that_at_zero(kind, monkeypatch):
    X, y, task, _ = rows()
    bound = kind()._bind(from_labels(X, y, task))
    P = 1.1 * bound.solve(0.7)
    monkeypatch.setattr(type(bound), "solve", lambda self, lam: P)
    (outcome,) = kind()._follow(bound, [0.7])
    # The gradient is affine and zero at the solution: a tenth too far, it is a tenth.
    assert outcome.learned["residual_"] == pytest.approx(0.1)


@BOTH
def test_targets_without_a_slope_leave_no_residual(kind):
    X, _, task, _ = rows()
    model = kind().fit(X, np.full(len(X), 2.0), task=task)
    assert model.residual_ == 0.0
    assert not model.coef_.any()


@BOTH
def test_constant_columns_and_targets_do_no_harm(kind):
    X, y, task, _ = rows()
    X = np.column_stack([X, np.full(len(X), 1e6), np.zeros(len(X))])
    model = kind().fit(X, y, task=task)
    assert not model.coef_[:, 4:].any()
    flat = kind(0.0).fit(X, np.full(len(X), 2.0), task=task)
    np.testing.assert_allclose(flat.predict(X, task=task), 2.0)
    assert flat.residual_ == 0.0


@BOTH
@pytest.mark.parametrize("size", [1e-8, 1e8])
def test_any_scale_is_finite(kind, size):
    X, y, task, _ = rows()
    model = kind().fit(size * X, y / size, task=task)
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("kind", [SingleTaskRidgeClassifier, PooledRidgeClassifier])
def test_classifiers_are_least_squares_on_labels(kind):
    X, y, task, _ = rows()
    labels = np.where(y > 0, "yes", "no")
    model = kind().fit(X, labels, task=task)
    plain = SingleTaskRidge if kind is SingleTaskRidgeClassifier else PooledRidge
    peer = plain().fit(X, np.where(y > 0, 1.0, -1.0), task=task)
    np.testing.assert_allclose(model.coef_, peer.coef_)
    assert not hasattr(model, "predict_proba")
    assert set(model.predict(X, task=task)) <= {"yes", "no"}


@BOTH
def test_negative_strengths_are_refused(kind):
    X, y, task, _ = rows()
    with pytest.raises(ValueError, match="lam must be a finite number"):
        kind(-1.0).fit(X, y, task=task)
