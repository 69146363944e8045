"""Real grouped tables: our defaults against what people use instead.

The tables, their folds and the results of the usual ways (``usual.csv``) are in the
folder ``tables`` of PRIORMTL_DATA; its README says how each way was tuned. Nothing here
looks at the reported folds: ``tabular_model(kind, task="task")`` is fitted on the
training rows of each fold, with no other argument.
"""

import csv
import gzip
import os
import warnings
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.data import NEARBY, MissingDataError
from benchmarks.report import Bar, Bars, Report, Section, Table, seconds_of, times
from benchmarks.timing import Seconds, in_processes
from priormtl import tabular_model

TITLE = "Real grouped tables"
PROTOCOLS = ("four fifths", "one fifth")  # of the rows train
FOLDS = 5
SMALLEST_SHARE = 1e-3  # probabilities are clipped to [0.001, 0.999]
LARGEST_MEANS = {"four fifths": 1.00, "one fifth": 0.97}  # ratios to the best other
LARGEST_RATIO = 1.05
LONGEST_MEDIAN, LONGEST_FIT = 5.0, 20.0  # seconds
MOST_ROWS = 5000  # for which these hold
QUICK = ("radon", "oxboys", "guimmun")


class Scored(NamedTuple):
    """Ours on a table: its score and the seconds of the fits."""

    score: float
    seconds: Seconds


Key = tuple[str, str]  # table and protocol
Scores = dict[Key, dict[str, float]]  # by way
NAMES = {"gam_fs_y": "mgcv factor smooths"}  # where usual.csv has codes
OURS = "**ours**"


def measure(quick: bool) -> Report:
    """Fit our model on all tables by both protocols, and compare."""
    folder = Path(os.environ.get("PRIORMTL_DATA", NEARBY)) / "tables"
    if not (folder / "usual.csv").is_file():
        raise MissingDataError("tables/usual.csv is not in the folder PRIORMTL_DATA")
    usual = read_usual(folder / "usual.csv")
    names = dict.fromkeys(name for name, _ in usual)
    frames = {
        name: read_table(folder / f"{name}.csv.gz")
        for name in names
        if not quick or name in QUICK
    }
    # The longest first: no process is left alone with them.
    keys = sorted(product(frames, PROTOCOLS), key=lambda key: -len(frames[key[0]]))
    parts = in_processes(run_protocol, ((frames[name], p) for name, p in keys))
    ours = {}
    for key, found in zip(keys, parts, strict=True):
        ours[key] = found
        ratio = found.score / min(usual[key].values())
        words = f"{found.score:.4g}, {ratio:.3f} of the best other"
        seconds = f"{seconds_of(found.seconds)} s a fit"
        print(f"  {', '.join(key)}: {words}, {seconds}", flush=True)
    return make_report(ours, usual, {name: len(frames[name]) for name in frames})


def read_usual(path: Path) -> Scores:
    """Scores of the usual ways by table and protocol."""
    found: Scores = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            ways = found.setdefault((row["table"], row["training_rows"]), {})
            ways[NAMES.get(row["method"], row["method"])] = float(row["score"])
    return found


def read_table(path: Path) -> Any:
    """Read a table as a data frame."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return pd.read_csv(file)


def run_protocol(frame: Any, protocol: str) -> Scored:
    """Score of all predicted rows, and the CPU seconds of the fits."""
    two = frame["y"].nunique() == 2
    kind = "classifier" if two else "regressor"
    X, y = frame.drop(columns=["fold", "y"]), frame["y"].to_numpy()
    errors, seconds = [], []
    for k in range(FOLDS):
        inside = (frame["fold"] == k).to_numpy()
        train = ~inside if protocol == "four fifths" else inside
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin = process_time()
            model = tabular_model(kind, task="task").fit(X[train], y[train])
            seconds.append(process_time() - begin)
            rest = X[~train]
            values = model.predict_proba(rest)[:, 1] if two else model.predict(rest)
        errors.append(measure_errors(y[~train], np.asarray(values), two=two))
    total = float(np.mean(np.concatenate(errors)))
    return Scored(total if two else float(np.sqrt(total)), Seconds(seconds))


def measure_errors(y: np.ndarray, values: np.ndarray, *, two: bool) -> np.ndarray:
    """Squared errors of numbers, log-losses of probabilities."""
    if not two:
        return (y - values) ** 2
    share = np.clip(values, SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    return -np.log(np.where(y == np.max(y), share, 1.0 - share))


NOTE = (
    'Ours is plain `tabular_model(kind, task="task")`. The others are the usual '
    "methods on the same folds, with results as supplied with the tables. Score: RMSE "
    "of all predicted rows, log-loss for two classes (guimmun, verbagg, abortion). "
    "Four fifths: trained on four folds, tested on one; one fifth: the reverse. "
    "The best other is picked on the test rows, so that it is a hard standard. "
    "Ratios below 1 are in our favour. CPU seconds of one fit on one thread, "
    "tuning included: median of the five folds, shortest and longest in brackets. Time "
    "goals apply to tables with at most 5,000 rows."
)


def make_report(
    ours: dict[Key, Scored],
    usual: Scores,
    sizes: dict[str, int],
    title: str = TITLE,
    note: str = NOTE,
) -> Report:
    """Bars, one table per protocol, and the ways beside each other."""
    ratios: Scores = {}  # to the best of the usual ways
    for key, found in ours.items():
        best = min(usual[key].values())
        ways = {OURS: found.score, **usual[key]}
        ratios[key] = {way: score / best for way, score in ways.items()}
    bars, sections = [], []
    for protocol in PROTOCOLS:
        own = {name: ratios[name, protocol][OURS] for name in sizes}
        lowest, *_, worst = sorted(own, key=lambda name: own[name])
        limit, average = LARGEST_MEANS[protocol], mean(own.values())
        words = f"{average:.3f}, median {median(own.values()):.3f}"
        rest = mean(own[name] for name in own if name != lowest)
        goal = f"{protocol}: mean ratio to the best other at most {limit:.2f}"
        words += f"; mean without {lowest} {rest:.3f}"
        bars.append(Bar(goal, words, average <= limit))
        goal = f"{protocol}: worst ratio at most {LARGEST_RATIO:.2f}"
        words = f"{own[worst]:.3f} ({worst})"
        bars.append(Bar(goal, words, own[worst] <= LARGEST_RATIO))
        sections.append(_protocol_section(protocol, ours, usual, ratios, sizes))
    spent = [
        each
        for (name, _), found in ours.items()
        if sizes[name] <= MOST_ROWS
        for each in found.seconds.raw
    ]
    limits = {"median": (median, LONGEST_MEDIAN), "longest": (max, LONGEST_FIT)}
    for kind, (take, limit) in limits.items():
        goal = f"{kind} time of a tuned fit at most {limit:g} s"
        bars.append(Bar(goal, f"{times(take(spent))} s", take(spent) <= limit))
    sections.append(_ways_section(ratios, list(sizes)))
    numbers = {
        name: {
            protocol: {
                "ratio": ratios[name, protocol][OURS],
                **ours[name, protocol]._asdict(),
            }
            for protocol in PROTOCOLS
        }
        for name in sizes
    }
    return Report(title, note, bars, sections, numbers)


def _protocol_section(
    protocol: str,
    ours: dict[Key, Scored],
    usual: Scores,
    ratios: Scores,
    sizes: dict[str, int],
) -> Section:
    rows = []
    for name, size in sizes.items():
        key = name, protocol
        best = min(usual[key], key=usual[key].__getitem__)
        scores = [f"{ours[key].score:.5g}", f"{usual[key][best]:.5g}", best]
        rest = [f"{ratios[key][OURS]:.3f}", seconds_of(ours[key].seconds)]
        rows.append([name, f"{size}", *scores, *rest])
    head = ["table", "rows", "ours", "best other", "which", "ratio", "seconds"]
    shown = (OURS, "LightGBM", "ridge with task dummies", "MixedLM intercepts")
    values = {
        way.strip("*"): [ratios[name, protocol][way] for name in sizes] for way in shown
    }
    title = f"Score divided by the best other, {protocol}"
    figure = Bars(protocol.replace(" ", "-"), title, "ratio", list(sizes), values)
    return Section(protocol.capitalize(), "", Table(head, rows), [figure])


def _ways_section(ratios: Scores, names: Sequence[str]) -> Section:
    """Mean and worst ratio of every way to the best of the usual ones."""
    rows = []
    for way in dict.fromkeys(way for ways in ratios.values() for way in ways):
        cells = [way]
        for protocol in PROTOCOLS:
            found = [ratios[name, protocol] for name in names]
            values = [ways[way] for ways in found if way in ways]
            ends = (mean(values), max(values)) if values else ()
            cells += [f"{value:.3f}" for value in ends] or ["–", "–"]
            cells.append(str(len(values)))
        rows.append(cells)
    rows.sort(key=lambda cells: (cells[1] == "–", cells[1]))
    head = [f"{p}: mean | worst | tables".split(" | ") for p in PROTOCOLS]
    note = (
        "Score divided by the best of the usual methods on each table, over the tables "
        "on which a method was run."
    )
    table = Table(["method", *chain(*head)], rows)
    return Section("Each method beside the best", note, table)
