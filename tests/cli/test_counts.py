"""priormtl with counts: --loss, --exposure, what targets look like, intervals."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from priormtl import load, tabular_model
from priormtl.cli.main import app
from priormtl.cli.tabular import describe_target
from processes import assert_refused

COLUMNS = ("--task", "district", "--target", "claims", "--trees", "none")
COUNTS = ("--loss", "poisson", "--exposure", "policies", "--smooth", "none")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def claims(tmp_path_factory):
    """Claims in districts, in proportion to the number of policies."""
    path, n = tmp_path_factory.mktemp("claims") / "claims.csv", 200
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.uniform(18.0, 70.0, n).round(1),
            "policies": rng.integers(5, 80, n),
            "district": [f"d{k}" for k in rng.integers(0, 5, n)],
        }
    )
    mean = table["policies"] * np.exp(-3.0 - 0.02 * (table["age"] - 40.0))
    table.assign(claims=rng.poisson(mean)).to_csv(path, index=False)
    return path


def test_counts_are_fitted_as_in_python_and_predicted(claims, tmp_path):
    out, table = tmp_path / "a.model", pd.read_csv(claims)
    words = ("fit", claims, *COLUMNS, *COUNTS, "--folds", 2, "--out", out)
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["scores"]["mean deviance"] < facts["baseline"]["mean deviance"]
    assert facts["target"] is None
    settings = {"loss": "poisson", "exposure": "policies", "smooth": "none", "cv": 2}
    again = tabular_model("regressor", task="district", trees="none", **settings)
    X = table.drop(columns="claims")
    expected = again.fit(X, table["claims"]).predict(X)
    np.testing.assert_allclose(load(out).predict(X), expected)
    new = tmp_path / "new.csv"
    assert run("predict", out, claims, "--interval", 0.9, "--out", new).exit_code == 0
    found = pd.read_csv(new)
    np.testing.assert_allclose(found["prediction"], expected)
    ends = found[["lower", "upper"]].to_numpy()
    np.testing.assert_array_equal(ends, np.round(ends))
    lacking = tmp_path / "lacking.csv"
    table.drop(columns="policies").to_csv(lacking, index=False)
    assert_refused(run("predict", out, lacking, "--out", new), "column 'policies'")
    report = tmp_path / "a.html"
    assert run("report", out, "--out", report).exit_code == 0


def test_contradictions_are_refused(claims, tmp_path):
    out = ("--out", tmp_path / "a.model")
    base = ("fit", claims, "--task", "district", "--target", "claims", *out)
    found = run(*base, "--loss", "poisson", "--lam", 1)
    assert_refused(found, "--loss poisson needs the tabular model")
    assert_refused(run(*base, "--loss", "poisson", "--classify"), "--classify")
    assert_refused(run(*base, "--exposure", "nothing"), "unknown column 'nothing'")


def test_targets_are_described():
    counts = np.array([0.0, 1.0, 3.0, 0.0, 5.0])
    assert describe_target(counts, "squared") == (
        "non-negative integers, mean 1.8: --loss poisson"
    )
    assert describe_target(counts, "poisson") is None
    amounts = np.array([0.1, 0.5, 0.7, 20.5])
    assert describe_target(amounts, "squared").endswith("--loss gamma")
    assert describe_target(counts > 0, "squared").endswith("--classify")
    assert describe_target(np.linspace(-1.0, 1.0, 9), "squared") is None
    assert describe_target(np.array([2001.0, 2002.0, 2003.0]), "squared") is None
