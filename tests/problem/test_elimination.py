"""Elimination over a graph: the same numbers as dense algebra."""

import numpy as np
import pytest

from priormtl.priors import TaskPrior, laplacian
from priormtl.priors.graphs import Laplacian
from priormtl.problem.elimination import Elimination, TieGraph

M = 9
RING = [(i, (i + 1) % M) for i in range(M)]
PRIORS = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(weight=2.0),
    "groups": TaskPrior.groups({"a": [0, 1, 2, 3], "b": [3, 4, 5], "c": [7]}),
    "ring": TaskPrior.from_graph(RING),
    "complete": TaskPrior.from_graph([(i, k) for i in range(M) for k in range(i)]),
    "chain and mean": TaskPrior.chain(weight=0.3) + TaskPrior.mean(),
    "in pieces": TaskPrior.from_graph([(0, 1), (2, 3), (3, 4), (4, 2)]),
}
MOST = 10**6


@pytest.fixture(params=PRIORS)
def graph(request):
    return TieGraph.of(laplacian(PRIORS[request.param], range(M)))


def dense_laplacian(graph):
    incidence = np.zeros((len(graph.weight), graph.n_nodes))
    rows = np.arange(len(graph.weight))
    incidence[rows, graph.first], incidence[rows, graph.second] = 1.0, -1.0
    return incidence.T @ (graph.weight[:, None] * incidence)


def blocks_of(graph, k=3, seed=0):
    factors = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2 * k, k))
    return factors.swapaxes(1, 2) @ factors, np.array([0.5, 2.0, 30.0])[:k]


def dense_matrix(graph, pivots, tie):
    size = len(tie) * graph.n_nodes
    matrix = np.zeros((graph.n_nodes, len(tie), graph.n_nodes, len(tie)))
    for a, block in enumerate(pivots):
        matrix[a, :, a, :] = block
    matrix += np.einsum("ab,jl->ajbl", dense_laplacian(graph), np.diag(tie))
    return matrix.reshape(size, size)


def dense_inverse(graph, pivots, tie):
    inverse = np.linalg.inv(dense_matrix(graph, pivots, tie))
    k = len(tie)
    return inverse.reshape(graph.n_nodes, k, graph.n_nodes, k)


@pytest.mark.parametrize("name", PRIORS)
def test_means_of_groups_at_their_best_leave_the_laplacian(name):
    L = laplacian(PRIORS[name], range(M))
    full = dense_laplacian(TieGraph.of(L))
    inner, edge, corner = full[:M, :M], full[:M, M:], full[M:, M:]
    reduced = inner - edge @ np.linalg.pinv(corner) @ edge.T
    assert np.allclose(reduced, L.dense(), atol=1e-12)


def test_rank_is_that_of_the_laplacian(graph):
    assert graph.rank == np.linalg.matrix_rank(dense_laplacian(graph))


def test_solves_and_determinant_are_those_of_the_matrix(graph):
    pivots, tie = blocks_of(graph)
    factor = Elimination.plan(graph, MOST).factorise(pivots, tie)
    matrix = dense_matrix(graph, pivots, tie)
    rhs = np.random.default_rng(1).normal(size=(graph.n_nodes, 3, 2))
    expected = np.linalg.solve(matrix, rhs.reshape(-1, 2)).reshape(rhs.shape)
    assert np.allclose(factor.solve(rhs), expected, rtol=1e-9, atol=1e-12)
    assert factor.log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1])


def test_selected_inverse_is_the_inverse_where_the_graph_has_edges(graph):
    pivots, tie = blocks_of(graph)
    factor = Elimination.plan(graph, MOST).factorise(pivots, tie)
    nodes, _ = factor.selected_inverse()
    inverse = dense_inverse(graph, pivots, tie)
    for a in range(graph.n_nodes):
        assert np.allclose(nodes[a], inverse[a, :, a, :], atol=1e-12)
    by_rows = np.einsum("ajbj->jab", inverse)
    traces = np.einsum("ab,jab->j", dense_laplacian(graph), by_rows)
    assert np.allclose(factor.spreads(), traces, rtol=1e-9)


def test_one_root_per_connected_part(graph):
    order = Elimination.plan(graph, MOST)
    assert np.array_equal(np.sort(graph.parts[order.roots]), np.unique(graph.parts))


def test_stars_go_in_two_sweeps_and_chains_by_halves():
    star = TieGraph.of(laplacian(TaskPrior.mean(), range(500)))
    assert len(Elimination.plan(star, MOST).levels) == 2
    chain = TieGraph.of(laplacian(TaskPrior.chain(), range(500)))
    assert len(Elimination.plan(chain, MOST).levels) <= 12


def test_too_many_steps_are_not_planned():
    graph = TieGraph.of(laplacian(PRIORS["complete"], range(M)))
    assert Elimination.plan(graph, 100) is None


def test_a_matrix_that_is_not_positive_is_refused():
    graph = TieGraph.of(laplacian(PRIORS["chain"], range(M)))
    order = Elimination.plan(graph, MOST)
    with pytest.raises(np.linalg.LinAlgError):
        order.factorise(np.zeros((M, 1, 1)) - 1.0, np.ones(1))


def test_nothing_tied_has_no_edges():
    assert len(TieGraph.of(Laplacian.empty(4)).weight) == 0
    assert len(TieGraph.of(laplacian(TaskPrior.mean(), [0])).weight) == 0
