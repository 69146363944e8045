import pytest

from instances import PENALTIES, sine_problem
from priormtl.solvers import (
    METHODS,
    Fista,
    Gd,
    Ista,
    IstaReverse,
    Linear,
    Newton,
    StopReason,
    default_method,
    gap_below,
    max_iter,
    method_by_name,
    solve,
)


def test_the_papers_five_have_its_names():
    classes = {"gd": Gd, "ista": Ista, "ista-reverse": IstaReverse, "fista": Fista}
    assert classes | {"linear": Linear} == METHODS


@pytest.mark.parametrize("name", METHODS)
def test_names_give_methods_with_their_defaults(name):
    assert method_by_name(name, sine_problem()) == METHODS[name]()


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("lam", [0.0, 0.05, 0.6])
def test_auto_solves_what_it_is_chosen_for(penalty, lam):
    problem = sine_problem(lam=lam, penalty=PENALTIES[penalty])
    rules = [gap_below(1e-9), max_iter(1000)]
    solution = solve(problem, method_by_name("auto", problem), stop=rules)
    assert solution.reason is StopReason.GAP


def test_auto_restarts_where_rows_do_not_come_apart():
    problem = sine_problem(penalty=PENALTIES["nuclear"])
    assert method_by_name("auto", problem) == Fista(restart=True)


def test_auto_is_newton_where_there_is_none():
    assert default_method(sine_problem(lam=0.0)) == Newton()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown method 'newtn'"):
        method_by_name("newtn", sine_problem())
