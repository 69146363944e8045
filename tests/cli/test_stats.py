"""priormtl stats: a file of statistics, what it says, and what it refuses."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from mixed_rows import assert_same, mixed_frame, naive, to_arrow
from priormtl import TaskStatistics
from priormtl.cli.main import app
from refusals import assert_refused

COLUMNS = ("--weight", "w", "--features", "size,colour,count")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    place.mkdir()
    frame = mixed_frame(gaps=0.1)
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        parquet.write_table(to_arrow(frame.iloc[rows]), place / f"{i}.parquet")
    return place


def run(*words):
    return CliRunner().invoke(app, ["stats", *(str(word) for word in words)])


def ask(folder, *words, task="school", target="score"):
    out = folder.parent / "site.stats"
    return run(
        folder, "--task", task, "--target", target, "--out", out, *COLUMNS, *words
    )


def load(folder):
    return TaskStatistics.load(folder.parent / "site.stats")


def refuse(result, folder, *words):
    assert_refused(result, *words)
    assert [path.name for path in folder.parent.iterdir()] == ["data"]


def test_help_has_an_example():
    assert "Example: priormtl stats exams.parquet --task" in run("--help").output


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_the_file_holds_what_the_rows_give(folder, missing):
    result = ask(folder, "--missing", missing)
    assert result.exit_code == 0, result.output
    frame = mixed_frame(gaps=0.1)
    assert_same(load(folder), naive(frame, missing))
    assert "200 rows read, 5 tasks, 6 features" in result.stdout
    dropped = frame.isna().any(axis=1).sum()
    assert (f"{dropped} rows dropped" in result.stdout) == (missing == "drop")
    assert result.stderr == ""


def test_json_and_small_tasks(folder):
    counts = mixed_frame()["school"].value_counts()
    words = ("--missing", "mean", "--min-rows", counts.min() + 1)
    told = json.loads(ask(folder, *words, "--json").stdout)
    assert told == {
        "file": str(folder.parent / "site.stats"),
        "rows": 200,
        "dropped": 0,
        "tasks": 4,
        "features": 6,
        "left_out": 1,
    }
    assert counts.idxmin() not in load(folder).tasks
    assert "1 task with fewer than" in ask(folder, *words).stdout


def test_filters_and_categories(folder):
    words = ("--where", "id < 100", "--categories", "colour=red,blue,green,black")
    result = ask(folder, "--missing", "drop", *words)
    assert result.exit_code == 0, result.output
    assert load(folder).features[1:-1] == tuple(
        f"colour={name}" for name in ("black", "blue", "green", "red")
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "0.parquet: column 'size' lacks"),
        (("--missing", "drop", "--min-rows", "1000"), "min_rows=1000 must leave some"),
        (("--categories", "colour"), "--categories must look like COL=A,B"),
        (("--features", "sise"), "unknown column 'sise'"),
        (("--where", "year > 1"), "unknown column 'year'"),
        (("--where", "id < 0"), "there must be rows"),
        (("--out", "nowhere/site.stats"), "folder nowhere does not exist"),
    ],
)
def test_mistakes_are_one_sentence_and_no_file(folder, words, message):
    refuse(ask(folder, *words), folder, message)


DAMAGES = {
    "cannot be read": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "lacks ['size']": lambda path: write(mixed_frame().drop(columns="size"), path),
    "column 'size' must hold numbers": lambda path: write(
        mixed_frame().assign(size="big"), path
    ),
}


def write(frame, path):
    parquet.write_table(to_arrow(frame), path)


@pytest.mark.parametrize("message", DAMAGES)
def test_broken_files_are_named(folder, message):
    path = folder / "1.parquet"
    DAMAGES[message](path)
    refuse(ask(folder, "--missing", "drop"), folder, str(path), message)


def test_an_old_file_survives_a_failure(folder):
    out = folder.parent / "site.stats"
    out.write_text("old")
    assert ask(folder).exit_code == 2
    assert out.read_text() == "old"


def test_no_traceback_from_the_shell(tmp_path):
    data, out = str(tmp_path / "none.csv"), str(tmp_path / "x.stats")
    words = ["stats", data, "--task", "a", "--target", "b", "--out", out]
    result = subprocess.run(
        [sys.executable, "-m", "priormtl", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert result.returncode == 2
    assert result.stderr == f"Error: {data} is not a file or folder.\n"


@pytest.mark.usefixtures("without_pyarrow")
def test_without_pyarrow_the_command_says_what_to_install():
    result = run("x.csv", "--task", "a", "--target", "b", "--out", "x.stats")
    assert result.exit_code == 2
    assert "needs pyarrow" in result.stderr
    assert "priormtl[cli]" in result.stderr
