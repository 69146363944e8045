from itertools import islice

import numpy as np
import pytest

from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.reweighting import LatticeProblem, reweight
from priormtl.baselines.lattice.task_curvature import rotate_fit
from priormtl.baselines.lattice.task_groups import all_groups
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared


def make_problem(seed=0, C=1.0, y_scale=1.0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((24, 5)), np.repeat([0, 1, 2], 8)
    y = y_scale * (X[:, 0] + rng.standard_normal(24))
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    norm = LatticeNorm(all_groups(3), 0.1, 1.2, 1.5, 1.5)
    return LatticeProblem(rotate_fit(fit, [np.arange(5)]), norm, C)


@pytest.mark.parametrize("seed", range(4))
def test_objectives_fall_and_bounds_rise(seed):
    points = list(islice(reweight(make_problem(seed)), 200))
    objectives = np.array([point.objective for point in points])
    duals = np.array([point.dual for point in points])
    # Ridge regressions are solved only as exactly as the gap is worth.
    assert np.all(np.diff(objectives) <= 1e-5 * objectives[0])
    assert np.all(np.diff(duals) >= 0)
    assert np.all(duals <= objectives.min() * (1 + 1e-12))
    assert points[-1].gap <= 1e-7 * points[-1].objective


def test_gap_bounds_the_distance_to_the_optimum():
    points = list(islice(reweight(make_problem()), 80))
    for point in points:
        assert point.objective - points[-1].objective <= point.gap + 1e-12


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_start_elsewhere_leads_to_the_same_end(C):
    problem = make_problem(C=C)
    *_, elsewhere = islice(reweight(make_problem(C=1.0)), 30)
    *_, cold = islice(reweight(problem), 80)
    *_, warm = islice(reweight(problem, elsewhere), 80)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)


def test_targets_of_zero_are_solved_at_once():
    problem = make_problem(y_scale=0.0)
    first = next(reweight(problem))
    assert first.objective == 0.0
    assert problem.is_solved(first, 1e-12)
