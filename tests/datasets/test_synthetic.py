"""make_related_tasks: the truth it promises."""

import numpy as np
import pytest

from priormtl.data import condense, from_labels
from priormtl.datasets import make_related_tasks
from priormtl.priors import difference_matrix


def test_noiseless_targets_follow_the_coefficients():
    data = make_related_tasks(5, 8, 7, noise=0.0, random_state=0)
    expected = np.sum(data.X * data.coef[data.task], axis=1) + data.intercept[data.task]
    assert data.y == pytest.approx(expected)


def test_relations_hold_exactly_without_noise():
    data = make_related_tasks(5, 12, 7, opposite=0.5, random_state=0)
    moments = condense(from_labels(data.X, data.y, data.task))
    D = difference_matrix(data.feature_prior, moments)
    assert D.shape == (3, 12)
    assert pytest.approx(np.zeros((3, 5)), abs=1e-12) == (D @ data.coef.T)
    noisy = make_related_tasks(5, 12, 7, relation_noise=0.5, random_state=0)
    assert np.abs(D @ noisy.coef.T).max() > 0.05


def test_the_same_features_matter_in_all_tasks():
    data = make_related_tasks(6, 20, 5, n_informative=4, random_state=1)
    assert ((data.coef != 0).sum(axis=0) > 0).sum() == 4
    assert np.all((data.coef != 0).sum(axis=1) == 4)


def test_drift_is_the_change_from_task_to_task():
    data = make_related_tasks(400, 20, 1, drift=0.3, n_relations=0, random_state=2)
    steps = np.diff(data.coef, axis=0)
    assert steps[:, data.coef[0] != 0].std() == pytest.approx(0.3, rel=0.05)
    still = make_related_tasks(5, 20, 1, drift=0.0, random_state=2)
    assert np.ptp(still.coef, axis=0).max() == 0


def test_noise_is_the_spread_about_the_mean():
    data = make_related_tasks(2, 4, 5000, noise=2.0, random_state=3)
    mean = np.sum(data.X * data.coef[data.task], axis=1) + data.intercept[data.task]
    assert (data.y - mean).std() == pytest.approx(2.0, rel=0.05)


def test_classes_are_signs():
    data = make_related_tasks(classification=True, random_state=0)
    assert set(data.y) == {-1.0, 1.0}


def test_unpacks_and_repeats():
    X, y, task = make_related_tasks(random_state=5)
    again = make_related_tasks(random_state=5)
    assert np.array_equal(X, again.X)
    assert np.array_equal(y, again.y)
    assert np.array_equal(task, again.task)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"n_tasks": 0}, "n_tasks must be at least 1: got 0"),
        ({"n_informative": 21}, "between 0 and n_features=20"),
        ({"n_informative": 4, "n_relations": 3}, "n_relations must be between 0 and"),
        ({"opposite": 1.5}, "opposite must be between 0 and 1"),
    ],
)
def test_impossible_wishes_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        make_related_tasks(**settings)
