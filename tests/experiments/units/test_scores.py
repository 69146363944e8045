"""ScoreUnit: rows of one method on one split."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import priormtl
from priormtl.experiments.methods import METHODS, fit_method
from priormtl.experiments.protocol import find_protocol, load_rows, score_tasks
from priormtl.experiments.rows import SCORES
from priormtl.experiments.units import ScoreUnit
from priormtl.experiments.units.scores import prepare
from small_tasks import KINDS

UNIT = ScoreUnit("school", "natural", 3, quick=True)
CHANGES = (
    {},
    {"dataset": "sarcos"},
    {"method": "none"},
    {"repeat": 4},
    {"size": 5},
    {"wrong": 0.0},
    {"wrong": 0.5},
    {"quick": False},
)


@pytest.mark.usefixtures("small_sets")
@pytest.mark.parametrize("dataset", KINDS)
def test_rows_are_scores_of_the_method(dataset):
    unit = ScoreUnit(dataset, "ridge-single", 1, 5, quick=True)
    table = unit.compute()
    data, split, training = prepare(unit)
    fitted = fit_method(METHODS["ridge-single"], training, split)
    expected = score_tasks(data, split.test, fitted.scores)
    assert table.schema == SCORES
    for row, score in zip(table.to_pylist(), expected, strict=True):
        assert (row["metric"], row["task"]) == (score.metric, score.task)
        np.testing.assert_equal(row["value"], score.value)  # NaN is NaN
        assert (row["dataset"], row["method"]) == (dataset, "ridge-single")
        assert (row["repeat"], row["size"], row["wrong"]) == (1, 5, None)
        assert json.loads(row["strengths"]) == fitted.strengths
        assert row["version"] == priormtl.__version__
        assert row["seconds"] > 0


@pytest.mark.usefixtures("small_sets")
@pytest.mark.parametrize("dataset", KINDS)
@pytest.mark.parametrize("method", ["natural", "artificial"])
def test_rows_are_the_same_bits_each_time_but_for_the_seconds(dataset, method):
    unit = ScoreUnit(dataset, method, 0, quick=True)
    first, again = (unit.compute().drop_columns(["seconds"]) for _ in range(2))
    assert first.equals(again)


@pytest.mark.usefixtures("small_sets")
def test_the_same_repeat_is_the_same_split_for_every_method():
    splits = [prepare(replace(UNIT, method=name))[1] for name in ("none", "mixed")]
    np.testing.assert_array_equal(splits[0].train.X, splits[1].train.X)
    np.testing.assert_array_equal(splits[0].folds, splits[1].folds)


@pytest.mark.usefixtures("small_sets")
def test_a_method_is_told_what_the_unit_says():
    _, split, training = prepare(replace(UNIT, wrong=0.5))
    protocol = find_protocol("school", quick=True)
    assert training.data is load_rows("school")
    assert training.rows is split.train
    assert (training.seed, training.wrong) == (3, 0.5)
    assert (training.budget, training.tol) == (protocol.budget, protocol.tol)


def test_settings_are_json_and_tell_units_apart():
    settings = [
        json.dumps(replace(UNIT, **change).settings(), sort_keys=True, allow_nan=False)
        for change in CHANGES
    ]
    for (i, first), (j, second) in combinations(enumerate(settings), 2):
        assert first != second, (CHANGES[i], CHANGES[j])


def test_a_new_version_of_a_method_is_another_unit(monkeypatch):
    before = UNIT.settings()
    newer = replace(METHODS["natural"], version=99)
    monkeypatch.setitem(METHODS, "natural", newer)
    assert UNIT.settings() != before


def test_labels_tell_units_apart_and_families_join_repeats():
    labels = [replace(UNIT, **change).label for change in CHANGES[:-1]]
    assert len(set(labels)) == len(labels)
    assert replace(UNIT, repeat=9).family == UNIT.family
    assert replace(UNIT, size=5).family != UNIT.family


@pytest.mark.usefixtures("real_sets")
def test_the_real_school_gives_rows_of_139_schools():
    table = ScoreUnit("school", "ridge-pooled", 0, quick=True).compute()
    overall = table.filter(table["task"].is_null()).to_pylist()
    assert table.num_rows == 4 + 139
    explained = {row["metric"]: row["value"] for row in overall}["ve_pooled"]
    assert 0.2 < explained < 0.34  # no more than in sample
