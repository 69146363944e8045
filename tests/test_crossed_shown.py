"""Crossed factors around the fit: summaries, command line, reports, plots and files."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    audit_prior,
    compare,
    load,
    regularization_path,
    report,
    save,
    summarize,
    tabular_model,
)
from priormtl.plotting import plot_effect, trace_fit


def exams(n=500, schools=6, teachers=24, seed=0, classify=False):
    """Pupils of schools, taught by teachers of several schools."""
    rng = np.random.default_rng(seed)
    school, teacher = rng.integers(0, schools, n), rng.integers(0, teachers, n)
    table = pd.DataFrame(
        {
            "hours": rng.normal(size=n).round(2),
            "gender": np.where(rng.uniform(size=n) < 0.5, "girl", "boy"),
            "teacher": [f"t{k}" for k in teacher],
            "school": [f"s{k}" for k in school],
        }
    )
    y = 2.0 * table["hours"] + rng.normal(size=schools)[school]
    y = y + rng.normal(size=teachers)[teacher] + 0.7 * rng.normal(size=n)
    return table, np.where(y > 0, "yes", "no") if classify else y.to_numpy()


@pytest.fixture(scope="module")
def tabular():
    """A tabular model, fitted once."""
    table, y = exams()
    model = tabular_model("regressor", task="school", trees="none")
    return model.fit(table, y), table, y


# Summaries.


def test_a_summary_lists_crossed_factors_and_levels_that_stand_out(tabular):
    model, _, _ = tabular
    linear = model[-1]
    summary = linear.summary()
    assert [one.column for one in summary.crossed] == ["teacher"]
    assert summary.crossed[0].levels == 24
    assert summary.crossed[0].sd == linear.crossed_sd_["teacher"]
    assert "Crossed factors" in str(summary)
    assert "stand out" not in str(summary)
    sure = linear.summary(level=0.95)
    assert "Levels that stand out, 95 % intervals" in str(sure)
    assert "… and 4 more levels." in str(sure)
    frame = sure.to_frame("levels")
    assert (
        dict(zip(frame["level"], frame["effect"], strict=True))
        == (linear.crossed_effects_["teacher"])
    )
    width = frame["upper"] - frame["lower"]
    np.testing.assert_allclose(width, 2 * 1.959964 * frame["error"], rtol=1e-6)
    # The table begins with the level whose effect is most standard errors from zero.
    first = frame["level"][np.argmax(np.abs(frame["effect"] / frame["error"]))]
    text = str(sure).partition("Levels that stand out")[2]
    assert text.split("teacher")[1].split()[0] == first


def test_intervals_of_levels_hold_the_drawn_effects():
    table, y = exams(n=3000, teachers=100, seed=1)
    rng = np.random.default_rng(1)
    rng.integers(0, 6, 3000), rng.integers(0, 100, 3000)
    rng.normal(size=3000), rng.uniform(size=3000), rng.normal(size=6)
    drawn = rng.normal(size=100)
    model = MultiTaskRegressor(0.0, task="school", crossed="teacher")
    frame = model.fit(table, y).summary(level=0.9).to_frame("levels")
    truth = drawn[[int(level[1:]) for level in frame["level"]]]
    inside = (frame["lower"] < truth) & (truth < frame["upper"])
    assert 0.8 < inside.mean() <= 0.98


def test_r2_of_tasks_counts_the_effects_of_levels(tabular):
    model, table, y = tabular
    fitted = model[-1]
    prediction = model.predict(table)
    for task, r2 in zip(fitted.tasks_, fitted.task_r2_, strict=True):
        rows = (table["school"] == task).to_numpy()
        assert r2 == pytest.approx(r2_score(y[rows], prediction[rows]), abs=1e-8)
    strong = MultiTaskRegressor(30.0, task="school", crossed="teacher").fit(table, y)
    prediction = strong.predict(table)
    rows = (table["school"] == "s0").to_numpy()
    expected = r2_score(y[rows], prediction[rows])
    assert strong.task_r2_[0] == pytest.approx(expected, abs=1e-8)


def test_classifiers_have_intervals_of_levels_and_none_of_coefficients():
    table, y = exams(classify=True)
    model = MultiTaskClassifier(task="school", crossed="teacher").fit(table, y)
    summary = model.summary(level=0.95)
    assert summary.errors is None
    assert all(one.lower < one.effect < one.upper for one in summary.levels)
    assert "Levels that stand out" in str(summary)
    levels = report(model).content.table("levels")
    low = {one.level: one.lower for one in summary.levels}
    assert levels["effect_low"][0] == low[levels["level"][0]]


def test_structures_with_crossed_factors_are_named_in_words():
    rng = np.random.default_rng(0)
    station, day = np.repeat(np.arange(8), 40), np.tile(np.arange(40), 8)
    table = pd.DataFrame({"station": station.astype(str), "day": day})
    y = rng.normal(size=40)[day] + rng.normal(size=8)[station]
    y = y + 0.3 * rng.normal(size=320)
    model = tabular_model("regressor", task="station", trees="none").fit(table, y)
    words = [one.structure for one in model[-1].summary().structures]
    assert any("effects of each day" in one for one in words)
    assert any("no crossed factors" in one for one in words)


def test_a_summary_says_what_each_column_became():
    table, y = exams(n=200)
    table = table.assign(age=np.arange(200) % 9, empty=None, one=1)
    model = tabular_model("regressor", task="school", trees="none", smooth=["age"])
    fitted = model.fit(table, y)[-1]
    became = {one.column: one.became for one in fitted.summary().columns}
    ends = "curve" if fitted.structure_["smooth"] != "straight" else "straight line"
    assert became == {
        "hours": "straight line",
        "gender": "2 categories",
        "teacher": "24 crossed levels",
        "age": ends,
        "empty": "left out (empty)",
        "one": "left out (one value)",
    }
    assert fitted.summary().to_frame("columns")["column"].tolist() == [*became]


# Reports.


def test_a_report_shows_levels_curves_and_what_was_modelled(tmp_path):
    table, y = exams()
    y = y + 3.0 * np.sin(2.0 * table["hours"])
    model = tabular_model("regressor", task="school", trees="none").fit(table, y)
    model.name_source("exams.csv", "score")
    save(model, tmp_path / "model")
    made = report(load(tmp_path / "model"), table, y).content
    assert made.title == "score by hours, gender and teacher, 6 tasks (school)"
    finding = made.finding("levels")
    linear = model[-1]
    assert finding.numbers["sd of teacher"] == linear.crossed_sd_["teacher"]
    levels = made.table("levels")
    sure = linear.summary(level=0.95).to_frame("levels").set_index("level")
    first = levels["level"][0]
    assert levels["effect"][0] == sure["effect"][first]
    assert levels["effect_low"][0] == pytest.approx(sure["lower"][first])
    inside = (sure["lower"] > 0) | (sure["upper"] < 0)
    assert finding.numbers["stand_out"] == inside.sum()
    curves = made.table("curves")
    assert set(curves["column"]) == {"hours"}
    # Differences of the curve are those of predictions.
    at = [0, 20]
    rows = table.iloc[[0, 0]].assign(hours=curves["value"][at])
    means = [model.predict(rows.assign(school=f"s{k}")) for k in range(6)]
    apart = np.diff(np.mean(means, axis=0))[0]
    assert np.diff(curves["effect"][at])[0] == pytest.approx(apart, rel=1e-6)
    # R² within tasks stands beside that over all rows.
    quality = made.finding("quality").numbers
    prediction = model.predict(table)
    centred = y - y.groupby(table["school"]).transform("mean")
    within = 1.0 - np.sum((y - prediction) ** 2) / np.sum(centred**2)
    assert quality["rows_within_tasks"] == pytest.approx(within)
    assert quality["held_out_within_tasks"] < quality["held_out_variance_explained"]


def test_answers_come_before_strengths():
    table, y = exams(n=200)
    model = MultiTaskRegressor(task="school", crossed="teacher").fit(table, y)
    made = report(model)
    page, text = made.to_html(), made.to_markdown()
    assert page.index("How good is it?") < page.index("<dt>lam</dt>")
    assert text.index("How good is it?") < text.index("- lam")
    assert "R² 0." in made.content.finding("quality").value
    assert "t12" in page


# Plots.


def test_a_crossed_factor_is_drawn_level_by_level(tabular):
    model, _, _ = tabular
    ax = plot_effect(model, "teacher")
    assert ax.get_title() == "Effects of teacher, 95 % intervals"
    drawn = np.concatenate([line.get_xdata() for line in ax.lines[1:]])
    effects = model[-1].crossed_effects_["teacher"]
    np.testing.assert_allclose(np.sort(drawn), np.sort(list(effects.values())))
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names[0] == min(effects, key=effects.get)
    lines = ax.collections[0].get_segments() + ax.collections[1].get_segments()
    frame = model[-1].summary(0.95).to_frame("levels")
    ends = np.sort([line[0, 0] for line in lines])
    np.testing.assert_allclose(ends, np.sort(frame["lower"]))
    with pytest.raises(ValueError, match="tasks must be None for 'teacher'"):
        plot_effect(model, "teacher", tasks=["s1"])


def test_the_column_of_tasks_is_drawn_task_by_task(tabular):
    model, _, _ = tabular
    ax = plot_effect(model, "school")
    drawn = np.concatenate([line.get_xdata() for line in ax.lines[1:]])
    np.testing.assert_allclose(np.sort(drawn), np.sort(model[-1].task_effect_))
    table, y = exams(n=200, classify=True)
    classifier = MultiTaskClassifier(task="school").fit(table[["hours", "school"]], y)
    drawn = np.concatenate(
        [line.get_xdata() for line in plot_effect(classifier, "school").lines[1:]]
    )
    np.testing.assert_allclose(np.sort(drawn), np.sort(classifier.task_effect_))


def test_linear_models_with_crossed_factors_have_plots():
    table, y = exams(n=200)
    model = MultiTaskRegressor(task="school", crossed="teacher").fit(table, y)
    assert plot_effect(model, "teacher").get_title().startswith("Effects of teacher")
    assert plot_effect(model, "hours").get_title() == "Effect of hours"
    assert plot_effect(model, "gender").get_title() == "Effect of gender"


# Files, copies, and what needs other data than rows.


def test_copies_predict_the_same(tabular):
    model, table, y = tabular
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    fresh = clone(model).fit(table, y)
    np.testing.assert_allclose(fresh.predict(table), model.predict(table))
    linear = MultiTaskRegressor(task="school", crossed=["teacher"]).fit(table, y)
    assert clone(linear).crossed == ["teacher"]
    frame = linear.coef_frame(wide=True)
    assert list(frame.columns) == [
        *("task", "(intercept)", "hours", "gender=boy", "gender=girl")
    ]


def test_statistics_do_not_hold_levels(tmp_path):
    table, y = exams(n=200)
    X, task = table[["hours"]].to_numpy(), table["school"]
    statistics = summarize(X, y, task)
    table.assign(score=y).to_csv(tmp_path / "a.csv", index=False)
    given = {"task": "school", "crossed": "teacher"}
    one, many = MultiTaskRegressor(**given), MultiTaskRegressorCV(**given)
    classifier = MultiTaskClassifier(**given)
    for fit in (
        lambda: one.fit_statistics(statistics),
        lambda: one.partial_fit(table, y),
        lambda: one.fit_source(tmp_path / "a.csv", target="score"),
        lambda: many.fit_statistics([statistics, statistics]),
        lambda: many.fit_source(tmp_path / "a.csv", target="score"),
        lambda: classifier.fit_source(tmp_path / "a.csv", target="score"),
        lambda: regularization_path(table, y, **given),
        lambda: trace_fit(one, table, y),
    ):
        with pytest.raises(ValueError, match=r"crossed must be None in .* Use fit"):
            fit()


def test_audits_are_given_the_effects_of_levels():
    # The same audit as of a model whose rows have these effects as a known offset.
    table, y = exams(n=300)
    prior = FeaturePrior.similar([("gender=boy", "gender=girl")])
    given = {"task": "school", "feature_prior": prior, "tol": 1e-10}
    model = MultiTaskRegressor(0.5, crossed="teacher", **given).fit(table, y)
    known = table.assign(
        teacher=table["teacher"].map(model.crossed_effects_["teacher"])
    )
    plain = MultiTaskRegressor(0.5, offset="teacher", **given).fit(known, y)
    np.testing.assert_allclose(plain.coef_, model.coef_, atol=1e-4)
    ours, theirs = audit_prior(model, table, y), audit_prior(plain, known, y)
    for one, other in zip(ours.relations, theirs.relations, strict=True):
        for name in ("sensitivity", "statistic", "violation_before"):
            expected = pytest.approx(getattr(other, name), rel=1e-3, nan_ok=True)
            assert getattr(one, name) == expected
    with pytest.raises(ValueError, match="X, y and task must be given"):
        audit_prior(model)


@pytest.mark.slow
def test_classifiers_with_crossed_factors_are_audited():
    table, y = exams(n=300, classify=True)
    prior = FeaturePrior.similar([("gender=boy", "gender=girl")])
    given = {"task": "school", "feature_prior": prior, "fit_intercept": "tied"}
    model = MultiTaskClassifier(0.5, crossed="teacher", **given).fit(table, y)
    kinds = {one.kind for one in audit_prior(model, table, y).relations}
    assert kinds == {"feature"}


def test_what_is_not_offered_with_crossed_factors_says_so():
    table, y = exams(n=200)
    model = MultiTaskRegressor(task="school", crossed="teacher")
    with pytest.raises(ValueError, match="outlier_tasks must be False with crossed"):
        model.set_params(outlier_tasks=True).fit(table, y)


def test_outlier_tasks_of_a_table_leave_long_columns_as_categories():
    table, y = exams(n=300)
    model = tabular_model("regressor", task="school", trees="none", outlier_tasks=True)
    became = model.fit(table, y)[-1].summary().columns
    assert {one.column: one.became for one in became}["teacher"] == "24 categories"


@pytest.mark.slow
def test_a_comparison_has_our_row_for_tables_with_long_text_columns():
    table, y = exams(n=240)
    methods = ["priormtl", "ridge-dummies"]
    found = compare(table, y, task="school", methods=methods, cv=2, n_settings=4)
    assert set(found["method"]) == {*methods}
    assert found["mean"].notna().all()
