"""How sure: intervals of differences between methods on overlapping splits.

Splits of one data set share rows, so that differences are correlated and the ordinary
t interval is too short. Nadeau & Bengio (2003) multiply the variance of the k
differences by 1/k + r, r = n_test/n_train, in place of 1/k: a correlation
n_test/(n_test + n_train) between splits, the expected overlap of their test sets.
"""

from math import inf, sqrt
from typing import NamedTuple

from scipy.special import stdtr, stdtrit

from priormtl._arrays import Array

__all__ = ["LEVEL", "Interval", "corrected_interval"]

LEVEL = 0.95


class Interval(NamedTuple):
    """Ends of an interval, and the p value of no difference."""

    low: float
    high: float
    p_value: float


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
    reach = float(stdtrit(k - 1, (1.0 + level) / 2.0)) * error
    statistic = abs(mean) / error if error > 0 else (inf if mean else 0.0)
    return Interval(mean - reach, mean + reach, 2.0 * float(stdtr(k - 1, -statistic)))
