"""What the last rows of a task say about its next ones, beside the model.

Two forecasts that need no parameters are mixed with that of the model μ, as rows of
forward folds say: the last target of the task, and μ + the last residual of the task,

    μ(x) + w₁ (y_last − μ(x)) + w₂ (y_last − μ(x_last)),    w ≥ 0, w₁ + w₂ ≤ 1.

The first is what a level without trend would be, the second what a level that wanders
about the model would. Both are hard to beat where the effects of other columns do not
hold on later rows. Weights are those of stacking (Breiman, "Stacked regressions",
Machine Learning 1996), which trees have as well: see ``mix``.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize

from priormtl._arrays import Array, Index
from priormtl.losses import Family, Squared


class History(NamedTuple):
    """Last targets and residuals of tasks, and their weights in forecasts."""

    value: Array  # (m,) last target of each task; the mean, where several are last
    residual: Array  # (m,) of the model at the same rows
    ends: Array  # (m,) their time; −∞ for tasks without rows
    weights: Array  # (2,) of the last target, and of the last residual

    @classmethod
    def of(
        cls, y: Array, scores: Array, codes: Index, time: Array, weight: Array, m: int
    ) -> Self:
        """History of training rows that a model gives these scores."""
        ends = np.full(m, -np.inf)
        np.maximum.at(ends, codes, time)
        last = time == ends[codes]
        codes, weight = codes[last], weight[last]
        total = np.maximum(np.bincount(codes, weight, m), 1e-300)
        value = np.bincount(codes, weight * y[last], m) / total
        residual = np.bincount(codes, weight * (y - scores)[last], m) / total
        return cls(value, residual, ends, np.zeros(2))

    def extend(
        self, y: Array, scores: Array, codes: Index, time: Array, weight: Array, m: int
    ) -> Self:
        """History after further rows, perhaps of further tasks."""
        later = type(self).of(y, scores, codes, time, weight, m)
        more = m - len(self.ends)
        old = [np.append(part, np.zeros(more)) for part in self[:2]]
        ends = np.append(self.ends, np.full(more, -np.inf))
        is_later = later.ends > ends
        return self._replace(
            value=np.where(is_later, later.value, old[0]),
            residual=np.where(is_later, later.residual, old[1]),
            ends=np.maximum(ends, later.ends),
        )

    def forecasts(self, scores: Array, codes: Index, time: Array) -> Array:
        """Both forecasts of rows (2, n), which the model gives these scores.

        Rows of unknown tasks (codes below zero), and rows that are not later than the
        last one, have those of the model.
        """
        both = np.stack([self.value[codes], scores + self.residual[codes]])
        known = (codes >= 0) & np.isfinite(self.ends[codes]) & (time > self.ends[codes])
        return np.where(known, both, scores)

    def add(self, scores: Array, codes: Index, time: Array) -> Array:
        """Mixed forecasts (n,)."""
        if not self.weights.any():
            return scores
        apart = self.forecasts(scores, codes, time) - scores
        return np.asarray(scores + self.weights @ apart)

    def fits(self, m: int) -> bool:
        """Whether it is one of m tasks, as files must be."""
        shapes = self.value.shape, self.residual.shape, self.ends.shape
        finite = all(bool(np.all(np.isfinite(part))) for part in self)
        return shapes == ((m,), (m,), (m,)) and self.weights.shape == (2,) and finite


def mix(
    family: Family | Squared, y: Array, linear: Array, others: Array, shares: Array
) -> tuple[Array, float]:
    """Weights of other models that minimise the loss of held-out rows, and the gain.

    ``linear`` are scores (n,), or (n, K) of K classes; ``others`` are those of k other
    models, (k, n) or (k, n, K), and ``shares`` (n,) weights of rows. Weights are at
    least zero and sum to at most one. The gain is in standard errors. Up to one of
    them, weights are zero; else they are shrunk by 1 − 1/z², where z is that of the
    weights.
    """
    apart, none = others - linear, np.zeros(len(others))

    def losses(weights: Array) -> Array:
        loss = family.loss(linear + np.tensordot(weights, apart, 1), y)
        return shares * (loss if loss.ndim == 1 else loss.sum(axis=1))

    before = losses(none)
    if len(y) < 2 or not before.any():
        return none, 0.0
    found = minimize(
        lambda weights: float(losses(weights).sum() / before.sum()),
        np.full(len(none), 0.5 / len(none)),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(none),
        constraints={"type": "ineq", "fun": lambda weights: 1.0 - weights.sum()},
        options={"ftol": 1e-10},
    )
    least_share = 1e-3  # of a model; below, it is left out
    weights = np.where(found.x > least_share, found.x, 0.0)
    gains = before - losses(weights)
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    gain = float(gains.mean()) / error if error > 0.0 else 0.0
    if gain <= 1.0:
        return none, gain
    # Near zero the gain is quadratic in the weights, whose z is twice as large.
    return weights * (1.0 - (0.5 / gain) ** 2), gain
