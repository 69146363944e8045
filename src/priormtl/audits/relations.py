"""Tests of statements by each task's own rows: what is said, held against estimates.

A statement is about numbers v_i = dᵀ p_i, one per task: a relation says that all are
zero. Least squares on the rows of task i alone estimate v_i without any bias of prior,
penalty or ties, with variance σ_i² dᵀ G_i⁻¹ d. σ_i² is the task's own, shrunken towards
the others' with ν degrees of freedom (Smyth 2004). How far these are alike is not
known, so that there are several s_i and ν, with weights w (``selection.outlier_test``):

    t_i = v̂_i / (s_i √(dᵀ G_i⁻¹ d)) ~ T_ν,    z_i = Φ⁻¹(Σ w T_ν(t_i)) ~ N(0, 1).

A form of statements is a function from these scores to a ``StatementTest``: statistic,
degrees of freedom, p-value. A relation can fail in all tasks alike or in each in its
own way, so that its test has two parts that are independent if it holds,

    Z² = (Σ w_i z_i)² / Σ w_i²  ~ χ²_1,    Σ z_i² − Z²  ~ χ²_{m−1},

and its p-value is that of the smaller one of two (Šidák). As all s_i share an estimate
s₀, whose error scales all z_i alike, χ² over its degrees becomes F.

Known values are targets. Signs, common and smooth effects are judged in ``statements``.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import fdtrc, ndtri, stdtr

from priormtl._arrays import Array
from priormtl.selection.outlier_test import Tasks


class StatementTest(NamedTuple):
    """Mean squared score, 1 if the statement holds; p-value; degrees of freedom."""

    statistic: float
    p_value: float
    degrees: float = float("nan")


UNKNOWN = StatementTest(float("nan"), float("nan"))


class Scores(NamedTuple):
    """Standard normal scores of the tasks that determine v, if it is as stated."""

    z: Array  # (k,)
    weights: Array  # (k,) reciprocal standard errors
    share: float  # of the rows of all tasks
    degrees: float  # of what the standard errors of all tasks have in common


def own_scores(
    tasks: Tasks, weight: Array, row: Array, target: Array | None = None
) -> Scores:
    """Scores of dᵀ p_i = target_i; ``weight`` (m,) counts rows, 0: left out."""
    if target is None:
        target = np.zeros(len(weight))
    # In units of features' deviations, in which the rows of U are orthogonal.
    root, row = tasks.root * np.sqrt(tasks.unit), row * np.sqrt(tasks.unit)
    sizes = np.linalg.norm(root, axis=2)
    unit = np.where(sizes > 0, sizes, 1.0)
    inside = np.einsum("mrd,d->mr", root, row) / unit
    unknown = float(row @ row) - np.sum(inside**2, axis=1)
    outside_rows = 1e-9  # share of a row d that the rows of a task may leave unknown
    known = (unknown <= outside_rows * float(row @ row)) & (weight > 0)
    part = inside[known] / unit[known]
    found = np.sum(part * tasks.target[known], axis=1) - target[known]
    noise, size = tasks.noise, np.sum(part**2, axis=1)
    # By the lower tail, which has digits where the upper one is 1.
    t = np.abs(found) / np.sqrt(size * noise.variances[:, known])
    lower = ndtri(noise.weights @ stdtr(noise.degrees[:, known], -t))
    # Where tails are zero, t stands for z, which it then is but for a factor.
    z = np.sign(found) * np.where(np.isfinite(lower), -lower, t[0])
    share = float(weight[known].sum() / max(weight.sum(), 1.0))
    weights = 1.0 / np.sqrt(size * noise.variance[known])
    return Scores(z, weights, share, noise.shared_degrees)


def relation_test(scores: Scores) -> StatementTest:
    """Whether v is zero in all tasks."""
    z, weights, _, degrees = scores
    k = len(z)
    if k == 0:
        return UNKNOWN
    common = float(weights @ z) ** 2 / float(weights @ weights)
    apart = max(float(z @ z) - common, 0.0)
    p = float(fdtrc(1.0, degrees, common))
    if k > 1:
        least = min(p, float(fdtrc(k - 1.0, degrees, apart / (k - 1.0))))
        p = -float(np.expm1(2.0 * np.log1p(-least))) if least < 1.0 else 1.0
    return StatementTest(float(z @ z) / k, p, float(k))


def relation_tests(
    D: csr_array, targets: Array, tasks: Tasks, weight: Array, least_share: float
) -> list[StatementTest]:
    """Test D P = targets row by row.

    UNKNOWN where too few rows of data are of tasks that determine a row of D.
    """
    found = []
    for row, target in zip(D.toarray(), targets, strict=True):
        scores = own_scores(tasks, weight, row, target)
        enough = scores.share >= least_share
        found.append(relation_test(scores) if enough else UNKNOWN)
    return found
