"""Groups of tasks: all of few, a tree of many, single ones, or those that are named."""

import numpy as np
import pytest

from priormtl.baselines.lattice.group_choice import choose_groups
from priormtl.baselines.lattice.task_curvature import rotate_fit
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared


def curvature(m, scale=1.0):
    """Of tasks of which the first two agree."""
    rng = np.random.default_rng(0)
    X, task = scale * rng.standard_normal((8 * m, 3)), np.repeat(np.arange(m), 8)
    coef = 5.0 * rng.standard_normal((m, 3))
    coef[1] = coef[0]
    y = np.sum(X * coef[task], axis=1)
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    return rotate_fit(fit, [np.arange(3)])


@pytest.mark.parametrize(("m", "choice"), [(2, "all"), (10, "all"), (11, "tree")])
def test_auto_takes_all_groups_of_few_tasks(m, choice):
    found, groups = choose_groups("auto", tuple(range(m)), curvature(m))
    assert found == choice
    assert len(groups) == (2**m - 1 if choice == "all" else 2 * m - 1)


def test_a_tree_joins_tasks_that_agree():
    _, groups = choose_groups("tree", tuple(range(5)), curvature(5))
    assert (0, 1) in groups.sets()


def test_a_tree_of_constant_features_is_finite():
    _, groups = choose_groups("tree", (0, 1, 2), curvature(3, scale=0.0))
    assert groups.sets()[:3] == [(0,), (1,), (2,)]


def test_active_groups_begin_with_single_tasks():
    choice, groups = choose_groups("active", tuple("abc"), curvature(3))
    assert (choice, groups.sets()) == ("active", [(0,), (1,), (2,)])


def test_named_groups_are_given():
    choice, groups = choose_groups([["a", "b"], ["c"]], tuple("abc"), curvature(3))
    assert (choice, groups.sets()) == ("given", [(2,), (0, 1)])


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="groups must be one of"):
        choose_groups("some", tuple("abc"), curvature(3))
