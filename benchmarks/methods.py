"""Time to a certified gap, method by method, on School and on synthetic tasks.

Run by ``make bench``: every method solves the same problems in one run, stops at the
same relative duality gap, and only time in its steps counts. Writes a Markdown table.
"""

import argparse
import platform
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from school import school_tasks

from priormtl.data import TaskStatistics, from_labels, pooled_scale, summarize_tasks
from priormtl.datasets import make_related_tasks
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import L21
from priormtl.priors import (
    FeaturePrior,
    QuadraticPrior,
    TaskPrior,
    difference_matrix,
    laplacian,
)
from priormtl.problem import Problem
from priormtl.solvers import (
    METHODS,
    StopReason,
    gap_below,
    max_iter,
    method_by_name,
    solve,
)

NAMES = ("auto", *METHODS)
GAPS = (1e-6, 1e-10)
MOST_STEPS = 100_000
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # X, y, task
OUTPUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "methods.md"


class Case(NamedTuple):
    """One problem to solve."""

    name: str
    problem: Problem


def cases(quick: bool) -> Iterator[Case]:
    """School with all rows and 20 per task in nine cells, then synthetic tasks."""
    tables = {"synthetic, 12 rows per task": _synthetic()}
    school = school_tasks()
    if school is not None:
        tables = {
            "School, all rows": _scaled(school),
            "School, 20 rows per task": _scaled(school, 20),
            **tables,
        }
    cells = [(lam, tie) for lam in (10, 100, 1000) for tie in (0.1, 10, 1000)]
    for name, table in tables.items():
        for lam, tie in cells[::4] if quick else cells:
            problem = _problem(table, lam, tie)
            if problem.lam_max > lam:
                yield Case(f"{name}, λ={lam}, ε={tie}", problem)


def measure(case: Case, name: str, gap: float, repeats: int) -> float:
    """Median seconds in steps to the gap; NaN where it is not reached."""
    times = []
    for _ in range(repeats):
        method = method_by_name(name, case.problem)
        rules = [gap_below(gap, method.look_every), max_iter(MOST_STEPS)]
        solution = solve(case.problem, method, stop=rules)
        if solution.reason is StopReason.MAX_ITER:
            return float("nan")
        times.append(solution.seconds)
    return statistics.median(times)


def table(rows: list[tuple[str, list[float], float]]) -> str:
    """Milliseconds of auto, ratios of the five to it, and auto's time to 1e-10."""
    head = ["problem", "auto, ms", *(f"{n} / auto" for n in NAMES[1:]), "1e-10 / 1e-6"]
    lines = [head, ["---"] * len(head)]
    for name, times, finer in rows:
        ratios = [f"{time / times[0]:.1f}" for time in times[1:]]
        lines.append(
            [name, f"{1e3 * times[0]:.1f}", *ratios, f"{finer / times[0]:.1f}"]
        )
    means = [
        np.exp(np.nanmean(np.log([times[k] / times[0] for _, times, _ in rows])))
        for k in range(1, len(NAMES))
    ]
    lines.append(["**geometric mean**", "", *(f"**{mean:.1f}**" for mean in means), ""])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a third of the cells")
    quick = parser.parse_args().quick
    repeats = 1 if quick else 3
    rows = []
    for case in cases(quick):
        measure(case, "auto", GAPS[0], 1)  # compiled code is loaded once, not timed
        times = [measure(case, name, GAPS[0], repeats) for name in NAMES]
        rows.append((case.name, times, measure(case, "auto", GAPS[1], repeats)))
        print(case.name, [f"{1e3 * time:.1f} ms" for time in times], flush=True)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(_page(table(rows), quick), encoding="utf-8")
    print(f"written: {OUTPUT}")


def _page(body: str, quick: bool) -> str:
    kind = "a quick run" if quick else "a full run, medians of 3"
    return (
        "# Time to a relative duality gap of 1e-6\n\n"
        f"Made by `make bench` ({kind}) on {platform.machine()}, "
        f"Python {platform.python_version()}, one BLAS thread. Only time in steps "
        "counts, constants and set-up included. `nan`: not reached in "
        f"{MOST_STEPS} steps.\n\n{body}\n"
    )


def _scaled(data: Rows, rows: int | None = None) -> TaskStatistics:
    X, y, task = data
    if rows is not None:
        rng = np.random.default_rng(0)
        keep = [
            rng.permutation(np.flatnonzero(task == i))[:rows] for i in np.unique(task)
        ]
        X, y, task = (part[np.concatenate(keep)] for part in data)
    moments = summarize_tasks(from_labels(X, y, task))
    return moments.rescale(pooled_scale(moments))


def _synthetic() -> TaskStatistics:
    X, y, task = make_related_tasks(100, 30, 12, noise=2.0, random_state=0)
    return summarize_tasks(from_labels(X, y, task))


def _problem(table: TaskStatistics, lam: float, tie: float) -> Problem:
    """Natural prior of ten pairs, chain of tasks, free intercepts."""
    D = difference_matrix(FeaturePrior.from_correlation(10), table)
    graph = laplacian(TaskPrior.chain(), table.tasks)
    fit = Squared().bind(table, FreeIntercepts())
    return Problem(fit, QuadraticPrior(D, graph, 10.0, tie), L21(), lam)


if __name__ == "__main__":
    main()
