import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.audits.statements import describe_rows, list_ties
from priormtl.graphs import Laplacian
from priormtl.priors import TaskPrior, laplacian


@pytest.mark.parametrize(
    ("row", "words", "sign", "weight"),
    [
        ([1.0, -1.0, 0.0], "a ~ b", "similar", 1.0),
        ([0.0, 2.0, 2.0], "b ~ −c", "opposite", 4.0),
        ([1.0, 2.0, -1.0], "a + 2 b − c ~ 0", "combination", 1.0),
        ([-1.0, 0.0, 0.0], "− a ~ 0", "combination", 1.0),
        ([0.0, 0.0, 0.0], "0 ~ 0", "combination", 1.0),
        ([1e-9, -1e-9, 0.0], "a ~ b", "similar", 1e-18),
    ],
)
def test_rows_of_a_matrix_in_words(row, words, sign, weight):
    (found,) = describe_rows(csr_array([row]), ["a", "b", "c"])
    assert (found.relation, found.sign) == (words, sign)
    assert found.weight == pytest.approx(weight)


def test_weights_are_those_that_were_given():
    root = np.sqrt(0.3)
    (found,) = describe_rows(csr_array([[root, -root]]), ["a", "b"])
    assert found.weight == 0.3


def test_long_combinations_are_cut():
    (found,) = describe_rows(csr_array(np.ones((1, 9))), [*"abcdefghi"])
    assert found.relation == "a + b + c + d + e + f + … ~ 0"


@pytest.mark.parametrize(
    "prior",
    [
        TaskPrior.chain(weight=2.0),
        TaskPrior.mean(weight=3.0),
        TaskPrior.groups({"one": "abc", "two": "de"}),
        TaskPrior.from_graph([("a", "c", 0.5), ("b", "d", 2.0)]),
        TaskPrior.chain() + TaskPrior.mean(),
    ],
)
def test_ties_add_up_to_the_graph(prior):
    tasks = [*"abcde"]
    graph = laplacian(prior, tasks)
    total = np.zeros((5, 5))
    for tie in list_ties(graph, tasks):
        contrast = np.zeros(5)
        contrast[tie.tasks] = tie.contrast
        total += tie.statement.weight * np.outer(contrast, contrast)
    assert total == pytest.approx(graph.dense())


def test_ties_name_tasks_and_groups():
    words = [
        t.statement.relation
        for t in list_ties(laplacian(TaskPrior.chain(), [1, 2]), [1, 2])
    ]
    assert words == ["1 ~ 2"]
    groups = laplacian(TaskPrior.groups({"x": "ab", "y": "cd"}), [*"abcd"])
    words = [tie.statement.relation for tie in list_ties(groups, [*"abcd"])]
    assert words[0] == "a ~ mean of group 1"
    assert words[-1] == "d ~ mean of group 2"


def test_no_ties():
    assert list_ties(Laplacian.empty(3), [1, 2, 3]) == []
