"""Paired differences over repeats, with an interval that knows that splits overlap.

Repeats of a data set share rows, so their differences are correlated and the ordinary
t interval is too short. Nadeau & Bengio (2003) multiply the variance of the k
differences by 1/k + r, r = n_test/n_train, in place of 1/k: a correlation
n_test/(n_test + n_train) between repeats, the expected overlap of their test sets.
Where training sets are the smaller part they vary more than test sets do, and
repeats share less: see :func:`overlap_ratio`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np
from scipy import stats

from priormtl._arrays import Array

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

LEVEL = 0.95
# Values that only differ by the tolerance of solvers are equal.
SMALLEST_DIFFERENCE = 1e-9

Repeats = Mapping[int, float]  # value of a metric by repeat


class Verdict(Enum):
    """Where a method stands against the reference."""

    BETTER = "significantly better"
    EVEN = "no significant difference"
    WORSE = "significantly worse"
    UNKNOWN = "fewer than two common repeats"


class Interval(NamedTuple):
    """Ends of an interval, and the p value of no difference."""

    low: float
    high: float
    p_value: float


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


def corrected_interval(
    differences: Array, test_to_train: float, level: float = LEVEL
) -> Interval:
    """Corrected resampled t interval of the mean of two or more differences."""
    if not test_to_train >= 0:
        raise ValueError(
            "test_to_train must be the test rows divided by the training rows, "
            f"0 for no correction: got {test_to_train}."
        )
    k = len(differences)
    mean = float(differences.mean())
    error = sqrt(float(differences.var(ddof=1)) * (1.0 / k + test_to_train))
    reach = float(stats.t.ppf((1.0 + level) / 2.0, k - 1)) * error
    statistic = abs(mean) / error if error > 0 else (inf if mean else 0.0)
    return Interval(mean - reach, mean + reach, float(2 * stats.t.sf(statistic, k - 1)))


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
