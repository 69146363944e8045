"""Trials: models tuned on few rows, scored on rows never seen."""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from sklearn.model_selection import GroupKFold

from priormtl._arrays import Array, Index

__all__ = [
    "SHARED",
    "TASK",
    "Part",
    "Rows",
    "Trial",
    "spell_scores",
    "split",
    "tabulate",
    "try_model",
]

FOLDS = 3
TASK = 0  # task labels stand in the first column of X
SHARED: dict[str, Any] = {"task": TASK, "cv": GroupKFold(FOLDS)}


class Rows(NamedTuple):
    """Training or test rows, with the task in X's first column."""

    X: Array
    y: np.ndarray
    fold: Index  # rows that are held out together in tuning


class Part(NamedTuple):
    """One comparison of the demonstration."""

    title: str
    metric: str
    models: dict[str, Any]  # cross-validated
    draw: Callable[[int, int], tuple[Rows, Rows]]  # size and seed to rows
    score: Callable[[Any, Rows], float]
    size: int  # rows of each kind to learn from


class Trial(NamedTuple):
    """One model, tuned and fitted on one draw of the data."""

    score: float
    settings: dict[str, float]
    gap: float  # as a share of the objective
    seconds: float


def try_model(part: Part, name: str, rows: tuple[Rows, Rows]) -> Trial:
    """Tune a model on the first rows, score it on the others."""
    (train, test), model = rows, part.models[name]
    begin = perf_counter()
    model.fit(train.X, train.y, groups=train.fold)
    seconds = perf_counter() - begin
    tried = {
        "theta": (model.thetas, model.theta_),
        "epsilon": (model.epsilons, model.epsilon_),
    }
    settings = {name: best for name, (grid, best) in tried.items() if len(grid) > 1}
    gap = model.dual_gap_ / model.objective_
    return Trial(part.score(model, test), settings, gap, seconds)


def tabulate(part: Part, results: dict[str, list[Trial]]) -> Table:
    """Scores, chosen strengths, certificates and seconds of every model."""
    table = Table(title=part.title, title_justify="left", title_style="bold")
    table.add_column("model")
    for column in (part.metric, "theta", "epsilon", "gap / objective", "seconds"):
        table.add_column(column, justify="right")
    for name, trials in results.items():
        table.add_row(
            name,
            spell_scores(trial.score for trial in trials),
            *(_chosen(trials, setting) for setting in ("theta", "epsilon")),
            f"{max(trial.gap for trial in trials):.0e}",
            f"{sum(trial.seconds for trial in trials):.1f}",
        )
    return table


def spell_scores(scores: Iterable[float]) -> str:
    """Mean and standard deviation."""
    known = np.array(list(scores))
    return f"{known.mean():.3f} ± {known.std(ddof=1):.3f}"


def _chosen(trials: list[Trial], setting: str) -> str:
    """Values that tuning picked, draw by draw; a dash where there was no choice."""
    values = [trial.settings.get(setting) for trial in trials]
    return ", ".join("–" if value is None else f"{value:g}" for value in values)


def split(
    X: Array, y: np.ndarray, kind: np.ndarray, count: int, seed: int
) -> tuple[Rows, Rows]:
    """``count`` random rows of each kind for training, all others for testing."""
    order = np.random.default_rng(seed).permutation(len(y))
    rank = np.empty(len(y), dtype=np.intp)
    for label in np.unique(kind):
        members = order[kind[order] == label]
        rank[members] = np.arange(len(members))
    train = rank < count
    fold = rank % FOLDS
    return Rows(X[train], y[train], fold[train]), Rows(
        X[~train], y[~train], fold[~train]
    )
