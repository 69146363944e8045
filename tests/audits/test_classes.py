"""Audits of models with more than two classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold
from typer.testing import CliRunner

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    TaskPrior,
    audit_prior,
    tabular_model,
)
from priormtl.cli.main import app

CLASSES = np.array(["bus", "car", "train", "walk"])


def draw(seed, n=500, *, apart=0.0, varies=0.0):
    """Rows of four tasks and classes; a and b have the same effects, but for apart.

    The effect of c is the same in all tasks, but for varies; that of d is zero.
    """
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["task"] = rng.choice(list("uvwx"), n)
    task, effect = np.searchsorted(list("uvwx"), X["task"]), np.array([1, 0, -1, 0.5])
    eta = rng.normal(0.0, 0.4, size=(4, 4))[task] + np.outer(X.a + X.b, effect)
    eta[:, 1] += apart * X.b
    eta[:, 2] += 0.7 * X.c
    eta[:, 0] += varies * np.array([1, -1, 1, -1])[task] * X.c
    return X, CLASSES[np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)]


def audited(X, y, prior, **settings):
    given = {"task_prior": "mean", "task": "task", "feature_prior": prior, "lam": 0.5}
    model = MultiTaskClassifier(**given | settings).fit(X, y)
    found = audit_prior(model, X, y, cv=None).relations
    return {one.relation: one for one in found}


@pytest.mark.parametrize("intercept", [True, False, "tied"])
def test_relations_and_common_effects_over_all_classes(intercept):
    prior = FeaturePrior.similar([("a", "b")]) + FeaturePrior.common(["c"])
    said = ["a ~ b", "c: the same in all tasks"]
    settings = {"fit_intercept": intercept, "theta": 0.1}
    for planted in ({}, {"apart": -1.5}, {"varies": 1.5}):
        contradicted = np.zeros(2)
        for seed in range(3):
            found = audited(*draw(seed, **planted), prior, **settings)
            contradicted += [found[one].verdict == "disagrees" for one in said]
        wrong = np.array(["apart" in planted, "varies" in planted])
        assert np.all(contradicted[wrong] == 3)
        assert np.all(contradicted[~wrong] <= 1)


def test_signs_cannot_be_judged_as_classes_may_move_together():
    prior = FeaturePrior.nonnegative(["a"]) + FeaturePrior.similar([("a", "b")])
    one = audited(*draw(0), prior, lam=0.1)["a ≥ 0"]
    assert one.verdict == "cannot be judged"
    assert np.isnan(one.p_value)
    # One class has a = −1, less their mean: outside in all tasks; so has bus or walk.
    assert 0.25 <= one.violation_before <= 0.75
    assert one.violation_after > 0


def test_known_values_are_judged_by_differences_of_classes():
    prior = FeaturePrior.near({"a": 0.0, "d": 0.3}, weight=0.01)
    found = audited(*draw(1, varies=1.0), prior, fit_intercept="tied")
    assert found["a ~ 0"].verdict == "disagrees"
    assert found["d ~ 0.3"].verdict == "agrees"


def test_a_task_may_lack_the_classes_of_a_pair():
    X, y = draw(2, n=800)
    kept = (X["task"] != "u") | (y == "car")
    X, y = X[kept].reset_index(drop=True), y[kept]
    # The task u has no rows of two other classes.
    classes, counts = np.unique(y, return_counts=True)
    assert classes[counts.argmax()] != "car"
    prior = FeaturePrior.similar([("a", "b")])
    groups = TaskPrior.groups({"one": ["u", "v"], "two": ["w", "x"]})
    found = audited(X, y, prior, fit_intercept="tied", task_prior=groups)
    assert found["a ~ b"].verdict == "agrees"


def test_errors_on_held_out_rows_are_those_of_models_of_training_rows():
    X, y = draw(3, n=240)
    prior = FeaturePrior.similar([("a", "b")])
    given = {"task": "task", "task_prior": "mean", "tol": 1e-10}
    model = MultiTaskClassifier(0.5, theta=5.0, feature_prior=prior, **given)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    helped = audit_prior(model.fit(X, y), X, y, cv=folds).helped
    assert helped.metric == "log loss"
    for theta, errors in ((5.0, helped.with_prior), (0.0, helped.without_prior)):
        model.set_params(theta=theta)
        for (train, test), error in zip(folds, errors, strict=True):
            shares = model.fit(X.iloc[train], y[train]).predict_proba(X.iloc[test])
            wanted = log_loss(y[test], shares, labels=CLASSES)
            assert error == pytest.approx(wanted, abs=1e-5)


def test_models_that_search_and_default_models():
    X, y = draw(4, n=240)
    prior = FeaturePrior.similar([("a", "b")])
    model = MultiTaskClassifierCV(
        feature_prior=prior, task="task", lams=[0.1, 1.0], cv=2
    )
    audit = audit_prior(model.fit(X, y), X, y, cv=2, n_repeats=1)
    assert audit.helped is not None
    assert audit.relations[0].verdict == "agrees"
    default = tabular_model("classifier", task="task", trees="none", cv=2)
    audit = audit_prior(default.fit(X, y), X, y)
    words = {one.relation: one.verdict for one in audit.relations}
    assert words["a: smooth (a straight line is enough)"] == "agrees"


def test_the_command_audits_several_classes(tmp_path):
    X, y = draw(5, n=240)
    data, model = str(tmp_path / "data.csv"), str(tmp_path / "transport.model")
    X.assign(mode=y).to_csv(data, index=False)
    words = ["--task", "task", "--target", "mode", "--classify", "--out", model]
    words += ["--trees", "none", "--folds", "2"]
    assert CliRunner().invoke(app, ["fit", data, *words]).exit_code == 0
    found = CliRunner().invoke(app, ["audit", model, data])
    assert found.exit_code == 0
    assert "c: smooth (a straight line is enough)" in found.stdout
