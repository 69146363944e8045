"""Certificates: the gap of the model, in digits that are proven."""

import numpy as np
import pytest

from priormtl.reports.certificates import answer_certificate
from reported_models import model_of, tuned_model


def answer(objective, gap):
    return answer_certificate(model_of([[1.0]], objective_=objective, dual_gap_=gap))


def test_numbers_are_those_of_the_model():
    model = tuned_model()
    numbers = answer_certificate(model).numbers
    assert numbers["objective"] == model.objective_
    assert numbers["dual_gap"] == model.dual_gap_
    assert numbers["iterations"] == model.n_iter_
    assert numbers["relative_gap"] == model.dual_gap_ / model.objective_


@pytest.mark.parametrize(
    ("objective", "gap", "value"),
    [
        (10.0, 1e-5, "Yes, to 6 digits"),
        (1e200, 1e190, "Yes, to 10 digits"),
        (10.0, 0.0, "Yes, to 15 digits"),
        (10.0, -1e-20, "Yes, to 15 digits"),
        (0.0, 0.0, "Yes, to 15 digits"),
        (0.0, 1.0, "Not quite"),
        (10.0, 1.0, "Not quite"),
    ],
)
def test_accuracy_is_counted_in_digits(objective, gap, value):
    assert answer(objective, gap).value == value


def test_a_loose_fit_tells_the_way_out():
    assert "raise max_iter" in answer(1.0, 0.5).note


def test_methods_without_a_certificate_say_so():
    class Plain:
        coef_ = np.ones((1, 1))

    assert answer_certificate(Plain()).value == "No certificate"
