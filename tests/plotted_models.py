"""Models to be drawn: coefficients as given, without a fit; and one small fit."""

from functools import cache

import numpy as np

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.datasets import make_related_tasks
from priormtl.design import Design
from priormtl.fitted import Fitted

# Names that a careless figure would hide, parse or cut.
AWKWARD = ("_hidden", "price $ per $", "größe", "two\nlines", "x" * 60)


def with_coef(
    coef, features=None, tasks=None, *, task_prior=None, loss="squared", **learned
):
    """Model with these coefficients (m, d), and what else it has learned."""
    coef = np.asarray(coef, dtype=float)
    m = len(coef)
    model = MultiTaskRegressor(task_prior=task_prior)
    fitted = Fitted(
        "MultiTaskRegressor",
        model._model(loss=loss),
        np.arange(m) if tasks is None else np.array(tasks),
        coef,
        np.zeros(m),
        design=None if features is None else Design.of_names(features),
        **learned,
    )
    model._adopt(fitted)
    return model


def random_coef(m, d, seed=0):
    return np.random.default_rng(seed).normal(size=(m, d))


@cache
def related():
    X, y, task = make_related_tasks(n_tasks=5, n_features=6, random_state=0)
    return X, y, task


@cache
def fitted(**settings):
    X, y, task = related()
    prior = FeaturePrior.similar([(0, 1), (1, 2)]) + FeaturePrior.opposite([(3, 4)])
    model = MultiTaskRegressor(5.0, feature_prior=prior, **settings)
    return model.fit(X, y, task=task)


def lightness(colours):
    """CIE lightness of colours (k, 3 or 4), as a print without colour shows them."""
    rgb = np.atleast_2d(colours)[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return 116.0 * np.cbrt(luminance) - 16.0
