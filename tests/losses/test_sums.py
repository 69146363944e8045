"""A loss of two blocks is the loss of their sum."""

import numpy as np
import pytest

from instances import bind, golden_rows, random_coef, random_tasks, write_out
from naive_twins import naive_dirty, naive_robust
from priormtl.data import from_labels
from priormtl.losses import NoIntercepts, Squared, SumFit
from priormtl.penalties import Robust
from priormtl.problem import Problem, QuadraticPrior, exact_constants
from priormtl.solvers import Fista, StopReason, diverged, gap_below, max_iter, solve

BOTH = pytest.mark.parametrize("loss", ["squared", "logistic"])
KINDS = pytest.mark.parametrize("intercepts", ["free", "absent"])


@pytest.fixture
def blocks():
    return random_coef((4, 6))


@BOTH
@KINDS
def test_value_gradient_and_intercepts_are_those_of_the_sum(loss, intercepts, blocks):
    fit = bind(loss, random_tasks("stacked"), intercepts)
    both, total = SumFit(fit), blocks[:, :3] + blocks[:, 3:]
    one, two = fit.evaluate(total), both.evaluate(blocks)
    assert both.shape == (4, 6)
    assert two.value == one.value
    np.testing.assert_array_equal(two.gradient, np.hstack([one.gradient] * 2))
    np.testing.assert_array_equal(both.intercept(blocks), fit.intercept(total))
    assert two.dual_value(0.3) == one.dual_value(0.3)


@BOTH
def test_gradient_agrees_with_differences(loss, blocks):
    fit = SumFit(bind(loss, random_tasks("stacked")))
    gradient = fit.evaluate(blocks).gradient
    for seed in range(4):
        V = random_coef(blocks.shape, seed)
        rise = fit.evaluate(blocks + 1e-5 * V).value
        fall = fit.evaluate(blocks - 1e-5 * V).value
        assert np.vdot(gradient, V) == pytest.approx((rise - fall) / 2e-5, rel=1e-6)


@BOTH
def test_extrapolation_is_a_look_there(loss, blocks):
    fit = SumFit(bind(loss, random_tasks("stacked")))
    other = random_coef(blocks.shape, 5)
    ahead = fit.extrapolate(fit.evaluate(blocks), fit.evaluate(other), 0.7)
    looked = fit.evaluate(blocks + 0.7 * (blocks - other))
    assert ahead.value == pytest.approx(looked.value)
    np.testing.assert_allclose(ahead.gradient, looked.gradient, atol=1e-12)


def test_two_blocks_bend_twice_as_much_along_their_worst_direction():
    plain = bind("squared", random_tasks("stacked"))
    both = SumFit(plain)
    largest = plain.task_spectra()[1].max()
    matrix = write_out(both.majorant, both.shape)
    values, vectors = np.linalg.eigh(matrix)
    assert values[-1] == pytest.approx(2.0 * largest)
    worst = vectors[:, -1].reshape(both.shape)
    np.testing.assert_allclose(worst[:, :3], worst[:, 3:], atol=1e-7)
    assert both.task_spectra()[1].max() == pytest.approx(values[-1])
    problem = Problem(both, QuadraticPrior.none(*both.shape), Robust(1.2), 1.0)
    assert exact_constants(problem).smoothness == pytest.approx(2.0 * largest)


@pytest.mark.parametrize("twin", [naive_dirty, naive_robust])
def test_steps_for_one_block_make_two_diverge(twin):
    X, y, task = golden_rows(4, 5)
    tasks = [X[task == i] for i in range(4)], [y[task == i] for i in range(4)]
    largest = max(np.linalg.norm(X_i, 2) ** 2 for X_i in tasks[0])

    def end(curvature):
        run = twin(
            tasks, 0.3, 0.5, lambda _: False, 25, curvature=curvature, searching=False
        )
        return np.abs(run.total).max()

    assert end(largest) > 1e3
    assert end(2.0 * largest) < 10.0


def test_our_steps_do_not_diverge():
    X, y, task = golden_rows(4, 5)
    fit = SumFit(Squared().bind(from_labels(X, y, task), NoIntercepts()))
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Robust(1.5), 0.3)
    rules = [gap_below(1e-10), diverged(), max_iter(5000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    assert solution.reason is StopReason.GAP


@pytest.mark.parametrize("intercepts", ["free", "absent"])
@pytest.mark.parametrize("layout", ["stacked", "wide", "shared", "sparse", "gaps"])
def test_shifted_systems_are_solved(layout, intercepts):
    plain = bind("squared", random_tasks(layout), intercepts)
    for fit in (plain, SumFit(plain)):
        V = random_coef(fit.shape, 3)
        for shift in (1e-2, 1.0, 50.0):
            X = fit.solve_shifted(shift, V)
            np.testing.assert_allclose(fit.majorant(X) + shift * X, V, atol=1e-10)


def test_features_leave_both_blocks():
    fit = SumFit(bind("squared", random_tasks("stacked")))
    features = np.array([2, 0])
    P = np.zeros((4, 6))
    P[features] = random_coef((2, 6))
    part = fit.restrict(features)
    assert part.evaluate(P[features]).value == pytest.approx(fit.evaluate(P).value)


def test_the_quadratic_model_is_one_of_two_blocks(blocks):
    fit = SumFit(bind("logistic", random_tasks("stacked")))
    point = fit.evaluate(blocks)
    model = fit.quadratic_model(point)
    assert model.is_quadratic
    assert not fit.is_quadratic
    gradient = model.evaluate(blocks).gradient
    np.testing.assert_allclose(gradient, point.gradient, atol=1e-10)


def test_there_are_no_forms_by_tasks():
    fit = SumFit(bind("squared", random_tasks("stacked")))
    assert fit.normal_size is None
    assert fit.rows_per_task is None
    with pytest.raises(TypeError, match="no normal form"):
        fit.normal_form()
    with pytest.raises(TypeError, match="no sample form"):
        fit.sample_form()


def test_losses_without_a_hessian_have_no_shifted_systems():
    fit = bind("logistic", random_tasks("stacked"))
    assert fit.shifted_size is None
    with pytest.raises(TypeError, match="use its quadratic model"):
        fit.solve_shifted(1.0, np.zeros(fit.shape))
    tied = bind("squared", random_tasks("stacked"), "tied")
    assert tied.shifted_size is None
