"""Modes are the Hessian in other words."""

import numpy as np
import pytest

from instances import bind, random_coef, random_tasks, write_out
from priormtl.losses.modes import Modes


def written(modes, m):
    """Hessians (m, d, d)."""
    whole = np.einsum("tr,trj,trk->tjk", modes.values, modes.vectors, modes.vectors)
    return np.broadcast_to(whole, (m, *whole.shape[1:]))


@pytest.mark.parametrize("layout", ["stacked", "weighted", "wide", "shared"])
@pytest.mark.parametrize("intercepts", ["free", "absent"])
def test_samples_and_gram_matrices_have_the_same_modes(layout, intercepts):
    fit = bind("squared", random_tasks(layout), intercepts)
    d, m = fit.shape
    exact = write_out(fit.majorant, fit.shape).reshape(d, m, d, m)
    grams = np.array([exact[:, i, :, i] for i in range(m)])
    by_gram = Modes.from_gram(fit.normal_form())
    np.testing.assert_allclose(written(by_gram, m), grams, atol=1e-10)
    if fit.rows_per_task is not None:
        by_samples = Modes.from_samples(fit.sample_form())
        np.testing.assert_allclose(written(by_samples, m), grams, atol=1e-10)


def test_tasks_of_unequal_length_are_filled_up():
    fit = bind("squared", random_tasks("wide"))
    form = fit.sample_form()
    shorter = form._replace(
        rows=form.rows[:, :-1],
        target=form.target[:-1],
        starts=np.append(form.starts[:-1], form.starts[-1] - 1),
    )
    modes = Modes.from_samples(shorter)
    last = shorter.rows[:, shorter.starts[-2] :]
    np.testing.assert_allclose(written(modes, 3)[-1], last @ last.T, atol=1e-10)


def test_where_nothing_bends_a_shift_only_divides():
    modes = Modes(np.zeros((1, 2)), np.zeros((1, 2, 4)))
    V = random_coef((4, 3))
    np.testing.assert_allclose(modes.solve(2.0, V), V / 2.0)
