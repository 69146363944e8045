"""Penalties: functions of P with value, proximal operator and dual norm."""

from priormtl.penalties.base import Penalty, Power, RowSeparable
from priormtl.penalties.decompositions import Columns, Dirty, Robust, halve
from priormtl.penalties.kernels import LowRankKernels, SharedKernels
from priormtl.penalties.l21 import L21, RowConstraints
from priormtl.penalties.nuclear import (
    Factors,
    Nuclear,
    Schatten,
    SquaredNuclear,
    TaskKernel,
)
