"""Task priors: ties become Laplacians, and find the nearest tasks of others."""

import json
from datetime import date, datetime

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.estimators.unseen import Neighbourhood
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


KNOWN = ("a", "b", "c")

PRIORS_TIES = [
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


@pytest.mark.parametrize(("prior", "expected"), PRIORS_TIES)
def test_tasks_that_are_not_there_leave(prior, expected):
    restricted = prior.restrict(KNOWN)
    assert restricted == expected
    assert restricted.restrict(KNOWN) == restricted
    np.testing.assert_array_equal(
        laplacian(restricted, KNOWN).dense(), laplacian(expected, KNOWN).dense()
    )


@pytest.mark.parametrize(("prior", "_"), PRIORS_TIES)
def test_ties_survive_plain_values(prior, _):
    assert TaskPrior.from_plain(prior.to_plain()) == prior


@pytest.mark.parametrize(("prior", "_"), PRIORS_TIES)
def test_circles_hold_named_tasks_only(prior, _):
    names = {label for tie in prior.ties for c in tie.circles() for label in c}
    assert names <= set("abcxy")


LABELS = [0, 1, 4, 9, 16, 25]


def nearest(prior, tasks, label, order=None):
    return Neighbourhood(prior, tuple(tasks), order).nearest(label)


@pytest.mark.parametrize("label", np.arange(-3.0, 30.0, 0.5).tolist())
def test_numbers_in_a_chain_have_the_least_difference(label):
    gaps = [abs(task - label) for task in LABELS]
    expected = [t for t, gap in zip(LABELS, gaps, strict=True) if gap == min(gaps)]
    assert sorted(nearest(TaskPrior.chain(), LABELS[::-1], label)) == expected


@pytest.mark.parametrize("seed", range(8))
def test_graphs_give_the_tasks_at_the_fewest_steps(seed):
    graph = nx.gnp_random_graph(14, 0.18, seed=seed)
    known = [n for n in graph if n % 3]
    prior = TaskPrior.from_graph([*graph.edges])
    for label in set(graph) - set(known):
        steps = nx.single_source_shortest_path_length(graph, label)
        reached = {task: steps[task] for task in known if task in steps}
        least = min(reached.values(), default=None)
        expected = tuple(task for task in known if reached.get(task, -1) == least)
        assert nearest(prior, known, label) == expected


def test_groups_are_one_step_wide():
    prior = TaskPrior.groups({"a": ["x", "u", "y"], "b": ["u", "z"], "c": ["z", "w"]})
    assert nearest(prior, ["x", "y", "z"], "u") == ("x", "y", "z")
    assert nearest(prior, ["x", "y"], "w") == ("x", "y")
    assert nearest(prior, ["x"], "elsewhere") == ()


def test_a_given_order_counts_places():
    prior = TaskPrior.chain(order=["jan", "feb", "mar", "apr", "may"])
    assert nearest(prior, ["jan", "mar"], "feb") == ("jan", "mar")
    assert nearest(prior, ["jan", "mar"], "may") == ("mar",)


def test_dates_have_differences():
    days = [date(2024, 1, 1), date(2024, 2, 1)]
    assert nearest(TaskPrior.chain(), days, date(2024, 1, 12)) == (days[0],)
    times = [datetime(2024, 1, 1), datetime(2024, 1, 3)]
    assert nearest(TaskPrior.chain(), times, datetime(2024, 1, 2)) == tuple(times)
    assert nearest(TaskPrior.chain(), times, date(2024, 1, 2)) == ()


def test_categories_count_places():
    order = ("low", "mid", "high", "top")
    prior = TaskPrior.chain()
    assert nearest(prior, ("low", "high"), "mid", order) == ("low", "high")
    assert nearest(prior, ("low", "high"), "top", order) == ("high",)
    # Categories that do not hold all tasks say nothing of their order.
    assert nearest(prior, ("low", "old"), "mid", order) == ()


def test_in_a_mean_all_are_equally_near():
    assert nearest(TaskPrior.mean(), ["a", "b"], "c") == ("a", "b")


def test_graphs_go_before_order_and_order_before_the_mean():
    both = TaskPrior.mean() + TaskPrior.chain()
    assert nearest(both, [1, 5], 2) == (1,)
    graph = TaskPrior.from_graph([(2, 5)])
    assert nearest(both + graph, [1, 5], 2) == (5,)


@pytest.mark.parametrize("prior", [None, TaskPrior.chain(), TaskPrior.from_graph([])])
def test_text_that_is_in_no_graph_is_near_nobody(prior):
    assert nearest(prior, ["a", "c"], "b") == ()


def test_an_adjacency_matrix_names_nobody():
    prior = TaskPrior.from_graph(np.ones((2, 2)) - np.eye(2))
    assert nearest(prior, ["a", "b"], "c") == ()
