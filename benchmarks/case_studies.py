"""The numbers of docs/guide/case-studies.md: radon, boys, schools and a robot's arm.

``python -m benchmarks.case_studies`` reads the tables radon and oxboys, with their
fixed folds, and the data sets School and Sarcos from the folder PRIORMTL_DATA. It
prints what the page shows, and draws docs/static/schools.svg.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import NEARBY
from benchmarks.workloads.tables import FOLDS, read_table
from priormtl import (
    FeaturePrior,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    plotting,
    tabular_model,
)
from priormtl.datasets import load_sarcos, load_school

MIXED: dict[str, Any] = {
    "lam": 0.0,
    "task_prior": "mean",
    "fit_intercept": "tied",
    "ties": "adaptive",
    "unseen_tasks": "shared",
    "standardize": True,
}


def main() -> None:
    """Print all case studies."""
    warnings.simplefilter("ignore")
    folder = Path(os.environ.get("PRIORMTL_DATA", NEARBY)) / "tables"
    radon = read_table(folder / "radon.csv.gz").rename(columns={"task": "county"})
    boys = read_table(folder / "oxboys.csv.gz").rename(columns={"task": "subject"})
    common = FeaturePrior.common(["basement", "uranium"])
    rises = FeaturePrior.nonnegative(["age"])
    print("Radon: held-out error, four fifths and one fifth of the rows to fit")
    compare(
        radon,
        {
            "default": lambda: tabular_model("regressor", task="county"),
            "common effects": lambda: tabular_model(
                "regressor", task="county", feature_prior=common
            ),
            "mixed model": lambda: MultiTaskRegressor(
                task="county", feature_prior=common, **MIXED
            ),
        },
    )
    X, y = radon.drop(columns=["fold", "y"]), radon["y"]
    model = MultiTaskRegressor(task="county", feature_prior=common, **MIXED).fit(X, y)
    summary = model.summary(level=0.95)
    for one in summary.features:
        print(f"  {one.name}: {one.mean:.2f} ({one.lower:.2f} to {one.upper:.2f})")
    spread = f"{model.intercept_sd_:.3f} between counties, {model.noise_sd_:.3f} within"
    print(f"  standard deviations: {spread}")
    print(f"  counties above: {[one.task for one in summary.tasks if one.lower > 0]}")
    print(f"  counties below: {[one.task for one in summary.tasks if one.upper < 0]}")

    print("Boys: held-out error, four fifths and one fifth of the rows to fit")
    compare(
        boys,
        {
            "default": lambda: tabular_model("regressor", task="subject"),
            "never shrink": lambda: tabular_model(
                "regressor", task="subject", feature_prior=rises
            ),
            "never shrink, curves": lambda: tabular_model(
                "regressor", task="subject", feature_prior=rises, smooth=["age"]
            ),
            "straight lines": lambda: MultiTaskRegressor(task="subject", **MIXED),
        },
    )
    X, y = boys.drop(columns=["fold", "y"]), boys["y"]
    train = (boys["fold"] != 0).to_numpy()
    curves = tabular_model("regressor", task="subject").fit(X[train], y[train])
    low_end, high_end = curves.predict_interval(X[~train], coverage=0.9).T
    inside = (y[~train] >= low_end) & (y[~train] <= high_end)
    width = np.mean(high_end - low_end)
    print(f"  intervals: {inside.mean():.2f} inside, {width:.1f} cm wide on average")
    study_schools()
    study_robot()


def study_schools() -> None:
    """Print what schools explain before and after pupils are taken into account."""
    data = load_school()
    pupils = pd.DataFrame(data.X, columns=list(data.feature_names))
    none = pd.DataFrame({"none": np.zeros(len(pupils))})
    print("Schools")
    for title, X in (("nothing known", none), ("pupils and schools known", pupils)):
        common = FeaturePrior.common(list(X))
        model = MultiTaskRegressor(
            task="school", feature_prior=common, intercept_strength="adaptive", **MIXED
        ).fit(X.assign(school=data.task), data.y)
        between, within = model.intercept_sd_, model.noise_sd_
        share = between**2 / (between**2 + within**2)
        spread = f"{between:.2f} between schools, {within:.2f} within"
        print(f"  {title}: {spread}, intraclass correlation {share:.3f}")
    tasks = model.summary(level=0.95).tasks
    above = sum(one.lower > 0 for one in tasks)
    below = sum(one.upper < 0 for one in tasks)
    print(f"  {above} of {len(tasks)} schools above the average, {below} below")
    figure = plotting.plot_effect(model, "school").figure
    static = Path(__file__).parents[1] / "docs" / "static"
    figure.savefig(static / "schools.svg", metadata={"Date": None})


def study_robot() -> None:
    """Print errors of torques for rows at random, and for the last fifth in time."""
    data = load_sarcos()
    n, deviation = len(data.X), data.y.std(axis=0)
    mixed = np.random.default_rng(0).permutation(n)
    print("Robot's arm: held-out error in deviations of each torque, mean of seven")
    for title, order in (("rows at random", mixed), ("last fifth", np.arange(n))):
        train, test = order[: 4 * n // 5], order[4 * n // 5 :]
        model = MultiTaskRegressorCV().fit(data.X[train], data.y[train] / deviation)
        y = data.y[test] / deviation
        error = np.sqrt(np.mean((y - model.predict(data.X[test])) ** 2, axis=0)).mean()
        ends = model.predict_interval(data.X[test], coverage=0.9)
        inside = np.mean((y >= ends[..., 0]) & (y <= ends[..., 1]))
        print(f"  {title}: {error:.3f}, 90 % intervals cover {inside:.2f}")


def compare(frame: Any, models: dict[str, Any]) -> None:
    """Print the root mean squared error of all held-out rows for both protocols."""
    X, y = frame.drop(columns=["fold", "y"]), frame["y"].to_numpy()
    for name, build in models.items():
        errors = []
        for few in (False, True):
            missed = []
            for k in range(FOLDS):
                train = ((frame["fold"] == k) == few).to_numpy()
                model = build().fit(X[train], y[train])
                missed.append(y[~train] - model.predict(X[~train]))
            errors.append(float(np.sqrt(np.mean(np.concatenate(missed) ** 2))))
        print(f"  {name}: {errors[0]:.4f}, {errors[1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
