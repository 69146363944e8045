"""Neighbourhoods: the nearest tasks with rows, and nobody where nothing is near."""

from datetime import date, datetime

import networkx as nx
import numpy as np
import pytest

from priormtl import TaskPrior
from priormtl.priors import Neighbourhood

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
