"""ConvergenceUnit: what all algorithms have left, from zero to the optimum."""

import json

import numpy as np
import pytest

from priormtl.experiments.rows import CONVERGENCE
from priormtl.experiments.units import ConvergenceUnit
from priormtl.experiments.units.convergence import ALGORITHMS, REACHED, TABLES

PROBLEMS = tuple(TABLES)


@pytest.fixture(scope="module")
def rows():
    return ConvergenceUnit("synthetic", quick=True).compute()


@pytest.fixture(scope="module")
def runs(rows):
    frame = rows.to_pandas()
    return dict(iter(frame.groupby("algorithm", sort=False)))


def test_all_algorithms_of_the_paper_and_auto_are_run(rows, runs):
    assert rows.schema == CONVERGENCE
    assert tuple(runs) == ALGORITHMS
    assert set(ALGORITHMS) == {"gd", "ista", "ista-reverse", "fista", "linear", "auto"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_looks_are_in_order_and_end_at_the_limit_or_near_the_optimum(runs, name):
    run = runs[name]
    assert np.all(np.diff(run["iteration"]) > 0)
    assert np.all(np.diff(run["seconds"]) >= 0)
    assert run["iteration"].max() <= 300
    start, left = run["start"].iloc[0], run["excess"].iloc[-1]
    assert run["iteration"].iloc[-1] == 300 or left <= REACHED * start


@pytest.mark.parametrize("name", ALGORITHMS)
def test_nothing_is_below_the_optimum(runs, name):
    run = runs[name]
    assert np.all(run["excess"] >= 0)
    assert np.all(run["start"] == run["start"].iloc[0])
    assert run["start"].iloc[0] > 0


@pytest.mark.parametrize("name", ["gd", "ista"])
def test_steps_without_momentum_never_go_up(runs, name):
    excess = runs[name]["excess"].to_numpy()
    assert np.all(np.diff(excess) <= 1e-12 * runs[name]["start"].iloc[0])
    assert excess[0] <= runs[name]["start"].iloc[0]


def test_auto_ends_at_the_optimum_in_few_iterations(runs):
    run = runs["auto"]
    assert run["excess"].iloc[-1] <= REACHED * run["start"].iloc[0]
    assert run["iteration"].iloc[-1] < 50


@pytest.mark.usefixtures("small_sets")
def test_school_is_a_problem_too():
    rows = ConvergenceUnit("school", quick=True).compute()
    assert set(rows["problem"].to_pylist()) == {"school"}
    assert set(rows["algorithm"].to_pylist()) == set(ALGORITHMS)


def test_rows_are_the_same_bits_each_time_but_for_the_seconds(rows):
    again = ConvergenceUnit("synthetic", quick=True).compute()
    assert rows.drop_columns(["seconds"]).equals(again.drop_columns(["seconds"]))


def test_settings_are_json_and_tell_units_apart():
    units = [ConvergenceUnit(p, quick) for p in PROBLEMS for quick in (False, True)]
    units.append(ConvergenceUnit("school", version=2))
    texts = {json.dumps(unit.settings(), allow_nan=False) for unit in units}
    assert len(texts) == len(units)
    assert len({unit.label for unit in units}) == len(PROBLEMS)
    assert len({unit.family for unit in units}) == len(PROBLEMS)
