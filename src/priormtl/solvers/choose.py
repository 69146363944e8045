"""Methods by name, and the only place where "auto" is decided."""

from collections.abc import Callable
from typing import Any

from priormtl.problem import Problem
from priormtl.solvers.first_order import Fista, Gd, Ista, IstaReverse, Linear
from priormtl.solvers.loop import Method
from priormtl.solvers.newton import Newton

__all__ = ["METHODS", "default_method", "method_by_name"]

METHODS: dict[str, Callable[[], Method[Any]]] = {
    "gd": Gd,
    "ista": Ista,
    "ista-reverse": IstaReverse,
    "fista": Fista,
    "linear": Linear,
}


def default_method(problem: Problem) -> Method[Any]:
    """Newton without a penalty, else FISTA with restart."""
    return Newton() if problem.lam == 0 else Fista(restart=True)


def method_by_name(name: str, problem: Problem) -> Method[Any]:
    """Method called ``name``; "auto" picks one for the problem."""
    return default_method(problem) if name == "auto" else METHODS[name]()
