"""Hints on what was typed: strengths without effect, targets that look like classes."""

import warnings
from collections.abc import Sequence

import numpy as np

from priormtl.data import TaskStatistics

__all__ = ["hint_at_classes", "hint_at_strength"]

ROUNDING = 1e-9  # of sums over many rows


def hint_at_strength(strength: str, option: str) -> None:
    """Say that a strength weighs nothing."""
    warnings.warn(f"--{strength} has no effect without {option}.", stacklevel=2)


def hint_at_classes(target: str, parts: Sequence[TaskStatistics]) -> None:
    """Say how classes are learned where all targets are 0 or 1."""
    varied = any(np.any(part.yy > ROUNDING * part.weight) for part in parts)
    if varied and all(map(_are_zeros_and_ones, parts)):
        warnings.warn(
            f"all values of {target!r} are 0 or 1, and are learned as numbers: for "
            "classes and their probabilities there is --classify.",
            stacklevel=2,
        )


def _are_zeros_and_ones(part: TaskStatistics) -> bool:
    """Whether y² and y have the same sum in every task.

    For whole numbers this is exact, since y² - y is positive for all but 0 and 1.
    """
    squares = part.yy + part.weight * part.y_mean**2
    sums = part.weight * part.y_mean
    return bool(np.all(np.abs(squares - sums) <= ROUNDING * part.weight))
