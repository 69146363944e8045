"""Figures to files: all or nothing, the same bytes for the same figure."""

import os
from io import BytesIO
from pathlib import Path

from priormtl._files import write_whole
from priormtl.plotting.style import Figure, mpl, styled

__all__ = ["save_figure"]

DOTS_PER_INCH = 150
# Letters as outlines: a page shows them the same with any fonts.
SVG = {"svg.hashsalt": "priormtl", "svg.fonttype": "path"}
METADATA = {
    "svg": {"Date": None, "Creator": "priormtl"},
    "png": {"Software": "priormtl"},
}


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure as SVG and as PNG.

    Parameters
    ----------
    figure : matplotlib Figure
        Any figure; ``ax.figure`` for axes.
    path : path without suffix
        ``.svg`` and ``.png`` are appended.

    Returns
    -------
    svg, png : Path
        The files, complete: an interrupted call leaves none, or the old ones.
    """
    stem = Path(path)
    targets = tuple(stem.with_name(f"{stem.name}.{kind}") for kind in METADATA)
    contents = [_draw(figure, kind) for kind in METADATA]
    for target, content in zip(targets, contents, strict=True):
        write_whole(target, content)
    return targets[0], targets[1]


def _draw(figure: Figure, kind: str) -> bytes:
    buffer = BytesIO()
    with styled(), mpl.rc_context(SVG):
        figure.savefig(buffer, format=kind, dpi=DOTS_PER_INCH, metadata=METADATA[kind])
    return buffer.getvalue()
