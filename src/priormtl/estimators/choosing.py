"""Attempt: candidates are tried on held-out rows, and one of them is chosen."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import Problem
from priormtl.selection import (
    Grid,
    OutlierCandidate,
    OutlierResult,
    SearchResult,
    Solver,
    Trial,
    choose_candidate,
    choose_outliers,
    count_outlier_paths,
    count_paths,
    propose_outliers,
    run_jobs,
    search,
    search_outliers,
)

__all__ = ["Attempt"]

# Told what is tried and in how many paths; gives what is called after each of them.
Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True, eq=False)
class Attempt:
    """On what candidates are tried, and how."""

    trials: Sequence[Trial]
    solver: Solver
    jobs: int
    progress: Progress

    def choose(self, grid: Grid, rule: str) -> tuple[SearchResult, int]:
        """Scores of a whole grid, and the place of the candidate that is taken."""
        total = count_paths(self.trials, grid)
        with self.progress(f"{len(self.trials)} splits", total) as advance:
            result = search(
                self.trials, grid, self.solver, n_jobs=self.jobs, advance=advance
            )
        return result, choose_candidate(result, rule)

    def choose_outliers(
        self,
        problem: Problem,
        plain: SearchResult,
        best: int,
        strengths: Array | None,
    ) -> tuple[OutlierResult, int]:
        """The same, with outlier tasks around the candidate that is best without."""
        epsilon, lam, theta = plain.grid.candidates()[best].tolist()
        start = OutlierCandidate(epsilon, lam, np.inf, theta)
        extra = propose_outliers(problem, plain.grid, start, strengths, self.solver)
        total = count_outlier_paths(extra, self.trials)
        with self.progress("outlier tasks", total) as advance:
            run = partial(run_jobs, n_jobs=self.jobs, advance=advance)
            result = search_outliers(plain, extra, self.trials, self.solver, run)
        errors = 0.0 if strengths is None else 1.0
        return result, choose_outliers(result, best, errors)
