"""Tests of statements by each task's own rows: levels, power, and who is left out."""

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from priormtl.audits.relations import Scores, own_scores, relation_test, relation_tests
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared
from priormtl.selection.outlier_test import Tasks

ROW = np.array([1.0, -1.0, 0.0, 0.0])


def draw(seed, m, rows, wrong=0.0, noise="normal"):
    """Tasks with x0 ~ x1 but for ``wrong`` (m,), and as many rows as are named."""
    rng = np.random.default_rng([seed, m])
    coef = rng.normal(size=(m, 4))
    coef[:, 1] = coef[:, 0] - wrong
    task = np.repeat(np.arange(m), rng.integers(*rows, size=m))
    X, e = rng.normal(size=(len(task), 4)), rng.normal(size=len(task))
    if noise == "t3":
        e = rng.standard_t(3, size=len(task))
    if noise == "differs":
        e = e * np.exp(rng.uniform(-1.2, 1.2, size=m))[task]
    return X, np.sum(X * coef[task], axis=1) + e + 2.0, task


def read(X, y, task, **settings):
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    return Tasks.of(fit, None, **settings), np.array(fit.moments.weight)


def judge_row(tasks, weight):
    targets = np.zeros((1, len(weight)))
    return relation_tests(csr_array([ROW]), targets, tasks, weight, 0.5)[0]


def p_value(*arguments, **settings):
    tasks, weight = read(*draw(*arguments, **settings))
    return relation_tests(
        csr_array([ROW]), np.zeros((1, len(weight))), tasks, weight, 0.5
    )[0].p_value


def test_one_task_is_the_t_test():
    X, y, task = draw(0, 1, (30, 31), wrong=0.3)
    tasks, weight = read(X, y, task)
    A = np.column_stack([X, np.ones(len(y))])
    found, (rest,), *_ = np.linalg.lstsq(A, y, rcond=None)
    row = np.append(ROW, 0.0)
    error = np.sqrt(rest / 25.0 * row @ np.linalg.solve(A.T @ A, row))
    t = row @ found / error
    z = own_scores(tasks, weight, ROW).z[0]
    assert np.sign(z) == np.sign(t)
    assert stats.norm.sf(abs(z)) == pytest.approx(stats.t.sf(abs(t), 25))


@pytest.mark.parametrize(
    ("noise", "m", "rows"),
    [("normal", 1, (16, 30)), ("t3", 6, (8, 14)), ("differs", 6, (8, 14))],
)
def test_true_relations_are_rejected_at_their_level(noise, m, rows):
    p = [p_value(seed, m, rows, noise=noise) for seed in range(250)]
    assert 0.02 <= np.mean(np.array(p) < 0.05) <= 0.085
    assert np.mean(p) == pytest.approx(0.5, abs=0.06)


def test_relations_are_wrong_in_all_tasks_or_in_one():
    alike, one = np.full(10, 0.5), np.zeros(10)
    one[4] = 2.0
    for wrong in (alike, one):
        p = [p_value(seed, 10, (40, 60), wrong) for seed in range(20)]
        assert np.mean(np.array(p) < 0.01) >= 0.9


def test_parts_are_those_of_chi_squares():
    scores = Scores(np.array([1.0, 2.0, -0.5]), np.array([1.0, 2.0, 3.0]), 1.0, 1e9)
    common = 3.5**2 / 14.0
    parts = stats.chi2.sf(common, 1), stats.chi2.sf(5.25 - common, 2)
    found = relation_test(scores)
    assert found.p_value == pytest.approx(1.0 - (1.0 - min(parts)) ** 2, rel=1e-6)
    assert (found.statistic, found.degrees) == (pytest.approx(1.75), 3.0)


def test_values_are_statements_too():
    tasks, weight = read(*draw(3, 5, (200, 300), wrong=2.0))
    right, wrong = (
        own_scores(tasks, weight, ROW, np.full(5, target)) for target in (2.0, 0.0)
    )
    assert relation_test(right).p_value > 0.01
    assert relation_test(wrong).p_value < 1e-10


def test_tasks_that_are_left_out_or_know_nothing_have_no_say():
    X, y, task = draw(4, 6, (20, 30))
    y = np.where(task == 2, y + 9.0 * X[:, 0], y)
    X[task == 3, 1] = X[task == 3, 0]
    tasks, weight = read(X, y, task)
    assert len(own_scores(tasks, weight, ROW).z) == 5
    assert relation_test(own_scores(tasks, weight, ROW)).p_value < 1e-6
    weight[2] = 0.0
    scores = own_scores(tasks, weight, ROW)
    assert len(scores.z) == 4
    assert scores.share < 1.0
    assert relation_test(scores).p_value > 0.01


def test_without_tasks_nothing_is_known():
    tasks, weight = read(*draw(5, 4, (20, 30)))
    (found,) = relation_tests(
        csr_array([ROW]), np.zeros((1, len(weight))), tasks, 0.0 * weight, 0.5
    )
    assert np.isnan(found.p_value)
