"""Limits: every page has its place, whatever the names and numbers are."""

import numpy as np
import pytest

from priormtl import FeaturePrior
from priormtl.reports import report
from priormtl.reports.limits import MOST_BYTES
from reported_models import model_of, resolved


def big_model(d, m, name, task="task {}", **attributes):
    coef = np.random.default_rng(0).normal(size=(m, d))
    features, tasks = (
        [name.format(j) for j in range(d)],
        [task.format(i) for i in range(m)],
    )
    return model_of(coef, features, tasks, **attributes)


@pytest.fixture(scope="module")
def largest():
    prior = resolved(FeaturePrior.grid(50, 100), 5000)
    return report(big_model(5000, 1000, "expression of gene {}", feature_prior_=prior))


def test_five_thousand_features_and_a_thousand_tasks_have_a_place(largest):
    size = len(largest.html().encode())
    assert 0.8 * MOST_BYTES < size <= MOST_BYTES
    block = largest.content.block
    assert block.values.shape[1] == 1000
    assert block.features_left_out == 5000 - len(block.values) > 0
    assert len(largest.content.table("features")) == 5000


def test_the_foremost_features_stay(largest):
    features, _ = largest.content.block_names
    model = largest._learned.model
    norms = np.linalg.norm(model.coef_, axis=0)
    place = np.argsort(-norms, kind="stable")[: len(features)]
    assert features == tuple(model.feature_names_in_[place])
    assert np.array_equal(largest.content.block.values, model.coef_[:, place].T)


@pytest.mark.parametrize(
    ("d", "m", "name", "task"),
    [
        (8000, 40, "<" * 200 + "{}", "{}"),
        (3, 30000, "{}", "é" * 100 + "{}"),
        (100, 900, "{}", "&<" * 90 + "{}"),
    ],
)
def test_long_names_have_a_place_too(d, m, name, task):
    made = report(big_model(d, m, name, task))
    assert len(made.html().encode()) <= MOST_BYTES
    for table in made.content.tables:
        assert len(table) + table.left_out == (d if table.name == "features" else m)


def test_of_too_many_tasks_the_farthest_stay():
    coef = np.zeros((30000, 1))
    coef[12345] = 7.0
    kept = report(model_of(coef, None, [f"t{i}" for i in range(30000)])).content
    assert "t12345" in kept.table("tasks")["task"]
    assert kept.block.tasks_left_out == kept.table("tasks").left_out > 0


def test_zero_features_are_not_missed():
    coef = np.zeros((200, 2000))
    coef[:, :3] = 1.0
    block = report(model_of(coef)).content.block
    assert block.is_whole
    assert len(block.values) < 2000
