"""Ties: restricted to some tasks they are what they were between these."""

import numpy as np
import pytest

from priormtl import TaskPrior
from priormtl.priors import laplacian
from priormtl.priors.ties import tie_from_plain

KNOWN = ("a", "b", "c")
PRIORS = [
    (TaskPrior.chain(), TaskPrior.chain()),
    (TaskPrior.mean(), TaskPrior.mean()),
    (TaskPrior.chain(list("axbyc")), TaskPrior.chain(list("abc"))),
    (
        TaskPrior.groups({"g": ["a", "x", "b"], "h": ["y"]}, weight=2.0),
        TaskPrior.groups({"g": ["a", "b"], "h": []}, weight=2.0),
    ),
    (
        TaskPrior.from_graph([("a", "b", 2.0), ("b", "x", 3.0), ("x", "y")]),
        TaskPrior.from_graph([("a", "b", 2.0)]),
    ),
    (TaskPrior.from_graph([("x", "y")]), TaskPrior.from_graph([])),
    (TaskPrior.from_graph(np.ones((3, 3))), TaskPrior.from_graph(np.ones((3, 3)))),
]


@pytest.mark.parametrize(("prior", "expected"), PRIORS)
def test_tasks_that_are_not_there_leave(prior, expected):
    restricted = prior.restrict(KNOWN)
    assert restricted == expected
    assert restricted.restrict(KNOWN) == restricted
    np.testing.assert_array_equal(
        laplacian(restricted, KNOWN).dense(), laplacian(expected, KNOWN).dense()
    )


@pytest.mark.parametrize(("prior", "_"), PRIORS)
def test_ties_survive_plain_values(prior, _):
    assert tuple(tie_from_plain(tie.to_plain()) for tie in prior.ties) == prior.ties


@pytest.mark.parametrize(("prior", "_"), PRIORS)
def test_circles_hold_named_tasks_only(prior, _):
    names = {label for tie in prior.ties for c in tie.circles() for label in c}
    assert names <= set("abcxy")
