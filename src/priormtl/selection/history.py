"""What the last rows of a task say about its next ones, beside the model.

Simple forecasts are mixed with that of the model μ, as rows of forward folds say. With
the last row of the task at t_0, and the trend τ of the task, which is what lines and
curves of time add to μ, and which stands still at the end T of the training rows,

    y(t_0),   μ(x) + r,   μ(x) − δ,   μ(x) − δ + r,
    r = y(t_0) − μ(x(t_0)),   δ = τ(t) − τ(min(t, T)).

The first is what a level without trend would be, the second what a level that wanders
about the model would, and the others **damp** the trend: growth levels off more often
than it goes on (Gardner, McKenzie, "Forecasting trends in time series", Management
Science 1985). All are hard to beat where the effects of other columns do not hold on
later rows. ``combine`` finds their weights. ``mix`` is stacking of models whose
held-out rows are exchangeable, as trees and the linear model of a fold.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl.losses import Family, Squared

# Weight of an origin over that of the next one, in the choice of forecasts and trees.
# Chosen, as the numbers below, on the 27 tables of ``benchmarks.questions`` that are
# for choices, and on the same without their last fifth.
RECENT = 0.5
# Of ``combine``: how strongly weights are drawn to equal ones, which decides between
# forecasts that agree on folds, and the share of still trends, and what it may cost in
# the logarithm. Without trees the mean ratio to the best rival is 1.15 with weights as
# of ``mix``, 1.11 with those of ``combine`` and 1.07 with still trends.
EVEN = 0.1
MOST_DAMPED, WITHIN = 0.3, 0.2


class History(NamedTuple):
    """Last targets and residuals of tasks, and weights of forecasts made of them."""

    value: Array  # (m,) last target of each task; the mean, where several are last
    residual: Array  # (m,) of the model at the same rows
    ends: Array  # (m,) their time; −∞ for tasks without rows
    weights: Array  # (4,) of the forecasts, in their order
    columns: Index  # (k,) of the features, lines and curves of time
    still: Array  # (k,) their values at the latest time
    latest: float  # this time

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
        none = np.zeros(0, np.intp), np.zeros(0), float(np.finfo(np.float64).max)
        return cls(value, residual, ends, np.zeros(4), *none)

    def with_trend(self, X: Matrix, time: Array, columns: list[int]) -> Self:
        """The same with a trend in these columns of training rows."""
        row, found = int(np.argmax(time)), np.array(columns, np.intp)
        still = _part(X, np.array([row]), found)[0]
        return self._replace(columns=found, still=still, latest=float(time[row]))

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

    def growth(self, X: Matrix, codes: Index, time: Array, coef: Array) -> Array:
        """How far trends of rows have gone since the latest time, δ (n,)."""
        late = np.flatnonzero((codes >= 0) & (time > self.latest))
        delta = np.zeros(len(time))
        if len(late) and len(self.columns):
            apart = _part(X, late, self.columns) - self.still
            delta[late] = np.sum(apart * coef[codes[late]][:, self.columns], axis=1)
        return delta

    def forecasts(
        self, scores: Array, codes: Index, time: Array, delta: Array
    ) -> Array:
        """All forecasts of rows (4, n), which the model gives these scores.

        Rows of unknown tasks (codes below zero), and rows that are not later than the
        last one, have those of the model.
        """
        residual, still = self.residual[codes], scores - delta
        found = np.stack(
            [self.value[codes], scores + residual, still, still + residual]
        )
        known = (codes >= 0) & np.isfinite(self.ends[codes]) & (time > self.ends[codes])
        return np.where(known, found, scores)

    def add(self, scores: Array, codes: Index, time: Array, delta: Array) -> Array:
        """Mixed forecasts (n,)."""
        if not self.weights.any():
            return scores
        apart = self.forecasts(scores, codes, time, delta) - scores
        return np.asarray(scores + self.weights @ apart)

    def fits(self, m: int, d: int) -> bool:
        """Whether it is one of m tasks and d features, as files must be."""
        shapes = self.value.shape, self.residual.shape, self.ends.shape
        finite = all(bool(np.all(np.isfinite(part))) for part in self)
        fits = shapes == ((m,), (m,), (m,)) and self.weights.shape == (4,) and finite
        fits = fits and self.columns.ndim == 1 and self.columns.dtype.kind == "i"
        fits = fits and self.columns.shape == self.still.shape
        return fits and bool(np.all((self.columns >= 0) & (self.columns < d)))


def _part(X: Matrix, rows: Index, columns: Index) -> Array:
    part = X[rows][:, columns]
    return np.asarray(part.toarray() if issparse(part) else part, np.float64)


def combine(
    y: Array, scores: Array, others: Array, weight: Array, origin: Index
) -> Array:
    """Weights of other forecasts (k,) beside those of the model, for later rows.

    ``others`` (k, n) are forecasts of held-out rows, ``origin`` (n,) their fold. Rows
    of an origin share its surprises, so that these, and not rows, are what there are
    few of: with mean squared errors e_o(w) of forecasts mixed with weights w,

        Σ_o a_o log e_o(w) + λ |w − 1/K|²,   w ≥ 0,  Σ w = 1,

    is minimised, with later origins weighted more. The logarithm is the likelihood of
    errors whose scale each origin has for itself. From there weights move towards
    trends that stand still, the last two forecasts, as far as the first term grows by
    a little only: as in the rule of one standard error, the more cautious one of
    forecasts that are about as good.
    """
    errors = np.vstack([scores, others]) - y
    names = np.unique(origin[weight > 0])
    squares = (
        np.stack(
            [
                (errors[:, rows] * weight[rows])
                @ errors[:, rows].T
                / weight[rows].sum()
                for rows in (origin == name for name in names)
            ]
        )
        if len(names)
        else np.zeros((0, len(errors), len(errors)))
    )
    size = np.trace(squares, axis1=1, axis2=2) / len(errors)
    squares = squares[size > 0] / size[size > 0, np.newaxis, np.newaxis]
    count, k = len(squares), len(errors)
    if not count:
        return np.zeros(k - 1)
    share = RECENT ** np.arange(count)[::-1]
    share *= count / share.sum()
    exact = 1e-9  # relative error of forecasts that are as good as exact

    def lost(w: Array) -> tuple[float, Array]:
        """First term, and its slope."""
        products = squares @ w
        e = products @ w + exact
        return float(share @ np.log(e)), 2.0 * (share / e) @ products

    def objective(w: Array) -> tuple[float, Array]:
        value, slope = lost(w)
        apart = w - 1.0 / k
        return value + EVEN * float(apart @ apart), slope + 2.0 * EVEN * apart

    found = minimize(
        objective,
        np.full(k, 1.0 / k),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * k,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-10},
    )
    best = np.maximum(found.x, 0.0) / np.maximum(found.x, 0.0).sum()
    still = np.zeros(k)
    still[-2:] = 0.5
    most = lost(best)[0] + WITHIN * count
    for damped in np.linspace(MOST_DAMPED, 0.0, 13):
        w = best + damped * (still - best)
        if lost(w)[0] <= most:
            break
    return np.asarray(w[1:])


def weigh_origins(loss: Array, weight: Array, origin: Index) -> Array:
    """Weights of rows (n,), as ``combine`` has them: by the scale and age of origins.

    ``loss`` (n,) tells the scale of each origin.
    """
    names, place = np.unique(origin, return_inverse=True)
    total = np.maximum(np.bincount(place, weight), 1e-300)
    scale = np.bincount(place, weight * loss) / total
    share = RECENT ** np.arange(len(names))[::-1]
    exact = 1e-9 * scale.max(initial=1e-300)
    return np.asarray(weight * (share / (scale + exact))[place])


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
