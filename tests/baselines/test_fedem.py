"""FedEM: special cases, planted components, all ways to give data, edges."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from drawn_tasks import mixed_classes, mixed_tasks
from instances import golden_rows
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.data import from_columns, from_labels

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods


def test_one_component_is_least_squares_on_the_golden_tasks():
    X, y, task = golden_rows(4, 5)
    model = FedEM(1, 0.0, fit_intercept=False).fit(X, y, task=task)
    golden = [2.03374047, -1.26766318, 0.91677861, 0.03322289, 0.03251802]
    np.testing.assert_allclose(model.components_[0], golden, atol=1e-8)
    np.testing.assert_allclose(model.coef_, np.tile(golden, (4, 1)), atol=1e-8)


# Special cases


@pytest.mark.parametrize("intercept", [True, False])
def test_one_component_is_pooled_ridge(intercept):
    X, y, task, *_ = mixed_tasks()
    model = FedEM(1, 2.0, fit_intercept=intercept, tol=1e-15).fit(X, y, task=task)
    ridge = Ridge(2.0 * model.noise_variance_, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_[3], ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_[3], ridge.intercept_, atol=1e-9)
    left = np.mean((y - model.predict(X, task=task)) ** 2)
    assert model.noise_variance_ == pytest.approx(left)


def test_one_component_is_pooled_least_squares_to_rounding():
    X, y, task, *_ = mixed_tasks()
    model = FedEM(1, 0.0).fit(X, y, task=task)
    pooled = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.components_[0], pooled.coef_, rtol=1e-12)


def test_one_component_is_pooled_logistic_regression():
    X, y, task = mixed_classes()
    model = FedEMClassifier(1, 0.5, tol=1e-14).fit(X, y, task=task)
    pooled = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.components_, pooled.coef_, atol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(X, task=task), pooled.predict_proba(X), atol=1e-6
    )


def test_planted_components_are_recovered():
    X, y, task, theta, share = mixed_tasks(m=20, n=100)
    model = FedEM(2, 1e-3).fit(X, y, task=task)
    order = np.argsort(np.abs(model.components_ - theta[0]).sum(axis=1))
    assert np.abs(model.components_[order] - theta).max() < 0.06
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.1)
    assert np.abs(model.mixture_[:, order[1]] - share).mean() < 0.06


def test_components_within_one_task_are_recovered():
    X, y, _, theta, _ = mixed_tasks(m=1, n=400)
    model = FedEM(2, 1e-3, n_init=5).fit(X, y)
    order = np.argsort(np.abs(model.components_ - theta[0]).sum(axis=1))
    assert np.abs(model.components_[order] - theta).max() < 0.15


def test_separate_clusters_of_tasks_are_recovered():
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(12), 25)
    X = rng.standard_normal((300, 4))
    theta = np.array([[2.0, 0, 0, 1], [-2.0, 1, 0, 0], [0, 0, 3.0, 0]])
    y = np.sum(X * theta[task % 3], axis=1) + 0.1 * rng.standard_normal(300)
    model = FedEM(3, 1e-3, n_init=5).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, theta[np.arange(12) % 3], atol=0.1)


# What is published


def test_objective_is_what_it_says():
    X, y, task = mixed_classes()
    model = FedEMClassifier(2, 0.3).fit(X, y, task=task)
    scores = X @ model.components_.T + model.component_intercepts_
    density = np.sum(model.mixture_[task] * expit(y[:, np.newaxis] * scores), axis=1)
    likelihood = np.log(density).sum()
    assert model.log_likelihood_ == pytest.approx(likelihood)
    penalised = likelihood - 0.15 * np.sum(model.components_**2)
    assert model.objective_ == pytest.approx(-penalised / len(y))
    assert model.residual_ <= model.tol


def test_objective_of_regression_is_what_it_says():
    X, y, task, *_ = mixed_tasks()
    model = FedEM(2, 0.3).fit(X, y, task=task)
    scores = X @ model.components_.T + model.component_intercepts_
    noise = model.noise_variance_
    bells = np.exp(-((y[:, np.newaxis] - scores) ** 2) / (2 * noise))
    density = np.sum(model.mixture_[task] * bells, axis=1) / np.sqrt(2 * np.pi * noise)
    assert model.log_likelihood_ == pytest.approx(np.log(density).sum())


def test_regression_mixes_coefficients():
    X, y, task, *_ = mixed_tasks()
    model = FedEM(3, 0.1).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, model.mixture_ @ model.components_)
    expected = np.sum(X * model.coef_[task], axis=1) + model.intercept_[task]
    np.testing.assert_allclose(model.predict(X, task=task), expected)


def test_classification_mixes_probabilities():
    X, y, task = mixed_classes()
    model = FedEMClassifier(3, 0.1).fit(X, y, task=task)
    scores = X @ model.components_.T + model.component_intercepts_
    expected = np.sum(model.mixture_[task] * expit(scores), axis=1)
    found = model.predict_proba(X, task=task)[:, 1]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert not hasattr(model, "coef_")
    far = model.decision_function(1e4 * X, task=task)
    assert np.all(np.isfinite(far))
    assert np.abs(far).max() > 100


def test_shares_sum_to_one():
    X, y, task, *_ = mixed_tasks()
    model = FedEM(3).fit(X, y, task=task)
    np.testing.assert_allclose(model.mixture_.sum(axis=1), 1.0)
    assert np.all(model.mixture_ >= 0)


# Ways to give the same data


@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
@pytest.mark.parametrize("task_weight", ["sum", "mean"])
def test_weights_count_like_repeated_rows(kind, task_weight):
    X, y, task = mixed_classes(m=4, n=20)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    model = kind(2, 0.5, task_weight=task_weight)
    model.fit(X, y, task=task, sample_weight=times)
    weighted = model.components_
    rows = np.repeat(np.arange(len(y)), times)
    model.fit(X[rows], y[rows], task=task[rows])
    np.testing.assert_allclose(weighted, model.components_, atol=1e-6)


@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
def test_columns_and_stacked_rows_agree(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    Y = np.sign(X @ rng.standard_normal((6, 5)) + 0.3)
    Y[3:6, 2] = np.nan
    shared = kind(2, 0.2, tol=1e-10).fit(X, Y)
    row, task = np.nonzero(~np.isnan(Y))
    stacked = kind(2, 0.2, tol=1e-10).fit(X[row], Y[row, task], task=task)
    np.testing.assert_allclose(stacked.objective_, shared.objective_, rtol=1e-8)
    np.testing.assert_allclose(stacked.mixture_, shared.mixture_, atol=1e-4)


@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
def test_sparse_features_give_the_same(kind):
    X, y, task = mixed_classes(m=4, n=30)
    dense = kind(1, 0.2, tol=1e-12).fit(X, y, task=task)
    sparse = kind(1, 0.2, tol=1e-12).fit(csr_array(X), y, task=task)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-6)
    assert kind(3).fit(csr_array(X), y, task=task).mixture_.shape == (4, 3)


def test_standardized_components_are_in_units_of_x():
    X, y, task, *_ = mixed_tasks()
    scale = X.std(axis=0)
    model = FedEM(2, 0.1, standardize=True).fit(X, y, task=task)
    other = FedEM(2, 0.1).fit(X / scale, y, task=task)
    np.testing.assert_allclose(model.components_, other.components_ / scale, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, model.mixture_ @ model.components_)


def test_fits_do_not_depend_on_other_strengths():
    X, y, task, *_ = mixed_tasks()
    model = FedEM(2)
    bound = model._bind(from_labels(X, y, task))
    alone = [o.objective for r in (1.0, 0.1) for o in model._follow(bound, [r])]
    assert [o.objective for o in model._follow(bound, [1.0, 0.1])] == alone


# Edges

DEGENERATE = {
    "one task": lambda X, y, task: (X, y, np.zeros_like(task)),
    "one sample per task": lambda X, y, task: (X, y, np.arange(len(y))),
    "constant column": lambda X, y, task: (np.c_[X, np.ones(len(y))], y, task),
    "constant features": lambda X, y, task: (np.ones_like(X), y, task),
    "zero features": lambda X, y, task: (np.zeros_like(X), y, task),
    "duplicate columns": lambda X, y, task: (np.c_[X, X], y, task),
    "one-hot columns": lambda X, y, task: (np.eye(4)[np.arange(len(y)) % 4], y, task),
    "fewer rows than features": lambda X, y, task: (np.tile(X, 40), y, task),
    "huge": lambda X, y, task: (1e6 * X, y, task),
    "tiny": lambda X, y, task: (1e-6 * X, y, task),
    "uneven": lambda X, y, task: (X * 10.0 ** np.arange(-6, 9, 3), y, task),
    "separable": lambda X, y, task: (X, np.where(X[:, 0] > 0, 1.0, -1.0), task),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_data_give_finite_models(case, kind, ridge):
    X, y, task = DEGENERATE[case](*mixed_classes(m=4, n=12))
    # A task of one class has to do without intercepts, as for all classifiers.
    intercept = case != "one sample per task"
    model = kind(3, ridge, fit_intercept=intercept, max_iter=60).fit(X, y, task=task)
    assert np.all(np.isfinite(model.components_))
    assert np.isfinite(model.objective_)
    assert np.all(np.isfinite(model.predict(X, task=task)))


def test_constant_targets_are_predicted():
    X, _, task, *_ = mixed_tasks(m=3, n=10)
    for value in (0.0, 7.0):
        model = FedEM(2).fit(X, np.full(30, value), task=task)
        np.testing.assert_allclose(model.predict(X, task=task), value, atol=1e-2)
        assert model.noise_variance_ > 0


def test_scale_of_targets_does_not_matter_without_ridge():
    X, y, task, *_ = mixed_tasks(m=4)
    model = FedEM(2, 0.0).fit(X, y, task=task)
    for scale in (1e-40, 1e40):
        other = FedEM(2, 0.0).fit(X, scale * y, task=task)
        np.testing.assert_allclose(other.components_ / scale, model.components_)


def test_unreached_tolerance_warns():
    X, y, task, *_ = mixed_tasks()
    with pytest.warns(ConvergenceWarning, match="last of 3 EM steps"):
        FedEM(3, max_iter=3, tol=1e-12).fit(X, y, task=task)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive whole number"),
        ({"ridge": -1.0}, "ridge must be a finite number"),
        ({"mode": "central"}, "mode must be one of 'exact', 'federated'"),
        ({"n_init": 0}, "n_init must be"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"mode": "federated", "batch_size": 0}, "batch_size must be"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    X, y, task, *_ = mixed_tasks(m=2, n=5)
    with pytest.raises(ValueError, match=message):
        FedEM(**settings).fit(X, y, task=task)


# Settings worth trying


@pytest.mark.parametrize("n", [1, 2, 5, 6, 11, 12, 20])
@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
def test_suggestions_keep_to_the_budget(kind, n):
    X, y, task = mixed_classes(m=3, n=10)
    model = kind()
    bound = model._bind(from_labels(X, y, task))
    found = model._suggest(bound, n)
    assert 1 <= len(found) <= n
    assert len({tuple(setting.items()) for setting in found}) == len(found)
    order = [(s["n_components"], -s["ridge"]) for s in found]
    assert order == sorted(order)
    for setting in found:
        model.set_params(**setting)


def test_suggested_ridges_follow_the_units_of_targets():
    X, y, task, *_ = mixed_tasks(m=3, n=10)
    first, other = (
        FedEM()._suggest(FedEM()._bind(from_labels(X, scale * y, task)), 1)[0]
        for scale in (1.0, 10.0)
    )
    assert first["ridge"] == pytest.approx(100.0 * other["ridge"])


def test_shared_columns_can_be_bound():
    X, y, _ = mixed_classes(m=2, n=20)
    Y = np.column_stack([y, -y])
    outcome = next(iter(FedEM()._follow(FedEM()._bind(from_columns(X, Y)), [0.1])))
    assert outcome.model.coef.shape == (2, 5)
