"""Interfaces of losses: `Loss.bind` gives a `DataFit`, which gives an `Evaluation`.

A data fit is a function f of the coefficients P (d, m) alone: intercepts are minimised
out. Solvers need values, gradients and products with the Hessian; certificates need
dual values at multiples of the residuals.

Intercepts of tasks are free, absent, or tied to those of related tasks. Each kind finds
the b that minimises ½ Σ h_i (b_i − r_i)² plus the cost of b itself, which is
strength/2 bᵀ L b for tied intercepts and zero for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeVar

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import TaskData, TaskStatistics
from priormtl.priors.graphs import Laplacian

E = TypeVar("E", bound="Evaluation")
Solver = Callable[[Array], Array]


# Intercepts.


class Intercepts(Protocol):
    """How the intercepts of m tasks are chosen."""

    @property
    def are_free(self) -> bool:
        """Whether every task has its own at no cost."""

    @property
    def are_fixed(self) -> bool:
        """Whether all are zero."""

    @property
    def graph(self) -> Laplacian | None:
        """L of the cost, if there is one."""

    @property
    def tie_strength(self) -> float:
        """Strength of ½ bᵀ L b in the cost."""

    def value(self, b: Array) -> float:
        """Cost of b itself."""

    def slope(self, b: Array) -> Array:
        """Gradient of that cost (m,)."""

    def solver(self, curvature: Array) -> Solver:
        """Map r to the best b, for curvatures h > 0 (m,)."""

    def scaled(self, factor: float) -> Self:
        """Same, at ``factor`` times the cost."""


class Costless:
    """Intercepts without a cost of their own."""

    graph = None
    tie_strength = 0.0

    def value(self, b: Array) -> float:
        return 0.0

    def slope(self, b: Array) -> Array:
        return np.zeros_like(b)

    def scaled(self, factor: float) -> Self:
        return self


@dataclass(frozen=True)
class FreeIntercepts(Costless):
    """Every task has its own."""

    are_free: ClassVar[bool] = True
    are_fixed: ClassVar[bool] = False

    def solver(self, curvature: Array) -> Solver:
        return lambda r: r


@dataclass(frozen=True)
class NoIntercepts(Costless):
    """All are zero."""

    are_free: ClassVar[bool] = False
    are_fixed: ClassVar[bool] = True

    def solver(self, curvature: Array) -> Solver:
        return np.zeros_like


@dataclass(frozen=True, eq=False)
class TiedIntercepts:
    """Related tasks have similar ones: strength/2 bᵀ L b."""

    graph: Laplacian
    tie_strength: float

    are_free: ClassVar[bool] = False
    are_fixed: ClassVar[bool] = False

    def value(self, b: Array) -> float:
        return 0.5 * float(b @ self.slope(b))

    def slope(self, b: Array) -> Array:
        return self.tie_strength * self.graph.times(b)

    def solver(self, curvature: Array) -> Solver:
        """Solve (diag(h) + strength L) b = h r."""
        solve = self.graph.shifted_solver(curvature, self.tie_strength)
        return lambda r: solve(curvature * r)

    def scaled(self, factor: float) -> Self:
        return replace(self, tie_strength=factor * self.tie_strength)


# Losses.


class Evaluation(Protocol):
    """A data fit evaluated at a point P, intercepts at their best."""

    @property
    def value(self) -> float:
        """Misfit plus the cost of the intercepts."""

    @property
    def gradient(self) -> Array:
        """Gradient in P (d, m)."""

    def dual_value(self, scale: float) -> float:
        """Dual value at ``scale`` times the residuals."""

    def best_scale(self, limit: float, prior_value: float, slack: float = 0.0) -> float:
        """Scale s of the best dual value, at most ``limit``, with the prior's share.

        That is s · slack − s² · prior_value.
        """


class NormalForm(NamedTuple):
    """A quadratic fit written out: ½ Σ qᵀ gram q − linear q over each task's rows q.

    Tied intercepts are rows of their own, before the features. A gram that can be
    written is the caller's own.
    """

    gram: Array  # (m, k, k), or (1, k, k) where all tasks have the same
    linear: Array  # (k, m)
    intercept_ties: Array  # strength of L on each intercept row, (0,) or (1,)


class SampleForm(NamedTuple):
    """A quadratic fit as least squares: ½ Σ ‖rowsᵀ q − target‖² over tasks' rows q.

    Tied intercepts are rows of their own, before the features.
    """

    rows: Array  # (k, n) all samples' values of a feature lie together
    target: Array  # (n,) task after task, or (m, n) where tasks share samples
    starts: Index  # (m + 1,) where each task begins; empty where tasks share samples
    intercept_ties: Array  # as in the normal form


class DeviceForm(NamedTuple):
    """The normal form with Gram matrices on a device, the row of intercepts apart."""

    gram: Any  # tensor (m, d, d), or (1, d, d) where all tasks have the same
    linear: Array  # (m, d)
    weight: Array  # (m,) diagonal of the row of intercepts
    edge: Array  # (m, d) its products with the features
    total: Array  # (m,) its linear term
    intercept_ties: Array  # as in the normal form; empty: there is no such row


class DataFit(Protocol[E]):
    """A loss bound to data, as a function of P alone: intercepts are minimised out."""

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""

    @property
    def is_quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""

    @property
    def has_lipschitz_gradient(self) -> bool:
        """Whether there is a majorant: a bound on the Hessian everywhere."""

    @property
    def has_exact_models(self) -> bool:
        """Whether quadratic models have the Hessian, and not a bound on it."""

    @property
    def constant(self) -> float:
        """What the loss as it is written has more than the value: its least value."""

    def evaluate(self, P: Array, near: E | None = None) -> E:
        """Evaluate at P; ``near`` may hold a neighbouring point to start from."""

    def rounding(self, at: E) -> float:
        """Bound on what rounding errors may hide in the value at a point."""

    def extrapolate(self, current: E, previous: E, amount: float) -> E:
        """Evaluate at current + amount · (current − previous), without a product."""

    def hessian(self, at: E, V: Array) -> Array:
        """Hessian in a point times V (d, m)."""

    def majorant(self, V: Array) -> Array:
        """Product of V with a matrix that is nowhere below the Hessian."""

    def newton_dual(self, at: E, V: Array, product: Array) -> float:
        """Dual value at the residuals that linearisation predicts for P + V.

        ``product`` is the Hessian times V; minus infinity if they are not feasible.
        """

    def task_spectra(self) -> tuple[Array, Array]:
        """Smallest and largest eigenvalue of each task's XᵀX (m,), (m,)."""

    @property
    def size(self) -> int:
        """Numbers that a product with the Hessian reads."""

    @property
    def magnitude(self) -> float:
        """Size of the numbers from which values are computed: rounding's unit."""

    @property
    def noise(self) -> float:
        """Value that rounding errors of the targets alone can make."""

    @property
    def intercept_graph(self) -> Laplacian | None:
        """Graph that ties the intercepts, if they are tied."""

    @property
    def normal_size(self) -> int | None:
        """Numbers in the normal form; None where there is none."""

    @property
    def most_held(self) -> int | None:
        """Numbers of the normal form that memory may hold; None: any."""

    @property
    def is_on_device(self) -> bool:
        """Whether a device holds the Gram matrices."""

    def quadratic_model(self, at: E) -> "DataFit[Any]":
        """Squared fit that agrees to second order in a point, but for a constant."""

    def far_model(self, at: E) -> "DataFit[Any]":
        """Squared fit with the same slope, and curvatures as they are on a long way."""

    def least_squares(self, at: E) -> "DataFit[Any] | None":
        """The same on samples where they are at hand: nothing is squared.

        This takes longer and keeps more digits. None where there is no such model.
        """

    def gradient_noise(self, at: E) -> Array | None:
        """How far the gradient is off (d, m), beyond rounding; None: not at all."""

    def normal_form(self) -> NormalForm:
        """The fit written out, for quadratic ones."""

    @property
    def rows_per_task(self) -> float | None:
        """Mean number of samples in a task of the sample form; None without one."""

    def sample_form(self) -> SampleForm:
        """The fit as least squares, for quadratic ones whose samples are at hand."""

    def device_form(self) -> DeviceForm:
        """The fit written out where a device holds its Gram matrices."""

    @property
    def shifted_size(self) -> int | None:
        """Numbers that ``solve_shifted`` reads; None where it is not available."""

    def solve_shifted(self, shift: float, V: Array) -> Array:
        """X that solves (Hessian + shift · I) X = V, for quadratic fits."""

    def intercept(self, P: Array) -> Array:
        """Best intercepts (m,), where features are zero after any shift."""

    def intercept_at_zero(self, at: E) -> Array:
        """Intercepts of a point (m,), where features are zero as the user gave them.

        They are those with which the point was evaluated, hence certified.
        """

    def restrict(self, features: Index) -> Self:
        """Only these features."""


class WithoutForms:
    """Base of fits that are no sums of squares with one Hessian: they have no forms."""

    normal_size: ClassVar[None] = None
    rows_per_task: ClassVar[None] = None
    most_held: ClassVar[None] = None
    is_on_device: ClassVar[bool] = False

    def normal_form(self) -> NoReturn:
        raise _no_form(self, "normal")

    def sample_form(self) -> NoReturn:
        raise _no_form(self, "sample")

    def device_form(self) -> NoReturn:
        raise _no_form(self, "device")


def _no_form(fit: object, kind: str) -> TypeError:
    name = type(fit).__name__
    return TypeError(f"{name} has no {kind} form: use its quadratic model.")


@dataclass(frozen=True, eq=False)
class DelegateFit(WithoutForms):
    """Base of fits made of another one."""

    fit: DataFit[Any]

    def least_squares(self, at: Any) -> None:
        return None

    def gradient_noise(self, at: Any) -> None:
        return None

    @property
    def has_lipschitz_gradient(self) -> bool:
        return self.fit.has_lipschitz_gradient

    @property
    def has_exact_models(self) -> bool:
        return self.fit.has_exact_models

    @property
    def constant(self) -> float:
        return self.fit.constant

    @property
    def size(self) -> int:
        return self.fit.size

    @property
    def magnitude(self) -> float:
        return self.fit.magnitude

    @property
    def noise(self) -> float:
        return self.fit.noise

    @property
    def intercept_graph(self) -> Laplacian | None:
        return self.fit.intercept_graph


class Loss(Protocol):
    """A loss function, before any data."""

    def bind(
        self,
        data: TaskData | TaskStatistics,
        intercepts: Intercepts,
        shift: Array | None = None,
    ) -> DataFit[Any]:
        """Loss on this data; ``shift`` (d,) was subtracted from the features."""
