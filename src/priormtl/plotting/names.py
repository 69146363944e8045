"""Names of features and tasks, as a figure has room for them."""

import textwrap
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np

from priormtl._arrays import Index
from priormtl.plotting.style import Axes

__all__ = [
    "even_places",
    "fold_words",
    "name_ticks",
    "say_number",
    "shorten",
]

LONGEST = 24
LINE_INCHES = 0.17  # from one line of small letters to the next
LETTER_INCHES = 0.085


def shorten(name: Hashable, longest: int = LONGEST) -> str:
    """Name on one line, its middle left out where it is long.

    Examples
    --------
    >>> shorten("percentage of pupils eligible for free meals", 20)
    'percentage…ree meals'
    """
    text = " ".join(str(name).split())
    if len(text) > longest:
        tail = (longest - 1) // 2
        text = f"{text[: longest - 1 - tail]}…{text[-tail:]}"
    return _literal(text)


def even_places(count: int, most: int) -> Index:
    """At most so many places of ``range(count)``, equally far apart, from the first."""
    step = -(-count // max(1, most))
    return np.arange(0, count, max(1, step))


def name_ticks(ax: Axes, side: Literal["x", "y"], names: Sequence[Hashable]) -> None:
    """Write names at 0, 1, …: all that have room, upright where they are long."""
    inches = _inches(ax, side)
    places = even_places(len(names), int(inches / LINE_INCHES))
    words = [shorten(names[place]) for place in places]
    if side == "y":
        ax.set_yticks(places, words, fontsize=8)
        return
    room = inches / max(1, len(places))
    widest = LETTER_INCHES * max((len(word) for word in words), default=0)
    ax.set_xticks(places, words, fontsize=8, rotation=0 if widest < room else 90)


def fold_words(text: str, ax: Axes) -> str:
    """Words of a vertical axis, in as many lines as its height asks for."""
    # Ticks and titles take their part of the height when the figure is laid out.
    width = max(12, int(0.6 * _inches(ax, "y") / LETTER_INCHES))
    return textwrap.fill(text, width)


def say_number(value: Any) -> str:
    """Three digits of a number, plainly where that is short; other values as text.

    Examples
    --------
    >>> say_number(1372.4), say_number(2e-7), say_number("auto")
    ('1370', '2e-07', 'auto')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")


def _inches(ax: Axes, side: Literal["x", "y"]) -> float:
    box = ax.get_window_extent()
    return float((box.width if side == "x" else box.height) / ax.figure.dpi)


def _literal(text: str) -> str:
    """Text that matplotlib shows as it is: no formulas, and not hidden in legends."""
    shown = text.replace("$", r"\$")
    # Legends leave out what begins with an underscore.
    return f"\u200b{shown}" if shown.startswith("_") else shown
