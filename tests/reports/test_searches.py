"""Searches: the model's own scores, and gains that are paired over splits."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from priormtl.reports.searches import (
    Search,
    compare_without,
    read_search,
    search_table,
)
from reported_models import model_of, tuned_model


def search_of(scores, thetas, *, is_error=False):
    strengths = {"theta": np.array(thetas)}
    scores = np.array(scores)
    return Search("score", is_error, strengths, scores, int(scores.mean(1).argmax()))


def test_scores_are_those_of_the_model():
    model = tuned_model()
    search = read_search(model)
    assert search.means == pytest.approx(-model.cv_results_["mean_test_score"])
    assert search.means[search.best] == pytest.approx(-model.best_score_)
    table = search_table(search)
    assert np.all(np.diff(table["score"]) >= 0)
    chosen = table["chosen"].index("yes")
    assert table["lam"][chosen] == model.lam_
    order = np.argsort(search.means, kind="stable")
    assert table["sd"] == pytest.approx(model.cv_results_["std_test_score"][order])


def test_models_without_a_search_have_none():
    assert read_search(model_of([[1.0]])) is None


def test_interval_is_that_of_the_paired_t_test():
    rng = np.random.default_rng(0)
    scores = rng.normal(loc=[[0.0], [3.0]], size=(2, 8))
    pair = compare_without(search_of(scores, [0.0, 1.0]), "theta")
    interval = ttest_rel(scores[1], scores[0]).confidence_interval(0.95)
    assert (pair.low, pair.high) == pytest.approx((interval.low, interval.high))
    assert pair.gain == pytest.approx(np.mean(scores[1] - scores[0]))


def test_smaller_errors_are_gains():
    errors = [[2.0, 2.1, 2.2], [1.0, 1.2, 1.1]]
    pair = compare_without(search_of(errors, [0.0, 1.0], is_error=True), "theta")
    assert pair.gain == pytest.approx(1.0)
    assert pair.verdict == "helped"


def test_the_best_without_a_prior_gains_nothing():
    pair = compare_without(search_of([[3.0, 4.0], [1.0, 1.0]], [0.0, 1.0]), "theta")
    assert (pair.gain, pair.low, pair.high) == (0.0, 0.0, 0.0)
    assert pair.verdict == "no clear difference"


@pytest.mark.parametrize(
    "search",
    [
        search_of([[1.0, 2.0], [2.0, 3.0]], [0.1, 1.0]),
        search_of([[1.0], [2.0]], [0.0, 1.0]),
        search_of([[np.nan, 2.0], [1.0, np.nan]], [0.0, 1.0]),
    ],
)
def test_nothing_to_compare(search):
    assert compare_without(search, "theta") is None
    assert compare_without(search, "epsilon") is None


@pytest.mark.parametrize(
    ("scoring", "words"),
    [("neg_mean_absolute_error", "mean absolute error"), ("r2", "r2")],
)
def test_other_scores_are_named(scoring, words):
    model = tuned_model()
    results = model.cv_results_
    named = model_of(
        model.coef_, cv_results_=results, n_splits_=3, best_index_=0, scoring=scoring
    )
    search = read_search(named)
    assert search.metric == words
    assert search.is_error == scoring.startswith("neg_")


def test_further_strengths_have_their_column():
    results = dict(tuned_model().cv_results_)
    mask = np.arange(len(results["params"])) % 2 == 0
    results["param_outlier_strength"] = np.ma.MaskedArray(np.ones(len(mask)), mask)
    model = model_of([[1.0]], cv_results_=results, n_splits_=3, best_index_=0)
    model.scoring = None
    column = search_table(read_search(model))["outlier_strength"]
    assert np.isnan(column).sum() == mask.sum()
