"""priormtl report: a page from a file, rows read as the model reads them."""

import csv
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from priormtl import MultiTaskRegressor, save
from priormtl.cli.main import app
from priormtl.cli.predict import read_known_rows
from priormtl.design import Design
from priormtl.reports import report
from shown_models import drawn_rows, tuned_model


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tuned_model(), "exams.model")
    X, y, task, _ = drawn_rows()
    X.assign(region=task, score=y).to_csv("new.csv", index=False)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["report", *words])


def test_a_page_is_written_and_the_answers_said(model):
    result = run("exams.model", "--title", "Exams")
    assert result.exit_code == 0, result.output
    assert "explained.\nWhich features matter?" in result.output
    assert result.output.endswith("wrote report.html\n")
    assert "<h1>Exams</h1>" in (model / "report.html").read_text(encoding="utf-8")


def test_rows_are_scored_and_answers_printed_as_json(model):
    columns = ("--task", "region", "--target", "score")
    result = run("exams.model", "--data", "new.csv", *columns, "--json")
    told = json.loads(result.stdout)
    assert told["file"] == "report.html"
    assert told["findings"][0]["numbers"]["rows"] == 100
    assert told["findings"][0]["numbers"]["rows_metric"] == "R²"


def test_only_rows_that_match_are_scored(model):
    columns = ("--task", "region", "--target", "score", "--data", "new.csv", "--json")
    told = json.loads(run("exams.model", *columns).stdout)
    where = ("--where", "score > 0")
    some = json.loads(run("exams.model", *columns, *where).stdout)
    counts = [each["findings"][0]["numbers"]["rows"] for each in (some, told)]
    with open("new.csv", encoding="utf-8") as file:
        positive = sum(float(row["score"]) > 0 for row in csv.DictReader(file))
    assert counts == [positive, 100]
    assert 0 < positive < 100


def test_all_coefficients_may_be_written(model):
    result = run("exams.model", "--out", "r.html", "--coefficients", "c.csv")
    assert result.exit_code == 0, result.output
    assert len((model / "c.csv").read_text(encoding="utf-8").splitlines()) == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("no.model",), "no.model"),
        (("new.csv",), "new.csv"),
        (("exams.model", "--task", "region"), "Give --data"),
        (("exams.model", "--where", "score > 0"), "Give --data"),
        (("exams.model", "--data", "new.csv"), "--data needs --task COL"),
        (("exams.model", "--out", "no/r.html"), "folder no does not exist"),
        (("exams.model", "--coefficients", "c.txt"), "ends in .csv"),
        (("exams.model", "--out", "exams.model"), "would replace the input"),
        (("exams.model", "--out", "a.csv", "--coefficients", "a.csv"), "different"),
    ],
)
def test_mistakes_end_with_one_sentence_and_no_file(model, words, told):
    result = run(*words)
    assert result.exit_code == 2
    assert told in result.output
    assert result.output.count("\n") == 1
    assert not list(model.glob("**/*.html"))


def model_with(design=None):
    """A regressor of which nothing but its columns is known."""
    fitted = SimpleNamespace(design=design, is_classifier=False)
    return SimpleNamespace(fitted_=fitted, task=None)


@pytest.fixture
def rows(tmp_path):
    X, y, task, _ = drawn_rows()
    table = {name: X[name].to_numpy() for name in reversed(X.columns)}
    table = pa.table({**table, "other": y, "region": task, "score": y})
    parquet.write_table(table, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def test_columns_are_found_by_name_in_any_order(rows):
    found = read_known_rows(tuned_model(), rows, task="region", target="score")
    assert found["X"].column_names == tuned_model().feature_names_in_.tolist()
    X, y, task, _ = drawn_rows()
    made = report(tuned_model(), **found).content.finding("quality")
    assert made == report(tuned_model(), X, y, task=task).content.finding("quality")


def test_unnamed_features_are_taken_as_they_are(rows):
    model = model_with()
    found = read_known_rows(model, rows, task="region", target="score")
    assert isinstance(found["X"], np.ndarray)
    assert found["X"].shape == (100, 7)  # the column "other" is one of them


def test_a_model_that_knows_the_tasks_column_needs_no_word(rows):
    X, y, task, _ = drawn_rows()
    model = MultiTaskRegressor(1.0, task="region").fit(X.assign(region=task), y)
    found = read_known_rows(model, rows, task=None, target="score")
    assert "task" not in found
    quality = report(model, **found).content.finding("quality")
    assert quality.numbers["rows_score"] == pytest.approx(
        model.score(X.assign(region=task), y)
    )


def test_a_model_that_remembers_columns_gets_the_table_as_it_is(rows):
    design = replace(Design.of_names(["sleep"]), task="region", target="score")
    model = model_with(design)
    found = read_known_rows(model, rows, task=None, target=None)
    assert "other" in found["X"].column_names
    with pytest.raises(ValueError, match=r"parquet: unknown column 'scor'.*'score'"):
        read_known_rows(model, rows, task=None, target="scor")


def test_absent_features_are_named(rows):
    model = model_with(Design.of_names(["age", "slep"]))
    with pytest.raises(ValueError, match=r"unknown column 'slep'.*'sleep'"):
        read_known_rows(model, rows, task="region", target="score")


def test_both_columns_are_needed(rows):
    with pytest.raises(ValueError, match="--data needs --target COL"):
        read_known_rows(model_with(), rows, task="region", target=None)
    with pytest.raises(ValueError, match="--data needs --task COL"):
        read_known_rows(model_with(), rows, task=None, target="score")


def test_rows_without_task_or_target_are_not_scored(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,t,y\n1,a,2\n3,,4\n5,b,\n7,b,8\n", encoding="utf-8")
    model = model_with(Design.of_names(["x"]))
    found = read_known_rows(model, file, task="t", target="y")
    assert found["X"].to_pydict() == {"x": [1, 7]}
    found = read_known_rows(model, file, task="t", target="y", all_named=False)
    assert found["X"].to_pydict() == {"x": [1, 3, 7]}
    assert found["task"].to_pylist() == ["a", None, "b"]
    file.write_text("x,t,y\n1,,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"t\.csv must have rows with known 't'"):
        read_known_rows(model, file, task="t", target="y")


def test_gaps_drop_rows_where_they_did_so_in_the_fit(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,t,y\n1,a,2\n,a,4\n", encoding="utf-8")
    design = replace(Design.of_names(["x"]), missing="drop")
    found = read_known_rows(model_with(design), file, task="t", target="y")
    assert found["y"].to_pylist() == [2]


def test_targets_that_are_texts_are_named(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,t,y\n1,a,low\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"column 'y' must hold numbers.*'low'"):
        read_known_rows(model_with(), file, task="t", target="y")


@pytest.mark.parametrize("number", ["inf", "1e300"])
def test_targets_that_cannot_be_scored_are_refused(tmp_path, number):
    file = tmp_path / "rows.csv"
    file.write_text(f"t,a,y\nu,1,2.5\nu,2,{number}\n")
    model = MultiTaskRegressor().fit([[1.0], [2.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="column 'y' must hold finite numbers"):
        read_known_rows(model, file, task="t", target="y")
