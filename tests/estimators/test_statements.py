"""Statements about features: what each came to, in summaries and reports."""

import numpy as np
import pandas as pd
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskRegressor,
    SplineFeatures,
    load,
    report,
    save,
    tabular_model,
)

pytestmark = pytest.mark.usefixtures("few_trees")


def sales(n=240, m=6, seed=0):
    """Price lowers sales in half of the tasks only; dose acts by 0.35 everywhere."""
    rng = np.random.default_rng(seed)
    task = np.arange(n) % m
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["price", "dose"])
    X["size"] = np.where(rng.normal(size=n) > 0, "s", "m")
    slope = np.where(np.arange(m) < m // 2, -1.0, 1.0)[task]
    y = slope * X["price"] + 0.35 * X["dose"] + 0.1 * rng.normal(size=n)
    return X, y, task


def fit(prior, **settings):
    X, y, task = sales()
    given = {"lam": 0.0, "epsilon": 0.01, "theta": 10.0, "feature_prior": prior}
    return MultiTaskRegressor(**given | settings).fit(X, y, task=task)


def test_signs_count_the_tasks_at_their_bound():
    model = fit(
        FeaturePrior.nonpositive(["price"]) + FeaturePrior.nonnegative(["dose"])
    )
    price, dose = model.summary().statements
    assert price.statement == "price ≤ 0"
    assert price.outcome == "at its bound in 3 of 6 tasks"
    assert (model.coef_[:, 0] == 0).sum() == 3
    assert dose.statement == "dose ≥ 0"
    assert dose.outcome == f"never at its bound, {dose.least:.3g} to {dose.most:.3g}"
    assert (dose.least, dose.most) == (model.coef_[:, 1].min(), model.coef_[:, 1].max())


def test_known_values_stand_beside_what_was_found():
    [one] = fit(FeaturePrior.near({"dose": 0.3}, weight=4.0)).summary().statements
    assert one.statement == "dose near 0.3"
    assert 0.3 < one.least < one.most < 0.36
    assert one.words.endswith(", theta 10")
    by_task = {task: 0.1 * task for task in range(6)}
    model = fit(FeaturePrior.near({"dose": by_task}))
    [one] = model.summary().statements
    off = np.abs(model.coef_[:, 1] - 0.1 * np.arange(6)).max()
    assert one.outcome == f"off by at most {off:.3g}, theta 10"


def test_sums_with_a_target_are_statements_and_relations_are_not():
    prior = FeaturePrior.from_matrix([[1.0, 1.0, 0.0, 0.0]], target=0.5)
    related = FeaturePrior.similar([("price", "dose")])
    model = fit(prior + related, theta=100.0)
    [one] = model.summary().statements
    assert (one.kind, one.statement) == ("matrix", "1 · price + 1 · dose near 0.5")
    sums = model.coef_[:, :2].sum(axis=1)
    assert (one.least, one.most) == pytest.approx((sums.min(), sums.max()))


def test_common_effects_are_listed_by_column():
    dose, size = fit(FeaturePrior.common(["dose", "size"])).summary().statements
    assert dose.statement == "dose: the same in all tasks"
    assert dose.least == dose.most
    assert dose.outcome == f"{dose.least:.3g}"
    assert size.outcome.startswith("2 categories, ")


def curved(prior, **settings):
    rng = np.random.default_rng(0)
    age, size = rng.uniform(0.0, 10.0, 300), rng.normal(size=300)
    y = np.sin(age) + np.arange(300) % 5 * size + 0.1 * rng.normal(size=300)
    X = SplineFeatures(["age"]).fit_transform(pd.DataFrame({"age": age, "size": size}))
    model = MultiTaskRegressor(
        0.0, feature_prior=prior, task_prior="mean", standardize=True, **settings
    )
    return model.fit(X, y, task=np.arange(300) % 5)


def test_smooth_effects_count_effective_wiggles():
    prior = FeaturePrior.smooth()
    [bent] = curved(prior, ties="adaptive").summary().statements
    assert bent.statement == "age: smooth"
    assert 3.0 < bent.wiggles < 8.0
    assert "effective wiggles" in bent.words
    both = FeaturePrior.common(["age"]) + prior
    _, same = curved(both, ties="adaptive").summary().statements
    assert same.outcome == "one curve"
    assert same.wiggles == pytest.approx(bent.wiggles, rel=0.1)
    [fixed] = curved(prior).summary().statements
    assert fixed.wiggles is None
    assert fixed.words == fixed.outcome


def test_files_notebooks_and_reports_keep_statements(tmp_path):
    prior = FeaturePrior.nonpositive(["price"]) + FeaturePrior.common(["dose"])
    model = fit(prior)
    said = "at its bound in 3 of 6 tasks"
    save(model, tmp_path / "a.model")
    assert load(tmp_path / "a.model").summary().statements == model.summary().statements
    assert str(model.summary().statements[0]) == f"price ≤ 0: {said}"
    assert said in model._repr_html_()
    assert list(model.summary().to_frame("statements")["kind"]) == ["sign", "common"]
    page = report(model)
    table = page.content.table("statements")
    assert table["outcome"][0] == said
    assert table["least"][0] == model.coef_[:, 0].min()
    assert said in page.to_html()
    assert said in page.to_markdown()
    assert report(fit(None)).content.table("statements") is None


def test_straight_columns_of_tables_say_so():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"shop": np.arange(90) % 3, "age": rng.uniform(0, 9, 90)})
    y = table["age"] + 0.01 * rng.normal(size=90)
    model = tabular_model("regressor", task="shop", trees="none").fit(table, y)
    [one] = model[-1].summary().statements
    straight = model[-1].structure_["smooth"] == "straight"
    assert (one.outcome == "straight") == straight
