"""priormtl with crossed factors: fit, what is printed, predictions and reports."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from priormtl import MultiTaskRegressor, load, tabular_model
from priormtl.cli.main import app
from processes import assert_refused

COLUMNS = ("--task", "school", "--target", "score")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def exams(tmp_path_factory):
    """Pupils of schools, taught by teachers of several schools."""
    path, n = tmp_path_factory.mktemp("exams") / "exams.csv", 400
    rng = np.random.default_rng(0)
    school, teacher = rng.integers(0, 5, n), rng.integers(0, 25, n)
    table = pd.DataFrame(
        {
            "hours": rng.normal(size=n).round(2),
            "colour": rng.choice(["red", "green", "blue"], n),
            "teacher": [f"t{k}" for k in teacher],
            "name": [f"p{k}" for k in range(n)],
            "school": [f"s{k}" for k in school],
        }
    )
    score = np.sin(2.0 * table["hours"]) + rng.normal(size=5)[school]
    score += rng.normal(size=25)[teacher] + 0.3 * rng.normal(size=n)
    table.assign(score=score).to_csv(path, index=False)
    return path


@pytest.mark.filterwarnings("ignore:column 'name'")
def test_the_default_says_what_each_column_became(exams, tmp_path):
    out = tmp_path / "a.model"
    result = run("fit", exams, *COLUMNS, "--trees", "none", "--out", out)
    assert result.exit_code == 0, result.output
    assert (
        "Columns: hours as a curve; colour as 3 categories; teacher as 25 crossed "
        "levels; name left out (all different)." in result.output
    )
    model = load(out)
    sd = model[-1].crossed_sd_["teacher"]
    line = f"Crossed: 25 levels of teacher, standard deviation of effects {sd:.4g}."
    assert line in result.output
    table = pd.read_csv(exams)
    again = tabular_model("regressor", task="school", trees="none")
    X = table.drop(columns="score")
    expected = again.fit(X, table["score"]).predict(X)
    np.testing.assert_allclose(model.predict(X), expected)
    page = tmp_path / "a.html"
    shown = run("report", out, "--data", exams, "--out", page)
    assert shown.exit_code == 0, shown.output


@pytest.mark.filterwarnings("ignore:column 'name'")
def test_columns_may_be_crossed_or_not(exams, tmp_path):
    out = tmp_path / "a.model"
    words = ("fit", exams, *COLUMNS, "--trees", "none", "--json", "--out", out)
    facts = json.loads(run(*words, "--crossed", "none").stdout)
    assert facts["became"]["teacher"] == "25 categories"
    assert facts["crossed"] == {}
    facts = json.loads(run(*words, "--crossed", "colour,teacher").stdout)
    assert facts["became"]["colour"] == "3 crossed levels"
    assert facts["became"]["name"] == "left out (all different)"
    assert {name: one["levels"] for name, one in facts["crossed"].items()} == {
        "colour": 3,
        "teacher": 25,
    }


def test_linear_models_take_columns_by_name(exams, tmp_path):
    out, predicted = tmp_path / "a.model", tmp_path / "a.csv"
    words = ("--lam", "1", "--epsilon", "2", "--drop", "name", "--out", out)
    result = run("fit", exams, *COLUMNS, "--crossed", "teacher", *words)
    assert result.exit_code == 0, result.output
    assert "teacher as 25 crossed levels" in result.output
    table = pd.read_csv(exams)
    X = table.drop(columns=["score", "name"])
    model = MultiTaskRegressor(
        1.0, 0.0, 2.0, task="school", crossed="teacher", standardize=True
    )
    expected = model.fit(X, table["score"]).predict(X)
    assert run("predict", out, exams, "--out", predicted).exit_code == 0
    np.testing.assert_allclose(pd.read_csv(predicted)["prediction"], expected)
    shown = run("report", out, "--data", exams, "--out", tmp_path / "a.html")
    assert shown.exit_code == 0, shown.output


def test_gaps_in_features_of_linear_models_with_crossed_factors(exams, tmp_path):
    table = pd.read_csv(exams).drop(columns="name")
    table.loc[:4, "hours"] = None
    path, out = tmp_path / "gaps.csv", tmp_path / "a.model"
    table.to_csv(path, index=False)
    words = ("fit", path, *COLUMNS, "--crossed", "teacher", "--lam", "1")
    words += ("--epsilon", "1", "--out", out)
    assert_refused(run(*words), "'hours' is missing in 5 of 400")
    assert_refused(run(*words, "--missing", "mean"), "--missing mean cannot")
    facts = json.loads(run(*words, "--missing", "drop", "--json").stdout)
    assert facts["dropped"] == 5


@pytest.mark.filterwarnings("ignore:column 'name'")
def test_a_prior_may_name_categories_of_a_long_column(exams, tmp_path):
    known = tmp_path / "known.toml"
    known.write_text('[[nonnegative]]\nfeatures = ["teacher=t1"]\n')
    out = tmp_path / "a.model"
    words = ("--prior", known, "--trees", "none", "--json", "--out", out)
    result = run("fit", exams, *COLUMNS, *words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["became"]["teacher"] == "25 categories"


def test_options_that_crossed_factors_rule_out_are_named(exams, tmp_path):
    words = ("fit", exams, *COLUMNS, "--crossed", "teacher", "--out", tmp_path / "a")
    assert_refused(run(*words, "--key", "name"), "--crossed needs rows in memory")
    assert_refused(run(*words, "--shards", tmp_path / "s"), "combined with --shards")
    words = ("fit", exams, *COLUMNS, "--model", "linear", "--out", tmp_path / "a")
    assert_refused(run(*words, "--crossed", "auto"), "must name columns")
    assert_refused(run(*words, "--crossed", "teecher"), "Did you mean 'teacher'")
    stats = ("fit", "--from-stats", exams, "--crossed", "teacher")
    assert_refused(run(*stats, "--out", tmp_path / "a"), "with --from-stats")


def test_factors_that_folds_decide_against_leave_the_model_file(tmp_path):
    """Years recur in all regions, and are tried as a factor beside the shops."""
    rng, n = np.random.default_rng(0), 600
    region, year = np.repeat(np.arange(20), 30), np.tile(np.arange(30), 20)
    shop = rng.integers(0, 30, n)
    sales = 0.1 * year + rng.normal(size=20)[region] + rng.normal(size=30)[shop]
    path, out = tmp_path / "sales.csv", tmp_path / "a.model"
    table = pd.DataFrame({"region": [f"r{k}" for k in region], "year": 1990 + year})
    table["shop"] = [f"s{k}" for k in shop]
    table.assign(sales=sales + 0.3 * rng.normal(size=n)).to_csv(path, index=False)
    columns = ("--task", "region", "--target", "sales", "--trees", "none")
    result = run("fit", path, *columns, "--out", out)
    assert result.exit_code == 0, result.output
    assert "year as a curve; shop as 30 crossed levels" in result.output
    model = load(out)
    assert set(model[-1].crossed_sd_) == {"shop"}
    expected = tabular_model("regressor", task="region", trees="none")
    expected.fit(table, pd.read_csv(path)["sales"])
    np.testing.assert_allclose(model.predict(table), expected.predict(table))
