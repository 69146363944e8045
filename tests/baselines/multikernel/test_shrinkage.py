"""Compiled loops against the equations that they solve."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.shrinkage import (
    block_slopes,
    power_norms,
    power_shares,
)


@pytest.mark.parametrize("power", [1.01, 2.0, 100.0])
def test_slopes_balance_what_is_left(power):
    values = np.abs(np.random.default_rng(0).normal(size=(5, 6)))
    values[2] = 0.0
    v = block_slopes(values, 0.7, 1.3, power)
    left = np.maximum(values - 0.7 * 1.3 * v[:, None], 0).sum(axis=1)
    np.testing.assert_allclose(left, 1.3 * v**power, rtol=1e-9, atol=1e-14)
    assert v[2] == 0.0


@pytest.mark.parametrize("p", [2.5, 4.0, 10.0])
def test_shares_have_norm_one(p):
    lengths = np.abs(np.random.default_rng(0).normal(size=(5, 6)))
    lengths[1, 1] = 0.0
    high = np.linalg.norm(lengths, p, axis=1)
    high[2] = 0.0
    n = power_norms(lengths, high, 0.5, p)
    u = power_shares(lengths, n, 0.5, p)
    assert n[2] == 0.0
    assert not u[2].any()
    alive = [0, 1, 3, 4]
    np.testing.assert_allclose(np.linalg.norm(u[alive], p, axis=1), 1.0)
    np.testing.assert_allclose(
        (n[:, None] * u + 0.5 * u ** (p - 1))[alive], lengths[alive]
    )
