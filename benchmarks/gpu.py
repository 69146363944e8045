"""Measure fits on a device: ``python -m benchmarks.gpu [--device cuda] [--quick]``.

Prints a table and writes it as Markdown (``--out``). The last results are kept in
docs/benchmarks/gpu.md. Times are medians of three runs after a first one, device
synchronised, from statistics that the device holds. ``--only`` chooses workloads.
"""

import argparse
import statistics as summary
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.large import pairs_of_digits
from priormtl import MultiTaskRegressor, MultiTaskRegressorCV, TaskStatistics, summarize
from priormtl.data.device import DeviceGrams, DeviceProducts
from priormtl.model import Model, Solver
from priormtl.priors import TaskPrior

SHARES = (0.1, 0.01)  # of lam_max
TOL = 1e-6
HEADS = ("workload", "lam / lam_max", "seconds", "bar", "active", "relative gap")
BARS = {
    ("MNIST, 45 x 784", 0.1): 0.05,
    ("MNIST, 45 x 784", 0.01): 0.2,
    ("1000 x 500", 0.1): 0.2,
    ("1000 x 500", 0.01): 0.6,
}


def draw(
    m: int, d: int, n: int, device: Any, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows (m, n, d) of a fifth of the features, whose effects drift along tasks."""
    torch.manual_seed(0)
    active = d // 5
    options = {"dtype": torch.float64, "device": device}
    P = torch.zeros(m, d, **options)
    drift = torch.randn(m, active, **options).cumsum(0) * 0.05
    P[:, :active] = torch.randn(1, active, **options) + drift
    torch.manual_seed(seed)
    X = torch.randn(m, n, d, **options)
    y = (X @ P[:, :, None])[:, :, 0] + torch.randn(m, n, **options)
    return X, y


def summarize_drawn(m: int, d: int, n: int, device: Any, seed: int) -> TaskStatistics:
    """Statistics of drawn rows; another seed draws other rows of the same tasks."""
    X, y = draw(m, d, n, device, seed)
    starts = np.arange(0, m * n + 1, n)
    weight = torch.ones(m * n, dtype=torch.float64, device=device)
    found = DeviceProducts(X.reshape(-1, d), y.reshape(-1), weight, starts, device)
    return TaskStatistics(
        found.total,
        found.x_mean,
        found.y_mean,
        DeviceGrams(found.xx),
        found.xy,
        found.yy,
        tuple(range(m)),
    )


def clock(work: Callable[[], Any], runs: int = 3) -> tuple[float, Any]:
    """Median seconds of some runs after a first one, and the last result."""
    seconds, found = [], work()
    for _ in range(runs):
        synchronize()
        begin = perf_counter()
        found = work()
        synchronize()
        seconds.append(perf_counter() - begin)
    return summary.median(seconds), found


def synchronize() -> None:
    """Wait for a device, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def fits(
    name: str, held: TaskStatistics, shares: tuple[float, ...] = SHARES
) -> Iterator[tuple[Any, ...]]:
    """Rows of the table: cold fits, each from zero."""
    posed = Model(task_prior=TaskPrior.chain()).pose(held)
    top = posed.problem.lam_max
    for share in shares:

        def solve(share: float = share) -> Any:
            problem = posed.at(share * top, 1.0, 1.0).problem
            problem.memo.clear()
            return Solver(tol=TOL).solve(problem)

        seconds, found = clock(solve)
        gap = found.certificate.gap / posed.problem.null_objective
        active = int(np.count_nonzero(found.coef.any(axis=1)))
        bar = BARS.get((name, share))
        yield name, share, f"{seconds:.3f}", bar or "", active, f"{gap:.1e}"


def agreement(device: Any) -> Iterator[tuple[Any, ...]]:
    """Largest difference of coefficients to the processor's, relative, at tol 1e-13."""
    held = summarize_drawn(40, 60, 50, device, 3)
    host = TaskStatistics(
        held.weight,
        held.x_mean,
        held.y_mean,
        np.asarray(held.xx),
        held.xy,
        held.yy,
        held.tasks,
    )
    for prior in ("chain", "mean"):
        for intercept in (True, "tied"):
            options = {"task_prior": prior, "fit_intercept": intercept, "tol": 1e-13}
            there = MultiTaskRegressor(60.0, **options, device=device)
            here = MultiTaskRegressor(60.0, **options).fit_statistics(host)
            coef = there.fit_statistics(held).coef_
            apart = np.abs(coef - here.coef_).max() / np.abs(here.coef_).max()
            name = f"agreement: {prior}, intercepts {intercept}"
            yield (
                name,
                "",
                f"{apart:.1e} apart",
                "1e-8",
                int(coef.any(axis=0).sum()),
                "",
            )


def search(device: Any, m: int, d: int, lams: int, n: int) -> Iterator[tuple[Any, ...]]:
    """Cross-validation over a path, from the statistics of five parts."""
    parts = [summarize_drawn(m, d, n, device, 10 + k) for k in range(5)]
    model = MultiTaskRegressorCV(
        lams=lams,
        thetas=[1.0],
        epsilons=[1.0],
        task_prior="chain",
        ties="uniform",
        fit_intercept=True,
        standardize=False,
        device=device,
        n_jobs=5,
    )
    synchronize()
    begin = perf_counter()
    model.fit_statistics(parts)
    synchronize()
    seconds = perf_counter() - begin
    name = f"5 folds x {lams} strengths, {m} x {d}"
    bar = 30.0 if (m, d, lams) == (1000, 500, 100) else ""
    active = int(model.coef_.any(axis=0).sum())
    yield name, "", f"{seconds:.2f}", bar, active, f"{TOL:.0e}"


def statistics_pass(device: Any, m: int, d: int, n: int) -> Iterator[tuple[Any, ...]]:
    """Rows on the device into statistics, against the matrix products alone."""
    X, y = draw(m, d, n, device)
    flat, target = X.reshape(-1, d), y.reshape(-1)
    task = np.repeat(np.arange(m), n)
    seconds, _ = clock(lambda: summarize(flat, target, task, device=device))
    least, _ = clock(lambda: torch.bmm(X.transpose(1, 2), X))
    name = f"statistics of {m * n} x {d} in {m} tasks"
    yield name, "", f"{seconds:.3f}", f"products alone {least:.3f}", "", ""


def workloads(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What to measure, by name."""
    device, quick = options.device, options.quick
    yield "agreement", lambda: agreement(device)
    if options.mnist:
        yield (
            "mnist",
            lambda: fits(
                "MNIST, 45 x 784",
                summarize(*pairs_of_digits(options.mnist), device=device),
            ),
        )
    sizes = [(30, 40)] if quick else [(1000, 500), (1000, 1000), (10_000, 100)]
    for m, d in sizes:
        n = max(20, 3 * d // 10)
        yield (
            f"{m}x{d}",
            lambda m=m, d=d, n=n: fits(
                f"{m} x {d}", summarize_drawn(m, d, n, device, 0)
            ),
        )
    m, d, lams = (10, 20, 5) if quick else (1000, 500, 100)
    yield "search", lambda: search(device, m, d, lams, max(20, 3 * d // 10))
    yield "statistics", lambda: statistics_pass(device, m, d, max(20, 3 * d // 10))


def main() -> int:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name = "processor"
    if torch.cuda.is_available() and options.device != "cpu":
        name = torch.cuda.get_device_name(options.device)
    lines = [
        f"Measured on {name} with PyTorch {torch.__version__}.",
        "",
        "| " + " | ".join(HEADS) + " |",
        "|" + " --- |" * len(HEADS),
    ]
    print("\n".join(lines), flush=True)
    for kind, measure in workloads(options):
        if options.only and kind not in options.only:
            continue
        try:
            for row in measure():
                lines.append("| " + " | ".join(map(str, row)) + " |")
                print(lines[-1], flush=True)
        except Exception:  # the others are still worth measuring
            traceback.print_exc()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
