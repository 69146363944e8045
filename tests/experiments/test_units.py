"""Units: rows that depend on the settings alone, in the fields agreed on."""

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest
from sklearn import metrics
from sklearn.linear_model import LinearRegression

import priormtl
from paper_data import FIELDS, convergence_rows, roc_rows, small_school, surface_rows
from paper_data import KINDS as SETS
from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.datasets.loaders import LOADERS
from priormtl.experiments import units
from priormtl.experiments.methods import METHODS, fit_method
from priormtl.experiments.protocol import (
    Budget,
    find_protocol,
    load_rows,
    make_split,
    score_tasks,
)
from priormtl.experiments.units import (
    ALGORITHMS,
    INSTANCES,
    KINDS,
    REACHED,
    ConvergenceUnit,
    RocUnit,
    ScoreUnit,
    SurfaceUnit,
    school_in_sample,
)
from priormtl.problem import exact_constants, paper_constants

on_small_sets = pytest.mark.usefixtures("small_sets")
UNIT = ScoreUnit("school", "natural", 3, quick=True)
SCHEMAS = {kind: schema for kind, (_, schema) in KINDS.items()}


def test_rows_have_the_fields_that_tables_and_figures_are_made_from():
    assert SCHEMAS["scores"] == pa.schema(FIELDS)
    made = {"convergence": convergence_rows, "roc": roc_rows, "surfaces": surface_rows}
    for kind, make in made.items():
        assert make().schema == SCHEMAS[kind]
    assert set(SCHEMAS) == {"scores", *made}
    for unit in DISTINCT:
        assert isinstance(unit, KINDS[unit.settings()["kind"]][0])


ALIKE = [
    *(ScoreUnit(name, "artificial", 0, quick=True) for name in SETS),
    RocUnit("yale", quick=True),
    SurfaceUnit("school", quick=True),
]


@on_small_sets
@pytest.mark.parametrize("unit", ALIKE, ids=lambda unit: unit.label)
def test_rows_are_the_same_bits_each_time_but_for_the_seconds(unit):
    first, again = unit.compute().to_pydict(), unit.compute().to_pydict()
    first.pop("seconds", None)
    again.pop("seconds", None)
    np.testing.assert_equal(first, again)  # NaN is NaN


DISTINCT = [
    *(
        replace(UNIT, **change)
        for change in (
            {},
            {"dataset": "sarcos"},
            {"method": "none"},
            {"repeat": 4},
            {"size": 5},
            {"wrong": 0.0},
            {"wrong": 0.5},
            {"quick": False},
        )
    ),
    *(RocUnit(*one) for one in product(("yale", "orl"), ("natural", "none"), (0, 1))),
    RocUnit("yale", quick=True),
    ScoreUnit("yale", "natural", 0),
    *(SurfaceUnit(*one) for one in product(SETS, (0, 1), (False, True))),
    *(ConvergenceUnit(*one) for one in product(("synthetic", "school"), (0, 1))),
    ConvergenceUnit("school", version=5),
]


def test_settings_are_json_and_tell_units_apart():
    texts = [
        json.dumps(unit.settings(), sort_keys=True, allow_nan=False)
        for unit in DISTINCT
    ]
    for (i, first), (j, second) in combinations(enumerate(texts), 2):
        assert first != second, (DISTINCT[i], DISTINCT[j])


def test_labels_tell_units_apart_and_families_join_repeats():
    # Labels leave out what people do not need: quick and versions.
    shown = [u for u in DISTINCT if not getattr(u, "quick", 0)]
    labels = [unit.label for unit in shown if getattr(unit, "version", 3) == 3]
    assert len(set(labels)) == len(labels)
    for unit in (UNIT, RocUnit("yale"), SurfaceUnit("yale")):
        assert replace(unit, repeat=9).family == unit.family
    assert replace(UNIT, size=5).family != UNIT.family
    assert RocUnit("yale").family == ScoreUnit("yale", "natural", 0).family


def test_a_new_version_of_a_method_is_another_unit(monkeypatch):
    before = UNIT.settings()
    monkeypatch.setitem(METHODS, "natural", replace(METHODS["natural"], version=99))
    assert UNIT.settings() != before


def test_the_grid_is_a_setting_of_ours_and_a_count_of_others(monkeypatch):
    ours, other = UNIT, replace(UNIT, method="mtrl")
    before = ours.settings(), other.settings()
    protocol = find_protocol("school", quick=True)
    changed = replace(protocol, budget=Budget((1.0,), (0.0,), (0.0,)))
    monkeypatch.setattr(units, "find_protocol", lambda name, quick: changed)
    assert ours.settings() != before[0]
    assert other.settings() == before[1]
    changed = replace(protocol, n_settings=99)
    assert ours.settings() == before[0]
    assert other.settings() != before[1]


# Scores.


@on_small_sets
@pytest.mark.parametrize("dataset", SETS)
def test_rows_are_scores_of_the_method(dataset):
    unit = ScoreUnit(dataset, "ridge-single", 1, 5, quick=True)
    table = unit.compute()
    data, split, training = unit.prepare()
    fitted = fit_method(METHODS["ridge-single"], training, split)
    expected = score_tasks(data, split.test, fitted.scores)
    assert table.schema == SCHEMAS["scores"]
    for row, score in zip(table.to_pylist(), expected, strict=True):
        assert (row["metric"], row["task"]) == (score.metric, score.task)
        np.testing.assert_equal(row["value"], score.value)
        assert (row["dataset"], row["method"]) == (dataset, "ridge-single")
        assert (row["repeat"], row["size"], row["wrong"]) == (1, 5, None)
        assert json.loads(row["strengths"]) == fitted.strengths
        assert row["version"] == priormtl.__version__
        assert row["seconds"] > 0


@on_small_sets
def test_the_same_repeat_is_the_same_split_for_every_method():
    splits = [replace(UNIT, method=name).prepare()[1] for name in ("none", "mixed")]
    np.testing.assert_array_equal(splits[0].train.X, splits[1].train.X)
    np.testing.assert_array_equal(splits[0].folds, splits[1].folds)


@on_small_sets
def test_a_method_is_told_what_the_unit_says():
    _, split, training = replace(UNIT, wrong=0.5).prepare()
    protocol = find_protocol("school", quick=True)
    assert training.data is load_rows("school")
    assert training.rows is split.train
    assert training.folds is split.folds
    assert (training.seed, training.wrong) == (3, 0.5)
    assert (training.budget, training.tol) == (protocol.budget, protocol.tol)


@pytest.mark.usefixtures("real_sets")
def test_the_real_school_gives_rows_of_139_schools():
    table = ScoreUnit("school", "ridge-pooled", 0, quick=True).compute()
    overall = table.filter(table["task"].is_null()).to_pylist()
    assert table.num_rows == 4 + 139
    explained = {row["metric"]: row["value"] for row in overall}["ve_pooled"]
    assert 0.2 < explained < 0.34  # no more than in sample


# ROC curves.


@on_small_sets
@pytest.mark.parametrize("dataset", ["yale", "orl"])
def test_roc_curves_rise_over_the_area_that_is_told(dataset):
    table = RocUnit(dataset, quick=True).compute()
    assert table.schema == SCHEMAS["roc"]
    assert set(table["method"].to_pylist()) == {"natural"}
    unit = ScoreUnit(dataset, "natural", 0, quick=True)
    told = {row["task"]: row["value"] for row in unit.compute().to_pylist()}
    curves = dict(iter(table.to_pandas().groupby("task")))
    assert list(curves) == list(load_rows(dataset).task_names)
    for task, curve in curves.items():
        fpr, tpr = curve["fpr"].to_numpy(), curve["tpr"].to_numpy()
        np.testing.assert_array_equal(fpr, np.linspace(0, 1, 101))
        assert np.all(np.diff(tpr) >= 0)
        assert (tpr[0] >= 0, tpr[-1]) == (True, 1.0)
        assert set(curve["auc"]) == {told[task]}
        assert metrics.auc(fpr, tpr) == pytest.approx(told[task], abs=0.011)


@on_small_sets
def test_a_curve_begins_with_the_positives_above_all_negatives():
    _, split, training = ScoreUnit("orl", "natural", 0, quick=True).prepare()
    scores = fit_method(METHODS["natural"], training, split).scores
    above = [
        np.mean(s[y > 0] > s[y < 0].max())
        for y, s in zip(split.test.y.T, scores.T, strict=True)
    ]
    table = RocUnit("orl", quick=True).compute().to_pandas()
    assert table.groupby("task")["tpr"].first().tolist() == pytest.approx(above)


# Surfaces.

SHOWN = {
    "school": ["nmse_pooled", "ve_pooled"],
    "sarcos": ["nmse_pooled", "ve_pooled"],
    "yale": ["auc"],
    "orl": ["auc"],
}


@on_small_sets
@pytest.mark.parametrize("dataset", SHOWN)
def test_a_surface_has_the_score_of_every_combination(dataset):
    table = SurfaceUnit(dataset, 1, quick=True).compute()
    assert table.schema == SCHEMAS["surfaces"]
    rows = {
        (row["lam"], row["theta"], row["epsilon"], row["metric"]): row["value"]
        for row in table.to_pylist()
    }
    assert len(rows) == table.num_rows
    assert set(rows) == {
        *product((1, 10, 100), (1, 10, 100), (1, 10, 100), SHOWN[dataset])
    }
    data = load_rows(dataset)
    split = make_split(find_protocol(dataset, quick=True), data, 1)
    X, y, task = split.train
    prior = FeaturePrior.from_correlation(X.shape[1])
    for strengths in ((1.0, 10.0, 100.0), (10.0, 1.0, 1.0)):
        model = MultiTaskRegressor(*strengths, feature_prior=prior, tol=1e-4)
        guess = model.fit(X, y, task=task).predict(split.test.X, task=split.test.task)
        scores = score_tasks(data, split.test, guess * split.unit)
        expected = {s.metric: s.value for s in scores if s.task is None}
        for metric in SHOWN[dataset]:
            found = rows[(*strengths, metric)]
            assert found == pytest.approx(expected[metric], abs=5e-3)


@on_small_sets
def test_a_full_surface_has_five_values_of_each_strength():
    table = SurfaceUnit("yale").compute()
    for name in ("lam", "theta", "epsilon"):
        assert sorted(set(table[name].to_pylist())) == [1, 3, 10, 30, 100]
    assert table.num_rows == 125


# Convergence.


@pytest.fixture(scope="module")
def convergence():
    return ConvergenceUnit("synthetic", quick=True).compute()


def test_all_algorithms_come_down_to_the_optimum_or_to_the_limit(convergence):
    assert convergence.schema == SCHEMAS["convergence"]
    runs = dict(iter(convergence.to_pandas().groupby("algorithm", sort=False)))
    bounds = ("theorem", "theorem, paper's constants", "theorem, Algorithm 2")
    assert tuple(runs) == (*ALGORITHMS, *bounds)
    five = {"gd", "ista", "ista-reverse", "fista", "linear"}
    assert set(ALGORITHMS) == {*five, "auto", units.PAPERS_LINEAR}
    for name in ALGORITHMS:
        run = runs[name]
        excess, start = run["excess"].to_numpy(), run["start"].iloc[0]
        last = run["iteration"].iloc[-1]
        assert np.all(run["start"] == start)
        assert start > 0
        assert np.all(np.diff(run["iteration"]) > 0)
        assert np.all(np.diff(run["seconds"]) >= 0)
        assert np.all(excess >= 0)
        assert last == 300 or excess[-1] <= REACHED * start
        if name in ("gd", "ista"):  # steps without momentum never go up
            assert np.all(np.diff(excess, prepend=start) <= 1e-12 * start)
    assert runs["auto"]["excess"].iloc[-1] <= REACHED * start
    assert runs["auto"]["iteration"].iloc[-1] < 50


def test_bounds_are_those_of_the_theorems(convergence):
    frame = convergence.to_pandas()
    sigma, largest = frame["sigma"].iloc[0], frame["smoothness"].iloc[0]
    assert (sigma, largest) == pytest.approx((5.149, 160.08), rel=1e-4)
    runs = dict(iter(frame.groupby("algorithm")))
    bound = runs["theorem"].set_index("iteration")["excess"]
    assert bound[2] / bound[1] == pytest.approx(1 - np.sqrt(sigma / largest))
    second = runs["theorem, Algorithm 2"].set_index("iteration")["excess"]
    assert second[1] / second[2] == pytest.approx(2.0)
    for name, limit in (("linear", bound), ("ista-reverse", second)):
        run = runs[name].set_index("iteration")["excess"]
        common = run.index.intersection(limit.index)
        assert len(common) > 10
        assert np.all(run[common] <= limit[common])


def test_times_are_the_least_of_three_runs(monkeypatch):
    runs = iter([3.0, 1.0, 2.0] * len(ALGORITHMS))

    def trace(*arguments):
        seconds = next(runs)
        for k in (1, 2):
            point = {"iteration": k, "seconds": k * seconds}
            yield point | {"excess": 1.0 / k, "change": 0.1}

    monkeypatch.setattr(units, "_trace", trace)
    table = ConvergenceUnit("synthetic", quick=True).compute()
    times = [second for second in table["seconds"].to_pylist() if second is not None]
    assert times == [1.0, 2.0] * len(ALGORITHMS)


def test_the_problem_has_the_strengths_of_the_settings():
    problem = INSTANCES["synthetic"].pose()
    strengths = ConvergenceUnit("synthetic").settings()["instance"]
    assert problem.lam == pytest.approx(strengths["lam"] * problem.lam_max)
    for name in ("theta", "epsilon"):
        assert getattr(problem.prior, name) == strengths[name] > 0
    assert problem.prior.D.shape == (30, 30)  # as many relations as features


def test_counterexamples_are_those_of_the_errata():
    eight = INSTANCES["eight tasks, epsilon = 50"].pose()
    assert eight.null_objective == pytest.approx(201.726377141, abs=1e-8)
    assert exact_constants(eight) == pytest.approx((1.625117, 197.845473), abs=1e-5)
    assert paper_constants(eight).smoothness == pytest.approx(111.840059, abs=1e-5)
    four = INSTANCES["four tasks, epsilon = 50"].pose()
    table = (
        ConvergenceUnit("four tasks, epsilon = 50", quick=True).compute().to_pandas()
    )
    start = table["start"].iloc[0]
    assert four.null_objective - start == pytest.approx(10.611407457, abs=1e-8)
    # The paper's rule is met at an iteration that is kept, far from the optimum.
    run = table[table["algorithm"] == units.PAPERS_LINEAR]
    stopped = run[run["change"] < units.SMALL_CHANGE].iloc[0]
    assert stopped["excess"] > 1e-3 * start
    before = run[run["iteration"] < stopped["iteration"]]
    assert (before["change"] >= units.SMALL_CHANGE).all()


def test_a_run_that_diverges_is_ended():
    table = ConvergenceUnit("eight tasks, epsilon = 50").compute()
    run = table.to_pandas().query("algorithm == @units.PAPERS_LINEAR")
    assert run["iteration"].iloc[-1] < 3000
    assert np.isfinite(run["excess"]).all()
    assert run["excess"].iloc[-1] >= units.DIVERGED * run["start"].iloc[0]


@on_small_sets
def test_school_is_a_problem_too_and_rows_are_the_same_bits_each_time():
    first, again = (
        ConvergenceUnit("school", quick=True).compute().drop_columns(["seconds"])
        for _ in range(2)
    )
    assert first.equals(again)
    assert set(first["problem"].to_pylist()) == {"school"}
    assert set(first["algorithm"].to_pylist()) >= set(ALGORITHMS)


# In sample.


@on_small_sets
@pytest.mark.parametrize("columns", [slice(None), [0, 1, 3]])
def test_in_sample_is_the_r2_of_least_squares(monkeypatch, columns):
    # All columns together hold a constant, three of them do not.
    whole = small_school()
    data = replace(whole, originals=whole.originals[:, columns])
    monkeypatch.setitem(LOADERS, "school", lambda: data)
    X, y, task = data
    effects = (task[:, np.newaxis] == np.array(data.task_names)).astype(float)
    wide = np.hstack([X, effects])
    pooled, with_effects, with_slopes = school_in_sample()
    assert pooled == pytest.approx(LinearRegression().fit(X, y).score(X, y))
    assert with_effects == pytest.approx(LinearRegression().fit(wide, y).score(wide, y))
    slopes = np.hstack([X * one[:, np.newaxis] for one in effects.T])
    wide = np.hstack([effects, slopes])
    assert with_slopes == pytest.approx(LinearRegression().fit(wide, y).score(wide, y))
    assert pooled < with_effects < with_slopes


@pytest.mark.usefixtures("real_sets")
def test_no_linear_model_with_effects_reaches_what_the_paper_claims():
    pooled, with_effects, _ = school_in_sample()
    assert pooled == pytest.approx(0.340, abs=5e-4)
    assert with_effects == pytest.approx(0.387, abs=5e-4)
