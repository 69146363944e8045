"""Benefit: an audit's answer, else the search's own, else why there is none."""

import numpy as np
import pytest

from priormtl.reports.benefit import answer_benefit
from priormtl.reports.learned import Learned
from priormtl.reports.searches import Search, compare_without, read_search
from reported_models import audit_of, learned_of, tuned_model


def test_an_audit_is_believed():
    answer = answer_benefit(Learned.read(tuned_model()), None, audit_of())
    assert answer.value == "Helped"
    assert "by 12 %. 1 relation disagrees" in answer.sentence
    assert answer.numbers["change"] == -0.12
    assert answer.note == "Three times five folds."


def test_an_audit_tells_why_it_knows_nothing():
    audit = audit_of(helped=None, relations=(), disagreeing=(), reason="No rows.")
    answer = answer_benefit(learned_of(np.ones((3, 2))), None, audit)
    assert answer.sentence == "No rows."


def test_the_search_answers_for_both_priors():
    model = tuned_model()
    search = read_search(model)
    answer = answer_benefit(Learned.read(model), search, None)
    pair = compare_without(search, "theta")
    assert answer.numbers["theta_gain"] == pair.gain
    assert answer.numbers["epsilon_low"] == compare_without(search, "epsilon").low
    assert "the search's own scores" in answer.note


@pytest.mark.parametrize(
    ("gains", "value"),
    [
        ((1.0, 1.0), "Helped"),
        ((0.0, 1.0), "Ties between tasks helped"),
        ((0.0, 0.0), "No clear difference"),
    ],
)
def test_who_helped_is_named(gains, value):
    theta, epsilon = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=float).T
    noise = 0.01 * np.random.default_rng(1).normal(size=(4, 6))
    scores = (theta * gains[0] + epsilon * gains[1])[:, None] + noise
    search = Search("score", False, {"theta": theta, "epsilon": epsilon}, scores, 3)
    learned = Learned.read(tuned_model())
    assert answer_benefit(learned, search, None).value == value


def test_no_prior_is_said():
    learned = learned_of(np.ones((3, 2)), task_prior=None)
    assert answer_benefit(learned, None, None).value == "No prior"


def test_a_single_fit_cannot_tell():
    answer = answer_benefit(learned_of(np.ones((3, 2))), None, None)
    assert answer.value == "Not measured"
    assert "audit_prior" in answer.note


def test_a_search_that_always_had_the_prior_cannot_tell():
    strengths = {"theta": np.array([1.0, 2.0]), "epsilon": np.array([1.0, 1.0])}
    search = Search("score", False, strengths, np.ones((2, 3)), 0)
    answer = answer_benefit(Learned.read(tuned_model()), search, None)
    assert "did not try theta = 0 or epsilon = 0" in answer.sentence
