import numpy as np
import pytest

from priormtl.baselines.lattice.task_groups import (
    all_groups,
    named_groups,
    single_groups,
    tree_groups,
)


def test_all_subsets_are_listed_once_small_ones_first():
    groups = all_groups(3)
    assert groups.sets() == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert groups.sizes.tolist() == [1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("m", [1, 2, 5])
def test_below_is_inclusion(m):
    groups = all_groups(m)
    sets = [set(group) for group in groups.sets()]
    expected = [[v <= g for g in sets] for v in sets]
    np.testing.assert_array_equal(groups.below, expected)


def test_too_many_tasks_cannot_have_all_groups():
    assert len(all_groups(10)) == 1023
    with pytest.raises(ValueError, match="at most 10 tasks"):
        all_groups(11)


def test_tree_joins_like_tasks_first():
    coef = np.array([[0.0, 1.0], [5.0, 5.0], [0.1, 1.0], [5.0, 5.2]])
    sets = tree_groups(coef).sets()
    assert sets == [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize("m", [1, 2, 12])
@pytest.mark.parametrize("value", [0.0, 1.0, 1e200])
def test_equal_tasks_have_a_tree(m, value):
    groups = tree_groups(np.full((m, 3), value))
    assert len(groups) == 2 * m - 1
    assert groups.sets()[-1] == tuple(range(m))


def test_groups_by_name():
    groups = named_groups([["b", "a"], ["c"], ["a", "b"]], ("a", "b", "c"))
    assert groups.named("abc") == [("c",), ("a", "b")]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (3, "must be"),
        ([["a", "z"]], "known tasks: got 'z'"),
        ([["a"], []], "none of them empty"),
        (["ab"], "list groups"),
        ([["a"]], "every task at least once"),
    ],
)
def test_groups_by_name_are_checked(groups, message):
    with pytest.raises(ValueError, match=message):
        named_groups(groups, ("a", "b"))


def test_too_many_groups_are_refused():
    pairs = [(i, j) for i in range(50) for j in range(i)]
    with pytest.raises(ValueError, match="at most 1023"):
        named_groups(pairs, tuple(range(50)))


def test_candidates_have_all_their_subsets():
    singles = single_groups(4)
    assert len(singles.candidates()) == 6
    grown = singles.add([(0, 1), (1, 2), (2, 3)])
    assert grown.candidates() == [(0, 2), (0, 3), (1, 3)]
    assert grown.add([(0, 2)]).candidates() == [(0, 1, 2), (0, 3), (1, 3)]
    assert all_groups(3).candidates() == []


def test_groups_are_found_among_others():
    some = single_groups(3).add([(0, 2)])
    place = all_groups(3).find(some)
    np.testing.assert_array_equal(all_groups(3).member[place], some.member)
