"""Crossed factors on the estimators: levels with effects of their own."""

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    tabular_model,
)

MIXED = {
    "task_prior": "mean",
    "ties": "adaptive",
    "fit_intercept": "tied",
    "intercept_strength": "adaptive",
}


def pupils(seed=0, n=400, schools=8, teachers=25, classify=False):
    """Pupils of schools, taught by teachers of several schools and about items."""
    rng = np.random.default_rng(seed)
    school, teacher = rng.integers(0, schools, n), rng.integers(0, teachers, n)
    item = rng.integers(0, 12, n)
    table = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "hours": rng.normal(size=n),
            "teacher": [f"t{k}" for k in teacher],
            "item": item,
            "school": [f"s{k}" for k in school],
        }
    )
    y = 2.0 * table["age"] - table["hours"] + rng.normal(size=schools)[school]
    y = y + rng.normal(size=teachers)[teacher] + rng.normal(size=12)[item]
    y = y + rng.normal(size=n)
    return table, np.where(y > 0, "yes", "no") if classify else y.to_numpy()


def joint_optimum(model, table, y, lam, epsilon, s):
    """Least objective over coefficients, intercepts and effects, by Clarabel."""
    labels = model.tasks_.tolist()
    m, codes = len(labels), table["school"].map(labels.index).to_numpy()
    X = table[["age", "hours"]].to_numpy()
    P, b = cp.Variable((m, 2)), cp.Variable(m)
    score = cp.sum(cp.multiply(X, P[codes]), axis=1) + b[codes]
    cost = lam * cp.sum(cp.norm(P, 2, axis=0))
    cost += 0.5 * epsilon * cp.sum_squares(P[1:] - P[:-1])
    for name, strength in s.items():
        values = list(model.crossed_effects_[name])
        v = cp.Variable(len(values))
        score += v[table[name].map(values.index).to_numpy()]
        cost += 0.5 * strength * cp.sum_squares(v)
    if y.dtype.kind == "f":
        loss = 0.5 * cp.sum_squares(score - y)
    else:
        signs = np.where(y == "yes", 1.0, -1.0)
        loss = cp.sum(cp.logistic(cp.multiply(-signs, score)))
    problem = cp.Problem(cp.Minimize(loss + cost))
    return problem.solve(solver="CLARABEL")


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of Clarabel's
@pytest.mark.parametrize("lam", [0.0, 3.0])
@pytest.mark.parametrize("classify", [False, True])
def test_coefficients_and_effects_are_a_joint_optimum(classify, lam):
    table, y = pupils(classify=classify, n=300)
    build = MultiTaskClassifier if classify else MultiTaskRegressor
    model = build(
        lam, 0.0, 2.0, task_prior="chain", task="school", crossed=["teacher", "item"]
    )
    model.fit(table, y)
    noise = 1.0
    if not classify:  # the mixed model with the same effects says how large noise is
        mixed = MultiTaskRegressor(
            0.0, 0.0, task="school", crossed=["teacher", "item"], **MIXED
        )
        noise = mixed.fit(table, y).noise_sd_ ** 2
    s = {name: noise / sd**2 for name, sd in model.crossed_sd_.items()}
    optimum = joint_optimum(model, table, y, lam, 2.0, s)
    tolerance = 1e-6 * abs(optimum)
    assert model.objective_ == pytest.approx(optimum, rel=1e-5)
    assert model.objective_ - optimum <= model.dual_gap_ + tolerance
    # What is published is what was certified.
    scores = model.predict(table) if not classify else model.decision_function(table)
    signs = np.where(y == "yes", 1.0, -1.0) if classify else None
    loss = (
        np.logaddexp(0.0, -signs * scores).sum()
        if classify
        else 0.5 * np.sum((scores - y) ** 2)
    )
    cost = lam * np.linalg.norm(model.coef_, axis=0).sum()
    cost += np.sum(np.diff(model.coef_, axis=0) ** 2)  # epsilon / 2 = 1
    for name, strength in s.items():
        cost += 0.5 * strength * np.sum(np.square(list(_effects(model, name))))
    assert loss + cost == pytest.approx(model.objective_, rel=1e-8)


def _effects(model, name):
    return model.crossed_effects_[name].values()


def test_effects_of_the_mixed_model_need_no_iterations():
    table, y = pupils()
    model = MultiTaskRegressor(0.0, 0.0, task="school", crossed="teacher", **MIXED)
    model.fit(table, y)
    assert model.n_iter_ == 0
    assert model.dual_gap_ <= 1e-6 * model.objective_
    assert set(model.crossed_effects_) == set(model.crossed_sd_) == {"teacher"}
    assert 0.7 < model.crossed_sd_["teacher"] < 1.4


def test_a_single_task_may_have_crossed_effects():
    table, y = pupils(schools=1)
    model = MultiTaskRegressor(0.0, 0.0, task="school", crossed="teacher", **MIXED)
    model.fit(table, y)
    assert 0.6 < model.crossed_sd_["teacher"] < 1.5


def test_new_and_missing_levels_have_no_effect():
    table, y = pupils()
    model = MultiTaskRegressor(task="school", crossed="teacher").fit(table, y)
    row = table.iloc[[0]]
    plain = model.predict(row.assign(teacher="nobody"))
    effect = model.crossed_effects_["teacher"][row["teacher"].iloc[0]]
    assert model.predict(row) == pytest.approx(plain + effect)
    assert model.predict(row.assign(teacher=None)) == pytest.approx(plain)


@pytest.mark.parametrize("kind", ["number", "text", "date"])
def test_levels_are_labelled_as_users_know_them(kind):
    table, y = pupils()
    if kind == "text":
        table["item"] = table["item"].astype(str)
    if kind == "date":
        table["item"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(table["item"], "D")
    model = MultiTaskRegressor(task="school", crossed=["item"])
    model.fit(table.drop(columns="teacher"), y)
    first = {"number": 0, "text": "0", "date": "2024-01-01"}[kind]
    assert first in model.crossed_effects_["item"]


def test_a_search_holds_rows_out_with_their_levels(tmp_path):
    table, y = pupils(n=600)
    model = MultiTaskRegressorCV(task="school", crossed=["teacher", "item"])
    model.fit(table, y)
    without = MultiTaskRegressorCV(task="school")
    without.fit(table.drop(columns=["teacher", "item"]), y)
    assert -model.best_score_ < 0.7 * -without.best_score_
    error = np.mean((model.held_out_ - y) ** 2)
    assert error == pytest.approx(-model.best_score_, rel=1e-6)
    ends = model.predict_interval(table)
    assert np.mean((y > ends[:, 0]) & (y < ends[:, 1])) > 0.88
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    np.testing.assert_array_equal(again.predict_interval(table), ends)
    assert again.crossed_effects_ == model.crossed_effects_
    assert again.crossed_sd_ == model.crossed_sd_


@pytest.mark.slow
def test_a_search_of_classes_holds_rows_out_with_their_levels():
    table, y = pupils(n=600, classify=True)
    model = MultiTaskClassifierCV(
        ties="adaptive", task="school", crossed=["teacher", "item"]
    )
    model.fit(table, y)
    without = MultiTaskClassifierCV(ties="adaptive", task="school")
    without.fit(table.drop(columns=["teacher", "item"]), y)
    assert -model.best_score_ < 0.97 * -without.best_score_
    # glmmTMB with REML=TRUE has 2.1824 and 1.8732.
    assert model.crossed_sd_["teacher"] == pytest.approx(2.1824, rel=1e-3)
    assert model.crossed_sd_["item"] == pytest.approx(1.8732, rel=1e-3)


def test_statements_hold_beside_crossed_effects():
    table, y = pupils()
    prior = FeaturePrior.nonnegative(["hours"]) + FeaturePrior.common(["age"])
    model = MultiTaskRegressor(
        1.0, task="school", crossed="teacher", feature_prior=prior
    )
    model.fit(table, y)
    assert np.all(model.coef_[:, 1] == 0.0)
    assert np.ptp(model.coef_[:, 0]) == 0.0
    assert model.dual_gap_ <= 2e-6 * model.objective_


def test_the_default_finds_days_that_are_alike_at_all_stations():
    rng = np.random.default_rng(0)
    station, day = np.repeat(np.arange(12), 60), np.tile(np.arange(60), 12)
    table = pd.DataFrame(
        {
            "station": [f"s{k}" for k in station],
            "day": [str(np.datetime64("2024-01-01") + k) for k in day],
            "height": rng.normal(size=720),
        }
    )
    y = table["height"] + 2.0 * rng.normal(size=60)[day] + rng.normal(size=12)[station]
    y = y + 0.3 * rng.normal(size=720)
    held = rng.uniform(size=720) < 0.2
    model = tabular_model("regressor", task="station", trees="none")
    model.fit(table[~held], y[~held])
    assert model[-1].structure_["crossed"] == ("day",)
    error = np.sqrt(np.mean((model.predict(table[held]) - y[held]) ** 2))
    assert error < 0.45
    plain = tabular_model("regressor", task="station", trees="none", crossed="none")
    plain.fit(table[~held], y[~held])
    assert error < 0.5 * np.sqrt(np.mean((plain.predict(table[held]) - y[held]) ** 2))


def test_predictions_do_not_depend_on_the_order_of_columns():
    # The day, which folds choose, stands before or after text that is a factor anyway.
    rng = np.random.default_rng(1)
    station, day = np.repeat(np.arange(10), 40), np.tile(np.arange(40), 10)
    crew = rng.integers(0, 25, 400)
    table = pd.DataFrame({"day": day, "crew": [f"c{k}" for k in crew]})
    table["station"] = [f"s{k}" for k in station]
    y = 2.0 * rng.normal(size=40)[day] + rng.normal(size=25)[crew]
    y = y + rng.normal(size=10)[station] + 0.3 * rng.normal(size=400)
    found = []
    for columns in (["day", "crew", "station"], ["crew", "day", "station"]):
        model = tabular_model("regressor", task="station", trees="none")
        model.fit(table[columns], y)
        assert set(model[-1].structure_["crossed"]) == {"day", "crew"}
        found.append(model.predict(table[columns]))
        assert np.sqrt(np.mean((found[-1] - y) ** 2)) < 0.4
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-6)


def test_columns_and_targets_that_cannot_be_crossed_are_named():
    table, y = pupils()
    X = table[["age", "hours"]].to_numpy()
    with pytest.raises(ValueError, match="crossed must name columns other than"):
        MultiTaskRegressor(task="school", crossed="school").fit(table, y)
    with pytest.raises(ValueError, match=r"'teecher'.*teacher"):
        MultiTaskRegressor(task="school", crossed="teecher").fit(table, y)
    with pytest.raises(TypeError, match="crossed must name columns of X"):
        MultiTaskRegressor(task="school", crossed=[3]).fit(table, y)
    with pytest.raises(ValueError, match="crossed must name columns of a data frame"):
        MultiTaskRegressor(crossed="teacher").fit(X, y, task=table["school"])
    model = MultiTaskRegressor(task="school", crossed="teacher").fit(table, y)
    with pytest.raises(ValueError, match="'teacher'"):
        model.predict(table.drop(columns="teacher"))
    with pytest.raises(ValueError, match="scoring must be None with crossed"):
        MultiTaskRegressorCV(task="school", crossed="teacher", scoring="r2").fit(
            table, y
        )


def test_counts_start_from_a_structure_with_other_factors():
    """A column that folds try as a factor has levels that the start does not know."""
    rng, n = np.random.default_rng(0), 300
    table = pd.DataFrame({"clinic": rng.integers(0, 30, n).astype(str)})
    table["doctor"] = [f"d{k}" for k in rng.integers(0, 80, n)]
    table["age"] = rng.normal(50.0, 10.0, n).round()  # recurs in many clinics
    eta = 0.02 * (table["age"] - 50.0) + 3.0
    eta += 0.5 * rng.normal(size=30)[table["clinic"].astype(int)]
    eta += 0.4 * rng.normal(size=80)[table["doctor"].str[1:].astype(int)]
    y = rng.poisson(np.exp(eta) * rng.uniform(0.2, 1.8, n))
    model = tabular_model("regressor", task="clinic", loss="poisson", trees="none")
    assert "doctor" in model.fit(table, y).crossed_sd_
