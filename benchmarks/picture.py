"""The picture of the README: errors on fifteen real tables, way by way.

``python -m benchmarks.picture`` reads docs/benchmarks/tables.json and the results of
the usual ways (tables/usual.csv in the folder PRIORMTL_DATA), and writes
docs/static/tables.svg. Run it after `make bench ONLY=tables`.
"""

import json
import os
from pathlib import Path

import numpy as np

from benchmarks.data import NEARBY
from benchmarks.report import FOLDER
from benchmarks.workloads.tables import PROTOCOLS, read_usual
from priormtl import plotting

WAYS = {  # ways that were run on all tables by both protocols
    "LightGBM": "LightGBM",
    "ridge with task dummies": "ridge, task dummies",
    "MixedLM intercepts": "random intercepts",
    "random forest": "random forest",
}
TITLES = {
    "four fifths": "15 tables, four fifths of the rows to fit",
    "one fifth": "15 tables, one fifth of the rows to fit",
}
OURS, OTHERS = "#0072b2", "#d55e00"


def main() -> None:
    """Draw one dot per table and way, and the mean of each way."""
    numbers = json.loads((FOLDER / "tables.json").read_text(encoding="utf-8"))[
        "numbers"
    ]
    home = Path(os.environ.get("PRIORMTL_DATA", NEARBY))
    usual = read_usual(home / "tables" / "usual.csv")
    figure, (axes,) = plotting.new_figure(1, 2, width=4.5, height=2.9)
    for ax, protocol in zip(axes, PROTOCOLS, strict=True):
        values = {"priormtl": [numbers[name][protocol]["ratio"] for name in numbers]}
        for way, words in WAYS.items():
            scores = [usual[name, protocol] for name in numbers]
            values[words] = [one[way] / min(one.values()) for one in scores]
        for place, (words, ratios) in enumerate(values.items()):
            colour = OURS if words == "priormtl" else OTHERS
            # Dots that would lie on each other are moved apart, in a fixed order.
            shift = 0.09 * (np.argsort(np.argsort(ratios)) % 5 - 2)
            ax.plot(ratios, place + shift, "o", color=colour, alpha=0.6, markersize=4)
            ax.plot(np.mean(ratios), place, "|", color="black", markersize=20, mew=2)
        ax.axvline(1.0, color="0.6", linewidth=1, zorder=0)
        ax.set_xscale("log")
        ax.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        ax.minorticks_off()
        ax.set_yticks(range(len(values)), list(values) if ax is axes[0] else [])
        ax.invert_yaxis()
        ax.set(xlim=(0.38, 9.0), title=TITLES[protocol])
        ax.set_xlabel("error / error of the best other way")
    svg, png = plotting.save_figure(figure, FOLDER.parent / "static" / "tables")
    png.unlink()  # the SVG is enough
    print(f"wrote {svg}")


if __name__ == "__main__":
    main()
