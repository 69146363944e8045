"""Which structure is wanted: norms of P with value, prox and dual norm."""

from priormtl.penalties.base import Penalty, RowSeparable, is_by_rows
from priormtl.penalties.columns import Columns
from priormtl.penalties.dirty import Dirty, Split, project_on_l1_ball, prox_of_largest
from priormtl.penalties.l21 import L21
from priormtl.penalties.nuclear import Factors, Nuclear
from priormtl.penalties.robust import Robust, halve

__all__ = [
    "L21",
    "Columns",
    "Dirty",
    "Factors",
    "Nuclear",
    "Penalty",
    "Robust",
    "RowSeparable",
    "Split",
    "halve",
    "is_by_rows",
    "project_on_l1_ball",
    "prox_of_largest",
]
