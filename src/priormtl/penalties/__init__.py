"""Which structure is wanted: functions of P with value, prox and dual."""

from priormtl.penalties.base import (
    Penalty,
    Power,
    RowSeparable,
    is_by_rows,
    is_power,
)
from priormtl.penalties.columns import Columns
from priormtl.penalties.dirty import Dirty, Split, project_on_l1_ball, prox_of_largest
from priormtl.penalties.l21 import L21
from priormtl.penalties.nuclear import Factors, Nuclear
from priormtl.penalties.robust import Robust, halve
from priormtl.penalties.schatten import Schatten
from priormtl.penalties.squared_nuclear import SquaredNuclear
from priormtl.penalties.task_kernel import TaskKernel

__all__ = [
    "L21",
    "Columns",
    "Dirty",
    "Factors",
    "Nuclear",
    "Penalty",
    "Power",
    "Robust",
    "RowSeparable",
    "Schatten",
    "Split",
    "SquaredNuclear",
    "TaskKernel",
    "halve",
    "is_by_rows",
    "is_power",
    "project_on_l1_ball",
    "prox_of_largest",
]
