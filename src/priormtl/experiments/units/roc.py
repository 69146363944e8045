"""RocUnit: ROC curves of all tasks of one data set."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.metrics import roc_curve

from priormtl._arrays import Array
from priormtl.datasets import Rows, TaskSet
from priormtl.experiments.methods import METHODS, fit_method
from priormtl.experiments.rows import ROC
from priormtl.experiments.units.scores import ScoreUnit, prepare
from priormtl.metrics import auc

__all__ = ["RocUnit"]

POINTS = 101  # of the common grid of false positive rates


@dataclass(frozen=True)
class RocUnit:
    """A panel of the paper's second figure."""

    dataset: str
    method: str = "natural"
    repeat: int = 0
    quick: bool = False

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.dataset}, ROC curves of {self.method}"

    @property
    def family(self) -> tuple[str, ...]:
        """Units that take about the same time."""
        return self._scores.family

    @property
    def _scores(self) -> ScoreUnit:
        return ScoreUnit(self.dataset, self.method, self.repeat, quick=self.quick)

    def settings(self) -> dict[str, Any]:
        """Everything the rows depend on."""
        return self._scores.settings() | {"kind": "roc", "points": POINTS}

    def compute(self) -> pa.Table:
        """Tune, fit, and follow each task's curve."""
        data, split, training = prepare(self._scores)
        fitted = fit_method(METHODS[self.method], training, split)
        areas = auc(split.test.y, fitted.scores, task=split.test.task, average=None)
        tables = [
            self._curve(name, area, *curve)
            for name, area, curve in zip(
                data.task_names,
                np.asarray(areas),
                _curves(data, split.test, fitted.scores),
                strict=True,
            )
        ]
        return pa.concat_tables(tables)

    def _curve(self, task: str, area: float, fpr: Array, tpr: Array) -> pa.Table:
        common = {
            "dataset": self.dataset,
            "method": self.method,
            "repeat": self.repeat,
            "task": task,
            "auc": area,
        }
        points = zip(fpr, tpr, strict=True)
        rows = [{**common, "fpr": x, "tpr": y} for x, y in points]
        return pa.Table.from_pylist(rows, schema=ROC)


def _curves(data: TaskSet, test: Rows, scores: Array) -> Iterator[tuple[Array, Array]]:
    """False and true positive rates of each task, on a common grid."""
    grid = np.linspace(0.0, 1.0, POINTS)
    for i, name in enumerate(data.task_names):
        if test.task is None:
            y, s = test.y[:, i], scores[:, i]
        else:
            y, s = test.y[test.task == name], scores[test.task == name]
        fpr, tpr, _ = roc_curve(y, s)
        yield grid, np.interp(grid, fpr, tpr)
