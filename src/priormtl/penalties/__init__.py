"""Which structure is wanted: functions of P with value, prox and dual."""

from priormtl.penalties.base import (
    Penalty,
    Power,
    RowSeparable,
    is_by_rows,
    is_power,
)
from priormtl.penalties.l21 import L21
from priormtl.penalties.nuclear import Factors, Nuclear
from priormtl.penalties.schatten import Schatten
from priormtl.penalties.squared_nuclear import SquaredNuclear
from priormtl.penalties.task_kernel import TaskKernel

__all__ = [
    "L21",
    "Factors",
    "Nuclear",
    "Penalty",
    "Power",
    "RowSeparable",
    "Schatten",
    "SquaredNuclear",
    "TaskKernel",
    "is_by_rows",
    "is_power",
]
