"""The numbers of docs/guide/case-studies.md: radon by county, heights of boys.

``python -m benchmarks.case_studies`` reads the tables radon and oxboys from the folder
``tables`` of PRIORMTL_DATA, with their fixed folds, and prints what the page shows.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import NEARBY
from benchmarks.workloads.tables import FOLDS, read_table
from priormtl import FeaturePrior, MultiTaskRegressor, tabular_model

MIXED: dict[str, Any] = {
    "lam": 0.0,
    "task_prior": "mean",
    "fit_intercept": "tied",
    "ties": "adaptive",
    "unseen_tasks": "shared",
    "standardize": True,
}


def main() -> None:
    """Print both case studies."""
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
