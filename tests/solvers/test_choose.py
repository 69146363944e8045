from dataclasses import replace

import numpy as np
import pytest

from instances import (
    LOSSES,
    PENALTIES,
    build_problem,
    from_lists,
    sine_problem,
    sine_tasks,
    with_signs,
)
from priormtl.data import centre_samples, summarize_tasks
from priormtl.losses import Logistic, NoIntercepts, Squared
from priormtl.penalties import Nuclear
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    METHODS,
    Fista,
    Gd,
    Ista,
    IstaReverse,
    Linear,
    Newton,
    NuclearNewton,
    NuclearSplitting,
    ProximalNewton,
    Solver,
    StopReason,
    WorkingSet,
    default_method,
    gap_below,
    max_iter,
    solve,
    solver,
)
from priormtl.solvers.block_newton import BlockNewton


def test_the_papers_five_have_its_names():
    classes = {"gd": Gd, "ista": Ista, "ista-reverse": IstaReverse, "fista": Fista}
    assert classes | {"linear": Linear} == METHODS


@pytest.mark.parametrize("name", METHODS)
def test_names_give_methods_with_their_defaults(name):
    assert Solver(name).choose(sine_problem()) == METHODS[name]()


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("lam", [0.0, 0.05, 0.6])
def test_auto_solves_what_it_is_chosen_for(penalty, lam):
    problem = sine_problem(lam=lam, penalty=PENALTIES[penalty])
    rules = [gap_below(1e-9), max_iter(1000)]
    solution = solve(problem, Solver("auto").choose(problem), stop=rules)
    assert solution.reason is StopReason.GAP


def test_auto_moves_along_one_rank_for_the_nuclear_norm():
    problem = sine_problem(penalty=PENALTIES["nuclear"])
    assert Solver("auto").choose(problem) == NuclearNewton()
    plain = sine_problem(theta=0.0, epsilon=0.0, penalty=PENALTIES["nuclear"])
    assert Solver("auto").choose(plain) == NuclearSplitting()
    data = with_signs(sine_tasks(4, 5))
    signs = build_problem(data, lam=0.1, loss=Logistic(), penalty=Nuclear())
    assert Solver("auto").choose(signs) == ProximalNewton(default_method)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("d", "m"), [(1500, 2), (250, 20)])
def test_auto_restarts_where_gram_matrices_do_not_pay(loss, d, m):
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((2, d)) for _ in range(m)]
    data = from_lists(X, [np.array([1.0, -1.0])] * m)
    fit = LOSSES[loss].bind(data, NoIntercepts())
    problem = Problem(fit, QuadraticPrior.none(d, m), Nuclear(), 0.1)
    assert Solver("auto").choose(problem) == Fista(restart=True)


def test_auto_restarts_where_modes_do_not_pay():
    rng = np.random.default_rng(0)
    data = from_lists([rng.standard_normal((400, 300))], [rng.standard_normal(400)])
    fit = Squared().bind(data, NoIntercepts())
    problem = Problem(fit, QuadraticPrior.none(300, 1), Nuclear(), 0.1)
    assert Solver("auto").choose(problem) == Fista(restart=True)


def test_auto_is_newton_where_there_is_none():
    assert default_method(sine_problem(lam=0.0)) == Newton()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="solver must be one of"):
        Solver("newtn")


@pytest.mark.parametrize("free", [0, 2**40])
def test_free_memory_decides_whether_gram_matrices_are_laid_out(monkeypatch, free):
    monkeypatch.setattr(solver, "free_bytes", lambda: free)
    monkeypatch.setattr(solver, "SMALL_GRAM_NUMBERS", 0)
    data = sine_tasks(4, 5)
    # Gram matrices are all there is: only parts of them are laid out.
    problem = build_problem(summarize_tasks(data), lam=0.1)
    assert isinstance(default_method(problem), BlockNewton if free else WorkingSet)
    closer = replace(problem.fit, moments=centre_samples(data))
    problem = replace(problem, fit=closer)
    assert isinstance(default_method(problem), BlockNewton if free else Fista)
