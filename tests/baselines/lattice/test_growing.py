"""Groups are added while tasks pull at them by more than they cost."""

from itertools import islice

import numpy as np
import pytest

from priormtl.baselines.lattice import growing
from priormtl.baselines.lattice.growing import grow_groups
from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.reweighting import LatticeProblem, reweight
from priormtl.baselines.lattice.task_curvature import rotate_fit
from priormtl.baselines.lattice.task_groups import single_groups
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared

STEPS = 60


def make_problem(growth):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((32, 5)), np.repeat(np.arange(4), 8)
    y = X[:, 0] + 0.3 * rng.standard_normal(32)
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    norm = LatticeNorm(single_groups(4), 0.1, growth, 1.5, 1.5)
    return LatticeProblem(rotate_fit(fit, [np.arange(5)]), norm, 1.0)


def solve(problem, last):
    *_, point = islice(reweight(problem, last), STEPS)
    return point, STEPS


def test_groups_that_cost_much_are_not_added():
    grown = grow_groups(make_problem(50.0), solve)
    assert len(grown.problem.norm.groups) == 4
    assert grown.n_iter == STEPS


def test_groups_that_cost_little_lower_the_objective():
    problem = make_problem(1.1)
    alone, _ = solve(problem, None)
    grown = grow_groups(problem, solve)
    groups = grown.problem.norm.groups.sets()
    assert len(groups) > 4
    assert grown.n_iter > STEPS
    assert grown.point.objective < alone.objective
    for group in groups:
        rest = [tuple(i for i in group if i != left) for left in group]
        assert len(group) == 1 or set(rest) <= set(groups)


@pytest.mark.parametrize("most", [4, 5, 6])
def test_there_are_never_too_many(most, monkeypatch):
    monkeypatch.setattr(growing, "MOST_GROUPS", most)
    grown = grow_groups(make_problem(1.1), solve)
    assert len(grown.problem.norm.groups) == most
