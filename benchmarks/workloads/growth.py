"""How time grows with rows, features and tasks, and what BLAS alone would take."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.ours import minimise
from benchmarks.report import Bar, Plot, Report, Section, Table, milliseconds, times
from benchmarks.timing import cpu_seconds
from priormtl.data import StackedRows, TaskStatistics, from_codes, summarize_tasks
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import L21
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem import Problem, QuadraticPrior

TITLE = "Growth"
GAP = 1e-6
REPEATS = 5


class Point(NamedTuple):
    """Seconds at one size."""

    size: int
    statistics: float
    blas: float
    fit: float


def measure(quick: bool) -> Report:
    """One size grows, the others stay."""
    rows = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    features = (16, 32, 64, 128, 256, 512)
    tasks = (10, 30, 100, 300, 1000)
    last = -2 if quick else None
    curves = {
        "rows": [_measure_size(n, n // 20, 28, 20) for n in rows[:last]],
        "features": [_measure_size(d, 2 * d, d, 20) for d in features[:last]],
        "tasks": [_measure_size(m, 60, 28, m) for m in tasks[:last]],
    }
    note = (
        "Independent normal columns, chain of tasks (ε = 1), λ = 0.1 λ_max. "
        "Statistics: one pass over the samples. BLAS: XᵀX and Xᵀy of each task, from "
        "the same memory, nothing else. Fit: from statistics to a relative gap of 1e-6."
    )
    sections = [_section(name, points) for name, points in curves.items()]
    return Report(TITLE, note, _bars(curves), sections, curves)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _measure_size(size: int, per_task: int, d: int, m: int) -> Point:
    data = _draw(per_task, d, m)
    blocks = np.split(data.X, m)
    targets = np.split(data.y, m)
    statistics = summarize_tasks(data)
    problem = _problem(statistics)
    minimise(problem, GAP)
    point = Point(
        size,
        cpu_seconds(lambda: summarize_tasks(data), REPEATS),
        cpu_seconds(lambda: _products(blocks, targets), REPEATS),
        cpu_seconds(lambda: minimise(_problem(statistics), GAP), REPEATS),
    )
    words = ", ".join(map(milliseconds, point[1:]))
    print(f"  n={per_task * m}, d={d}, m={m}: {words} ms", flush=True)
    return point


def _products(blocks: list[np.ndarray], targets: list[np.ndarray]) -> None:
    for X, y in zip(blocks, targets, strict=True):
        X.T @ X
        X.T @ y


def _draw(per_task: int, d: int, m: int) -> StackedRows:
    rng = np.random.default_rng(d + m)
    codes = np.repeat(np.arange(m), per_task)
    X = rng.standard_normal((per_task * m, d))
    P = np.zeros((d, m))
    P[: d // 4] = rng.standard_normal((d // 4, 1)) + 0.3 * rng.standard_normal(m)
    y = np.einsum("nd,dn->n", X, P[:, codes]) + rng.standard_normal(len(codes))
    return from_codes(X, y, codes, tuple(range(m)))


def _problem(statistics: TaskStatistics) -> Problem:
    d, m = statistics.shape
    graph = laplacian(TaskPrior.chain(), statistics.tasks)
    prior = QuadraticPrior(QuadraticPrior.none(d, m).D, graph, 0.0, 1.0)
    fit = Squared().bind(statistics, FreeIntercepts())
    problem = Problem(fit, prior, L21(), 1.0)
    return problem.with_strengths(lam=0.1 * problem.lam_max)


def _bars(curves: dict[str, list[Point]]) -> list[Bar]:
    points = [point for curve in curves.values() for point in curve]
    worst = max(point.statistics / point.blas for point in points)
    large = max(curve[-1].statistics / curve[-1].blas for curve in curves.values())
    rows = curves["rows"]
    slope = exponent([p.size for p in rows], [p.fit for p in rows])
    return [
        Bar(
            "statistics pass within 1.5× of the BLAS time for the same products",
            f"most {times(large)}× at the largest sizes, {times(worst)}× anywhere",
            large <= 1.5,
        ),
        Bar(
            "fit time independent of n after it",
            f"exponent {slope:.2f}",
            slope <= 0.1,
        ),
    ]


def _section(name: str, points: list[Point]) -> Section:
    sizes = [point.size for point in points]
    columns = {
        "statistics": [point.statistics for point in points],
        "BLAS alone": [point.blas for point in points],
        "fit": [point.fit for point in points],
    }
    slopes = {key: exponent(sizes, column) for key, column in columns.items()}
    rows = [
        [f"{p.size}", *map(milliseconds, p[1:]), times(p.statistics / p.blas)]
        for p in points
    ]
    rows.append(["exponent", *(f"{slope:.2f}" for slope in slopes.values()), ""])
    head = [name, *(f"{key}, ms" for key in columns), "statistics / BLAS"]
    series = {
        f"{k} ({slopes[k]:.2f})": (sizes, column) for k, column in columns.items()
    }
    plot = Plot(name, f"Time against the number of {name}", name, "seconds", series)
    return Section(f"Growing number of {name}", "", Table(head, rows), [plot])
