"""Matrices of parts, read some tasks at a time, add up to those of all rows."""

from functools import reduce
from operator import add

import numpy as np
import pytest

from priormtl.data import align_tasks, on_disk, summarize
from priormtl.data.on_disk import MappedGrams

TASKS = ("u", "v", "w", "z")


def draw_parts(count=3, seed=0, offset=0.0):
    """Statistics in memory; not every part has rows of every task, and z has none."""
    rng = np.random.default_rng(seed)
    parts = []
    for k in range(count):
        X = rng.normal(offset + k, 1.0, size=(20, 5))
        task = rng.choice(TASKS[: 1 + k], 20).tolist()
        weight = rng.uniform(0.5, 2.0, 20)
        part = summarize(X, rng.normal(size=20), task, weight)
        parts.append(align_tasks(part, TASKS))
    return parts


def map_parts(parts):
    return reduce(add, [part.mapped_gram() for part in parts])


@pytest.fixture(params=[1, 60, 2**20])
def block_numbers(request, monkeypatch):
    monkeypatch.setattr(on_disk, "BLOCK_NUMBERS", request.param)


@pytest.mark.usefixtures("block_numbers")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_are_those_of_statistics_in_memory(count):
    parts = draw_parts(count)
    expected, found = reduce(add, parts).xx, map_parts(parts)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(np.asarray(found), expected, **close)
    diagonals = np.diagonal(expected, axis1=1, axis2=2)
    np.testing.assert_allclose(found.diagonals(), diagonals, **close)
    rows = np.array([4, 1])
    read = found.read(slice(1, 3), rows)
    np.testing.assert_allclose(read, expected[1:3, rows], **close)
    factors = np.random.default_rng(1).normal(size=(4, 3, 2))
    products = found.products(factors, rows)
    np.testing.assert_allclose(products, factors @ expected[:, rows], **close)


def test_they_look_like_an_array():
    found = map_parts(draw_parts())
    assert found.shape == np.asarray(found).shape == (4, 5, 5)
    assert (len(found), found.size, found.nbytes) == (4, 100, 800)
    assert found.dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(found, copy=False)
    with pytest.raises(TypeError, match="unsupported"):
        found + 1


@pytest.mark.usefixtures("block_numbers")
def test_tasks_left_out_are_zero_and_the_others_as_they_were():
    parts, kept = draw_parts(), np.array([False, True, True, False])
    found = map_parts(parts).only(kept)
    expected = map_parts([part.only(kept) for part in parts])
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert not np.asarray(found)[~kept].any()
    assert not found.diagonals()[~kept].any()
    assert not found.products(np.ones((4, 1, 5)))[~kept].any()
    np.testing.assert_array_equal(
        np.asarray(found)[kept], np.asarray(map_parts(parts))[kept]
    )


def test_parts_without_rows_are_not_read():
    first, *_ = draw_parts()  # of task u alone
    broken = first.mapped_gram().parts[0]._replace(matrices=None)
    unread = MappedGrams((4, 5, 5), (broken,)).only(np.array([False, True, True, True]))
    assert unread.parts == ()
    assert not np.asarray(unread).any()
    assert not unread.products(np.ones((4, 2, 5))).any()


def test_a_shared_matrix_is_everybodys():
    shared = summarize(np.eye(3), np.arange(6.0).reshape(3, 2))
    found = shared.mapped_gram()
    np.testing.assert_array_equal(found, np.broadcast_to(shared.xx, (2, 3, 3)))
