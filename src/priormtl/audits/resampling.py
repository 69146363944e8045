"""resample_coefficients: how much coefficients would vary in other samples."""

import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.audits.subjects import plain_twin, read_rows
from priormtl.data import Table, name_features
from priormtl.estimators import check_count, shared_coef, show_progress

__all__ = ["CoefficientBand", "ResampledCoefficients", "resample_coefficients"]


class CoefficientBand(NamedTuple):
    """Quantiles of coefficients over resamples, (m, d) each."""

    low: Array
    middle: Array
    high: Array
    level: float


@dataclass(frozen=True, eq=False)
class ResampledCoefficients:
    """Coefficients of fits to reweighted rows, in the units of X."""

    coefs: Array  # (k, m, d)
    intercepts: Array  # (k, m)
    tasks: np.ndarray  # (m,)
    features: tuple[str, ...]

    def band(self, level: float = 0.9) -> CoefficientBand:
        """Where the middle ``level`` of the resamples lie, with the median."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1: got {level!r}.")
        ends = [(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0]
        low, middle, high = np.quantile(self.coefs, ends, axis=0)
        return CoefficientBand(low, middle, high, level)

    @property
    def selected(self) -> Array:
        """Share of resamples in which any task uses a feature (d,)."""
        return np.asarray(np.any(self.coefs != 0, axis=1).mean(axis=0))

    def __repr__(self) -> str:
        """Sizes only."""
        k, m, d = self.coefs.shape
        return f"ResampledCoefficients({k} resamples, {m} tasks, {d} features)"


def resample_coefficients(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    sample_weight: Any = None,
    n_resamples: int = 50,
    random_state: Any = 0,
) -> ResampledCoefficients:
    """Fit a model again and again to its rows, each time with other random weights.

    A Bayesian bootstrap: rows of a task get exponential weights with mean one, so that
    no task and no class ever goes missing. Strengths stay as they are.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier or their CV variants
        Fitted model.
    X, y, task, sample_weight
        The rows that it was fitted on.
    n_resamples : int
        How many fits.
    random_state : int or Generator
        Seed.

    Returns
    -------
    ResampledCoefficients
        ``coefs`` (k, m, d); ``band(level)`` gives quantiles, ``selected`` how often
        each feature was in use.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.audits import resample_coefficients
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=3, n_features=4, random_state=0)
    >>> model = MultiTaskRegressor().fit(X, y, task=task)
    >>> found = resample_coefficients(model, X, y, task=task, n_resamples=20)
    >>> found.band(0.9).low.shape, bool((found.band().low <= found.band().high).all())
    ((3, 4), True)
    """
    count = check_count("n_resamples", n_resamples)
    plain = plain_twin(model)
    table = read_rows(model, X, y, task, sample_weight)
    # Relations that were found in data are those of the model, not found again.
    plain = copy.copy(plain)
    plain.feature_prior = model.feature_prior_
    rng = np.random.default_rng(random_state)
    fits = []
    title = f"{count} resamples"
    with show_progress(None, None, title, count, "fits") as advance:
        for _ in range(count):
            fits.append(_fit(plain, reweight(table, rng), shared_coef(model)))
            advance()
    coefs, intercepts = (np.stack(part) for part in zip(*fits, strict=True))
    labels = name_features(table.features, coefs.shape[2])
    return ResampledCoefficients(coefs, intercepts, model.tasks_, labels)


def reweight(table: Table, rng: np.random.Generator) -> Table:
    """Rows with exponential weights, whose mean within each task stays as it was."""
    draws = rng.exponential(size=len(table))
    own = np.ones(len(table)) if table.weight is None else table.weight
    if table.codes is None:
        # One row serves many tasks: it has one weight in all of them.
        factor = draws / draws.mean()
        return replace(table, weight=(own.T * factor).T)
    total = np.bincount(table.codes, own, minlength=len(table.tasks))
    drawn = np.bincount(table.codes, own * draws, minlength=len(table.tasks))
    with np.errstate(invalid="ignore"):
        scale = np.where(drawn > 0, total / np.where(drawn > 0, drawn, 1.0), 1.0)
    return replace(table, weight=own * draws * scale[table.codes])


def _fit(plain: Any, table: Table, coef: Array) -> tuple[Array, Array]:
    """Coefficients (m, d) and intercepts, found from those of all rows."""
    setup = plain._set_up(table.to_tasks())
    start = np.ascontiguousarray(coef.T * setup.scale[:, np.newaxis])
    posed, solution = plain._solve_setup(setup, start)
    plain._warn_unless_converged(solution, posed.problem.null_objective)
    return solution.point.total.T / setup.scale, solution.intercept
