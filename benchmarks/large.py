"""Measure large fits on a processor: ``python -m benchmarks.large [--quick]``.

Prints a table and writes it as Markdown (``--out``); results are kept in
docs/benchmarks/gpu.md beside those of a device. Wall-clock seconds, from statistics in
memory, to a relative gap of 1e-6; ``memory`` is the peak of a fit, the Gram matrices
included, as a multiple of them (Linux). One thread, as all of this folder.
``--fista`` measures FISTA, too, which takes minutes.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from priormtl import TaskStatistics, one_vs_one, summarize
from priormtl.data.summarizing import task_products
from priormtl.model import Model, Solver
from priormtl.priors import TaskPrior

SHARES = (0.1, 0.01)  # of lam_max
BARS = {
    ("1000 x 500", 0.1): 3.0,
    ("1000 x 500", 0.01): 25.0,
    ("MNIST, 45 x 784", 0.1): 1.0,
    ("MNIST, 45 x 784", 0.01): 4.0,
}
HEADS = ("workload", "lam / lam_max", "method", "seconds", "bar", "active", "memory")


def draw(m: int, d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m · n, d) of a fifth of the features, whose effects drift along tasks."""
    rng = np.random.default_rng(0)
    active = d // 5
    P = np.zeros((m, d))
    drift = np.cumsum(rng.normal(size=(m, active)), axis=0) * 0.05
    P[:, :active] = rng.normal(size=active) + drift
    X = rng.normal(size=(m * n, d))
    y = np.einsum("ij,ij->i", X, np.repeat(P, n, axis=0)) + rng.normal(size=m * n)
    return X, y


def pairs_of_digits(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """MNIST as 45 tasks of two digits each, with targets ±1."""
    data = np.load(path)
    X, y, task = one_vs_one(data["X"] / 255.0, data["digit"])
    return X, np.where(y > 0, 1.0, -1.0), task


def memory(field: str) -> int:
    """Bytes of this process: VmRSS now, or VmHWM at the peak since `reset_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def reset_peak() -> None:
    """Let Linux measure the peak of memory anew."""
    Path("/proc/self/clear_refs").write_text("5")


def fits(name: str, held: TaskStatistics, methods: list[str]) -> list[tuple[Any, ...]]:
    """Cold fits, each from zero."""
    posed = Model(task_prior=TaskPrior.chain()).pose(held)
    top, rows = posed.problem.lam_max, []
    for share in SHARES:
        for method in methods:
            problem = posed.at(share * top, 1.0, 1.0).problem
            problem.memo.clear()
            if method == "auto":  # compiled loops are loaded before the clock starts
                Solver(method=method, tol=1e-6).solve(problem)
                problem.memo.clear()
            reset_peak()
            before, begin = memory("VmRSS"), perf_counter()
            found = Solver(method=method, tol=1e-6).solve(problem)
            seconds = perf_counter() - begin
            # The Gram matrices count as well.
            share_of = 1.0 + (memory("VmHWM") - before) / held.xx.nbytes
            problem.memo.clear()
            active = int(np.count_nonzero(found.coef.any(axis=1)))
            bar = BARS.get((name, share), "") if method == "auto" else ""
            row = name, share, method, f"{seconds:.2f}", bar, active, f"{share_of:.2f}"
            rows.append(row)
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
    return rows


def statistics_pass(m: int, d: int, n: int) -> tuple[TaskStatistics, tuple[Any, ...]]:
    """Rows into statistics, against the matrix products alone."""
    X, y = draw(m, d, n)
    weight, starts = np.ones(m * n), np.arange(0, m * n + 1, n)
    out = np.empty((m, d, d))
    blocks = X.reshape(m, n, d)
    begin = perf_counter()
    for block, product in zip(blocks, out, strict=True):
        np.matmul(block.T, block, out=product)
    least = perf_counter() - begin
    del out
    begin = perf_counter()
    found = task_products(X, y, weight, starts)
    seconds = perf_counter() - begin
    name = f"statistics of {m * n} x {d} in {m} tasks"
    words = f"1.5x of {least:.2f}"
    row = name, "", "", f"{seconds:.2f}", words, "", ""
    print("| " + " | ".join(map(str, row)) + " |", flush=True)
    held = TaskStatistics(
        found.weight,
        found.x_mean,
        found.y_mean,
        found.xx,
        found.xy,
        found.yy,
        tuple(range(m)),
    )
    return held, row


def main() -> int:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fista", action="store_true")
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    methods = ["auto", "fista"] if options.fista else ["auto"]
    threads = max((lib["num_threads"] for lib in threadpool_info()), default=1)
    head = "| " + " | ".join(HEADS) + " |\n|" + " --- |" * len(HEADS)
    print(f"{threads} threads\n\n{head}", flush=True)
    m, d = (60, 300) if options.quick else (1000, 500)
    held, row = statistics_pass(m, d, 3 * d // 10)
    rows = [row, *fits(f"{m} x {d}", held, methods)]
    del held
    if options.mnist:
        held = summarize(*pairs_of_digits(options.mnist))
        rows += fits("MNIST, 45 x 784", held, methods)
    if options.out:
        lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        options.out.write_text("\n".join([head, *lines]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
