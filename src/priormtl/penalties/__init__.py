"""Penalties: functions of P with value, proximal operator and dual norm."""

from priormtl.penalties.base import Penalty, Power, RowSeparable
from priormtl.penalties.dirty import Dirty
from priormtl.penalties.l21 import L21, RowConstraints
from priormtl.penalties.nuclear import (
    Factors,
    Nuclear,
    Schatten,
    SquaredNuclear,
    TaskKernel,
)
from priormtl.penalties.robust import Columns, Robust, halve
