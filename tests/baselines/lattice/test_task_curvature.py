import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.lattice import task_curvature
from priormtl.baselines.lattice.task_curvature import rotate_fit
from priormtl.data import from_columns, from_labels
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared

RNG = np.random.default_rng(0)
TASK = np.repeat([0, 1, 2], [5, 3, 9])
X = RNG.standard_normal((17, 6)) + 2.0
WIDE = RNG.standard_normal((17, 40))
Y = RNG.standard_normal((17, 3))
GAPS = np.where(RNG.random((17, 3)) < 0.2, np.nan, Y)
WEIGHT = RNG.random(17) + 0.5
DATA = {
    "rows": from_labels(X, Y[:, 0], TASK),
    "long": from_labels(np.tile(X, (9, 1)), np.tile(Y[:, 0], 9), np.tile(TASK, 9)),
    "wide": from_labels(WIDE, Y[:, 0], TASK, WEIGHT),
    "sparse": from_labels(csr_array(X * (X > 2)), Y[:, 0], TASK, WEIGHT),
    "shared": from_columns(X, Y, WEIGHT),
    "wide shared": from_columns(WIDE, Y),
    "gaps": from_columns(X, GAPS),
    "flat": from_labels(np.ones((17, 6)), Y[:, 0], TASK),
}
INTERCEPTS = [FreeIntercepts(), NoIntercepts()]


def split(d, several):
    return [np.arange(0, d, 2), np.arange(1, d, 2)] if several else [np.arange(d)]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("largest", [task_curvature.LARGEST_GRAM, 1])
def test_rotated_fit_is_the_fit(name, intercepts, several, largest, monkeypatch):
    monkeypatch.setattr(task_curvature, "LARGEST_GRAM", largest)
    fit = Squared().bind(DATA[name], intercepts)
    turned = rotate_fit(fit, split(fit.shape[0], several))
    W = np.random.default_rng(1).standard_normal(turned.linear.shape)
    P = turned.to_features(W)
    product, expected = turned.product(W), fit.evaluate(P.T)
    value = 0.5 * (np.vdot(W, product) + turned.constant) - np.vdot(W, turned.linear)
    assert value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(
        turned.to_features(product - turned.linear).T,
        expected.gradient,
        atol=1e-9 * max(1.0, np.abs(expected.gradient).max()),
    )


@pytest.mark.parametrize("name", DATA)
def test_mean_curvature_is_diagonal_and_lengths_are_kept(name):
    fit = Squared().bind(DATA[name], FreeIntercepts())
    turned = rotate_fit(fit, split(fit.shape[0], False))
    m, r = turned.linear.shape
    columns = [turned.product(np.tile(row, (m, 1))).mean(axis=0) for row in np.eye(r)]
    np.testing.assert_allclose(
        columns, np.diag(turned.mean), atol=1e-10 * max(1.0, turned.mean.max())
    )
    W = np.random.default_rng(2).standard_normal((m, r))
    np.testing.assert_allclose(
        np.linalg.norm(turned.to_features(W), axis=1), np.linalg.norm(W, axis=1)
    )


def test_directions_without_curvature_go():
    fit = Squared().bind(DATA["wide"], FreeIntercepts())
    assert rotate_fit(fit, [np.arange(40)]).linear.shape == (3, 14)
