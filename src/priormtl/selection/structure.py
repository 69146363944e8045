"""Structure: what a candidate of a search is, besides its strengths.

A structure says which tasks are alike, how their coefficients and intercepts are tied,
and whether curves and slopes vary between tasks. Where users leave one of these open,
``open_choices`` lists the values that folds decide between; the first ones make the
mixed model that a search begins with. ``Strengths`` has the grid of each structure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array
from priormtl.checks import check_count, check_strengths, is_word
from priormtl.data import StackedRows, TaskData, TaskStatistics
from priormtl.model import Model, Posed
from priormtl.priors import (
    TaskPrior,
    as_task_prior,
    curves_of,
    has_nesting,
    has_order,
)
from priormtl.problem import Problem
from priormtl.solvers import lam_grid

__all__ = [
    "EPSILONS",
    "THETAS",
    "Choices",
    "Grid",
    "Strengths",
    "Structure",
    "open_choices",
    "read_lams",
]

# Factors of ten around the curvature of a row: a convention, as in RidgeCV.
THETAS = (0.0, 0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0)

# Values to try for each open part of a structure, by its name, the likeliest first.
Choices = dict[str, tuple[Any, ...]]


@dataclass(frozen=True, eq=False)
class Structure:
    """What folds may decide about a model; "auto" where they are to."""

    task_prior: str | TaskPrior | None = "chain"
    ties: Any = "uniform"  # a word, or (d,) weights
    fit_intercept: bool | str = True
    smooth: str | None = None  # curves: "varying", "common", "straight"; None: as given
    slopes: str | None = None  # "varying" or "common"; None: as ties say
    crossed: tuple[str, ...] | None = None  # factors in use; None: all of the data
    drift: str | None = None  # "ou": levels of tasks drift in time
    # How time enters, where it orders rows: a curve that goes straight on, a line of
    # each task, a common line, or not at all; None without time.
    trend: str | None = None

    @property
    def is_wide(self) -> bool:
        """Whether it is that of tables with too many columns and tasks for REML."""
        return is_word(self.ties, "uniform") and self.slopes == "common"

    def widened(self) -> Self:
        """Common effects without curves: what tables of any width can be fitted by."""
        smooth = None if self.smooth is None else "straight"
        return replace(self, ties="uniform", slopes="common", smooth=smooth)

    def describe(self, model: Model, data: TaskData | TaskStatistics) -> Model:
        """Give a model of these data this structure."""
        curved = list[int]()
        for wiggles in curves_of(model.feature_prior, data.features).values():
            curved += wiggles
        left_out = tuple(sorted(curved)) if self.smooth == "straight" else ()
        common = tuple(sorted(curved)) if self.smooth == "common" else ()
        lines, wiggles = ([], []) if data.features is None else data.features.trend()
        if self.trend == "common":
            common = tuple(sorted({*common, *lines} - set(wiggles)))
        if self.trend in ("line", "common"):
            left_out = tuple(sorted({*left_out, *wiggles}))
        elif self.trend == "level":
            left_out = tuple(sorted({*left_out, *lines, *wiggles}))
        common = tuple(j for j in common if j not in left_out)
        if self.slopes == "common":
            common = tuple(sorted(set(range(data.shape[0])) - set(left_out)))
        return replace(
            model,
            task_prior=as_task_prior(self.task_prior),
            ties=self.ties,
            fit_intercept=self.fit_intercept,
            left_out=left_out,
            common=common,
            crossed=self.crossed,
            drift=self.drift,
        )

    def to_dict(self) -> dict[str, Any]:
        """Parts by name, as ``structure_`` shows them; those that it lacks left out."""
        found = dict(vars(self))
        for name in ("smooth", "slopes", "crossed", "drift", "trend"):
            if found[name] in (None, ()):
                del found[name]
        return found

    def to_plain(self) -> dict[str, Any]:
        """Parts as JSON; priors and arrays are lists in an object."""
        plain = dict[str, Any]()
        for name, value in vars(self).items():
            if isinstance(value, TaskPrior):
                plain[name] = {"prior": value.to_plain()}
            elif name == "crossed" and value is not None:
                plain[name] = list(value)
            elif isinstance(value, np.ndarray | list):
                plain[name] = {"array": np.asarray(value, dtype=np.float64).tolist()}
            else:
                plain[name] = value
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Self:
        """Inverse of ``to_plain``."""
        parts = dict[str, Any]()
        for name, value in plain.items():
            if isinstance(value, dict) and "prior" in value:
                parts[name] = TaskPrior.from_plain(value["prior"])
            elif isinstance(value, dict):
                parts[name] = np.array(value["array"], dtype=np.float64)
            elif isinstance(value, list):
                parts[name] = tuple(map(str, value))
            else:
                parts[name] = value
        return cls(**parts)


def open_choices(
    given: Structure,
    model: Model,
    data: TaskData | TaskStatistics,
    *,
    allows_free: bool,
    lam_is_zero: bool,
) -> Choices:
    """What the folds decide, with the values to try, the likeliest ones first.

    ``allows_free`` tells whether free intercepts have finite estimates.
    """
    choices = Choices()
    curves = curves_of(model.feature_prior, data.features)
    is_squared = model.loss == "squared" and model.device is None
    if isinstance(data, StackedRows) and data.time is not None and is_squared:
        choices["drift"] = (None, "ou")
    lines, wiggles = ([], []) if data.features is None else data.features.trend()
    if is_word(given.ties, "auto", "adaptive") and lines:
        # How time goes on beyond the training rows: random folds would not tell.
        choices["trend"] = ("curve",) * bool(wiggles) + ("line", "common", "level")
    if is_word(given.ties, "auto", "adaptive") and curves:
        choices["smooth"] = ("varying", "common", "straight")
    factors = () if data.features is None else data.features.crossed
    if any(term.is_extra for term in factors):
        sure = tuple(term.source for term in factors if not term.is_extra)
        choices["crossed"] = (sure, tuple(term.source for term in factors))
    # REML needs all statistics at once; those on disk are to stay there.
    estimates = not (isinstance(data, TaskStatistics) and data.is_mapped)
    if is_word(given.ties, "auto"):
        choices["ties"] = ("adaptive", "uniform") if estimates else ("uniform",)
    if is_word(given.fit_intercept, "auto"):
        choices["fit_intercept"] = ("tied", True) if allows_free else ("tied",)
        if model.intercept_strength == "adaptive" and not estimates:
            choices["fit_intercept"] = (True,)
    if given.task_prior is None:  # nothing is tied
        for name, value in {"ties": "uniform", "fit_intercept": True}.items():
            if name in choices:
                choices[name] = (value,)
    if is_word(given.task_prior, "auto"):
        ordered = has_order(data.tasks)
        choices["task_prior"] = ("mean", "chain") if ordered else ("mean",)
        if has_nesting(data.tasks):
            choices["task_prior"] = ("nested", "mean")
    if is_word(given.ties, "adaptive") and lam_is_zero:
        # REML takes rows that are far off for tasks that differ.
        choices["slopes"] = ("varying", "common")
    return choices


class Grid(NamedTuple):
    """Strengths to try, all with all."""

    lams: Array
    thetas: Array
    epsilons: Array

    @property
    def is_estimate(self) -> bool:
        """Whether strengths are those that REML has estimated, and no others."""
        return self.lams.tolist() == [0.0] and self.epsilons.tolist() == [1.0]


class Strengths(NamedTuple):
    """Strengths to try as users list them; None: those that suit a structure."""

    lams: Any
    thetas: Any
    epsilons: Any
    unit: float = 1.0  # mean weight of rows: defaults mean the same for any weights

    def grid(self, posed: Posed, structure: Structure, near: float | None) -> Grid:
        """Grid of a structure; lists that were given stay as they are.

        Where REML has estimated ties and smoothness, fewer are worth trying, and also
        where ``near``, the best epsilon of a structure with uniform ties, is known.
        """
        has_relations = posed.problem.prior.D.nnz > 0
        thetas = self.unit * np.array(THETAS if has_relations else (1.0,))
        if self.thetas is not None:
            thetas = check_strengths("thetas", self.thetas)
        if structure.is_wide:  # a ridge that was not estimated is no help
            thetas = np.array([0.0, 1.0] if has_relations else [0.0])
            return Grid(read_lams(None, posed.problem), thetas, np.ones(1))
        epsilons, lams = self.unit * np.array(EPSILONS), None
        if is_word(structure.ties, "adaptive"):
            epsilons, lams = np.ones(1), np.zeros(1)
        elif near is not None and self.epsilons is None and near in epsilons:
            position = int(np.flatnonzero(epsilons == near)[0])
            epsilons = epsilons[max(position - 1, 0) : position + 2]
        if self.epsilons is not None:
            epsilons = check_strengths("epsilons", self.epsilons)
        if self.lams is not None or lams is None:
            lams = read_lams(self.lams, posed.problem)
        return Grid(lams, thetas, epsilons)


def read_lams(lams: object, problem: Problem) -> Array:
    """Values of lam as given, or a grid from the problem's lam_max."""
    if lams is None:
        lams = 10
    if isinstance(lams, Integral):
        return lam_grid(problem, check_count("lams as a number", lams))
    return check_strengths("lams", lams)
