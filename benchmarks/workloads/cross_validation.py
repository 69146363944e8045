"""Five folds over a grid of strengths: ours against GridSearchCV around one fit."""

import os
import warnings
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from benchmarks.data import load_school
from benchmarks.report import Bar, Report, Section, Table, seconds_of, times
from benchmarks.timing import Seconds, cpu_seconds, side_by_side
from priormtl import FeaturePrior, MultiTaskRegressor, MultiTaskRegressorCV

TITLE = "Cross-validation over strengths"
SETTINGS: dict[str, Any] = {  # all that MultiTaskRegressorCV would otherwise choose
    "feature_prior": FeaturePrior.from_correlation(10),
    "task_prior": "chain",
    "ties": "uniform",
    "fit_intercept": True,
    "standardize": True,
    "task": 27,  # column
}
TIGHT, DEFAULT = 1e-10, 1e-6  # tol
CELLS = {"fista": 12, "auto": 45}  # of the grid, on which GridSearchCV is run
LEAST_RATIO, LEAST_TWO = 50.0, 1.6
IDLE = 1.5  # load average up to which two workers have a core each

Cell = tuple[float, float, float]  # lam, theta, epsilon
GRID = (
    np.geomspace(3000.0, 10.0, 10),
    np.array([0.0, 1.0, 10.0, 100.0, 1000.0]),
    np.array([0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]),
)
FEW = (GRID[0], GRID[1][1::3], GRID[2][::3])


class Theirs(NamedTuple):
    """GridSearchCV on some cells, and what that means for all."""

    cells: Seconds  # CPU time of each
    whole: float  # scaled up to the grid
    error: float  # standard error of that
    difference: float  # largest of a mean score from ours, as a share


def measure(quick: bool) -> Report:
    """Same folds, same strengths; each solver and tolerance."""
    X, y, task = load_school()
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, task))
    rows = np.column_stack([X, task]), y, folds
    grid = FEW if quick else GRID
    load = os.getloadavg()[0]
    workers = _run_workers(rows, grid, 1 if quick else 3)
    ours, theirs = {}, {}
    for tol in (TIGHT, DEFAULT):
        ours[tol], scores = _run_ours(rows, grid, tol, 1 if quick else 3)
        for solver, count in CELLS.items():
            found = _run_grid_search(
                rows, scores, solver, tol, count // (1 + 2 * quick)
            )
            theirs[solver, tol] = found
    shape = " × ".join(
        f"{len(values)} {name}" for values, name in zip(grid, "λθε", strict=True)
    )
    note = (
        f"School, {len(folds)} folds, {len(scores)} cells ({shape}), natural prior of "
        "ten pairs, chain, free intercepts, features scaled within each fit. "
        "MultiTaskRegressorCV follows paths on statistics of folds; GridSearchCV fits "
        "MultiTaskRegressor from rows in each cell and fold, with the solver and the "
        f"tolerance named (the defaults are `auto` and {DEFAULT:g}). It is run on "
        "cells drawn from the grid, and its time scaled up to the whole, with the "
        "standard error of that. Ratios are at the same tolerance. CPU time; the clock "
        "on the wall for two workers."
    )
    names = {
        f"GridSearchCV, {solver}, tol {tol:g}": found
        for (solver, tol), found in theirs.items()
    }
    numbers = {f"ours, tol {tol:g}": found for tol, found in ours.items()}
    numbers |= {f"ours, n_jobs={jobs}, wall": found for jobs, found in workers.items()}
    return Report(
        TITLE,
        note,
        _bars(ours, theirs, workers, load),
        [_section(ours, theirs, len(scores)), _workers_section(workers, load)],
        numbers | names,
    )


def _run_workers(rows: Any, grid: Any, repeats: int) -> dict[str, Seconds]:
    """One worker and two, in turns; also loads compiled code for what follows."""

    def fit(jobs: int) -> Any:
        return lambda: _search(rows, grid, DEFAULT, jobs)

    fit(1)()
    begin = perf_counter()
    fit(2)()
    first = Seconds([perf_counter() - begin])
    found = side_by_side({"1": fit(1), "2": fit(2)}, repeats, perf_counter)
    return {**found, "2, the first search": first}


def _search(rows: Any, grid: Any, tol: float, jobs: int = 1) -> MultiTaskRegressorCV:
    X, y, folds = rows
    model = MultiTaskRegressorCV(*grid, **SETTINGS, tol=tol, cv=folds, n_jobs=jobs)
    return model.fit(X, y)


def _run_ours(
    rows: Any, grid: Any, tol: float, repeats: int
) -> tuple[Seconds, dict[Cell, float]]:
    """CPU time of a search, and the mean score of each cell."""
    found = _search(rows, grid, tol).cv_results_
    places = product(*([float(value) for value in values] for values in grid))
    seconds = cpu_seconds(lambda: _search(rows, grid, tol), repeats)
    print(f"  ours, tol {tol:g}: {seconds_of(seconds)} s", flush=True)
    scores = {
        tuple(f"{params[name]:.8g}" for name in ("lam", "theta", "epsilon")): score
        for params, score in zip(found["params"], found["mean_test_score"], strict=True)
    }
    return seconds, {
        place: scores[tuple(f"{value:.8g}" for value in place)] for place in places
    }


def _run_grid_search(
    rows: Any, ours: dict[Cell, float], solver: str, tol: float, count: int
) -> Theirs:
    """Run GridSearchCV on cells from all over the grid, the same ones in every run."""
    X, y, folds = rows
    model = MultiTaskRegressor(solver=solver, max_iter=100_000, tol=tol, **SETTINGS)
    chosen = np.random.default_rng(0).choice(len(ours), count, replace=False)
    raw, differences = [], []
    for lam, theta, epsilon in (list(ours)[k] for k in np.sort(chosen)):
        search = GridSearchCV(
            model,
            {"lam": [lam], "theta": [theta], "epsilon": [epsilon]},
            scoring="neg_mean_squared_error",
            cv=folds,
            refit=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw.append(float(cpu_seconds(lambda s=search: s.fit(X, y), 1)))
        score = search.cv_results_["mean_test_score"][0]
        differences.append(abs(ours[lam, theta, epsilon] / score - 1.0))
    whole = len(ours) * float(np.mean(raw))
    error = len(ours) * float(np.std(raw, ddof=1)) / count**0.5
    print(f"  GridSearchCV, {solver}, tol {tol:g}: {whole:.0f} ± {error:.0f} s")
    print(end="", flush=True)
    return Theirs(Seconds(raw), whole, error, max(differences))


def _bars(
    ours: Any, theirs: Any, workers: dict[str, Seconds], load: float
) -> list[Bar]:
    ratios = {(s, tol): found.whole / ours[tol] for (s, tol), found in theirs.items()}
    bars = []
    for solver, least in (("fista", LEAST_RATIO), ("auto", 1.0)):
        pair = {tol: ratios[solver, tol] for tol in ours}
        words = ", ".join(f"{times(r)}× at tol {tol:g}" for tol, r in pair.items())
        goal = f"≥ {least:g}× faster than GridSearchCV around `{solver}`"
        bars.append(Bar(goal, words, min(pair.values()) >= least))
    worst = max(theirs[solver, TIGHT].difference for solver in CELLS)
    goal = f"scores equal to 1e-6 at tol {TIGHT:g}"
    bars.append(Bar(goal, f"differ by {worst:.1e}", worst <= 1e-6))
    ratio = workers["1"] / workers["2"]
    words = f"{times(ratio)}× at a load average of {load:.1f}"
    # Others on the machine leave two workers twice the share of one: no verdict then.
    met = ratio >= LEAST_TWO if load <= IDLE else None
    return [*bars, Bar(f"n_jobs=2 at least {LEAST_TWO:g}× over 1", words, met)]


def _section(ours: Any, theirs: Any, size: int) -> Section:
    table = []
    for tol, mine in ours.items():
        table.append(["ours", f"{tol:g}", f"{size}", seconds_of(mine), "", "1"])
        for solver in CELLS:
            found = theirs[solver, tol]
            table.append(
                [
                    f"GridSearchCV, `{solver}`",
                    f"{tol:g}",
                    f"{len(found.cells.raw)}",
                    f"{times(found.whole)} ± {times(found.error)}",
                    f"{found.difference:.0e}",
                    times(found.whole / mine),
                ]
            )
    head = ["search", "tol", "cells run", "CPU of all cells, s", "scores differ"]
    return Section("Time of a search", "", Table([*head, "time / ours"], table))


def _workers_section(workers: dict[str, Seconds], load: float) -> Section:
    rows = [[jobs, seconds_of(found)] for jobs, found in workers.items()]
    note = (
        f"Ours at tol {DEFAULT:g}, in turns. The first search with two workers starts "
        "their processes, which then stay for some minutes. The load average was "
        f"{load:.1f} before: above {IDLE:g}, two workers have no core each, and the "
        "ratio says little."
    )
    return Section("Two workers", note, Table(["n_jobs", "wall, s"], rows))
