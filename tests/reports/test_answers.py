"""The five answers: what the model, a search, an audit and rows say, and its limits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    load,
    report,
    save,
)
from priormtl.audits import benefit_of_search
from priormtl.estimators import SearchSummary, summarize_model
from priormtl.estimators.summary import summarize_search
from priormtl.reports.answers import (
    answer_benefit,
    answer_certificate,
    answer_features,
    answer_outliers,
    answer_quality,
)
from priormtl.reports.model import FittedModel, Scores, score_training
from priormtl.reports.tables import (
    cut_block,
    feature_table,
    search_table,
    sign_agreement,
)
from shown_models import (
    audit_of,
    drawn_rows,
    fitted_of,
    model_of,
    resolved,
    tuned_model,
)


def searched(search):
    """The tuned model, as if it came from this search."""
    fitted = FittedModel.read(tuned_model())
    return replace(fitted, summary=replace(fitted.summary, search=search))


# How good is it?


def test_held_out_scores_come_first():
    model = tuned_model()
    fitted = FittedModel.read(model)
    answer = answer_quality(fitted, score_training(fitted))
    _, y, _, _ = drawn_rows()
    share = 1 - -model.best_score_ / y.var()
    assert answer.numbers["cross_validated"] == pytest.approx(-model.best_score_)
    assert answer.numbers["held_out_variance_explained"] == pytest.approx(share)
    assert answer.value == f"{100 * share:.0f} % explained"
    tried = len(model.cv_results_["params"])
    assert f"best of {tried} candidates" in answer.note


def test_a_loaded_model_is_compared_with_no_features(tmp_path):
    save(tuned_model(), tmp_path / "m.model")
    model = load(tmp_path / "m.model")
    whole, answer = (
        answer_quality(FittedModel.read(one), None) for one in (tuned_model(), model)
    )
    assert answer.value == whole.value
    model.fitted_ = replace(model.fitted_, target_variance=None)
    answer = answer_quality(FittedModel.read(model), None)
    _, y, task, _ = drawn_rows()
    means = pd.Series(y).groupby(task).transform("mean")
    share = 1 - -model.best_score_ / np.mean((y - means) ** 2)
    assert answer.numbers["below_intercepts"] == pytest.approx(share, abs=0.05)
    assert answer.value.endswith("less error")
    model.lams = [1.0, 2.0]  # these need not reach as far
    answer = answer_quality(FittedModel.read(model), None)
    assert answer.value.startswith("Mean squared error")


def test_rows_are_judged_where_there_was_no_search():
    fitted = searched(None)
    scores = score_training(fitted)
    answer = answer_quality(fitted, scores)
    assert answer.numbers["rows_score"] == scores.overall
    assert answer.value.startswith("R² 0.")
    assert "optimistic" in answer.note


def test_nothing_known_is_said():
    assert answer_quality(fitted_of([[1.0]]), None).value == "Not measured"


def test_scores_of_tasks_alone_give_the_median_task():
    fitted = fitted_of([[1.0]] * 3, task_r2_=[0.1, 0.4, 0.6], task_weight_=[1, 1, 1])
    answer = answer_quality(fitted, score_training(fitted))
    assert answer.value == "R² 0.4 in the median task"


def test_scores_of_tasks_with_few_rows_are_not_told():
    rows, by_task = np.array([2.0, 12.0, 30.0]), np.array([-40.0, 0.2, 0.4])
    scores = Scores("R²", "new rows", rows, by_task, 0.3)
    sentence = answer_quality(fitted_of(np.ones((3, 1))), scores).sentence
    assert "from 0.2 to 0.4 across the 2 tasks with at least 10 rows" in sentence


def test_rows_that_were_given_come_before_the_search():
    model, (X, y, task, _) = tuned_model(), drawn_rows()
    fitted = FittedModel.read(model)
    given = report(model, X, y, task=task)
    answer = given.content.findings[0]
    assert answer.value.startswith("R² ")
    assert answer.value.endswith("on the given rows")
    assert answer.sentence.startswith("On the given rows")
    held_out = answer_quality(fitted, None)
    assert held_out.sentence in answer.sentence
    assert dict(held_out.numbers).items() <= dict(answer.numbers).items()


# Which features matter?


def test_features_have_the_numbers_of_the_model():
    model = tuned_model()
    table = feature_table(FittedModel.read(model))
    place = [model.feature_names_in_.tolist().index(name) for name in table["feature"]]
    coef = model.coef_[:, place]
    assert table["norm"] == pytest.approx(np.linalg.norm(coef, axis=0))
    assert table["mean"] == pytest.approx(coef.mean(axis=0))
    assert np.array_equal(table["min"], coef.min(axis=0))
    assert np.array_equal(table["max"], coef.max(axis=0))
    assert np.all(np.diff(table["size"]) <= 0)


def test_ties_stay_in_order():
    table = feature_table(fitted_of([[0.0, 1.0, 0.0, 1.0]]))
    assert table["feature"] == ("x1", "x3", "x0", "x2")


def test_agreement_counts_only_tasks_that_use_a_feature():
    coef = np.array([[1.0, 0.0, 0.0], [-2.0, 3.0, 0.0], [5.0, 1.0, 0.0]])
    assert sign_agreement(coef) == pytest.approx([2 / 3, 1.0, np.nan], nan_ok=True)


def test_answer_names_the_foremost():
    answer = answer_features(fitted_of([[0.0, 3.0, -1.0]], ["a", "b", "c"]))
    assert answer.value == "2 of 3 features"
    assert answer.sentence.startswith(
        "“b” has the largest coefficients, followed by c."
    )
    assert answer.numbers["selected"] == 2


def test_curves_belong_to_their_columns():
    names = ["age", "age~1", "age~2", "hour~1", "hour~2", "sex"]
    coef = [[1.0, 2.0, 2.0, 3.0, 4.0, 0.5], [1.0, 2.0, 2.0, 0.0, 0.0, 0.5]]
    prior = resolved(FeaturePrior.smooth(), 6, names)
    known = {"feature_scale_": np.ones(6), "feature_prior_": prior}
    fitted = fitted_of(coef, names, **known, standardize=True)
    answer, table = answer_features(fitted), feature_table(fitted)
    assert (answer.value, answer.numbers["top"]) == (
        "3 of 3 features",
        "hour, age, sex",
    )
    assert table["feature"] == ("hour", "age", "sex")
    assert table["size"] == pytest.approx([5.0, np.sqrt(18.0), np.sqrt(0.5)])
    assert table["curve"] == pytest.approx([1.0, 8.0 / 9.0, 0.0])
    assert table["max"].tolist() == [5.0, 1.0, 0.5]
    assert cut_block(fitted, np.arange(2), [table]).values[0].tolist() == [5.0, 0.0]


def test_an_empty_model_says_so():
    answer = answer_features(fitted_of(np.zeros((3, 2))))
    assert answer.value == "None"
    assert "predicts its intercepts" in answer.sentence


# Did the prior help?


def test_an_audit_is_believed():
    answer = answer_benefit(FittedModel.read(tuned_model()), audit_of())
    assert answer.value == "Helped"
    assert "by 12 %. 1 relation disagrees" in answer.sentence
    assert answer.numbers["change"] == -0.12
    assert answer.note == "Three times five folds."


def test_a_model_without_the_prior_is_compared_on_given_rows():
    X, y, task, _ = drawn_rows()
    prior = FeaturePrior.near({0: 50.0})
    model = MultiTaskRegressor(theta=10.0, feature_prior=prior).fit(X, y, task=task)
    plain = MultiTaskRegressor().fit(X, y, task=task)
    made = report(model, X, y, task=task, without=plain, audit=audit_of())
    answer = made.content.finding("prior")
    losses = [(one.predict(X, task=task) - y) ** 2 for one in (model, plain)]
    mine, other = np.sqrt(np.mean(losses, axis=1))
    assert answer.value == f"Error {100 * (mine / other - 1):.0f} % larger"
    assert answer.numbers["error"] == pytest.approx(mine)
    assert answer.numbers["without"] == pytest.approx(other)
    assert "1 of its" in answer.sentence
    # The interval beside that of a bootstrap of rows.
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(y), (4000, len(y)))
    means = np.array(losses)[:, rows].mean(axis=2)
    low, high = np.quantile(np.sqrt(means[0] / means[1]), [0.025, 0.975])
    half = (high - low) / 2
    assert answer.numbers["low"] == pytest.approx(low, abs=0.3 * half)
    assert answer.numbers["high"] == pytest.approx(high, abs=0.3 * half)


def test_the_same_model_makes_no_difference():
    X, y, task, _ = drawn_rows()
    model = MultiTaskRegressor().fit(X, y, task=task)
    answer = report(model, X, y, task=task, without=model).content.finding("prior")
    assert answer.value == "No clear difference"
    with pytest.raises(ValueError, match="give X and y"):
        report(model, without=model)


def test_classes_are_compared_by_the_share_of_wrong_ones():
    X, y, task, _ = drawn_rows()
    classes = np.where(y > np.median(y), "high", "low")
    model = MultiTaskClassifier(lam=0.1).fit(X, classes, task=task)
    other = MultiTaskClassifier(lam=1e6).fit(X, classes, task=task)
    made = report(model, X, classes, task=task, without=other)
    numbers = made.content.finding("prior").numbers
    assert numbers["error"] == np.mean(model.predict(X, task=task) != classes)
    assert numbers["without"] == np.mean(other.predict(X, task=task) != classes)


def test_an_audit_tells_why_it_knows_nothing():
    audit = audit_of(helped=None, relations=(), disagreeing=(), reason="No rows.")
    answer = answer_benefit(fitted_of(np.ones((3, 2))), audit)
    assert answer.sentence == "No rows."


def test_the_search_answers_for_both_priors():
    model = tuned_model()
    fitted = FittedModel.read(model)
    search = fitted.summary.search
    answer = answer_benefit(fitted, None)
    found = benefit_of_search(search, "theta")
    assert answer.numbers["theta_change"] == found.change
    assert answer.numbers["epsilon_low"] == benefit_of_search(search, "epsilon").low
    assert "favours the prior" in answer.note


@pytest.mark.parametrize(
    ("gains", "value"),
    [
        ((1.0, 1.0), "Helped"),
        ((0.0, 1.0), "Task prior helped"),
        ((0.0, 0.0), "No clear difference"),
    ],
)
def test_who_helped_is_named(gains, value):
    theta, epsilon = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=float).T
    noise = 0.01 * np.random.default_rng(1).normal(size=(4, 6))
    scores = (theta * gains[0] + epsilon * gains[1])[:, None] + noise
    strengths = {"theta": theta, "epsilon": epsilon, "lam": np.ones(4)}
    search = SearchSummary("score", False, strengths, scores, 3)
    assert answer_benefit(searched(search), None).value == value


def test_no_prior_is_said():
    fitted = fitted_of(np.ones((3, 2)), task_prior=None)
    assert answer_benefit(fitted, None).value == "No prior"


def test_a_single_fit_cannot_tell():
    answer = answer_benefit(fitted_of(np.ones((3, 2))), None)
    assert answer.value == "Not measured"
    assert "audit_prior" in answer.note


def test_a_search_that_always_had_the_prior_cannot_tell():
    strengths = {"theta": np.array([1.0, 2.0]), "epsilon": np.array([1.0, 1.0])}
    search = SearchSummary("score", False, strengths, np.ones((2, 3)), 0)
    answer = answer_benefit(searched(search), None)
    assert "did not try theta = 0 or epsilon = 0" in answer.sentence


def search_of(scores, thetas, *, is_error=False):
    strengths = {"theta": np.array(thetas), "lam": np.ones(len(thetas))}
    scores = np.array(scores)
    best = int(scores.mean(1).argmax())
    return SearchSummary("score", is_error, strengths, scores, best)


def test_scores_are_those_of_the_model():
    model = tuned_model()
    search = summarize_model(model).search
    assert search.means == pytest.approx(-model.cv_results_["mean_test_score"])
    assert search.means[search.best] == pytest.approx(-model.best_score_)
    table = search_table(search)
    assert np.all(np.diff(table["score"]) >= 0)
    chosen = table["chosen"].index("yes")
    assert table["lam"][chosen] == model.lam_
    order = np.argsort(search.means, kind="stable")
    assert table["sd"] == pytest.approx(model.cv_results_["std_test_score"][order])


def test_models_without_a_search_have_none():
    assert summarize_model(model_of([[1.0]])).search is None


def test_the_best_without_a_prior_gains_nothing():
    found = benefit_of_search(search_of([[3.0, 4.0], [1.0, 1.0]], [0.0, 1.0]))
    assert (found.change, found.low, found.high) == (0.0, 0.0, 0.0)
    assert found.sentence.startswith("The best candidate has theta = 0")


@pytest.mark.parametrize(
    "search",
    [
        search_of([[1.0, 2.0], [2.0, 3.0]], [0.1, 1.0]),
        search_of([[1.0], [2.0]], [0.0, 1.0]),
        search_of([[np.nan, 2.0], [1.0, np.nan]], [0.0, 1.0]),
    ],
)
def test_nothing_to_compare(search):
    assert benefit_of_search(search, "theta") is None
    assert benefit_of_search(search, "epsilon") is None


@pytest.mark.parametrize(
    ("scoring", "words"),
    [("neg_mean_absolute_error", "mean absolute error"), ("r2", "r2")],
)
def test_other_scores_are_named(scoring, words):
    search = summarize_search(replace(tuned_model().fitted_.search, scoring=scoring))
    assert search.metric == words
    assert search.is_error == scoring.startswith("neg_")


def test_further_strengths_have_their_column():
    results = dict(tuned_model().cv_results_)
    mask = np.arange(len(results["params"])) % 2 == 0
    results["param_outlier_strength"] = np.ma.MaskedArray(np.ones(len(mask)), mask)
    search = replace(tuned_model().fitted_.search)
    search.__dict__["table"] = results
    column = search_table(summarize_search(search))["outlier_strength"]
    assert np.isnan(column).sum() == mask.sum()


# Are there outlier tasks?


def spread(m=20, far=()):
    coef = 1 + 0.1 * np.random.default_rng(0).normal(size=(m, 5))
    for i, size in far:
        coef[i] += size
    return coef


def test_effects_that_are_certain_are_told_with_their_intervals():
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(12), 20), rng.normal(size=(240, 1))
    y = X[:, 0] + 3.0 * (task == 4) + 0.5 * rng.normal(size=240)
    settings = {"ties": "adaptive", "fit_intercept": "tied", "task_prior": "mean"}
    fitted = FittedModel.read(MultiTaskRegressor(0.0, **settings).fit(X, y, task=task))
    answer = answer_outliers(fitted)
    assert answer.question == "Which tasks stand out?"
    assert answer.numbers["far"].startswith("4")
    one = fitted.summary.tasks[4]
    assert f"4 by {one.lower:.3g} to {one.upper:.3g}" in answer.sentence


def test_tasks_without_errors_are_not_judged():
    assert answer_outliers(fitted_of(spread())).value == "Not tested"


def test_what_the_model_found_is_believed():
    own = np.zeros((5, 2))
    own[1], own[3] = 1.0, 4.0
    settings = {"own_coef_": own, "outlier_strength_": 2.0}
    settings["outlier_tasks_"] = np.array(["b", "d"])
    fitted = fitted_of(np.ones((5, 2)), None, list("abcde"), **settings)
    answer = answer_outliers(fitted)
    assert answer.value == "2 of 5 tasks"
    assert answer.sentence.endswith("d deviates most.")
    assert answer.numbers == {"found": "b, d", "count": 2, "strength": 2.0}


def test_a_model_that_found_none_says_so():
    fitted = fitted_of(np.ones((5, 2)), outlier_tasks_=np.array([]))
    assert answer_outliers(fitted).value == "None found"


# Did the fit converge?


def answer(objective, gap):
    return answer_certificate(fitted_of([[1.0]], objective_=objective, dual_gap_=gap))


def test_the_certificate_is_that_of_the_model():
    model = tuned_model()
    numbers = answer_certificate(FittedModel.read(model)).numbers
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
        (0.0, 1.0, "No"),
        (10.0, 1.0, "No"),
    ],
)
def test_accuracy_is_counted_in_digits(objective, gap, value):
    assert answer(objective, gap).value == value


def test_a_loose_fit_tells_the_way_out():
    assert "raise max_iter" in answer(1.0, 0.5).note


def test_methods_without_a_certificate_say_so():
    fitted = fitted_of([[1.0]], dual_gap_=None)
    assert answer_certificate(fitted).value == "No certificate"
