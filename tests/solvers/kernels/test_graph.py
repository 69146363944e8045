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


@pytest.mark.parametrize("tie", [0.0, 0.4, 1e8])
@pytest.mark.parametrize("name", ["none", "chain", "one group"])
def test_rows_are_solved_exactly(name, tie):
    laplacian, _ = GRAPHS[name]
    graph = kernels.lay_out_graph(laplacian)
    rng = np.random.default_rng(1)
    own, rhs = rng.random(5), rng.standard_normal(5)
    parts, out = np.empty((3, 5)), np.empty(5)
    left = kernels.factor_row(graph, graph.kind, tie, own, 0.2, parts)
    kernels.solve_row(graph, graph.kind, tie, parts, left, rhs, out)
    matrix = np.diag(own + 0.2) + tie * laplacian.dense()
    assert out == pytest.approx(np.linalg.solve(matrix, rhs), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["groups", "ring"])
def test_loose_rows_are_bounded(name):
    laplacian, _ = GRAPHS[name]
    graph = kernels.lay_out_graph(laplacian)
    own, parts = np.arange(5.0), np.empty((3, 5))
    kernels.factor_row(graph, graph.kind, 0.4, own, 0.1, parts)
    bound = np.diag(1.0 / parts[0])
    exact = np.diag(own + 0.1) + 0.4 * laplacian.dense()
    assert np.linalg.eigvalsh(bound - exact).min() >= -1e-12


def test_a_pivot_that_vanishes_is_left_out():
    graph = kernels.lay_out_graph(Laplacian.empty(2))
    parts, out = np.empty((3, 2)), np.empty(2)
    left = kernels.factor_row(graph, graph.kind, 0.0, np.array([0.0, 2.0]), 0.0, parts)
    kernels.solve_row(graph, graph.kind, 0.0, parts, left, np.ones(2), out)
    assert out.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 8])
def test_chains_of_any_length_are_solved_from_both_ends(m):
    rng = np.random.default_rng(m)
    first, second, weight = np.arange(m - 1), np.arange(1, m), rng.random(m - 1)
    laplacian = Laplacian.from_edges(m, first, second, weight)
    own, rhs = rng.random(m), rng.standard_normal(m)
    parts, out = np.empty((3, m)), np.empty(m)
    graph = kernels.lay_out_graph(laplacian)
    kernels.factor_chain(graph, 2.0, own, 0.1, parts)
    kernels.solve_chain(parts, rhs, out)
    matrix = np.diag(own + 0.1) + 2.0 * laplacian.dense()
    assert matrix @ out == pytest.approx(rhs, abs=1e-12)
