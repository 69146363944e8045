import numpy as np
import pytest

from planted_relations import plant
from priormtl import FeaturePrior, MultiTaskRegressor, audit_prior
from priormtl.audits import agreement


@pytest.mark.parametrize(
    ("coef", "violation"),
    [((1.0, 1.0), 0.0), ((1.0, -1.0), 1.0), ((1.0, 0.0), 0.5**0.5), ((0.0, 0.0), 0.0)],
)
def test_violations_lie_between_nothing_and_all(coef, violation):
    X = np.vstack([np.eye(2), -np.eye(2)])
    prior = FeaturePrior.similar([(0, 1)])
    model = MultiTaskRegressor(0.0, 0.0, feature_prior=prior).fit(X, X @ coef)
    (row,) = audit_prior(model).relations
    assert row.violation_after == pytest.approx(violation, abs=1e-6)


def test_very_many_features_are_judged_where_they_are_in_use(monkeypatch):
    planted = plant(0)
    model = MultiTaskRegressor(20.0, feature_prior=planted.prior)
    model.fit(planted.X, planted.y, task=planted.task)
    monkeypatch.setattr(agreement, "MOST_FEATURES", 11)  # of 12, some out of use
    part = audit_prior(model).relations
    assert part[0].relation == planted.wrong
    assert part[0].verdict == "disagrees"
    monkeypatch.setattr(agreement, "MOST_FEATURES", 1)
    nothing = audit_prior(model).relations
    assert {r.verdict for r in nothing} == {"cannot be judged"}
    first = [r.violation_before for r in nothing if r.kind == "feature"]
    assert first == sorted(first, reverse=True)


def test_every_column_is_filled_for_ties_too():
    planted = plant(1, m=3)
    model = MultiTaskRegressor(2.0, feature_prior=planted.prior, task_prior="mean")
    model.fit(planted.X, planted.y, task=planted.task)
    ties = [r for r in audit_prior(model).relations if r.kind == "task"]
    assert [sorted(r.relation for r in ties)] == [
        [f"{i} ~ mean of all tasks" for i in range(3)]
    ]
    assert all(0 <= r.violation_after <= 1 for r in ties)
