"""Trials: settings grouped into paths, judged one by one, whatever the threads."""

import numpy as np
import pytest

from priormtl.baselines import CLMT
from priormtl.baselines.base import LinearModel
from priormtl.baselines.tuned import (
    Fold,
    group_paths,
    score_samples,
    search_settings,
)
from priormtl.data import from_columns, from_labels
from priormtl.datasets import make_related_tasks


@pytest.fixture
def data():
    return from_labels(*make_related_tasks(4, 5, 12, noise=0.3, random_state=0))


def trial_of(data):
    return Fold(lambda: data, lambda model: -float(np.abs(model.coef).sum()))


def scale_of(lam, standardize):
    return {"lam": lam, "standardize": standardize}


def test_settings_that_share_all_but_the_followed_one_are_one_path():
    settings = [scale_of(lam, kind) for kind in (False, True) for lam in (2.0, 1.0)]
    assert len(group_paths(CLMT(), settings)) == 2
    assert len(group_paths(CLMT(), settings[:3])) == 2
    assert len(group_paths(CLMT(), [{}])) == 1


def test_scores_stand_at_their_settings_place(data):
    settings = [{"lam": lam} for lam in (0.5, 4.0, 1.0)]
    method, trials = CLMT(tol=1e-12), [trial_of(data)]
    found = search_settings(method, settings, trials)
    alone = [search_settings(method, [part], trials).scores for part in settings]
    np.testing.assert_allclose(found.scores, np.concatenate(alone), rtol=1e-4)
    assert found.scores.shape == found.fit_seconds.shape == (3, 1)


def test_a_setting_that_is_not_tried_keeps_its_value(data):
    kept = search_settings(CLMT(lam=3.0), [{}], [trial_of(data)]).scores
    named = search_settings(CLMT(), [{"lam": 3.0}], [trial_of(data)]).scores
    np.testing.assert_array_equal(kept, named)


def test_threads_change_nothing(data):
    settings = [{"lam": lam} for lam in (4.0, 1.0)]
    trials = [trial_of(data)] * 3
    alone = search_settings(CLMT(), settings, trials).scores
    together = search_settings(CLMT(), settings, trials, n_jobs=3).scores
    np.testing.assert_array_equal(alone, together)


def test_fits_that_fall_short_are_counted(data):
    found = search_settings(
        CLMT(max_iter=1, tol=1e-12), [{"lam": 1.0}], [trial_of(data)]
    )
    assert found.unsolved == 1


def test_every_path_counts_as_progress(data):
    seen = []
    settings = [scale_of(1.0, False), scale_of(1.0, True)]
    search_settings(
        CLMT(), settings, [trial_of(data)] * 2, advance=lambda: seen.append(1)
    )
    assert len(seen) == 4


def test_samples_are_scored_by_their_own_task():
    model = LinearModel(np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 0.0, 1.0]))
    stacked = from_labels(np.ones((3, 1)), np.zeros(3), ["b", "c", "b"])
    places = np.array([1, 2])
    np.testing.assert_array_equal(score_samples(model, stacked, places), [2, 2, 4])
    shared = from_columns(np.ones((1, 1)), np.zeros((1, 2)))
    np.testing.assert_array_equal(score_samples(model, shared, places), [[2, 4]])
