"""FedEM inside: samples, features, responses, components, EM and federated rounds."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from golden import golden_rows
from mixed_tasks import family_of, labelled, planted, random_mixture
from priormtl.baselines.base import LinearModel
from priormtl.baselines.fedem import (
    FedEM,
    FedEMClassifier,
    MixtureModel,
    components,
    samples,
)
from priormtl.baselines.fedem.components import conjugate_gradients
from priormtl.baselines.fedem.em import (
    SGD,
    Mixture,
    e_step,
    federated_round,
    fit_federated,
    m_step,
    mixing_weights,
    start_mixtures,
)
from priormtl.baselines.fedem.samples import (
    Bernoulli,
    BoundSamples,
    Gaussian,
    gather_samples,
    plain_features,
    rotated_features,
)
from priormtl.data import from_columns, from_labels

BOTH_LOSSES = pytest.mark.parametrize("loss", ["squared", "logistic"])
BOTH_RESPONSES = pytest.mark.parametrize(
    "response", [Gaussian(), Bernoulli()], ids=lambda r: type(r).__name__
)


def rows_of(loss, **kwargs):
    return labelled(**kwargs) if loss == "logistic" else planted(**kwargs)[:3]


# Samples


def test_both_layouts_have_the_same_samples():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 3)), rng.standard_normal((8, 4))
    Y[2, 1] = Y[5, 3] = np.nan
    row, task = np.nonzero(~np.isnan(Y))
    shared = gather_samples(from_columns(X, Y))
    stacked = gather_samples(from_labels(X[row], Y[row, task], task))
    assert shared.X.shape == stacked.X.shape == (8, 3)
    for found in (shared, stacked):
        table = np.full((8, 4), np.nan)
        place = [np.flatnonzero((x == X).all(axis=1))[0] for x in found.X[found.row]]
        table[place, found.task] = found.y
        np.testing.assert_array_equal(table, Y)


def test_sums_are_those_of_loops():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (30, 2)).astype(float)
    task, weight = np.sort(rng.integers(0, 3, 30)), rng.uniform(0.5, 2.0, 30)
    found = gather_samples(from_labels(X, rng.standard_normal(30), task, weight))
    values = rng.standard_normal((2, 30))
    rows = [values[:, found.row == r].sum(axis=1) for r in range(len(found.X))]
    np.testing.assert_allclose(found.sum_by_row(values), np.transpose(rows))
    tasks = [values[:, task == i].sum(axis=1) for i in range(3)]
    np.testing.assert_allclose(found.sum_by_task(values), np.transpose(tasks))
    assert found.total == pytest.approx(weight.sum())
    np.testing.assert_allclose(found.task_weight.sum(), found.row_weight.sum())


def test_small_sparse_features_are_made_dense(monkeypatch):
    X, y, task = csr_array(np.eye(4)), np.arange(4.0), [0, 0, 1, 1]
    assert isinstance(gather_samples(from_labels(X, y, task)).X, np.ndarray)
    monkeypatch.setattr(samples, "LARGEST_DENSE", 0)
    found = gather_samples(from_labels(X, y, task))
    made = rotated_features(found, fit_intercept=True)
    assert made.basis is None
    np.testing.assert_array_equal(made.matrix.toarray(), np.c_[np.eye(4), np.ones(4)])
    np.testing.assert_array_equal(made.spectrum, [1, 1, 1, 1, 4])


@pytest.mark.parametrize("make", [plain_features, rotated_features])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(20, 4), (5, 12)])
@pytest.mark.parametrize("work", [0.0, 1e8])
def test_rotated_features_give_the_same_scores(
    make, intercept, shape, work, monkeypatch
):
    monkeypatch.setattr(samples, "SVD_WORK", work)
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal(shape) + 3.0, np.sort(np.arange(shape[0]) % 2)
    weight = rng.uniform(1, 2, shape[0])
    found = gather_samples(from_labels(X, X[:, 0], task, weight))
    made = make(found, fit_intercept=intercept)
    coef = rng.standard_normal((3, made.matrix.shape[1]))
    slope, constant = made.to_features(coef)
    expected = slope @ found.X.T + constant[:, np.newaxis]
    np.testing.assert_allclose(coef @ made.matrix.T, expected, atol=1e-10)
    np.testing.assert_allclose(made.from_features(slope, constant), coef, atol=1e-10)
    length = coef**2 @ made.penalised
    np.testing.assert_allclose(np.sum(slope**2, axis=1), length)
    gram = made.matrix.T @ (found.row_weight[:, np.newaxis] * made.matrix)
    np.testing.assert_allclose(np.diag(gram), made.spectrum)
    if make is rotated_features:
        np.testing.assert_allclose(gram, np.diag(made.spectrum), atol=1e-8 * gram.max())
        assert made.matrix.shape[1] <= min(shape) + intercept


def bind(response, rotate=True, centred=True, y_scale=1.0, x_scale=1.0):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((30, 3)), np.repeat([0, 1], 15)
    y = np.where(X[:, 0] > 0, 1.0, -1.0) * y_scale
    found = gather_samples(from_labels(x_scale * X, y, task))
    return BoundSamples(found, response, rotate, centred)


@BOTH_RESPONSES
def test_curvature_follows_units_and_no_rotation(response):
    plain = bind(response, centred=False).curvature
    rotated = bind(response, False, centred=False).curvature
    assert rotated == pytest.approx(plain, rel=1e-12)
    X = bind(response).samples.X
    # A'' is 1 and 1/4 at zero; the noise is that of the targets, which are ±1.
    factor = 1.0 if response.is_quadratic else 0.25
    assert plain == pytest.approx(factor * np.sum(X**2) / 3)
    assert bind(response, x_scale=0.0).curvature == 1.0
    if response.is_quadratic:
        scaled = bind(response, centred=False, y_scale=3.0).curvature
        assert scaled == pytest.approx(plain / 9)


# Responses


def samples_of(y):
    X = np.arange(float(len(y)))[:, np.newaxis]
    return gather_samples(from_labels(X, np.asarray(y, float), np.zeros(len(y), int)))


@BOTH_RESPONSES
def test_derivatives_and_density_are_those_of_the_log_partition(response):
    s, step = np.linspace(-4.0, 4.0, 9), 1e-5
    up, down = s + step, s - step
    slope = (response.log_partition(up) - response.log_partition(down)) / (2 * step)
    bend = (response.mean(up) - response.mean(down)) / (2 * step)
    np.testing.assert_allclose(response.mean(s), slope, atol=1e-8)
    np.testing.assert_allclose(response.curvature(s), bend, atol=1e-8)
    found = samples_of([1.0, -1.0, 1.0])
    scores = np.random.default_rng(0).standard_normal((2, 3))
    density = response.log_density(found, scores, 1.0)
    rest = density - response.targets(found) * scores + response.log_partition(scores)
    # What is left depends on the target alone.
    np.testing.assert_allclose(rest[0], rest[1], atol=1e-12)


def test_probabilities_sum_to_one_and_keep_their_digits():
    scores = np.linspace(-30.0, 30.0, 5)[np.newaxis]
    both = [Bernoulli().log_density(samples_of([y] * 5), scores, 1.0) for y in (-1, 1)]
    np.testing.assert_allclose(np.exp(both).sum(axis=0), 1.0)
    far = np.array([[-1e5, 800.0]])
    found = Bernoulli().log_density(samples_of([1.0, -1.0]), far, 1.0)
    np.testing.assert_allclose(found, [[-1e5, -800.0]])


def test_variance_is_the_mean_square_above_a_floor():
    found, everyone = samples_of([0.0, 2.0, 4.0]), np.ones((1, 3))
    learn = Gaussian().learn_variance
    assert learn(found, np.full((1, 3), 2.0), everyone) == pytest.approx(8 / 3)
    exact = learn(found, found.y[np.newaxis], everyone)
    assert exact == pytest.approx(1e-6 * 8 / 3)
    assert learn(samples_of([0.0] * 3), np.zeros((1, 3)), everyone) == 1e-6
    constant = learn(samples_of([3.0] * 3), np.full((1, 3), 3.0), everyone)
    assert constant == pytest.approx(9e-6)


# Components


@pytest.fixture
def responsibility():
    return np.random.default_rng(0).dirichlet(np.ones(3), 500).T


@pytest.mark.parametrize("direct", [0, 100])
def test_squares_are_solved_exactly(responsibility, direct, monkeypatch):
    monkeypatch.setattr(components, "DIRECT_SIZE", direct)
    X, y, task, *_ = planted()
    family = family_of(X, y, task, ridge=2.0, intercept=True)
    found = family.solve(family.at(np.zeros((3, 6)), 0.5), responsibility)
    coef, intercept = family.features.to_features(found.coef)
    for k in range(3):
        ridge = Ridge(1.0).fit(X, y, sample_weight=responsibility[k])
        np.testing.assert_allclose(coef[k], ridge.coef_, rtol=1e-7)
        np.testing.assert_allclose(intercept[k], ridge.intercept_, atol=1e-7)


def test_newton_steps_lead_to_logistic_regression(responsibility):
    X, y, task = labelled()
    family = family_of(X, y, task, loss="logistic", ridge=0.5, intercept=True)
    found = family.at(np.zeros((3, 6)))
    for _ in range(30):
        found = family.improve(found, responsibility)
    coef, _ = family.features.to_features(found.coef)
    for k in range(3):
        peer = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000)
        peer.fit(X, y, sample_weight=responsibility[k])
        np.testing.assert_allclose(coef[k], peer.coef_[0], atol=1e-5)


def test_newton_steps_far_away_never_raise_the_cost():
    X, y, task = labelled()
    family = family_of(X, y, task, loss="logistic", ridge=1e-3)
    found, ones = family.at(np.full((1, 5), 5.0)), np.ones((1, 500))

    def cost(components):
        return family.penalty(components) - family.log_density(components).sum()

    for _ in range(5):
        last, found = found, family.improve(found, ones)
        assert cost(found) <= cost(last)
    assert cost(found) < 0.9 * cost(family.at(np.full((1, 5), 5.0)))


def test_a_component_without_samples_stays_finite():
    X, y, task, *_ = planted()
    responsibility = np.array([np.ones(500), np.zeros(500)])
    for ridge in (0.0, 0.1):
        family = family_of(X, y, task, ridge=ridge, intercept=True)
        found = family.improve(family.at(np.ones((2, 6))), responsibility)
        assert np.all(np.isfinite(found.coef))


@pytest.fixture
def systems():
    factors = np.random.default_rng(0).standard_normal((3, 8, 5))
    return np.einsum("kij,kil->kjl", factors, factors)


def solve_systems(systems, right, **kwargs):
    return conjugate_gradients(
        lambda V: np.einsum("kij,kj->ki", systems, V),
        right,
        np.einsum("kii->ki", systems),
        **{"forcing": 1e-13, "products": 50} | kwargs,
    )


def test_conjugate_gradients_solve_several_systems(systems):
    right = np.random.default_rng(1).standard_normal((3, 5))
    expected = np.linalg.solve(systems, right[..., np.newaxis])[..., 0]
    np.testing.assert_allclose(solve_systems(systems, right), expected, rtol=1e-8)
    truncated = solve_systems(systems, right, products=2)
    assert np.all(np.sum(truncated * right, axis=1) > 0)


def test_flat_coordinates_are_left_alone(systems):
    systems[1] = 0.0
    systems[2, 0] = systems[2, :, 0] = 0.0
    right = np.ones((3, 5))
    right[2, 0] = 0.0
    found = solve_systems(systems, right)
    np.testing.assert_array_equal(found[1], 0.0)
    assert found[2, 0] == 0
    np.testing.assert_allclose(systems[2] @ found[2], right[2], atol=1e-8)


# EM


def run_steps(family, mixture, steps):
    objectives = []
    for _ in range(steps):
        expectation = e_step(family, mixture)
        objectives.append(expectation.objective)
        mixture = m_step(family, mixture, expectation)
    return mixture, np.array(objectives)


@pytest.mark.parametrize("plain", [True, False])
def test_likelihoods_of_two_components_are_golden(plain):
    family = family_of(*golden_rows(4, 5), ridge=1e-3 / 0.25, plain=plain)
    start = family.features.from_features(np.eye(5)[[0, 4]], np.zeros(2))
    mixture = Mixture(family.at(start, 0.25), np.full((4, 2), 0.5))
    found = []
    for _ in range(51):
        responsibility, likelihood, _ = e_step(family, mixture)
        found.append(likelihood)
        weights = mixing_weights(family.samples, responsibility)
        mixture = Mixture(family.solve(mixture.components, responsibility), weights)
    np.testing.assert_allclose(found[:3], [-128.047565, -10.337308, -9.273237])
    assert found[50] == pytest.approx(-6.46235911, abs=5e-9)


@BOTH_LOSSES
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_likelihood_never_falls(loss, ridge, intercept):
    family = family_of(*rows_of(loss), loss=loss, ridge=ridge, intercept=intercept)
    for seed in range(2):
        _, objectives = run_steps(family, random_mixture(family, 3, seed), 40)
        assert np.all(np.diff(objectives) <= 1e-12 * np.abs(objectives[1:]))
        assert objectives[-1] < objectives[0]


@BOTH_LOSSES
def test_order_of_components_does_not_matter(loss):
    family = family_of(*rows_of(loss), loss=loss, ridge=0.1, intercept=True)
    start = random_mixture(family, 3)
    order = [2, 0, 1]
    coef, weights = start.components.coef[order], start.weights[:, order]
    end, objectives = run_steps(family, start, 15)
    turned, same = run_steps(family, Mixture(family.at(coef, 0.7), weights), 15)
    np.testing.assert_allclose(same, objectives, rtol=1e-9)
    np.testing.assert_allclose(turned.weights, end.weights[:, order], atol=1e-6)


def test_identical_components_never_separate():
    family = family_of(*planted()[:3])
    same = family.at(random_mixture(family, 2).components.coef[[0, 0]], 0.7)
    end, _ = run_steps(family, Mixture(same, np.full((10, 2), 0.5)), 20)
    np.testing.assert_array_equal(end.components.coef[0], end.components.coef[1])


@BOTH_LOSSES
@pytest.mark.parametrize("m", [1, 2, 7])
def test_first_components_differ(loss, m):
    X, y, task, *_ = planted(m=m)
    y = np.sign(y) if loss == "logistic" else y
    family = family_of(X, y, task, loss=loss, ridge=0.1, intercept=True)
    starts = list(start_mixtures(family, 4, 2, np.random.default_rng(0)))
    assert len(starts) == 2
    for start in starts:
        coef = start.components.coef
        apart = np.abs(coef[:, np.newaxis] - coef).max(axis=2)
        assert np.all(apart[~np.eye(4, dtype=bool)] > 1e-3)


def test_a_known_task_finds_its_weights_from_components_alone():
    X, y, task, *_ = planted()
    model = FedEM(2, 1e-3, tol=1e-12, max_iter=5000).fit(X, y, task=task)
    rows = task == 3
    family = family_of(X[rows], y[rows], task[rows], intercept=True)
    intercept = model.component_intercepts_
    coef = family.features.from_features(model.components_, intercept)
    mixture = Mixture(family.at(coef, model.noise_variance_), np.full((1, 2), 0.5))
    for _ in range(1000):
        responsibility = e_step(family, mixture).responsibility
        weights = mixing_weights(family.samples, responsibility)
        mixture = Mixture(mixture.components, weights)
    np.testing.assert_allclose(mixture.weights[0], model.mixture_[3], atol=1e-4)


def test_assuming_too_much_noise_blurs_components():
    rng = np.random.default_rng(0)
    theta = np.array([[1.0, 0.0], [0.0, 1.0]])
    task, part = np.repeat(np.arange(20), 100), rng.integers(2, size=2000)
    X = rng.standard_normal((2000, 2))
    y = np.sum(X * theta[part], axis=1) + 0.3 * rng.standard_normal(2000)
    family = family_of(X, y, task, plain=True)

    def error(*, learn):
        mixture = Mixture(family.at(theta), np.full((20, 2), 0.5))
        for _ in range(100):
            responsibility = e_step(family, mixture).responsibility
            found = family.solve(mixture.components, responsibility)
            found = family.learn_variance(found, responsibility) if learn else found
            mixture = Mixture(found, mixing_weights(family.samples, responsibility))
        return np.abs(mixture.components.coef - theta).max()

    assert 3 * error(learn=True) < error(learn=False)


# Predictions


def test_targets_or_probabilities_are_averaged_not_scores():
    linear = LinearModel(np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([0.5, 0.0]))
    weights = np.array([[0.3, 0.7], [1.0, 0.0]])
    X = np.random.default_rng(0).standard_normal((6, 2))
    numbers, classes = (MixtureModel(linear, weights, c) for c in (False, True))
    expected = 0.3 * (X[:, 0] + 0.5) - 1.4 * X[:, 1]
    np.testing.assert_allclose(numbers.scores(X, 0), expected)
    expected = 0.3 * expit(X[:, 0] + 0.5) + 0.7 * expit(-2 * X[:, 1])
    np.testing.assert_allclose(expit(classes.scores(X, 0)), expected)
    np.testing.assert_allclose(classes.scores(X, 1), X[:, 0] + 0.5)
    np.testing.assert_allclose(classes.scores(np.array([[1e4, 0.0]]), 1), 1e4 + 0.5)


# Federated rounds


@BOTH_LOSSES
def test_a_full_round_is_one_pooled_gradient_step(loss):
    X, y, task = rows_of(loss)
    family = family_of(X, y, task, loss=loss, ridge=0.3, plain=True)
    mixture = random_mixture(family, 3)
    expectation = e_step(family, mixture)
    sgd, rng = SGD(0.2, epochs=1, batch_size=10**6), np.random.default_rng(0)
    found = federated_round(family, mixture, expectation, sgd, rng)
    coef, q = mixture.components.coef, expectation.responsibility
    residual = family.response.mean(coef @ X.T)
    residual = residual - family.response.targets(family.samples)
    noise = mixture.components.variance
    pooled = (q * residual) @ X / len(y) + 0.3 * noise * coef / len(y)
    np.testing.assert_allclose(found.components.coef, coef - 0.2 * pooled, atol=1e-14)
    np.testing.assert_allclose(found.weights, mixing_weights(family.samples, q))


@pytest.mark.parametrize("batch", [3, 7, 10**6])
def test_one_federated_component_is_federated_averaging(batch):
    X, y, task, *_ = planted(m=3, n=7)
    family = family_of(X, y, task, plain=True)
    start = random_mixture(family, 1)
    sgd, rng = SGD(0.05, 4, batch), np.random.default_rng(0)
    run = fit_federated(family, start, sgd, 1, rng)
    twin, average = np.random.default_rng(0), np.zeros(5)
    for i in range(3):
        local, own = start.components.coef[0], np.flatnonzero(task == i)
        for _ in range(4):
            order = twin.permutation(own) if batch < 7 else own
            for part in np.split(order, range(batch, 7, batch)):
                left = X[part] @ local - y[part]
                local = local - 0.05 * X[part].T @ left / len(part)
        average += local / 3
    np.testing.assert_allclose(run.mixture.components.coef[0], average, rtol=1e-12)


def test_rates_fall_after_half_and_three_quarters():
    rates = [SGD(1.0, 1, 1).decayed(p).rate for p in (0, 0.49, 0.5, 0.75)]
    np.testing.assert_allclose(rates, [1, 1, 0.1, 0.01])


def test_federated_rounds_come_close_to_em():
    X, y, task, *_ = planted(m=20, n=100)
    exact = FedEM(2, 1e-3, tol=1e-10).fit(X, y, task=task)
    settings = {"mode": "federated", "learning_rate": 0.3, "max_iter": 100}
    run = FedEM(2, 1e-3, **settings).fit(X, y, task=task)
    assert exact.objective_ - 1e-9 <= run.objective_ < exact.objective_ + 0.01
    assert run.n_iter_ == 100


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
    with pytest.raises(ValueError, match=r"learning_rate=1e\+06 is too large"):
        model.fit(X, y, task=task)


# Networks


def crooked(m=4, n=80):
    """Two curves, of which each task follows one."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(m), n)
    X = rng.uniform(-1.0, 1.0, (m * n, 2))
    return X, np.abs(3 * X[:, 0]) * np.where(task % 2, 1.0, -1.0), task


@pytest.fixture
def neural():
    """Settings; scikit-learn 1.6 cannot, and is refused, as is tested elsewhere."""
    pytest.importorskip("sklearn", "1.7", reason="its networks take no weights")
    return {"component": "mlp", "hidden": (16,), "n_init": 1, "epochs": 5}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_learn_what_lines_cannot(neural):
    X, y, task = crooked()
    model = FedEM(2, 1e-3, max_iter=30, **neural).fit(X, y, task=task)
    assert model.score(X, y, task=task) > 0.7
    assert FedEM(2).fit(X, y, task=task).score(X, y, task=task) < 0.1
    assert len(model.components_) == 2
    assert not hasattr(model, "coef_")
    weights = [W for net in model.components_ for W in net.coefs_]
    penalty = 0.5e-3 * sum(np.sum(W**2) for W in weights)
    assert model.objective_ == pytest.approx((penalty - model.log_likelihood_) / len(y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_classify(neural):
    X, y, task = crooked()
    labels = np.where(np.abs(y) > 1.5, "far", "near")
    model = FedEMClassifier(2, 1e-3, max_iter=12, **neural)
    model.fit(X, labels, task=task)
    assert model.score(X, labels, task=task) > 0.8
    total = model.predict_proba(X, task=task).sum(axis=1)
    np.testing.assert_allclose(total, 1.0)


def test_networks_are_not_averaged(neural):
    X, y, task = crooked()
    with pytest.raises(ValueError, match='mode must be "exact"'):
        FedEM(mode="federated", **neural).fit(X, y, task=task)


def test_networks_need_weights(neural, monkeypatch):
    class Old:
        def partial_fit(self, X, y): ...

    monkeypatch.setattr(components, "MLPRegressor", Old)
    X, y, task = crooked()
    with pytest.raises(ImportError, match=r"needs scikit-learn 1\.7"):
        FedEM(**neural).fit(X, y, task=task)
