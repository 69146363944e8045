"""The demonstration: priors compared on few rows, a learning curve, and a report.

Two parts compare cross-validated models with and without priors on rows they have not
seen: pairs of handwritten digits with a grid of pixels as the feature prior, and
simulated patients of clinics with what is known about their measurements. Then the
patients are written to files, fitted, audited and reported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold

from priormtl._arrays import Array, Index
from priormtl.audits import PriorAudit, audit_prior
from priormtl.cli import data
from priormtl.cli.main import Facts, open_console
from priormtl.data import one_vs_one
from priormtl.estimators import MultiTaskClassifierCV, MultiTaskRegressorCV
from priormtl.priors import FeaturePrior
from priormtl.reports import report
from priormtl.storage import save

FOLDS = 3
TASK = 0  # task labels are in the first column of X
# One structure for all models, so that they differ by their priors alone.
SHARED: Facts = {"task": TASK, "cv": GroupKFold(FOLDS)}
# Clinics as a mixed model has them: REML says how much they vary.
MIXED: Facts = {
    "lams": [0.0],
    "epsilons": [1.0],
    "task_prior": "mean",
    "ties": "adaptive",
    "fit_intercept": "tied",
}

SIZES = (5, 8, 12, 20)  # patients of each clinic to fit
PLAIN, KNOWN = "none", "all statements"
STRENGTHS = [0.0, 1.0, 10.0, 100.0]

MODEL, CURVE, PAGE = "patients.model", "learning-curve", "report.html"


class Rows(NamedTuple):
    """Training or test rows, with the task in the first column of X."""

    X: Array
    y: np.ndarray
    fold: Index  # rows that are held out together in tuning


class Part(NamedTuple):
    """One comparison of the demonstration."""

    title: str
    metric: str
    models: Mapping[str, BaseEstimator]  # cross-validated
    draw: Callable[[int, int], tuple[Rows, Rows]]  # size and seed to rows
    score: Callable[[BaseEstimator, Rows], float]
    size: int  # training rows of each kind
    repeats: int  # draws


class Result(NamedTuple):
    """One model, tuned and fitted on one draw of the data."""

    score: float
    theta: float | None  # chosen strength of the prior
    gap: float  # relative to the objective
    seconds: float


def show_demonstration(folder: Path) -> None:
    """Print how much priors help, and write an example with its report."""
    console = open_console(100)
    parts = [pose_digits(), pose_patients()]
    for part in parts:
        results = _compare(part, console)
        _print(console, tabulate(part, results))
    _print(
        console,
        "Models are tuned by cross-validation on their training rows only and scored "
        "on other rows\n(mean ± sd over draws). The gap is the duality gap, an upper "
        "bound on the distance to the optimum.",
    )
    _print(console, spell_benefit(results))
    curve = _learning_curve(parts[-1], console)
    table = Table(
        title="Patients: error by training patients per clinic",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("prior")
    for size in SIZES:
        table.add_column(str(size), justify="right")
    for name, scores in curve.items():
        table.add_row(name, *map(spell_scores, scores))
    _print(console, table)
    data.write_example(folder)
    drawn = _draw_curve(folder / CURVE, curve)
    audit = _fit_example(folder)
    opening = str(audit).split("\n\n")[0]
    _print(console, f"Audit of the prior on the patients of the example:\n{opening}")
    files = [*data.FILES, MODEL]
    files += [f"{CURVE}.png", f"{CURVE}.svg"] if drawn else []
    console.print(f"wrote {folder}/: {', '.join([*files, PAGE])}", highlight=False)
    console.print(f"Open {folder / PAGE} in a browser. To repeat this by commands:")
    for command in (
        f"fit {folder / data.PATIENTS} --task {data.TASK} --target {data.TARGET} "
        f"--prior {folder / data.KNOWN} --out my.model",
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
    settings |= {"task_prior": "chain", "ties": "uniform", "fit_intercept": True}
    settings |= {"scoring": "task_auc", "standardize": False}
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

    def mean_auc(model: BaseEstimator, test: Rows) -> float:
        """Area under the ROC curve, averaged over tasks."""
        scores, tasks = model.decision_function(test.X), test.X[:, TASK]
        rows = [tasks == task for task in np.unique(tasks)]
        return float(np.mean([roc_auc_score(test.y[r], scores[r]) for r in rows]))

    title = "Digits: 45 pairs of digits, 64 pixels, 3 images per digit"
    models = {PLAIN: plain, "pixel grid": smooth}
    return Part(title, "AUC", models, draw, mean_auc, size=3, repeats=3)


def pose_patients() -> Part:
    """Blood pressure in eight clinics, with what is known stated bit by bit."""

    def draw(size: int, seed: int) -> tuple[Rows, Rows]:
        train, test = map(as_rows, data.draw_patients(size, seed))
        return train, test

    def as_rows(table: pa.Table) -> Rows:
        clinic = np.unique(table[data.TASK].to_numpy(), return_inverse=True)[1]
        values = [table[name].to_numpy() for name in data.FEATURES]
        fold = np.arange(len(clinic)) % FOLDS  # sorted by clinic: even within clinics
        X = np.column_stack([clinic, *values])
        return Rows(X, table[data.TARGET].to_numpy(), fold)

    def error(model: BaseEstimator, test: Rows) -> float:
        """Root mean squared error."""
        return float(np.sqrt(np.mean((model.predict(test.X) - test.y) ** 2)))

    def places(*names: str) -> list[int]:
        return [data.FEATURES.index(name) for name in names]

    alike = FeaturePrior.from_groups({"before": places(*data.DAYS)})
    common = FeaturePrior.common(places("age", "weight", *data.DAYS))
    priors = {
        PLAIN: None,
        "six similar days": alike,
        "common effects": common,
        KNOWN: alike + common + FeaturePrior.nonpositive(places("dose")),
    }
    models = {
        name: MultiTaskRegressorCV(
            thetas=STRENGTHS, feature_prior=prior, **SHARED, **MIXED
        )
        for name, prior in priors.items()
    }
    title = (
        f"Patients (simulated): {data.CLINICS} clinics, {len(data.FEATURES)} "
        f"measurements, {data.ROWS} patients per clinic"
    )
    return Part(title, "error", models, draw, error, data.ROWS, repeats=12)


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
    draws = [part.draw(part.size, seed) for seed in range(part.repeats)]
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
    theta = model.theta_ if model.feature_prior is not None else None
    gap = model.dual_gap_ / model.objective_
    return Result(part.score(model, test), theta, gap, seconds)


def tabulate(part: Part, results: dict[str, list[Result]]) -> Table:
    """Scores, chosen strengths, gaps and seconds of every model."""
    table = Table(title=part.title, title_justify="left", title_style="bold")
    table.add_column("prior")
    for column in (part.metric, "theta", "relative gap", "seconds"):
        table.add_column(column, justify="right")
    for name, found in results.items():
        chosen = sorted({one.theta for one in found if one.theta is not None})
        table.add_row(
            name,
            spell_scores(one.score for one in found),
            ", ".join(f"{theta:g}" for theta in chosen) or "–",
            f"{max(one.gap for one in found):.0e}",
            f"{sum(one.seconds for one in found):.1f}",
        )
    return table


def spell_benefit(results: dict[str, list[Result]]) -> str:
    """Benefit of the whole prior: errors with and without it, paired by draw."""
    plain, known = (
        np.array([one.score for one in results[name]]) for name in (PLAIN, KNOWN)
    )
    change = 100.0 * (known / plain - 1.0)
    spread = change.std(ddof=1) / np.sqrt(len(change))
    return (
        f"The prior changes the error on new patients by {change.mean():+.1f} ± "
        f"{spread:.1f} % (mean and standard\nerror over {len(change)} draws): "
        f"{plain.mean():.2f} mmHg without, {known.mean():.2f} with."
    )


def spell_scores(scores: Iterable[float]) -> str:
    known = np.array(list(scores))
    return f"{known.mean():.3f} ± {known.std(ddof=1):.3f}"


def _learning_curve(part: Part, console: Console) -> dict[str, Array]:
    """Scores (sizes, repeats) with and without prior."""
    names, shape = (PLAIN, KNOWN), (len(SIZES), part.repeats)
    scores = {name: np.empty(shape) for name in names}
    with _bar(console, "learning curve", shape[0] * shape[1]) as (bar, task):
        for place in np.ndindex(shape):
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
    score, size = "Error on new patients (mmHg)", "Patients per clinic"
    plotting.plot_learning_curve(SIZES, curve, score=score, size=size, ax=ax)
    plotting.save_figure(figure, path)
    return True


def _fit_example(folder: Path) -> PriorAudit:
    def read(file: str) -> tuple[pa.Table, pa.ChunkedArray]:
        table = csv.read_csv(folder / file)
        return table.drop_columns([data.TARGET]), table[data.TARGET]

    X, y = read(data.PATIENTS)
    known = FeaturePrior.from_file(folder / data.KNOWN)
    model = MultiTaskRegressorCV(
        thetas=STRENGTHS, feature_prior=known, task=data.TASK, **MIXED
    )
    audit = audit_prior(model.fit(X, y), X, y)
    save(model, folder / MODEL)
    page = report(model, *read(data.NEW), audit=audit, title="Patients by clinic")
    page.save(folder / PAGE)
    return audit
