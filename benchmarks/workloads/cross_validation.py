"""Five folds over a grid of strengths: ours against GridSearchCV around fista."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from benchmarks.data import load_school
from benchmarks.report import Bar, Report, Section, Table, times
from benchmarks.timing import cpu_seconds, wall_seconds
from priormtl import FeaturePrior, MultiTaskRegressor

TITLE = "Cross-validation over strengths"
TASK_COLUMN = 27
SETTINGS: dict[str, Any] = {
    "feature_prior": FeaturePrior.from_correlation(10),
    "standardize": True,
    "tol": 1e-10,
    "task": TASK_COLUMN,
}
SAMPLED = 12  # cells of the grid on which GridSearchCV is run


class Grid(NamedTuple):
    """Strengths to try."""

    lam: np.ndarray
    theta: np.ndarray
    epsilon: np.ndarray

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.lam) * len(self.theta) * len(self.epsilon)


GRID = Grid(
    np.geomspace(3000.0, 10.0, 10),
    np.array([0.0, 1.0, 10.0, 100.0, 1000.0]),
    np.array([0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]),
)


FEW = GRID._replace(theta=GRID.theta[1::3], epsilon=GRID.epsilon[::3])


class Times(NamedTuple):
    """CPU seconds of one worker, and seconds on the wall of one and of two."""

    cpu: float
    one: float
    two: float


def measure(quick: bool) -> Report:
    """Same folds, same strengths, same tolerance."""
    X, y, folds = _table()
    grid = FEW if quick else GRID
    ours, found = _run_ours(X, y, folds, grid, 1 if quick else 3)
    cells = _sample_cells(grid, 4 if quick else SAMPLED)
    theirs, scores = _run_grid_search(X, y, folds, cells)
    whole = theirs * grid.size / len(cells)
    difference = _largest_difference(found, cells, scores)
    note = (
        f"School, {len(folds)} folds, {grid.size} cells ({len(grid.lam)} λ × "
        f"{len(grid.theta)} θ × {len(grid.epsilon)} ε), natural prior of ten pairs, "
        f"chain, features scaled within each fit, tol = {SETTINGS['tol']:g}. "
        f"GridSearchCV is run on {len(cells)} cells drawn from the grid and its time "
        "scaled up to the whole. CPU time against GridSearchCV, the clock on the wall "
        "for two workers."
    )
    bars = [
        _ratio_bar("≥ 50× faster than GridSearchCV around fista", whole / ours.cpu, 50),
        Bar("scores equal to 1e-6", f"differ by {difference:.1e}", difference <= 1e-6),
        _ratio_bar("n_jobs=2 at least 1.6× over 1", ours.one / ours.two, 1.6),
    ]
    return Report(TITLE, note, bars, [_section(ours, theirs, len(cells), grid)])


def _table() -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """X with its task column, y, and folds stratified by task."""
    X, y, task = load_school()
    splitter = StratifiedKFold(5, shuffle=True, random_state=0)
    return np.column_stack([X, task]), y, list(splitter.split(X, task))


def _run_ours(
    X: Any, y: Any, folds: Any, grid: Grid, repeats: int
) -> tuple[Times, dict[str, Any]]:
    make = searcher()
    strengths = {"lams": grid.lam, "thetas": grid.theta, "epsilons": grid.epsilon}

    def fit(jobs: int) -> Any:
        return make(**strengths, **SETTINGS, cv=folds, n_jobs=jobs).fit(X, y)

    found = fit(1).cv_results_  # compiled code is loaded once, not timed
    one, two = (wall_seconds(lambda j=jobs: fit(j), repeats) for jobs in (1, 2))
    cpu = cpu_seconds(lambda: fit(1), repeats)
    print(f"  ours: {one:.2f} s, with two workers {two:.2f} s", flush=True)
    return Times(cpu, one, two), found


def searcher() -> type:
    """Our cross-validated estimator, if this version has one."""
    try:
        from priormtl import MultiTaskRegressorCV  # noqa: PLC0415
    except ImportError:
        raise NotImplementedError("not in this version") from None
    return MultiTaskRegressorCV


def _sample_cells(grid: Grid, count: int) -> list[dict[str, float]]:
    """Cells from all over the grid, same ones in every run."""
    chosen = np.random.default_rng(0).choice(grid.size, count, replace=False)
    shape = tuple(map(len, grid))
    places = zip(*np.unravel_index(np.sort(chosen), shape), strict=True)
    return [
        {
            name: float(values[k])
            for name, values, k in zip(Grid._fields, grid, place, strict=True)
        }
        for place in places
    ]


def _run_grid_search(
    X: Any, y: Any, folds: Any, cells: list[dict[str, float]]
) -> tuple[float, np.ndarray]:
    search = GridSearchCV(
        MultiTaskRegressor(solver="fista", max_iter=100_000, **SETTINGS),
        [{name: [value] for name, value in cell.items()} for cell in cells],
        scoring="neg_mean_squared_error",
        cv=folds,
        refit=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = cpu_seconds(lambda: search.fit(X, y), 1)
    print(f"  GridSearchCV on {len(cells)} cells: {seconds:.1f} s", flush=True)
    return seconds, search.cv_results_["mean_test_score"]


def _largest_difference(
    found: dict[str, Any], cells: list[dict[str, float]], scores: np.ndarray
) -> float:
    """Largest relative difference of mean scores over the cells that both have."""
    ours = {
        _key(params): score
        for params, score in zip(found["params"], found["mean_test_score"], strict=True)
    }
    pairs = [(ours[_key(c)], s) for c, s in zip(cells, scores, strict=True)]
    return max(abs(a - b) / abs(b) for a, b in pairs)


def _key(params: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{params[name]:.8g}" for name in Grid._fields)


def _ratio_bar(goal: str, ratio: float, least: float) -> Bar:
    return Bar(goal, f"{times(ratio)}×", ratio >= least)


def _section(ours: Times, theirs: float, cells: int, grid: Grid) -> Section:
    scaled = theirs * grid.size / cells
    rows = [
        ["ours, n_jobs=1", f"{ours.cpu:.3g}", f"{ours.one:.3g}", f"{grid.size}"],
        ["ours, n_jobs=2", "", f"{ours.two:.3g}", f"{grid.size}"],
        ["GridSearchCV, fista", f"{theirs:.3g}", "", f"{cells}"],
        ["GridSearchCV, fista, scaled up", f"{scaled:.3g}", "", f"{grid.size}"],
    ]
    head = ["search", "CPU, s", "wall, s", "cells"]
    return Section("Time of a search", "", Table(head, rows))
