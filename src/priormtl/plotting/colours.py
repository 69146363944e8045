"""Maps from numbers to colours: what they say is seen in grey and by the colour-blind.

Lightness always grows or falls with the number, so that a print without colour keeps
the order of all values, signs included.
"""

from typing import Any

from priormtl.plotting.style import mpl

__all__ = ["DISAGREEMENT", "SIGNED", "VALUES", "symmetric_limit"]

VALUES = "cividis"


def _map_of(name: str, *stops: str) -> Any:
    return mpl.colors.LinearSegmentedColormap.from_list(f"priormtl-{name}", stops)


# Blue is below zero and dark, yellow above and light; zero is a neutral grey.
SIGNED = _map_of(
    "signed",
    "#000f3d",
    "#0f3c86",
    "#4f76ab",
    "#949494",
    "#c7a94f",
    "#f2cf3f",
    "#fffac8",
)
# Lines on white: no stop is lighter than what is seen there.
DISAGREEMENT = _map_of("disagreement", "#b4c7d4", "#e08a3c", "#b53a00", "#4a0d00")


def symmetric_limit(values: Any) -> float:
    """Ends of a map centred at zero: ± the largest value, or ±1 where all are zero."""
    largest = float(abs(values).max(initial=0.0))
    return largest if largest > 0 else 1.0
