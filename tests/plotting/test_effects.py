"""Effects: what is drawn are differences of predictions, in the column's own units."""

import datetime
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    SplineFeatures,
    load,
    save,
    tabular_model,
)
from priormtl.data import pooled_means
from priormtl.plotting import plot_effect
from shown_models import fitted_model, related_tasks, with_coef

pytestmark = pytest.mark.usefixtures("few_trees")

WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def shops(n=240, m=3, seed=0):
    rng = np.random.default_rng(seed)
    task = np.arange(n) % m
    start = datetime.datetime(2024, 1, 1)
    table = pd.DataFrame(
        {
            "shop": np.array([f"s{i}" for i in range(m)])[task],
            "age": rng.uniform(20.0, 70.0, n),
            "income": np.exp(rng.normal(0.0, 1.5, n)),  # is compressed
            "price": rng.normal(5.0, 1.0, n),
            "hour": rng.integers(0, 24, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "open": rng.choice(["no", "yes"], n),
            "day": [start + datetime.timedelta(int(k)) for k in rng.integers(0, 60, n)],
        }
    )
    y = np.sin(table["age"] / 8.0) + np.cos(table["hour"] * np.pi / 12.0)
    y += (task - 1.0) * table["price"] + np.log(table["income"])
    y += (table["colour"] == "red") + (table["day"].dt.day_of_week > 4)
    return table, y + 0.1 * rng.normal(size=n)


@cache
def tabular():
    table, y = shops()
    prior = FeaturePrior.near({"price": -0.5}) + FeaturePrior.common(["colour"])
    model = tabular_model(
        "regressor", task="shop", feature_prior=prior, trees="none", cv=3, thetas=(0.1,)
    )
    return model.fit(table, y)


def line(ax, label):
    """Points of the drawn line with this label."""
    [found] = [one for one in ax.lines if one.get_label() == label]
    return found.get_xdata(), np.asarray(found.get_ydata())


def labels(ax):
    return [text.get_text() for text in ax.get_legend().texts]


def predict_at(model, column, values):
    """Mean prediction over the tasks where only this column changes."""
    row, found = shops()[0].iloc[[0]], []
    for shop in ("s0", "s1", "s2"):
        rows = pd.concat([row] * len(values), ignore_index=True)
        found.append(model.predict(rows.assign(**{"shop": shop, column: values})))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("column", ["age", "income", "price", "hour"])
def test_lines_are_differences_of_predictions(column):
    ax = plot_effect(tabular(), column)
    x, drawn = line(ax, next(text for text in labels(ax) if "task" in text))
    predicted = predict_at(tabular(), column, x)
    assert np.allclose(np.diff(drawn), np.diff(predicted))


def test_dates_are_drawn_as_dates_without_what_repeats():
    ax = plot_effect(tabular(), "day")
    x, drawn = line(ax, next(text for text in labels(ax) if "task" in text))
    mondays = pd.date_range("2024-01-01", periods=8, freq="7D")
    predicted = predict_at(tabular(), "day", mondays)
    seconds = mondays.to_numpy().astype("datetime64[s]").astype(float)
    effect = np.interp(seconds, x.astype(float), drawn)
    assert np.allclose(np.diff(effect), np.diff(predicted), atol=1e-3)


def test_effects_are_zero_on_average_over_the_training_rows():
    model, (table, _) = tabular(), shops()
    for column in ("age", "income", "hour"):
        ax = plot_effect(model, column)
        label = next(text for text in labels(ax) if "task" in text)
        x, drawn = line(ax, label)
        mean = np.interp(table[column], x, drawn).mean()
        assert abs(mean) < 0.01 * np.ptp(drawn)


def test_tasks_have_lines_of_their_own_and_statements_are_dashed():
    ax = plot_effect(tabular(), "price")
    coef = tabular()[-1].coef_[:, list(tabular()[-1].feature_names_in_).index("price")]
    for name, slope in zip(("s0", "s1", "s2"), coef, strict=True):
        x, y = line(ax, name)
        assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(slope)
    x, y = line(ax, "stated: −0.5")
    assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(-0.5)
    assert "mean of 3 tasks" in labels(ax)


def test_categories_are_dots_and_two_of_them_both_have_one():
    ax = plot_effect(tabular(), "colour")
    assert ax.get_title() == "Effect of colour (the same in all tasks)"
    assert [t.get_text() for t in ax.get_xticklabels()] == ["blue", "green", "red"]
    _, y = line(ax, "all 3 tasks")
    names = list(tabular()[-1].feature_names_in_)
    coef = tabular()[-1].coef_[0]
    apart = coef[names.index("colour=red")] - coef[names.index("colour=blue")]
    assert y[2] - y[0] == pytest.approx(apart)
    ax = plot_effect(tabular(), "open")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["no", "yes"]
    ax = plot_effect(tabular(), "day day of week")
    assert [t.get_text() for t in ax.get_xticklabels()] == WEEKDAYS


def band_at_the_end(ax):
    """Where the band ends on the right, and its width there."""
    [band] = [one for one in ax.collections if "errors" in one.get_label()]
    corners = band.get_paths()[0].vertices
    at = corners[:, 0].max()
    low, high = np.sort(corners[corners[:, 0] == at, 1])[[0, -1]]
    return at, high - low


@pytest.mark.parametrize("tasks", [["s1"], None])
def test_the_band_has_the_standard_errors_of_the_summary(tasks):
    at, width = band_at_the_end(plot_effect(tabular(), "price", tasks=tasks))
    last = tabular()[-1]
    j = list(last.feature_names_in_).index("price")
    away, summary = at - pooled_means(last.statistics_)[j], last.summary(level=0.95)
    error = summary.coef_error[1, j]
    if tasks is None:
        [error] = [one.error for one in summary.features if one.name == "price"]
    assert width == pytest.approx(4.0 * error * away)


def test_loaded_models_have_a_jackknife_band_and_the_same_lines(tmp_path):
    save(tabular(), tmp_path / "shop.model")
    loaded = load(tmp_path / "shop.model")
    ours, theirs = plot_effect(tabular(), "age"), plot_effect(loaded, "age")
    for one, other in zip(ours.lines[1:-1], theirs.lines[1:-1], strict=False):
        change = np.ptp(one.get_ydata() - other.get_ydata())
        assert change < 1e-9 or one.get_linestyle() == "None"
    ax = plot_effect(loaded, "price", tasks=["s1"], values=[4.0, 6.0])
    at, width = band_at_the_end(ax)
    last = tabular()[-1]
    j = list(last.feature_names_in_).index("price")
    slopes = last.fitted_.held_out.models.coef[:, 1, j]
    error = np.sqrt(2 / 3 * np.sum((slopes - slopes.mean()) ** 2)) * (at - 5.0)
    assert width == pytest.approx(4.0 * error, rel=1e-4)


def test_pipelines_of_splines_are_drawn():
    table, y = shops()
    X = table[["shop", "age", "price"]]
    estimator = MultiTaskRegressor(
        0.1, task="shop", feature_prior=FeaturePrior.smooth()
    )
    model = make_pipeline(SplineFeatures(["age"]), estimator).fit(X, y)
    x, drawn = line(plot_effect(model, "age", tasks=["s0"]), "s0")
    rows = pd.DataFrame({"shop": "s0", "age": x, "price": 5.0})
    assert np.allclose(np.diff(drawn), np.diff(model.predict(rows)))
    assert len(plot_effect(model, "price").lines) > 3
    with pytest.raises(ValueError, match="make_pipeline"):
        plot_effect(model[-1], "age")


def test_plain_models_are_drawn_around_their_mean_or_where_told():
    X, _, _ = related_tasks()
    model = fitted_model()
    x, y = line(plot_effect(model, 2, tasks=[3]), "3")
    assert (x[0] + x[-1]) / 2 == pytest.approx(X[:, 2].mean())
    assert x[-1] - x[0] == pytest.approx(4.0 * X[:, 2].std(), rel=0.05)
    assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(model.coef_[3, 2])
    x, _ = line(plot_effect(model, "x2", values=[1.0, 4.0, 2.0]), "mean of 5 tasks")
    assert (x[0], x[-1]) == (1.0, 4.0)


def test_classes_have_log_odds_and_need_values():
    X, y, task = related_tasks()
    model = MultiTaskClassifier().fit(X, y > 0, task=task)
    with pytest.raises(ValueError, match="values must be given"):
        plot_effect(model, 0)
    ax = plot_effect(model, 0, values=X[:, 0])
    assert "log-odds" in ax.get_ylabel().replace("\n", " ")


def test_many_tasks_are_grey_but_for_the_farthest():
    coef = np.ones((300, 1))
    coef[[7, 100, 200], 0] = 5.0, -4.0, 9.0
    ax = plot_effect(with_coef(coef, ["a"]), "a", values=[0.0, 1.0])
    assert labels(ax)[:3] == ["200", "100", "7"]
    assert "mean of 300 tasks" in labels(ax)
    assert len(ax.lines) > 300


def test_equal_effects_are_one_line():
    ax = plot_effect(with_coef(np.ones((300, 1)), ["a"]), "a", values=[0.0, 1.0])
    assert labels(ax) == ["all 300 tasks"]


def test_signs_stand_in_the_title():
    X, y, task = related_tasks()
    prior = FeaturePrior.nonnegative([0])
    model = MultiTaskRegressorCV(
        3, (1.0,), (1.0,), feature_prior=prior, ties="uniform", cv=2
    )
    ax = plot_effect(model.fit(X, y, task=task), "x0")
    assert ax.get_title() == "Effect of x0 (≥ 0)"


@pytest.mark.parametrize(
    ("draw", "match"),
    [
        (lambda: plot_effect(tabular(), "agee"), "Did you mean 'age'"),
        (lambda: plot_effect(fitted_model(), "x9"), "unknown feature"),
        (
            lambda: plot_effect(fitted_model(), 0, values=[1.0, 1.0]),
            "two different numbers",
        ),
        (lambda: plot_effect(fitted_model(), 0, tasks=["z"]), "unknown task"),
    ],
)
def test_bad_arguments_are_named(draw, match):
    with pytest.raises(ValueError, match=match):
        draw()


def test_other_pipelines_are_refused():
    model = make_pipeline(StandardScaler(), fitted_model())
    with pytest.raises(TypeError, match="got StandardScaler"):
        plot_effect(model, 0)
