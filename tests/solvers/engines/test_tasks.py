"""TaskBlocks: preconditioners by tasks or by modes lead to the same direction."""

from dataclasses import replace

import numpy as np
import pytest

from instances import random_blocks
from priormtl import MultiTaskRegressor
from priormtl.priors import TaskPrior, laplacian
from priormtl.solvers.engines import ActiveRows, TaskBlocks, tasks

GRAPHS = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(),
    "ring": TaskPrior.from_graph([(0, 1), (1, 2), (2, 3), (3, 0)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_both_preconditioners_lead_to_the_same_direction(name, monkeypatch):
    blocks, Q = random_blocks(4, 5, tie=3.0)
    blocks = replace(blocks, laplacian=laplacian(GRAPHS[name], range(4)))
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    unit = Q[place] / norms[place, None]
    rows = ActiveRows(place, blocks.lam[place] / norms[place], unit, blocks.tie[place])
    x = np.random.default_rng(0).standard_normal(unit.shape)
    found = []
    for threshold in (np.inf, 0.0):
        monkeypatch.setattr(tasks, "STRONG_TIES", threshold)
        engine = TaskBlocks(blocks, blocks.form)
        assert (engine._modes(rows) is None) == (threshold > 0)
        found.append(engine.direction(rows, x, 1e-12))
    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_few_rigid_ties_among_loose_ones_are_solved_in_a_few_steps(share):
    """Ties as an adaptive fit finds them: some features differ between tasks."""
    rng = np.random.default_rng(0)
    m, d, n = 60, 20, 8
    X = rng.standard_normal((m * n, d))
    task = np.repeat(np.arange(m), n)
    y = X @ rng.standard_normal(d) + rng.standard_normal(m)[task]
    ties = np.where(np.arange(d) < share * d, 1e6, 1.0)
    model = MultiTaskRegressor(
        lam=0.5, theta=0.0, task_prior="mean", fit_intercept="tied", tie_weights=ties
    )
    model.set_params(tol=1e-9).fit(X, y, task=task)
    assert model.n_iter_ <= 12
