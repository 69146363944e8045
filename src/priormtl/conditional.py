"""Coefficients of one task, given what all tasks share: no refit.

Where tasks are tied to their mean, the objective of one task, given the shared part, is

    Σ w f(y, b + (x − c) p) + ½ t₀ (b − q₀)² + ½ Σ_j t_j (p_j − q_j)² + θ/2 ‖D p − e‖²:

in the words of mixed models, the effects of the task have the prior mean q, the fixed
effects, and the prior variances σ² / t; relations D between features are further rows
of data. Its minimiser is the conditional mean (the BLUP) of the task with squared loss,
and the conditional mode with others. Features with infinite t have the same effect in
all tasks.

Rows that were fitted count by their quadratic approximation about the fit, which is
exact for squared loss: the curvature G and the vector h = G u − gradient of each task.
So new rows of a known task can be added later, one after the other, in any order.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl._numerics import NEWTON_STEPS
from priormtl.data import Moments, StackedRows, TaskStatistics
from priormtl.losses import Family
from priormtl.model import Posed, score_rows

__all__ = ["MOST_CURVATURES", "Conditional"]

MOST_CURVATURES = 2**22  # in the curvatures of all tasks: 32 MB


class Conditional(NamedTuple):
    """Prior of a task given the shared part, and what the rows of each task say.

    Coefficients are in the units of X; the first is the level at ``centre``.
    """

    mean: Array  # (1 + d,) q
    precision: Array  # (1 + d,) t; infinite for effects in common
    centre: Array  # (d,) c
    prior: Array  # (k, k) curvature of the prior of the k effects that vary
    pull: Array  # (k,) its gradient at zero, with the opposite sign
    curvature: Array  # (m, k, k) G
    right: Array  # (m, k) h

    @classmethod
    def of(
        cls, posed: Posed, coef: Array, intercept: Array, data: object
    ) -> Self | None:
        """Conditional distribution of the tasks of a fit; None where there is none.

        Tasks must be tied to their mean, without signs of features or values that are
        known for single tasks, and without a penalty on effects that vary.
        """
        prior, model = posed.problem.prior, posed.model
        group, constraints = prior.laplacian.one_group, posed.problem.constraints
        if not group or model.n_classes > 2 or posed.drift is not None:
            return None
        if prior.target is not None and np.ptp(prior.target, axis=1).any():
            return None
        if model.device is not None or (
            isinstance(data, TaskStatistics) and data.is_mapped
        ):
            return None
        if constraints is not None and np.any(constraints.signs != 0):
            return None
        # The precisions t of the effects in the units of X, and their means q: the mean
        # of the tasks, or a share of it where a ridge shrinks all tasks.
        scale = posed.scale
        used = np.isfinite(scale)
        ridge = np.zeros(len(scale)) if prior.ridge is None else prior.ridge
        with np.errstate(invalid="ignore"):
            tie = prior.epsilon * group * posed.tie_weights
            total = tie + ridge
            # A ridge on all tasks moves what they are shrunk to: see ``model``.
            share = np.where(total > 0, tie / total, 0.0)
        common = np.isinf(tie) | ~used
        share[common] = 1.0
        mean = share * coef.mean(axis=0)
        precision = np.where(common, np.inf, total * np.where(used, scale, 1.0) ** 2)
        if posed.problem.lam > 0 and not common.all():
            return None
        centre = np.zeros(len(scale))
        if posed.centre is not None:
            centre[used] = (posed.centre * np.where(used, scale, 0.0))[used]
        level = intercept + coef @ centre
        first = {"tied": posed.intercept_strength * group, True: 0.0, False: np.inf}
        mean = np.append(level.mean() if model.fit_intercept else 0.0, mean)
        precision = np.append(first[model.fit_intercept], precision)
        varying = np.flatnonzero(np.isfinite(precision))
        k = len(varying)
        if len(coef) * k**2 > MOST_CURVATURES:
            return None
        own, pull = np.diag(precision[varying]), precision[varying] * mean[varying]
        if prior.theta > 0 and prior.D.nnz:
            # Relations are in scaled units, and have no column of the intercept.
            D = np.sqrt(prior.theta) * prior.D.toarray() * np.where(used, scale, 0.0)
            D = np.column_stack([np.zeros(len(D)), D])
            left = -(D @ np.where(np.isfinite(precision), 0.0, mean))
            if prior.target is not None:
                left += np.sqrt(prior.theta) * prior.target[:, 0]
            own, pull = (
                own + D[:, varying].T @ D[:, varying],
                pull + left @ D[:, varying],
            )
        nothing = np.zeros((0, k, k)), np.zeros((0, k))
        found = cls(mean, precision, centre, own, pull, *nothing)
        if model.family is None and posed.crossed is None:
            return found._with_moments(posed.moments)
        if not isinstance(data, StackedRows):
            return None
        # With other losses rows count by their quadratic approximation about the fit:
        # G = Zᵀ W Z with W = f″, and h = G u − Zᵀ f′.
        eta = score_rows(data, coef.T, intercept)
        if posed.crossed is not None:
            eta = eta + posed.crossed.scores
        curvatures, rights = list[Array](), list[Array]()
        effects = np.column_stack([level, coef])[:, found.varying]
        for i, u in enumerate(effects):
            rows = slice(data.starts[i], data.starts[i + 1])
            X, y, w = data.rows_of(i)
            Z = found.columns(X.toarray() if issparse(X) else X)
            slope, bend = _slopes(model.family, eta[rows], y, w)
            G = (Z.T * bend) @ Z
            curvatures.append(G)
            rights.append(G @ u - Z.T @ slope)
        return found._replace(curvature=np.stack(curvatures), right=np.stack(rights))

    def _with_moments(self, moments: Moments) -> Self:
        """The same with what the rows of each task say, with squared loss."""
        # G and h of rows (1, x − c) from centred moments: w, w (x̄ − c), and
        # XᵀX + w (x̄ − c)(x̄ − c)ᵀ; targets are less what effects in common explain.
        places, w, m = self.varying, moments.weight, len(moments.weight)
        features = places[places > 0] - 1
        fixed = np.where(np.isfinite(self.precision), 0.0, self.mean)
        apart = (moments.x_mean - self.centre)[:, features]
        known = fixed[0] + (moments.x_mean - self.centre) @ fixed[1:]
        shared = np.tile(fixed[1:, np.newaxis], m)
        products = (moments.xy.T - moments.gram_product(shared))[features].T
        rest = w * (moments.y_mean - known)
        G = np.empty((m, 1 + len(features), 1 + len(features)))
        G[:, 0, 0] = w
        G[:, 0, 1:] = G[:, 1:, 0] = w[:, np.newaxis] * apart
        G[:, 1:, 1:] = moments.restrict(features).gram() if len(features) else 0.0
        G[:, 1:, 1:] += w[:, np.newaxis, np.newaxis] * np.einsum(
            "ij,ik->ijk", apart, apart
        )
        h = np.column_stack([rest, products + rest[:, np.newaxis] * apart])
        if not len(places) or places[0] != 0:  # no intercept
            G, h = G[:, 1:, 1:], h[:, 1:]
        return self._replace(curvature=G, right=h)

    @property
    def varying(self) -> Index:
        """Places of the effects that vary, among the level and the features."""
        return np.flatnonzero(np.isfinite(self.precision))

    def columns(self, X: Array) -> Array:
        """What multiplies the effects that vary (n, k)."""
        whole = np.column_stack([np.ones(len(X)), X - self.centre])
        return np.asarray(whole[:, self.varying])

    def extend(
        self,
        i: int,
        X: Array,
        y: Array,
        weight: Array,
        offset: Array,
        family: Family | None,
    ) -> Self:
        """The same after more rows of task ``i``, with a known part of their scores."""
        fixed = np.where(np.isfinite(self.precision), 0.0, self.mean)
        known = offset + fixed[0] + (X - self.centre) @ fixed[1:]
        Z, G, h = self.columns(X), self.curvature[i], self.right[i]
        # A quadratic loss is the same about any point.
        u = np.zeros(len(h)) if family is None else self.solve(i)

        def slope(u: Array) -> tuple[Array, Array, Array]:
            first, second = _slopes(family, known + Z @ u, y, weight)
            pull = self.prior @ u - self.pull
            return G @ u - h + pull + Z.T @ first, first, second

        # Newton's method on the objective of one task: H = G + Zᵀ f″ Z + prior.
        gradient, first, second = slope(u)
        for _ in range(0 if family is None else NEWTON_STEPS):
            H = G + (Z.T * second) @ Z + self.prior
            step = -cho_solve(cho_factor(H), gradient)
            size, length = float(-gradient @ step), 1.0
            if size <= 1e-28 * (1.0 + float(u @ H @ u)):
                break
            there = slope(u + step)
            # Descent: the slope along the step must not turn round.
            while float(there[0] @ step) > 0.9 * size and length > 1e-6:
                length *= 0.5
                there = slope(u + length * step)
            u, (gradient, first, second) = u + length * step, there
        # From now on the new rows count by their approximation, as those before.
        new = (Z.T * second) @ Z
        curvature, right = self.curvature.copy(), self.right.copy()
        curvature[i] = G + new
        right[i] = h + new @ u - Z.T @ first
        return self._replace(curvature=curvature, right=right)

    def solve(self, i: int) -> Array:
        """Effects that vary (k,) of task ``i``."""
        H = self.curvature[i] + self.prior
        if not H.any():
            return self.mean[self.varying]
        return np.asarray(cho_solve(cho_factor(H), self.right[i] + self.pull))

    def coefficients(self, i: int) -> tuple[Array, float]:
        """Coefficients (d,) and the intercept of task ``i``, in the units of X."""
        effects = self.mean.copy()
        effects[self.varying] = self.solve(i)
        return effects[1:], float(effects[0] - self.centre @ effects[1:])

    def variance(self, i: int, X: Array) -> float:
        """Mean variance of predictions at these rows of task ``i``, over the noise."""
        factor, Z = cho_factor(self.curvature[i] + self.prior), self.columns(X)
        return float(np.mean(np.sum(Z * cho_solve(factor, Z.T).T, axis=1)))

    def fits(self, m: int, d: int) -> bool:
        """Whether it is one of m tasks and d features, as files must be."""
        k = len(self.varying)
        shapes = [part.shape for part in self]
        own = [(k, k), (k,), (m, k, k), (m, k)]
        return shapes == [(1 + d,), (1 + d,), (d,), *own]


def _slopes(
    family: Family | None, eta: Array, y: Array, weight: Array
) -> tuple[Array, Array]:
    """First and second derivatives of the weighted loss of rows in their scores."""
    if family is None:
        return weight * (eta - y), weight
    return weight * family.slope(eta, y), weight * family.bend(eta, y)
