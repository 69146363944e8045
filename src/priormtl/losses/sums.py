"""SumFit: the loss of a sum of two blocks, for coefficients with two structures.

The gradient of (A, B) ↦ f(A + B) is that of f, twice. Its curvature is up to **twice**
that of f: step sizes that suit f alone make a method on two blocks diverge.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.losses.base import DelegateFit, Evaluation


@dataclass(frozen=True, eq=False)
class SumEvaluation:
    """Misfit at A + B."""

    inner: Evaluation

    @property
    def value(self) -> float:
        return self.inner.value

    @cached_property
    def gradient(self) -> Array:
        """The same for both blocks (d, 2m)."""
        return _twice(self.inner.gradient)

    def dual_value(self, scale: float) -> float:
        return self.inner.dual_value(scale)

    def best_scale(self, limit: float, prior_value: float, slack: float = 0.0) -> float:
        return self.inner.best_scale(limit, prior_value, slack)


@dataclass(frozen=True, eq=False)
class SumFit(DelegateFit):
    """A data fit as a function of two blocks [A, B] side by side (d, 2m)."""

    @property
    def shape(self) -> tuple[int, int]:
        d, m = self.fit.shape
        return d, 2 * m

    @property
    def is_quadratic(self) -> bool:
        return self.fit.is_quadratic

    def evaluate(self, P: Array, near: SumEvaluation | None = None) -> SumEvaluation:
        known = None if near is None else near.inner
        return SumEvaluation(self.fit.evaluate(self.total(P), known))

    def rounding(self, at: SumEvaluation) -> float:
        return self.fit.rounding(at.inner)

    def extrapolate(
        self, current: SumEvaluation, previous: SumEvaluation, amount: float
    ) -> SumEvaluation:
        inner = self.fit.extrapolate(current.inner, previous.inner, amount)
        return SumEvaluation(inner)

    def hessian(self, at: SumEvaluation, V: Array) -> Array:
        return _twice(self.fit.hessian(at.inner, self.total(V)))

    def majorant(self, V: Array) -> Array:
        return _twice(self.fit.majorant(self.total(V)))

    def newton_dual(self, at: SumEvaluation, V: Array, product: Array) -> float:
        half = product[:, : self.fit.shape[1]]
        return self.fit.newton_dual(at.inner, self.total(V), half)

    def task_spectra(self) -> tuple[Array, Array]:
        """No curvature against the sum, twice the fit's along it."""
        _, highest = self.fit.task_spectra()
        return np.zeros(2 * len(highest)), np.tile(2.0 * highest, 2)

    def quadratic_model(self, at: SumEvaluation) -> Self:
        return replace(self, fit=self.fit.quadratic_model(at.inner))

    def far_model(self, at: SumEvaluation) -> Self:
        return replace(self, fit=self.fit.far_model(at.inner))

    @property
    def shifted_size(self) -> int | None:
        return self.fit.shifted_size

    def solve_shifted(self, shift: float, V: Array) -> Array:
        """The sum has twice the curvature; the difference has none."""
        A, B = self._halves(V)
        half = 0.5 * self.fit.solve_shifted(0.5 * shift, 0.5 * (A + B))
        rest = (A - B) / (2.0 * shift)
        return np.concatenate([half + rest, half - rest], axis=1)

    def intercept(self, P: Array) -> Array:
        return self.fit.intercept(self.total(P))

    def intercept_at_zero(self, at: SumEvaluation) -> Array:
        return self.fit.intercept_at_zero(at.inner)

    def restrict(self, features: Index) -> Self:
        return replace(self, fit=self.fit.restrict(features))

    def total(self, P: Array) -> Array:
        """A + B (d, m)."""
        A, B = self._halves(P)
        return A + B

    def _halves(self, P: Array) -> tuple[Array, Array]:
        m = self.fit.shape[1]
        return P[:, :m], P[:, m:]


def _twice(G: Array) -> Array:
    return np.concatenate([G, G], axis=1)
