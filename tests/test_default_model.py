"""Ordinary tables that the default model must answer, or refuse in a sentence."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from priormtl import (
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    tabular_model,
)
from priormtl.archive import read_archive, write_archive
from priormtl.cli.main import in_options
from priormtl.estimators import tabular
from priormtl.exceptions import ModelFileError
from priormtl.reml import ties
from priormtl.reports import report
from priormtl.selection import search_structures
from priormtl.solvers.block_newton import BlockNewton


def grouped(n=120, m=12, seed=0):
    """Rows of tasks with levels of their own."""
    rng = np.random.default_rng(seed)
    task, x = np.arange(n) % m, rng.normal(size=n)
    y = rng.normal(size=m)[task] + x + rng.normal(size=n)
    return pd.DataFrame({"x": x, "t": [f"t{k}" for k in task]}), y


def test_adaptive_ties_are_the_mixed_model_however_they_are_asked_for():
    table, y = grouped()
    epsilons = (0.1, 1.0, 10.0, 100.0, 1000.0)
    plain = MultiTaskRegressorCV(ties="adaptive", task="t").fit(table, y)
    assert set(plain.cv_results_["param_lam"]) == {0.0}
    assert set(plain.cv_results_["param_epsilon"]) == {1.0}
    given = MultiTaskRegressorCV(epsilons=epsilons, task="t").fit(table, y)
    adaptive = given.cv_results_["param_ties"] == "adaptive"
    assert set(given.cv_results_["param_epsilon"][adaptive]) == set(epsilons)


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_weights_are_relative(kind):
    table, y = grouped()
    if kind == "classifier":
        y = y > 0
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))

    def learn(factor):
        model = tabular_model(kind, task="t", trees="none", cv=2)
        model.fit(table, y, model__sample_weight=factor * weight)
        if kind == "classifier":
            return model.decision_function(table)
        return np.column_stack([model.predict(table), model.predict_interval(table)])

    # Variances of classes are those of rounds that end at 2e-4 of the scores.
    once, near = learn(1.0), 1e-6 if kind == "regressor" else 1e-3
    np.testing.assert_allclose(learn(1e-3), once, rtol=near, atol=near)


def test_weights_are_relative_for_adaptive_ties_and_default_grids():
    table, y = grouped()
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    for model in (
        MultiTaskRegressor(0.0, ties="adaptive", task_prior="mean", task="t"),
        MultiTaskRegressorCV(lams=3, task="t"),
    ):
        once = model.fit(table, y, sample_weight=weight).predict(table)
        again = model.fit(table, y, sample_weight=1e-3 * weight).predict(table)
        np.testing.assert_allclose(again, once, atol=1e-4)


@pytest.mark.parametrize("level", [1e4, 1e8])
def test_a_large_mean_of_y_changes_nothing_else(level):
    table, y = grouped()
    found = []
    for mean in (0.0, level):
        model = tabular_model("regressor", task="t", trees="none").fit(table, y + mean)
        ends = model.predict_interval(table)
        found.append(np.column_stack([model.predict(table), ends]) - mean)
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[200] + [3] * 7, [100] * 5 + [5] * 20])
def test_intervals_hold_for_small_tasks(sizes):
    task, new = np.repeat(np.arange(len(sizes)), sizes), np.arange(len(sizes) * 50)
    new = new % len(sizes)
    covered = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        level, slope = rng.normal(size=(2, len(sizes))) * [[1.0], [0.3]]

        def draw(task, level=level, slope=slope, rng=rng):
            x = rng.normal(size=len(task))
            y = level[task] + (1.0 + slope[task]) * x + rng.normal(size=len(task))
            return pd.DataFrame({"x": x, "t": task.astype(str)}), y

        model = tabular_model("regressor", task="t", trees="none").fit(*draw(task))
        rows, y = draw(new)
        low, high = model.predict_interval(rows).T
        covered.append((low <= y) & (y <= high))
    small = np.array(sizes)[new] < 100
    assert 0.87 < np.mean(np.array(covered)[:, small]) < 0.94
    assert 0.87 < np.mean(np.array(covered)[:, ~small]) < 0.94


def test_crossed_columns_are_no_nested_tasks():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"state": np.arange(120) % 12, "year": np.arange(120) // 12})
    table["x"], y = rng.normal(size=120), rng.normal(size=120)
    model = tabular_model("regressor", task=["state", "year"], trees="none", cv=2)
    with pytest.raises(ValueError, match="'state' and 'year' are crossed"):
        model.fit(table, y)
    # Labels may start anew in each group.
    table["year"] = np.arange(120) // 12 % 3
    assert len(model.fit(table, y)[-1].tasks_) == 36


def test_a_wide_table_gets_common_effects_and_a_sentence(monkeypatch):
    monkeypatch.setattr(ties, "MOST_NUMBERS", 12 * 30)
    monkeypatch.setattr(tabular, "MOST_COLUMNS", 30)
    table, y = grouped()
    rng = np.random.default_rng(0)
    for k in range(6):
        table[f"c{k}"] = rng.normal(size=len(y))
    model = tabular_model("regressor", task="t", trees="none")
    with (
        pytest.warns(UserWarning, match="too many for curves"),
        pytest.warns(UserWarning, match="too many to estimate which effects"),
    ):
        model.fit(table, y)
    assert model[-1].structure_["slopes"] == "common"
    assert model.score(table, y) > 0.5


def test_integers_that_are_identifiers_are_no_chain(monkeypatch):
    # As if a chain were costly.
    monkeypatch.setitem(search_structures.__globals__, "CHEAP_CHAIN", 20)
    rng = np.random.default_rng(0)
    task, x = np.arange(300) % 60, rng.normal(size=300)
    noise, table = rng.normal(size=300), pd.DataFrame({"x": x, "t": task})
    model = MultiTaskRegressorCV(ties="adaptive", fit_intercept="tied", task="t")
    model.fit(table, rng.normal(size=60)[task] + noise)
    assert set(model.cv_results_.get("param_task_prior", ["mean"])) == {"mean"}
    model.fit(table, np.cumsum(rng.normal(size=60))[task] + noise)
    assert model.structure_["task_prior"] == "chain"


@pytest.mark.parametrize("k", [4, 8])
def test_two_tasks_of_which_one_has_a_single_row(k):
    x = np.random.default_rng(0).normal(size=k + 1)
    table = pd.DataFrame({"x": x, "t": ["a"] * k + ["b"]})
    for model in (
        tabular_model("regressor", task="t", trees="none"),
        MultiTaskRegressorCV(task="t"),
    ):
        assert np.isfinite(model.fit(table, x**2).predict(table)).all()


@pytest.mark.parametrize("build", [MultiTaskRegressorCV, MultiTaskClassifierCV])
def test_ties_as_an_array_with_tasks_of_one_row(build):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(40, 2)), np.append(np.arange(20), np.arange(20) % 2)
    model = build(lams=2, epsilons=[1.0], ties=np.array([1.0, 2.0]))
    assert model.fit(X, X[:, 0] > 0, task=task).coef_.shape == (20, 2)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """File of a model with curves and trees."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, size=(2, 300))
    table = pd.DataFrame({"a": a, "b": b, "t": np.arange(300) % 3})
    model = tabular_model("regressor", task="t").fit(table, np.sign(a * b))
    path = tmp_path_factory.mktemp("sealed") / "a.model"
    save(model, path)
    return path


@pytest.mark.parametrize(
    ("change", "match"),
    [("coef", "numbers in coef"), ("trees", "trees"), ("curves", "shape of curves")],
)
def test_files_that_were_changed_and_sealed_again_are_refused(
    sealed, tmp_path, change, match
):
    settings, arrays = read_archive(sealed, "model")
    if change == "trees":  # a way that leads back to where it began
        arrays["trees.right.0"] = np.zeros_like(arrays["trees.right.0"])
    elif change == "coef":
        arrays["coef"] = np.full_like(arrays["coef"], np.nan)
    else:
        terms = settings["fitted"]["design"]["terms"]
        curve = next(term for term in terms if term["kind"] == "curve")
        curve["curves"][3].pop()
    write_archive(tmp_path / "b.model", "model", settings, arrays)
    with pytest.raises(ModelFileError, match=match):
        load(tmp_path / "b.model")


def test_reports_score_rows_of_new_tasks(tmp_path):
    table, y = grouped()
    model = tabular_model("regressor", task="t", trees="none").fit(table, y)
    new = table.assign(t=np.where(np.arange(len(y)) < 10, "new", table["t"]))
    made = report(model, X=new, y=y)
    made.save(tmp_path / "report.html")
    assert "120" in made.to_json()


def test_messages_of_the_command_name_its_options():
    assert in_options("Raise max_iter, or use standardize=True.") == (
        "Use a larger --lam."
    )
    assert in_options('ties="adaptive" needs rows') == "--ties adaptive needs rows"
    assert in_options("such as task='state'; or") == "such as --task state; or"


ONE_ROW = pd.DataFrame({"x": [1.5], "c": ["u"], "t": ["a"]})
ONE_ROW_MODELS = {
    "fixed": MultiTaskRegressor(task="t"),
    "searched": MultiTaskRegressorCV(task="t"),
    "table": tabular_model("regressor", task="t"),
    "linear": tabular_model("regressor", task="t", trees="none", crossed="c"),
    "gamma": tabular_model("regressor", task="t", loss="gamma"),
    "counts": MultiTaskRegressorCV(loss="negative_binomial", task="t"),
    "later": tabular_model("regressor", task="t", time="x"),
}


@pytest.mark.parametrize("name", ONE_ROW_MODELS)
def test_one_row_is_its_mean(name, tmp_path):
    model = clone(ONE_ROW_MODELS[name])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(ONE_ROW, [3.0])
    words = [str(one.message) for one in caught]
    told = "no rows can be held out (n_samples=1)"
    assert [text[: len(told)] for text in words] == [told] * (name != "fixed")
    assert model.predict(ONE_ROW) == pytest.approx(3.0)
    assert model.dual_gap_ < 1e-9
    if name != "fixed":
        with pytest.raises(ValueError, match="rows enough to hold some of them out"):
            model.predict_interval(ONE_ROW)
    save(model, tmp_path / "a.model")
    assert load(tmp_path / "a.model").predict(ONE_ROW) == pytest.approx(3.0)
    assert "1 task" in str(model.summary())
    report(model, X=ONE_ROW, y=[3.0]).save(tmp_path / "report.html")


def test_rows_that_are_not_held_out_when_folds_are_asked_for_are_an_error():
    X, y = np.ones((1, 1)), [3.0]
    with pytest.raises(ValueError, match="X must have two rows at least"):
        MultiTaskRegressorCV(cv=3).fit(X, y)


def test_as_many_classes_as_rows_are_fitted():
    table = pd.DataFrame({"x": [0.0, 1.0, 4.0], "t": ["a", "b", "c"]})
    model = tabular_model("classifier", task="t")
    with pytest.warns(UserWarning, match="no rows can be held out"):
        model.fit(table, ["u", "v", "w"])
    assert model.predict_proba(table).sum(axis=1) == pytest.approx(1.0)
    assert list(model.predict(table)) == ["u", "v", "w"]


@pytest.mark.parametrize(
    "build",
    [
        MultiTaskClassifier,
        MultiTaskClassifierCV,
        partial(tabular_model, "classifier"),
        partial(tabular_model, "classifier", trees="none", crossed="c"),
    ],
)
def test_one_class_is_certain(build, tmp_path):
    table, _ = grouped()
    table["c"] = np.array(["u", "v", "w"])[np.arange(len(table)) % 3]
    y = np.full(len(table), "yes")
    model = build(task="t")
    with pytest.warns(UserWarning, match=r"got \['yes'\] in all rows"):
        model.fit(table, y)
    assert list(model.classes_) == ["yes"]
    assert not model.coef_.any()
    save(model, tmp_path / "a.model")
    for one in (model, load(tmp_path / "a.model")):
        assert np.array_equal(one.predict(table), y)
        assert np.array_equal(one.predict_proba(table), np.ones((len(y), 1)))
    assert model.score(table, y) == 1.0
    assert "12 tasks" in str(model.summary())
    report(model, X=table, y=y).save(tmp_path / "report.html")
    with pytest.raises(ValueError, match="known to the model: got 7"):
        report(model, X=table, y=np.full(len(y), 7))


def test_a_task_may_show_one_class():
    table, y = grouped()
    labels = np.where((y > 0) | (table["t"] == "t3"), "yes", "no")
    model = tabular_model("classifier", task="t", trees="none").fit(table, labels)
    chance = model.predict_proba(table[table["t"] == "t3"])[:, 1]
    assert np.all((chance > 0.5) & (chance < 1.0))


def test_an_interrupted_fit_is_no_fit(monkeypatch):
    table, y = grouped()
    X, task = table[["x"]], table["t"]
    fresh = MultiTaskRegressor(0.1).fit(X, y, task=task)
    model = MultiTaskRegressor(0.1)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BlockNewton, "step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y, task=task)
    with pytest.raises(NotFittedError):
        model.predict(X, task=task)
    np.testing.assert_array_equal(model.fit(X, y, task=task).coef_, fresh.coef_)


@pytest.mark.parametrize(("n", "m"), [(2, 1), (2, 2), (3, 2), (4, 3)])
@pytest.mark.parametrize("loss", ["squared", "gamma"])
def test_tables_of_a_few_rows_are_fitted(n, m, loss):
    rng = np.random.default_rng(n)
    table = pd.DataFrame({"x": rng.normal(size=n), "task": np.arange(n) % m})
    y = np.exp(rng.normal(size=n))
    model = tabular_model("regressor", task="task", loss=loss).fit(table, y)
    ends = model.predict_interval(table)
    assert np.all(ends[:, 0] <= ends[:, 1])
    assert np.all(np.isfinite(model.predict(table)))


def test_levels_of_which_folds_show_one_are_fitted():
    table = pd.DataFrame({"c": ["1", "1", "x"], "t": 0})
    model = tabular_model("regressor", task="t", loss="gamma", crossed="c")
    y = np.array([0.7, 3.9, 2.4])
    assert model.fit(table, y).predict(table) == pytest.approx(y.mean(), rel=0.1)


def test_levels_alone_are_a_model():
    # Ratings have users and items; means of groups, only groups.
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 12, 600), rng.integers(0, 40, 600)
    y = rng.normal(size=12)[users] + rng.normal(size=40)[items]
    y += 0.3 * rng.normal(size=600)
    table = pd.DataFrame({"user": users, "item": [f"item {k}" for k in items]})
    by_user = tabular_model("regressor", task="user").fit(table[["user"]], y)
    means = pd.Series(y).groupby(users).transform("mean")
    assert np.corrcoef(by_user.predict(table), means)[0, 1] > 0.999
    ratings = tabular_model("regressor", task="user", trees="none").fit(table, y)
    assert np.std(y - ratings.predict(table)) < 0.33
    assert "item" in ratings.fitted_.crossed_values(ratings.fitted_.crossed.effects)
    assert "12 tasks" in str(by_user.summary())


def test_structures_that_fall_behind_are_given_up():
    rng = np.random.default_rng(0)
    x, task = rng.uniform(-3, 3, 240), np.arange(240) % 8
    y = 5.0 * np.sin(2.0 * x) + rng.normal(size=8)[task] + 0.1 * rng.normal(size=240)
    model = tabular_model("regressor", task="t", trees="none")
    model.fit(pd.DataFrame({"x": x, "t": [f"t{k}" for k in task]}), y)
    tried = model[-1].cv_results_["param_smooth"]
    assert "straight" not in set(tried)
    assert model[-1].structure_["smooth"] != "straight"
