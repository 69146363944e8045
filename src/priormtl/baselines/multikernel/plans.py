"""Plan: which variant is fitted, and whether to landmarks only."""

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from priormtl.baselines.multikernel.kernel_features import (
    KernelFeatures,
    KernelTasks,
    common_features,
    own_features,
)
from priormtl.baselines.multikernel.nystroem import choose_landmarks
from priormtl.estimators import check_choice, check_count
from priormtl.exceptions import ApproximationWarning

__all__ = ["Plan", "PlannedFeatures", "choose_plan"]

VARIANTS = ("auto", "shared", "low-rank")
MOST_CELLS = 10_000_000  # doubles in the largest table that "auto" makes: 80 MB
LANDMARKS = 64


class Plan(NamedTuple):
    """What is fitted, and whether to landmarks only."""

    variant: str
    landmarks: tuple[int, int] | None  # how many, and the seed that draws them

    @property
    def n_landmarks(self) -> int | None:
        """Number of landmarks; None: all rows."""
        return None if self.landmarks is None else self.landmarks[0]


@dataclass(frozen=True, eq=False)
class PlannedFeatures:
    """Kernel tasks, and features of each plan that was asked for."""

    data: KernelTasks
    kept: dict[Plan, KernelFeatures] = field(default_factory=dict)

    def of(self, plan: Plan) -> KernelFeatures:
        """Features of a plan, made once."""
        if plan not in self.kept:
            self.kept[plan] = _make_features(self.data, plan)
        return self.kept[plan]


def choose_plan(
    data: KernelTasks, variant: Any, most: int, n_landmarks: Any, seed: int
) -> Plan:
    """Which variant, on which rows; landmarks where there are more than ``most``."""
    chosen = check_choice("variant", variant, VARIANTS)
    fits = {"low-rank": data.u <= most, "shared": data.sizes.max() <= most}
    if chosen == "auto":
        chosen = "low-rank"
        fits[chosen] &= data.common_cells <= MOST_CELLS
    count = _count_landmarks(data, n_landmarks, bool(fits[chosen]))
    return Plan(chosen, None if count is None else (count, seed))


def _count_landmarks(data: KernelTasks, count: Any, fits: bool) -> int | None:
    """How many landmarks; None: all rows."""
    if count is None or (count == "auto" and (fits or data.u <= LANDMARKS)):
        return None
    if count == "auto":
        _warn_of_landmarks(data)
        return LANDMARKS
    return check_count("n_landmarks", count)


def _make_features(data: KernelTasks, plan: Plan) -> KernelFeatures:
    if plan.landmarks is None:
        shared = plan.variant == "shared"
        return own_features(data) if shared else common_features(data, None)
    return common_features(data, choose_landmarks(data.u, *plan.landmarks))


def _warn_of_landmarks(data: KernelTasks) -> None:
    saved = 8.0 * (data.common_cells - data.common_cells * LANDMARKS // data.u) / 2**30
    warnings.warn(
        f"functions were sought in the span of the kernels of {LANDMARKS} landmarks "
        f"among {data.u} distinct rows (Nyström), which saves {saved:.2g} GiB and the "
        "time to fill them; set n_landmarks to a larger number to be more exact, or to "
        "None to use all rows.",
        ApproximationWarning,
        stacklevel=2,
    )
