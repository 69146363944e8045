"""Row descent finds what FISTA finds for dirty norms; its kernels against twins."""

from dataclasses import replace

import numpy as np
import pytest

from instances import bind, random_coef, random_tasks, sine_problem, turns
from priormtl.penalties import Dirty
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import Fista, RowDescent, StopReason, gap_below, max_iter, solve
from priormtl.solvers.kernels.dirty import DirtyRows, find_threshold, sweep

LAYOUTS = ["stacked", "weighted", "wide", "sparse", "shared", "gaps"]
RATIOS = [0.5, 1.0, 1.7, 2.0, 3.0, 7.0]


def pose(ratio, layout="stacked", share=0.1, intercepts="free"):
    fit = bind("squared", random_tasks(layout), intercepts)
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Dirty(ratio), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)


def minimise(problem, method, coef=None, tol=1e-11):
    rules = [gap_below(tol, method.check_every), max_iter(20_000)]
    return solve(problem, method, coef=coef, stop=rules)


@turns(2, ratio=RATIOS, layout=LAYOUTS)
def test_optimum_is_that_of_fista(ratio, layout):
    problem = pose(ratio, layout)
    ours = minimise(problem, RowDescent())
    plain = minimise(problem, Fista(restart=True))
    assert ours.reason is StopReason.GAP
    assert ours.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_objective_never_rises(ratio):
    problem = pose(ratio, share=0.01)
    method, values = RowDescent(), []
    rules = [gap_below(1e-13, 1), max_iter(50)]
    solve(problem, method, stop=rules, callbacks=[lambda p: values.append(p.objective)])
    unit = problem.null_objective
    assert np.all(np.diff(values) <= 1e-12 * unit)


def test_starts_do_not_matter():
    problem = pose(1.7)
    cold = minimise(problem, RowDescent())
    warm = minimise(problem, RowDescent(), coef=random_coef(problem.shape, 2, 3.0))
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-9)


def test_entries_that_the_data_do_not_see_are_zero():
    data = random_tasks("stacked")
    blind = data.X.copy()
    blind[:, 1] = 2.0
    fit = bind("squared", data.with_matrix(blind), "free")
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Dirty(1.7), 0.1)
    start = random_coef(problem.shape)
    solution = minimise(problem, RowDescent(), coef=start)
    assert not solution.coef[1].any()
    assert solution.reason is StopReason.GAP


def test_another_fit_with_the_same_memo_is_laid_out_anew():
    problem, other = pose(1.7), bind("squared", random_tasks("stacked", seed=5), "free")
    minimise(problem, RowDescent())
    second = replace(problem, fit=other)
    ours = minimise(second, RowDescent())
    plain = minimise(second, Fista(restart=True))
    assert ours.n_iter < 50
    assert ours.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-9)


def test_what_does_not_fit_is_refused():
    problem = sine_problem()
    with pytest.raises(TypeError, match=r"penalties\.Dirty, lam > 0, no prior"):
        RowDescent().start(problem, problem.null_point)


def total_at(threshold, sizes, weight, most):
    return np.clip(weight * (sizes - threshold), 0.0, most).sum()


@pytest.mark.parametrize("near", [0.0, 0.3, 1.2, 50.0])
@pytest.mark.parametrize("seed", range(12))
def test_threshold_is_the_least_that_is_enough(seed, near):
    rng = np.random.default_rng(seed)
    sizes, weight = rng.exponential(size=9), rng.exponential(size=9)
    weight[rng.random(9) < 0.3] = 0.0
    most, total = rng.exponential(), rng.exponential() * 2.0
    threshold = find_threshold(sizes, weight, most, total, near)
    at = total_at(threshold, sizes, weight, most)
    if total_at(0.0, sizes, weight, most) <= total:
        assert threshold == 0.0
    else:
        assert at == pytest.approx(total, rel=1e-12)


def test_steps_between_far_pieces_do_not_get_lost():
    weight = np.array([1e4, 1e-4, 1.0, 0.0])
    sizes = np.array([1.0, 5e3, 2.0, 7.0])
    for total in (0.1, 0.9, 1.7):
        threshold = find_threshold(sizes, weight, 0.8, total, 0.0)
        assert total_at(threshold, sizes, weight, 0.8) == pytest.approx(total, rel=1e-9)


def draw_rows(ratio, d=3, m=4, lam=0.7):
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((m, d + 2, d))
    gram = np.einsum("inj,ink->jki", factors, factors)
    diagonal = np.ascontiguousarray(np.einsum("jji->ji", gram))
    rows = DirtyRows(np.ascontiguousarray(gram), diagonal, lam, ratio, np.zeros(d))
    return rows, rng.standard_normal((d, m))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.6, 2.0, 3.3, 4.0, 9.0])
def test_a_sweep_leaves_every_row_of_one_feature_at_its_minimum(ratio):
    rows, linear = draw_rows(ratio, d=1)
    Q, gradient = np.zeros_like(linear), -linear.copy()
    assert sweep(rows, Q, gradient, np.empty(4)) > 0.0
    np.testing.assert_allclose(gradient, rows.diagonal * Q - linear, atol=1e-12)
    norm = Dirty(ratio)
    assert norm.dual_norm(gradient) <= rows.lam * (1 + 1e-10)
    assert -np.vdot(gradient, Q) == pytest.approx(rows.lam * norm.value(Q), abs=1e-10)
    assert sweep(rows, Q, gradient, np.empty(4)) <= 1e-25


@pytest.mark.parametrize("ratio", [0.5, 1.6, 2.0, 9.0])
def test_sweeps_lower_the_objective_and_keep_the_gradient(ratio):
    rows, linear = draw_rows(ratio)
    Q = random_coef(linear.shape, 4)
    gradient = np.einsum("jki,ki->ji", rows.gram, Q) - linear

    def value():
        smooth = 0.5 * np.vdot(Q, gradient - linear)
        return smooth + rows.lam * Dirty(ratio).value(Q)

    for _ in range(5):
        before = value()
        sweep(rows, Q, gradient, np.empty(4))
        exact = np.einsum("jki,ki->ji", rows.gram, Q) - linear
        np.testing.assert_allclose(gradient, exact, atol=1e-12)
        assert value() <= before + 1e-12
