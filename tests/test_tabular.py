"""tabular_model: raw tables in, the right structure chosen, no table stops a fit."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from priormtl import TaskKFold, load, save, tabular_model
from priormtl.estimators import stacked
from priormtl.estimators.stacked import SIZES
from priormtl.estimators.tabular import TableFeatures
from priormtl.trees import Booster


def shops(n=240, m=8, seed=0):
    """A table with all kinds of columns; the effect of age is a curve."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "shop": np.array([f"s{i}" for i in range(m)])[np.arange(n) % m],
            "age": rng.uniform(20.0, 70.0, n),
            "price": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "open": rng.random(n) < 0.5,
            "day": [
                datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(n)
            ],
        }
    )
    level = rng.normal(size=m)[np.arange(n) % m]
    y = np.sin(table["age"] / 8.0) - table["price"] + (table["colour"] == "red") + level
    return table, y + 0.2 * rng.normal(size=n)


def quick(kind="regressor", task="shop", **settings):
    return tabular_model(kind, task=task, **{"trees": "none", **settings})


def test_raw_columns_of_all_kinds_are_taken():
    table, y = shops()
    model = quick().fit(table, y)
    assert model.score(table, y) > 0.95
    names = list(model[-1].feature_names_in_)
    assert {"age~1", "colour=red", "open", "day"} < set(names)
    assert model[-1].structure_["smooth"] in ("common", "varying")


def test_polars_and_pandas_give_the_same_predictions():
    table, y = shops(120)
    ours = quick().fit(table, y).predict(table)
    theirs = quick().fit(pl.from_pandas(table), y).predict(pl.from_pandas(table))
    assert np.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_tasks_of_one_row_each_are_held_out_and_predicted(kind):
    table, y = shops(120, m=120)
    targets = y if kind == "regressor" else np.where(y > np.median(y), "high", "low")
    model = quick(kind).fit(table, targets)
    assert np.all(np.isfinite(model[-1].held_out_))
    assert model.score(table, targets) > 0.6


@pytest.mark.slow
def test_trees_are_not_judged_by_tasks_that_were_held_out_whole():
    # They know nothing of a task with a single row, whose own row says most.
    rng = np.random.default_rng(0)
    table, y = shops(200, m=200)
    y = (
        y
        + 0.2 * rng.normal(size=200)
        + 3.0 * (table["age"] > 40) * (table["price"] > 0)
    )
    model = quick(trees="auto").fit(table, y)
    assert model[-1].trees_weight_ == 0.0


@pytest.mark.slow
def test_rows_without_company_are_held_out_where_they_are_many():
    table, y = shops(120, m=60)
    few = table.assign(shop=["lone", *table["shop"][1:]])
    many = table.assign(shop=[*(f"l{i}" for i in range(40)), *table["shop"][40:]])
    lone = [~np.isfinite(quick().fit(t, y)[-1].held_out_) for t in (few, many)]
    assert lone[0].sum() == 2  # the other row of its shop is alone, too
    assert not lone[1].any()


@pytest.mark.parametrize("varies", [0.0, 2.0])
def test_slopes_vary_where_tasks_differ(varies):
    table, y = shops()
    own = varies * np.random.default_rng(1).normal(size=8)[np.arange(len(y)) % 8]
    linear = quick().fit(table, y + own * table["price"])[-1]
    slopes = linear.coef_[:, list(linear.feature_names_in_).index("price")]
    assert np.ptp(slopes) > 1.0 if varies else np.ptp(slopes) < 0.1
    if varies:
        assert linear.structure_["slopes"] == "varying"
    tried = {params["slopes"] for params in linear.cv_results_["params"]}
    # What is far behind after two folds is given up, and has no results.
    assert tried == ({"varying"} if varies else {"varying", "common"})


def test_few_distinct_values_are_enough_for_a_curve():
    table, y = shops()
    dose = np.arange(len(y)) // 8 % 5
    model = quick().fit(table.assign(dose=dose), y + np.array([0, 3, 4, 3, 0])[dose])
    assert "dose~1" in model[-1].feature_names_in_
    assert (
        model.score(table.assign(dose=dose), y + np.array([0, 3, 4, 3, 0])[dose]) > 0.9
    )
    assert (
        "dose~1"
        not in quick().fit(table.assign(dose=dose % 4), y)[-1].feature_names_in_
    )


def test_gaps_are_filled_and_marked():
    table, y = shops(120)
    table.loc[::7, "price"] = np.nan
    table.loc[::11, "colour"] = None
    model = quick().fit(table, y)
    assert "price missing" in model[-1].feature_names_in_
    assert np.isfinite(model.predict(table)).all()


def test_unseen_tasks_and_categories_are_predicted():
    table, y = shops()
    model = quick().fit(table, y)
    new = table.head(8).assign(shop="new", colour="pink")
    with pytest.warns(UserWarning, match="Unknown category 'pink'"):
        found = model.predict(new)
    known = table.head(8).assign(colour="pink")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_shop = [
            model.predict(known.assign(shop=shop)) for shop in table["shop"].unique()
        ]
    assert np.allclose(found, np.mean(by_shop, axis=0), atol=1e-6)


def without_shops(table, library):
    """The table of a library, in which the first two rows have no shop."""
    shop = table["shop"].astype(object)
    shop[:2] = [None, np.nan]
    table = table.assign(shop=shop)
    if library in ("category", "string"):
        return table.astype({"shop": library})
    if library == "polars":
        return pl.from_pandas(table)
    return pa.Table.from_pandas(table) if library == "pyarrow" else table


LIBRARIES = ["object", "string", "category", "polars", "pyarrow"]


@pytest.fixture(scope="module")
def with_trees():
    """Models in whose trees the shops matter, and their table."""
    rng = np.random.default_rng(5)
    table, _ = shops(600)
    sign = np.where(table["shop"].isin(["s0", "s3", "s4", "s6"]), 1.0, -1.0)
    y = sign * np.abs(table["price"]) + 0.1 * rng.normal(size=len(table))
    table, models = table[["shop", "price", "age"]], {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked, "SIZES", (Booster(40, 12, 0.3, 63),))
        for kind, target in (("regressor", y), ("classifier", y > 0.0)):
            model = tabular_model(kind, task="shop", smooth="none", crossed="none")
            models[kind] = model.fit(table, target)
    assert models["regressor"][-1].trees_weight_ > 0.2
    return table, y, models


@pytest.mark.parametrize("library", LIBRARIES)
def test_rows_without_a_task_are_those_of_a_new_one(with_trees, library):
    table, y, models = with_trees
    unnamed = without_shops(table, library)
    new = table.assign(shop=["new", "new", *table["shop"][2:]])
    model = models["regressor"]
    np.testing.assert_array_equal(model.predict(unnamed), model.predict(new))
    ends = model.predict_interval(unnamed)
    np.testing.assert_array_equal(ends, model.predict_interval(new))
    known = model.predict_interval(table)
    assert np.all(np.ptp(ends[:2], axis=1) > np.ptp(known[:2], axis=1))
    np.testing.assert_array_equal(ends[2:], known[2:])
    assert model.score(unnamed, y) == model.score(new, y)
    classes = models["classifier"]
    found = classes.predict_proba(unnamed)
    np.testing.assert_array_equal(found, classes.predict_proba(new))
    np.testing.assert_array_equal(classes.predict(unnamed), classes.predict(new))


@pytest.mark.parametrize("library", LIBRARIES)
def test_fits_need_a_task_in_each_row(library):
    table, y = shops(80)
    unnamed = without_shops(table, library)
    with pytest.raises(ValueError, match="must not hold missing labels: 2 of 80"):
        quick().fit(unnamed, y)
    model = quick(unseen_tasks="error").fit(table, y)
    with pytest.raises(ValueError, match="must not hold missing labels: 2 of 80"):
        model.predict(unnamed)


def test_a_text_among_numbers_is_named_with_its_row():
    table, y = shops(40)
    table["price"] = table["price"].round(3).astype(str)
    table.loc[17, "price"] = "oops"
    with pytest.raises(
        ValueError, match=r"'price' must hold numbers: got 'oops' in row 17"
    ):
        quick().fit(table, y)
    table["price"] = table["price"].astype("category")
    quick(smooth="none").fit(table, y)


def test_texts_that_are_no_categories_are_left_out():
    table, y = shops(240)
    table["name"] = [f"n{i}" for i in range(len(table))]
    with pytest.warns(UserWarning, match="'name' has 240 different texts in 240 rows"):
        model = quick().fit(table, y)
    assert "name" not in model[0].design_.sources
    table["name"] = table["name"].replace("n1", "n0")
    with pytest.warns(UserWarning, match="'name' has 239 different texts in 240 rows"):
        assert "name" not in quick().fit(table, y)[0].design_.sources


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: tabular_model("regresor", task="shop"), "Did you mean 'regressor'"),
        (lambda: tabular_model("regressor", task=3), "task must name the column"),
        (lambda: tabular_model("regressor", task="shop", trees="yes"), "trees must be"),
        (lambda: quick(task="shp").fit(*shops(40)), "unknown column 'shp'"),
        (lambda: quick(smooth="all").fit(*shops(40)), 'smooth must be "auto"'),
        (lambda: quick(smooth=["agee"]).fit(*shops(40)), "Did you mean 'age'"),
        (lambda: quick(smooth={"age": 0.0}).fit(*shops(40)), "a period above 0"),
        (lambda: quick(smooth={"age": "day"}).fit(*shops(40)), "a period above 0"),
        (lambda: quick(smooth=["colour"]).fit(*shops(40)), "'colour' holds text"),
        (lambda: quick(smooth=["open"]).fit(*shops(40)), "'open' has 2"),
    ],
)
def test_bad_arguments_are_named(build, match):
    with pytest.raises((ValueError, TypeError), match=match):
        build()


def test_periodic_curves_meet_at_the_ends_of_a_period(tmp_path):
    table, y = shops(160)
    rng = np.random.default_rng(1)
    table["hour"] = rng.integers(0, 24, len(table))
    y = y + np.cos((table["hour"] - 5.0) * np.pi / 12.0)
    model = quick(smooth={"hour": 24, "age": None}).fit(table, y)
    names = list(model[-1].feature_names_in_)
    assert {"hour~1", "age", "age~1", "price"} < set(names)
    assert not {"hour", "price~1", "day~1"} & set(names)
    start, end = table.assign(hour=0), table.assign(hour=24)
    assert np.allclose(model.predict(start), model.predict(end))
    assert np.ptp(model.predict(start) - model.predict(table)) > 1.0
    save(model, tmp_path / "shops.model")
    loaded = load(tmp_path / "shops.model")
    assert np.array_equal(loaded.predict(table), model.predict(table))
    assert loaded[0].smooth == {"hour": 24.0, "age": None}


@pytest.mark.slow
def test_trees_know_where_in_a_period_a_value_lies():
    table, y = shops(120)
    table["hour"] = np.arange(len(table)) % 24
    model = quick(smooth={"hour": 24}, trees="auto").fit(table, y)
    design = model[0].design_
    columns = [design[j] for j in design.tree_features()]
    assert [name for name in columns if "hour" in name] == ["hour~1", "hour~2"]


def test_dates_repeat_by_hour_week_and_year_where_they_cover_two_periods():
    rng = np.random.default_rng(0)
    hours = np.sort(rng.integers(0, 24 * 100, 300))
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, "h")  # a Monday
    table = pd.DataFrame({"shop": np.arange(300) % 4, "when": when})
    y = 1.0 * (when.day_of_week == 6) + np.sin(when.hour * np.pi / 12.0)
    model = quick().fit(table, y + 0.1 * rng.normal(size=300))
    assert model.score(table, y) > 0.9
    assert model[0].design_.sources == ("when",)
    names = {name.partition("~")[0] for name in model[-1].feature_names_in_}
    assert names == {"when", "when hour of day", "when day of week"}
    late = table.assign(when=table["when"] + pd.to_timedelta(600, "D"))
    later = TableFeatures("shop").fit(pd.concat([table, late], ignore_index=True))
    assert "when day of year~1" not in later.get_feature_names_out()
    late["when"] += pd.to_timedelta(100, "D")
    later = TableFeatures("shop").fit(pd.concat([table, late], ignore_index=True))
    assert "when day of year~1" in later.get_feature_names_out()
    days = TableFeatures("shop").fit(table.assign(when=when.normalize()))
    assert "when hour of day~1" not in days.get_feature_names_out()
    straight = TableFeatures("shop", "none").fit(table)
    assert list(straight.get_feature_names_out()) == ["when"]
    table.loc[5, "when"] = pd.NaT
    assert np.isfinite(quick().fit(table, y).predict(table)).all()


def test_a_table_must_be_a_frame():
    with pytest.raises(TypeError, match="must be a data frame with named columns"):
        quick().fit(np.eye(3), [1.0, 2.0, 3.0])


def products(n=600, m=6, seed=0):
    """Targets that only trees can learn: a product of two columns."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    table["task"] = np.arange(n) % m
    return table, np.sign(table["a"] * table["b"]) + 0.3 * rng.normal(size=n)


@pytest.mark.slow
def test_trees_help_where_interactions_matter_and_nowhere_else():
    table, y = products()
    train, test = np.arange(400), np.arange(400, 600)
    plain = quick(task="task").fit(table.iloc[train], y[train])
    mixed = quick(task="task", trees="auto").fit(table.iloc[train], y[train])
    assert 0.7 < mixed[-1].trees_weight_ <= 1.0
    assert mixed.score(table.iloc[test], y[test]) > 0.6
    assert plain.score(table.iloc[test], y[test]) < 0.2
    table, y = shops()
    idle = quick(trees="auto").fit(table, y)
    assert idle[-1].trees_weight_ < 0.2
    # Larger trees are grown only where smaller ones help.
    n_small = SIZES[0].max_iter
    assert min(len(one.roots) for one in mixed[-1].trees_) > n_small
    assert all(len(one.roots) == n_small for one in idle[-1].trees_)


@pytest.mark.slow
def test_larger_trees_find_interactions_that_smaller_ones_miss(monkeypatch):
    table, y = products(500)
    y += table["c"] * (y > 0)
    train, test = table[:400], table[400:]
    scores = []
    for sizes in (SIZES[:1], SIZES):
        monkeypatch.setattr(stacked, "SIZES", sizes)
        model = quick(task="task", trees="auto", cv=2).fit(train, y[:400])
        scores.append(model.score(test, y[400:]))
    assert 1.0 - scores[1] < 0.95 * (1.0 - scores[0])


@pytest.mark.slow
def test_trees_that_see_linear_scores_bend_them(monkeypatch):
    """A sum of many columns and of tasks, which trees hardly find, behind a curve."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(500, 8)), columns=list("abcdefgh"))
    table["task"] = rng.integers(0, 60, 500)
    eta = table[list("abcdefgh")].sum(axis=1) / 2.0 + rng.normal(size=60)[table["task"]]
    y = np.exp(eta / 2.0) + 0.1 * rng.normal(size=500)
    errors = []
    for sizes in (SIZES[:2], SIZES):
        monkeypatch.setattr(stacked, "SIZES", sizes)
        model = quick(task="task", trees="auto", cv=3).fit(table[:400], y[:400])
        errors.append(1.0 - model.score(table[400:], y[400:]))
        # Intervals are about predictions, whose trees see scores of all rows.
        middle = model.predict_interval(table[400:]).mean(axis=1)
        assert np.abs(middle - model.predict(table[400:])).mean() < 0.2 * y.std()
    assert errors[1] < 0.95 * errors[0]


def test_classes_are_learned_even_if_tasks_show_one(monkeypatch):
    monkeypatch.setattr(stacked, "SIZES", (stacked.Booster(40, 6, 0.2, 63),))
    table, y = shops()
    classes = np.where(y > np.median(y), "yes", "no")
    classes[table["shop"] == "s0"] = "no"
    model = tabular_model("classifier", task="shop", cv=3).fit(table, classes)
    probabilities = model.predict_proba(table)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert list(model.classes_) == ["no", "yes"]
    assert np.mean(model.predict(table) == classes) > 0.85


@pytest.mark.parametrize(
    "trees", ["none", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_saved_pipelines_predict_the_same(tmp_path, trees):
    table, y = products(200)
    table["colour"] = np.where(table["a"] > 0, "red", "blue")
    table.loc[3, "b"] = np.nan
    model = tabular_model("regressor", task="task", trees=trees).fit(table, y)
    save(model, tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    assert np.array_equal(model.predict(table), again.predict(table))
    assert again[-1].get_params(deep=False).keys() == model[-1].get_params(False).keys()


def test_cross_validation_works_on_tables_sorted_by_task():
    table, y = shops(160)
    order = np.argsort(table["shop"], kind="stable")
    table, y = table.iloc[order], y[order]
    folds = TaskKFold(3, task="shop")
    assert cross_val_score(quick(), table, y, cv=folds).min() > 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"age": np.nan, "price": 1e12},
        {"colour": "red", "open": None, "price": 0.0, "age": 0.0},
    ],
)
def test_ordinary_tables_never_stop_a_fit(change):
    table, y = shops(60)
    model = quick().fit(table.assign(**change), y)
    assert np.isfinite(model.predict(table.assign(**change))).all()


def test_one_task_is_enough():
    table, y = shops(60)
    model = quick().fit(table.assign(shop="only"), y)
    assert model.score(table.assign(shop="only"), y) > 0.2


def test_tiny_tables_are_fitted():
    table, y = shops(10, 4)
    model = quick().fit(table[["shop", "price"]], y)
    assert np.isfinite(model.predict(table)).all()


def test_names_of_features_are_those_of_the_frame():
    table, _ = shops(60)
    features = TableFeatures("shop").fit(table)
    out = features.transform(table)
    assert list(features.get_feature_names_out()) == list(out.to_frame().columns)


def test_other_columns_and_another_order_do_not_matter():
    table, y = shops(80)
    model = quick().fit(table, y)
    wider = table[table.columns[::-1]].assign(extra="x")
    assert np.allclose(model.predict(wider), model.predict(table))
    with pytest.raises(ValueError, match="X lacks the column 'age'"):
        model.predict(table.drop(columns="age"))
