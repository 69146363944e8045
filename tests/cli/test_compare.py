"""priormtl compare: a table on the screen, JSON, a file; mistakes in one sentence."""

import csv
import json
import math
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import FitFailedWarning
from typer.testing import CliRunner

from priormtl.baselines import comparison, usual
from priormtl.baselines.comparison import compare
from priormtl.cli import compare as command
from priormtl.cli.compare import describe_winner
from priormtl.cli.main import app
from priormtl.datasets import make_related_tasks

pytestmark = pytest.mark.usefixtures("few_trees")

FAST = ("--methods", "priormtl,ridge-single", "--cv", "2", "--settings", "2")
QUICK = ("--methods", "ridge-single,ridge-pooled")  # for what any method shows
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
    shown = result.stdout.splitlines()
    assert sum(line.count(" * ") for line in shown if "│" in line) == 3
    assert shown[-2].startswith("priormtl is what 'priormtl fit' fits by default")
    assert " predicts best: rmse " in shown[-1]
    assert "95 % interval" in shown[-1]
    assert "\x1b" not in result.stdout
    assert result.stderr == ""


def test_json_tells_what_the_library_finds(table):
    result = ask(table, "--json", *QUICK)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows"], told["tasks"], told["features"]) == (36, 3, 4)
    frame = pd.read_csv(table)  # with a column of tasks, as the command has it
    y, methods = frame.pop("score"), ["ridge-single", "ridge-pooled"]
    settings = {"methods": methods, "cv": 2, "n_settings": 2}
    found = compare(frame, y, task="school", **settings).to_dict("records")
    for ours, theirs in zip(told["results"], found, strict=True):
        assert list(ours) == list(theirs)
        assert (ours["method"], ours["metric"]) == (theirs["method"], theirs["metric"])
        assert ours["mean"] == pytest.approx(theirs["mean"], rel=1e-9)


def test_results_are_written_whole(table, tmp_path):
    out = tmp_path / "results.csv"
    result = ask(table, "--json", "--out", out, *QUICK)
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
    result = ask(table, *QUICK)
    assert "6 features; text columns were one-hot encoded: 'kind'." in result.stdout


def test_classes(table):
    words = [line.rsplit(",", 1) for line in table.read_text().splitlines()]
    lines = ["a,b,c,d,school,score"]
    lines += [f"{x},{'yes' if float(y) > 0 else 'no'}" for x, y in words[1:]]
    table.write_text("\n".join(lines))
    result = ask(table, "--json", *QUICK)
    assert result.exit_code == 0, result.output
    metrics = [row["metric"] for row in json.loads(result.stdout)["results"]]
    assert metrics == np.repeat(["log_loss", "auc", "accuracy"], 2).tolist()
    refuse(ask(table, "--no-classify"), "y must")


@pytest.mark.slow
def test_the_default_method_takes_several_classes(tmp_path):
    path, rng = tmp_path / "votes.csv", np.random.default_rng(0)
    age, region = rng.normal(size=90), rng.integers(0, 3, 90)
    party = np.argmax(np.outer(age, [1, 0, -1]) + rng.gumbel(size=(90, 3)), axis=1)
    rows = [f"{r},{a},{'abc'[p]}" for r, a, p in zip(region, age, party, strict=True)]
    path.write_text("\n".join(["region,age,party", *rows]))
    words = ("--task", "region", "--target", "party", "--cv", "2", "--json")
    result = run(path, *words, "--methods", "priormtl,ridge-dummies")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["results"]
    losses = {
        row["method"]: row["mean"] for row in found if row["metric"] == "log_loss"
    }
    assert set(losses) == {"priormtl", "ridge-dummies"}
    assert 0.0 < losses["priormtl"] < min(np.log(3), 1.2 * losses["ridge-dummies"])


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
            "difference": [0.0, math.nan],
            "low": [0.0, math.nan],
            "high": [0.0, math.nan],
        }
    )


def test_counts_are_compared_by_deviance(tmp_path):
    path = tmp_path / "claims.csv"
    rows = [f"{i % 3},{i % 5},{1 + i % 4},{(i * 7) % 6}" for i in range(60)]
    path.write_text("\n".join(["district,age,policies,claims", *rows]))
    words = (path, "--task", "district", "--target", "claims", "--loss", "poisson")
    words += ("--exposure", "policies", "--features", "age", "--cv", "2")
    result = run(*words, "--methods", "ridge-dummies,lightgbm", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["results"]
    assert {row["metric"] for row in found} == {"deviance", "rmse"}
    means = [row["mean"] for row in found if row["metric"] == "deviance"]
    assert len(means) == 2
    assert np.all(np.array(means) < 5.0)
    result = run(*words, "--methods", "mixed-slopes")
    assert result.exit_code == 2
    assert "mixed-slopes is not for loss='poisson'" in result.stderr


def test_later_rows_are_ranked_by_later_rows(tmp_path):
    """Sites rise, then stay: own lines are best between the rows, and worst ahead."""
    rng, m, n = np.random.default_rng(0), 8, 20
    bend = np.minimum(np.arange(n), 7) / 4.0
    level = rng.normal(size=(m, 1)) + rng.normal(0.0, 2.0, size=(m, 1)) * bend
    panel = pd.DataFrame(
        {
            "site": np.repeat([f"s{i}" for i in range(m)], n),
            "year": np.tile(2000 + np.arange(n), m),
            "y": (level + 0.2 * rng.normal(size=(m, n))).ravel(),
        }
    ).sample(frac=1.0, random_state=0)
    path = tmp_path / "panel.csv"
    panel.to_csv(path, index=False)
    words = (path, "--task", "site", "--target", "y", "--cv", "3", "--settings", "2")
    lines = "ridge-single,ridge-dummies"
    later = ("--time", "year", "--split", "later", "--methods")
    result = run(*words, *later, f"priormtl,last-value,{lines}", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    means = {r["method"]: r["mean"] for r in told["results"] if r["metric"] == "rmse"}
    assert list(means) == sorted(means, key=means.get)
    assert told["winner"].startswith(f"{next(iter(means))} predicts best: rmse")
    assert np.isfinite(means["priormtl"])
    errors = []  # of the last value of each site, on each next fifth of the years
    for first in (2008, 2012, 2016):
        known = panel[panel["year"] < first].sort_values("year")
        test = panel[panel["year"].between(first, first + 3)]
        misses = test["y"] - test["site"].map(known.groupby("site")["y"].last())
        errors.append(np.sqrt(np.mean(misses**2)))
    assert means["last-value"] == pytest.approx(np.mean(errors), rel=1e-9)
    assert means["ridge-single"] > means["ridge-dummies"]
    shown = run(*words, *later, lines).stdout
    assert "Mean ± sd over 3 folds of later rows" in shown
    assert "ridge-dummies predicts best" in shown
    assert "ridge-single predicts best" in run(*words, "--methods", lines).stdout


def test_failures_are_a_line_and_null(table, monkeypatch):
    monkeypatch.setattr(comparison, "compare", half)
    result = ask(table, "--json")
    assert result.stderr == "Warning: ridge failed\n"
    assert json.loads(result.stdout)["results"][1]["mean"] is None
    shown = ask(table).stdout
    assert "failed" in shown
    assert "* 1.00 ± 0.50" in shown


@pytest.mark.slow
def test_the_options_of_fit(table):
    lines = table.read_text().splitlines()
    years = ["year;pupil", *(f"{2000 + i % 4};{i}" for i in range(len(lines) - 1))]
    text = "\n".join(f"{y};{x}" for y, x in zip(years, lines, strict=True))
    table.write_text(text.replace(",", ";"))
    words = ("--drop", "pupil,year", "--where", "year < 2003")
    result = ask(table, "--json", *QUICK, *words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows"], told["features"]) == (27, 4)
    result = ask(table, "--json", *QUICK, "--features", "a,b", "--missing", "mean")
    assert json.loads(result.stdout)["features"] == 2
    result = ask(table, "--json", "--features", "a,b,c", "--prior", "natural")
    assert result.exit_code == 0, result.output
    refuse(ask(table, "--drop", "pupl"), "unknown column 'pupl'", "'pupil'")
    refuse(ask(table, "--drop", "a", "--features", "b"), "cannot be combined")


def test_slow_and_absent_methods_are_named(table, monkeypatch):
    monkeypatch.setattr(comparison, "compare", half)
    words = (table, "--task", "school", "--target", "score")
    told = "Left out unless named by --methods: fedem (slow), mtfl (slow), mkmtl (slow)"
    assert told in run(*words).stdout
    assert "Left out" not in ask(table).stdout
    monkeypatch.setattr(usual, "find_spec", lambda name: name != "gpboost" or None)
    assert "gpboost (not installed)" in run(*words).stdout


def test_absent_packages_are_one_sentence(table, monkeypatch):
    monkeypatch.setattr(usual, "find_spec", lambda name: None)
    refuse(ask(table, "--methods", "lightgbm"), "lightgbm needs", "priormtl[compare]")


def test_a_forgotten_task_is_a_question(table):
    result = run(table, "--target", "score", *FAST)
    refuse(result, "--task COL is missing: which column of", "['school', 'a', 'b'")


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


def winner_rows(metric="rmse", **second):
    first = {"method": "a", "metric": metric, "mean": 1.0, "seconds": 2.0}
    first |= {"difference": 0.0, "low": 0.0, "high": 0.0}
    other = first | {"method": "b", "mean": 1.5, "seconds": 0.5}
    other |= {"difference": 0.5, "low": 0.2, "high": 0.8}
    return [first, other | second]


def test_a_sentence_names_winner_margin_and_cost():
    assert describe_winner(winner_rows()) == (
        "a predicts best: rmse 1, 0.5 (95 % interval 0.2 to 0.8) below b, the next "
        "best, at 2 s a fit against 0.5 s."
    )
    unsure = describe_winner(winner_rows(low=-0.1, high=1.1))
    assert "(95 % interval -0.1 to 1.1)" in unsure
    assert unsure.endswith("The difference may be due to chance.")
    area = winner_rows("auc", mean=0.9, difference=-0.1, low=-0.15, high=-0.05)
    assert "0.1 (95 % interval 0.05 to 0.15) above b" in describe_winner(area)
    alone = describe_winner(winner_rows(mean=np.nan))
    assert alone == "a has rmse 1, at 2 s a fit."
    once = describe_winner(winner_rows(low=np.nan, high=np.nan))
    assert once == (
        "a predicts best: rmse 1, 0.5 below b, the next best, at 2 s a fit against "
        "0.5 s."
    )
