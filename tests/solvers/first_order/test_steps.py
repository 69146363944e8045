import numpy as np
import pytest

from instances import (
    LOSSES,
    PENALTIES,
    build_problem,
    random_coef,
    random_tasks,
    with_signs,
)
from listed_tasks import from_lists
from priormtl.problem import largest_curvature
from priormtl.solvers.first_order.steps import (
    fits_model,
    initial_curvature,
    proximal_step,
    search_upwards,
)

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_PENALTY = pytest.mark.parametrize("penalty", PENALTIES)


def example(loss="squared", penalty="l21"):
    data = random_tasks("stacked", m=3, d=5)
    return build_problem(
        with_signs(data) if loss == "logistic" else data,
        lam=0.4,
        theta=0.5,
        epsilon=0.8,
        loss=LOSSES[loss],
        penalty=PENALTIES[penalty],
    )


def model(problem, base, curvature, U):
    """Quadratic model of the smooth part around ``base``, plus the penalty."""
    move = U - base.coef
    quadratic = np.vdot(base.gradient, move) + 0.5 * curvature * np.vdot(move, move)
    return base.value + quadratic + problem.lam * problem.penalty.value(U)


@EVERY_PENALTY
@EVERY_LOSS
def test_proximal_step_minimises_the_model(loss, penalty):
    problem = example(loss, penalty)
    base = problem.at(random_coef(problem.shape))
    point = proximal_step(problem, base, 7.0)
    lowest = model(problem, base, 7.0, point.coef)
    for seed in range(10):
        other = point.coef + random_coef(problem.shape, seed, scale=1e-2)
        assert model(problem, base, 7.0, other) > lowest


@EVERY_LOSS
def test_model_holds_exactly_where_it_lies_above_the_objective(loss):
    problem = example(loss)
    base = problem.at(random_coef(problem.shape))
    for curvature in np.geomspace(0.05, 50.0, 12):
        point = proximal_step(problem, base, curvature)
        above = model(problem, base, curvature, point.coef) >= problem.objective(point)
        assert fits_model(problem, point, base, curvature) == above


@EVERY_LOSS
def test_model_holds_at_the_largest_curvature(loss):
    problem = example(loss)
    largest = largest_curvature(problem)
    for seed in range(10):
        base = problem.at(random_coef(problem.shape, seed, scale=2.0))
        assert fits_model(problem, proximal_step(problem, base, largest), base, largest)


@EVERY_LOSS
def test_search_ends_at_the_first_power_of_growth_that_holds(loss):
    problem = example(loss)
    base = problem.at(random_coef(problem.shape))
    _, curvature = search_upwards(problem, base, 1e-3, 2.0)
    before = proximal_step(problem, base, curvature / 2.0)
    assert np.log2(curvature / 1e-3) == pytest.approx(round(np.log2(curvature / 1e-3)))
    assert not fits_model(problem, before, base, curvature / 2.0)
    assert curvature <= 2.0 * largest_curvature(problem)


@EVERY_LOSS
def test_first_guess_is_below_the_largest_curvature_and_positive(loss):
    problem = example(loss)
    guess = initial_curvature(problem, problem.null_point)
    assert 0 < guess <= largest_curvature(problem) * (1 + 1e-12)


def test_first_guess_without_a_gradient_is_one():
    problem = build_problem(from_lists([np.eye(4)], [np.zeros(4)]), lam=0.4)
    assert initial_curvature(problem, problem.null_point) == 1.0
