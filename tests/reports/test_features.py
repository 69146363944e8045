"""Features: ranked by size, with the model's own numbers."""

import numpy as np
import pytest

from priormtl.reports.features import answer_features, feature_table, sign_agreement
from priormtl.reports.learned import Learned
from reported_models import learned_of, tuned_model


def test_numbers_are_those_of_the_model():
    model = tuned_model()
    table = feature_table(Learned.read(model))
    place = [model.feature_names_in_.tolist().index(name) for name in table["feature"]]
    coef = model.coef_[:, place]
    assert table["norm"] == pytest.approx(np.linalg.norm(coef, axis=0))
    assert table["mean"] == pytest.approx(coef.mean(axis=0))
    assert np.array_equal(table["min"], coef.min(axis=0))
    assert np.array_equal(table["max"], coef.max(axis=0))
    assert np.all(np.diff(table["size"]) <= 0)


def test_ties_stay_in_order():
    table = feature_table(learned_of([[0.0, 1.0, 0.0, 1.0]]))
    assert table["feature"] == ("x1", "x3", "x0", "x2")


def test_agreement_counts_only_tasks_that_use_a_feature():
    coef = np.array([[1.0, 0.0, 0.0], [-2.0, 3.0, 0.0], [5.0, 1.0, 0.0]])
    assert sign_agreement(coef) == pytest.approx([2 / 3, 1.0, np.nan], nan_ok=True)


def test_answer_names_the_foremost():
    answer = answer_features(learned_of([[0.0, 3.0, -1.0]], ["a", "b", "c"]))
    assert answer.value == "2 of 3 features"
    assert answer.sentence.startswith("“b” weighs most, then c.")
    assert answer.numbers["selected"] == 2


def test_an_empty_model_says_so():
    answer = answer_features(learned_of(np.zeros((3, 2))))
    assert answer.value == "None"
    assert "intercepts alone" in answer.sentence
