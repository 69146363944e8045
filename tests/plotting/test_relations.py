"""Relations as links: all of them, with how far coefficients violate them."""

from types import SimpleNamespace

import numpy as np
import pytest

from plotted_models import fitted, random_coef, related, with_coef
from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.data import pooled_scale
from priormtl.plotting.relations import read_audit, read_fitted, read_prior


def violations(P, prior):
    """Disagreement of links with coefficients P (d, m)."""
    model = with_coef(np.asarray(P, float).T, feature_prior_=prior)
    return [link.disagreement for link in read_fitted(model)]


def test_every_relation_is_a_link():
    links = read_fitted(fitted())
    assert [link.members for link in links] == [
        ("x0", "x1"),
        ("x1", "x2"),
        ("x3", "x4"),
    ]
    assert [link.sign for link in links] == ["similar", "similar", "opposite"]


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e100])
def test_disagreement_has_no_unit(scale):
    prior = FeaturePrior.similar([(0, 1)], weight=3.0)
    same, opposite = [[1.0, 2.0]] * 2, [[1.0, 2.0], [-1.0, -2.0]]
    assert violations(scale * np.array(same), prior) == [0.0]
    assert violations(scale * np.array(opposite), prior) == pytest.approx([1.0])
    alone = np.array([[1.0], [0.0]])
    assert violations(scale * alone, prior) == pytest.approx([np.sqrt(0.5)])


def test_own_parts_of_outlier_tasks_violate_nothing():
    prior = FeaturePrior.similar([(0, 1)])
    model = with_coef(np.array([[1.0, 1.0], [2.0, -7.0]]), feature_prior_=prior)
    model.shared_coef_ = np.array([[1.0, 1.0], [2.0, 2.0]])
    assert [link.disagreement for link in read_fitted(model)] == [0.0]


def test_disagreement_is_between_zero_and_one():
    prior = FeaturePrior.from_matrix(random_coef(20, 6))
    found = np.array(violations(random_coef(6, 3), prior))
    assert ((found >= 0) & (found <= 1)).all()


def test_without_coefficients_nothing_disagrees():
    assert violations(np.zeros((2, 1)), FeaturePrior.similar([(0, 1)])) == [0.0]


def test_the_prior_of_standardised_features_is_judged_on_them():
    X, y, task = related()
    scale = np.array([1.0, 100.0, 1.0, 1.0, 1.0, 1.0])
    prior = FeaturePrior.similar([(0, 1)])
    settings = {"standardize": True, "feature_prior": prior, "theta": 1e6}
    model = MultiTaskRegressor(**settings).fit(X * scale, y, task=task)
    (link,) = read_fitted(model)
    P = model.coef_.T * pooled_scale(model.statistics_)[:, None]
    expected = np.linalg.norm(P[0] - P[1]) / np.sqrt(2.0) / np.linalg.norm(P[:2])
    assert link.disagreement == pytest.approx(expected)
    assert link.disagreement < 0.01


def test_a_prior_alone_has_links_without_disagreement():
    D = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0], [0.0, 0.0, 3.0]])
    prior = FeaturePrior.opposite([("a", 3)], weight=2.0) + FeaturePrior.from_matrix(D)
    links = read_prior(prior)
    assert [link.sign for link in links] == [
        "opposite",
        "similar",
        "combination",
        "combination",
    ]
    assert links[0].members == ("a", "x3")
    assert [len(link.members) for link in links] == [2, 2, 3, 1]
    assert {link.disagreement for link in links} == {None}


def test_a_grid_alone_has_its_neighbours():
    assert len(read_prior(FeaturePrior.grid(3, 4))) == 3 * 3 + 2 * 4


def test_correlations_are_not_known_before_the_fit():
    with pytest.raises(ValueError, match="pass the fitted model"):
        read_prior(FeaturePrior.from_correlation())


@pytest.mark.parametrize("prior", [None, FeaturePrior(())])
def test_no_prior_has_no_links(prior):
    assert read_fitted(with_coef([[1.0]], feature_prior_=prior)) == []


def test_an_audit_gives_what_it_found():
    rows = [
        SimpleNamespace(kind="feature", relation="a ~ b", first="a", second="b",
                        sign="similar", weight=2.0, violation_before=0.7,
                        verdict="disagrees"),
        SimpleNamespace(kind="feature", relation="a + b ~ 0", first=None, second=None,
                        sign="combination", weight=1.0, violation_before=0.1,
                        verdict="agrees"),
        SimpleNamespace(kind="task", relation="t ~ u", first="t", second="u",
                        sign="similar", weight=1.0, violation_before=0.2,
                        verdict="agrees"),
    ]  # fmt: skip
    audit = SimpleNamespace(relations=rows)
    one, other = read_audit(audit, "feature")
    assert (one.members, one.disagreement, one.disagrees) == (("a", "b"), 0.7, True)
    assert (other.members, other.disagrees) == (("a + b ~ 0",), False)
    assert (one.by_name, other.by_name) == (True, False)
    assert [link.members for link in read_audit(audit, "task")] == [("t", "u")]
