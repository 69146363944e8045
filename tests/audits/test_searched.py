import numpy as np
import pytest

from planted_relations import plant
from priormtl import (
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
    audit_prior,
    summarize,
)
from priormtl.audits.searched import benefit_of_search


def fitted(planted, thetas, kind=MultiTaskRegressorCV, **settings):
    model = kind(
        lams=[2.0],
        thetas=thetas,
        epsilons=[1.0],
        feature_prior=planted.prior,
        **settings,
    )
    return model.fit(planted.X, planted.y, task=planted.task)


def test_scores_of_the_search_are_compared():
    planted = plant(0)
    model = fitted(planted, [1.0, 0.0])
    model.best_index_ = 0
    found = benefit_of_search(model)
    results = model.cv_results_
    zero = int(np.flatnonzero(results["param_theta"].data == 0)[0])
    scores = [results[f"split{k}_test_score"] for k in range(5)]
    assert found.with_prior.tolist() == [-s[model.best_index_] for s in scores]
    assert found.without_prior.tolist() == [-s[zero] for s in scores]
    assert found.by_task == ()
    assert found.metric == "mean squared error"


def test_a_search_without_zero_tells_nothing():
    assert benefit_of_search(fitted(plant(1), [1.0])) is None


def test_audits_use_it_where_there_are_no_rows():
    planted = plant(0)
    parts = [
        summarize(planted.X[k::3], planted.y[k::3], planted.task[k::3])
        for k in range(3)
    ]
    model = MultiTaskRegressorCV(
        [2.0], [0.0, 1.0], [1.0], feature_prior=planted.prior
    ).fit_statistics(parts)
    audit = audit_prior(model)
    assert (audit.helped is None) == (model.theta_ == 0)
    assert audit.relations[0].relation == planted.wrong
    untried = fitted(planted, [1.0])
    assert "0 among thetas" in audit_prior(untried).reason


@pytest.mark.parametrize(
    ("scoring", "metric"),
    [(None, "distance of the AUC from 1"), ("accuracy", "accuracy")],
)
def test_scores_become_errors(scoring, metric):
    planted = plant(2, n=40, classification=True)
    model = fitted(planted, [0.0, 1.0], MultiTaskClassifierCV, scoring=scoring)
    model.best_index_ = 1
    found = benefit_of_search(model)
    assert metric in found.metric
    best = -found.with_prior if scoring else 1 - found.with_prior
    assert best.mean() == pytest.approx(model.cv_results_["mean_test_score"][1])
