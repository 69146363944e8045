"""Leftovers of tasks: standard normal where all vary alike, whatever their rows."""

import numpy as np
import pytest

from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared
from priormtl.selection.outliers import TaskResiduals


def leave(rows, spread, noise, d=4, seed=0, reference=None):
    """What the true centre leaves of tasks with these numbers of rows."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(rows)), rows)
    X = rng.normal(size=(len(task), d))
    coef = spread * rng.normal(size=(len(rows), d))
    y = np.sum(X * coef[task], axis=1) + noise * rng.normal(size=len(task))
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    share = np.ones(len(rows))
    return TaskResiduals.at(fit, np.zeros(fit.shape), share, reference)


EVERYONE = np.ones(200, bool)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_noise_alone_is_told_and_leaves_normal_scores(noise):
    left = leave([20] * 200, 0.0, noise)
    assert np.sqrt(left.noise) == pytest.approx(noise, rel=0.05)
    scores = left.scores(EVERYONE)
    assert np.mean(scores) == pytest.approx(0.0, abs=0.3)
    assert np.std(scores) <= 1.1


def test_variation_is_not_taken_for_evidence_against_tasks_with_many_rows():
    left = leave([10, 400] * 100, 0.5, 1.0)
    scores = left.scores(EVERYONE)
    few, many = scores[::2], scores[1::2]
    assert np.median(few) == pytest.approx(np.median(many), abs=0.3)
    assert scores.max() < 4.0


def test_one_task_that_differs_more_stands_out():
    left = leave([30] * 200, 0.1, 1.0)
    left.squares[7] *= 30.0
    assert np.argmax(left.scores(EVERYONE)) == 7
    assert left.scores(EVERYONE)[7] > 4.0


def test_few_rows_leave_noise_unknown_but_judge_all_the_same():
    left = leave([3] * 200, 0.0, 2.0)
    assert left.noise is None
    assert np.sqrt(left.noise_variance(EVERYONE)) == pytest.approx(2.0, rel=0.2)
    assert np.median(left.scores(EVERYONE)) == pytest.approx(0.0, abs=0.1)


def test_tasks_that_nobody_can_judge_score_least():
    left = leave([20] * 200, 0.0, 1.0)
    blind = TaskResiduals(left.values, left.squares, 0 * left.axes, left.noise)
    assert np.all(blind.scores(EVERYONE) == -np.inf)
