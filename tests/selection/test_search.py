"""search: every candidate on every split, whatever the threads."""

from dataclasses import replace
from threading import get_ident

import numpy as np
import pytest
from scipy.sparse import csr_array

from instances import build_problem, random_tasks
from priormtl.data import condense, summarize_tasks
from priormtl.losses import FreeIntercepts
from priormtl.priors import TaskPrior
from priormtl.selection import (
    Grid,
    SearchResult,
    Solver,
    StatisticsError,
    Trial,
    choose_candidate,
    count_paths,
    search,
)
from priormtl.solvers import default_method, gap_below, max_iter, solve

GRID = Grid(np.array([0.5, 8.0, 2.0]), np.array([0.1, 5.0]), np.array([0.2, 3.0]))


def rules(method):
    return [gap_below(1e-11, method.check_every), max_iter(5000)]


SOLVER = Solver(default_method, rules, 1e-11)


def trial(seed, **kw):
    data = random_tasks("stacked", seed)
    problem = build_problem(data, lam=1.0, intercepts=FreeIntercepts(), **kw)
    test = summarize_tasks(random_tasks("stacked", seed + 100))
    return Trial(problem, np.full(data.shape[0], 2.0), StatisticsError(test))


@pytest.fixture(scope="module")
def trials():
    return [trial(seed) for seed in range(3)]


@pytest.fixture(scope="module")
def result(trials):
    return search(trials, GRID, SOLVER)


def test_every_score_is_that_of_its_own_solution(trials, result):
    candidates = GRID.candidates()
    assert result.scores.shape == (12, 3)
    for k, one in enumerate(trials):
        for c, (epsilon, lam, theta) in enumerate(candidates):
            problem = one.problem.with_strengths(lam=lam, theta=theta, epsilon=epsilon)
            method = default_method(problem)
            alone = solve(problem, method, stop=rules(method))
            coefs = alone.coef.T[np.newaxis] / 2.0
            score = one.score(coefs, alone.intercept[np.newaxis])[0]
            assert result.scores[c, k] == pytest.approx(score, rel=1e-5)


def test_threads_change_no_bit(trials, result):
    for n_jobs in (2, 5):
        other = search(trials, GRID, SOLVER, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.scores, result.scores)


def test_the_caller_hears_of_each_path_in_its_own_thread(trials):
    for n_jobs in (1, 3):
        heard = []
        search(
            trials,
            GRID,
            SOLVER,
            n_jobs=n_jobs,
            advance=lambda heard=heard: heard.append(get_ident()),
        )
        assert len(heard) == count_paths(trials, GRID) == 12
        assert set(heard) == {get_ident()}


def test_strengths_without_effect_are_not_tried_twice(trials):
    problem = trials[0].problem
    nothing = csr_array((0, problem.shape[0]))
    bare = replace(problem, prior=replace(problem.prior, D=nothing))
    same = [trials[0]._replace(problem=bare)]
    assert count_paths(same, GRID) == 2
    scores = search(same, GRID, SOLVER).scores.reshape(GRID.shape)
    np.testing.assert_array_equal(scores[:, :, 0], scores[:, :, 1])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_reach_the_caller(trials, n_jobs):
    def fail(coefs, intercepts):
        raise ZeroDivisionError("on purpose")

    bad = [trials[0]._replace(score=fail)]
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        search(bad, GRID, SOLVER, n_jobs=n_jobs)


def test_fits_that_miss_the_tolerance_are_counted(trials, result):
    assert result.unsolved == 0
    hasty = Solver(default_method, lambda _: [max_iter(0)], 1e-11)
    assert search(trials, GRID, hasty).unsolved > 0


def scored(scores, lams=(4.0, 2.0, 1.0)):
    grid = Grid(np.array(lams), np.array([1.0]), np.array([1.0]))
    scores = np.array(scores, dtype=float)
    return SearchResult(grid, scores, np.zeros_like(scores), np.zeros_like(scores))


def test_best_is_the_first_of_the_largest_means():
    assert choose_candidate(scored([[0, 1], [2, 3], [2, 3]]), "best") == 1


def test_one_standard_error_takes_the_largest_lam_within_it():
    # Best mean 3.0 with standard error 1: candidates down to 2.0 are as good.
    result = scored([[1.9, 2.1], [2.5, 2.7], [2.0, 4.0]])
    assert choose_candidate(result, "1se") == 0
    result = scored([[1.8, 2.0], [2.5, 2.7], [2.0, 4.0]])
    assert choose_candidate(result, "1se") == 1


def test_one_standard_error_breaks_ties_by_score():
    grid = Grid(np.array([2.0, 1.0]), np.array([1.0, 5.0]), np.array([1.0]))
    scores = np.array([[2.8, 2.9], [2.9, 2.9], [2.0, 4.0], [1.0, 1.0]])
    result = SearchResult(grid, scores, scores, scores)
    assert choose_candidate(result, "1se") == 1


def test_splits_without_a_score_are_left_out():
    result = scored([[1.0, np.nan], [2.0, np.nan], [0.0, np.nan]])
    assert choose_candidate(result, "best") == 1
    assert choose_candidate(result, "1se") == 1
    assert result.mean_scores.tolist() == [1.0, 2.0, 0.0]
    assert result.table()["std_test_score"].tolist() == [0.0, 0.0, 0.0]


def test_no_score_at_all_is_an_error():
    with pytest.raises(ValueError, match="fewer folds"):
        choose_candidate(scored(np.full((3, 2), np.nan)), "best")


def test_ranks_and_candidates_agree(result):
    table = result.table()
    best = int(np.argmin(table["rank_test_score"]))
    assert best == choose_candidate(result, "best")
    params = {"epsilon": 0.2, "lam": 0.5, "theta": 0.1}
    assert table["params"][0] == params
    assert all(table[f"param_{k}"][0] == v for k, v in params.items())
    np.testing.assert_allclose(
        table["mean_test_score"],
        np.mean([table[f"split{k}_test_score"] for k in range(3)], axis=0),
    )


def test_statistics_are_all_a_trial_needs(trials):
    moments = condense(random_tasks("stacked", 0))
    problem = build_problem(
        moments, lam=1.0, intercepts=FreeIntercepts(), ties=TaskPrior.chain()
    )
    same = trials[0]._replace(problem=problem)
    a, b = search([same], GRID, SOLVER), search(trials[:1], GRID, SOLVER)
    np.testing.assert_allclose(a.scores, b.scores, rtol=1e-9)
