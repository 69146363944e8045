"""How numbers, counts and names are spelled in sentences."""

import math
from collections.abc import Sequence

from priormtl.tables import spell_number

__all__ = ["join_names", "percent", "spell", "spell_label"]

LONGEST_LABEL = 120  # letters; longer names are cut
MINUS = "\N{MINUS SIGN}"


def spell(number: float, digits: int = 4) -> str:
    """Write a number of a sentence: as in tables, but thousands are not shortened."""
    if math.isnan(number):
        return "unknown"
    text = spell_number(number, digits)
    if abs(number) < 1e7 and ("e+" in text or abs(number) >= 1e4):
        return f"{float(f'{number:.{digits}g}'):,.0f}".replace("-", MINUS)
    return text


def percent(share: float) -> str:
    """Write a share as a percentage of two or three digits."""
    value = 100.0 * share
    digits = 0 if abs(value) >= 9.95 else 1
    return f"{value:.{digits}f} %".replace("-", MINUS)


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
