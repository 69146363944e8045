"""RocUnit: curves rise from the left to the right end, over the area that is told."""

import json
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import auc

from priormtl.experiments.methods import METHODS, fit_method
from priormtl.experiments.protocol import load_rows
from priormtl.experiments.rows import ROC
from priormtl.experiments.units import RocUnit, ScoreUnit
from priormtl.experiments.units.scores import prepare

SETS = ("yale", "orl")
on_both_kinds = pytest.mark.parametrize("dataset", SETS)
pytestmark = pytest.mark.usefixtures("small_sets")


def curves(dataset):
    """fpr, tpr and area of each task."""
    rows = RocUnit(dataset, quick=True).compute().to_pandas()
    return {
        task: (part["fpr"].to_numpy(), part["tpr"].to_numpy(), part["auc"].to_numpy())
        for task, part in rows.groupby("task")
    }


@on_both_kinds
def test_there_is_a_curve_of_every_task_on_one_grid(dataset):
    found = curves(dataset)
    assert list(found) == list(load_rows(dataset).task_names)
    for fpr, _, area in found.values():
        np.testing.assert_array_equal(fpr, np.linspace(0, 1, 101))
        assert len(set(area)) == 1


@on_both_kinds
def test_curves_rise_to_the_upper_right_corner(dataset):
    for _, tpr, _ in curves(dataset).values():
        assert np.all(np.diff(tpr) >= 0)
        assert tpr[0] >= 0
        assert tpr[-1] == 1


def test_a_curve_begins_with_the_positives_above_all_negatives():
    unit = ScoreUnit("orl", "natural", 0, quick=True)
    _, split, training = prepare(unit)
    scores = fit_method(METHODS["natural"], training, split).scores
    above = [
        np.mean(s[y > 0] > s[y < 0].max())
        for y, s in zip(split.test.y.T, scores.T, strict=True)
    ]
    begin = [tpr[0] for _, tpr, _ in curves("orl").values()]
    assert begin == pytest.approx(above)


@on_both_kinds
def test_the_area_under_a_curve_is_near_its_auc(dataset):
    for fpr, tpr, area in curves(dataset).values():
        assert auc(fpr, tpr) == pytest.approx(area[0], abs=0.011)


@on_both_kinds
def test_areas_are_those_of_the_table(dataset):
    table = ScoreUnit(dataset, "natural", 0, quick=True).compute().to_pylist()
    scores = {row["task"]: row["value"] for row in table if row["task"]}
    assert {task: area[0] for task, (*_, area) in curves(dataset).items()} == scores


def test_rows_have_the_schema_and_the_same_bits_each_time():
    unit = RocUnit("yale", quick=True)
    first, again = unit.compute(), unit.compute()
    assert first.schema == ROC
    assert first.equals(again)
    assert set(first["method"].to_pylist()) == {"natural"}


def test_settings_are_json_and_tell_units_apart():
    units = [RocUnit(*choice) for choice in product(SETS, ("natural", "none"), (0, 1))]
    units += [RocUnit("yale", quick=True)]
    texts = {json.dumps(unit.settings(), allow_nan=False) for unit in units}
    texts.add(json.dumps(ScoreUnit("yale", "natural", 0).settings()))
    assert len(texts) == len(units) + 1
    assert "ROC" in units[0].label
    assert units[0].family == ScoreUnit("yale", "natural", 0).family
