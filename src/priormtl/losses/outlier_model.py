"""Quadratic models of a fit whose own parts follow: moments of tasks, once more."""

from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import Moments, TaskStatistics
from priormtl.losses.modes import Modes
from priormtl.losses.own import OwnParts, column_norms
from priormtl.losses.squared import SquaredFit
from priormtl.losses.tied_own import intercept_curvature

__all__ = ["model_fit"]

DAMPING = 0.1  # share of curvature kept along own parts, which have none there
LEAST_EIGENVALUE = 1e-12  # relative, below which a direction counts as flat


class Quadratic(NamedTuple):
    """½ sᵀ gram s − linear s of one task, its own part following."""

    gram: Array  # (k, k)
    linear: Array  # (k,)


class TiedMeans(NamedTuple):
    """What tied intercepts add to the quadratics of tasks with own parts."""

    weight: Array  # (m,) second derivatives in b
    b: Array  # (m,)
    force: Array  # (m,) derivatives of the misfit in b
    edges: Array  # (k, own) mixed derivatives
    shared: Array  # (k, m)

    @classmethod
    def at(
        cls, base: SquaredFit, own: OwnParts, shared: Array, features: Index
    ) -> Self:
        """Where shared and own parts stand."""
        total = own.spread(base.shape[1])
        total[features] += shared
        b = base.intercept(total)
        weight, edges = intercept_curvature(base, own), _edges(base, own)[features]
        return cls(weight, b, -base.intercepts.slope(b), edges, shared)


def model_fit(
    base: SquaredFit, own: OwnParts, shared: Array, slope: Array, features: Index
) -> SquaredFit:
    """Squared fit that agrees in slope and curvature at the shared parts.

    ``base`` holds all features, ``shared`` and ``slope`` (k, m) those looked at. Own
    parts take up all curvature along themselves: a model without any there would have
    no minimum, so that a share of it is kept.
    """
    everything = len(features) == base.shape[0]
    seen = base if everything else base.restrict(features)
    if not len(own.tasks):
        return seen
    statistics, among = _copy(seen.moments), base.modes.take(own.tasks)
    grams = np.asarray(statistics.xx)  # the array itself, to be written
    ties = TiedMeans.at(base, own, shared, features) if base.ties_means else None
    for place, i in enumerate(own.tasks):
        gram = _followed_gram(among, own, place, features)
        quadratic = Quadratic(gram, gram @ shared[:, i] - slope[:, i])
        statistics.x_mean[i], statistics.y_mean[i] = 0.0, 0.0
        if ties is not None:
            quadratic = _centre(statistics, quadratic, ties, place, i)
        grams[i], statistics.xy[i] = quadratic
        statistics.yy[i] = _least_constant(quadratic)
    return SquaredFit(statistics, base.intercepts)


def _copy(moments: Moments) -> TaskStatistics:
    """Statistics that may be written, with a Gram matrix for each task."""
    k, m = moments.shape
    return TaskStatistics(
        np.array(moments.weight),
        np.array(moments.x_mean),
        np.array(moments.y_mean),
        np.array(np.broadcast_to(moments.gram(), (m, k, k))),
        np.array(moments.xy),
        np.array(moments.yy),
        tuple(range(m)),
    )


def _followed_gram(among: Modes, own: OwnParts, place: int, features: Index) -> Array:
    """Hessian of a task whose own part follows: μ Vᵀ (diag(t) − c (tw)(tw)ᵀ) V.

    V are its axes, t = λ / (λ + μ), and w is the direction of the own part.
    """
    t = 0 if len(among.values) == 1 else place
    vectors, shift = among.vectors[t], own.shift[place]
    share = among.values[t] / (among.values[t] + shift)
    w = vectors @ own.coef[:, place] / np.linalg.norm(own.coef[:, place])
    taken = (1.0 - DAMPING) * shift / float(w @ (share * w))
    seen = vectors[:, features]
    q = seen.T @ (share * w)
    return np.asarray((seen.T * (shift * share)) @ seen - taken * np.outer(q, q))


def _centre(
    statistics: TaskStatistics,
    raw: Quadratic,
    ties: TiedMeans,
    place: int,
    i: int,
) -> Quadratic:
    """Write weight and means of a task, and return what is left about them."""
    edge, weight = ties.edges[:, place], ties.weight[i]
    total = edge @ ties.shared[:, i] + weight * ties.b[i] - ties.force[i]
    mean = edge / weight
    statistics.weight[i], statistics.x_mean[i] = weight, mean
    statistics.y_mean[i] = total / weight
    linear = raw.linear + edge * ties.b[i] - mean * total
    return Quadratic(raw.gram - np.outer(edge, mean), linear)


def _edges(base: SquaredFit, own: OwnParts) -> Array:
    """Mixed derivatives in intercept and features (d, own), own parts following."""
    moments, among = base.moments, base.modes.take(own.tasks)
    pull = moments.weight[own.tasks] * moments.x_mean[own.tasks].T
    u = among.turn(pull)
    w = among.turn(own.coef / column_norms(own.coef))
    shift = own.shift[:, np.newaxis]
    stiff = among.values + shift
    share = among.values / stiff
    along = np.sum(u * w / stiff, axis=1) / np.sum(w**2 * share, axis=1)
    return pull - among.turn_back(share * (u + shift * along[:, np.newaxis] * w))


def _least_constant(quadratic: Quadratic) -> float:
    """Twice the constant at which the model's least value is zero."""
    values, vectors = np.linalg.eigh(quadratic.gram)
    kept = values > LEAST_EIGENVALUE * max(values[-1], 0.0)
    parts = vectors[:, kept].T @ quadratic.linear
    return float(np.sum(parts**2 / values[kept]))
