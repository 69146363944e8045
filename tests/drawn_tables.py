"""Tables with texts, gaps and weights, their statistics, and naive twins of both."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa

from priormtl import MultiTaskRegressor, summarize

MOMENTS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")
EXAM_FEATURES = ["hours", "books", "sex"]


def exam_frame(n=240, seed=0, gaps=0.0):
    """Rows in which hours and books matter, in all schools nearly alike."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "pupil": np.arange(n),
            "hours": rng.normal(5.0, 2.0, n),
            "books": rng.integers(0, 20, n).astype(float),
            "sex": rng.choice(["f", "m"], n),
            "school": rng.choice(["north", "south", "west"], n),
        }
    )
    frame["score"] = 3 * frame["hours"] + frame["books"] + rng.normal(0, 2, n)
    frame["passed"] = np.where(frame["score"] > frame["score"].median(), "yes", "no")
    for name in EXAM_FEATURES:
        frame.loc[rng.uniform(size=n) < gaps, name] = None
    return frame


def mixed_frame(n=200, seed=0, gaps=0.0):
    """Rows of five tasks; a task and a colour come late, gaps are in all features."""
    rng = np.random.default_rng(seed)
    late = np.arange(n) > 0.7 * n
    frame = pd.DataFrame(
        {
            "size": 1e4 + rng.standard_normal(n),
            "colour": rng.choice(["red", "blue", "green"], n),
            "count": rng.integers(0, 5, n).astype(float),
            "school": rng.choice(["a", "b", "c", "d"], n),
            "score": rng.standard_normal(n),
            "w": rng.uniform(0.5, 2.0, n),
            "id": np.arange(n),
        }
    )
    frame.loc[late & (frame["count"] > 3), "school"] = "e"
    frame.loc[late & (frame["count"] < 1), "colour"] = "amber"
    for name in ("size", "colour", "count"):
        frame.loc[rng.uniform(size=n) < gaps, name] = None
    return frame


def to_arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def encode_naively(frame, missing="error", weighted=True):
    """Features as the engines name them, by pandas."""
    weight = frame["w"] if weighted else pd.Series(1.0, frame.index)
    if missing == "drop":
        frame = frame.dropna()
        weight = weight[frame.index]
    columns = {}
    for name in ("size", "colour", "count"):
        column, observed = frame[name], frame[name].notna()
        for value in [None] if name != "colour" else sorted(column.dropna().unique()):
            numbers = column if value is None else (column == value)
            numbers = numbers.astype(float)
            mean = np.average(numbers[observed], weights=weight[observed])
            key = name if value is None else f"{name}={value}"
            columns[key] = np.where(observed, numbers, mean)
    return pd.DataFrame(columns, index=frame.index), frame, weight


def summarize_naively(frame, missing="error", weighted=True):
    X, rows, weight = encode_naively(frame, missing, weighted)
    return summarize(X, rows["score"], rows["school"].to_list(), weight.to_numpy())


def fit_tightly(statistics):
    """Model whose solver leaves no doubt about the ninth digit."""
    model = MultiTaskRegressor(0.3, standardize=True, tol=1e-13)
    return model.fit_statistics(statistics)


def assert_same_model(a, b):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=1e-9, atol=1e-9)


# Rows without names, and what it means that their statistics agree.


def random_rows(seed, n=40, d=3, m=3):
    """X, y, task labels and weights; every task has rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)) + 3.0, rng.normal(size=n) - 2.0
    task = np.concatenate([np.arange(m), rng.integers(0, m, n - m)])
    return X, y, task, rng.uniform(0.5, 2.0, n)


def part_of(rows, kept):
    X, y, task, weight = (values[kept] for values in rows)
    return summarize(X, y, task, weight)


def assert_same_statistics(a, b, rtol=1e-12):
    assert a.features == b.features
    assert_close(a, b, rtol)


def assert_same_columns(a, b, rtol=1e-9):
    """The same names and moments, however the columns were read."""
    assert a.features.names == b.features.names
    for name in MOMENTS:
        assert getattr(a, name).shape == getattr(b, name).shape
    assert_close(a, b, rtol, least=1.0)


def assert_close(a, b, rtol, least=0.0):
    """Moments of the same tasks agree, relative to the largest of their kind."""
    assert a.tasks == b.tasks
    for name in MOMENTS:
        mine, other = np.broadcast_arrays(getattr(a, name), getattr(b, name))
        atol = rtol * np.abs(other).max(initial=least)
        np.testing.assert_allclose(mine, other, rtol=rtol, atol=atol, err_msg=name)


def assert_same_bits(a, b):
    assert a.tasks == b.tasks
    assert a.features == b.features
    for name in MOMENTS:
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
