"""Steps that lower fit(W) + lam Σ_j ‖w_j‖² / v_j²: ridge with one weight per feature.

In b = w / v the weights are all 2 lam, and each task has a system V H V + 2 lam with
the fit's Hessian H. It is solved from Gram matrices, from samples, or, where both would
take long, by a few conjugate gradients, which lower the objective too.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.baselines.multiplicative.row_steps import Place, RowStep
from priormtl.data import TaskStatistics
from priormtl.losses import DataFit, SampleForm, SquaredFit

__all__ = ["GramRidge", "ProductRidge", "SampleRidge", "ridge_step"]

MOST_WORK = 1e9  # multiplications of one step by factorisation
MOST_GRAM_NUMBERS = 2**24
MOST_PRODUCTS = 100  # of a step by conjugate gradients
LAST_GAIN = 0.2  # share of the mean gain below which a further product does not pay
VANISHING = 1e-13  # of the largest curvature: keeps systems regular where lam is tiny


def ridge_step(fit: DataFit[Any]) -> RowStep:
    """The cheapest of the three ways."""
    d, m = fit.shape
    grams = m if fit.normal_size is None else fit.normal_size / d**2
    by_gram = grams * d**3 if grams * d**2 <= MOST_GRAM_NUMBERS else np.inf
    by_samples = np.inf
    if fit.rows_per_task is not None:
        n = fit.rows_per_task
        by_samples = grams * n**2 * (n + d)
    if min(by_gram, by_samples) > MOST_WORK:
        return ProductRidge(fit)
    return GramRidge(fit) if by_gram <= by_samples else SampleRidge(fit)


@dataclass(frozen=True, eq=False)
class GramRidge:
    """One system of d equations per task."""

    fit: DataFit[Any]

    def move(self, place: Place) -> Array:
        """Minimise the quadratic model."""
        v, gram = place.shared, self._gram(place)
        system = gram * v[:, np.newaxis] * v
        diagonal = np.einsum("ijj->ij", system)
        diagonal += _ridge(place.lam, diagonal.max(axis=1))[:, np.newaxis]
        pull = _pull(place)
        # One matrix for all tasks takes their pulls as columns.
        sides = pull[np.newaxis] if len(gram) == 1 else pull.T[:, :, np.newaxis]
        found = np.linalg.solve(system, sides)
        change = found[0] if len(gram) == 1 else found[:, :, 0].T
        return place.coef + v[:, np.newaxis] * change

    def restrict(self, features: Index) -> RowStep:
        """The cheapest way for these features only."""
        return _restrict(self.fit, features)

    def _gram(self, place: Place) -> Array:
        if self.fit.is_quadratic:
            return self._same_gram
        return self.fit.quadratic_model(place.point).normal_form().gram

    @cached_property
    def _same_gram(self) -> Array:
        return np.ascontiguousarray(self.fit.normal_form().gram)


@dataclass(frozen=True, eq=False)
class SampleRidge:
    """One system per task with an equation for each of its samples."""

    fit: DataFit[Any]

    def move(self, place: Place) -> Array:
        """Minimise the quadratic model."""
        v, pull = place.shared[:, np.newaxis], _pull(place)
        form = self._form
        if not len(form.starts):
            change = _solve_by_samples(form.rows * v, pull, place.lam)
        else:
            change = np.empty_like(pull)
            for i, (a, b) in enumerate(pairwise(form.starts.tolist())):
                rows = form.rows[:, a:b] * v
                change[:, i] = _solve_by_samples(rows, pull[:, i], place.lam)
        return place.coef + v * change

    def restrict(self, features: Index) -> RowStep:
        """The cheapest way for these features only."""
        return _restrict(self.fit, features)

    @cached_property
    def _form(self) -> SampleForm:
        return self.fit.sample_form()


@dataclass(frozen=True, eq=False)
class ProductRidge:
    """Conjugate gradients, all tasks at once."""

    fit: DataFit[Any]

    def move(self, place: Place) -> Array:
        """Lower the quadratic model until products gain little."""
        v = place.shared[:, np.newaxis]
        rest = _pull(place)
        change, direction = np.zeros_like(rest), rest.copy()
        size, total = _column_squares(rest), 0.0
        for count in range(1, MOST_PRODUCTS + 1):
            product = v * self.fit.hessian(place.point, v * direction)
            product += 2.0 * place.lam * direction
            length = _divide(size, np.sum(direction * product, axis=0))
            change += length * direction
            rest -= length * product
            gain = 0.5 * float(length @ size)
            total += gain
            if count * gain <= LAST_GAIN * total or gain <= place.enough:
                break
            last, size = size, _column_squares(rest)
            direction = rest + _divide(size, last) * direction
        return place.coef + v * change

    def restrict(self, features: Index) -> RowStep:
        """The cheapest way for these features only."""
        return _restrict(self.fit, features)


def _restrict(fit: DataFit[Any], features: Index) -> RowStep:
    part = fit.restrict(features)
    if isinstance(part, SquaredFit) and isinstance(part.moments, TaskStatistics):
        # Products read each task's moments faster in one piece.
        moments = replace(part.moments, xx=np.ascontiguousarray(part.moments.xx))
        part = replace(part, moments=moments)
    return ridge_step(part)


def _pull(place: Place) -> Array:
    """Minus the gradient in b = w / v."""
    v = place.shared[:, np.newaxis]
    slope = 2.0 * place.lam * _divide(place.coef, v)
    return -(v * place.point.gradient + slope)


def _ridge(lam: float, curvature: Any) -> Any:
    return 2.0 * lam + VANISHING * curvature


def _solve_by_samples(rows: Array, pull: Array, lam: float) -> Array:
    """(ZᵀZ + ridge)⁻¹ pull by the matrix inversion lemma; ``rows`` is Zᵀ (d, n)."""
    small = rows.T @ rows
    diagonal = np.einsum("jj->j", small)
    ridge = _ridge(lam, diagonal.max())
    diagonal += ridge
    return (pull - rows @ np.linalg.solve(small, rows.T @ pull)) / ridge


def _column_squares(rest: Array) -> Array:
    return np.einsum("ij,ij->j", rest, rest)


def _divide(a: Array, b: Array) -> Array:
    """Quotients; zero where the divisor is."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)
