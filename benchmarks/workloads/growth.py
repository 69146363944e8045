"""How time grows with rows, features and tasks, and what BLAS alone would take."""

import gc
from collections.abc import Sequence
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks.large import memory, reset_peak
from benchmarks.ours import minimise
from benchmarks.report import Bar, Plot, Report, Section, Table, milliseconds, times
from benchmarks.timing import cpu_seconds
from priormtl._machine import free_bytes
from priormtl.data import StackedRows, TaskStatistics, from_codes, summarize_tasks
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import L21
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem import Problem, QuadraticPrior

TITLE = "Growth"
GAP = 1e-6
REPEATS = 5
LARGE = ((20, 28, 500_000), (10_000, 100, 60), (1000, 1000, 100))  # m, d, rows per task
MOST_BYTES = 9 * 2**30  # of a large fit; there are fewer tasks where it needs more
ROOM = 1.4  # memory of a fit with few active features, over that of Gram matrices
BATCH = 2**27  # bytes of rows that are summarised at a time
SMALL = 2**24  # bytes of Gram matrices beside which all else counts


class Point(NamedTuple):
    """Seconds at one size."""

    size: int
    statistics: float
    blas: float
    fit: float


def measure(quick: bool) -> Report:
    """One size grows, the others stay."""
    rows = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
    features = (16, 32, 64, 128, 256, 512, 1024)
    tasks = (10, 30, 100, 300, 1000, 3000, 10_000)
    last = -4 if quick else None
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
    sizes = [(20, 28, 500), (100, 100, 60)] if quick else LARGE
    roofline = Roofline.measure()
    fits = [measure_large(*size, roofline) for size in sizes]
    sections.append(_large_section(fits, roofline))
    bars = [*_bars(curves), _memory_bar(fits)]
    return Report(TITLE, note, bars, sections, {**curves, "large": fits})


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
    y = rng.standard_normal(len(codes))
    parts = np.split(X, m), _effects(rng, d, m)
    y += np.concatenate([part @ p for part, p in zip(*parts, strict=True)])
    return from_codes(X, y, codes, tuple(range(m)))


def _effects(rng: np.random.Generator, d: int, m: int) -> np.ndarray:
    """Coefficients (m, d): those of a quarter of the features are not zero."""
    P = np.zeros((m, d))
    P[:, : d // 4] = rng.standard_normal(d // 4) + 0.3 * rng.standard_normal((m, 1))
    return P


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


# Large fits against what the machine could do.


class Roofline(NamedTuple):
    """What one core does in a second."""

    flops: float  # of a product of matrices that fit into its caches
    bytes: float  # read from an array that does not

    @classmethod
    def measure(cls) -> "Roofline":
        """By a product of matrices, and a sum of 256 MB."""
        block, wide = np.ones((512, 512)), np.ones(2**25)
        product = cpu_seconds(lambda: block @ block, 9)
        read = cpu_seconds(wide.sum, 9)
        return cls(2 * 512**3 / product, wide.nbytes / read)

    def least(self, flops: float, moved: float) -> float:
        """Seconds below which so many operations and bytes cannot be."""
        return max(flops / self.flops, moved / self.bytes)


class LargeFit(NamedTuple):
    """One large fit, with its bounds."""

    shape: tuple[int, int, int]  # tasks, features, rows
    statistics: float  # seconds
    least_statistics: float
    fit: float
    least_fit: float
    active: int
    gram: int  # bytes of the Gram matrices
    peak: float  # of the fit, these included, in multiples of them


def measure_large(m: int, d: int, per_task: int, roofline: Roofline) -> LargeFit:
    """Statistics of a few tasks at a time, whose rows are not kept, then a cold fit.

    Statistics must read the rows, write the Gram matrices, and multiply: n d² flops, of
    which symmetry needs half. A fit must read the Gram matrices once for its
    certificate.
    """
    room = min(MOST_BYTES, free_bytes())
    m = min(m, int(room / (8 * d * d * ROOM)))
    rng = np.random.default_rng(d + m)
    P, xx = _effects(rng, d, m), np.empty((m, d, d))
    means, xy, yy = np.empty((m, d)), np.empty((m, d)), np.empty(m)
    y_mean, seconds = np.empty(m), 0.0
    batch = max(1, BATCH // (8 * per_task * d))
    for first in range(0, m, batch):
        tasks = np.arange(first, min(first + batch, m))
        X = rng.standard_normal((len(tasks), per_task, d))
        y = np.matmul(X, P[tasks, :, np.newaxis])[..., 0]
        y += rng.standard_normal(y.shape)
        codes = np.repeat(tasks - first, per_task)
        data = from_codes(X.reshape(-1, d), y.ravel(), codes, tuple(tasks.tolist()))
        begin = process_time()
        found = summarize_tasks(data)
        seconds += process_time() - begin
        xx[tasks], means[tasks], y_mean[tasks] = found.xx, found.x_mean, found.y_mean
        xy[tasks], yy[tasks] = found.xy, found.yy
    held = TaskStatistics(
        np.full(m, float(per_task)), means, y_mean, xx, xy, yy, tuple(range(m))
    )
    problem = _problem(held)
    gc.collect()
    reset_peak()
    before, begin = memory("VmRSS"), process_time()
    solution = minimise(problem, GAP, seconds=3600.0)
    fit = process_time() - begin
    peak = 1.0 + (memory("VmHWM") - before) / xx.nbytes
    n = per_task * m
    least = roofline.least(n * d * d, 8.0 * n * d + xx.nbytes)
    active = int(np.count_nonzero(solution.coef.any(axis=1)))
    result = LargeFit(
        (m, d, n),
        seconds,
        least,
        fit,
        roofline.least(2.0 * m * d * d, xx.nbytes),
        active,
        xx.nbytes,
        peak,
    )
    print(f"  {result}", flush=True)
    return result


def _large_section(fits: list[LargeFit], roofline: Roofline) -> Section:
    head = [
        "tasks × features",
        "rows",
        "Gram matrices, GB",
        "statistics, s",
        "/ bound",
        "active",
        "fit, s",
        "/ one read",
        "peak / Gram matrices",
    ]
    rows = [
        [
            f"{f.shape[0]} × {f.shape[1]}",
            f"{f.shape[2]}",
            f"{f.gram / 1e9:.3g}",
            f"{f.statistics:.3g}",
            times(f.statistics / f.least_statistics),
            f"{f.active}",
            f"{f.fit:.3g}",
            times(f.fit / f.least_fit),
            f"{f.peak:.2f}",
        ]
        for f in fits
    ]
    note = (
        f"One core does {roofline.flops / 1e9:.0f} Gflop/s in a product of matrices, "
        f"and reads {roofline.bytes / 1e9:.1f} GB/s. Bound of the statistics: n d² "
        "flops, rows read and Gram matrices written once. Bound of a fit: one read of "
        "all Gram matrices, which its certificate needs. Peak: memory of the fit, "
        "Gram matrices included. Where memory does not suffice for all tasks "
        f"(at most {MOST_BYTES / 2**30:.0f} GiB), there are fewer."
    )
    return Section("Large, against the limits of the machine", note, Table(head, rows))


def _memory_bar(fits: list[LargeFit]) -> Bar:
    goal = "memory of a fit at most twice that of the Gram matrices"
    peaks = [fit.peak for fit in fits if fit.gram > SMALL]
    if not peaks:
        return Bar(goal, "not in a quick run", None)
    return Bar(goal, f"most {max(peaks):.2f}×", max(peaks) <= 2.0)
