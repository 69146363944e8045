"""Priors in words: each relation a line, long ones cut, names escaped."""

import numpy as np
import pytest

from priormtl import FeaturePrior, TaskPrior
from priormtl.priors.words import MOST_SHOWN, relation_table, tie_table


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
    features, tasks = prior.table(), tie_table("t", graph.ties)
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
    assert lines(tie_table("t", prior.ties)) == [
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
    assert lines(tie_table("t", TaskPrior.from_graph([]).ties))[0][0] == "none"


def test_names_are_never_markup():
    name = "<img src=x onerror=alert(1)>"
    pages = [
        FeaturePrior.similar([(name, "b")])._repr_html_(),
        TaskPrior.from_graph([(name, "b")])._repr_html_(),
        TaskPrior.groups({"g": [name]})._repr_html_(),
    ]
    assert not any("<img" in page for page in pages)


def test_a_table_may_have_another_title():
    assert relation_table("Relations", ()).title == "Relations"
