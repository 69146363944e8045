"""BlockQuadratic: the same objective, written out."""

import numpy as np
import pytest

from instances import intercept_kinds, sine_problem, sine_tasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, TiedIntercepts
from priormtl.penalties import L21, Nuclear
from priormtl.problem import BlockQuadratic, Problem


def written_out(blocks, Q):
    """Objective at rows Q, but for the constant."""
    m = Q.shape[1]
    gram = np.broadcast_to(blocks.gram, (m, *blocks.gram.shape[1:]))
    quadratic = sum(Q[:, i] @ gram[i] @ Q[:, i] for i in range(m))
    ties = blocks.tie @ np.einsum("ji,ji->j", Q, blocks.laplacian.times(Q))
    penalty = blocks.lam @ np.linalg.norm(Q, axis=1)
    return 0.5 * (quadratic + ties) - np.vdot(blocks.linear, Q) + penalty


def problem_with(kind):
    weights = np.arange(5.0)
    problem = sine_problem(4, 5, tie_weights=weights, penalty=L21(weights + 1.0))
    intercepts = {
        "free": FreeIntercepts(),
        "none": NoIntercepts(),
        "tied": TiedIntercepts(problem.prior.laplacian, 3.0),
    }[kind]
    fit = Squared().bind(sine_tasks(4, 5), intercepts)
    return Problem(fit, problem.prior, problem.penalty, 0.7)


@pytest.mark.parametrize("kind", ["free", "none", "tied"])
def test_objectives_differ_by_a_constant(kind):
    problem = problem_with(kind)
    blocks = BlockQuadratic.from_problem(problem)
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(4):
        P = rng.standard_normal(problem.shape)
        best = problem.fit.intercept(P)[np.newaxis]
        Q = np.vstack([best, P]) if kind == "tied" else P
        value = problem.objective(problem.at(P))
        differences.append(value - written_out(blocks, Q))
    assert differences == pytest.approx([differences[0]] * 4, rel=1e-10)


def test_degree_is_the_diagonal_of_the_laplacian():
    blocks = BlockQuadratic.from_problem(sine_problem())
    assert blocks.degree == pytest.approx(np.diag(blocks.laplacian.dense()))


def test_what_cannot_be_written_out():
    assert not BlockQuadratic.fits(sine_problem(penalty=Nuclear()))
    other_graph = sine_problem(intercepts=intercept_kinds(4)[2])
    assert not BlockQuadratic.fits(other_graph)
    with pytest.raises(TypeError, match="penalty of rows"):
        BlockQuadratic.from_problem(sine_problem(penalty=Nuclear()))
