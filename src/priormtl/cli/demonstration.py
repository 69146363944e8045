"""The demonstration: what a prior is worth when samples are few."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

from priormtl._arrays import Array, Index
from priormtl.data import one_vs_one
from priormtl.datasets import make_related_tasks
from priormtl.estimators import MultiTaskClassifierCV, MultiTaskRegressorCV
from priormtl.priors import FeaturePrior

__all__ = ["show_demonstration"]

REPEATS = 3
FOLDS = 3
IMAGES_PER_DIGIT = 3
ROWS_PER_TASK = 12
TASK = 0  # task labels stand in the first column of X
SHARED: dict[str, Any] = {"task": TASK, "cv": GroupKFold(FOLDS)}


class Rows(NamedTuple):
    """Training or test rows, with the task in X's first column."""

    X: Array
    y: np.ndarray
    fold: Index  # rows that are held out together in tuning


class Part(NamedTuple):
    """One table of the demonstration."""

    title: str
    metric: str
    models: dict[str, Any]  # cross-validated
    draw: Callable[[int], tuple[Rows, Rows]]  # seed to training and test rows
    score: Callable[[Any, Rows], float]


class Trial(NamedTuple):
    """One model, tuned and fitted on one draw of the data."""

    score: float
    settings: dict[str, float]
    gap: float  # as a share of the objective
    seconds: float


def show_demonstration() -> None:
    """Fit related tasks from few samples, with and without prior."""
    console = Console(width=None if Console().is_terminal else 100)
    for part in (_digits(), _synthetic()):
        console.print(_table(part, _run(part, console)))
        console.print()
    console.print(
        "Models are tuned by cross-validation on their training rows alone and scored "
        f"on rows never seen\n(mean ± sd of {REPEATS} draws). Each fit is certified: "
        "its objective exceeds the optimum by at most the gap."
    )


def _run(part: Part, console: Console) -> dict[str, list[Trial]]:
    """Tune and score every model on every draw, with a bar in terminals only."""
    draws = [part.draw(seed) for seed in range(REPEATS)]
    jobs = [(name, *draw) for name in part.models for draw in draws]
    results: dict[str, list[Trial]] = {name: [] for name in part.models}
    with Progress(
        console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        for name, train, test in bar.track(jobs, description="fitting"):
            results[name].append(_try(part, part.models[name], train, test))
    return results


def _try(part: Part, model: Any, train: Rows, test: Rows) -> Trial:
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


def _table(part: Part, results: dict[str, list[Trial]]) -> Table:
    table = Table(title=part.title, title_justify="left", title_style="bold")
    table.add_column("model")
    for column in (part.metric, "theta", "epsilon", "gap / objective", "seconds"):
        table.add_column(column, justify="right")
    for name, trials in results.items():
        scores = np.array([trial.score for trial in trials])
        table.add_row(
            name,
            f"{scores.mean():.3f} ± {scores.std(ddof=1):.3f}",
            *(_chosen(trials, setting) for setting in ("theta", "epsilon")),
            f"{max(trial.gap for trial in trials):.0e}",
            f"{sum(trial.seconds for trial in trials):.1f}",
        )
    return table


def _chosen(trials: list[Trial], setting: str) -> str:
    """Values that tuning picked, draw by draw; a dash where there was no choice."""
    values = [trial.settings.get(setting) for trial in trials]
    return ", ".join("–" if value is None else f"{value:g}" for value in values)


def _digits() -> Part:
    settings = SHARED | {"lams": [0.1, 0.3, 1.0], "epsilons": [0.0], "tol": 1e-5}
    plain = MultiTaskClassifierCV(thetas=[0.0], **settings)
    smooth = MultiTaskClassifierCV(
        thetas=[0.0, 0.3, 1.0, 3.0, 10.0],
        feature_prior=FeaturePrior.grid(8, 8),
        **settings,
    )
    return Part(
        f"Digits: 45 pairs of digits, 64 pixels, {IMAGES_PER_DIGIT} images per digit",
        "AUC",
        {"no prior": plain, "pixel grid": smooth},
        _draw_digits,
        _mean_auc,
    )


def _synthetic() -> Part:
    data = make_related_tasks(20, 30, 200, drift=0.15, noise=2.0, random_state=0)
    nothing, strengths = [0.0], [0.0, 1.0, 10.0, 100.0]
    grids = {
        "no prior": (nothing, nothing),
        "related features": (strengths, nothing),
        "neighbouring tasks": (nothing, strengths),
        "both": (strengths, strengths),
    }
    table = np.column_stack([data.task, data.X])
    models = {
        name: MultiTaskRegressorCV(
            [3.0, 10.0, 30.0], *grid, feature_prior=data.feature_prior, **SHARED
        )
        for name, grid in grids.items()
    }
    return Part(
        f"Synthetic: 20 chained tasks, 30 features, {ROWS_PER_TASK} rows per task",
        "R²",
        models,
        lambda seed: _split(table, data.y, data.task, ROWS_PER_TASK, seed),
        lambda model, test: float(model.score(test.X, test.y)),
    )


def _split(
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


def _draw_digits(seed: int) -> tuple[Rows, Rows]:
    pixels, digit = load_digits(return_X_y=True)
    train, test = _split(pixels / 16.0, digit, digit, IMAGES_PER_DIGIT, seed)
    return _as_pairs(train), _as_pairs(test)


def _as_pairs(images: Rows) -> Rows:
    """Pairs of digits as tasks; an image keeps its fold in all of them."""
    X, y, task = one_vs_one(np.column_stack([images.fold, images.X]), images.y)
    codes = np.unique(task, return_inverse=True)[1]
    return Rows(np.column_stack([codes, X[:, 1:]]), y, X[:, 0].astype(np.intp))


def _mean_auc(model: MultiTaskClassifierCV, test: Rows) -> float:
    """Area under the ROC curve, averaged over tasks."""
    scores = model.decision_function(test.X)
    tasks = test.X[:, TASK]
    rows = [tasks == task for task in np.unique(tasks)]
    return float(np.mean([roc_auc_score(test.y[r], scores[r]) for r in rows]))
