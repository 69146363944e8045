"""Which structure is wanted: norms of P with value, prox and dual norm."""

from priormtl.penalties.base import Penalty, RowSeparable, is_by_rows
from priormtl.penalties.l21 import L21
from priormtl.penalties.nuclear import Factors, Nuclear

__all__ = ["L21", "Factors", "Nuclear", "Penalty", "RowSeparable", "is_by_rows"]
