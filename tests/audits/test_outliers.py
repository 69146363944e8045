"""Audits of models with outlier tasks are about the shared component."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from paper_data import PAPER
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    audit_prior,
    summarize,
)
from priormtl.audits.refits import downweight_tasks
from priormtl.data import from_columns, from_labels, pooled_scale, summarize_tasks

WRONG = "x5 ~ x6"
PRIOR = FeaturePrior.similar([(0, 1), (2, 3), (4, 5), (5, 6)])
SETTINGS: dict[str, Any] = {
    "lam": 2.0,
    "theta": 1.0,
    "epsilon": 30.0,
    "task_prior": "mean",
    "outlier_tasks": True,
}


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    task: np.ndarray


def plant(seed, m=10):
    """Pairs of features alike in all tasks but the fourth, which is an outlier."""
    rng = np.random.default_rng(seed)
    pairs = np.array([1.0, -1.5, 2.0, 0.5])
    coef = np.repeat(pairs + 0.1 * rng.normal(size=(m, 4)), 2, axis=1)
    coef[3] = 4.0 * rng.normal(size=8)
    task = np.repeat(np.arange(m), 40)
    X = rng.normal(size=(len(task), 8))
    X /= pooled_scale(summarize(X, np.zeros(len(task)), task=task))
    return Rows(X, np.sum(X * coef[task], axis=1) + rng.normal(size=len(task)), task)


def fit(rows, *, kind=MultiTaskRegressor, prior=PRIOR, **settings):
    model = kind(feature_prior=prior, **SETTINGS | settings)
    return model.fit(rows.X, rows.y, task=rows.task)


@cache
def fit_first():
    """Rows and a model that several tests look at."""
    return plant(0), fit(plant(0))


def verdicts(audit):
    return {r.relation: r.verdict for r in audit.relations}


@pytest.mark.parametrize("standardize", [False, True])
def test_a_wrong_relation_is_blamed_and_outliers_bring_no_blame(standardize):
    p = []
    for seed in range(4):
        rows = plant(seed)
        units = 10.0 ** np.arange(-4, 4) if standardize else 1.0
        model = fit(rows._replace(X=rows.X * units), standardize=standardize)
        assert model.outlier_tasks_.tolist() == [3]
        first, *others = audit_prior(model).relations[:4]
        assert (first.relation, first.verdict) == (WRONG, "disagrees")
        p += [relation.p_value for relation in others]
    assert np.mean(np.array(p) < 0.05) < 0.15
    assert 0.3 < np.median(p) < 0.8


def test_without_own_parts_an_outlier_spoils_right_relations():
    found = verdicts(audit_prior(fit(plant(0), outlier_tasks=False)))
    assert found["x0 ~ x1"] == "disagrees"


def test_so_it_is_for_classes():
    rows = plant(1)
    rows = rows._replace(y=np.where(rows.y > 0, "yes", "no"))
    model = fit(rows, kind=MultiTaskClassifier)
    audit = audit_prior(model, rows.X, rows.y, task=rows.task, cv=None)
    found = verdicts(audit)
    assert model.outlier_tasks_.tolist() == [3]
    assert found.pop(WRONG) == "disagrees"
    assert "disagrees" not in found.values()


def test_sensitivity_is_the_derivative_of_the_objective_with_own_parts():
    rows, step = plant(2), 1e-3
    settings = {"outlier_strength": fit(rows).outlier_strength_, "tol": 1e-11}

    def model(factor):
        prior = FeaturePrior.similar([(5, 6)], weight=factor)
        return fit(rows, prior=prior, **settings)

    slope = model(np.exp(step)).objective_ - model(np.exp(-step)).objective_
    (row, *_) = audit_prior(model(1.0)).relations
    assert row.relation == WRONG
    assert row.sensitivity == pytest.approx(slope / (2 * step), rel=1e-4)


def test_without_outliers_the_audit_is_the_plain_one():
    rows = plant(0)
    endless = audit_prior(fit(rows, outlier_strength=np.inf))
    plain = audit_prior(fit(rows, outlier_tasks=False))
    for a, b in zip(endless.relations, plain.relations, strict=True):
        assert a == b


def test_rows_and_statistics_say_the_same():
    rows, model = fit_first()
    by_rows = audit_prior(model, rows.X, rows.y, task=rows.task, cv=None)
    for a, b in zip(by_rows.relations, audit_prior(model).relations, strict=True):
        assert a.relation == b.relation
        assert a.p_value == pytest.approx(b.p_value, rel=1e-6, nan_ok=True)


def test_held_out_errors_are_those_of_sums():
    rows, model = fit_first()
    held_out = {"task": rows.task, "cv": 3, "n_repeats": 1}
    own, plain = (
        audit_prior(one, rows.X, rows.y, **held_out)
        for one in (model, fit(rows, outlier_tasks=False))
    )
    assert np.all(own.helped.with_prior < 0.8 * plain.helped.with_prior)


def test_searches_that_chose_outliers_are_audited():
    rows = plant(0)
    strengths = {"lams": [2.0, 1.0], "thetas": [0.0, 1.0], "epsilons": [1.0, 30.0]}
    model = MultiTaskRegressorCV(
        feature_prior=PRIOR,
        outlier_tasks=True,
        **PAPER | {"task_prior": "mean"},
        **strengths,
    )
    model.fit(rows.X, rows.y, task=rows.task)
    assert np.isfinite(model.outlier_strength_)
    assert verdicts(audit_prior(model))[WRONG] == "disagrees"


def test_downweighting_rows_and_statistics_agree():
    rows = plant(0)
    weight = np.where(rows.task == 3, 1e-9, 1.0)
    expected = summarize(rows.X, rows.y, task=rows.task, sample_weight=weight)
    whole = summarize(rows.X, rows.y, task=rows.task)
    lighter = downweight_tasks(from_labels(rows.X, rows.y, rows.task), [3])
    for found in (downweight_tasks(whole, [3]), summarize_tasks(lighter)):
        for name in ("weight", "x_mean", "xx", "xy", "yy"):
            a, b = getattr(found, name), getattr(expected, name)
            assert np.allclose(a, b, rtol=1e-9, atol=1e-12)


def test_tasks_of_shared_rows_are_downweighted_one_by_one():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 3))
    data = from_columns(X, Y, None, (0, 1, 2), None)
    by_rows = summarize_tasks(downweight_tasks(data, [1]))
    whole = summarize_tasks(data)
    by_statistics = downweight_tasks(whole, [1])
    assert np.allclose(by_rows.xx, by_statistics.xx)
    streamed = downweight_tasks(replace(whole, xx=whole.mapped_gram()), [1])
    assert np.allclose(by_rows.xx, streamed.xx)
    assert np.allclose(by_rows.weight, [9.0, 9.0 * 1e-9, 9.0])
