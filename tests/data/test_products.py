"""Products of centred rows: batches of tasks and single chunks are the same sums."""

from itertools import pairwise

import numpy as np
import pytest

from priormtl.data import from_codes, summarize_tasks, summarizing


def random_rows(weighted, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    starts = np.array([0, 1, 8, 11, 30])
    X = offset + rng.standard_normal((30, 3))
    weight = 0.5 + rng.random(30) if weighted else np.ones(30)
    return X, offset + rng.standard_normal(30), weight, starts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_many_tasks_at_once_are_one_after_the_other(weighted, offset):
    X, y, weight, starts = random_rows(weighted, offset)
    together = summarizing.task_products(X, y, weight, starts)
    for i, (a, b) in enumerate(pairwise(starts)):
        part = summarizing.centred_products(X[a:b], y[a:b], weight[a:b])
        for ours, alone in zip(together, summarizing._one_task(part), strict=True):
            assert ours[i] == pytest.approx(alone[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("cells", [4, 20, 60, 10**6])
def test_any_batches_give_the_same_statistics(cells, monkeypatch):
    X, y, weight, starts = random_rows(weighted=True)
    codes = np.repeat(np.arange(4), np.diff(starts))
    data = from_codes(X, y, codes, tuple("abcd"), weight)
    whole = summarize_tasks(data)
    monkeypatch.setattr(summarizing, "CHUNK_CELLS", cells)
    batched = summarize_tasks(data)
    for name in ("weight", "x_mean", "y_mean", "xx", "xy", "yy"):
        ours, expected = getattr(batched, name), getattr(whole, name)
        assert ours == pytest.approx(expected, rel=1e-11, abs=1e-12)


def test_constants_leave_no_noise():
    X, y, weight, starts = random_rows(weighted=True)
    X[:, 1], y[1:8] = 0.1 + 1e8, 1.0 / 3.0
    found = summarizing.task_products(X, y, weight, starts)
    assert not found.xx[:, 1].any()
    assert not found.xx[:, :, 1].any()
    assert not found.xy[1].any()
    assert found.yy[1] == 0.0
    assert found.xx[2, 0, 0] > 0.0
