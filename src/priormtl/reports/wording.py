"""How numbers, counts and names are spelled in sentences."""

import math
from collections.abc import Sequence

__all__ = ["count", "join_names", "percent", "spell", "spell_label"]

LONGEST_LABEL = 120  # letters; longer names are cut
MINUS = "\N{MINUS SIGN}"


def spell(number: float, digits: int = 4) -> str:
    """Write a number with a few digits and a true minus sign."""
    if math.isnan(number):
        return "unknown"
    text = f"{number:.{digits}g}"
    if abs(number) < 1e7 and ("e+" in text or abs(number) >= 1e4):
        text = f"{float(text):,.0f}"
    return text.replace("-", MINUS)


def percent(share: float) -> str:
    """Write a share as a percentage of two or three digits."""
    value = 100.0 * share
    digits = 0 if abs(value) >= 9.95 else 1
    return f"{value:.{digits}f} %".replace("-", MINUS)


def count(n: int, noun: str) -> str:
    """Write how many there are of something, such as ``1 task`` or ``1,000 tasks``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def join_names(names: Sequence[str], most: int = 3) -> str:
    """Write names with commas; beyond ``most`` only how many more."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def spell_label(label: object) -> str:
    """Write a feature's or task's name as text that any file can hold."""
    # Halves of surrogate pairs have no place in UTF-8.
    text = str(label).encode("utf-8", "replace").decode("utf-8")
    cut = len(text) > LONGEST_LABEL
    return f"{text[: LONGEST_LABEL - 1]}…" if cut else text
