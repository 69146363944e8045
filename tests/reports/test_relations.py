"""Relations: 0 where they hold, 1 where they are as wrong as can be."""

import numpy as np
import pytest

from priormtl import FeaturePrior
from priormtl.reports.learned import Learned
from priormtl.reports.relations import relation_table
from reported_models import audit_of, learned_of, resolved, tuned_model


def table_of(prior, coef, **attributes):
    d = np.shape(coef)[1]
    learned = learned_of(coef, feature_prior_=resolved(prior, d), **attributes)
    return relation_table(learned, None)


def test_violation_is_between_holding_and_contradicting():
    prior = FeaturePrior.similar([(0, 1), (0, 2)]) + FeaturePrior.opposite([(0, 2)])
    table = table_of(prior, [[1.0, 1.0, -1.0], [2.0, 2.0, -2.0]])
    assert table["relation"] == ("x0 ~ x2", "x0 ~ x1", "x0 ~ −x2")
    assert table["violation_after"].tolist() == [1.0, 0.0, 0.0]
    assert table["share"].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_violation_does_not_depend_on_units(unit):
    prior = FeaturePrior.similar([(0, 1)])
    table = table_of(prior, unit * np.array([[1.0, 3.0]]))
    assert table["violation_after"] == pytest.approx([2.0 / np.sqrt(20.0)])


def test_own_parts_of_outlier_tasks_violate_nothing():
    prior = FeaturePrior.similar([(0, 1)])
    shared = np.array([[1.0, 1.0], [2.0, 2.0]])
    table = table_of(prior, [[1.0, 1.0], [2.0, -7.0]], shared_coef_=shared)
    assert table["violation_after"].tolist() == [0.0]


def test_shares_are_those_of_the_penalty():
    model = tuned_model()
    table = relation_table(Learned.read(model), None)
    assert table["share"].sum() == pytest.approx(1.0)
    D = np.vstack([part.matrix(6).toarray() for part in model.feature_prior_.parts])
    sizes = np.linalg.norm(D @ model.coef_.T, axis=1) ** 2
    assert np.sort(table["share"]) == pytest.approx(np.sort(sizes / sizes.sum()))


def test_standardised_fits_compare_standardised_coefficients():
    prior = FeaturePrior.similar([(0, 1)])
    scales = {"standardize": True, "feature_scale_": np.array([1.0, 2.0])}
    assert table_of(prior, [[2.0, 1.0]], **scales)["violation_after"] == [0.0]


def test_rows_of_a_matrix_are_spelled_as_sums():
    table = table_of(
        FeaturePrior.from_matrix([[1, -2, 0.5], [0, 0, 0]]), np.ones((1, 3))
    )
    assert "x0 − 2 x1 + 0.5 x2 ~ 0" in table["relation"]


def test_zero_coefficients_contradict_nothing():
    table = table_of(FeaturePrior.similar([(0, 1)]), np.zeros((2, 2)))
    assert table["violation_after"].tolist() == [0.0]
    assert table["share"].tolist() == [0.0]


def test_without_relations_there_is_no_table():
    assert relation_table(learned_of([[1.0]]), None) is None
    assert table_of(FeaturePrior(()), [[1.0]]) is None


def test_an_audit_brings_its_own_relations():
    table = relation_table(learned_of([[1.0]]), audit_of())
    assert table["relation"] == ("age ~ sleep",)
    assert table["violation_before"].tolist() == [0.9]
    assert table["verdict"] == ("disagrees",)
