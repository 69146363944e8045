"""Checks of what users set, in one wording: name, what it must be, what came."""

import os
from collections.abc import Collection
from math import inf, nan
from numbers import Integral, Real

import numpy as np

from priormtl._arrays import Array
from priormtl.exceptions import suggest

TIES = ("uniform", "adaptive")


def _check_list(values: object, words: str) -> Collection[object]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, Collection) or isinstance(listed, str) or not len(listed):
        raise ValueError(f"{words}: got {values!r}.")
    return listed


def check_strength(
    name: str,
    value: object,
    what: str = "a finite number, at least 0",
    *,
    zero: bool = True,
    infinite: bool = False,
) -> float:
    """Number that is not negative: ``what`` says whether it may be zero or infinite."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = float(value) if is_number else nan  # type: ignore[arg-type]
    # NaN fails all comparisons.
    if 0 < number < inf or (zero and number == 0) or (infinite and number == inf):
        return number
    raise ValueError(f"{name} must be {what}: got {value!r}.")


def check_positive(name: str, value: object) -> float:
    """Finite number above zero."""
    return check_strength(name, value, "a finite number above 0", zero=False)


def check_strengths(name: str, values: object) -> Array:
    """Several strengths, at least one."""
    listed = _check_list(values, f"{name} must list at least one strength")
    return np.array([check_strength(f"every one of {name}", v) for v in listed])


def check_jobs(value: object) -> int:
    """Number of workers: None is one, −1 as many as there are processors."""
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, Integral) or value == 0:
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0: got {value!r}."
        )
    jobs = int(value)
    return jobs if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + jobs)


def check_tolerance(value: object) -> float:
    """Positive number."""
    return check_strength("tol", value, "a positive number", zero=False, infinite=True)


def check_count(name: str, value: object, least: int = 1) -> int:
    """Whole number from ``least`` on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        what = (
            "positive whole number" if least == 1 else f"whole number from {least} on"
        )
        raise ValueError(f"{name} must be a {what}: got {value!r}.")
    return int(value)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        near = suggest([str(value)], choices)
        raise ValueError(f"{name} must be one of {words}: got {value!r}.{near}")
    return value


def check_fit_intercept(value: object) -> bool | str:
    """True, False or "tied"."""
    if not isinstance(value, bool | np.bool_) and value != "tied":
        near = suggest([value], ["tied"]) if isinstance(value, str) else ""
        raise ValueError(
            f'fit_intercept must be True, False or "tied": got {value!r}.{near}'
        )
    return value if isinstance(value, str) else bool(value)


def check_row_weights(name: str, value: object, d: int, *, zero: bool) -> Array | None:
    """One finite weight per feature; positive, or at least zero."""
    if value is None:
        return None
    weights = np.asarray(value, dtype=np.float64)
    if weights.shape != (d,):
        raise ValueError(
            f"{name} must have one weight per feature: got shape {weights.shape} for "
            f"{d} features."
        )
    least = "at least 0" if zero else "above 0"
    valid = weights >= 0 if zero else weights > 0
    if not np.all(np.isfinite(weights) & valid):
        first = int(np.argmin(np.isfinite(weights) & valid))
        raise ValueError(
            f"{name} must be finite and {least}: got {weights[first]} for the feature "
            f"at position {first}."
        )
    return weights


def check_ties(value: object, d: int) -> Array | str | None:
    """Weights of ties (d,), "adaptive", or None if all are one.

    An infinite weight means a common effect.
    """
    if value is None or isinstance(value, str):
        if value not in TIES:
            near = suggest([value], TIES) if value else ""
            raise ValueError(
                'ties must be "uniform", "adaptive" or one weight per feature: got '
                f"{value!r}.{near}"
            )
        return None if value == "uniform" else value
    weights = np.asarray(value, dtype=np.float64)
    finite = np.where(weights == np.inf, 1.0, weights)
    check_row_weights("ties", finite, d, zero=True)
    return weights


def check_outlier_strength(name: str, value: object) -> float:
    """Positive number; infinity means no outliers."""
    words = "a positive number, or inf for no outliers"
    return check_strength(name, value, words, zero=False, infinite=True)


def check_outlier_strengths(values: object) -> Array | None:
    """Several strengths, at least one; None: those that the data suggest."""
    if values is None:
        return None
    listed = _check_list(values, "outlier_strengths must be None or list at least one")
    name = "every one of outlier_strengths"
    return np.array([check_outlier_strength(name, value) for value in listed])


def is_word(value: object, *words: str) -> bool:
    """Whether a setting, which may be an array, is one of these words."""
    return isinstance(value, str) and value in words
