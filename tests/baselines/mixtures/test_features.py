"""Features: turned coordinates say the same as the features themselves."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.mixtures import cells as cells_module
from priormtl.baselines.mixtures import features
from priormtl.baselines.mixtures.cells import gather_cells
from priormtl.baselines.mixtures.features import plain_features, rotated_features
from priormtl.data import from_labels

MAKERS = {"plain": plain_features, "rotated": rotated_features}


def cells_of(shape, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) + 3.0
    task = np.arange(shape[0]) % 2
    order = np.argsort(task, kind="stable")
    return gather_cells(
        from_labels(X[order], X[order, 0], task[order], rng.uniform(1, 2, shape[0]))
    )


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(20, 4), (5, 12)])
@pytest.mark.parametrize("work", [0.0, 1e8])
def test_scores_survive_the_turn(maker, intercept, shape, work, monkeypatch):
    monkeypatch.setattr(features, "SVD_WORK", work)
    cells = cells_of(shape)
    made = MAKERS[maker](cells, fit_intercept=intercept)
    coef = np.random.default_rng(1).standard_normal((3, made.matrix.shape[1]))
    slope, constant = made.leave(coef)
    scores = coef @ made.matrix.T
    expected = slope @ cells.X.T + constant[:, np.newaxis]
    np.testing.assert_allclose(scores, expected, atol=1e-10)
    np.testing.assert_allclose(made.enter(slope, constant), coef, atol=1e-10)
    length = coef**2 @ made.penalised
    np.testing.assert_allclose(np.sum(slope**2, axis=1), length)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(20, 4), (5, 12)])
def test_turned_features_are_uncorrelated(intercept, shape):
    cells = cells_of(shape)
    made = rotated_features(cells, fit_intercept=intercept)
    gram = made.matrix.T @ (cells.row_weight[:, np.newaxis] * made.matrix)
    np.testing.assert_allclose(gram, np.diag(made.spectrum), atol=1e-8 * gram.max())
    assert made.matrix.shape[1] <= min(shape) + intercept


def test_sparse_features_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(cells_module, "WRITTEN_OUT", 0)
    X = csr_array(np.eye(4))
    cells = gather_cells(from_labels(X, np.arange(4.0), [0, 0, 1, 1]))
    made = rotated_features(cells, fit_intercept=True)
    assert made.basis is None
    np.testing.assert_array_equal(made.matrix.toarray(), np.c_[np.eye(4), np.ones(4)])
    np.testing.assert_array_equal(made.spectrum, [1, 1, 1, 1, 4])
