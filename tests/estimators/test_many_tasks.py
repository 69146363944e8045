"""Fits from sums over tasks agree with those that hold all tasks at once."""

import warnings

import numpy as np
import pytest

from priormtl import MultiTaskClassifier, MultiTaskRegressor, partitioned
from priormtl.data import HeldTasks, SortedRows
from priormtl.data.blocks import chosen_tasks
from priormtl.estimators import many_tasks

MEAN = {"task_prior": "mean", "theta": 0.0}
TIED = MEAN | {"fit_intercept": "tied"}
ADAPTIVE = TIED | {"lam": 0.0, "ties": "adaptive", "intercept_strength": "adaptive"}


def draw(loss, m=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 14, m)
    task = rng.permutation(np.repeat(np.arange(m), n))
    X = rng.normal(size=(len(task), d)) + np.array([0.0, 1.0, 2.0, 5.0])
    P = rng.normal(size=(m, d)) * [0.1, 0.5, 1.0, 0.0] + [1.0, -1.0, 0.0, 0.3]
    eta = np.einsum("ij,ij->i", X, P[task]) + rng.normal(size=m)[task]
    y = eta + 0.7 * rng.normal(size=len(task))
    if loss == "logistic":
        y = np.where(rng.random(len(task)) < 1 / (1 + np.exp(-eta)), "yes", "no")
    if loss == "poisson":
        y = rng.poisson(np.exp(0.2 * eta)).astype(float)
    return X, y, task, rng.uniform(0.5, 2.0, len(task))


def fit(monkeypatch, most, loss, **settings):
    """A model whose fit adds up sums from so many tasks on."""
    monkeypatch.setattr(many_tasks, "MANY", most)
    X, y, task, weight = draw(loss)
    kind = MultiTaskClassifier if loss == "logistic" else MultiTaskRegressor
    model = kind(loss=loss, tol=1e-9, **settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*far from zero.*")
        return model.fit(X, y, task=task, sample_weight=weight)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize(
    "settings",
    [
        TIED | {"lam": 0.0, "epsilon": 2.0},
        TIED | {"lam": 2.0, "standardize": True},
        TIED | {"lam": 40.0, "ties": [1.0, 2.0, 3.0, 0.5]},
        MEAN | {"lam": 1.0, "fit_intercept": False},
        MEAN | {"lam": 3.0, "fit_intercept": True, "feature_weights": [1, 2, 3, 4.0]},
        {"lam": 2.0, "task_prior": None, "theta": 0.0, "fit_intercept": False},
        TIED | {"lam": 3.0, "ties": [1.0, 1.0, 1.0, np.inf]},
    ],
)
def test_optimum_is_the_same(monkeypatch, loss, settings):
    if loss != "squared" and settings["fit_intercept"] is True:
        settings = settings | {"fit_intercept": "tied"}
    one, many = (fit(monkeypatch, most, loss, **settings) for most in (10**9, 2))
    assert many.objective_ == pytest.approx(one.objective_, rel=1e-8)
    assert np.all(many.coef_.any(axis=0) == one.coef_.any(axis=0))
    loose = 1e-6 if loss == "squared" else 1e-3  # the other one stops at tol
    np.testing.assert_allclose(many.coef_, one.coef_, atol=loose)
    np.testing.assert_allclose(many.intercept_, one.intercept_, atol=loose)
    assert many.fitted_.certificate.gap <= 1e-9 * many.objective_
    r2 = one.fitted_.task_r2
    if r2 is not None:
        np.testing.assert_allclose(many.fitted_.task_r2, r2, atol=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("lam", [0.0, 3.0])
def test_gap_bounds_what_is_left(monkeypatch, loss, lam):
    """Of fits that are stopped early, too."""
    settings = TIED | {"lam": lam, "epsilon": 2.0, "ties": [1.0, 1.0, 2.0, np.inf]}
    best = fit(monkeypatch, 2, loss, **settings).fitted_.certificate.objective
    for steps in (2, 3, 5):
        monkeypatch.setattr(partitioned, "MOST_STEPS", steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit(monkeypatch, 2, loss, **settings).fitted_.certificate
        assert found.objective - best <= found.gap + 1e-12 * best


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_updates_are_the_same(monkeypatch, loss):
    settings = TIED | {"lam": 0.0, "ties": [1.0, 1.0, 2.0, np.inf], "standardize": True}
    one, many = (fit(monkeypatch, k, loss, **settings) for k in (10**9, 2))
    X, y, task, weight = draw(loss, m=30, seed=5)
    task = np.where(task < 20, task, task + 1000)  # known and new ones
    for model in (one, many):
        model.update(X, y, task=task, sample_weight=weight)
    assert len(one.tasks_) == 160
    loose = 1e-9 if loss == "squared" else 1e-4  # the other one stops at tol
    np.testing.assert_allclose(many.coef_, one.coef_, atol=loose)
    np.testing.assert_allclose(many.intercept_, one.intercept_, atol=loose)


def test_adaptive_ties_of_counts(monkeypatch):
    one, many = (fit(monkeypatch, k, "poisson", **ADAPTIVE) for k in (10**9, 2))
    for part in ("task", "intercept"):
        a, b = (getattr(x.fitted_.deviations, part) for x in (one, many))
        np.testing.assert_allclose(a, b, atol=0.01)  # the other one stops earlier


def test_adaptive_ties_and_standard_errors(monkeypatch):
    one, many = (fit(monkeypatch, k, "squared", **ADAPTIVE) for k in (10**9, 2))
    np.testing.assert_allclose(many.coef_, one.coef_, atol=1e-5)
    np.testing.assert_allclose(
        many.fitted_.deviations.task, one.fitted_.deviations.task, atol=1e-5
    )
    a, b = many._errors(0.9), one._errors(0.9)
    for name in ("coef", "shared", "between", "noise"):
        got, want = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    # Covariances of a task with the mean of all are left out: 1 / m of it.
    np.testing.assert_allclose(a.effect, b.effect, rtol=0.02)
    many.summary(0.9)


def test_division_and_threads_change_nothing():
    rng = np.random.default_rng(3)
    n = rng.integers(1, 30, 700)
    starts = np.concatenate([[0], np.cumsum(n)])
    X, y = rng.normal(size=(starts[-1], 3)), rng.normal(size=starts[-1])
    held = HeldTasks.of(SortedRows(np.arange(700), starts, X, y, np.ones(len(y))))
    block = held.blocks[0]
    gram = sum(c.rows.reshape(-1, 5).T @ c.rows.reshape(-1, 5) for c in block.chunks)
    rows = np.column_stack([np.ones(len(y)), X, y])
    np.testing.assert_allclose(gram, rows.T @ rows)
    assert max(c.rows.shape[1] for c in block.chunks) <= 5
    labels = np.arange(10_000)
    some = labels[chosen_tasks(labels, 0.1)]
    assert 800 < len(some) < 1200
    shuffled = rng.permutation(labels)
    np.testing.assert_array_equal(some, np.sort(shuffled[chosen_tasks(shuffled, 0.1)]))


def test_more_tasks_than_a_sample(monkeypatch):
    """Where a sample of tasks gives the start, the estimate is that of all."""
    monkeypatch.setattr(many_tasks, "MANY", 2)
    rng = np.random.default_rng(0)
    m, n = 5000, 5
    task = np.repeat(np.arange(m), n)
    X = rng.normal(size=(m * n, 2))
    P = rng.normal(size=(m, 2)) * [0.5, 0.0] + [1.0, -1.0]
    y = np.einsum("ij,ij->i", X, P[task]) + rng.normal(size=m)[task]
    model = MultiTaskRegressor(**ADAPTIVE).fit(X, y + rng.normal(size=m * n), task=task)
    found = model.fitted_.deviations
    np.testing.assert_allclose(found.task, [0.5, 0.0], atol=0.08)
    assert found.intercept == pytest.approx(1.0, abs=0.05)
    assert found.noise == pytest.approx(1.0, abs=0.02)
