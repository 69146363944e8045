"""How a peer is run: read instances, sweep tolerances, write times and coefficients.

Needs NumPy and SciPy only, since it runs in the environment of every peer.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, xlogy

from benchmarks.instance import Instance, block_design, row_residuals

MOST_IDLE = 4  # finer tolerances in a row that do not lower the gap
FINE = 1e-8  # coarser ones often change nothing, and finer ones then do


class Timed(NamedTuple):
    """Coefficients (d, m) of a solver that knows its own seconds."""

    coef: np.ndarray
    seconds: float


Solve = Callable[[float], np.ndarray | Timed]
Prepare = Callable[[Instance], dict[str, Solve]]


def serve(prepare: Prepare, coarsest: float = 1e-2) -> None:
    """Run one peer on a job: its variants, on every instance, over tolerances."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    job["tolerances"] = [tol for tol in job["tolerances"] if tol < 1.1 * coarsest]
    for path in map(Path, job["instances"]):
        instance = Instance.load(path)
        runs, coefs = _run_instance(prepare, instance, job)
        np.savez(folder / f"{path.stem}.coef.npz", **coefs)
        # Last, so that whoever finds it finds the rest as well.
        (folder / f"{path.stem}.json").write_text(json.dumps(runs))


def _run_instance(
    prepare: Prepare, instance: Instance, job: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    try:
        variants = prepare(instance)
    except Exception as error:
        return [{"variant": "", "error": _one_line(error)}], {}
    runs: list[dict[str, Any]] = []
    coefs: dict[str, np.ndarray] = {}
    gap = GapBound(instance)
    for variant, solve in variants.items():
        try:
            for run, coef in _sweep(solve, gap, job):
                key = f"c{len(coefs)}"
                coefs[key] = coef
                runs.append({"variant": variant, "coef": key, **run})
        except Exception as error:
            runs.append({"variant": variant, "error": _one_line(error)})
    return runs, coefs


def _sweep(solve: Solve, gap_of: "GapBound", job: dict[str, Any]) -> Any:
    """Yield times and coefficients per tolerance, until the finest gap is reached."""
    solve(job["tolerances"][0])  # compiled code is loaded and caches are filled once
    begin = process_time()
    best, idle = np.inf, 0
    for tolerance in job["tolerances"]:
        coef, seconds = _time(solve, tolerance)
        gap = gap_of(coef)
        times = [seconds]
        if any(gap <= goal < best for goal in job["gaps"]):
            extra = job["repeats"] - 1
            times += [_time(solve, tolerance)[1] for _ in range(extra)]
        idle = idle + 1 if gap >= 0.7 * best and tolerance < FINE else 0
        best = min(best, gap)
        late = process_time() - begin > job["budget"]
        ended = _why_to_end(best <= min(job["gaps"]), idle, late)
        yield {"seconds": times, "ended": ended}, coef
        if ended:
            return


def _why_to_end(reached: bool, idle: int, late: bool) -> str:
    if reached:
        return "reached"
    if idle >= MOST_IDLE:
        return "stalled"
    return "out of time" if late else ""


def _time(solve: Solve, tolerance: float) -> Timed:
    begin = process_time()
    result = solve(tolerance)
    seconds = process_time() - begin
    return result if isinstance(result, Timed) else Timed(result, seconds)


class GapBound:
    """Relative duality gap, only to know when finer tolerances are of no use.

    The gaps in the tables come from the library's own certificate.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance, self.lam = instance, instance.lam
        self.shape = instance.shape
        if instance.is_shared:
            self.design, self.target = instance.X, instance.y
        else:
            self.design, self.target = block_design(instance)

    def __call__(self, P: np.ndarray) -> float:
        """(primal − dual) / objective at zero."""
        if self.instance.family != "squared":
            return self.of_family(P)
        shared = self.target.ndim == 2
        residual = self.target - self.design @ (P if shared else P.ravel())
        rows = (self.design.T @ residual).reshape(self.shape)
        length = float(np.linalg.norm(rows, axis=1).max())
        rr, ry = np.vdot(residual, residual), np.vdot(residual, self.target)
        limit = self.lam / length if length > 0 else np.inf
        scale = np.clip(ry / rr, -limit, limit) if rr > 0 else 0.0
        primal = 0.5 * rr + self.lam * np.linalg.norm(P, axis=1).sum()
        dual = scale * ry - 0.5 * scale**2 * rr
        return float((primal - dual) / (0.5 * np.vdot(self.target, self.target)))

    def of_family(self, P: np.ndarray) -> float:
        """The same for counts and classes, at residuals that are scaled to fit."""
        instance, K = self.instance, self.instance.classes
        y, P = instance.y, np.ascontiguousarray(P)
        columns = P.reshape(len(P), K, -1).transpose(0, 2, 1).reshape(-1, K)
        eta = self.design @ columns
        v = row_residuals(instance, eta)
        slopes = (self.design.T @ v).reshape(len(P), -1)
        v = v * min(1.0, self.lam / float(np.linalg.norm(slopes, axis=1).max()))
        if K == 1:
            eta, u = eta[:, 0], y + v[:, 0]
            loss, cost = np.exp(eta) - y * eta, xlogy(u, u) - u
            unit = np.sum(1.0 - y + xlogy(y, y))
        else:
            own = np.equal.outer(y, np.arange(K))
            loss, cost = logsumexp(eta, axis=1) - eta[own], xlogy(own + v, own + v)
            unit = len(y) * np.log(K)
        primal = loss.sum() + self.lam * np.linalg.norm(P, axis=1).sum()
        return float((primal + cost.sum()) / unit)


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:160]
