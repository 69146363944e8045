"""Faces and digits with a grid prior: solved, and in how much memory."""

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import tables
from benchmarks.environments import ROOT
from benchmarks.machine import process_memory
from benchmarks.ours import minimise, solution_gap
from benchmarks.report import Bar, Report, Section, Table, seconds_of, times
from benchmarks.timing import Seconds, cpu_seconds
from priormtl.data import TaskData
from priormtl.losses import FreeIntercepts, Loss, Squared
from priormtl.penalties import L21
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.problem import Problem, QuadraticPrior

TITLE = "Images with a grid prior"
GAP = 1e-6
THETA = EPSILON = 1.0
FORMS = {"TaskStatistics": "Gram matrices", "CentredSamples": "samples"}


class Source(NamedTuple):
    """Where images come from, and how large they are."""

    load: Callable[[bool], TaskData]
    side: int


SOURCES = {
    "Yale": Source(lambda quick: tables.load_yale(), 32),
    "MNIST": Source(lambda quick: tables.load_mnist(1000 if quick else 6000), 28),
    "ORL": Source(lambda quick: tables.load_orl(), 32),
}


class Figures(NamedTuple):
    """What one table took."""

    name: str
    shape: list[int]
    form: str
    seconds: Seconds
    gap: float
    held: int  # bytes of the chosen representation
    peak: int  # bytes at the peak, beyond data and libraries; zero: unknown


def measure(quick: bool) -> Report:
    """Each table in a fresh process, so that its memory can be told."""
    found = [_measure_apart(name, quick) for name in SOURCES]
    note = (
        f"Squared loss, grid prior (θ = {THETA:g}), chain of tasks (ε = {EPSILON:g}), "
        "free intercepts, λ = 0.1 λ_max. Seconds are CPU time from the arrays to a "
        f"relative gap of {GAP:g}. Memory is what the process needs at its peak beyond "
        "the arrays it was given and the loaded libraries: the representation itself, "
        "and what the solver adds to it."
    )
    numbers = {figures.name: figures for figures in found}
    return Report(TITLE, note, _bars(found), [_section(found)], numbers)


def grid_problem(data: TaskData, side: int, loss: Loss, share: float = 0.1) -> Problem:
    """Neighbouring pixels and neighbouring tasks are alike."""
    fit = loss.bind(data, FreeIntercepts())
    graph = laplacian(TaskPrior.chain(), data.tasks)
    moments = getattr(fit, "moments", None) or data
    D = difference_matrix(FeaturePrior.grid(side, side), moments)
    problem = Problem(fit, QuadraticPrior(D, graph, THETA, EPSILON), L21(), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)


def _measure_apart(name: str, quick: bool) -> Figures:
    command = [sys.executable, "-m", "benchmarks.workloads.images", name]
    done = subprocess.run(
        command + ["quick"] * quick, cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    found = json.loads(done.stdout)
    figures = Figures(**found | {"seconds": Seconds(found["seconds"])})
    print(
        f"  {name}: {seconds_of(figures.seconds)} s, gap {figures.gap:.1e}", flush=True
    )
    return figures


def measure_here(name: str, quick: bool) -> Figures:
    """Solve once to load compiled code, once for the memory, again for the time."""
    source = SOURCES[name]
    data = source.load(quick)

    def fit() -> tuple[Problem, float]:
        problem = grid_problem(data, source.side, Squared())
        return problem, solution_gap(problem, minimise(problem, GAP))

    fit()
    before = _forget_peak()
    problem, gap = fit()
    peak = max(0, process_memory("VmHWM") - before) if before else 0
    seconds = cpu_seconds(fit, 1 if quick else 7)
    form = FORMS[type(problem.fit.moments).__name__]
    held = 8 * problem.fit.moments.size
    return Figures(name, list(data.shape), form, seconds, gap, held, peak)


def _forget_peak() -> int:
    """Let the peak start from here; bytes held now, zero where unknown."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
        Path("/proc/self/clear_refs").write_text("5")
        return process_memory("VmRSS")
    except (OSError, AttributeError):
        return 0


def _bars(found: list[Figures]) -> list[Bar]:
    worst = max(figures.gap for figures in found)
    solved = Bar("solved to 1e-6", f"largest gap {worst:.1e}", worst <= GAP)
    goal = "peak extra memory, representation included, ≤ 2× the representation"
    if not all(figures.peak for figures in found):
        return [solved, Bar(goal, "not known on this system", None)]
    ratios = {figures.name: figures.peak / figures.held for figures in found}
    words = ", ".join(f"{name} {times(ratio)}×" for name, ratio in ratios.items())
    return [solved, Bar(goal, words, max(ratios.values()) <= 2)]


def _section(found: list[Figures]) -> Section:
    head = ["table", "m × d", "form", "seconds", "gap", "held, MB", "peak, MB", "ratio"]
    rows = [
        [
            row.name,
            f"{row.shape[1]} × {row.shape[0]}",
            row.form,
            seconds_of(row.seconds),
            f"{row.gap:.1e}",
            times(row.held / 1e6),
            times(row.peak / 1e6),
            times(row.peak / row.held),
        ]
        for row in found
    ]
    return Section("Time and memory", "", Table(head, rows))


if __name__ == "__main__":
    figures_found = measure_here(sys.argv[1], "quick" in sys.argv[2:])
    raw = {"seconds": figures_found.seconds.raw}
    print(json.dumps(figures_found._asdict() | raw))
