"""Lassos of many tasks by coordinate descent, one weight per feature.

Each task minimises its least squares plus Σ_j weight_j |w_j|. Passes over all features
alternate with passes over those in use until one over all gains little: no more than
``enough``, or than a small share of what passes have gained in the mean. Features
without curvature stay where they are.
"""

from typing import Any, NamedTuple

from priormtl._arrays import Array, Index
from priormtl.solvers.compile import compiled, inlined

__all__ = ["Samples", "lasso_by_gram", "lasso_by_samples"]


LAST_GAIN = 0.1  # share of the mean gain below which a further pass does not pay


class Samples(NamedTuple):
    """Where the samples of each task lie, and what is left of their targets."""

    rows: Array  # (d, n) all samples' values of a feature lie together
    rest: Array  # scores minus targets, task after task; written
    first: Index  # (m,) each task's first sample
    place: Index  # (m,) and its place in ``rest``
    length: Index  # (m,) samples of each task
    curvature: Array  # (m, d) squared lengths of the features


@inlined
def shrink(value: float, amount: float) -> float:
    """Soft threshold."""
    if value > amount:
        return value - amount
    if value < -amount:
        return value + amount
    return 0.0


@compiled
def gram_pass(
    gram: Array, slope: Array, w: Array, weight: Array, among_used: bool
) -> float:
    """One pass over a task's features; what it gained at least."""
    gain, d = 0.0, len(w)
    for j in range(d):
        curve = gram[j, j]
        if curve <= 0.0 or (among_used and w[j] == 0.0):
            continue
        move = shrink(w[j] - slope[j] / curve, weight[j] / curve) - w[j]
        if move != 0.0:
            w[j] += move
            gain += 0.5 * curve * move * move
            for k in range(d):
                slope[k] += move * gram[j, k]
    return gain


@compiled
def sample_pass(
    samples: Any, i: int, w: Array, weight: Array, among_used: bool
) -> float:
    """One pass over the features of task ``i``; what it gained at least."""
    gain = 0.0
    first, count, place = samples.first[i], samples.length[i], samples.place[i]
    rest = samples.rest[place : place + count]
    for j in range(len(w)):
        curve = samples.curvature[i, j]
        if curve <= 0.0 or (among_used and w[j] == 0.0):
            continue
        row = samples.rows[j, first : first + count]
        slope = 0.0
        for a in range(count):
            slope += row[a] * rest[a]
        move = shrink(w[j] - slope / curve, weight[j] / curve) - w[j]
        if move != 0.0:
            w[j] += move
            gain += 0.5 * curve * move * move
            for a in range(count):
                rest[a] += move * row[a]
    return gain


@compiled
def lasso_by_gram(
    gram: Array, slope: Array, W: Array, weight: Array, limits: tuple[float, int]
) -> None:
    """Improve W (m, d) in place, ``slope`` (m, d) being the gradient of its fit.

    ``gram`` is (m, d, d), or (1, d, d) where all tasks have the same.
    """
    enough, most = limits
    for i in range(len(W)):
        own = gram[min(i, len(gram) - 1)]
        total, among_used = 0.0, False
        for count in range(most):
            gain = gram_pass(own, slope[i], W[i], weight, among_used)
            total += gain
            little = gain <= max(enough, LAST_GAIN * total / (count + 1))
            if little and not among_used:
                break
            among_used = not little


@compiled
def lasso_by_samples(
    samples: Any, W: Array, weight: Array, limits: tuple[float, int]
) -> None:
    """Improve W (m, d) in place."""
    enough, most = limits
    for i in range(len(W)):
        total, among_used = 0.0, False
        for count in range(most):
            gain = sample_pass(samples, i, W[i], weight, among_used)
            total += gain
            little = gain <= max(enough, LAST_GAIN * total / (count + 1))
            if little and not among_used:
                break
            among_used = not little
