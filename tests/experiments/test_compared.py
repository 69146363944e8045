"""The compared methods in the tables: same folds, same loss, no more settings."""

import numpy as np
import pytest

from priormtl.baselines import BASELINES, TunedClassifier, TunedRegressor
from priormtl.experiments.compared import COMPARED, MOST_SETTINGS, build_compared
from priormtl.experiments.protocol import Budget, find_protocol, make_split
from priormtl.experiments.showing.paper import PAPER_LABELS
from priormtl.experiments.training import Training
from small_tasks import MAKERS


def training_of(dataset, budget=None):
    protocol, data = find_protocol(dataset), MAKERS[dataset]()
    split = make_split(protocol, data, 0)
    budget = budget or protocol.budget
    return Training(data, split.train, split.folds, budget, 1e-2, seed=0)


def test_the_papers_eight_are_there_in_its_order():
    assert list(COMPARED) == list(BASELINES) == list(PAPER_LABELS)[:8]


@pytest.mark.parametrize("name", COMPARED)
def test_kinds_of_targets_decide_what_is_built(name):
    assert isinstance(build_compared(name, training_of("school")), TunedRegressor)
    assert isinstance(build_compared(name, training_of("yale")), TunedClassifier)


@pytest.mark.parametrize("name", COMPARED)
def test_misfit_is_counted_as_ours_where_there_is_a_choice(name):
    method = build_compared(name, training_of("yale")).method
    assert method.get_params().get("loss", "squared") == "squared"
    assert method.tol == (1e-3 if name == "fedem" else 1e-2)


def test_no_method_may_try_more_settings_than_the_budget():
    large = Budget(tuple(np.geomspace(1, 1e-3, 50)), (0.0,), (0.0,))
    assert build_compared("mtrl", training_of("school", large)).n_settings == (
        MOST_SETTINGS
    )
    small = Budget((0.1, 0.01), (0.0,), (0.0, 1.0))
    assert build_compared("mtrl", training_of("school", small)).n_settings == 4


def test_folds_are_those_of_every_method():
    training = training_of("school")
    folds = [test for _, test in build_compared("rmtl", training).cv]
    for k, rows in enumerate(folds):
        np.testing.assert_array_equal(rows, np.flatnonzero(training.folds == k))
