"""SurfaceUnit: the metric over (lam, theta, epsilon), each from 1 to 100."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from priormtl._arrays import Array
from priormtl.datasets import Rows, TaskSet
from priormtl.estimators import regularization_path
from priormtl.experiments.protocol import (
    Split,
    find_protocol,
    load_rows,
    make_split,
    score_tasks,
)
from priormtl.experiments.rows import SURFACES
from priormtl.priors import FeaturePrior

__all__ = ["SurfaceUnit"]

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
FEW_STRENGTHS = (1.0, 10.0, 100.0)
TOL = 1e-4
SHOWN = ("auc", "ve_pooled", "nmse_pooled")


@dataclass(frozen=True)
class SurfaceUnit:
    """A row of the paper's third figure: natural prior, chain of tasks, no tuning."""

    dataset: str
    repeat: int = 0
    quick: bool = False

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.dataset}, surface over strengths, repeat {self.repeat}"

    @property
    def family(self) -> tuple[str, ...]:
        """Units that take about the same time."""
        return ("surface", self.dataset)

    @property
    def _strengths(self) -> tuple[float, ...]:
        return FEW_STRENGTHS if self.quick else STRENGTHS

    def settings(self) -> dict[str, Any]:
        """Everything the rows depend on."""
        return {
            "kind": "surfaces",
            "repeat": self.repeat,
            "strengths": self._strengths,
            "gap": TOL,
            **find_protocol(self.dataset, quick=self.quick).settings(),
        }

    def compute(self) -> pa.Table:
        """Fit all combinations of strengths and judge them."""
        protocol = find_protocol(self.dataset, quick=self.quick)
        data = load_rows(self.dataset)
        split = make_split(protocol, data, self.repeat)
        rows = []
        for theta, epsilon in product(self._strengths, repeat=2):
            for lam, scores in _path(split, self._strengths, theta, epsilon):
                names = {"lam": lam, "theta": theta, "epsilon": epsilon}
                rows += [
                    {"dataset": self.dataset, "repeat": self.repeat, **names, **value}
                    for value in _values(data, split.test, scores * split.unit)
                ]
        return pa.Table.from_pylist(rows, schema=SURFACES)


def _path(
    split: Split, lams: tuple[float, ...], theta: float, epsilon: float
) -> Iterator[tuple[float, Array]]:
    """Scores of the test rows for each lam."""
    X, y, task = split.train
    path = regularization_path(
        X,
        y,
        task=task,
        lams=lams,
        theta=theta,
        epsilon=epsilon,
        feature_prior=FeaturePrior.from_correlation(strongest=X.shape[1]),
        tol=TOL,
    )
    for lam, coef, intercept in zip(
        path.lams, path.coefs, path.intercepts, strict=True
    ):
        yield float(lam), _predict(split.test, path.tasks, coef, intercept)


def _predict(test: Rows, tasks: np.ndarray, coef: Array, intercept: Array) -> Array:
    if test.task is None:
        return test.X @ coef.T + intercept
    scores = np.empty(len(test.y))
    for name, p, constant in zip(tasks, coef, intercept, strict=True):
        rows = test.task == name
        scores[rows] = test.X[rows] @ p + constant
    return scores


def _values(data: TaskSet, test: Rows, scores: Array) -> list[dict[str, Any]]:
    return [
        {"metric": score.metric, "value": score.value}
        for score in score_tasks(data, test, scores)
        if score.task is None and score.metric in SHOWN
    ]
