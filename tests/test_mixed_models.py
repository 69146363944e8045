"""What lme4 and MixedLM estimate: fixed effects, random effects and their deviations.

The design is that of lme4's sleepstudy: 18 subjects, each measured on ten days, with
random intercepts and slopes that are not correlated. Its published estimates (Bates,
Mächler, Bolker, Walker 2015) are 251.405 and 10.467, with deviations 25.05 and 5.99
and residuals of 25.57; the data are drawn with these.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    load,
    save,
)

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
