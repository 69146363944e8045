"""Own parts of tasks minimise ½ oᵀG o + gᵀo + γ‖o‖."""

import numpy as np
import pytest

from instances import bind, random_coef, random_tasks
from priormtl.losses.own import column_norms, solve_own

LAYOUTS = ("stacked", "wide", "shared", "sparse", "gaps")


def parts_of(layout, strength, intercepts="free"):
    """Fit, its slope at zero, and own parts at a strength."""
    fit = bind("squared", random_tasks(layout), intercepts)
    slope = fit.evaluate(np.zeros(fit.shape)).gradient
    own = solve_own(fit.modes, slope, np.full(fit.shape[1], strength))
    return fit, slope, own


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strength", [1e-6, 0.1, 3.0, 8.0])
def test_forces_balance(layout, strength):
    fit, slope, own = parts_of(layout, strength)
    whole = own.spread(fit.shape[1])
    gradient = slope + fit.majorant(whole)
    lengths = column_norms(whole)
    used = lengths > 0
    assert used.any() == (strength < column_norms(slope).max())
    force = gradient[:, used] + strength * whole[:, used] / lengths[used]
    np.testing.assert_allclose(force, 0.0, atol=1e-11 * column_norms(slope).max())
    assert np.all(column_norms(gradient)[~used] <= strength)
    np.testing.assert_allclose(own.shift * lengths[used], strength, rtol=1e-12)


def test_a_strength_at_the_slope_itself_leaves_nothing():
    fit, slope, _ = parts_of("stacked", 1.0)
    lengths = column_norms(slope)
    assert not len(solve_own(fit.modes, slope, lengths).tasks)
    assert len(solve_own(fit.modes, slope, 0.999999 * lengths).tasks) == fit.shape[1]


def test_strengths_are_per_task_and_may_be_infinite():
    fit, slope, _ = parts_of("stacked", 1.0)
    own = solve_own(fit.modes, slope, np.array([np.inf, 0.5, np.inf]))
    assert own.tasks.tolist() == [1]


@pytest.mark.parametrize("power", [-150, -8, 8, 150])
def test_units_do_not_matter(power):
    fit, slope, own = parts_of("stacked", 0.5)
    unit = 2.0**power
    other = solve_own(fit.modes, unit * slope, np.full(3, unit * 0.5))
    np.testing.assert_allclose(other.coef / unit, own.coef, rtol=1e-12)


def test_columns_are_spread_to_their_tasks():
    _, _, own = parts_of("stacked", 0.5)
    whole = own._replace(tasks=np.array([4, 0, 2])).spread(6)
    np.testing.assert_array_equal(whole[:, [4, 0, 2]], own.coef)
    assert not whole[:, [1, 3, 5]].any()


def test_lengths_of_columns():
    P = random_coef((4, 3))
    np.testing.assert_allclose(column_norms(P), np.linalg.norm(P, axis=0))
