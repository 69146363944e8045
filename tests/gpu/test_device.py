"""Fits on a device equal those on the processor.

PyTorch's own "cpu" stands for it, unless PRIORMTL_DEVICE names another.
"""

import os

import numpy as np
import pytest
from scipy.sparse import csr_array

import priormtl
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    regularization_path,
    summarize,
)
from priormtl.data import DeviceGrams, DeviceRows, from_labels, to_device
from priormtl.data import device as device_module

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-gpu")

from priormtl.solvers.device import DeviceNewton  # noqa: E402

DEVICE = os.environ.get("PRIORMTL_DEVICE", "cpu")
RNG = np.random.default_rng(0)
M, D, N = 7, 12, 30
TASK = np.repeat(np.arange(M), N)[RNG.permutation(M * N)]
X = RNG.normal(size=(M * N, D)) + RNG.normal(size=D)
TRUTH = np.zeros((M, D))
TRUTH[:, :4] = RNG.normal(size=4) + 0.3 * RNG.normal(size=(M, 4))
Y = np.sum(X * TRUTH[TASK], axis=1) + RNG.normal(size=M * N) + TASK
WEIGHT = RNG.uniform(0.5, 2.0, size=M * N)
GRAPH = TaskPrior.groups({"a": [0, 1, 2], "b": [3, 4, 5, 6]})

CASES = {
    "chain": {},
    "mean, tied intercepts": {"task_prior": "mean", "fit_intercept": "tied"},
    "groups, no intercepts": {"task_prior": GRAPH, "fit_intercept": False},
    "no ties": {"task_prior": None},
    "relations": {"feature_prior": FeaturePrior.similar([(0, 1), (2, 5)])},
    "known values": {"feature_prior": FeaturePrior.near({0: 0.5, 3: -1.0})},
    "signs": {"feature_prior": FeaturePrior.nonnegative([0, 1])},
    "standardised": {"standardize": True, "fit_intercept": "tied", "epsilon": 5.0},
    "weights": {"feature_weights": np.linspace(0.5, 2.0, D), "ties": np.arange(D) / D},
    "rigid ties": {"epsilon": 1e5},
    "hardly a penalty": {"lam": 1e-3},
    "nothing left": {"lam": 1e6},
    "no penalty": {"lam": 0.0, "tol": 1e-10},
    "adaptive": {"ties": "adaptive", "task_prior": "mean"},
}


def both(model, **settings):
    """The same estimator on the processor and on a device."""
    options = {"lam": 15.0, "tol": 1e-13} | settings
    return model(**options), model(**options, device=DEVICE)


def assert_equal(here, there, rtol=1e-8):
    scale = np.abs(here.coef_).max() or 1.0
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0, atol=rtol * scale)
    np.testing.assert_allclose(there.intercept_, here.intercept_, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_regression_equals_that_of_the_processor(case):
    here, there = both(MultiTaskRegressor, **CASES[case])
    here.fit(X, Y, task=TASK, sample_weight=WEIGHT)
    there.fit(X, Y, task=TASK, sample_weight=WEIGHT)
    assert_equal(here, there)
    assert isinstance(there.statistics_.xx, DeviceGrams)


@pytest.mark.parametrize("intercept", [True, "tied", False])
def test_classification_equals_that_of_the_processor(intercept):
    classes = np.median(Y - TASK) < Y - TASK
    settings = {"lam": 3.0, "tol": 1e-11, "fit_intercept": intercept}
    here, there = both(MultiTaskClassifier, **settings)
    assert_equal(
        here.fit(X, classes, task=TASK), there.fit(X, classes, task=TASK), rtol=1e-6
    )


def test_tasks_may_share_their_rows():
    targets = X[:, :5] @ RNG.normal(size=(5, 4)) + RNG.normal(size=(len(X), 4))
    here, there = both(MultiTaskRegressor)
    assert_equal(here.fit(X, targets), there.fit(X, targets))
    targets[3, 1] = np.nan
    assert_equal(here.fit(X, targets), there.fit(X, targets))


def test_sparse_rows_become_statistics():
    here, there = both(MultiTaskRegressor)
    sparse = csr_array(np.where(X > 0.5, X, 0.0))
    assert_equal(here.fit(sparse, Y, task=TASK), there.fit(sparse, Y, task=TASK))


def test_statistics_equal_those_of_the_processor():
    moved = X * np.where(np.arange(D) == 2, 0.0, 1.0) + 1e6 * (np.arange(D) == 3)
    here = summarize(moved, Y, TASK, WEIGHT)
    there = summarize(moved, Y, TASK, WEIGHT, device=DEVICE)
    for name in ("weight", "x_mean", "y_mean", "xx", "xy", "yy"):
        one, other = np.asarray(getattr(here, name)), np.asarray(getattr(there, name))
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-7)
    assert not np.asarray(there.xx)[:, 2].any()


def test_statistics_on_a_device_add_up_align_and_are_saved(tmp_path):
    parts = [slice(None, 90), slice(90, None)]
    here = [summarize(X[p], Y[p], TASK[p]) for p in parts]
    there = [to_device(part, DEVICE) for part in here]
    for a, b in ((there[0], there[1]), (here[0], there[1]), (there[0], here[1])):
        total, expected = a + b, here[0] + here[1]
        assert isinstance(total.xx, DeviceGrams)
        np.testing.assert_allclose(np.asarray(total.xx), expected.xx, rtol=1e-12)
    only = np.arange(M) < 2
    np.testing.assert_array_equal(
        np.asarray(there[0].only(only).xx), np.asarray(here[0].only(only).xx)
    )
    few = [summarize(X[TASK > 3], Y[TASK > 3], TASK[TASK > 3]), here[0]]
    mixed = to_device(few[0], DEVICE) + few[1]
    np.testing.assert_allclose(np.asarray(mixed.xx), (few[0] + few[1]).xx, rtol=1e-12)
    there[0].save(tmp_path / "part.stats")
    again = priormtl.TaskStatistics.load(tmp_path / "part.stats")
    np.testing.assert_array_equal(again.xx, np.asarray(there[0].xx))


def test_paths_equal_those_of_the_processor():
    lams = np.geomspace(200.0, 0.5, 8)
    for intercept in (True, "tied"):
        options = {"tol": 1e-12, "fit_intercept": intercept, "lams": lams}
        expected = regularization_path(X, Y, task=TASK, **options)
        found = regularization_path(X, Y, task=TASK, **options, device=DEVICE)
        np.testing.assert_allclose(found.coefs, expected.coefs, atol=1e-7)
        assert max(found.dual_gaps) <= 1e-11 * np.sum(Y**2)


@pytest.mark.parametrize("settings", [{}, {"standardize": False, "ties": "uniform"}])
def test_a_search_finds_what_it_finds_on_the_processor(settings):
    options = {"lams": 6, "thetas": [0.0], "epsilons": [1.0], "tol": 1e-10} | settings
    here = MultiTaskRegressorCV(**options).fit(X, Y, task=TASK)
    there = MultiTaskRegressorCV(**options, device=DEVICE).fit(X, Y, task=TASK)
    assert there.best_index_ == here.best_index_
    assert there.structure_ == here.structure_
    scores = [model.cv_results_["mean_test_score"] for model in (here, there)]
    np.testing.assert_allclose(*scores, rtol=1e-6)
    assert_equal(here, there, rtol=1e-5)


def test_new_rows_are_added_on_the_device():
    half = len(X) // 2
    there = MultiTaskRegressor(15.0, tol=1e-13, device=DEVICE)
    there.partial_fit(X[:half], Y[:half], task=TASK[:half])
    there.partial_fit(X[half:], Y[half:], task=TASK[half:])
    here = MultiTaskRegressor(15.0, tol=1e-13).fit(X, Y, task=TASK)
    assert_equal(here, there)


def test_rows_on_a_device_multiply_as_others():
    data = from_labels(X, Y, TASK)
    rows = to_device(data, DEVICE, rows=True)
    assert isinstance(rows, DeviceRows)
    P, R = RNG.normal(size=(D, M)), RNG.normal(size=len(Y))
    np.testing.assert_allclose(rows.forward(P), data.forward(P), atol=1e-10)
    np.testing.assert_allclose(rows.adjoint(R), data.adjoint(R), atol=1e-10)
    part, few = rows.restrict(np.array([1, 4])), data.restrict(np.array([1, 4]))
    np.testing.assert_allclose(part.adjoint(R), few.adjoint(R), atol=1e-10)
    assert to_device(rows, DEVICE, rows=True) is rows


def test_tensors_are_taken_where_they_are(monkeypatch):
    """A tensor that claims to live elsewhere never becomes an array."""
    monkeypatch.setattr(
        device_module, "lives_on_device", lambda X: isinstance(X, torch.Tensor)
    )
    for place in ("data.summarizing", "estimators.regressor"):
        monkeypatch.setattr(
            f"priormtl.{place}.lives_on_device", lambda X: isinstance(X, torch.Tensor)
        )
    tensor = torch.from_numpy(X)
    found = summarize(tensor, torch.from_numpy(Y), TASK, WEIGHT)
    expected = summarize(X, Y, TASK, WEIGHT)
    assert isinstance(found.xx, DeviceGrams)
    np.testing.assert_allclose(np.asarray(found.xx), expected.xx, rtol=1e-10)
    np.testing.assert_allclose(found.xy, expected.xy, rtol=1e-9)
    with pytest.raises(ValueError, match="X must be a finite array"):
        summarize(tensor * float("nan"), Y, TASK)
    model = MultiTaskRegressor(15.0, tol=1e-13).fit(tensor, Y, task=TASK)
    assert_equal(MultiTaskRegressor(15.0, tol=1e-13).fit(X, Y, task=TASK), model)
    assert isinstance(model.statistics_.xx, DeviceGrams)
    expected = model.predict(X, task=TASK)
    np.testing.assert_array_equal(model.predict(tensor, task=TASK), expected)
    options = {"lams": [5.0], "thetas": [0.0], "epsilons": [1.0]}
    search = MultiTaskRegressorCV(**options)
    searched = search.fit(tensor, torch.from_numpy(Y), task=TASK)
    assert_equal(MultiTaskRegressorCV(**options).fit(X, Y, task=TASK), searched)


def test_statistics_on_a_device_are_fitted_there():
    held = summarize(X, Y, TASK, device=DEVICE)
    model = MultiTaskRegressor(15.0, tol=1e-13).fit_statistics(held)
    assert_equal(MultiTaskRegressor(15.0, tol=1e-13).fit(X, Y, task=TASK), model)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize("correlation", [0.0, 0.99])
def test_it_converges_from_everywhere(scale, correlation):
    """Strongly correlated features, few rows, and a start far off."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=(60, 1))
    rows = correlation * common + np.sqrt(1 - correlation**2) * rng.normal(
        size=(60, 20)
    )
    y, task = rows[:, :3].sum(axis=1) + rng.normal(size=60), np.arange(60) % 6
    model = MultiTaskRegressor(0.5, epsilon=scale, device=DEVICE, warm_start=True)
    model.fit(100.0 * rows, -50.0 * y, task=task)
    model.fit(rows, y, task=task)
    cold = MultiTaskRegressor(0.5, epsilon=scale, tol=1e-9).fit(rows, y, task=task)
    assert model.objective_ <= cold.objective_ * (1 + 2e-6)


def test_what_a_device_cannot_do_is_said():
    def fit(model=MultiTaskRegressor, **settings):
        return model(**{"device": DEVICE} | settings).fit(X, Y, task=TASK)

    with pytest.raises(ValueError, match='device must be None, "cpu", "cuda"'):
        fit(device="abacus")
    with pytest.raises(ValueError, match='device must be None, "cpu", "cuda"'):
        fit(device=[3])
    with pytest.raises(ValueError, match='device must be None with penalty="nuclear"'):
        fit(penalty="nuclear")
    with pytest.raises(ValueError, match="device must be None with outlier_tasks"):
        fit(outlier_tasks=True)
    with pytest.raises(ValueError, match="needs dense rows with one task label each"):
        MultiTaskClassifier(device=DEVICE).fit(csr_array(X), X[:, 0] > 0, task=TASK)
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match=r"PyTorch finds 0 such device\(s\)"):
            fit(device="cuda")


def test_the_device_chooses_the_method():
    posed = priormtl.model.Model(lam=3.0).pose(summarize(X, Y, TASK, device=DEVICE))
    assert priormtl.solvers.default_method(posed.problem) == DeviceNewton()


@pytest.mark.parametrize(
    "prior",
    [
        FeaturePrior.near({0: 1.0}),
        FeaturePrior.nonnegative([0]),
        FeaturePrior.common([0, 1]),
    ],
)
def test_statements_give_the_same_model_with_a_device(prior):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(200, 6)), np.repeat(np.arange(10), 20)
    y = X @ rng.normal(size=6) + rng.normal(size=200)
    settings = {"feature_prior": prior, "task_prior": "mean", "lam": 2.0, "tol": 1e-10}
    here = MultiTaskRegressor(**settings).fit(X, y, task=task)
    there = MultiTaskRegressor(device="cpu", **settings).fit(X, y, task=task)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-7)
