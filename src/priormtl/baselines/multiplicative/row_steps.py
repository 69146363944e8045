"""What the steps for ridge and lasso with one weight per feature have in common."""

from typing import Any, NamedTuple, Protocol

from priormtl._arrays import Array, Index
from priormtl.losses import DataFit, Evaluation

__all__ = ["Place", "RowStep"]


class Place(NamedTuple):
    """Where a step begins, and what it counts."""

    coef: Array  # (d, m)
    point: Evaluation  # the fit there
    shared: Array  # v (d,), not negative; rows of coef are zero where it is
    lam: float
    enough: float  # gain of the objective that is not worth a further pass


class RowStep(Protocol):
    """A way to lower fit(W) + lam Σ_j ‖w_j / v_j‖_p^p over W."""

    @property
    def fit(self) -> DataFit[Any]:
        """What is fitted."""

    def move(self, place: Place) -> Array:
        """Coefficients (d, m) that are better in the fit's quadratic model."""

    def restrict(self, features: Index) -> "RowStep":
        """Same for a fit to these features only."""
