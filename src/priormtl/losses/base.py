"""What a loss owes the rooms above: values, gradients and dual values."""

from typing import Any, Protocol, Self, TypeVar

from priormtl._arrays import Array, Index
from priormtl.data import TaskData, TaskStatistics
from priormtl.losses.intercepts import Intercepts

__all__ = ["DataFit", "Evaluation", "Loss"]

E = TypeVar("E", bound="Evaluation")


class Evaluation(Protocol):
    """A data fit looked at in one point P, intercepts at their best."""

    @property
    def value(self) -> float:
        """Misfit, with what the intercepts cost."""

    @property
    def gradient(self) -> Array:
        """Gradient in P (d, m)."""

    def dual_value(self, scale: float) -> float:
        """Dual value at ``scale`` times the residuals."""

    def dual_scale(self, prior_value: float) -> float:
        """Scale of the best dual value, before it is limited by the penalty."""


class DataFit(Protocol[E]):
    """A loss bound to data, as a function of P alone: intercepts are minimised out."""

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""

    @property
    def is_quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""

    def evaluate(self, P: Array, near: E | None = None) -> E:
        """Look at P; ``near`` may hold a neighbouring point to start from."""

    def extrapolate(self, current: E, previous: E, amount: float) -> E:
        """Look at current + amount · (current − previous) without a new product."""

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

    def intercept(self, P: Array) -> Array:
        """Best intercepts (m,)."""

    def restrict(self, features: Index) -> Self:
        """Only these features."""


class Loss(Protocol):
    """A way to count misfit."""

    def bind(
        self, data: TaskData | TaskStatistics, intercepts: Intercepts
    ) -> DataFit[Any]:
        """Count the misfit of this data."""
