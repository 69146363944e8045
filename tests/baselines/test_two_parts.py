"""Methods of two parts: finite on awkward rows, least squares without a penalty."""

import numpy as np
import pytest

from compared_tasks import AWKWARD
from golden import golden_rows
from priormtl.baselines import DMTL, RMTL, DMTLClassifier, RMTLClassifier
from priormtl.datasets import make_related_tasks

PAIRS = {"dmtl": (DMTL, DMTLClassifier), "rmtl": (RMTL, RMTLClassifier)}
BOTH = pytest.mark.parametrize(
    ("regressor", "classifier"), PAIRS.values(), ids=PAIRS.keys()
)


@BOTH
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_tasks_are_fitted(name, regressor, classifier):
    X, y, task = AWKWARD[name]()
    check_finite(regressor(1e-2, tol=1e-4).fit(X, y, task=task), X, task)


@BOTH
@pytest.mark.parametrize("name", [name for name in AWKWARD if name != "one row each"])
def test_awkward_classes_are_fitted(name, regressor, classifier):
    X, y, task = AWKWARD[name]()
    labels = (np.arange(len(y)) // 2) % 2
    lam = 0.5 * (np.abs(X).max() if name in {"huge", "tiny"} else 1.0)
    check_finite(classifier(lam, tol=1e-4).fit(X, labels, task=task), X, task)


def check_finite(model, X, task):
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(model.predict(X, task=task)))


@BOTH
def test_classes_that_can_be_separated_stay_finite(regressor, classifier):
    X = np.linspace(-1, 1, 20)[:, None]
    y, task = (X[:, 0] > 0).astype(int), np.arange(20) % 2
    model = classifier(0.01).fit(X, y, task=task)
    assert model.score(X, y, task=task) == 1.0
    assert np.all(np.isfinite(model.coef_))


@BOTH
def test_without_a_penalty_tasks_are_least_squares(regressor, classifier):
    X, y, task = make_related_tasks(3, 4, 12, noise=0.5, random_state=0)
    model = regressor(0.0).fit(X, y, task=task)
    for i in range(3):
        rows = np.column_stack([np.ones(12), X[task == i]])
        exact = np.linalg.lstsq(rows, y[task == i], rcond=None)[0]
        np.testing.assert_allclose(model.coef_[i], exact[1:], atol=1e-6)


@BOTH
def test_unknown_ratios_are_refused(regressor, classifier):
    X, y, task = golden_rows(4, 5)
    with pytest.raises(ValueError, match="ratio must be a positive finite number"):
        regressor(ratio=-1.0).fit(X, y, task=task)
