"""Row descent finds what FISTA finds for dirty norms."""

from dataclasses import replace

import numpy as np
import pytest

from instances import bind, random_coef, random_tasks, sine_problem
from priormtl.penalties import Dirty
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import Fista, RowDescent, StopReason, gap_below, max_iter, solve

LAYOUTS = pytest.mark.parametrize(
    "layout", ["stacked", "weighted", "wide", "sparse", "shared", "gaps"]
)
RATIOS = pytest.mark.parametrize("ratio", [0.5, 1.0, 1.7, 2.0, 3.0, 7.0])


def pose(ratio, layout="stacked", share=0.1, intercepts="free"):
    fit = bind("squared", random_tasks(layout), intercepts)
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Dirty(ratio), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)


def minimise(problem, method, coef=None, tol=1e-11):
    rules = [gap_below(tol, method.look_every), max_iter(20_000)]
    return solve(problem, method, coef=coef, stop=rules)


@LAYOUTS
@RATIOS
def test_optimum_is_that_of_fista(ratio, layout):
    problem = pose(ratio, layout)
    ours = minimise(problem, RowDescent())
    plain = minimise(problem, Fista(restart=True))
    assert ours.reason is StopReason.GAP
    assert ours.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-9)


@RATIOS
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
