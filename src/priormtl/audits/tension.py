"""Tension: how far the rows disagree with a relation, beyond what chance brings."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.special import gammaincc

from priormtl._arrays import Array
from priormtl.audits.evidence import Curvature, Evidence
from priormtl.audits.statements import TiedTasks
from priormtl.priors import QuadraticPrior

__all__ = ["UNKNOWN", "Tension", "feature_tensions", "tie_tensions", "verdicts"]

UNINFORMED = 0.9  # share of the variance that rows must have taken away to judge
LARGEST = 1e6  # slack of coefficients that are not tied at all, over their own spread
FALSE_SHARE = 0.05  # of disagreements that may be chance (Benjamini and Hochberg)


class Tension(NamedTuple):
    """Squared disagreement over its expectation by chance, and its p value."""

    ratio: float
    p_value: float


UNKNOWN = Tension(float("nan"), float("nan"))


def feature_tensions(D: csr_array, evidence: Evidence) -> list[Tension]:
    """Tension of each row of D (s, d), over all tasks at once.

    With u = d P the estimates that should vanish, the statistic is Σ u_k²/S_k over
    the task graph's modes k, S being the variance that rows, ties and ridge leave.
    Its distribution by chance is a weighted sum of χ², matched by one χ² in mean and
    variance (Satterthwaite).
    """
    rows, curvature = D.toarray().T, evidence.curvature
    misfits = (D @ evidence.coef) @ curvature.vectors
    left, varies = (np.empty(misfits.shape) for _ in range(2))
    noise = curvature.gram + np.diag(curvature.ridge)
    for same, _, factor in curvature.modes:
        solved = cho_solve(factor, rows)
        left[:, same] = np.sum(rows * solved, axis=0)[:, np.newaxis]
        varies[:, same] = np.sum(solved * (noise @ solved), axis=0)[:, np.newaxis]
    judged = _determined(D, curvature)
    return [
        _tension(u, s, v, evidence.noise) if known else UNKNOWN
        for u, s, v, known in zip(misfits, left, varies, judged, strict=True)
    ]


def _determined(D: csr_array, curvature: Curvature) -> np.ndarray:
    """Whether rows say anything on a relation, and on each feature in it (s,)."""
    _, ties, factor = curvature.modes[0]  # the loosest
    inverse = cho_solve(factor, np.eye(len(ties)))
    rows = D.toarray()
    before = rows**2 @ (1.0 / curvature.ridge)
    left = np.sum(rows * (rows @ inverse), axis=1)
    unknown = np.diag(inverse) * curvature.ridge >= UNINFORMED
    about = (rows != 0).astype(np.float64) @ unknown
    return (before > 0) & (left < UNINFORMED * before) & (about == 0)


def tie_tensions(
    ties: Sequence[TiedTasks], evidence: Evidence, grams: Array, prior: QuadraticPrior
) -> list[Tension]:
    """Whether tied tasks, each estimated on its own, differ by more than ties allow.

    ``grams`` (m, d, d) are the tasks' own; the statistic is uᵀ S⁻¹ u for the contrast
    u (d,) of their coefficients. A tie of strength ε between tasks says that they
    differ by noise/ε, which S includes.
    """
    left: Array = np.linalg.inv(grams + np.diag(evidence.curvature.ridge)).astype(
        np.float64
    )
    varies = left @ grams @ left
    weights = (
        np.ones(grams.shape[1]) if prior.tie_weights is None else prior.tie_weights
    )
    with np.errstate(divide="ignore"):
        slack = np.minimum(
            1.0 / (prior.epsilon * weights), LARGEST / evidence.curvature.ridge
        )
    return [_tie_tension(tie, evidence, left, varies, slack) for tie in ties]


def _tie_tension(
    tie: TiedTasks, evidence: Evidence, left: Array, varies: Array, slack: Array
) -> Tension:
    u = evidence.coef[:, tie.tasks] @ tie.contrast
    squares = tie.contrast**2
    allowed = np.diag(slack / tie.statement.weight)
    factor = cho_factor(np.tensordot(squares, left[tie.tasks], axes=1) + allowed)
    spread = np.tensordot(squares, varies[tie.tasks], axes=1) + allowed
    weights = cho_solve(factor, spread)
    statistic = float(u @ cho_solve(factor, u)) / evidence.noise
    return _match(
        statistic, float(np.trace(weights)), float(np.sum(weights * weights.T))
    )


def verdicts(tensions: list[Tension]) -> list[str]:
    """Words for each; "disagrees" with at most a twentieth expected to be chance."""
    p = np.array([tension.p_value for tension in tensions])
    known = np.flatnonzero(~np.isnan(p))
    ranked = np.sort(p[known])
    below = ranked <= FALSE_SHARE * np.arange(1, len(ranked) + 1) / max(1, len(ranked))
    limit = ranked[below].max() if below.any() else -1.0
    words = np.where(p <= limit, "disagrees", "agrees").astype(object)
    words[np.isnan(p)] = "cannot be judged"
    return [str(word) for word in words]


def _tension(u: Array, left: Array, varies: Array, noise: float) -> Tension:
    weights = varies / left
    statistic = float(np.sum(u**2 / left)) / noise
    return _match(statistic, float(weights.sum()), float(np.sum(weights**2)))


def _match(statistic: float, mean: float, half_variance: float) -> Tension:
    """χ² with the mean and variance of the statistic by chance."""
    if not mean > 0 or not half_variance > 0:
        return UNKNOWN
    unit, degrees = half_variance / mean, mean**2 / half_variance
    p_value = float(gammaincc(degrees / 2.0, statistic / unit / 2.0))
    return Tension(float(statistic / mean), p_value)
