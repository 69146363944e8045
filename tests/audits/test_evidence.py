import numpy as np
import pytest

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.audits.evidence import gather_evidence
from priormtl.data import to_tasks
from priormtl.datasets import make_related_tasks


def gather(X, y, task, **settings):
    model = MultiTaskRegressor(
        lam=5.0, feature_prior=FeaturePrior.similar([(0, 1)]), **settings
    )
    model.fit(X, y, task=task)
    problem = model._set_up(to_tasks(X, y, task)).problem
    d, m = problem.shape
    return problem, gather_evidence(
        problem,
        model.coef_.T,
        np.arange(d),
        X.std(axis=0),
        n_rows=len(y),
        n_intercepts=m,
    )


def dense(problem, multiply):
    d, m = problem.shape
    eye = np.eye(d * m)
    return np.array([multiply(column.reshape(d, m)).ravel() for column in eye])


def test_estimates_solve_the_ridge_equations():
    data = make_related_tasks(3, 5, 20, random_state=0)
    problem, evidence = gather(*data, epsilon=2.0)
    ridge = evidence.curvature.ridge[:, np.newaxis] * evidence.coef
    factor = evidence.curvature.ties[0] / 2.0
    tied = problem.with_strengths(lam=0.0, theta=0.0, epsilon=2.0 * factor)
    gradient = tied.at(evidence.coef).gradient + ridge
    assert np.abs(gradient).max() < 1e-5 * np.abs(tied.null_point.gradient).max()


def test_with_equal_tasks_modes_are_exact():
    rng = np.random.default_rng(1)
    X = np.tile(rng.standard_normal((15, 4)), (3, 1))
    task = np.repeat(np.arange(3), 15)
    problem, evidence = gather(X, rng.standard_normal(45), task, task_prior="mean")
    curvature = evidence.curvature
    tied = problem.with_strengths(lam=0.0, theta=0.0, epsilon=float(curvature.ties[0]))
    H = dense(tied, tied.majorant) + np.diag(np.repeat(curvature.ridge, 3))
    R = rng.standard_normal((4, 3))
    assert curvature.solve(R).ravel() == pytest.approx(np.linalg.solve(H, R.ravel()))
    G = dense(tied, tied.fit.majorant)
    assert curvature.degrees() == pytest.approx(np.trace(np.linalg.solve(H, G)))
    prior = H - G
    half = 0.5 * (np.linalg.slogdet(H)[1] - np.linalg.slogdet(prior)[1])
    assert curvature.shrinkage() == pytest.approx(half)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_the_noise_is_found(noise):
    data = make_related_tasks(5, 8, 60, noise=noise, random_state=2)
    assert np.sqrt(gather(*data)[1].noise) == pytest.approx(noise, rel=0.1)


def test_the_penalty_does_not_bend_estimates():
    data = make_related_tasks(3, 5, 200, noise=0.1, random_state=3)
    assert pytest.approx(data.coef, abs=0.05) == gather(*data)[1].coef.T


def test_many_modes_become_few():
    data = make_related_tasks(40, 4, 10, random_state=4)
    values = gather(*data)[1].curvature.values
    assert len(np.unique(values)) <= 16
    assert np.sum(values == 0) == 1
