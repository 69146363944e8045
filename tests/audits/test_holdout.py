from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

from drawn_tasks import plant_relations
from paper_data import PAPER
from priormtl import (
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    audit_prior,
    summarize,
)
from priormtl.audits.holdout import (
    Holdout,
    benefit_of_search,
    deal_splits,
    hold_out,
    judge_benefit,
)
from priormtl.estimators.summary import summarize_search


def judge(with_prior, without_prior, ratio=0.0):
    a, b = np.array(with_prior, float), np.array(without_prior, float)
    lams = np.ones(len(a)), np.ones(len(a))
    return judge_benefit("error", a, b, lams=lams, test_to_train=ratio, method="m")


def test_without_overlap_it_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, size=(2, 8))
    expected = stats.ttest_rel(a, b)
    found = judge(a, b)
    assert found.p_value == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low / b.mean(), high / b.mean()))


def test_swapping_the_two_turns_the_verdict():
    noise = np.linspace(0, 0.01, 5)
    assert judge(0.9 + noise, np.ones(5)).verdict == "helped"
    assert judge(np.ones(5), 0.9 + noise).verdict == "harmed"
    assert judge(1 + noise - 0.005, np.ones(5)).verdict == "no difference"


def test_sentences():
    found = judge([0.80, 0.90, 0.85, 0.88], [1.0, 1.0, 1.0, 1.0], 0.25)
    assert (
        found.sentence
        == ("The prior lowered the error by 14 % (95 % interval 4.5 to 24 %).")
        == str(found)
    )
    assert "raised the error" in judge([1.2, 1.3, 1.25], [1, 1, 1]).sentence
    assert "by −0.50 %" in judge([0.5, 1.49], [1.0, 1.0]).sentence


def test_what_solvers_leave_open_is_no_difference():
    assert judge([1 + 1e-7] * 4, [1.0] * 4).verdict == "no difference"


def test_one_split_and_perfect_fits():
    assert "One split alone" in judge([0.5], [1.0]).sentence
    assert judge([0.0, 0.0], [0.0, 0.0]).change == 0
    assert judge([1.0, 1.1], [0.0, 0.0]).change > 0


def hold(planted, model, cv=3, n_repeats=1, lams=(2.0,)):
    table = model._read_table(planted.X, planted.y, planted.task, None, reset=True)
    splits, rounds = deal_splits(
        cv,
        table,
        planted.X,
        planted.y,
        by_class=False,
        n_repeats=n_repeats,
        random_state=0,
    )
    return splits, hold_out(model, table, splits, rounds, np.array(lams), chosen=False)


def test_errors_are_those_of_fits_on_the_training_rows():
    planted = plant_relations(0)
    model = MultiTaskRegressor(2.0, 3.0, feature_prior=planted.prior, standardize=True)
    splits, found = hold(planted, model)
    benefit = found.at(2.0)
    for theta, errors in ((3.0, benefit.with_prior), (0.0, benefit.without_prior)):
        model.set_params(theta=theta)
        for split, error in zip(splits, errors, strict=True):
            rows = split.train
            model.fit(planted.X[rows], planted.y[rows], task=planted.task[rows])
            rows = split.test
            predicted = model.predict(planted.X[rows], task=planted.task[rows])
            assert np.mean((predicted - planted.y[rows]) ** 2) == pytest.approx(
                error, rel=1e-3
            )


def test_classes_are_judged_by_log_loss():
    planted = plant_relations(1, n=60, classification=True)
    model = MultiTaskClassifier(2.0, 3.0, feature_prior=planted.prior)
    splits, found = hold(planted, model)
    train, test = splits[0]
    model.fit(planted.X[train], planted.y[train], task=planted.task[train])
    shares = model.predict_proba(planted.X[test], task=planted.task[test])
    expected = log_loss(planted.y[test], shares, labels=["no", "yes"])
    assert found.metric == "log loss"
    assert found.at(2.0).with_prior[0] == pytest.approx(expected, rel=1e-3)


def test_own_lams_are_chosen_on_other_folds_of_the_round():
    # Errors (split, lam): the lam that is best on a split itself is worst elsewhere.
    errors = np.array([[0.0, 5.0], [4.0, 1.0], [4.0, 1.0], [0.0, 9.0], [0.0, 9.0]])
    rounds = np.array([0, 0, 0, 1, 1])
    found = Holdout("e", np.array([1.0, 2.0]), errors, errors, rounds, 0.25, False)
    assert found.at_own().lams_with.tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]


def test_rounds_hold_out_every_row_once():
    planted = plant_relations(3)
    model = MultiTaskRegressor(2.0, 3.0, feature_prior=planted.prior)
    splits, found = hold(planted, model, n_repeats=2)
    assert found.rounds.tolist() == [0, 0, 0, 1, 1, 1]
    for part in (splits[:3], splits[3:]):
        rows = np.concatenate([split.test for split in part])
        assert np.array_equal(np.sort(rows), np.arange(len(planted.y)))


def fitted(planted, thetas, kind=MultiTaskRegressorCV, **settings):
    model = kind(
        lams=[2.0],
        thetas=thetas,
        epsilons=[1.0],
        feature_prior=planted.prior,
        **PAPER,
        **settings,
    )
    return model.fit(planted.X, planted.y, task=planted.task)


def test_scores_of_the_search_are_compared():
    planted = plant_relations(0)
    model = fitted(planted, [1.0, 0.0])
    search = summarize_search(model.fitted_.search)
    found = benefit_of_search(replace(search, best=0))
    results = model.cv_results_
    zero = int(np.flatnonzero(results["param_theta"].data == 0)[0])
    scores = [results[f"split{k}_test_score"] for k in range(5)]
    assert found.with_prior.tolist() == [-s[0] for s in scores]
    assert found.without_prior.tolist() == [-s[zero] for s in scores]
    assert found.metric == "mean squared error"


def test_a_search_without_zero_tells_nothing():
    search = fitted(plant_relations(1), [1.0]).fitted_.search
    assert benefit_of_search(summarize_search(search)) is None


def test_audits_use_it_where_there_are_no_rows():
    planted = plant_relations(0)
    parts = [
        summarize(planted.X[k::3], planted.y[k::3], planted.task[k::3])
        for k in range(3)
    ]
    model = MultiTaskRegressorCV(
        [2.0], [0.0, 1.0], [1.0], feature_prior=planted.prior, **PAPER
    ).fit_statistics(parts)
    audit = audit_prior(model)
    assert (audit.helped is None) == (model.theta_ == 0)
    assert audit.relations[0].relation == planted.wrong
    untried = fitted(planted, [1.0])
    assert "0 among thetas" in audit_prior(untried).reason


@pytest.mark.parametrize(
    ("scoring", "metric"),
    [
        (None, "log loss"),
        ("task_auc", "distance of the AUC from 1"),
        ("accuracy", "accuracy"),
    ],
)
def test_scores_become_errors(scoring, metric):
    planted = plant_relations(2, n=40, classification=True)
    model = fitted(planted, [0.0, 1.0], MultiTaskClassifierCV, scoring=scoring)
    search = replace(summarize_search(model.fitted_.search), best=1)
    found = benefit_of_search(search)
    assert metric in found.metric
    by_area = scoring == "task_auc"
    best = 1 - found.with_prior if by_area else -found.with_prior
    assert best.mean() == pytest.approx(model.cv_results_["mean_test_score"][1])
