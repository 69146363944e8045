"""Tables with texts, gaps and weights, and naive twins that encode them by pandas."""

import numpy as np
import pandas as pd
import pyarrow as pa

from priormtl import MultiTaskRegressor, summarize

FIELDS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


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


def encode(frame, missing="error", weighted=True):
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


def naive(frame, missing="error", weighted=True):
    X, rows, weight = encode(frame, missing, weighted)
    return summarize(X, rows["score"], rows["school"].to_list(), weight.to_numpy())


def assert_same(a, b, rtol=1e-9):
    assert a.tasks == b.tasks
    assert a.features.names == b.features.names
    for name in FIELDS:
        x, y = getattr(a, name), getattr(b, name)
        assert x.shape == y.shape
        scale = np.abs(y).max(initial=1.0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale, err_msg=name)


def fit_tightly(statistics):
    """Model whose solver leaves no doubt about the ninth digit."""
    model = MultiTaskRegressor(0.3, standardize=True, tol=1e-13)
    return model.fit_statistics(statistics)


def assert_same_model(a, b):
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=1e-9, atol=1e-9)
