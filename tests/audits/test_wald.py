import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.audits.relations import (
    UNKNOWN,
    Curvature,
    Estimate,
    StatementTest,
    estimate_coefficients,
    feature_tests,
    verdicts,
)
from priormtl.data import to_tasks
from priormtl.datasets import make_related_tasks


def known(coef, gram, noise=1.0, ridge=1e-9):
    d, m = coef.shape
    curvature = Curvature(gram, np.zeros(d), np.zeros(m), np.eye(m), np.full(d, ridge))
    return Estimate(coef, noise, curvature)


def pose(X, y, task, **settings):
    model = MultiTaskRegressor(
        lam=5.0, feature_prior=FeaturePrior.similar([(0, 1)]), **settings
    )
    model.fit(X, y, task=task)
    return model._model().pose(to_tasks(X, y, task)).problem, model.coef_.T


def estimate(X, y, task, **settings):
    problem, coef = pose(X, y, task, **settings)
    d, m = problem.shape
    return problem, estimate_coefficients(
        problem, coef, np.arange(d), X.std(axis=0), len(y) - m
    )


def dense(problem, multiply):
    d, m = problem.shape
    eye = np.eye(d * m)
    return np.array([multiply(column.reshape(d, m)).ravel() for column in eye])


def test_without_ties_and_ridge_it_is_the_wald_test():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    gram, coef, row = X.T @ X, rng.standard_normal((3, 4)), np.array([1.0, -1.0, 0.0])
    (found,) = feature_tests(csr_array([row]), known(coef, gram, 2.0))
    variance = 2.0 * row @ np.linalg.solve(gram, row)
    statistic = np.sum((row @ coef) ** 2) / variance
    assert found.statistic == pytest.approx(statistic / 4)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 4))


def test_weights_of_relations_play_no_part():
    rng = np.random.default_rng(1)
    coef, row = rng.standard_normal((2, 3)), np.array([[1.0, 1.0]])
    found = known(coef, np.diag([5.0, 9.0]))
    (once,), (heavy,) = (feature_tests(csr_array(f * row), found) for f in (1, 30))
    assert heavy == pytest.approx(once)


def test_what_rows_do_not_determine_is_not_judged():
    flat = np.diag([1.0, 0.0])
    found = feature_tests(
        csr_array([[1.0, -1.0], [0, 0]]), known(np.ones((2, 2)), flat, 1, 1.0)
    )
    assert all(np.isnan(tension.p_value) for tension in found)


def test_verdicts_follow_benjamini_and_hochberg():
    tests = [StatementTest(1.0, p) for p in (0.001, 0.012, 0.04, 0.9)]
    assert verdicts(tests) == ["disagrees", "disagrees", "agrees", "agrees"]
    assert verdicts([UNKNOWN, StatementTest(9.0, 0.03)]) == [
        "cannot be judged",
        "disagrees",
    ]
    assert verdicts([]) == []
    p = np.random.default_rng(3).uniform(size=50) ** 3
    expected = stats.false_discovery_control(p) <= 0.05
    found = verdicts([StatementTest(1.0, float(value)) for value in p])
    assert [word == "disagrees" for word in found] == expected.tolist()


def test_estimates_solve_the_ridge_equations():
    data = make_related_tasks(3, 5, 20, random_state=0)
    problem, found = estimate(*data, epsilon=2.0)
    ridge = found.curvature.ridge[:, np.newaxis] * found.coef
    factor = found.curvature.ties[0] / 2.0
    tied = problem.with_strengths(lam=0.0, theta=0.0, epsilon=2.0 * factor)
    gradient = tied.at(found.coef).gradient + ridge
    assert np.abs(gradient).max() < 1e-5 * np.abs(tied.null_point.gradient).max()


def test_with_equal_tasks_modes_are_exact():
    rng = np.random.default_rng(1)
    X = np.tile(rng.standard_normal((15, 4)), (3, 1))
    task = np.repeat(np.arange(3), 15)
    problem, found = estimate(X, rng.standard_normal(45), task, task_prior="mean")
    curvature = found.curvature
    tied = problem.with_strengths(lam=0.0, theta=0.0, epsilon=float(curvature.ties[0]))
    H = dense(tied, tied.majorant) + np.diag(np.repeat(curvature.ridge, 3))
    R = rng.standard_normal((4, 3))
    assert curvature.solve(R).ravel() == pytest.approx(np.linalg.solve(H, R.ravel()))
    G = dense(tied, tied.fit.majorant)
    assert curvature.degrees_of_freedom() == pytest.approx(
        np.trace(np.linalg.solve(H, G))
    )
    prior = H - G
    half = 0.5 * (np.linalg.slogdet(H)[1] - np.linalg.slogdet(prior)[1])
    assert curvature.half_log_ratio() == pytest.approx(half)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_the_noise_is_found(noise):
    data = make_related_tasks(5, 8, 60, noise=noise, random_state=2)
    assert np.sqrt(estimate(*data)[1].noise) == pytest.approx(noise, rel=0.1)


def test_the_penalty_does_not_bend_estimates():
    data = make_related_tasks(3, 5, 200, noise=0.1, random_state=3)
    assert pytest.approx(data.coef, abs=0.05) == estimate(*data)[1].coef.T


def test_many_modes_become_few():
    data = make_related_tasks(40, 4, 10, random_state=4)
    values = estimate(*data)[1].curvature.values
    assert len(np.unique(values)) <= 16
    assert np.sum(values == 0) == 1
