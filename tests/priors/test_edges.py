"""Graphs as users hold them, and priors in words for notebooks."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

from priormtl import FeaturePrior, TaskPrior
from priormtl.priors.relations import MOST_SHOWN, check_weight, plain_label, read_edges

EDGES = [(0, 1, 2.0), (1, 3, -0.5)]

ADJACENCY = np.array(
    [
        [0.0, 2.0, 0.0, 0.0],
        [2.0, 0.0, 0.0, -0.5],
        [0.0, 0.0, 0.0, 0.0],
        [0.0, -0.5, 0.0, 0.0],
    ]
)


def networkx_graph():
    graph = nx.Graph()
    graph.add_weighted_edges_from(EDGES)
    return graph


GRAPHS = {
    "list": EDGES,
    "generator": iter(EDGES),
    "arrays": [np.array(edge) for edge in EDGES],
    "dense": ADJACENCY,
    "sparse": csr_array(ADJACENCY),
    "sparse matrix": csr_matrix(ADJACENCY),
    "networkx": networkx_graph(),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_form_gives_the_same_edges(graph):
    assert sorted(read_edges(graph)) == EDGES


def test_an_edge_without_weight_has_weight_one():
    assert read_edges([("a", "b")]) == [("a", "b", 1.0)]
    assert read_edges(nx.path_graph(3)) == [(0, 1, 1.0), (1, 2, 1.0)]


def test_no_edges_are_fine():
    for graph in (
        [],
        nx.Graph(),
        np.zeros((3, 3)),
        csr_array((3, 3)),
    ):
        assert read_edges(graph) == []


def test_loops_are_kept_for_others_to_judge():
    assert read_edges(np.diag([0.0, 3.0])) == [(1, 1, 3.0)]


def test_an_adjacency_may_be_whole_numbers_or_booleans():
    assert read_edges(np.array([[0, 1], [1, 0]])) == [(0, 1, 1.0)]
    assert read_edges(np.array([[False, True], [True, False]])) == [(0, 1, 1.0)]


def test_entries_given_in_pieces_add_up():
    pieces = coo_array(([1.0, 1.0, 2.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert sum(weight for *_, weight in read_edges(pieces)) == 2.0


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.zeros((2, 3)), r"adjacency matrix must be square: got shape \(2, 3\)"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), "adjacency matrix must be symmetric"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), "adjacency matrix must be finite"),
        (np.array([[0.0, np.inf], [np.inf, 0.0]]), "adjacency matrix must be finite"),
        (csr_array(np.array([[0.0, 1.0], [0.0, 0.0]])), "must be symmetric"),
        (["ab"], r"an edge must be \(first, second\) or .*: got 'ab'"),
        ([(1,)], r"an edge must be \(first, second\) or .*: got \(1,\)"),
        ([3], r"an edge must be \(first, second\) or .*: got 3"),
        ([(1, 2, 3, 4)], r"an edge must be \(first, second\) or"),
        ([(1, 2, np.nan)], "an edge must have a finite weight"),
        ([(1, 2, np.inf)], "an edge must have a finite weight"),
        ([(1, True)], "a name must be text or a position: got True"),
        ([([1], 2)], r"a name must be text or a position: got \[1\]"),
    ],
    ids=str,
)
def test_bad_graphs_are_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        read_edges(graph)


@pytest.mark.parametrize("graph", ["ab", 3, None])
def test_other_things_are_no_graphs(graph):
    with pytest.raises(
        TypeError, match="an edge list, an adjacency matrix or a networkx"
    ):
        read_edges(graph)


def test_numpy_scalars_become_plain_labels():
    labels = [plain_label(v) for v in (np.int64(3), np.str_("a"), "b", 4)]
    assert labels == [3, "a", "b", 4]
    assert [type(label) for label in labels] == [int, str, str, int]


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_a_weight_must_be_positive_and_finite(weight):
    with pytest.raises(ValueError, match="weight must be positive and finite: got"):
        check_weight(weight)


def test_a_good_weight_is_a_float():
    assert check_weight(np.int64(2)) == 2.0
    assert type(check_weight(2)) is float


def lines(table):
    return [(row.label, *(cell.text for cell in row.cells)) for row in table.rows]


def test_each_relation_is_a_line():
    prior = FeaturePrior.similar([("maths", "physics"), (3, 7)])
    prior += FeaturePrior.opposite([("price", "demand")], weight=2.0)
    assert lines(prior.table()) == [
        ("maths, physics", "similar", "1"),
        ("x3, x7", "similar", "1"),
        ("price, demand", "opposite", "2"),
    ]


def test_names_stand_for_positions():
    prior = FeaturePrior.similar([(0, 2)])
    assert lines(prior.table(["a", "b", "c"]))[0][0] == "a, c"


def test_rules_and_matrices_have_words():
    prior = FeaturePrior.grid(2, 3) + FeaturePrior.from_correlation(strongest=5)
    prior += FeaturePrior.from_matrix(np.array([[1.0, -2.5, 0.0], [0.0, 0.0, 0.0]]))
    assert [line[0] for line in lines(prior.table())] == [
        "neighbours in a 2 × 3 grid",
        "5 most correlated pairs",
        "1 · x0 + −2.5 · x1",
        "nothing",
    ]


@pytest.mark.parametrize("count", [0, 1, MOST_SHOWN, MOST_SHOWN + 1, 5000])
def test_long_priors_are_cut_and_counted(count):
    prior = FeaturePrior.similar([(j, j + 1) for j in range(count)])
    graph = TaskPrior.from_graph([(j, j + 1) for j in range(count)])
    left_out = max(0, count - MOST_SHOWN)
    features, tasks = prior.table(), graph.table()
    assert len(features.rows) == min(count, MOST_SHOWN)
    assert features.notes == (
        (f"… and {left_out} more relations.",) if left_out else ()
    )
    assert len(tasks.rows) == min(max(1, count), MOST_SHOWN)
    assert len(prior._repr_html_()) < 10_000
    assert len(repr(graph)) < 80


def test_each_tie_is_a_line():
    prior = TaskPrior.chain() + TaskPrior.mean(weight=0.5)
    prior += TaskPrior.groups({"a": range(6), "b": ["x"]})
    prior += TaskPrior.chain(order=["u", "v"]) + TaskPrior.from_graph([("u", "v", 3)])
    prior += TaskPrior.from_graph(np.array([[0.0, 2.0], [2.0, 0.0]]))
    assert lines(prior.table()) == [
        ("each task and the next", "alike", "1"),
        ("all tasks", "like their mean", "0.5"),
        ("0, 1, 2, 3, … (6 in all)", "like their mean", "1"),
        ("x", "like their mean", "1"),
        ("u, v", "alike", "1"),
        ("u, v", "alike", "3"),
        ("task 0, task 1", "alike", "2"),
    ]
    assert repr(prior) == (
        "TaskPrior(chain + mean + 2 groups + chain of 2 tasks + 1 edge + 1 edge)"
    )


def test_empty_priors_have_words():
    assert repr(TaskPrior(())) == "TaskPrior(no ties)"
    assert "FeaturePrior(0 relations)" in FeaturePrior(())._repr_html_()
    assert lines(TaskPrior.from_graph([]).table())[0][0] == "none"


def test_names_are_never_markup():
    name = "<img src=x onerror=alert(1)>"
    pages = [
        FeaturePrior.similar([(name, "b")])._repr_html_(),
        TaskPrior.from_graph([(name, "b")])._repr_html_(),
        TaskPrior.groups({"g": [name]})._repr_html_(),
    ]
    assert not any("<img" in page for page in pages)


def test_tables_say_whether_features_or_tasks_are_related():
    features = FeaturePrior.similar([("a", "b")])._repr_html_()
    tasks = TaskPrior.from_graph([("u", "v")])._repr_html_()
    assert ">features<" in features
    assert ">tasks<" not in features
    assert ">tasks<" in tasks
    assert ">features<" not in tasks
