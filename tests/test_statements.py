"""What experts know, from the estimators: values, signs and common effects."""

import numpy as np
import pandas as pd
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    summarize,
    tabular_model,
)

pytestmark = pytest.mark.usefixtures("few_trees")

NEAR = FeaturePrior.near({"dose": 3.0})
FORMS = {
    "value": NEAR,
    "sign": FeaturePrior.nonpositive(["price"]),
    "common": FeaturePrior.common(["age"]),
    "all": NEAR
    + FeaturePrior.nonpositive(["price", "age"])
    + FeaturePrior.common(["age"])
    + FeaturePrior.similar([("dose", "rate")]),
}
every_form = pytest.mark.parametrize("form", FORMS)
every_intercept = pytest.mark.parametrize("intercept", [True, False, "tied"])


def shops(n_tasks=8, n_rows=12, seed=0):
    """Rows of shops whose columns have different units, their target and task."""
    rng = np.random.default_rng(seed)
    names = ["age", "price", "dose", "rate"]
    X = rng.normal(size=(n_tasks * n_rows, 4)) * [1.0, 10.0, 0.1, 1.0] + [0, 100, 5, 0]
    code = np.repeat(np.arange(n_tasks), n_rows)
    effects = np.array([1.0, -0.02, 3.0, 0.5])
    effects = effects + rng.normal(size=(n_tasks, 4)) * [0.3, 0.04, 1.0, 0.2]
    y = np.sum(X * effects[code], axis=1) + rng.normal(size=len(X))
    return pd.DataFrame(X, columns=names), y, np.array([f"shop {i}" for i in code])


def regressor(form, **settings):
    given = {"lam": 0.5, "task_prior": "mean", "tol": 1e-10} | settings
    return MultiTaskRegressor(feature_prior=FORMS[form], **given)


@every_form
@every_intercept
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.filterwarnings("ignore:.*far from zero:UserWarning")
def test_rows_and_statistics_give_the_same_certified_model(
    form, intercept, standardize
):
    X, y, task = shops()
    X = X - [0.0, 100.0, 5.0, 0.0]
    weight = np.linspace(0.5, 2.0, len(y))
    settings = {"fit_intercept": intercept, "standardize": standardize}
    rows = regressor(form, **settings).fit(X, y, task=task, sample_weight=weight)
    found = summarize(X, y, task=task, sample_weight=weight)
    other = regressor(form, **settings).fit_statistics(found)
    np.testing.assert_allclose(rows.coef_, other.coef_, rtol=1e-4, atol=1e-6)
    assert rows.dual_gap_ <= 1e-8 * rows.objective_


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_values_are_in_the_units_of_the_columns(standardize, scale):
    X, y, task = shops()
    X = X.assign(dose=scale * X["dose"])
    by_task = {name: 3.0 / scale + i for i, name in enumerate(np.unique(task))}
    for known in (3.0 / scale, by_task):
        prior = FeaturePrior.near({"dose": known}, weight=1e6 * max(scale, 1.0) ** 2)
        model = MultiTaskRegressor(
            lam=0.0, feature_prior=prior, standardize=standardize
        ).fit(X, y, task=task)
        values = known if isinstance(known, float) else list(known.values())
        np.testing.assert_allclose(model.coef_[:, 2], values, rtol=1e-3)


def test_shares_that_add_up_to_one():
    X, y, task = shops()
    D = pd.DataFrame({"age": [1.0], "rate": [1.0]})
    prior = FeaturePrior.from_matrix(D, target=1.0)
    model = MultiTaskRegressor(lam=0.0, theta=1e8, feature_prior=prior)
    model.set_params(standardize=True).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_[:, [0, 3]].sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("form", ["value", "sign", "common", "all"])
def test_predictions_do_not_depend_on_units_of_other_columns(form):
    X, y, task = shops()
    settings = {"standardize": True, "fit_intercept": "tied"}
    here = regressor(form, **settings).fit(X, y, task=task).predict(X, task=task)
    moved = X.assign(price=0.01 * X["price"] + 7.0, rate=50.0 * X["rate"] - 3.0)
    there = regressor(form, **settings).fit(moved, y, task=task)
    np.testing.assert_allclose(there.predict(moved, task=task), here, rtol=1e-5)


@every_form
@every_intercept
@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_constraints_hold_to_the_bit(form, intercept, lam):
    X, y, task = shops(n_rows=5)
    for kind in (MultiTaskRegressor, MultiTaskClassifier):
        middle = pd.Series(y).groupby(task).transform("median").to_numpy()
        target = y if kind is MultiTaskRegressor else y > middle
        model = kind(
            lam=lam,
            fit_intercept=intercept,
            task_prior="mean",
            feature_prior=FORMS[form],
            standardize=True,
        ).fit(X, target, task=task)
        if form in ("sign", "all"):
            assert np.all(model.coef_[:, 1] <= 0)
            assert np.any(model.coef_[:, 1] == 0)
        if form in ("common", "all"):
            assert np.ptp(model.coef_[:, 0]) == 0
            assert model.tie_weights_[0] == np.inf


def test_the_nuclear_norm_and_outlier_tasks_refuse_signs():
    X, y, task = shops()
    with pytest.raises(ValueError, match='penalty must be "l21" where feature_prior'):
        regressor("sign", penalty="nuclear").fit(X, y, task=task)
    with pytest.raises(ValueError, match="outlier_tasks must be False"):
        regressor("sign", outlier_tasks=True).fit(X, y, task=task)


def test_values_go_with_the_nuclear_norm():
    X, y, task = shops()
    settings = {"penalty": "nuclear", "tol": 1e-6, "standardize": True}
    weak = regressor("value", theta=0.0, **settings).fit(X, y, task=task)
    model = regressor("value", theta=1e6, **settings)
    model.fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_[:, 2], 3.0, rtol=1e-2)
    assert np.ptp(weak.coef_[:, 2]) > 0.1
    assert model.dual_gap_ <= 1e-5 * model.objective_


@every_form
def test_saved_models_keep_what_was_known(form, tmp_path):
    X, y, task = shops()
    model = regressor(form, standardize=True).fit(X, y, task=task)
    save(model, tmp_path / "model.pmtl")
    again = load(tmp_path / "model.pmtl")
    assert again.feature_prior_.table().rows == model.feature_prior_.table().rows
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.tie_weights_, model.tie_weights_)


@pytest.mark.slow
def test_a_tuned_theta_forgets_a_wrong_value():
    errors = []
    for seed in range(3):
        X, y, task = shops(n_tasks=8, n_rows=30, seed=seed)
        train = np.arange(len(y)) % 2 == 0
        wrong = FeaturePrior.near({"dose": -30.0})
        settings = {"cv": 3, "ties": "adaptive", "fit_intercept": "tied"}
        for prior in (None, wrong):
            model = MultiTaskRegressorCV(feature_prior=prior, **settings)
            model.fit(X[train], y[train], task=task[train])
            found = model.predict(X[~train], task=task[~train])
            errors.append(np.sqrt(np.mean((found - y[~train]) ** 2)))
    without, with_wrong = np.reshape(errors, (3, 2)).T
    assert np.mean(with_wrong / without) < 1.02


def test_trees_respect_signs_and_columns_keep_their_units():
    X, y, task = shops(n_tasks=6, n_rows=40)
    rng = np.random.default_rng(0)
    y = y + 20.0 * (X["age"] > 0) * (X["rate"] > 0) + rng.normal(size=len(y))
    prior = FeaturePrior.nonpositive(["price"]) + FeaturePrior.near({"dose": 3.0})
    table = X.assign(shop=task, price=np.exp(X["price"] / 10 - 10))
    model = tabular_model("regressor", task="shop", feature_prior=prior)
    model.fit(table, y)
    assert model[-1].trees_weight_ > 0
    assert not {"price~1", "dose~1"} & set(model[0].get_feature_names_out())
    dearer = table.assign(price=table["price"] + 5.0)
    assert np.all(model.predict(dearer) <= model.predict(table) + 1e-9)


def test_common_effects_have_one_standard_error():
    X, y, task = shops(n_tasks=10, n_rows=20)
    settings = {"lam": 0.0, "standardize": True, "fit_intercept": "tied"}
    model = regressor("common", **settings).fit(X, y, task=task)
    lines = str(model.summary(level=0.95)).splitlines()
    (age,) = (line.split() for line in lines if line.startswith("age "))
    _, mean, error, *_, between, low, high, _ = age
    assert mean == low == high
    assert float(between) == 0.0
    # Least squares with a dummy for each task, other slopes aside.
    assert 0.05 < float(error) < 0.1


@pytest.mark.parametrize("form", ["sign", "common", "all"])
def test_files_give_the_same_model_as_rows(form, tmp_path):
    X, y, task = shops()
    X.assign(sales=y, shop=task).to_parquet(tmp_path / "sales.parquet")
    settings = {"standardize": True, "fit_intercept": "tied"}
    rows = regressor(form, **settings).fit(X, y, task=task)
    files = regressor(form, **settings)
    files.fit_source(tmp_path / "sales.parquet", task="shop", target="sales")
    order = [list(files.feature_names_in_).index(name) for name in X.columns]
    np.testing.assert_allclose(files.coef_[:, order], rows.coef_, rtol=1e-5, atol=1e-8)
    assert np.all(files.coef_[:, order][:, 1] <= 0) or form == "common"
