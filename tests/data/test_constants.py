"""Constant columns leave no noise behind."""

import numpy as np
import pytest

from priormtl.data import centre_samples, from_labels, summarize_tasks


@pytest.mark.parametrize("value", [0.1, -3.7, 1e8 + 0.3, 1e-9])
def test_constant_columns_have_no_deviations(value):
    X = np.random.default_rng(0).standard_normal((50, 3))
    X[:, 1] = value
    data = from_labels(X, X[:, 0], [0] * 20 + [1] * 30)
    assert not summarize_tasks(data).xx[:, 1].any()
    assert not centre_samples(data).squared_deviations()[:, 1].any()


def test_small_deviations_are_data():
    X = np.full((20, 1), 1e6)
    X[-1] += 1e-8
    data = from_labels(X, np.arange(20.0), [0] * 20)
    assert centre_samples(data).squared_deviations().all()
    assert summarize_tasks(data).xx.all()
