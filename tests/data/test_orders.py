"""Orders that were declared outlive the parts that hold only some tasks."""

import copy
import pickle
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priormtl.data.labels import (
    TaskOrder,
    declared_order,
    join_orders,
    keep_tasks,
    merge_tasks,
)

LAW = settings(max_examples=100, deadline=None, derandomize=True, database=None)
MONTHS = ("jan", "feb", "mar", "apr", "may")


@st.composite
def parts_of_a_year(draw):
    """Tasks of some parts, each with the categories of the whole."""
    chosen = draw(st.lists(st.sets(st.sampled_from(MONTHS)), min_size=1, max_size=4))
    return [TaskOrder([m for m in MONTHS if m in some], MONTHS) for some in chosen]


@LAW
@given(parts_of_a_year())
def test_parts_of_one_categorical_keep_its_order(parts):
    merged = reduce(merge_tasks, parts)
    used = set().union(*parts)
    assert merged == tuple(month for month in MONTHS if month in used)
    assert declared_order(merged) == MONTHS
    assert reduce(merge_tasks, reversed(parts)) == merged


@LAW
@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=4))
def test_sorted_labels_merge_into_sorted_labels(parts):
    merged = reduce(merge_tasks, [tuple(sorted(part)) for part in parts])
    assert merged == tuple(sorted(set().union(*parts)))
    joined = join_orders(*(tuple(sorted(part)) for part in parts))
    assert joined == merged


@LAW
@given(
    st.permutations(range(6)), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5))
)
def test_joined_orders_keep_both(order, some, others):
    a = tuple(i for i in order if i in some)
    b = tuple(i for i in order if i in others)
    joined = join_orders(a, b)
    assert tuple(i for i in joined if i in some) == a
    assert tuple(i for i in joined if i in others) == b
    assert join_orders(b, a) == joined


def test_one_side_may_not_know_the_order():
    known = TaskOrder(["feb"], MONTHS)
    assert merge_tasks(known, ("jan", "mar")) == ("jan", "feb", "mar")
    assert merge_tasks(("jan", "mar"), known) == ("jan", "feb", "mar")
    assert set(merge_tasks(known, ("dec",))) == {"dec", "feb"}


def test_orders_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\] and \['b', 'a'\]"):
        join_orders(("a", "b", "c"), ("b", "a"))
    with pytest.raises(ValueError, match="labels of one kind"):
        join_orders(("a", "b"), (1, 2))


def test_copies_remember():
    order = TaskOrder(["feb"], MONTHS)
    for twin in (copy.deepcopy(order), pickle.loads(pickle.dumps(order))):
        assert twin == ("feb",)
        assert declared_order(twin) == MONTHS
    assert declared_order(keep_tasks(order, [])) == MONTHS
    assert declared_order(keep_tasks(("feb",), ["feb"])) is None


@pytest.mark.parametrize(
    ("a", "b", "union"),
    [
        (("a", "b"), ("a", "b"), ("a", "b")),
        (("b", "a"), ("b", "a"), ("b", "a")),
        (("b", "a"), ("a", "b"), ("a", "b")),
        (("c", "a", "b"), ("b", "a"), ("c", "a", "b")),
        (("c", "a"), ("b",), ("a", "b", "c")),
        ((3, 1), (2, 10), (1, 2, 3, 10)),
        (("a",), (), ("a",)),
    ],
)
def test_the_longer_order_of_tasks_wins_where_it_holds_all(a, b, union):
    assert merge_tasks(a, b) == merge_tasks(b, a) == union
