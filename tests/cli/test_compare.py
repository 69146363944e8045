"""priormtl compare: a table on the screen, JSON, a file; mistakes in one sentence."""

import csv
import json
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn.exceptions import FitFailedWarning
from typer.testing import CliRunner

from priormtl.baselines.compare import compare
from priormtl.cli import compare as command
from priormtl.cli.main import app
from priormtl.datasets import make_related_tasks

FAST = ("--methods", "priormtl,ridge-single", "--cv", "2", "--settings", "2")
METRICS = ["rmse", "variance_explained", "variance_explained_by_task"]


@pytest.fixture(scope="module")
def rows():
    return make_related_tasks(3, 4, 12, noise=0.5, random_state=0)


@pytest.fixture
def table(rows, tmp_path):
    X, y, task = rows
    path = tmp_path / "exams.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d", "school", "score"])
        for x, i, target in zip(X, task, y, strict=True):
            writer.writerow([*(repr(float(v)) for v in x), "nsw"[i], float(target)])
    return path


def run(*words):
    return CliRunner().invoke(app, ["compare", *(str(word) for word in words)])


def ask(path, *words, task="school", target="score"):
    return run(path, "--task", task, "--target", target, *FAST, *words)


def refuse(result, *words):
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr


def test_help_has_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example: priormtl compare exams.csv --task school" in result.output


def test_a_plain_table_marks_the_best(table):
    result = ask(table)
    assert result.exit_code == 0, result.output
    assert "36 rows, 3 tasks, 4 features." in result.stdout
    for word in (
        "priormtl",
        "ridge-single",
        "rmse",
        "variance explained by task",
        "±",
        "seconds",
    ):
        assert word in result.stdout
    assert sum(line.count(" * ") for line in result.stdout.splitlines()[:-1]) == 3
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_json_tells_what_the_library_finds(table, rows):
    result = ask(table, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows"], told["tasks"], told["features"]) == (36, 3, 4)
    X, y, task = rows
    found = compare(
        X, y, task=task, methods=["priormtl", "ridge-single"], cv=2, n_settings=2
    ).to_dict("records")
    for ours, theirs in zip(told["results"], found, strict=True):
        assert list(ours) == ["method", "metric", "mean", "sd", "seconds"]
        assert (ours["method"], ours["metric"]) == (theirs["method"], theirs["metric"])
        assert ours["mean"] == pytest.approx(theirs["mean"], rel=1e-9)


def test_results_are_written_whole(table, tmp_path):
    out = tmp_path / "results.csv"
    result = ask(table, "--json", "--out", out)
    assert result.exit_code == 0, result.output
    with out.open() as file:
        written = list(csv.DictReader(file))
    told = json.loads(result.stdout)["results"]
    assert [row["metric"] for row in written] == np.repeat(METRICS, 2).tolist()
    assert [float(row["mean"]) for row in written] == [row["mean"] for row in told]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "exams.csv",
        "results.csv",
    ]


def test_text_is_encoded_and_said(table):
    lines = table.read_text().splitlines()
    kinds = ["kind", *("xy"[i % 2] for i in range(len(lines) - 1))]
    table.write_text(
        "\n".join(f"{k},{line}" for k, line in zip(kinds, lines, strict=True))
    )
    result = ask(table)
    assert "6 features; of text, every value became one: 'kind'." in result.stdout


def test_classes(table):
    words = [line.rsplit(",", 1) for line in table.read_text().splitlines()]
    lines = ["a,b,c,d,school,score"]
    lines += [f"{x},{'yes' if float(y) > 0 else 'no'}" for x, y in words[1:]]
    table.write_text("\n".join(lines))
    result = ask(table, "--json", "--methods", "priormtl")
    assert result.exit_code == 0, result.output
    metrics = [row["metric"] for row in json.loads(result.stdout)["results"]]
    assert metrics == ["auc", "accuracy"]
    refuse(ask(table, "--no-classify"), "y must")


def half(*_, **settings):
    """Results of a comparison in which one method failed."""
    warnings.warn("ridge failed", FitFailedWarning, stacklevel=1)
    return pa.table(
        {
            "method": ["priormtl", "ridge-single"],
            "metric": ["rmse", "rmse"],
            "mean": [1.0, math.nan],
            "sd": [0.5, math.nan],
            "seconds": [1.0, math.nan],
        }
    )


def test_failures_are_a_line_and_null(table, monkeypatch):
    read_table, _ = command._import_tools()
    monkeypatch.setattr(command, "_import_tools", lambda: (read_table, half))
    result = ask(table, "--json")
    assert result.stderr == "Warning: ridge failed\n"
    assert json.loads(result.stdout)["results"][1]["mean"] is None
    shown = ask(table).stdout
    assert "failed" in shown
    assert "* 1.00 ± 0.50" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "clnt"), "unknown method 'clnt'"),
        (("--methods", ","), "at least one method"),
        (("--cv", "1"), "--cv"),
        (("--out", "nowhere/results.csv"), "folder nowhere does not exist"),
        (("--classify",), "y"),
    ],
)
def test_mistakes_are_one_sentence(table, words, message):
    refuse(ask(table, *words), message)
    assert [path.name for path in table.parent.iterdir()] == ["exams.csv"]


def test_wrong_columns_and_files_are_one_sentence(table, tmp_path):
    refuse(ask(table, target="scor"), "unknown column 'scor'", "Did you mean 'score'")
    refuse(ask(table, task="scool"), "'school'")
    refuse(ask(tmp_path / "none.csv"), "none.csv is not a file")
    table.write_text(table.read_text().replace(",n,", ",,", 1))
    refuse(ask(table), "column 'school' lacks 1 of 36 values")
    table.write_bytes(b"")
    refuse(ask(table), "exams.csv is empty")


def test_no_traceback_from_the_shell(tmp_path):
    path = tmp_path / "cut.parquet"
    path.write_bytes(b"PAR1")
    words = ["compare", str(path), "--task", "a", "--target", "b"]
    result = subprocess.run(
        [sys.executable, "-m", "priormtl", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert result.returncode == 2
    assert result.stderr.startswith(f"Error: {path} cannot be read")
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("without_pyarrow")
def test_without_pyarrow_the_command_says_what_to_install():
    refuse(
        run("x.csv", "--task", "a", "--target", "b"), "needs pyarrow", "priormtl[cli]"
    )


@pytest.mark.parametrize(
    ("spreads", "decimals"),
    [
        ([0.0597, 0.3], 2),
        ([0.012], 3),
        ([140.0], 0),
        ([1e-30], 12),
        ([0.0, math.nan], 3),
        ([], 3),
    ],
)
def test_decimals_follow_the_deviations(spreads, decimals):
    assert command._decimals([{"sd": spread} for spread in spreads]) == decimals
