"""priormtl fit: the model of the library, what is printed, and what is refused."""

import gzip
import json
import os
import signal
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from drawn_tables import EXAM_FEATURES, exam_frame
from priormtl import (
    FeaturePrior,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    engines,
    estimators,
    load,
    report,
)
from priormtl.cli.linear import hint_at_classes
from priormtl.cli.main import app
from priormtl.data import summarize
from priormtl.engines import open_shards
from processes import assert_refused, start_process

COLUMNS = {"task": "school", "target": "score", "features": EXAM_FEATURES}
WORDS = ("--task", "school", "--features", ",".join(EXAM_FEATURES))
FIXED = ("--lam", "3", "--epsilon", "2")
LINEAR = ("--model", "linear")
TOML = '[[similar]]\nfeatures = ["hours", "books"]\n'


@pytest.fixture(scope="module")
def exams(tmp_path_factory):
    place = tmp_path_factory.mktemp("exams")
    exam_frame().to_csv(place / "exams.csv", index=False)
    exam_frame(gaps=0.1).to_csv(place / "gaps.csv", index=False)
    return place


def run(*words):
    return CliRunner().invoke(app, ["fit", *(str(word) for word in words)])


def fit(path, out, *words, target="score"):
    result = run(path, *WORDS, "--target", target, "--out", out, *words)
    assert result.exit_code == 0, result.output
    return load(out), result


def refuse(result, folder, *words):
    assert_refused(result, *words)
    assert list(folder.iterdir()) == []


def test_given_strengths_give_the_model_of_the_library(exams, tmp_path):
    model, result = fit(exams / "exams.csv", tmp_path / "a.model", *FIXED)
    expected = MultiTaskRegressor(3.0, 0.0, 2.0, standardize=True)
    expected.fit_source(exams / "exams.csv", **COLUMNS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.design_ == expected.design_
    assert "Strengths as given: lam 3, theta 0, epsilon 2." in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["a.model"]


def test_statistics_may_lie_on_disk(exams, tmp_path):
    words = (*FIXED, "--shards", tmp_path / "statistics")
    there, _ = fit(exams / "exams.csv", tmp_path / "there.model", *words)
    here, _ = fit(exams / "exams.csv", tmp_path / "here.model", *FIXED)
    # Both stop at a gap of 1e-6, not at the same point.
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-2, atol=1e-3)
    assert (tmp_path / "statistics").is_dir()


@pytest.mark.slow
def test_strengths_are_searched_on_folds_that_lie_on_disk(exams, tmp_path):
    words = ("--folds", 3, "--key", "pupil", "--missing", "mean")
    place = ("--shards", tmp_path / "statistics")
    there, told = fit(exams / "gaps.csv", tmp_path / "there.model", *words, *place)
    here, expected = fit(exams / "gaps.csv", tmp_path / "here.model", *words)
    assert there.lam_ == pytest.approx(here.lam_, rel=1e-12)  # a share of lam_max
    assert there.epsilon_ == here.epsilon_
    assert there.best_score_ == pytest.approx(here.best_score_, rel=1e-9)
    lines = told.stdout.replace("there.model", "here.model").splitlines()
    lines.remove("Model: linear (--key and --shards given).")
    others = expected.stdout.splitlines()
    others.remove("Model: linear (--key given).")
    assert lines == others
    assert len(open_shards(tmp_path / "statistics").parts) == 3


def test_shards_cannot_hold_classes(exams, tmp_path):
    place = ("--shards", tmp_path / "statistics", "--out", tmp_path / "m")
    words = (*WORDS, "--target", "score", "--classify", *place)
    refuse(run(exams / "exams.csv", *words), tmp_path, "--classify")


@pytest.mark.slow
def test_strengths_are_searched_as_the_library_does(exams, tmp_path):
    words = ("--folds", 3, "--key", "pupil", "--missing", "mean")
    model, result = fit(exams / "gaps.csv", tmp_path / "a.model", *words)
    epsilons = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
    expected = MultiTaskRegressorCV(thetas=[0.0], epsilons=epsilons, cv=3)
    expected.fit_source(exams / "gaps.csv", **COLUMNS, key="pupil", missing="mean")
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.best_score_ == expected.best_score_
    assert "lam and epsilon tuned by 3-fold cross-validation" in result.stdout
    assert "240 rows, 3 tasks, 4 features." in result.stdout


@pytest.mark.parametrize(
    ("words", "searched", "theta"),
    [
        (("--lam", "3"), ["epsilon"], 0.0),
        (("--epsilon", "3", "--task-prior", "mean"), ["lam"], 0.0),
        (("--task-prior", "none", *LINEAR), ["lam"], 0.0),
        (("--lam", "3", "--task-prior", "none"), [], 0.0),
        (("--lam", "1", "--epsilon", "1", "--prior", "natural"), ["theta"], None),
        (("--lam", "1", "--epsilon", "1", "--prior", "natural", "--theta", "2"), [], 2),
    ],
)
def test_only_what_is_not_given_is_searched(exams, tmp_path, words, searched, theta):
    out = tmp_path / "a.model"
    _, result = fit(exams / "exams.csv", out, *words, "--json")
    told = json.loads(result.stdout)
    assert told["searched"] == searched
    assert theta is None or told["theta"] == theta
    assert (told["folds"] == 5) == bool(searched)
    assert bool(told["scores"]) == bool(searched)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ((), None),
        (("--theta", "1"), "--theta"),
        (("--theta", "0"), None),
        (("--task-prior", "none"), "--epsilon"),
    ],
)
def test_strengths_of_nothing_have_no_effect(exams, tmp_path, words, option):
    model, result = fit(exams / "exams.csv", tmp_path / "a.model", *FIXED, *words)
    ties = None if option == "--epsilon" else "chain"
    expected = MultiTaskRegressor(3.0, 0.0, 2.0, task_prior=ties, standardize=True)
    expected.fit_source(exams / "exams.csv", **COLUMNS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    hints = [f"Warning: {option} has no effect without"] if option else []
    assert len(result.stderr.splitlines()) == len(hints)
    assert all(hint in result.stderr for hint in hints)


@pytest.mark.parametrize("strengths", [("--lam", "1", "--epsilon", "1"), ()])
def test_statistics_may_come_with_a_strength_of_nothing(sites, tmp_path, strengths):
    files = [word for site in sites for word in ("--from-stats", site)]
    result = run(*files, *strengths, "--theta", "1", "--out", tmp_path / "a.model")
    assert result.exit_code == 0, result.output
    assert result.stderr == "Warning: --theta has no effect without --prior.\n"


def test_numbers_that_look_like_classes_are_told_once(tmp_path):
    frame = exam_frame().assign(
        score=lambda rows: (rows["score"] > rows["score"].median()) * 1
    )
    frame.to_csv(tmp_path / "passed.csv", index=False)
    for words in (FIXED, ("--folds", "2", *LINEAR)):
        _, result = fit(tmp_path / "passed.csv", tmp_path / "a.model", *words)
        assert result.stderr.count("\n") == 1
        assert "'score' are 0 or 1" in result.stderr
        assert "Use --classify" in result.stderr


def test_json_tells_the_fit(exams, tmp_path):
    out = tmp_path / "a.model"
    words = (*FIXED, "--missing", "drop", "--json")
    model, result = fit(exams / "gaps.csv", out, *words)
    told = json.loads(result.stdout)
    assert told["file"] == str(out)
    assert told["rows"] == 240
    assert told["dropped"] == exam_frame(gaps=0.1).isna().any(axis=1).sum()
    assert (told["tasks"], told["features"]) == (3, 4)
    assert (told["gap"], told["objective"]) == (model.dual_gap_, model.objective_)
    names = [one["feature"] for one in told["strongest"]]
    assert names[:2] == ["hours", "books"]
    effect = model.coef_[:, 0] * model.feature_scale_[0]
    assert told["strongest"][0]["mean"] == pytest.approx(effect.mean())


def test_the_score_is_that_of_the_search(exams, tmp_path):
    out = tmp_path / "a.model"
    model, result = fit(exams / "exams.csv", out, "--json", *LINEAR)
    scores = json.loads(result.stdout)["scores"]
    assert scores["mean squared error"] == -model.best_score_
    share = -model.best_score_ / exam_frame()["score"].var(ddof=0)
    assert scores["R²"] == pytest.approx(1.0 - share)


@pytest.mark.slow
def test_classes_are_learned_from_rows(exams, tmp_path):
    out = tmp_path / "a.model"
    words = ("--classify", "--epsilon", "1", "--folds", "3", "--missing", "mean")
    model, result = fit(exams / "gaps.csv", out, *words, "--json", target="passed")
    expected = MultiTaskClassifierCV(None, [0.0], [1.0], cv=3)
    columns = COLUMNS | {"target": "passed", "missing": "mean"}
    expected.fit_source(exams / "gaps.csv", **columns)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.classes_.tolist() == ["no", "yes"]
    assert json.loads(result.stdout)["scores"] == {"log loss": -model.best_score_}


def test_prior_files_are_used(exams, tmp_path):
    (tmp_path / "prior.toml").write_text(TOML)
    words = (*FIXED, "--theta", "1e4", "--prior", tmp_path / "prior.toml")
    model, _ = fit(exams / "exams.csv", tmp_path / "a.model", *words)
    prior = FeaturePrior.similar([("hours", "books")])
    expected = MultiTaskRegressor(
        3.0, 1e4, 2.0, feature_prior=prior, standardize=True
    ).fit_source(exams / "exams.csv", **COLUMNS)
    np.testing.assert_array_equal(model.coef_, expected.coef_)


KNOWN = """\
[[near]]
feature = "hours"
value = {north = 3, south = 2.5, west = 3}

[[task_similar]]
tasks = ["north", "south"]
weight = 2
"""


def test_prior_files_say_which_tasks_are_similar(exams, tmp_path):
    (tmp_path / "prior.toml").write_text(KNOWN)
    words = (*FIXED, "--theta", "5", "--prior", tmp_path / "prior.toml")
    model, _ = fit(exams / "exams.csv", tmp_path / "a.model", *words)
    values = {"north": 3.0, "south": 2.5, "west": 3.0}
    expected = MultiTaskRegressor(
        *(3.0, 5.0, 2.0),
        feature_prior=FeaturePrior.near({"hours": values}),
        task_prior=TaskPrior.from_graph([("north", "south", 2.0)]),
        standardize=True,
    ).fit_source(exams / "exams.csv", **COLUMNS)
    assert model.feature_prior == expected.feature_prior
    assert model.task_prior == expected.task_prior
    np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_files_about_tasks_alone_leave_theta_out(exams, tmp_path):
    (tmp_path / "prior.toml").write_text("[[task_group]]\ntasks = ['north', 'west']")
    words = (*FIXED, "--prior", tmp_path / "prior.toml")
    model, _ = fit(exams / "exams.csv", tmp_path / "a.model", *words)
    assert (model.theta, model.feature_prior) == (0.0, None)
    assert model.task_prior == TaskPrior.groups({"g": ["north", "west"]})


@pytest.mark.parametrize(
    ("words", "old", "new", "message"),
    [
        (FIXED, '"south"]', '"east"]', "line 6: unknown task 'east'"),
        (FIXED, "south =", "east =", "line 1: unknown task 'east'"),
        (FIXED, '"hours"', '"minutes"', "line 2: unknown feature 'minutes'"),
        (("--task-prior", "mean"), "", "", "--task-prior mean cannot be combined with"),
    ],
)
def test_prior_files_must_fit_the_table(exams, tmp_path, words, old, new, message):
    prior, out = tmp_path / "prior.toml", tmp_path / "out"
    prior.write_text(KNOWN.replace(old, new))
    out.mkdir()
    words = (*WORDS, "--target", "score", "--out", out / "m", "--prior", prior, *words)
    refuse(run(exams / "exams.csv", *words), out, message)


@pytest.fixture(scope="module")
def sites(exams):
    for name, where in (("a", "pupil < 120"), ("b", "pupil >= 120")):
        found = engines.summarize(exams / "exams.csv", where=where, **COLUMNS)
        found.whole.save(exams / f"{name}.stats")
    return exams / "a.stats", exams / "b.stats"


def test_statistics_of_sites_give_the_model_of_all_rows(exams, sites, tmp_path):
    files = [word for site in sites for word in ("--from-stats", site)]
    result = run(*files, *FIXED, "--out", tmp_path / "a.model")
    assert result.exit_code == 0, result.output
    assert "Statistics of 3 tasks, 4 features." in result.stdout
    expected, _ = fit(exams / "exams.csv", tmp_path / "b.model", *FIXED)
    found = load(tmp_path / "a.model")
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    frame = exam_frame()
    np.testing.assert_allclose(found.predict(frame), expected.predict(frame), 1e-5)


def test_several_sites_are_each_held_out(sites, tmp_path):
    files = [word for site in sites for word in ("--from-stats", site)]
    result = run(*files, "--out", tmp_path / "a.model", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["folds"] == 2
    assert told["searched"] == ["lam", "epsilon"]
    assert told["rows"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--lam", "1"), "a.stats alone is not enough to tune --epsilon"),
        ((*FIXED, "--task", "school"), "--task cannot be combined with --from-stats"),
        ((*FIXED, "--classify"), "--classify cannot be combined with --from-stats"),
        ((*FIXED, "--missing", "drop"), "--missing cannot be combined with"),
        ((*FIXED, "--where", "a > 1"), "--where cannot be combined with"),
    ],
)
def test_statistics_alone_cannot_do_everything(sites, tmp_path, words, message):
    result = run("--from-stats", sites[0], "--out", tmp_path / "a.model", *words)
    refuse(result, tmp_path, message)


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (("--features", "hous"), ("unknown column 'hous'", "Did you mean 'hours'")),
        (("--features", "hours,school"), ("'school' is given twice",)),
        (("--prior", "naturel"), ("naturel must end in .toml",)),
        (("--prior", "none.toml"), ("none.toml is not a file", "use --prior natural")),
        (("--prior", "natura"), ("natura must end in", "Did you mean 'natural'?")),
        (("--out", "nowhere/a.model"), ("folder nowhere does not exist",)),
        (
            ("--key", "pupil", "--classify"),
            ("--key cannot be combined",),
        ),
        (("--folds", "300"), ("must leave rows for every fold",)),
        (("--target", "passed"), ("column 'passed' must hold numbers", "--classify")),
        (("--target", "score", "--classify"), ("must hold at most 50 classes",)),
    ],
)
def test_mistakes_are_one_sentence_and_no_file(exams, tmp_path, words, messages):
    out = tmp_path / "a.model"
    plain = ("--target", "score", "--out", out)
    refuse(run(exams / "exams.csv", *WORDS, *plain, *words), tmp_path, *messages)


def test_what_must_be_given_is_asked_for(exams, tmp_path):
    out = ("--out", tmp_path / "a.model")
    refuse(run(*out), tmp_path, "fit needs a table, DATA, or --from-stats")
    refuse(run(exams / "exams.csv", *out), tmp_path, "--task COL is missing", "school")
    words = ("--task", "school")
    refuse(run(exams / "exams.csv", *out, *words), tmp_path, "fit needs --target COL")


def test_names_in_prior_files_are_checked_with_their_line(exams, tmp_path):
    path = exams / "wrong.toml"
    path.write_text(TOML + '\n[[opposite]]\nfeatures = ["hours", "sex"]\n')
    out = ("--out", tmp_path / "a.model", "--target", "score", "--prior", path)
    result = run(exams / "exams.csv", *WORDS, *out)
    refuse(result, tmp_path, f"{path}, line 5: unknown feature 'sex'", "'sex=m'")


def test_one_task_one_feature_and_constant_columns(tmp_path):
    frame = exam_frame(30).assign(school=1, flat=2.0)[
        ["hours", "flat", "school", "score"]
    ]
    frame.to_parquet(tmp_path / "one.parquet")
    out = tmp_path / "a.model"
    words = ("--task", "school", "--target", "score", "--out", out, "--folds", "2")
    result = run(tmp_path / "one.parquet", *words, *LINEAR)
    assert result.exit_code == 0, result.output
    assert load(out).tasks_.tolist() == [1]
    assert "1 of 2 features is used" in result.stdout


def test_a_model_of_no_features(exams, tmp_path):
    words = ("--lam", "1e9", "--epsilon", "1")
    model, result = fit(exams / "exams.csv", tmp_path / "a.model", *words)
    assert not model.coef_.any()
    assert "\n0 of 4 features are used.\n" in result.stdout


# Gets a signal while the first piece of rows is summed up.
STRUCK = """
import os, sys
from priormtl.engines import batches
summarize_batch = batches.summarize_batch
def strike(*rows):
    print("reading", flush=True)
    os.kill(os.getpid(), int(os.environ["STRIKE"]))
    return summarize_batch(*rows)
batches.summarize_batch = strike
from priormtl.__main__ import main
sys.argv[0] = "priormtl"
main()
"""


@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        pytest.param("fit", signal.SIGINT, 130, marks=pytest.mark.slow),
        ("stats", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_killed_pass_leaves_the_old_file(exams, tmp_path, command, number, code):
    out = tmp_path / "out"
    out.write_text("old")
    words = [command, exams / "exams.csv", *WORDS, "--target", "score", "--out", out]
    words += LINEAR if command == "fit" else ()
    process = start_process(
        [sys.executable, "-c", STRUCK, *map(str, words)],
        env=os.environ | {"STRIKE": str(int(number))},
    )
    printed, said = process.communicate()
    assert printed.startswith("reading\n")
    assert process.returncode == code
    assert "Traceback" not in said
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("value", [0.0, 1e9 / 7])
def test_equal_targets_have_no_share_explained(tmp_path, value):
    table = tmp_path / "flat.csv"
    frame = exam_frame(60)[["hours", "school"]].assign(score=value)
    frame.to_csv(table, index=False)
    words = ("--task", "school", "--target", "score", "--out", tmp_path / "a.model")
    scores = json.loads(run(table, *words, "--json", *LINEAR).stdout)["scores"]
    assert list(scores) == ["mean squared error"]
    assert str(scores["mean squared error"]) != "-0.0"
    assert scores["mean squared error"] <= 1e-20 * value**2


@pytest.mark.slow
def test_nothing_is_tried_too_so_that_a_report_can_tell_what_the_prior_did(
    exams, tmp_path
):
    words = ("--prior", "natural", "--folds", "2", *LINEAR)
    model, _ = fit(exams / "exams.csv", tmp_path / "m", *words)
    assert 0.0 in model.thetas
    assert 0.0 in model.epsilons
    answer = report(model).content.finding("prior")
    assert answer.value != "Not measured"


SMALL = {
    "one row": "t,a,y\n1,2,3\n",
    "one row of each task": "t,a,y\n1,2,3\n2,3,1\n3,5,4\n",
}


@pytest.mark.parametrize("rows", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("folds", ["2", "5"])
def test_too_few_rows_to_choose_strengths_say_to_give_them(tmp_path, rows, folds):
    table, out = tmp_path / "small.csv", tmp_path / "a.model"
    table.write_text(rows)
    words = (table, "--task", "t", "--target", "y", "--out", out)
    assert_refused(run(*words, "--folds", folds, *LINEAR), "give --lam and --epsilon, ")
    assert run(*words, "--lam", "1", "--epsilon", "1").exit_code == 0


@pytest.mark.parametrize("time", [(), ("--time", "a")])
def test_one_class_and_one_row_are_fitted_and_predicted(tmp_path, time):
    table, model, out = (tmp_path / name for name in ("a.csv", "a.model", "p.csv"))
    table.write_text("t,a,y\n1,2,p\n1,2,p\n2,2,p\n")
    words = ("--task", "t", "--target", "y", "--out", model, *time)
    assert "['p'] in all rows" in run(table, *words, "--classify").stderr
    predict = ["predict", str(model), str(table), "--out", str(out)]
    assert CliRunner().invoke(app, predict).exit_code == 0
    assert out.read_text().splitlines()[1:] == ['1,"p",1', '1,"p",1', '2,"p",1']
    table.write_text("t,a,y\n1,2,7\n")
    assert "no rows can be held out" in run(table, *words).stderr
    assert CliRunner().invoke(app, predict).exit_code == 0
    assert out.read_text().splitlines()[1:] == ["1,7"]


def test_each_of_several_classes_has_a_column_of_probabilities(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"t": np.arange(90) % 3, "a": rng.normal(size=90)}
    rows["y"] = np.digitize(rows["a"] + rng.normal(size=90), [-0.5, 0.5])
    table, out = tmp_path / "small.csv", tmp_path / "a.model"
    pd.DataFrame(rows | {"y": np.array(["p", "q", "r"])[rows["y"]]}).to_csv(
        table, index=False
    )
    words = "--task", "t", "--target", "y", "--classify", "--out", out
    for options in (FIXED,):
        assert run(table, *words, *options).exit_code == 0
        saved = tmp_path / "predicted.csv"
        result = CliRunner().invoke(
            app, ["predict", str(out), str(table), "--out", str(saved)]
        )
        assert result.exit_code == 0, result.output
        found = pd.read_csv(saved)
        names = ["probability_p", "probability_q", "probability_r"]
        np.testing.assert_allclose(found[names].sum(axis=1), 1.0)


def test_numbers_whose_squares_vanish_are_refused(tmp_path):
    table, out = tmp_path / "small.csv", tmp_path / "a.model"
    table.write_text("t,a,y\n1,2e-200,3\n1,3e-200,2\n2,1e-200,1\n")
    result = run(table, "--task", "t", "--target", "y", "--out", out, *FIXED)
    assert_refused(result, "small.csv: feature 'a' must reach 1e-150")


RNG = np.random.default_rng(0)
X, TASK = RNG.normal(size=(60, 2)), np.repeat([0, 1, 2], 20)
CLASSES = RNG.integers(0, 2, 60)


def parts(y, weight=None):
    return [
        summarize(
            X[k::2], y[k::2], TASK[k::2], None if weight is None else weight[k::2]
        )
        for k in range(2)
    ]


@pytest.mark.parametrize("weight", [None, RNG.uniform(0.1, 9.0, 60)])
@pytest.mark.parametrize("y", [CLASSES, CLASSES * (TASK == 1), CLASSES.astype(bool)])
def test_zeros_and_ones_are_noticed(y, weight):
    with pytest.warns(UserWarning, match="'passed' are 0 or 1.*--classify"):
        hint_at_classes("passed", parts(y, weight))


@pytest.mark.parametrize(
    "y",
    [
        *(np.zeros(60), np.ones(60), 2 * CLASSES, 2 * CLASSES - 1, CLASSES - 1),
        *(RNG.normal(size=60), CLASSES + 1e-3 * X[:, 0], CLASSES * 1e-6),
        np.where(np.arange(60) == 7, 2, CLASSES),
    ],
)
def test_other_numbers_are_not(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hint_at_classes("score", parts(y))


def test_columns_are_dropped_and_other_dialects_read(exams, tmp_path):
    text = (exams / "exams.csv").read_text()
    file = tmp_path / "german.csv.gz"
    file.write_bytes(gzip.compress(text.replace(",", ";").replace(".", ",").encode()))
    drop = ("--drop", "pupil,passed", "--lam", "1", "--epsilon", "1", "--json")
    words = ("--task", "school", "--target", "score", *drop)
    plain = run(exams / "exams.csv", *words, "--out", tmp_path / "a.model")
    assert plain.exit_code == 0, plain.output
    german = run(file, *words, "--out", tmp_path / "b.model")
    assert german.exit_code == 0, german.output
    told, found = json.loads(plain.stdout), json.loads(german.stdout)
    assert told["features"] == found["features"] == 4
    a, b = load(tmp_path / "a.model"), load(tmp_path / "b.model")
    assert a.feature_names_in_.tolist() == ["hours", "books", "sex=f", "sex=m"]
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    address = (exams / "exams.csv").as_uri()
    again = run(address, *words, "--out", tmp_path / "c.model")
    assert again.exit_code == 0, again.output
    wrong = run(file, *words, "--out", tmp_path / "d.model", "--delimiter", "ab")
    assert wrong.exit_code == 2
    assert "must be one character or 'tab'" in wrong.stderr


def test_texts_among_numbers_are_named_with_their_row(exams, tmp_path):
    lines = (exams / "exams.csv").read_text().splitlines()
    place = lines[0].split(",").index("hours")
    cells = lines[10].split(",")
    cells[place] = "oops"
    lines[10] = ",".join(cells)
    (exams / "bad.csv").write_text("\n".join(lines))
    words = ("--task", "school", "--target", "score", "--lam", "1", "--epsilon", "1")
    result = run(exams / "bad.csv", *words, "--out", tmp_path / "a.model")
    refuse(result, tmp_path, "column 'hours'", "'oops' in row 10", "--categories hours")


def test_a_device_needs_pytorch(exams, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for words in (FIXED, ("--trees", "none", "--smooth", "none")):
        out = ("--target", "score", "--out", tmp_path / "a.model")
        result = run(exams / "exams.csv", *WORDS, *out, *words, "--device", "cuda")
        refuse(result, tmp_path, "device='cuda' needs PyTorch: pip install")


def test_wide_tables_of_few_rows_are_fitted_to_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.normal(size=(60, 110)), columns=[f"c{j}" for j in range(110)]
    )
    table["t"], table["y"] = [f"t{i}" for i in np.arange(60) % 20], rng.normal(size=60)
    table.to_csv(tmp_path / "wide.csv", index=False)
    refused = "statistics of wide tables must not be computed"
    monkeypatch.setattr(
        estimators, "read_source", lambda *_, **__: pytest.fail(refused)
    )
    out = tmp_path / "a.model"
    words = ("--task", "t", "--target", "y", "--out", out, *FIXED)
    assert run(tmp_path / "wide.csv", *words).exit_code == 0
    expected = MultiTaskRegressor(3.0, 0.0, 2.0, standardize=True, task="t")
    expected.fit(table.drop(columns="y"), table["y"])
    np.testing.assert_allclose(load(out).coef_, expected.coef_, atol=1e-9)
