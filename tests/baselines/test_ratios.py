"""Ratios are checked once and crossed with paths; methods of two parts keep laws."""

import numpy as np
import pytest

from compared_tasks import AWKWARD
from golden import golden_rows
from priormtl.baselines import DMTL, RMTL, DMTLClassifier, RMTLClassifier
from priormtl.baselines.ratios import check_ratio, cross_ratios
from priormtl.datasets import make_related_tasks

PAIRS = {"dmtl": (DMTL, DMTLClassifier), "rmtl": (RMTL, RMTLClassifier)}
BOTH = pytest.mark.parametrize(
    ("regressor", "classifier"), PAIRS.values(), ids=PAIRS.keys()
)


def test_none_is_the_default():
    assert check_ratio(None, 2.5) == 2.5
    assert check_ratio(np.float64(3.0), 2.5) == 3.0


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "2", True])
def test_other_ratios_are_refused(value):
    with pytest.raises(ValueError, match="ratio must be a positive finite number"):
        check_ratio(value, 1.0)


@pytest.mark.parametrize("n", [1, 2, 6, 7, 12, 20, 31])
def test_there_are_as_many_settings_as_asked_for(n):
    settings = cross_ratios([3.0, 1.0, 9.0], lambda ratio: 10.0 * ratio, n)
    assert len(settings) == n
    assert len({tuple(setting.items()) for setting in settings}) == n
    ratios = [setting["ratio"] for setting in settings]
    assert ratios[0] == 3.0
    assert len(set(ratios)) == min(3, max(1, n // 6))


def test_every_path_falls_from_its_own_end_by_three_decades():
    settings = cross_ratios([3.0, 1.0], lambda ratio: 10.0 * ratio, 12)
    lams = np.array([setting["lam"] for setting in settings]).reshape(2, 6)
    assert np.all(np.diff(lams, axis=1) < 0)
    np.testing.assert_allclose(lams[:, 0], [30.0, 10.0])
    np.testing.assert_allclose(lams[:, -1], [0.03, 0.01])


def test_equal_ratios_count_once_and_zero_ends_begin_at_one():
    settings = cross_ratios([1.0, 1.0], lambda _: 0.0, 12)
    assert {setting["ratio"] for setting in settings} == {1.0}
    assert settings[0]["lam"] == 1.0


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
