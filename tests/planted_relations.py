"""Tasks with known relations between features, one of which the prior gets wrong."""

from typing import Any, NamedTuple

import numpy as np

from priormtl import FeaturePrior
from priormtl.datasets import make_related_tasks


class Planted(NamedTuple):
    X: Any
    y: Any
    task: Any
    prior: FeaturePrior
    wrong: str  # the relation that does not hold, in words


def plant(
    seed,
    *,
    m=4,
    d=12,
    n=25,
    noise=1.0,
    flip="similar",
    common=0.0,
    classification=False,
):
    """Claim the opposite of a relation that matters; ``common`` correlates features."""
    data = make_related_tasks(
        m, d, n, n_informative=d * 2 // 3 // 2 * 2, noise=0.0, random_state=seed
    )
    rng = np.random.default_rng(seed)
    X = data.X + common * rng.standard_normal((len(data.X), 1))
    score = np.sum(X * data.coef[data.task], axis=1) + data.intercept[data.task]
    y = score + noise * rng.standard_normal(len(score))
    if classification:
        y = np.where(y >= 0, "yes", "no")
    pairs, signs = _relations(data.feature_prior)
    sizes = np.abs(data.coef).mean(axis=0)[[a for a, _ in pairs]]
    alike = np.array([sign > 0 for sign in signs]) == (flip == "similar")
    k = int(np.argmax(np.where(alike, sizes, -1.0)))
    signs[k] = -signs[k]
    graph = [(*pair, sign) for pair, sign in zip(pairs, signs, strict=True)]
    first, second = pairs[k]
    minus = "−" if signs[k] < 0 else ""
    wrong = f"x{first} ~ {minus}x{second}"
    return Planted(X, y, data.task, FeaturePrior.from_graph(graph), wrong)


def _relations(prior):
    pairs, signs = [], []
    for part in prior.parts:
        for a, b in zip(part.first, part.second, strict=True):
            pairs.append((min(a, b), max(a, b)))
        signs += part.sign
    return pairs, signs
