"""Compiled loops: weighted lassos of many tasks by coordinate descent.

Each task minimises its least squares plus Σ_j weight_j |w_j|. Passes over all features
alternate with passes over the non-zero ones. The loop ends when a pass over all
features gains at most ``accuracy``, or a small share of the mean gain of a pass.
Features without curvature are not changed.
"""

from typing import Any

from priormtl._arrays import Array
from priormtl.solvers.kernels import compiled, inlined

LAST_GAIN = 0.1  # stop when a pass gains less than this share of the mean gain


@inlined
def soft_threshold(value: float, amount: float) -> float:
    if value > amount:
        return value - amount
    if value < -amount:
        return value + amount
    return 0.0


@compiled
def gram_pass(
    gram: Array, slope: Array, w: Array, weight: Array, only_used: bool
) -> float:
    """One pass over a task's features; a lower bound of its gain."""
    gain, d = 0.0, len(w)
    for j in range(d):
        curve = gram[j, j]
        if curve <= 0.0 or (only_used and w[j] == 0.0):
            continue
        move = soft_threshold(w[j] - slope[j] / curve, weight[j] / curve) - w[j]
        if move != 0.0:
            w[j] += move
            gain += 0.5 * curve * move * move
            for k in range(d):
                slope[k] += move * gram[j, k]
    return gain


@compiled
def sample_pass(
    samples: Any, i: int, w: Array, weight: Array, only_used: bool
) -> float:
    """One pass over the features of task ``i``; a lower bound of its gain."""
    gain = 0.0
    first, count, place = samples.first[i], samples.length[i], samples.place[i]
    residual = samples.residual[place : place + count]
    for j in range(len(w)):
        curve = samples.curvature[i, j]
        if curve <= 0.0 or (only_used and w[j] == 0.0):
            continue
        row = samples.rows[j, first : first + count]
        slope = 0.0
        for a in range(count):
            slope += row[a] * residual[a]
        move = soft_threshold(w[j] - slope / curve, weight[j] / curve) - w[j]
        if move != 0.0:
            w[j] += move
            gain += 0.5 * curve * move * move
            for a in range(count):
                residual[a] += move * row[a]
    return gain


@compiled
def lasso_by_gram(
    gram: Array, slope: Array, W: Array, weight: Array, limits: tuple[float, int]
) -> None:
    """Improve W (m, d) in place, ``slope`` (m, d) being the gradient of its fit.

    ``gram`` is (m, d, d), or (1, d, d) where all tasks have the same.
    """
    accuracy, most = limits
    for i in range(len(W)):
        own = gram[min(i, len(gram) - 1)]
        total, only_used = 0.0, False
        for count in range(most):
            gain = gram_pass(own, slope[i], W[i], weight, only_used)
            total += gain
            little = gain <= max(accuracy, LAST_GAIN * total / (count + 1))
            if little and not only_used:
                break
            only_used = not little


@compiled
def lasso_by_samples(
    samples: Any, W: Array, weight: Array, limits: tuple[float, int]
) -> None:
    """Improve W (m, d) in place."""
    accuracy, most = limits
    for i in range(len(W)):
        total, only_used = 0.0, False
        for count in range(most):
            gain = sample_pass(samples, i, W[i], weight, only_used)
            total += gain
            little = gain <= max(accuracy, LAST_GAIN * total / (count + 1))
            if little and not only_used:
                break
            only_used = not little
