"""BlockQuadratic: the same objective, written out."""

import numpy as np
import pytest

from instances import intercept_kinds, quadratic_prior, sine_problem, sine_tasks
from priormtl.data import from_columns, from_labels, summarize_tasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, TiedIntercepts
from priormtl.penalties import L21, Nuclear
from priormtl.problem import NormalForm, Problem, SampleForm
from priormtl.solvers import blocks as blocks_module
from priormtl.solvers.blocks import BlockQuadratic


def written_out(blocks, Q):
    """Objective at rows Q, but for the constant."""
    m = Q.shape[1]
    form = blocks.form
    if isinstance(form, SampleForm):
        fit = sum(misfit(form, Q, i) for i in range(m))
        fit += np.vdot(Q, blocks.relation @ Q)
    else:
        gram = np.broadcast_to(form.gram, (m, *form.gram.shape[1:]))
        fit = sum(Q[:, i] @ gram[i] @ Q[:, i] for i in range(m))
        fit -= 2.0 * np.vdot(form.linear, Q)
        if blocks.relation.nnz:
            fit += np.vdot(Q, blocks.relation @ Q)
    ties = blocks.tie @ np.einsum("ji,ji->j", Q, blocks.laplacian.times(Q))
    penalty = blocks.lam @ np.linalg.norm(Q, axis=1)
    return 0.5 * (fit + ties) + penalty


def misfit(form, Q, i):
    """Squared residuals of task ``i``."""
    if form.target.ndim == 2:
        return np.sum((Q[:, i] @ form.rows - form.target[i]) ** 2)
    part = slice(form.starts[i], form.starts[i + 1])
    return np.sum((Q[:, i] @ form.rows[:, part] - form.target[part]) ** 2)


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
    check_constant_difference(problem, BlockQuadratic.from_problem(problem), kind)


def check_constant_difference(problem, blocks, kind):
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(4):
        P = rng.standard_normal(problem.shape)
        best = problem.fit.intercept(P)[np.newaxis]
        Q = np.vstack([best, P]) if kind == "tied" else P
        value = problem.objective(problem.at(P))
        differences.append(value - written_out(blocks, Q))
    assert differences == pytest.approx([differences[0]] * 4, rel=1e-10)


def wide_problem(layout, kind):
    """More features than samples, weighted, with means far from zero."""
    rng = np.random.default_rng(3)
    d, m, n = 9, 3, 4
    if layout == "stacked":
        X, y = 2.0 + rng.standard_normal((m * n, d)), rng.standard_normal(m * n)
        task = np.repeat(np.arange(m), n)
        data = from_labels(X, y, task, weight=0.5 + rng.random(m * n))
    else:
        X, Y = 2.0 + rng.standard_normal((n, d)), rng.standard_normal((n, m))
        data = from_columns(X, Y, 0.5 + rng.random(n))
    prior = quadratic_prior(data, 0.5, 0.8)
    intercepts = {
        "free": FreeIntercepts(),
        "none": NoIntercepts(),
        "tied": TiedIntercepts(prior.laplacian, 3.0),
    }[kind]
    return Problem(Squared().bind(data, intercepts), prior, L21(), 0.7)


@pytest.mark.parametrize("layout", ["stacked", "shared"])
@pytest.mark.parametrize("kind", ["free", "none", "tied"])
def test_samples_are_kept_where_features_are_many(layout, kind, monkeypatch):
    problem = wide_problem(layout, kind)
    assert isinstance(BlockQuadratic.from_problem(problem).form, NormalForm)
    monkeypatch.setattr(blocks_module, "SMALL_GRAM", 0)
    blocks = BlockQuadratic.from_problem(problem)
    assert isinstance(blocks.form, SampleForm)
    check_constant_difference(problem, blocks, kind)


@pytest.mark.parametrize("kind", ["free", "tied"])
def test_restricted_rows_are_those_of_the_restricted_problem(kind, monkeypatch):
    monkeypatch.setattr(blocks_module, "SMALL_GRAM", 0)
    for problem in (problem_with(kind), wide_problem("stacked", kind)):
        blocks = BlockQuadratic.from_problem(problem)
        features = np.array([0, 2, 3])
        part = blocks.restrict(features)
        extra = blocks.n_intercepts
        Q = np.zeros((len(blocks.lam), problem.shape[1]))
        inside = np.concatenate([np.arange(extra), extra + features])
        Q[inside] = np.random.default_rng(1).standard_normal((len(inside), Q.shape[1]))
        assert written_out(part, Q[inside]) == pytest.approx(written_out(blocks, Q))
        whole = blocks.restrict(np.arange(problem.shape[0]))
        assert written_out(whole, Q) == pytest.approx(written_out(blocks, Q))


def test_statistics_stay_as_they_are():
    data = summarize_tasks(sine_tasks(4, 5))
    before = data.xx.copy()
    prior = quadratic_prior(data, 0.5, 0.8)
    problem = Problem(Squared().bind(data, FreeIntercepts()), prior, L21(), 0.7)
    whole = BlockQuadratic.from_problem(problem).restrict(np.arange(problem.shape[0]))
    gram = whole.form.gram
    assert np.array_equal(data.xx, before)
    assert gram == pytest.approx(before + prior.relation.toarray())


def test_what_cannot_be_written_out():
    assert not BlockQuadratic.fits(sine_problem(penalty=Nuclear()))
    other_graph = sine_problem(intercepts=intercept_kinds(4)[2])
    assert not BlockQuadratic.fits(other_graph)
    with pytest.raises(TypeError, match="penalty of rows"):
        BlockQuadratic.from_problem(sine_problem(penalty=Nuclear()))
