"""Rows of some tasks, and what it means that their statistics agree."""

from fractions import Fraction

import numpy as np

from priormtl.data import summarize

ARRAYS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


def random_rows(seed, n=40, d=3, m=3):
    """X, y, task labels and weights; every task has rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)) + 3.0, rng.normal(size=n) - 2.0
    task = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    return X, y, task, rng.uniform(0.5, 2.0, n)


def part_of(rows, kept):
    X, y, task, weight = (values[kept] for values in rows)
    return summarize(X, y, task, weight)


def assert_same(a, b, rtol=1e-12):
    assert a.tasks == b.tasks
    assert a.features == b.features
    for name in ARRAYS:
        mine, other = getattr(a, name), getattr(b, name)
        mine, other = np.broadcast_arrays(mine, other)
        scale = np.abs(other).max(initial=0.0)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=rtol * scale)


def assert_same_bits(a, b):
    assert a.tasks == b.tasks
    assert a.features == b.features
    for name in ARRAYS:
        mine, other = getattr(a, name), getattr(b, name)
        assert mine.shape == other.shape
        assert mine.tobytes() == other.tobytes()


def exact_moments(X, y):
    """Means and centred moments in rational numbers."""
    columns = [[Fraction(v) for v in column] for column in (*X.T, y)]
    means = [sum(column) / len(y) for column in columns]
    centred = [
        [value - mean for value in column]
        for column, mean in zip(columns, means, strict=True)
    ]
    moments = [
        [float(sum(u * v for u, v in zip(a, b, strict=True))) for b in centred]
        for a in centred
    ]
    return np.array([float(mean) for mean in means]), np.array(moments)
