"""Searches: every candidate on every split, whatever the threads and the company."""

from dataclasses import replace
from threading import get_ident

import numpy as np
import pytest

from drawn_tasks import plant_outliers
from instances import PAIRS, random_tasks
from priormtl import MultiTaskRegressor
from priormtl.data import condense, from_labels, summarize_tasks
from priormtl.model import Model, Solver
from priormtl.selection import (
    Candidate,
    Grid,
    SearchFold,
    SearchResult,
    Setup,
    StatisticsError,
    Structure,
    choose_candidate,
    choose_outliers,
    choose_structure,
    mean_scores,
    propose_outliers,
    run_jobs,
    search,
)

GRID = Grid(np.array([0.5, 8.0, 2.0]), np.array([0.1, 5.0]), np.array([0.2, 3.0]))
MODEL = Model(feature_prior=PAIRS, task_prior="chain", standardize=True)
SOLVER = Solver(tol=1e-11, max_iter=5000)
ERRORS = [
    StatisticsError(summarize_tasks(random_tasks("stacked", seed + 100)))
    for seed in range(3)
]
FOLDS = [SearchFold(random_tasks("stacked", k), e) for k, e in enumerate(ERRORS)]


def setup(model=MODEL, grid=GRID, folds=FOLDS, **parts):
    posed = model.pose(folds[0][0])
    return Setup.of(Structure(**parts), grid, posed, folds)


@pytest.fixture(scope="module")
def result():
    return search(setup(), SOLVER)


def test_every_score_is_that_of_its_own_solution(result):
    assert result.scores.shape == (12, 3)
    for c, (epsilon, lam, theta, *_) in enumerate(result.candidates()):
        model = replace(MODEL, lam=lam, theta=theta, epsilon=epsilon)
        for k, (data, score, _) in enumerate(FOLDS):
            posed = model.pose(data)
            alone = SOLVER.solve(posed.problem)
            coefs = (alone.coef.T / posed.scale)[np.newaxis]
            found = score(coefs, alone.intercept[np.newaxis])[0]
            assert result.scores[c, k] == pytest.approx(found, rel=1e-5)


def test_structures_have_the_scores_that_they_have_alone(result):
    grid = Grid(np.array([3.0, 1.0]), np.array([1.0]), np.array([0.3, 1.0]))
    model = Model(task_prior="mean", penalty="nuclear")
    other = setup(model, grid, task_prior="mean")
    alone = search(other, SOLVER)
    both = result + search(other, SOLVER, n_jobs=2)
    np.testing.assert_array_equal(both.scores[:12], result.scores)
    np.testing.assert_array_equal(both.scores[12:], alone.scores)
    assert both.candidates()[:12] == result.candidates()
    assert both.candidates()[13] == Candidate(0.3, 1.0, 1.0, 1)
    table = replace(both, choices=["task_prior"]).table()
    assert table["param_task_prior"].tolist() == ["chain"] * 12 + ["mean"] * 4
    assert len(table["mean_test_score"]) == 16


def test_threads_change_no_bit(result):
    for n_jobs in (2, 5):
        other = search(setup(), SOLVER, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.scores, result.scores)


@pytest.mark.parametrize(("gain", "chosen"), [(0.0, 0), (0.05, 0), (0.2, 1)])
def test_slopes_in_common_must_gain_more_than_a_standard_error(gain, chosen):
    grid = Grid(np.zeros(1), np.ones(1), np.ones(1))
    choices = "varying", "common"
    both = [Setup(Structure(slopes=slopes), grid) for slopes in choices]
    noise = 0.2 * np.array([-1.0, 0.0, 1.0, -1.0, 1.0])  # standard error 0.09
    scores = np.stack([np.ones(5), 1.0 + gain + noise])
    found = SearchResult(both, scores, scores, scores)
    assert choose_structure(found, "best") == chosen


@pytest.fixture
def in_processes(monkeypatch):
    """All but the first jobs are sent to worker processes, however few they are."""
    limits = {"FEW_JOBS": 0, "WORTH_SECONDS": 0.0, "SHORT_SECONDS": 1e9}
    for name, value in limits.items():
        monkeypatch.setitem(run_jobs.__globals__, name, value)


class Unsendable:
    """A score that cannot be pickled."""

    def __init__(self, score):
        self.score = score

    def __call__(self, coefs, intercepts):
        return self.score(coefs, intercepts)

    def __reduce__(self):
        raise TypeError("stays here")


def test_processes_change_no_bit(result, in_processes):
    heard = []
    found = search(setup(), SOLVER, n_jobs=2, advance=lambda: heard.append(1))
    np.testing.assert_array_equal(found.scores, result.scores)
    assert len(heard) == 12


def test_what_cannot_be_sent_is_done_here(result, in_processes):
    folds = [fold._replace(score=Unsendable(fold.score)) for fold in FOLDS]
    found = search(setup(folds=folds), SOLVER, n_jobs=2)
    np.testing.assert_array_equal(found.scores, result.scores)


@pytest.mark.slow
def test_errors_of_processes_reach_the_caller(in_processes):
    fold = FOLDS[0]

    def fail(coefs, intercepts):
        raise ZeroDivisionError("on purpose")

    bad = setup(folds=[fold, fold, fold._replace(score=fail)])
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        search(bad, SOLVER, n_jobs=2)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_caller_hears_of_each_path_in_its_own_thread(n_jobs):
    heard = []
    search(
        setup(),
        SOLVER,
        n_jobs=n_jobs,
        advance=lambda: heard.append(get_ident()),
    )
    assert len(heard) == len(setup().paths()) == 12
    assert set(heard) == {get_ident()}


@pytest.mark.parametrize("without", ["feature_prior", "task_prior"])
def test_strengths_without_effect_are_not_tried_twice(without):
    bare = setup(replace(MODEL, **{without: None}), folds=FOLDS[:1])
    assert len(bare.paths()) == 2
    scores = search(bare, SOLVER).scores.reshape(2, 3, 2)
    axis = 2 if without == "feature_prior" else 0
    np.testing.assert_array_equal(*np.moveaxis(scores, axis, 0))
    assert len(np.unique(scores)) == 6


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_reach_the_caller(n_jobs):
    def fail(coefs, intercepts):
        raise ZeroDivisionError("on purpose")

    bad = setup(folds=[FOLDS[0]._replace(score=fail)])
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        search(bad, SOLVER, n_jobs=n_jobs)


def test_fits_that_miss_the_tolerance_are_counted(result):
    assert result.unsolved == 0
    hasty = Solver("ista", tol=1e-11, max_iter=1)
    assert search(setup(), hasty).unsolved == 36


def test_statistics_are_all_a_trial_needs(result):
    folds = [fold._replace(train=condense(fold.train)) for fold in FOLDS]
    by_statistics = search(setup(folds=folds), SOLVER)
    np.testing.assert_allclose(by_statistics.scores, result.scores, rtol=1e-9)


# Which candidate is chosen.


def scored(scores, grid=None):
    grid = grid or Grid(np.array([4.0, 2.0, 1.0]), np.ones(1), np.ones(1))
    scores = np.array(scores, dtype=float)
    return SearchResult(
        [Setup(Structure(), grid)], scores, np.zeros_like(scores), np.zeros_like(scores)
    )


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
    scores = [[2.8, 2.9], [2.9, 2.9], [2.0, 4.0], [1.0, 1.0]]
    assert choose_candidate(scored(scores, grid), "1se") == 1


def test_splits_without_a_score_are_left_out():
    result = scored([[1.0, np.nan], [2.0, np.nan], [0.0, np.nan]])
    assert choose_candidate(result, "best") == 1
    assert choose_candidate(result, "1se") == 1
    assert mean_scores(result.scores).tolist() == [1.0, 2.0, 0.0]
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


# Candidates with outlier tasks: which are tried, and which is chosen on folds.


def test_proposals_lie_around_what_was_chosen():
    X, y, task, *_ = plant_outliers()
    model = MultiTaskRegressor(3.0, 0.0, 30.0, task_prior="mean")
    posed = model._model().pose(from_labels(X, y, task))
    grid = Grid(
        np.array([0.1, 1.0, 10.0, 100.0]), np.array([0.0]), np.array([1.0, 9.0, 30.0])
    )
    start, solver = Candidate(9.0, 10.0, 0.0), Solver(tol=1e-9)
    here = Setup(Structure(), grid, posed)
    found = propose_outliers(here, start, None, solver)
    assert {(c.epsilon, c.lam) for c, _ in found} <= {
        (epsilon, lam) for epsilon in (9.0, 30.0) for lam in (1.0, 10.0, 100.0)
    }
    assert found
    assert all(np.isfinite(c.outlier_strength) for c, _ in found)
    some = propose_outliers(here, start, np.array([1e-3, 1e9]), solver)
    assert {c.outlier_strength for c, _ in some} == {1e-3}


def result_of(plain, extra):
    grid = Grid(np.array([1.0]), np.array([0.0]), np.array([1.0]))
    candidates = [Candidate(1.0, 1.0, 0.0, 0, 2.0) for _ in extra]
    return replace(scored([plain, *extra], grid), outliers=candidates)


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
    np.testing.assert_allclose(table["mean_test_score"], mean_scores(result.scores))
    assert table["rank_test_score"].tolist() == [2, 1]
