"""Synthetic tasks with known coefficients and relations."""

from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.datasets.task_set import Bunch
from priormtl.priors import FeaturePrior, TaskPrior


@dataclass(frozen=True, eq=False)
class RelatedTasks(Bunch):
    """Synthetic data set with its true coefficients; unpacks as ``X, y, task``.

    Values are also accessible as ``data["y"]``, as in scikit-learn's Bunch.
    """

    X: Array  # (n, d)
    y: Array  # (n,)
    task: Index  # (n,)
    coef: Array  # (m, d), zero for features that do not matter
    intercept: Array  # (m,)
    feature_prior: FeaturePrior  # relations that hold
    task_prior: TaskPrior  # the chain along which coefficients drift


def make_related_tasks(
    n_tasks: int = 10,
    n_features: int = 20,
    n_samples: int = 30,
    *,
    n_informative: int | None = None,
    n_relations: int | None = None,
    opposite: float = 0.5,
    relation_noise: float = 0.0,
    drift: float = 0.1,
    noise: float = 1.0,
    classification: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> RelatedTasks:
    """Generate tasks with sparse and related coefficients that drift along a chain.

    Parameters
    ----------
    n_tasks : int, default=10
        Number of tasks.
    n_features : int, default=20
        Number of features.
    n_samples : int, default=30
        Number of rows per task.
    n_informative : int, optional
        Number of features with nonzero coefficients, the same for all tasks. The
        default is half of the features.
    n_relations : int, optional
        Number of disjoint pairs of informative features with similar or opposite
        coefficients. The default is the largest possible number.
    opposite : float, default=0.5
        Fraction of the pairs with opposite coefficients.
    relation_noise : float, default=0.0
        Standard deviation of the differences between related coefficients.
    drift : float, default=0.1
        Standard deviation of the change of coefficients from one task to the next.
    noise : float, default=1.0
        Standard deviation of the noise in the targets.
    classification : bool, default=False
        Whether targets are classes −1 and +1, the signs of noisy scores.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    RelatedTasks
        ``X``, ``y`` and ``task``, with the true ``coef`` (m, d), ``intercept`` (m,),
        ``feature_prior`` and ``task_prior``.

    Examples
    --------
    >>> data = make_related_tasks(n_tasks=3, n_features=8, random_state=0)
    >>> data.X.shape, data.coef.shape, data.feature_prior
    ((90, 8), (3, 8), FeaturePrior(2 relations))
    """
    informative = n_features // 2 if n_informative is None else n_informative
    relations = informative // 2 if n_relations is None else n_relations
    counts = {"n_tasks": n_tasks, "n_features": n_features, "n_samples": n_samples}
    for name, value in counts.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1: got {value}.")
    if not 0 <= informative <= n_features:
        raise ValueError(
            f"n_informative must be between 0 and n_features={n_features}: got "
            f"{informative}."
        )
    if not 0 <= 2 * relations <= informative:
        raise ValueError(
            "n_relations must be between 0 and half of the informative features "
            f"({informative // 2}): got {relations}."
        )
    if not 0 <= opposite <= 1:
        raise ValueError(f"opposite must be between 0 and 1: got {opposite}.")
    rng = np.random.default_rng(random_state)
    chosen = rng.choice(n_features, size=informative, replace=False)
    pairs = chosen[: 2 * relations].reshape(-1, 2)
    sign = np.where(np.arange(relations) < round(opposite * relations), -1.0, 1.0)
    coef = np.zeros((n_tasks, n_features))
    coef[:, chosen] = _walk(rng, n_tasks, informative, drift)
    slack = relation_noise * rng.standard_normal((n_tasks, relations))
    coef[:, pairs[:, 1]] = sign * coef[:, pairs[:, 0]] + slack
    intercept = _walk(rng, n_tasks, 1, drift)[:, 0]
    X = rng.standard_normal((n_tasks * n_samples, n_features))
    task = np.repeat(np.arange(n_tasks), n_samples)
    y = np.sum(X * coef[task], axis=1) + intercept[task]
    y = y + noise * rng.standard_normal(len(y))
    if classification:
        y = np.where(y >= 0, 1.0, -1.0)
    prior = FeaturePrior.similar(pairs[sign > 0].tolist()) + FeaturePrior.opposite(
        pairs[sign < 0].tolist()
    )
    return RelatedTasks(X, y, task, coef, intercept, prior, TaskPrior.chain())


def _walk(rng: np.random.Generator, m: int, d: int, drift: float) -> Array:
    """Random walk over tasks from a standard normal start (m, d)."""
    steps = drift * rng.standard_normal((m, d))
    steps[0] = rng.standard_normal(d)
    return np.cumsum(steps, axis=0)
