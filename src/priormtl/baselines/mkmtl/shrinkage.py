"""Compiled loops: scalar equations of the proximal operators of MKMTL's norms."""

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.kernels import compiled

MOST_STEPS = 100
CLOSE = 1e-12  # relative step; the last Newton step is then accurate to rounding


@compiled
def block_slopes(values: Array, step: float, T: float, power: float) -> Array:
    """v_j with Σ_l (σ_jl − step T v_j)₊ = T v_j^power, for each row of ``values``."""
    found = np.zeros(len(values))
    for j in range(len(values)):
        largest = values[j].max()
        if largest == 0.0:
            continue
        low = 0.0
        high = min((values[j].sum() / T) ** (1.0 / power), largest / (step * T))
        v = high
        for _ in range(MOST_STEPS):
            factor = T * v ** (power - 1.0)
            value, slope = factor * v, power * factor
            for sigma in values[j]:
                left = sigma - step * T * v
                if left > 0.0:
                    value -= left
                    slope += step * T
            if value > 0.0:
                high = v
            else:
                low = v
            proposal = v - value / slope if slope > 0.0 else low
            if not low <= proposal <= high:
                proposal = 0.5 * (low + high)
            done = abs(proposal - v) <= CLOSE * v
            v = proposal
            if done:
                break
        found[j] = v
    return found


@compiled
def power_share(length: float, n: float, shrinkage: float, p: float, u: float) -> float:
    """Root u of n u + shrinkage u^{p−1} = length, from a start above zero."""
    for _ in range(MOST_STEPS):
        factor = shrinkage * u ** (p - 2.0)
        proposal = u - (n * u + factor * u - length) / (n + (p - 1.0) * factor)
        # The function is convex: after the first step Newton approaches from the right.
        done = abs(proposal - u) <= CLOSE * u
        u = proposal
        if done:
            break
    return u


@compiled
def power_shares(lengths: Array, norms: Array, shrinkage: float, p: float) -> Array:
    """u (k, m) with n_j u + shrinkage u^{p−1} = length; zero where n_j is."""
    shares = np.zeros(lengths.shape)
    for j in range(len(lengths)):
        for i in range(lengths.shape[1]):
            if norms[j] > 0.0 and lengths[j, i] > 0.0:
                start = lengths[j, i] / norms[j]
                bound = (lengths[j, i] / shrinkage) ** (1.0 / (p - 1.0))
                shares[j, i] = power_share(
                    lengths[j, i], norms[j], shrinkage, p, min(start, bound)
                )
    return shares


@compiled
def power_norms(lengths: Array, high: Array, shrinkage: float, p: float) -> Array:
    """p-norm n_j of the proximal point of shrinkage · p-norm, for each row.

    The shares u = t / n have p-norm one; ``high``: p-norms of the rows (0: skip).
    """
    found = np.zeros(len(lengths))
    u = np.zeros(lengths.shape[1])
    for j in range(len(lengths)):
        if high[j] == 0.0:
            continue
        low, top = max(high[j] - shrinkage, 0.0), high[j]
        n = low if low > 0.0 else 0.5 * top
        for i in range(len(u)):
            bound = (lengths[j, i] / shrinkage) ** (1.0 / (p - 1.0))
            u[i] = min(lengths[j, i] / n, bound)
        for _ in range(MOST_STEPS):
            total, fall = 0.0, 0.0
            for i in range(len(u)):
                if lengths[j, i] > 0.0:
                    u[i] = power_share(lengths[j, i], n, shrinkage, p, u[i])
                    factor = u[i] ** (p - 2.0)
                    powers = factor * u[i] * u[i]
                    total += powers
                    fall += powers / (n + shrinkage * (p - 1.0) * factor)
            # Newton on the logarithm, which is closer to linear.
            value, slope = np.log(total), p * fall / total
            if value > 0.0:
                low = n
            else:
                top = n
            proposal = n + value / slope
            if not low <= proposal <= top:
                proposal = 0.5 * (low + top)
            done = abs(proposal - n) <= CLOSE * n
            n = proposal
            if done:
                break
        found[j] = n
    return found
