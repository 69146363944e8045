"""Tasks that mix models, and mixtures to fit to them."""

from dataclasses import replace

import numpy as np
from scipy.special import expit

from priormtl.baselines.fedem import LinearFamily, Samples
from priormtl.data import from_labels

__all__ = ["family_of", "labelled", "planted", "random_mixture"]


def planted(m=10, n=50, d=5, noise=0.3, seed=0):
    """Tasks that mix two linear models within themselves."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((2, d)) * 1.5
    share = rng.uniform(0.0, 1.0, m)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((m * n, d))
    part = (rng.uniform(size=m * n) < share[task]).astype(int)
    signal = np.sum(X * theta[part], axis=1)
    return X, signal + noise * rng.standard_normal(m * n), task, theta, share


def labelled(seed=0, **kwargs):
    X, y, task, *_ = planted(seed=seed, noise=0.0, **kwargs)
    rng = np.random.default_rng(seed + 1)
    return X, np.where(rng.uniform(size=len(y)) < expit(3 * y), 1.0, -1.0), task


def family_of(X, y, task, *, loss="squared", ridge=0.0, intercept=False, plain=False):
    samples = Samples.of(from_labels(X, y, task), classify=loss == "logistic")
    family = LinearFamily.of(samples, intercept=intercept, rotate=not plain)
    return replace(family, ridge=ridge)


def random_mixture(family, M, seed=0):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal((M, len(family.penalised)))
    weights = rng.dirichlet(np.ones(M), family.samples.n_tasks)
    return family.at(coef, weights, 0.7)
