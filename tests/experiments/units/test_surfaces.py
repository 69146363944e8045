"""SurfaceUnit: the metric at every combination of strengths."""

import json
from itertools import product

import numpy as np
import pytest

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.experiments.protocol import (
    find_protocol,
    load_rows,
    make_split,
    score_tasks,
)
from priormtl.experiments.rows import SURFACES
from priormtl.experiments.units import SurfaceUnit

SHOWN = {
    "school": ["nmse_pooled", "ve_pooled"],
    "sarcos": ["nmse_pooled", "ve_pooled"],
    "yale": ["auc"],
    "orl": ["auc"],
}
everywhere = pytest.mark.parametrize("dataset", SHOWN)
pytestmark = pytest.mark.usefixtures("small_sets")


def places(table):
    return [(row["lam"], row["theta"], row["epsilon"]) for row in table.to_pylist()]


@everywhere
@pytest.mark.parametrize(
    ("quick", "grid"), [(True, (1, 10, 100)), (False, (1, 3, 10, 30, 100))]
)
def test_every_combination_is_there_once(dataset, quick, grid):
    table = SurfaceUnit(dataset, quick=quick).compute()
    assert table.schema == SURFACES
    assert sorted(set(table["metric"].to_pylist())) == SHOWN[dataset]
    expected = sorted([*product(grid, repeat=3)] * len(SHOWN[dataset]))
    assert sorted(places(table)) == expected


@everywhere
def test_a_point_is_the_score_of_the_model_at_its_strengths(dataset):
    table = SurfaceUnit(dataset, 1, quick=True).compute().to_pylist()
    data = load_rows(dataset)
    split = make_split(find_protocol(dataset, quick=True), data, 1)
    X, y, task = split.train
    prior = FeaturePrior.from_correlation(X.shape[1])
    for strengths in ((1.0, 10.0, 100.0), (10.0, 1.0, 1.0)):
        model = MultiTaskRegressor(*strengths, feature_prior=prior, tol=1e-4)
        guess = model.fit(X, y, task=task).predict(split.test.X, task=split.test.task)
        scores = score_tasks(data, split.test, guess * split.unit)
        expected = {s.metric: s.value for s in scores if s.task is None}
        shown = {
            row["metric"]: row["value"]
            for row in table
            if (row["lam"], row["theta"], row["epsilon"]) == strengths
        }
        assert sorted(shown) == SHOWN[dataset]
        for metric, value in shown.items():
            assert value == pytest.approx(expected[metric], abs=5e-3)


def test_rows_are_the_same_bits_each_time():
    unit = SurfaceUnit("school", quick=True)
    assert unit.compute().equals(unit.compute())


def test_strengths_matter():
    table = SurfaceUnit("school", quick=True).compute().to_pandas()
    assert np.ptp(table[table["metric"] == "ve_pooled"]["value"]) > 0


def test_settings_are_json_and_tell_units_apart():
    units = [SurfaceUnit(*choice) for choice in product(SHOWN, (0, 1), (False, True))]
    texts = {json.dumps(unit.settings(), allow_nan=False) for unit in units}
    assert len(texts) == len(units)
    assert len({unit.label for unit in units}) == len(SHOWN) * 2
    assert len({unit.family for unit in units}) == len(SHOWN)
