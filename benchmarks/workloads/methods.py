"""The paper's five methods and auto, on School and on synthetic tasks."""

from collections.abc import Iterator
from math import isfinite
from time import process_time
from typing import NamedTuple

from benchmarks.data import MissingDataError, Rows, load_school, take_rows
from benchmarks.report import Bar, Bars, Report, Section, Table, milliseconds, times
from benchmarks.timing import Seconds, geometric_mean
from priormtl.data import TaskStatistics, from_labels, pooled_scale, summarize_tasks
from priormtl.datasets import make_related_tasks
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import L21
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.problem import Problem, QuadraticPrior, exact_constants
from priormtl.solvers import (
    METHODS,
    Solver,
    StopReason,
    gap_below,
    iterate,
    stalled,
)

TITLE = "The paper's methods on School"
NAMES = ("auto", *METHODS)
COARSE, FINE = 1e-6, 1e-10
MOST_SECONDS = 20.0


class Cell(NamedTuple):
    """One problem, and the seconds of every method on it."""

    table: str
    name: str
    seconds: dict[str, float]  # to the coarse gap
    fine: float  # of auto, to the fine gap
    is_strongly_convex: bool  # else `linear` is FISTA with restart, not Algorithm 3

    def ratio(self, name: str) -> float:
        """How many times as long as auto a method takes; zero where auto fails."""
        mine = self.seconds["auto"]
        return self.seconds[name] / mine if isfinite(mine) else 0.0

    def mark(self, name: str) -> str:
        """A star where a method is not the paper's."""
        return " *" if name == "linear" and not self.is_strongly_convex else ""


def measure(quick: bool) -> Report:
    """Nine cells of strengths for each table."""
    cells = [_measure_cell(*case, quick) for case in cases(quick)]
    note = (
        "Natural prior of ten pairs (θ = 10), chain of tasks, free intercepts. Only "
        "CPU time in steps counts, constants and set-up included. A dash: not reached "
        f"in {MOST_SECONDS:.0f} s. A star: the problem is not strongly convex (σ = 0), "
        "Algorithm 3 does not exist, and `linear` is FISTA with restart."
    )
    school = [cell for cell in cells if cell.table != "synthetic"]
    numbers = {cell.name: cell for cell in cells}
    return Report(TITLE, note, _bars(school), [_section(cells)], numbers)


def cases(quick: bool) -> Iterator[tuple[str, str, Problem]]:
    """School with all rows and 20 per task, then synthetic tasks."""
    for table, statistics in _tables().items():
        cells = [(lam, tie) for lam in (10, 100, 1000) for tie in (0.1, 10, 1000)]
        for lam, tie in cells[::4] if quick else cells:
            problem = natural_problem(statistics, lam, tie)
            if problem.lam_max > lam:
                yield table, f"{table}, λ={lam}, ε={tie}", problem


def _tables() -> dict[str, TaskStatistics]:
    X, y, task = make_related_tasks(100, 30, 12, noise=2.0, random_state=0)
    synthetic = {"synthetic": summarize_tasks(from_labels(X, y, task))}
    try:
        school = load_school()
    except MissingDataError as reason:
        print(f"  {reason}", flush=True)
        return synthetic
    few = take_rows(school, 20)
    return {"all rows": scaled(school), "20 rows": scaled(few), **synthetic}


def scaled(rows: Rows) -> TaskStatistics:
    """Statistics with features divided by their pooled deviation."""
    statistics = summarize_tasks(from_labels(*rows))
    return statistics.rescale(pooled_scale(statistics))


def natural_problem(table: TaskStatistics, lam: float, tie: float) -> Problem:
    """Natural prior of ten pairs, chain of tasks, free intercepts."""
    D = difference_matrix(FeaturePrior.from_correlation(10), table)
    graph = laplacian(TaskPrior.chain(), table.tasks)
    fit = Squared().bind(table, FreeIntercepts())
    return Problem(fit, QuadraticPrior(D, graph, 10.0, tie), L21(), lam)


def _measure_cell(table: str, name: str, problem: Problem, quick: bool) -> Cell:
    _steps_seconds(problem, "auto", COARSE, 1)  # compiled code is loaded, not timed
    repeats = 5 if quick else 9
    seconds = {"auto": _steps_seconds(problem, "auto", COARSE, repeats)}
    for method in METHODS:
        few = 1 if quick or method not in ("fista", "linear") else 3
        seconds[method] = _steps_seconds(problem, method, COARSE, few)
    sigma, largest = exact_constants(problem)
    fine = _steps_seconds(problem, "auto", FINE, repeats)
    cell = Cell(table, name, seconds, fine, sigma > 1e-10 * largest)
    words = ", ".join(f"{key} {milliseconds(value)}" for key, value in seconds.items())
    print(f"  {name}: {words} ms", flush=True)
    return cell


def _steps_seconds(problem: Problem, name: str, gap: float, repeats: int) -> float:
    """Median CPU seconds in steps; infinite where the gap is not reached."""
    found = [_run_steps(problem, name, gap) for _ in range(repeats)]
    return Seconds(found)


def _run_steps(problem: Problem, name: str, gap: float) -> float:
    """CPU seconds in steps: looks at the certificate fall between them."""
    problem.memo.clear()  # what an earlier run has laid out
    method = Solver(name).choose(problem)
    rules = [gap_below(gap, method.check_every), stalled()]
    steps = iterate(problem, method)
    seconds, reason = 0.0, None
    while reason is None and seconds < MOST_SECONDS:
        begin = process_time()
        progress = next(steps)
        seconds += process_time() - begin
        reason = next(filter(None, (rule(progress) for rule in rules)), None)
    return seconds if reason is StopReason.GAP else float("inf")


def _bars(cells: list[Cell]) -> list[Bar]:
    if not cells:
        return [Bar("School", "the table is absent", None)]
    bars = []
    for name in ("linear", "fista"):
        goal = f"≥ 10× faster than `{name}` in every cell, ≥ 30× geometric mean"
        exact = [c for c in cells if c.is_strongly_convex or name != "linear"]
        for kind, some in ("", cells), (" where σ > 0", exact):
            if not some or (kind and len(some) == len(cells)):
                continue
            ratios = [cell.ratio(name) for cell in some]
            least, mean = min(ratios), geometric_mean(ratios)
            words = f"least {times(least)}×, mean {times(mean)}×"
            bars.append(Bar(goal + kind, words, least >= 10 and mean >= 30))
    least = min(cell.ratio(name) for cell in cells for name in METHODS)
    goal = "never slower than any of the five in any cell"
    bars.append(Bar(goal, f"least {times(least)}×", least >= 1))
    most = max(cell.fine / cell.seconds["auto"] for cell in cells)
    goal = "to 1e-10 in at most 2× the time to 1e-6"
    bars.append(Bar(goal, f"most {times(most)}×", most <= 2))
    return bars


def _section(cells: list[Cell]) -> Section:
    head = ["problem", "auto, ms", *(f"{n} / auto" for n in METHODS), "1e-10 / 1e-6"]
    rows = [
        [
            cell.name,
            milliseconds(cell.seconds["auto"]),
            *(times(cell.ratio(name)) + cell.mark(name) for name in METHODS),
            times(cell.fine / cell.seconds["auto"]),
        ]
        for cell in cells
    ]
    means = [geometric_mean(cell.ratio(name) for cell in cells) for name in METHODS]
    rows.append(["**geometric mean**", "", *map(times, means), ""])
    series = {name: [cell.seconds[name] for cell in cells] for name in NAMES}
    names = [cell.name for cell in cells]
    figure = Bars("seconds", "Time to a gap of 1e-6", "seconds", names, series)
    return Section("Time to a relative gap of 1e-6", "", Table(head, rows), [figure])
