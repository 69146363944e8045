"""Linear components: M-steps are those of weighted ridge and logistic regression."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from mixed_tasks import family_of, labelled, planted
from priormtl.baselines.mixtures import components


@pytest.fixture
def part_of():
    return np.random.default_rng(0).dirichlet(np.ones(3), 500).T


@pytest.mark.parametrize("direct", [0, 100])
def test_squares_are_solved_exactly(part_of, direct, monkeypatch):
    monkeypatch.setattr(components, "DIRECT_SIZE", direct)
    X, y, task, *_ = planted()
    family = family_of(X, y, task, ridge=2.0, intercept=True)
    parts = family.solve(family.at(np.zeros((3, 6)), 0.5), part_of)
    coef, intercept = family.features.leave(parts.coef)
    for k in range(3):
        ridge = Ridge(1.0).fit(X, y, sample_weight=part_of[k])
        np.testing.assert_allclose(coef[k], ridge.coef_, rtol=1e-7)
        np.testing.assert_allclose(intercept[k], ridge.intercept_, atol=1e-7)


def test_newton_steps_lead_to_logistic_regression(part_of):
    X, y, task = labelled()
    family = family_of(X, y, task, loss="logistic", ridge=0.5, intercept=True)
    parts = family.at(np.zeros((3, 6)))
    for _ in range(30):
        parts = family.improve(parts, part_of)
    coef, _ = family.features.leave(parts.coef)
    for k in range(3):
        peer = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000)
        peer.fit(X, y, sample_weight=part_of[k])
        np.testing.assert_allclose(coef[k], peer.coef_[0], atol=1e-5)


def test_a_component_without_cells_stays_finite():
    X, y, task, *_ = planted()
    part_of = np.array([np.ones(500), np.zeros(500)])
    for ridge in (0.0, 0.1):
        family = family_of(X, y, task, ridge=ridge, intercept=True)
        parts = family.improve(family.at(np.ones((2, 6))), part_of)
        assert np.all(np.isfinite(parts.coef))
