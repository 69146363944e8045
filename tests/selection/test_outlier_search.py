"""Candidates with outlier tasks: which are tried, and which is chosen on folds."""

import numpy as np

from planted import plant
from priormtl import MultiTaskRegressor
from priormtl.data import from_labels
from priormtl.selection import (
    Grid,
    OutlierCandidate,
    OutlierResult,
    SearchResult,
    Solver,
    choose_outliers,
    propose_outliers,
)
from priormtl.solvers import default_method, gap_below, max_iter

SOLVER = Solver(default_method, lambda _: [gap_below(1e-9, 1), max_iter(200)], 1e-9)


def test_proposals_lie_around_what_was_chosen():
    X, y, task, *_ = plant()
    model = MultiTaskRegressor(3.0, 0.0, 30.0, task_prior="mean")
    problem = model._set_up(from_labels(X, y, task)).problem
    grid = Grid(
        np.array([0.1, 1.0, 10.0, 100.0]), np.array([0.0]), np.array([1.0, 9.0, 30.0])
    )
    start = OutlierCandidate(9.0, 10.0, np.inf, 0.0)
    found = propose_outliers(problem, grid, start, None, SOLVER)
    assert {(c.epsilon, c.lam) for c, _ in found} <= {
        (epsilon, lam) for epsilon in (9.0, 30.0) for lam in (1.0, 10.0, 100.0)
    }
    assert all(np.isfinite(c.outlier_strength) for c, _ in found)
    some = propose_outliers(problem, grid, start, np.array([1e-3, 1e9]), SOLVER)
    assert {c.outlier_strength for c, _ in some} == {1e-3}


def result_of(plain, extra):
    grid = Grid(np.array([1.0]), np.array([0.0]), np.array([1.0]))
    plain = np.array([plain])
    search = SearchResult(grid, plain, plain, plain)
    candidates = [OutlierCandidate(1.0, 1.0, 2.0, 0.0) for _ in extra]
    outcomes = np.array(extra).reshape(len(extra), plain.shape[1])
    return OutlierResult(search, candidates, np.stack([outcomes] * 3))


def test_outliers_must_help_by_more_than_noise():
    plain = [1.0, 5.0, 3.0]
    assert choose_outliers(result_of(plain, []), 0) == 0
    assert choose_outliers(result_of(plain, [[1.0, 5.0, 3.0]]), 0) == 0
    assert choose_outliers(result_of(plain, [[0.0, 5.5, 4.0]]), 0) == 0
    # The scores differ from split to split, but the gain does not.
    assert choose_outliers(result_of(plain, [[1.2, 5.1, 3.1]]), 0) == 1
    assert choose_outliers(result_of(plain, [[0] * 3, [2.0, 6.0, 4.1]]), 0) == 2
    assert choose_outliers(result_of(plain, [[np.nan] * 3]), 0) == 0


def test_tables_hold_both_kinds_of_candidates():
    result = result_of([1.0, 5.0, 3.0], [[1.2, 5.1, 3.1]])
    table = result.table()
    assert table["param_outlier_strength"].tolist() == [np.inf, 2.0]
    np.testing.assert_allclose(table["mean_test_score"], result.mean_scores)
    assert table["rank_test_score"].tolist() == [2, 1]
