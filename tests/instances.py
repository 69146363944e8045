"""Problems that many tests share."""

from dataclasses import replace

import numpy as np

from priormtl.data import condense, from_lists
from priormtl.graphs import Laplacian
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, TiedIntercepts
from priormtl.penalties import L21
from priormtl.priors import (
    FeaturePrior,
    QuadraticPrior,
    TaskPrior,
    difference_matrix,
    laplacian,
)
from priormtl.problem import Problem

PAIRS = FeaturePrior.similar([(0, 1), (2, 3)])


def sine_tasks(m, d):
    """G(m, d): tasks without random numbers, task i with 4 + i rows."""
    X, y = [], []
    b = np.arange(1, d + 1)
    for i in range(m):
        a = np.arange(1, 5 + i)[:, None]
        rows = np.sin(1.3 * (i + 1) + 0.7 * a * b + 0.4 * b)
        w = np.zeros(d)
        w[:3] = [1.5, -1.0, 0.5]
        w = (1 + 0.2 * i) * w + 0.1 * np.sin(b * (i + 1)) * (b <= 5)
        X.append(rows)
        y.append(rows @ w + 0.3 * np.cos(2.1 * a[:, 0] + i + 1))
    return from_lists(X, y)


def with_signs(data):
    """Same samples with targets −1 and +1."""
    return replace(data, y=np.where(data.y >= 0, 1.0, -1.0))


def quadratic_prior(data, theta, epsilon, pairs=PAIRS, ties=None, tie_weights=None):
    D = difference_matrix(pairs, condense(data))
    graph = laplacian(ties or TaskPrior.chain(), data.tasks)
    return QuadraticPrior(D, graph, theta, epsilon, tie_weights)


def sine_problem(m=4, d=5, lam=0.6, theta=0.5, epsilon=0.8, **parts):
    """The paper's objective on G(m, d), without intercepts unless asked."""
    data = sine_tasks(m, d)
    return build_problem(data, lam=lam, theta=theta, epsilon=epsilon, **parts)


def build_problem(
    data, *, lam, theta=0.0, epsilon=0.0, loss=None, penalty=None, intercepts=None, **kw
):
    fit = (loss or Squared()).bind(data, intercepts or NoIntercepts())
    prior = quadratic_prior(data, theta, epsilon, **kw)
    return Problem(fit, prior, penalty or L21(), lam)


def intercept_kinds(m):
    """One of each kind, for m tasks."""
    everyone = Laplacian.from_groups(m, [np.arange(m)], 1.0)
    return [FreeIntercepts(), NoIntercepts(), TiedIntercepts(everyone, 2.0)]
