"""ScoreUnit: one method, tuned and fitted on one split, judged on its test rows."""

import json
from dataclasses import dataclass
from time import process_time
from typing import Any

import pyarrow as pa

import priormtl
from priormtl.datasets import TaskSet
from priormtl.experiments.methods import METHODS, Training, fit_method
from priormtl.experiments.protocol import (
    Split,
    find_protocol,
    load_rows,
    make_split,
    score_tasks,
)
from priormtl.experiments.rows import SCORES

__all__ = ["ScoreUnit", "prepare"]


@dataclass(frozen=True)
class ScoreUnit:
    """A cell of a table, or a point of a curve."""

    dataset: str
    method: str
    repeat: int
    size: int | None = None  # None: the paper's split
    wrong: float | None = None  # None: relations are as they are
    quick: bool = False

    @property
    def label(self) -> str:
        """What people call it."""
        size = "" if self.size is None else f", size {self.size}"
        wrong = "" if self.wrong is None else f", {self.wrong:.0%} wrong"
        return f"{self.dataset}, {self.method}{size}{wrong}, repeat {self.repeat}"

    @property
    def family(self) -> tuple[str, ...]:
        """Units that take about the same time."""
        return (self.dataset, self.method, str(self.size))

    def settings(self) -> dict[str, Any]:
        """Everything the rows depend on."""
        return {
            "kind": "scores",
            "method": self.method,
            "method_version": METHODS[self.method].version,
            "repeat": self.repeat,
            "size": self.size,
            "wrong": self.wrong,
            **find_protocol(self.dataset, quick=self.quick).settings(),
        }

    def compute(self) -> pa.Table:
        """Tune, fit and judge."""
        data, split, training = prepare(self)
        begin = process_time()
        fitted = fit_method(METHODS[self.method], training, split)
        seconds = process_time() - begin
        common = {
            "dataset": self.dataset,
            "method": self.method,
            "size": self.size,
            "wrong": self.wrong,
            "repeat": self.repeat,
            "seconds": seconds,
            "strengths": json.dumps(fitted.strengths, sort_keys=True),
            "version": priormtl.__version__,
        }
        scores = score_tasks(data, split.test, fitted.scores)
        rows = [{**common, **score._asdict()} for score in scores]
        return pa.Table.from_pylist(rows, schema=SCORES)


def prepare(unit: ScoreUnit) -> tuple[TaskSet, Split, Training]:
    """Data, split and what the method may look at."""
    protocol = find_protocol(unit.dataset, quick=unit.quick)
    data = load_rows(unit.dataset)
    split = make_split(protocol, data, unit.repeat, unit.size)
    training = Training(
        data,
        split.train,
        split.folds,
        protocol.budget,
        protocol.tol,
        unit.repeat,
        unit.wrong or 0.0,
    )
    return data, split, training
