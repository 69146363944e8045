"""Texts that are numbers but for a few: more likely a mistake than categories."""

import re
import warnings
from collections.abc import Sequence

__all__ = ["warn_of_numbers"]

FEWEST_VALUES = 8  # of fewer, numbers may well be names
LARGEST_SHARE_OF_OTHERS = 0.25
NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")


def warn_of_numbers(name: str, values: Sequence[str]) -> None:
    """Warn where each of these texts became a feature, though they look like numbers.

    One cell that is no number, or commas for decimal points, turn a column into text.
    """
    others = [value for value in values if not NUMBER.fullmatch(value)]
    few = len(others) <= LARGEST_SHARE_OF_OTHERS * len(values)
    if len(values) < FEWEST_VALUES or not few:
        return
    strange = others[0] if others else _with_comma(values)
    reason = "" if strange is None else f", but for texts such as {strange[:40]!r}"
    warnings.warn(
        f"column {name!r} is text, so that each of its {len(values)} values is a "
        f"feature, though they look like numbers{reason}: write numbers with decimal "
        "points, or declare its categories if it holds some.",
        UserWarning,
        stacklevel=2,
    )


def _with_comma(values: Sequence[str]) -> str | None:
    return next((value for value in values if "," in value), None)
