"""Audit of signs, common and smooth effects: true ones pass, wrong ones are found."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    SplineFeatures,
    audit_prior,
    save,
    tabular_model,
)
from priormtl.cli.main import app

pytestmark = pytest.mark.usefixtures("few_trees")

TRUE, WRONG = FeaturePrior.nonnegative(["a"]), FeaturePrior.nonpositive(["a"])


def draw(seed, effect=0.6, spread=0.2, curve=0.0, n_tasks=20, n_rows=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks * n_rows, 3))
    task = np.repeat(np.arange(n_tasks), n_rows)
    effects = np.array([effect, 1.0, -0.5]) + rng.normal(size=(n_tasks, 3)) * [
        spread,
        0.3,
        0.0,
    ]
    y = np.sum(X * effects[task], axis=1) + rng.normal(size=len(X))
    y += rng.normal(size=n_tasks)[task] + curve * np.sin(2.0 * X[:, 2])
    return pd.DataFrame(X, columns=["a", "b", "x"]), y, task


def audit(prior, X, y, task, kind=MultiTaskRegressor, **settings):
    given = {"lam": 0.1, "task_prior": "mean", "fit_intercept": "tied"} | settings
    model = kind(feature_prior=prior, standardize=True, **given).fit(X, y, task=task)
    found = audit_prior(model, X, y, task=task, cv=None)
    return {r.first: r for r in found.relations if r.kind == "statement"}


def p_values(prior, feature, n=25, **settings):
    drawn = (draw(seed, **settings) for seed in range(n))
    return np.array([audit(prior, *data)[feature].p_value for data in drawn])


def test_a_wrong_sign_is_found_and_a_right_one_passes():
    wrong, right = audit(WRONG, *draw(0)), audit(TRUE, *draw(0))
    assert wrong["a"].verdict == "disagrees"
    assert wrong["a"].relation == "a ≤ 0"
    assert wrong["a"].violation_before > 0.7
    assert wrong["a"].violation_after > 0.8
    assert right["a"].verdict == "agrees"


@pytest.mark.parametrize("kind", [MultiTaskRegressor, MultiTaskClassifier])
@pytest.mark.parametrize("intercept", [True, False, "tied"])
def test_signs_are_judged_with_any_loss_and_intercepts(kind, intercept):
    X, y, task = draw(1, effect=1.5, n_rows=30)
    y = (
        y
        if kind is MultiTaskRegressor
        else y > pd.Series(y).groupby(task).transform("median")
    )
    for prior, verdict in ((WRONG, "disagrees"), (TRUE, "agrees")):
        found = audit(prior, X, y, task, kind, fit_intercept=intercept)
        assert found["a"].verdict == verdict


@pytest.mark.slow
def test_false_alarms_and_power_of_all_forms():
    """25 draws each: at most 4 false alarms, which 5 % exceeds once in 100 times."""
    common = FeaturePrior.common(["a"])
    assert np.sum(p_values(TRUE, "a", effect=0.0, spread=0.0) < 0.05) <= 4
    assert np.sum(p_values(WRONG, "a", effect=0.4) < 0.05) >= 22
    assert np.sum(p_values(common, "a", spread=0.0) < 0.05) <= 4
    assert np.sum(p_values(common, "a", spread=0.7) < 0.05) >= 22


def test_effects_that_vary_are_not_common():
    common = FeaturePrior.common(["a"])
    assert audit(common, *draw(2, spread=0.0))["a"].verdict == "agrees"
    assert audit(common, *draw(2, spread=1.0))["a"].verdict == "disagrees"


@pytest.mark.parametrize(
    ("curve", "words"), [(0.0, "a straight line is enough"), (1.5, "it is curved")]
)
def test_curves_are_compared_with_straight_lines(curve, words):
    X, y, task = draw(3, curve=curve)
    X = SplineFeatures(["x"]).fit_transform(X)
    found = audit(FeaturePrior.smooth(["x"]), X, y, task)
    assert words in found["x"].relation
    assert found["x"].verdict == "agrees"


@pytest.mark.slow
def test_the_command_audits_a_model_of_a_table(tmp_path):
    X, y, task = draw(4)
    table = X.assign(shop=[f"shop {t}" for t in task], sales=y)
    table.to_csv(tmp_path / "sales.csv", index=False)
    model = tabular_model("regressor", task="shop", feature_prior=WRONG, trees="none")
    model.fit(table.drop(columns="sales"), y)
    save(model, tmp_path / "sales.model")
    paths = [str(tmp_path / name) for name in ("sales.model", "sales.csv")]
    options = ["--target", "sales", "--folds", "0"]
    shown = CliRunner().invoke(app, ["audit", *paths, *options])
    assert shown.exit_code == 0, shown.output
    assert "the data contradict 1 of 3 (a ≤ 0)" in " ".join(shown.output.split())
    plain = CliRunner().invoke(app, ["audit", *paths, *options, "--json"])
    relations = json.loads(plain.output)["relations"]
    assert relations[0]["verdict"] == "disagrees"
