"""Record the answers of a few hundred small fits, and compare them later.

A rebuild of the inside must not change a number that users see. ``record`` runs the
cases below on the code as it is and writes their numbers (coefficients, intercepts,
objectives, gaps, chosen strengths, predictions, contents of files) into one compressed
file; ``compare`` runs them again and prints every case that differs::

    python -m benchmarks.answers record before.npz
    python -m benchmarks.answers compare before.npz [--only GROUP]

Two arrays agree where their largest difference is at most 1e-9 of their largest
entry. Gaps are compared in units of the objective, since a gap near zero is rounding.
Data are seeded and well posed, and tolerances are tight, so that answers are
determined. Only public names are used, so that old and new code run the same cases.
"""

import argparse
import csv
import inspect
import io
import itertools
import json
import os
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import priormtl
from priormtl import (
    CopyFeatures,
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    TaskStatistics,
    audit_prior,
    baselines,
    regularization_path,
    summarize,
)

Answer = dict[str, Any]  # numbers by name
Case = tuple[str, Callable[[], Answer]]

AGREE = 1e-9
INFORMATIVE = "n_iter"  # counted, but no answer
TIGHT = {"tol": 1e-12, "max_iter": 20_000}
LEARNED = (
    "coef_",
    "intercept_",
    "feature_scale_",
    "intercept_strength_",
    "task_weight_",
    "task_r2_",
    "shared_coef_",
    "own_coef_",
    "outlier_strength_",
    "lam_",
    "theta_",
    "epsilon_",
    "best_score_",
    "best_index_",
    # of the compared methods
    "shared_",
    "own_",
    "low_rank_",
    "outliers_",
    "output_kernel_",
    "task_covariance_",
    "group_weights_",
    "kernel_weights_",
    "components_",
    "component_intercepts_",
    "mixture_",
    "noise_variance_",
    "log_likelihood_",
)

m, d, n = 5, 8, 24  # tasks, features, rows of each task


# Data


def stacked(
    seed: int = 0, rows: int = n, features: int = d, *, classes: bool = False
) -> tuple[np.ndarray, ...]:
    """Rows of five tasks whose coefficients are alike and related in pairs."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(features) * (np.arange(features) < 6)
    common[1], common[3] = common[0], -common[2]
    P = common + 0.2 * rng.standard_normal((m, features)) * (common != 0)
    task = np.repeat(np.arange(m), rows)
    scale = np.linspace(0.5, 2.0, features)
    X = rng.standard_normal((m * rows, features)) * scale + 0.3
    y = np.einsum("ij,ij->i", X, P[task]) + 0.5 * task
    y += rng.standard_normal(len(y))
    order = rng.permutation(len(y))
    if classes:
        middle = np.array([np.median(y[task == i]) for i in range(m)])
        y = np.where(y + rng.standard_normal(len(y)) > middle[task], 1.0, -1.0)
    return X[order], y[order], task[order]


def shared(
    seed: int = 1, *, gaps: bool = False, rows: int = 30, classes: bool = False
) -> tuple[np.ndarray, ...]:
    """One table of features for all tasks."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) + 0.2
    P = rng.standard_normal((d, 1)) + 0.3 * rng.standard_normal((d, m))
    Y = X @ P + rng.standard_normal((rows, m)) + np.arange(m)
    if classes:
        Y = np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)
    if gaps:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    return X, Y


def weights(count: int) -> np.ndarray:
    """Weights of rows."""
    return np.random.default_rng(7).uniform(0.5, 2.0, count)


def shapes(*, classes: bool = False) -> dict[str, dict[str, Any]]:
    """Arguments of ``fit`` for every way to give rows."""
    import pandas as pd  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    X, y, task = stacked(classes=classes)
    wide = stacked(rows=6, features=40, classes=classes)
    names = np.array(["a", "b", "c", "d", "e"])[task]
    columns = {f"f{j}": X[:, j] for j in range(d)}
    sparse = np.where(np.abs(X) > 0.8, X, 0.0)
    one = task == 2
    found = {
        "stacked": {"X": X, "y": y, "task": task},
        "weighted": {"X": X, "y": y, "task": task, "sample_weight": weights(len(y))},
        "text labels": {"X": X, "y": y, "task": names},
        "sparse": {"X": csr_array(sparse), "y": y, "task": task},
        "wide": dict(zip(("X", "y", "task"), wide, strict=True)),
        "sparse wide": {"X": csr_array(wide[0]), "y": wide[1], "task": wide[2]},
        "one task": {"X": X[one], "y": y[one]},
        "shared": dict(zip("Xy", shared(classes=classes), strict=True)),
        "shared wide": dict(zip("Xy", shared(rows=6, classes=classes), strict=True)),
        "pandas": {"X": pd.DataFrame(columns), "y": pd.Series(y), "task": names},
        "polars": {"X": pl.DataFrame(columns), "y": pl.Series(y), "task": names},
        "arrow": {"X": pa.table(columns), "y": y, "task": names},
        "categorical": {
            "X": pd.DataFrame(columns),
            "y": y,
            "task": pd.Categorical(names, categories=list("edcba")),
        },
    }
    if not classes:
        found["gaps"] = dict(zip("Xy", shared(gaps=True), strict=True))
        X, Y = shared(gaps=True)
        rows = weights(len(X))
        found["gaps weighted"] = {"X": X, "y": Y, "sample_weight": rows}
    return found


def pairs() -> FeaturePrior:
    """Relations as the data have them."""
    return FeaturePrior.similar([(0, 1)], 2.0) + FeaturePrior.opposite([(2, 3)])


def feature_priors() -> dict[str, Any]:
    """Every way to say what is known of features."""
    rng = np.random.default_rng(3)
    graph = np.zeros((d, d))
    graph[0, 1] = graph[1, 0] = 1.5
    graph[4, 5] = graph[5, 4] = -0.5
    return {
        "none": None,
        "similar": FeaturePrior.similar([(0, 1), (4, 5)]),
        "opposite": FeaturePrior.opposite([(2, 3)], weight=3.0),
        "correlation": FeaturePrior.from_correlation(strongest=4),
        "groups": FeaturePrior.from_groups({"g": [0, 1, 4], "h": [2, 5]}),
        "graph": FeaturePrior.from_graph(graph),
        "grid": FeaturePrior.grid(2, 4),
        "matrix": FeaturePrior.from_matrix(rng.standard_normal((3, d))),
        "bare matrix": csr_array(rng.standard_normal((2, d))),
        "sum": pairs() + FeaturePrior.from_correlation(strongest=2),
    }


def task_priors() -> dict[str, Any]:
    """Every way to say which tasks are alike."""
    graph = np.zeros((m, m))
    graph[0, 3] = graph[3, 0] = 2.0
    graph[1, 2] = graph[2, 1] = 0.5
    return {
        "none": None,
        "chain": "chain",
        "order": TaskPrior.chain(order=[2, 0, 1, 4, 3]),
        "mean": "mean",
        "groups": TaskPrior.groups({"u": [0, 1], "v": [2, 3, 4]}),
        "graph": TaskPrior.from_graph(graph),
        "sum": TaskPrior.mean() + TaskPrior.chain(),
    }


# Running and reading


def make(kind: type, *args: Any, ties: Any = None, **settings: Any) -> Any:
    """An estimator with every setting that matters given, under its present name."""
    known = inspect.signature(kind).parameters
    if "ties" in known:
        settings["ties"] = "uniform" if ties is None else ties
    elif "ties" in known:
        settings["ties"] = ties
    defaults = {"task_prior": "chain", "fit_intercept": True, "standardize": False}
    for name, value in {**defaults, **TIGHT}.items():
        if name in known:
            settings.setdefault(name, value)
    return kind(*args, **settings)


def read(model: Any, X: Any = None, task: Any = None) -> Answer:
    """What a fitted model has learned, and what it predicts."""
    found: Answer = {
        name: getattr(model, name) for name in LEARNED if hasattr(model, name)
    }
    found["objective"] = getattr(model, "objective_", np.nan)
    found["gap"] = getattr(model, "dual_gap_", 0.0)
    found[INFORMATIVE] = getattr(model, "n_iter_", 0)
    couplings = ("ties_", "tie_weights_")
    for name in couplings:
        if hasattr(model, name):
            found["ties"] = getattr(model, name)
    results = getattr(model, "cv_results_", {})
    if "mean_test_score" in results:
        found["scores"] = results["mean_test_score"]
    if X is None:
        return found
    labels = {} if task is None else {"task": task}
    if hasattr(model, "predict_proba") and getattr(model, "loss", "") == "logistic":
        found["probabilities"] = model.predict_proba(X, **labels)
    elif hasattr(model, "decision_function"):
        found["scores of rows"] = model.decision_function(X, **labels)
    else:
        found["predictions"] = model.predict(X, **labels)
    return found


def fitted(model: Any, rows: dict[str, Any]) -> Answer:
    """Fit rows and read the model."""
    model.fit(rows["X"], **{name: rows[name] for name in rows if name != "X"})
    return read(model, rows["X"], rows.get("task"))


def summed(statistics: TaskStatistics) -> Answer:
    """What statistics hold, in plain numbers."""
    names = ("weight", "x_mean", "y_mean", "gram", "xy", "yy")
    held = {name: getattr(statistics, name, None) for name in names}
    return {name: v() if callable(v) else v for name, v in held.items()}


def numbers(plain: Any, path: str = "") -> Answer:
    """All numbers in nested values, by their path; texts and file names are left."""
    if isinstance(plain, dict):
        parts = [numbers(value, f"{path}.{name}") for name, value in plain.items()]
    elif isinstance(plain, list | tuple):
        parts = [numbers(value, f"{path}.{i}") for i, value in enumerate(plain)]
    elif isinstance(plain, bool | int | float):
        return {path: plain}
    else:
        return {}
    return {name: value for part in parts for name, value in part.items()}


def findings(page: dict[str, Any]) -> Answer:
    """Numbers of a report's findings, less those that rounding decides."""
    plain = {one["key"]: one["numbers"] for one in page["findings"]}
    return {
        name: value
        for name, value in numbers(plain, "finding").items()
        if not name.endswith(("gap", "iterations"))
    }


# Cases, by group


def regressor_cases() -> Iterator[Case]:
    """Penalties × intercepts × ties × standardisation, on stacked rows."""
    rows = shapes()["stacked"]
    ties = {"uniform": None, "given": np.linspace(0.0, 2.0, d), "adaptive": "adaptive"}
    grid = itertools.product(
        ("l21", "nuclear"), (True, False, "tied"), ties, (False, True)
    )
    for penalty, intercept, tie, scaled in grid:
        model = make(
            MultiTaskRegressor,
            8.0,
            3.0,
            2.0,
            ties=ties[tie],
            feature_prior=pairs(),
            task_prior="mean",
            penalty=penalty,
            fit_intercept=intercept,
            intercept_strength=1.5,
            standardize=scaled,
        )
        name = f"{penalty} intercept={intercept} ties={tie} standardize={scaled}"
        yield name, lambda model=model: fitted(model, rows)
    for weighted, strength in itertools.product((False, True), (0.0, 2.0, 30.0, 1e4)):
        given = np.linspace(0.5, 2.0, d) if weighted else None
        model = make(MultiTaskRegressor, strength, feature_weights=given)
        yield (
            f"lam={strength} feature_weights={weighted}",
            lambda model=model: fitted(model, rows),
        )


def prior_cases() -> Iterator[Case]:
    """Feature priors × task priors."""
    rows = shapes()["stacked"]
    for (one, feature), (two, task) in itertools.product(
        feature_priors().items(), task_priors().items()
    ):
        model = make(
            MultiTaskRegressor, 6.0, 20.0, 4.0, feature_prior=feature, task_prior=task
        )
        yield f"{one} / {two}", lambda model=model: fitted(model, rows)


def shape_cases() -> Iterator[Case]:
    """Ways to give rows × penalties × intercepts."""
    grid = itertools.product(shapes().items(), ("l21", "nuclear"), (True, "tied"))
    for (shape, rows), penalty, intercept in grid:
        # Wide tables have too few rows for ties that are estimated, not for these.
        model = make(
            MultiTaskRegressor,
            5.0,
            penalty=penalty,
            fit_intercept=intercept,
            task_prior="mean",
            feature_prior=pairs(),
            standardize=penalty == "l21",
        )
        yield (
            f"{shape} {penalty} intercept={intercept}",
            lambda model=model, rows=rows: fitted(model, rows),
        )


def solver_cases() -> Iterator[Case]:
    """Every solver by name, for both losses and penalties."""
    names = ("auto", "gd", "ista", "ista-reverse", "fista", "linear")
    grid = itertools.product(
        names, ("squared", "logistic"), ("l21", "nuclear"), ("stacked", "shared")
    )
    for name, loss, penalty, shape in grid:
        kind = MultiTaskRegressor if loss == "squared" else MultiTaskClassifier
        model = make(
            kind,
            4.0,
            penalty=penalty,
            solver=name,
            feature_prior=pairs(),
            tol=1e-12 if name == "auto" else 1e-7,
            max_iter=3000,
        )
        rows = shapes(classes=loss == "logistic")[shape]
        yield (
            f"{name} {loss} {penalty} {shape}",
            lambda model=model, rows=rows: fitted(model, rows),
        )


def classifier_cases() -> Iterator[Case]:
    """Losses × penalties × intercepts × ties, and ways to give rows."""
    given = shapes(classes=True)
    grid = itertools.product(
        ("logistic", "squared"),
        ("l21", "nuclear"),
        (True, False, "tied"),
        (None, "adaptive"),
    )
    for loss, penalty, intercept, tie in grid:
        model = make(
            MultiTaskClassifier,
            2.0,
            ties=tie,
            loss=loss,
            penalty=penalty,
            fit_intercept=intercept,
            feature_prior=pairs(),
            task_prior="mean",
        )
        yield (
            f"{loss} {penalty} intercept={intercept} ties={tie}",
            lambda model=model: fitted(model, given["stacked"]),
        )
    for shape, loss in itertools.product(given, ("logistic", "squared")):
        model = make(MultiTaskClassifier, 1.5, loss=loss, standardize=True)
        yield (
            f"{shape} {loss}",
            lambda model=model, rows=given[shape]: fitted(model, rows),
        )
    X, y = stacked(rows=12)[0], np.tile(["u", "v", "w"], 20)
    for name in ("one_vs_one", "one_vs_rest"):
        many = getattr(priormtl, name)
        yield (
            name,
            lambda many=many: fitted(
                make(MultiTaskClassifier, 3.0),
                dict(zip(("X", "y", "task"), many(X, y), strict=True)),
            ),
        )


def search_cases() -> Iterator[Case]:
    """Both estimators that choose strengths."""
    small = {"lams": 4, "thetas": (0.0, 5.0), "epsilons": (0.5, 10.0), "cv": 3}
    small |= {"feature_prior": pairs(), "tol": 1e-9, "max_iter": 20_000}
    variants: dict[str, dict[str, Any]] = {
        "plain": {},
        "nuclear": {"penalty": "nuclear"},
        "tied": {"fit_intercept": "tied", "task_prior": "mean"},
        "adaptive": {"ties": "adaptive", "task_prior": "mean"},
        "standardize": {"standardize": True},
        "given lams": {"lams": [20.0, 5.0, 1.0]},
        "outliers": {"outlier_tasks": True, "task_prior": "mean"},
        "fista": {"solver": "fista", "tol": 1e-6},
        "threads": {"n_jobs": 2},
    }
    for selection, (name, extra) in itertools.product(
        ("best", "1se"), variants.items()
    ):
        for kind, classes in (
            (MultiTaskRegressorCV, False),
            (MultiTaskClassifierCV, True),
        ):
            model = make(kind, **(small | extra), selection=selection)
            rows = shapes(classes=classes)["stacked"]
            yield (
                f"{kind.__name__} {name} {selection}",
                lambda model=model, rows=rows: fitted(model, rows),
            )
    for shape in ("weighted", "wide", "shared", "gaps", "sparse", "pandas"):
        model = make(MultiTaskRegressorCV, **small)
        rows = shapes()[shape]
        yield (
            f"MultiTaskRegressorCV {shape}",
            lambda model=model, rows=rows: fitted(model, rows),
        )
    for kind, scoring in (
        (MultiTaskRegressorCV, "neg_mean_absolute_error"),
        (MultiTaskRegressorCV, "r2"),
        (MultiTaskClassifierCV, "accuracy"),
        (MultiTaskClassifierCV, "neg_log_loss"),
    ):
        model = make(kind, **small, scoring=scoring)
        rows = shapes(classes=kind is MultiTaskClassifierCV)["stacked"]
        yield (
            f"{kind.__name__} {scoring}",
            lambda model=model, rows=rows: fitted(model, rows),
        )
    squared = make(MultiTaskClassifierCV, **small, loss="squared")
    yield (
        "MultiTaskClassifierCV squared",
        lambda: fitted(squared, shapes(classes=True)["stacked"]),
    )


def path_cases() -> Iterator[Case]:
    """Regularisation paths."""

    def follow(rows: dict[str, Any], **settings: Any) -> Answer:
        path = regularization_path(**rows, **settings, **TIGHT)
        names = ("lams", "coefs", "intercepts", "active", "objectives")
        found = {name: getattr(path, name) for name in names}
        return {**found, "objective": path.objectives, "gap": path.dual_gaps}

    given = shapes()
    for shape in ("stacked", "shared", "gaps", "wide", "sparse", "weighted"):
        yield shape, lambda rows=given[shape]: follow(rows, lams=6)
    yield "nuclear", lambda: follow(given["stacked"], lams=5, penalty="nuclear")
    yield (
        "prior, standardised, tied",
        lambda: follow(
            given["stacked"],
            lams=[9.0, 3.0],
            feature_prior=pairs(),
            standardize=True,
            fit_intercept="tied",
        ),
    )
    yield (
        "outliers",
        lambda: follow(given["stacked"], lams=[9.0, 3.0], outlier_tasks=True),
    )


def outlier_cases() -> Iterator[Case]:
    """Tasks with a component of their own, at fixed strengths."""
    for classes, kind in ((False, MultiTaskRegressor), (True, MultiTaskClassifier)):
        X, y, task = stacked(rows=30, classes=classes)
        odd = task == 3
        y = np.where(odd & (X[:, 6] > 0), -y if classes else y + 4.0 * X[:, 6], y)
        rows = {"X": X, "y": y, "task": task}
        strengths = {
            "found": None,
            "given": 2.0,
            "by task": np.array([np.inf, 5.0, 5.0, 0.5, np.inf]),
            "none": np.inf,
        }
        for (name, strength), intercept in itertools.product(
            strengths.items(), (True, False, "tied")
        ):
            model = make(
                kind,
                2.0,
                1.0,
                5.0,
                feature_prior=pairs(),
                task_prior="mean",
                fit_intercept=intercept,
                outlier_tasks=True,
                outlier_strength=strength,
                tol=1e-11,
            )
            yield (
                f"{kind.__name__} {name} intercept={intercept}",
                lambda model=model, rows=rows: fitted(model, rows),
            )


def state_cases() -> Iterator[Case]:
    """Warm starts, files, unseen tasks, copies."""
    rows = shapes()["text labels"]
    X, y, task = rows["X"], rows["y"], rows["task"]

    def stored(kind: type, classes: bool) -> Answer:
        given = shapes(classes=classes)["text labels"]
        model = make(kind, feature_prior=pairs()).fit(
            given["X"], given["y"], task=given["task"]
        )
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model"
            priormtl.save(model, file)
            return read(priormtl.load(file), given["X"], given["task"])

    yield "save and load, regressor", lambda: stored(MultiTaskRegressor, False)
    yield "save and load, classifier", lambda: stored(MultiTaskClassifier, True)

    def warm() -> Answer:
        model = make(MultiTaskRegressor, 30.0, warm_start=True).fit(X, y, task=task)
        model.set_params(lam=3.0)
        return fitted(model, rows)

    yield "warm start", warm

    for prior in ("mean", "chain"):

        def unseen(prior: str = prior) -> Answer:
            labels = stacked()[2]
            model = make(MultiTaskRegressor, task_prior=prior, unseen_tasks="shared")
            model.fit(X, y, task=labels)
            return read(model, X, labels + 2)

        yield f"unseen shared {prior}", unseen

    def copied() -> Answer:
        copies = CopyFeatures(fraction=0.4, random_state=1).fit(X)
        model = make(MultiTaskRegressor, 3.0, 50.0, feature_prior=copies.prior_)
        return fitted(model, {**rows, "X": copies.transform(X)})

    yield "copies", copied

    def column() -> Answer:
        table = np.column_stack([X[:, :3], stacked()[2], X[:, 3:]])
        return fitted(make(MultiTaskRegressor, task=3), {"X": table, "y": y})

    yield "task in a column", column


def statistics_cases() -> Iterator[Case]:
    """Statistics: summed, merged, stored, learned from."""
    given = shapes()
    for shape in ("stacked", "weighted", "shared", "gaps", "text labels"):
        yield shape, lambda rows=given[shape]: summed(summarize(**rows))
    X, y, task = stacked()

    def parts() -> list[TaskStatistics]:
        return [summarize(X[k::3], y[k::3], task[k::3]) for k in range(3)]

    def merged() -> TaskStatistics:
        one, two, three = parts()
        return one + (three + two)

    def stored() -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "stats"
            merged().save(file)
            return summed(TaskStatistics.load(file))

    def partly() -> Answer:
        model = make(MultiTaskRegressor, 3.0, standardize=True, feature_prior=pairs())
        for k in range(3):
            model.partial_fit(X[k::3], y[k::3], task=task[k::3])
        return read(model, X, task)

    yield "merged", lambda: summed(merged())
    yield "stored", stored
    yield "partial_fit", partly
    for tie, intercept in itertools.product((None, "adaptive"), (True, "tied")):
        model = make(
            MultiTaskRegressor,
            ties=tie,
            fit_intercept=intercept,
            task_prior="mean",
            standardize=True,
        )
        yield (
            f"fit_statistics ties={tie} intercept={intercept}",
            lambda model=model: read(model.fit_statistics(merged())),
        )
    search = make(
        MultiTaskRegressorCV, lams=4, thetas=(0.0,), epsilons=(1.0, 9.0), tol=1e-9
    )
    yield "search on parts", lambda: read(search.fit_statistics(parts()))


def table_of_rows(count: int = m * n) -> dict[str, list[Any]]:
    """Columns of a file, with text and a few gaps."""
    X, y, task = stacked(5)
    rng = np.random.default_rng(5)
    found: dict[str, list[Any]] = {f"f{j}": X[:, j].tolist() for j in range(5)}
    for i in rng.choice(len(y), 6, replace=False):
        found["f1"][i] = None
    found["colour"] = rng.choice(["red", "green", "blue"], len(y)).tolist()
    found["w"] = weights(len(y)).tolist()
    found["school"] = [f"s{label}" for label in task]
    found["score"] = y.tolist()
    found["passed"] = np.where(y > np.median(y), "yes", "no").tolist()
    return {name: values[:count] for name, values in found.items()}


def write_tables(folder: Path) -> None:
    """One table as CSV, as Parquet, and as a folder of three files."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pacsv  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pa.table(table_of_rows())
    pacsv.write_csv(table, folder / "rows.csv")
    pq.write_table(table, folder / "rows.parquet")
    (folder / "parts").mkdir()
    for k in range(3):
        pq.write_table(table.slice(40 * k, 40), folder / "parts" / f"{k}.parquet")
    (folder / "prior.toml").write_text('[[similar]]\nfeatures = ["f0", "f1"]\n')


def engine_cases() -> Iterator[Case]:
    """Rows in files and in Dask."""
    columns = {"target": "score", "task": "school"}
    features = [f"f{j}" for j in range(5)] + ["colour"]

    def source(kind: type, name: str, model: dict[str, Any], **extra: Any) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            write_tables(home)
            if "shards" in extra:
                extra = {**extra, "shards": home / extra["shards"]}
            learner = make(kind, **model)
            # Statistics in shards are read from the folder while it is there.
            learner.fit_source(home / name, **columns, **extra)
            return read(learner)

    whole = {"features": features, "missing": "mean"}
    one = MultiTaskRegressor
    for name in ("rows.csv", "rows.parquet", "parts"):
        yield (
            f"fit_source {name}",
            lambda name=name: source(one, name, {"standardize": True}, **whole),
        )
    variants: dict[str, dict[str, Any]] = {
        "drop": {"features": features, "missing": "drop"},
        "weight": {**whole, "weight": "w"},
        "where": {**whole, "where": "f0 > 0"},
        "categories": {**whole, "categories": {"colour": ["red", "blue", "green"]}},
        "shards": {**whole, "shards": "shards"},
    }
    for name, extra in variants.items():
        yield (
            f"fit_source {name}",
            lambda extra=extra: source(one, "parts", {"lam": 2.0}, **extra),
        )
    grid = {"lams": 4, "thetas": (0.0,), "epsilons": (1.0, 9.0), "cv": 3, "tol": 1e-9}
    for name, extra in {"": {}, " key": {"key": "w"}}.items():
        yield (
            f"search fit_source{name}",
            lambda extra=extra: source(
                MultiTaskRegressorCV, "parts", grid, **whole, **extra
            ),
        )

    def engine(kind: str, **extra: Any) -> Answer:
        import pandas as pd  # noqa: PLC0415

        given = {"task": "school", "target": "score", **whole, **extra}
        with tempfile.TemporaryDirectory() as folder:
            if kind == "files":
                write_tables(Path(folder))
                return summarized(
                    priormtl.engines.summarize(Path(folder) / "parts", **given)
                )
        frame = pd.DataFrame(table_of_rows())
        split = [frame.iloc[k : k + 30] for k in range(0, len(frame), 30)]
        return summarized(priormtl.engines.dask.summarize(split, **given))

    def summarized(summary: Any) -> Answer:
        found = {"rows": summary.rows, "dropped": summary.dropped}
        for k, part in enumerate((summary.whole, *(summary.parts or ()))):
            found |= {f"{k} {name}": value for name, value in summed(part).items()}
        return found

    for kind in ("files", "dask"):
        yield f"summarize {kind}", lambda kind=kind: engine(kind)
        yield (
            f"summarize {kind} folds",
            lambda kind=kind: engine(kind, folds=3, seed=1, weight="w"),
        )
        yield f"summarize {kind} small", lambda kind=kind: engine(kind, where="f0 > 1")


def baseline_cases() -> Iterator[Case]:
    """All compared methods, with their variants, and tuned."""
    variants: dict[str, list[dict[str, Any]]] = {
        "DMTL": [{"lam": 3.0}, {"lam": 3.0, "ratio": 0.5, "standardize": True}],
        "MTFL": [
            {"C": 0.5, "tol": 1e-9},
            {"C": 0.5, "p": 1.2, "q": 1.8, "tol": 1e-9},
        ],
        "MMTFL": [
            {"lam": 3.0},
            {"lam": 3.0, "p": 1, "k": 2},
            {"lam": 3.0, "p": 2, "k": 2},
        ],
        "MTRL": [{"lam": 2.0, "ridge": 1.0, "tol": 1e-9}],
        "RMTL": [{"lam": 3.0}, {"lam": 3.0, "ratio": 2.0, "fit_intercept": False}],
        "CLMT": [
            {"lam": 2.0, "tol": 1e-9},
            {"lam": 2.0, "penalty": "trace", "tol": 1e-9},
            {"lam": 2.0, "gamma": 0.5, "standardize": True, "tol": 1e-9},
        ],
        "MKMTL": [
            {"C": 1.0, "tol": 1e-8},
            {"C": 1.0, "variant": "low-rank", "tol": 1e-6},
        ],
        "FedEM": [
            {"ridge": 0.5, "n_init": 1, "tol": 1e-9},
            {"ridge": 0.5, "mode": "federated", "n_init": 1, "max_iter": 20},
        ],
        "SingleTaskRidge": [{"lam": 2.0}, {"lam": 2.0, "task_weight": "mean"}],
        "PooledRidge": [{"lam": 2.0}, {"lam": 2.0, "standardize": True}],
    }
    for (name, several), classes in itertools.product(variants.items(), (False, True)):
        kind = getattr(baselines, f"{name}Classifier" if classes else name)
        known = inspect.signature(kind).parameters
        given = shapes(classes=classes)
        for k, chosen in enumerate(several):
            settings = {"tol": 1e-10} | chosen if "tol" in known else chosen
            for shape in ("stacked", "weighted", "shared") if k == 0 else ("stacked",):
                yield (
                    f"{kind.__name__} {k} {shape}",
                    lambda kind=kind, settings=settings, rows=given[shape]: fitted(
                        kind(**settings), rows
                    ),
                )
    for name in ("dmtl", "rmtl", "clmt", "mmtfl", "ridge-single", "ridge-pooled"):
        for classes in (False, True):

            def choose(name: str = name, classes: bool = classes) -> Answer:
                model = baselines.tuned(name, classify=classes, n_settings=4, cv=3)
                rows = shapes(classes=classes)["stacked"]
                found = fitted(model, rows)
                return found | numbers(model.best_params_, "chosen")

            yield f"tuned {name} classes={classes}", choose


def comparison_cases() -> Iterator[Case]:
    """compare: every method on the same splits."""

    def compare(classes: bool, methods: Any) -> Answer:
        X, y, task = stacked(rows=14, classes=classes)
        table = priormtl.compare(
            X, y, task=task, methods=methods, cv=2, n_settings=3, feature_prior=pairs()
        )
        rows = table.to_dict("records")
        return {
            f"{row['method']} {row['metric']} {name}": row[name]
            for row in rows
            for name in ("mean", "sd")
        }

    for name in baselines.list_methods():
        if name in ("mkmtl", "fedem", "MKMTL", "FedEM", "mtfl", "MTFL"):
            continue  # slow; each has cases of its own
        for classes in (False, True):
            yield (
                f"{name} classes={classes}",
                lambda name=name, classes=classes: compare(classes, [name]),
            )


def audit_cases() -> Iterator[Case]:
    """audit_prior: relations, and errors on held-out rows."""
    fields = ("weight", "violation_before", "violation_after", "share", "sensitivity")

    def audit(model: Any, rows: dict[str, Any], **settings: Any) -> Answer:
        model.fit(**rows)
        given = rows if settings else {}
        found = audit_prior(model, **given, **settings)
        answer: Answer = {"gap": found.dual_gap_without, "objective": model.objective_}
        for row in found.relations:
            name = f"{row.kind} {row.first} {row.second} {row.weight:.3g}"
            answer |= {f"{name} {field}": getattr(row, field) for field in fields}
            answer[f"{name} statistic"] = getattr(
                row, "tension", getattr(row, "statistic", np.nan)
            )
            answer[f"{name} p"] = row.p_value
            verdicts = ("agrees", "disagrees", "cannot be judged")
            answer[f"{name} verdict"] = verdicts.index(row.verdict)
        if found.helped is not None:
            numeric = ("with_prior", "without_prior", "change", "low", "high")
            for field in (*numeric, "p_value", "lams_with", "lams_without"):
                answer[f"helped {field}"] = getattr(found.helped, field)
        return answer

    wrong = pairs() + FeaturePrior.similar([(0, 2), (4, 5)])
    grid = {"lams": 3, "thetas": (0.0, 5.0), "epsilons": (1.0,), "cv": 3}
    models = {
        "regressor": (MultiTaskRegressor, {"lam": 3.0}),
        "nuclear": (MultiTaskRegressor, {"lam": 3.0, "penalty": "nuclear"}),
        "tied": (MultiTaskRegressor, {"fit_intercept": "tied", "task_prior": "mean"}),
        "adaptive": (MultiTaskRegressor, {"ties": "adaptive", "task_prior": "mean"}),
        "standardize": (MultiTaskRegressor, {"standardize": True}),
        "no ties": (MultiTaskRegressor, {"task_prior": None}),
        "outliers": (MultiTaskRegressor, {"outlier_tasks": True, "task_prior": "mean"}),
        "classifier": (MultiTaskClassifier, {}),
        "squared classes": (MultiTaskClassifier, {"loss": "squared"}),
        "search": (MultiTaskRegressorCV, grid),
        "class search": (MultiTaskClassifierCV, grid),
    }
    for name, (kind, settings) in models.items():
        classes = kind in (MultiTaskClassifier, MultiTaskClassifierCV)
        rows = shapes(classes=classes)["stacked"]

        def model(kind: type = kind, settings: dict[str, Any] = settings) -> Any:
            return make(kind, **settings, feature_prior=wrong)

        if not classes:
            yield (
                f"{name}, statistics",
                lambda model=model, rows=rows: audit(model(), rows),
            )
        yield (
            f"{name}, rows",
            lambda model=model, rows=rows: audit(model(), rows, cv=None),
        )
        yield (
            f"{name}, held out",
            lambda model=model, rows=rows: audit(model(), rows, cv=3, n_repeats=2),
        )
    for shape in ("wide", "shared", "gaps", "weighted"):
        rows = shapes()[shape]
        yield (
            f"{shape}, held out",
            lambda rows=rows: audit(
                make(MultiTaskRegressor, 2.0, feature_prior=wrong),
                rows,
                cv=3,
                n_repeats=1,
            ),
        )


def report_cases() -> Iterator[Case]:
    """Reports and summaries of fitted models, by the numbers that they show."""

    def told(kind: type, settings: dict[str, Any], *, rows: bool) -> Answer:
        classes = kind in (MultiTaskClassifier, MultiTaskClassifierCV)
        given = shapes(classes=classes)["weighted"]
        model = make(kind, **settings, feature_prior=pairs(), task_prior="mean")
        model.fit(**given)
        X, y, task = (given[name] for name in ("X", "y", "task"))
        scored = {"X": X, "y": y, "task": task} if rows else {}
        page = json.loads(priormtl.report(model, **scored).to_json())
        found = findings(page) | numbers(page["coefficients"], "coefficient")
        for name, table in page["tables"].items():
            for k, column in enumerate(table["columns"]):
                found |= numbers(column["values"], f"{name} {k}")
        summary = model.summary()
        for name in ("features", "tasks", "strengths"):
            frame = summary.to_frame(name, "pandas").select_dtypes("number")
            found |= {f"summary {name} {c}": frame[c].to_numpy() for c in frame}
        return found

    grid = {"lams": 3, "thetas": (0.0, 5.0), "epsilons": (0.0, 2.0), "cv": 3}
    models: dict[str, tuple[type, dict[str, Any]]] = {
        "regressor": (MultiTaskRegressor, {"lam": 3.0}),
        "standardize": (MultiTaskRegressor, {"lam": 3.0, "standardize": True}),
        "outliers": (MultiTaskRegressor, {"lam": 3.0, "outlier_tasks": True}),
        "classifier": (MultiTaskClassifier, {"lam": 1.0}),
        "search": (MultiTaskRegressorCV, grid),
        "class search": (MultiTaskClassifierCV, grid),
    }
    for (name, (kind, settings)), rows in itertools.product(
        models.items(), (False, True)
    ):
        yield (
            f"{name} rows={rows}",
            lambda kind=kind, settings=settings, rows=rows: told(
                kind, settings, rows=rows
            ),
        )


def command(*words: str) -> Any:
    """Run a command in this process; what it printed as JSON."""
    from priormtl.cli.main import app  # noqa: PLC0415

    printed, complaints = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(complaints):
        code = app(list(words), prog_name="priormtl", standalone_mode=False)
    if code:
        raise RuntimeError(f"{words}: exit code {code}: {complaints.getvalue()}")
    return json.loads(printed.getvalue())


def command_cases() -> Iterator[Case]:
    """Commands on files, by what they print as JSON and write."""
    named = ("--task", "school", "--target", "score", "--json")
    chosen = ("--features", "f0,f1,f2,f3,f4,colour", "--missing", "mean")
    variants = {
        "given": ("--lam", "2", "--theta", "1", "--epsilon", "3"),
        "searched": ("--folds", "3"),
        "prior file": ("--prior", "prior.toml", "--lam", "2", "--folds", "3"),
        "natural": ("--prior", "natural", "--theta", "5", "--epsilon", "1"),
        "mean nuclear": ("--task-prior", "mean", "--penalty", "nuclear", "--lam", "5"),
        "weight where": ("--weight", "w", "--where", "f0 > 0", "--lam", "1"),
    }

    def in_folder(run: Callable[[], Answer]) -> Answer:
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            write_tables(Path(folder))
            os.chdir(folder)
            try:
                return run()
            finally:
                os.chdir(before)

    def fit(data: str, *words: str) -> Answer:
        facts = command("fit", data, *words, "--out", "model")
        del facts["seconds"]  # of the clock
        found = {f"facts{key}": v for key, v in numbers(facts).items()}
        found |= read(priormtl.load("model"))
        command("predict", "model", data, "--out", "predicted.csv", "--json")
        with open("predicted.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        last = list(rows[0])[-1]
        found["predicted"] = [float(row[last]) for row in rows]
        page = command("report", "model", "--out", "page.html", "--json")
        return found | findings(page)

    for data in ("rows.csv", "parts"):
        for name, words in variants.items():
            yield (
                f"fit {data} {name}",
                lambda data=data, words=words: in_folder(
                    lambda: fit(data, *named, *chosen, *words)
                ),
            )
    classify = ("--task", "school", "--target", "passed", "--classify", "--json")
    for name, words in (("given", variants["given"]), ("searched", ("--folds", "3"))):
        yield (
            f"classify {name}",
            lambda words=words: in_folder(
                lambda: fit("rows.csv", *classify, *chosen, *words)
            ),
        )

    def sites() -> Answer:
        categories = ("--categories", "colour=red,green,blue")
        facts = {}
        for k in range(3):
            facts[str(k)] = command(
                "stats",
                f"parts/{k}.parquet",
                *named,
                *chosen,
                *categories,
                "--out",
                f"{k}.stats",
            )
        files = [f"{k}.stats" for k in range(3)]
        facts["merged"] = command("merge", *files, "--out", "all.stats", "--json")
        found = numbers(facts) | summed(TaskStatistics.load("all.stats"))
        sources = [word for file in files for word in ("--from-stats", file)]
        command("fit", *sources, "--out", "model", "--json")
        return found | read(priormtl.load("model"))

    yield "stats, merge, fit", lambda: in_folder(sites)

    def compare() -> Answer:
        words = ("--methods", "priormtl,clmt", "--cv", "2", "--settings", "3")
        # Texts with gaps would be refused: only whole columns are compared here.
        table = table_of_rows()
        names = ("f0", "f2", "colour", "school", "score")
        with open("whole.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(zip(*(table[name] for name in names), strict=True))
        facts = command("compare", "whole.csv", *named, *words)
        for row in facts["results"]:
            del row["seconds"]
        return numbers(facts)

    yield "compare", lambda: in_folder(compare)


GROUPS = {
    "regressor": regressor_cases,
    "priors": prior_cases,
    "shapes": shape_cases,
    "solvers": solver_cases,
    "classifier": classifier_cases,
    "search": search_cases,
    "paths": path_cases,
    "outliers": outlier_cases,
    "state": state_cases,
    "statistics": statistics_cases,
    "engines": engine_cases,
    "baselines": baseline_cases,
    "compare": comparison_cases,
    "audits": audit_cases,
    "reports": report_cases,
    "commands": command_cases,
}


# Recording and comparing


def run(only: str | None = None) -> dict[str, np.ndarray]:
    """Numbers of all cases, under ``group|case|name``."""
    found: dict[str, np.ndarray] = {}
    for group, cases in GROUPS.items():
        if only not in (None, group):
            continue
        begin, count, refused = time.process_time(), 0, 0
        for name, solve in cases():
            count += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    answer = solve()
            except (ImportError, ValueError, TypeError, np.linalg.LinAlgError) as error:
                # A refusal is an answer, too: it must stay one.
                answer, refused = {"refused": True}, refused + 1
                print(f"  {group}|{name}: {type(error).__name__}: {error}"[:160])
            for key, value in answer.items():
                found[f"{group}|{name}|{key}"] = np.asarray(value, dtype=np.float64)
        seconds = time.process_time() - begin
        print(f"{group}: {count} cases, {refused} refused, {seconds:.1f} s", flush=True)
    return found


def difference(before: np.ndarray, after: np.ndarray, unit: float | None) -> float:
    """Largest difference in units of the largest entry; inf where shapes differ."""
    if before.shape != after.shape or np.any(np.isnan(before) != np.isnan(after)):
        return np.inf
    known = np.isfinite(before)
    if np.any(before[~known & ~np.isnan(before)] != after[~known & ~np.isnan(after)]):
        return np.inf
    if not known.any():
        return 0.0
    with np.errstate(invalid="ignore"):
        gap = np.max(np.abs(before[known] - after[known]))
    largest = np.max(np.abs(before[known])) if unit is None else unit
    return float(gap / largest) if largest > 0 else float(gap)


def compare(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> int:
    """Print cases that differ, and a summary by group; the number of such cases."""
    worst: dict[str, tuple[float, str]] = {}
    steps = 0
    for key in sorted(before.keys() | after.keys()):
        case, name = key.rsplit("|", 1)
        if key not in before or key not in after:
            now = np.inf
            name += " (new)" if key in after else " (gone)"
        else:
            base = before.get(f"{case}|objective")
            unit = None
            if name == "gap" and base is not None and base.size:
                unit = float(np.max(np.abs(base)))
            now = difference(before[key], after[key], unit)
        if name.startswith(INFORMATIVE):
            steps += now > 0
            continue
        worst[case] = max(worst.get(case, (0.0, "")), (now, name))
    groups: dict[str, list[float]] = defaultdict(list)
    for case, (gap, name) in worst.items():
        groups[case.split("|")[0]].append(gap)
        if gap > AGREE:
            print(f"{case.replace('|', ': ', 1)}: {name} differs by {gap:.2g}")
    print(f"\n{'group':12} {'cases':>5} {'agree':>5} {'same bits':>9} {'largest':>8}")
    for group, gaps in groups.items():
        same = sum(gap <= AGREE for gap in gaps)
        bits = sum(gap == 0 for gap in gaps)
        print(f"{group:12} {len(gaps):5} {same:5} {bits:9} {max(gaps):8.1e}")
    print(f"n_iter differs in {steps} of {len(worst)} cases (no answer by itself)")
    return sum(gap > AGREE for gap, _ in worst.values())


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", choices=GROUPS, help="one group alone")
    given = parser.parse_args()
    after = run(given.only)
    if given.action == "record":
        np.savez_compressed(given.file, **after)
        print(f"wrote {given.file}: {len(after)} arrays")
        return 0
    with np.load(given.file) as stored:
        names = stored.files
        if given.only:
            names = [name for name in names if name.startswith(f"{given.only}|")]
        before = {name: stored[name] for name in names}
    return 1 if compare(before, after) else 0


if __name__ == "__main__":
    sys.exit(main())
