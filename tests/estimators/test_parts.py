"""Parts: rows and merged statistics divide the same data in the same way."""

import numpy as np
import pytest

from priormtl import summarize
from priormtl.data import Table, summarize_tasks
from priormtl.estimators.splitting import (
    check_parts,
    merge_folds,
    part_rows,
    part_statistics,
)
from priormtl.selection import find_partition, split_by_fold
from summarized_rows import assert_same

FOLDS = np.arange(24) % 3


def table():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)), rng.normal(size=24)
    codes = np.arange(24) // 12
    return Table(X, y, codes, ("a", "b"), None, None)


def judge(split, number, part=None):
    """Stands for a score: what it was told."""
    return number, split.test.tolist(), part


def test_statistics_train_on_what_rows_train_on():
    splits = split_by_fold(FOLDS)
    data = table().to_tasks()
    checked = []
    by_rows = part_rows(
        table(), data, splits, judge, lambda train, number: checked.append(number)
    )
    folds = find_partition(splits, 24)
    by_statistics = part_statistics(table(), folds, splits, judge)
    assert checked == [0, 1, 2]
    assert by_rows.whole is data
    assert_same(by_statistics.whole, summarize_tasks(data))
    pairs = zip(by_rows.folds, by_statistics.folds, strict=True)
    for (rows, _), (merged, _) in pairs:
        assert_same(merged, summarize_tasks(rows))


def test_judges_get_the_statistics_of_their_rows_where_these_are_known():
    splits = split_by_fold(FOLDS)
    parts = part_statistics(table(), FOLDS, splits, judge)
    for k, (_, (number, test, part)) in enumerate(parts.folds):
        assert (number, test) == (k, np.flatnonzero(k == FOLDS).tolist())
        assert_same(part, summarize_tasks(table().take(np.array(test)).to_tasks()))
    data = table().to_tasks()
    rows = part_rows(table(), data, splits, judge, lambda train, number: None)
    assert [part for _, (_, _, part) in rows.folds] == [None] * 3


def test_a_task_that_only_one_part_holds_is_named():
    a, b = (summarize(np.eye(2), np.ones(2), task=[name] * 2) for name in "ab")
    always = (a + b).only(np.zeros(2, dtype=bool))
    with pytest.raises(ValueError, match=r"trains without \['a'\]"):
        merge_folds([a, b], always, [None, None])


@pytest.mark.parametrize("parts", [[], [1.0, 2.0]])
def test_parts_are_several_statistics(parts):
    with pytest.raises(TypeError, match="two or more TaskStatistics"):
        check_parts(parts)
