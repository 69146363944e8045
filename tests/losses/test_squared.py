import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    bind,
    from_lists,
    kind_of_intercepts,
    plain_rows,
    random_coef,
    random_tasks,
    with_signs,
    write_out,
)
from priormtl.data import centre_samples, from_columns, summarize_tasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared
from priormtl.losses.squared import Modes

SHAPE = (4, 3)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("layout", ["stacked", "weighted", "sparse", "shared", "gaps"])
def test_gram_matrices_and_samples_count_the_same_misfit(layout, intercepts):
    data, P = random_tasks(layout), random_coef(SHAPE)
    kind = kind_of_intercepts(intercepts, 3)
    by_gram = Squared().bind(summarize_tasks(data), kind)
    by_samples = Squared().bind(centre_samples(data), kind)
    a, b = by_gram.evaluate(P), by_samples.evaluate(P)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(by_gram.intercept(P), by_samples.intercept(P))
    np.testing.assert_allclose(by_gram.task_spectra(), by_samples.task_spectra())


@pytest.mark.parametrize("intercepts", INTERCEPTS)
def test_one_gram_for_all_tasks_equals_one_for_each(intercepts):
    shared, P = random_tasks("shared"), random_coef(SHAPE)
    columns = [shared.y[:, i] for i in range(3)]
    apart = from_lists([shared.X] * 3, columns)
    assert summarize_tasks(shared).is_shared
    a = bind("squared", shared, intercepts).evaluate(P)
    b = bind("squared", apart, intercepts).evaluate(P)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("layout", ["stacked", "weighted", "shared", "gaps"])
def test_blocks_are_the_hessians_of_each_task(layout, intercepts):
    # With tied intercepts these are unknowns, too, of features about one centre.
    data = random_tasks(layout)
    blocks, centre = bind("squared", data, intercepts).centred_blocks()
    blocks = np.broadcast_to(blocks, (3, *blocks.shape[1:]))  # one, or one per task
    for block, (X, _, w) in zip(blocks, plain_rows(data), strict=True):
        Z = X - centre
        if intercepts == "free":
            Z -= np.average(Z, axis=0, weights=w)
        if intercepts == "tied":
            Z = np.column_stack([np.ones(len(Z)), Z])
        np.testing.assert_allclose(block, Z.T @ (Z * w[:, np.newaxis]), atol=1e-10)


def test_weights_count_rows_repeatedly():
    X, y = random_coef((5, 4)), random_coef((5, 1))[:, 0]
    copies = np.array([1, 2, 3, 1, 2])
    weighted = from_lists([X], [y], [copies.astype(float)])
    repeated = from_lists([np.repeat(X, copies, axis=0)], [np.repeat(y, copies)])
    P = random_coef((4, 1), seed=3)
    a = bind("squared", weighted, "free").evaluate(P)
    b = bind("squared", repeated, "free").evaluate(P)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient, atol=1e-12)


def test_gaps_leave_the_measured_cells():
    data, P = random_tasks("gaps"), random_coef(SHAPE)
    rows = plain_rows(data)
    apart = from_lists(*zip(*rows, strict=True))
    a = bind("squared", data, "free").evaluate(P)
    b = bind("squared", apart, "free").evaluate(P)
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("scale", [-0.5, 0.0, 0.3, 1.0])
def test_dual_value_is_that_of_the_scaled_residuals(intercepts, scale):
    data, P = random_tasks("weighted"), random_coef(SHAPE)
    fit = bind("squared", data, intercepts)
    b = fit.intercept_at_zero(fit.evaluate(P))
    cost = kind_of_intercepts(intercepts, 3).value(b)
    plain = -(scale**2) * cost
    for i, (X, y, weight) in enumerate(plain_rows(data)):
        residual = scale * (y - X @ P[:, i] - b[i])
        plain += weight @ (y * residual - 0.5 * residual**2)
    assert fit.evaluate(P).dual_value(scale) == pytest.approx(plain, rel=1e-10)


def test_newton_dual_is_the_dual_value_where_the_step_ends():
    fit = bind("squared", random_tasks("weighted"), "tied")
    P, V = random_coef(SHAPE, 1), random_coef(SHAPE, 2)
    at, there = fit.evaluate(P), fit.evaluate(P + V)
    predicted = fit.newton_dual(at, V, fit.hessian(at, V))
    assert predicted == pytest.approx(there.dual_value(1.0), rel=1e-10)


def test_perfect_fit_costs_nothing_and_never_less():
    data = random_tasks("stacked")
    P = random_coef(SHAPE, scale=1e3)
    exact = from_lists(
        *zip(
            *((X, X @ P[:, i]) for i, (X, _, _) in enumerate(plain_rows(data))),
            strict=True,
        )
    )
    at = bind("squared", exact, "free").evaluate(P)
    assert 0.0 <= at.value <= 1e-9 * np.vdot(P, P)


def test_large_offsets_keep_their_digits():
    X, y = random_coef((40, 4), 5), random_coef((40, 1), 6)[:, 0]
    P = random_coef((4, 1), 7)
    near = bind("squared", from_lists([X], [y]), "free").evaluate(P)
    far = bind("squared", from_lists([X + 1e6], [y - 1e6]), "free").evaluate(P)
    assert far.value == pytest.approx(near.value, rel=1e-8)


def test_statistics_suffice():
    statistics = summarize_tasks(random_tasks("stacked"))
    fit = Squared().bind(statistics, FreeIntercepts())
    assert fit.moments is statistics
    assert fit.shape == SHAPE


def test_hessian_is_the_same_everywhere():
    fit = bind("squared", random_tasks("stacked"))
    V = random_coef(SHAPE, 3)
    ends = [fit.hessian(fit.evaluate(random_coef(SHAPE, s)), V) for s in (1, 2)]
    assert fit.is_quadratic
    np.testing.assert_array_equal(*ends)


def test_signs_are_targets_like_others():
    data = with_signs(random_tasks("shared"))
    fit = Squared().bind(data, NoIntercepts())
    assert fit.evaluate(np.zeros(SHAPE)).value == pytest.approx(0.5 * data.y.size)


def test_one_row_per_task_is_fitted_by_its_intercept():
    data = from_columns(np.ones((1, 2)), np.array([[3.0, -1.0]]))
    fit = Squared().bind(data, FreeIntercepts())
    at = fit.evaluate(np.zeros((2, 2)))
    assert at.value == 0.0
    assert not at.gradient.any()
    np.testing.assert_allclose(fit.intercept(np.zeros((2, 2))), [3.0, -1.0])


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("layout", ["stacked", "shared"])
def test_samples_are_laid_out_feature_by_feature(layout, intercepts):
    """Compiled steps are slow, and warn, on any other order."""
    kind = kind_of_intercepts(intercepts, 3)
    form = Squared().bind(centre_samples(random_tasks(layout)), kind).sample_form()
    assert form.rows.flags.c_contiguous
    assert form.target.flags.c_contiguous


# Modes are the Hessian in its eigenbasis.


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
