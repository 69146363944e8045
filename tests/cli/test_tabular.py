"""priormtl fit by default: what tabular_model fits, and all commands that read it."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from drawn_tables import exam_frame
from priormtl import FeaturePrior, TaskGroupKFold, TaskPrior, load, tabular_model
from priormtl.cli.main import app
from priormtl.engines import raw_tables
from processes import assert_refused

pytestmark = pytest.mark.usefixtures("few_trees")

TARGETS = ["score", "passed", "pupil"]
WORDS = ("--task", "school", "--drop", "pupil")
PLAIN = ("--trees", "none", "--smooth", "none", "--folds", "2")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def fit(table, out, *words, target="score"):
    other = {"score": "passed", "passed": "score"}[target]
    words = ("--task", "school", "--drop", f"pupil,{other}", *words)
    result = run("fit", table, *words, "--target", target, "--out", out)
    assert result.exit_code == 0, result.output
    return load(out), result


@pytest.fixture(scope="module")
def exams(tmp_path_factory):
    place = tmp_path_factory.mktemp("exams")
    exam_frame().to_csv(place / "exams.csv", index=False)
    exam_frame(gaps=0.1).to_csv(place / "gaps.csv", index=False)
    return place


@pytest.fixture(scope="module")
def fitted(exams):
    """A model of scores with trees, and what was printed."""
    out = exams / "scores.model"
    return out, fit(exams / "gaps.csv", out)[1]


def test_by_default_it_is_the_model_of_the_library(exams, fitted):
    frame = pd.read_csv(exams / "gaps.csv")
    X = frame.drop(columns=TARGETS)
    expected = tabular_model("regressor", task="school").fit(X, frame["score"])
    np.testing.assert_allclose(load(fitted[0]).predict(X), expected.predict(X))


def test_intervals_are_those_of_the_library(exams, fitted, tmp_path):
    out = tmp_path / "a.csv"
    result = run(
        "predict", fitted[0], exams / "gaps.csv", "--interval", "0.9", "--out", out
    )
    assert result.exit_code == 0, result.output
    found = pd.read_csv(out)
    X = pd.read_csv(exams / "gaps.csv").drop(columns=TARGETS)
    expected = load(fitted[0]).predict_interval(X, coverage=0.9)
    np.testing.assert_allclose(found[["lower", "upper"]], expected, rtol=1e-9)


def test_what_was_chosen_is_told(fitted):
    out, result = fitted
    lines = result.stdout.splitlines()
    assert lines[0] == "240 rows, 3 tasks, 3 columns used."
    assert lines[1] == "Columns: hours, books as straight lines; sex as 2 categories."
    assert lines[2] == "Model: tabular (the default)."
    assert lines[3].startswith("Chosen by cross-validation: effects are similar in")
    assert "Held-out root mean squared error over 5 folds" in lines[4]
    assert "mean of each task alone" in lines[4]
    assert "% lower)" in lines[4]
    assert lines[5] == "Intervals hold for rows like those of the fit."
    assert "Relative duality gap" in lines[6]
    assert f"Next: priormtl report {out}" in lines[-1]


def test_columns_that_repeat_have_their_period_behind_a_colon(exams, tmp_path):
    words = ("--trees", "none", "--smooth", "hours:24", "--folds", "2")
    model, _ = fit(exams / "exams.csv", tmp_path / "m", *words)
    assert model[0].smooth == {"hours": 24.0}
    assert {"hours~1", "hours~2"} < set(model[-1].feature_names_in_)
    assert "hours" not in model[-1].feature_names_in_


def test_held_out_error_is_that_of_rows_not_fitted(exams, tmp_path):
    words = (*PLAIN, "--json")
    model, result = fit(exams / "exams.csv", tmp_path / "m", *words)
    told = json.loads(result.stdout)
    assert (told["model"], told["reason"]) == ("tabular", "the default")
    assert told["trees"] is None
    assert told["smooth"] == []
    assert told["structure"]["fit_intercept"] == "tied"
    # Mean squared error of the search, over folds of equal size.
    found = told["scores"]["root mean squared error"]
    assert found**2 == pytest.approx(-model[-1].best_score_, rel=1e-3)
    score = exam_frame()["score"]
    assert found < told["baseline"]["root mean squared error"]
    spread = score.std() * 1.1
    assert told["baseline"]["root mean squared error"] < spread


def test_prior_files_state_what_is_known(exams, tmp_path):
    (tmp_path / "prior.toml").write_text(
        "[[nonnegative]]\nfeatures = ['hours']\n[[common]]\nfeatures = ['sex']\n"
        "[[task_group]]\ntasks = ['north', 'south', 'west']\n"
    )
    words = ("--trees", "none", "--prior", tmp_path / "prior.toml")
    model, result = fit(exams / "exams.csv", tmp_path / "m", *words)
    model = model[-1]
    assert "Prior: hours ≥ 0: never at its bound" in result.stdout
    assert "Prior: sex: the same in all tasks, " in result.stdout
    known = FeaturePrior.nonnegative(["hours"]) + FeaturePrior.common(["sex"])
    assert model.feature_prior.parts[:2] == known.parts
    names = model.feature_names_in_.tolist()
    common = [names[j] for j in model.feature_prior_.common_features]
    assert common == ["sex=m"]
    assert model.task_prior == TaskPrior.groups({"0": ["north", "south", "west"]})


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (("--smooth", "hours"), {"smooth": ["hours"]}),
        (("--intercepts", "none"), {"fit_intercept": False}),
        (("--folds", "3", "--ties", "adaptive"), {"cv": 3}),
        (("--outliers",), {"outlier_tasks": True}),
    ],
)
def test_options_are_settings_of_the_library(exams, tmp_path, words, settings):
    # Two folds are fewer to fit; the words of a case come last.
    words, settings = ("--trees", "none", "--folds", "2", *words), {"cv": 2} | settings
    model, _ = fit(exams / "exams.csv", tmp_path / "m", *words)
    frame = pd.read_csv(exams / "exams.csv")
    X = frame.drop(columns=TARGETS)
    expected = tabular_model("regressor", task="school", trees="none", **settings)
    expected.fit(X, frame["score"])
    np.testing.assert_allclose(model.predict(X), expected.predict(X))


def test_effects_of_each_task_alone(exams, tmp_path):
    words = (*PLAIN, "--task-prior", "none")
    model, result = fit(exams / "exams.csv", tmp_path / "m", *words)
    assert model[-1].epsilon_ == 0.0
    assert "separate effects for each task, free intercepts" in result.stdout


def test_weights_count_rows(exams, tmp_path):
    frame = exam_frame(gaps=0.1).assign(weight=1 + np.arange(240) % 3)
    frame.to_csv(tmp_path / "weighted.csv", index=False)
    words = (*PLAIN, "--weight", "weight")
    model, _ = fit(tmp_path / "weighted.csv", tmp_path / "m", *words)
    X = frame.drop(columns=[*TARGETS, "weight"])
    settings = {"smooth": "none", "trees": "none", "cv": 2}
    expected = tabular_model("regressor", task="school", **settings)
    expected.fit(X, frame["score"], model__sample_weight=frame["weight"])
    np.testing.assert_allclose(model.predict(X), expected.predict(X))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--lam", "1", "--epsilon", "1"), "--lam and --epsilon given"),
        (("--model", "linear", "--folds", "2"), "--model linear"),
        (
            ("--penalty", "nuclear", "--lam", "1", "--epsilon", "1"),
            "--lam and --epsilon and --penalty nuclear given",
        ),
    ],
)
def test_linear_models_say_why(exams, tmp_path, words, reason):
    model, result = fit(exams / "exams.csv", tmp_path / "m", *words)
    assert hasattr(model, "coef_")
    assert f"\nModel: linear ({reason}).\n" in result.stdout


def test_tables_beyond_memory_are_sampled(exams, tmp_path, monkeypatch):
    monkeypatch.setattr(raw_tables, "MOST_CELLS", 100)
    monkeypatch.setattr(raw_tables, "SAMPLED_ROWS", 150)
    source, words = exams / "gaps.csv", ("--task", "school", "--drop", "pupil,passed")
    model, result = fit(source, tmp_path / "m", "--json")
    facts = json.loads(result.stdout)
    expected = tabular_model("regressor", task="school").fit_source(
        source, target="score", drop=["pupil", "passed"]
    )
    X = pd.read_csv(source)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
    rows = facts["sample"].split(" ")[0]
    assert facts["rows"] == 240
    assert int(rows) == len(expected[-1].held_out_) < 200
    assert facts["scores"].keys() == facts["baseline"].keys()
    out = tmp_path / "n"
    result = run("fit", source, *words, "--target", "score", "--out", out)
    assert "\n240 rows, 3 tasks" in "\n" + result.stdout
    assert "Model: tabular (the table is too large for memory)" in result.stdout
    assert f"intervals are those of {rows} of 240 rows (3 tasks)" in result.stdout


def test_tables_beyond_memory_get_a_linear_model_if_they_must(
    exams, tmp_path, monkeypatch
):
    monkeypatch.setattr(raw_tables, "MOST_CELLS", 100)
    words = ("--folds", "2", "--ties", "uniform", "--intercepts", "tied")
    model, result = fit(exams / "exams.csv", tmp_path / "m", *words)
    assert hasattr(model, "coef_")
    assert "linear (the table is too large for memory)" in result.stdout
    monkeypatch.setattr(raw_tables, "SAMPLED_ROWS", 150)
    monkeypatch.setattr("priormtl.estimators.tabular.MOST_NUMBERS", 10)
    words = ("--folds", "2", "--drop", "pupil,passed")
    model, result = fit(exams / "exams.csv", tmp_path / "m", *words)
    assert hasattr(model, "coef_")
    assert "linear (the table has too many tasks for memory)" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lam", "1", "--trees", "none"), "--trees needs the tabular model"),
        (("--lam", "1", "--calibrate", "tasks"), "--calibrate needs the tabular model"),
        (("--key", "pupil", "--smooth", "hours"), "--key given. Omit one of them"),
        (("--model", "tabular", "--lam", "1"), "--lam needs --model linear"),
        (("--task-prior", "none", "--intercepts", "tied"), "needs a task prior"),
        (("--smooth", "hous"), "unknown column 'hous'"),
        (("--target", "passed"), "For classes use --classify"),
        (("--where", "hours > 1000"), "has no rows, or none that match --where"),
        (("--categories", "sex=f"), "'sex' must hold the values of --categories"),
    ],
)
def test_mistakes_are_one_sentence(exams, tmp_path, words, message):
    out = ("--target", "score", "--out", tmp_path / "m")
    assert_refused(run("fit", exams / "exams.csv", *WORDS, *out, *words), message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("column", ["school", "score"])
def test_rows_without_task_or_target(tmp_path, column):
    frame = exam_frame()
    frame.loc[[4, 9], column] = None
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    words = (tmp_path / "gaps.csv", *WORDS, "--target", "score", *PLAIN)
    refused = run("fit", *words, "--out", tmp_path / "m")
    assert_refused(refused, f"{column!r} is missing in 2 of 240 rows, first in row 5")
    assert "--missing drop" in refused.stderr
    _, result = fit(tmp_path / "gaps.csv", tmp_path / "m", *PLAIN, "--missing", "drop")
    assert result.stdout.startswith("240 rows (2 dropped for missing values)")


def test_numbers_may_be_categories_in_fit_and_prediction(tmp_path):
    frame = exam_frame().assign(grade=np.arange(240) % 3)
    frame["score"] += np.array([0.0, 20.0, 5.0])[frame["grade"]]
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = (*PLAIN, "--categories", "grade")
    _, result = fit(tmp_path / "a.csv", tmp_path / "m", *words)
    assert "grade=1" in result.stdout
    out = tmp_path / "out.csv"
    predicted = run("predict", tmp_path / "m", tmp_path / "a.csv", "--out", out)
    assert predicted.exit_code == 0, predicted.output
    assert predicted.stderr == ""
    found = pd.read_csv(out)["prediction"]
    assert np.mean((found - frame["score"]) ** 2) < 6.0


def test_predictions_are_those_of_the_library(exams, fitted, tmp_path):
    frame = exam_frame(50, seed=3, gaps=0.1).drop(columns=["score", "passed"])
    frame.loc[:4, "school"] = "east"
    frame.loc[7, "sex"] = "x"
    table, out = tmp_path / "new.csv", tmp_path / "out.csv"
    frame.to_csv(table, index=False)
    result = run("predict", fitted[0], table, "--id", "pupil", "--out", out)
    assert result.exit_code == 0, result.output
    assert "5 rows of 1 task not seen in the fit, such as 'east', were predicted" in (
        result.stderr
    )
    assert result.stderr.count("Unknown category 'x'") == 1
    found = pd.read_csv(out)
    assert list(found) == ["pupil", "school", "prediction"]
    with pytest.warns(UserWarning, match="Unknown category"):
        expected = load(fitted[0]).predict(frame.drop(columns="pupil"))
    np.testing.assert_allclose(found["prediction"], expected)
    refused = run("predict", fitted[0], table, "--unseen", "error", "--out", out)
    assert_refused(refused, "east")
    other = frame.rename(columns={"school": "house"})
    other.to_csv(table, index=False)
    assert_refused(run("predict", fitted[0], table, "--out", out), "'school'")
    renamed = run("predict", fitted[0], table, "--task", "house", "--out", out)
    assert renamed.exit_code == 0, renamed.output
    np.testing.assert_allclose(pd.read_csv(out)["prediction"], expected)


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_rows_without_a_task_are_those_of_a_new_one(fitted, tmp_path, name):
    frame = exam_frame(50, seed=3)
    table, out = tmp_path / name, tmp_path / "out.csv"
    frame.loc[[0, 1, 2], "school"] = None
    frame.loc[3, "school"] = "east"
    write = frame.to_csv if table.suffix == ".csv" else frame.to_parquet
    write(table, index=False)
    words = ("--id", "pupil", "--interval", "0.9", "--out", out)
    result = run("predict", fitted[0], table, *words)
    assert result.exit_code == 0, result.output
    assert (
        "1 row of 1 task not seen in the fit, such as 'east', and 3 rows without a "
        "task were predicted by what all tasks share."
    ) in " ".join(result.stderr.split())
    found, model = pd.read_csv(out), load(fitted[0])
    assert found["school"].isna().tolist() == [True] * 3 + [False] * 47
    new = frame.drop(columns=TARGETS).fillna({"school": "other"})
    np.testing.assert_allclose(found["prediction"], model.predict(new))
    ends = model.predict_interval(new)
    np.testing.assert_allclose(found[["lower", "upper"]], ends)
    refused = run("predict", fitted[0], table, "--unseen", "error", "--out", out)
    assert_refused(refused, "must not hold missing labels: 3 of 50")
    told = run("report", fitted[0], "--data", table, "--out", tmp_path / "r.html")
    assert told.exit_code == 0, told.output
    r2 = 1 - np.mean((frame["score"] - found["prediction"]) ** 2) / np.var(
        frame["score"]
    )
    assert f"R² {r2:.3g} on the given rows" in told.stdout


def test_classes_have_probabilities(exams, tmp_path):
    words = (*PLAIN, "--classify", "--json")
    model, result = fit(exams / "gaps.csv", tmp_path / "m", *words, target="passed")
    told = json.loads(result.stdout)
    assert 0 < told["scores"]["log-loss"] < told["baseline"]["log-loss"] < 0.75
    out = tmp_path / "out.csv"
    result = run("predict", tmp_path / "m", exams / "gaps.csv", "--out", out)
    assert result.exit_code == 0, result.output
    assert "probability is that of 'yes'" in result.stdout
    found = pd.read_csv(out)
    X = pd.read_csv(exams / "gaps.csv").drop(columns=TARGETS)
    np.testing.assert_allclose(found["probability"], model.predict_proba(X)[:, 1])
    assert ((found["probability"] > 0.5) == (found["prediction"] == "yes")).all()


def test_classes_may_be_numbers(tmp_path):
    frame = exam_frame().assign(passed=lambda rows: (rows["score"] > 25) * 1)
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = (*PLAIN, "--classify")
    model, _ = fit(tmp_path / "a.csv", tmp_path / "m", *words, target="passed")
    assert model.classes_.tolist() == [0, 1]


def test_reports_show_the_linear_part_and_the_share_of_trees(exams, fitted, tmp_path):
    out = tmp_path / "report.html"
    result = run("report", fitted[0], "--out", out)
    assert result.exit_code == 0, result.output
    page = out.read_text()
    assert "Boosted trees" in page
    scored = run("report", fitted[0], "--data", exams / "gaps.csv", "--out", out)
    assert scored.exit_code == 0, scored.output
    frame = pd.read_csv(exams / "gaps.csv")
    found = load(fitted[0]).predict(frame.drop(columns=TARGETS))
    r2 = 1 - np.mean((frame["score"] - found) ** 2) / frame["score"].var(ddof=0)
    assert f"R² {r2:.3g} on the given rows" in scored.stdout


def test_tasks_that_stand_out_are_named(tmp_path):
    rng = np.random.default_rng(0)
    shops = np.repeat([f"shop {k}" for k in range(8)], 12)
    price = rng.normal(size=96)
    sales = price + 5.0 * (shops == "shop 3") + rng.normal(size=96)
    table = tmp_path / "sales.csv"
    pd.DataFrame({"shop": shops, "price": price, "sales": sales}).to_csv(
        table, index=False
    )
    words = ("--task", "shop", "--target", "sales", "--trees", "none")
    result = run("fit", table, *words, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    (line,) = (one for one in result.output.splitlines() if "Furthest" in one)
    assert line.startswith(
        "Furthest from the mean task, at average features (95 %): shop 3 by "
    )


def test_files_and_frames_are_read_alike(tmp_path):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 99, 80), "D")
    frame = pd.DataFrame(
        {
            "school": np.arange(80) % 4,
            "when": day.strftime("%Y-%m-%d"),
            "at": [f"{hour:02d}:30" for hour in rng.integers(0, 24, 80)],
            "sex": rng.choice(["f", "m", None], 80),
            "score": rng.normal(size=80) + day.day_of_week,
        }
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")  # with dates as text
    X = pd.read_csv(tmp_path / "a.csv").drop(columns="score")
    settings = {"task": "school", "trees": "none", "cv": 2}
    expected = tabular_model("regressor", **settings).fit(X, frame["score"]).predict(X)
    words = ("--task", "school", "--target", "score", "--trees", "none", "--folds", "2")
    for name in ("a.csv", "a.parquet"):
        result = run("fit", tmp_path / name, *words, "--out", tmp_path / "a.model")
        assert result.exit_code == 0, result.output
        found = load(tmp_path / "a.model").predict(X)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("n", [300, 60_000])  # files of one block and of several
def test_marks_among_numbers_are_gaps(tmp_path, n):
    rng = np.random.default_rng(0)
    rain = rng.gamma(0.5, size=n).round(2)
    frame = pd.DataFrame({"school": np.arange(n) % 4, "id": "0123456789abcdef"})
    frame["rain"] = pd.Series(rain.astype(str)).where(np.arange(n) < n - 20, "T")
    frame["score"] = rain + rng.normal(size=n)
    table, model, out = (tmp_path / name for name in ("a.csv", "m", "out.csv"))
    frame.to_csv(table, index=False)
    assert (table.stat().st_size > 2**20) == (n > 300)
    words = ("--task", "school", "--target", "score", "--drop", "id", *PLAIN)
    result = run("fit", table, *words, "--out", model)
    assert result.exit_code == 0, result.output
    assert "rain as a straight line, with gaps for 'T'" in " ".join(
        result.stdout.split()
    )
    predicted = run("predict", model, table, "--out", out)
    assert predicted.exit_code == 0, predicted.output
    found = pd.read_csv(out)["prediction"].tail(100)
    last = frame.tail(100).drop(columns="score")
    np.testing.assert_allclose(found, load(model).predict(last))
    frame.loc[n - 30, "rain"] = "oops"
    frame.to_csv(table, index=False)
    assert_refused(
        run("fit", table, *words, "--out", model),
        f"column 'rain' must hold numbers: got 'oops' in row {n - 30}",
    )


def test_dates_hint_at_time_unless_it_is_given(exams, tmp_path):
    rng, days = np.random.default_rng(0), pd.date_range("2024-01-01", periods=40)
    frame = pd.DataFrame({"day": np.tile(days, 3), "price": rng.normal(size=120)})
    frame["school"] = np.repeat(["north", "south", "west"], 40)
    frame["score"] = frame["price"] + 0.1 * rng.normal(size=120)
    frame.to_csv(tmp_path / "days.csv", index=False)
    words = ("--trees", "none", "--smooth", "none", "--folds", "2")
    hint = "To predict later rows, add --time day"
    out = tmp_path / "m"
    plain = ("--task", "school", "--target", "score", "--out", out, *words)
    shown = run("fit", tmp_path / "days.csv", *plain)
    assert shown.exit_code == 0, shown.output
    assert hint in " ".join(shown.stdout.split())
    timed = run("fit", tmp_path / "days.csv", *plain, "--time", "day")
    assert timed.exit_code == 0, timed.output
    told = " ".join(timed.stdout.split())
    assert "--time" not in told
    assert "Folds go forward in 'day', and intervals hold for later rows." in told
    _, undated = fit(exams / "exams.csv", out, *words)
    assert "--time" not in undated.stdout


def test_intervals_can_be_asked_for_new_tasks(exams, tmp_path):
    out = tmp_path / "new.model"
    model, result = fit(exams / "exams.csv", out, *PLAIN, "--calibrate", "tasks")
    assert "Intervals hold for rows of new tasks" in " ".join(result.output.split())
    frame = pd.read_csv(exams / "exams.csv")
    expected = tabular_model(
        "regressor",
        task="school",
        trees="none",
        smooth="none",
        cv=TaskGroupKFold(2, task="school"),
    ).fit(frame.drop(columns=TARGETS), frame["score"])
    X = frame.drop(columns=TARGETS).assign(school="new")
    np.testing.assert_allclose(model.predict_interval(X), expected.predict_interval(X))


@pytest.mark.parametrize("kind", ["tabular", "linear"])
def test_effects_on_several_classes_are_shown_by_class(tmp_path, kind):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(150, 2)), columns=["cost", "time"])
    eta = np.outer(table.cost, [2.0, -1.0, -1.0]) + rng.gumbel(size=(150, 3))
    table["mode"] = np.array(["car", "bus", "train"])[eta.argmax(axis=1)]
    table["place"] = rng.choice(["north", "south"], 150)
    table.to_csv(tmp_path / "modes.csv", index=False)
    words = ["fit", tmp_path / "modes.csv", "--task", "place", "--target", "mode"]
    words += ["--classify", "--model", kind, "--folds", "2", "--out", tmp_path / "m"]
    words += ["--trees", "none"] if kind == "tabular" else []
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("150 rows, 2 tasks, 2 ")
    [line] = [one for one in result.stdout.splitlines() if one.startswith("  cost")]
    told = [one.split() for one in line.split(maxsplit=1)[1].split(", ")]
    assert told[0][0] == "car"
    values = np.array([float(value) for _, value in told])
    assert np.all(np.diff(np.abs(values)) <= 0)
    model = load(tmp_path / "m")
    linear = model[-1] if kind == "tabular" else model
    means = linear.coef_[..., linear.design_.names.index("cost")].mean(axis=0)
    means = means * linear.feature_scale_[linear.design_.names.index("cost")]
    known = dict(zip(linear.classes_.tolist(), means, strict=True))
    for name, value in told:
        assert float(value) == pytest.approx(known[name], rel=5e-3)
    told = json.loads(run(*words, "--json").stdout)
    assert told["classes"] == linear.classes_.tolist()
    assert next(iter(told["strongest"][0]["by_class"])) == "car"
