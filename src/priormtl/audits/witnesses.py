"""Witnesses: the rows that may speak about what tasks share."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.audits.evidence import Evidence, gather_evidence
from priormtl.audits.statements import TiedTasks
from priormtl.audits.subjects import Subject
from priormtl.data import TaskData, TaskStatistics
from priormtl.problem import Problem
from priormtl.solvers import Solution

__all__ = ["Witnesses", "call_witnesses"]

# Weight that is left to rows of outlier tasks: none at all would leave no means.
FAINT = 1e-9


@dataclass(frozen=True, eq=False)
class Witnesses:
    """The problem without own parts, in which outlier tasks have no say.

    Rows of an outlier tell its own part and the shared one only together: nothing
    is known of the second but what ties say of it.
    """

    problem: Problem
    outliers: Index  # places of tasks that are not heard
    feature_scale: Array  # (d,) standard deviations as the problem sees features
    n_rows: float  # weight of those who are heard
    n_intercepts: int  # their free intercepts, which use up rows

    def testify(self, problem: Problem, coef: Array, features: Index) -> Evidence:
        """Coefficients without prior and penalty, for this problem or one like it."""
        return gather_evidence(
            problem,
            coef,
            features,
            self.feature_scale,
            n_rows=self.n_rows,
            n_intercepts=self.n_intercepts,
        )

    def know(self, tie: TiedTasks) -> bool:
        """Whether neither side of a tie is an outlier, or one of a few in a group."""
        sizes = np.abs(tie.contrast)
        leading = tie.tasks[sizes > 0.5 * sizes.max()]
        return not np.isin(leading, self.outliers).any()


def call_witnesses(subject: Subject, without: Solution) -> Witnesses:
    """Hear all tasks but those with own parts in a fit without the prior."""
    own = without.point.total - without.coef
    outliers = np.flatnonzero(own.any(axis=0))
    heard = np.setdiff1d(np.arange(own.shape[1]), outliers)
    setup, plain = subject.setup, subject.plain
    problem = setup.problem
    if len(outliers):
        muted = mute_tasks(subject.data, outliers)
        problem = replace(problem, fit=plain._bind(muted, setup), memo={})
    return Witnesses(
        problem,
        outliers,
        subject.feature_scale,
        float(setup.moments.weight[heard].sum()),
        len(heard) if plain.fit_intercept is True else 0,
    )


def mute_tasks(data: Any, tasks: Index) -> TaskData | TaskStatistics:
    """Same data, with rows of these tasks as good as gone."""
    factor = np.ones(data.shape[1])
    factor[tasks] = FAINT
    if isinstance(data, TaskData):
        return replace(data, weight=data.weight * data.spread(factor))
    return replace(
        data,
        weight=data.weight * factor,
        xx=data.gram() * factor[:, np.newaxis, np.newaxis],
        xy=data.xy * factor[:, np.newaxis],
        yy=data.yy * factor,
    )
