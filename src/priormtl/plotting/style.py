"""The common style of all figures: lines, colours, names of ticks, files.

Figures are readable in grey and safe for colour-blind readers: lines differ in dash
pattern and marker as well as in colour, and the lightness of every colour map is
monotone in the value. Neither pyplot nor the user's matplotlib settings are touched.
"""

import os
import textwrap
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"priormtl.plotting needs matplotlib, and {error.name} is missing: "
        "pip install 'priormtl[plot]'.",
        name=error.name,
    ) from None

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._files import write_whole

__all__ = [  # for figures of other modules
    "AutoDateLocator",
    "Axes",
    "ConciseDateFormatter",
    "Figure",
    "mpl",
    "withStroke",
]


class LineStyle(NamedTuple):
    """Colour, dash pattern and marker of a line."""

    colour: str
    line: str | tuple[int, tuple[float, ...]]
    marker: str


# Colours of Okabe & Ito (2008). Black is kept for means and references.
LINE_STYLES = (
    LineStyle("#0072b2", "-", "o"),
    LineStyle("#d55e00", "--", "s"),
    LineStyle("#009e73", "-.", "^"),
    LineStyle("#cc79a7", ":", "D"),
    LineStyle("#e69f00", (0, (5, 1, 1, 1, 1, 1)), "v"),
    LineStyle("#56b4e9", (0, (8, 2)), "P"),
)
REFERENCE_STYLE = LineStyle("#000000", "-", "x")
GREY = "#808080"

SETTINGS = {
    "font.size": 10.0,
    "font.family": "DejaVu Sans",  # comes with matplotlib: same letters everywhere
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e0e0e0",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
}


# Figures and axes.


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of this package; other figures keep theirs."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


class SettledLayout(ConstrainedLayoutEngine):
    """Constrained layout, repeated until the panels no longer move.

    One pass computes margins at the old size of the panels. With equal aspects that
    size depends on the margins, so the first drawing would cut off titles.
    """

    def execute(self, fig: Figure) -> None:
        most_passes = 20  # of the layout; a move falls to about a quarter in each
        settled = 1e-5  # of the figure's side: far below a pixel
        for _ in range(most_passes):
            before = [ax.get_position().bounds for ax in fig.axes]
            super().execute(fig)
            moves = np.subtract([ax.get_position().bounds for ax in fig.axes], before)
            if np.abs(moves).max(initial=0.0) <= settled:
                break


def new_figure(
    n_rows: int, n_columns: int, *, width: float = 3.6, height: float = 2.9
) -> tuple[Figure, np.ndarray]:
    """Make a figure with a grid of panels; ``width`` and ``height`` are in inches."""
    figure = Figure(figsize=(width * n_columns, height * n_rows))
    figure.set_layout_engine(SettledLayout(w_pad=0.09, h_pad=0.07))
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


def new_axes(ax: Axes | None, width: float = 5.5, height: float = 3.6) -> Axes:
    """Return ``ax``, or the axes of a new figure where it is None."""
    if ax is not None:
        return ax
    return new_figure(1, 1, width=width, height=height)[1][0, 0]


def show_missing(ax: Axes, words: str) -> Axes:
    ax.set_axis_off()
    ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes)
    return ax


# Lines, intervals and legends.


def draw_zero(ax: Axes, *, upright: bool = False) -> None:
    line = ax.axvline if upright else ax.axhline
    line(0.0, color=GREY, linewidth=0.8)


def draw_interval(
    ax: Axes,
    x: np.ndarray,
    ends: Sequence[Array],
    colour: str,
    *,
    bars: bool,
    label: str = "",
) -> None:
    """Draw intervals (2, k) as a band, or as bars."""
    low, high = ends
    if bars:
        ax.vlines(x, low, high, color=colour, alpha=0.4, linewidth=2.5, label=label)
    else:
        band = ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        band.set_label(label)


def choose_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    return {
        name: LINE_STYLES[place % len(LINE_STYLES)] for place, name in enumerate(names)
    }


def add_legend(ax: Axes) -> None:
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def share_legend(figure: Figure) -> None:
    """Put one legend for all panels under them, in as many rows as it needs."""
    handles: dict[str, mpl.artist.Artist] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for n_columns in range(len(handles), 0, -1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=n_columns,
        )
        if n_columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


# Colour maps.

VALUES = "cividis"


def _colour_map(name: str, *stops: str) -> "mpl.colors.Colormap":
    return mpl.colors.LinearSegmentedColormap.from_list(f"priormtl-{name}", stops)


# Blue and dark below zero, yellow and light above; zero is a neutral grey.
SIGNED = _colour_map(
    "signed",
    *("#000f3d", "#0f3c86", "#4f76ab", "#949494", "#c7a94f", "#f2cf3f", "#fffac8"),
)
# For lines on white: even the lightest stop is visible there.
DISAGREEMENT = _colour_map("disagreement", "#b4c7d4", "#e08a3c", "#b53a00", "#4a0d00")


# Names and numbers on axes.

LONGEST = 24
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
    # matplotlib reads $…$ as a formula and hides labels that begin with "_".
    text = text.replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


def even_places(count: int, most: int) -> Index:
    """At most ``most`` equally spaced places of ``range(count)``, from the first."""
    step = -(-count // max(1, most))
    return np.arange(0, count, max(1, step))


def name_ticks(ax: Axes, side: Literal["x", "y"], names: Sequence[Hashable]) -> None:
    """Write names at 0, 1, …: as many as have room, upright where they are long."""
    inches = _inches(ax, side)
    line_inches = 0.17  # from one line of small letters to the next
    places = even_places(len(names), int(inches / line_inches))
    words = [shorten(names[place]) for place in places]
    if side == "y":
        ax.set_yticks(places, words, fontsize=8)
        return
    room = inches / max(1, len(places))
    widest = LETTER_INCHES * max((len(word) for word in words), default=0)
    ax.set_xticks(places, words, fontsize=8, rotation=0 if widest < room else 90)


def fold_words(text: str, ax: Axes) -> str:
    # Ticks and titles take their part of the height when the figure is laid out.
    width = max(12, int(0.6 * _inches(ax, "y") / LETTER_INCHES))
    return textwrap.fill(text, width)


def _inches(ax: Axes, side: Literal["x", "y"]) -> float:
    box = ax.get_window_extent()
    return float((box.width if side == "x" else box.height) / ax.figure.dpi)


def tick_few_decades(axis: "mpl.axis.Axis") -> None:
    """Plain numbers at 1, 2, 5 … of a logarithmic axis too short for powers of ten."""
    low, high = sorted(axis.get_data_interval())
    if 0 < low <= high < 40.0 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def format_number(value: object) -> str:
    """Three digits of a number, without exponent where that is short."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")


def read_numbers(name: str, values: object, *axes: str) -> Array:
    """Check an array that the user passed; ``axes`` has one letter per dimension."""
    form = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = type(values).__name__
        raise TypeError(f"{name} must be numbers {form}: got {found}.") from None
    if array.ndim != len(axes):
        raise ValueError(f"{name} must have shape {form}: got {array.shape}.")
    return array


# Files.


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure as SVG and as PNG.

    The same figure gives the same bytes each time.

    Parameters
    ----------
    figure : matplotlib Figure
        A figure; use ``ax.figure`` for axes.
    path : path without suffix
        ``.svg`` and ``.png`` are appended.

    Returns
    -------
    svg, png : Path
        The files. An interrupted call writes no partial file.
    """
    stem = Path(path)
    contents = {}
    # A fixed salt and no date give equal bytes each time. Letters are drawn as
    # outlines, so that a page shows them alike with any fonts.
    settings = {"svg.hashsalt": "priormtl", "svg.fonttype": "path"}
    kinds = {
        "svg": {"Date": None, "Creator": "priormtl"},
        "png": {"Software": "priormtl"},
    }
    with styled(), mpl.rc_context(settings):
        for kind, metadata in kinds.items():
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
            contents[stem.with_name(f"{stem.name}.{kind}")] = buffer.getvalue()
    for target, content in contents.items():
        write_whole(target, content)
    svg, png = contents
    return svg, png
