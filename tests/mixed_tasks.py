"""Tasks that mix models, and mixtures to fit to them."""

import numpy as np
from scipy.special import expit

from priormtl.baselines.fedem.components import LinearFamily
from priormtl.baselines.fedem.em import Mixture
from priormtl.baselines.fedem.samples import (
    Bernoulli,
    Gaussian,
    gather_samples,
    plain_features,
    rotated_features,
)
from priormtl.data import from_labels

__all__ = ["family_of", "labelled", "planted", "random_mixture"]

RESPONSES = {"squared": Gaussian(), "logistic": Bernoulli()}


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
    samples = gather_samples(from_labels(X, y, task))
    make = plain_features if plain else rotated_features
    features = make(samples, fit_intercept=intercept)
    return LinearFamily(samples, features, RESPONSES[loss], ridge)


def random_mixture(family, M, seed=0):
    rng = np.random.default_rng(seed)
    shape = M, len(family.features.penalised)
    weights = rng.dirichlet(np.ones(M), family.samples.n_tasks)
    return Mixture(family.at(rng.standard_normal(shape), 0.7), weights)
