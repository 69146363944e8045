"""Multinomial loss: derivatives, majorants, duals and ties of each class."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import softmax

from priormtl.data import from_labels
from priormtl.losses import (
    FreeIntercepts,
    Multinomial,
    NoIntercepts,
    TiedIntercepts,
    by_class,
)
from priormtl.penalties import L21, RowConstraints
from priormtl.priors import TaskPrior, laplacian
from priormtl.priors.graphs import Laplacian
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import Solver

K, M, D = 3, 4, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M * 20, D)) + 0.5
TASK = np.repeat(np.arange(M), 20)
Y = np.argmax(X[:, :K] + RNG.gumbel(size=(len(X), K)), axis=1).astype(float)
DATA = from_labels(X, Y, TASK, RNG.uniform(0.5, 2.0, len(X)))
GRAPH = by_class(laplacian(TaskPrior.chain(), range(M)), K)
KINDS = {
    "free": FreeIntercepts(),
    "absent": NoIntercepts(),
    "tied": TiedIntercepts(GRAPH, 2.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_value_gradient_hessian_and_dual(kind):
    fit = Multinomial(K).bind(DATA, KINDS[kind])
    P, V = 0.3 * RNG.normal(size=(D, K * M)), RNG.normal(size=(D, K * M))
    at = fit.evaluate(P)
    b = fit.intercept_at_zero(at).reshape(K, M)
    value = KINDS[kind].value(b.ravel())
    for x, y, task, w in zip(DATA.X, DATA.y, TASK, DATA.weight, strict=True):
        eta = x @ P.reshape(D, K, M)[:, :, task] + b[:, task]
        value += w * (np.log(np.sum(np.exp(eta))) - eta[int(y)])
    assert at.value == pytest.approx(value, rel=1e-11)
    step = 1e-5
    ends = fit.evaluate(P + step * V), fit.evaluate(P - step * V)
    slope = (ends[0].value - ends[1].value) / (2.0 * step)
    assert np.vdot(at.gradient, V) == pytest.approx(slope, rel=1e-6)
    bend = (ends[0].gradient - ends[1].gradient) / (2.0 * step)
    np.testing.assert_allclose(fit.hessian(at, V), bend, rtol=1e-5, atol=1e-5)
    for scale in (0.3, 1.0):
        assert at.dual_value(scale) <= at.value - scale * np.vdot(at.gradient, P) + 1e-9
    near = fit.newton_dual(at, 1e-6 * V, fit.hessian(at, 1e-6 * V))
    there = fit.evaluate(P + 1e-6 * V)
    assert near == pytest.approx(there.dual_value(1.0), rel=1e-8)


def test_bends_are_the_least_multiples_that_majorise():
    eta = 3.0 * np.random.default_rng(1).normal(size=(200, 4))
    p = softmax(eta, axis=1)
    for q, bends in zip(p, Multinomial(4).bend(eta, 0.0 * eta), strict=True):
        root = 1.0 / np.sqrt(bends)
        hessian = np.diag(q) - np.outer(q, q)
        largest = np.linalg.eigvalsh(root[:, None] * hessian * root)[-1]
        assert 0.999 <= largest <= 1.0 + 1e-9
    even = Multinomial(4).bend(np.zeros((1, 4)), np.zeros((1, 4)))
    np.testing.assert_allclose(even, 0.25)


def test_two_classes_are_logistic_with_half_the_score():
    family = Multinomial(2)
    eta = np.array([[0.4, -0.4], [1.0, -1.0]])
    y = np.array([[1.0, 0.0], [0.0, 1.0]])
    known = np.logaddexp(0.0, -np.array([0.8, -2.0]))
    np.testing.assert_allclose(family.loss(eta, y).sum(axis=1), known)


@pytest.mark.parametrize(
    "prior",
    [TaskPrior.chain(), TaskPrior.mean(), TaskPrior.nested({0: "a", 1: "a", 2: "b"})],
)
def test_ties_of_classes_are_copies(prior):
    graph = laplacian(prior, range(3))
    both, P = by_class(graph, 2), np.random.default_rng(2).normal(size=(4, 6))
    expected = np.hstack([graph.times(P[:, :3]), graph.times(P[:, 3:])])
    np.testing.assert_allclose(both.times(P), expected, atol=1e-12)
    assert isinstance(both, Laplacian)


def test_needs_rows_with_labels():
    with pytest.raises(TypeError, match="one task label each"):
        Multinomial(3).bind(replace(DATA).without_offset().X, NoIntercepts())


@pytest.mark.parametrize("kind", KINDS)
def test_classes_of_an_optimum_sum_to_zero_and_few_steps_find_it(kind):
    prior = QuadraticPrior(csr_array((D, D)), GRAPH, 0.0, 0.5)
    problem = Problem(Multinomial(K).bind(DATA, KINDS[kind]), prior, L21(), 2.0)
    found = Solver(tol=1e-9).solve(problem)
    assert found.certificate.gap <= 1e-9 * problem.null_objective
    means = found.coef.reshape(D, K, M).mean(axis=1)
    assert np.abs(means).max() <= 1e-12
    # Newton steps along rows converge quadratically; majorants take three times more.
    assert found.n_iter <= 8
    shifted = found.coef + np.tile(RNG.normal(size=(D, M)), K)
    np.testing.assert_allclose(problem.balance(shifted), found.coef, atol=1e-12)
    here, there = (problem.fit.evaluate(P).value for P in (found.coef, shifted))
    assert here == pytest.approx(there, rel=1e-10)
    signs = RowConstraints(np.ones(D), np.zeros(D, dtype=bool))
    assert not replace(problem, penalty=L21(None, signs)).is_balanced
