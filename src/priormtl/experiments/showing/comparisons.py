"""Paired differences over repeats, with an interval that knows that splits overlap.

See :mod:`priormtl.metrics`. Where training sets are the smaller part they vary more
than test sets do, and repeats share less: see :func:`overlap_ratio`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import nan
from typing import NamedTuple

import numpy as np

from priormtl.metrics import LEVEL, Interval, corrected_interval

__all__ = [
    "Counts",
    "Interval",
    "PairedDifference",
    "Repeats",
    "Verdict",
    "compare_repeats",
    "corrected_interval",
    "count_verdicts",
    "overlap_ratio",
]

# Values that only differ by the tolerance of solvers are equal.
SMALLEST_DIFFERENCE = 1e-9

Repeats = Mapping[int, float]  # value of a metric by repeat


class Verdict(Enum):
    """Where a method stands against the reference."""

    BETTER = "significantly better"
    EVEN = "no significant difference"
    WORSE = "significantly worse"
    UNKNOWN = "fewer than two common repeats"


class Counts(NamedTuple):
    """How often a method was significantly better, not different, worse."""

    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class PairedDifference:
    """Method minus reference over the repeats that both have."""

    mean: float
    interval: Interval
    n_common: int
    n_left_out: int  # repeats that only one of the two has

    def verdict(self, *, higher_is_better: bool) -> Verdict:
        """Judge by whether the interval leaves out zero."""
        low, high, _ = self.interval
        if self.n_common < 2:
            return Verdict.UNKNOWN
        if low <= SMALLEST_DIFFERENCE and high >= -SMALLEST_DIFFERENCE:
            return Verdict.EVEN
        return Verdict.BETTER if (self.mean > 0) == higher_is_better else Verdict.WORSE


def overlap_ratio(n_train: float, n_test: float) -> float:
    """n_test/n_train, or its inverse where the test set is the larger one.

    The inverse is a correlation n_train/(n_train + n_test), the expected overlap of
    training sets. On simulated splits with few training rows it covers at about the
    nominal rate, while n_test/n_train gives intervals many times too long.
    """
    return min(n_test / n_train, n_train / n_test)


def compare_repeats(
    values: Repeats, reference: Repeats, *, test_to_train: float, level: float = LEVEL
) -> PairedDifference:
    """Compare on the common repeats, which are the same splits for both."""
    common = sorted(values.keys() & reference.keys())
    n_left_out = len(values.keys() | reference.keys()) - len(common)
    differences = np.array([values[repeat] - reference[repeat] for repeat in common])
    mean = float(differences.mean()) if common else nan
    interval = (
        corrected_interval(differences, test_to_train, level)
        if len(common) > 1
        else Interval(nan, nan, nan)
    )
    return PairedDifference(mean, interval, len(common), n_left_out)


def count_verdicts(verdicts: Iterable[Verdict]) -> Counts:
    """Count wins, ties and losses; what is unknown is none of them."""
    counts = Counter(verdicts)
    return Counts(counts[Verdict.BETTER], counts[Verdict.EVEN], counts[Verdict.WORSE])
