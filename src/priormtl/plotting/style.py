"""One style for all figures: readable in grey, safe for the colour-blind.

Figures are objects; nothing here touches pyplot or the user's settings.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"priormtl.plotting needs matplotlib, and {error.name} is missing: "
        "pip install 'priormtl[plot]'.",
        name=error.name,
    ) from None

from numpy.typing import NDArray

__all__ = [
    "LOOKS",
    "REFERENCE_LOOK",
    "Axes",
    "AxesGrid",
    "Figure",
    "Look",
    "add_legend",
    "choose_looks",
    "mpl",
    "new_axes",
    "new_figure",
    "say_missing",
    "share_legend",
    "styled",
    "tick_few_decades",
    "withStroke",
]

AxesGrid = NDArray[Any]


class Look(NamedTuple):
    """How a line is told from others, by colour and without it."""

    colour: str
    line: str | tuple[int, tuple[float, ...]]
    marker: str


# Colours of Okabe & Ito; black is kept for means and references.
LOOKS = (
    Look("#0072b2", "-", "o"),
    Look("#d55e00", "--", "s"),
    Look("#009e73", "-.", "^"),
    Look("#cc79a7", ":", "D"),
    Look("#e69f00", (0, (5, 1, 1, 1, 1, 1)), "v"),
    Look("#56b4e9", (0, (8, 2)), "P"),
)
REFERENCE_LOOK = Look("#000000", "-", "x")

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


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of this package; other figures keep theirs."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield


def new_figure(
    n_rows: int, n_columns: int, *, width: float = 3.6, height: float = 2.9
) -> tuple[Figure, AxesGrid]:
    """Make panels of a size in inches, spaced so that no label is cut."""
    size = (width * n_columns, height * n_rows)
    figure = Figure(figsize=size)
    figure.set_layout_engine("constrained", w_pad=0.09, h_pad=0.07)
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


def new_axes(ax: Axes | None, width: float = 5.5, height: float = 3.6) -> Axes:
    """Axes to draw on: those given, or those of a new figure of a size in inches."""
    if ax is not None:
        return ax
    _, axes = new_figure(1, 1, width=width, height=height)
    return axes[0, 0]


def choose_looks(names: Sequence[str]) -> dict[str, Look]:
    """One look per name, in order; with many names, looks come again."""
    return {name: LOOKS[place % len(LOOKS)] for place, name in enumerate(names)}


def add_legend(ax: Axes) -> None:
    """Put the legend right of the axes, where it covers nothing."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def share_legend(figure: Figure) -> None:
    """Put one legend for all panels under them, in as many rows as it needs."""
    handles: dict[str, Any] = {}
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


def tick_few_decades(axis: Any) -> None:
    """Plain numbers at 1, 2, 5 … of a logarithmic axis too short for powers of ten."""
    low, high = sorted(axis.get_data_interval())
    if 0 < low <= high < 40.0 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def say_missing(ax: Axes, words: str) -> Axes:
    """Say in an empty panel why it is empty."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes)
    return ax
