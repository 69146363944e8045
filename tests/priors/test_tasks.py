"""Task priors: ties become Laplacians."""

import json
from datetime import date

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.priors import TaskPrior, as_task_prior, laplacian

TASKS = ("a", "b", "c", "d")


def form(prior, P, tasks=TASKS):
    """½ tr(P L Pᵀ)."""
    return 0.5 * np.vdot(P, laplacian(prior, tasks).times(P))


def coefficients(m=4):
    return np.random.default_rng(0).normal(size=(3, m))


def squares(P):
    return np.sum(P**2)


def test_a_chain_ties_neighbours():
    P = coefficients()
    expected = 0.5 * 3.0 * squares(P[:, 1:] - P[:, :-1])
    assert form(TaskPrior.chain(weight=3.0), P) == pytest.approx(expected)


def test_a_chain_follows_its_order():
    P = coefficients()
    walk = [2, 0, 3, 1]
    prior = TaskPrior.chain(order=["c", "a", "d", "b"])
    expected = 0.5 * squares(np.diff(P[:, walk], axis=1))
    assert form(prior, P) == pytest.approx(expected)


def test_one_task_has_no_ties():
    for prior in (TaskPrior.chain(), TaskPrior.mean()):
        assert not laplacian(prior, ["only"]).dense().any()


def test_the_mean_ties_all_tasks_to_it():
    P = coefficients()
    expected = 0.5 * 2.0 * squares(P - P.mean(axis=1, keepdims=True))
    assert form(TaskPrior.mean(weight=2.0), P) == pytest.approx(expected)


def test_groups_tie_tasks_to_their_own_mean():
    P = coefficients()
    prior = TaskPrior.groups({"north": ["a", "c"], "south": ["d"]}, weight=2.0)
    north = P[:, [0, 2]]
    expected = 0.5 * 2.0 * squares(north - north.mean(axis=1, keepdims=True))
    assert form(prior, P) == pytest.approx(expected)


def test_one_group_of_all_is_the_mean():
    everyone = laplacian(TaskPrior.groups({"all": TASKS}), TASKS).dense()
    np.testing.assert_allclose(everyone, laplacian(TaskPrior.mean(), TASKS).dense())


def test_an_empty_group_ties_nothing():
    assert not laplacian(TaskPrior.groups({"none": []}), TASKS).dense().any()


def test_a_task_named_twice_in_a_group_counts_once():
    twice = laplacian(TaskPrior.groups({"g": ["a", "a", "b"]}), TASKS)
    once = laplacian(TaskPrior.groups({"g": ["a", "b"]}), TASKS)
    np.testing.assert_allclose(twice.dense(), once.dense(), atol=1e-15)


GRAPH = [("a", "b", 2.0), ("b", "d", 0.5)]


def adjacency():
    A = np.zeros((4, 4))
    for a, b, weight in GRAPH:
        i, j = TASKS.index(a), TASKS.index(b)
        A[i, j] = A[j, i] = weight
    return A


def networkx_graph():
    graph = nx.Graph()
    graph.add_weighted_edges_from(GRAPH)
    return graph


@pytest.mark.parametrize(
    "graph",
    [GRAPH, adjacency(), csr_array(adjacency()), networkx_graph()],
    ids=["list", "dense", "sparse", "networkx"],
)
def test_every_graph_ties_along_its_edges(graph):
    P = coefficients()
    expected = squares(P[:, 0] - P[:, 1]) + 0.25 * squares(P[:, 1] - P[:, 3])
    assert form(TaskPrior.from_graph(graph), P) == pytest.approx(expected)


def test_an_adjacency_matrix_counts_positions_whatever_the_labels():
    prior = TaskPrior.from_graph(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    L = laplacian(prior, [2, 1, 0]).dense()
    np.testing.assert_array_equal(L, [[1, -1, 0], [-1, 1, 0], [0, 0, 0]])


def test_an_edge_list_counts_labels_even_where_they_are_numbers():
    L = laplacian(TaskPrior.from_graph([(2, 1)]), [2, 1, 0]).dense()
    np.testing.assert_array_equal(L, [[1, -1, 0], [-1, 1, 0], [0, 0, 0]])


def test_loops_cycles_and_repeated_edges_are_fine():
    edges = [("a", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]
    L = laplacian(TaskPrior.from_graph(edges), TASKS).dense()
    np.testing.assert_allclose(L.sum(axis=0), 0.0, atol=1e-15)
    assert L[0, 1] == -2.0
    assert np.linalg.eigvalsh(L)[0] >= -1e-14


def test_a_graph_without_edges_ties_nothing():
    for graph in ([], nx.Graph(), np.zeros((4, 4))):
        assert laplacian(TaskPrior.from_graph(graph), TASKS).is_zero


def test_sums_hold_the_ties_of_both():
    P = coefficients()
    a, b = TaskPrior.chain(), TaskPrior.groups({"g": ["a", "d"]}, weight=3.0)
    assert form(a + b, P) == pytest.approx(form(a, P) + form(b, P))
    assert len((a + b).ties) == 2


def test_only_priors_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        TaskPrior.chain() + "mean"


def test_no_prior_ties_nothing():
    assert laplacian(None, TASKS).is_zero
    assert laplacian(TaskPrior(()), TASKS).is_zero


def test_many_tasks_stay_sparse():
    tasks = range(50_000)
    L = laplacian(TaskPrior.mean() + TaskPrior.chain(), tasks)
    assert len(L.weight) < 2 * len(tasks)


PRIORS = {
    "chain": TaskPrior.chain(),
    "ordered": TaskPrior.chain(order=["d", "a", "b", "c"], weight=0.1),
    "dates": TaskPrior.chain(order=[date(2024, 1, 1), date(2023, 1, 1)]),
    "mean": TaskPrior.mean(2.0),
    "groups": TaskPrior.groups({"x": ["a", "b"], "y": [1, 2]}),
    "graph": TaskPrior.from_graph(GRAPH),
    "adjacency": TaskPrior.from_graph(adjacency()),
    "sum": TaskPrior.chain() + TaskPrior.mean(),
    "none": TaskPrior(()),
}


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_priors_survive_json(prior):
    assert TaskPrior.from_plain(json.loads(json.dumps(prior.to_plain()))) == prior


@pytest.mark.parametrize("plain", [{"tie": "code"}, {"tie": None}])
def test_unknown_ties_are_refused(plain):
    with pytest.raises(KeyError):
        TaskPrior.from_plain([plain])


@pytest.mark.parametrize(
    "prior",
    [
        TaskPrior.chain(order=["a", "b", "c", "dd"]),
        TaskPrior.groups({"g": ["a", "dd"]}),
        TaskPrior.from_graph([("a", "dd")]),
    ],
    ids=["chain", "groups", "graph"],
)
def test_an_unknown_task_is_answered_with_a_near_one(prior):
    message = (
        r"unknown task in task_prior 'dd'; known: 'a', 'b', 'c', 'd'. Did you mean"
    )
    with pytest.raises(ValueError, match=message):
        laplacian(prior, TASKS)


@pytest.mark.parametrize("order", [["a", "b"], ["a", "b", "c", "d", "a"], []])
def test_an_order_must_hold_every_task_once(order):
    with pytest.raises(
        ValueError, match=r"order must hold every task once: .*(missing|twice)"
    ):
        laplacian(TaskPrior.chain(order=order), TASKS)


def test_negative_ties_are_refused():
    with pytest.raises(ValueError, match="task_prior must have no negative weights"):
        TaskPrior.from_graph([("a", "b", -1.0)])


def test_an_adjacency_matrix_must_have_one_row_per_task():
    with pytest.raises(ValueError, match="the adjacency matrix has 3 for 4 tasks"):
        laplacian(TaskPrior.from_graph(np.zeros((3, 3))), TASKS)


def test_groups_must_be_a_mapping():
    with pytest.raises(TypeError, match="must map names to lists of tasks: got list"):
        TaskPrior.groups([["a", "b"]])


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    "build",
    [
        lambda weight: TaskPrior.chain(weight=weight),
        TaskPrior.mean,
        lambda weight: TaskPrior.groups({"g": ["a"]}, weight),
    ],
)
def test_weights_must_be_positive(build, weight):
    with pytest.raises(ValueError, match="weight must be positive and finite: got"):
        build(weight)


def test_words_stand_for_priors():
    assert as_task_prior("chain") == TaskPrior.chain()
    assert as_task_prior("mean") == TaskPrior.mean()
    assert as_task_prior(None) is None
    assert as_task_prior(PRIORS["sum"]) is PRIORS["sum"]


@pytest.mark.parametrize("prior", ["ring", 3, np.eye(2), ["chain"]])
def test_other_things_are_no_priors(prior):
    with pytest.raises(
        ValueError, match='must be a TaskPrior, "chain", "mean", "nested" or None'
    ):
        as_task_prior(prior)


PRIORS_TIES = [
    TaskPrior.chain(),
    TaskPrior.mean(),
    TaskPrior.chain(list("axbyc")),
    TaskPrior.groups({"g": ["a", "x", "b"], "h": ["y"]}, weight=2.0),
    TaskPrior.from_graph([("a", "b", 2.0), ("b", "x", 3.0), ("x", "y")]),
    TaskPrior.from_graph([("x", "y")]),
    TaskPrior.from_graph(np.ones((3, 3))),
]


@pytest.mark.parametrize("prior", PRIORS_TIES)
def test_ties_survive_plain_values(prior):
    assert TaskPrior.from_plain(prior.to_plain()) == prior


@pytest.mark.parametrize("prior", PRIORS_TIES)
def test_circles_hold_named_tasks_only(prior):
    names = {label for tie in prior.ties for c in tie.circles() for label in c}
    assert names <= set("abcxy")
