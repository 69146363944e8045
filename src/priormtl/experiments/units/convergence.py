"""ConvergenceUnit: objective minus optimum of the paper's five algorithms and auto."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import priormtl
from priormtl.data import (
    TaskStatistics,
    pooled_scale,
    summarize_tasks,
    to_tasks,
)
from priormtl.datasets import SOURCES, make_related_tasks
from priormtl.experiments.protocol import find_protocol, load_rows, make_split
from priormtl.experiments.rows import CONVERGENCE
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
from priormtl.solvers import METHODS, gap_below, iterate, method_by_name, solve, stalled

__all__ = ["ALGORITHMS", "TABLES", "ConvergenceUnit"]

ALGORITHMS = (*METHODS, "auto")
OPTIMUM = 1e-13  # gap at which the optimum is taken, as a share of the start
REACHED = 1e-10  # excess at which a curve ends, as a share of the start
RUNS = 3  # of each algorithm; the least time to each look counts
KEPT = 200  # looks that are kept, evenly over the logarithm of the iteration
STRENGTHS = {"theta": 10.0, "epsilon": 10.0}
LAM_SHARE = 0.1


@dataclass(frozen=True)
class ConvergenceUnit:
    """A row of the paper's first figure."""

    problem: str  # a key of TABLES
    quick: bool = False
    version: int = 1

    @property
    def label(self) -> str:
        """What people call it."""
        return f"convergence on {self.problem}"

    @property
    def family(self) -> tuple[str, ...]:
        """Units that take about the same time."""
        return ("convergence", self.problem)

    @property
    def _most(self) -> int:
        return 300 if self.quick else 3000

    def settings(self) -> dict[str, Any]:
        """Everything the rows depend on, but for the times."""
        source = SOURCES.get(self.problem)
        return {
            "kind": "convergence",
            "problem": self.problem,
            "data": source and {name: a.digest for name, a in source.arrays.items()},
            "algorithms": ALGORITHMS,
            "strengths": STRENGTHS | {"lam_share": LAM_SHARE},
            "most": self._most,
            "runs": RUNS,
            "version": self.version,
            "priormtl": priormtl.__version__,
        }

    def compute(self) -> pa.Table:
        """Run all algorithms from zero."""
        problem = _natural_problem(TABLES[self.problem]())
        optimum = _optimum(problem)
        start = problem.null_objective - optimum
        rows = [
            {"problem": self.problem, "algorithm": name, "start": start, **look}
            for name in ALGORITHMS
            for look in _look_often(problem, name, optimum, self._most)
        ]
        return pa.Table.from_pylist(rows, schema=CONVERGENCE)


def _natural_problem(statistics: TaskStatistics) -> Problem:
    """Natural prior, chain of tasks, free intercepts, lam a share of lam_max."""
    d = statistics.shape[0]
    D = difference_matrix(FeaturePrior.from_correlation(strongest=d), statistics)
    graph = laplacian(TaskPrior.chain(), statistics.tasks)
    fit = Squared().bind(statistics, FreeIntercepts())
    prior = QuadraticPrior(D, graph, STRENGTHS["theta"], STRENGTHS["epsilon"])
    problem = Problem(fit, prior, L21(), 1.0)
    return problem.with_strengths(lam=LAM_SHARE * problem.lam_max)


def _optimum(problem: Problem) -> float:
    method = method_by_name("auto", problem)
    rules = [gap_below(OPTIMUM, method.look_every), stalled()]
    return solve(problem, method, stop=rules).certificate.primal


def _look_often(
    problem: Problem, name: str, optimum: float, most: int
) -> list[dict[str, Any]]:
    """Looks at a run, each with the least time that it took in several runs."""
    runs = [list(_follow(problem, name, optimum, most)) for _ in range(RUNS)]
    return [
        looks[0] | {"seconds": min(look["seconds"] for look in looks)}
        for looks in zip(*runs, strict=True)
    ]


def _follow(
    problem: Problem, name: str, optimum: float, most: int
) -> Iterator[dict[str, Any]]:
    """Looks at a run, until it is near the optimum or at its last iteration."""
    problem.memo.clear()  # what an earlier run has laid out
    enough = REACHED * (problem.null_objective - optimum)
    kept = set(np.unique(np.geomspace(1, most, KEPT).round().astype(int)).tolist())
    for progress in iterate(problem, method_by_name(name, problem)):
        excess = max(progress.objective - optimum, 0.0)
        last = excess <= enough or progress.n_iter >= most
        if last or progress.n_iter in kept:
            yield {
                "iteration": progress.n_iter,
                "seconds": progress.seconds,
                "excess": excess,
            }
        if last:
            return


def _synthetic() -> TaskStatistics:
    data = make_related_tasks(50, 30, 20, noise=2.0, random_state=0)
    return summarize_tasks(to_tasks(data.X, data.y, data.task))


def _school() -> TaskStatistics:
    split = make_split(find_protocol("school"), load_rows("school"), repeat=0)
    statistics = summarize_tasks(to_tasks(*split.train))
    return statistics.rescale(pooled_scale(statistics))


TABLES: dict[str, Callable[[], TaskStatistics]] = {
    "synthetic": _synthetic,
    "school": _school,
}
