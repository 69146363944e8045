"""Trials: every setting fitted on every training part and judged on what was held out.

Settings that differ in the followed strength alone are one path, so that each fit can
start where the last ended; what a method makes of a training part is made once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from priormtl._arrays import Array, Index
from priormtl.baselines.base import Baseline, Prepared, Settings
from priormtl.baselines.models import TaskModel, to_user_units
from priormtl.data import SharedRows, TaskData
from priormtl.selection import run_jobs

__all__ = [
    "Judge",
    "Trial",
    "TrialScores",
    "count_paths",
    "run_trials",
    "score_samples",
]

Judge = Callable[[TaskModel], float]


class Trial(NamedTuple):
    """Rows to learn from, and what judges models on the others, larger for better."""

    train: Callable[[], TaskData]  # made when its turn comes, to hold one at a time
    judge: Judge


class TrialScores(NamedTuple):
    """Scores and times of all settings, on one split or on all of them."""

    scores: Array
    fit_seconds: Array
    score_seconds: Array
    short: int  # fits that were not as exact as was asked

    @classmethod
    def join(cls, parts: Sequence["TrialScores"]) -> "TrialScores":
        """Splits side by side (settings, splits)."""
        scores, fits, judged = (
            np.stack(columns, axis=1)
            for columns in zip(*(part[:3] for part in parts), strict=True)
        )
        return cls(scores, fits, judged, sum(part.short for part in parts))


@dataclass(frozen=True, eq=False)
class _Path:
    """Settings that differ in the followed strength alone."""

    method: Baseline
    places: Index  # of its settings among all
    strengths: list[float]


def run_trials(
    method: Baseline,
    settings: Sequence[Settings],
    trials: Sequence[Trial],
    *,
    n_jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> TrialScores:
    """Score every setting on every trial; ``advance`` is called after each path."""
    paths = list(_paths(method, settings))
    jobs = [_job(method, paths, len(settings), trial, advance) for trial in trials]
    return TrialScores.join(run_jobs(jobs, n_jobs))


def count_paths(method: Baseline, settings: Sequence[Settings]) -> int:
    """Number of paths that a trial follows."""
    return len(list(_paths(method, settings)))


def score_samples(model: TaskModel, data: TaskData, places: Index) -> Array:
    """Scores of every sample; ``places``: of the data's tasks among the model's."""
    if isinstance(data, SharedRows):
        return np.column_stack([model.scores(data.X, int(i)) for i in places])
    rows = (data.rows_of(k)[0] for k in range(len(places)))
    return np.concatenate(
        [model.scores(X, int(i)) for X, i in zip(rows, places, strict=True)]
    )


def _paths(method: Baseline, settings: Sequence[Settings]) -> Iterator[_Path]:
    """Neighbouring settings that differ in the followed strength alone, together."""

    def others(place: int) -> dict[str, Any]:
        return {k: v for k, v in settings[place].items() if k != method.followed}

    for outer, group in groupby(range(len(settings)), key=others):
        places = np.array(list(group))
        own = getattr(method, method.followed)
        strengths = [settings[place].get(method.followed, own) for place in places]
        yield _Path(clone(method).set_params(**outer), places, strengths)


def _job(
    method: Baseline,
    paths: Sequence[_Path],
    n: int,
    trial: Trial,
    advance: Callable[[], None],
) -> Callable[[], TrialScores]:
    def run() -> TrialScores:
        begin = perf_counter()
        prepared = method._prepare(trial.train())
        bound = method._bind(prepared.data)
        share = (perf_counter() - begin) / n
        columns, short = np.empty((3, n)), 0
        for path in paths:
            columns[:, path.places], lacking = _run_path(path, bound, prepared, trial)
            short += lacking
            advance()
        scores, fit_seconds, score_seconds = columns
        return TrialScores(scores, fit_seconds + share, score_seconds, short)

    return run


def _run_path(
    path: _Path, bound: Any, prepared: Prepared, trial: Trial
) -> tuple[Array, int]:
    """Scores, fit and score seconds (3, strengths), and how many fits fell short."""
    rows, short = [], 0
    begin = perf_counter()
    for outcome in path.method._follow(bound, path.strengths):
        fitted = perf_counter()
        score = trial.judge(to_user_units(outcome.model, prepared.scale))
        judged = perf_counter()
        rows.append((score, fitted - begin, judged - fitted))
        short += outcome.shortfall is not None
        begin = judged
    return np.array(rows).T, short
