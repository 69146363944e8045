"""priormtl report: a page from a file, and one sentence where that cannot be."""

import json

import pytest
from typer.testing import CliRunner

from priormtl import save
from priormtl.cli.main import app
from reported_models import drawn_rows, tuned_model


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
    assert "less error.\nWhich features matter?" in result.output
    assert result.output.endswith("wrote report.html\n")
    assert "<h1>Exams</h1>" in (model / "report.html").read_text(encoding="utf-8")


def test_rows_are_scored_and_answers_printed_as_json(model):
    columns = ("--task", "region", "--target", "score")
    result = run("exams.model", "--data", "new.csv", *columns, "--json")
    told = json.loads(result.stdout)
    assert told["file"] == "report.html"
    assert told["findings"][0]["numbers"]["rows"] == 100
    assert told["findings"][0]["numbers"]["rows_metric"] == "R²"


def test_all_coefficients_may_be_written(model):
    result = run("exams.model", "--out", "r.html", "--coefficients", "c.csv")
    assert result.exit_code == 0, result.output
    assert len((model / "c.csv").read_text(encoding="utf-8").splitlines()) == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("no.model",), "no.model"),
        (("new.csv",), "new.csv"),
        (("exams.model", "--task", "region"), "name that file, too"),
        (("exams.model", "--data", "new.csv"), "--data needs --task COL"),
        (("exams.model", "--out", "no/r.html"), "folder no does not exist"),
        (("exams.model", "--coefficients", "c.txt"), "ends in .csv"),
        (("exams.model", "--out", "exams.model"), "must be another file than"),
        (("exams.model", "--out", "a.csv", "--coefficients", "a.csv"), "than --out"),
    ],
)
def test_mistakes_end_with_one_sentence_and_no_file(model, words, told):
    result = run(*words)
    assert result.exit_code == 2
    assert told in result.output
    assert result.output.count("\n") == 1
    assert not list(model.glob("**/*.html"))


def test_help_has_an_example():
    assert "Example: priormtl report" in run("--help").output
