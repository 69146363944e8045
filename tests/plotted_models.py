"""Models to be drawn: coefficients as given, without a fit; and one small fit."""

from functools import cache
from types import SimpleNamespace

import numpy as np

from priormtl import FeaturePrior, MultiTaskRegressor
from priormtl.datasets import make_related_tasks

# Names that a careless figure would hide, parse or cut.
AWKWARD = ("_hidden", "price $ per $", "größe", "two\nlines", "x" * 60)


def with_coef(coef, features=None, tasks=None, **attributes):
    """Anything with ``coef_`` (m, d)."""
    coef = np.asarray(coef, dtype=float)
    known = {"coef_": coef, "feature_scale_": np.ones(coef.shape[1]), **attributes}
    if features is not None:
        known["feature_names_in_"] = np.array(features, dtype=object)
    known["tasks_"] = np.arange(len(coef)) if tasks is None else np.array(tasks)
    return SimpleNamespace(**known)


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
