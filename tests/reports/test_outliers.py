"""Outliers: what the model found, else tasks that lie far from the others."""

import numpy as np
import pytest

from priormtl.reports.outliers import answer_outliers, far_tasks
from reported_models import learned_of


def spread(m=20, far=()):
    coef = 1 + 0.1 * np.random.default_rng(0).normal(size=(m, 5))
    for i, size in far:
        coef[i] += size
    return coef


def test_planted_tasks_are_named_farthest_first():
    learned = learned_of(spread(far=[(4, 3.0), (9, 5.0)]))
    assert far_tasks(learned).tolist() == [9, 4]
    answer = answer_outliers(learned)
    assert answer.value == "2 tasks far off"
    assert answer.sentence.startswith("Task 9 lies at")
    assert "Task 4 lies far off, too" in answer.sentence
    assert "no model of outliers was fitted" in answer.note


@pytest.mark.parametrize("coef", [spread(), np.ones((20, 5)), np.zeros((20, 5))])
def test_alike_tasks_are_left_alone(coef):
    assert answer_outliers(learned_of(coef)).value == "None stands out"


def test_a_lone_different_task_among_equal_ones_is_found():
    coef = np.ones((6, 2))
    coef[3] = 5.0
    assert far_tasks(learned_of(coef)).tolist() == [3]
    assert "far beyond the usual distance" in answer_outliers(learned_of(coef)).sentence


def test_small_differences_of_few_tasks_are_nothing():
    coef = np.random.default_rng(1).normal(size=(4, 30))
    assert far_tasks(learned_of(coef)).tolist() == []


def test_few_tasks_do_not_compare():
    assert answer_outliers(learned_of([[1.0], [9.0]])).value == "Too few tasks"


def test_what_the_model_found_is_believed():
    own = np.zeros((5, 2))
    own[1], own[3] = 1.0, 4.0
    settings = {"own_coef_": own, "outlier_strength_": 2.0}
    learned = learned_of(np.ones((5, 2)), None, list("abcde"), **settings)
    learned.model.outlier_tasks_ = np.array(["b", "d"])
    answer = answer_outliers(learned)
    assert answer.value == "2 of 5 tasks"
    assert answer.sentence.endswith("d differs most.")
    assert answer.numbers == {"found": "b, d", "count": 2, "strength": 2.0}


def test_a_model_that_found_none_says_so():
    learned = learned_of(np.ones((5, 2)), outlier_tasks_=np.array([]))
    assert answer_outliers(learned).value == "All belong"
