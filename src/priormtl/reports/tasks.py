"""The tasks: how each is fitted, and how far it lies from the others."""

import numpy as np

from priormtl._arrays import Array
from priormtl.reports.content import Column, Table
from priormtl.reports.fits import Fits
from priormtl.reports.learned import Learned, row_norms

__all__ = ["task_table"]


def task_table(learned: Learned, fits: Fits | None) -> Table:
    """One row per task, in the model's order."""
    columns = [
        Column("task", "Task", learned.tasks),
        Column("intercept", "Intercept", _intercepts(learned)),
        Column("norm", "Norm", row_norms(learned.coef)),
        Column("distance", "Distance", learned.distances),
    ]
    if fits is not None:
        columns += [
            Column("rows", "Rows", fits.rows),
            Column("score", fits.metric, fits.scores),
        ]
    if fits is not None and fits.seconds is not None:
        columns.append(Column("second", fits.second, fits.seconds))
    own = getattr(learned.model, "own_coef_", None)
    if own is not None:
        columns.append(Column("own", "Own part", row_norms(np.asarray(own, float))))
    note = "Distance is that of a task's coefficients from the median task's."
    if fits is not None:
        note += f" Scores are those on {fits.where}."
    return Table("tasks", "Tasks", tuple(columns), note)


def _intercepts(learned: Learned) -> Array:
    value = getattr(learned.model, "intercept_", 0.0)
    shape = (len(learned.tasks),)
    return np.broadcast_to(np.asarray(value, dtype=np.float64), shape).copy()
