"""Quadratic models of a fit whose own parts follow: moments of tasks, once more."""

from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import TaskStatistics
from priormtl.losses.modes import Modes
from priormtl.losses.own import OwnParts, column_norms
from priormtl.losses.squared import SquaredFit
from priormtl.losses.tied_own import intercept_curvature

__all__ = ["model_fit"]

DAMPING = 0.1  # share of curvature kept along own parts, which have none there
LEAST_EIGENVALUE = 1e-12  # relative, below which a direction counts as flat


class Followed(NamedTuple):
    """Hessian of a task whose own part o follows: V' (diag(a) − c qqᵀ) V."""

    vectors: Array  # V (r, k) of the features that are looked at
    diagonal: Array  # a (r,)
    along: Array  # q (r,)
    share: float  # c

    def gram(self) -> Array:
        """Written out (k, k)."""
        q = self.vectors.T @ self.along
        scaled = self.vectors.T * self.diagonal
        return np.asarray(scaled @ self.vectors - self.share * np.outer(q, q))


def model_fit(
    base: SquaredFit, own: OwnParts, shared: Array, slope: Array, features: Index
) -> SquaredFit:
    """Squared fit that agrees in value, slope and curvature at the shared parts.

    ``base`` holds all features, ``shared`` and ``slope`` (k, m) those looked at. Own
    parts o take up all curvature along themselves: a model without any there would
    have no minimum, so that a share of it is kept.
    """
    everything = len(features) == base.shape[0]
    moments = base.moments if everything else base.moments.restrict(features)
    k, m = moments.shape
    weight, x_mean = np.array(moments.weight), np.array(moments.x_mean)
    y_mean, xy, yy = (np.array(x) for x in (moments.y_mean, moments.xy, moments.yy))
    xx = np.array(np.broadcast_to(moments.gram(), (m, k, k)))
    among = base.modes.take(own.tasks)
    edges = _edges(base, own, among)[features]
    if base.ties_means:
        weight = intercept_curvature(base, own)
        b = base.intercept(_total(base, own, shared, features))
        force = -base.intercepts.slope(b)
    for place, i in enumerate(own.tasks):
        gram = _follow(among, own, place, features).gram()
        linear = gram @ shared[:, i] - slope[:, i]
        x_mean[i], y_mean[i] = 0.0, 0.0
        if base.ties_means:
            edge = edges[:, place]
            x_mean[i] = edge / weight[i]
            total = edge @ shared[:, i] + weight[i] * b[i] - force[i]
            y_mean[i] = total / weight[i]
            linear += edge * b[i] - x_mean[i] * total
            gram -= np.outer(edge, x_mean[i])
        xx[i], xy[i] = gram, linear
        yy[i] = _least_constant(gram, linear)
    tasks = tuple(range(m))
    statistics = TaskStatistics(weight, x_mean, y_mean, xx, xy, yy, tasks)
    return SquaredFit(statistics, base.intercepts)


def _total(base: SquaredFit, own: OwnParts, shared: Array, features: Index) -> Array:
    total = own.spread(base.shape[1])
    total[features] += shared
    return total


def _follow(among: Modes, own: OwnParts, place: int, features: Index) -> Followed:
    """Hessian of one task with an own part."""
    t = 0 if len(among.values) == 1 else place
    vectors, shift = among.vectors[t], own.shift[place]
    share = among.values[t] / (among.values[t] + shift)
    w = vectors @ own.coef[:, place] / np.linalg.norm(own.coef[:, place])
    q = share * w
    kept = (1.0 - DAMPING) * shift / float(w @ q)
    return Followed(vectors[:, features], shift * share, q, kept)


def _edges(base: SquaredFit, own: OwnParts, among: Modes) -> Array:
    """Mixed derivatives in intercept and features (d, k), own parts following."""
    moments = base.moments
    pull = moments.weight[own.tasks] * moments.x_mean[own.tasks].T
    u = among.turn(pull)
    w = among.turn(own.coef / column_norms(own.coef))
    shift = own.shift[:, np.newaxis]
    stiff = among.values + shift
    share = among.values / stiff
    along = np.sum(u * w / stiff, axis=1) / np.sum(w**2 * share, axis=1)
    return pull - among.turn_back(share * (u + shift * along[:, np.newaxis] * w))


def _least_constant(gram: Array, linear: Array) -> float:
    """Twice the constant at which the model's least value is zero."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > LEAST_EIGENVALUE * max(values[-1], 0.0)
    parts = vectors[:, kept].T @ linear
    return float(np.sum(parts**2 / values[kept]))
