"""Responses: derivatives, densities that sum to one, variances."""

import numpy as np
import pytest

from priormtl.baselines.mixtures.cells import gather_cells
from priormtl.baselines.mixtures.responses import Bernoulli, Gaussian
from priormtl.data import from_labels

RESPONSES = [Gaussian(), Bernoulli()]


def cells_of(y):
    X = np.arange(float(len(y)))[:, np.newaxis]
    return gather_cells(from_labels(X, np.asarray(y, float), np.zeros(len(y), int)))


@pytest.mark.parametrize("response", RESPONSES, ids=lambda r: type(r).__name__)
def test_derivatives_are_those_of_the_potential(response):
    s, step = np.linspace(-4.0, 4.0, 9), 1e-5
    slope = (response.potential(s + step) - response.potential(s - step)) / (2 * step)
    bend = (response.mean(s + step) - response.mean(s - step)) / (2 * step)
    np.testing.assert_allclose(response.mean(s), slope, atol=1e-8)
    np.testing.assert_allclose(response.curvature(s), bend, atol=1e-8)


@pytest.mark.parametrize("response", RESPONSES, ids=lambda r: type(r).__name__)
def test_density_follows_from_the_potential(response):
    cells = cells_of([1.0, -1.0, 1.0])
    scores = np.random.default_rng(0).standard_normal((2, 3))
    found = response.log_density(cells, scores, 1.0)
    rest = found - response.targets(cells) * scores + response.potential(scores)
    # What is left depends on the target alone.
    np.testing.assert_allclose(rest[0], rest[1], atol=1e-12)


def test_probabilities_of_both_classes_sum_to_one():
    scores = np.linspace(-30.0, 30.0, 5)[np.newaxis]
    both = [
        np.exp(Bernoulli().log_density(cells_of([y] * 5), scores, 1.0)) for y in (-1, 1)
    ]
    np.testing.assert_allclose(sum(both), 1.0)


def test_extreme_scores_keep_their_digits():
    cells = cells_of([1.0, -1.0])
    found = Bernoulli().log_density(cells, np.array([[-1e5, 800.0]]), 1.0)
    np.testing.assert_allclose(found, [[-1e5, -800.0]])


def test_variance_is_the_mean_square_above_a_floor():
    cells = cells_of([0.0, 2.0, 4.0])
    everyone = np.ones((1, 3))
    found = Gaussian().learn_variance(cells, np.full((1, 3), 2.0), everyone)
    assert found == pytest.approx(8 / 3)
    exact = Gaussian().learn_variance(cells, cells.y[np.newaxis], everyone)
    assert exact == pytest.approx(1e-6 * 8 / 3)
    assert (
        Gaussian().learn_variance(cells_of([0.0] * 3), np.zeros((1, 3)), everyone) > 0
    )
