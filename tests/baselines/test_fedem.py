"""FedEM: golden values, laws of EM, federated rounds, neural components."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from golden import golden_rows
from priormtl.baselines import components, distinct, networks
from priormtl.baselines.components import LinearFamily
from priormtl.baselines.distinct import gather_cells
from priormtl.baselines.features import plain_features, rotated_features
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.federated import Descent, federated_round, run_rounds
from priormtl.baselines.mixture import (
    Mixture,
    em_step,
    expect,
    mixing_shares,
    start_mixtures,
)
from priormtl.baselines.responses import Bernoulli, Gaussian
from priormtl.data import from_columns, from_labels

RESPONSES = {"squared": Gaussian(), "logistic": Bernoulli()}


def planted(m=10, n=50, d=5, noise=0.3, seed=0):
    """Tasks that mix two linear models within themselves."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((2, d)) * 1.5
    share = rng.uniform(0.0, 1.0, m)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((m * n, d))
    part = (rng.uniform(size=m * n) < share[task]).astype(int)
    signal = np.sum(X * theta[part], axis=1)
    return X, signal + noise * rng.standard_normal(m * n), task, theta, share


def labelled(seed=0, **kwargs):
    X, y, task, *_ = planted(seed=seed, noise=0.0, **kwargs)
    rng = np.random.default_rng(seed + 1)
    return X, np.where(rng.uniform(size=len(y)) < expit(3 * y), 1.0, -1.0), task


def family_of(X, y, task, *, loss="squared", ridge=0.0, intercept=False, plain=False):
    cells = gather_cells(from_labels(X, y, task))
    make = plain_features if plain else rotated_features
    features = make(cells, fit_intercept=intercept)
    return LinearFamily(cells, features, RESPONSES[loss], ridge)


def random_mixture(family, M, seed=0):
    rng = np.random.default_rng(seed)
    shape = M, len(family.features.penalised)
    shares = rng.dirichlet(np.ones(M), family.cells.n_tasks)
    return Mixture(family.at(rng.standard_normal(shape), 0.7), shares)


def run_steps(family, mixture, steps):
    objectives = []
    for _ in range(steps):
        expectation = expect(family, mixture)
        objectives.append(expectation.objective)
        mixture = em_step(family, mixture, expectation)
    return mixture, np.array(objectives)


# Golden values


def test_one_component_is_least_squares_on_the_golden_tasks():
    X, y, task = golden_rows(4, 5)
    model = FedEM(1, 0.0, fit_intercept=False).fit(X, y, task=task)
    golden = [2.03374047, -1.26766318, 0.91677861, 0.03322289, 0.03251802]
    np.testing.assert_allclose(model.components_[0], golden, atol=1e-8)
    np.testing.assert_allclose(model.coef_, np.tile(golden, (4, 1)), atol=1e-8)


@pytest.mark.parametrize("plain", [True, False])
def test_likelihoods_of_two_components_are_golden(plain):
    family = family_of(*golden_rows(4, 5), ridge=1e-3 / 0.25, plain=plain)
    start = family.features.enter(np.eye(5)[[0, 4]], np.zeros(2))
    mixture = Mixture(family.at(start, 0.25), np.full((4, 2), 0.5))
    found = []
    for _ in range(51):
        part_of, likelihood, _ = expect(family, mixture)
        found.append(likelihood)
        shares = mixing_shares(family.cells, part_of)
        mixture = Mixture(family.solve(mixture.parts, part_of), shares)
    np.testing.assert_allclose(found[:3], [-128.047565, -10.337308, -9.273237])
    assert found[50] == pytest.approx(-6.46235911, abs=5e-9)


# Special cases


@pytest.mark.parametrize("intercept", [True, False])
def test_one_component_is_pooled_ridge(intercept):
    X, y, task, *_ = planted()
    model = FedEM(1, 2.0, fit_intercept=intercept, tol=1e-15).fit(X, y, task=task)
    ridge = Ridge(2.0 * model.noise_variance_, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_[3], ridge.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_[3], ridge.intercept_, atol=1e-9)
    left = np.mean((y - model.predict(X, task=task)) ** 2)
    assert model.noise_variance_ == pytest.approx(left)


def test_one_component_is_pooled_least_squares_to_rounding():
    X, y, task, *_ = planted()
    model = FedEM(1, 0.0).fit(X, y, task=task)
    pooled = LinearRegression().fit(X, y)
    np.testing.assert_allclose(model.components_[0], pooled.coef_, rtol=1e-12)


def test_one_component_is_pooled_logistic_regression():
    X, y, task = labelled()
    model = FedEMClassifier(1, 0.5, tol=1e-14).fit(X, y, task=task)
    pooled = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.components_, pooled.coef_, atol=1e-6)
    np.testing.assert_allclose(
        model.predict_proba(X, task=task), pooled.predict_proba(X), atol=1e-6
    )


def test_planted_components_are_recovered():
    X, y, task, theta, share = planted(m=20, n=100)
    model = FedEM(2, 1e-3).fit(X, y, task=task)
    order = np.argsort(np.abs(model.components_ - theta[0]).sum(axis=1))
    assert np.abs(model.components_[order] - theta).max() < 0.06
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.1)
    assert np.abs(model.mixture_[:, order[1]] - share).mean() < 0.06


def test_separate_clusters_of_tasks_are_recovered():
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(12), 25)
    X = rng.standard_normal((300, 4))
    theta = np.array([[2.0, 0, 0, 1], [-2.0, 1, 0, 0], [0, 0, 3.0, 0]])
    y = np.sum(X * theta[task % 3], axis=1) + 0.1 * rng.standard_normal(300)
    model = FedEM(3, 1e-3, n_init=5).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, theta[np.arange(12) % 3], atol=0.1)


# Laws of EM


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_likelihood_never_falls(loss, ridge, intercept):
    X, y, task = labelled() if loss == "logistic" else planted()[:3]
    family = family_of(X, y, task, loss=loss, ridge=ridge, intercept=intercept)
    for seed in range(3):
        _, objectives = run_steps(family, random_mixture(family, 3, seed), 40)
        assert np.all(np.diff(objectives) <= 1e-12 * np.abs(objectives[1:]))
        assert objectives[-1] < objectives[0]


def test_objective_is_what_it_says():
    X, y, task = labelled()
    model = FedEMClassifier(2, 0.3).fit(X, y, task=task)
    scores = X @ model.components_.T + model.component_intercepts_
    density = np.sum(model.mixture_[task] * expit(y[:, np.newaxis] * scores), axis=1)
    likelihood = np.log(density).sum()
    assert model.log_likelihood_ == pytest.approx(likelihood)
    penalised = likelihood - 0.15 * np.sum(model.components_**2)
    assert model.objective_ == pytest.approx(-penalised / len(y))
    assert 0 <= model.residual_ <= model.tol


def test_objective_of_regression_is_what_it_says():
    X, y, task, *_ = planted()
    model = FedEM(2, 0.3).fit(X, y, task=task)
    scores = X @ model.components_.T + model.component_intercepts_
    noise = model.noise_variance_
    bells = np.exp(-((y[:, np.newaxis] - scores) ** 2) / (2 * noise))
    density = np.sum(model.mixture_[task] * bells, axis=1) / np.sqrt(2 * np.pi * noise)
    assert model.log_likelihood_ == pytest.approx(np.log(density).sum())


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_order_of_components_does_not_matter(loss):
    X, y, task = labelled() if loss == "logistic" else planted()[:3]
    family = family_of(X, y, task, loss=loss, ridge=0.1, intercept=True)
    start = random_mixture(family, 3)
    order = [2, 0, 1]
    other = Mixture(family.at(start.parts.coef[order], 0.7), start.shares[:, order])
    end, objectives = run_steps(family, start, 15)
    turned, same = run_steps(family, other, 15)
    np.testing.assert_allclose(same, objectives, rtol=1e-9)
    np.testing.assert_allclose(turned.shares, end.shares[:, order], atol=1e-6)


def test_identical_components_never_separate():
    family = family_of(*planted()[:3])
    mixture = random_mixture(family, 2)
    same = family.at(mixture.parts.coef[[0, 0]], 0.7)
    end, _ = run_steps(family, Mixture(same, np.full((10, 2), 0.5)), 20)
    np.testing.assert_array_equal(end.parts.coef[0], end.parts.coef[1])


@pytest.mark.parametrize("m", [1, 2, 7])
def test_first_components_differ(m):
    X, y, task, *_ = planted(m=m)
    for loss, targets in [("squared", y), ("logistic", np.sign(y))]:
        family = family_of(X, targets, task, loss=loss, ridge=0.1, intercept=True)
        rng = np.random.default_rng(0)
        for start in start_mixtures(family, 4, 2, rng):
            coef = start.parts.coef
            apart = np.abs(coef[:, np.newaxis] - coef).max(axis=2)
            assert np.all(apart[~np.eye(4, dtype=bool)] > 1e-3)


def test_a_known_task_finds_its_shares_from_components_alone():
    X, y, task, *_ = planted()
    model = FedEM(2, 1e-3, tol=1e-12, max_iter=5000).fit(X, y, task=task)
    rows = task == 3
    family = family_of(X[rows], y[rows], task[rows], intercept=True)
    coef = family.features.enter(model.components_, model.component_intercepts_)
    mixture = Mixture(family.at(coef, model.noise_variance_), np.full((1, 2), 0.5))
    for _ in range(1000):
        part_of = expect(family, mixture).part_of
        mixture = Mixture(mixture.parts, mixing_shares(family.cells, part_of))
    np.testing.assert_allclose(mixture.shares[0], model.mixture_[3], atol=1e-4)


def test_believing_in_too_much_noise_blurs_components():
    rng = np.random.default_rng(0)
    theta = np.array([[1.0, 0.0], [0.0, 1.0]])
    task, part = np.repeat(np.arange(20), 100), rng.integers(2, size=2000)
    X = rng.standard_normal((2000, 2))
    y = np.sum(X * theta[part], axis=1) + 0.3 * rng.standard_normal(2000)
    family = family_of(X, y, task, plain=True)

    def error(*, learn):
        mixture = Mixture(family.at(theta), np.full((20, 2), 0.5))
        for _ in range(100):
            part_of = expect(family, mixture).part_of
            parts = family.solve(mixture.parts, part_of)
            parts = family.learn_variance(parts, part_of) if learn else parts
            mixture = Mixture(parts, mixing_shares(family.cells, part_of))
        return np.abs(mixture.parts.coef - theta).max()

    assert 3 * error(learn=True) < error(learn=False)


# Predictions


def test_regression_mixes_coefficients():
    X, y, task, *_ = planted()
    model = FedEM(3, 0.1).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, model.mixture_ @ model.components_)
    expected = np.sum(X * model.coef_[task], axis=1) + model.intercept_[task]
    np.testing.assert_allclose(model.predict(X, task=task), expected)


def test_classification_mixes_probabilities():
    X, y, task = labelled()
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
    X, y, task, *_ = planted()
    model = FedEM(3).fit(X, y, task=task)
    np.testing.assert_allclose(model.mixture_.sum(axis=1), 1.0)
    assert np.all(model.mixture_ >= 0)


# Ways to give the same data


@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
@pytest.mark.parametrize("task_weight", ["sum", "mean"])
def test_weights_count_like_repeated_rows(kind, task_weight):
    X, y, task = labelled(m=4, n=20)
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
@pytest.mark.parametrize("written_out", [0, 10**6])
@pytest.mark.parametrize("direct", [0, 100])
def test_sparse_features_give_the_same(kind, written_out, direct, monkeypatch):
    monkeypatch.setattr(distinct, "WRITTEN_OUT", written_out)
    monkeypatch.setattr(components, "DIRECT_SIZE", direct)
    X, y, task = labelled(m=4, n=30)
    dense = kind(1, 0.2, tol=1e-12).fit(X, y, task=task)
    sparse = kind(1, 0.2, tol=1e-12).fit(csr_array(X), y, task=task)
    np.testing.assert_allclose(sparse.components_, dense.components_, atol=1e-6)
    assert kind(3).fit(csr_array(X), y, task=task).mixture_.shape == (4, 3)


def test_standardized_components_are_in_units_of_x():
    X, y, task, *_ = planted()
    scale = X.std(axis=0)
    model = FedEM(2, 0.1, standardize=True).fit(X, y, task=task)
    other = FedEM(2, 0.1).fit(X / scale, y, task=task)
    np.testing.assert_allclose(model.components_, other.components_ / scale, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, model.mixture_ @ model.components_)


def test_fits_do_not_depend_on_other_strengths():
    X, y, task, *_ = planted()
    model = FedEM(2)
    bound = model._bind(from_labels(X, y, task))
    alone = [o.objective for r in (1.0, 0.1) for o in model._follow(bound, [r])]
    assert [o.objective for o in model._follow(bound, [1.0, 0.1])] == alone


# Federated rounds


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_full_round_is_one_pooled_gradient_step(loss):
    X, y, task = labelled() if loss == "logistic" else planted()[:3]
    family = family_of(X, y, task, loss=loss, ridge=0.3, plain=True)
    mixture = random_mixture(family, 3)
    expectation = expect(family, mixture)
    rng = np.random.default_rng(0)
    descent = Descent(0.2, epochs=1, batch_size=10**6)
    found = federated_round(family, mixture, expectation, descent, rng)
    coef, q = mixture.parts.coef, expectation.part_of
    surprise = family.response.mean(coef @ X.T) - family.response.targets(family.cells)
    noise = mixture.parts.variance
    pooled = (q * surprise) @ X / len(y) + 0.3 * noise * coef / len(y)
    np.testing.assert_allclose(found.parts.coef, coef - 0.2 * pooled, atol=1e-14)
    np.testing.assert_allclose(found.shares, mixing_shares(family.cells, q))


def test_one_federated_component_is_federated_averaging():
    X, y, task, *_ = planted(m=3, n=7)
    family = family_of(X, y, task, plain=True)
    start = random_mixture(family, 1)
    rng = np.random.default_rng(0)
    run = run_rounds(family, start, Descent(0.05, 4, 10**6), 1, rng)
    average = np.zeros(5)
    for i in range(3):
        local, rows = start.parts.coef[0], task == i
        for _ in range(4):
            local = local - 0.05 * X[rows].T @ (X[rows] @ local - y[rows]) / 7
        average += local / 3
    np.testing.assert_allclose(run.mixture.parts.coef[0], average, rtol=1e-12)


def test_rates_fall_after_half_and_three_quarters():
    rates = [Descent(1.0, 1, 1).slower(p).rate for p in (0, 0.49, 0.5, 0.75)]
    np.testing.assert_allclose(rates, [1, 1, 0.1, 0.01])


def test_federated_rounds_come_close_to_em():
    X, y, task, *_ = planted(m=20, n=100)
    exact = FedEM(2, 1e-3, tol=1e-10).fit(X, y, task=task)
    settings = {"mode": "federated", "learning_rate": 0.3, "max_iter": 200}
    runs = [
        FedEM(2, 1e-3, random_state=seed, **settings).fit(X, y, task=task)
        for seed in range(2)
    ]
    best = min(run.objective_ for run in runs)
    assert exact.objective_ - 1e-9 <= best < exact.objective_ + 0.01
    assert runs[0].n_iter_ == 200


def test_batches_are_drawn_from_the_seed():
    X, y, task = labelled(m=3, n=40)
    settings = {"mode": "federated", "batch_size": 8, "max_iter": 20}
    first = FedEMClassifier(2, **settings).fit(X, y, task=task)
    again = FedEMClassifier(2, **settings).fit(X, y, task=task)
    other = FedEMClassifier(2, random_state=1, **settings).fit(X, y, task=task)
    np.testing.assert_array_equal(first.components_, again.components_)
    assert np.abs(first.components_ - other.components_).max() > 1e-3


def test_descent_that_diverges_says_so():
    X, y, task, *_ = planted()
    model = FedEM(2, mode="federated", learning_rate=1e6)
    with pytest.raises(ValueError, match="learning_rate must be small enough"):
        model.fit(X, y, task=task)


# Neural components


def crooked(m=4, n=80):
    """Two curves, of which each task follows one."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(m), n)
    X = rng.uniform(-1.0, 1.0, (m * n, 2))
    y = np.abs(3 * X[:, 0]) * np.where(task % 2, 1.0, -1.0)
    return X, y, task


@pytest.fixture
def neural():
    return {"component": "mlp", "hidden": (16,), "n_init": 1, "epochs": 10}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_learn_what_lines_cannot(neural):
    X, y, task = crooked()
    model = FedEM(2, 1e-3, max_iter=50, **neural).fit(X, y, task=task)
    assert model.score(X, y, task=task) > 0.9
    assert FedEM(2).fit(X, y, task=task).score(X, y, task=task) < 0.8
    assert len(model.components_) == 2
    assert not hasattr(model, "coef_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_classify(neural):
    X, y, task = crooked()
    labels = np.where(np.abs(y) > 1.5, "far", "near")
    model = FedEMClassifier(2, 1e-3, max_iter=50, **neural)
    model.fit(X, labels, task=task)
    assert model.score(X, labels, task=task) > 0.9
    total = model.predict_proba(X, task=task).sum(axis=1)
    np.testing.assert_allclose(total, 1.0)


def test_networks_are_not_averaged(neural):
    X, y, task = crooked()
    with pytest.raises(ValueError, match='mode must be "exact"'):
        FedEM(mode="federated", **neural).fit(X, y, task=task)


def test_networks_need_weights(neural, monkeypatch):
    class Old:
        def partial_fit(self, X, y): ...

    monkeypatch.setattr(networks, "MLPRegressor", Old)
    X, y, task = crooked()
    with pytest.raises(ImportError, match=r"needs scikit-learn 1\.7"):
        FedEM(**neural).fit(X, y, task=task)


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
    X, y, task = DEGENERATE[case](*labelled(m=4, n=12))
    # A task of one class has to do without intercepts, as for all classifiers.
    intercept = case != "one sample per task"
    model = kind(3, ridge, fit_intercept=intercept, max_iter=60).fit(X, y, task=task)
    assert np.all(np.isfinite(model.components_))
    assert np.isfinite(model.objective_)
    assert np.all(np.isfinite(model.predict(X, task=task)))


def test_constant_targets_are_predicted():
    X, _, task, *_ = planted(m=3, n=10)
    for value in (0.0, 7.0):
        model = FedEM(2).fit(X, np.full(30, value), task=task)
        np.testing.assert_allclose(model.predict(X, task=task), value, atol=1e-2)
        assert model.noise_variance_ > 0


def test_scale_of_targets_does_not_matter_without_ridge():
    X, y, task, *_ = planted(m=4)
    model = FedEM(2, 0.0).fit(X, y, task=task)
    for scale in (1e-40, 1e40):
        other = FedEM(2, 0.0).fit(X, scale * y, task=task)
        np.testing.assert_allclose(other.components_ / scale, model.components_)


def test_unreached_tolerance_warns():
    X, y, task, *_ = planted()
    with pytest.warns(ConvergenceWarning, match="last of 3 steps of EM"):
        FedEM(3, max_iter=3, tol=1e-12).fit(X, y, task=task)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 0}, "n_components must be a positive whole number"),
        ({"ridge": -1.0}, "ridge must be a finite number"),
        ({"mode": "central"}, "mode must be one of 'exact', 'federated'"),
        ({"component": "tree"}, "component must be one of 'linear', 'mlp'"),
        ({"n_init": 0}, "n_init must be"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"component": "mlp", "hidden": (0,)}, "every one of hidden must be"),
        ({"mode": "federated", "batch_size": 0}, "batch_size must be"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    X, y, task, *_ = planted(m=2, n=5)
    with pytest.raises(ValueError, match=message):
        FedEM(**settings).fit(X, y, task=task)


# Settings worth trying


@pytest.mark.parametrize("n", [1, 2, 5, 6, 11, 12, 20])
@pytest.mark.parametrize("kind", [FedEM, FedEMClassifier])
def test_suggestions_keep_to_the_budget(kind, n):
    X, y, task = labelled(m=3, n=10)
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
    X, y, task, *_ = planted(m=3, n=10)
    first, other = (
        FedEM()._suggest(FedEM()._bind(from_labels(X, scale * y, task)), 1)[0]
        for scale in (1.0, 10.0)
    )
    assert first["ridge"] == pytest.approx(100.0 * other["ridge"])


def test_shared_columns_can_be_bound():
    X, y, _ = labelled(m=2, n=20)
    Y = np.column_stack([y, -y])
    outcome = next(iter(FedEM()._follow(FedEM()._bind(from_columns(X, Y)), [0.1])))
    assert outcome.model.coef.shape == (2, 5)


@parametrize_with_checks([FedEM(), FedEMClassifier(), FedEM(1, standardize=True)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
