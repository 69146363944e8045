"""Nested tasks: schools in districts, from the penalty to files and the command."""

import json

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from statsmodels.formula.api import mixedlm
from typer.testing import CliRunner

from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    load,
    save,
    summarize,
    tabular_model,
)
from priormtl.cli.main import app
from priormtl.data import join_labels
from priormtl.estimators import linear_part
from priormtl.model import Model
from priormtl.priors import as_task_prior, laplacian
from priormtl.solvers.kernels.rows import TREE, lay_out_graph

TREES = {
    "two levels": ([("a",)] * 3 + [("b",)] * 2 + [("c",)], (0.4,)),
    "three levels": (
        [("a", "x")] * 3 + [("a", "y")] + [("b", "x")] * 2 + [("c", "z")],
        (0.4, 2.5),
    ),
    "four levels": (
        [("a", "x", 1)] * 2 + [("a", "x", 2)] + [("b", "x", 2)] * 2,
        (0.3, 1.0, 2.0),
    ),
    "one district": ([("a",)] * 4, (0.3,)),
    "schools alone": ([("a",), ("b",), ("c",), ("d",)], (0.3,)),
    "one task": ([("a", "x")], (0.3, 1.0)),
}


def explicit_ties(paths, between):
    """Rows of p and of q whose squares sum up to the penalty, for any values of q."""
    groups = list({path[:n] for path in paths for n in range(len(path) + 1)})
    p, q = [], []
    for i, path in enumerate(paths):
        p.append(np.eye(len(paths))[i])
        q.append(-np.eye(len(groups))[groups.index(path)])
    for group in groups:
        if group:
            ends = np.eye(len(groups))[[groups.index(group), groups.index(group[:-1])]]
            p.append(np.zeros(len(paths)))
            q.append(np.sqrt(between[len(group) - 1]) * (ends[0] - ends[1]))
    return np.array(p), np.array(q), groups


@pytest.mark.parametrize("name", TREES)
def test_the_penalty_is_least_over_the_means_of_groups(name):
    paths, between = TREES[name]
    tasks = [f"task {i}" for i in range(len(paths))]
    prior = TaskPrior.nested(dict(zip(tasks, paths, strict=True)), between=between)
    L = laplacian(prior, tasks)
    P = np.random.default_rng(0).normal(size=(4, len(paths)))
    p, q, groups = explicit_ties(paths, between)
    best = np.linalg.lstsq(-q, p @ P.T, rcond=None)[0]
    energies = np.sum((p @ P.T + q @ best) ** 2, axis=0)
    assert L.energies(P) == pytest.approx(energies, rel=1e-12, abs=1e-13)
    assert L.times(P) == pytest.approx(P @ L.dense(), abs=1e-13)
    assert np.diag(P @ L.dense() @ P.T) == pytest.approx(energies, abs=1e-12)
    assert L.factor().T @ L.factor() == pytest.approx(L.dense(), abs=1e-13)
    assert L.degree == pytest.approx(np.diag(L.dense()), abs=1e-14)
    assert len(set(L.components)) == 1
    plain = laplacian(TaskPrior.nested(dict(zip(tasks, paths, strict=True))), tasks)
    assert plain.with_between(between).dense() == pytest.approx(L.dense(), abs=1e-14)
    # Tasks that were not seen get these means.
    means, weights = prior.tree().average(["new"], tasks)
    assert means == [0]
    assert weights @ P.T == pytest.approx(best[[groups.index(())]], abs=1e-12)


def test_means_of_many_groups_are_eliminated_one_after_the_other(monkeypatch):
    paths, between = TREES["three levels"]
    prior = TaskPrior.nested(dict(enumerate(paths)), between=between)
    P = np.random.default_rng(1).normal(size=(2, len(paths)))
    few = laplacian(prior, range(len(paths))).times(P)
    monkeypatch.setattr("priormtl.priors.graphs.FEW_TASKS", 0)
    many = prior.ties[0].laplacian(range(len(paths)))
    assert many.forest.inverse is None
    assert many.times(P) == pytest.approx(few, abs=1e-13)
    diagonal = np.arange(1.0, 1.0 + many.m)
    solved = many.shifted_solver(diagonal, 3.0)(np.ones(many.m))
    matrix = np.diag(diagonal) + 3.0 * many.dense()
    assert matrix @ solved == pytest.approx(np.ones(many.m), abs=1e-12)


def schools(seed=0, rows=9):
    """Features, targets, districts and schools, of which some districts have one."""
    rng = np.random.default_rng(seed)
    district = np.repeat(["A", "A", "A", "B", "B", "C"], rows)
    school = np.repeat([1, 2, 3, 1, 2, 1], rows)
    X = pd.DataFrame(rng.normal(size=(6 * rows, 3)) + 1.0, columns=["u", "v", "w"])
    effect = {"A": 1.0, "B": -1.0, "C": 0.5}
    level = np.array([effect[d] for d in district]) + 0.1 * school
    y = level + X["u"] * (1.0 + 0.3 * level) + 0.3 * rng.normal(size=6 * rows)
    return X.assign(district=district, school=school), y.to_numpy()


PATHS = [("A",), ("A",), ("A",), ("B",), ("B",), ("C",)]
BOTH = ["district", "school"]


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("intercepts", [True, "tied"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_fits_agree_with_cvxpy(loss, intercepts, standardize):
    frame, y = schools()
    X = frame[["u", "v", "w"]].to_numpy()
    codes = np.repeat(np.arange(6), 9)
    lam, epsilon, strength = 2.0, 3.0, 1.5
    settings = {
        "task_prior": TaskPrior.nested(between=0.4),
        "task": BOTH,
        "fit_intercept": intercepts,
        "intercept_strength": strength,
        "standardize": standardize,
        "tol": 1e-10,
    }
    if loss == "squared":
        model = MultiTaskRegressor(lam, 0.0, epsilon, **settings).fit(frame, y)
    else:
        noise = 3.0 * np.random.default_rng(2).normal(size=len(y))
        y = np.where(y + noise > 1.0, 1.0, -1.0)
        model = MultiTaskClassifier(lam, 0.0, epsilon, **settings).fit(frame, y)
    Z = X
    if standardize:
        Z = X / X.std(axis=0)
        if intercepts == "tied":
            Z = Z - Z.mean(axis=0)
    P, b = cp.Variable((6, 3)), cp.Variable(6)
    score = cp.sum(cp.multiply(Z, P[codes]), axis=1) + b[codes]
    data = cp.sum_squares(score - y) / 2
    if loss == "logistic":
        data = cp.sum(cp.logistic(-cp.multiply(y, score)))
    p, q, groups = explicit_ties(PATHS, (0.4,))
    means = cp.Variable((len(groups), 3))
    objective = data + lam * cp.sum(cp.norm(P, axis=0))
    objective += epsilon / 2 * cp.sum_squares(p @ P + q @ means)
    if intercepts == "tied":
        mean = cp.Variable(len(groups))
        objective += strength / 2 * cp.sum_squares(p @ b + q @ mean)
    best = cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL")
    assert model.objective_ == pytest.approx(best, rel=1e-6)
    assert 0 <= model.dual_gap_ <= 1e-9 * best
    scores = (
        model.predict(frame) if loss == "squared" else model.decision_function(frame)
    )
    assert scores == pytest.approx(score.value, abs=1e-4)
    assert model.tasks_.tolist()[0] == "A / 1"


@pytest.mark.parametrize("method", ["fista", "linear", "gd"])
def test_other_solvers_find_the_same(method):
    frame, y = schools()
    lam = 0.0 if method in ("linear", "gd") else 2.0
    settings = {"task": BOTH, "fit_intercept": "tied", "standardize": True}
    exact = MultiTaskRegressor(lam, 0.0, 3.0, **settings, tol=1e-9).fit(frame, y)
    found = MultiTaskRegressor(lam, 0.0, 3.0, **settings, solver=method, tol=1e-10)
    assert found.fit(frame, y).coef_ == pytest.approx(exact.coef_, abs=1e-4)


def test_strong_ties_converge_as_quickly_as_those_to_the_mean():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(400, 6)), np.repeat(np.arange(40), 10)
    y = X[:, 0] + 0.1 * rng.normal(size=400)
    prior = TaskPrior.nested({i: i % 4 for i in range(40)}, between=0.5)
    assert lay_out_graph(laplacian(prior, range(40))).kind == TREE
    model = MultiTaskRegressor(1.0, 0.0, 1e6, task_prior=prior).fit(X, y, task=task)
    assert model.n_iter_ <= 3
    assert np.ptp(model.coef_, axis=0).max() < 1e-4


def test_a_word_a_mapping_and_columns_are_the_same_prior():
    frame, y = schools()
    X = frame[["u", "v", "w"]]
    labels = frame["district"] + " / " + frame["school"].astype(str)
    parents = {label: label[0] for label in labels}
    fits = [
        MultiTaskRegressor(task=BOTH).fit(frame, y),
        MultiTaskRegressor(task_prior="nested").fit(X, y, task=labels),
        MultiTaskRegressor(task_prior=TaskPrior.nested(parents)).fit(X, y, task=labels),
    ]
    for fit in fits[1:]:
        assert np.array_equal(fit.coef_, fits[0].coef_)
    assert fits[0].between_ == (1.0,)
    assert fits[0].summary().task_prior == (
        "nested, coupling between groups 1 of that within"
    )
    positions = MultiTaskRegressor(task=[3, -1], standardize=False)
    table = X.assign(d=frame["district"].map(ord), s=frame["school"]).to_numpy()
    assert positions.fit(table, y).coef_ == pytest.approx(fits[0].coef_, rel=1e-12)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_have_the_same_labels(library):
    frame, y = schools()
    expected = MultiTaskRegressor(task=BOTH).fit(frame, y)
    if library == "polars":
        table = pytest.importorskip("polars").from_pandas(frame)
    else:
        table = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    found = MultiTaskRegressor(task=BOTH).fit(table, y)
    assert found.tasks_.tolist() == expected.tasks_.tolist()
    assert np.array_equal(found.predict(table), expected.predict(frame))


def test_labels_are_joined_whatever_their_type():
    whole = join_labels([np.array([1.0, 2.0]), ["x", "y"]])
    assert whole.tolist() == ["1 / x", "2 / y"]
    with pytest.raises(ValueError, match="must not contain"):
        join_labels([["a / b"], ["c"]])
    frame, y = schools()
    frame.loc[3, "school"] = np.nan
    with pytest.raises(ValueError, match="must not hold missing labels: 1 of 54"):
        MultiTaskRegressor(task=BOTH).fit(frame, y)


def test_prior_errors():
    with pytest.raises(TypeError, match="parents must map tasks to groups"):
        TaskPrior.nested(["a"])
    with pytest.raises(
        ValueError, match="between must be a number, or one for each level"
    ):
        TaskPrior.nested({"a": "x"}, between=())
    for between in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="between must be positive and finite"):
            TaskPrior.nested({"a": "x"}, between=between)
    with pytest.raises(ValueError, match="one for each of 1 levels"):
        laplacian(TaskPrior.nested({"a": "x"}, between=(1.0, 2.0)), ["a"])
    with pytest.raises(ValueError, match=r"at as many levels \(1\) as.*'b'"):
        laplacian(TaskPrior.nested({"a": "x"}), ["a", "b"])
    with pytest.raises(ValueError, match=r"at as many levels \(2\) as"):
        laplacian(TaskPrior.nested({"a": ("x", "y"), "b": "x"}), ["a", "b"])
    with pytest.raises(ValueError, match='needs labels such as "district / school"'):
        laplacian(as_task_prior("nested"), ["a", "b"])


def test_new_schools_get_the_mean_of_their_district_and_others_that_of_all():
    frame, y = schools()
    model = MultiTaskRegressor(
        0.0, 0.0, 3.0, task=BOTH, task_prior=TaskPrior.nested(between=0.4)
    )
    model.set_params(unseen_tasks="shared").fit(frame, y)
    p, q, groups = explicit_ties(PATHS, (0.4,))
    means = np.linalg.lstsq(-q, p @ model.coef_, rcond=None)[0]
    levels = np.linalg.lstsq(-q, p @ model.intercept_, rcond=None)[0]
    new = frame.iloc[:3].assign(district=["A", "C", "Z"], school=9)
    found = model.predict(new)
    for row, group in enumerate([("A",), ("C",), ()]):
        place = groups.index(group)
        x = new[["u", "v", "w"]].to_numpy()[row]
        assert found[row] == pytest.approx(x @ means[place] + levels[place])
    known = frame.iloc[:3]
    assert np.array_equal(model.predict(known), model.predict(frame)[:3])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("tabular", [False, True])
def test_unnamed_schools_of_a_known_district_are_in_it(library, tabular):
    frame, y = schools()
    if tabular:
        model = tabular_model("regressor", task=BOTH, trees="none", smooth="none")
    else:
        model = MultiTaskRegressor(0.0, 0.0, 3.0, task=BOTH, unseen_tasks="shared")
    model.fit(frame, y)
    rows = frame.iloc[[0, 0, 0, 0, 0]]
    new = rows.assign(district=["A", "C", "Z", "Z", "A"], school=[9, 9, 9, 1, 1])
    unnamed = rows.assign(
        district=pd.Series(["A", "C", None, None, "A"], rows.index, object),
        school=pd.array([None, None, None, 1, 1], "Int64"),
    )
    if library == "polars":
        unnamed = pl.from_pandas(unnamed)
    if library == "pyarrow":
        unnamed = pa.Table.from_pandas(unnamed, preserve_index=False)
    expected = model.predict(new)
    assert len(set(expected.round(6))) == 4
    assert np.array_equal(model.predict(unnamed), expected)
    linear_part(model).set_params(unseen_tasks="error")
    with pytest.raises(ValueError, match="must not hold missing labels: 4 of 5"):
        model.predict(unnamed)
    with pytest.raises(ValueError, match="must not hold missing labels: 4 of 5"):
        model.fit(unnamed, np.arange(5.0))


def test_mappings_may_name_schools_without_rows():
    frame, y = schools()
    X, task = frame[["u", "v", "w"]], frame["district"] + frame["school"].astype(str)
    parents = {label: label[0] for label in (*task, "A9")}
    nested = TaskPrior.nested(parents)
    settings = {"task_prior": nested, "unseen_tasks": "shared"}
    model = MultiTaskRegressor(0.0, 0.0, 3.0, **settings).fit(X, y, task=task)
    del parents["A9"]
    same = MultiTaskRegressor(0.0, 0.0, 3.0, task_prior=TaskPrior.nested(parents))
    np.testing.assert_array_equal(same.fit(X, y, task=task).coef_, model.coef_)
    of_district = model.predict(X[:2], task=["A9"] * 2)
    of_all = model.predict(X[:2], task=["Z1"] * 2)
    assert np.abs(of_district - of_all).min() > 1e-3


def test_models_are_saved_with_their_trees(tmp_path):
    frame, y = schools()
    parents = {"A / 1": "A", "A / 2": "A", "A / 3": "A", "B / 1": "B", "B / 2": "B"}
    parents["C / 1"] = "C"
    prior = TaskPrior.nested(parents, between=0.3)
    for model in (
        MultiTaskRegressor(task=("district", "school"), unseen_tasks="shared"),
        MultiTaskRegressor(task=BOTH, task_prior=prior, unseen_tasks="shared"),
        MultiTaskRegressorCV(lams=[1.0], epsilons=[1.0], cv=3, task=BOTH),
    ):
        model.fit(frame, y)
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        assert np.array_equal(again.predict(frame), model.predict(frame))
        assert again.between_ == model.between_
        assert again.summary().task_prior == model.summary().task_prior
        if model.unseen_tasks == "shared":
            new = frame[:4].assign(school=7)
            assert np.array_equal(again.predict(new), model.predict(new))


def nested_rows(seed, districts, schools_each, rows):
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(districts * schools_each), rows)
    district = school // schools_each
    x = rng.normal(size=len(school))
    y = 2.0 + 1.5 * x + 1.2 * rng.normal(size=districts)[district]
    y += 0.8 * rng.normal(size=districts * schools_each)[school]
    y += 1.5 * rng.normal(size=len(x))
    return pd.DataFrame({"y": y, "x": x, "district": district, "school": school})


@pytest.mark.filterwarnings("ignore")
def test_variances_are_those_of_a_mixed_model_with_nested_effects():
    rows = nested_rows(3, 12, 5, 8)
    effects = {"school": "0 + C(school)"}
    mixed = mixedlm(
        "y ~ x", rows, groups="district", re_formula="1", vc_formula=effects
    ).fit(reml=True, gtol=1e-8)
    labels = join_labels([rows["district"], rows["school"]])
    statistics = summarize(rows[["x"]], rows["y"], labels)
    posed = Model(
        lam=0.0,
        task_prior="nested",
        fit_intercept="tied",
        intercept_strength="adaptive",
    ).pose(statistics)
    found = posed.estimate
    within = found.noise_variance / found.intercept
    variances = [within / found.between[0], within, found.noise_variance]
    expected = [mixed.cov_re.iloc[0, 0], mixed.vcomp[0], mixed.scale]
    assert variances == pytest.approx(expected, rel=1e-3)
    assert found.rows[1, 0] == pytest.approx(mixed.fe_params["x"], rel=1e-5)
    assert posed.problem.prior.laplacian.between == found.between


def test_districts_that_do_not_vary_are_coupled_strongly():
    rng = np.random.default_rng(0)
    rows = nested_rows(0, 10, 6, 10)
    effects = rng.normal(size=(10, 6))
    effects -= effects.mean(axis=1, keepdims=True)
    y = rows["x"] + effects.ravel()[rows["school"]] + 0.3 * rng.normal(size=600)
    model = MultiTaskRegressor(
        0.0,
        task=BOTH,
        ties="adaptive",
        fit_intercept="tied",
        intercept_strength="adaptive",
    ).fit(rows.drop(columns="y"), y)
    assert model.between_[0] > 20.0


def test_cross_validation_tries_nested_tasks_and_their_mean():
    rows = nested_rows(1, 6, 4, 8)
    model = MultiTaskRegressorCV(lams=[0.0], cv=3, task=BOTH, fit_intercept="tied")
    model.fit(rows.drop(columns="y"), rows["y"])
    tried = {part["task_prior"] for part in model.cv_results_["params"]}
    assert tried == {"nested", "mean"}
    assert model.structure_["task_prior"] == "nested"
    assert model.structure_["between"] == model.between_
    assert 0.05 < model.between_[0] < 5.0
    words = {one.structure.split(", ")[-1] for one in model.summary().structures}
    assert words == {"nested tasks", "mean of all tasks"}


def test_tables_and_files_may_hold_nested_tasks(tmp_path):
    rows = nested_rows(2, 6, 4, 6)
    path, out = tmp_path / "rows.csv", tmp_path / "rows.model"
    rows.to_csv(path, index=False)
    model = tabular_model("regressor", task=BOTH, trees="none", smooth="none")
    model.fit(rows.drop(columns="y"), rows["y"])
    assert model[-1].structure_["task_prior"] in ("nested", "mean")
    runner = CliRunner()
    options = ["--task", "district,school", "--target", "y"]
    plain = ["--trees", "none", "--smooth", "none", "--out", str(out), "--json"]
    result = runner.invoke(app, ["fit", str(path), *options, *plain])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["tasks"] == 24
    fitted = load(out)
    table = rows.drop(columns="y")
    assert fitted.predict(table) == pytest.approx(model.predict(table), rel=1e-9)
    predicted = tmp_path / "predicted.csv"
    result = runner.invoke(
        app, ["predict", str(out), str(path), "--out", str(predicted)]
    )
    assert result.exit_code == 0, result.output
    found = pd.read_csv(predicted)
    assert found["district / school"].iloc[0] == "0 / 0"
    assert found["prediction"].to_numpy() == pytest.approx(model.predict(table))
    gaps = table.astype({"school": "Int64"})
    gaps.loc[0, "school"] = None
    gaps.loc[1, ["district", "school"]] = None
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    result = runner.invoke(
        app,
        ["predict", str(out), str(tmp_path / "gaps.csv"), "--out", str(predicted)],
    )
    assert result.exit_code == 0, result.output
    found = pd.read_csv(predicted)
    assert found["district / school"][0] == "0 / "
    assert np.isnan(found["district / school"][1])
    new = table.assign(school=[99, 99, *table["school"][2:]])
    new.loc[1, "district"] = 99
    assert found["prediction"].to_numpy() == pytest.approx(model.predict(new))
    strengths = ["--lam", "1", "--epsilon", "1", "--out", str(out)]
    result = runner.invoke(app, ["fit", str(path), *options, *strengths])
    assert result.exit_code == 0, result.output
    linear = load(out)
    assert linear.task_prior == "nested"
    assert linear.predict(table) == pytest.approx(
        MultiTaskRegressor(1.0, 0.0, 1.0, task=BOTH, standardize=True)
        .fit(table, rows["y"])
        .predict(table)
    )
    source = MultiTaskRegressor(1.0, 0.0, 1.0, task=BOTH, standardize=True)
    source.fit_source(path, target="y")
    assert source.predict(table) == pytest.approx(linear.predict(table))
