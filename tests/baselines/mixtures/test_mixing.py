"""MixtureModel: means of numbers, log-odds of mean probabilities."""

import numpy as np
from scipy.special import expit

from priormtl.baselines.mixtures.mixing import LinearScorer, MixtureModel

SCORER = LinearScorer(np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([0.5, 0.0]))
SHARES = np.array([[0.3, 0.7], [1.0, 0.0]])
X = np.random.default_rng(0).standard_normal((6, 2))


def test_numbers_are_averaged():
    expected = 0.3 * (X[:, 0] + 0.5) - 1.4 * X[:, 1]
    np.testing.assert_allclose(
        MixtureModel(SCORER, SHARES, False).scores(X, 0), expected
    )


def test_probabilities_are_averaged_not_scores():
    model = MixtureModel(SCORER, SHARES, True)
    expected = 0.3 * expit(X[:, 0] + 0.5) + 0.7 * expit(-2 * X[:, 1])
    np.testing.assert_allclose(expit(model.scores(X, 0)), expected)
    np.testing.assert_allclose(model.scores(X, 1), X[:, 0] + 0.5)


def test_extreme_odds_keep_their_digits():
    model = MixtureModel(SCORER, SHARES, True)
    np.testing.assert_allclose(model.scores(np.array([[1e4, 0.0]]), 1), 1e4 + 0.5)
