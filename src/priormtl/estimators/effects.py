"""The effect of one column on a grid of its values, task by task.

An effect is f_i(x) = Σ_j β_ij b_j(x), where b_j are the features that were made of the
column: itself, its wiggles, or its categories. Means over the training rows are
subtracted, so that effects of all tasks have the same level. Plots and reports draw it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import pooled_means
from priormtl.design import Expansion
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.summary import read_fitted
from priormtl.exceptions import unknown_name
from priormtl.fitted import Fitted
from priormtl.uncertainty import Covariances

__all__ = ["ColumnEffect", "EffectErrors", "read_effect"]


@dataclass(frozen=True, eq=False)
class EffectErrors:
    """Where standard errors of effects come from: covariances, else fold models."""

    basis: Array  # (k, p) features on the grid, minus their means
    places: Index  # (p,) of these features
    scale: Array  # (d,) units of the covariances
    found: Covariances | None = None  # of the fit
    folds: Array | None = None  # (K, k, m) effects in models without each fold

    def of(self, task: int | None) -> Array | None:
        """Standard error (k,) of the effect in a task, or of what tasks share."""
        if self.found is not None:
            own = self.found.own if task is not None else None
            d = len(self.found.selected)
            known = self.found.shared() if own is None else own[task][-d:, -d:]
            at = {int(j): i for i, j in enumerate(self.found.selected)}
            used = [i for i, j in enumerate(self.places) if int(j) in at]
            rows = [at[int(self.places[i])] for i in used]
            basis = self.basis[:, used] / self.scale[self.places[used]]
            squares = np.einsum(
                "ij,jk,ik->i", basis, known[np.ix_(rows, rows)], basis, optimize=True
            )
            return np.sqrt(np.maximum(squares, 0.0))
        if self.folds is None:
            return None
        # The jackknife: (K − 1) / K times the sum of squares.
        lines = self.folds.mean(axis=2) if task is None else self.folds[:, :, task]
        squares = np.sum((lines - lines.mean(axis=0)) ** 2, axis=0)
        return np.asarray(np.sqrt((len(lines) - 1) / len(lines) * squares))


@dataclass(frozen=True, eq=False)
class ColumnEffect:
    """Effects of a column on a grid of its values."""

    column: str
    grid: Array  # (k,) of categories 0, 1, …
    lines: Array  # (k, m)
    errors: EffectErrors
    ticks: Array
    categories: tuple[str, ...] | None
    is_date: bool
    means: Mapping[str, float]  # of its features


def read_effect(
    model: object,
    expansion: Expansion,
    column: str,
    values: object = None,
    *,
    points: int = 200,
) -> ColumnEffect:
    """Effect of a column of a linear model, whose values become features so.

    ``values`` give the range and the ticks in place of those of the training rows.
    """
    fitted, categories = read_fitted(model).by_class(), None
    if isinstance(expansion.ticks, tuple):
        categories, ticks = expansion.ticks, np.zeros(0)
        grid = np.arange(len(categories), dtype=np.float64)
        made = expansion.expand(list(categories))
    else:
        ticks, ends = np.asarray(expansion.ticks, dtype=np.float64), expansion.ends
        if values is not None:
            ticks = np.asarray(values, dtype=np.float64).ravel()
            ticks = ticks[np.isfinite(ticks)]
            if not len(ticks) or ticks.min() == ticks.max():
                raise ValueError("values must hold at least two different numbers.")
            ends = float(ticks.min()), float(ticks.max())
        grid = np.linspace(*ends, points)
        made = expansion.expand(grid)
    for name in made:
        if name not in fitted.names:
            raise unknown_name("feature", name, fitted.names)
    places = np.array([fitted.names.index(name) for name in made], dtype=np.intp)
    basis = np.column_stack(list(made.values()))
    if fitted.statistics is not None:
        means = pooled_means(fitted.statistics)[places]
    elif categories is not None:
        means = basis.mean(axis=0)
    else:
        at = expansion.expand(ticks if len(ticks) else grid)
        means = np.column_stack(list(at.values())).mean(axis=0)
    basis = basis - means
    return ColumnEffect(
        column,
        grid,
        basis @ fitted.coef.T[places],
        _read_errors(model, fitted, basis, places),
        ticks,
        categories,
        expansion.is_date,
        dict(zip(made, means.tolist(), strict=True)),
    )


def _read_errors(
    model: object, fitted: Fitted, basis: Array, places: Index
) -> EffectErrors:
    known = EffectErrors(basis, places, fitted.units)
    if isinstance(model, LinearMultiTask):
        with suppress(ValueError, np.linalg.LinAlgError):
            return replace(known, found=model._covariances(0.95))
    folds: list[Array] = []
    if fitted.held_out is not None:
        folds = list(fitted.held_out.models.coef)
        m, K = len(fitted.labels), read_fitted(model).n_classes
        if K > 1:  # there class after class, here task after task
            folds = [
                c.reshape(K, m // K, -1).swapaxes(0, 1).reshape(m, -1) for c in folds
            ]
    elif fitted.calibration is not None:  # files keep deviations from the mean
        folds = list(fitted.calibration.coef)
    if len(folds) < 2:
        return known
    return replace(known, folds=np.stack([basis @ c[:, places].T for c in folds]))
