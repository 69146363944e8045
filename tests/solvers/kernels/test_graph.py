"""A task graph in compiled loops, against its dense Laplacian."""

import numpy as np
import pytest

from priormtl.graphs import Laplacian
from priormtl.solvers.kernels import graph as kernels

CHAIN = Laplacian.from_edges(5, np.arange(4), np.arange(1, 5), np.arange(1.0, 5.0))
GRAPHS = {
    "none": (Laplacian.empty(5), kernels.LOOSE),
    "chain": (CHAIN, kernels.CHAIN),
    "one group": (Laplacian.from_groups(5, [np.arange(5)], 0.7), kernels.GROUP),
    "groups": (
        Laplacian.from_groups(5, [np.arange(3), np.arange(2, 5)], 0.7),
        kernels.LOOSE,
    ),
    "ring": (
        CHAIN + Laplacian.from_edges(5, np.array([0]), np.array([4]), np.ones(1)),
        kernels.LOOSE,
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_ties_are_those_of_the_laplacian(name):
    laplacian, _ = GRAPHS[name]
    x = np.random.default_rng(0).standard_normal(5)
    out = np.ones(5)
    kernels.add_ties(kernels.lay_out_graph(laplacian), 0.3, x, out)
    assert out == pytest.approx(1.0 + 0.3 * laplacian.dense() @ x, abs=1e-13)


@pytest.mark.parametrize("name", GRAPHS)
def test_kinds_and_degrees(name):
    laplacian, kind = GRAPHS[name]
    graph = kernels.lay_out_graph(laplacian)
    assert graph.kind == kind
    assert graph.degree == pytest.approx(np.diag(laplacian.dense()))
