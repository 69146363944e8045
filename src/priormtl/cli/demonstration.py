"""The demonstration: priors compared on few rows, a learning curve, and a report.

Two parts compare cross-validated models with and without priors on rows they have not
seen: pairs of handwritten digits with a grid of pixels as the feature prior, and
patients by age with related measurements and neighbouring ages. Then the patients are
written to files, fitted, audited and reported.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

from priormtl._arrays import Array, Index
from priormtl.audits import PriorAudit, audit_prior
from priormtl.cli import data
from priormtl.data import one_vs_one
from priormtl.estimators import MultiTaskClassifierCV, MultiTaskRegressorCV
from priormtl.priors import FeaturePrior
from priormtl.reports import report
from priormtl.storage import save

REPEATS = 3
FOLDS = 3
TASK = 0  # task labels are in the first column of X
# One structure for all models, so that they differ by their priors alone.
SHARED: dict[str, Any] = {
    "task": TASK,
    "cv": GroupKFold(FOLDS),
    "task_prior": "chain",
    "ties": "uniform",
    "fit_intercept": True,
    "intercept_strength": 1.0,
    "standardize": False,
}

IMAGES = 3  # of each digit
SIZES = (8, 12, 20, 35)  # patients of each age group to fit
PLAIN, BOTH = "no prior", "both"
NOTHING, STRENGTHS = [0.0], [0.0, 1.0, 10.0, 100.0, 1000.0]
GRIDS = {  # of theta and epsilon
    PLAIN: (NOTHING, NOTHING),
    "related measurements": (STRENGTHS, NOTHING),
    "neighbouring ages": (NOTHING, STRENGTHS),
    BOTH: (STRENGTHS, STRENGTHS),
}

MODEL, CURVE, PAGE = "patients.model", "learning-curve", "report.html"
METHOD = (
    "Models are tuned by cross-validation on their training rows alone and scored on "
    f"other rows\n(mean ± sd of {REPEATS} draws). The gap is the duality gap, an upper "
    "bound on the distance to the optimum."
)


class Rows(NamedTuple):
    """Training or test rows, with the task in the first column of X."""

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
    size: int  # training rows of each kind


class Result(NamedTuple):
    """One model, tuned and fitted on one draw of the data."""

    score: float
    settings: dict[str, float]
    gap: float  # relative to the objective
    seconds: float


def show_demonstration(folder: Path) -> None:
    """Print what priors are worth, and write an example with its report."""
    console = Console(width=None if Console().is_terminal else 100)
    parts = [pose_digits(), pose_patients()]
    for part in parts:
        _print(console, tabulate(part, _compare(part, console)))
    _print(console, METHOD)
    curve = _learning_curve(parts[-1], console)
    table = Table(
        title="Patients: R² by training patients per age group",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("model")
    for size in SIZES:
        table.add_column(str(size), justify="right")
    for name, scores in curve.items():
        table.add_row(name, *map(spell_scores, scores))
    _print(console, table)
    data.write_example(folder)
    drawn = _draw_curve(folder / CURVE, curve)
    audit = _fit_example(folder)
    _print(console, str(audit).split("\n\nTies")[0])
    files = [data.PATIENTS, data.NEW, data.RELATIONS, MODEL]
    files += [f"{CURVE}.png", f"{CURVE}.svg"] if drawn else []
    console.print(f"wrote {folder}/: {', '.join([*files, PAGE])}", highlight=False)
    console.print(f"Open {folder / PAGE} in a browser. The same by commands:")
    for command in (
        f"fit {folder / data.PATIENTS} --task age --target progression "
        f"--prior {folder / data.RELATIONS} --model linear --out my.model",
        f"predict my.model {folder / data.NEW} --out predictions.csv",
        f"report my.model --data {folder / data.NEW} --out my-report.html",
    ):
        console.print(f"  priormtl {command}", highlight=False, soft_wrap=True)


def _print(console: Console, what: Table | str) -> None:
    console.print(what, highlight=False)
    console.print()


@contextmanager
def _bar(console: Console, words: str, total: int) -> Iterator[tuple[Progress, TaskID]]:
    hidden = not console.is_terminal
    with Progress(console=console, transient=True, disable=hidden) as bar:
        yield bar, bar.add_task(words, total=total)


# What is compared


def pose_digits() -> Part:
    """45 pairs of digits with and without a grid of pixels."""
    settings = SHARED | {"lams": [0.1, 0.3, 1.0], "epsilons": [0.0], "tol": 1e-5}
    settings |= {"scoring": "task_auc"}
    plain = MultiTaskClassifierCV(thetas=[0.0], **settings)
    smooth = MultiTaskClassifierCV(
        thetas=[0.0, 0.3, 1.0, 3.0, 10.0],
        feature_prior=FeaturePrior.grid(8, 8),
        **settings,
    )

    def draw(images: int, seed: int) -> tuple[Rows, Rows]:
        pixels, digit = load_digits(return_X_y=True)
        train, test = split(pixels / 16.0, digit, digit, images, seed)
        return as_pairs(train), as_pairs(test)

    def as_pairs(images: Rows) -> Rows:
        """Pairs of digits as tasks; an image keeps its fold in all of them."""
        X, y, task = one_vs_one(np.column_stack([images.fold, images.X]), images.y)
        codes = np.unique(task, return_inverse=True)[1]
        return Rows(np.column_stack([codes, X[:, 1:]]), y, X[:, 0].astype(np.intp))

    def mean_auc(model: MultiTaskClassifierCV, test: Rows) -> float:
        """Area under the ROC curve, averaged over tasks."""
        scores, tasks = model.decision_function(test.X), test.X[:, TASK]
        rows = [tasks == task for task in np.unique(tasks)]
        return float(np.mean([roc_auc_score(test.y[r], scores[r]) for r in rows]))

    title = f"Digits: 45 pairs of digits, 64 pixels, {IMAGES} images per digit"
    models = {PLAIN: plain, "pixel grid": smooth}
    return Part(title, "AUC", models, draw, mean_auc, IMAGES)


def pose_patients() -> Part:
    """Progression of diabetes in five age groups, with several kinds of priors."""

    def pair(first: str, second: str) -> list[tuple[int, int]]:
        return [(data.FEATURES.index(first), data.FEATURES.index(second))]

    def draw(size: int, seed: int) -> tuple[Rows, Rows]:
        table = data.read_patients()
        group = np.unique(table["age"].to_numpy(), return_inverse=True)[1]
        values = np.column_stack([table[name].to_numpy() for name in data.FEATURES])
        y = table["progression"].to_numpy()
        return split(np.column_stack([group, values]), y, group, size, seed)

    known = FeaturePrior.similar(pair("cholesterol", "ldl"))
    known += FeaturePrior.opposite(pair("hdl", "ratio"))
    settings = SHARED | {"fit_intercept": "tied", "standardize": True}
    models = {
        name: MultiTaskRegressorCV(12, *grid, feature_prior=known, **settings)
        for name, grid in GRIDS.items()
    }
    title = (
        f"Patients: 5 age groups, {len(data.FEATURES)} measurements, {SIZES[1]} "
        "patients per group"
    )
    return Part(
        title,
        "R²",
        models,
        draw,
        lambda model, test: float(model.score(test.X, test.y)),
        SIZES[1],
    )


def split(
    X: Array, y: np.ndarray, kind: np.ndarray, count: int, seed: int
) -> tuple[Rows, Rows]:
    """``count`` random rows of each kind for training, all others for testing."""
    order = np.random.default_rng(seed).permutation(len(y))
    rank = np.empty(len(y), dtype=np.intp)
    for label in np.unique(kind):
        members = order[kind[order] == label]
        rank[members] = np.arange(len(members))
    train, fold = rank < count, rank % FOLDS
    parts = [Rows(X[rows], y[rows], fold[rows]) for rows in (train, ~train)]
    return parts[0], parts[1]


# Comparisons


def _compare(part: Part, console: Console) -> dict[str, list[Result]]:
    draws = [part.draw(part.size, seed) for seed in range(REPEATS)]
    results: dict[str, list[Result]] = {name: [] for name in part.models}
    with _bar(console, "fitting", len(draws) * len(results)) as (bar, task):
        for name, found in results.items():
            for draw in draws:
                found.append(_tune_and_score(part, name, draw))
                bar.advance(task)
    return results


def _tune_and_score(part: Part, name: str, rows: tuple[Rows, Rows]) -> Result:
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
    return Result(part.score(model, test), settings, gap, seconds)


def tabulate(part: Part, results: dict[str, list[Result]]) -> Table:
    """Scores, chosen strengths, gaps and seconds of every model."""
    table = Table(title=part.title, title_justify="left", title_style="bold")
    table.add_column("model")
    for column in (part.metric, "theta", "epsilon", "relative gap", "seconds"):
        table.add_column(column, justify="right")
    for name, found in results.items():
        # Chosen values draw by draw; a dash where there was no choice.
        chosen = [
            ", ".join(
                f"{one.settings[setting]:g}" if setting in one.settings else "–"
                for one in found
            )
            for setting in ("theta", "epsilon")
        ]
        table.add_row(
            name,
            spell_scores(one.score for one in found),
            *chosen,
            f"{max(one.gap for one in found):.0e}",
            f"{sum(one.seconds for one in found):.1f}",
        )
    return table


def spell_scores(scores: Iterable[float]) -> str:
    known = np.array(list(scores))
    return f"{known.mean():.3f} ± {known.std(ddof=1):.3f}"


def _learning_curve(part: Part, console: Console) -> dict[str, Array]:
    """Scores (sizes, repeats) with and without prior."""
    names = (PLAIN, BOTH)
    scores = {name: np.empty((len(SIZES), REPEATS)) for name in names}
    with _bar(console, "learning curve", len(SIZES) * REPEATS) as (bar, task):
        for place in np.ndindex(len(SIZES), REPEATS):
            draw = part.draw(SIZES[place[0]], place[1])
            for name in names:
                scores[name][place] = _tune_and_score(part, name, draw).score
            bar.advance(task)
    return scores


def _draw_curve(path: Path, curve: dict[str, Array]) -> bool:
    try:
        from priormtl import plotting
    except ImportError:
        return False
    figure, ((ax,),) = plotting.new_figure(1, 1, width=6.0, height=3.6)
    score, size = "R² on other patients", "Patients per age group"
    plotting.plot_learning_curve(SIZES, curve, score=score, size=size, ax=ax)
    plotting.save_figure(figure, path)
    return True


def _fit_example(folder: Path) -> PriorAudit:
    def read(file: str) -> tuple[pa.Table, pa.ChunkedArray]:
        table = csv.read_csv(folder / file)
        return table.drop_columns(["progression"]), table["progression"]

    X, y = read(data.PATIENTS)
    model = MultiTaskRegressorCV(
        thetas=STRENGTHS,
        epsilons=STRENGTHS,
        feature_prior=FeaturePrior.from_file(folder / data.RELATIONS),
        task_prior="chain",
        ties="uniform",
        fit_intercept="tied",
        intercept_strength=1.0,
        task="age",
    )
    audit = audit_prior(model.fit(X, y), X, y)
    save(model, folder / MODEL)
    page = report(model, *read(data.NEW), audit=audit, title="Patients by age")
    page.save(folder / PAGE)
    return audit
